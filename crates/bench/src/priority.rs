//! I/O priority of requests, for schedulers of the kernel that know priorities (mq-deadline, BFQ) and devices with command
//! priorities.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bits of the level in the number of the kernel.
const CLASS_SHIFT: u16 = 13;
/// Least pressing level of a class.
const LEVEL_MAX: u8 = 7;

/// I/O priority, as text: `realtime:0` to `realtime:7`, `best-effort:0` to `best-effort:7` (0 is the most pressing), `idle`.
///
/// # References
/// ioprio_set(2) of the Linux manual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum IoPriority {
    /// Before all other classes. The level is at most 7.
    RealTime(u8),
    /// The class of processes that chose none, whose level is 4. The level is at most 7.
    BestEffort(u8),
    /// Only if nothing else waits.
    Idle,
}

impl IoPriority {
    /// Number by which the kernel knows it.
    pub const fn number(self) -> u16 {
        match self {
            Self::RealTime(level) => (1 << CLASS_SHIFT) | level as u16,
            Self::BestEffort(level) => (2 << CLASS_SHIFT) | level as u16,
            Self::Idle => 3 << CLASS_SHIFT,
        }
    }
}

impl FromStr for IoPriority {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no I/O priority; write realtime:0 to realtime:7, best-effort:0 to best-effort:7, or idle"
            )
        };
        if text.trim() == "idle" {
            return Ok(Self::Idle);
        }
        let (class, level) = text.trim().split_once(':').ok_or_else(wrong)?;
        let level = level.parse().ok().filter(|level| *level <= LEVEL_MAX).ok_or_else(wrong)?;
        match class {
            "realtime" => Ok(Self::RealTime(level)),
            "best-effort" => Ok(Self::BestEffort(level)),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for IoPriority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RealTime(level) => write!(formatter, "realtime:{level}"),
            Self::BestEffort(level) => write!(formatter, "best-effort:{level}"),
            Self::Idle => formatter.write_str("idle"),
        }
    }
}

impl TryFrom<String> for IoPriority {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<IoPriority> for String {
    fn from(priority: IoPriority) -> Self {
        priority.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_read_shown_and_numbered_as_by_the_kernel() {
        // IOPRIO_PRIO_VALUE of include/uapi/linux/ioprio.h: class 1 to 3 in the upper 3 of 16 bits.
        let expected =
            [("realtime:0", 0x2000), ("realtime:7", 0x2007), ("best-effort:4", 0x4004), ("idle", 0x6000)];
        for (text, number) in expected {
            let priority: IoPriority = text.parse().unwrap();
            assert_eq!((priority.number(), priority.to_string()), (number, text.to_owned()));
        }
        for text in ["", "idle:1", "realtime", "realtime:8", "realtime:-1", "best-effort:", "be:4"] {
            let error = text.parse::<IoPriority>().unwrap_err();
            assert!(error.contains("realtime:7"), "{text}: {error}");
        }
    }
}
