//! One job slot, sector by sector, at drives that it shares with the files of other slots.

use std::collections::VecDeque;

use seeklab_core::Stream;
use seeklab_workloads::JobsSpec;
use seeklab_workloads::jobs::{Direction, File, Reactivation, Transfers};

use super::history::{Cycle, History};
use crate::lindsay_ferrari::DriveTimes;

/// Figures of a slot that ran all jobs of the stream.
#[derive(Debug, Clone)]
pub(super) struct Followed {
    /// Time for which the slot was blocked, in seconds.
    pub(super) blocked_s: f64,
    pub(super) calls: u64,
    /// Wait of all calls in the queues of the drives, in seconds.
    pub(super) wait_s: f64,
    /// Pauses and hold times of its files.
    pub(super) history: History,
}

/// Holder of a drive, or one who waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caller {
    /// A file of the followed slot.
    Own(Direction),
    /// A file of another slot.
    Other(usize),
}

/// A file of another slot.
#[derive(Debug, Clone, Copy)]
struct Other {
    direction: Direction,
    cycle: Cycle,
    /// Time of its next call, infinite during a call.
    calls_at_s: f64,
}

/// A drive.
#[derive(Debug, Clone)]
struct Drive {
    queue: VecDeque<Caller>,
    current: Option<Caller>,
    /// End of the current hold of another file, or of the current sectors of an own one; infinite if it is free.
    until_s: f64,
    /// Sectors that are being transferred for an own file.
    sectors: u32,
}

/// A file of the followed slot.
#[derive(Debug, Clone)]
struct Flow {
    file: File,
    /// Number of sectors whose times were used.
    used: usize,
    /// Processor time of the job at which the next sector is due; infinite after the last.
    due_s: f64,
    called_at_s: f64,
    began_at_s: f64,
    ended_at_s: f64,
}

/// Events between two calls that may stop the run.
const STRIDE: u64 = 1 << 16;

/// Events of each other file after which the files are in their steady state, if this slot uses no drive.
const STEADY_EVENTS: u64 = 16;

/// A slot that is followed.
#[derive(Debug)]
pub(super) struct SlotRun<'a> {
    spec: &'a JobsSpec,
    times: DriveTimes,
    share: f64,
    history: &'a History,
    stream: Stream,
    now_s: f64,
    drives: Vec<Drive>,
    others: Vec<Other>,
    /// Processor time of the job.
    processor_s: f64,
    flows: [Flow; 2],
    blocked: Option<(Direction, f64)>,
    /// Time of the last event of this slot, and the events of other files since.
    own_event_s: f64,
    other_events: u64,
    followed: Followed,
}

impl<'a> SlotRun<'a> {
    pub(super) fn new(
        spec: &'a JobsSpec,
        times: DriveTimes,
        share: f64,
        history: &'a History,
        mut stream: Stream,
    ) -> Self {
        let drive = Drive { queue: VecDeque::new(), current: None, until_s: f64::INFINITY, sectors: 0 };
        let slots = spec.multiprogramming - 1;
        let directions = (0..slots).flat_map(|_| [Direction::Input, Direction::Output]);
        let others = directions
            .filter_map(|direction| {
                let cycle = history.draw(direction, &mut stream)?;
                // Files are at different places of their pauses.
                Some(Other { direction, cycle, calls_at_s: cycle.pause_s * stream.unit() })
            })
            .collect();
        let flow = |direction| Flow::new(direction, spec.file_sectors(direction), 0.0);
        Self {
            spec,
            times,
            share,
            history,
            stream,
            now_s: 0.0,
            drives: vec![drive; usize::from(spec.drives)],
            others,
            processor_s: 0.0,
            flows: [flow(Direction::Input), flow(Direction::Output)],
            blocked: None,
            own_event_s: 0.0,
            other_events: 0,
            followed: Followed { blocked_s: 0.0, calls: 0, wait_s: 0.0, history: History::default() },
        }
    }

    /// Runs every job, one after another. `check` is called now and then.
    ///
    /// # Errors
    /// The first error of `check`.
    pub(super) fn follow<E>(
        mut self,
        jobs: &[[Vec<f64>; 2]],
        check: &mut impl FnMut() -> Result<(), E>,
    ) -> Result<Followed, E> {
        let mut events = 0_u64;
        for times in jobs {
            self.begin(times);
            while !self.is_done() {
                self.step(times);
                events += 1;
                if events.is_multiple_of(STRIDE) {
                    check()?;
                }
            }
        }
        Ok(self.followed)
    }

    fn begin(&mut self, times: &[Vec<f64>; 2]) {
        self.processor_s = 0.0;
        self.blocked = None;
        let flow = |direction| Flow::new(direction, self.spec.file_sectors(direction), self.now_s);
        self.flows = [flow(Direction::Input), flow(Direction::Output)];
        if !times[0].is_empty() {
            self.flows[0].due_s = 0.0;
        }
        if let Some(first) = times[1].first() {
            self.flows[1].due_s = *first;
            self.flows[1].used = 1;
        }
        self.call_if_due(Direction::Input);
        self.run_due(times);
    }

    fn is_done(&self) -> bool {
        let [input, output] = &self.flows;
        let is_computed = input.due_s.is_infinite() && output.due_s.is_infinite();
        is_computed && output.file.untransferred == 0 && !output.file.has_called
    }

    /// Goes to the next event.
    fn step(&mut self, times: &[Vec<f64>; 2]) {
        let due_s = self.flows[0].due_s.min(self.flows[1].due_s);
        let computes = self.blocked.is_none() && due_s.is_finite();
        let due_at_s = |run: &Self| run.now_s + (due_s - run.processor_s) / run.share;
        if computes && self.other_events > STEADY_EVENTS * self.others.len() as u64 {
            self.skip_before(due_at_s(self));
        }
        let due_at_s = if computes { due_at_s(self) } else { f64::INFINITY };
        let mut next_s = due_at_s;
        for drive in &self.drives {
            next_s = next_s.min(drive.until_s);
        }
        for other in &self.others {
            next_s = next_s.min(other.calls_at_s);
        }
        debug_assert!(next_s.is_finite(), "something happens next");
        if computes {
            self.processor_s = if next_s == due_at_s {
                due_s
            } else {
                self.processor_s + (next_s - self.now_s) * self.share
            };
        }
        if due_s.is_infinite() {
            // The job has computed, and its last sectors are being written.
            self.followed.blocked_s += next_s - self.now_s;
        }
        self.now_s = next_s;
        self.other_events += 1;
        for index in 0..self.drives.len() {
            if self.drives[index].until_s <= next_s {
                self.transferred(index, times);
            }
        }
        for index in 0..self.others.len() {
            if self.others[index].calls_at_s <= next_s {
                self.others[index].calls_at_s = f64::INFINITY;
                self.enqueue(Caller::Other(index), self.others[index].direction);
            }
        }
        if computes && due_at_s <= next_s {
            self.note_own_event();
            self.run_due(times);
        }
    }

    const fn note_own_event(&mut self) {
        (self.own_event_s, self.other_events) = (self.now_s, 0);
    }

    /// Skips time before the next own event, if only the other files use the drives. As much time as they took to come to
    /// their steady state remains, so that the event comes at any moment of theirs.
    fn skip_before(&mut self, own_event_s: f64) {
        let skipped_s = own_event_s - self.now_s - (self.now_s - self.own_event_s);
        if skipped_s <= 0.0 || self.flows.iter().any(|flow| flow.file.has_called) {
            return;
        }
        self.now_s += skipped_s;
        self.own_event_s += skipped_s;
        self.processor_s += skipped_s * self.share;
        self.drives.iter_mut().for_each(|drive| drive.until_s += skipped_s);
        self.others.iter_mut().for_each(|other| other.calls_at_s += skipped_s);
    }

    /// Carries out the sectors that are due.
    fn run_due(&mut self, times: &[Vec<f64>; 2]) {
        if self.blocked.is_some() {
            return;
        }
        loop {
            let direction = if self.flows[0].due_s <= self.processor_s {
                Direction::Input
            } else if self.flows[1].due_s <= self.processor_s {
                Direction::Output
            } else {
                return;
            };
            let flow = &mut self.flows[direction as usize];
            if flow.file.is_exchanged() {
                // The last sector of the input is computed on.
                flow.due_s = f64::INFINITY;
                continue;
            }
            if !flow.file.exchange(self.spec.buffer) {
                self.blocked = Some((direction, self.now_s));
                return;
            }
            flow.due_s = match times[direction as usize].get(flow.used) {
                Some(time_s) => flow.due_s + time_s,
                None => f64::INFINITY,
            };
            flow.used += 1;
            self.call_if_due(direction);
        }
    }

    fn call_if_due(&mut self, direction: Direction) {
        let (buffer, threshold) = (self.spec.buffer, self.spec.threshold());
        let flow = &mut self.flows[direction as usize];
        if flow.file.needs_call(buffer, threshold) {
            flow.file.has_called = true;
            flow.called_at_s = self.now_s;
            self.followed.calls += 1;
            self.enqueue(Caller::Own(direction), direction);
        }
    }

    fn enqueue(&mut self, caller: Caller, direction: Direction) {
        let drive = match direction {
            Direction::Input => 0,
            Direction::Output => self.drives.len() - 1,
        };
        self.drives[drive].queue.push_back(caller);
        self.start_next(drive);
    }

    /// Gives a free drive to the first caller.
    fn start_next(&mut self, index: usize) {
        if self.drives[index].current.is_some() {
            return;
        }
        let Some(caller) = self.drives[index].queue.pop_front() else { return };
        self.drives[index].current = Some(caller);
        match caller {
            Caller::Other(other) => self.drives[index].until_s = self.now_s + self.others[other].cycle.hold_s,
            Caller::Own(direction) => {
                let flow = &mut self.flows[direction as usize];
                flow.began_at_s = self.now_s;
                self.followed.wait_s += self.now_s - flow.called_at_s;
                let sectors = match self.spec.transfers {
                    Transfers::Chained => 1,
                    Transfers::SizedAtStart => flow.file.transferable(self.spec.buffer),
                };
                self.drives[index].sectors = sectors;
                let transfer_s = f64::from(sectors) * self.times.sector_s;
                self.drives[index].until_s = self.now_s + self.times.access_s + transfer_s;
            }
        }
    }

    /// Takes over what a drive has transferred.
    fn transferred(&mut self, index: usize, times: &[Vec<f64>; 2]) {
        let direction = match self.drives[index].current.expect("the drive transfers") {
            Caller::Other(other) => {
                let direction = self.others[other].direction;
                let cycle = self.history.draw(direction, &mut self.stream).expect("it has a history");
                self.others[other] = Other { direction, cycle, calls_at_s: self.now_s + cycle.pause_s };
                self.release(index);
                return;
            }
            Caller::Own(direction) => direction,
        };
        self.note_own_event();
        let sectors = self.drives[index].sectors;
        let flow = &mut self.flows[direction as usize];
        flow.file.transferred(sectors);
        let goes_on =
            self.spec.transfers == Transfers::Chained && flow.file.transferable(self.spec.buffer) > 0;
        flow.file.has_called = goes_on;
        if goes_on {
            self.drives[index].until_s = self.now_s + self.times.sector_s;
        } else {
            let pause_s = flow.called_at_s - flow.ended_at_s;
            let hold_s = self.now_s - flow.began_at_s;
            flow.ended_at_s = self.now_s;
            self.followed.history.push(direction, Cycle { pause_s, hold_s });
            self.release(index);
        }
        if (!goes_on || self.spec.reactivation == Reactivation::Sector)
            && let Some((_, since_s)) = self.blocked.take_if(|(blocking, _)| *blocking == direction)
        {
            self.followed.blocked_s += self.now_s - since_s;
            self.run_due(times);
        }
        if !goes_on {
            self.call_if_due(direction);
        }
    }

    fn release(&mut self, index: usize) {
        self.drives[index].current = None;
        self.drives[index].until_s = f64::INFINITY;
        self.start_next(index);
    }
}

impl Flow {
    const fn new(direction: Direction, cycles: u64, now_s: f64) -> Self {
        Self {
            file: File::new(direction, cycles),
            used: 0,
            due_s: f64::INFINITY,
            called_at_s: now_s,
            began_at_s: now_s,
            ended_at_s: now_s,
        }
    }
}
