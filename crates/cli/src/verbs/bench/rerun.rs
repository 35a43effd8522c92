//! `seeklab bench rerun`: the run of a folder once more.

use std::path::PathBuf;

use clap::Args;
use seeklab_lab::bench::{BenchOptions, RunComparisonOptions, bench, compare_runs, rerun};
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;

use super::{JsonFormat, deliver};
use crate::output::print;

/// Arguments of a rerun.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Folder of the first run
    run: PathBuf,
    /// Folder of this run [default: a new one beside the first]
    #[arg(long, short = 'o', value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Replace the run that the folder holds
    #[arg(long, requires = "folder")]
    fresh: bool,
    /// Let the workload overwrite what the target holds: its name, typed again. Once for each target of a plan
    #[arg(long, value_name = "TARGET")]
    destroy: Vec<String>,
    /// Print a line of figures to stderr at the end of every interval
    #[arg(long)]
    live: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(super) fn run(self, session: &Session) -> Result<(), Failure> {
        let Self { run, folder, fresh, destroy, live, json } = self;
        if let (Some(folder), Ok(first)) = (&folder, run.canonicalize())
            && folder.canonicalize().is_ok_and(|folder| folder == first)
        {
            return Err(Failure::new("--folder: is the folder of the first run").hint("name another folder"));
        }
        let options = BenchOptions { destroy, live, fresh, ..rerun(&run, folder.as_deref())? };
        let after = options.folder.clone().unwrap_or_default();
        let result = bench(session, &options)?;
        let delivered = deliver(session, &options, result, json.then_some(JsonFormat::Seeklab));
        session.remark(format!("the run is in {}", after.display()));
        if json {
            return delivered;
        }
        let comparison =
            RunComparisonOptions { before: run, after, thresholds: Vec::new(), seed: options.seed };
        // A first run without figures cannot be compared with.
        let compared = match compare_runs(session, &comparison) {
            Ok(result) => print(&format!("\n{}", super::text(&result.page))),
            Err(failure) => {
                session.remark(format!("note: not compared with the first run: {failure}"));
                Ok(())
            }
        };
        delivered.and(compared)
    }
}
