//! Growth of a load up to a bound: the factor at which a figure passes a value.

use crate::error::EstimateError;

/// Bisections of the factor.
const BISECTIONS: u32 = 48;

/// Smallest and greatest factor looked for.
const FACTORS: (f64, f64) = (1e-4, 1e6);

/// Factor of the load up to which `figure` stays within `bound`, looked for from the factor `start` (above 0) on. `figure` gives
/// the value at a factor, and an overload counts as beyond any bound. Where the figure passes the bound several times, as it may
/// with services that were recorded at one load, the factor is one that halving or doubling `start` meets first.
///
/// # Errors
/// A bound that the figure exceeds at any load, a bound that no load reaches, or a failure of `figure`.
pub fn growth_until(
    bound: f64,
    start: f64,
    mut figure: impl FnMut(f64) -> Result<f64, EstimateError>,
) -> Result<f64, EstimateError> {
    let mut within = |factor: f64| match figure(factor) {
        Ok(value) => Ok(value <= bound),
        Err(EstimateError::Overload { .. }) => Ok(false),
        Err(error) => Err(error),
    };
    let (mut low, mut high) = (start, start);
    if within(start)? {
        while within(high * 2.0)? {
            high *= 2.0;
            if high > FACTORS.1 {
                return Err(EstimateError::NeverReached { bound });
            }
        }
        (low, high) = (high, high * 2.0);
    } else {
        while !within(low / 2.0)? {
            low /= 2.0;
            if low < FACTORS.0 {
                return Err(EstimateError::AlwaysExceeded { bound });
            }
        }
        (low, high) = (low / 2.0, low);
    }
    for _ in 0..BISECTIONS {
        let middle = (low * high).sqrt();
        if within(middle)? {
            low = middle
        } else {
            high = middle
        }
        if high / low < 1.0 + 1e-6 {
            break;
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queueing::mm1;

    #[test]
    fn growth_of_mm1_is_that_of_its_formula() {
        // 1 / (μ − f λ) = 50 ms with μ = 100, λ = 10: f = 8.
        let response = |factor: f64| Ok(mm1(10.0 * factor, 0.01)?.response_mean_s);
        assert!((growth_until(0.05, 1.0, response).unwrap() - 8.0).abs() < 1e-4);
        // A load that already exceeds the bound has to shrink: 1 / (100 − 95 f) = 50 ms.
        let response = |factor: f64| Ok(mm1(95.0 * factor, 0.01)?.response_mean_s);
        assert!((growth_until(0.05, 1.0, response).unwrap() - 80.0 / 95.0).abs() < 1e-4);
    }

    #[test]
    fn bounds_that_no_load_meets_are_refused() {
        let response = |factor: f64| Ok(mm1(10.0 * factor, 0.01)?.response_mean_s);
        assert_eq!(growth_until(0.009, 1.0, response), Err(EstimateError::AlwaysExceeded { bound: 0.009 }));
        assert_eq!(growth_until(1.0, 1.0, |_| Ok(0.5)), Err(EstimateError::NeverReached { bound: 1.0 }));
        let failing = |_| Err(EstimateError::WithoutTimes { requests: 9 });
        assert_eq!(growth_until(1.0, 1.0, failing), Err(EstimateError::WithoutTimes { requests: 9 }));
    }

    #[test]
    fn crossing_next_to_the_start_is_found_where_there_are_several() {
        // Within the bound of 1 below 0.03 and from 0.13 to 0.24, which has no power of two.
        let figure = |factor: f64| {
            Ok(match factor {
                ..0.03 => 0.5,
                ..0.13 => 2.0,
                _ => factor / 0.24,
            })
        };
        for start in [0.14, 0.2, 0.23, 0.4] {
            assert!((growth_until(1.0, start, figure).unwrap() - 0.24).abs() < 1e-4, "{start}");
        }
        assert!((growth_until(1.0, 1.0, figure).unwrap() - 0.03).abs() < 1e-4);
    }
}
