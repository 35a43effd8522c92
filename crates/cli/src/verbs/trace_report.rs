//! `seeklab trace report`: writes the usual plots of a trace.

use std::path::PathBuf;

use clap::Args;
use seeklab_lab::crates::report::render_trace_html;
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;
use seeklab_lab::trace::report::{ReportOptions, report};

use super::reading::{Reading, input_path};
use crate::delivery::Delivery;
use crate::output::{print, print_json};

const EXAMPLES: &str = "\
Examples:
  seeklab trace report prod.parquet --report prod.html
  seeklab trace report proj_0.csv.gz --from msr --device 0 --json";

/// Plots the properties of a trace, in one pass and bounded memory.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReportArguments {
    /// Trace to read. `-` is standard input
    #[arg(value_parser = input_path())]
    file: PathBuf,
    /// Write the plots as one HTML page
    #[arg(long, value_name = "FILE.html", required_unless_present = "json")]
    report: Option<PathBuf>,
    /// Report only the requests of this device of the trace [default: all devices]
    #[arg(long, value_name = "N")]
    device: Option<u16>,
    #[command(flatten)]
    reading: Reading,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl ReportArguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        let reading = self.reading.options();
        let options = ReportOptions { file: self.file, report: self.report, device: self.device, reading };
        let result = report(session, &options)?;
        let path = options.report.as_deref();
        let printed = if self.json {
            print_json(&result.figures)
        } else {
            print(&format!("{}: {}\n", path.unwrap_or(&options.file).display(), result.page.subtitle))
        };
        Delivery::of(session, printed).file(path, || render_trace_html(&result.page)).finish()
    }
}
