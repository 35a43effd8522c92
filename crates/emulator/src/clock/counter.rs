//! The processor's counter: whether it can serve as a clock here, and readings of it beside the system's.
//!
//! # Scope and limits
//! A counter serves if it runs at one rate whatever the processor does and if the kernel itself keeps time
//! by it, which it stops doing when counters of different processors disagree. On x86-64 that is the time
//! stamp counter with the flags `constant_tsc` and `nonstop_tsc` and the clock source `tsc`; on AArch64 the
//! generic timer, clock source `arch_sys_counter`. A guest whose clock source is `kvm-clock` or another
//! takes the portable way. The counter is read without waiting for the instructions before it, so a stamp
//! may be some tens of nanoseconds early.
//!
//! # References
//! \[Griffin 2004, appendix C\]; Intel SDM volume 3, 18.17 (invariant TSC).

use std::fs::File;
use std::io::Read;

use super::monotonic_ns;

/// Why the counter is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unfit {
    /// It is not one that runs at one rate at all times, or this processor has none that is known.
    NotInvariant,
    /// The kernel keeps time by something else.
    NotTheClockSource,
}

/// Whether the counter can serve as a clock on this machine.
pub(super) fn check() -> Result<(), Unfit> {
    let source = read_start("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    // The entry of the first processor is all that is read: the whole file is long on a large machine.
    let flags = read_start("/proc/cpuinfo");
    is_fit(std::env::consts::ARCH, &flags, source.trim())
}

fn is_fit(architecture: &str, cpuinfo: &str, clock_source: &str) -> Result<(), Unfit> {
    let (invariant, expected) = match architecture {
        "x86_64" => {
            let line = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
            let has = |wanted: &str| line.split_ascii_whitespace().any(|flag| flag == wanted);
            (has("constant_tsc") && has("nonstop_tsc"), "tsc")
        }
        "aarch64" => (true, "arch_sys_counter"),
        _ => (false, ""),
    };
    match (invariant, clock_source == expected) {
        (false, _) => Err(Unfit::NotInvariant),
        (true, false) => Err(Unfit::NotTheClockSource),
        (true, true) => Ok(()),
    }
}

/// The first 8 KiB of a file of the kernel; nothing if it cannot be read.
fn read_start(path: &str) -> String {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(8 << 10).read_to_end(&mut bytes));
    read.map(|_| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// The counter and CLOCK_MONOTONIC at about the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    /// The counter, in the middle between two readings around that of the clock.
    pub(super) ticks: u64,
    /// Ticks between the two.
    pub(super) width_ticks: u64,
    /// CLOCK_MONOTONIC in nanoseconds.
    pub(super) ns: u64,
}

/// Tries for one reading: the narrowest counts, so that an interruption in some of them does no harm.
const TRIES: usize = 8;

impl Reading {
    /// The narrowest of some readings.
    pub(super) fn take(counter: &quanta::Clock) -> Self {
        let readings = (0..TRIES).map(|_| {
            let before = counter.raw();
            let ns = monotonic_ns();
            let width_ticks = counter.raw().saturating_sub(before);
            Self { ticks: before + width_ticks / 2, width_ticks, ns }
        });
        readings.min_by_key(|reading| reading.width_ticks).expect("there is at least one try")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_a_counter_only_used_where_the_kernel_trusts_it() {
        let flags =
            "processor\t: 0\nflags\t\t: fpu tsc constant_tsc rep_good nonstop_tsc avx\nbugs\t: none\n";
        let without = flags.replace(" nonstop_tsc", "");
        let check = |architecture, cpuinfo: &str, source, expected| {
            assert_eq!(is_fit(architecture, cpuinfo, source), expected, "{architecture} {source} {cpuinfo}");
        };
        check("x86_64", flags, "tsc", Ok(()));
        check("x86_64", flags, "hpet", Err(Unfit::NotTheClockSource));
        check("x86_64", flags, "kvm-clock", Err(Unfit::NotTheClockSource));
        check("x86_64", &without, "tsc", Err(Unfit::NotInvariant));
        check("x86_64", "", "", Err(Unfit::NotInvariant));
        check("aarch64", "", "arch_sys_counter", Ok(()));
        check("riscv64", flags, "tsc", Err(Unfit::NotInvariant));
    }

    #[test]
    fn is_a_reading_of_both_clocks_from_one_moment() {
        let counter = quanta::Clock::new();
        let (before, reading, after) = (monotonic_ns(), Reading::take(&counter), monotonic_ns());
        assert!((before..=after).contains(&reading.ns), "{before} {reading:?} {after}");
        let later = Reading::take(&counter);
        assert!(later.ticks > reading.ticks && later.ns >= reading.ns, "{reading:?} {later:?}");
    }
}
