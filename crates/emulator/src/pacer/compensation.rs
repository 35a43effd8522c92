//! Compensation for the time that requests and completions spend between the host and the model.
//!
//! ```text
//! MP1 ──arrival error──▶ MP2 ─▶ MP3 (model) ─▶ MP2 ──completion error──▶ MP1
//!       the model sees the arrival            the completion leaves earlier
//!       earlier by `arrival`                  by `early`
//! ```
//! Calibration gives static values; a run may move them by what it observes, see [`MedianAdjuster`].
//!
//! # References
//! \[Griffin 2004, §5.3.2\]: arrival-time modification, early completion, additional lookahead.

use seeklab_core::{Duration, Operation, Request, SignedDuration};

/// How much time one direction takes for one operation: a fixed part and one that grows with size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allowance {
    /// For every request.
    pub fixed: Duration,
    /// For each block of the request besides.
    pub per_block: Duration,
}

impl Allowance {
    /// The same for every size.
    pub const fn fixed(fixed: Duration) -> Self {
        Self { fixed, per_block: Duration::ZERO }
    }

    /// For a request of so many blocks.
    pub fn of(&self, blocks: u32) -> Duration {
        self.fixed + self.per_block * u64::from(blocks)
    }
}

/// One value for each operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PerOperation<T>([T; Operation::ALL.len()]);

impl<T: Copy> PerOperation<T> {
    /// The same value for each.
    pub const fn all(value: T) -> Self {
        Self([value; Operation::ALL.len()])
    }

    /// The value of `op`.
    pub const fn of(&self, op: Operation) -> T {
        self.0[op as usize]
    }

    /// The value of `op`, to change.
    pub const fn of_mut(&mut self, op: Operation) -> &mut T {
        &mut self.0[op as usize]
    }
}

/// What the pacer does against the errors of arrival and completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compensation {
    /// How far before its arrival at MP2 the model sees a request (arrival-time modification).
    pub arrival: PerOperation<Allowance>,
    /// How far before the model's completion a completion is due at MP2 (early completion).
    pub early: PerOperation<Allowance>,
    /// How much earlier still the synchronous model's clock runs, so that answers are known when due.
    pub lookahead: Duration,
}

impl Compensation {
    /// The same skew for arrival and completion, whatever the request: Griffin's static compensation.
    pub const fn skew(skew: Duration) -> Self {
        let allowance = PerOperation::all(Allowance::fixed(skew));
        Self { arrival: allowance, early: allowance, lookahead: Duration::ZERO }
    }

    /// That lookahead instead.
    pub const fn with_lookahead(self, lookahead: Duration) -> Self {
        Self { lookahead, ..self }
    }

    /// The arrival error expected of `request`.
    pub fn arrival_error(&self, request: &Request) -> Duration {
        self.arrival.of(request.op).of(request.blocks)
    }

    /// The early-completion allowance of `request`.
    pub fn early_allowance(&self, request: &Request) -> Duration {
        self.early.of(request.op).of(request.blocks)
    }

    /// The largest early-completion allowance of any request of up to `blocks` blocks.
    pub(crate) fn early_max(&self, blocks: u32) -> Duration {
        let allowances = self.early.0.iter().map(|allowance| allowance.of(blocks));
        allowances.max().unwrap_or_default()
    }
}

/// Which of the two errors was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// MP3 submission less MP1 issue.
    Arrival,
    /// MP1 completion less MP3 completion.
    Completion,
}

/// Moves the fixed part of a [`Compensation`] by the median of what the run observes.
///
/// For every operation and direction it collects a window of errors; when the window is full, the
/// allowance moves by half of the window's median, towards zero error, and the window starts anew. The
/// median does not see the rare late wake-up, and half of it damps: an error that stays is down to a
/// thousandth after ten windows. Allowances stay between zero and `limit`.
#[derive(Debug, Clone)]
pub struct MedianAdjuster {
    windows: [[Vec<i64>; 2]; Operation::ALL.len()],
    window: usize,
    limit: Duration,
}

impl MedianAdjuster {
    /// Takes the median of every `window` errors and lets no allowance exceed `limit`.
    ///
    /// # Panics
    /// If the window is empty.
    pub fn new(window: usize, limit: Duration) -> Self {
        assert!(window > 0, "a window of no errors has no median");
        let windows = std::array::from_fn(|_| std::array::from_fn(|_| Vec::with_capacity(window)));
        Self { windows, window, limit }
    }

    /// Takes one measured error in; returns whether `compensation` moved.
    pub fn observe(
        &mut self,
        op: Operation,
        direction: Direction,
        error: SignedDuration,
        compensation: &mut Compensation,
    ) -> bool {
        let errors = &mut self.windows[op as usize][direction as usize];
        errors.push(error.as_ns());
        if errors.len() < self.window {
            return false;
        }
        let middle = errors.len() / 2;
        let step = *errors.select_nth_unstable(middle).1 / 2;
        errors.clear();
        let allowance = match direction {
            Direction::Arrival => compensation.arrival.of_mut(op),
            Direction::Completion => compensation.early.of_mut(op),
        };
        let moved = allowance.fixed.as_ns().saturating_add_signed(step).min(self.limit.as_ns());
        let before = std::mem::replace(&mut allowance.fixed, Duration::from_ns(moved));
        before != allowance.fixed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn does_a_lasting_error_vanish() {
        let mut compensation = Compensation::default();
        let mut adjuster = MedianAdjuster::new(11, Duration::from_ms(1));
        for round in 0..220 {
            let allowance = compensation.early.of(Operation::Read).fixed.as_ns() as i64;
            // The path takes 30 us, and every eleventh completion is a millisecond late.
            let noise = if round % 11 == 0 { 1_000_000 } else { 0 };
            let error = SignedDuration::from_ns(30_000 + noise - allowance);
            adjuster.observe(Operation::Read, Direction::Completion, error, &mut compensation);
        }
        let left = 30_000 - compensation.early.of(Operation::Read).fixed.as_ns() as i64;
        assert!((0..=2).contains(&left), "{left} ns");
        assert_eq!(compensation.early.of(Operation::Write), Allowance::default());
        assert_eq!(compensation.arrival, PerOperation::default());
    }

    #[test]
    fn do_allowances_stay_within_their_bounds() {
        let mut compensation = Compensation::skew(Duration::from_us(5));
        let mut adjuster = MedianAdjuster::new(1, Duration::from_us(8));
        let observe = |adjuster: &mut MedianAdjuster, us: i64, compensation: &mut Compensation| {
            let error = SignedDuration::from_ns(us * 1_000);
            adjuster.observe(Operation::Write, Direction::Arrival, error, compensation);
            compensation.arrival.of(Operation::Write).fixed
        };
        assert_eq!(observe(&mut adjuster, -100, &mut compensation), Duration::ZERO);
        assert_eq!(observe(&mut adjuster, 100, &mut compensation), Duration::from_us(8));
    }

    #[test]
    fn does_an_allowance_grow_with_size() {
        let allowance = Allowance { fixed: Duration::from_us(10), per_block: Duration::from_ns(50) };
        assert_eq!(allowance.of(128), Duration::from_ns(16_400));
    }
}
