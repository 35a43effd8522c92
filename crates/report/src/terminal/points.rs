//! Exactness of an emulated run, between two measurement points.

use super::{comparison, table, wrapped};
use crate::document::PointsSection;
use crate::number::{count, fixed};
use crate::points::{lateness_row, matching, misses};

pub(super) fn render(section: &PointsSection) -> String {
    let mut blocks = vec![comparison::render(&section.comparison), errors(section)];
    let mut lines = Vec::new();
    if let Some(lateness) = &section.lateness {
        let (names, values): (Vec<_>, Vec<_>) = lateness_row(lateness).into_iter().unzip();
        let header = [vec!["lateness".to_owned()], names].concat();
        let row = [vec!["at MP2".to_owned()], values].concat();
        blocks.push(table(&header, &[row], 1));
        let misses = misses(&section.misses, section.requests, lateness.deadline_limit_us);
        lines.push(wrapped("deadlines missed", &misses));
    }
    lines.extend(matching(section).map(|text| wrapped("requests", &text)));
    blocks.push(lines.join("\n"));
    blocks.push(wrapped("trust", &section.trust.sentence));
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n\n")
}

/// Errors on the way in and on the way out, apart.
fn errors(section: &PointsSection) -> String {
    let header = ["error [us]", "requests", "arrival p50", "p99", "completion p50", "p99"].map(str::to_owned);
    let rows: Vec<Vec<String>> = section
        .summary
        .errors
        .iter()
        .map(|errors| {
            let spread = [errors.arrival, errors.completion].map(|spread| [spread.p50_us, spread.p99_us]);
            let values = spread.as_flattened().iter().map(|us| fixed(*us, 1));
            [errors.op.to_owned(), count(errors.requests)].into_iter().chain(values).collect()
        })
        .collect();
    table(&header, &rows, 1)
}
