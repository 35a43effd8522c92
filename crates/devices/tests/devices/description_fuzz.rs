//! Tests that wrong descriptions build, or report the problem and the file, and never panic.

use proptest::prelude::*;
use seeklab_core::Seed;
use seeklab_devices::{Description, catalog};

/// Values that replace a value of a catalog file.
const VALUES: &[&str] = &[
    "0",
    "-1",
    "1",
    "4294967295",
    "9223372036854775807",
    "1e300",
    "nan",
    "-inf",
    "true",
    "\"\"",
    "\"0ms\"",
    "\"-3ms\"",
    "\"1e99s\"",
    "\"5\"",
    "\"7200rpm\"",
    "\"0rpm\"",
    "\"64KiB\"",
    "\"16EiB\"",
    "\"101%\"",
    "\"1/0\"",
    "\"sptf\"",
    "[]",
    "[[1, \"1ms\"]]",
    "{}",
    "{ kind = \"queue\" }",
    "1979-05-27",
];

#[derive(Debug, Clone)]
enum Change {
    Delete,
    Duplicate,
    Swap,
    Value(usize),
    Digit(u8),
    Cut,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        Just(Change::Delete),
        Just(Change::Duplicate),
        Just(Change::Swap),
        (0..VALUES.len()).prop_map(Change::Value),
        (0..10_u8).prop_map(Change::Digit),
        Just(Change::Cut),
    ]
}

/// The text with one line changed.
fn apply(text: &str, change: &Change, at: usize) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if lines.is_empty() {
        return String::new();
    }
    let at = at % lines.len();
    match change {
        Change::Delete => drop(lines.remove(at)),
        Change::Duplicate => lines.insert(at, lines[at].clone()),
        Change::Swap => {
            let other = (at * 7 + 3) % lines.len();
            lines.swap(at, other);
        }
        Change::Value(value) => {
            if let Some((key, _)) = lines[at].split_once(" = ") {
                lines[at] = format!("{key} = {}", VALUES[*value]);
            }
        }
        Change::Digit(digit) => {
            let digit = char::from(b'0' + digit);
            lines[at] = lines[at].replacen(|c: char| c.is_ascii_digit(), &digit.to_string().repeat(3), 1);
        }
        Change::Cut => lines[at] = lines[at].chars().take(lines[at].len() / 2).collect(),
    }
    lines.join("\n")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_description_builds_or_reports_the_problem(
        device in any::<prop::sample::Index>(),
        changes in prop::collection::vec((change(), any::<usize>()), 1..4),
    ) {
        let names: Vec<&str> = catalog::names().collect();
        let mut text = catalog::find(names[device.index(names.len())]).unwrap().to_toml();
        for (change, at) in &changes {
            text = apply(&text, change, *at);
        }
        let built = Description::parse("changed", "changed.toml", &text)
            .and_then(|description| description.build(Seed(1), "disk0"));
        match built {
            Ok(device) => prop_assert!(device.capabilities().capacity_blocks > 0),
            Err(error) => {
                let message = error.to_string();
                prop_assert!(message.starts_with("changed.toml"), "{message}");
                prop_assert!(message.lines().count() == 1, "{message}");
            }
        }
    }
}
