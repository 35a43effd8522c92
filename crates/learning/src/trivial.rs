//! The trivial model: response times of the trace, resampled by operation and length.
//!
//! It is the measure of the others. A model that knows queues, distances and orders, and predicts no better than this
//! one, knows nothing that helps.
//!
//! # Scope and limits
//! Tables ([`table`](crate::table)) with one class of queue lengths and one of distances: response times do not depend on
//! the load.

use seeklab_devices::table::Classes;

use crate::fit::Model;
use crate::table::TableFit;

pub(super) const MODEL: Model = Model {
    name: "trivial",
    description: "response times resampled by operation and length",
    leaves_out_warm_up: false,
    // It knows no queue lengths: its verdict by them says so.
    carries_waits: false,
    begin: |classes| {
        // It distinguishes nothing but lengths. Classes that no model accepts are refused all the same.
        classes.check()?;
        Ok(Box::new(TableFit::new(Classes::LENGTHS)?))
    },
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use seeklab_core::{
        ByteSize, Completion, Device, Duration, Instant, Operation, RegionBound, Request, Seed, TraceRecord,
    };

    use super::*;
    use crate::fit::{DeviceInfo, build};

    #[test]
    fn times_follow_operation_and_length_and_not_the_load() {
        let mut fit = (MODEL.begin)(Classes::default()).unwrap();
        for index in 0..600_u64 {
            let (op, blocks, ms) =
                [(Operation::Read, 8, 1), (Operation::Read, 16, 2), (Operation::Write, 8, 4)]
                    [index as usize % 3];
            let arrival = Instant::ZERO + Duration::from_ms(10 * index);
            let completion = Some(arrival + Duration::from_ms(ms));
            fit.record(&TraceRecord { completion, ..TraceRecord::new(arrival, op, 8 * index, blocks) });
        }
        let about = DeviceInfo {
            block_size: ByteSize::from_bytes(512),
            capacity_blocks: 1 << 20,
            fit: BTreeMap::new(),
        };
        let mut device = build(fit.as_ref(), about, Seed(1), "disk0").unwrap();
        // All at once: the queue has no effect, nor has the address.
        for index in 0..90_u64 {
            let (op, blocks) =
                [(Operation::Read, 8), (Operation::Read, 16), (Operation::Write, 8)][index as usize % 3];
            device.submit(Instant::ZERO, Request::new(index, op, 997 * index, blocks)).unwrap();
        }
        let mut completions: Vec<Completion> = Vec::new();
        while let Some(next) = device.next_event() {
            device.poll(next, &mut completions);
        }
        assert_eq!(completions.len(), 90);
        for completion in completions {
            let expected = [1.0, 2.0, 4.0][completion.request.id.0 as usize % 3];
            let ms = completion.response_time().as_ms();
            assert!((ms / expected - 1.0).abs() < 0.02, "{completion:?}");
        }
        let coverage = device.coverage().unwrap();
        // Its times do not depend on the queue, but those of the device may.
        assert_eq!(coverage.requests, 90);
        assert_eq!(coverage.beyond[RegionBound::QueueAbove as usize], 90, "{coverage:?}");
    }
}
