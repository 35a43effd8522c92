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
/// that stays is down to a thousandth after ten windows.
///
/// The centre is the mean, of each error no more than [`REACH`](Self::REACH) from the median of its window. Late
/// wake-ups lie on one side, so the mean is some microseconds beyond the median, and those add up over a program's
/// requests: were the median brought to zero, the program would take longer than on the device. What is farther out is
/// the kernel's scheduling, and expecting it would send all else early.
///
/// A program waits for that too, though. So what all errors, those of missed deadlines included, are beyond the centre
/// on average over the last [`MEMORY`](Self::MEMORY) windows or so is taken off in many small parts: the centre is not
/// brought to zero but as far beyond it, so that all errors together have a mean of zero.
#[derive(Debug, Clone)]
pub struct ErrorAdjuster {
    accounts: [[Account; 2]; Operation::ALL.len()],
    window: usize,
}

/// The errors of one operation in one direction, in ns.
#[derive(Debug, Clone, Default)]
struct Account {
    window: Vec<i64>,
    /// The centre of the window before.
    before: i64,
    /// All errors since the window began.
    all: Sum,
    /// How far errors were beyond their centre; what was longer ago counts less.
    beyond: Sum,
}

/// One measured error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeasuredError {
    /// How much too late.
    pub by: SignedDuration,
    /// Whether the request came before what was asked for last was done.
    pub is_stale: bool,
    /// Whether its deadline was missed.
    pub is_missed: bool,
}

/// Errors summed up.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    count: f64,
    ns: f64,
}

impl ErrorAdjuster {
    /// How far an error counts beyond the median of its window.
    pub const REACH: Duration = Duration::from_us(100);
    /// What is larger is not an error of emulation: requests were paired wrong, or the machine stood still.
    pub const STALL: Duration = Duration::from_ms(10);
    /// How many windows make the average of what lies beyond the centre.
    pub const MEMORY: f64 = 64.0;

    /// Takes the centre of every `window` errors.
    ///
    /// # Panics
    /// If the window is empty.
    pub fn new(window: usize) -> Self {
        assert!(window > 0, "a window of no errors has no centre");
        Self { accounts: Default::default(), window }
    }

    /// Takes one error in; returns what is to be shifted.
    pub fn observe(&mut self, op: Operation, direction: Direction, error: MeasuredError) -> Option<Shift> {
        let MeasuredError { by, is_stale, is_missed } = error;
        let size = Duration::from_ns(by.as_ns().unsigned_abs());
        if size > Self::STALL {
            return None;
        }
        let account = &mut self.accounts[op as usize][direction as usize];
        if is_stale {
            account.beyond.add(by.as_ns() - account.before);
            return None;
        }
        account.all.add(by.as_ns());
        if is_missed || size > Compensation::SHIFTED_MAX {
            return None;
        }
        account.window.push(by.as_ns());
        if account.window.len() < self.window {
            return None;
        }
        let step = account.close() / 2;
        (step != 0).then_some(Shift { op, direction, by: SignedDuration::from_ns(step) })
    }
}

impl Sum {
    fn add(&mut self, ns: i64) {
        self.count += 1.0;
        self.ns += ns as f64;
    }
}

impl Account {
    /// Ends the window; returns how far its errors are from where they should be.
    fn close(&mut self) -> i64 {
        self.before = centre(&mut self.window);
        self.window.clear();
        let Sum { count, ns } = std::mem::take(&mut self.all);
        let beyond = &mut self.beyond;
        let kept = 1.0 - 1.0 / ErrorAdjuster::MEMORY;
        beyond.count = kept * beyond.count + count;
        beyond.ns = kept * beyond.ns + ns - self.before as f64 * count;
        self.before + (beyond.ns / beyond.count).round() as i64
    }
}

/// The mean, of each no more than [`ErrorAdjuster::REACH`] from the median.
fn centre(errors: &mut [i64]) -> i64 {
    let middle = errors.len() / 2;
    let median = *errors.select_nth_unstable(middle).1;
    let reach = ErrorAdjuster::REACH.as_ns() as i64;
    let within: i64 = errors.iter().map(|error| (error - median).clamp(-reach, reach)).sum();
    median + within / errors.len() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error of that many ns, of a request on time.
    fn fresh(ns: i64) -> MeasuredError {
        MeasuredError { by: SignedDuration::from_ns(ns), is_stale: false, is_missed: false }
    }

    #[test]
    fn does_a_lasting_error_vanish() {
        let mut compensation = Compensation::default();
        let mut adjuster = ErrorAdjuster::new(11);
        for round in 0..220 {
            let allowance = compensation.early.of(Operation::Read).fixed.as_ns() as i64;
            // The path takes 30 us, and every eleventh completion 33 us more.
            let noise = if round % 11 == 0 { 33_000 } else { 0 };
            let error = fresh(30_000 + noise - allowance);
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
    }

    #[test]
    fn is_the_mean_zero_with_the_missed_deadlines() {
        // Of a hundred completions one misses its deadline by 400 us, and one on time comes 600 us late: the mean delay is
        // 40 us. A shift is done when so many requests more have come.
        let check = |delay: usize| {
            let mut compensation = Compensation::default();
            let mut adjuster = ErrorAdjuster::new(16);
            let (mut sum, mut farthest) = (0, 0);
            let mut asked: Option<(usize, Shift)> = None;
            for round in 0..200_000 {
                if let Some((_, shift)) = asked.take_if(|(at, _)| *at + delay <= round) {
                    compensation = compensation.shifted(shift);
                }
                let allowance = compensation.early.of(Operation::Write).fixed.as_ns() as i64;
                let (late, is_missed) = match round % 100 {
                    0 => (400_000, true),
                    50 => (600_000, false),
                    _ => (0, false),
                };
                let error = 30_000 + late - allowance;
                if round >= 100_000 {
                    sum += error;
                    farthest = farthest.max((allowance - 40_000).abs());
                }
                let by = SignedDuration::from_ns(error);
                let error = MeasuredError { by, is_stale: asked.is_some(), is_missed };
                if let Some(shift) = adjuster.observe(Operation::Write, Direction::Completion, error) {
                    asked = Some((round, shift));
                }
            }
            let mean = sum / 100_000;
            assert!(mean.abs() <= 150, "{mean} ns on average, shifts done after {delay}");
            assert!(
                farthest <= 8_000,
                "an allowance was {farthest} ns from the mean delay, shifts done after {delay}"
            );
        };
        [1, 40, 500].into_iter().for_each(check);
    }

    #[test]
    fn is_nothing_beyond_the_centre_while_it_is_found() {
        // A way of 30 us without noise; shifts take long.
        let mut compensation = Compensation::default();
        let mut adjuster = ErrorAdjuster::new(16);
        for _ in 0..12 {
            let allowance = compensation.arrival.of(Operation::Read).fixed.as_ns() as i64;
            let errors = (0..16).map(|_| fresh(30_000 - allowance));
            let shift = errors
                .filter_map(|error| adjuster.observe(Operation::Read, Direction::Arrival, error))
                .last();
            for _ in 0..300 {
                let stale = MeasuredError { is_stale: true, ..fresh(30_000 - allowance) };
                assert_eq!(adjuster.observe(Operation::Read, Direction::Arrival, stale), None);
            }
            compensation = compensation.shifted(shift.expect("something is left of it"));
        }
        let left = 30_000 - compensation.arrival.of(Operation::Read).fixed.as_ns() as i64;
        assert!((0..=10).contains(&left), "{left} ns are left");
    }

    #[test]
    fn do_stalls_of_the_machine_count_for_nothing() {
        let mut adjuster = ErrorAdjuster::new(1);
        let stall = ErrorAdjuster::STALL.as_ns() as i64 + 1;
        for error in [stall, -stall, i64::MIN, 0] {
            let shift = adjuster.observe(Operation::Read, Direction::Arrival, fresh(error));
            assert_eq!(shift, None, "{error}");
        }
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
