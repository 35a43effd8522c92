//! Pauses and hold times of calls, from which the files of the other slots draw theirs.

use seeklab_core::Stream;
use seeklab_workloads::JobsSpec;
use seeklab_workloads::jobs::Direction;

use crate::lindsay_ferrari::DriveTimes;

/// Calls of a file that are kept at most.
const KEPT_MAX: usize = 1 << 16;

/// A call of a file, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cycle {
    /// From the end of the call before, or from the start of the job, to this call.
    pub(super) pause_s: f64,
    /// For which the call holds its drive.
    pub(super) hold_s: f64,
}

/// Calls of the input and of the output.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    cycles: [Vec<Cycle>; 2],
}

impl History {
    /// A first guess: every call moves what the buffer holds at the call, and the job never waits.
    pub(super) fn guess(
        spec: &JobsSpec,
        drive: DriveTimes,
        sector_times: &[[Vec<f64>; 2]],
        share: f64,
    ) -> Self {
        let threshold = f64::from(spec.threshold());
        let hold_s = drive.access_s + threshold * drive.sector_s;
        let cycle = |direction: usize| {
            let sectors: usize = sector_times.iter().map(|times| times[direction].len()).sum();
            if sectors == 0 {
                return Vec::new();
            }
            let total_s: f64 = sector_times.iter().flat_map(|times| &times[direction]).sum();
            let sector_s = total_s / sectors as f64;
            vec![Cycle { pause_s: threshold * sector_s / share, hold_s }]
        };
        Self { cycles: [cycle(0), cycle(1)] }
    }

    pub(super) fn push(&mut self, direction: Direction, cycle: Cycle) {
        let cycles = &mut self.cycles[direction as usize];
        if cycles.len() < KEPT_MAX {
            cycles.push(cycle);
        }
    }

    /// Draws a call. A file without calls is never in use.
    pub(super) fn draw(&self, direction: Direction, stream: &mut Stream) -> Option<Cycle> {
        let cycles = &self.cycles[direction as usize];
        (!cycles.is_empty()).then(|| cycles[stream.below(cycles.len() as u64) as usize])
    }
}
