//! How the counter's ticks become nanoseconds of CLOCK_MONOTONIC, and when that is no longer believed.
//!
//! ```text
//! CLOCK_MONOTONIC
//!   ▲                          ╱ next line: through the new reading, at the rate measured since
//!   │                 ────────╱  never below what the old line said (it stands still for that long)
//!   │              ╱ ╳ reading: the old line is off by its error
//!   │           ╱ old line
//!   └────────────────────────────▶ ticks
//! ```
//! A reading is due 64 ms after the start, then at doubling intervals up to a second. The rate is measured
//! over the last 8 to 16 s (at first: since the start), so that it follows the small changes by which the
//! system keeps its clock right. With readings that are right to 20 ns the line is, between two readings,
//! off by about as much.
//!
//! # Scope and limits
//! Pure: readings in, lines out; nothing here reads a clock. A line that is off by more than 10 us and 20
//! millionths of the time since the last reading, or a rate more than a thousandth off the first one, means
//! that counter and clock have parted (suspension, migration of a guest, a clock that is being slewed hard):
//! the counter is given up for the rest of the run.
//!
//! # References
//! \[Griffin 2004, appendix C\], whose cycles per second vary by a few millionths under NTP.

use serde::{Deserialize, Serialize};

use super::counter::Reading;

/// Fraction bits of a line's multiplier: up to 256 ns per tick.
const SHIFT: u32 = 56;

/// From when on the rate is known well enough.
const FIRST_BASELINE_NS: u64 = 64_000_000;

const INTERVAL_MAX_NS: u64 = 1_000_000_000;

/// A baseline is replaced when it is this old, by a reading of half that age.
const BASELINE_MAX_NS: u64 = 16_000_000_000;

/// Readings wider than this (in nanoseconds) say too little.
const WIDTH_MAX_NS: u64 = 500;

const ERROR_MAX_NS: u64 = 10_000;

/// Nanoseconds as a function of ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Line {
    pub(super) ticks: u64,
    pub(super) ns: u64,
    /// Nanoseconds for each tick, times 2^56.
    pub(super) multiplier: u64,
    /// It is never below.
    pub(super) floor_ns: u64,
}

impl Line {
    /// CLOCK_MONOTONIC at `ticks`; before its beginning, that of its beginning.
    #[inline]
    pub(super) fn at(&self, ticks: u64) -> u64 {
        let since = u128::from(ticks.saturating_sub(self.ticks)) * u128::from(self.multiplier);
        (self.ns + (since >> SHIFT) as u64).max(self.floor_ns)
    }
}

/// Nanoseconds for each tick between two readings, times 2^56; `None` if that is not a rate.
fn multiplier(from: &Reading, to: &Reading) -> Option<u64> {
    let ticks = to.ticks.checked_sub(from.ticks).filter(|ticks| *ticks > 0)?;
    let ns = to.ns.checked_sub(from.ns).filter(|ns| *ns > 0)?;
    u64::try_from((u128::from(ns) << SHIFT) / u128::from(ticks)).ok().filter(|rate| *rate > 0)
}

/// Why the counter was given up during a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Parted {
    /// The line was further off than it may be.
    Jump,
    /// The rate has changed by more than any system's clock is slewed.
    Rate,
}

/// What a reading led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing: the reading was too wide.
    Keep,
    /// This line from now on. Its floor is for whoever publishes it to set.
    Line(Line),
    /// The counter cannot be relied upon.
    GiveUp(Parted),
}

/// Watches the counter against the clock.
#[derive(Debug, Clone)]
pub(super) struct Discipline {
    first: Reading,
    /// The rate is measured from here on.
    base: Reading,
    /// The base to come.
    middle: Reading,
    last: Reading,
    line: Option<Line>,
    /// What the first line would say without any correction.
    uncorrected: Option<Line>,
    interval_ns: u64,
    pub(super) readings: u64,
    pub(super) unusable: u64,
    /// The largest error of a line that a reading found.
    pub(super) error_max_ns: u64,
}

impl Discipline {
    pub(super) const fn new(first: Reading) -> Self {
        Self {
            first,
            base: first,
            middle: first,
            last: first,
            line: None,
            uncorrected: None,
            interval_ns: FIRST_BASELINE_NS,
            readings: 1,
            unusable: 0,
            error_max_ns: 0,
        }
    }

    /// When the next reading is wanted, on CLOCK_MONOTONIC.
    pub(super) const fn next_ns(&self) -> u64 {
        self.last.ns + self.interval_ns
    }

    /// Takes a reading in, at [`next_ns`](Self::next_ns) or later.
    pub(super) fn observe(&mut self, reading: Reading) -> Verdict {
        // A first baseline that began with an interruption would spoil the rate: begin anew.
        if self.is_wide(&self.first) && self.line.is_none() {
            let unusable = self.unusable + 1;
            *self = Self { unusable, readings: self.readings + 1, ..Self::new(reading) };
            return Verdict::Keep;
        }
        if self.is_wide(&reading) {
            self.unusable += 1;
            return Verdict::Keep;
        }
        let Some(rate) = multiplier(&self.base, &reading) else { return Verdict::GiveUp(Parted::Rate) };
        self.readings += 1;
        if let (Some(line), Some(uncorrected)) = (self.line, self.uncorrected) {
            let error_ns = line.at(reading.ticks).abs_diff(reading.ns);
            self.error_max_ns = self.error_max_ns.max(error_ns);
            if error_ns > ERROR_MAX_NS + (reading.ns - self.last.ns) / 50_000 {
                return Verdict::GiveUp(Parted::Jump);
            }
            if rate.abs_diff(uncorrected.multiplier) > uncorrected.multiplier / 1_000 {
                return Verdict::GiveUp(Parted::Rate);
            }
            self.interval_ns = (self.interval_ns * 2).min(INTERVAL_MAX_NS);
        }
        let line = Line { ticks: reading.ticks, ns: reading.ns, multiplier: rate, floor_ns: 0 };
        self.uncorrected = self.uncorrected.or(Some(line));
        self.line = Some(line);
        self.last = reading;
        self.move_base();
        Verdict::Line(line)
    }

    /// Whether a reading is too wide to tell, by the rate known so far (or a tick of a nanosecond).
    fn is_wide(&self, reading: &Reading) -> bool {
        let rate = self.line.map_or(1 << SHIFT, |line| line.multiplier);
        (u128::from(reading.width_ticks) * u128::from(rate)) >> SHIFT > u128::from(WIDTH_MAX_NS)
    }

    fn move_base(&mut self) {
        if self.last.ns - self.base.ns >= BASELINE_MAX_NS {
            self.base = self.middle;
            self.middle = self.last;
        } else if self.middle == self.base && self.last.ns - self.base.ns >= BASELINE_MAX_NS / 2 {
            self.middle = self.last;
        }
    }

    /// Ticks per second as last measured.
    pub(super) fn ticks_per_s(&self) -> Option<u64> {
        let line = self.line?;
        u64::try_from((1_000_000_000_u128 << SHIFT) / u128::from(line.multiplier)).ok()
    }

    /// How far the counter at its first rate would be ahead of the clock at the last reading, and since when.
    pub(super) fn drift(&self) -> Option<Drift> {
        let line = self.uncorrected?;
        let elapsed_ns = self.last.ns - line.ns;
        let drift_ns = i64::try_from(i128::from(line.at(self.last.ticks)) - i128::from(self.last.ns)).ok()?;
        Some(Drift { drift_ns, elapsed_ns })
    }
}

/// What the counter without any correction would have come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    /// The counter at the rate measured first, less CLOCK_MONOTONIC; positive if the counter is ahead.
    pub drift_ns: i64,
    /// Over how long.
    pub elapsed_ns: u64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A clock whose true time advances, with a counter of `khz` that wanders by millionths.
    struct Machine {
        ns: u64,
        ticks: u64,
        khz: u64,
    }

    impl Machine {
        fn advance(&mut self, ns: u64, wander_ppb: i64) {
            let ticks = u128::from(ns) * u128::from(self.khz) / 1_000_000;
            let wander = ticks as i128 * i128::from(wander_ppb) / 1_000_000_000;
            self.ns += ns;
            self.ticks += (ticks as i128 + wander) as u64;
        }

        /// A reading that is `off_ns` off.
        fn read(&self, off_ns: i64) -> Reading {
            let width_ticks = 20 * self.khz / 1_000_000;
            Reading { ticks: self.ticks, width_ticks, ns: self.ns.saturating_add_signed(off_ns) }
        }
    }

    fn machine(khz: u64) -> Machine {
        Machine { ns: 5_000_000_000, ticks: 77_777_777_777, khz }
    }

    #[test]
    fn do_ticks_become_nanoseconds_for_every_rate_and_years() {
        for khz in [24_000, 1_000_000, 2_600_000, 5_999_999] {
            let mut machine = machine(khz);
            let mut discipline = Discipline::new(machine.read(0));
            machine.advance(FIRST_BASELINE_NS, 0);
            let Verdict::Line(line) = discipline.observe(machine.read(0)) else { panic!("{khz} kHz") };
            let year = 365 * 86_400 * 1_000_000_000;
            machine.advance(year, 0);
            // A baseline of 64 ms that is right to a tick or two is right to some 30 millionths at 24 MHz.
            let off = line.at(machine.ticks).abs_diff(machine.ns);
            assert!(off < year / 1_000_000 * 2, "{khz} kHz: {off} ns in a year");
            assert_eq!(line.at(0), line.ns, "never before its beginning");
        }
    }

    #[test]
    fn are_a_jump_and_another_rate_found() {
        let settled = || {
            let mut machine = machine(2_600_000);
            let mut discipline = Discipline::new(machine.read(0));
            for _ in 0..20 {
                machine.advance(INTERVAL_MAX_NS, 0);
                assert!(matches!(discipline.observe(machine.read(0)), Verdict::Line(_)));
            }
            (machine, discipline)
        };
        for jump in [-40_000, 40_000] {
            let (mut machine, mut discipline) = settled();
            machine.advance(INTERVAL_MAX_NS, 0);
            assert_eq!(discipline.observe(machine.read(jump)), Verdict::GiveUp(Parted::Jump), "{jump}");
            assert!(discipline.error_max_ns >= 39_000);
        }
        let (mut machine, mut discipline) = settled();
        machine.advance(INTERVAL_MAX_NS, 0);
        assert!(matches!(discipline.observe(machine.read(9_000)), Verdict::Line(_)), "within bounds");
        // The counter stands still, as after a suspension in which it was reset.
        machine.ns += INTERVAL_MAX_NS;
        machine.ticks = 5;
        assert!(matches!(discipline.observe(machine.read(0)), Verdict::GiveUp(_)));
    }

    #[test]
    fn is_a_wide_reading_left_out() {
        let mut machine = machine(2_600_000);
        let mut discipline = Discipline::new(machine.read(0));
        machine.advance(FIRST_BASELINE_NS, 0);
        let wide = Reading { width_ticks: 2_600 * 1_000, ..machine.read(0) };
        assert_eq!(discipline.observe(wide), Verdict::Keep);
        assert_eq!(discipline.unusable, 1);
        assert!(
            matches!(discipline.observe(machine.read(0)), Verdict::Line(_)),
            "the next one is asked for at once"
        );
        let mut discipline = Discipline::new(wide);
        machine.advance(FIRST_BASELINE_NS, 0);
        assert_eq!(discipline.observe(machine.read(0)), Verdict::Keep, "the first one was wide");
        machine.advance(FIRST_BASELINE_NS, 0);
        assert!(matches!(discipline.observe(machine.read(0)), Verdict::Line(_)));
    }

    #[test]
    fn is_the_drift_that_of_the_counter_left_alone() {
        let mut machine = machine(2_600_000);
        let mut discipline = Discipline::new(machine.read(0));
        machine.advance(FIRST_BASELINE_NS, 0);
        discipline.observe(machine.read(0));
        for _ in 0..100 {
            machine.advance(INTERVAL_MAX_NS, 2_000);
            discipline.observe(machine.read(0));
        }
        // Two millionths of 100 s.
        let drift = discipline.drift().unwrap();
        assert!(drift.drift_ns.abs_diff(200_000) < 2_000, "{drift:?}");
        assert_eq!(drift.elapsed_ns, 100_000_000_000);
        assert!(discipline.error_max_ns < 2_100, "each second's line is only that second's error off");
        assert!(
            discipline.ticks_per_s().unwrap().abs_diff(2_600_005_200) < 300,
            "{:?}",
            discipline.ticks_per_s()
        );
    }

    proptest! {
        #[test]
        fn does_the_line_stay_near_and_never_go_backwards(
            khz in 20_000..6_000_000_u64,
            steps in prop::collection::vec((1..3_000_000_000_u64, -2_000..2_000_i64, -40..40_i64), 1..80),
        ) {
            let mut machine = machine(khz);
            let mut discipline = Discipline::new(machine.read(0));
            let mut published = None::<Line>;
            let mut before = 0;
            for (ns, wander_ppb, off_ns) in steps {
                machine.advance(ns, wander_ppb);
                let now = published.map_or(0, |line| line.at(machine.ticks));
                prop_assert!(now >= before, "{now} after {before}");
                if now > 0 {
                    // 64 ms of baseline with readings 40 ns and a tick off: 2 millionths; wander 4 more.
                    let (off, since) = (now.abs_diff(machine.ns), machine.ns - discipline.last.ns);
                    prop_assert!(off < 300 + since / 100_000, "off by {off} ns, {since} ns after a reading");
                }
                before = now;
                if machine.ns < discipline.next_ns() {
                    continue;
                }
                match discipline.observe(machine.read(off_ns)) {
                    Verdict::Line(line) => {
                        let line = Line { floor_ns: before, ..line };
                        let after = line.at(machine.ticks);
                        prop_assert!(after >= before, "{after} after {before}");
                        before = after;
                        published = Some(line);
                    }
                    Verdict::Keep => {}
                    Verdict::GiveUp(parted) => prop_assert!(false, "{parted:?} within bounds"),
                }
            }
        }
    }
}
