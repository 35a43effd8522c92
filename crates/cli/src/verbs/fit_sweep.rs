//! `seeklab fit` of a benchmark's results: the printed tables.

use seeklab_lab::crates::core::number_words::counted;
use seeklab_lab::crates::core::{ByteSize, Seed};
use seeklab_lab::crates::report::{TextTable, folded};
use seeklab_lab::failure::Failure;
use seeklab_lab::fit::sweep::{Errors, Medians};
use seeklab_lab::fit::{SweepFiles, SweepResult, fit_results, input_name};
use seeklab_lab::session::Session;

use crate::delivery::Delivery;
use crate::output::{print, print_json};

/// Fits a device to fio's results.
pub(super) fn run(session: &Session, files: &SweepFiles, seed: Seed, json: bool) -> Result<(), Failure> {
    let result = fit_results(session, files, seed)?;
    let printed = if json { print_json(&result) } else { print(&page(&result)) };
    Delivery::of(session, printed).file(Some(&result.output), || result.description.to_string()).finish()
}

fn page(result: &SweepResult) -> String {
    let report = &result.sweep;
    let names = result.files.iter().map(|file| input_name(file)).collect::<Vec<_>>().join(", ");
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
        let errors = |errors: Option<Errors>| {
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
    let mut text = format!(
        "{names}: {}, {}\n\n{}\n",
        counted(report.points.len(), "point"),
        counted(report.cells, "cell"),
        table.render()
    );
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
    text + &format!("\n{}\n\nwritten   {}\n", medians.render(), result.output.display())
}
