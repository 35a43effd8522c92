//! Options for the frontends that clients connect to, shared by all verbs that serve a device.

use std::num::NonZeroUsize;
use std::sync::Arc;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches, ValueHint};
use seeklab_lab::crates::emulator::frontend::loop_device::QueueOptions;
use seeklab_lab::crates::emulator::frontend::{ClientLimits, Opening, PROTOCOLS, Protocol, ProtocolValue};
use seeklab_lab::emulate::{DEFAULT_PROTOCOL, FrontendOptions};

/// Options for the frontends: one option for each protocol, and the common ones.
#[derive(Debug)]
pub(crate) struct FrontendFlags {
    openings: Vec<Arc<dyn Opening>>,
    common: CommonFlags,
}

/// Options that belong to no protocol.
#[derive(Debug, Args)]
struct CommonFlags {
    /// Limit of NBD connections at a time [default: 64]
    #[arg(long, value_name = "N")]
    connections: Option<NonZeroUsize>,
    /// Serve it as a block device of the kernel, /dev/loopN. Needs root and FUSE
    #[arg(long)]
    block: bool,
}

impl FrontendFlags {
    /// Returns the frontends that were given. A block device gets the queue options `queue`.
    pub(crate) fn options(&self, queue: QueueOptions) -> FrontendOptions {
        FrontendOptions {
            openings: self.openings.clone(),
            block: self.common.block.then_some(queue),
            criticality: None,
            limits: ClientLimits { connection_count_max: self.common.connections },
        }
    }

    /// Returns true if the device is to be a block device.
    pub(crate) const fn has_block(&self) -> bool {
        self.common.block
    }

    /// Returns the names of the options that choose a protocol.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        PROTOCOLS.iter().map(|protocol| protocol.name)
    }
}

impl FromArgMatches for FrontendFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let opening = |name| matches.get_one::<Arc<dyn Opening>>(name).cloned();
        let common = CommonFlags::from_arg_matches(matches)?;
        Ok(Self { openings: Self::names().filter_map(opening).collect(), common })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for FrontendFlags {
    fn augment_args(command: Command) -> Command {
        let others = || PROTOCOLS.iter().filter(|protocol| protocol.name != DEFAULT_PROTOCOL.name);
        let given =
            others().fold("--block".to_owned(), |given, other| format!("{given} or --{}", other.name));
        let help = format!(
            "{} [default: a socket in the temporary folder, unless {given} is given]",
            DEFAULT_PROTOCOL.help
        );
        let command = CommonFlags::augment_args(command.arg(option(DEFAULT_PROTOCOL).help(help)));
        others().fold(command, |command, other| command.arg(option(other)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Returns the option that chooses a protocol.
fn option(protocol: &Protocol) -> Arg {
    let option =
        Arg::new(protocol.name).long(protocol.name).value_name(protocol.value_name).help(protocol.help);
    match protocol.value {
        ProtocolValue::Text(read) => option.value_parser(read),
        ProtocolValue::Path(read) => {
            option.value_hint(ValueHint::AnyPath).value_parser(PathBufValueParser::new().map(read))
        }
    }
}
