//! Two traces of the same requests: how far are the response times apart?
//!
//! With T_R(n) and T_C(n) the response times of request n in the reference and in the other trace,
//! N requests, and M_R the mean of T_R:
//!
//! | figure | definition | in percent |
//! | --- | --- | --- |
//! | EI_avg | mean of T_C(n) − T_R(n) | 100 EI_avg / M_R |
//! | EI_rms | root mean square of T_C(n) − T_R(n) | 100 EI_rms / M_R |
//! | EA_rms | root mean square of the sorted T_C less the sorted T_R (the *demerit*) | 100 EA_rms / M_R |
//! | within 5 % | share of n with abs(T_C(n) − T_R(n)) ≤ 0.05 T_R(n) | |
//!
//! Each percentage is relative to the mean of the reference, not a mean of relative errors: in
//! Griffin's Table 5.3 an EI_avg of 0.017 ms over a mean of 3.077 ms is 0.55 %.
//!
//! Times are compared of requests that were carried out in both traces. Those that failed in either are counted.
//!
//! # Scope and limits
//! Requests pair in order of arrival and must agree in device, address, length and operation; for
//! other traces compare the distributions alone with [`demerit()`]. Pairing holds 40 bytes per request
//! and trace in memory, a [`Comparison`] 16 per request and trace.
//!
//! # References
//! J. L. Griffin, Timing-accurate storage emulation, CMU, 2004: sections 5.2.3 and 5.2.4, Equations
//! 5.2 to 5.8, Table 5.3.

mod demerit;
mod error;
mod histogram;
mod pairing;
mod series;

use std::error::Error;

use schemars::JsonSchema;
use seeklab_core::{Duration, TraceRecord};
use serde::Serialize;

use crate::curve::{CdfPoint, cdf_of_sorted};
use crate::metrics::{SAMPLE_MAX, is_sampled};
use crate::rounding::{percent, six_decimals};
use pairing::{FailedRequests, Paired};

pub use demerit::{Demerit, demerit};
pub use error::{Address, ComparisonError, Side};
pub use histogram::ErrorHistogram;
pub(crate) use series::extremes;

/// The response times of the same requests in two traces.
#[derive(Debug, Clone)]
pub struct Comparison {
    reference_ns: Vec<u64>,
    other_ns: Vec<u64>,
    reference_sorted_ns: Vec<u64>,
    other_sorted_ns: Vec<u64>,
    failed: FailedRequests,
}

/// The figures of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct ComparisonSummary {
    /// Requests compared: those that were carried out in both traces.
    pub requests: u64,
    /// Requests that failed in the reference.
    pub reference_errors: u64,
    /// Requests that failed in the other trace.
    pub other_errors: u64,
    /// Requests that failed in one of the traces and were carried out in the other.
    pub different_outcomes: u64,
    /// Mean response time of the reference.
    pub reference_mean_ms: f64,
    /// Mean response time of the other trace.
    pub other_mean_ms: f64,
    /// EI_avg: mean of the errors of individual requests.
    pub ei_avg_ms: f64,
    /// EI_avg in percent of the mean of the reference. `None` if that is zero.
    pub ei_avg_pct: Option<f64>,
    /// EI_rms: root mean square of the errors of individual requests.
    pub ei_rms_ms: f64,
    /// EI_rms in percent of the mean of the reference. `None` if that is zero.
    pub ei_rms_pct: Option<f64>,
    /// EA_rms, the demerit: root mean square distance of the distributions.
    pub ea_rms_ms: f64,
    /// EA_rms in percent of the mean of the reference. `None` if that is zero.
    pub ea_rms_pct: Option<f64>,
    /// Share of the requests whose response time is within 5 % of the reference's.
    pub within_5pct_pct: f64,
}

/// Compares all requests of two traces, given in any order.
///
/// # Errors
/// [`ComparisonError`], when a row cannot be read or has no completion, or the requests differ.
pub fn compare<R, O, E, F>(reference: R, other: O) -> Result<Comparison, ComparisonError>
where
    R: IntoIterator<Item = Result<TraceRecord, E>>,
    O: IntoIterator<Item = Result<TraceRecord, F>>,
    E: Into<Box<dyn Error + Send + Sync>>,
    F: Into<Box<dyn Error + Send + Sync>>,
{
    compare_where(reference, other, |_, _| true)
}

/// Compares the requests that `keep` accepts in both traces; all of them must pair.
///
/// # Errors
/// As [`compare`].
pub fn compare_where<R, O, E, F>(
    reference: R,
    other: O,
    mut keep: impl FnMut(Side, &TraceRecord) -> bool,
) -> Result<Comparison, ComparisonError>
where
    R: IntoIterator<Item = Result<TraceRecord, E>>,
    O: IntoIterator<Item = Result<TraceRecord, F>>,
    E: Into<Box<dyn Error + Send + Sync>>,
    F: Into<Box<dyn Error + Send + Sync>>,
{
    let reference = pairing::read(Side::Reference, reference, &mut keep)?;
    let other = pairing::read(Side::Other, other, &mut keep)?;
    Comparison::of(pairing::pair(reference, other)?)
}

impl Comparison {
    /// Compares response times that are paired already, `(reference, other)`.
    ///
    /// # Errors
    /// [`ComparisonError::Empty`] of nothing.
    pub fn from_pairs(
        pairs: impl IntoIterator<Item = (Duration, Duration)>,
    ) -> Result<Self, ComparisonError> {
        let (reference_ns, other_ns) =
            pairs.into_iter().map(|(reference, other)| (reference.as_ns(), other.as_ns())).unzip();
        Self::of(Paired { reference_ns, other_ns, failed: FailedRequests::default() })
    }

    fn of(Paired { reference_ns, other_ns, failed }: Paired) -> Result<Self, ComparisonError> {
        if reference_ns.is_empty() {
            return Err(ComparisonError::Empty);
        }
        let sorted = |values: &[u64]| {
            let mut values = values.to_vec();
            values.sort_unstable();
            values
        };
        let (reference_sorted_ns, other_sorted_ns) = (sorted(&reference_ns), sorted(&other_ns));
        Ok(Self { reference_ns, other_ns, reference_sorted_ns, other_sorted_ns, failed })
    }

    /// The figures.
    pub fn summary(&self) -> ComparisonSummary {
        let n = self.reference_ns.len() as f64;
        let mean_ns = |values: &[u64]| values.iter().map(|value| *value as f64).sum::<f64>() / n;
        let reference_mean_ns = mean_ns(&self.reference_ns);
        let (mut sum, mut squares, mut within) = (0_i128, 0.0, 0_u64);
        for (reference, other) in self.pairs() {
            let error = i128::from(other) - i128::from(reference);
            sum += error;
            squares += error as f64 * error as f64;
            within += u64::from(error.unsigned_abs() * 20 <= u128::from(reference));
        }
        let (avg_ns, rms_ns) = (sum as f64 / n, (squares / n).sqrt());
        let demerit = demerit::of_sorted(&self.reference_sorted_ns, &self.other_sorted_ns)
            .expect("a comparison is never empty");
        ComparisonSummary {
            requests: self.reference_ns.len() as u64,
            reference_errors: self.failed.reference,
            other_errors: self.failed.other,
            different_outcomes: self.failed.in_one,
            reference_mean_ms: six_decimals(reference_mean_ns / 1e6),
            other_mean_ms: six_decimals(mean_ns(&self.other_ns) / 1e6),
            ei_avg_ms: six_decimals(avg_ns / 1e6),
            ei_avg_pct: percent(avg_ns, reference_mean_ns),
            ei_rms_ms: six_decimals(rms_ns / 1e6),
            ei_rms_pct: percent(rms_ns, reference_mean_ns),
            ea_rms_ms: demerit.ea_rms_ms,
            ea_rms_pct: demerit.ea_rms_pct,
            within_5pct_pct: six_decimals(within as f64 / n * 100.0),
        }
    }

    fn pairs(&self) -> impl Iterator<Item = (u64, u64)> + Clone + '_ {
        self.reference_ns.iter().copied().zip(self.other_ns.iter().copied())
    }

    /// The errors of individual requests in order of arrival, in milliseconds.
    pub fn errors_ms(&self) -> impl Iterator<Item = f64> + Clone + '_ {
        self.pairs().map(|(reference, other)| (i128::from(other) - i128::from(reference)) as f64 / 1e6)
    }

    /// The errors over the requests in order of arrival, none cut off: `(index, milliseconds)`, at most
    /// 4,000. Of more requests, the smallest and the largest error of each few in succession.
    pub fn errors_over_requests(&self) -> Vec<(f64, f64)> {
        extremes(
            self.errors_ms().enumerate().map(|(index, error)| (index as f64, error)),
            self.reference_ns.len(),
        )
    }

    /// The errors in buckets of 0.02 ms.
    pub fn error_histogram(&self) -> ErrorHistogram {
        ErrorHistogram::of(self.errors_ms(), 0.02)
    }

    /// The errors in percent of each request's reference time, in buckets of 1 %. Requests whose
    /// reference time is zero have no such error and are left out.
    pub fn error_pct_histogram(&self) -> ErrorHistogram {
        let errors = self.pairs().filter(|(reference, _)| *reference > 0).map(|(reference, other)| {
            (i128::from(other) - i128::from(reference)) as f64 / reference as f64 * 100.0
        });
        ErrorHistogram::of(errors, 1.0)
    }

    /// The cumulative distribution of the reference, thinned for drawing.
    pub fn reference_cdf(&self) -> Vec<CdfPoint> {
        cdf_of_sorted(&self.reference_sorted_ns)
    }

    /// The cumulative distribution of the other trace, thinned for drawing.
    pub fn other_cdf(&self) -> Vec<CdfPoint> {
        cdf_of_sorted(&self.other_sorted_ns)
    }

    /// At most 4,000 requests, evenly chosen: `(index in order of arrival, reference, other)`.
    pub fn sample(&self) -> Vec<(u64, Duration, Duration)> {
        let halvings = (0..u64::BITS)
            .find(|halvings| {
                let kept = (0..self.reference_ns.len() as u64).filter(|index| is_sampled(*index, *halvings));
                kept.count() <= SAMPLE_MAX
            })
            .unwrap_or(0);
        self.pairs()
            .zip(0..)
            .filter(|(_, index)| is_sampled(*index, halvings))
            .map(|((reference, other), index)| {
                (index, Duration::from_ns(reference), Duration::from_ns(other))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
