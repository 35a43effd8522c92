//! Records with measurement points, for the properties of every format that has them.

use proptest::prelude::*;
use proptest::sample::select;
use seeklab_core::{Instant, MeasurementPoints, MissCause, TraceRecord};

/// Stamps outside the model: each may be missing, completions do not lie before arrivals.
pub(crate) fn any_points() -> impl Strategy<Value = MeasurementPoints> {
    let stamp = || proptest::option::of(0..1_u64 << 60);
    let length = || proptest::option::of(0..1_u64 << 40);
    let cause = proptest::option::of(select(&MissCause::ALL[..]));
    (stamp(), length(), stamp(), length(), stamp(), cause).prop_map(
        |(mp1, length1, mp2, length2, due, cause)| {
            let after = |from: Option<u64>, length: Option<u64>| {
                length.map(|length| Instant::from_ns(from.unwrap_or_default() + length))
            };
            MeasurementPoints {
                mp1_arrival: mp1.map(Instant::from_ns),
                mp1_completion: after(mp1, length1),
                mp2_arrival: mp2.map(Instant::from_ns),
                mp2_due: due.map(Instant::from_ns),
                mp2_completion: after(mp2, length2),
                miss_cause: cause,
            }
        },
    )
}

/// `records` with `points`, of which there is one for each; the first has some, so all may.
pub(crate) fn measured(records: Vec<TraceRecord>, points: &[MeasurementPoints]) -> Vec<TraceRecord> {
    let first = MeasurementPoints { mp2_due: Some(Instant::ZERO), ..points[0] };
    let points = std::iter::once(first).chain(points[1..].iter().copied());
    records.into_iter().zip(points).map(|(record, points)| TraceRecord { points, ..record }).collect()
}
