//! The syncer: a process of the system that writes dirty blocks.
//!
//! It sweeps over a share of the frames each interval and writes the dirty ones, as UNIX SVR4 MP does \[Ganger & Patt
//! 1998, section 5.2\]. If processes wait for memory, or because too much is dirty, it first writes the blocks that
//! became dirty first. It runs before all other processes.

use std::sync::Arc;

use seeklab_core::{Criticality, Instant, Operation, Stream};

use super::list::NONE;
use super::page_cache::FrameState;
use super::process::{Activity, Next, State, Sweep, Wait};
use super::profile::Settings;
use super::{Host, SYNCER};

/// State of the syncer beside its process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Syncer {
    /// Start of the next sweep.
    pub(super) due: Instant,
    /// Frames in the order of the sweep. Empty if that is the order of their first use.
    order: Arc<[u32]>,
    /// Place in that order at which the sweep goes on.
    hand: u32,
    /// Frames that the sweep has yet to pass.
    pub(super) sweep_left: u32,
    /// Blocks to write because processes wait.
    pub(super) wanted: u32,
}

impl Syncer {
    /// The syncer before its first sweep. `stream` draws the order of the parts of memory.
    pub(super) fn new(settings: &Settings, mut stream: Stream) -> Self {
        let due = Instant::ZERO + settings.sweep_interval;
        let part = settings.contiguous_frames;
        let mut order = Vec::new();
        if part < settings.frames {
            let mut starts: Vec<u32> = (0..settings.frames).step_by(part as usize).collect();
            for last in (1..starts.len()).rev() {
                starts.swap(last, stream.below(last as u64 + 1) as usize);
            }
            order.reserve(settings.frames as usize);
            for start in starts {
                order.extend(start..start.saturating_add(part).min(settings.frames));
            }
        }
        Self { due, order: order.into(), hand: 0, sweep_left: 0, wanted: 0 }
    }
}

impl Host {
    /// Begins a sweep.
    pub(super) fn begin_sweep(&mut self) {
        if self.linux.is_some() {
            self.syncer.due = Instant::MAX;
            self.wake_syncer();
            return;
        }
        self.syncer.due += self.settings.sweep_interval;
        self.syncer.sweep_left =
            self.syncer.sweep_left.saturating_add(self.settings.sweep_frames).min(self.settings.frames);
        self.wake_syncer();
    }

    /// Lets the syncer write that many blocks before it sweeps.
    pub(super) fn request_write_back(&mut self, blocks: u32) {
        self.syncer.wanted = self.syncer.wanted.max(blocks);
        self.wake_syncer();
    }

    pub(super) fn wake_syncer(&mut self) {
        if matches!(self.processes[SYNCER as usize].state, State::Waiting(_)) {
            self.wake(SYNCER);
        }
    }

    /// A step of the syncer.
    pub(super) fn sweep(&mut self, pid: u32, state: Sweep) -> Next {
        if state.frame != NONE {
            self.issue_frame(pid, state.frame, Operation::Write, Criticality::TimeNoncritical);
            self.processes[pid as usize].activity = Activity::Sweep(Sweep { frame: NONE });
            return Next::Continue;
        }
        let Some(frame) = self.next_to_write() else { return Next::Wait(Wait::Time) };
        self.cache.set_state(frame, FrameState::Writing);
        self.processes[pid as usize].activity = Activity::Sweep(Sweep { frame });
        Next::Compute(self.settings.submission)
    }

    fn next_to_write(&mut self) -> Option<u32> {
        if self.syncer.wanted > 0 {
            self.syncer.wanted -= 1;
            if let Some(frame) = self.cache.oldest_dirty() {
                return Some(frame);
            }
            self.syncer.wanted = 0;
        }
        while self.syncer.sweep_left > 0 {
            let hand = self.syncer.hand;
            let frame = self.syncer.order.get(hand as usize).copied().unwrap_or(hand);
            self.syncer.sweep_left -= 1;
            self.syncer.hand = if hand + 1 < self.settings.frames { hand + 1 } else { 0 };
            if frame < self.cache.len() && self.cache.frame(frame).state == FrameState::Dirty {
                return Some(frame);
            }
        }
        None
    }
}
