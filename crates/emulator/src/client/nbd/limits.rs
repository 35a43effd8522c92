//! Limits of the time until the first request: a deadline, and a stop by the caller.

use seeklab_core::{Duration, Instant};

use crate::clock::Clock;

/// Time after which a server that does not take a connection or says nothing is given up.
const PATIENCE: Duration = Duration::from_s(10);
/// Time between two looks if the caller wants an end.
const LOOK: Duration = Duration::from_ms(50);

/// Limits of an attempt to connect, from the first packet to the export.
#[derive(Clone, Copy)]
pub(super) struct Limits<'a> {
    clock: Clock,
    deadline: Instant,
    is_stopped: &'a dyn Fn() -> bool,
}

/// Reason for which an attempt ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expired {
    /// The caller wants an end.
    Stopped,
    /// The deadline has passed.
    Late,
}

impl<'a> Limits<'a> {
    /// The limits of an attempt that begins now.
    pub(super) fn begin(clock: Clock, is_stopped: &'a dyn Fn() -> bool) -> Self {
        Self { clock, deadline: clock.now() + PATIENCE, is_stopped }
    }

    /// Limits with an equal part of the time that is left for the first of so many attempts.
    pub(super) fn first_of(&self, attempts: u64) -> Self {
        let now = self.clock.now();
        let left = self.deadline.saturating_since(now).as_ns() / attempts.max(1);
        Self { deadline: now + Duration::from_ns(left), ..*self }
    }

    /// Time until which to wait before the next call.
    ///
    /// # Errors
    /// If the attempt is to end.
    pub(super) fn look(&self) -> Result<Instant, Expired> {
        if (self.is_stopped)() {
            return Err(Expired::Stopped);
        }
        let now = self.clock.now();
        if now >= self.deadline { Err(Expired::Late) } else { Ok(self.deadline.min(now + LOOK)) }
    }

    /// As [`look`](Self::look), as the length of the wait.
    pub(super) fn wait(&self) -> Result<std::time::Duration, Expired> {
        let until = self.look()?;
        Ok(std::time::Duration::from_nanos(until.saturating_since(self.clock.now()).as_ns()))
    }

    pub(super) const fn clock(&self) -> Clock {
        self.clock
    }

    /// Seconds after which a silent server is given up.
    pub(super) const fn seconds() -> u64 {
        PATIENCE.as_ns() / 1_000_000_000
    }
}
