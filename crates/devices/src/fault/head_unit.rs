//! The unit under the heads of a device that may lose its power, and the units that such losses left unreadable.
//!
//! ```text
//! media write   ├── unit ──┼── unit ──┼─[▒▒ loss ]
//!                 durable    durable    blocks of it that are durable are undone, or the others are written
//! ```

use std::collections::VecDeque;

use seeklab_core::{BlockSet, Event, EventKind, Instant, Tearing, TornContents};

use crate::torn::AtCut;

/// Media writes of which a unit may be torn, and units that cannot be read.
#[derive(Debug)]
pub(super) struct HeadUnit {
    tearing: Tearing,
    /// The last events of media writes, as many as can have blocks in one unit. None if a unit is a block.
    recent: VecDeque<Event>,
    /// Blocks of torn units that the media write has not reached since.
    unreadable: BlockSet,
    /// Unreadable blocks that a completed write left in the buffer.
    buffered: BlockSet,
}

impl HeadUnit {
    /// Of a device that has written nothing.
    pub(super) fn new(tearing: Tearing) -> Self {
        let mut unit = Self {
            tearing,
            recent: VecDeque::new(),
            unreadable: BlockSet::default(),
            buffered: BlockSet::default(),
        };
        unit.recent.reserve(unit.recent_max());
        unit
    }

    /// Events to remember: each block of a unit is that of a write, and of the older data that it takes along.
    const fn recent_max(&self) -> usize {
        if self.tearing.unit_blocks > 1 { 2 * self.tearing.unit_blocks as usize } else { 0 }
    }

    /// Blocks are on the media.
    pub(super) fn note_durable(&mut self, event: &Event) {
        let EventKind::Durable { begun } = event.kind else { return };
        self.forget_unreadable(event);
        if begun == event.time || self.recent_max() == 0 {
            return;
        }
        if self.recent.len() == self.recent_max() {
            self.recent.pop_front();
        }
        self.recent.push_back(event.clone());
    }

    fn forget_unreadable(&mut self, event: &Event) {
        if !self.unreadable.is_empty() {
            let end = event.lbn + u64::from(event.blocks);
            self.unreadable.remove(event.lbn, end);
            self.buffered.remove(event.lbn, end);
        }
    }

    /// A write of blocks `start..end` has completed.
    pub(super) fn note_completed(&mut self, start: u64, end: u64) {
        let Self { unreadable, buffered, .. } = self;
        unreadable.within(start, end).for_each(|(from, to)| buffered.insert(from, to));
    }

    /// The first block from `start` to before `end` that cannot be read.
    pub(super) fn first_unreadable(&self, start: u64, end: u64) -> Option<u64> {
        self.unreadable.within(start, end).find_map(|(from, to)| self.buffered.first_missing(from, to))
    }

    /// The power is lost at `now`, and `later` are the events that would have followed. Shows what the media write under way
    /// leaves on the media: blocks that are durable, blocks that are undone, and the unit that cannot be read.
    pub(super) fn tear(&mut self, later: &[Event], now: Instant, mut see: impl FnMut(Event)) {
        self.buffered = BlockSet::default();
        let known = self.recent.len();
        let events: Vec<Event> = self.recent.drain(..).chain(later.iter().cloned()).collect();
        let AtCut { settled, parts, torn } = AtCut::new(&events, now, self.tearing, |_| true);
        let whole = (known..settled).map(|index| events[index].clone());
        let parts_of_later = parts.iter().filter(|part| part.event >= known);
        let written = parts_of_later.filter_map(|part| {
            let event = &events[part.event];
            event.part(part.lbn, part.lbn + u64::from(part.blocks))
        });
        for mut event in whole.chain(written) {
            self.forget_unreadable(&event);
            // Events up to the time of its last block may have been handed out, or the rest of the unit is written with the
            // energy that is left.
            event.time = now;
            if let EventKind::Durable { begun } = &mut event.kind {
                *begun = (*begun).min(now);
            }
            see(event);
        }
        for (index, event) in events.iter().enumerate().take(known).skip(settled) {
            let mut undone = BlockSet::default();
            undone.insert(event.lbn, event.lbn + u64::from(event.blocks));
            for part in parts.iter().filter(|part| part.event == index) {
                undone.remove(part.lbn, part.lbn + u64::from(part.blocks));
            }
            for (start, end) in undone.within(0, u64::MAX) {
                let (blocks, kind) = ((end - start) as u32, EventKind::Torn);
                see(Event { time: now, lbn: start, blocks, kind, ..event.clone() });
            }
        }
        if self.tearing.contents != TornContents::Unreadable {
            return;
        }
        for unit in torn {
            self.unreadable.insert(unit.lbn, unit.lbn + unit.blocks);
            let (blocks, kind) = (unit.blocks as u32, EventKind::Unreadable);
            see(Event { time: now, device: 0, request: None, lbn: unit.lbn, blocks, kind });
        }
    }
}

impl Clone for HeadUnit {
    fn clone(&self) -> Self {
        let mut clone = Self::new(self.tearing);
        clone.clone_from(self);
        clone
    }

    fn clone_from(&mut self, source: &Self) {
        self.tearing = source.tearing;
        self.recent.clone_from(&source.recent);
        self.unreadable.copy_from(&source.unreadable);
        self.buffered.copy_from(&source.buffered);
    }
}
