//! The distance between two distributions of response times.
//!
//! ```text
//!  1 ┤        ╭──── reference        EA_rms² = ∫₀¹ (D_C(u) − D_R(u))² du
//!    │   ├──▶╭╯ other
//!  u ┤  ╭╯   │       D(u): the response time that a share u of the requests does not exceed
//!  0 ┼──╯────╯─────▶ response time
//! ```
//! Sorted response times are the quantile function D, a step function. Over n values in each, the
//! integral is Griffin's Equation 5.7, the root mean square of D_C(i) − D_R(i). Of unequal numbers of
//! values the same integral is taken exactly over the union of both functions' steps; nothing is
//! resampled.
//!
//! # References
//! C. Ruemmler & J. Wilkes, IEEE Computer 27(3), 1994 (demerit figure); J. L. Griffin,
//! Timing-accurate storage emulation, 2004, section 5.2.4, Equations 5.7 and 5.8.

use schemars::JsonSchema;
use seeklab_core::Duration;
use serde::Serialize;

use crate::rounding::{percent, six_decimals};

/// The distance between two distributions, which need not come from the same requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Demerit {
    /// Root mean square of the horizontal distance.
    pub ea_rms_ms: f64,
    /// Demerit in percent of the mean of the reference. `None` if only that mean is zero; of equal distributions it is zero.
    pub ea_rms_pct: Option<f64>,
}

/// The demerit of `other` against `reference` in any order, `None` if either is empty.
pub fn demerit(reference: &[Duration], other: &[Duration]) -> Option<Demerit> {
    let sorted = |values: &[Duration]| {
        let mut values: Vec<u64> = values.iter().map(|value| value.as_ns()).collect();
        values.sort_unstable();
        values
    };
    of_sorted(&sorted(reference), &sorted(other))
}

/// The demerit of ascending nanosecond values.
pub(super) fn of_sorted(reference: &[u64], other: &[u64]) -> Option<Demerit> {
    if reference.is_empty() || other.is_empty() {
        return None;
    }
    let rms_ns = rms_distance_ns(reference, other);
    let mean_ns = reference.iter().map(|value| *value as f64).sum::<f64>() / reference.len() as f64;
    let ea_rms_pct = if rms_ns == 0.0 { Some(0.0) } else { percent(rms_ns, mean_ns) };
    Some(Demerit { ea_rms_ms: six_decimals(rms_ns / 1e6), ea_rms_pct })
}

fn rms_distance_ns(a: &[u64], b: &[u64]) -> f64 {
    let square = |a: u64, b: u64| {
        let distance = a.abs_diff(b) as f64;
        distance * distance
    };
    if a.len() == b.len() {
        let sum = a.iter().zip(b).map(|(a, b)| square(*a, *b)).sum::<f64>();
        return (sum / a.len() as f64).sqrt();
    }
    // In units of 1 / (n m), value i of a covers i m .. (i + 1) m and value j of b covers j n .. (j + 1) n.
    let (n, m) = (a.len() as u128, b.len() as u128);
    let (mut i, mut j, mut at, mut sum) = (0_usize, 0_usize, 0_u128, 0.0);
    while i < a.len() && j < b.len() {
        let (a_end, b_end) = ((i as u128 + 1) * m, (j as u128 + 1) * n);
        let end = a_end.min(b_end);
        sum += square(a[i], b[j]) * (end - at) as f64;
        at = end;
        i += usize::from(a_end == end);
        j += usize::from(b_end == end);
    }
    (sum / (n * m) as f64).sqrt()
}
