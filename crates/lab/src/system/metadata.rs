//! Metadata of a system-level trace: the file `system.json`.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use seeklab_core::number_words::{counted, in_number, numbered};
use seeklab_traces::capture::system::JournalPlace;
use serde::{Deserialize, Serialize};

/// Name of the file.
pub(super) const FILE: &str = "system.json";

/// Metadata of a system-level trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SystemMetadata {
    /// Version of the tables and of this file.
    pub tables_version: u32,
    /// Program that recorded the trace, and its version.
    pub recorded_by: String,
    /// Clock of all times, which count from the beginning of the trace.
    pub clock: String,
    /// Time of CLOCK_MONOTONIC at the beginning.
    pub begin_ns: u64,
    /// Length of the trace.
    pub elapsed_ns: u64,
    /// The traced command and its arguments.
    pub command: Vec<String>,
    /// Number of the first thread of the task.
    pub task: u32,
    /// Exit code of the command; 128 plus the signal number if a signal ended it. `None` if the recorder was killed before.
    pub command_exit_code: Option<i32>,
    /// Release of the kernel.
    pub kernel: String,
    /// Architecture of the processors.
    pub machine: String,
    /// Processors that were online.
    pub cpus: Vec<u16>,
    /// Processors that the command could use. Empty if they are not known.
    #[serde(default)]
    pub task_cpus: Vec<u16>,
    /// Figures of `/proc/meminfo` at the beginning.
    pub memory_bytes: BTreeMap<String, u64>,
    /// Settings of the virtual memory and the request queue at the beginning.
    pub settings: BTreeMap<String, String>,
    /// The traced device.
    pub device: DeviceFacts,
    /// The traced file system.
    pub mount: MountFacts,
    /// Journal of the file system. `None` if it has none, or one on another device or of an unknown form.
    #[serde(default)]
    pub journal: Option<JournalPlace>,
    /// Cost of recording an event, measured before the beginning. `None` in traces without a calibration.
    #[serde(default)]
    pub recording_cost: Option<RecordingCostFacts>,
    /// Limit of the memory of the command, with the page cache that it fills. `None` if it had none of its own.
    #[serde(default)]
    pub memory_group: Option<MemoryGroupFacts>,
    /// Time at the beginning since the device was made. `None` if it is not known.
    #[serde(default)]
    pub device_age_ns: Option<u64>,
    /// Processor time that the hypervisor gave to others during the trace, summed over the processors. Computing times contain it. `None` if
    /// it is not known.
    #[serde(default)]
    pub stolen_ns: Option<u64>,
    /// True if `offset_bytes` of metadata is in bytes. Traces of earlier builds took the numbers of blocks for those of sectors.
    #[serde(default)]
    pub has_metadata_bytes: bool,
    /// True if the trace has all pages of the file system that were in memory at the beginning.
    #[serde(default)]
    pub has_start_pages: bool,
    /// Counts of events.
    pub events: EventCounts,
    /// Number of rows of each table.
    pub tables: BTreeMap<String, u64>,
}

/// Kinds of events that every trace of a command has, and their tracepoints.
const NEEDED_KINDS: [&str; 2] = ["switch", "call_enter"];
const NEEDED_TRACEPOINTS: [&str; 2] = ["sched_switch", "sys_enter"];

/// The traced device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceFacts {
    /// Path of the device.
    pub path: String,
    /// Number of the whole device in the tables: the major number above 20 bits of minor.
    pub number: u32,
    /// Size of the device.
    pub size_bytes: u64,
    /// Size of a logical block.
    pub block_bytes: u64,
    /// First sector of the partition on the whole device.
    pub partition_start_sector: Option<u64>,
}

/// The traced file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountFacts {
    /// Folder at which it is mounted.
    pub point: String,
    /// Type of the file system.
    pub file_system: String,
    /// Options of the mount and the file system.
    pub options: String,
    /// Number of its device in the tables.
    pub number: u32,
}

/// Memory of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryGroupFacts {
    /// Limit.
    pub limit_bytes: u64,
    /// Mean memory that its processes and the kernel used for them, without the page cache.
    pub used_bytes: u64,
}

/// Cost of recording an event, in processor time of the thread that caused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordingCostFacts {
    /// Beginning or end of a system call.
    pub call_event_ns: u64,
    /// Any other event.
    pub other_event_ns: u64,
}

/// Counts of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventCounts {
    /// Events, without losses.
    pub events: u64,
    /// Events by kind.
    #[serde(default)]
    pub by_kind: BTreeMap<String, u64>,
    /// Events that the kernel could not record.
    pub lost_events: u64,
    /// Records of an unknown form.
    pub malformed_records: u64,
    /// Events that contradicted earlier ones, by what they contradicted.
    pub repairs: BTreeMap<String, u64>,
    /// Events with a time before the previous event.
    pub clock_steps: u64,
    /// Requests with an event missing.
    pub given_up_requests: u64,
    /// Requests that were outstanding at the end.
    pub pending_requests: u64,
    /// True if the call stacks of waits could be read.
    pub has_call_stacks: bool,
    /// Tracepoints that the kernel lacks.
    pub missing_events: Vec<String>,
}

impl EventCounts {
    /// Says why the trace is incomplete, if it is.
    pub(crate) fn gap(&self) -> Option<String> {
        // A prediction has neither programs nor their computing times without them. Earlier builds did not count kinds.
        let missing: Vec<&str> =
            NEEDED_KINDS.into_iter().filter(|kind| !self.by_kind.contains_key(*kind)).collect();
        if self.lost_events > 0 {
            Some(numbered(self.lost_events, "event[|s] of the trace [was|were] lost"))
        } else if self.malformed_records > 0 {
            Some(numbered(self.malformed_records, "record[|s] of the trace could not be read"))
        } else if !self.by_kind.is_empty() && !missing.is_empty() {
            Some(format!("the trace has no events of these kinds: {}", missing.join(", ")))
        } else {
            let lacking =
                self.missing_events.iter().find(|name| NEEDED_TRACEPOINTS.contains(&name.as_str()))?;
            Some(format!("the traced kernel lacks the event {lacking}"))
        }
    }

    /// Notes on events that make a trace less exact.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.clock_steps > 0 {
            notes.push(format!(
                "the clock of {} runs back: {} of the event before",
                counted(self.clock_steps, "event"),
                in_number(self.clock_steps, "[its time is that|their times are those]")
            ));
        }
        if !self.missing_events.is_empty() {
            notes.push(format!("the kernel lacks the events {}", self.missing_events.join(", ")));
        }
        notes
    }
}

impl SystemMetadata {
    /// True if the recorder was killed, so that the trace ends before the command.
    pub fn is_cut(&self) -> bool {
        self.command_exit_code.is_none()
    }
}

/// Returns true if the path is a folder with a system-level trace.
pub fn is_system_trace(path: &Path) -> bool {
    path.join(FILE).is_file()
}
