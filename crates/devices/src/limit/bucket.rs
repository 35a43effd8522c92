//! A token bucket, exact in integers.
//!
//! ```text
//! used(t) = max(0, used(t0) - rate (t - t0));  a request goes when used + cost <= burst, then used += cost
//! ```
//! So in any time `t` at most `burst + rate t` go: an arrival curve. What costs more than a burst goes when the bucket is
//! full, and leaves it overdrawn.
//!
//! With an interval, `t - t0` counts whole intervals alone, of which the first begins with the first request that meets a full bucket. With
//! a burst of `rate interval`, so many go in each interval.
//!
//! # References
//! Portions: Linux, `block/blk-throttle.c` (`throtl_slice`: 100 ms; some kernels have 20 ms for devices that do not rotate, by commit d61fcfa4bb18 of 2017, which was reverted later).
//! J.-Y. Le Boudec, P. Thiran, Network Calculus, Springer LNCS 2050, 2001, section 1.2: leaky bucket controllers.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use seeklab_core::{DataRate, Duration, Instant};
use serde::{Deserialize, Serialize};

/// Parts of a unit in which what was used is counted: one in a nanosecond at a millionth of a unit a second.
const PARTS: u128 = 1_000_000_000_000_000;

/// A rate of requests, exact to a millionth of a request per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RequestRate {
    micro_per_s: u64,
}

impl RequestRate {
    /// The highest: a thousand million requests a second.
    pub const MAX: Self = Self { micro_per_s: 1_000_000_000_000_000 };

    /// A rate of `per_s` requests a second, to the nearest millionth; `None` if that is 0, or above [`MAX`](Self::MAX).
    pub fn from_per_s(per_s: f64) -> Option<Self> {
        let micro_per_s = (per_s * 1e6).round();
        (1.0..=Self::MAX.micro_per_s as f64)
            .contains(&micro_per_s)
            .then_some(Self { micro_per_s: micro_per_s as u64 })
    }

    /// Requests a second.
    pub fn as_per_s(self) -> f64 {
        self.micro_per_s as f64 / 1e6
    }
}

impl JsonSchema for RequestRate {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "RequestRate".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "x-quantity": "a rate of requests", "examples": ["3000/s"] })
    }
}

impl FromStr for RequestRate {
    type Err = String;

    /// Reads `"3000/s"`.
    fn from_str(text: &str) -> Result<Self, String> {
        let hint = "write a rate of requests, for example \"3000/s\"";
        let trimmed = text.trim();
        if trimmed.parse::<f64>().is_ok() {
            return Err(format!("`{text}` has no unit (hint: {hint})"));
        }
        let number = trimmed.strip_suffix("/s").and_then(|number| number.trim().parse().ok());
        let number = number.ok_or_else(|| format!("`{text}` is not a rate (hint: {hint})"))?;
        Self::from_per_s(number).ok_or_else(|| {
            format!(
                "`{text}` is out of range (hint: a rate of requests lies from 0.000001/s to {})",
                Self::MAX
            )
        })
    }
}

impl TryFrom<String> for RequestRate {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<RequestRate> for String {
    fn from(rate: RequestRate) -> Self {
        rate.to_string()
    }
}

impl fmt::Display for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(&format!("{}/s", self.as_per_s()))
    }
}

/// A token bucket: units are requests or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBucket {
    /// Millionths of a unit that come back in a second.
    micro_per_s: u64,
    /// Units that it holds.
    burst: u64,
    /// Nanoseconds after which all comes back at once that the rate gives in them; 0 if it comes back evenly.
    interval_ns: u64,
    /// Parts that were used, as of `since`.
    used: u128,
    since: Instant,
}

impl TokenBucket {
    /// A full bucket of `burst` requests, `rate` of which come back.
    pub const fn of_requests(rate: RequestRate, burst: u64) -> Self {
        Self { micro_per_s: rate.micro_per_s, burst, interval_ns: 0, used: 0, since: Instant::ZERO }
    }

    /// A full bucket of `burst` bytes, `rate` of which come back; a rate above 18 TB/s is that.
    pub const fn of_bytes(rate: DataRate, burst: u64) -> Self {
        let micro_per_s = rate.as_bytes_per_s().saturating_mul(1_000_000);
        Self { micro_per_s, burst, interval_ns: 0, used: 0, since: Instant::ZERO }
    }

    /// The same, of which comes back at the end of each interval what the rate gives in it; evenly if the interval is zero.
    #[must_use]
    pub const fn in_portions(self, interval: Duration) -> Self {
        Self { interval_ns: interval.as_ns(), ..self }
    }

    /// The same with so many units used.
    #[must_use]
    pub fn with_used(self, used: u64) -> Self {
        Self { used: u128::from(used) * PARTS, ..self }
    }

    /// The same, what is used being so at `now`.
    #[must_use]
    pub const fn beginning(self, now: Instant) -> Self {
        Self { since: now, ..self }
    }

    /// Units that come back in a second.
    pub fn units_per_s(&self) -> f64 {
        self.micro_per_s as f64 / 1e6
    }

    /// Units that it holds.
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// Time after which all comes back at once that the rate gives in it; zero if it comes back evenly.
    pub const fn interval(&self) -> Duration {
        Duration::from_ns(self.interval_ns)
    }

    fn parts_used(&self, now: Instant) -> u128 {
        let passed = self.intervals_ns(now);
        self.used.saturating_sub(u128::from(self.micro_per_s) * u128::from(passed))
    }

    /// Nanoseconds that have passed since `since`, in whole intervals.
    fn intervals_ns(&self, now: Instant) -> u64 {
        let passed = now.saturating_since(self.since).as_ns();
        passed - passed.checked_rem(self.interval_ns).unwrap_or(0)
    }

    /// Units used and not yet back, rounded up.
    pub fn used(&self, now: Instant) -> u64 {
        u64::try_from(self.parts_used(now).div_ceil(PARTS)).unwrap_or(u64::MAX)
    }

    /// Returns the time at which `cost` units can go, at `now` or later, to the next nanosecond.
    pub fn ready(&self, now: Instant, cost: u64) -> Instant {
        let room = u128::from(self.burst.saturating_sub(cost)) * PARTS;
        let ns = self.used.saturating_sub(room).div_ceil(u128::from(self.micro_per_s.max(1)));
        let ns = ns.next_multiple_of(u128::from(self.interval_ns.max(1)));
        let ns = u64::try_from(ns).unwrap_or(u64::MAX).min(u64::MAX - self.since.as_ns());
        now.max(self.since + Duration::from_ns(ns))
    }

    /// Uses `cost` units at `now`.
    pub fn take(&mut self, now: Instant, cost: u64) {
        let used = self.parts_used(now);
        self.since = match self.interval_ns > 0 && used > 0 {
            true => self.since + Duration::from_ns(self.intervals_ns(now)),
            false => self.since.max(now),
        };
        self.used = used.saturating_add(u128::from(cost) * PARTS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_burst_goes_at_once_then_one_at_a_time() {
        let rate = "3/s".parse().unwrap();
        let mut bucket = TokenBucket::of_requests(rate, 5);
        let start = Instant::from_ns(1_000);
        for _ in 0..5 {
            assert_eq!(bucket.ready(start, 1), start);
            bucket.take(start, 1);
        }
        // A third of a second, rounded up; one nanosecond before it is not ready.
        let next = bucket.ready(start, 1);
        assert_eq!(next, start + Duration::from_ns(333_333_334));
        let before = Instant::from_ns(next.as_ns() - 1);
        assert_eq!(bucket.ready(before, 1), next);
        assert_eq!(bucket.ready(next, 1), next);
        bucket.take(next, 1);
        assert_eq!((bucket.used(next), bucket.used(next + Duration::from_s(2))), (5, 0));
    }

    #[test]
    fn portion_goes_in_each_interval_from_the_first_request_on() {
        let (start, interval) = (Instant::from_ns(7_000), Duration::from_ms(100));
        let mut bucket = TokenBucket::of_requests("600/s".parse().unwrap(), 60).in_portions(interval);
        let mut now = start;
        let mut times = Vec::new();
        for _ in 0..180 {
            now = bucket.ready(now, 1);
            bucket.take(now, 1);
            times.push(now);
        }
        for (place, time) in times.iter().enumerate() {
            assert_eq!(*time, start + interval * (place as u64 / 60), "{place}");
        }
        // What is not used is lost, and an interval begins with the next request.
        let late = start + Duration::from_ms(12_345);
        assert_eq!(bucket.ready(late, 60), late);
        bucket.take(late, 60);
        assert_eq!(bucket.ready(late, 1), late + interval);
        // A larger burst comes back by portions.
        let mut bucket = TokenBucket::of_bytes("1kB/s".parse().unwrap(), 1_000).in_portions(interval);
        bucket.take(start, 1_000);
        assert_eq!(bucket.ready(start, 1), start + interval);
        assert_eq!(bucket.ready(start, 100), start + interval);
        assert_eq!(bucket.ready(start, 101), start + interval * 2);
        assert_eq!(bucket.used(start + Duration::from_ms(199)), 900);
    }

    #[test]
    fn rate_is_kept_without_drift() {
        let mut bucket = TokenBucket::of_requests("3/s".parse().unwrap(), 1);
        let mut now = Instant::ZERO;
        for _ in 0..=3_000 {
            now = bucket.ready(now, 1);
            bucket.take(now, 1);
        }
        // A nanosecond is lost at most where it is rounded up.
        let exact = 1_000 * 1_000_000_000;
        assert!((exact..exact + 3_000).contains(&now.as_ns()), "{now}");
    }

    #[test]
    fn request_above_the_burst_goes_when_the_bucket_is_full() {
        let mut bucket = TokenBucket::of_bytes("1kB/s".parse().unwrap(), 100);
        assert_eq!(bucket.ready(Instant::ZERO, 5_000), Instant::ZERO);
        bucket.take(Instant::ZERO, 5_000);
        assert_eq!(bucket.ready(Instant::ZERO, 5_000), Instant::from_ns(5_000_000_000));
        assert_eq!(bucket.ready(Instant::ZERO, 100), Instant::from_ns(5_000_000_000));
        assert_eq!(bucket.ready(Instant::ZERO, 40), Instant::from_ns(4_940_000_000));
        assert_eq!(bucket.used(Instant::from_ns(4_000_000_000)), 1_000);
    }

    #[test]
    fn rates_are_read_with_their_unit() {
        let rate = |text: &str| text.parse::<RequestRate>();
        assert_eq!(rate("3000/s").unwrap().as_per_s(), 3_000.0);
        assert_eq!(rate("0.5/s").unwrap().to_string(), "0.5/s");
        assert!(rate("3000").unwrap_err().contains("has no unit"));
        assert!(rate("3000/h").unwrap_err().contains("is not a rate"));
        for out in ["0/s", "-1/s", "1e10/s", "nan/s"] {
            assert!(rate(out).unwrap_err().contains("out of range"), "{out}");
        }
    }
}
