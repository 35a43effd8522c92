//! Part of a trace that models are fitted to before they predict.

use std::fmt;
use std::str::FromStr;

use seeklab_core::{Duration, Instant, Ratio};

/// The fitted part of a trace: a share of its time, or a time, from its first arrival on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Split {
    /// Share of the time from the first arrival to the last: more than 0 % and at most 100 %.
    Share(Ratio),
    /// Time from the first arrival, more than zero; all of a shorter trace.
    Time(Duration),
}

/// Days of a fitted part, at most: 100 years.
const DAYS_MAX: f64 = 36_525.0;

impl Split {
    /// The first so many days.
    ///
    /// # Errors
    /// If they are not more than 0, or more than 100 years.
    pub fn days(days: f64) -> Result<Self, String> {
        match days > 0.0 && days <= DAYS_MAX {
            true => Ok(Self::Time(Duration::from_ns_f64(days * 86_400e9))),
            false => Err(format!("more than 0 days, and at most {DAYS_MAX}, are allowed")),
        }
    }

    /// Returns the arrival from which on a request is not fitted, in a trace whose requests arrive from the first to the last of
    /// these times.
    pub(super) fn boundary(self, (first, last): (Instant, Instant)) -> Instant {
        match self {
            // All of the trace, the last request included.
            Self::Share(Ratio::ONE) => last + Duration::from_ns(1),
            Self::Share(share) => {
                first + Duration::from_ns_f64((last - first).as_ns() as f64 * share.as_f64())
            }
            Self::Time(time) => first + time,
        }
    }

    /// Returns the share of the time of such a trace that is fitted.
    pub(super) fn share(self, (first, last): (Instant, Instant)) -> Ratio {
        match self {
            Self::Share(share) => share,
            Self::Time(time) => {
                let share = time.as_ns() as f64 / ((last - first).as_ns() as f64).max(1.0);
                Ratio::new(share.min(1.0)).unwrap_or(Ratio::ONE)
            }
        }
    }
}

impl Default for Split {
    /// Half of the time.
    fn default() -> Self {
        Self::Share(Ratio::new(0.5).expect("a half is a ratio"))
    }
}

impl FromStr for Split {
    type Err = String;

    /// Reads a share such as `29%`, or a time such as `36h`.
    fn from_str(text: &str) -> Result<Self, String> {
        let share = match text.parse::<Ratio>() {
            Ok(share) => share,
            Err(not_a_share) => {
                return match text.parse::<Duration>() {
                    Ok(time) => Self::days(time.as_s() / 86_400.0).map(|_| Self::Time(time)),
                    Err(_) => Err(format!("{not_a_share}; or a time, for example 36h")),
                };
            }
        };
        match share.as_f64() {
            value if value > 0.0 && value <= 1.0 => Ok(Self::Share(share)),
            _ => Err("more than 0 % of the time, and at most 100 %, is allowed".to_owned()),
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Share(share) => write!(f, "{:.0} %", 100.0 * share.as_f64()),
            Self::Time(time) => time.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_times_are_read() {
        assert_eq!("29%".parse(), Ok(Split::Share(Ratio::new(0.29).unwrap())));
        assert_eq!("36h".parse(), Ok(Split::Time(Duration::from_ns(36 * 3_600_000_000_000))));
        assert_eq!("7days".parse(), Split::days(7.0));
        for wrong in ["0%", "101%", "0s", "half", "-1h"] {
            assert!(wrong.parse::<Split>().is_err(), "{wrong}");
        }
        assert!(Split::days(0.0).is_err() && Split::days(f64::NAN).is_err() && Split::days(1e9).is_err());
    }

    #[test]
    fn whole_share_and_time_beyond_the_trace_are_all_of_it() {
        let at = |s: u64| Instant::ZERO + Duration::from_ns(s * 1_000_000_000);
        let span = (at(100), at(300));
        assert_eq!(Split::default().boundary(span), at(200));
        let (short, long): (Split, Split) = ("50s".parse().unwrap(), "1h".parse().unwrap());
        assert_eq!((short.boundary(span), short.share(span).as_f64()), (at(150), 0.25));
        assert!(long.boundary(span) > at(300) && Split::Share(Ratio::ONE).boundary(span) > at(300));
        assert_eq!(long.share(span), Ratio::ONE);
    }
}
