//! Positioning times of recorded requests, and how a queue shortens them.
//!
//! A device that reorders its queue shortens the positioning of the requests that it chooses. It shortens neither their
//! transfer, nor what the buffer answers, nor the flushes. So the recursion over a trace takes the positioning part of each
//! service time apart and multiplies it by the ratio of mean positioning times: with that many waiting, to none.
//!
//! # Scope and limits
//! The ratios are means of closed runs with the requests of the trace in their order. A write buffer is full in closed runs.
//! The ratio leaves out that a read in a queue waits less for the writes of the buffer.

use std::sync::Arc;

use seeklab_core::{Breakdown, Completion, Device, Duration, Limits, Request, simulate};

use crate::error::EstimateError;
use crate::sampling::Members;

/// Numbers among which a device chooses, with the runs that show their positioning times.
const WAITING: [u32; 5] = [2, 4, 8, 16, 32];

/// Times of a recorded request that is served alone.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RecordedService {
    /// Service time, in seconds.
    pub service_s: f64,
    /// Part of it in which the device positions itself, in seconds: seek, settle, head switch, rotation.
    pub positioning_s: f64,
}

impl RecordedService {
    /// The times of a completion that waited for no other.
    pub(crate) fn of(completion: &Completion) -> Self {
        Self {
            service_s: (completion.completed - completion.submitted).as_s(),
            positioning_s: positioning(&completion.breakdown).as_s(),
        }
    }
}

/// Seek, settle, head switch and rotation.
fn positioning(breakdown: &Breakdown) -> Duration {
    let Breakdown { seek, settle, head_switch, rotation, .. } = breakdown;
    *seek + *settle + *head_switch + *rotation
}

/// Ratios of the mean positioning time by the number among which a device chooses.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PositioningRatios {
    /// Numbers in ascending order, the first 1, with their ratios; empty of a device without positioning times.
    points: Vec<(f64, f64)>,
}

impl PositioningRatios {
    /// Ratios of a device without positioning times.
    pub const fn none() -> Self {
        Self { points: Vec::new() }
    }

    #[cfg(test)]
    pub(crate) const fn of(points: Vec<(f64, f64)>) -> Self {
        Self { points }
    }

    /// Samples the ratios of the devices that `build` makes, for these requests in their order.
    ///
    /// # Errors
    /// Requests that the device refuses.
    pub fn sample(
        build: &dyn Fn() -> Box<dyn Device>,
        requests: &Arc<[Request]>,
    ) -> Result<Self, EstimateError> {
        let alone_s = positioning_mean_s(build, requests, 1)?;
        if alone_s <= 0.0 {
            return Ok(Self::default());
        }
        let mut points = vec![(1.0, 1.0)];
        for waiting in WAITING {
            // A closed run chooses among one less than it keeps outstanding.
            points.push((f64::from(waiting), positioning_mean_s(build, requests, waiting + 1)? / alone_s));
        }
        Ok(Self { points })
    }

    /// Returns true of a device without positioning times.
    pub const fn is_empty(&self) -> bool {
        self.points.is_empty()
    }

    /// Ratio with a number of requests to choose from, interpolated by its logarithm.
    pub fn at(&self, waiting: f64) -> f64 {
        let after = self.points.partition_point(|point| point.0 <= waiting);
        let Some(before) = after.checked_sub(1).map(|before| self.points[before]) else { return 1.0 };
        let Some(next) = self.points.get(after) else { return before.1 };
        let weight = (waiting / before.0).ln() / (next.0 / before.0).ln();
        before.1 + weight * (next.1 - before.1)
    }
}

/// Mean positioning time over all requests of a closed run, in seconds.
fn positioning_mean_s(
    build: &dyn Fn() -> Box<dyn Device>,
    requests: &Arc<[Request]>,
    members: u32,
) -> Result<f64, EstimateError> {
    let mut workload = Members::new(requests, members, |_, free| free);
    let (mut device, mut sum_s) = (build(), 0.0);
    let observe = |completion: &Completion| sum_s += positioning(&completion.breakdown).as_s();
    let run = simulate(&mut workload, &mut *device, Limits::default(), observe);
    run.map_err(|error| EstimateError::Refused(error.to_string()))?;
    Ok(sum_s / requests.len().max(1) as f64)
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Operation, Seed};
    use seeklab_devices::catalog;
    use seeklab_devices::layer::queue_before;
    use seeklab_devices::scheduler::SchedulerSpec;

    use super::*;

    #[test]
    fn ratios_are_interpolated_by_the_logarithm() {
        let ratios = PositioningRatios { points: vec![(1.0, 1.0), (4.0, 0.5), (16.0, 0.4)] };
        let near = |waiting: f64, expected: f64| assert!((ratios.at(waiting) - expected).abs() < 1e-12);
        near(1.0, 1.0);
        near(2.0, 0.75);
        near(8.0, 0.45);
        near(100.0, 0.4);
        assert!(PositioningRatios::default().is_empty() && PositioningRatios::default().at(3.0) == 1.0);
    }

    #[test]
    fn queue_of_sptf_shortens_positioning_and_that_of_a_server_has_none() {
        let disk = catalog::find("nearline-7200").unwrap();
        let blocks = disk.capabilities().unwrap().capacity_blocks;
        let mut stream = Seed(7).stream("test");
        let read = |id| Request::new(id, Operation::Read, stream.below(blocks - 8), 8);
        let requests: Arc<[Request]> = (0..4_000).map(read).collect();
        let build = || -> Box<dyn Device> {
            let device = disk.build(Seed(1), "disk0").unwrap();
            Box::new(queue_before(device, &SchedulerSpec::FCFS, 32).unwrap())
        };
        let ratios = PositioningRatios::sample(&build, &requests).unwrap();
        // SPTF among 32 takes about a third of the positioning time [Worthington et al. 1994, figure 2].
        assert!((0.25..0.5).contains(&ratios.at(32.0)), "{ratios:?}");
        assert!((0.6..0.95).contains(&ratios.at(2.0)), "{ratios:?}");
        let server = || catalog::find("constant").unwrap().build(Seed(1), "disk0").unwrap();
        let few: Arc<[Request]> = (0..100).map(|id| Request::new(id, Operation::Read, id, 1)).collect();
        assert!(PositioningRatios::sample(&server, &few).unwrap().is_empty());
    }
}
