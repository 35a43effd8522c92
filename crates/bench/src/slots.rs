//! Places of the requests that are under way: as many as may be, made once.

use seeklab_core::{Duration, Instant, Request};

/// An attempt at a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The request.
    pub(crate) request: Request,
    /// Intended start of its first attempt.
    pub(crate) intended: Instant,
    /// Time from which this attempt could be issued: the intended start, or the end of the wait before a retry. The end
    /// of time for a request that found no room.
    pub(crate) due: Instant,
    /// Number of the attempt, the first is 1.
    pub(crate) number: u32,
    /// Time of its issue.
    pub(crate) issued: Instant,
    /// Number in the trace.
    pub(crate) row: u64,
}

impl Attempt {
    /// Time at which it arrived, in the trace.
    pub(crate) const fn arrival(&self) -> Instant {
        if self.number > 1 { self.due } else { self.intended }
    }
}

/// State of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    UnderWay,
    /// The attempt exceeded its time limit; the target still has the buffer.
    GivenUp,
}

/// The slots of one thread.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Vec<(State, Option<Attempt>)>,
    free: Vec<u32>,
    under_way: u32,
    given_up: u32,
}

impl Slots {
    pub(crate) fn new(count: u32) -> Self {
        Self {
            slots: vec![(State::Free, None); count as usize],
            // The first slot is used first, so that a load of few requests touches few buffers.
            free: (0..count).rev().collect(),
            under_way: 0,
            given_up: 0,
        }
    }

    /// Returns true if another attempt can be made.
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Attempts under way, without those that were given up.
    pub(crate) const fn under_way(&self) -> u32 {
        self.under_way
    }

    /// Attempts that were given up and that the target has not returned.
    pub(crate) const fn given_up(&self) -> u32 {
        self.given_up
    }

    /// Takes a slot.
    pub(crate) fn begin(&mut self, attempt: Attempt) -> Option<u32> {
        let tag = self.free.pop()?;
        self.slots[tag as usize] = (State::UnderWay, Some(attempt));
        self.under_way += 1;
        Some(tag)
    }

    /// Notes the time of issue; returns the attempt.
    ///
    /// # Panics
    /// If the slot is free.
    pub(crate) fn issue(&mut self, tag: u32, issued: Instant) -> Attempt {
        let (_, attempt) = &mut self.slots[tag as usize];
        let attempt = attempt.as_mut().expect("the slot was taken");
        attempt.issued = issued;
        *attempt
    }

    /// Frees a slot; returns its attempt, `None` if that was given up before.
    pub(crate) fn end(&mut self, tag: u32) -> Option<Attempt> {
        let (state, attempt) = &mut self.slots[tag as usize];
        let state = std::mem::replace(state, State::Free);
        self.free.push(tag);
        match state {
            State::UnderWay => {
                self.under_way -= 1;
                *attempt
            }
            State::GivenUp => {
                self.given_up -= 1;
                None
            }
            State::Free => panic!("slot {tag} ended without a request"),
        }
    }

    /// Gives up an attempt; its slot stays taken until the target returns it.
    pub(crate) fn give_up(&mut self, tag: u32) -> Option<Attempt> {
        let (state, attempt) = &mut self.slots[tag as usize];
        if *state != State::UnderWay {
            return None;
        }
        *state = State::GivenUp;
        self.under_way -= 1;
        self.given_up += 1;
        *attempt
    }

    /// Attempts that the target has, with their slots: those under way, and those that were given up.
    pub(crate) fn held(&self) -> impl Iterator<Item = (u32, bool, &Attempt)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(tag, (state, attempt))| {
            // A free slot keeps its last attempt.
            let attempt = attempt.as_ref().filter(|_| *state != State::Free)?;
            Some((tag as u32, *state == State::GivenUp, attempt))
        })
    }

    /// Age of the oldest attempt that the target has, and the number of those of at least `hung`.
    pub(crate) fn ages(&self, now: Instant, hung: Duration) -> (Option<Duration>, u32) {
        let mut oldest = None;
        let mut count = 0;
        for (_, _, attempt) in self.held() {
            let age = now.saturating_since(attempt.issued);
            oldest = oldest.max(Some(age));
            count += u32::from(age >= hung);
        }
        (oldest, count)
    }
}
