//! A distribution of times as counts in buckets, 64 for each doubling: 1.6 % wide at most, exact below 128
//! ns.
//!
//! As text, each item gives the number of buckets from the item before, and, unless it is 1, the count of
//! times in the bucket: `1210 3*7 1*2`.

use std::fmt::Write as _;

use seeklab_core::statistics::LogHistogram;
use seeklab_core::{Duration, Stream};

/// Nanoseconds in 64 buckets for each doubling.
type Buckets = LogHistogram<6>;

/// The bucket of a time in nanoseconds.
pub const fn bucket(ns: u64) -> u32 {
    Buckets::bucket(ns) as u32
}

/// The least time of a bucket, and how many there are.
pub(super) const fn span(bucket: u32) -> (u64, u64) {
    (Buckets::least(bucket as usize), Buckets::width(bucket as usize))
}

/// No bucket lies beyond the last time of 64 bits.
const BUCKETS: u32 = bucket(u64::MAX) + 1;

/// No bucket that is read lies beyond this, about 417 days, so that sums of many times stay below 2^64 ns.
const NS_MAX: u64 = 1 << 55;

/// Times being counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts(Buckets);

impl Counts {
    /// Takes one time in.
    pub fn record(&mut self, time: Duration) {
        self.0.record(time.as_ns());
    }

    /// Counts a time `count` times.
    pub fn record_many(&mut self, time: Duration, count: u32) {
        self.0.record_many(time.as_ns(), count.into());
    }

    /// The buckets that hold anything, ascending, with their counts.
    fn occupied(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        self.0.occupied().map(move |(bucket, count)| (bucket as u32, narrow(count)))
    }

    /// The same distribution, to draw from; there is at least one time.
    pub fn times(&self) -> Times {
        let counts: Vec<(u16, u32)> = self.occupied().map(|(bucket, count)| (bucket as u16, count)).collect();
        Times::of(&counts)
    }

    /// Returns the text of the description.
    pub fn write(&self) -> String {
        let (mut text, mut before) = (String::new(), 0);
        for (bucket, count) in self.occupied() {
            if !text.is_empty() {
                text.push(' ');
            }
            let _ = write!(text, "{}", bucket - before);
            if count > 1 {
                let _ = write!(text, "*{count}");
            }
            before = bucket;
        }
        text
    }
}

/// A distribution to draw from, in one look whatever it holds: columns of equal chance with one or two buckets each.
///
/// The alias method \[Walker77\], its columns filled as by \[Vose91\] in whole numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Times(Box<[AliasColumn]>);

/// Two buckets and the share of the first, of 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AliasColumn {
    share: u32,
    first: u16,
    second: u16,
}

const _: () = assert!(BUCKETS <= 1 << 16, "a bucket has 16 bits");

impl Times {
    /// Reads what [`Counts::write`] has written.
    ///
    /// # Errors
    /// A text that is no list of buckets with counts.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let (mut counts, mut bucket) = (Vec::new(), 0_u32);
        for (index, item) in text.split_ascii_whitespace().enumerate() {
            let (further, count) = item.split_once('*').unwrap_or((item, "1"));
            let parsed = further.parse::<u32>().ok().zip(count.parse::<u32>().ok());
            let (further, count) =
                parsed.ok_or_else(|| format!("`{item}` is no BUCKETS or BUCKETS*COUNT"))?;
            bucket = bucket
                .checked_add(further)
                .filter(|bucket| *bucket < BUCKETS && (further > 0 || index == 0) && count > 0)
                .ok_or_else(|| format!("`{item}` does not lie beyond the one before, or below 2^64 ns"))?;
            if span(bucket).0 > NS_MAX {
                return Err(format!(
                    "`{item}` lies beyond 2^55 ns, about 417 days: no request takes so long"
                ));
            }
            counts.push((bucket as u16, count));
        }
        if counts.is_empty() { Err("there is no time".to_owned()) } else { Ok(Self::of(&counts)) }
    }

    /// The buckets with their counts, none of them zero.
    fn of(counts: &[(u16, u32)]) -> Self {
        let full: u64 = counts.iter().map(|(_, count)| u64::from(*count)).sum();
        // A column holds `full`; there are at most 2^12 of 2^32 each, so nothing overflows.
        let mut left: Vec<u64> =
            counts.iter().map(|(_, count)| u64::from(*count) * counts.len() as u64).collect();
        let mut columns: Vec<AliasColumn> = counts
            .iter()
            .map(|(bucket, _)| AliasColumn { share: u32::MAX, first: *bucket, second: *bucket })
            .collect();
        let (mut short, mut long): (Vec<usize>, Vec<usize>) =
            (0..left.len()).partition(|bucket| left[*bucket] < full);
        while let (Some(&giver), Some(taker)) = (long.last(), short.pop()) {
            columns[taker].share = ((u128::from(left[taker]) << 32) / u128::from(full)) as u32;
            columns[taker].second = counts[giver].0;
            left[giver] -= full - left[taker];
            if left[giver] < full {
                long.pop();
                short.push(giver);
            }
        }
        Self(columns.into_boxed_slice())
    }

    /// Draws a time. Each counted time is equally likely; within a bucket, times are spread evenly.
    pub(crate) fn draw(&self, stream: &mut Stream) -> Duration {
        // One draw says the column, the bucket in it by the upper half of what is left, and the place in that by the lower.
        let drawn = u128::from(stream.bits()) * self.0.len() as u128;
        let (column, rest) = (self.0[(drawn >> 64) as usize], drawn as u64);
        let is_first = ((rest >> 32) as u32) < column.share;
        let (least, width) = span(u32::from(if is_first { column.first } else { column.second }));
        let within = (u128::from(rest as u32) * u128::from(width)) >> 32;
        Duration::from_ns(least + within as u64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seeklab_core::Seed;

    use super::*;

    /// The mean, from the middles of the buckets.
    fn mean_ns(times: &Times) -> f64 {
        let middle = |bucket: u16| {
            let (least, width) = span(u32::from(bucket));
            least as f64 + (width - 1) as f64 / 2.0
        };
        let columns = times.0.iter().map(|AliasColumn { share, first, second }| {
            let share = f64::from(*share) / 2_f64.powi(32);
            share * middle(*first) + (1.0 - share) * middle(*second)
        });
        columns.sum::<f64>() / times.0.len() as f64
    }

    proptest! {
        #[test]
        fn every_time_lies_in_its_bucket(ns in any::<u64>()) {
            let (least, width) = span(bucket(ns));
            prop_assert!(least <= ns && ns - least < width);
            prop_assert!(width == 1 || width as f64 / least as f64 <= 1.0 / 64.0, "{least} {width}");
        }

        #[test]
        fn written_times_are_read_back(ns in prop::collection::vec(0_u64..1 << 50, 1..200)) {
            let mut counts = Counts::default();
            ns.iter().for_each(|ns| counts.record(Duration::from_ns(*ns)));
            let times = Times::read(&counts.write()).unwrap();
            let mean = ns.iter().map(|ns| *ns as f64).sum::<f64>() / ns.len() as f64;
            prop_assert!((mean_ns(&times) - mean).abs() <= mean / 100.0 + 1.0);
            // A drawn time was recorded, to the width of a bucket.
            let mut stream = Seed(1).stream("times");
            let seen: std::collections::BTreeSet<u32> = ns.iter().map(|ns| bucket(*ns)).collect();
            for _ in 0..50 {
                prop_assert!(seen.contains(&bucket(times.draw(&mut stream).as_ns())));
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9* a]{0,40}") {
            if let Ok(times) = Times::read(&text) {
                times.draw(&mut Seed(1).stream("times"));
            }
        }
    }

    #[test]
    fn times_too_long_for_sums_are_refused() {
        let beyond = bucket(NS_MAX) + 1;
        for text in [beyond.to_string(), "3711".to_owned(), format!("1210 {}", beyond - 1210)] {
            let error = Times::read(&text).unwrap_err();
            assert!(error.contains("417 days"), "{text}: {error}");
        }
        let mut stream = Seed(1).stream("times");
        let longest = Times::read(&bucket(NS_MAX).to_string()).unwrap().draw(&mut stream).as_ns();
        assert!((NS_MAX..NS_MAX / 64 * 65).contains(&longest), "{longest}");
    }

    #[test]
    fn times_are_drawn_as_often_as_counted() {
        let mut counts = Counts::default();
        for (ns, count) in [(50, 10), (1_000_000, 80), (90_000_000, 10)] {
            (0..count).for_each(|_| counts.record(Duration::from_ns(ns)));
        }
        let times = Times::read(&counts.write()).unwrap();
        let mut stream = Seed(3).stream("times");
        let draws: Vec<u64> = (0..10_000).map(|_| times.draw(&mut stream).as_ns()).collect();
        let share = |least: u64, most: u64| draws.iter().filter(|ns| (least..most).contains(*ns)).count();
        for (count, expected) in [(share(50, 51), 1_000), (share(900_000, 1_100_000), 8_000)] {
            assert!(count.abs_diff(expected) < 200, "{count} of {expected}");
        }
        assert_eq!(
            Times::read("5 0*3"),
            Err("`0*3` does not lie beyond the one before, or below 2^64 ns".to_owned())
        );
    }
}
