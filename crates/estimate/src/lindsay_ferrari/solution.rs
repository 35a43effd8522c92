//! A bracketed solution of equations (6), (12), (20) and (22), which always ends.
//!
//! For a given wait `d`, equation (12) gives the processor share `r_e` in (0, 1]: at small shares its right side is
//! the larger one, at 1 it is not. Equation (22) less `d` is positive for small waits, and where the drive would be
//! busy for more than the elapsed time. It is negative for large ones. Both are narrowed from such a bracket.
//!
//! The time `u` of figure 3 jumps by `B/r_d` where a state fills its buffer before the transfer, or comes to fill it
//! faster than the drive. So equation (12) may have several solutions. [`solve`] takes the one with the largest
//! processor share and names the others.

use super::elapsed::Demand;
use super::parameters::Parameters;
use super::queue::Traffic;
use super::request::boundaries;
use super::root::{Place, narrow};
use crate::error::EstimateError;

/// Values that satisfy the equations together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OperatingPoint {
    /// `R`: elapsed time, in seconds.
    pub elapsed_s: f64,
    /// `U`: time that one job slot is blocked, in seconds.
    pub blocked_s: f64,
    /// `C_s`: processor time of the system, in seconds.
    pub system_processor_s: f64,
    /// `X`: requests of one drive.
    pub requests_per_drive: f64,
    /// `r_e`: processor share of a job that is ready.
    pub processor_share: f64,
    /// `d`: mean wait in the queue of a drive, in seconds.
    pub wait_s: f64,
    /// `q`: share of the time in which a file is in use.
    pub file_use: f64,
    /// Share of the time in which a drive is busy, `(X A + T)/R`.
    pub load: f64,
}

/// Result of [`solve`].
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// The solution with the largest processor share.
    pub point: OperatingPoint,
    /// Processor shares that satisfy (12) at the wait of `point`, in falling order. The first is that of `point`.
    pub processor_shares: Vec<f64>,
    /// The solution with the smallest processor share, where (12) has several.
    pub other: Option<OperatingPoint>,
    /// False if the equations jump across the solution, so that no values satisfy them exactly.
    pub is_exact: bool,
    /// Evaluations of the flowchart.
    pub evaluations: u32,
}

/// Solves the equations from brackets.
///
/// # Errors
/// A parameter out of range.
pub fn solve(parameters: &Parameters) -> Result<Solution, EstimateError> {
    parameters.check()?;
    let mut solver =
        Solver { parameters, evaluations: 0, cuts: Vec::with_capacity(2 * parameters.states.len() + 2) };
    let (point, is_exact) = solver.operating_point(Branch::LargestShare);
    let processor_shares = solver.processor_shares(point.wait_s);
    let other = (processor_shares.len() > 1).then(|| solver.operating_point(Branch::SmallestShare).0);
    Ok(Solution { point, processor_shares, other, is_exact, evaluations: solver.evaluations })
}

/// Right sides of the equations for a processor share and a wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evaluation {
    pub(super) requests_per_drive: f64,
    pub(super) blocked_s: f64,
    pub(super) system_processor_s: f64,
    pub(super) elapsed_s: f64,
    /// Right side of (12).
    pub(super) processor_share: f64,
}

/// Requests of a drive, and the times that equation (6) joins, for a processor share and a wait.
fn demand(parameters: &Parameters, processor_share: f64, wait_s: f64) -> (f64, Demand) {
    let (mut requests, mut blocked_s) = (0.0, 0.0);
    for state in &parameters.states {
        let request = parameters.request(state, processor_share, wait_s);
        let of_state = parameters.sectors * state.share / request.sectors;
        requests += of_state;
        blocked_s += of_state * request.blocked_s;
    }
    let requests_per_drive = requests / parameters.drives;
    let demand = Demand {
        job_processor_s: parameters.job_processor_s,
        system_processor_s: parameters.system_processor_s(requests_per_drive),
        blocked_s: blocked_s / parameters.multiprogramming,
        multiprogramming: parameters.multiprogramming,
    };
    (requests_per_drive, demand)
}

impl Evaluation {
    /// Figure 3 or 4, then (A.1), (6) and (12).
    pub(super) fn new(parameters: &Parameters, processor_share: f64, wait_s: f64) -> Self {
        let (requests_per_drive, demand) = demand(parameters, processor_share, wait_s);
        let elapsed_s = demand.elapsed_s();
        let ready_s = parameters.multiprogramming * (elapsed_s - demand.blocked_s);
        Self {
            requests_per_drive,
            blocked_s: demand.blocked_s,
            system_processor_s: demand.system_processor_s,
            elapsed_s,
            processor_share: (parameters.job_processor_s / ready_s).min(1.0),
        }
    }

    pub(super) fn traffic(&self, parameters: &Parameters) -> Traffic {
        Traffic {
            elapsed_s: self.elapsed_s,
            requests: self.requests_per_drive,
            access_s: parameters.access_s,
            transfer_s: parameters.transfer_s(),
            files: parameters.files_per_drive,
        }
    }
}

/// Solution of (12) to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Branch {
    LargestShare,
    SmallestShare,
}

struct Solver<'a> {
    parameters: &'a Parameters,
    evaluations: u32,
    /// Ends of the stretches on which (12) is continuous, in falling order.
    cuts: Vec<f64>,
}

/// The smallest processor share that is tried. At it every state is far from full.
const SHARE_MIN: f64 = 1e-12;

/// Distance from the place of a jump, relative to it.
const BESIDE: f64 = 1e-12;

/// Places within each stretch that are searched for several solutions.
const GRID: u32 = 4;

/// Doublings of the wait until the bracket of (22) is closed.
const DOUBLINGS_MAX: u32 = 400;

/// Residual of (12) up to which a processor share counts as exact.
const EXACT: f64 = 1e-9;

/// Distance from a wait, relative to it, within which the elapsed time shows a jump.
const NEAR: f64 = 1e-9;

/// Change of the elapsed time, relative to it, that is a jump.
const JUMP: f64 = 1e-6;

impl Solver<'_> {
    fn evaluate(&mut self, processor_share: f64, wait_s: f64) -> Evaluation {
        self.evaluations += 1;
        Evaluation::new(self.parameters, processor_share, wait_s)
    }

    /// Right side of (12) less its left side, times a positive factor.
    ///
    /// By (12), a share `r` means the elapsed time `U + C_j / (M r)`. Beyond `max(C_s, U)` the polynomial (6), divided by
    /// `R^M`, rises with `R` and is 0 at the elapsed time of the share alone. So its sign says which of both is greater, and
    /// (6) need not be solved.
    fn excess(&mut self, processor_share: f64, wait_s: f64) -> Place {
        self.evaluations += 1;
        let (_, demand) = demand(self.parameters, processor_share, wait_s);
        let ready_s = demand.job_processor_s / (demand.multiprogramming * processor_share);
        let value = processor_share * demand.polynomial(demand.blocked_s + ready_s) / demand.job_processor_s;
        // A job has at most the whole processor.
        let value = if processor_share >= 1.0 { value.min(0.0) } else { value };
        Place { at: processor_share, value }
    }

    /// Finds the places where (12) jumps.
    fn cut(&mut self, wait_s: f64) {
        self.cuts.clear();
        self.cuts.push(1.0);
        for state in &self.parameters.states {
            let inside = boundaries(self.parameters, state, wait_s).into_iter();
            self.cuts.extend(inside.filter(|cut| (SHARE_MIN * 2.0..1.0).contains(cut)));
        }
        self.cuts.push(SHARE_MIN);
        self.cuts.sort_unstable_by(|one, other| other.total_cmp(one));
    }

    /// The stretch of that number on which (12) is continuous: its upper and its lower end.
    fn stretch(&self, index: usize) -> (f64, f64) {
        let (high, low) = (self.cuts[index], self.cuts[index + 1]);
        let high = if index == 0 { high } else { high * (1.0 - BESIDE) };
        let low = if index + 2 == self.cuts.len() { low } else { low * (1.0 + BESIDE) };
        (high, low.min(high))
    }

    /// Solves (12) for the processor share.
    fn processor_share(&mut self, wait_s: f64, branch: Branch) -> Place {
        self.cut(wait_s);
        let stretches = self.cuts.len() - 1;
        let mut last: Option<Place> = None;
        for step in 0..stretches {
            let index = if branch == Branch::LargestShare { step } else { stretches - 1 - step };
            let (high, low) = self.stretch(index);
            let (near, far) = if branch == Branch::LargestShare { (high, low) } else { (low, high) };
            let near = self.excess(near, wait_s);
            // A change of sign at the jump itself: no share satisfies (12) exactly, this one is nearest.
            if let Some(last) = last.filter(|last| (last.value > 0.0) != (near.value > 0.0)) {
                return if last.value.abs() < near.value.abs() { last } else { near };
            }
            let far = self.excess(far, wait_s);
            if (near.value > 0.0) != (far.value > 0.0) {
                return narrow(near, far, |share| self.excess(share, wait_s).value);
            }
            last = Some(far);
        }
        // The right side of (12) is positive and at most 1, so this is a share of 1 that satisfies it to rounding.
        self.excess(1.0, wait_s)
    }

    /// Solutions of (12) in falling order, from a grid within each stretch.
    fn processor_shares(&mut self, wait_s: f64) -> Vec<f64> {
        self.cut(wait_s);
        let mut shares = Vec::new();
        let mut last: Option<Place> = None;
        for index in 0..self.cuts.len() - 1 {
            let (high, low) = self.stretch(index);
            for step in 0..=GRID {
                let at = high + (low - high) * f64::from(step) / f64::from(GRID);
                let place = self.excess(at, wait_s);
                let has_crossed = last.is_some_and(|last| (last.value > 0.0) != (place.value > 0.0));
                if has_crossed && step > 0 {
                    let last = last.expect("the last place has the other sign");
                    shares.push(narrow(last, place, |share| self.excess(share, wait_s).value).at);
                }
                last = Some(place);
            }
        }
        shares
    }

    /// Right side of (22) less its left side: infinite where the drive would be busy for more than the elapsed time.
    fn wait_excess(&mut self, wait_s: f64, branch: Branch) -> Place {
        let share = self.processor_share(wait_s, branch).at;
        let traffic = self.evaluate(share, wait_s).traffic(self.parameters);
        let value = if traffic.load() < 1.0 { traffic.wait_s() - wait_s } else { f64::MAX };
        Place { at: wait_s, value }
    }

    /// Returns true if the elapsed time jumps at a wait. The residual of (22) does not tell: near a load of 1 it is that
    /// of rounding, and the elapsed time is exact.
    fn jumps(&mut self, wait_s: f64, branch: Branch) -> bool {
        let elapsed_s = [1.0 - NEAR, 1.0 + NEAR].map(|factor| {
            let share = self.processor_share(wait_s * factor, branch).at;
            self.evaluate(share, wait_s * factor).elapsed_s
        });
        (elapsed_s[1] / elapsed_s[0] - 1.0).abs() > JUMP
    }

    /// Solves (22) for the wait. Returns false with it if the equations jump there.
    fn operating_point(&mut self, branch: Branch) -> (OperatingPoint, bool) {
        let mut low = self.wait_excess(0.0, branch);
        let wait = if low.value <= 0.0 {
            low
        } else {
            let request_s =
                self.parameters.access_s + self.parameters.buffer_sectors / self.parameters.drive_rate_per_s;
            let mut high = self.wait_excess(request_s, branch);
            for _ in 0..DOUBLINGS_MAX {
                if high.value <= 0.0 {
                    break;
                }
                low = high;
                high = self.wait_excess(high.at * 2.0, branch);
            }
            // From an overloaded end, halves come first: a secant needs two finite values.
            while low.value == f64::MAX && high.at - low.at > 1e-13 * high.at {
                let middle = self.wait_excess(low.at.midpoint(high.at), branch);
                if middle.value > 0.0 { low = middle } else { high = middle }
            }
            narrow(low, high, |wait_s| self.wait_excess(wait_s, branch).value)
        };
        let share = self.processor_share(wait.at, branch);
        let evaluation = self.evaluate(share.at, wait.at);
        let traffic = evaluation.traffic(self.parameters);
        let is_exact = share.value.abs() <= EXACT && !self.jumps(wait.at, branch);
        let point = OperatingPoint {
            elapsed_s: evaluation.elapsed_s,
            blocked_s: evaluation.blocked_s,
            system_processor_s: evaluation.system_processor_s,
            requests_per_drive: evaluation.requests_per_drive,
            processor_share: share.at,
            wait_s: wait.at,
            file_use: if traffic.load() < 1.0 { traffic.file_use() } else { 1.0 },
            load: traffic.load(),
        };
        (point, is_exact)
    }
}

#[cfg(test)]
mod tests {
    use super::super::parameters::Reactivation;
    use super::super::parameters::tests::figure_7;
    use super::*;

    #[test]
    fn whole_model_has_the_figures_of_the_notes() {
        use Reactivation::{AtEnd, PerSector};
        let table = [
            (3.0, AtEnd, 8.0, [326.7778, 94.7856, 3810.5597, 0.373576, 0.045037]),
            (3.0, AtEnd, 16.0, [309.2887, 39.4777, 2163.8484, 0.321212, 0.021022]),
            (3.0, PerSector, 8.0, [312.0904, 8.8296, 2640.6437, 0.285783, 0.026498]),
            (3.0, PerSector, 16.0, [304.4016, 8.3127, 1542.3257, 0.292705, 0.015416]),
            (2.0, AtEnd, 8.0, [357.0800, 127.9520, 3596.8949, 0.567368, 0.033010]),
            (2.0, PerSector, 16.0, [304.4568, 14.5750, 1465.6565, 0.448459, 0.014768]),
        ];
        for (slots, reactivation, buffer, noted) in table {
            let parameters = Parameters { reactivation, ..figure_7(slots, buffer) };
            let solution = solve(&parameters).unwrap();
            let point = solution.point;
            let found = [
                point.elapsed_s,
                point.blocked_s,
                point.requests_per_drive,
                point.processor_share,
                point.wait_s,
            ];
            let digits = [6e-5, 6e-5, 6e-5, 6e-7, 6e-7];
            for ((found, noted), digit) in found.into_iter().zip(noted).zip(digits) {
                assert!(
                    (found - noted).abs() < digit,
                    "M {slots} {reactivation:?} B {buffer}: {found} is not {noted}"
                );
            }
            assert!(solution.is_exact, "{solution:?}");
            assert_eq!(solution.processor_shares.len(), 1, "{solution:?}");
        }
    }

    #[test]
    fn overloaded_drive_where_the_iteration_cycles_has_a_solution() {
        let mut parameters = figure_7(4.0, 8.0);
        parameters.access_s = 0.15;
        let solution = solve(&parameters).unwrap();
        assert!((solution.point.elapsed_s - 507.391).abs() < 6e-4, "{solution:?}");
    }

    #[test]
    fn elapsed_time_of_figure_7_falls_with_the_buffer_as_the_paper_says() {
        let of = |buffer: f64, reactivation| {
            let parameters = Parameters { reactivation, threshold_sectors: 4.0, ..figure_7(3.0, buffer) };
            solve(&parameters).unwrap().point.elapsed_s
        };
        let without = [8.0, 16.0, 32.0].map(|buffer| of(buffer, Reactivation::AtEnd));
        for (found, noted) in without.into_iter().zip([326.8, 316.6, 313.7]) {
            assert!((found - noted).abs() < 0.06, "{found} is not {noted}");
        }
        for buffer in [8.0, 16.0, 32.0] {
            assert!((of(buffer, Reactivation::PerSector) - 312.1).abs() < 0.06);
        }
        let ends = [1.0, 6.0, 8.0].map(|threshold_sectors| {
            solve(&Parameters { threshold_sectors, ..figure_7(3.0, 8.0) }).unwrap().point.elapsed_s
        });
        for (found, noted) in ends.into_iter().zip([346.0, 322.0, 347.0]) {
            assert!((found - noted).abs() < 0.6, "{found} is not {noted}");
        }
    }

    #[test]
    fn one_slot_without_a_system_has_the_whole_processor() {
        let mut parameters = figure_7(1.0, 8.0);
        parameters.system.base_s = 0.0;
        parameters.system.per_call_s = 0.0;
        let solution = solve(&parameters).unwrap();
        let point = solution.point;
        assert!((point.processor_share - 1.0).abs() < 1e-9, "{point:?}");
        assert!((point.elapsed_s - 260.0 - point.blocked_s).abs() < 1e-6, "{point:?}");
    }

    #[test]
    fn drive_of_one_file_has_no_wait() {
        let parameters = Parameters { files_per_drive: 1.0, ..figure_7(3.0, 16.0) };
        let point = solve(&parameters).unwrap().point;
        assert!(point.wait_s < 1e-12, "{point:?}");
        assert!((point.file_use - point.load).abs() < 1e-12, "{point:?}");
    }
}
