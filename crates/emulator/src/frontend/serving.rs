//! The loop that drives a frontend and the backend behind it.
//!
//! ```text
//!     ┌──────────────────────────────────────────────────────────┐
//!     ▼                                                          │
//!   wait for commands, ─▶ receive ─▶ backend takes ─▶ backend replies ─▶ send (MP2)
//!   the deadline, Stop               each command     what is due
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use seeklab_core::{Duration, Instant};

use super::{Command, Frontend, Stop, Tag};

/// What stands behind a frontend.
pub trait Backend {
    /// A command arrived.
    fn take(&mut self, command: Command<'_>);

    /// Replies to everything due at `now`; returns when it wants to be asked again at the latest.
    fn reply(&mut self, now: Instant, frontend: &mut dyn Frontend) -> Option<Instant>;

    /// The reply to `tag` is handed to the kernel now.
    fn left(&mut self, tag: Tag, now: Instant);

    /// Becomes readable when there may be something to reply before the deadline.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// How [`serve`] waits for the next deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Sleep until this long before the deadline; and look for more for as long after a command, since who
    /// asked once asks again soon and waking takes tens of microseconds.
    pub margin: Duration,
    /// Spin for the rest; without it, sleep to the deadline and ignore the margin.
    pub spin: bool,
}

/// What to do until something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// Look again at once.
    Spin,
    /// Sleep until then at most.
    Until(Instant),
    /// Sleep until something arrives.
    Forever,
}

impl Waiting {
    /// The wait for `deadline`, if there is one, seen from `now`; the last command came at `last`.
    fn plan(self, now: Instant, deadline: Option<Instant>, last: Option<Instant>) -> Wait {
        let lingers = last.is_some_and(|last| now.saturating_since(last) < self.margin);
        if self.spin && lingers {
            return Wait::Spin;
        }
        deadline.map_or(Wait::Forever, |deadline| self.until(now, deadline))
    }

    /// The wait for `deadline`, seen from `now`.
    fn until(self, now: Instant, deadline: Instant) -> Wait {
        if deadline <= now {
            return Wait::Spin;
        }
        if !self.spin {
            return Wait::Until(deadline);
        }
        match deadline.as_ns().saturating_sub(self.margin.as_ns()) {
            wake_ns if wake_ns <= now.as_ns() => Wait::Spin,
            wake_ns => Wait::Until(Instant::from_ns(wake_ns)),
        }
    }
}

/// How long clients have to take the last answers once serving ends.
const GRACE: Duration = Duration::from_s(5);

/// Drives `frontend` until `stop` is asked for and every answer has left (or the clients have had five
/// seconds to take them).
///
/// # Errors
/// What a frontend cannot go on after; a client's misbehaviour is no such thing.
pub fn serve(
    frontend: &mut dyn Frontend,
    backend: &mut dyn Backend,
    clock: &dyn Fn() -> Instant,
    waiting: Waiting,
    stop: &Stop,
) -> io::Result<()> {
    let (mut deadline, mut last) = (None, None);
    let mut give_up = None;
    loop {
        if give_up.is_none() && stop.is_asked() {
            frontend.shut_down();
            frontend.send(&mut |tag| backend.left(tag, clock()))?;
            give_up = Some(clock() + GRACE);
        }
        if give_up.is_some_and(|give_up| frontend.is_drained() || clock() >= give_up) {
            return Ok(());
        }
        if !frontend.is_busy() {
            let next: Option<Instant> = deadline.into_iter().chain(give_up).min();
            let now = clock();
            // Once it is asked for, its descriptor stays readable.
            let stop = give_up.is_none().then(|| stop.descriptor());
            let others = [backend.descriptor(), stop];
            wait(waiting.plan(now, next, last), now, frontend.descriptor(), others)?;
        }
        frontend.receive(&mut |command| {
            last = Some(command.arrived);
            backend.take(command);
        })?;
        deadline = backend.reply(clock(), frontend);
        frontend.send(&mut |tag| backend.left(tag, clock()))?;
    }
}

/// Sleeps, unless it is to spin, until a descriptor is readable or the time has come.
fn wait(
    wait: Wait,
    now: Instant,
    frontend: BorrowedFd<'_>,
    others: [Option<BorrowedFd<'_>>; 2],
) -> io::Result<()> {
    let timeout = match wait {
        Wait::Spin => return Ok(()),
        Wait::Forever => None,
        Wait::Until(until) => {
            let ns = until.saturating_since(now).as_ns();
            Some(Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ })
        }
    };
    // Who is absent is watched for nothing, in a place of its own.
    let watch = |other: Option<BorrowedFd<'_>>| other.map_or(PollFlags::empty(), |_| PollFlags::IN);
    let [backend, stop] = others;
    let mut watched = [
        PollFd::from_borrowed_fd(frontend, PollFlags::IN),
        PollFd::from_borrowed_fd(backend.unwrap_or(frontend), watch(backend)),
        PollFd::from_borrowed_fd(stop.unwrap_or(frontend.as_fd()), watch(stop)),
    ];
    match poll(&mut watched, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_is_spun_and_the_rest_slept() {
        let spin = Waiting { margin: Duration::from_us(60), spin: true };
        let at = Instant::from_ns;
        assert_eq!(spin.until(at(0), at(1_000_000)), Wait::Until(at(940_000)));
        assert_eq!(spin.until(at(950_000), at(1_000_000)), Wait::Spin);
        assert_eq!(spin.until(at(1_000_001), at(1_000_000)), Wait::Spin);
        assert_eq!(spin.plan(at(70_000), None, Some(at(20_000))), Wait::Spin, "more may come");
        assert_eq!(spin.plan(at(80_001), None, Some(at(20_000))), Wait::Forever);
        let frugal = Waiting { spin: false, ..spin };
        assert_eq!(frugal.plan(at(70_000), None, Some(at(20_000))), Wait::Forever);
        assert_eq!(frugal.until(at(950_000), at(1_000_000)), Wait::Until(at(1_000_000)));
    }
}
