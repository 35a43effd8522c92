//! The buffer pool of a database: leaves of its table in memory of its own, replaced by least recent use.
//!
//! ```text
//! absent ──begin_read──▶ busy ──end_transfer──▶ clean ──change──▶ dirty
//!    ▲                    ▲                       │                 │
//!    └─────── victim ─────┼───────────────────────┘                 │
//!                         └──────────────begin_write────────────────┘
//! ```
//! A leaf that is being transferred is *busy*: clients that come for it wait.

use crate::host::{Links, List, NONE, PageIndex};

/// Leaves in memory.
#[derive(Debug, Clone)]
pub(super) struct BufferPool {
    capacity: usize,
    frames: Vec<Frame>,
    index: PageIndex,
    links: Links,
    /// Least recently used first.
    used: List,
    /// Processes that wait for a frame: the frame, and the process.
    waiting: Vec<(u32, u32)>,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    /// The leaf that it holds, `None` before the first.
    leaf: Option<u64>,
    is_dirty: bool,
    is_busy: bool,
}

/// Result of a look-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lookup {
    Held(u32),
    /// The leaf is being transferred.
    Busy(u32),
    Absent,
}

/// A frame to replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Victim {
    Clean(u32),
    /// It must be written first.
    Dirty(u32),
    /// All frames are being transferred, this one among them.
    Busy(u32),
}

impl BufferPool {
    /// An empty pool of `capacity` leaves.
    ///
    /// # Panics
    /// If that is none.
    pub(super) fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a pool holds at least one leaf");
        Self {
            capacity,
            frames: Vec::new(),
            index: PageIndex::default(),
            links: Links::default(),
            used: List::EMPTY,
            waiting: Vec::new(),
        }
    }

    /// Looks a leaf up. One that is held counts as used.
    pub(super) fn look_up(&mut self, leaf: u64) -> Lookup {
        match self.index.get(leaf) {
            None => Lookup::Absent,
            Some(frame) if self.frames[frame as usize].is_busy => Lookup::Busy(frame),
            Some(frame) => {
                self.touch(frame);
                Lookup::Held(frame)
            }
        }
    }

    /// The least recently used frame that is not busy.
    pub(super) fn victim(&mut self) -> Victim {
        if self.frames.len() < self.capacity {
            let frame = self.frames.len() as u32;
            self.frames.push(Frame { leaf: None, is_dirty: false, is_busy: false });
            self.links.add();
            self.links.push_back(&mut self.used, frame);
            return Victim::Clean(frame);
        }
        let mut frame = self.used.first;
        while frame != NONE {
            let Frame { is_dirty, is_busy, .. } = self.frames[frame as usize];
            if !is_busy {
                return if is_dirty { Victim::Dirty(frame) } else { Victim::Clean(frame) };
            }
            frame = self.links.next(frame);
        }
        Victim::Busy(self.used.first)
    }

    /// A leaf is being read into a clean frame.
    pub(super) fn begin_read(&mut self, frame: u32, leaf: u64) {
        let held = &mut self.frames[frame as usize];
        if let Some(evicted) = held.leaf.replace(leaf) {
            self.index.remove(evicted);
        }
        held.is_busy = true;
        self.index.insert(leaf, frame);
        self.touch(frame);
    }

    /// A dirty frame is being written. Returns its leaf.
    ///
    /// # Panics
    /// If the frame holds no leaf: a bug.
    pub(super) fn begin_write(&mut self, frame: u32) -> u64 {
        let held = &mut self.frames[frame as usize];
        (held.is_dirty, held.is_busy) = (false, true);
        held.leaf.expect("a frame that is written holds a leaf")
    }

    /// The transfer of a frame is over. `wake` gets the processes that waited for it.
    pub(super) fn end_transfer(&mut self, frame: u32, mut wake: impl FnMut(u32)) {
        self.frames[frame as usize].is_busy = false;
        self.waiting.retain(|(awaited, pid)| {
            let is_over = *awaited == frame;
            if is_over {
                wake(*pid);
            }
            !is_over
        });
    }

    /// A process waits for the transfer of a frame.
    pub(super) fn wait(&mut self, frame: u32, pid: u32) {
        self.waiting.push((frame, pid));
    }

    /// The leaf of a frame is changed.
    pub(super) fn change(&mut self, frame: u32) {
        self.frames[frame as usize].is_dirty = true;
    }

    /// The frame of a leaf that is dirty and not busy.
    pub(super) fn find_dirty(&self, leaf: u64) -> Option<u32> {
        let frame = self.index.get(leaf)?;
        let held = &self.frames[frame as usize];
        (held.is_dirty && !held.is_busy).then_some(frame)
    }

    /// Appends all leaves that are dirty.
    pub(super) fn dirty_leaves(&self, leaves: &mut Vec<u64>) {
        let dirty = self.frames.iter().filter(|frame| frame.is_dirty && !frame.is_busy);
        leaves.extend(dirty.filter_map(|frame| frame.leaf));
    }

    fn touch(&mut self, frame: u32) {
        self.links.remove(&mut self.used, frame);
        self.links.push_back(&mut self.used, frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pool: &mut BufferPool, leaf: u64) -> u32 {
        let Victim::Clean(frame) = pool.victim() else { panic!("a clean frame is to be had") };
        pool.begin_read(frame, leaf);
        assert_eq!(pool.look_up(leaf), Lookup::Busy(frame));
        pool.end_transfer(frame, |_| ());
        frame
    }

    #[test]
    fn least_recently_used_leaf_gives_way() {
        let mut pool = BufferPool::new(2);
        let (first, second) = (read(&mut pool, 10), read(&mut pool, 2000));
        assert_eq!(pool.look_up(10), Lookup::Held(first));
        assert_eq!(pool.victim(), Victim::Clean(second));
        assert_eq!(read(&mut pool, 5), second);
        assert_eq!((pool.look_up(2000), pool.look_up(5)), (Lookup::Absent, Lookup::Held(second)));
    }

    #[test]
    fn dirty_leaf_is_written_before_it_gives_way_and_busy_ones_never_do() {
        let mut pool = BufferPool::new(2);
        let (first, second) = (read(&mut pool, 1), read(&mut pool, 2));
        pool.change(first);
        let mut leaves = Vec::new();
        pool.dirty_leaves(&mut leaves);
        assert_eq!((leaves, pool.find_dirty(1), pool.find_dirty(2)), (vec![1], Some(first), None));
        assert_eq!(pool.victim(), Victim::Dirty(first));
        assert_eq!(pool.begin_write(first), 1);
        assert_eq!((pool.victim(), pool.look_up(1)), (Victim::Clean(second), Lookup::Busy(first)));
        pool.change(second);
        pool.begin_write(second);
        assert_eq!(pool.victim(), Victim::Busy(first));
        pool.wait(first, 7);
        pool.wait(second, 8);
        let mut woken = Vec::new();
        pool.end_transfer(first, |pid| woken.push(pid));
        assert_eq!(
            (woken, pool.victim(), pool.look_up(1)),
            (vec![7], Victim::Clean(first), Lookup::Held(first))
        );
    }
}
