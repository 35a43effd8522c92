//! `seeklab fit --as jobs`: the printed tables.

use seeklab_lab::crates::core::number_words::counted;
use seeklab_lab::crates::report::{TextTable, folded};
use seeklab_lab::failure::Failure;
use seeklab_lab::fit::{JobsFitFiles, JobsFitResult, RateDistances, RateFigures, fit_jobs};
use seeklab_lab::session::Session;

use crate::delivery::Delivery;
use crate::output::{print, print_json};

/// Fits a stream of jobs to a system-level trace.
pub(super) fn run(session: &Session, files: &JobsFitFiles, json: bool) -> Result<(), Failure> {
    let result = fit_jobs(session, files)?;
    let printed = if json { print_json(&result) } else { print(&page(&result)) };
    Delivery::of(session, printed).file(Some(&result.output), || result.description.clone()).finish()
}

fn page(result: &JobsFitResult) -> String {
    let mut text = format!(
        "{}: {}, at most {} at once; {:.3} s of processor time, {:.3} s in the stream\n\n",
        result.trace.display(),
        counted(result.jobs, "job"),
        result.multiprogramming,
        result.processor_s,
        result.stream_processor_s
    );
    let mut table =
        TextTable::new(["", "rate /s", "share %", "residence", "transfers", "sectors"]).with_texts(1);
    for (name, rates) in [("input", &result.input_rates), ("output", &result.output_rates)] {
        let RateFigures { transfers, sectors, rate_per_s, states } = rates;
        let mean = rate_per_s.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
        table.push([
            name.to_owned(),
            mean,
            String::new(),
            String::new(),
            transfers.to_string(),
            format!("{sectors:.0}"),
        ]);
        for state in states {
            table.push([
                String::new(),
                format!("{:.1}", state.rate_per_s),
                format!("{:.2}", state.share_pct),
                format!("{:.1}", state.residence_sectors),
                String::new(),
                String::new(),
            ]);
        }
    }
    text += &table.render();
    if !result.compared.is_empty() {
        let mut table =
            TextTable::new(["distance of rates", "input", "output", "read requests", "write requests"])
                .with_texts(1);
        let number = |distance: Option<f64>| {
            distance.map_or_else(|| "-".to_owned(), |distance| format!("{distance:.3}"))
        };
        let row = |name: String, distances: &RateDistances| {
            let RateDistances {
                input_distance,
                output_distance,
                read_request_distance,
                write_request_distance,
            } = *distances;
            let [input, output, reads, writes] =
                [input_distance, output_distance, read_request_distance, write_request_distance].map(number);
            [name, input, output, reads, writes]
        };
        for compared in &result.compared {
            table.push(row(compared.trace.display().to_string(), &compared.recorded));
            if let Some(speed) = compared.speed {
                table.push(row(format!("  at equal speed ({speed:.3})"), &compared.at_equal_speed));
            }
        }
        text += &format!("\n{}", table.render());
    }
    for note in &result.notes {
        text += &format!("\n{}", folded(&format!("note: {note}"), 2));
    }
    text + &format!("\n\nwritten   {}\n", result.output.display())
}
