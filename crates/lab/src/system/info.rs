//! Describes a system-level trace: where the time of each process went.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use seeklab_core::number_words::numbered;
use seeklab_traces::system::WaitCause;
use seeklab_traces::system::table::TableRow;
use seeklab_traces::system::tables::{CachedRow, CpuRow, OpenFileRow, ProcessRow, WaitRow};
use serde::Serialize;

use super::folder::{REQUESTS, SystemTrace};
use super::metadata::RecordingCostFacts;
use crate::failure::Failure;

/// Description of a system-level trace.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SystemInfo {
    /// Path of the trace.
    pub file: String,
    /// The traced command and its arguments.
    pub command: Vec<String>,
    /// Path of the traced device.
    pub device: String,
    /// Type of the file system.
    pub file_system: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Length of the trace. It begins before the command and ends after the last dirty block was written.
    pub elapsed_s: f64,
    /// Time from the start of the command to the end of its first process.
    pub command_elapsed_s: f64,
    /// Requests to the device.
    pub requests: u64,
    /// Waits of the task for data, metadata, writes, synchronisations, the journal, the request queue, memory, or since too many
    /// pages were dirty.
    pub io_waits: u64,
    /// Files of the file system that processes had open at the beginning.
    pub open_files: u64,
    /// Data and metadata of the file system that were in memory at the beginning. `None` if they are not known.
    pub cached_at_start_bytes: Option<u64>,
    /// Part of them that was dirty.
    pub dirty_at_start_bytes: Option<u64>,
    /// Sum of the times of all threads of the task.
    pub task: ProcessTimes,
    /// Threads of the command and its descendants, in the order of their beginning.
    pub processes: Vec<ProcessTimes>,
    /// Processors.
    pub cpus: Vec<CpuTimes>,
    /// Cost of recording an event. `None` if it was not calibrated.
    pub recording_cost: Option<RecordingCostFacts>,
    /// Share of recording in the elapsed time of the task, by that cost.
    pub recording_pct: Option<f64>,
    /// Processor time that the hypervisor gave to others during the trace, summed over the processors, in steps of 10 ms. Computing times contain
    /// it. `None` if it is not known.
    pub stolen_s: Option<f64>,
    /// Recorded events.
    pub events: u64,
    /// Recorded events by kind.
    pub events_by_kind: BTreeMap<String, u64>,
    /// Events that the kernel could not record.
    pub lost_events: u64,
    /// Events whose record could not be read.
    pub malformed_records: u64,
    /// Events with a time before the previous event of the trace.
    pub clock_steps: u64,
    /// Requests of which an event is missing.
    pub given_up_requests: u64,
    /// Events that contradicted earlier ones, for example since the kernel did not record a switch from idle.
    pub repairs: u64,
    /// Share of the waits without a known cause in the elapsed time of the task.
    pub unknown_pct: f64,
    /// Notes on the result.
    pub notes: Vec<String>,
}

/// Division of the elapsed time of a thread. `elapsed_s` is the sum of computing, recording, interrupted, ready and
/// waiting time.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ProcessTimes {
    /// Number of the thread. 0 for a sum.
    pub thread: u32,
    /// Number of its process. 0 for a sum.
    pub process: u32,
    /// Number of the thread that made it. 0 for a sum.
    pub parent: u32,
    /// Name of its program.
    pub name: String,
    /// Time at which it was made, since the beginning of the trace.
    pub begin_s: f64,
    /// Time from its beginning to its end, or to the end of the trace.
    pub elapsed_s: f64,
    /// True if it ended within the trace.
    pub has_ended: bool,
    /// Time on a processor, without interrupts and recording.
    pub computing_s: f64,
    /// Time on a processor that recording took, by the calibrated cost of an event. `None` if nothing was calibrated, and
    /// the computing time includes it.
    pub recording_s: Option<f64>,
    /// Time on a processor that interrupts took.
    pub interrupted_s: f64,
    /// Time in which it could have run and had no processor.
    pub ready_s: f64,
    /// Waiting time by cause.
    pub waits: WaitTimes,
    /// Number of waits.
    pub wait_count: u64,
    /// Times that it left a processor.
    pub switches: u64,
}

/// Waiting time by cause.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct WaitTimes {
    /// Data of files on the device.
    pub data_read_s: f64,
    /// Metadata of the file system.
    pub metadata_read_s: f64,
    /// End of writes.
    pub write_s: f64,
    /// Synchronisations that the process requested.
    pub flush_s: f64,
    /// The journal.
    pub journal_s: f64,
    /// Too many dirty pages.
    pub throttle_s: f64,
    /// A place in the request queue.
    pub queue_s: f64,
    /// Memory.
    pub memory_s: f64,
    /// Locks, pipes, ends and other progress of other processes.
    pub process_s: f64,
    /// A time.
    pub timer_s: f64,
    /// Data on other devices.
    pub other_device_s: f64,
    /// The world outside the traced processes.
    pub outside_s: f64,
    /// No known cause.
    pub unknown_s: f64,
}

/// Division of the time of a processor.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CpuTimes {
    /// Number of the processor.
    pub cpu: u16,
    /// Time of the task.
    pub task_s: f64,
    /// Time of kernel threads.
    pub kernel_s: f64,
    /// Time of the emulation of devices: the loop driver's work, and the thread of seeklab that serves the device.
    pub emulator_s: f64,
    /// Time of the recorder.
    pub recorder_s: f64,
    /// Time of other processes.
    pub other_s: f64,
    /// Time of interrupts and softirqs.
    pub interrupt_s: f64,
    /// Time in which no thread ran.
    pub idle_s: f64,
    /// Time in which nothing was recorded.
    pub unknown_s: f64,
    /// Number of interrupts, without softirqs.
    pub interrupts: u64,
    /// Number of softirqs.
    pub softirqs: u64,
    /// Number of context switches.
    pub switches: u64,
    /// Events that the kernel could not record.
    pub lost_events: u64,
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl WaitTimes {
    fn of(row: &ProcessRow) -> Self {
        let wait = |cause| seconds(row.wait_ns(cause));
        Self {
            data_read_s: wait(WaitCause::DataRead),
            metadata_read_s: wait(WaitCause::MetadataRead),
            write_s: wait(WaitCause::Write),
            flush_s: wait(WaitCause::Flush),
            journal_s: wait(WaitCause::Journal),
            throttle_s: wait(WaitCause::Throttle),
            queue_s: wait(WaitCause::Queue),
            memory_s: wait(WaitCause::Memory),
            process_s: wait(WaitCause::Process),
            timer_s: wait(WaitCause::Timer),
            other_device_s: wait(WaitCause::OtherDevice),
            outside_s: wait(WaitCause::Outside),
            unknown_s: wait(WaitCause::Unknown),
        }
    }

    /// Returns the causes with their names in words and their times, in a fixed order.
    pub fn by_name(&self) -> [(&'static str, f64); 13] {
        [
            ("data read", self.data_read_s),
            ("metadata read", self.metadata_read_s),
            ("write", self.write_s),
            ("flush", self.flush_s),
            ("journal", self.journal_s),
            ("throttle", self.throttle_s),
            ("queue", self.queue_s),
            ("memory", self.memory_s),
            ("process", self.process_s),
            ("timer", self.timer_s),
            ("other device", self.other_device_s),
            ("outside", self.outside_s),
            ("unknown", self.unknown_s),
        ]
    }
}

impl ProcessTimes {
    fn of(row: &ProcessRow) -> Self {
        Self {
            thread: row.thread,
            process: row.process,
            parent: row.parent,
            name: row.name.to_string(),
            begin_s: seconds(row.begin_ns),
            elapsed_s: seconds(row.elapsed_ns),
            has_ended: row.has_ended,
            computing_s: seconds(row.computing_ns),
            recording_s: row.recording_ns.map(seconds),
            interrupted_s: seconds(row.interrupted_ns),
            ready_s: seconds(row.ready_ns),
            waits: WaitTimes::of(row),
            wait_count: row.waits,
            switches: row.switches,
        }
    }
}

impl From<&CpuRow> for CpuTimes {
    fn from(row: &CpuRow) -> Self {
        Self {
            cpu: row.cpu,
            task_s: seconds(row.task_ns),
            kernel_s: seconds(row.kernel_ns),
            emulator_s: seconds(row.emulator_ns),
            recorder_s: seconds(row.recorder_ns),
            other_s: seconds(row.other_ns),
            interrupt_s: seconds(row.interrupt_ns),
            idle_s: seconds(row.idle_ns),
            unknown_s: seconds(row.unknown_ns),
            interrupts: row.interrupts,
            softirqs: row.softirqs,
            switches: row.switches,
            lost_events: row.lost_events,
        }
    }
}

/// Adds the times of `other` to `sum`.
fn add(sum: &mut ProcessRow, other: &ProcessRow) {
    sum.begin_ns = sum.begin_ns.min(other.begin_ns);
    sum.has_ended &= other.has_ended;
    if let Some(recording_ns) = other.recording_ns {
        let sum = sum.recording_ns.get_or_insert(0);
        *sum = sum.saturating_add(recording_ns);
    }
    let pairs = [
        (&mut sum.elapsed_ns, other.elapsed_ns),
        (&mut sum.computing_ns, other.computing_ns),
        (&mut sum.interrupted_ns, other.interrupted_ns),
        (&mut sum.ready_ns, other.ready_ns),
        (&mut sum.waits, other.waits),
        (&mut sum.switches, other.switches),
    ];
    for (sum, other) in pairs {
        *sum = sum.saturating_add(other);
    }
    for cause in WaitCause::ALL {
        let wait_ns = sum.wait_ns(*cause).saturating_add(other.wait_ns(*cause));
        sum.set_wait_ns(*cause, wait_ns);
    }
}

/// Number of the waits for I/O.
fn io_waits(trace: &SystemTrace) -> Result<u64, Failure> {
    let mut waits = 0;
    for row in trace.rows::<WaitRow>()? {
        waits += u64::from(row?.cause.is_io());
    }
    Ok(waits)
}

/// Bytes that were in memory at the beginning, and those of them that were dirty.
fn start_bytes(trace: &SystemTrace) -> Result<(u64, u64), Failure> {
    let (mut cached, mut dirty) = (0_u64, 0_u64);
    for row in trace.rows::<CachedRow>()? {
        let row = row?;
        cached = cached.saturating_add(row.length_bytes);
        dirty = dirty.saturating_add(if row.is_dirty { row.length_bytes } else { 0 });
    }
    Ok((cached, dirty))
}

/// Describes the system-level trace at `path`.
///
/// # Errors
/// If the trace cannot be read, or contradicts itself.
pub fn info(path: &Path) -> Result<SystemInfo, Failure> {
    let trace = SystemTrace::open(path)?;
    let metadata = trace.metadata();
    let mut processes: Vec<ProcessRow> = trace.all()?;
    let cpus: Vec<CpuRow> = trace.all()?;
    for row in &processes {
        if row.accounted_ns() != row.elapsed_ns {
            return Err(Failure::new(format!(
                "{}: the times of thread {} sum to {} ns, and its elapsed time is {} ns",
                path.display(),
                row.thread,
                row.accounted_ns(),
                row.elapsed_ns
            )));
        }
    }
    processes.sort_by_key(|row| (row.begin_ns, row.thread));
    let Some(first) = processes.first() else {
        return Err(Failure::new(format!("{}: no process of the command was recorded", path.display()))
            .hint("record the trace again"));
    };
    let command_elapsed_s =
        processes.iter().find(|row| row.thread == metadata.task).map_or(0.0, |row| seconds(row.elapsed_ns));
    let mut sum = ProcessRow { thread: 0, process: 0, parent: 0, ..*first };
    processes[1..].iter().for_each(|row| add(&mut sum, row));
    let mut task = ProcessTimes::of(&sum);
    task.name = "task".to_owned();
    let unknown_pct = 100.0 * task.waits.unknown_s / task.elapsed_s.max(1e-9);
    let recording_pct = task.recording_s.map(|recording_s| 100.0 * recording_s / task.elapsed_s.max(1e-9));
    let start = metadata.has_start_pages.then(|| start_bytes(&trace)).transpose()?;
    let events = &metadata.events;
    let mut notes = Vec::new();
    if events.lost_events > 0 {
        notes.push(format!(
            "{}, so times may belong to other threads or causes. Record again with a larger --kernel-buffer",
            numbered(events.lost_events, "event[|s] [was|were] lost")
        ));
    }
    if events.lost_events == 0
        && let Some(gap) = events.gap()
    {
        notes.push(format!("{gap}, so times may belong to other threads or causes"));
    }
    notes.extend(events.notes());
    if events.given_up_requests > 0 {
        notes.push(numbered(
            events.given_up_requests,
            "request[|s] [lacks an event, and has|lack an event, and have] no response time",
        ));
    }
    let stolen_s = metadata.stolen_ns.map(seconds);
    let processors_s = seconds(metadata.elapsed_ns) * metadata.cpus.len() as f64;
    if let Some(stolen_s) = stolen_s.filter(|stolen_s| *stolen_s > 0.02 * processors_s) {
        notes.push(format!(
            "the hypervisor took {stolen_s:.2} s of {processors_s:.2} s of the processors away: computing times contain its part"
        ));
    }
    if metadata.is_cut() {
        notes.push("the recorder was killed: the trace ends before the command".to_owned());
    }
    if !events.has_call_stacks {
        notes.push(
            "no call stacks were recorded, so the causes of waits come from the wakers alone. Set \
             kernel.kptr_restrict to 0 and record as root"
                .to_owned(),
        );
    }
    Ok(SystemInfo {
        file: path.display().to_string(),
        command: metadata.command.clone(),
        device: metadata.device.path.clone(),
        file_system: metadata.mount.file_system.clone(),
        kernel: metadata.kernel.clone(),
        elapsed_s: seconds(metadata.elapsed_ns),
        command_elapsed_s,
        requests: metadata.tables.get(REQUESTS).copied().unwrap_or(0),
        io_waits: io_waits(&trace)?,
        open_files: metadata.tables.get(OpenFileRow::TABLE).copied().unwrap_or(0),
        cached_at_start_bytes: start.map(|start| start.0),
        dirty_at_start_bytes: start.map(|start| start.1),
        task,
        processes: processes.iter().map(ProcessTimes::of).collect(),
        cpus: cpus.iter().map(CpuTimes::from).collect(),
        recording_cost: metadata.recording_cost,
        recording_pct,
        stolen_s,
        events: events.events,
        events_by_kind: events.by_kind.clone(),
        lost_events: events.lost_events,
        malformed_records: events.malformed_records,
        clock_steps: events.clock_steps,
        given_up_requests: events.given_up_requests,
        repairs: events.repairs.values().sum(),
        unknown_pct,
        notes,
    })
}
