//! A target with checks around another one.

use std::collections::VecDeque;

use seeklab_core::{Duration, Instant, Reclassification, Status};
use seeklab_emulator::clock::{Clock, Wait};

use super::checker::Checker;
use crate::target::{Ended, Target, TargetError, TargetFacts, Transfer};

/// Longest wait while a write waits for one of another thread.
const LOOK: Duration = Duration::from_us(100);

/// A target whose data are checked.
struct Verified {
    inner: Box<dyn Target>,
    /// Writes that wait for another write to one of their blocks.
    held: VecDeque<Transfer>,
    /// Writes that exceeded their time limit while they waited.
    expired: Vec<u32>,
    forwarded: Vec<Transfer>,
    is_shared: bool,
}

/// Puts the checker into the target, and a target with checks around it. If its blocks are shared, other threads may write
/// to them, too.
///
/// # Errors
/// If the target carries no data.
pub(super) fn attach(
    mut inner: Box<dyn Target>,
    checker: Checker,
    is_shared: bool,
) -> Result<Box<dyn Target>, TargetError> {
    match inner.checker() {
        Some(place) => *place = Some(Box::new(checker)),
        None => {
            let hint = "verify a block device, a file, an NBD export or an iSCSI unit";
            return Err(TargetError::unusable("--verify", "this target carries no data", hint));
        }
    }
    let (held, expired, forwarded) = (VecDeque::new(), Vec::new(), Vec::new());
    Ok(Box::new(Verified { inner, held, expired, forwarded, is_shared }))
}

impl Verified {
    fn checking(&mut self) -> &mut Checker {
        let place = self.inner.checker().expect("it was there at the begin");
        place.as_mut().expect("it was put there")
    }

    /// Issues writes that waited.
    fn release(&mut self) -> Result<(), TargetError> {
        for _ in 0..self.held.len() {
            let Some(transfer) = self.held.pop_front() else { break };
            match self.checking().begin(transfer.tag, &transfer.request) {
                true => self.forwarded.push(transfer),
                false => self.held.push_back(transfer),
            }
        }
        self.forward()
    }

    fn forward(&mut self) -> Result<(), TargetError> {
        if self.forwarded.is_empty() {
            return Ok(());
        }
        let submitted = self.inner.submit(&self.forwarded);
        self.forwarded.clear();
        submitted
    }
}

impl Drop for Verified {
    /// The checker ends although memory that the kernel still uses does not.
    fn drop(&mut self) {
        if let Some(place) = self.inner.checker() {
            drop(place.take());
        }
    }
}

impl Target for Verified {
    fn facts(&self) -> &TargetFacts {
        self.inner.facts()
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn set_clock(&mut self, clock: Clock) {
        self.inner.set_clock(clock);
    }

    fn submit(&mut self, transfers: &[Transfer]) -> Result<(), TargetError> {
        for transfer in transfers {
            if self.checking().begin(transfer.tag, &transfer.request) {
                self.forwarded.push(*transfer);
            } else {
                self.checking().held_back();
                self.held.push_back(*transfer);
            }
        }
        self.forward()
    }

    fn poll(&mut self, wait: Wait, at_least: u32, ended: &mut Vec<Ended>) -> Result<(), TargetError> {
        let before = ended.len();
        let mut wait = wait;
        if !self.expired.is_empty() {
            let completed = self.inner.now();
            let end = |tag| Ended { tag, completed, status: Status::Timeout, good_blocks: None };
            ended.extend(self.expired.drain(..).map(end));
            wait = Wait::Spin;
        } else if self.is_shared && !self.held.is_empty() {
            let look = self.inner.now() + LOOK;
            wait = match wait {
                Wait::Spin => Wait::Spin,
                Wait::Until(until) => Wait::Until(until.min(look)),
                Wait::Forever => Wait::Until(look),
            };
        }
        let polled = ended.len();
        self.inner.poll(wait, at_least, ended)?;
        for end in &ended[polled..] {
            self.checking().end(end.tag, end.status);
        }
        if !self.held.is_empty() && (self.is_shared || ended.len() > before) {
            self.release()?;
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        self.inner.is_ready()
    }

    fn timed_out(&mut self, tag: u32) {
        match self.held.iter().position(|held| held.tag == tag) {
            Some(at) => {
                self.held.remove(at);
                self.expired.push(tag);
            }
            None => self.inner.timed_out(tag),
        }
    }

    fn reclassify(&mut self, change: &Reclassification) {
        self.inner.reclassify(change);
    }

    fn flush_covers_all(&self) -> bool {
        self.inner.flush_covers_all()
    }

    fn spins(&self) -> bool {
        self.inner.spins()
    }

    fn system_calls(&self) -> u64 {
        self.inner.system_calls()
    }

    fn refusal(&self) -> Option<&str> {
        self.inner.refusal()
    }

    fn reconnections(&self) -> u64 {
        self.inner.reconnections()
    }
}
