//! CPUs: what each one executes, and for how long.
//!
//! ```text
//! stack of interrupt handlers  ▸  context switch  ▸  process  ▸  idle
//! ```
//! A CPU executes the first of these that it has. An interrupt stops what is below it, whose computing time goes on
//! when the handler is complete.

use seeklab_core::{Duration, Instant};

use super::list::NONE;

/// Work of an interrupt handler, done when its computing time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// The request is complete, successfully or not.
    Complete {
        request: u64,
        is_ok: bool,
    },
    Clock,
}

/// An interrupt handler on the stack of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Handler {
    pub(super) work: Work,
    pub(super) remaining: Duration,
}

/// A CPU.
#[derive(Debug, Clone)]
pub(super) struct Cpu {
    /// Interrupt handlers, the running one last.
    pub(super) stack: Vec<Handler>,
    /// Remaining time of the context switch to its process.
    pub(super) switching: Duration,
    /// Its process, or [`NONE`].
    pub(super) process: u32,
    /// Start of what it executes.
    pub(super) since: Instant,
    /// End of what it executes; `None` if it is idle.
    pub(super) due: Option<Instant>,
    /// Number of that beginning among those of all CPUs: of several ends at one time, the first begun comes first.
    pub(super) order: u64,
}

/// Use of a CPU at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// A handler or a context switch.
    System,
    Process(u32),
    Idle,
}

impl Cpu {
    pub(super) const fn new() -> Self {
        Self {
            stack: Vec::new(),
            switching: Duration::ZERO,
            process: NONE,
            since: Instant::ZERO,
            due: None,
            order: 0,
        }
    }

    pub(super) const fn current(&self) -> Use {
        if !self.stack.is_empty() || !self.switching.is_zero() {
            Use::System
        } else if self.process == NONE {
            Use::Idle
        } else {
            Use::Process(self.process)
        }
    }

    /// CPU time of its process since the CPU began what it executes.
    pub(super) fn computing_time(&self, now: Instant) -> Duration {
        match (self.current(), self.due) {
            (Use::Process(_), Some(_)) => now.saturating_since(self.since),
            _ => Duration::ZERO,
        }
    }
}
