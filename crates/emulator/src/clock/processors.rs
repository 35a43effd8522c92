//! Keeping idle processors from sleeping: a reply to one that sleeps takes tens of microseconds more.
//!
//! # Scope and limits
//! The kernel's own means, the quality of service that a process may ask of the processors: while
//! `/dev/cpu_dma_latency` is held open with a wake-up latency of zero, idle processors look for work instead of
//! sleeping. That takes no time from anybody, but power, and on a shared machine what its owner would give to
//! others. Needs root, and a kernel that manages idle processors (`cpuidle`); without it they sleep as the machine
//! sees fit. The request ends with the process, however it ends.
//!
//! # References
//! Linux, `Documentation/power/pm_qos_interface.rst`.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Pacing;

/// State of idle processors.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Processors {
    /// Sleep, as they do by default.
    #[default]
    Asleep,
    /// Look for work.
    Awake,
}

impl Processors {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Asleep, Self::Awake];

    /// The name in files and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Asleep => "asleep",
            Self::Awake => "awake",
        }
    }
}

/// The request to keep idle processors awake, for as long as it lives.
#[derive(Debug)]
pub struct KeptAwake {
    _request: File,
}

const REQUESTS: &str = "/dev/cpu_dma_latency";
const DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

impl KeptAwake {
    /// Requests that idle processors stay awake.
    ///
    /// # Errors
    /// If the kernel does not manage idle processors, or does not let this user request it.
    pub fn hold() -> io::Result<Self> {
        let driver = fs::read_to_string(DRIVER).unwrap_or_default();
        if matches!(driver.trim(), "" | "none") {
            let text = "the kernel does not manage idle processors here (no cpuidle driver)";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let mut request = OpenOptions::new().write(true).open(REQUESTS)?;
        request.write_all(&0_i32.to_ne_bytes())?;
        Ok(Self { _request: request })
    }

    /// Keeps idle processors awake if `pacing` is exact and the kernel permits it. Only exact pacing is worth the
    /// power.
    pub fn under(pacing: Pacing) -> Option<Self> {
        if pacing == Pacing::Exact { Self::hold().ok() } else { None }
    }

    /// Returns the state of idle processors while `held` lives.
    pub const fn processors(held: Option<&Self>) -> Processors {
        match held {
            Some(_) => Processors::Awake,
            None => Processors::Asleep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folder with the kernel's counts and times of each idle state of the first processor.
    const STATES: &str = "/sys/devices/system/cpu/cpu0/cpuidle";

    #[test]
    fn processors_are_kept_awake_only_for_exact_pacing() {
        assert!(KeptAwake::under(Pacing::Balanced).is_none());
        assert!(KeptAwake::under(Pacing::Frugal).is_none());
        let held = match KeptAwake::hold() {
            Ok(held) => held,
            Err(error) => {
                println!("SKIP: processors cannot be kept awake here: {error}");
                return;
            }
        };
        assert_eq!(KeptAwake::processors(Some(&held)), Processors::Awake);
        let exact = KeptAwake::under(Pacing::Exact);
        assert_eq!(KeptAwake::processors(exact.as_ref()), Processors::Awake);
        // The first state is the one that looks for work; others are asleep.
        let polls =
            fs::read_to_string(format!("{STATES}/state0/name")).is_ok_and(|name| name.trim() == "POLL");
        let asleep = || -> Option<u64> {
            fs::read_to_string(format!("{STATES}/state1/usage")).ok()?.trim().parse().ok()
        };
        let Some(before) = asleep().filter(|_| polls) else { return };
        let clock = crate::clock::Clock::start();
        for _ in 0..100 {
            crate::clock::waiting::sleep_until(clock, clock.now() + seeklab_core::Duration::from_us(200));
        }
        // What fell asleep before may be counted once more when it wakes.
        let slept = asleep().unwrap_or(before) - before;
        assert!(slept <= 2, "processor 0 fell asleep {slept} times while it was to be awake");
    }
}
