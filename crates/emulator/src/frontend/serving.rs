//! The loop that drives a frontend and the backend behind it.
//!
//! ```text
//!     ┌──────────────────────────────────────────────────────────┐
//!     ▼                                                          │
//!   wait for commands, ─▶ receive ─▶ backend takes ─▶ backend replies ─▶ send (MP2)
//!   the deadline, Stop               each command     what is due
//! ```

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use seeklab_core::{Duration, Instant};

use super::{Command, Frontend, Stop, Tag};
use crate::clock::{Wait, Waiter};

/// What stands behind a frontend.
pub trait Backend {
    /// A command arrived.
    fn take(&mut self, command: Command<'_>);

    /// Replies to everything due at `now`; returns when it wants to be asked again at the latest.
    ///
    /// # Errors
    /// What the frontend fails with, if it is made to send.
    fn reply(&mut self, now: Instant, frontend: &mut dyn Frontend) -> io::Result<Option<Instant>>;

    /// The reply to `tag` is handed to the kernel now.
    fn left(&mut self, tag: Tag, now: Instant);

    /// Becomes readable when it wants to be asked before any deadline, if there can be such a thing.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// How long clients have to take the last answers once serving ends.
const GRACE: Duration = Duration::from_s(5);

/// Drives `frontend` until `stop` is asked for and every answer has left (or the clients have had five
/// seconds to take them), waiting by `waiter`.
///
/// # Errors
/// What a frontend cannot go on after; a client's misbehaviour is no such thing.
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
            frontend.send(&mut |tag| backend.left(tag, clock.now()))?;
            give_up = Some(clock.now() + GRACE);
        }
        if give_up.is_some_and(|give_up| frontend.is_drained() || clock.now() >= give_up) {
            return Ok(());
        }
        if !frontend.is_busy() {
            let next: Option<Instant> = deadline.into_iter().chain(give_up).min();
            let now = clock.now();
            let plan = waiter.begin(now, next, last);
            if plan != Wait::Spin {
                // Once it is asked for, its descriptor stays readable.
                let stop = give_up.is_none().then(|| stop.descriptor());
                sleep(plan, clock.now(), frontend.descriptor(), backend.descriptor(), stop)?;
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
        // Its own sending, of what was prepared ahead, does not pass here.
        worked |= deadline.is_some_and(|deadline| now >= deadline);
        deadline = backend.reply(now, frontend)?;
        frontend.send(&mut |tag| {
            worked = true;
            backend.left(tag, clock.now());
        })?;
        if worked {
            waiter.worked();
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
