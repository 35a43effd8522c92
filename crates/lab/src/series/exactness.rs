//! Response times in the host beside those in the model, of the same requests.

use schemars::JsonSchema;
use seeklab_analysis::Between;
use serde::{Deserialize, Serialize};

/// Response times of the requests with stamps in the host (MP1) and in the model (MP3). All figures are of these
/// requests, so `ei_avg_ms` is `mp1_mean_ms` less `mp3_mean_ms`; all are `None` if there are no such requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Exactness {
    /// Requests that are compared. Requests of the emulator that stand for one of the host count as one.
    #[serde(default)]
    pub compared_requests: u64,
    /// Mean response time in the host.
    pub mp1_mean_ms: Option<f64>,
    /// Mean response time in the model.
    pub mp3_mean_ms: Option<f64>,
    /// EI_avg: mean error of individual requests between host and model.
    pub ei_avg_ms: Option<f64>,
    /// EI_avg in percent of the mean in the model.
    pub ei_avg_pct: Option<f64>,
    /// EI_rms: root mean square error of individual requests.
    pub ei_rms_ms: Option<f64>,
    /// EI_rms in percent of the mean in the model.
    pub ei_rms_pct: Option<f64>,
    /// EA_rms: root mean square distance of the distributions.
    pub ea_rms_ms: Option<f64>,
    /// EA_rms in percent of the mean in the model.
    pub ea_rms_pct: Option<f64>,
}

impl Exactness {
    /// Returns the figures of a comparison of host and model, if requests have stamps at both.
    pub(super) fn of(between: Option<&Between>) -> Self {
        let Some(between) = between else { return Self::default() };
        let summary = between.comparison().summary();
        Self {
            compared_requests: summary.requests,
            mp1_mean_ms: Some(summary.other_mean_ms),
            mp3_mean_ms: Some(summary.reference_mean_ms),
            ei_avg_ms: Some(summary.ei_avg_ms),
            ei_avg_pct: summary.ei_avg_pct,
            ei_rms_ms: Some(summary.ei_rms_ms),
            ei_rms_pct: summary.ei_rms_pct,
            ea_rms_ms: Some(summary.ea_rms_ms),
            ea_rms_pct: summary.ea_rms_pct,
        }
    }
}

#[cfg(test)]
mod tests {
    use seeklab_analysis::{Point, Stamps};
    use seeklab_core::{Duration, Instant, MeasurementPoints, Operation, TraceRecord};

    use super::*;

    /// A read that the model saw from one time to another, in us, and the host too, if it did.
    fn read(model_us: (u64, u64), host_us: Option<(u64, u64)>) -> TraceRecord {
        let us = |time: u64| Instant::ZERO + Duration::from_us(time);
        let points = MeasurementPoints {
            mp1_arrival: host_us.map(|(from, _)| us(from)),
            mp1_completion: host_us.map(|(_, to)| us(to)),
            ..MeasurementPoints::NONE
        };
        let record = TraceRecord::new(us(model_us.0), Operation::Read, 8, 8);
        TraceRecord { completion: Some(us(model_us.1)), points, ..record }
    }

    #[test]
    fn error_is_the_host_less_the_model_of_the_same_requests() {
        let rows = [
            read((10, 1_010), Some((0, 1_100))),
            read((2_000, 4_000), Some((2_000, 4_200))),
            // Only the emulator saw this one.
            read((5_000, 95_000), None),
        ];
        let stamps: Stamps = rows.iter().collect();
        let seen = Exactness::of(stamps.between(Point::Mp1, Point::Mp3).ok().as_ref());
        assert_eq!(seen.compared_requests, 2);
        let means = (seen.mp1_mean_ms, seen.mp3_mean_ms, seen.ei_avg_ms);
        assert_eq!(means, (Some(1.65), Some(1.5), Some(0.15)));
        assert_eq!(seen.ei_avg_pct, Some(10.0));
    }

    #[test]
    fn nothing_is_measured_where_the_host_saw_no_request() {
        let stamps: Stamps = [read((0, 1_000), None)].iter().collect();
        let between = stamps.between(Point::Mp1, Point::Mp3).ok();
        assert_eq!(Exactness::of(between.as_ref()), Exactness::default());
    }
}
