//! The loop that drives a frontend and the backend behind it.
//!
//! ```text
//!     ┌─────────────────────────────────────────────────────────────────────────┐
//!     ▼                                                                         │
//!   wait for commands, ─▶ receive ─▶ backend takes ─▶ backend prepares ─▶ send (MP2)
//!   the deadline, Stop               each command     replies       ▲       │
//!                                                                   └───────┘ while there are more
//! ```

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use seeklab_core::{Duration, Instant};

use super::{Command, Departure, Frontend, Stop, Tag};
use crate::clock::{Wait, Waiter};

/// The next step of the loop, as the backend wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Send the prepared replies at that time, and not earlier; then ask for more replies.
    SendAt(Instant),
    /// Wait for commands, until then at the latest; `None` has no limit.
    WaitUntil(Option<Instant>),
}

/// Device behind a frontend.
pub trait Backend {
    /// A command arrived.
    fn take(&mut self, command: Command<'_>);

    /// Prepares replies that are due at `now`, or one that is due soon. The loop alone sends them.
    ///
    /// # Errors
    /// A failure after which the backend cannot go on.
    fn reply(&mut self, now: Instant, frontend: &mut dyn Frontend) -> io::Result<Next>;

    /// The reply to `tag` has left, or never will.
    fn left(&mut self, tag: Tag, departure: Departure);

    /// Returns a descriptor, if any, that becomes readable if a call is needed before any deadline.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns the longest time, if any, for which the loop may sleep before it asks for replies again.
    fn interval(&self) -> Option<Duration> {
        None
    }
}

/// Time for clients to take the last answers after serving ends.
const GRACE: Duration = Duration::from_s(5);

/// Drives `frontend` until `stop` is requested and every answer has left (or the clients have had five
/// seconds to take them), waiting by `waiter`.
///
/// # Errors
/// A failure after which a frontend or the backend cannot go on. A client's misbehaviour is none.
pub fn serve(
    frontend: &mut dyn Frontend,
    backend: &mut dyn Backend,
    waiter: &mut Waiter,
    stop: &Stop,
) -> io::Result<()> {
    let clock = waiter.clock();
    let (mut deadline, mut last) = (None, None);
    let mut give_up = None;
    loop {
        if give_up.is_none() && stop.is_asked() {
            frontend.shut_down();
            give_up = Some(clock.now() + GRACE);
        }
        if give_up.is_some_and(|give_up| frontend.is_drained() || clock.now() >= give_up) {
            return Ok(());
        }
        if !frontend.is_busy() {
            let next: Option<Instant> = [deadline, give_up, frontend.deadline()].into_iter().flatten().min();
            let now = clock.now();
            let plan = waiter.begin(now, next, last);
            if plan != Wait::Spin {
                // After a stop request, the descriptor stays readable.
                let stop = give_up.is_none().then(|| stop.descriptor());
                let slept_from = clock.now();
                let shorter = plan.within(slept_from, backend.interval());
                sleep(shorter, slept_from, frontend.descriptor(), backend.descriptor(), stop)?;
                waiter.woke(plan, now, clock.now(), next);
            }
        }
        let mut worked = false;
        frontend.receive(&mut |command| {
            worked = true;
            last = Some(command.arrived);
            backend.take(command);
        })?;
        let now = clock.now();
        worked |= deadline.is_some_and(|deadline| now >= deadline);
        deadline = respond(now, frontend, backend, waiter, &mut worked)?;
        if worked {
            waiter.worked();
        }
    }
}

/// Lets every reply leave that is due now or soon; returns when there is more to do at the latest.
fn respond(
    mut now: Instant,
    frontend: &mut dyn Frontend,
    backend: &mut dyn Backend,
    waiter: &Waiter,
    worked: &mut bool,
) -> io::Result<Option<Instant>> {
    let clock = waiter.clock();
    loop {
        let next = backend.reply(now, frontend)?;
        if let Next::SendAt(at) = next {
            while clock.now() < at {
                std::hint::spin_loop();
            }
        }
        frontend.send(&mut |tag, departure| {
            *worked = true;
            backend.left(tag, departure);
        })?;
        match next {
            Next::SendAt(_) => now = clock.now(),
            Next::WaitUntil(deadline) => return Ok(deadline),
        }
    }
}

/// Sleeps until a descriptor is readable or the time has come.
fn sleep(
    plan: Wait,
    now: Instant,
    frontend: BorrowedFd<'_>,
    backend: Option<BorrowedFd<'_>>,
    stop: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let timeout = match plan {
        Wait::Spin => return Ok(()),
        Wait::Forever => None,
        Wait::Until(until) => {
            let ns = until.saturating_since(now).as_ns();
            Some(Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ })
        }
    };
    let mut watched = [
        PollFd::from_borrowed_fd(frontend, PollFlags::IN),
        PollFd::from_borrowed_fd(backend.unwrap_or(frontend), PollFlags::IN),
        PollFd::from_borrowed_fd(stop.unwrap_or(frontend), PollFlags::IN),
    ];
    match poll(&mut watched, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
