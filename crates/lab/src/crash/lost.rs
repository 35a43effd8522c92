//! Writes that a cut took: complete, and not on the media.

use std::cmp::Reverse;

use seeklab_core::{BlockSet, Completion, EventKind, Instant, Operation};
use seeklab_devices::torn::AtCut;

use super::record::Durability;
use super::result::LostWrite;

/// The writes that were complete at `cut` and of which blocks are not among those `on_media`. A flush covers what was
/// complete up to `covered`.
///
/// A block misses its last write, if the media has an older one. It misses also the last of those that a flush covers:
/// that later writes are lost as well is no excuse of the device.
pub(super) fn lost_writes(
    durability: &Durability,
    on_media: &AtCut,
    cut: Instant,
    covered: Instant,
) -> Vec<LostWrite> {
    let Durability { completions, events } = durability;
    // Of each request, the blocks on the media, at the place that they got to.
    let mut durable = vec![BlockSet::default(); completions.len()];
    let settled = events[..on_media.settled].iter().map(|event| (event, event.lbn, event.blocks));
    let parts = on_media.parts.iter().map(|part| (&events[part.event], part.lbn, part.blocks));
    for (event, lbn, blocks) in settled.chain(parts) {
        if let (Some(request), EventKind::Durable { .. }) = (event.request, &event.kind) {
            durable[request.0 as usize].insert(lbn, lbn + u64::from(blocks));
        }
    }
    let changes_blocks =
        |completion: &&Completion| !matches!(completion.request.op, Operation::Read | Operation::Flush);
    let mut newest_first: Vec<&Completion> = completions.iter().filter(changes_blocks).collect();
    newest_first.sort_unstable_by_key(|completion| Reverse((completion.completed, completion.request.id)));
    // Blocks that later requests gave other contents, and those of them that are on the media or that a flush covers.
    let (mut replaced, mut replaced_for_good) = (BlockSet::default(), BlockSet::default());
    let mut lost: Vec<LostWrite> = Vec::new();
    for (rank, &completion) in newest_first.iter().enumerate() {
        let request = &completion.request;
        let of = |completion: &Completion| &durable[completion.request.id.0 as usize];
        let is_complete = completion.completed <= cut;
        let is_flushed = completion.completed <= covered || request.fua;
        if is_complete && request.op != Operation::Discard {
            let mut missing = missing(completion, of(completion));
            let later = if is_flushed { &replaced_for_good } else { &replaced };
            // Of requests that were outstanding together, the device may have begun either one first.
            let together = newest_first[rank + 1..].iter();
            let together = together.take_while(|other| other.completed > completion.submitted);
            for replacing in together.map(|other| of(other)).chain([later]) {
                replacing
                    .within(request.lbn, request.end())
                    .for_each(|(start, end)| missing.remove(start, end));
            }
            let missing_blocks = missing.within(0, u64::MAX).map(|(start, end)| end - start).sum();
            if missing_blocks > 0 {
                lost.push(LostWrite {
                    request: request.id.0,
                    lbn: request.lbn,
                    blocks: request.blocks,
                    missing_blocks,
                    completed_s: completion.completed.as_s(),
                    is_flushed,
                });
            }
        }
        for (start, end) in of(completion).within(0, u64::MAX) {
            replaced.insert(start, end);
            replaced_for_good.insert(start, end);
        }
        if is_complete {
            let (start, blocks) = completion.written_blocks();
            let end = start + u64::from(blocks);
            replaced.insert(start, end);
            if is_flushed {
                replaced_for_good.insert(start, end);
            }
        }
    }
    lost.sort_unstable_by_key(|write| write.request);
    lost
}

/// Blocks of a complete write that are not `durable`, its blocks on the media at the place that they got to.
fn missing(completion: &Completion, durable: &BlockSet) -> BlockSet {
    let start = completion.request.lbn;
    let place = completion.written_blocks().0;
    let mut missing = BlockSet::default();
    missing.insert(start, start + u64::from(completion.outcome.good_blocks));
    durable
        .within(0, u64::MAX)
        .for_each(|(from, to)| missing.remove(start + from - place, start + to - place));
    missing
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seeklab_core::{
        Breakdown, BufferOutcome, DataEffect, Effect, Event, FaultSet, Outcome, Request, RequestId, Status,
        Tearing, TornContents,
    };
    use seeklab_devices::torn::Part;

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

    /// Blocks of the device of the property below.
    const BLOCKS: u64 = 24;

    /// A request, and which of its blocks are on the media, one bit each.
    #[derive(Debug, Clone)]
    struct Draft {
        op: Operation,
        lbn: u64,
        blocks: u32,
        fua: bool,
        submitted: u64,
        takes: u64,
        effect: Effect,
        /// Blocks that are good before the first bad one, of a write that fails.
        good_blocks: Option<u32>,
        durable: u8,
    }

    fn draft() -> impl Strategy<Value = Draft> {
        let op = prop::sample::select(vec![Operation::Write, Operation::Write, Operation::Discard]);
        let effect =
            prop::sample::select(vec![Effect::None, Effect::None, Effect::Torn(1), Effect::Misdirected(5)]);
        let place = (0..BLOCKS - 13, 1_u32..8, prop::bool::weighted(0.2));
        let good_blocks = prop::option::weighted(0.2, 0_u32..8);
        (op, place, 0_u64..100, 1_u64..30, effect, good_blocks, any::<u8>()).prop_map(
            |(op, (lbn, blocks, fua), submitted, takes, effect, good_blocks, durable)| Draft {
                op,
                lbn,
                blocks,
                fua,
                submitted,
                takes,
                effect: if op == Operation::Write && good_blocks.is_none() { effect } else { Effect::None },
                good_blocks: good_blocks.map(|good_blocks| good_blocks % blocks),
                durable,
            },
        )
    }

    impl Draft {
        fn completion(&self, id: u64) -> Completion {
            let request = Request { fua: self.fua, ..Request::new(id, self.op, self.lbn, self.blocks) };
            let completed = us(self.submitted + self.takes);
            let ok = Outcome { effect: DataEffect::new(self.effect), ..Outcome::ok(&request) };
            let failed = |good_blocks| Outcome { status: Status::MediumError, good_blocks, ..ok };
            let outcome = self.good_blocks.map_or(ok, failed);
            Completion {
                request,
                submitted: us(self.submitted),
                completed,
                outcome,
                ..buffered(id, self.lbn, self.blocks)
            }
        }
    }

    proptest! {
        #[test]
        fn block_misses_its_last_write_and_the_last_that_a_flush_covers(
            drafts in prop::collection::vec(draft(), 1..16), cut in 20_u64..130, covered in 0_u64..130
        ) {
            let (cut, covered) = (us(cut), us(covered.min(cut)));
            let completions: Vec<Completion> = (0..).zip(&drafts).map(|(id, draft)| draft.completion(id)).collect();
            let (mut events, mut parts) = (Vec::new(), Vec::new());
            for (completion, draft) in completions.iter().zip(&drafts) {
                let (place, blocks) = completion.written_blocks();
                let on_media = (0..blocks).filter(|block| draft.durable >> block & 1 == 1);
                let event = events.len();
                parts.extend(on_media.map(|block| Part { event, lbn: place + u64::from(block), blocks: 1 }));
                events.push(Event::durable(completion.request.id, place, blocks, cut, cut));
            }
            let on_media = AtCut { settled: 0, parts, torn: Vec::new() };
            let is_on_media = |index: usize, block: u64| {
                on_media.parts.iter().any(|part| part.event == index && part.lbn == block)
            };
            let is_flushed = |one: &Completion| one.completed <= covered || one.request.fua;
            let rank = |one: &Completion| (one.completed, one.request.id);
            // Block by block, each write beside every other.
            let is_lost = |index: usize, offset: u64| {
                let one = &completions[index];
                let (place, block) = (one.written_blocks().0 + offset, one.request.lbn + offset);
                !is_on_media(index, place)
                    && !completions.iter().enumerate().any(|(other_index, other)| {
                        let (start, blocks) = other.written_blocks();
                        let replaces = rank(other) > rank(one)
                            && other.completed <= cut
                            && (start..start + u64::from(blocks)).contains(&block)
                            && (is_flushed(other) || !is_flushed(one));
                        let is_newer = other_index != index && other.completed > one.submitted;
                        replaces || (is_newer && is_on_media(other_index, block))
                    })
            };
            let mut expected = Vec::new();
            for (index, one) in completions.iter().enumerate() {
                if one.request.op == Operation::Discard || one.completed > cut {
                    continue;
                }
                let good_blocks = u64::from(one.outcome.good_blocks);
                let count = (0..good_blocks).filter(|offset| is_lost(index, *offset)).count();
                if count > 0 {
                    expected.push((index as u64, count as u64, is_flushed(one)));
                }
            }
            let durability = Durability { completions: completions.clone(), events };
            let lost = lost_writes(&durability, &on_media, cut, covered);
            let found: Vec<_> =
                lost.iter().map(|write| (write.request, write.missing_blocks, write.is_flushed)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
