//! Curves of a distribution, small enough to draw.

use seeklab_core::statistics::Distribution;
use serde::Serialize;

use crate::rounding::six_decimals;

/// A point of a cumulative distribution: the share of all values up to `ms`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CdfPoint {
    /// Milliseconds.
    pub ms: f64,
    /// Share of the values that are not longer, in `(0, 1]`.
    pub share: f64,
}

/// A bucket of a histogram, `low_ms..high_ms`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HistogramBin {
    /// Start of the bucket.
    pub low_ms: f64,
    /// End of the bucket. The end belongs to the next bucket.
    pub high_ms: f64,
    /// Values in the bucket.
    pub count: u64,
}

/// The steps between points of a curve that are as high as the eye wants: 1/200 of all values.
const BODY_STEP: f64 = 1.0 / 200.0;
/// In the tail a point is due when this share of what remained is left, so 99.99 % is still drawn.
const TAIL_RATIO: f64 = 0.85;

/// The cumulative distribution of `distribution` in at most 400 points for up to 10^12 values.
pub fn cdf(distribution: &Distribution) -> Vec<CdfPoint> {
    thin(distribution.buckets().map(|(upper, count)| (upper.as_ms(), count)))
}

/// The cumulative distribution of ascending nanosecond values, thinned alike.
pub(crate) fn cdf_of_sorted(sorted_ns: &[u64]) -> Vec<CdfPoint> {
    thin(sorted_ns.chunk_by(|a, b| a == b).map(|equal| (equal[0] as f64 / 1e6, equal.len() as u64)))
}

fn thin(steps: impl Iterator<Item = (f64, u64)>) -> Vec<CdfPoint> {
    let steps: Vec<(f64, u64)> = steps.collect();
    let total = steps.iter().map(|(_, count)| count).sum::<u64>() as f64;
    let mut points: Vec<CdfPoint> = Vec::new();
    let (mut seen, mut drawn) = (0, 0.0);
    for (index, (ms, count)) in steps.iter().enumerate() {
        seen += count;
        let share = seen as f64 / total;
        let is_last = index + 1 == steps.len();
        if share - drawn >= BODY_STEP || 1.0 - share <= (1.0 - drawn) * TAIL_RATIO || is_last || index == 0 {
            points.push(CdfPoint { ms: six_decimals(*ms), share });
            drawn = share;
        }
    }
    points
}

/// Bounds of logarithmic buckets per decade (the E12 series of preferred numbers), which print short.
const PER_DECADE: [f64; 12] = [1.0, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 3.9, 4.7, 5.6, 6.8, 8.2];

/// A histogram of `distribution` in logarithmic buckets, twelve per decade, from the shortest to the
/// longest occupied; what is shorter than 1 µs counts in the first.
pub fn histogram(distribution: &Distribution) -> Vec<HistogramBin> {
    let bounds: Vec<u64> = (3..19_u32)
        .flat_map(|exponent| PER_DECADE.map(|step| (step * 10.0).round() as u64 * 10_u64.pow(exponent - 1)))
        .collect();
    let mut counts = vec![0; bounds.len()];
    for (upper, count) in distribution.buckets() {
        let index = bounds.partition_point(|bound| *bound <= upper.as_ns()).saturating_sub(1);
        counts[index] += count;
    }
    let Some(first) = counts.iter().position(|count| *count > 0) else { return Vec::new() };
    let last = counts.iter().rposition(|count| *count > 0).unwrap_or(first);
    (first..=last)
        .map(|index| HistogramBin {
            low_ms: bounds[index] as f64 / 1e6,
            high_ms: bounds.get(index + 1).map_or(f64::MAX, |bound| *bound as f64 / 1e6),
            count: counts[index],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use seeklab_core::Duration;

    #[test]
    fn cdf_is_small_monotone_and_complete() {
        let mut distribution = Distribution::default();
        let mut state = 1_u64;
        for _ in 0..300_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            distribution.record(Duration::from_ns((state >> 33) % 50_000_000 + (state >> 60) * 1_000_000));
        }
        let points = cdf(&distribution);
        assert!((100..=400).contains(&points.len()), "{}", points.len());
        assert!(points.windows(2).all(|w| w[0].ms < w[1].ms && w[0].share < w[1].share));
        assert_eq!(points.last().unwrap().share, 1.0);
        assert!(cdf(&Distribution::default()).is_empty());
    }

    #[test]
    fn cdf_of_ascending_values_has_their_milliseconds_and_shares() {
        let point = |ms, share| CdfPoint { ms, share };
        assert_eq!(
            cdf_of_sorted(&[250_000, 250_000, 1_500_000, 3_000_000]),
            [point(0.25, 0.5), point(1.5, 0.75), point(3.0, 1.0)]
        );
    }

    #[test]
    fn histogram_counts_every_value_in_its_bucket() {
        let mut distribution = Distribution::default();
        for us in [0, 1, 1_000, 1_199, 1_300, 9_000_000] {
            distribution.record(Duration::from_us(us));
        }
        let bins = histogram(&distribution);
        assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), 6);
        assert_eq!(bins[0], HistogramBin { low_ms: 0.001, high_ms: 0.0012, count: 2 });
        let one_ms = bins.iter().find(|bin| bin.low_ms == 1.0).unwrap();
        assert_eq!((one_ms.high_ms, one_ms.count), (1.2, 2));
        assert_eq!(bins.last().unwrap().low_ms, 8_200.0);
    }
}
