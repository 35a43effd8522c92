//! Validity of a calibration: a machine, its kernel, one boot.

use std::fs;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The machine, the kernel and the boot; times measured on another are no use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Name of the processor, or of the architecture if the kernel does not give it.
    pub processor: String,
    /// Processors that the process may use.
    pub cores: u64,
    /// The kernel's release.
    pub kernel: String,
    /// Identifier of the boot; empty if the kernel does not give it.
    pub boot_id: String,
}

impl Machine {
    /// This one.
    pub fn this() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let cpuinfo = read("/proc/cpuinfo");
        let value = |line: &str| line.split_once(':').map(|(_, value)| value.trim().to_owned());
        let processor = cpuinfo.lines().find(|line| line.starts_with("model name")).and_then(value);
        Self {
            processor: processor.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            boot_id: read("/proc/sys/kernel/random/boot_id"),
        }
    }

    /// Describes the difference from `now`; `None` if there is none.
    pub fn differs(&self, now: &Self) -> Option<String> {
        if self.processor != now.processor || self.cores != now.cores {
            let (was, is) = (&self.processor, &now.processor);
            let (cores, have) = (self.cores, now.cores);
            Some(format!("on another machine (`{was}`, {cores} cores; this is `{is}`, {have})"))
        } else if self.kernel != now.kernel {
            Some(format!("under kernel `{}` (this is `{}`)", self.kernel, now.kernel))
        } else if self.boot_id != now.boot_id {
            Some("before the machine was started the last time".to_owned())
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_machine_kernel_or_boot_is_reported() {
        let now = Machine::this();
        assert!(now.cores > 0 && !now.kernel.is_empty(), "{now:?}");
        assert_eq!(now.differs(&now), None);
        let check = |other: Machine, says: &str| {
            let differs = other.differs(&now).unwrap();
            assert!(differs.contains(says), "{differs}");
        };
        check(Machine { processor: "Z80".to_owned(), ..now.clone() }, "Z80");
        check(Machine { cores: now.cores + 1, ..now.clone() }, "another machine");
        check(Machine { kernel: "2.4.18".to_owned(), ..now.clone() }, "2.4.18");
        check(Machine { boot_id: "x".to_owned(), ..now.clone() }, "started");
    }
}
