//! `seeklab bench verify`: checks a target against the state of an earlier run.

use std::path::PathBuf;

use clap::Args;
use seeklab_lab::bench::{StateCheckOptions, StateCheckResult, check_state};
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;

use crate::delivery::Delivery;
use crate::output::{print, print_json};

/// Arguments of a check.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// State file of the run
    state: PathBuf,
    /// Target, if its address is another one than in the run
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// Require every acknowledged write, not only the writes before the last completed flush
    #[arg(long)]
    acknowledged: bool,
    /// Go through the page cache of this machine [default: pass it by (O_DIRECT)]
    #[arg(long)]
    buffered: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(super) fn run(self, session: &Session) -> Result<(), Failure> {
        let Self { state, target, acknowledged, buffered, json } = self;
        let options = StateCheckOptions { state, target, acknowledged, buffered };
        let StateCheckResult { figures, page, failure } = check_state(session, &options)?;
        let printed = if json { print_json(&figures) } else { print(&super::text(&page)) };
        Delivery::of(session, printed).and(failure.map_or(Ok(()), Err)).finish()
    }
}
