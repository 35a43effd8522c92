//! Time as unsigned integer nanoseconds.
//!
//! One resolution everywhere: at 1 ns the clock ends after 584 years, and the shortest thing that
//! the models distinguish (a sector passing under a head, about 5 µs) is 5,000 ticks.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use std::str::FromStr;

use super::{QuantityError, is_bare_number, serde_as_text};

/// A point in time, in nanoseconds since the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

/// A length of time in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

impl Instant {
    /// The start of every run.
    pub const ZERO: Self = Self(0);
    /// The end of time, 584 years after the start.
    pub const MAX: Self = Self(u64::MAX);

    /// The point `ns` nanoseconds after the start.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the start.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Milliseconds since the start, for people and plots.
    pub fn as_ms(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Seconds since the start, for people and plots.
    pub fn as_s(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Time passed since `earlier`, zero if that lies in the future.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// The point `length` later, at most the end of time.
    #[must_use]
    pub const fn saturating_add(self, length: Duration) -> Self {
        Self(self.0.saturating_add(length.0))
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest duration that can be represented.
    pub const MAX: Self = Self(u64::MAX);

    /// A duration of `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// A duration of `us` microseconds.
    pub const fn from_us(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// A duration of `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// A duration of `s` seconds.
    pub const fn from_s(s: u64) -> Self {
        Self(s * 1_000_000_000)
    }

    /// A duration of `ns` nanoseconds rounded to the nearest; negative and NaN become zero.
    pub fn from_ns_f64(ns: f64) -> Self {
        Self(ns.round() as u64)
    }

    /// A duration of `ms` milliseconds rounded to the nearest nanosecond; negative becomes zero.
    pub fn from_ms_f64(ms: f64) -> Self {
        Self::from_ns_f64(ms * 1e6)
    }

    /// A duration of `s` seconds rounded to the nearest nanosecond; negative becomes zero.
    pub fn from_s_f64(s: f64) -> Self {
        Self::from_ns_f64(s * 1e9)
    }

    /// Nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Microseconds, for people and plots.
    pub fn as_us(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Milliseconds, for people and plots.
    pub fn as_ms(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Seconds, for people and plots.
    pub fn as_s(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The sum, at most the longest duration.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// `self - other`, zero if `other` is longer.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns true if the duration is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration.0)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        self.0 += duration.0;
    }
}

impl Sub for Instant {
    type Output = Duration;
    /// Time passed since `earlier`; overflow (`earlier` lies in the future) is a bug of the caller.
    fn sub(self, earlier: Self) -> Duration {
        debug_assert!(self.0 >= earlier.0, "{earlier:?} is later than {self:?}");
        Duration(self.0 - earlier.0)
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Duration {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        debug_assert!(self.0 >= other.0, "{other:?} is longer than {self:?}");
        Self(self.0 - other.0)
    }
}

impl SubAssign for Duration {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, factor: u64) -> Self {
        Self(self.0 * factor)
    }
}

impl Div<u64> for Duration {
    type Output = Self;
    /// Division rounds down.
    fn div(self, divisor: u64) -> Self {
        Self(self.0 / divisor)
    }
}

impl Sum for Duration {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl FromStr for Duration {
    type Err = QuantityError;

    /// Reads `"8.5ms"`, `"250us"`, `"2s"`, `"1min 30s"`; `"0"` needs no unit.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let trimmed = text.trim();
        if trimmed == "0" {
            return Ok(Self::ZERO);
        }
        if is_bare_number(trimmed) {
            return Err(QuantityError::new(
                text,
                "has no unit",
                format!("write a duration, for example \"{trimmed}ms\""),
            ));
        }
        let parsed = humantime::parse_duration(trimmed).map_err(|_| {
            QuantityError::new(
                text,
                "is not a duration",
                "write a number and ns, us, ms, s, min, h or days, for example \"8.5ms\"",
            )
        })?;
        u64::try_from(parsed.as_nanos())
            .map(Self)
            .map_err(|_| QuantityError::new(text, "is longer than 584 years", "write a shorter duration"))
    }
}

impl fmt::Display for Duration {
    /// The shortest exact form in one unit, such as `0.89ms`.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (divisor, unit) = match self.0 {
            0 => return f.pad("0s"),
            1..=999 => (1, "ns"),
            1_000..=99_999 => (1_000, "us"),
            100_000..=999_999_999 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let (whole, rest) = (self.0 / divisor, self.0 % divisor);
        if rest == 0 {
            return f.pad(&format!("{whole}{unit}"));
        }
        let digits = divisor.ilog10() as usize;
        let fraction = format!("{rest:0digits$}");
        f.pad(&format!("{whole}.{}{unit}", fraction.trim_end_matches('0')))
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        Duration(self.0).fmt(f)
    }
}

/// A difference of durations in nanoseconds, which may be negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SignedDuration(i64);

impl SignedDuration {
    /// A difference of `ns` nanoseconds.
    pub const fn from_ns(ns: i64) -> Self {
        Self(ns)
    }

    /// Nanoseconds.
    pub const fn as_ns(self) -> i64 {
        self.0
    }
}

impl FromStr for SignedDuration {
    type Err = QuantityError;

    /// Reads a duration with an optional sign: `"-0.642ms"`.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let trimmed = text.trim();
        let (negative, magnitude) = match trimmed.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, trimmed.strip_prefix('+').unwrap_or(trimmed)),
        };
        let ns = i64::try_from(magnitude.parse::<Duration>()?.as_ns())
            .map_err(|_| QuantityError::new(text, "is longer than 292 years", "write a shorter duration"))?;
        Ok(Self(if negative { -ns } else { ns }))
    }
}

impl fmt::Display for SignedDuration {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        f.pad(&format!("{sign}{}", Duration(self.0.unsigned_abs())))
    }
}

serde_as_text!(SignedDuration, "a duration, which may be negative", "\"-0.642ms\"");
serde_as_text!(Duration, "a duration", "\"8.5ms\"");

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, ns: u64) {
        assert_eq!(text.parse::<Duration>().map(Duration::as_ns), Ok(ns), "{text}");
    }

    #[test]
    fn durations_are_read_exactly() {
        check("8.5ms", 8_500_000);
        check("0.95343ms", 953_430);
        check("0.00001ms", 10);
        check("250us", 250_000);
        check("250 us", 250_000);
        check("2s", 2_000_000_000);
        check("1min 30s", 90_000_000_000);
        check("0", 0);
    }

    #[test]
    fn bare_number_is_refused_with_a_hint() {
        let error = "0.8".parse::<Duration>().unwrap_err();
        assert_eq!(error.problem, "has no unit");
        assert!(error.hint.contains("\"0.8ms\""), "{}", error.hint);
        assert!("soon".parse::<Duration>().is_err());
        assert!("-1ms".parse::<Duration>().is_err());
    }

    #[test]
    fn fractions_of_a_nanosecond_round_to_the_nearest() {
        for (ns, rounded) in [(0.4, 0), (0.5, 1), (2.4, 2), (2.6, 3), (-3.0, 0), (f64::NAN, 0)] {
            assert_eq!(Duration::from_ns_f64(ns), Duration(rounded), "{ns}");
        }
        assert_eq!(Duration::from_ms_f64(0.000_001_6), Duration(2));
        assert_eq!(Duration::from_s_f64(1.000_000_000_6), Duration(1_000_000_001));
    }

    #[test]
    fn arithmetic_is_that_of_nanoseconds() {
        let (long, short) = (Duration(7), Duration(2));
        assert_eq!(
            (long + short, long - short, long * 3, long / 2),
            (Duration(9), Duration(5), Duration(21), Duration(3))
        );
        assert_eq!([long, short, short].into_iter().sum::<Duration>(), Duration(11));
        let (mut sum, mut difference) = (long, long);
        sum += short;
        difference -= short;
        assert_eq!((sum, difference), (Duration(9), Duration(5)));
        let mut now = Instant::ZERO + long;
        now += short;
        assert_eq!((now, now - (Instant::ZERO + short)), (Instant(9), Duration(7)));
    }

    #[test]
    fn difference_may_be_negative() {
        assert_eq!("-0.642ms".parse(), Ok(SignedDuration(-642_000)));
        assert_eq!("+1us".parse(), Ok(SignedDuration(1_000)));
        assert_eq!(SignedDuration(-642_000).to_string(), "-0.642ms");
        assert!("-0.642".parse::<SignedDuration>().is_err());
    }

    #[test]
    fn printed_durations_round_trip() {
        for ns in [0, 1, 999, 1_000, 99_999, 650_000, 953_430, 5_985_037, 1_000_000_000, 16_226_300_123] {
            let text = Duration(ns).to_string();
            assert_eq!(text.parse::<Duration>(), Ok(Duration(ns)), "{text}");
        }
        assert_eq!(Duration(890_000).to_string(), "0.89ms");
    }
}
