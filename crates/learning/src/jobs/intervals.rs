//! Intervals between the transfers of a program: sectors, and the processor time that belongs to them.

use seeklab_core::Duration;
use seeklab_workloads::jobs::Direction;

use super::RecordedJob;

/// A transfer with the processor time that belongs to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Sectors of the transfer.
    pub sectors: f64,
    /// Processor time since the output before, or until the next input.
    pub processor: Duration,
}

/// Processor time that is too short for the clock of a trace.
const SHORTEST: Duration = Duration::from_ns(1);

impl Interval {
    /// Sectors per second of processor time.
    pub fn rate_per_s(&self) -> f64 {
        self.sectors / self.processor.max(SHORTEST).as_s()
    }
}

/// The intervals of a direction of a program, by equations (1) and (2).
pub fn intervals(job: &RecordedJob, direction: Direction, sector_bytes: u64) -> Vec<Interval> {
    let own: Vec<(u64, Duration)> = job
        .transfers
        .iter()
        .filter(|transfer| transfer.direction == direction && transfer.bytes > 0)
        .map(|transfer| (transfer.bytes, transfer.processor))
        .collect();
    let of = |index: usize| match direction {
        Direction::Output => {
            let before = index.checked_sub(1).map_or(Duration::ZERO, |before| own[before].1);
            own[index].1.saturating_sub(before)
        }
        Direction::Input => {
            let next = own.get(index + 1).map_or(job.processor, |next| next.1);
            next.saturating_sub(own[index].1)
        }
    };
    (0..own.len())
        .map(|index| Interval { sectors: own[index].0 as f64 / sector_bytes as f64, processor: of(index) })
        .collect()
}
