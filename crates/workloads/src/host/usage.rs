//! Times of processes by their state: computing, ready, and each kind of wait.
//!
//! A process that has a CPU computes, except while the CPU switches to it or executes interrupt handlers: then it is
//! ready. The parts add up to the time from the start of the process to its end.

use seeklab_core::Duration;

use super::Host;
use super::process::{State, Wait};

/// Times of the processes of one definition, added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessTimes {
    /// Processes that started.
    pub processes: u64,
    /// Time from the start of each process to its end, or until now.
    pub elapsed: Duration,
    /// CPU time.
    pub computing: Duration,
    /// Time that they could have computed without having a CPU for themselves.
    pub ready: Duration,
    /// Time that they waited.
    pub waits: WaitTimes,
}

/// Times of waits by their kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitTimes {
    /// For a read.
    pub read: Duration,
    /// For a write, a synchronisation among them.
    pub write: Duration,
    /// For memory that is free or clean.
    pub memory: Duration,
    /// For fewer dirty blocks.
    pub dirty_limit: Duration,
    /// For another process: its progress, a lock or a pipe.
    pub process: Duration,
    /// For the end of children.
    pub children: Duration,
    /// For a time. Of the system's own processes: for work.
    pub timer: Duration,
}

impl WaitTimes {
    /// Waits for the device, for memory, or for fewer dirty blocks.
    pub fn io(&self) -> Duration {
        self.read + self.write + self.memory + self.dirty_limit
    }

    /// All waits.
    pub fn sum(&self) -> Duration {
        self.io() + self.process + self.children + self.timer
    }

    fn of_mut(&mut self, wait: Wait) -> &mut Duration {
        match wait {
            Wait::Read => &mut self.read,
            Wait::Write => &mut self.write,
            Wait::Memory => &mut self.memory,
            Wait::DirtyLimit => &mut self.dirty_limit,
            Wait::Process => &mut self.process,
            Wait::Children => &mut self.children,
            Wait::Time => &mut self.timer,
        }
    }
}

/// Adds a time of one of many processes.
fn add(sum: &mut Duration, time: Duration) {
    *sum = sum.saturating_add(time);
}

/// Place of a definition among the times. The system's own processes are the first.
const fn slot(definition: u32) -> usize {
    definition.wrapping_add(1) as usize
}

impl Host {
    /// Times of the syncer or flusher until now.
    pub fn system_times(&self) -> ProcessTimes {
        self.times()[0]
    }

    /// Times of the processes of each definition until now: in the order of the names of a description, or of the threads
    /// of a recording.
    pub fn process_times(&self) -> Vec<ProcessTimes> {
        self.times().split_off(1)
    }

    fn times(&self) -> Vec<ProcessTimes> {
        let mut all = self.usage.clone();
        let now = self.accounts.until;
        for process in &self.processes {
            let (Some(started), times) = (process.started, &mut all[slot(process.definition)]) else {
                continue;
            };
            let time = now.saturating_since(process.since);
            match process.state {
                State::Ended => continue,
                State::Ready => add(&mut times.ready, time),
                State::Waiting(wait) => add(times.waits.of_mut(wait), time),
                State::Running(cpu) => {
                    let computed = process.computed + self.cpus[cpu as usize].computing_time(now);
                    add(&mut times.computing, computed);
                    add(&mut times.ready, time.saturating_sub(computed));
                }
            }
            add(&mut times.elapsed, now.saturating_since(started));
        }
        all
    }

    /// The wait of a process ends, or the process starts.
    pub(super) fn end_wait(&mut self, pid: u32, wait: Wait) {
        let process = &mut self.processes[pid as usize];
        let times = &mut self.usage[slot(process.definition)];
        let time = self.now.saturating_since(process.since);
        process.since = self.now;
        if process.started.is_some() {
            add(times.waits.of_mut(wait), time);
        } else {
            process.started = Some(self.now);
            times.processes += 1;
        }
    }

    /// A process that is ready gets a CPU.
    pub(super) fn take_cpu(&mut self, pid: u32) {
        let process = &mut self.processes[pid as usize];
        let times = &mut self.usage[slot(process.definition)];
        add(&mut times.ready, self.now.saturating_since(process.since));
        process.since = self.now;
    }

    /// A process loses its CPU.
    pub(super) fn leave_cpu(&mut self, pid: u32) {
        let process = &mut self.processes[pid as usize];
        let times = &mut self.usage[slot(process.definition)];
        let computed = std::mem::take(&mut process.computed);
        add(&mut times.computing, computed);
        add(&mut times.ready, self.now.saturating_since(process.since).saturating_sub(computed));
        process.since = self.now;
        if process.state == State::Ended {
            let lived = process.started.map_or(Duration::ZERO, |start| self.now.saturating_since(start));
            add(&mut times.elapsed, lived);
        }
    }
}
