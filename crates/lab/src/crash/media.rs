//! The media at a moment of a recorded run.

use seeklab_core::{BlockSet, ByteSize, Completion, Effect, Event, Instant, Operation, RequestId, Seed};
use seeklab_devices::power_loss::{PowerLossParameters, TornSector};
use seeklab_devices::torn::{AtCut, Part, TornUnit};
use seeklab_emulator::store::{Store, rot};

use super::lost::lost_writes;
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
    power_loss: PowerLossParameters,
    /// Completions in order of time, if a block has rotted; none otherwise.
    rotting: Vec<&'a Completion>,
}

/// A device after a cut.
pub(super) struct Survived {
    /// Its contents.
    pub(super) store: Store,
    /// Units that were being written.
    pub(super) torn: Vec<TornUnit>,
    /// Units of those that cannot be read until they are written.
    pub(super) unreadable: Vec<TornUnit>,
}

impl Survived {
    /// A device on which nothing was being written.
    pub(super) const fn of(store: Store) -> Self {
        Self { store, torn: Vec::new(), unreadable: Vec::new() }
    }
}

impl<'a> Media<'a> {
    /// The media before the run.
    pub(super) fn new(record: &'a Record, durability: &'a Durability) -> Result<Self, Failure> {
        let power_loss = record.device.description.power_loss().unwrap_or_default();
        let is_rotten =
            |completion: &Completion| matches!(completion.outcome.effect.effect(), Effect::Rotten(_));
        let mut rotting: Vec<&Completion> = Vec::new();
        if durability.completions.iter().any(is_rotten) {
            rotting.extend(&durability.completions);
            rotting.sort_by_key(|completion| completion.completed);
        }
        Ok(Self { record, durability, store: record.base()?, next: 0, power_loss, rotting })
    }

    /// Blocks that the device writes as a whole.
    fn unit_blocks(&self) -> u64 {
        self.power_loss.unit_blocks(ByteSize::from_bytes(self.record.block_bytes))
    }

    /// The blocks that are on the media after a cut at `cut`.
    fn on_media(&self, cut: Instant) -> AtCut {
        let tearing = self.power_loss.tearing(ByteSize::from_bytes(self.record.block_bytes));
        let submitted = |request: RequestId| self.durability.completions[request.0 as usize].submitted;
        let has_arrived = |event: &Event| event.request.is_some_and(|request| submitted(request) <= cut);
        AtCut::new(&self.durability.events, cut, tearing, has_arrived)
    }

    /// The device when its power comes back after a cut at `cut`: it holds what was durable then.
    pub(super) fn at(&mut self, cut: Instant) -> Result<Survived, Failure> {
        let PowerLossParameters { torn_sector, .. } = self.power_loss;
        let AtCut { settled, parts, torn } = self.on_media(cut);
        if self.next > settled {
            (self.store, self.next) = (self.record.base()?, 0);
        }
        while self.next < settled {
            let event = &self.durability.events[self.next];
            self.apply(&self.store, Part { event: self.next, lbn: event.lbn, blocks: event.blocks })?;
            self.next += 1;
        }
        let store = Store::in_ram(self.record.size, None)?;
        store.copy_from(&self.store)?;
        parts.into_iter().try_for_each(|part| self.apply(&store, part))?;
        let mut unreadable = Vec::new();
        if torn_sector == TornSector::Unreadable {
            // The device may be larger than what of it was served.
            let end = self.record.size.as_bytes() / self.record.block_bytes;
            unreadable.extend(torn.iter().filter(|unit| unit.lbn < end).copied());
            for TornUnit { lbn, blocks } in &mut unreadable {
                *blocks = (*blocks).min(end - *lbn);
                store.discard(*lbn * self.record.block_bytes, *blocks * self.record.block_bytes)?;
            }
        }
        self.rot(&store, cut)?;
        Ok(Survived { store, torn, unreadable })
    }

    /// Changes a bit of each block that has rotted before `cut` and was not written since.
    fn rot(&self, store: &Store, cut: Instant) -> Result<(), Failure> {
        let mut rotten = BlockSet::default();
        for completion in self.rotting.iter().take_while(|completion| completion.completed <= cut) {
            let request = &completion.request;
            match (request.op, completion.outcome.effect.effect()) {
                (Operation::Read, Effect::Rotten(block)) => {
                    let block = request.lbn + u64::from(block);
                    rotten.insert(block, block + 1);
                }
                (Operation::Read | Operation::Flush, _) => {}
                _ => {
                    let (lbn, blocks) = completion.written_blocks();
                    rotten.remove(lbn, lbn + u64::from(blocks));
                }
            }
        }
        let mut bytes = vec![0; self.record.block_bytes as usize];
        for block in rotten.within(0, u64::MAX).flat_map(|(from, to)| from..to) {
            store.read(block * self.record.block_bytes, &mut bytes)?;
            rot(block, &mut bytes);
            store.write(block * self.record.block_bytes, &bytes)?;
        }
        Ok(())
    }

    /// A store with one of the states that any device with a volatile cache may leave: what a flush or force unit access
    /// covers, and of everything later any units.
    pub(super) fn legal_at(&self, cut: Instant, seed: Seed, state: u64) -> Result<Store, Failure> {
        let store = self.record.base()?;
        let is_volatile = self.record.is_volatile()?;
        let unit_blocks = self.unit_blocks();
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
            let (mut lbn, blocks) = completion.written_blocks();
            if done && (!is_volatile || request.fua || completion.completed <= covered) {
                self.put(&store, completion, lbn, blocks)?;
                continue;
            }
            let last = lbn + u64::from(request.blocks);
            while lbn < last {
                let end = ((lbn / unit_blocks + 1) * unit_blocks).min(last);
                if draws.chance(0.5) {
                    self.put(&store, completion, lbn, (end - lbn) as u32)?;
                }
                lbn = end;
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
        lost_writes(self.durability, &self.on_media(cut), cut, self.covered_before(cut))
    }

    fn apply(&self, store: &Store, part: Part) -> Result<(), Failure> {
        let Some(request) = self.durability.events[part.event].request else { return Ok(()) };
        let completion = &self.durability.completions[request.0 as usize];
        self.put(store, completion, part.lbn, part.blocks)
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
