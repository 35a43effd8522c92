//! A split trace of requests that all take the same time.

use std::collections::BTreeMap;

use seeklab_core::ByteSize;
use seeklab_devices::table::Classes;

use super::*;
use crate::fit;

const RESPONSE: Duration = Duration::from_ms(2);

/// A hundred reads, one every ten milliseconds.
fn records() -> Vec<TraceRecord> {
    let record = |number: u64| {
        let arrival = Instant::ZERO + Duration::from_ms(10 * number);
        TraceRecord {
            completion: Some(arrival + RESPONSE),
            ..TraceRecord::new(arrival, Operation::Read, 1000 * (number * 37 % 101), 8)
        }
    };
    (0..100).map(record).collect()
}

#[test]
fn prediction_begins_once_with_the_first_request_from_the_boundary_on() {
    let models = vec![fit::find("plain").unwrap()];
    let mut fits: Vec<Box<dyn Fit>> =
        models.iter().map(|model| (model.begin)(Classes::default()).unwrap()).collect();
    let about =
        DeviceInfo { block_size: ByteSize::from_bytes(512), capacity_blocks: 200_000, fit: BTreeMap::new() };
    let records = records();
    let boundary = records[60].arrival;
    let mut evaluating = Evaluating::from(boundary, PredictedPart::Rest, 0, Seed(1), true);
    for (part, begins) in [(0..50, false), (50..60, false), (60..61, true), (61..80, false), (80..100, false)]
    {
        assert_eq!(evaluating.begins_with(&records[part.clone()]), begins, "{part:?}");
        evaluating.take(&records[part], &about, &models, &mut fits).unwrap();
    }
    assert!(!evaluating.begins_with(&[]));
    assert!(
        Evaluating::from(boundary, PredictedPart::Rest, 0, Seed(1), true).begins_with(&records[50..70]),
        "the boundary lies within"
    );
    let evaluated = evaluating.finish().unwrap();
    let evaluation = &evaluated.evaluations[0];
    assert_eq!((evaluation.fitted_requests, evaluation.predicted_requests), (60, 40));
    assert_eq!(evaluation.measured.mean_ms, 2.0);
    assert!((evaluation.predicted.mean_ms - 2.0).abs() < 0.02, "{evaluation:?}");
}
