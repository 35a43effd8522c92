//! Programs of the host model from a system-level trace.
//!
//! ```text
//! steps ────┐  causes: accesses, reads of metadata, forks, waits for others
//! extents ──┼─▶ Loader ─▶ Recording ─▶ Host
//! waits ────┘  only whether a first access had to wait: then it was not in memory at the start
//! waits, interrupts ─▶ Costs    CPU times of completions and context switches
//! ```
//! # Scope and limits
//! - Neither requests, commits, rounds of writeback nor the times of waits for I/O are read, so they cannot change a prediction. Reads and
//!   writes that a thread submitted are causes for metadata, and for data say only that pages had left memory or that a file held a block.
//! - Beyond 2,048 of a thread, steps are held in a temporary file, 40 bytes each. In memory are: 8 bytes for each wait for I/O
//!   while the steps are read, the places of files, and what the steps around the current ones need.
//! - A block has one place: the last that the trace knows. A file that was deleted before it was written has none. Places of new
//!   data are those of the trace, in the order of the writes of the model.
//! - In a trace that lacks what was in memory at the start, the first access to a file tells: if the process did not wait, all of the
//!   file is taken to be in memory.

mod allocations;
#[cfg(test)]
mod any_rows;
mod block_set;
mod calls;
mod costs;
mod data_blocks;
mod device_reads;
#[cfg(test)]
mod durability;
mod extents;
mod files;
mod journal;
mod known_metadata;
mod limits;
mod loader;
mod lost_pages;
mod metadata_reads;
mod polls;
mod queues;
mod settings;
mod step_code;
mod steps;
#[cfg(test)]
mod tests;
mod thread;

use seeklab_core::ByteSize;
use seeklab_core::number_words::{counted, in_number, numbered};
use seeklab_traces::system::table::TableRow;
use seeklab_traces::system::tables::{
    ExtentRow, InitialRow, InterruptRow, OpenFileRow, ProcessRow, StepRow, WritebackRow,
};
use seeklab_workloads::host::{HostSettings, Recording};

pub(super) use self::calls::Calls;
use self::costs::Costs;
use self::loader::{Loaded, Loader};
use super::folder::SystemTrace;
use crate::failure::Failure;

/// Programs of a trace, with the settings of its machine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Programs {
    pub(crate) recording: Recording,
    /// Name of each thread of the recording, with its number.
    pub(crate) names: Vec<String>,
    /// Settings of the traced machine.
    pub(crate) settings: HostSettings,
    /// Limits of the prediction that follow from the trace, as sentences.
    pub(crate) notes: Vec<String>,
    /// The reason why a prediction is void, if there is one.
    pub(crate) void: Option<String>,
}

/// Waits that keep the length that they have in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct KeptWaits {
    waits: u64,
    wait_ns: u64,
}

/// Reads the programs of a trace.
///
/// # Errors
/// A table that cannot be read or contradicts another, or a file system whose blocks are not 4 KiB.
pub(crate) fn programs(trace: &SystemTrace) -> Result<Programs, Failure> {
    let metadata = trace.metadata();
    trace.check_tables()?;
    let processes: Vec<ProcessRow> = trace.all()?;
    if processes.is_empty() {
        return Err(Failure::new(format!(
            "{}: the table `{}` is empty: no process of the command was recorded",
            trace.folder().display(),
            ProcessRow::TABLE
        ))
        .hint("record the trace again"));
    }
    let failed = |problem: String| Failure::new(format!("{}: {problem}", trace.folder().display()));
    let mut loader = Loader::new(metadata, &processes);
    let names = loader.names(&processes);
    let mut costs = Costs::default();
    for row in trace.rows()? {
        let row = row?;
        costs.wait(&row);
        loader.wait(&row);
    }
    for row in trace.rows::<InterruptRow>()? {
        costs.interrupt(&row?);
    }
    if metadata.tables.contains_key(WritebackRow::TABLE) {
        for row in trace.rows::<WritebackRow>()? {
            costs.writeback(&row?);
        }
    }
    for row in trace.rows()? {
        loader.survey(&row?);
    }
    for row in trace.rows()? {
        loader.extent(&row?).map_err(failed)?;
    }
    if metadata.tables.contains_key(OpenFileRow::TABLE) {
        for row in trace.rows::<InitialRow>()? {
            loader.initial(&row?);
        }
        for row in trace.rows()? {
            loader.open_file(&row?);
        }
    }
    if metadata.has_start_pages {
        for row in trace.rows()? {
            loader.cached(&row?).map_err(failed)?;
        }
    }
    // Look-ups in directories are not steps of the trace: the places that threads requested tell them.
    let mut places = trace.rows::<ExtentRow>()?.peekable();
    for row in trace.rows::<StepRow>()? {
        let row = row?;
        while let Some(place) =
            places.next_if(|place| place.as_ref().map_or(true, |place| place.time_ns <= row.time_ns))
        {
            loader.look_up(&place?);
        }
        loader.step(&row).map_err(failed)?;
    }
    let settings = settings::traced(metadata);
    // All of a limit but what the command used for itself: twice the mean, for it varies. Of a whole machine, half: others use it, too.
    let room_bytes = match metadata.memory_group {
        Some(group) => group.limit_bytes.saturating_sub(group.used_bytes.saturating_mul(2)),
        None => settings.memory.map_or(0, ByteSize::as_bytes) / 2,
    };
    let Loaded { recording, kept, lost_pages, unused_direct_opens } =
        loader.finish(room_bytes).map_err(failed)?;
    let mut notes = metadata.events.notes();
    if let Some(code) = metadata.command_exit_code.filter(|code| *code != 0) {
        notes.push(format!(
            "the command ended with exit code {code}: the prediction is that of a run that ends so"
        ));
    }
    if metadata.settings.is_empty() {
        notes.push(
            "the trace has no settings of its machine: those of the profile `linux` apply where --host has none".to_owned(),
        );
    }
    if metadata.tables.get("commits").is_some_and(|commits| *commits > 0) && recording.journal.is_empty() {
        notes.push(
            "the file system of the trace has a journal, and the trace lacks its place or its changes: the host models \
             neither commits nor waits for them"
                .to_owned(),
        );
    }
    if kept.waits > 0 {
        notes.push(format!(
            "{}: {:.3} s",
            numbered(
                kept.waits,
                "wait[|s] for the outside, for other devices and for untraced threads [keeps its|keep their] length"
            ),
            kept.wait_ns as f64 / 1e9
        ));
    }
    if lost_pages > 0 {
        notes.push(format!(
            "{} of files had left the memory of the traced machine though it had room (by a limit of a cgroup, DAMON or \
             dropped caches): {} it in the model, too",
            counted(lost_pages, "page"),
            in_number(lost_pages, "[it leaves|they leave]")
        ));
    }
    if unused_direct_opens > 0 {
        notes.push(format!(
            "the command opened {} for transfers past the page cache (O_DIRECT), and the trace has none: they were on another \
             device, or the recorder could not record them",
            counted(unused_direct_opens, "file")
        ));
    }
    if let Some(scheduler) = settings::scheduler(metadata) {
        notes.push(format!(
            "the host of the trace had the I/O scheduler {scheduler}, and the model has none: it neither sorts nor joins \
             requests that wait for the device"
        ));
    }
    if metadata.is_cut() {
        notes.push(
            "the recorder was killed: the prediction ends where the trace does, before the command"
                .to_owned(),
        );
    }
    let void = metadata
        .events
        .gap()
        .map(|gap| format!("{gap}, so its programs are incomplete and the prediction is void"));
    let settings = HostSettings {
        interrupt: costs.interrupt_time(),
        context_switch: costs.context_switch(),
        page_submission: costs.page_submission(),
        ..settings
    };
    Ok(Programs { recording, names, settings, notes, void })
}
