//! The pass over the tables of a trace.

mod waits;

use std::collections::BTreeMap;
use std::sync::Arc;

use seeklab_core::Duration;
use seeklab_traces::system::tables::{
    CachedRow, ExtentRow, InitialRow, OpenFileRow, ProcessRow, StepRow, WaitRow,
};
use seeklab_traces::system::{StepEvent, WaitCause};
use seeklab_workloads::host::{
    CachedPages, RecordedAction, RecordedPlace, RecordedStep, RecordedThread, Recording, SyncEnd,
};

use super::KeptWaits;
use super::calls::{ADVICE_SEQUENTIAL, Calls, OPEN_SYNC, RING_WAITS};
use super::data_blocks::DataBlocks;
use super::files::{Descriptors, Files};
use super::journal;
use super::known_metadata::KnownMetadata;
use super::limits::{REQUEST_BLOCKS_MAX, TRANSFER_MAX, number_of};
use super::lost_pages::{Lost, Write};
use super::polls::EndedChildren;
use super::queues::Queues;
use super::steps::PartFile;
use super::thread::{OpenRead, Thread, Unknown};
use crate::system::metadata::SystemMetadata;

/// Size of a block of the file system, and of a page.
pub(super) const BLOCK_BYTES: u64 = 4096;

/// Size of a sector.
const SECTOR_BYTES: u64 = 512;

pub(super) struct Loader {
    /// Steps that are not in memory.
    file: Arc<PartFile>,
    file_system: u32,
    device_blocks: u64,
    has_metadata_bytes: bool,
    /// True if the trace has the reads that threads submitted. Otherwise, reads of metadata follow from look-ups.
    has_device_reads: bool,
    /// True if the trace has the writes that threads submitted, and their changes of metadata: a synchronisation then ends where its
    /// call does.
    has_device_writes: bool,
    /// True if the trace has the synchronisations of files. Otherwise, they follow from system calls and descriptors.
    has_file_syncs: bool,
    /// True if the trace has all that was in memory at the beginning.
    has_start_pages: bool,
    /// Blocks of the journal, from the next transaction on. Empty if the changes of its transactions are not known.
    journal: Vec<RecordedPlace>,
    data: DataBlocks,
    calls: Calls,
    numbers: BTreeMap<u32, usize>,
    threads: Vec<Thread>,
    files: Files,
    descriptors: Descriptors,
    metadata: KnownMetadata,
    /// Thread, and pages that had left memory.
    lost: Vec<(usize, Lost)>,
    kept: KeptWaits,
    ended_children: EndedChildren,
    queues: Queues,
    /// Files that were opened for transfers past the page cache, and transfers of that kind.
    direct_opens: u64,
    direct_transfers: u64,
    /// Processes of the task that threads outside of it made, with these threads.
    made_outside: Vec<(u32, u32)>,
}

/// Programs of a trace.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) recording: Recording,
    pub(super) kept: KeptWaits,
    /// Pages that had left memory though there was room.
    pub(super) lost_pages: u64,
    /// Files that were opened for transfers past the page cache, if the trace has no such transfer.
    pub(super) unused_direct_opens: u64,
}

impl Loader {
    pub(super) fn new(metadata: &SystemMetadata, processes: &[ProcessRow]) -> Self {
        let mut processes: Vec<&ProcessRow> = processes.iter().collect();
        processes.sort_by_key(|row| (row.begin_ns, row.thread));
        let begin_ns = processes.first().map_or(0, |row| row.begin_ns);
        let mut numbers: BTreeMap<u32, usize> = BTreeMap::new();
        let mut threads: Vec<Thread> = Vec::new();
        let mut descriptors = Descriptors::default();
        let mut made_outside = Vec::new();
        let file = Arc::new(PartFile::default());
        for row in processes {
            if numbers.contains_key(&row.thread) {
                continue;
            }
            if let Some(parent) = numbers.get(&row.parent).map(|parent| threads[*parent].process)
                && parent != row.process
            {
                descriptors.parents.entry(row.process).or_insert(parent);
            } else if !numbers.contains_key(&row.parent) {
                made_outside.push((row.process, row.parent));
            }
            numbers.insert(row.thread, threads.len());
            threads.push(Thread::new(row.process, row.begin_ns - begin_ns, &file));
        }
        Self {
            file,
            file_system: metadata.mount.number,
            device_blocks: metadata.device.size_bytes / BLOCK_BYTES,
            has_metadata_bytes: metadata.has_metadata_bytes,
            has_device_reads: metadata.events.by_kind.contains_key(StepEvent::DeviceRead.name()),
            has_device_writes: [StepEvent::DeviceWrite, StepEvent::JournalChange]
                .iter()
                .any(|event| metadata.events.by_kind.contains_key(event.name())),
            has_file_syncs: metadata.events.by_kind.contains_key(StepEvent::FileSync.name()),
            has_start_pages: metadata.has_start_pages,
            journal: journal::places(metadata),
            data: DataBlocks::default(),
            calls: Calls::of_machine(&metadata.machine),
            numbers,
            threads,
            files: Files::default(),
            descriptors,
            metadata: KnownMetadata::default(),
            lost: Vec::new(),
            kept: KeptWaits::default(),
            ended_children: EndedChildren::default(),
            queues: Queues::default(),
            direct_opens: 0,
            direct_transfers: 0,
            made_outside,
        }
    }

    /// The last name of each thread, with its number.
    pub(super) fn names(&self, processes: &[ProcessRow]) -> Vec<String> {
        let mut names = vec![String::new(); self.threads.len()];
        for row in processes {
            if let Some(number) = self.numbers.get(&row.thread) {
                names[*number] = format!("{} ({})", row.name, row.thread);
            }
        }
        names
    }

    /// Takes note of a wait. Its length does not matter.
    pub(super) fn wait(&mut self, row: &WaitRow) {
        let is_read = matches!(row.cause, WaitCause::DataRead | WaitCause::MetadataRead);
        if let Some(thread) = self.numbers.get(&row.thread).filter(|_| is_read) {
            self.threads[*thread].waits_ns.push(row.begin_ns);
        }
        if let Some(thread) = self.numbers.get(&row.thread).filter(|_| row.cause == WaitCause::Journal) {
            self.threads[*thread].journal_waits_ns.push(row.begin_ns);
        }
    }

    /// Takes note of a place. The kernel names a place beyond the device for data that have none yet. The error says what is wrong with it.
    pub(super) fn extent(&mut self, row: &ExtentRow) -> Result<(), String> {
        let end = row.device_block.saturating_add(u64::from(row.blocks));
        if end > self.device_blocks {
            return Ok(());
        }
        number_of(row.file_block.saturating_add(u64::from(row.blocks)))?;
        let number = self.files.number(row.inode, row.time_ns);
        self.data.insert(row.inode, number, row.file_block, row.device_block, u64::from(row.blocks));
        let extents = &mut self.files.file(number).extents;
        extents.insert(row.file_block, row.device_block, u64::from(row.blocks), row.time_ns);
        Ok(())
    }

    /// Takes a place that a thread requested: that of a directory means that it looks up a name there. Comes in the order of the steps.
    pub(super) fn look_up(&mut self, row: &ExtentRow) {
        let known = row.thread.and_then(|thread| self.numbers.get(&thread));
        let Some(number) = known.filter(|_| self.data.is_small_directory(row.inode)) else { return };
        if row.device_block < self.device_blocks {
            let action = RecordedAction::LookUp { address: row.device_block };
            let steps = &mut self.threads[*number].steps;
            if steps.len() == 0 || steps.action(steps.len() - 1) != action {
                steps.push(RecordedStep { computing: Duration::ZERO, action }, 0);
            }
        }
    }

    /// Takes note of a thread that existed at the beginning: its process may have made processes of the task, which have its open files.
    pub(super) fn initial(&mut self, row: &InitialRow) {
        for (process, _) in self.made_outside.iter().filter(|(_, parent)| *parent == row.thread) {
            self.descriptors.parents.entry(*process).or_insert(row.process);
        }
    }

    /// Takes note of a file that was open at the beginning. Comes after the survey.
    pub(super) fn open_file(&mut self, row: &OpenFileRow) {
        let (process, descriptor) = (row.process, u64::from(row.descriptor));
        let file = self.files.number(row.inode, 0);
        self.descriptors.open(process, descriptor, row.flags & OPEN_SYNC != 0);
        self.descriptors.set(process, descriptor, file);
    }

    /// Takes note of a part that was in memory at the beginning. Comes after the extents.
    pub(super) fn cached(&mut self, row: &CachedRow) -> Result<(), String> {
        let end = row
            .offset_bytes
            .checked_add(row.length_bytes)
            .ok_or("a cached part ends beyond the largest file")?;
        let (first, end) = (row.offset_bytes / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES));
        let part = CachedPages { first, pages: end - first, is_dirty: row.is_dirty };
        let Some(inode) = row.inode else {
            // What lies beyond the device is no metadata of its file system.
            if end <= self.device_blocks {
                self.metadata.cache(part);
            }
            return Ok(());
        };
        number_of(end)?;
        let number = self.files.number(inode, 0);
        let file = self.files.file(number);
        if file.cached.last().is_some_and(|last| first < last.first + last.pages) {
            return Err(format!("the cached parts of inode {inode} overlap, or are not in order"));
        }
        file.end = file.end.max(end);
        if part.is_dirty {
            // They get their places when the host writes them.
            file.extents.write(first, end, 0);
        }
        file.cached.push(part);
        Ok(())
    }

    /// Takes note of an inode that belongs to a file, and of a deletion: the files that have an inode one after the other are
    /// different ones. Comes before extents and steps.
    pub(super) fn survey(&mut self, row: &StepRow) {
        let Some(inode) = row.inode.filter(|_| row.device == Some(self.file_system)) else { return };
        match row.event {
            StepEvent::FileDelete => self.files.delete(inode, row.time_ns),
            StepEvent::FileRead
            | StepEvent::FileFault
            | StepEvent::FileWrite
            | StepEvent::DirectRead
            | StepEvent::DirectWrite => self.data.add_file(inode),
            _ => {}
        }
    }

    /// Takes a step. The error says what is wrong with it.
    pub(super) fn step(&mut self, row: &StepRow) -> Result<(), String> {
        let Some(number) = self.numbers.get(&row.thread).copied() else {
            return Err(format!(
                "thread {} has steps, and the table `processes` does not have the thread",
                row.thread
            ));
        };
        let end_ns = row.time_ns.saturating_add(row.wait_ns.unwrap_or(0));
        let here = row.device == Some(self.file_system);
        if matches!(row.event, StepEvent::DeviceWrite | StepEvent::JournalChange) {
            // They say nothing about the accesses around them.
            let action = if here { self.change(row) } else { RecordedAction::None };
            self.push(number, row, end_ns, action);
            return Ok(());
        }
        let has_waited = self.threads[number].has_waited(row.time_ns);
        let is_lookup = row.event == StepEvent::BufferRead && here;
        if has_waited || row.event != StepEvent::DeviceRead {
            self.decide_device_reads(number, has_waited);
        }
        if has_waited || !is_lookup {
            let thread = &mut self.threads[number];
            thread.lookups.decide(&mut thread.steps, has_waited, &mut self.metadata.accessed);
        }
        // A fault looks up places and submits its read before it waits.
        let may_wait = matches!(row.event, StepEvent::BufferRead | StepEvent::DeviceRead);
        let is_fault = matches!(self.threads[number].unknown, Some(Unknown::FirstFault { .. }));
        if has_waited || !(may_wait && is_fault) {
            self.resolve(number, has_waited, row.time_ns);
        }
        let step = self.threads[number].steps.len();
        let is_data = here
            && row.event == StepEvent::BufferWrite
            && self.is_data(number, block(row, self.has_metadata_bytes)?);
        let thread = &mut self.threads[number];
        thread.is_writing = row.event == StepEvent::FileWrite || is_data && thread.is_writing;
        if !matches!(row.event, StepEvent::BufferRead | StepEvent::BufferWrite) {
            thread.fault = None;
        }
        if row.event != StepEvent::DeviceRead {
            self.threads[number].data_reads.pass();
        }
        let is_call = matches!(row.event, StepEvent::CallEnter | StepEvent::CallExit | StepEvent::Wait);
        if here || !is_call && row.device.is_none() {
            self.threads[number].polls.end();
        }
        let action = match row.event {
            StepEvent::FileRead if here => self.read(number, row, has_waited)?,
            StepEvent::FileFault if here => self.fault(number, row)?,
            StepEvent::FileWrite if here => self.write(number, step, row)?,
            StepEvent::DirectRead | StepEvent::DirectWrite if here => self.direct(number, row)?,
            StepEvent::FileDelete if here => {
                let inode = row.inode.ok_or("a `file_delete` has no inode")?;
                RecordedAction::Delete { file: self.files.number(inode, row.time_ns) }
            }
            StepEvent::FileSync if here => {
                let inode = row.inode.ok_or("a `file_sync` has no inode")?;
                let file = self.files.number(inode, row.time_ns);
                self.sync_file(number, file)
            }
            StepEvent::DeviceRead if here => {
                self.device_read(number, step, row);
                RecordedAction::None
            }
            StepEvent::BufferRead if here && self.has_device_reads => {
                let address = block(row, self.has_metadata_bytes)?;
                self.threads[number].device_reads.look_up(address);
                let is_present = self.metadata.access(address);
                RecordedAction::Metadata { address, dirties: false, is_present }
            }
            StepEvent::BufferRead if here => {
                self.threads[number].lookups.push(block(row, self.has_metadata_bytes)?, step);
                RecordedAction::None
            }
            // The kernel records the buffers of file data as well: behind each write, and without a place.
            StepEvent::BufferWrite if here && !is_data => {
                let address = block(row, self.has_metadata_bytes)?;
                let is_present = self.metadata.change(address, self.has_device_reads);
                RecordedAction::Metadata { address, dirties: true, is_present }
            }
            StepEvent::BufferWrite if is_data && self.has_device_reads => {
                self.mapped_write(number, block(row, self.has_metadata_bytes)?, row.time_ns)
            }
            StepEvent::Fork => match row.other_thread.and_then(|child| self.numbers.get(&child)) {
                Some(child) if *child != number => RecordedAction::Start { thread: *child as u32 },
                _ => RecordedAction::None,
            },
            StepEvent::CallEnter => self.enter_call(number, row),
            StepEvent::CallExit => self.exit_call(number, row),
            StepEvent::Wait => self.explicit_wait(number, step, row),
            StepEvent::Exit => self.exit(number),
            _ => RecordedAction::None,
        };
        self.push(number, row, end_ns, action);
        self.file.problem().map_or(Ok(()), Err)
    }

    fn push(&mut self, number: usize, row: &StepRow, end_ns: u64, action: RecordedAction) {
        let step = RecordedStep { computing: Duration::from_ns(row.computing_ns), action };
        self.threads[number].steps.push(step, end_ns);
    }

    /// Takes a change of metadata in a transaction, or a write that a thread submits. The host itself decides about writes of data.
    fn change(&self, row: &StepRow) -> RecordedAction {
        let address = row.offset_bytes.unwrap_or(0) / BLOCK_BYTES;
        let blocks = row.length_bytes.unwrap_or(0).div_ceil(BLOCK_BYTES);
        let Some(blocks) = u32::try_from(blocks).ok().filter(|blocks| *blocks > 0) else {
            return RecordedAction::None;
        };
        match row.event {
            StepEvent::JournalChange if !self.journal.is_empty() => RecordedAction::Change { blocks },
            StepEvent::DeviceWrite
                if address.saturating_add(blocks.into()) <= self.device_blocks
                    && !self.data.contains(address) =>
            {
                RecordedAction::WriteMetadata { address, pages: blocks }
            }
            _ => RecordedAction::None,
        }
    }

    /// Returns true if a buffer holds data of a file.
    fn is_data(&self, number: usize, block: u64) -> bool {
        let is_listed =
            if self.has_device_reads { self.data.contains(block) } else { self.threads[number].is_writing };
        is_listed || block >= self.device_blocks
    }

    /// Takes a read that a thread submits. The host itself decides about reads of data.
    fn device_read(&mut self, number: usize, step: usize, row: &StepRow) {
        let first = row.offset_bytes.unwrap_or(0) / BLOCK_BYTES;
        let blocks = row.length_bytes.unwrap_or(0).div_ceil(BLOCK_BYTES);
        let is_possible = (1..=REQUEST_BLOCKS_MAX).contains(&blocks);
        if !is_possible || first.saturating_add(blocks) > self.device_blocks {
            return;
        }
        let thread = &mut self.threads[number];
        if !self.data.contains(first) {
            thread.device_reads.push(first, blocks, step);
            return;
        }
        thread.data_reads.push(first, blocks, step);
        if let Some(write) = thread.data_reads.served_write() {
            let is_needed = thread.data_reads.needed_by_write(&write, &self.files.file(write.file).extents);
            let mut action = thread.steps.action(write.step);
            if let RecordedAction::Write { keeps_first, keeps_last, .. } = &mut action {
                *keeps_first |= is_needed[0];
                *keeps_last |= is_needed[1];
            }
            thread.steps.set_action(write.step, action);
            let lost = thread.data_reads.lost_by_write(&write, is_needed);
            self.lost.extend(lost.map(|lost| (number, lost)));
        }
    }

    /// Decides about the reads of metadata that a thread has submitted.
    fn decide_device_reads(&mut self, number: usize, has_waited: bool) {
        let thread = &mut self.threads[number];
        let awaited = thread.device_reads.decide(&mut thread.steps, has_waited, &mut self.metadata.accessed);
        if let Some(address) = awaited {
            let action = RecordedAction::Metadata { address, dirties: false, is_present: false };
            thread.steps.push(RecordedStep { computing: Duration::ZERO, action }, 0);
        }
    }

    /// Decides what the last step of a thread left open.
    fn resolve(&mut self, number: usize, has_waited: bool, time_ns: u64) {
        match self.threads[number].unknown.take() {
            None => {}
            Some(Unknown::FirstFault { file }) => self.files.file(file).is_cached = !has_waited,
            Some(Unknown::Write { step, first, last }) => {
                let RecordedAction::Write { file, first: start, pages, .. } =
                    self.threads[number].steps.action(step)
                else {
                    unreachable!("the step is a write")
                };
                let extents = &self.files.file(file).extents;
                // A place that is known now was there before the write: new data get their place later.
                let holds = |block: Option<u64>| {
                    block
                        .and_then(|block| extents.known_ns(block))
                        .is_some_and(|known_ns| known_ns <= time_ns)
                };
                let (keeps_first, keeps_last) = (holds(first), holds(last));
                let action = RecordedAction::Write { file, first: start, pages, keeps_first, keeps_last };
                self.threads[number].steps.set_action(step, action);
            }
        }
    }

    fn read(&mut self, number: usize, row: &StepRow, has_waited: bool) -> Result<RecordedAction, String> {
        let (file, first, end) = self.range(row)?;
        let head = self.head(number, first, end);
        let state = self.files.file(file);
        state.end = state.end.max(end);
        if !std::mem::replace(&mut state.is_accessed, true) {
            state.is_cached = !has_waited && !self.has_start_pages;
        }
        let run = |page| state.accessed.run(page);
        let lost = self.threads[number].data_reads.lost_by_read((file, head, end), &state.extents, run);
        self.lost.extend(lost.into_iter().map(|lost| (number, lost)));
        state.accessed.insert(head, end);
        if let Some(descriptor) = self.describe(number, file, Calls::read_argument)
            && self.descriptors.take_sequential(self.threads[number].process, descriptor)
        {
            let thread = &mut self.threads[number];
            thread.steps.set_action(thread.call_step, RecordedAction::Sequential { file });
        }
        let thread = &mut self.threads[number];
        if head < first {
            let (pages, requested) = (number_of(first - head)?, number_of(end - head)?);
            let action = RecordedAction::Read { file, first: number_of(head)?, pages, requested };
            thread.steps.push(RecordedStep { computing: Duration::ZERO, action }, 0);
        }
        let step = thread.steps.len();
        // The kernel takes some pages at a time, and records the rest of the request again.
        if let Some(open) = thread.read
            && (open.file, open.end) == (file, end)
            && open.first <= first
        {
            let action = match first - open.first {
                0 => RecordedAction::None,
                taken => {
                    let requested = number_of(end - open.first)?;
                    let pages = number_of(taken)?;
                    RecordedAction::Read { file, first: number_of(open.first)?, pages, requested }
                }
            };
            thread.steps.set_action(open.step, action);
        }
        thread.read = Some(OpenRead { file, step, first, end });
        let pages = number_of(end - first)?;
        Ok(RecordedAction::Read { file, first: number_of(first)?, pages, requested: pages })
    }

    /// The first page of what a look-up of a call reads. The kernel does not record a look-up that ends before a page which is still
    /// being read (`filemap_get_pages` in `mm/filemap.c`): the first recorded one of a call then begins behind the first page.
    fn head(&self, number: usize, first: u64, end: u64) -> u64 {
        let thread = &self.threads[number];
        let Some((call, arguments)) = thread.call.filter(|_| thread.read.is_none()) else { return first };
        let length = arguments[2].min(TRANSFER_MAX - BLOCK_BYTES);
        let head = if call == self.calls.read() {
            // The request ends within the last page.
            (end * BLOCK_BYTES).checked_sub(length).map(|start| start / BLOCK_BYTES)
        } else if call == self.calls.read_at() {
            let request_end = arguments[3].saturating_add(length).div_ceil(BLOCK_BYTES);
            (request_end == end).then_some(arguments[3] / BLOCK_BYTES)
        } else {
            None
        };
        head.map_or(first, |head| head.min(first))
    }

    fn fault(&mut self, number: usize, row: &StepRow) -> Result<RecordedAction, String> {
        let (file, first, end) = self.range(row)?;
        let state = self.files.file(file);
        state.end = state.end.max(end);
        if !std::mem::replace(&mut state.is_accessed, true) && !self.has_start_pages {
            self.threads[number].unknown = Some(Unknown::FirstFault { file });
        }
        state.accessed.insert(first, end);
        let page = number_of(first)?;
        self.threads[number].fault = Some((file, page));
        Ok(RecordedAction::Fault { file, page })
    }

    /// A block of a file's data becomes dirty: by a change of a mapped page, unless the current call writes a file.
    fn mapped_write(&mut self, number: usize, block: u64, time_ns: u64) -> RecordedAction {
        let thread = &mut self.threads[number];
        let last_fault = thread.fault.take().filter(|_| block >= self.device_blocks);
        let changed = self.data.owner(block).or(last_fault).filter(|_| !thread.has_written);
        let Some((file, page)) = changed else { return RecordedAction::None };
        self.files.file(file).extents.write(page.into(), u64::from(page) + 1, time_ns);
        RecordedAction::Write { file, first: page, pages: 1, keeps_first: true, keeps_last: true }
    }

    /// A thread begins to synchronise a file. The call ends it.
    fn sync_file(&mut self, number: usize, file: u32) -> RecordedAction {
        let thread = &mut self.threads[number];
        let is_in_call = thread.call.is_some();
        if let Some(former) = thread.synced.replace(file).filter(|_| is_in_call) {
            let action = RecordedAction::SyncFile { file: former, end: SyncEnd::Flush };
            thread.steps.push(RecordedStep { computing: Duration::ZERO, action }, 0);
        }
        let end = match (is_in_call, self.journal.is_empty()) {
            (true, _) => SyncEnd::Later,
            // A thread of the kernel, such as one of io_uring, makes no calls.
            (false, true) => SyncEnd::Flush,
            (false, false) => SyncEnd::Commit,
        };
        RecordedAction::SyncFile { file, end }
    }

    fn write(&mut self, number: usize, step: usize, row: &StepRow) -> Result<RecordedAction, String> {
        let (file, first, end) = self.range(row)?;
        let start_bytes = row.offset_bytes.unwrap_or(0);
        let end_bytes = start_bytes.saturating_add(row.length_bytes.unwrap_or(0));
        let state = self.files.file(file);
        state.end = state.end.max(end);
        state.is_accessed = true;
        state.extents.write(first, end, row.time_ns);
        let edges = [first, end - 1].map(|page| (page, state.was_in_memory(page)));
        state.accessed.insert(first, end);
        self.describe(number, file, Calls::written_argument);
        let is_partial = [start_bytes, end_bytes].map(|bytes| !bytes.is_multiple_of(BLOCK_BYTES));
        let thread = &mut self.threads[number];
        thread.has_written = true;
        thread.data_reads.write(Write { step, file, edges });
        // What the trace did not access before, and did not read for the write, the file does not hold.
        let [mut keeps_first, mut keeps_last] = [0, 1].map(|edge| is_partial[edge] && edges[edge].1);
        if !self.has_device_reads {
            (keeps_first, keeps_last) = (false, false);
            let [first, last] = [0, 1].map(|edge| is_partial[edge].then_some(edges[edge].0));
            if first.or(last).is_some() {
                thread.unknown = Some(Unknown::Write { step, first, last });
            }
        }
        let (first, pages) = (number_of(first)?, number_of(end - first)?);
        Ok(RecordedAction::Write { file, first, pages, keeps_first, keeps_last })
    }

    /// A transfer past the page cache.
    fn direct(&mut self, number: usize, row: &StepRow) -> Result<RecordedAction, String> {
        let (file, _, end) = self.range(row)?;
        let state = self.files.file(file);
        state.end = state.end.max(end);
        self.direct_transfers += 1;
        let writes = row.event == StepEvent::DirectWrite;
        let Thread { process, call, .. } = self.threads[number];
        let ring = call.filter(|(call, _)| self.calls.submits(*call)).map(|(_, arguments)| arguments[0]);
        if ring.is_none() {
            let argument = if writes { Calls::written_argument } else { Calls::read_argument };
            self.describe(number, file, argument);
        }
        let queue = match (row.is_async == Some(true), ring) {
            (true, ring) => {
                let queue = self.queues.number(process, ring);
                self.queues.submit(queue);
                Some(queue)
            }
            (false, Some(ring)) => {
                let queue = self.queues.number(process, Some(ring));
                self.queues.complete(queue);
                None
            }
            (false, None) => None,
        };
        let (offset, length) = (row.offset_bytes.unwrap_or(0), row.length_bytes.unwrap_or(0));
        let first = offset / SECTOR_BYTES;
        let sectors = offset.saturating_add(length).div_ceil(SECTOR_BYTES) - first;
        Ok(RecordedAction::Direct { file, first, sectors: number_of(sectors)?, writes, queue })
    }

    /// The file of an access, its first block and the block behind its last.
    fn range(&mut self, row: &StepRow) -> Result<(u32, u64, u64), String> {
        let (Some(inode), Some(offset), Some(length)) = (row.inode, row.offset_bytes, row.length_bytes)
        else {
            return Err(format!("a `{}` at {} ns has no inode or range", row.event.name(), row.time_ns));
        };
        let wrong = |problem| format!("a `{}` at {} ns {problem}", row.event.name(), row.time_ns);
        if length > TRANSFER_MAX {
            return Err(wrong("has more than 2 GiB, the most that a call transfers"));
        }
        let end = offset.checked_add(length.max(1)).ok_or_else(|| wrong("ends beyond the largest file"))?;
        number_of(end.div_ceil(BLOCK_BYTES))?;
        Ok((self.files.number(inode, row.time_ns), offset / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES)))
    }

    /// Takes note that a descriptor of the current call means a file. Returns the descriptor.
    fn describe(&mut self, number: usize, file: u32, argument: fn(&Calls, u16) -> usize) -> Option<u64> {
        let (call, arguments) = self.threads[number].call?;
        let descriptor = arguments[argument(&self.calls, call)];
        self.descriptors.set(self.threads[number].process, descriptor, file);
        Some(descriptor)
    }

    fn enter_call(&mut self, number: usize, row: &StepRow) -> RecordedAction {
        let arguments = [row.argument_0, row.argument_1, row.argument_2, row.argument_3];
        let arguments = arguments.map(Option::unwrap_or_default);
        let thread = &mut self.threads[number];
        thread.read = None;
        (thread.has_written, thread.synced) = (false, None);
        thread.data_reads.clear();
        let Some(call) = row.call else { return RecordedAction::None };
        thread.call = Some((call, arguments));
        thread.call_ns = row.time_ns;
        thread.call_step = thread.steps.len();
        let process = thread.process;
        if call == self.calls.advise && row.argument_3 == Some(ADVICE_SEQUENTIAL) {
            self.descriptors.advise_sequential(process, arguments[0]);
            RecordedAction::None
        } else if call == self.calls.sync || call == self.calls.sync_file_system {
            RecordedAction::SyncAll
        } else if !self.has_file_syncs && self.calls.syncs_file(call) {
            match self.descriptors.file(process, arguments[0]) {
                Some(file) if self.has_device_writes => {
                    RecordedAction::SyncFile { file, end: SyncEnd::Later }
                }
                Some(file) => RecordedAction::SyncFile { file, end: SyncEnd::Flush },
                None => RecordedAction::None,
            }
        } else {
            RecordedAction::None
        }
    }

    fn exit_call(&mut self, number: usize, row: &StepRow) -> RecordedAction {
        let thread = &mut self.threads[number];
        thread.read = None;
        thread.has_written = false;
        thread.data_reads.clear();
        let synced = thread.synced.take();
        let process = thread.process;
        let (Some((call, arguments)), Some(result)) = (thread.call.take(), row.result) else {
            return RecordedAction::None;
        };
        let commits = !self.journal.is_empty() && thread.has_waited_for_journal(row.time_ns);
        // Metadata that the call changed, such as new places of its data, belong to the commit.
        if let Some(file) = synced {
            let end = RecordedAction::SyncFile { file, end: SyncEnd::Flush };
            let action = if commits { RecordedAction::Commit } else { end };
            thread.steps.push(RecordedStep { computing: Duration::ZERO, action }, row.time_ns);
        }
        if !self.has_file_syncs && self.has_device_writes && self.calls.syncs_file(call) {
            return match self.descriptors.file(process, arguments[0]) {
                _ if commits => RecordedAction::Commit,
                Some(file) => RecordedAction::SyncFile { file, end: SyncEnd::Flush },
                None => RecordedAction::None,
            };
        }
        if call == self.calls.wait_for_child {
            self.find_child(number, result);
        } else if call == self.calls.close {
            self.descriptors.close(process, arguments[0]);
        } else if call == self.calls.open_at {
            if let Ok(descriptor) = u64::try_from(result) {
                self.direct_opens += u64::from(arguments[2] & self.calls.open_direct != 0);
                self.descriptors.open(process, descriptor, arguments[2] & OPEN_SYNC != 0);
            }
        } else if self.calls.takes(call) {
            let queue = self.queues.number(process, Some(arguments[0]));
            return self.queues.take(queue, u64::try_from(result).unwrap_or(0));
        } else if call == self.calls.enter_ring {
            if arguments[3] & RING_WAITS != 0 && arguments[2] > 0 {
                let step = self.threads[number].steps.len();
                let queue = self.queues.number(process, Some(arguments[0]));
                self.queues.wait(queue, arguments[2], (number, step));
                for (thread, step, action) in self.queues.decided() {
                    self.threads[thread].steps.set_action(step, action);
                }
            }
        } else if !self.has_file_syncs {
            let descriptor = arguments[self.calls.written_argument(call)];
            let file = self.descriptors.file(process, descriptor);
            if let Some(file) = file.filter(|_| self.descriptors.is_synchronous(process, descriptor)) {
                let end = if commits { SyncEnd::Commit } else { SyncEnd::Flush };
                return RecordedAction::SyncFile { file, end };
            }
        }
        RecordedAction::None
    }

    /// The programs. If the files that were accessed take at most `room_bytes`, nothing left memory for want of room. The error says what is
    /// wrong.
    pub(super) fn finish(mut self, room_bytes: u64) -> Result<Loaded, String> {
        for number in 0..self.threads.len() {
            let has_waited = self.threads[number].has_waited(u64::MAX);
            self.decide_device_reads(number, has_waited);
            let thread = &mut self.threads[number];
            thread.lookups.decide(&mut thread.steps, has_waited, &mut self.metadata.accessed);
            self.resolve(number, has_waited, u64::MAX);
        }
        for (thread, step, action) in std::mem::take(&mut self.queues).finish() {
            self.threads[thread].steps.set_action(step, action);
        }
        for number in 0..self.threads.len() {
            if self.threads[number].has_dependencies {
                self.decide_dependencies(number);
                let thread = &mut self.threads[number];
                thread.polls.decide(&mut thread.steps);
            }
        }
        let had_room = self.files.accessed_blocks().saturating_mul(BLOCK_BYTES) <= room_bytes;
        let lost = if had_room { std::mem::take(&mut self.lost) } else { Vec::new() };
        for (number, lost) in &lost {
            lost.apply(&mut self.threads[*number].steps);
        }
        let recorded = |thread: Thread| RecordedThread {
            start: Duration::from_ns(thread.start_ns),
            steps: thread.steps.finish(),
        };
        if let Some(problem) = self.file.problem() {
            return Err(problem);
        }
        let threads = self.threads.into_iter().map(recorded).collect();
        let (files, pools) = self.files.finish();
        let (metadata, new_metadata) = self.metadata.finish();
        Ok(Loaded {
            recording: Recording {
                files,
                threads,
                task: Vec::new(),
                pools,
                new_metadata,
                metadata,
                journal: self.journal,
            },
            kept: self.kept,
            unused_direct_opens: if self.direct_transfers == 0 { self.direct_opens } else { 0 },
            lost_pages: lost.iter().map(|(_, lost)| lost.pages()).sum(),
        })
    }
}

/// The block of an access to metadata.
fn block(row: &StepRow, is_in_bytes: bool) -> Result<u64, String> {
    match (row.offset_bytes, row.length_bytes) {
        (Some(offset), Some(BLOCK_BYTES)) => {
            Ok(offset / if is_in_bytes { BLOCK_BYTES } else { SECTOR_BYTES })
        }
        (Some(_), Some(bytes)) => Err(format!(
            "the file system of the trace has blocks of {bytes} B, and the host models blocks of 4 KiB. Make it with \
             mkfs.ext4 -b 4096"
        )),
        _ => Err(format!("a `{}` at {} ns has no address", row.event.name(), row.time_ns)),
    }
}
