//! Limits that make the host of a series small: memory, dirty data, writeback throttling and processors.

use schemars::JsonSchema;
use seeklab_core::number_words::numbered;
use seeklab_core::{ByteSize, Duration};
use seeklab_report::{Note, Parameter};
use seeklab_stage::{CpuList, KeptOff, MemoryFigures};
use serde::Serialize;

use super::figures::Figures;
use super::{Application, Commands, Series};
use crate::failure::Failure;

/// The least memory of commands: less holds hardly a program.
const MEMORY_MIN: ByteSize = ByteSize::from_bytes(1 << 20);

/// Limits on commands. Those on the host's queue are [`QueueOptions`].
///
/// [`QueueOptions`]: seeklab_emulator::frontend::loop_device::QueueOptions
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandLimits {
    /// Limit of the memory of the commands, with the page cache that they fill.
    pub memory: Option<ByteSize>,
    /// Processors of the commands. The emulator runs on the others, if there are any.
    pub cpus: Option<CpuList>,
}

impl CommandLimits {
    /// Checks the limits that are refused on any machine.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match self.memory {
            Some(memory) if memory < MEMORY_MIN => {
                Err(Failure::new(format!("--memory {memory}: no command can run in it"))
                    .hint(format!("at least {MEMORY_MIN}")))
            }
            _ => Ok(()),
        }
    }
}

/// Limits of the host, as the document of a series names them. A limit that was not set is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HostLimits {
    /// Memory of the commands, with the page cache that they fill.
    pub memory_bytes: Option<u64>,
    /// Limit of the data that the page cache holds for the device and that are not written yet.
    pub dirty_limit_bytes: Option<u64>,
    /// Latency of reads that writeback throttling keeps to; 0 if it was switched off.
    pub writeback_throttling_us: Option<u64>,
    /// Processors of the commands, for example `0,2-3`.
    pub cpus: Option<String>,
    /// Limits that do not go together, for people.
    pub notes: Vec<String>,
}

impl HostLimits {
    pub(super) fn of(commands: &Commands) -> Self {
        let Commands { limits, queue, .. } = commands;
        Self {
            memory_bytes: limits.memory.map(ByteSize::as_bytes),
            dirty_limit_bytes: queue.dirty_limit.map(ByteSize::as_bytes),
            writeback_throttling_us: queue.writeback_throttling.map(|time| time.as_ns().div_ceil(1_000)),
            cpus: limits.cpus.as_ref().map(CpuList::to_string),
            notes: Vec::from_iter(dirty_limit_note(commands)),
        }
    }
}

/// A note on a dirty limit that the memory of the commands does not hold.
pub(super) fn dirty_limit_note(commands: &Commands) -> Option<String> {
    let (memory, dirty_limit) = (commands.limits.memory?, commands.queue.dirty_limit?);
    (dirty_limit > memory).then(|| {
        format!(
            "--dirty-limit {dirty_limit} exceeds --memory {memory}: writers fill the memory with data that are not written before \
             they wait, and the kernel may kill them (hint: a dirty limit of at most half of the memory, {})",
            ByteSize::from_bytes(memory.as_bytes() / 2)
        )
    })
}

/// The kernel's kills for want of memory in words, to follow the end of a phase; empty without them.
pub(super) fn kills_in_words(memory: Option<MemoryFigures>) -> String {
    match memory {
        Some(MemoryFigures { oom_kills, limit_bytes, .. }) if oom_kills > 0 => format!(
            " ({}: more than --memory {} was in use; hint: more memory, or a smaller --dirty-limit)",
            killed_processes(oom_kills),
            ByteSize::from_bytes(limit_bytes)
        ),
        _ => String::new(),
    }
}

fn killed_processes(kills: u64) -> String {
    format!("the kernel killed {}", numbered(kills, "process[|es]"))
}

/// Keeps the calling thread, and the emulators that it starts, off the processors of the commands.
pub(super) fn keep_off(series: &Series) -> Option<KeptOff> {
    match &series.application {
        Application::Commands(commands) => KeptOff::begin(commands.limits.cpus.as_ref()?),
        Application::Builtin { .. } | Application::Jobs(_) => None,
    }
}

/// The limits as rows of the report.
pub(super) fn parameters(commands: &Commands) -> impl Iterator<Item = Parameter> {
    let Commands { limits, queue, .. } = commands;
    let throttling = queue.writeback_throttling.map(|time| match time {
        Duration::ZERO => "off".to_owned(),
        time => time.to_string(),
    });
    let rows = [
        ("host: memory", limits.memory.map(|size| size.to_string())),
        ("host: dirty limit", queue.dirty_limit.map(|size| size.to_string())),
        ("host: writeback throttling", throttling),
        ("host: processors", limits.cpus.as_ref().map(CpuList::to_string)),
    ];
    let row = |(name, value): (&str, Option<String>)| {
        Some(Parameter { name: name.to_owned(), value: value?, source: None })
    };
    rows.into_iter().filter_map(row)
}

/// A warning about processes that the kernel killed for the limit of their memory.
pub(super) fn note(device: &str, repetitions: &[Figures]) -> Option<Note> {
    let kills: u64 = repetitions.iter().filter_map(|figures| Some(figures.memory?.oom_kills)).sum();
    (kills > 0).then(|| {
        Note::Warning(format!("{device}: {} because --memory was exhausted", killed_processes(kills)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_for_want_of_memory_are_named_with_the_limit() {
        let memory = |oom_kills| MemoryFigures { limit_bytes: 64 << 20, peak_bytes: None, oom_kills };
        assert_eq!(kills_in_words(None), "");
        assert_eq!(kills_in_words(Some(memory(0))), "");
        let words = kills_in_words(Some(memory(1)));
        assert!(words.contains("killed 1 process: more than --memory 64MiB"), "{words}");
        assert!(kills_in_words(Some(memory(2))).contains("killed 2 processes"));
    }
}
