//! The errors of one trace against another.

use super::{shortened, table};
use crate::document::ComparisonSection;
use crate::number::{column, count};
use crate::text::folded;
use seeklab_core::number_words::in_number;

/// Characters of the name of a trace at most.
const NAME_WIDTH: usize = 40;

pub(super) fn render(section: &ComparisonSection) -> String {
    let summary = &section.summary;
    let absolute = column(&[
        Some(summary.reference_mean_ms),
        Some(summary.other_mean_ms),
        Some(summary.ei_avg_ms),
        Some(summary.ei_rms_ms),
        Some(summary.ea_rms_ms),
    ]);
    let relative = [None, None, summary.ei_avg_pct, summary.ei_rms_pct, summary.ea_rms_pct];
    let names = [
        format!("mean of {}", shortened(&section.reference, NAME_WIDTH)),
        format!("mean of {}", shortened(&section.other, NAME_WIDTH)),
        "EI_avg, mean error per request".to_owned(),
        "EI_rms, rms error per request".to_owned(),
        "EA_rms, distance of the distributions (demerit)".to_owned(),
    ];
    let rows: Vec<Vec<String>> = names
        .into_iter()
        .zip(absolute)
        .zip(relative)
        .map(|((name, absolute), relative)| {
            vec![name, absolute, relative.map_or_else(String::new, |relative| format!("{relative:.2}"))]
        })
        .collect();
    let header = ["response time".to_owned(), "ms".to_owned(), "% of reference".to_owned()];
    let heading = format!(
        "{} against {} (reference), {} {}",
        shortened(&section.other, NAME_WIDTH),
        shortened(&section.reference, NAME_WIDTH),
        count(summary.requests),
        in_number(summary.requests, "request[|s]"),
    );
    format!(
        "{}\n{}\n{:.2} % of the requests are within 5 % of the reference{}",
        folded(&heading, 2),
        table(&header, &rows, 1),
        summary.within_5pct_pct,
        section.failed_requests().map_or_else(String::new, |text| format!("\n{}", folded(&text, 2))),
    )
}
