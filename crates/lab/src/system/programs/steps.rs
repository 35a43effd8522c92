//! Steps of a thread while they are read: the last ones in memory, those before them in parts of a temporary file.
//!
//! ```text
//! part of the file     step 0 │ step 1 │ … │ step 1023 │ end 0 │ end 1 │ … │ end 1023
//! ```
//! A step is four numbers of 64 bits, and its end one more. All threads of a trace share one file, without a name, which goes with
//! the last reader. Traces whose threads have few steps never make it. So memory does not grow with the number of steps.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use seeklab_core::Duration;
use seeklab_workloads::host::{PART_STEPS, RecordedAction, RecordedStep, RecordedSteps, StepStore};

use super::step_code::{COMPUTING_BYTES, STEP_BYTES, decode, encode};

/// Size of the end of a step.
const END_BYTES: usize = 8;

/// Size of a part.
const PART_BYTES: usize = PART_STEPS * (STEP_BYTES + END_BYTES);

/// Steps in memory from which on the first ones go to the file: what the next events may still change stays.
const IN_MEMORY_MAX: usize = 2 * PART_STEPS;

/// The temporary file of a trace.
#[derive(Debug, Default)]
pub(super) struct PartFile {
    file: OnceLock<File>,
    parts: AtomicU64,
    /// The first failure. What the file has is worthless then.
    failure: OnceLock<io::Error>,
}

impl PartFile {
    /// The failure of the file, as a sentence, if there was one.
    pub(super) fn problem(&self) -> Option<String> {
        let error = self.failure.get()?;
        Some(format!(
            "the steps of the trace are held in a file in {}, and it cannot be used: {error}. Name a folder with room for it \
             by TMPDIR",
            std::env::temp_dir().display()
        ))
    }

    /// Writes a part, and returns its number.
    fn append(&self, steps: &[RecordedStep], ends_ns: &[u64]) -> u64 {
        let number = self.parts.fetch_add(1, Ordering::Relaxed);
        let mut bytes = Vec::with_capacity(PART_BYTES);
        steps.iter().for_each(|step| bytes.extend_from_slice(&encode(step)));
        ends_ns.iter().for_each(|end_ns| bytes.extend_from_slice(&end_ns.to_le_bytes()));
        self.with(|file| file.write_all_at(&bytes, number * PART_BYTES as u64));
        number
    }

    /// The steps of a part from number `first` on, into `steps`.
    fn steps(&self, part: u64, first: usize, steps: &mut [RecordedStep]) -> bool {
        let mut bytes = vec![0; steps.len() * STEP_BYTES];
        let is_read = self.with(|file| file.read_exact_at(&mut bytes, step_position(part, first)));
        for (step, code) in steps.iter_mut().zip(bytes.as_chunks().0) {
            *step = decode(code);
        }
        is_read
    }

    fn set_action(&self, part: u64, number: usize, action: RecordedAction) {
        let code = encode(&RecordedStep { action, ..NO_STEP });
        let position = step_position(part, number) + COMPUTING_BYTES as u64;
        self.with(|file| file.write_all_at(&code[COMPUTING_BYTES..], position));
    }

    /// Ends of the steps of a part.
    fn ends_ns(&self, part: u64) -> Vec<u64> {
        let mut bytes = vec![0; PART_STEPS * END_BYTES];
        self.with(|file| file.read_exact_at(&mut bytes, step_position(part, PART_STEPS)));
        bytes.as_chunks().0.iter().map(|end_ns| u64::from_le_bytes(*end_ns)).collect()
    }

    /// Does something with the file. Returns false if that, or something before it, has failed.
    fn with(&self, act: impl FnOnce(&File) -> io::Result<()>) -> bool {
        if self.failure.get().is_some() {
            return false;
        }
        let done = match self.file.get() {
            Some(file) => act(file),
            None => tempfile::tempfile().and_then(|file| act(self.file.get_or_init(|| file))),
        };
        done.map_err(|error| self.failure.set(error)).is_ok()
    }
}

/// Place of a step in the file.
const fn step_position(part: u64, number: usize) -> u64 {
    part * PART_BYTES as u64 + (number * STEP_BYTES) as u64
}

impl StepStore for PartFile {
    fn read(&self, number: u64, steps: &mut Vec<RecordedStep>) {
        steps.resize(PART_STEPS, NO_STEP);
        let is_read = self.steps(number, 0, steps);
        assert!(is_read, "the temporary file of a trace could be read before");
    }
}

const NO_STEP: RecordedStep = RecordedStep { computing: Duration::ZERO, action: RecordedAction::None };

/// Steps of a thread, in the order of their times.
#[derive(Debug)]
pub(super) struct Steps {
    file: Arc<PartFile>,
    /// Numbers of the parts in the file.
    parts: Vec<u64>,
    /// End of the last step of each part.
    part_ends_ns: Vec<u64>,
    /// The steps after those of the file, and the end of each.
    last: Vec<RecordedStep>,
    last_ends_ns: Vec<u64>,
}

impl Steps {
    pub(super) fn new(file: &Arc<PartFile>) -> Self {
        Self {
            file: Arc::clone(file),
            parts: Vec::new(),
            part_ends_ns: Vec::new(),
            last: Vec::new(),
            last_ends_ns: Vec::new(),
        }
    }

    /// Number of steps.
    pub(super) fn len(&self) -> usize {
        self.in_file() + self.last.len()
    }

    /// Appends a step. It ends no earlier than the one before it.
    pub(super) fn push(&mut self, step: RecordedStep, end_ns: u64) {
        let before_ns = self.last_ends_ns.last().or(self.part_ends_ns.last()).copied().unwrap_or(0);
        self.last.push(step);
        self.last_ends_ns.push(end_ns.max(before_ns));
        if self.last.len() == IN_MEMORY_MAX {
            let number = self.file.append(&self.last[..PART_STEPS], &self.last_ends_ns[..PART_STEPS]);
            self.parts.push(number);
            self.part_ends_ns.push(self.last_ends_ns[PART_STEPS - 1]);
            self.last.drain(..PART_STEPS);
            self.last_ends_ns.drain(..PART_STEPS);
        }
    }

    /// Action of a step.
    ///
    /// # Panics
    /// If there is no such step.
    pub(super) fn action(&self, number: usize) -> RecordedAction {
        match number.checked_sub(self.in_file()) {
            Some(number) => self.last[number].action,
            None => {
                let mut step = [NO_STEP];
                self.file.steps(self.parts[number / PART_STEPS], number % PART_STEPS, &mut step);
                step[0].action
            }
        }
    }

    /// Gives a step another action.
    ///
    /// # Panics
    /// If there is no such step.
    pub(super) fn set_action(&mut self, number: usize, action: RecordedAction) {
        match number.checked_sub(self.in_file()) {
            Some(number) => self.last[number].action = action,
            None => self.file.set_action(self.parts[number / PART_STEPS], number % PART_STEPS, action),
        }
    }

    /// Number of steps that have ended by a time.
    pub(super) fn ended_by(&self, time_ns: u64) -> usize {
        let parts = self.part_ends_ns.partition_point(|end_ns| *end_ns <= time_ns);
        let ended = |ends_ns: &[u64]| ends_ns.partition_point(|end_ns| *end_ns <= time_ns);
        let within = match self.parts.get(parts) {
            Some(part) => ended(&self.file.ends_ns(*part)),
            None => ended(&self.last_ends_ns),
        };
        parts * PART_STEPS + within
    }

    /// Number of parts, those in memory among them.
    pub(super) fn parts(&self) -> usize {
        self.parts.len() + 1
    }

    /// Number, step and end of each step of a part.
    pub(super) fn part(&self, part: usize) -> Vec<(usize, RecordedStep, u64)> {
        let (steps, ends_ns) = match self.parts.get(part) {
            Some(part) => {
                let mut steps = vec![NO_STEP; PART_STEPS];
                self.file.steps(*part, 0, &mut steps);
                (steps, self.file.ends_ns(*part))
            }
            None => (self.last.clone(), self.last_ends_ns.clone()),
        };
        let numbered = steps.into_iter().zip(ends_ns).enumerate();
        numbered.map(|(number, (step, end_ns))| (part * PART_STEPS + number, step, end_ns)).collect()
    }

    /// The steps, as a host takes them.
    pub(super) fn finish(self) -> RecordedSteps {
        RecordedSteps::stored(self.file, self.parts, self.last)
    }

    fn in_file(&self) -> usize {
        self.parts.len() * PART_STEPS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(number: u64) -> RecordedStep {
        let action = RecordedAction::Metadata { address: number, dirties: false, is_present: true };
        RecordedStep { computing: Duration::from_ns(number), action }
    }

    #[test]
    fn steps_are_those_that_were_appended_wherever_they_are() {
        let file = Arc::new(PartFile::default());
        let count = 5 * PART_STEPS as u64 + 77;
        let (mut steps, mut other) = (Steps::new(&file), Steps::new(&file));
        for number in 0..count {
            steps.push(numbered(number), 10 * number);
            other.push(numbered(count + number), 7);
        }
        assert!(steps.last.len() < IN_MEMORY_MAX && steps.parts.len() >= 3);
        for number in [0, 1, PART_STEPS - 1, PART_STEPS, 3 * PART_STEPS + 5, count as usize - 1] {
            assert_eq!(steps.action(number), numbered(number as u64).action, "{number}");
            assert_eq!(steps.ended_by(10 * number as u64), number + 1, "{number}");
            assert_eq!(steps.ended_by(10 * number as u64 + 9), number + 1, "{number}");
        }
        let parts: Vec<_> = (0..steps.parts()).flat_map(|part| steps.part(part)).collect();
        let all = (0..count).map(|number| (number as usize, numbered(number), 10 * number));
        assert!(parts.into_iter().eq(all));
        assert_eq!((other.ended_by(6), other.ended_by(7)), (0, count as usize));
        let changed = [3, PART_STEPS + 9, count as usize - 2];
        changed.iter().for_each(|number| steps.set_action(*number, RecordedAction::Commit));
        assert_eq!((steps.len(), file.problem()), (count as usize, None));
        let expected = (0..count).map(|number| match changed.contains(&(number as usize)) {
            true => RecordedStep { action: RecordedAction::Commit, ..numbered(number) },
            false => numbered(number),
        });
        assert!(steps.finish().iter().eq(expected));
        assert!(other.finish().iter().eq((count..2 * count).map(numbered)));
    }

    #[test]
    fn file_that_cannot_be_written_is_a_problem_with_a_hint() {
        let unwritable = OnceLock::from(File::open("/dev/null").unwrap());
        let file = Arc::new(PartFile { file: unwritable, ..PartFile::default() });
        let mut steps = Steps::new(&file);
        (0..IN_MEMORY_MAX as u64 - 1).for_each(|number| steps.push(numbered(number), number));
        assert_eq!(file.problem(), None);
        steps.push(numbered(0), 0);
        let problem = file.problem().expect("nothing can be written");
        assert!(problem.contains("TMPDIR"), "{problem}");
    }

    #[test]
    fn few_steps_need_no_file() {
        let file = Arc::new(PartFile::default());
        let mut steps = Steps::new(&file);
        (0..PART_STEPS as u64).for_each(|number| steps.push(numbered(number), number));
        assert_eq!((steps.ended_by(0), file.file.get().is_some()), (1, false));
        assert_eq!(steps.finish().len(), PART_STEPS);
    }
}
