//! `seeklab fit`: a device cloned from its trace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use seeklab::failure::Failure;
use seeklab::fit::{Evaluation, FitOptions, FitReport, Fitted, Times, fit, sentence};
use seeklab::output::{VERSION, check_place, command_line, print, print_json, write_file};
use seeklab_core::{Ratio, Seed};
use seeklab_devices::table::Classes;
use serde_json::{Value, json};

use super::reading::Reading;

const EXAMPLES: &str = "\
Examples:
  seeklab fit prod.parquet -o prod.toml
  seeklab simulate prod.toml --workload random,poisson=200/s
  seeklab run prod.toml --builtin postmark
  seeklab fit week.srt --device 0 --split 29% -o clone.toml

The saved device is fitted to the whole trace; before that, one that is fitted to the first part predicts the rest.";

/// Fits a device to a trace with response times, and says how well it predicts what it did not see.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A trace with response times
    trace: PathBuf,
    /// Where to write the description of the device
    #[arg(long, short = 'o', value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// Which device of the trace; its only one unless said
    #[arg(long, value_name = "N")]
    device: Option<u16>,
    /// Share of the time that is fitted before the rest is predicted
    #[arg(long, value_name = "SHARE", default_value = "50%")]
    split: Ratio,
    /// Classes of request lengths for each doubling: 1, 2 or 4
    #[arg(long, value_name = "N", default_value_t = Classes::default().lengths_per_octave)]
    length_classes: u32,
    /// Classes of queue lengths for each doubling: 1, 2 or 4
    #[arg(long, value_name = "N", default_value_t = Classes::default().queues_per_octave)]
    queue_classes: u32,
    /// Classes of seek distances for each doubling: 1, 2 or 4
    #[arg(long, value_name = "N", default_value_t = Classes::default().distances_per_octave)]
    distance_classes: u32,
    /// Root of the draws of the prediction
    #[arg(long, value_name = "N", default_value = "1")]
    seed: Seed,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn run(self) -> Result<(), Failure> {
        check_place(&self.output)?;
        let options = FitOptions {
            device: self.device,
            split: self.split,
            classes: Classes {
                lengths_per_octave: self.length_classes,
                queues_per_octave: self.queue_classes,
                distances_per_octave: self.distance_classes,
            },
            seed: self.seed,
        };
        let about = BTreeMap::from([
            ("trace".to_owned(), file_name(&self.trace)),
            ("model".to_owned(), "plain tables".to_owned()),
            ("seed".to_owned(), self.seed.to_string()),
            ("version".to_owned(), VERSION.to_owned()),
        ]);
        let Fitted { parameters, report } = fit(&|| self.reading.open(&self.trace), &options, about)?;
        let mut table = toml::Table::new();
        table.insert("kind".to_owned(), "table".into());
        table.insert("title".to_owned(), format!("clone of {}", file_name(&self.trace)).into());
        let validated = report.evaluation.as_ref().map_or_else(
            || "not measured: there was nothing to predict".to_owned(),
            |evaluation| sentence(evaluation, self.split),
        );
        table.insert("validated".to_owned(), validated.into());
        let parameters = toml::Table::try_from(&parameters)
            .map_err(|error| Failure::chain(&error).context("the device cannot be written"))?;
        table.extend(parameters);
        write_file(&self.output, table.to_string().as_bytes())?;
        if self.json { print_json(&document(&self, &report)) } else { print(&page(&self, &report)) }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn document(arguments: &Arguments, report: &FitReport) -> Value {
    json!({
        "version": VERSION,
        "command": command_line(),
        "seed": arguments.seed.0,
        "trace": arguments.trace,
        "output": arguments.output,
        "split": arguments.split.to_string(),
        "fit": report,
    })
}

fn page(arguments: &Arguments, report: &FitReport) -> String {
    let mut text = format!(
        "{}: device {}, {} requests with response times over {:.1} s, {} cells\n",
        arguments.trace.display(),
        report.device,
        report.requests,
        report.span_s,
        report.cells
    );
    for (count, what) in [
        (report.without_response, "requests have no response time and were left out"),
        (report.failed, "requests failed and were left out"),
        (report.recorders_own, "requests were the recorder's own and were left out"),
    ] {
        if count > 0 {
            text += &format!("note: {count} {what}\n");
        }
    }
    match &report.evaluation {
        Some(evaluation) => text += &evaluated(arguments, evaluation),
        None => text += "nothing was left to predict: choose another --split\n",
    }
    text + &format!("\nwritten   {} (fitted to all of it)\n", arguments.output.display())
}

fn evaluated(arguments: &Arguments, evaluation: &Evaluation) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["response time ms", "mean", "p50", "p99", "p99.9", "max"]);
    for (name, times) in [("measured", &evaluation.measured), ("predicted", &evaluation.model)] {
        let Times { mean_ms, p50_ms, p99_ms, p999_ms, max_ms } = times;
        let figures = [mean_ms, p50_ms, p99_ms, p999_ms, max_ms].map(|ms| format!("{ms:.3}"));
        table.add_row([name.to_owned()].into_iter().chain(figures));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let prediction = &evaluation.prediction;
    let line = |name: &str,
                demerit: &seeklab_analysis::comparison::Demerit,
                floor: &seeklab_analysis::comparison::Demerit| {
        let pct = |pct: Option<f64>| pct.map_or_else(String::new, |pct| format!(" ({pct:.2} %)"));
        format!(
            "{name} {:.4} ms{}, of which chance alone makes {:.4} ms{}\n",
            demerit.ea_rms_ms,
            pct(demerit.ea_rms_pct),
            floor.ea_rms_ms,
            pct(floor.ea_rms_pct)
        )
    };
    let mut text = format!(
        "\nfitted to {} requests in the first {:.0} % of the time, it predicts the {} others:\n\n{table}\n\n",
        evaluation.fitted,
        100.0 * arguments.split.as_f64(),
        evaluation.predicted
    );
    text += &line("demerit, all   ", &prediction.all, &prediction.floor_all);
    text += &line("demerit, to p99", &prediction.to_p99, &prediction.floor_to_p99);
    text + &format!(
        "{:.2} % of the requests were of classes that it had not seen, and were answered as the nearest\n",
        evaluation.borrowed_pct
    )
}
