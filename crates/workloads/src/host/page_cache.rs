//! The page cache: frames of memory that hold blocks of files.
//!
//! ```text
//!            read complete                 write
//! Reading ─────────────────▶ Clean ─────────────────▶ Dirty
//!    ▲                       │   ▲                      │ syncer, sync
//!    └── allocated ◀─────────┘   └── write complete ── Writing
//!        (least recently used)
//! ```
//! # Scope and limits
//! - Replacement is among clean frames: on SVR4 strictly by least recent use, on Linux by [`TwoLists`]. A frame that was written to the
//!   device counts as used when the write completed.
//! - A frame that a process holds is not replaced: one whose read it waited for, until the process has run, and one whose access
//!   begins a read-ahead, until that is submitted.
//! - Frames are numbered in the order of their first use. The syncer sweeps over the numbers.

use seeklab_core::Instant;

use super::list::{Links, List, NONE};
use super::page_index::PageIndex;
use super::two_lists::TwoLists;

/// State of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FrameState {
    Free,
    /// The device is reading, or will be when the process has submitted the request.
    Reading,
    Clean,
    Dirty,
    /// The device is writing, or will be.
    Writing,
}

/// A frame of memory.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    /// The block that it holds, among those of all files.
    pub(super) page: u64,
    pub(super) state: FrameState,
    /// Number of its request, while the state is `Reading` or `Writing` and the request is issued.
    pub(super) request: Option<u64>,
    /// Time at which a read-ahead was issued, until its block is needed.
    pub(super) ahead_since: Option<Instant>,
    /// Processes that wait for the frame.
    pub(super) waiting: List,
    /// The next frame of the same request, or [`NONE`].
    pub(super) chain: u32,
    /// Processes that hold the frame, so that its block stays in memory.
    holders: u32,
    /// True if the access to the block begins a read-ahead.
    pub(super) is_marked: bool,
    /// True if the block changed while the device was writing it.
    pub(super) is_dirtied_again: bool,
    /// Of Linux: true if it does not follow the frame of the block before it in the memory of the machine, as far as known.
    pub(super) begins_segment: bool,
    /// Of Linux: true if it was accessed while inactive, and if it is active.
    is_referenced: bool,
    is_active: bool,
}

/// Blocks of files in memory.
#[derive(Debug, Clone)]
pub(super) struct PageCache {
    frames: Vec<Frame>,
    frames_max: u32,
    index: PageIndex,
    links: Links,
    free: List,
    /// Least recently used first. Of Linux: the inactive ones.
    clean: List,
    /// Of Linux: clean and active frames, in the order in which they became both.
    active: List,
    /// Of Linux.
    lists: Option<Box<TwoLists>>,
    /// In the order in which they became dirty.
    dirty: List,
    writing: List,
    /// Blocks read ahead that were evicted before they were needed.
    unneeded: u64,
}

impl PageCache {
    pub(super) const fn new(frames_max: u32) -> Self {
        Self {
            frames: Vec::new(),
            frames_max,
            index: PageIndex::new(),
            links: Links { of: Vec::new() },
            free: List::EMPTY,
            clean: List::EMPTY,
            active: List::EMPTY,
            lists: None,
            dirty: List::EMPTY,
            writing: List::EMPTY,
            unneeded: 0,
        }
    }

    /// Replaces blocks as Linux does.
    pub(super) fn with_two_lists(mut self) -> Self {
        self.lists = Some(Box::default());
        self
    }

    pub(super) fn frame(&self, frame: u32) -> &Frame {
        &self.frames[frame as usize]
    }

    pub(super) fn frame_mut(&mut self, frame: u32) -> &mut Frame {
        &mut self.frames[frame as usize]
    }

    /// The frame that holds a block.
    pub(super) fn find(&self, page: u64) -> Option<u32> {
        self.index.get(page)
    }

    /// Frames that were ever in use.
    pub(super) fn len(&self) -> u32 {
        self.frames.len() as u32
    }

    /// Frames that are dirty or being written.
    pub(super) const fn dirty_count(&self) -> u32 {
        self.dirty.len + self.writing.len
    }

    /// Frames that are dirty and not being written.
    pub(super) const fn to_write_count(&self) -> u32 {
        self.dirty.len
    }

    /// The dirty frame that became dirty first.
    pub(super) fn oldest_dirty(&self) -> Option<u32> {
        (self.dirty.first != NONE).then_some(self.dirty.first)
    }

    /// The first dirty frame whose block `is_chosen`.
    pub(super) fn find_dirty(&self, is_chosen: impl Fn(u64) -> bool) -> Option<u32> {
        self.find_on(self.dirty, is_chosen)
    }

    /// The first frame that is being written whose block `is_chosen`.
    pub(super) fn find_writing(&self, is_chosen: impl Fn(u64) -> bool) -> Option<u32> {
        self.find_on(self.writing, is_chosen)
    }

    fn find_on(&self, list: List, is_chosen: impl Fn(u64) -> bool) -> Option<u32> {
        let mut frame = list.first;
        while frame != NONE {
            if is_chosen(self.frames[frame as usize].page) {
                return Some(frame);
            }
            frame = self.links.next(frame);
        }
        None
    }

    /// A frame that the device is reading, or will be.
    pub(super) fn find_reading(&self) -> Option<u32> {
        let found = self.frames.iter().position(|frame| frame.state == FrameState::Reading);
        found.map(|frame| frame as u32)
    }

    /// Frees all clean frames.
    pub(super) fn drop_clean(&mut self) {
        while let Some(frame) = [self.clean.first, self.active.first].into_iter().find(|first| *first != NONE)
        {
            self.unneeded += u64::from(self.frames[frame as usize].ahead_since.is_some());
            self.set_state(frame, FrameState::Free);
        }
    }

    /// Number of blocks read ahead that nobody has needed.
    pub(super) fn unneeded(&self) -> u64 {
        let kept = self.frames.iter().filter(|frame| frame.ahead_since.is_some()).count();
        self.unneeded + kept as u64
    }

    /// Takes a frame for a block that is not in memory, in state `Reading`. `None` if no frame is free or can be replaced.
    pub(super) fn allocate(&mut self, page: u64) -> Option<u32> {
        let frame = if let Some(frame) = self.links.pop_front(&mut self.free) {
            frame
        } else if self.len() < self.frames_max {
            self.links.add();
            self.frames.push(Frame {
                page,
                state: FrameState::Free,
                request: None,
                ahead_since: None,
                waiting: List::EMPTY,
                chain: NONE,
                holders: 0,
                is_marked: false,
                is_dirtied_again: false,
                begins_segment: false,
                is_referenced: false,
                is_active: false,
            });
            self.len() - 1
        } else {
            self.evict()?
        };
        let is_active = self.lists.as_mut().is_some_and(|lists| lists.enter(page));
        let taken = &mut self.frames[frame as usize];
        (taken.page, taken.state) = (page, FrameState::Reading);
        (taken.chain, taken.is_marked, taken.is_dirtied_again) = (NONE, false, false);
        (taken.begins_segment, taken.is_referenced, taken.is_active) = (false, false, is_active);
        self.index.insert(page, frame);
        Some(frame)
    }

    /// A process holds a frame from now on: its block stays in memory.
    pub(super) fn hold(&mut self, frame: u32) {
        self.frames[frame as usize].holders += 1;
    }

    /// A process no longer holds a frame. Returns true if the frame can be replaced from now on.
    pub(super) fn release(&mut self, frame: u32) -> bool {
        let released = &mut self.frames[frame as usize];
        released.holders -= 1;
        released.holders == 0 && released.state == FrameState::Clean
    }

    /// The first frame of a list that no process holds.
    fn first_replaceable(&self, list: List) -> Option<u32> {
        let mut frame = list.first;
        while frame != NONE && self.frames[frame as usize].holders > 0 {
            frame = self.links.next(frame);
        }
        (frame != NONE).then_some(frame)
    }

    /// Takes the block that gives way from memory. `None` if no frame is clean, or processes hold all that are.
    fn evict(&mut self) -> Option<u32> {
        while self.lists.as_ref().is_some_and(|lists| lists.is_inactive_low())
            && let Some(frame) = self.links.pop_front(&mut self.active)
        {
            self.frames[frame as usize].is_active = false;
            self.links.push_back(&mut self.clean, frame);
            self.lists.as_mut().expect("they were just there").deactivate();
        }
        let frame = if let Some(frame) = self.first_replaceable(self.clean) {
            self.links.remove(&mut self.clean, frame);
            frame
        } else {
            let frame = self.first_replaceable(self.active)?;
            self.links.remove(&mut self.active, frame);
            frame
        };
        let evicted = &mut self.frames[frame as usize];
        self.unneeded += u64::from(evicted.ahead_since.take().is_some());
        self.index.remove(evicted.page);
        if let Some(lists) = &mut self.lists {
            lists.evict(evicted.page, evicted.is_active);
        }
        Some(frame)
    }

    /// A frame is read, or on SVR4 used in any way.
    pub(super) fn touch(&mut self, frame: u32) {
        let state = self.frames[frame as usize].state;
        let Some(lists) = &mut self.lists else {
            if state == FrameState::Clean {
                self.links.remove(&mut self.clean, frame);
                self.links.push_back(&mut self.clean, frame);
            }
            return;
        };
        let touched = &mut self.frames[frame as usize];
        if state == FrameState::Reading || touched.is_active {
            return;
        }
        if !std::mem::replace(&mut touched.is_referenced, true) {
            return;
        }
        (touched.is_referenced, touched.is_active) = (false, true);
        lists.activate();
        if state == FrameState::Clean {
            self.links.remove(&mut self.clean, frame);
            self.links.push_back(&mut self.active, frame);
        }
    }

    /// Of Linux: true if a block gave way to another since it was last in memory.
    pub(super) fn was_evicted(&self, page: u64) -> bool {
        self.lists.as_ref().is_some_and(|lists| lists.was_evicted(page))
    }

    /// A frame that was just allocated is active from the start.
    pub(super) fn activate(&mut self, frame: u32) {
        let allocated = &mut self.frames[frame as usize];
        debug_assert_eq!(allocated.state, FrameState::Reading, "it is on no list yet");
        if let Some(lists) = &mut self.lists
            && !std::mem::replace(&mut allocated.is_active, true)
        {
            lists.activate();
        }
    }

    /// Gives a frame another state.
    ///
    /// # Panics
    /// If a frame is freed while processes wait for it: a bug.
    pub(super) fn set_state(&mut self, frame: u32, state: FrameState) {
        let Frame { state: old, is_active, .. } = self.frames[frame as usize];
        if let Some(list) = self.list_of(old, is_active) {
            let mut taken = *list;
            self.links.remove(&mut taken, frame);
            *self.list_of(old, is_active).expect("it was just there") = taken;
        }
        if state == FrameState::Free {
            let freed = &mut self.frames[frame as usize];
            assert!(freed.waiting == List::EMPTY, "processes wait for a frame that is freed");
            freed.ahead_since = None;
            self.index.remove(freed.page);
            if let Some(lists) = self.lists.as_mut().filter(|_| old != FrameState::Free) {
                lists.leave(is_active);
            }
        }
        self.frames[frame as usize].state = state;
        if let Some(list) = self.list_of(state, is_active) {
            let mut longer = *list;
            self.links.push_back(&mut longer, frame);
            *self.list_of(state, is_active).expect("it was just there") = longer;
        }
    }

    /// The list of the frames of a state, which an active or inactive frame is on.
    fn list_of(&mut self, state: FrameState, is_active: bool) -> Option<&mut List> {
        match state {
            FrameState::Free => Some(&mut self.free),
            FrameState::Clean if is_active => Some(&mut self.active),
            FrameState::Clean => Some(&mut self.clean),
            FrameState::Dirty => Some(&mut self.dirty),
            FrameState::Writing => Some(&mut self.writing),
            FrameState::Reading => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_that_is_active_from_the_start_outlasts_those_that_were_used_once() {
        let mut cache = PageCache::new(4).with_two_lists();
        for page in 0..4 {
            let frame = cache.allocate(page).expect("there is memory");
            if page == 0 {
                cache.activate(frame);
            }
            cache.set_state(frame, FrameState::Clean);
        }
        let evicted: Vec<u64> = (4..7)
            .map(|page| {
                let frame = cache.allocate(page).expect("there is memory");
                cache.set_state(frame, FrameState::Clean);
                u64::from(frame)
            })
            .collect();
        assert_eq!(evicted, [1, 2, 3]);
        assert!(cache.find(0).is_some());
    }

    #[test]
    fn least_recently_used_clean_frame_is_taken() {
        let mut cache = PageCache::new(3);
        let frames: Vec<u32> =
            [7, 5000, 9].map(|page| cache.allocate(page).expect("there is memory")).to_vec();
        assert_eq!(frames, [0, 1, 2]);
        assert_eq!(cache.allocate(1), None, "the device is reading all of them");
        frames.iter().for_each(|frame| cache.set_state(*frame, FrameState::Clean));
        cache.touch(0);
        cache.set_state(1, FrameState::Dirty);
        assert_eq!(cache.allocate(1), Some(2), "1 is dirty, and 0 was used later");
        assert_eq!((cache.find(9), cache.find(1), cache.find(5000)), (None, Some(2), Some(1)));
        assert_eq!(cache.dirty_count(), 1);
        cache.set_state(2, FrameState::Free);
        assert_eq!((cache.find(1), cache.allocate(2), cache.allocate(3)), (None, Some(2), Some(0)));
    }

    /// Reads a block, which the device has at once.
    fn read(cache: &mut PageCache, page: u64) {
        let frame = cache.find(page).unwrap_or_else(|| {
            let frame = cache.allocate(page).expect("there is memory");
            cache.set_state(frame, FrameState::Clean);
            frame
        });
        cache.touch(frame);
    }

    #[test]
    fn blocks_that_are_read_once_do_not_replace_those_that_linux_uses_again() {
        let mut cache = PageCache::new(8).with_two_lists();
        [1, 2, 3, 1, 2, 3].into_iter().for_each(|page| read(&mut cache, page));
        (100..200).for_each(|page| read(&mut cache, page));
        assert!([1, 2, 3].into_iter().all(|page| cache.find(page).is_some()), "they are active");
        // A block that comes back soon after it left is active, too.
        [194, 193].into_iter().for_each(|page| read(&mut cache, page));
        (200..300).for_each(|page| read(&mut cache, page));
        let left: Vec<u64> =
            [1, 2, 3, 193, 194].into_iter().filter(|page| cache.find(*page).is_some()).collect();
        assert_eq!(left, [1, 2, 3, 194]);
    }

    #[test]
    fn frame_that_a_process_holds_is_not_replaced() {
        for mut cache in [PageCache::new(2), PageCache::new(2).with_two_lists()] {
            [1, 2].into_iter().for_each(|page| read(&mut cache, page));
            cache.hold(0);
            cache.hold(0);
            assert_eq!(cache.allocate(3), Some(1), "0 was used before, and is held");
            assert_eq!(cache.allocate(4), None);
            assert!(!cache.release(0), "another process holds it");
            assert!(cache.release(0));
            assert_eq!(cache.allocate(4), Some(0));
        }
    }

    #[test]
    fn block_read_ahead_that_is_evicted_or_kept_was_not_needed() {
        let mut cache = PageCache::new(2);
        for page in [1, 2] {
            let frame = cache.allocate(page).expect("there is memory");
            cache.frame_mut(frame).ahead_since = Some(Instant::ZERO);
            cache.set_state(frame, FrameState::Clean);
        }
        assert_eq!(cache.unneeded(), 2);
        cache.frame_mut(0).ahead_since = None;
        assert_eq!(cache.unneeded(), 1);
        assert!(cache.allocate(3).is_some() && cache.allocate(4).is_some());
        assert_eq!(cache.unneeded(), 1);
    }

    #[test]
    fn dirty_frames_are_found_in_order() {
        let mut cache = PageCache::new(8);
        for page in [40, 10, 30] {
            let frame = cache.allocate(page).expect("there is memory");
            cache.set_state(frame, FrameState::Dirty);
        }
        assert_eq!((cache.oldest_dirty(), cache.find_dirty(|page| page < 40)), (Some(0), Some(1)));
        cache.set_state(1, FrameState::Writing);
        assert_eq!((cache.find_dirty(|page| page < 40), cache.find_writing(|_| true)), (Some(2), Some(1)));
        assert_eq!((cache.oldest_dirty(), cache.dirty_count()), (Some(0), 3));
    }
}
