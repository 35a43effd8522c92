//! `seeklab bench compare`: changes between two sets of repeated measurements.

use std::path::PathBuf;

use clap::Args;
use seeklab_lab::bench::{ChangeThreshold, RunComparisonOptions, RunComparisonResult, compare_runs};
use seeklab_lab::crates::core::Seed;
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;

use crate::delivery::Delivery;
use crate::output::{print, print_json};

/// Arguments of a comparison.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Runs before: a folder with results, or one document
    before: PathBuf,
    /// Runs after
    after: PathBuf,
    /// Fail if the change of a figure exceeds this, such as 'response_p99_ms +5%' or 'requests_per_second -3%'
    #[arg(long = "fail-if", value_name = "FIGURE CHANGE")]
    thresholds: Vec<ChangeThreshold>,
    /// Seed of the bootstrap
    #[arg(long, value_name = "N", default_value = "1")]
    seed: Seed,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(super) fn run(self, session: &Session) -> Result<(), Failure> {
        let Self { before, after, thresholds, seed, json } = self;
        let options = RunComparisonOptions { before, after, thresholds, seed };
        let RunComparisonResult { figures, page, failure } = compare_runs(session, &options)?;
        let printed = if json { print_json(&figures) } else { print(&super::text(&page)) };
        Delivery::of(session, printed).and(failure.map_or(Ok(()), Err)).finish()
    }
}
