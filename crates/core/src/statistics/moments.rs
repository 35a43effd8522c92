//! Count, mean, variance and extremes of a stream of numbers.

/// Count, mean, variance and extremes, exact over any number of values.
///
/// Updated by Welford's recurrence and merged by Chan's, so large means do not cancel the variance.
///
/// # References
/// B. P. Welford, Technometrics 4(3), 1962; Chan, Golub & LeVeque, STAN-CS-79-773, 1979.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
    min: f64,
    max: f64,
}

impl Default for Moments {
    fn default() -> Self {
        Self { count: 0, mean: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Moments {
    /// Takes one value in.
    pub fn record(&mut self, value: f64) {
        self.count += 1;
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (value - self.mean);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Takes one value in so many times.
    pub fn record_many(&mut self, value: f64, times: u64) {
        let alike = if times > 0 {
            Self { count: times, mean: value, squares: 0.0, min: value, max: value }
        } else {
            Self::default()
        };
        self.merge(&alike);
    }

    /// Takes all values of `other` in.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let count = self.count + other.count;
        let delta = other.mean - self.mean;
        self.squares +=
            other.squares + delta * delta * (self.count as f64 * other.count as f64 / count as f64);
        self.mean += delta * other.count as f64 / count as f64;
        self.count = count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Returns the number of values added.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The mean, `None` of nothing.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// The sample variance (divided by n - 1), `None` below two values.
    pub fn variance(&self) -> Option<f64> {
        (self.count > 1).then(|| self.squares / (self.count - 1) as f64)
    }

    /// The sample standard deviation, `None` below two values.
    pub fn standard_deviation(&self) -> Option<f64> {
        self.variance().map(f64::sqrt)
    }

    /// The smallest value, `None` of nothing.
    pub fn min(&self) -> Option<f64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest value, `None` of nothing.
    pub fn max(&self) -> Option<f64> {
        (self.count > 0).then_some(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Moments {
        let mut moments = Moments::default();
        values.iter().for_each(|value| moments.record(*value));
        moments
    }

    #[test]
    fn moments_match_the_formula() {
        let moments = of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!(moments.mean(), Some(5.0));
        assert!((moments.variance().unwrap() - 32.0 / 7.0).abs() < 1e-12);
        assert_eq!((moments.min(), moments.max()), (Some(2.0), Some(9.0)));
        assert_eq!(Moments::default().mean(), None);
    }

    #[test]
    fn merging_equals_recording_all() {
        let mut merged = of(&[1.0, 2.0, 1e9]);
        merged.merge(&of(&[1e9 + 3.0, -5.0]));
        let whole = of(&[1.0, 2.0, 1e9, 1e9 + 3.0, -5.0]);
        assert_eq!(merged.count(), whole.count());
        assert!((merged.mean().unwrap() / whole.mean().unwrap() - 1.0).abs() < 1e-12);
        assert!((merged.variance().unwrap() / whole.variance().unwrap() - 1.0).abs() < 1e-12);
    }
}
