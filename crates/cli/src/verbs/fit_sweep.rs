//! `seeklab fit` of a benchmark's results: the printed tables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use seeklab_lab::crates::core::{ByteSize, Seed};
use seeklab_lab::crates::devices::description::SCHEMA;
use seeklab_lab::crates::report::{TextTable, folded};
use seeklab_lab::failure::Failure;
use seeklab_lab::fit::fio::is_fio;
use seeklab_lab::fit::sweep::{FittedSweep, Medians, SweepReport, fit_sweep, sentence};
use seeklab_lab::output::VERSION;
use seeklab_lab::session::Session;
use serde_json::json;

use crate::delivery::Delivery;
use crate::output::{command_line, print, print_json};

/// Fits a device to fio's results if the first file holds them, and returns true. Otherwise returns false.
pub(super) fn run(
    session: &Session,
    first: &Path,
    more: &[PathBuf],
    output: &Path,
    seed: Seed,
    json: bool,
) -> Result<bool, Failure> {
    if !is_fio(first)? {
        return match more.first() {
            None => Ok(false),
            Some(more) => Err(Failure::new(format!(
                "{}: a second file, but a model is fitted to one trace",
                more.display()
            ))
            .hint("only results of fio (`--output-format=json`) may lie in several files")),
        };
    }
    let files: Vec<PathBuf> = std::iter::once(first.to_owned()).chain(more.iter().cloned()).collect();
    let names: Vec<String> = files
        .iter()
        .map(|file| file.file_name().unwrap_or_default().to_string_lossy().into_owned())
        .collect();
    let names = names.join(", ");
    let about = BTreeMap::from([
        ("sweep".to_owned(), names.clone()),
        ("seed".to_owned(), seed.to_string()),
        ("version".to_owned(), VERSION.to_owned()),
    ]);
    let FittedSweep { description, report } = fit_sweep(session, &files, seed, about)?;
    let mut table = description;
    table.insert("schema".to_owned(), SCHEMA.into());
    table.insert("title".to_owned(), format!("clone by {names}").into());
    table.insert("validated".to_owned(), sentence(&report.in_sample, &report.left_out).into());
    let printed = if json {
        print_json(&json!({
            "version": VERSION,
            "command": command_line(),
            "seed": seed.0,
            "files": files,
            "output": output,
            "sweep": report,
        }))
    } else {
        print(&page(&names, &report, output))
    };
    Delivery::of(printed).file(Some(output), || table.to_string()).finish()?;
    Ok(true)
}

fn page(names: &str, report: &SweepReport, output: &Path) -> String {
    let mut table = TextTable::new([
        "job",
        "op",
        "bytes",
        "order",
        "depth",
        "outstanding",
        "IOPS",
        "mean us",
        "p99 us",
        "in sample: IOPS %",
        "mean %",
        "p99 %",
        "from the others: IOPS %",
        "mean %",
        "p99 %",
        "",
    ])
    .with_texts(4);
    for point in &report.points {
        let pct = |pct: Option<f64>| pct.map_or_else(|| "-".to_owned(), |pct| format!("{pct:+.1}"));
        let left_out = point.left_out.map(|left_out| left_out.errors);
        let errors = |errors: Option<seeklab_lab::fit::sweep::Errors>| {
            [errors.map(|of| of.iops_pct), errors.map(|of| of.mean_pct), errors.map(|of| of.p99_pct)].map(pct)
        };
        let mut row = vec![
            point.job.clone(),
            point.op.name().to_owned(),
            ByteSize::from_bytes(point.bytes).to_string(),
            if point.is_sequential { "sequential" } else { "random" }.to_owned(),
            point.depth.to_string(),
            format!("{:.2}{}", point.outstanding, if point.fits { "" } else { " !" }),
            format!("{:.0}", point.iops),
            format!("{:.1}", point.mean_us),
            format!("{:.1}", point.p99_us),
        ];
        row.extend(errors(point.in_sample));
        row.extend(errors(left_out));
        row.push(if point.left_out.is_some_and(|of| of.is_beyond) { "beyond" } else { "" }.to_owned());
        table.push(row);
    }
    let mut text =
        format!("{names}: {} points, {} cells\n\n{}\n", report.points.len(), report.cells, table.render());
    if report.points.iter().any(|point| !point.fits) {
        text += "\n! By Little's law, these jobs did not keep their depth: something other than the\n\
                 device limited them, or other jobs ran. Their queue length is the mean number\n\
                 outstanding. Medians omit them.\n";
    }
    for note in &report.notes {
        text += &format!("{}\n", folded(&format!("note: {note}"), 2));
    }
    let mut medians =
        TextTable::new(["median absolute error", "points", "IOPS %", "mean %", "p99 %", "largest of IOPS %"]);
    for (name, of) in [
        ("in sample", &report.in_sample),
        ("from the others", &report.left_out),
        ("… that lay around it", &report.left_out_between),
    ] {
        let Medians { points, iops_pct, mean_pct, p99_pct, iops_max_pct } = of;
        let pct = |pct: &Option<f64>| pct.map_or_else(|| "-".to_owned(), |pct| format!("{pct:.2}"));
        let figures = [iops_pct, mean_pct, p99_pct, iops_max_pct].map(pct);
        medians.push([name.to_owned(), points.to_string()].into_iter().chain(figures));
    }
    text + &format!("\n{}\n\nwritten   {}\n", medians.render(), output.display())
}
