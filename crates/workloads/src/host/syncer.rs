//! The syncer: a process of the system that writes dirty blocks.
//!
//! It sweeps over a share of the frames each interval and writes the dirty ones, as UNIX SVR4 MP does \[Ganger & Patt
//! 1998, section 5.2\]. If processes wait for memory, or because too much is dirty, it first writes the blocks that
//! became dirty first. It runs before all other processes.

use seeklab_core::{Criticality, Instant, Operation};

use super::list::NONE;
use super::page_cache::FrameState;
use super::process::{Activity, Next, State, Sweep, Wait};
use super::{Host, SYNCER};

/// State of the syncer beside its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Syncer {
    /// Start of the next sweep.
    pub(super) due: Instant,
    /// The frame at which the sweep goes on.
    pub(super) hand: u32,
    /// Frames that the sweep has yet to pass.
    pub(super) sweep_left: u32,
    /// Blocks to write because processes wait.
    pub(super) wanted: u32,
}

impl Host {
    /// Begins a sweep.
    pub(super) fn begin_sweep(&mut self) {
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

    fn wake_syncer(&mut self) {
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
            let frame = self.syncer.hand;
            self.syncer.sweep_left -= 1;
            self.syncer.hand = if frame + 1 < self.settings.frames { frame + 1 } else { 0 };
            if frame < self.cache.len() && self.cache.frame(frame).state == FrameState::Dirty {
                return Some(frame);
            }
        }
        None
    }
}
