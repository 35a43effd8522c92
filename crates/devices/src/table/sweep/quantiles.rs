//! A distribution of times by its quantiles, at shares that lie closer towards the tail.

use seeklab_core::Duration;

use super::super::times::Counts;

/// Numbers of steps with their weights in 1/100,000: to 98 %, 99.8 %, 99.98 % and all.
const STEPS: [(usize, u32); 4] = [(196, 500), (36, 50), (36, 5), (20, 1)];

/// Sum of all weights.
const TOTAL: u32 = 100_000;

/// The longest time, 2^62 ns (146 years).
const NS_MAX: f64 = (1_u64 << 62) as f64;

/// A distribution of times: its quantiles in the middle of each of 288 steps, the last 1/100,000 wide.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantiles {
    /// Logarithms of nanoseconds, ascending.
    ln_ns: Vec<f64>,
}

/// The weight of each step.
fn weights() -> impl Iterator<Item = u32> {
    STEPS.into_iter().flat_map(|(count, weight)| std::iter::repeat_n(weight, count))
}

/// The share in the middle of each step.
fn shares() -> impl Iterator<Item = f64> {
    let mut before = 0;
    weights().map(move |weight| {
        let middle = f64::from(2 * before + weight) / f64::from(2 * TOTAL);
        before += weight;
        middle
    })
}

impl Quantiles {
    /// From percentiles: (share in 0 to 1, nanoseconds), both ascending; between them the logarithm of time is
    /// linear in the share, before the first and after the last it is that of those. `None` of none.
    pub fn from_percentiles(points: &[(f64, f64)]) -> Option<Self> {
        let (first, last) = (points.first()?, points.last()?);
        let ln = |ns: f64| ns.clamp(1.0, NS_MAX).ln();
        let at = |share: f64| {
            let next = points.partition_point(|(of, _)| *of < share);
            match (next.checked_sub(1).and_then(|index| points.get(index)), points.get(next)) {
                (Some((before, a)), Some((after, b))) if after > before => {
                    ln(*a) + (ln(*b) - ln(*a)) * (share - before) / (after - before)
                }
                (_, Some((_, ns))) if next > 0 => ln(*ns),
                (None, _) => ln(first.1),
                _ => ln(last.1),
            }
        };
        let mut ln_ns: Vec<f64> = shares().map(at).collect();
        // Percentiles that fall are no distribution; take them by size.
        ln_ns.sort_by(f64::total_cmp);
        Some(Self { ln_ns })
    }

    /// Returns the quantiles of times with their counts, in any order; `None` if there are no times.
    pub fn from_counts(counts: &[(f64, u64)]) -> Option<Self> {
        let mut seen: Vec<(f64, f64)> = counts
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(ns, count)| (ns.clamp(1.0, NS_MAX), *count as f64))
            .collect();
        seen.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total: f64 = seen.iter().map(|(_, count)| count).sum();
        let mut cells = seen.iter();
        let mut current = cells.next()?;
        let mut until = current.1;
        let at = |share: f64| {
            while until < share * total
                && let Some(next) = cells.next()
            {
                current = next;
                until += next.1;
            }
            current.0.ln()
        };
        Some(Self { ln_ns: shares().map(at).collect() })
    }

    /// The mean, in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        let sum: f64 =
            self.ln_ns.iter().zip(weights()).map(|(ln, weight)| ln.exp() * f64::from(weight)).sum();
        sum / f64::from(TOTAL)
    }

    /// The time at a share in 0 to 1, in nanoseconds.
    pub fn at_ns(&self, share: f64) -> f64 {
        let place = shares().position(|middle| middle >= share).unwrap_or(self.ln_ns.len() - 1);
        self.ln_ns[place].exp()
    }

    /// The same shape with that mean, in nanoseconds.
    #[must_use]
    pub fn with_mean(&self, mean_ns: f64) -> Self {
        let shift = mean_ns.clamp(1.0, NS_MAX).ln() - self.mean_ns().ln();
        Self { ln_ns: self.ln_ns.iter().map(|ln| (ln + shift).clamp(0.0, NS_MAX.ln())).collect() }
    }

    /// Between this one and `other`, of which it has `share`: quantile by quantile in the logarithm, the mean linear.
    #[must_use]
    pub fn towards(&self, other: &Self, share: f64) -> Self {
        let pairs = self.ln_ns.iter().zip(&other.ln_ns);
        let between = Self { ln_ns: pairs.map(|(a, b)| a + (b - a) * share).collect() };
        between.with_mean(self.mean_ns() + (other.mean_ns() - self.mean_ns()) * share)
    }

    /// One request of this or of `other`, by weight.
    #[must_use]
    pub fn mixed(&self, weight: f64, other: &Self, other_weight: f64) -> Self {
        let total = weight + other_weight;
        let scaled = |of: &Self, weight: f64| -> Vec<(f64, u64)> {
            let scale = (1e4 * weight / total).max(1.0);
            let count = |part: u32| (f64::from(part) * scale).round() as u64;
            of.ln_ns.iter().zip(weights()).map(|(ln, part)| (ln.exp(), count(part))).collect()
        };
        let both = [scaled(self, weight), scaled(other, other_weight)].concat();
        Self::from_counts(&both).expect("both have times")
    }

    /// As counted times, of which there are 100,000.
    pub(in super::super) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for (ln, weight) in self.ln_ns.iter().zip(weights()) {
            counts.record_many(Duration::from_ns_f64(ln.exp()), weight);
        }
        counts
    }
}
