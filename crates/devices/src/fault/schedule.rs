//! Times at which a fault may strike.

use seeklab_core::{Duration, Instant, NumberedStreams};

/// Times at which a fault may strike: once from a time on, or again and again.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// Start of the first window.
    pub at: Duration,
    /// Length of a window, `None` for ever.
    pub length: Option<Duration>,
    /// Windows behind the first one.
    pub repeat: Repeat,
}

/// Windows behind the first one.
#[derive(Debug, Clone)]
pub enum Repeat {
    /// None.
    Never,
    /// Each this long after the start of the one before.
    Every(Duration),
    /// Each after an exponential time with this mean behind the end of the one before.
    About(Duration, NumberedStreams),
}

/// A window in which a fault may strike: from its start to before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    index: u64,
    /// First instant of the window.
    pub start: Instant,
    /// First instant behind the window.
    pub end: Instant,
}

impl Schedule {
    fn window(&self, index: u64, start: Instant) -> Window {
        let end = self.length.map_or(Instant::MAX, |length| start + length);
        Window { index, start, end }
    }

    /// The first window.
    pub fn first(&self) -> Window {
        self.window(0, Instant::ZERO + self.at)
    }

    /// The window behind `window` that ends after `now` or, of random ones, the next. `None` if `window` is the last one.
    fn after(&self, window: Window, now: Instant) -> Option<Window> {
        let start = match &self.repeat {
            Repeat::Never => return None,
            Repeat::Every(length) => {
                let passed = (now.saturating_since(window.end).as_ns() / length.as_ns()).max(1);
                let start = window.start + *length * passed;
                return Some(self.window(window.index + passed, start));
            }
            Repeat::About(mean, streams) => window.end + streams.stream(window.index).exponential(*mean),
        };
        Some(self.window(window.index + 1, start))
    }

    /// The window in which `now` lies, or the next one, or the last one.
    pub fn advance(&self, mut window: Window, now: Instant) -> Window {
        while window.end <= now {
            match self.after(window, now) {
                Some(next) => window = next,
                None => break,
            }
        }
        window
    }
}

impl Window {
    /// Returns true if `now` lies in the window.
    pub fn holds(&self, now: Instant) -> bool {
        (self.start..self.end).contains(&now)
    }

    /// The next change behind `now`: the start of the window or its end. `None` if there is none.
    pub fn change_after(&self, now: Instant) -> Option<Instant> {
        [self.start, self.end].into_iter().find(|change| *change > now && *change < Instant::MAX)
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Seed;

    use super::*;

    fn s(s: u64) -> Instant {
        Instant::ZERO + Duration::from_s(s)
    }

    #[test]
    fn windows_repeat_and_end() {
        let once = Schedule { at: Duration::from_s(5), length: None, repeat: Repeat::Never };
        let window = once.advance(once.first(), s(1_000));
        assert!(!window.holds(s(4)) && window.holds(s(5)) && window.holds(s(1_000)));
        assert_eq!(window.change_after(s(4)), Some(s(5)));
        assert_eq!(window.change_after(s(5)), None);
        let repeat = Repeat::Every(Duration::from_s(10));
        let again = Schedule { at: Duration::from_s(5), length: Some(Duration::from_s(2)), repeat };
        let window = again.advance(again.first(), s(26));
        assert_eq!((window.start, window.end), (s(25), s(27)));
        assert_eq!(again.advance(window, s(27)).start, s(35));
        assert_eq!(window.change_after(s(25)), Some(s(27)));
    }

    #[test]
    fn random_windows_have_the_given_mean_distance_and_are_the_same_again() {
        let repeat = Repeat::About(Duration::from_s(10), Seed(1).numbered("windows"));
        let schedule = Schedule { at: Duration::ZERO, length: Some(Duration::from_s(1)), repeat };
        let until = s(100_000);
        let mut window = schedule.first();
        let mut count = 0_u32;
        while window.start < until {
            window = schedule.advance(window, window.end);
            count += 1;
        }
        // 11 s each on average; the standard deviation of the count is about 87.
        assert!((9_091 - 350..9_091 + 350).contains(&count), "{count}");
        assert_eq!(schedule.advance(schedule.first(), window.start), window);
    }
}
