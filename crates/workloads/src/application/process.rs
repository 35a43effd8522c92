//! One process: a program, and what is left of its plan.

use std::collections::VecDeque;

use seeklab_core::Instant;

use super::Program;
use super::plan::{Io, Stage};

/// An action of a process with an effect outside of the process.
#[derive(Debug)]
pub(super) enum Step {
    Issue {
        ios: Vec<Io>,
        is_waited_for: bool,
    },
    Commit(Vec<u64>),
    /// The log that it wrote is durable.
    Committed,
    Operation,
}

#[derive(Debug)]
pub(super) struct Process {
    program: Option<Box<dyn Program>>,
    plan: VecDeque<Stage>,
    busy_until: Option<Instant>,
    /// Requests that it waits for.
    waiting: usize,
    /// True while the process waits for a group commit.
    is_committing: bool,
}

impl Process {
    pub(super) const fn new() -> Self {
        Self { program: None, plan: VecDeque::new(), busy_until: None, waiting: 0, is_committing: false }
    }

    pub(super) fn running(program: Box<dyn Program>) -> Self {
        Self { program: Some(program), ..Self::new() }
    }

    /// Appends `plan` to the current plan.
    pub(super) fn then(&mut self, plan: VecDeque<Stage>) {
        self.plan.extend(plan);
    }

    /// Writes the log, for itself and others, before all else.
    pub(super) fn lead(&mut self, plan: VecDeque<Stage>) {
        assert!(self.is_committing, "who writes the log waits for it");
        self.is_committing = false;
        // The request after the commit is made when the commit is done.
        let rest = std::mem::replace(&mut self.plan, plan);
        self.plan.push_back(Stage::Committed);
        self.plan.extend(rest);
    }

    /// Another process has written its log records.
    pub(super) fn released(&mut self) {
        self.is_committing = false;
    }

    /// A request that it waits for is complete.
    pub(super) fn arrived(&mut self) {
        self.waiting -= 1;
    }

    /// Returns true if nothing is left of the plan, so that the process must query its program.
    pub(super) fn is_idle(&self) -> bool {
        self.plan.is_empty() && self.waiting == 0 && self.busy_until.is_none() && !self.is_committing
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_idle() && self.program.is_none()
    }

    pub(super) const fn busy_until(&self) -> Option<Instant> {
        self.busy_until
    }

    pub(super) fn take_program(&mut self) -> Option<Box<dyn Program>> {
        self.program.take()
    }

    pub(super) fn give_back(&mut self, program: Box<dyn Program>) {
        self.program = Some(program);
    }

    /// Returns the next action at `now`; `None` if the process has to wait or has nothing left to do.
    pub(super) fn next(&mut self, now: Instant) -> Option<Step> {
        loop {
            if self.waiting > 0 || self.is_committing || self.busy_until.is_some_and(|until| now < until) {
                return None;
            }
            self.busy_until = None;
            match self.plan.pop_front()? {
                Stage::Compute(time) => self.busy_until = Some(now + time),
                Stage::Wait(ios) => {
                    self.waiting = ios.len();
                    return Some(Step::Issue { ios, is_waited_for: true });
                }
                Stage::Leave(ios) => return Some(Step::Issue { ios, is_waited_for: false }),
                Stage::Commit(pages) => {
                    self.is_committing = true;
                    return Some(Step::Commit(pages));
                }
                Stage::Committed => return Some(Step::Committed),
                Stage::Operation => return Some(Step::Operation),
            }
        }
    }
}
