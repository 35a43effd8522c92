//! Time without a connection: the next attempt to remake it, and the waits between attempts.

use seeklab_core::{Duration, Instant};
use seeklab_emulator::clock::Wait;

/// Waits before connections are remade.
const BACK_OFF_MIN: Duration = Duration::from_ms(10);
const BACK_OFF_MAX: Duration = Duration::from_s(1);

/// State of a target whose connection has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Away {
    next_attempt: Instant,
    back_off: Duration,
}

impl Away {
    /// The connection has ended at `now`. The first attempt is due at once.
    pub(super) const fn begin(now: Instant) -> Self {
        Self { next_attempt: now, back_off: BACK_OFF_MIN }
    }

    /// Returns true if it is time for an attempt.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next_attempt
    }

    /// An attempt has failed at `now`. The next one is due after a wait that doubles with each failure.
    pub(super) fn failed(&mut self, now: Instant) {
        self.next_attempt = now + self.back_off;
        self.back_off = (self.back_off * 2).min(BACK_OFF_MAX);
    }

    /// Returns `wait`, but no longer than until the next attempt.
    pub(super) fn shorten(&self, wait: Wait) -> Wait {
        match wait {
            Wait::Spin => Wait::Spin,
            Wait::Until(until) => Wait::Until(until.min(self.next_attempt)),
            Wait::Forever => Wait::Until(self.next_attempt),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_second() {
        let mut now = Instant::ZERO;
        let mut away = Away::begin(now);
        let mut waits_ms = Vec::new();
        for _ in 0..9 {
            assert!(away.is_due(now));
            away.failed(now);
            assert!(!away.is_due(now));
            let Wait::Until(next) = away.shorten(Wait::Forever) else { panic!("an attempt is due") };
            waits_ms.push(next.saturating_since(now).as_ns() / 1_000_000);
            now = next;
        }
        assert_eq!(waits_ms, [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]);
    }
}
