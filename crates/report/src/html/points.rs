//! Exactness of an emulated run: the parts beside the plots of its comparison.

use minijinja::{Value, context};
use seeklab_analysis::TrustLevel;

use crate::document::PointsSection;
use crate::number::{count, fixed};
use crate::points::{lateness_row, matching, misses};

pub(super) fn context(section: &PointsSection) -> Value {
    let errors: Vec<Value> = section
        .summary
        .errors
        .iter()
        .map(|errors| {
            let spreads = [errors.arrival, errors.completion].map(|spread| [spread.p50_us, spread.p99_us]);
            let values: Vec<String> = spreads.as_flattened().iter().map(|us| fixed(*us, 1)).collect();
            context! { op => errors.op, requests => count(errors.requests), values }
        })
        .collect();
    let lateness = section.lateness.map(|lateness| {
        let figures = lateness_row(&lateness).into_iter().map(|(name, value)| context! { name, value });
        context! {
            figures => figures.collect::<Vec<_>>(),
            misses => misses(&section.misses, section.requests, lateness.deadline_limit_us),
        }
    });
    context! {
        trust => section.trust.sentence.as_str(),
        kind => if section.trust.level == TrustLevel::Trusted { "note" } else { "warning" },
        point => section.summary.point,
        reference => section.summary.reference,
        errors,
        lateness,
        matching => matching(section),
    }
}
