//! The bytes of a device that can fail: the store takes a write when the model completes it, as the completion says.
//!
//! ```text
//! command ─▶ staged ─ completion ─▶ written: whole, its first blocks, elsewhere, not at all ─▶ store
//!                                     └─ power may be lost ─▶ unsettled ─ durable ─▶ store
//! ```
//! A read returns what completed writes left, or what a fault makes of it. Of writes that overlap, the one that the model
//! completes last stays.
//!
//! # A torn unit
//! A loss of power within a unit of the media undoes blocks of it that are in the store: what they held before is kept for
//! as many blocks as a unit has. A unit that cannot be read holds zeroes in the store, and the device fails its reads.
//!
//! # A full store
//! Blocks that the device has on its media and the store refuses stay unsettled. Until the store takes them, every flush
//! fails, and so does a write to blocks for which the store has no space. So the refused blocks never exceed what the
//! volatile buffer of the device holds.
//!
//! # Scope and limits
//! The bytes of staged writes are bounded by the frontends, which count them as bytes owed to clients. What is unsettled
//! is what the device says that its volatile buffer holds.

#[cfg(test)]
mod cut_tests;
mod former;
mod kept;
#[cfg(test)]
mod tests;
mod unsettled;

use std::collections::BTreeMap;

use seeklab_core::{
    BlockSet, ByteSize, Completion, DataEffect, Effect, Event, EventKind, Hazards, Operation, Status,
    TornContents,
};

use crate::frontend::{Action, Command};
use crate::store::{Allocation, Store, StoreError, rot};
use kept::Kept;
use unsettled::Unsettled;

/// Writes that the store has not taken, and what faults made of those that it has.
pub(super) struct Staging {
    block_bytes: u64,
    /// Writes that have not completed, by rank of arrival.
    writes: BTreeMap<u64, Write>,
    /// Completed writes that are not on the media, if the power may be lost.
    unsettled: Option<Unsettled>,
    /// Blocks of which a bit has changed on the media.
    rotten: BlockSet,
    /// Contents of blocks before they were last written, if a read may bring them.
    before: Option<Kept>,
    /// Contents that faults kept from blocks, if they are wanted in the end.
    pristine: Option<Kept>,
    /// First refusal of blocks that the device has on its media.
    refusal: Option<StoreError>,
    /// Refused blocks were lost: the store is not what the media of the device would be.
    is_incomplete: bool,
}

/// A write that has not completed.
struct Write {
    contents: Contents,
    /// Ranges that are on the media already: first block, and number of blocks.
    early: Vec<(u64, u32)>,
}

impl Write {
    /// Blocks from `start` to before `end` are not on the media after all.
    fn forget_early(&mut self, start: u64, end: u64) {
        let parts = self.early.iter().flat_map(|&(lbn, blocks)| {
            let stop = lbn + u64::from(blocks);
            [(lbn, stop.min(start)), (lbn.max(end), stop)]
        });
        let kept = parts.filter(|(from, to)| from < to).map(|(from, to)| (from, (to - from) as u32));
        self.early = kept.collect();
    }
}

/// The contents that a write gives its blocks.
pub(super) enum Contents {
    /// These bytes.
    Bytes(Box<[u8]>),
    /// Zeroes, with the space given back or kept.
    Zeroes { may_discard: bool },
}

impl Contents {
    /// Gives `length` bytes at `offset` the contents from byte `from` on.
    fn put(&self, store: &Store, offset: u64, from: u64, length: u64) -> Result<(), StoreError> {
        match self {
            Self::Bytes(bytes) => store.write(offset, &bytes[from as usize..(from + length) as usize]),
            Self::Zeroes { may_discard } => store.write_zeroes(offset, length, *may_discard),
        }
    }

    /// Fills `buffer` with the contents from byte `from` on.
    fn fill(&self, from: u64, buffer: &mut [u8]) {
        match self {
            Self::Bytes(bytes) => buffer.copy_from_slice(&bytes[from as usize..from as usize + buffer.len()]),
            Self::Zeroes { .. } => buffer.fill(0),
        }
    }
}

impl Staging {
    /// Nothing staged, of a device with these hazards; `pristine` keeps what faults of data destroy.
    ///
    /// # Errors
    /// No memory for what is kept.
    pub(super) fn new(
        size: ByteSize,
        block_bytes: u64,
        hazards: Hazards,
        pristine: bool,
    ) -> Result<Self, StoreError> {
        let kept = |wanted: bool| wanted.then(|| Kept::new(size, block_bytes)).transpose();
        Ok(Self {
            block_bytes,
            writes: BTreeMap::new(),
            unsettled: hazards.loses_power.then(|| {
                let undoes = hazards.tearing.filter(|tearing| tearing.contents != TornContents::New);
                Unsettled::new(block_bytes, undoes.map_or(1, |tearing| tearing.unit_blocks))
            }),
            rotten: BlockSet::default(),
            before: kept(hazards.reads_stale)?,
            pristine: kept(pristine)?,
            refusal: None,
            is_incomplete: false,
        })
    }

    /// Keeps the bytes of a command that arrived as the request of that rank.
    pub(super) fn stage(&mut self, number: u64, command: &Command<'_>) {
        let contents = match command.action {
            Action::Write(bytes) => Contents::Bytes(bytes.into()),
            Action::Discard => Contents::Zeroes { may_discard: true },
            Action::WriteZeroes { may_discard } => Contents::Zeroes { may_discard },
            Action::Read | Action::Flush | Action::BlockStatus { .. } => return,
        };
        self.writes.insert(number, Write { contents, early: Vec::new() });
    }

    /// Carries out the write that the model completed so.
    ///
    /// # Errors
    /// A refusal of the store.
    pub(super) fn complete(
        &mut self,
        store: &Store,
        number: u64,
        completion: &Completion,
    ) -> Result<(), StoreError> {
        let request = &completion.request;
        if request.op == Operation::Read
            && let Effect::Rotten(block) = completion.outcome.effect.effect()
        {
            let block = request.lbn + u64::from(block);
            self.rotten.insert(block, block + 1);
        }
        let Some(write) = self.writes.remove(&number) else { return Ok(()) };
        let (place, blocks) = completion.written_blocks();
        if completion.outcome.status == Status::Gone {
            self.keep_early(store, place, write);
            return Ok(());
        }
        let (place, end) = self.served(store, place, blocks);
        let blocks = end - place;
        if let (Some(unsettled), Contents::Bytes(_)) = (&mut self.unsettled, &write.contents)
            && let Err(error) = unsettled.retry(store)
            && !has_space(store, place * self.block_bytes, blocks * self.block_bytes)?
        {
            return Err(error);
        }
        self.keep_what_changes(store, completion, &write.contents, (place, end))?;
        self.rotten.remove(place, end);
        if blocks == 0 {
            return Ok(());
        }
        match &mut self.unsettled {
            None => write.contents.put(store, place * self.block_bytes, 0, blocks * self.block_bytes),
            Some(unsettled) => {
                unsettled.insert(number, (place, end), write.contents);
                for (lbn, blocks) in write.early {
                    let settled = unsettled.settle(store, number, lbn, blocks);
                    self.refusal = self.refusal.take().or(settled.err());
                }
                Ok(())
            }
        }
    }

    /// Keeps the blocks of a write to `place` that were on the media when the device went.
    fn keep_early(&mut self, store: &Store, place: u64, write: Write) {
        for (lbn, blocks) in write.early {
            let (from, length) = ((lbn - place) * self.block_bytes, u64::from(blocks) * self.block_bytes);
            if let Err(error) = write.contents.put(store, lbn * self.block_bytes, from, length) {
                self.refusal.get_or_insert(error);
                self.is_incomplete = true;
            }
        }
    }

    /// Checks that the store has what the answer to the request of that rank promises: of a flush, everything that the device
    /// has on its media, of another request its own blocks.
    ///
    /// # Errors
    /// A refusal of such blocks.
    pub(super) fn promise(&mut self, store: &Store, number: u64, op: Operation) -> Result<(), StoreError> {
        let Some(unsettled) = &mut self.unsettled else { return Ok(()) };
        match unsettled.retry(store) {
            Err(error) if op == Operation::Flush || unsettled.is_refused(number) => Err(error),
            _ => Ok(()),
        }
    }

    /// Keeps the contents before a write of `written`, and those that the write should have given its blocks.
    fn keep_what_changes(
        &mut self,
        store: &Store,
        completion: &Completion,
        contents: &Contents,
        (place, end): (u64, u64),
    ) -> Result<(), StoreError> {
        if self.before.is_none() && self.pristine.is_none() {
            return Ok(());
        }
        let mut held = vec![0; ((end - place) * self.block_bytes) as usize];
        self.view(store, place * self.block_bytes, &mut held)?;
        if let Some(before) = &mut self.before {
            before.keep(place, &held)?;
        }
        let request = &completion.request;
        let Some(pristine) = self.pristine.as_mut().filter(|_| completion.outcome.status.is_success()) else {
            return Ok(());
        };
        if completion.outcome.effect.is_none() {
            pristine.forget(place, end);
            return Ok(());
        }
        pristine.keep_first(place, &held)?;
        let mut right = vec![0; (u64::from(request.blocks) * self.block_bytes) as usize];
        contents.fill(0, &mut right);
        pristine.keep(request.lbn, &right)?;
        if place == request.lbn {
            pristine.forget(place, end);
        }
        Ok(())
    }

    /// The blocks from `lbn` on as far as the store has them: the device may be larger than what of it is served. An empty range
    /// begins at 0.
    fn served(&self, store: &Store, lbn: u64, blocks: u32) -> (u64, u64) {
        let end = (lbn + u64::from(blocks)).min(store.size().as_bytes() / self.block_bytes);
        if lbn < end { (lbn, end) } else { (0, 0) }
    }

    /// Takes an event of the device. Blocks that are durable go to the store; those that the store refuses stay.
    pub(super) fn note(&mut self, store: &Store, event: &Event) {
        let (start, end) = self.served(store, event.lbn, event.blocks);
        let blocks = (end - start) as u32;
        let Some(unsettled) = &mut self.unsettled else { return };
        match (&event.kind, event.request) {
            (EventKind::Durable { .. } | EventKind::Torn | EventKind::Unreadable, _) if blocks == 0 => {}
            (EventKind::Durable { .. }, Some(number)) => match self.writes.get_mut(&number.0) {
                Some(write) => write.early.push((start, blocks)),
                None => {
                    let settled = unsettled.settle(store, number.0, start, blocks);
                    self.refusal = self.refusal.take().or(settled.err());
                }
            },
            (EventKind::Torn, Some(number)) => {
                let undone = match self.writes.get_mut(&number.0) {
                    Some(write) => {
                        write.forget_early(start, end);
                        Ok(())
                    }
                    None => unsettled.undo(store, number.0, start, end),
                };
                self.is_incomplete |= undone.is_err();
                self.refusal = self.refusal.take().or(undone.err());
            }
            (EventKind::Unreadable, _) => {
                // Nothing brings the contents back.
                let discarded = store.discard(start * self.block_bytes, (end - start) * self.block_bytes);
                self.refusal = self.refusal.take().or(discarded.err());
            }
            (EventKind::PowerLoss, _) => self.is_incomplete |= unsettled.lose(),
            _ => {}
        }
    }

    /// Fills `buffer` with what a read with that effect brings from `offset`.
    ///
    /// # Errors
    /// A failure of the store.
    pub(super) fn read(
        &self,
        store: &Store,
        offset: u64,
        effect: DataEffect,
        buffer: &mut [u8],
    ) -> Result<(), StoreError> {
        let offset = match effect.effect() {
            Effect::Misdirected(blocks) => offset
                .checked_add_signed(i64::from(blocks) * self.block_bytes as i64)
                .expect("the wrong place lies in the device"),
            _ => offset,
        };
        self.view(store, offset, buffer)?;
        if let (Effect::Stale, Some(before)) = (effect.effect(), &self.before) {
            before.lay_over(offset, buffer)?;
        }
        let (start, end) = (offset / self.block_bytes, (offset + buffer.len() as u64) / self.block_bytes);
        for (from, to) in self.rotten.within(start, end) {
            for block in from..to {
                let at = ((block - start) * self.block_bytes) as usize;
                rot(block, &mut buffer[at..at + self.block_bytes as usize]);
            }
        }
        Ok(())
    }

    /// Fills `buffer` with what completed writes left at `offset`.
    fn view(&self, store: &Store, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        // The device may be larger than what of it is served.
        let inside = store.size().as_bytes().saturating_sub(offset).min(buffer.len() as u64) as usize;
        let (inside, beyond) = buffer.split_at_mut(inside);
        beyond.fill(0);
        if !inside.is_empty() {
            store.read(offset, inside)?;
        }
        if let Some(unsettled) = &self.unsettled {
            unsettled.lay_over(offset, buffer);
        }
        Ok(())
    }

    /// Returns true if the power may be lost, so that durable blocks must be known.
    pub(super) const fn needs_events(&self) -> bool {
        self.unsettled.is_some()
    }

    /// Ends in order: what has completed goes to the store, and so does what became of it, or, if it was kept, what faults
    /// kept from it. The bits of rotten blocks change in a store in memory alone: a file goes on as it was written.
    ///
    /// # Errors
    /// The first refusal of blocks that the store should have and has not.
    pub(super) fn finish(mut self, store: &Store) -> Result<(), StoreError> {
        let mut result = match &mut self.unsettled {
            Some(unsettled) => unsettled.settle_all(store),
            None => Ok(()),
        };
        if let Some(refusal) = self.refusal.take().filter(|_| self.is_incomplete) {
            result = result.and(Err(refusal));
        }
        if let Some(pristine) = &self.pristine {
            return result.and(pristine.copy_to(store));
        }
        if let Store::Ram(_) = store {
            let mut bytes = vec![0; self.block_bytes as usize];
            for block in self.rotten.within(0, u64::MAX).flat_map(|(from, to)| from..to) {
                store.read(block * self.block_bytes, &mut bytes)?;
                rot(block, &mut bytes);
                store.write(block * self.block_bytes, &bytes)?;
            }
        }
        result
    }
}

/// Returns true if the store has space for those bytes already.
fn has_space(store: &Store, offset: u64, length: u64) -> Result<bool, StoreError> {
    for extent in store.extents(offset, length)? {
        if extent?.allocation == Allocation::Hole {
            return Ok(false);
        }
    }
    Ok(true)
}
