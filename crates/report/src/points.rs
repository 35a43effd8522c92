//! Texts about measurement points that terminal and page share.

use seeklab_analysis::{LatenessSummary, MissCounts, Point};

use crate::document::PointsSection;
use crate::number::{count, fixed};

/// The figures of lateness with their values.
pub(crate) fn lateness_row(lateness: &LatenessSummary) -> Vec<(String, String)> {
    let us = |value: f64| format!("{} us", fixed(value, 1));
    vec![
        ("p50".to_owned(), us(lateness.p50_us)),
        ("p90".to_owned(), us(lateness.p90_us)),
        ("p99".to_owned(), us(lateness.p99_us)),
        ("max".to_owned(), us(lateness.max_us)),
        ("mean of the lowest 99 %".to_owned(), us(lateness.mean_lowest_99pct_us)),
        (
            format!("beyond {:.0} us", lateness.deadline_limit_us),
            format!("{} %", fixed(lateness.beyond_limit_pct, 2)),
        ),
        ("early".to_owned(), count(lateness.early)),
    ]
}

/// Describes the number of missed deadlines and their causes.
pub(crate) fn misses(misses: &MissCounts, requests: u64, limit_us: f64) -> String {
    let causes: Vec<String> = misses
        .ordered()
        .into_iter()
        .map(|(cause, times)| format!("{} {}", cause.name().replace('_', " "), count(times)))
        .collect();
    let causes = if causes.is_empty() { String::new() } else { format!(": {}", causes.join(", ")) };
    let total = count(misses.total());
    format!("{total} of {} (by more than {limit_us:.0} us){causes}", count(requests))
}

/// Describes the requests of the trace that the comparison counts. `None` if it counts all of them
/// individually.
pub(crate) fn matching(section: &PointsSection) -> Option<String> {
    let mut parts = Vec::new();
    if section.summary.groups > 0 {
        parts.push(format!(
            "the host split or merged {} into {}, each compared as one",
            count(section.summary.grouped_requests),
            count(section.summary.groups)
        ));
    }
    if let Some(unmatched) = section.unmatched.filter(|unmatched| *unmatched > 0) {
        parts.push(format!("{} without stamps of the host (MP1)", count(unmatched)));
    }
    if section.driver_flushes > 0 {
        parts
            .push(format!("{} of the loop driver's own, without such stamps", count(section.driver_flushes)));
    }
    let counted_apart = if section.summary.point == Point::Mp1.name() {
        section.unmatched.unwrap_or(0) + section.driver_flushes
    } else {
        0
    };
    let left_out = section.summary.left_out - counted_apart;
    if left_out > 0 {
        parts.push(format!("{} omitted, without stamps at both points", count(left_out)));
    }
    (!parts.is_empty()).then(|| format!("{} in the trace; {}", count(section.requests), parts.join("; ")))
}
