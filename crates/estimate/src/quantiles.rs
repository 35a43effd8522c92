//! Response times that shares of the requests do not exceed, of all requests and of each operation.

use seeklab_core::Operation;

/// Shares of the requests whose greatest response time an estimate gives.
pub const SHARES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

/// Response times that shares of the requests do not exceed, in seconds, in the order of [`SHARES`].
pub type Quantiles = [f64; SHARES.len()];

/// Response times of one operation, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OperationTimes {
    /// Mean.
    pub mean_s: f64,
    /// Times that shares of the requests do not exceed.
    pub quantiles_s: Quantiles,
}

/// Requests by which the product of a share and a number of requests may be rounded.
const ROUNDING: f64 = 1e-6;

/// The first of these times that at least a share of them does not exceed, as simulations report it. They are reordered.
///
/// # Panics
/// Without times.
pub(crate) fn quantile_s(times_s: &mut [f64], share: f64) -> f64 {
    let rank = (share * times_s.len() as f64 - ROUNDING).ceil() as usize;
    let place = rank.saturating_sub(1).min(times_s.len() - 1);
    *times_s.select_nth_unstable_by(place, f64::total_cmp).1
}

/// Quantiles of several shares, as [`quantile_s`] gives each.
///
/// # Panics
/// Without times.
pub(crate) fn quantiles_s<const N: usize>(times_s: &mut [f64], shares: [f64; N]) -> [f64; N] {
    shares.map(|share| quantile_s(times_s, share))
}

/// Response times of the reads and of the writes among these; `None` of both if one of them is missing.
pub(crate) fn by_operation(
    responses_s: impl Iterator<Item = (Operation, f64)>,
) -> (Option<OperationTimes>, Option<OperationTimes>) {
    let (mut reads_s, mut writes_s) = (Vec::new(), Vec::new());
    for (op, response_s) in responses_s {
        match op {
            Operation::Read => reads_s.push(response_s),
            Operation::Write => writes_s.push(response_s),
            _ => {}
        }
    }
    if reads_s.is_empty() || writes_s.is_empty() {
        return (None, None);
    }
    let times = |mut times_s: Vec<f64>| OperationTimes {
        mean_s: times_s.iter().sum::<f64>() / times_s.len() as f64,
        quantiles_s: quantiles_s(&mut times_s, SHARES),
    };
    (Some(times(reads_s)), Some(times(writes_s)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_is_the_first_time_that_the_share_does_not_exceed() {
        let mut times_s: Vec<f64> = (1..=1000).rev().map(f64::from).collect();
        assert_eq!(quantiles_s(&mut times_s, SHARES), [500.0, 900.0, 950.0, 990.0, 999.0]);
        assert_eq!(quantile_s(&mut [3.0], 0.5), 3.0);
    }

    #[test]
    fn operations_have_times_of_their_own_only_where_there_are_both() {
        let of = |ops: &[Operation]| by_operation(ops.iter().copied().zip([1.0, 3.0, 5.0, 7.0]));
        use Operation::{Flush, Read, Write};
        let (reads, writes) = of(&[Read, Write, Flush, Read]);
        assert_eq!((reads.unwrap().mean_s, writes.unwrap().mean_s), (4.0, 3.0));
        assert_eq!(of(&[Read, Flush, Read, Read]), (None, None));
        assert_eq!(of(&[Write, Write]), (None, None));
    }
}
