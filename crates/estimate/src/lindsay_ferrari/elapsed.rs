//! Equations (3) to (11): elapsed time of jobs that share a processor, from the time that each slot is blocked.
//!
//! A job slot is ready for a share `p = (R − U)/R` of the elapsed time `R`. The slots are taken as independent, and as
//! independent of the system, which comes first. A job computes if at least one slot is ready and the system is not:
//!
//! ```text
//! (3)  Pr{n ready} = binomial(M, n) p^n (1 − p)^(M−n)
//! (5)  C_j = (R − C_s) (1 − (U/R)^M)
//! (6)  P(R) = R^(M+1) − R^M (C_s + C_j) − R U^M + C_s U^M = 0
//! (7)  M = 1:  R = (S + √(S² − 4 C_s U)) / 2,   S = C_s + C_j + U
//! (9)  max(C_s + C_j, U) < R ≤ C_s + C_j + U    for every M
//! ```
//! (9) is the repaired form: `P(U) = −C_j U^M < 0` and `P(C_s + C_j + U) ≥ 0`, so `R` cannot come nearer to `C_j` than
//! `C_s + C_j`. Newton's method (11) is certain to converge from `C_s + C_j + U`, because `P` is convex there.

/// Times that equation (6) joins, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// `C_j`: processor time of all jobs.
    pub job_processor_s: f64,
    /// `C_s`: processor time of the system.
    pub system_processor_s: f64,
    /// `U`: time that one job slot is blocked.
    pub blocked_s: f64,
    /// `M`: job slots, at least 1.
    pub multiprogramming: f64,
}

/// Steps of Newton's method at most. It takes 5 to 8.
const STEPS_MAX: u32 = 100;

impl Demand {
    /// Equation (3): probability that `ready` of `slots` slots are ready, for an elapsed time `R`.
    pub fn ready_probability(&self, slots: u32, ready: u32, elapsed_s: f64) -> f64 {
        let ready_share = (elapsed_s - self.blocked_s) / elapsed_s;
        let choices = (0..ready).map(|n| f64::from(slots - n) / f64::from(n + 1)).product::<f64>();
        choices * ready_share.powf(f64::from(ready)) * (1.0 - ready_share).powf(f64::from(slots - ready))
    }

    /// Equation (5): processor time that the jobs receive within an elapsed time `R`, in seconds.
    pub fn received_s(&self, elapsed_s: f64) -> f64 {
        (elapsed_s - self.system_processor_s)
            * (1.0 - power(self.blocked_s / elapsed_s, self.multiprogramming))
    }

    /// Equation (6): `P(R)`, divided by `R^M` so that it neither overflows nor vanishes.
    pub fn polynomial(&self, elapsed_s: f64) -> f64 {
        self.received_s(elapsed_s) - self.job_processor_s
    }

    /// Equation (9): bounds of the elapsed time, in seconds; the first is not reached unless `U` is 0.
    pub fn bounds_s(&self) -> (f64, f64) {
        let processor_s = self.system_processor_s + self.job_processor_s;
        (processor_s.max(self.blocked_s), processor_s + self.blocked_s)
    }

    /// Equation (6), solved by Newton's method from the upper bound of (9): `R` in seconds.
    pub fn elapsed_s(&self) -> f64 {
        self.newton_s(self.bounds_s().1)
    }

    /// Newton's method (11) from any start. From `C_s + C_j` it may end at a root that is no elapsed time.
    fn newton_s(&self, start_s: f64) -> f64 {
        let processor_s = self.system_processor_s + self.job_processor_s;
        let slots = self.multiprogramming;
        let mut elapsed_s = start_s;
        for _ in 0..STEPS_MAX {
            // P and its derivative, both divided by R^M.
            let all_blocked = power(self.blocked_s / elapsed_s, slots);
            let value = elapsed_s - processor_s - (elapsed_s - self.system_processor_s) * all_blocked;
            let slope = slots + 1.0 - slots * processor_s / elapsed_s - all_blocked;
            let step = value / slope;
            if step.is_nan() {
                break;
            }
            elapsed_s -= step;
            if step.abs() <= 1e-14 * elapsed_s.abs() {
                break;
            }
        }
        elapsed_s
    }
}

/// `base` to the power of `exponent`, faster where that is a small whole number.
fn power(base: f64, exponent: f64) -> f64 {
    let whole = exponent as i32;
    if f64::from(whole) == exponent && whole <= 16 { base.powi(whole) } else { base.powf(exponent) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(blocked_s: f64, multiprogramming: f64) -> Demand {
        Demand { job_processor_s: 260.0, system_processor_s: 40.0, blocked_s, multiprogramming }
    }

    #[test]
    fn elapsed_time_has_the_figures_of_the_notes() {
        let of = |blocked_s: f64| [1.0, 2.0, 3.0, 4.0].map(|slots| demand(blocked_s, slots).elapsed_s());
        for (found, noted) in of(100.0).into_iter().zip([389.736660, 326.850784, 309.111438, 303.116797]) {
            assert!((found - noted).abs() < 6e-7, "{found} is not {noted}");
        }
        for (found, noted) in of(500.0).into_iter().zip([774.165739, 657.232374, 611.962770, 587.389736]) {
            assert!((found - noted).abs() < 6e-7, "{found} is not {noted}");
        }
    }

    #[test]
    fn newton_from_the_processor_time_ends_at_a_wrong_root() {
        let demand = demand(500.0, 3.0);
        assert!((demand.newton_s(300.0) - 39.868).abs() < 6e-4);
        assert!(demand.polynomial(demand.elapsed_s()).abs() < 1e-9);
    }

    #[test]
    fn one_slot_has_the_greater_root_of_equation_7() {
        let demand = demand(100.0, 1.0);
        let sum = 400.0_f64;
        let root = (sum + (sum * sum - 4.0 * 40.0 * 100.0).sqrt()) / 2.0;
        assert!((demand.elapsed_s() - root).abs() < 1e-9);
        let smaller = sum - root;
        assert!(smaller < 40.0, "the other root lies below C_s: {smaller}");
    }

    #[test]
    fn equation_5_follows_from_equation_3() {
        let demand = demand(120.0, 4.0);
        let elapsed_s = 400.0;
        let total: f64 = (0..=4).map(|ready| demand.ready_probability(4, ready, elapsed_s)).sum();
        assert!((total - 1.0).abs() < 1e-12);
        let any = 1.0 - demand.ready_probability(4, 0, elapsed_s);
        assert!((demand.received_s(elapsed_s) - (elapsed_s - 40.0) * any).abs() < 1e-9);
        assert!((demand.ready_probability(4, 1, elapsed_s) - 4.0 * 0.7 * 0.3_f64.powi(3)).abs() < 1e-12);
    }

    #[test]
    fn elapsed_time_lies_within_the_repaired_bounds_for_fractional_slots() {
        for blocked_s in [0.0, 1e-6, 10.0, 299.0, 301.0, 1e4, 1e9] {
            for slots in [1.0, 1.5, 2.7, 9.3, 100.5] {
                let demand = demand(blocked_s, slots);
                let (low, high) = demand.bounds_s();
                let elapsed_s = demand.elapsed_s();
                let slack = 1e-9 * high;
                assert!((low - slack..=high + slack).contains(&elapsed_s), "{elapsed_s} of {demand:?}");
                assert!(demand.polynomial(elapsed_s).abs() < 1e-6 * high, "{demand:?}");
            }
        }
    }
}
