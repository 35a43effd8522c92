//! The media at a moment of a recorded run.

use seeklab_core::{Completion, Event, EventKind, Instant, Operation, Seed};
use seeklab_emulator::store::Store;

use super::record::{Durability, Record};
use super::result::LostWrite;
use crate::failure::Failure;

/// The media of a recorded device. Moments come in order of time.
pub(super) struct Media<'a> {
    record: &'a Record,
    durability: &'a Durability,
    /// As of the events before `next`.
    store: Store,
    next: usize,
}

impl<'a> Media<'a> {
    /// The media before the run.
    pub(super) fn new(record: &'a Record, durability: &'a Durability) -> Result<Self, Failure> {
        Ok(Self { record, durability, store: record.base()?, next: 0 })
    }

    /// A store with what the device holds when its power comes back after a cut at `cut`: what was durable then. The
    /// sector under the head keeps what it held before.
    pub(super) fn at(&mut self, cut: Instant) -> Result<Store, Failure> {
        let events = &self.durability.events;
        if self.next > 0 && events[self.next - 1].time > cut {
            (self.store, self.next) = (self.record.base()?, 0);
        }
        while let Some(event) = events.get(self.next).filter(|event| event.time <= cut) {
            self.apply(&self.store, event, event.blocks)?;
            self.next += 1;
        }
        let store = Store::in_ram(self.record.size, None)?;
        store.copy_from(&self.store)?;
        for event in &events[self.next..] {
            let blocks = event.on_media(cut).blocks;
            if blocks > 0 {
                self.apply(&store, event, blocks)?;
            }
        }
        Ok(store)
    }

    /// A store with one of the states that any device with a volatile cache may leave: what a flush or force unit access
    /// covers, and of everything later any sectors.
    pub(super) fn legal_at(&self, cut: Instant, seed: Seed, state: u64) -> Result<Store, Failure> {
        let store = self.record.base()?;
        let mut draws = seed.numbered("crash.legal").stream(cut.as_ns() ^ state.rotate_left(48));
        let completions = &self.durability.completions;
        let covered = self.covered_before(cut);
        let mut order: Vec<&Completion> =
            completions.iter().filter(|completion| completion.submitted <= cut).collect();
        order.sort_by_key(|completion| completion.completed);
        for completion in order {
            let request = &completion.request;
            if matches!(request.op, Operation::Read | Operation::Flush) {
                continue;
            }
            let done = completion.completed <= cut;
            if done && (request.fua || completion.completed <= covered) {
                let (lbn, blocks) = completion.written_blocks();
                self.put(&store, completion, lbn, blocks)?;
                continue;
            }
            let (lbn, _) = completion.written_blocks();
            for block in lbn..lbn + u64::from(request.blocks) {
                if draws.chance(0.5) {
                    self.put(&store, completion, block, 1)?;
                }
            }
        }
        Ok(store)
    }

    /// Time up to which the last flush that completed before `cut` covers what was complete.
    fn covered_before(&self, cut: Instant) -> Instant {
        let flushes = self.durability.completions.iter().filter(|completion| {
            completion.request.op == Operation::Flush
                && completion.completed <= cut
                && completion.outcome.status.is_success()
        });
        flushes.map(|flush| flush.submitted).max().unwrap_or_default()
    }

    /// The writes that were complete at `cut` and not on the media, unless later ones cover them.
    pub(super) fn lost_at(&self, cut: Instant) -> Vec<LostWrite> {
        let completions = &self.durability.completions;
        let mut durable = vec![0_u64; completions.len()];
        for event in &self.durability.events {
            if let (Some(request), EventKind::Durable { .. }) = (event.request, &event.kind) {
                durable[request.0 as usize] += u64::from(event.on_media(cut).blocks);
            }
        }
        let covered = self.covered_before(cut);
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

    fn apply(&self, store: &Store, event: &Event, blocks: u32) -> Result<(), Failure> {
        let Some(request) = event.request else { return Ok(()) };
        let completion = &self.durability.completions[request.0 as usize];
        self.put(store, completion, event.lbn, blocks)
    }

    /// Puts blocks of a request on the media, from the place `lbn` that they get to.
    fn put(&self, store: &Store, completion: &Completion, lbn: u64, blocks: u32) -> Result<(), Failure> {
        let block = self.record.block_bytes;
        // The device may be larger than what of it was served.
        let end = (lbn + u64::from(blocks)).min(self.record.size.as_bytes() / block);
        let Some(blocks) = end.checked_sub(lbn).filter(|blocks| *blocks > 0) else { return Ok(()) };
        match completion.request.op {
            Operation::Write => {
                let source = lbn - completion.written_blocks().0 + completion.request.lbn;
                let bytes = self.record.read(completion.request.id.0 as usize, source, blocks as u32)?;
                store.write(lbn * block, &bytes)?;
            }
            Operation::Discard | Operation::WriteZeroes => store.discard(lbn * block, blocks * block)?,
            Operation::Read | Operation::Flush => {}
        }
        Ok(())
    }
}
