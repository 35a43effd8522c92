//! First pass over a text: what a pass over its events has to know before.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::super::event::{EventKind, SystemEvent};
use super::super::processor::InitialThread;
use super::super::table::process_name;
use super::super::tables::Role;
use super::{SystemText, TextCounts};
use crate::error::TraceError;

/// Threads that are known. A hostile text could name more.
const THREADS_MAX: usize = 1 << 20;
/// Names of the programs that record, and of what they are between fork(2) and execve(2).
const RECORDERS: [&str; 3] = ["perf", "perf-exec", "trace-cmd"];
/// Beginnings of the names of the kernel's threads.
const KERNEL_NAMES: [&str; 16] = [
    "kworker/",
    "ksoftirqd/",
    "migration/",
    "rcu_",
    "rcuc/",
    "rcuo",
    "jbd2/",
    "kswapd",
    "kcompactd",
    "khugepaged",
    "kthreadd",
    "cpuhp/",
    "kblockd",
    "khungtaskd",
    "oom_reaper",
    "ext4-rsv-conver",
];

/// A thread that a text names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeenThread {
    /// Its first name that is known.
    pub name: String,
    /// Its process, if the text has it.
    pub process: Option<u32>,
    /// True if it was made within the text.
    pub is_new: bool,
    /// First program that it executed.
    pub program: Option<String>,
    /// Status with which it ended its process by a system call.
    pub exit_status: Option<i32>,
}

/// Facts of the host of a text, and its length.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Survey {
    /// Earliest time, in nanoseconds of the clock of the text.
    pub begin_ns: u64,
    /// Latest time.
    pub end_ns: u64,
    /// Processors that recorded events.
    pub cpus: BTreeSet<u16>,
    /// Threads by number, without the idle ones.
    pub threads: BTreeMap<u32, SeenThread>,
    /// Thread that the recording program started: the first of its children that executed a program.
    pub started: Option<u32>,
    /// Completed requests by device: the major number above 20 bits of minor.
    pub requests: BTreeMap<u32, u64>,
    /// Facts of the host at the beginning of the text.
    pub header: BTreeMap<String, String>,
    /// Counts of the lines.
    pub counts: TextCounts,
}

/// Makes a pass over the text at `path`.
///
/// # Errors
/// If it cannot be read, or has no event.
pub fn survey(path: &Path) -> Result<Survey, TraceError> {
    let mut text = SystemText::open(path)?;
    let mut survey = Survey { begin_ns: u64::MAX, ..Survey::default() };
    while let Some(event) = text.next_event()? {
        if let Some((thread, process, name)) = text.current.take() {
            survey.name(thread, &name);
            if let Some(seen) = survey.threads.get_mut(&thread) {
                seen.process = seen.process.or(process);
            }
        }
        let is_x86 = text.header.get("arch").is_none_or(|arch| arch == "x86_64");
        survey.take(&event, if is_x86 { EXIT_CALLS[0] } else { EXIT_CALLS[1] });
    }
    if survey.begin_ns > survey.end_ns {
        return Err(TraceError::malformed("no line of it is an event of a system-level trace")
            .with_hint("it must be text of `perf script --ns` or `trace-cmd report -t`")
            .in_file(path));
    }
    survey.header = text.header().clone();
    survey.counts = text.counts().clone();
    Ok(survey)
}

impl Survey {
    fn name(&mut self, thread: u32, name: &str) {
        if thread == 0 || (self.threads.len() >= THREADS_MAX && !self.threads.contains_key(&thread)) {
            return;
        }
        let seen = self.threads.entry(thread).or_default();
        if seen.name.is_empty() && name != "<...>" {
            name.clone_into(&mut seen.name);
        }
    }

    fn take(&mut self, event: &SystemEvent, exit_call: u16) {
        self.begin_ns = self.begin_ns.min(event.time_ns);
        self.end_ns = self.end_ns.max(event.time_ns);
        self.cpus.insert(event.cpu);
        match event.kind {
            EventKind::Switch { next, next_name, .. } => {
                let name = next_name.to_string();
                self.name(next, &name);
                // trace-cmd prints the last name of a thread beside all of its events.
                if RECORDERS.contains(&name.as_str())
                    && let Some(seen) = self.threads.get_mut(&next).filter(|seen| seen.program.is_none())
                {
                    seen.name = name;
                }
            }
            EventKind::Fork { child, .. } => {
                let seen = self.threads.entry(child).or_default();
                seen.is_new = true;
            }
            EventKind::Exec { name } => {
                self.name(event.thread, &name.to_string());
                let Some(seen) = self.threads.get_mut(&event.thread) else { return };
                if self.started.is_none() && seen.program.is_none() && RECORDERS.contains(&seen.name.as_str())
                {
                    self.started = Some(event.thread);
                }
                seen.program.get_or_insert_with(|| name.to_string());
            }
            EventKind::CallEnter { call, arguments } if call == exit_call => {
                if let Some(seen) = self.threads.get_mut(&event.thread) {
                    seen.exit_status = Some((arguments[0] & 0xff) as i32);
                }
            }
            EventKind::Block(step) if step.event.kind.is_completion() => {
                *self.requests.entry(step.device).or_default() += 1;
            }
            _ => {}
        }
    }

    /// Threads that existed at the beginning, without the task `task`. Roles follow from the names.
    pub fn initial(&self, task: u32) -> Vec<InitialThread> {
        let existing = self.threads.iter().filter(|(thread, seen)| **thread != task && !seen.is_new);
        let initial = existing.map(|(thread, seen)| InitialThread {
            thread: *thread,
            process: seen.process.unwrap_or(*thread),
            parent: 0,
            name: process_name(&seen.name),
            role: match seen.name.as_str() {
                name if RECORDERS.contains(&name) => Role::Recorder,
                name if KERNEL_NAMES.iter().any(|known| name.starts_with(known)) => Role::Kernel,
                _ => Role::Other,
            },
        });
        initial.collect()
    }
}

/// `exit_group` of x86_64 and of the generic table.
const EXIT_CALLS: [u16; 2] = [231, 94];
