//! System calls: the steps of a process in the system, with the requests and waits that follow from them.
//!
//! A step ends with computing time, a wait, or at once. Effects happen between computing times, so that a request is
//! issued when the time to submit it is over.

use seeklab_core::{Criticality, Duration, Operation, Request, RequestId};

use super::criticality::{Outstanding, Owner};
use super::list::NONE;
use super::page_cache::FrameState;
use super::process::{Activity, Cached, Direct, Next, Phase, Recorded, State, Sync, Wait};
use super::program::{Instruction, Mode, Place, Transfer};
use super::recorded::{RecordedAction, SyncEnd};
use super::{Host, JOURNAL, PAGE_BYTES};

impl Host {
    /// Goes on with a process until it computes, waits or ends.
    pub(super) fn step(&mut self, pid: u32) -> Next {
        loop {
            let next = match self.processes[pid as usize].activity {
                Activity::Fetch => self.fetch(pid),
                Activity::Cached(cached) => self.cached(pid, cached),
                Activity::Direct(direct) => self.direct(pid, direct),
                Activity::Sync(sync) => self.sync(pid, sync),
                Activity::Fork(definition) => {
                    self.processes[pid as usize].activity = Activity::Fetch;
                    self.fork_process(pid, definition);
                    Next::Continue
                }
                Activity::Wait => {
                    if self.processes[pid as usize].children > 0 {
                        Next::Wait(Wait::Children)
                    } else {
                        self.processes[pid as usize].activity = Activity::Fetch;
                        Next::Continue
                    }
                }
                Activity::Lock(lock) => self.lock(pid, lock),
                Activity::Unlock(lock) => {
                    self.processes[pid as usize].activity = Activity::Fetch;
                    self.unlock(pid, lock);
                    Next::Continue
                }
                Activity::Pipe(piped) => self.transfer(pid, piped),
                Activity::Sweep(sweep) => self.sweep(pid, sweep),
                Activity::Flush => self.flush(),
                Activity::Recorded(recorded) => self.recorded(pid, recorded),
                Activity::Acting(acting) => self.act(pid, acting),
            };
            match next {
                Next::Continue => {}
                Next::Compute(time) if time.is_zero() => {}
                next => return next,
            }
        }
    }

    /// Begins the next instruction.
    fn fetch(&mut self, pid: u32) -> Next {
        let is_recorded = self.is_recorded();
        let process = &mut self.processes[pid as usize];
        if process.is_failed {
            self.failed_processes += 1;
            return Next::End;
        }
        if is_recorded && !(pid == JOURNAL && self.has_journal) {
            return self.fetch_step(pid);
        }
        if self.application.is_some() || is_recorded {
            return self.fetch_action(pid);
        }
        self.instant_statements += 1;
        if self.instant_statements.is_multiple_of(INSTANT_STATEMENTS_MAX) {
            return Next::Compute(Duration::from_ns(1));
        }
        let Some(instruction) =
            self.definitions[process.definition as usize].program.get(process.next as usize).copied()
        else {
            return Next::End;
        };
        process.next += 1;
        let call = self.settings.system_call;
        match instruction {
            Instruction::Compute(time) => Next::Compute(time),
            Instruction::Repeat { count, .. } => {
                process.loops.push(count);
                Next::Continue
            }
            Instruction::Next { first } => {
                let left = process.loops.last_mut().expect("the parser matches loops");
                *left -= 1;
                if *left == 0 {
                    process.loops.pop();
                } else {
                    process.next = first;
                }
                Next::Continue
            }
            Instruction::Sleep(time) => {
                self.set_timer(time, pid);
                Next::Wait(Wait::Time)
            }
            Instruction::Fork(definition) => {
                process.activity = Activity::Fork(definition);
                Next::Compute(call)
            }
            Instruction::Wait => {
                process.activity = Activity::Wait;
                Next::Compute(call)
            }
            Instruction::Lock(lock) => {
                process.activity = Activity::Lock(lock);
                Next::Compute(call)
            }
            Instruction::Unlock(lock) => {
                process.activity = Activity::Unlock(lock);
                Next::Compute(call)
            }
            Instruction::Pipe(piped) => {
                process.activity = Activity::Pipe(piped);
                Next::Compute(call)
            }
            Instruction::Sync(file) => {
                process.activity = match (&self.linux, file) {
                    (None, file) => Activity::Sync(Sync { file, frame: NONE }),
                    (Some(_), None) => Activity::linux(RecordedAction::SyncAll),
                    (Some(_), Some(file)) => {
                        Activity::linux(RecordedAction::SyncFile { file, end: SyncEnd::Flush })
                    }
                };
                Next::Compute(call)
            }
            Instruction::Transfer(transfer) => {
                self.begin_transfer(pid, transfer);
                Next::Compute(call)
            }
            Instruction::Exit => Next::End,
        }
    }

    fn begin_transfer(&mut self, pid: u32, transfer: Transfer) {
        let file = &self.files[transfer.file as usize];
        let place = &mut self.processes[pid as usize].places[transfer.file as usize];
        let start = match transfer.place {
            Place::Next if *place < file.size_bytes => *place,
            Place::Next => 0,
            Place::Random => self.stream.below(file.pages) * PAGE_BYTES,
            Place::At(offset) => offset,
        };
        let is_sequential = start == *place || start == 0;
        let end = (start.saturating_add(transfer.bytes)).min(file.size_bytes);
        *place = end;
        let held_bytes = file.held_bytes;
        if self.linux.is_some() && transfer.writes && !transfer.direct {
            let file = &mut self.files[transfer.file as usize];
            file.held_bytes = file.held_bytes.max(end);
        }
        let process = &mut self.processes[pid as usize];
        process.activity = if start >= end {
            Activity::Fetch
        } else if transfer.direct {
            Activity::Direct(Direct {
                file: transfer.file,
                writes: transfer.writes,
                is_async: transfer.mode == Mode::Async,
                start,
                end,
                is_submitting: false,
            })
        } else if self.linux.is_some() {
            Activity::Recorded(linux_transfer(transfer, start, end, held_bytes))
        } else {
            let block = start / PAGE_BYTES;
            Activity::Cached(Cached {
                file: transfer.file,
                writes: transfer.writes,
                mode: transfer.mode,
                start,
                end,
                is_sequential,
                block,
                frame: NONE,
                ahead: block + 1,
                ahead_frame: NONE,
                phase: Phase::Lookup,
            })
        };
    }

    /// A step of a transfer through the page cache.
    fn cached(&mut self, pid: u32, mut state: Cached) -> Next {
        if self.processes[pid as usize].is_failed {
            self.processes[pid as usize].activity = Activity::Fetch;
            return Next::Continue;
        }
        let page = self.files[state.file as usize].first_page + state.block;
        let mut next = Next::Continue;
        match state.phase {
            Phase::Lookup => next = self.look_up(pid, page, &mut state),
            Phase::SubmitRead => {
                self.issue_frame(pid, state.frame, Operation::Read, Criticality::TimeCritical);
                state.phase = if state.writes { Phase::AwaitRead } else { Phase::ReadAhead };
            }
            Phase::ReadAhead => next = self.read_ahead(&mut state),
            Phase::SubmitReadAhead => {
                self.issue_frame(pid, state.ahead_frame, Operation::Read, Criticality::TimeLimited);
                state.ahead += 1;
                state.phase = Phase::ReadAhead;
            }
            Phase::AwaitRead => {
                let frame = self.cache.frame(state.frame);
                if frame.page == page && frame.state == FrameState::Reading {
                    next = self.wait_for_frame(pid, state.frame);
                } else if state.writes {
                    state.phase = Phase::Lookup;
                } else {
                    return self.next_block(pid, state);
                }
            }
            Phase::Changed => match state.mode {
                Mode::Usual => state.phase = Phase::Throttle,
                Mode::Sync | Mode::Async => {
                    self.cache.set_state(state.frame, FrameState::Writing);
                    state.phase = Phase::SubmitWrite;
                    next = Next::Compute(self.settings.submission);
                }
            },
            Phase::SubmitWrite => {
                let (class, phase) = match state.mode {
                    Mode::Sync => (Criticality::TimeCritical, Phase::AwaitWrite),
                    _ => (Criticality::TimeLimited, Phase::Throttle),
                };
                self.issue_frame(pid, state.frame, Operation::Write, class);
                state.phase = phase;
            }
            Phase::AwaitWrite => {
                let frame = self.cache.frame(state.frame);
                if frame.page == page && frame.state == FrameState::Writing {
                    next = self.wait_for_frame(pid, state.frame);
                } else {
                    return self.next_block(pid, state);
                }
            }
            Phase::Throttle => {
                if self.cache.dirty_count() <= self.settings.dirty_frames {
                    return self.next_block(pid, state);
                }
                let excess = self.cache.dirty_count() - self.settings.dirty_frames;
                self.request_write_back(excess);
                self.links.push_back(&mut self.lists.throttled, pid);
                next = Next::Wait(Wait::DirtyLimit);
            }
        }
        self.processes[pid as usize].activity = Activity::Cached(state);
        next
    }

    /// Finds the block in memory, or takes a frame for it.
    fn look_up(&mut self, pid: u32, page: u64, state: &mut Cached) -> Next {
        let Some(frame) = self.cache.find(page) else {
            let Some(frame) = self.cache.allocate(page) else {
                self.request_write_back(WRITE_BACK_FRAMES);
                self.links.push_back(&mut self.lists.memory, pid);
                return Next::Wait(Wait::Memory);
            };
            state.frame = frame;
            if state.writes && !self.is_needed_before_write(state) {
                self.cache.set_state(frame, FrameState::Dirty);
                self.hold(state);
                state.phase = Phase::Changed;
                return Next::Continue;
            }
            state.phase = Phase::SubmitRead;
            return Next::Compute(self.settings.submission);
        };
        state.frame = frame;
        match (self.cache.frame(frame).state, state.writes) {
            (FrameState::Writing, true) => self.wait_for_frame(pid, frame),
            (FrameState::Reading, true) => {
                self.need(frame);
                state.phase = Phase::AwaitRead;
                Next::Continue
            }
            (_, true) => {
                self.need(frame);
                self.cache.touch(frame);
                if self.cache.frame(frame).state == FrameState::Clean {
                    self.cache.set_state(frame, FrameState::Dirty);
                }
                self.hold(state);
                state.phase = Phase::Changed;
                Next::Continue
            }
            (_, false) => {
                self.need(frame);
                self.cache.touch(frame);
                state.phase = Phase::ReadAhead;
                Next::Continue
            }
        }
    }

    /// The file holds what is being written.
    fn hold(&mut self, state: &Cached) {
        let end = state.end.min((state.block + 1) * PAGE_BYTES);
        let file = &mut self.files[state.file as usize];
        file.held_bytes = file.held_bytes.max(end);
    }

    /// Returns true if the write changes a part of a block that holds data.
    fn is_needed_before_write(&self, state: &Cached) -> bool {
        let held = self.files[state.file as usize].held_bytes;
        let first = state.block * PAGE_BYTES;
        let data_end = held.min(first + PAGE_BYTES);
        first < held && (state.start > first || state.end < data_end)
    }

    /// Takes a frame for the next block to read in advance, if there is one and memory for it.
    fn read_ahead(&mut self, state: &mut Cached) -> Next {
        let file = &self.files[state.file as usize];
        let end = file.end_of_file(state.block).min(state.block + 1 + self.settings.read_ahead);
        while state.is_sequential && state.ahead < end {
            let page = file.first_page + state.ahead;
            if self.cache.find(page).is_none()
                && let Some(frame) = self.cache.allocate(page)
            {
                state.ahead_frame = frame;
                state.phase = Phase::SubmitReadAhead;
                return Next::Compute(self.settings.submission);
            }
            state.ahead += 1;
        }
        state.phase = Phase::AwaitRead;
        Next::Continue
    }

    fn next_block(&mut self, pid: u32, state: Cached) -> Next {
        let block = state.block + 1;
        self.processes[pid as usize].activity = if block * PAGE_BYTES >= state.end {
            Activity::Fetch
        } else {
            let ahead = state.ahead.max(block + 1);
            Activity::Cached(Cached { block, ahead, is_sequential: true, phase: Phase::Lookup, ..state })
        };
        Next::Continue
    }

    /// A step of a transfer past the page cache.
    fn direct(&mut self, pid: u32, state: Direct) -> Next {
        if state.start >= state.end || self.processes[pid as usize].is_failed {
            self.processes[pid as usize].activity = Activity::Fetch;
            return Next::Continue;
        }
        if !state.is_submitting {
            self.processes[pid as usize].activity = Activity::Direct(Direct { is_submitting: true, ..state });
            return Next::Compute(self.settings.submission);
        }
        let file = &mut self.files[state.file as usize];
        let block = state.start / PAGE_BYTES;
        let part_end = (block + file.contiguous(block)) * PAGE_BYTES;
        let end = state.end.min(part_end);
        let offset = file.address(block) * PAGE_BYTES + state.start % PAGE_BYTES;
        if state.writes {
            file.held_bytes = file.held_bytes.max(end);
        }
        let lbn = offset / self.block_bytes;
        let blocks = (offset + end - state.start).div_ceil(self.block_bytes) - lbn;
        let op = if state.writes { Operation::Write } else { Operation::Read };
        let (owner, class) = if state.is_async {
            (Owner::Nobody, Criticality::TimeLimited)
        } else {
            (Owner::Process(pid), Criticality::TimeCritical)
        };
        self.issue(pid, owner, class, Request::new(0, op, lbn, blocks as u32));
        self.processes[pid as usize].activity =
            Activity::Direct(Direct { start: end, is_submitting: false, ..state });
        match (state.is_async, state.writes) {
            (true, _) => Next::Continue,
            (false, true) => Next::Wait(Wait::Write),
            (false, false) => Next::Wait(Wait::Read),
        }
    }

    /// A step of writing what is dirty.
    fn sync(&mut self, pid: u32, state: Sync) -> Next {
        if self.processes[pid as usize].is_failed {
            self.processes[pid as usize].activity = Activity::Fetch;
            return Next::Continue;
        }
        if state.frame != NONE {
            self.issue_frame(pid, state.frame, Operation::Write, Criticality::TimeCritical);
            self.processes[pid as usize].activity = Activity::Sync(Sync { frame: NONE, ..state });
            return Next::Continue;
        }
        let pages = state.file.map_or(0..u64::MAX, |file| {
            let file = &self.files[file as usize];
            file.first_page..file.first_page + file.pages
        });
        if let Some(frame) = self.cache.find_dirty(|page| pages.contains(&page)) {
            self.cache.set_state(frame, FrameState::Writing);
            self.processes[pid as usize].activity = Activity::Sync(Sync { frame, ..state });
            return Next::Compute(self.settings.submission);
        }
        if let Some(frame) = self.cache.find_writing(|page| pages.contains(&page)) {
            return self.wait_for_frame(pid, frame);
        }
        self.processes[pid as usize].activity = Activity::Fetch;
        Next::Continue
    }

    /// A process needs the block of a frame: the time limit of a read-ahead ends.
    pub(super) fn need(&mut self, frame: u32) {
        let frame = self.cache.frame_mut(frame);
        if let Some(issued) = frame.ahead_since.take() {
            let is_met = frame.state != FrameState::Reading;
            self.time_limited.need(self.now.saturating_since(issued), is_met);
        }
    }

    /// Adds a process to those that wait for a frame. Returns the wait.
    pub(super) fn wait_for_frame(&mut self, pid: u32, frame: u32) -> Next {
        let frame = self.cache.frame_mut(frame);
        let wait = if frame.state == FrameState::Reading { Wait::Read } else { Wait::Write };
        self.links.push_back(&mut frame.waiting, pid);
        if let Some(request) = frame.request {
            self.await_request(request);
        }
        Next::Wait(wait)
    }

    /// A process waits for a request from now on: the request becomes time-critical, for the device too.
    pub(super) fn await_request(&mut self, number: u64) {
        let Some(request) = self.requests.get_mut(number) else { return };
        if request.class == Criticality::TimeCritical || request.is_awaited {
            return;
        }
        request.is_awaited = true;
        self.turned_critical += u64::from(request.class == Criticality::TimeNoncritical);
        // Of a request that is complete, the process waits for the interrupt.
        if !request.is_complete {
            self.make_critical(number);
        }
    }

    /// Issues the request of a frame.
    pub(super) fn issue_frame(&mut self, pid: u32, frame: u32, op: Operation, class: Criticality) {
        let held = self.cache.frame(frame);
        // A process that waits already makes the request time-critical.
        let class = if held.waiting.len > 0 { Criticality::TimeCritical } else { class };
        let is_read_ahead = op == Operation::Read && class == Criticality::TimeLimited;
        let address = self.address(held.page);
        let per_page = PAGE_BYTES / self.block_bytes;
        let request = Request::new(0, op, address * per_page, per_page as u32);
        let number = self.issue(pid, Owner::Frame(frame), class, request);
        let held = self.cache.frame_mut(frame);
        held.request = Some(number);
        held.ahead_since = is_read_ahead.then_some(self.now);
    }

    /// Issues a request, which gets its number, class and initiator.
    pub(super) fn issue(&mut self, pid: u32, owner: Owner, class: Criticality, request: Request) -> u64 {
        let number = self.requests.add(Outstanding::new(owner, class, request.op, pid, self.now));
        if let Owner::Process(pid) = owner {
            self.processes[pid as usize].outstanding += 1;
        }
        if let Some(running) = &mut self.application {
            running.count(&request, self.block_bytes);
        }
        self.send(Request { id: RequestId(number), initiator: pid, criticality: class, ..request });
        number
    }

    /// Address on the device of a block among those of all files.
    fn address(&self, page: u64) -> u64 {
        let after = self.files.partition_point(|file| file.first_page <= page);
        let file = &self.files[after - 1];
        file.address(page - file.first_page)
    }

    /// A request is complete: its frame changes, and who waits goes on.
    pub(super) fn complete_request(&mut self, number: u64, is_ok: bool) {
        let request = self.requests.remove(number);
        self.observe_completion(number, &request);
        let is_noncritical = request.class == Criticality::TimeNoncritical && !request.is_awaited;
        match request.owner {
            Owner::Nobody => {}
            Owner::Transfer(transfer) => self.complete_transfer(transfer, number, is_ok),
            Owner::Process(pid) => {
                let process = &mut self.processes[pid as usize];
                process.is_failed |= !is_ok;
                process.outstanding -= 1;
                // It may not have come to wait yet.
                if process.outstanding == 0 && matches!(process.state, State::Waiting(_)) {
                    self.wake(pid);
                }
            }
            Owner::Frame(first) => {
                let mut frame = first;
                while frame != NONE {
                    let next = std::mem::replace(&mut self.cache.frame_mut(frame).chain, NONE);
                    self.complete_frame(frame, request.class, is_ok);
                    frame = next;
                }
                // All of them: one that finds its block read by another leaves the frame to the next.
                let is_turned = self.wake_memory_waiters() | self.wake_throttled();
                self.turned_critical += u64::from(is_turned && is_noncritical);
            }
        }
        self.free_tag();
    }

    /// The request of a frame is complete.
    fn complete_frame(&mut self, frame: u32, class: Criticality, is_ok: bool) {
        let held = self.cache.frame_mut(frame);
        let was_reading = held.state == FrameState::Reading;
        held.request = None;
        while let Some(pid) = self.links.pop_front(&mut self.cache.frame_mut(frame).waiting) {
            let is_own = was_reading || class == Criticality::TimeCritical;
            self.processes[pid as usize].is_failed |= !is_ok && is_own;
            if was_reading && is_ok {
                // Another process may run first, and need memory.
                self.cache.hold(frame);
                self.processes[pid as usize].held = frame;
            }
            self.wake(pid);
        }
        let state = if was_reading && !is_ok { FrameState::Free } else { FrameState::Clean };
        let is_dirty = !was_reading && std::mem::take(&mut self.cache.frame_mut(frame).is_dirtied_again);
        self.cache.set_state(frame, if is_dirty { FrameState::Dirty } else { state });
        if !was_reading {
            self.count_written();
        }
        if is_dirty {
            self.queue_again(frame);
        }
    }

    /// Lets the processes go on that wait for memory. Returns true if there are any.
    pub(super) fn wake_memory_waiters(&mut self) -> bool {
        let has_waiters = self.lists.memory.len > 0;
        while let Some(pid) = self.links.pop_front(&mut self.lists.memory) {
            self.wake(pid);
        }
        has_waiters
    }

    /// Lets the processes of SVR4 go on that wait for fewer dirty blocks, if there are few enough. Returns true if any did.
    pub(super) fn wake_throttled(&mut self) -> bool {
        let is_below = self.cache.dirty_count() <= self.settings.dirty_frames;
        let has_waiters = is_below && self.lists.throttled.len > 0;
        while is_below && let Some(pid) = self.links.pop_front(&mut self.lists.throttled) {
            self.wake(pid);
        }
        has_waiters
    }
}

/// The action on Linux of a transfer through the page cache.
fn linux_transfer(transfer: Transfer, start: u64, end: u64, held_bytes: u64) -> Recorded {
    let file = transfer.file;
    let (first, last) = (start / PAGE_BYTES, (end - 1) / PAGE_BYTES);
    let (first_page, pages) = (first as u32, (last - first + 1) as u32);
    let action = if transfer.writes {
        RecordedAction::Write {
            file,
            first: first_page,
            pages,
            keeps_first: first * PAGE_BYTES < held_bytes && !start.is_multiple_of(PAGE_BYTES),
            keeps_last: end < held_bytes.min((last + 1) * PAGE_BYTES),
        }
    } else {
        RecordedAction::Read { file, first: first_page, pages, requested: pages }
    };
    let then_sync = (transfer.mode == Mode::Sync).then_some(file);
    Recorded { action, position: 0, then_sync }
}

/// Statements that take no time together at most.
pub(super) const INSTANT_STATEMENTS_MAX: u32 = 1 << 20;

/// Frames that the syncer writes at a time when no frame is free.
const WRITE_BACK_FRAMES: u32 = 64;
