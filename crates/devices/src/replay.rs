//! When the requests of a trace arrive at another device.
//!
//! # Rule
//! A request that found the device idle is taken for one that was waited for: it arrives as long after the other device has gone
//! idle as it did after the measured one. What found the device busy keeps its distance from the request that woke it.
//! So a slower device delays its load, as it would whoever made it, and does not drown in arrivals that its slowness
//! would have prevented; and a trace of one request at a time is replayed closed, with its think times.
//!
//! # References
//! G. R. Ganger, Y. N. Patt, Using system-level models to evaluate I/O subsystem designs, IEEE Transactions on Computers
//! 47(6), 1998: what open replay gets wrong.

use seeklab_core::Instant;

/// Arrivals being replayed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Replay {
    /// Whether arrivals stay where they are, whatever the other device does.
    is_open: bool,
    /// When the measured device had last gone idle before it was woken, and the other one.
    since: (Instant, Instant),
    /// When all requests so far had completed on the measured device.
    busy_until: Instant,
}

impl Replay {
    /// Arrivals that wait for nothing.
    pub fn open() -> Self {
        Self { is_open: true, ..Self::default() }
    }

    /// Whether a request that arrived then found the measured device idle.
    pub fn wakes(&self, arrival: Instant) -> bool {
        !self.is_open && arrival >= self.busy_until
    }

    /// The other device is idle too, since `idle_since`; call it before an arrival that wakes.
    pub fn idle(&mut self, idle_since: Instant) {
        self.since = (self.busy_until, idle_since);
    }

    /// When the next request, measured as said, arrives at the other device.
    pub fn arrival(&mut self, arrival: Instant, completion: Instant) -> Instant {
        self.busy_until = self.busy_until.max(completion);
        let (measured, other) = self.since;
        other + (arrival - measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn does_a_slower_device_delay_what_waited_for_it() {
        let at = |ns| Instant::from_ns(ns);
        let mut replay = Replay::default();
        assert!(replay.wakes(at(100)));
        assert_eq!(replay.arrival(at(100), at(110)), at(100));
        // Behind it, while it is busy.
        assert!(!replay.wakes(at(105)));
        assert_eq!(replay.arrival(at(105), at(120)), at(105));
        // Five after the measured one went idle; the other one did so at 200.
        assert!(replay.wakes(at(125)));
        replay.idle(at(200));
        assert_eq!(replay.arrival(at(125), at(130)), at(205));
        assert_eq!(replay.arrival(at(128), at(140)), at(208));
    }
}
