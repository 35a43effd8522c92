//! Moving the data of a read over the bus while the media delivers it.

use seeklab_core::{Duration, Instant};

use super::params::{Bus, Delivery};
use crate::disk::mechanics::Media;
use crate::disk::mechanism::Pass;

/// Returns the time at which block `index` of the passes has been read.
pub(super) fn read_at(mechanism: &impl Media, passes: &[Pass], index: u32) -> Instant {
    let mut before = 0;
    for pass in passes {
        if index < before + pass.blocks {
            return read_in_pass(mechanism, pass, index - before);
        }
        before += pass.blocks;
    }
    passes.last().map_or(Instant::ZERO, |pass| pass.end)
}

/// Returns the time from which the buffer holds enough blocks, at least one, for the drive to send them.
pub(super) fn sendable_at(
    mechanism: &impl Media,
    passes: &[Pass],
    count: u32,
    delivery: Delivery,
) -> Instant {
    let mut index = count - 1;
    if delivery == Delivery::OutOfOrder {
        for pass in passes {
            let arrived = pass.blocks - pass.wrapped;
            if pass.wrapped > 0 && index < arrived {
                return pass.start + mechanism.passing(pass.zone, index + 1);
            }
            if index < pass.blocks {
                let front = if pass.wrapped > 0 { index - arrived } else { index };
                return read_in_pass(mechanism, pass, front);
            }
            index -= pass.blocks;
        }
    }
    read_at(mechanism, passes, count - 1)
}

/// Returns the time at which block `index` of a pass has been read. Blocks that a zero-latency pass took on arrival count
/// with the last of the others.
fn read_in_pass(mechanism: &impl Media, pass: &Pass, index: u32) -> Instant {
    if pass.wrapped > 0 {
        let left = pass.wrapped.saturating_sub(index + 1);
        return pass.end_less(mechanism.passing(pass.zone, left));
    }
    let left = pass.blocks - 1 - index;
    pass.end_less(mechanism.passing(pass.zone, left.min(pass.span - 1)))
}

/// Returns the time at which the host has all blocks of `passes`, if the bus is free from `bus` on.
/// Each block follows as soon as it has been read and the block before has gone.
///
/// Within a pass blocks come at an even pace, so only its first and last can hold the bus up.
pub(super) fn deliver(
    mechanism: &impl Media,
    passes: &[Pass],
    bus: Instant,
    block: Duration,
    delivery: Delivery,
) -> Instant {
    passes.iter().fold(bus, |bus, pass| match (pass.wrapped, delivery) {
        (0, _) => chain(bus, read_in_pass(mechanism, pass, 0), pass.end, pass.blocks, block),
        (wrapped, Delivery::InOrder) => {
            let front = chain(bus, read_in_pass(mechanism, pass, 0), pass.end, wrapped, block);
            front + block * u64::from(pass.blocks - wrapped)
        }
        (wrapped, Delivery::OutOfOrder) => {
            let arrived = pass.blocks - wrapped;
            let first = pass.start + mechanism.passing(pass.zone, 1);
            let last = pass.start + mechanism.passing(pass.zone, arrived);
            let bus = chain(bus, first, last, arrived, block);
            chain(bus, read_in_pass(mechanism, pass, 0), pass.end, wrapped, block)
        }
    })
}

fn chain(bus: Instant, first: Instant, last: Instant, blocks: u32, block: Duration) -> Instant {
    if blocks == 0 {
        return bus;
    }
    (bus.max(first) + block * u64::from(blocks)).max(last + block)
}

/// As [`deliver`], in portions: the drive takes the bus whenever a portion, or the rest, is in the
/// buffer; once all is there, the rest follows without pause.
pub(super) fn deliver_in_portions(
    mechanism: &impl Media,
    passes: &[Pass],
    bus: Instant,
    blocks: u32,
    parameters: &Bus,
) -> Instant {
    let mut done = 0;
    let mut bus = bus;
    loop {
        let portion = parameters.portion_blocks.min(blocks - done);
        done += portion;
        let there = read_at(mechanism, passes, done - 1);
        bus = there.max(bus) + parameters.portion_overhead + parameters.read_block * u64::from(portion);
        if done == blocks {
            return bus;
        }
        if read_at(mechanism, passes, blocks - 1) <= bus {
            return bus + parameters.portion_tail_block * u64::from(blocks - done);
        }
        bus += parameters.portion_gap;
    }
}
