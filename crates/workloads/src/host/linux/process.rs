//! Processes that do the steps of a recording.

use seeklab_core::Duration;

use super::direct::Part;
use super::read::Access;
use super::write::FLUSHED;
use super::{Host, METADATA};
use crate::host::process::{Activity, Next, Process, Recorded, State, Wait};
use crate::host::profile::scaled;
use crate::host::recorded::{RecordedAction, SyncEnd};
use crate::host::recorded_steps::StepWindow;

/// Blocks that a process changes before it looks at the amount of dirty data again: a write takes them as one part of memory.
const CHUNK_PAGES: u64 = 512;

/// The number among the host's files of a file of the recording.
pub(super) const fn file_number(file: u32) -> u32 {
    METADATA + 1 + file
}

impl Host {
    /// Begins the next step of a process: its computing time.
    pub(in crate::host) fn fetch_step(&mut self, pid: u32) -> Next {
        let process = &self.processes[pid as usize];
        let (thread, done) = (process.definition, process.next);
        self.pass(thread, done);
        let linux = self.linux_mut();
        let window = &mut linux.progress[thread as usize].window;
        let Some(step) = linux.threads[thread as usize].steps.get(done as usize, window) else {
            return Next::End;
        };
        let process = &mut self.processes[pid as usize];
        process.next += 1;
        process.activity = Activity::linux(step.action);
        Next::Compute(scaled(step.computing, self.settings.speed))
    }

    /// A step of an action.
    pub(in crate::host) fn recorded(&mut self, pid: u32, state: Recorded) -> Next {
        let Recorded { action, mut position, then_sync } = state;
        if self.processes[pid as usize].is_failed {
            self.processes[pid as usize].activity = Activity::Fetch;
            return Next::Continue;
        }
        let next = match action {
            RecordedAction::None => Next::Continue,
            RecordedAction::Read { file, first, pages, requested } => {
                let first = u64::from(first);
                let mut access = Access {
                    file: file_number(file),
                    next: first + position,
                    end: first + u64::from(pages),
                    requested_end: first + u64::from(requested.max(pages)),
                };
                let next = self.read_blocks(pid, &mut access);
                position = access.next - first;
                next
            }
            RecordedAction::Sequential { file } => {
                self.linux_mut().files[file_number(file) as usize].is_sequential = true;
                Next::Continue
            }
            RecordedAction::Fault { file, page } => self.fault(pid, file_number(file), u64::from(page)),
            RecordedAction::Write { file, first, pages, keeps_first, keeps_last } => {
                let (index, is_balanced) = (position / 2, position % 2 == 1);
                if index >= u64::from(pages) {
                    Next::Continue
                } else if index.is_multiple_of(CHUNK_PAGES) && !is_balanced {
                    // The process may have to wait for what it has changed before.
                    let next = self.balance(pid);
                    if next == Next::Continue {
                        return self.again(pid, Recorded { position: position + 1, ..state });
                    }
                    next
                } else {
                    let keeps = (keeps_first && index == 0) || (keeps_last && index + 1 == u64::from(pages));
                    let first = u64::from(first);
                    let blocks = first..first + u64::from(pages);
                    let next = self.write_block(pid, file_number(file), first + index, blocks, keeps);
                    if next == Next::Continue {
                        return self.again(pid, Recorded { position: 2 * (index + 1), ..state });
                    }
                    next
                }
            }
            RecordedAction::Direct { file, first, sectors, writes, queue } => {
                let part = Part { file: file_number(file), first, sectors, writes, queue };
                self.direct_part(pid, part, &mut position)
            }
            RecordedAction::Reap { queue, transfers } => self.reap(pid, queue, transfers, &mut position),
            RecordedAction::Delete { file } => self.delete_blocks(pid, file_number(file), &mut position),
            RecordedAction::Lose { file, first, pages } => {
                self.lose_blocks(file_number(file), u64::from(first), u64::from(pages));
                Next::Continue
            }
            RecordedAction::Metadata { address, dirties, is_present } => {
                let address = self.linux_mut().new_metadata.place(address);
                self.metadata(pid, address, dirties, is_present)
            }
            RecordedAction::LookUp { address } => {
                let address = self.linux_mut().new_metadata.place(address);
                self.look_up_name(pid, address)
            }
            RecordedAction::MetadataAhead { address, pages } => {
                let address = if pages == 1 { self.linux_mut().new_metadata.place(address) } else { address };
                self.metadata_ahead(pid, address, u64::from(pages));
                Next::Continue
            }
            RecordedAction::WriteMetadata { address, pages } => {
                self.write_recorded_metadata(pid, address..address + u64::from(pages), &mut position)
            }
            RecordedAction::Change { blocks } => {
                self.change_metadata(blocks);
                Next::Continue
            }
            RecordedAction::Commit => self.sync_blocks(pid, 0..0, SyncEnd::Commit, &mut position),
            RecordedAction::SyncFile { file, end } => {
                let pages = self.linux().pages_of(file);
                self.sync_blocks(pid, pages, end, &mut position)
            }
            RecordedAction::SyncAll => {
                let end = if self.has_journal { SyncEnd::Commit } else { SyncEnd::Flush };
                self.sync_blocks(pid, 0..FLUSHED - 1, end, &mut position)
            }
            RecordedAction::Start { thread } => {
                if !self.linux().progress[thread as usize].has_started {
                    self.linux_mut().progress[thread as usize].has_started = true;
                    self.fork_process(pid, thread);
                }
                Next::Continue
            }
            RecordedAction::Await { thread, steps } => {
                let progress = &mut self.linux_mut().progress[thread as usize];
                if progress.has_done(steps) {
                    Next::Continue
                } else {
                    progress.waiting.push((steps, pid));
                    Next::Wait(Wait::Process)
                }
            }
            RecordedAction::Poll { time, thread, steps, end, back } => {
                self.poll(pid, (thread, steps), time, (end, back), &mut position)
            }
            RecordedAction::Sleep { time } => {
                if position == 0 && !time.is_zero() {
                    position = 1;
                    self.set_timer(time, pid);
                    Next::Wait(Wait::Time)
                } else {
                    Next::Continue
                }
            }
        };
        self.processes[pid as usize].activity = match (next, then_sync) {
            (Next::Continue, None) => Activity::Fetch,
            (Next::Continue, Some(file)) => {
                Activity::linux(RecordedAction::SyncFile { file, end: SyncEnd::Flush })
            }
            _ => Activity::Recorded(Recorded { position, ..state }),
        };
        next
    }

    /// Waits until a thread has done that many steps: at the ends of a time, or at once if it is zero. The process then goes on with step
    /// `end`, and with one that lies `back` steps back meanwhile.
    fn poll(
        &mut self,
        pid: u32,
        (thread, steps): (u32, u32),
        time: Duration,
        (end, back): (u32, u16),
        position: &mut u64,
    ) -> Next {
        if self.linux_mut().progress[thread as usize].has_done(steps) {
            self.processes[pid as usize].next = end;
            return Next::Continue;
        }
        if time.is_zero() {
            // Who waits for a step of this thread up to the end need not wait for the other thread.
            self.pass(self.processes[pid as usize].definition, end);
            self.linux_mut().progress[thread as usize].waiting.push((steps, pid));
            return Next::Wait(Wait::Process);
        }
        if *position == 0 {
            *position = 1;
            self.set_timer(time, pid);
            return Next::Wait(Wait::Time);
        }
        self.processes[pid as usize].next -= u32::from(back);
        Next::Continue
    }

    /// Returns true if a process sleeps before it looks again whether a thread has got as far, and that thread has not.
    pub(in crate::host) fn repeats_a_poll(&self, process: &Process) -> bool {
        let Activity::Recorded(Recorded {
            action: RecordedAction::Poll { thread, steps, back: 1.., .. },
            ..
        }) = process.activity
        else {
            return false;
        };
        process.state == State::Waiting(Wait::Time) && !self.linux().progress[thread as usize].has_done(steps)
    }

    fn again(&mut self, pid: u32, state: Recorded) -> Next {
        self.processes[pid as usize].activity = Activity::Recorded(state);
        Next::Continue
    }

    /// A thread has done that many steps: threads that waited for them go on.
    fn pass(&mut self, thread: u32, done: u32) {
        let progress = &mut self.linux_mut().progress[thread as usize];
        // A thread that repeats steps has done them.
        progress.done = progress.done.max(done);
        loop {
            let waiting = &mut self.linux_mut().progress[thread as usize].waiting;
            let Some(index) = waiting.iter().position(|(steps, _)| *steps <= done) else { return };
            let (_, pid) = waiting.remove(index);
            self.wake(pid);
        }
    }

    /// A thread has ended: all that waited for it go on.
    pub(in crate::host) fn end_thread(&mut self, thread: u32) {
        let progress = &mut self.linux_mut().progress[thread as usize];
        progress.has_ended = true;
        progress.window = StepWindow::default();
        self.pass(thread, u32::MAX);
    }
}
