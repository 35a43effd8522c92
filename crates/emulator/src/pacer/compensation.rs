//! Compensation for the time that requests and completions spend between the host and the model.
//!
//! ```text
//! MP1 ──arrival error──▶ MP2 ─▶ MP3 (model) ─▶ MP2 ──completion error──▶ MP1
//!       the model sees the arrival            the completion leaves earlier
//!       earlier by `arrival`                  by `early`
//! ```
//! Calibration gives static values; a run may move them by what it observes, see [`ErrorAdjuster`] and [`Shift`].
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

/// A change of one allowance's fixed part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shift {
    /// Of which operation.
    pub op: Operation,
    /// Which of its allowances.
    pub direction: Direction,
    /// By how much.
    pub by: SignedDuration,
}

impl Compensation {
    /// No shift brings an allowance beyond this: what takes longer is the kernel's scheduling, not the way.
    pub const SHIFTED_MAX: Duration = Duration::from_ms(1);

    /// With that allowance shifted, between zero and [`SHIFTED_MAX`](Self::SHIFTED_MAX).
    #[must_use]
    pub fn shifted(mut self, shift: Shift) -> Self {
        let allowance = match shift.direction {
            Direction::Arrival => self.arrival.of_mut(shift.op),
            Direction::Completion => self.early.of_mut(shift.op),
        };
        let fixed = allowance.fixed.as_ns().saturating_add_signed(shift.by.as_ns());
        allowance.fixed = Duration::from_ns(fixed).min(Self::SHIFTED_MAX);
        self
    }
}

/// Finds by how much to shift a [`Compensation`], from the errors that a run observes.
///
/// For every operation and direction it collects a window of errors; when the window is full, the
/// allowance is to move by half of the window's *centre*, towards zero error, and the window starts anew: an error
/// that stays is down to a thousandth after ten windows. Errors of requests from before the last shift are not to be
/// observed.
///
/// The centre is the mean, of each error no more than [`REACH`](Self::REACH) from the median of its window. Late
/// wake-ups lie on one side, so the mean is some microseconds beyond the median, and those add up over a program's
/// requests: were the median brought to zero, the program would take longer than on the device. What is farther out is
/// the kernel's scheduling, and expecting it would send all else early.
#[derive(Debug, Clone)]
pub struct ErrorAdjuster {
    windows: [[Vec<i64>; 2]; Operation::ALL.len()],
    window: usize,
}

impl ErrorAdjuster {
    /// How far an error counts beyond the median of its window.
    pub const REACH: Duration = Duration::from_us(100);

    /// Takes the centre of every `window` errors.
    ///
    /// # Panics
    /// If the window is empty.
    pub fn new(window: usize) -> Self {
        assert!(window > 0, "a window of no errors has no centre");
        let windows = std::array::from_fn(|_| std::array::from_fn(|_| Vec::with_capacity(window)));
        Self { windows, window }
    }

    /// Takes one measured error in; returns what is to be shifted.
    pub fn observe(&mut self, op: Operation, direction: Direction, error: SignedDuration) -> Option<Shift> {
        let errors = &mut self.windows[op as usize][direction as usize];
        errors.push(error.as_ns());
        if errors.len() < self.window {
            return None;
        }
        let step = centre(errors) / 2;
        errors.clear();
        (step != 0).then_some(Shift { op, direction, by: SignedDuration::from_ns(step) })
    }
}

/// The mean, of each no more than [`ErrorAdjuster::REACH`] from the median.
fn centre(errors: &mut [i64]) -> i64 {
    let middle = errors.len() / 2;
    let median = *errors.select_nth_unstable(middle).1;
    let reach = ErrorAdjuster::REACH.as_ns() as i64;
    let beyond: i64 = errors.iter().map(|error| (error.saturating_sub(median)).clamp(-reach, reach)).sum();
    median + beyond / errors.len() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn does_a_lasting_error_vanish() {
        let mut compensation = Compensation::default();
        let mut adjuster = ErrorAdjuster::new(11);
        for round in 0..220 {
            let allowance = compensation.early.of(Operation::Read).fixed.as_ns() as i64;
            // The path takes 30 us, and every eleventh completion 33 us more.
            let noise = if round % 11 == 0 { 33_000 } else { 0 };
            let error = SignedDuration::from_ns(30_000 + noise - allowance);
            if let Some(shift) = adjuster.observe(Operation::Read, Direction::Completion, error) {
                compensation = compensation.shifted(shift);
            }
        }
        let left = 33_000 - compensation.early.of(Operation::Read).fixed.as_ns() as i64;
        assert!((0..=2).contains(&left), "{left} ns from the mean");
        assert_eq!(compensation.early.of(Operation::Write), Allowance::default());
        assert_eq!(compensation.arrival, PerOperation::default());
    }

    #[test]
    fn do_rare_stalls_count_no_more_than_their_reach() {
        let check = |errors: &[i64], expected: i64| {
            assert_eq!(centre(&mut errors.to_vec()), expected, "{errors:?}");
        };
        check(&[7_000], 7_000);
        check(&[10_000, 20_000, 60_000], 30_000);
        check(&[30_000, 30_000, 30_000, 30_000, 900_000], 50_000);
        check(&[-900_000, 30_000, 30_000, 30_000, 30_000], 10_000);
        check(&[i64::MIN, 0, i64::MAX], 0);
    }

    #[test]
    fn do_allowances_stay_within_their_bounds() {
        let shifted = |us: i64| {
            let by = SignedDuration::from_ns(us * 1_000);
            let shift = Shift { op: Operation::Write, direction: Direction::Arrival, by };
            Compensation::skew(Duration::from_us(5)).shifted(shift)
        };
        assert_eq!(shifted(-100).arrival.of(Operation::Write).fixed, Duration::ZERO);
        assert_eq!(shifted(3).arrival.of(Operation::Write).fixed, Duration::from_us(8));
        assert_eq!(shifted(9_000).arrival.of(Operation::Write).fixed, Compensation::SHIFTED_MAX);
        assert_eq!(shifted(9_000).arrival.of(Operation::Read).fixed, Duration::from_us(5));
    }

    #[test]
    fn does_an_allowance_grow_with_size() {
        let allowance = Allowance { fixed: Duration::from_us(10), per_block: Duration::from_ns(50) };
        assert_eq!(allowance.of(128), Duration::from_ns(16_400));
    }
}
