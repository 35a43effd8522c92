//! Job slots: the job that is active in one, its files, and the processor time that it has had.

use seeklab_core::{Duration, Instant, Seed};

use super::file::{Direction, File};
use super::processor::Progress;
use super::spec::JobsSpec;
use super::states::SectorTimes;

/// A job slot.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    job: Option<Job>,
}

/// A job.
#[derive(Debug, Clone)]
struct Job {
    /// Processor time so far.
    progress: Progress,
    input: Flow,
    output: Flow,
    /// The file whose buffer blocks the job, and since when.
    blocked: Option<(Direction, Instant)>,
}

/// A file, and the processor times of its sectors.
#[derive(Debug, Clone)]
struct Flow {
    file: File,
    times: SectorTimes,
    /// Progress at which the next sector is due, or the job has done with the last one. `None` then.
    due: Option<Progress>,
}

impl Slot {
    pub(super) const fn empty() -> Self {
        Self { job: None }
    }

    /// A job that begins: its first input sector is due, its first output sector after the time of one.
    pub(super) fn begin(spec: &JobsSpec, seed: Seed, number: u32) -> Self {
        let (input, mut output) = spec.sector_times(seed, number);
        let first_output = Progress::of(output.next_time());
        let flow = |direction, times, due| {
            let sectors = spec.file_sectors(direction);
            Flow { file: File::new(direction, sectors), times, due: (sectors > 0).then_some(due) }
        };
        Self {
            job: Some(Job {
                progress: Progress::default(),
                input: flow(Direction::Input, input, Progress::default()),
                output: flow(Direction::Output, output, first_output),
                blocked: None,
            }),
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.job.is_none()
    }

    fn job(&self) -> &Job {
        self.job.as_ref().expect("the slot has a job")
    }

    fn job_mut(&mut self) -> &mut Job {
        self.job.as_mut().expect("the slot has a job")
    }

    pub(super) fn file_mut(&mut self, direction: Direction) -> &mut File {
        &mut self.job_mut().flow_mut(direction).file
    }

    /// Returns true if the job can compute.
    pub(super) fn is_ready(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.blocked.is_none() && job.first_due().is_some())
    }

    /// Progress until the next sector is due.
    pub(super) fn until_due(&self) -> Option<Progress> {
        let job = self.job.as_ref()?;
        Some(job.progress.until(job.first_due()?))
    }

    pub(super) fn compute(&mut self, progress: Progress) {
        let job = self.job_mut();
        job.progress = job.progress.plus(progress);
    }

    /// The direction whose next sector is due. Ends of the last input sector are taken note of.
    pub(super) fn due(&mut self) -> Option<Direction> {
        let job = self.job.as_mut()?;
        if job.blocked.is_some() {
            return None;
        }
        let progress = job.progress;
        let is_due = |flow: &Flow| flow.due.is_some_and(|due| due <= progress);
        if is_due(&job.input) && job.input.file.is_exchanged() {
            job.input.due = None;
        }
        if is_due(&job.input) {
            Some(Direction::Input)
        } else if is_due(&job.output) {
            Some(Direction::Output)
        } else {
            None
        }
    }

    /// Sets when the next sector of a direction is due, after one was exchanged.
    pub(super) fn schedule(&mut self, direction: Direction) {
        let flow = self.job_mut().flow_mut(direction);
        let last = flow.due.expect("a sector was due");
        flow.due = match direction {
            // The sector that was taken is computed on, the last one too.
            Direction::Input => Some(last.plus(Progress::of(flow.times.next_time()))),
            Direction::Output if flow.file.is_exchanged() => None,
            Direction::Output => Some(last.plus(Progress::of(flow.times.next_time()))),
        };
    }

    pub(super) fn block(&mut self, direction: Direction, now: Instant) {
        self.job_mut().blocked = Some((direction, now));
    }

    /// Lets the job go on if that file blocks it. Returns how long it was blocked.
    pub(super) fn unblock(&mut self, direction: Direction, now: Instant) -> Option<Duration> {
        let job = self.job.as_mut()?;
        let (_, since) = job.blocked.take_if(|(blocking, _)| *blocking == direction)?;
        Some(now.saturating_since(since))
    }

    /// Returns true if the job has computed to its end and its output is written.
    pub(super) fn is_done(&self) -> bool {
        self.job.as_ref().is_some_and(|job| {
            job.first_due().is_none() && job.output.file.untransferred == 0 && !job.output.file.has_called
        })
    }

    /// Processor time of the job.
    pub(super) fn processor_time(&self) -> Duration {
        self.job().progress.time()
    }
}

impl Job {
    fn flow_mut(&mut self, direction: Direction) -> &mut Flow {
        match direction {
            Direction::Input => &mut self.input,
            Direction::Output => &mut self.output,
        }
    }

    fn first_due(&self) -> Option<Progress> {
        [self.input.due, self.output.due].into_iter().flatten().min()
    }
}
