//! Compensation for the time that requests and completions spend between the host and the model.
//!
//! ```text
//! MP1 ──arrival error──▶ MP2 ─▶ MP3 (model) ─▶ MP2 ──completion error──▶ MP1
//!       the model sees the arrival            the completion leaves earlier
//!       earlier by `arrival`                  by `early`
//! ```
//! Calibration gives static values; a run may find others by what it observes, see [`AllowanceEstimator`](super::AllowanceEstimator).
//!
//! # References
//! \[Griffin 2004, §5.3.2\]: arrival-time modification, early completion, additional lookahead.

use seeklab_core::{Duration, Operation, Request};

/// Time that one direction takes for one operation: a fixed part and a part that grows with size.
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

/// Compensation for the errors of arrival and completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Compensation {
    /// Time by which a request reaches the model before its arrival at MP2 (arrival-time modification).
    pub arrival: PerOperation<Allowance>,
    /// Time by which a completion is due at MP2 before the model's completion (early completion).
    pub early: PerOperation<Allowance>,
    /// Further lead of the synchronous model's clock, so that answers are known when due.
    pub lookahead: Duration,
}

impl Compensation {
    /// The same skew for arrival and completion, whatever the request: Griffin's static compensation.
    pub const fn skew(skew: Duration) -> Self {
        let allowance = PerOperation::all(Allowance::fixed(skew));
        Self { arrival: allowance, early: allowance, lookahead: Duration::ZERO }
    }

    /// Returns the compensation with that lookahead.
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

/// The fixed parts of one operation's allowances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed {
    /// Operation.
    pub op: Operation,
    /// Of its arrival error.
    pub arrival: Duration,
    /// Of its early completion.
    pub early: Duration,
}

impl Compensation {
    /// With these fixed parts; what grows with size stays.
    #[must_use]
    pub fn with(mut self, fixed: Fixed) -> Self {
        self.arrival.of_mut(fixed.op).fixed = fixed.arrival;
        self.early.of_mut(fixed.op).fixed = fixed.early;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowance_grows_with_size() {
        let allowance = Allowance { fixed: Duration::from_us(10), per_block: Duration::from_ns(50) };
        assert_eq!(allowance.of(128), Duration::from_ns(16_400));
    }

    #[test]
    fn fixed_parts_change_for_one_operation_only() {
        let us = Duration::from_us;
        let grows = Allowance { fixed: us(10), per_block: Duration::from_ns(50) };
        let before = Compensation { early: PerOperation::all(grows), ..Compensation::skew(us(5)) };
        let after = before.with(Fixed { op: Operation::Write, arrival: us(7), early: us(20) });
        assert_eq!(after.arrival.of(Operation::Write), Allowance::fixed(us(7)));
        assert_eq!(after.early.of(Operation::Write), Allowance { fixed: us(20), ..grows });
        assert_eq!(after.with(Fixed { op: Operation::Write, arrival: us(5), early: us(10) }), before);
    }
}
