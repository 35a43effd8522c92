//! The jobs of a stream and their drives, whoever the processor is.
//!
//! The caller gives ready jobs processor time, sends the requests, and says when they complete. A simulated processor is
//! one caller, a runner on a real processor another.

use std::collections::VecDeque;

use seeklab_core::{DescriptionError, Duration, Instant, Mistake, Operation, Request, Seed, Stream};

use super::drive::{Call, Drive};
use super::figures::JobsFigures;
use super::file::Direction;
use super::processor::Progress;
use super::slot::Slot;
use super::spec::{JobsSpec, Reactivation, Transfers};
use crate::synthetic::AddressSpace;

/// The jobs of a stream, and the calls at their drives.
#[derive(Debug, Clone)]
pub struct JobSet {
    spec: JobsSpec,
    seed: Seed,
    threshold: u32,
    now: Instant,
    slots: Vec<Slot>,
    drives: Vec<Drive>,
    /// Blocks of a sector.
    sector_blocks: u32,
    /// Sectors of the device.
    device_sectors: u64,
    /// Places of the calls on the drives.
    places: Stream,
    requests: VecDeque<Request>,
    requests_made: u64,
    jobs_begun: u32,
    /// Work of the system that no one has taken.
    system_time: Duration,
    figures: JobsFigures,
}

impl JobSet {
    /// The jobs of that description for that device, at time zero.
    ///
    /// # Errors
    /// [`DescriptionError`], if a quantity is out of range or does not fit the device.
    pub fn new(spec: &JobsSpec, target: AddressSpace, seed: Seed) -> Result<Self, DescriptionError> {
        spec.check()?;
        let sector_blocks = u32::try_from(target.blocks(spec.sector, "sector")?).unwrap_or(u32::MAX);
        let device_sectors = target.capacity_blocks / u64::from(sector_blocks);
        // A call transfers the rest of a file at most. One sector more keeps it apart from the call before.
        for (key, direction) in [("cycles", Direction::Input), ("output_cycles", Direction::Output)] {
            let sectors = spec.file_sectors(direction);
            if device_sectors < sectors + 2 {
                return Err(DescriptionError::new(
                    Mistake::DoesNotFit,
                    key,
                    format!("files of {sectors} sectors do not fit a device of {device_sectors}"),
                ));
            }
        }
        let mut jobs = Self {
            threshold: spec.threshold(),
            seed,
            now: Instant::ZERO,
            slots: Vec::new(),
            drives: (0..spec.drives).map(|_| Drive::new()).collect(),
            sector_blocks,
            device_sectors,
            places: seed.stream("jobs.places"),
            requests: VecDeque::new(),
            requests_made: 0,
            jobs_begun: 0,
            system_time: Duration::ZERO,
            figures: JobsFigures::new(spec.drives),
            spec: spec.clone(),
        };
        for number in 0..spec.multiprogramming {
            jobs.slots.push(Slot::empty());
            jobs.begin_job(number as usize);
        }
        Ok(jobs)
    }

    /// Figures so far, without the elapsed time and the processor time of the system.
    pub const fn figures(&self) -> &JobsFigures {
        &self.figures
    }

    /// Returns true if every job has ended.
    pub fn is_finished(&self) -> bool {
        self.slots.iter().all(Slot::is_empty)
    }

    /// Slots whose job can compute.
    pub fn ready(&self) -> impl Iterator<Item = usize> {
        self.slots.iter().enumerate().filter(|(_, slot)| slot.is_ready()).map(|(number, _)| number)
    }

    /// Returns true if the job in a slot can compute.
    pub fn is_ready(&self, slot: usize) -> bool {
        self.slots[slot].is_ready()
    }

    /// Returns true if a slot has a job. A slot without one stays empty.
    pub fn has_job(&self, slot: usize) -> bool {
        !self.slots[slot].is_empty()
    }

    /// Progress until the next sector of the job in a slot is due.
    pub fn until_due(&self, slot: usize) -> Option<Progress> {
        self.slots[slot].until_due()
    }

    /// Gives the job in a slot processor time.
    pub fn compute(&mut self, slot: usize, progress: Progress) {
        self.slots[slot].compute(progress);
    }

    /// Gives every ready job the same processor time.
    pub fn compute_all(&mut self, progress: Progress) {
        self.slots.iter_mut().filter(|slot| slot.is_ready()).for_each(|slot| slot.compute(progress));
    }

    /// Carries out every sector that is due at `now`.
    pub fn run_ready(&mut self, now: Instant) {
        for slot in 0..self.slots.len() {
            self.run(slot, now);
        }
    }

    /// Carries out every sector of the job in a slot that is due at `now`. A blocked job has none.
    pub fn run(&mut self, slot: usize, now: Instant) {
        self.now = now;
        if self.slots[slot].is_ready() {
            self.run_due(slot);
        }
    }

    /// The next request to send. Each drive has one outstanding at a time.
    pub fn next_request(&mut self) -> Option<Request> {
        self.requests.pop_front()
    }

    /// Takes over the outstanding request of a drive, which completes at `now`.
    pub fn complete(&mut self, drive: usize, now: Instant) {
        self.now = now;
        self.take_over(drive);
    }

    /// Counts a request that failed.
    pub fn count_failure(&mut self, is_failed: bool) {
        self.figures.failed_requests += u64::from(is_failed);
    }

    /// Processor time that the system has needed since the last call of this function.
    pub fn take_system_time(&mut self) -> Duration {
        std::mem::take(&mut self.system_time)
    }

    /// Starts the next job of the stream in a slot, if there is one.
    fn begin_job(&mut self, slot: usize) {
        if self.jobs_begun == self.spec.jobs {
            self.slots[slot] = Slot::empty();
            self.figures.is_finished = self.is_finished();
            return;
        }
        self.slots[slot] = Slot::begin(&self.spec, self.seed, self.jobs_begun);
        self.jobs_begun += 1;
        self.call_if_due(slot, Direction::Input);
        self.run_due(slot);
    }

    /// Carries out every sector of a job that is due now, until the job has to compute or is blocked.
    fn run_due(&mut self, slot: usize) {
        while let Some(direction) = self.slots[slot].due() {
            let file = self.slots[slot].file_mut(direction);
            if !file.exchange(self.spec.buffer) {
                self.slots[slot].block(direction, self.now);
                return;
            }
            self.slots[slot].schedule(direction);
            self.call_if_due(slot, direction);
        }
        self.end_job_if_done(slot);
    }

    /// Ends a job whose files are complete.
    fn end_job_if_done(&mut self, slot: usize) {
        if self.slots[slot].is_done() {
            self.figures.jobs += 1;
            self.figures.job_processor += self.slots[slot].processor_time();
            self.begin_job(slot);
        }
    }

    /// Calls the drive for a file whose buffer has reached the threshold.
    fn call_if_due(&mut self, slot: usize, direction: Direction) {
        let (buffer, threshold) = (self.spec.buffer, self.threshold);
        let file = self.slots[slot].file_mut(direction);
        if !file.needs_call(buffer, threshold) {
            return;
        }
        file.has_called = true;
        let drive = self.drive_of(direction);
        self.system_time += self.spec.call_time;
        self.figures.calls[drive] += 1;
        self.drives[drive].queue.push_back(Call { slot, direction });
        self.start_next_call(drive);
    }

    const fn drive_of(&self, direction: Direction) -> usize {
        match direction {
            Direction::Input => 0,
            Direction::Output => self.spec.drives as usize - 1,
        }
    }

    /// Gives a free drive to the first call that waits.
    fn start_next_call(&mut self, drive: usize) {
        if self.drives[drive].current.is_some() {
            return;
        }
        let Some(call) = self.drives[drive].queue.pop_front() else { return };
        self.drives[drive].current = Some(call);
        let rest = self.slots[call.slot].file_mut(call.direction).untransferred;
        let places = self.device_sectors - rest - 1;
        let mut place = self.places.below(places.max(1));
        if self.drives[drive].next_sector == Some(place) {
            place += 1;
        }
        self.drives[drive].next_sector = Some(place);
        self.send(drive, call);
    }

    /// Sends the next request of a call: a sector, or what the buffer holds.
    fn send(&mut self, drive: usize, call: Call) {
        let sectors = match self.spec.transfers {
            Transfers::Chained => 1,
            Transfers::SizedAtStart => {
                let buffer = self.spec.buffer;
                self.slots[call.slot].file_mut(call.direction).transferable(buffer)
            }
        };
        let place = self.drives[drive].next_sector.expect("a call has a place");
        self.drives[drive].next_sector = Some(place + u64::from(sectors));
        self.drives[drive].sent = sectors;
        let op = match call.direction {
            Direction::Input => Operation::Read,
            Direction::Output => Operation::Write,
        };
        let (lbn, blocks) = (place * u64::from(self.sector_blocks), sectors * self.sector_blocks);
        let request = Request::new(self.requests_made, op, lbn, blocks);
        self.requests_made += 1;
        self.system_time += self.spec.sector_time * u64::from(sectors);
        self.requests.push_back(Request { device: drive as u16, initiator: call.slot as u32, ..request });
    }

    /// Takes over the sectors of a request that is complete, and goes on with its call or ends it.
    fn take_over(&mut self, drive: usize) {
        let call = self.drives[drive].current.expect("a request of the drive completes");
        let sectors = self.drives[drive].sent;
        let buffer = self.spec.buffer;
        self.figures.sectors += u64::from(sectors);
        let file = self.slots[call.slot].file_mut(call.direction);
        file.transferred(sectors);
        let goes_on = self.spec.transfers == Transfers::Chained && file.transferable(buffer) > 0;
        file.has_called = goes_on;
        if !goes_on {
            self.drives[drive].current = None;
        }
        if !goes_on || self.spec.reactivation == Reactivation::Sector {
            self.reactivate(call);
        }
        if goes_on {
            self.send(drive, call);
        } else {
            self.call_if_due(call.slot, call.direction);
            self.start_next_call(drive);
            self.end_job_if_done(call.slot);
        }
    }

    /// Lets a job run again that was blocked at the file of a call.
    fn reactivate(&mut self, call: Call) {
        let now = self.now;
        if let Some(time) = self.slots[call.slot].unblock(call.direction, now) {
            self.figures.blocked += time;
            self.run_due(call.slot);
        }
    }
}
