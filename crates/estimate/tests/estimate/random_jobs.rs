//! Random parameters of the equations of Lindsay and Ferrari.

use seeklab_core::Stream;
use seeklab_estimate::lindsay_ferrari::{
    Parameters, RateState, Reactivation, SystemCalls, SystemTime, Transfers,
};

/// A value between two bounds, uniform in its logarithm.
fn between(stream: &mut Stream, low: f64, high: f64) -> f64 {
    low * (high / low).powf(stream.unit())
}

/// Parameters from far below to far above saturation, with one to five rate states.
pub(crate) fn random_jobs(stream: &mut Stream) -> Parameters {
    let weights: Vec<f64> = (0..1 + stream.below(5)).map(|_| between(stream, 0.01, 1.0)).collect();
    let total: f64 = weights.iter().sum();
    let states = weights
        .into_iter()
        .map(|weight| RateState {
            rate_per_s: between(stream, 1.0, 1e5),
            share: weight / total,
            residence_sectors: between(stream, 1.0, 500.0),
        })
        .collect();
    let buffer_sectors = between(stream, 1.0, 128.0);
    // The ends of the range are special: a call at the first sector, and at the last.
    let threshold_sectors = match stream.below(4) {
        0 => buffer_sectors,
        _ => buffer_sectors * (0.02 + 0.98 * stream.unit()),
    };
    Parameters {
        access_s: between(stream, 1e-5, 1.0),
        job_processor_s: between(stream, 1.0, 1e4),
        system: SystemTime {
            base_s: if stream.chance(0.3) { 0.0 } else { between(stream, 0.01, 1e3) },
            per_call_s: if stream.chance(0.3) { 0.0 } else { between(stream, 1e-6, 0.1) },
            calls: if stream.chance(0.5) { SystemCalls::OfOneDrive } else { SystemCalls::OfAllDrives },
        },
        multiprogramming: if stream.chance(0.5) {
            (1 + stream.below(8)) as f64
        } else {
            between(stream, 1.0, 40.0)
        },
        drives: between(stream, 1.0, 8.0),
        files_per_drive: between(stream, 1.0, 40.0),
        sectors: between(stream, 100.0, 1e7),
        drive_rate_per_s: between(stream, 10.0, 1e5),
        buffer_sectors,
        threshold_sectors,
        reactivation: if stream.chance(0.5) { Reactivation::AtEnd } else { Reactivation::PerSector },
        transfers: if stream.chance(0.8) { Transfers::Chained } else { Transfers::SizedAtStart },
        states,
    }
}
