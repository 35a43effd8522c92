//! Throttling: a device that is slow after sustained load until it has been idle.
//!
//! ```text
//! load ▲        ┌──────────── slow by the factor ───────┐
//! limit┼ ─ ─ ─ ╱                                        │
//!      │     ╱                                          │
//!      └───┴───────────────────────────── idle ─────────┴──▶ time
//! ```
//! The load counts from the first request behind an idle time or behind the end of the window before, whichever is
//! later. An idle time ends the throttling at the first request behind it.

use seeklab_core::{ByteSize, Duration, Instant};

use super::parameters::{parsed, time};
use crate::error::DescriptionError;

/// Throttling after sustained load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Throttle {
    /// Load from which on the device is slow.
    pub(super) load: Load,
    /// Time within which the load counts; [`Duration::MAX`] if it counts since the last idle time.
    pub(super) window: Duration,
    /// Factor by which everything takes longer.
    pub(super) factor: f64,
    /// Idle time that ends the throttling.
    pub(super) idle: Duration,
}

/// Load of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// Bytes of requests.
    Bytes(u64),
    /// Time with at least one request outstanding.
    Busy(Duration),
}

impl Throttle {
    /// Factor by which everything takes longer.
    pub const fn factor(&self) -> f64 {
        self.factor
    }

    /// Returns true if the load is a busy time.
    pub const fn limits_busy_time(&self) -> bool {
        matches!(self.load, Load::Busy(_))
    }
}

impl Load {
    /// Reads a size or a time.
    pub(super) fn parse(text: &str) -> Result<Self, DescriptionError> {
        match text.trim().parse::<Duration>() {
            Ok(_) => time("load", text).map(Self::Busy),
            Err(_) => parsed::<ByteSize>("load", text.trim())
                .map(|size| Self::Bytes(size.as_bytes()))
                .map_err(|error| error.hint("a size such as 8GiB, or a busy time such as 30s")),
        }
    }
}

/// Load and state of a device that may be throttled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Heat {
    /// Start of the window in which the load counts.
    begun: Option<Instant>,
    bytes: u64,
    /// Busy time before `busy_since`.
    busy: Duration,
    /// Start of the busy period, until the next request finds the device idle.
    busy_since: Option<Instant>,
    is_hot: bool,
}

impl Heat {
    /// Returns true if the device is throttled.
    pub const fn is_hot(&self) -> bool {
        self.is_hot
    }

    /// A request arrives at a device that has been idle since `idle_since`, or is not.
    pub fn arrive(&mut self, throttle: &Throttle, now: Instant, idle_since: Option<Instant>) {
        if let Some(idle_since) = idle_since {
            if let Some(busy_since) = self.busy_since.take() {
                self.busy += idle_since.saturating_since(busy_since);
            }
            if now.saturating_since(idle_since) >= throttle.idle {
                *self = Self::default();
            }
        }
        let is_over = |begun: Instant| now.saturating_since(begun) >= throttle.window;
        if self.begun.is_none_or(is_over) {
            *self = Self { begun: Some(now), is_hot: self.is_hot, ..Self::default() };
        }
        self.busy_since.get_or_insert(now);
    }

    /// A request of `bytes` bytes adds to the load. Returns true if the device is throttled from it on.
    pub fn add(&mut self, throttle: &Throttle, bytes: u64) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        let gets_hot = !self.is_hot && matches!(throttle.load, Load::Bytes(limit) if self.bytes > limit);
        self.is_hot |= gets_hot;
        gets_hot
    }

    /// The time at which the busy time reaches its limit if the device stays busy. `None` if no busy time is limited,
    /// if the window ends before, or if the device is throttled already.
    pub fn crossing(&self, throttle: &Throttle) -> Option<Instant> {
        let Load::Busy(limit) = throttle.load else { return None };
        let crossing = self.busy_since? + limit.saturating_sub(self.busy);
        let is_within = crossing.saturating_since(self.begun?) < throttle.window;
        (is_within && !self.is_hot).then_some(crossing)
    }

    /// The busy time has reached its limit.
    pub const fn cross(&mut self) {
        self.is_hot = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(s: u64) -> Instant {
        Instant::ZERO + Duration::from_s(s)
    }

    fn throttle(load: &str, window: Duration) -> Throttle {
        Throttle { load: Load::parse(load).unwrap(), window, factor: 3.0, idle: Duration::from_s(10) }
    }

    #[test]
    fn bytes_count_until_the_window_ends_or_the_device_rests() {
        let throttle = throttle("1000B", Duration::from_s(60));
        let mut heat = Heat::default();
        heat.arrive(&throttle, s(0), Some(s(0)));
        assert!(!heat.add(&throttle, 1_000), "up to the limit");
        heat.arrive(&throttle, s(60), None);
        assert!(!heat.add(&throttle, 900), "a new window");
        heat.arrive(&throttle, s(65), Some(s(56)));
        assert!(heat.add(&throttle, 101) && heat.is_hot(), "9 s of rest are too few");
        assert!(!heat.add(&throttle, 1), "it is hot already");
        heat.arrive(&throttle, s(300), None);
        assert!(heat.is_hot(), "a new window does not cool");
        heat.arrive(&throttle, s(320), Some(s(310)));
        assert!(!heat.is_hot());
        assert!(!heat.add(&throttle, 1_000));
    }

    #[test]
    fn busy_time_adds_up_over_short_rests() {
        let throttle = throttle("30s", Duration::MAX);
        let mut heat = Heat::default();
        assert_eq!(heat.crossing(&throttle), None);
        heat.arrive(&throttle, s(5), Some(s(0)));
        assert_eq!(heat.crossing(&throttle), Some(s(35)));
        heat.arrive(&throttle, s(20), Some(s(15)));
        assert_eq!(heat.crossing(&throttle), Some(s(40)), "10 s before, 20 s more");
        heat.arrive(&throttle, s(30), None);
        assert_eq!(heat.crossing(&throttle), Some(s(40)));
        heat.cross();
        assert_eq!((heat.is_hot(), heat.crossing(&throttle)), (true, None));
        heat.arrive(&throttle, s(60), Some(s(50)));
        assert_eq!((heat.is_hot(), heat.crossing(&throttle)), (false, Some(s(90))));
    }
}
