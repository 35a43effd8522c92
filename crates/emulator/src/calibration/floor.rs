//! The shortest service time that can be emulated, and devices that go below it.

use std::fmt;

use seeklab_core::{Device, Duration, Instant, Operation, Request};

use super::{Calibration, Route};

/// A response time of a device that is below the floor of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BelowFloor {
    /// Operation with that response time.
    pub op: Operation,
    /// Length of the request in bytes.
    pub bytes: u32,
    /// Response time of the device.
    pub response: Duration,
    /// Shortest response time that can be emulated on this machine.
    pub floor: Duration,
    /// Route of the request.
    pub route: Route,
}

impl fmt::Display for BelowFloor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op, bytes, response, floor, route } = self;
        let op = op.name();
        write!(
            formatter,
            "the device takes {response} for a {op} of {bytes} bytes, less than the floor of {route} on this machine, {floor}"
        )
    }
}

impl Calibration {
    /// The shortest response time at MP1 that `route` can give here, between the measured sizes along
    /// straight lines; `None` if that was not measured.
    pub fn floor(&self, route: Route, op: Operation, bytes: u32) -> Option<Duration> {
        let measured = match op {
            Operation::Read | Operation::Write => op,
            Operation::Flush | Operation::Discard | Operation::WriteZeroes => Operation::Flush,
        };
        let rows = || self.rows(route).filter(|row| row.op == measured);
        let below = rows().filter(|row| row.bytes <= bytes).max_by_key(|row| row.bytes);
        let above = rows().filter(|row| row.bytes > bytes).min_by_key(|row| row.bytes);
        match (below, above) {
            (Some(below), Some(above)) => {
                let (low, high) = (below.floor.as_ns() as f64, above.floor.as_ns() as f64);
                let share = f64::from(bytes - below.bytes) / f64::from(above.bytes - below.bytes);
                Some(Duration::from_ns((low + (high - low) * share).round() as u64))
            }
            (Some(row), None) | (None, Some(row)) => Some(row.floor),
            (None, None) => None,
        }
    }

    /// The floor of the run as a whole, for counting: that of the smallest read or write.
    pub fn least_floor(&self, route: Route) -> Option<Duration> {
        self.rows(route).map(|row| row.floor).min()
    }

    /// Returns a request that `device` answers below the floor of `route`, before anything runs. Tests reads,
    /// repeated reads and writes of one block and of 64 KiB.
    pub fn below_floor(&self, route: Route, device: &dyn Device) -> Option<BelowFloor> {
        let block_bytes = device.capabilities().block_size.as_bytes();
        let sizes = [1, (64 << 10) / block_bytes].map(|blocks| blocks.max(1) as u32);
        let ops = [Operation::Read, Operation::Write];
        let asked = sizes.into_iter().flat_map(|blocks| ops.map(|op| (op, blocks)));
        asked
            .filter_map(|(op, blocks)| {
                let bytes = u32::try_from(u64::from(blocks) * block_bytes).ok()?;
                let response = shortest_response(device, op, blocks)?;
                let floor = self.floor(route, op, bytes).filter(|floor| response < *floor)?;
                Some(BelowFloor { op, bytes, response, floor, route })
            })
            .next()
    }
}

/// Returns the shorter response time of two equal requests, of that many blocks at its beginning, to a fork
/// of an idle `device`. The second may hit the buffer. `None` if the device refuses the request.
pub fn shortest_response(device: &dyn Device, op: Operation, blocks: u32) -> Option<Duration> {
    let mut device = device.fork();
    let mut completions = Vec::new();
    let mut now = Instant::ZERO;
    for id in 0..2 {
        device.submit(now, Request::new(id, op, 0, blocks)).ok()?;
        while completions.len() <= id as usize {
            now = device.next_event()?;
            device.poll(now, &mut completions);
        }
    }
    completions.iter().map(|completion| completion.response_time()).min()
}

#[cfg(test)]
mod tests {
    use seeklab_core::Seed;
    use seeklab_devices::catalog;

    use super::super::FrontendKind;
    use super::super::tests::{NBD, synthetic};
    use super::*;

    #[test]
    fn floor_is_interpolated_linearly_between_sizes() {
        let calibration = synthetic();
        let floor = |op, bytes| calibration.floor(NBD, op, bytes).unwrap();
        assert_eq!(floor(Operation::Read, 4 << 10), Duration::from_us(40));
        assert_eq!(floor(Operation::Read, 34 << 10), Duration::from_us(60));
        assert_eq!(floor(Operation::Read, 64 << 10), Duration::from_us(80));
        assert_eq!(floor(Operation::Read, 1 << 20), Duration::from_us(80));
        assert_eq!(floor(Operation::Discard, 4 << 10), Duration::from_us(30));
        assert_eq!(
            calibration.floor(Route { frontend: FrontendKind::NbdTcp, ..NBD }, Operation::Read, 512),
            None
        );
        assert_eq!(calibration.least_floor(NBD), Some(Duration::from_us(30)));
    }

    #[test]
    fn device_below_the_floor_is_found_before_it_runs() {
        let calibration = synthetic();
        let check = |name: &str, below: bool| {
            let device = catalog::find(name).unwrap().build(Seed(1), "disk0").unwrap();
            let found = calibration.below_floor(NBD, device.as_ref());
            assert_eq!(found.is_some(), below, "{name}: {found:?}");
        };
        check("immediate", true);
        check("constant", false);
        check("cheetah-36es", false);
    }
}
