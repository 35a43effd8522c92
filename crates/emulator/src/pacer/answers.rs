//! The completions that the pacer knows and has not handed out.

use std::collections::VecDeque;
use std::mem;

use seeklab_core::{Completion, Criticality, Duration, Instant, Reclassification};

use super::{Due, before};

/// Known completions in order of the model's completion time.
///
/// ```text
/// │ fixed: no arrival can change them │ speculated: an arrival withdraws them │
/// ```
/// Answers that were handed out stay in place while they are speculated, so that the model's own completions
/// can be matched with them.
#[derive(Debug, Default)]
pub(super) struct Answers {
    answers: VecDeque<Answer>,
    /// Number of fixed answers, from the front.
    fixed: usize,
    /// Everything before this index was handed out.
    first: usize,
    /// Upper bound of the number of answers without a stamp.
    unstamped: usize,
}

#[derive(Debug)]
struct Answer {
    due: Due,
    handed: bool,
    stamped: bool,
}

impl Answer {
    const fn new(due: Due) -> Self {
        Self { due, handed: false, stamped: false }
    }
}

impl Answers {
    /// Adds a completion that nothing can change; its time may lie before those of others.
    pub(super) fn insert_fixed(&mut self, due: Due) {
        let completed = due.completion.completed;
        let place = self.answers.partition_point(|other| other.due.completion.completed <= completed);
        self.answers.insert(place, Answer::new(due));
        self.first = self.first.min(place);
        self.fixed += 1;
        self.unstamped += 1;
    }

    /// Adds a completion that an arrival may withdraw, behind all others.
    pub(super) fn push_speculated(&mut self, due: Due) {
        debug_assert!(
            self.answers
                .back()
                .is_none_or(|last| { last.due.completion.completed <= due.completion.completed })
        );
        self.answers.push_back(Answer::new(due));
        self.unstamped += 1;
    }

    /// Fixes the next speculated answer, which must be equal to `completion` of the model itself. Returns false
    /// if none is left.
    pub(super) fn confirm(&mut self, completion: &Completion) -> bool {
        let Some(answer) = self.answers.get(self.fixed) else { return false };
        assert!(
            answer.due.completion == *completion,
            "a fork of the model predicted {:?}, the model completed with {completion:?}",
            answer.due.completion
        );
        self.fixed += 1;
        self.forget_handed();
        true
    }

    /// Fixes everything.
    pub(super) fn confirm_all(&mut self) {
        self.fixed = self.answers.len();
        self.forget_handed();
    }

    /// Makes a request more pressing of which the answer is known, was not handed out and lies behind `now`. Returns the
    /// class before if it changed.
    pub(super) fn reclassify(&mut self, now: Instant, change: &Reclassification) -> Option<Criticality> {
        let waiting = self.answers.iter_mut().filter(|answer| !answer.handed);
        let mut completions = waiting.map(|answer| &mut answer.due.completion);
        let completion = completions.find(|completion| completion.request.id == change.id)?;
        if completion.completed <= now {
            return None;
        }
        completion.request.reclassify(change.criticality)
    }

    /// Withdraws what is speculated.
    ///
    /// # Panics
    /// If some of it was handed out.
    pub(super) fn withdraw(&mut self) {
        assert!(self.handed_ahead() == 0, "a completion that was handed out is final");
        self.answers.truncate(self.fixed);
    }

    /// Returns the number of speculated answers that were handed out.
    pub(super) fn handed_ahead(&self) -> usize {
        self.answers.range(self.fixed..).filter(|answer| answer.handed).count()
    }

    /// The earliest due of what was not handed out, if no early-completion allowance exceeds `early_max`.
    pub(super) fn earliest(&self, early_max: Duration) -> Option<Instant> {
        self.earliest_place(early_max).map(|(_, due)| due)
    }

    fn earliest_place(&self, early_max: Duration) -> Option<(usize, Instant)> {
        let mut earliest: Option<(usize, Instant)> = None;
        for (place, answer) in (self.first..).zip(self.answers.range(self.first..)) {
            if earliest.is_some_and(|(_, due)| before(answer.due.completion.completed, early_max) >= due) {
                break;
            }
            if !answer.handed && earliest.is_none_or(|(_, due)| answer.due.due < due) {
                earliest = Some((place, answer.due.due));
            }
        }
        earliest
    }

    /// Hands out what is due first, if it is due at `now`.
    pub(super) fn hand_out(&mut self, now: Instant, early_max: Duration) -> Option<Due> {
        let (place, _) = self.earliest_place(early_max).filter(|(_, due)| *due <= now)?;
        let answer = &mut self.answers[place];
        answer.handed = true;
        let due = answer.due;
        while self.answers.get(self.first).is_some_and(|answer| answer.handed) {
            self.first += 1;
        }
        self.forget_handed();
        Some(due)
    }

    /// The model ended at `now`: the answers that were found since the last call are known since then.
    pub(super) fn stamp(&mut self, now: Instant) {
        for answer in self.answers.iter_mut().rev() {
            if self.unstamped == 0 {
                break;
            }
            if !mem::replace(&mut answer.stamped, true) {
                answer.due.known = answer.due.known.max(now);
                self.unstamped -= 1;
            }
        }
        self.unstamped = 0;
    }

    fn forget_handed(&mut self) {
        while self.fixed > 0 && self.answers.front().is_some_and(|answer| answer.handed) {
            self.answers.pop_front();
            self.fixed -= 1;
            self.first = self.first.saturating_sub(1);
        }
    }
}
