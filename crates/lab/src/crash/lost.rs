//! Writes that a cut took: complete, and not on the media.

use seeklab_core::{Completion, EventKind, Instant, Operation};
use seeklab_devices::torn::AtCut;

use super::record::Durability;
use super::result::LostWrite;

/// The writes that were complete at `cut` and of which blocks are not among those `on_media`, unless later writes cover
/// them. A flush covers what was complete up to `covered`.
pub(super) fn lost_writes(
    durability: &Durability,
    on_media: &AtCut,
    cut: Instant,
    covered: Instant,
) -> Vec<LostWrite> {
    let Durability { completions, events } = durability;
    let mut durable = vec![0_u64; completions.len()];
    let settled = (0..on_media.settled).map(|event| (event, events[event].blocks));
    for (event, blocks) in settled.chain(on_media.parts.iter().map(|part| (part.event, part.blocks))) {
        if let (Some(request), EventKind::Durable { .. }) = (events[event].request, &events[event].kind) {
            durable[request.0 as usize] += u64::from(blocks);
        }
    }
    let complete = |completion: &&Completion| {
        matches!(completion.request.op, Operation::Write | Operation::WriteZeroes)
            && completion.completed <= cut
    };
    let mut lost: Vec<LostWrite> = Vec::new();
    for completion in completions.iter().filter(complete) {
        let request = &completion.request;
        let missing =
            u64::from(completion.outcome.good_blocks).saturating_sub(durable[request.id.0 as usize]);
        if missing == 0 {
            continue;
        }
        let overwritten = completions.iter().filter(complete).any(|later| {
            later.completed > completion.completed
                && later.request.lbn < request.end()
                && request.lbn < later.request.end()
        });
        if !overwritten {
            lost.push(LostWrite {
                request: request.id.0,
                lbn: request.lbn,
                blocks: request.blocks,
                missing_blocks: missing,
                completed_s: completion.completed.as_s(),
                is_flushed: completion.completed <= covered || request.fua,
            });
        }
    }
    lost
}

#[cfg(test)]
mod tests {
    use seeklab_core::{
        Breakdown, BufferOutcome, Event, FaultSet, Outcome, Request, RequestId, Tearing, TornContents,
    };

    use super::*;

    const fn us(us: u64) -> Instant {
        Instant::from_ns(us * 1_000)
    }

    /// A write that a buffer took at 10 us.
    fn buffered(id: u64, lbn: u64, blocks: u32) -> Completion {
        let request = Request::new(id, Operation::Write, lbn, blocks);
        Completion {
            request,
            submitted: us(0),
            issued: us(0),
            started: us(0),
            completed: us(10),
            breakdown: Breakdown::default(),
            outcome: Outcome::ok(&request),
            buffer: BufferOutcome::None,
            seek_cylinders: 0,
            queue_length: 0,
            faults: FaultSet::NONE,
        }
    }

    /// Missing blocks of each lost write after a cut: two requests of 12 blocks in one media write, 10 us for a block.
    fn missing(cut: u64, unit_blocks: u64, contents: TornContents) -> Vec<(u64, u64)> {
        let durability = Durability {
            completions: vec![buffered(0, 100, 12), buffered(1, 112, 12)],
            events: vec![
                Event::durable(RequestId(0), 100, 12, us(100), us(220)),
                Event::durable(RequestId(1), 112, 12, us(220), us(340)),
            ],
        };
        let tearing = Tearing { unit_blocks, contents };
        let on_media = AtCut::new(&durability.events, us(cut), tearing, |_| true);
        let lost = lost_writes(&durability, &on_media, us(cut), us(0));
        assert!(lost.iter().all(|write| write.completed_s == 10e-6 && !write.is_flushed));
        lost.iter().map(|write| (write.request, write.missing_blocks)).collect()
    }

    #[test]
    fn blocks_of_a_torn_unit_are_lost_and_those_of_a_completed_one_are_not() {
        // At 235 us block 113 is being written. A unit of 32 from block 96 on holds blocks of both writes.
        assert_eq!(missing(235, 1, TornContents::Old), [(1, 11)]);
        for contents in [TornContents::Old, TornContents::Unreadable] {
            assert_eq!(missing(235, 32, contents), [(0, 12), (1, 12)], "{contents:?}");
        }
        assert_eq!(missing(235, 32, TornContents::New), []);
        // Units of eight: 104 to 111 is whole, 112 to 119 is torn.
        assert_eq!(missing(235, 8, TornContents::Old), [(1, 12)]);
        assert_eq!(missing(235, 8, TornContents::New), [(1, 4)]);
        assert_eq!(missing(340, 32, TornContents::Old), []);
        assert_eq!(missing(50, 32, TornContents::Old), [(0, 12), (1, 12)]);
    }
}
