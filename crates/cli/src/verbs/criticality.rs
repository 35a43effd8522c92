//! Option for the classes of requests, shared by all verbs that make a block device.

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use seeklab_lab::crates::traces::capture::criticality::ClassRule;

/// Reads the name of a rule.
pub(crate) fn rule() -> impl TypedValueParser<Value = ClassRule> {
    PossibleValuesParser::new(ClassRule::ALL.map(ClassRule::name)).map(|name| {
        let found = ClassRule::ALL.into_iter().find(|rule| rule.name() == name);
        found.expect("no other value is possible")
    })
}
