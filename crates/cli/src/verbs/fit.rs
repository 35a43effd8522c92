//! `seeklab fit`: a device cloned from its trace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use seeklab::failure::Failure;
use seeklab::fit::{Evaluation, FitOptions, FitReport, Fitted, Times, fit, sentence};
use seeklab::output::{VERSION, check_place, command_line, print, print_json, write_file};
use seeklab_analysis::comparison::Demerit;
use seeklab_core::{Ratio, Seed};
use seeklab_devices::fit::{MODELS, Model, find};
use seeklab_devices::table::Classes;
use serde_json::{Value, json};

use super::reading::Reading;

const EXAMPLES: &str = "\
Examples:
  seeklab fit prod.parquet -o prod.toml
  seeklab simulate prod.toml --workload random,poisson=200/s
  seeklab run prod.toml --builtin postmark
  seeklab fit week.srt --device 0 --split 29% -o clone.toml
  seeklab fit depths.json sizes.json -o clone.toml         results of fio, where there is no trace

The saved device is fitted to the whole trace; before that, one that is fitted to the first part predicts the rest.";

/// Fits a device to a trace with response times, and says how well it predicts what it did not see.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// A trace with response times, or results of fio as JSON
    trace: PathBuf,
    /// Further results of fio
    more: Vec<PathBuf>,
    /// Where to write the description of the device
    #[arg(long, short = 'o', value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    reading: Reading,
    /// The model; further ones are fitted and compared beside it, the first is saved
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "plain", value_parser = model)]
    model: Vec<&'static Model>,
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
        if super::fit_sweep::run(&self.trace, &self.more, &self.output, self.seed, self.json)? {
            return Ok(());
        }
        let options = FitOptions {
            models: self.model.clone(),
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
            ("model".to_owned(), self.model[0].name.to_owned()),
            ("seed".to_owned(), self.seed.to_string()),
            ("version".to_owned(), VERSION.to_owned()),
        ]);
        let Fitted { description, report } = fit(&|| self.reading.open(&self.trace), &options, about)?;
        let mut table = description;
        table.insert("title".to_owned(), format!("clone of {}", file_name(&self.trace)).into());
        let validated = report.evaluations.first().map_or_else(
            || "not measured: there was nothing to predict".to_owned(),
            |evaluation| sentence(evaluation, self.split),
        );
        table.insert("validated".to_owned(), validated.into());
        write_file(&self.output, table.to_string().as_bytes())?;
        if self.json { print_json(&document(&self, &report)) } else { print(&page(&self, &report)) }
    }
}

/// The model of that name.
fn model(name: &str) -> Result<&'static Model, String> {
    let names = || MODELS.iter().map(|model| model.name).collect::<Vec<_>>().join(", ");
    find(name).ok_or_else(|| format!("there is no such model; there are {}", names()))
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
    if report.evaluations.is_empty() {
        text += "nothing was left to predict: choose another --split\n";
    } else {
        text += &evaluated(arguments, &report.evaluations);
    }
    text + &format!("\nwritten   {} (fitted to all of it)\n", arguments.output.display())
}

fn evaluated(arguments: &Arguments, evaluations: &[Evaluation]) -> String {
    let first = &evaluations[0];
    let mut times = Table::new();
    times.load_style(presets::NOTHING);
    times.set_header(["response time ms", "mean", "p50", "p99", "p99.9", "max"]);
    let said = evaluations.iter().map(|evaluation| (evaluation.model, &evaluation.said));
    for (name, figures) in [("measured", &first.measured)].into_iter().chain(said) {
        let Times { mean_ms, p50_ms, p99_ms, p999_ms, max_ms } = figures;
        let figures = [mean_ms, p50_ms, p99_ms, p999_ms, max_ms].map(|ms| format!("{ms:.3}"));
        times.add_row([name.to_owned()].into_iter().chain(figures));
    }
    let mut demerits = Table::new();
    demerits.load_style(presets::NOTHING);
    demerits.set_header(["demerit", "all ms", "%", "to p99 ms", "%", "unlike what was seen %"]);
    let row = |name: &str, all: &Demerit, to_p99: &Demerit, outside: String| {
        let pct = |pct: Option<f64>| pct.map_or_else(|| "-".to_owned(), |pct| format!("{pct:.2}"));
        let ms = |demerit: &Demerit| format!("{:.4}", demerit.ea_rms_ms);
        [name.to_owned(), ms(all), pct(all.ea_rms_pct), ms(to_p99), pct(to_p99.ea_rms_pct), outside]
    };
    for Evaluation { model, prediction, outside_pct, .. } in evaluations {
        demerits.add_row(row(model, &prediction.all, &prediction.to_p99, format!("{outside_pct:.2}")));
    }
    let floor = &first.prediction;
    demerits.add_row(row("floor: chance alone", &floor.floor_all, &floor.floor_to_p99, String::new()));
    for table in [&mut times, &mut demerits] {
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!(
        "\nfitted to {} requests in the first {:.0} % of the time, the {} others predicted:\n\n{times}\n\n{demerits}\n",
        first.fitted,
        100.0 * arguments.split.as_f64(),
        first.predicted,
    )
}
