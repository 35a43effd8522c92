//! `seeklab compare`: compares two traces of the same requests, or two measurement points of one trace.

use std::path::PathBuf;

use clap::Args;
use seeklab_lab::compare::{CompareOptions, OtherSide, compare};
use seeklab_lab::crates::analysis::Point;
use seeklab_lab::crates::report::{render_html, render_terminal};
use seeklab_lab::crates::traces::Setting;
use seeklab_lab::failure::Failure;
use seeklab_lab::points::parse_pair;
use seeklab_lab::session::Session;
use seeklab_lab::trace::TraceOptions;

use super::reading::input_path;
use crate::delivery::Delivery;
use crate::output::{print, print_json};

const EXAMPLES: &str = "\
Examples:
  seeklab compare measured.csv simulated.parquet
  seeklab compare disk.trace model.csv --reference-format disksim-validate --report diff.html
  seeklab compare a.parquet b.parquet --json
  seeklab compare emulated.parquet --between mp1,mp3 --report accuracy.html";

/// Compares response times: errors per request (EI), between the distributions (EA, the demerit), and plots
/// of both.
///
/// Response times are held in memory: about 100 bytes per request, 200 with --between.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Reference trace: measured, or of another model. With --between, the only trace. `-` is standard input
    #[arg(value_parser = input_path())]
    reference: PathBuf,
    /// Trace of the same requests to compare with the reference. Omit with --between
    #[arg(value_parser = input_path())]
    other: Option<PathBuf>,
    /// Compare two measurement points of one trace of an emulated device: mp1 (host), mp2 (emulator), due
    /// (deadline of the reply at mp2), mp3 (model). The point nearer to the model is the reference
    #[arg(long, value_name = "POINT,POINT", value_parser = parse_pair)]
    between: Option<(Point, Point)>,
    /// Format of the reference [default: guessed]
    #[arg(long, value_name = "FORMAT")]
    reference_format: Option<String>,
    /// Format of the other trace [default: guessed]
    #[arg(long, value_name = "FORMAT", requires = "other")]
    other_format: Option<String>,
    /// Set an option of the format of the reference. `seeklab trace formats` lists the options
    #[arg(long, value_name = "NAME=VALUE")]
    reference_format_option: Vec<Setting>,
    /// Set an option of the format of the other trace
    #[arg(long, value_name = "NAME=VALUE", requires = "other")]
    other_format_option: Vec<Setting>,
    /// Write a report with plots
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        let json = self.json;
        let options = self.options()?;
        let result = compare(session, &options)?;
        let printed =
            if json { print_json(&result.figures) } else { print(&render_terminal(&result.report)) };
        Delivery::of(session, printed)
            .file(options.report.as_deref(), || render_html(&result.report))
            .finish()
    }

    fn options(self) -> Result<CompareOptions, Failure> {
        let other = match (self.between, self.other) {
            (None, Some(path)) => {
                let (format, settings) = (self.other_format, self.other_format_option);
                OtherSide::Trace {
                    path,
                    reading: TraceOptions { format, settings, ..TraceOptions::default() },
                }
            }
            (Some((one, other)), None) => OtherSide::Between(one, other),
            (Some(_), Some(other)) => {
                return Err(Failure::new(format!(
                    "--between compares measurement points of one trace, but `{}` is a second one",
                    other.display()
                ))
                .hint("leave out one of the traces, or --between"));
            }
            (None, None) => {
                return Err(Failure::new(format!("`{}` is compared with nothing", self.reference.display()))
                    .hint("name a second trace, or two measurement points of this one: --between mp1,mp3"));
            }
        };
        let (format, settings) = (self.reference_format, self.reference_format_option);
        let reference_reading = TraceOptions { format, settings, ..TraceOptions::default() };
        Ok(CompareOptions { reference: self.reference, reference_reading, other, report: self.report })
    }
}
