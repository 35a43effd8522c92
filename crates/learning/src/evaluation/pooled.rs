//! Predictions of several devices, whose requests count as those of one.

use schemars::JsonSchema;
use seeklab_analysis::{Prediction, ResponseProfile, prediction};
use seeklab_core::statistics::Distribution;
use seeklab_core::{Operation, Seed};
use serde::Serialize;

use super::operations::error_pct;

/// Prediction of the response times of several devices together.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct PooledPrediction {
    /// The operation; null for all operations together.
    pub operation: Option<Operation>,
    /// Requests predicted.
    pub requests: u64,
    /// Mean response time that was measured.
    pub measured_mean_ms: f64,
    /// Mean response time that was predicted.
    pub predicted_mean_ms: f64,
    /// Error of the predicted mean; negative if it is too short.
    pub mean_error_pct: f64,
    /// Demerits between the two.
    #[serde(flatten)]
    pub prediction: Prediction,
}

impl PooledPrediction {
    /// Pools measured and predicted times of each device: all operations together, then each operation.
    pub fn each(devices: &[(&ResponseProfile, &ResponseProfile)], seed: Seed) -> Vec<Self> {
        let pooled = |times: &dyn Fn(&ResponseProfile) -> Distribution| {
            let (mut measured, mut predicted) = (Distribution::default(), Distribution::default());
            for (of_measured, of_predicted) in devices {
                measured.merge(&times(of_measured));
                predicted.merge(&times(of_predicted));
            }
            (measured, predicted)
        };
        let all = (None, pooled(&ResponseProfile::response));
        let each = Operation::ALL.map(|op| (Some(op), pooled(&|profile| profile.of(op).clone())));
        let of = |(operation, (measured, predicted)): (Option<Operation>, (Distribution, Distribution))| {
            let measured_mean_ms = measured.moments().mean()? / 1e6;
            let predicted_mean_ms = predicted.moments().mean()? / 1e6;
            Some(Self {
                operation,
                requests: measured.moments().count(),
                measured_mean_ms,
                predicted_mean_ms,
                mean_error_pct: error_pct(measured_mean_ms, predicted_mean_ms),
                prediction: prediction(&measured, &predicted, seed)?,
            })
        };
        std::iter::once(all).chain(each).filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Duration;

    use super::*;

    fn profile(times_ms: &[(Operation, u64)]) -> ResponseProfile {
        let mut profile = ResponseProfile::new(Duration::from_ms(100));
        times_ms.iter().for_each(|(op, ms)| profile.record(*op, 0, Duration::from_ms(*ms)));
        profile
    }

    #[test]
    fn requests_of_all_devices_count_alike() {
        use Operation::{Read, Write};
        // One device three times as busy as the other, whose prediction is twice as long.
        let measured = [profile(&[(Read, 10), (Read, 10), (Write, 4)]), profile(&[(Read, 40)])];
        let predicted = [profile(&[(Read, 10), (Read, 10), (Write, 4)]), profile(&[(Read, 80)])];
        let pooled =
            PooledPrediction::each(&[(&measured[0], &predicted[0]), (&measured[1], &predicted[1])], Seed(1));
        let found: Vec<_> =
            pooled.iter().map(|of| (of.operation, of.requests, of.measured_mean_ms)).collect();
        assert_eq!(found, [(None, 4, 16.0), (Some(Read), 3, 20.0), (Some(Write), 1, 4.0)]);
        assert_eq!(pooled[0].mean_error_pct, 62.5);
        assert_eq!(
            pooled[1].prediction.demerit_all.ea_rms_pct.map(|pct| pct > 100.0),
            Some(true),
            "{pooled:?}"
        );
        assert_eq!(pooled[2].mean_error_pct, 0.0);
    }
}
