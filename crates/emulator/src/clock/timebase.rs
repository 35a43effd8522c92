//! CLOCK_MONOTONIC read from the processor's counter where that can be relied upon, from the system elsewhere.
//!
//! ```text
//! readers: version ─▶ line ─▶ counter ─▶ version again ─▶ nanoseconds   (no lock, no system call)
//! check:   reading ─▶ discipline ─▶ version odd ─▶ new line, floor = old line now ─▶ version even
//! ```
//! A reader that sees the version change begins anew, so whoever read by the old line did so before the
//! floor of the new one was taken: for no thread does time ever go backwards.
//!
//! # Scope and limits
//! It begins with the system's clock and takes the counter up at the first [`check`](Timebase::check) that
//! knows its rate, 64 ms later or more; whoever never checks reads the system's clock. Once given up, the
//! counter stays so. Of two threads that tell each other their stamps through memory, one may see the other's as
//! ahead (by 1.1 us where two fought for a cache line), since processors read the counter out of order; stamps on
//! both sides of a system call are in order.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};

use super::counter::{self, Reading, Unfit};
use super::discipline::{Discipline, Drift, Line, Parted, Verdict};
use super::monotonic_ns;

/// Where time stamps come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockSource {
    /// The processor's counter, held to CLOCK_MONOTONIC.
    Counter,
    /// CLOCK_MONOTONIC itself.
    System,
}

/// Why stamps do not come from the counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhySystem {
    /// It was asked for.
    Asked,
    /// The processor has no counter that runs at one rate at all times.
    NotInvariant,
    /// The kernel keeps time by something else, so its counters may disagree.
    NotTheClockSource,
    /// The counter's rate is not known yet.
    NotCheckedYet,
    /// Counter and clock parted at once, as when a guest is suspended or moved.
    Jumped,
    /// The counter's rate against the clock changed.
    RateChanged,
}

impl WhySystem {
    /// For reports.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Asked => "asked for",
            Self::NotInvariant => "the processor's counter is not invariant",
            Self::NotTheClockSource => "the kernel does not keep time by the processor's counter",
            Self::NotCheckedYet => "the counter's rate is not known yet",
            Self::Jumped => "counter and system clock jumped apart",
            Self::RateChanged => "the counter's rate changed",
        }
    }
}

/// How the clock has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReport {
    /// Where stamps come from now.
    pub source: ClockSource,
    /// Why not from the counter.
    pub why_system: Option<WhySystem>,
    /// The counter's rate as last measured.
    pub ticks_per_s: Option<u64>,
    /// Readings of counter and clock together.
    pub checks: u64,
    /// Those that an interruption made too wide to tell anything.
    pub unusable: u64,
    /// The most that stamps were found off CLOCK_MONOTONIC by.
    pub error_max_ns: u64,
    /// What the counter alone, at the rate measured first, would be off by now.
    pub drift: Option<Drift>,
}

#[derive(Debug)]
struct Watch {
    discipline: Option<Discipline>,
    given_up: Option<Parted>,
    unfit: Option<Unfit>,
}

/// One way from the counter to CLOCK_MONOTONIC, shared by all that read it.
#[derive(Debug)]
pub(super) struct Timebase {
    /// Whether the counter may be used at all.
    wanted: bool,
    counter: OnceLock<Option<quanta::Clock>>,
    /// Odd while the fields below change.
    version: AtomicU64,
    by_counter: AtomicBool,
    ticks: AtomicU64,
    ns: AtomicU64,
    multiplier: AtomicU64,
    floor_ns: AtomicU64,
    next_check_ns: AtomicU64,
    watch: Mutex<Watch>,
}

/// The machine's: counter and CLOCK_MONOTONIC are the same for everything in the process.
pub(super) static MACHINE: Timebase = Timebase::new(true);

/// CLOCK_MONOTONIC without the counter.
pub(super) static SYSTEM: Timebase = Timebase::new(false);

impl Timebase {
    pub(super) const fn new(wanted: bool) -> Self {
        Self {
            wanted,
            counter: OnceLock::new(),
            version: AtomicU64::new(0),
            by_counter: AtomicBool::new(false),
            ticks: AtomicU64::new(0),
            ns: AtomicU64::new(0),
            multiplier: AtomicU64::new(0),
            floor_ns: AtomicU64::new(0),
            next_check_ns: AtomicU64::new(0),
            watch: Mutex::new(Watch { discipline: None, given_up: None, unfit: None }),
        }
    }

    /// CLOCK_MONOTONIC in nanoseconds.
    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        loop {
            let version = self.version.load(Ordering::Acquire);
            if version & 1 == 0 {
                let ns = self.read();
                fence(Ordering::Acquire);
                if self.version.load(Ordering::Relaxed) == version {
                    return ns;
                }
            }
            std::hint::spin_loop();
        }
    }

    #[inline]
    fn read(&self) -> u64 {
        if self.by_counter.load(Ordering::Relaxed)
            && let Some(Some(counter)) = self.counter.get()
        {
            let line = Line {
                ticks: self.ticks.load(Ordering::Relaxed),
                ns: self.ns.load(Ordering::Relaxed),
                multiplier: self.multiplier.load(Ordering::Relaxed),
                floor_ns: self.floor_ns.load(Ordering::Relaxed),
            };
            line.at(counter.raw())
        } else {
            monotonic_ns().max(self.floor_ns.load(Ordering::Relaxed))
        }
    }

    /// Looks for the counter and takes a first reading, so that a later check knows its rate.
    pub(super) fn begin(&self) {
        self.check_at(0);
    }

    /// Compares counter and clock if it is time to, and corrects the line; cheap where it is not.
    /// Returns whether a reading was taken.
    pub(super) fn check(&self) -> bool {
        self.check_at(self.now_ns())
    }

    /// As [`check`](Self::check) by somebody who knows the time.
    pub(super) fn check_at(&self, now_ns: u64) -> bool {
        if !self.wanted || now_ns < self.next_check_ns.load(Ordering::Relaxed) {
            return false;
        }
        // Whoever comes second finds it done.
        let Ok(mut watch) = self.watch.try_lock() else { return false };
        let counter = self.counter.get_or_init(|| match counter::check() {
            Ok(()) => Some(quanta::Clock::new()),
            Err(unfit) => {
                watch.unfit = Some(unfit);
                None
            }
        });
        let Some(counter) = counter.as_ref().filter(|_| watch.given_up.is_none()) else {
            self.next_check_ns.store(u64::MAX, Ordering::Relaxed);
            return false;
        };
        let reading = Reading::take(counter);
        let Some(discipline) = &mut watch.discipline else {
            let discipline = watch.discipline.insert(Discipline::new(reading));
            self.next_check_ns.store(discipline.next_ns(), Ordering::Relaxed);
            return true;
        };
        match discipline.observe(reading) {
            Verdict::Keep => {}
            Verdict::Line(line) => self.publish(Some(line)),
            Verdict::GiveUp(parted) => {
                self.publish(None);
                watch.given_up = Some(parted);
                self.next_check_ns.store(u64::MAX, Ordering::Relaxed);
                return true;
            }
        }
        // After a reading that was too wide, not at once again: what made it wide may last.
        let retry_ns = reading.ns + 1_000_000;
        self.next_check_ns.store(discipline.next_ns().max(retry_ns), Ordering::Relaxed);
        true
    }

    /// Readers take that line, or the system's clock, from now on.
    fn publish(&self, line: Option<Line>) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        // Readers see the odd version before the floor is read, so none reads the old line after it.
        fence(Ordering::SeqCst);
        let floor_ns = self.read();
        if let Some(line) = line {
            self.ticks.store(line.ticks, Ordering::Relaxed);
            self.ns.store(line.ns, Ordering::Relaxed);
            self.multiplier.store(line.multiplier, Ordering::Relaxed);
        }
        self.by_counter.store(line.is_some(), Ordering::Relaxed);
        self.floor_ns.store(floor_ns, Ordering::Relaxed);
        self.version.store(version + 2, Ordering::Release);
    }

    pub(super) fn report(&self) -> ClockReport {
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let by_counter = self.by_counter.load(Ordering::Relaxed);
        let why = match (watch.given_up, watch.unfit) {
            _ if !self.wanted => WhySystem::Asked,
            (Some(Parted::Jump), _) => WhySystem::Jumped,
            (Some(Parted::Rate), _) => WhySystem::RateChanged,
            (None, Some(Unfit::NotInvariant)) => WhySystem::NotInvariant,
            (None, Some(Unfit::NotTheClockSource)) => WhySystem::NotTheClockSource,
            (None, None) => WhySystem::NotCheckedYet,
        };
        let discipline = watch.discipline.as_ref();
        ClockReport {
            source: if by_counter { ClockSource::Counter } else { ClockSource::System },
            why_system: (!by_counter).then_some(why),
            ticks_per_s: discipline.and_then(Discipline::ticks_per_s),
            checks: discipline.map_or(0, |discipline| discipline.readings),
            unusable: discipline.map_or(0, |discipline| discipline.unusable),
            error_max_ns: discipline.map_or(0, |discipline| discipline.error_max_ns),
            drift: discipline.and_then(Discipline::drift),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_stamps_those_of_the_system_before_and_after_checks() {
        let timebase = Timebase::new(true);
        timebase.begin();
        let start = monotonic_ns();
        let mut before = 0;
        let mut taken = 0;
        while monotonic_ns() - start < 400_000_000 {
            taken += u64::from(timebase.check());
            // The nearest of some, since between two readings the processor may be taken away.
            let nearest = (0..50)
                .map(|_| {
                    let (early, stamp, late) = (monotonic_ns(), timebase.now_ns(), monotonic_ns());
                    assert!(stamp >= before, "{stamp} after {before}");
                    before = stamp;
                    early.saturating_sub(stamp).max(stamp.saturating_sub(late))
                })
                .min();
            assert!(nearest < Some(1_000), "{nearest:?} ns off: {:?}", timebase.report());
        }
        let report = timebase.report();
        println!("{report:?}");
        assert!(taken > 1 || report.source == ClockSource::System, "{report:?}");
    }

    #[test]
    fn does_time_never_go_backwards() {
        let timebase = Timebase::new(true);
        timebase.begin();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut own = 0;
                    while !over.load(Ordering::Relaxed) {
                        let now = timebase.now_ns();
                        assert!(now >= own, "{now} after {own}");
                        own = now;
                    }
                });
            }
            let start = monotonic_ns();
            while monotonic_ns() - start < 300_000_000 {
                timebase.check();
                // Far more often than checks are due: lines that are off by up to a microsecond.
                let watch = timebase.watch.lock().unwrap();
                if let (true, Some(Some(counter))) =
                    (timebase.by_counter.load(Ordering::Relaxed), timebase.counter.get())
                {
                    let reading = Reading::take(counter);
                    let off = reading.ticks % 2_000;
                    let multiplier = timebase.multiplier.load(Ordering::Relaxed);
                    let line =
                        Line { ticks: reading.ticks, ns: reading.ns - 1_000 + off, multiplier, floor_ns: 0 };
                    timebase.publish(Some(line));
                }
                drop(watch);
            }
            over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn is_the_counter_given_up_without_going_backwards() {
        let timebase = Timebase::new(true);
        timebase.begin();
        let ahead = monotonic_ns() + 3_000_000;
        timebase.publish(None);
        timebase.floor_ns.store(ahead, Ordering::Relaxed);
        assert_eq!(timebase.now_ns(), ahead, "stands still until the system's clock has come there");
        timebase.publish(None);
        assert!(timebase.now_ns() >= ahead);
    }

    #[test]
    fn is_the_system_clock_used_when_asked_for() {
        let timebase = Timebase::new(false);
        timebase.begin();
        assert!(!timebase.check());
        let (early, stamp, late) = (monotonic_ns(), timebase.now_ns(), monotonic_ns());
        assert!((early..=late).contains(&stamp));
        let report = timebase.report();
        assert_eq!((report.source, report.why_system), (ClockSource::System, Some(WhySystem::Asked)));
    }
}
