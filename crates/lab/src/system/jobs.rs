//! Programs of a system-level trace as jobs: the transfers of each thread at its system calls, with its processor time.
//!
//! # Scope and limits
//! - A transfer is a call that reads or writes a file of the traced file system, with the bytes that it returns. Mapped files
//!   are not transferred by calls.
//! - The processor time of a call belongs to its transfer.

use std::collections::BTreeMap;

use seeklab_core::{Duration, Instant, Operation};
use seeklab_learning::jobs::{RecordedJob, Transfer};
use seeklab_traces::ReadOptions;
use seeklab_traces::system::StepEvent;
use seeklab_traces::system::tables::{ProcessRow, StepRow};
use seeklab_workloads::jobs::Direction;

use super::folder::SystemTrace;
use super::programs::Calls;
use crate::failure::Failure;

/// Jobs of a trace, and what reached the block layer.
#[derive(Debug)]
pub(crate) struct TracedJobs {
    /// Every thread of the command, with its transfers.
    pub(crate) programs: Vec<RecordedJob>,
    /// The whole command, with the requests to the device as its transfers.
    pub(crate) requests: RecordedJob,
    /// The reason for which the rates are not exact, if there is one.
    pub(crate) note: Option<String>,
}

/// A thread while its steps are read.
#[derive(Debug, Default)]
struct Thread {
    job: RecordedJob,
    /// The call that runs, and the processor time at its beginning.
    call: Option<(u16, Duration)>,
    has_read: bool,
    has_written: bool,
}

impl Thread {
    fn step(&mut self, row: &StepRow, file_system: u32, calls: &Calls) {
        self.job.processor = self.job.processor.saturating_add(Duration::from_ns(row.computing_ns));
        let here = row.device == Some(file_system);
        match row.event {
            StepEvent::CallEnter => {
                self.call = row.call.map(|call| (call, self.job.processor));
                (self.has_read, self.has_written) = (false, false);
            }
            StepEvent::FileRead | StepEvent::DirectRead | StepEvent::DeviceRead if here => {
                self.has_read = true
            }
            StepEvent::FileWrite | StepEvent::DirectWrite if here => self.has_written = true,
            StepEvent::CallExit => self.end_call(row, calls),
            _ => {}
        }
    }

    fn end_call(&mut self, row: &StepRow, calls: &Calls) {
        let Some((call, begin)) = self.call.take() else { return };
        let bytes = row.result.and_then(|result| u64::try_from(result).ok()).unwrap_or(0);
        if bytes == 0 {
            return;
        }
        let mut transfer =
            |direction, processor| self.job.transfers.push(Transfer { direction, bytes, processor });
        if self.has_read && calls.reads(call) {
            transfer(Direction::Input, begin);
        }
        if self.has_written && calls.writes(call) {
            transfer(Direction::Output, self.job.processor);
        }
    }
}

/// Reads the jobs of a trace.
///
/// # Errors
/// A table that cannot be read or contradicts another.
pub(crate) fn traced_jobs(trace: &SystemTrace) -> Result<TracedJobs, Failure> {
    let metadata = trace.metadata();
    let calls = Calls::of_machine(&metadata.machine);
    let mut threads: BTreeMap<u32, Thread> = BTreeMap::new();
    for row in trace.all::<ProcessRow>()? {
        let thread = threads.entry(row.thread).or_default();
        thread.job.begin = Instant::from_ns(row.begin_ns);
        thread.job.end = Instant::from_ns(row.begin_ns.saturating_add(row.elapsed_ns));
    }
    // Processor time of the command by the end of each step.
    let mut computed: Vec<(u64, u64)> = Vec::new();
    for row in trace.rows::<StepRow>()? {
        let row = row?;
        let Some(thread) = threads.get_mut(&row.thread) else {
            return Err(Failure::new(format!(
                "{}: thread {} has steps, and the table `processes` does not have the thread",
                trace.folder().display(),
                row.thread
            )));
        };
        thread.step(&row, metadata.mount.number, &calls);
        computed.push((row.time_ns, row.computing_ns));
    }
    computed.sort_unstable();
    let mut sum_ns = 0_u64;
    for (_, computing_ns) in &mut computed {
        sum_ns = sum_ns.saturating_add(*computing_ns);
        *computing_ns = sum_ns;
    }
    let processor = |time: Instant| {
        let steps = computed.partition_point(|(time_ns, _)| *time_ns <= time.as_ns());
        Duration::from_ns(steps.checked_sub(1).map_or(0, |last| computed[last].1))
    };
    let mut requests = RecordedJob { processor: Duration::from_ns(sum_ns), ..RecordedJob::default() };
    for record in seeklab_columnar::open(&trace.requests(), None, &ReadOptions::default())? {
        let record = record?;
        let direction = match record.op {
            Operation::Read => Direction::Input,
            Operation::Write => Direction::Output,
            _ => continue,
        };
        let bytes = u64::from(record.blocks).saturating_mul(metadata.device.block_bytes);
        requests.transfers.push(Transfer { direction, bytes, processor: processor(record.arrival) });
    }
    let note = metadata.events.gap().map(|gap| format!("{gap}, so its rates are not exact"));
    Ok(TracedJobs { programs: threads.into_values().map(|thread| thread.job).collect(), requests, note })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: u32 = 7;

    fn row(event: StepEvent, computing_ns: u64) -> StepRow {
        StepRow {
            thread: 1,
            time_ns: 0,
            computing_ns,
            event,
            call: None,
            argument_0: None,
            argument_1: None,
            argument_2: None,
            argument_3: None,
            result: None,
            device: None,
            inode: None,
            offset_bytes: None,
            length_bytes: None,
            other_thread: None,
            wait_ns: None,
            cause: None,
            is_async: None,
        }
    }

    fn call(thread: &mut Thread, number: u16, within: &[(StepEvent, u32)], result: i64) {
        let calls = Calls::of_machine("x86_64");
        let mut step = |row: StepRow| thread.step(&row, FILES, &calls);
        step(StepRow { call: Some(number), ..row(StepEvent::CallEnter, 1000) });
        for (event, device) in within {
            step(StepRow { device: Some(*device), ..row(*event, 10) });
        }
        step(StepRow { call: Some(number), result: Some(result), ..row(StepEvent::CallExit, 100) });
    }

    #[test]
    fn calls_on_the_traced_file_system_are_transfers() {
        const READ: u16 = 0;
        const WRITE: u16 = 1;
        const COPY: u16 = 326;
        let mut thread = Thread::default();
        call(&mut thread, READ, &[(StepEvent::FileRead, FILES)], 4096);
        // Of another file system; at the end of a file; without a transfer; failed.
        call(&mut thread, READ, &[(StepEvent::FileRead, 8)], 4096);
        call(&mut thread, READ, &[(StepEvent::FileRead, FILES)], 0);
        call(&mut thread, 3, &[(StepEvent::FileRead, FILES)], 5);
        call(&mut thread, WRITE, &[(StepEvent::FileWrite, FILES)], -28);
        call(&mut thread, WRITE, &[(StepEvent::FileWrite, FILES)], 512);
        call(&mut thread, COPY, &[(StepEvent::FileRead, FILES), (StepEvent::FileWrite, FILES)], 99);
        let found: Vec<_> = thread
            .job
            .transfers
            .iter()
            .map(|transfer| (transfer.direction, transfer.bytes, transfer.processor.as_ns()))
            .collect();
        let expected = [
            (Direction::Input, 4096, 1000),
            (Direction::Output, 512, 6 * 1110),
            (Direction::Input, 99, 6 * 1110 + 1000),
            (Direction::Output, 99, 6 * 1110 + 1120),
        ];
        assert_eq!(found, expected);
    }
}
