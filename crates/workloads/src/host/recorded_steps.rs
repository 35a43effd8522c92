//! Steps of a recorded thread: in memory, or in parts that are read when the thread comes to them.
//!
//! ```text
//! part 7 │ part 12 │ part 31 │ last steps       parts are in a store, in this order; the last steps are in memory
//! ```
//! So a recording may be longer than memory: a host holds one part for each thread that runs.

use std::fmt;
use std::sync::Arc;

use super::recorded::RecordedStep;

/// Number of steps of a part in a store.
pub const PART_STEPS: usize = 1024;

/// A place outside of memory that holds parts of [`PART_STEPS`] steps each.
pub trait StepStore: fmt::Debug + Send + Sync {
    /// Puts the steps of part `number` into `steps`, in place of what it has.
    ///
    /// # Panics
    /// If the part cannot be read.
    fn read(&self, number: u64, steps: &mut Vec<RecordedStep>);
}

/// Steps of a thread, in their order.
#[derive(Debug, Clone, Default)]
pub struct RecordedSteps {
    stored: Option<Stored>,
    /// The steps after those of the store.
    last: Arc<[RecordedStep]>,
}

#[derive(Debug, Clone)]
struct Stored {
    store: Arc<dyn StepStore>,
    /// Numbers of the parts in the store.
    parts: Arc<[u64]>,
}

impl RecordedSteps {
    /// The steps of the parts `parts` of a store, then those of `last`.
    pub fn stored(store: Arc<dyn StepStore>, parts: Vec<u64>, last: Vec<RecordedStep>) -> Self {
        let stored = (!parts.is_empty()).then(|| Stored { store, parts: parts.into() });
        Self { stored, last: last.into() }
    }

    /// Number of steps.
    pub fn len(&self) -> usize {
        self.stored_steps() + self.last.len()
    }

    /// Returns true if there is no step.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The steps in their order.
    pub fn iter(&self) -> Iter<'_> {
        Iter { steps: self, next: 0, window: StepWindow::default() }
    }

    /// The step of that number. `window` holds the part around it for the next call.
    pub(super) fn get(&self, number: usize, window: &mut StepWindow) -> Option<RecordedStep> {
        if let Some(number) = number.checked_sub(self.stored_steps()) {
            return self.last.get(number).copied();
        }
        let Stored { store, parts } = self.stored.as_ref()?;
        let part = number / PART_STEPS;
        if window.part != Some(part) {
            store.read(parts[part], &mut window.steps);
            window.part = Some(part);
        }
        window.steps.get(number % PART_STEPS).copied()
    }

    fn stored_steps(&self) -> usize {
        self.stored.as_ref().map_or(0, |stored| stored.parts.len() * PART_STEPS)
    }
}

impl From<Vec<RecordedStep>> for RecordedSteps {
    fn from(steps: Vec<RecordedStep>) -> Self {
        Self { stored: None, last: steps.into() }
    }
}

impl FromIterator<RecordedStep> for RecordedSteps {
    fn from_iter<T: IntoIterator<Item = RecordedStep>>(steps: T) -> Self {
        Self { stored: None, last: steps.into_iter().collect() }
    }
}

/// Equal steps in the same order are equal, wherever they are.
impl PartialEq for RecordedSteps {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for RecordedSteps {}

/// The part of a store that was read last.
#[derive(Debug, Clone, Default)]
pub(super) struct StepWindow {
    part: Option<usize>,
    steps: Vec<RecordedStep>,
}

/// Steps of a thread, one after the other.
#[derive(Debug)]
pub struct Iter<'a> {
    steps: &'a RecordedSteps,
    next: usize,
    window: StepWindow,
}

impl Iterator for Iter<'_> {
    type Item = RecordedStep;

    fn next(&mut self) -> Option<RecordedStep> {
        let step = self.steps.get(self.next, &mut self.window)?;
        self.next += 1;
        Some(step)
    }
}

impl<'a> IntoIterator for &'a RecordedSteps {
    type Item = RecordedStep;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::Duration;

    use super::*;
    use crate::host::recorded::RecordedAction;

    /// Part `n` has the steps from `n * PART_STEPS` on.
    #[derive(Debug)]
    struct Counting;

    impl StepStore for Counting {
        fn read(&self, number: u64, steps: &mut Vec<RecordedStep>) {
            steps.clear();
            steps.extend((0..PART_STEPS as u64).map(|step| numbered(number * PART_STEPS as u64 + step)));
        }
    }

    fn numbered(ns: u64) -> RecordedStep {
        RecordedStep { computing: Duration::from_ns(ns), action: RecordedAction::None }
    }

    #[test]
    fn steps_of_a_store_equal_those_in_memory() {
        let whole: RecordedSteps = (0..2 * PART_STEPS as u64 + 5).map(numbered).collect();
        let last = (2 * PART_STEPS as u64..2 * PART_STEPS as u64 + 5).map(numbered).collect();
        let stored = RecordedSteps::stored(Arc::new(Counting), vec![0, 1], last);
        assert_eq!((stored.len(), stored.iter().count()), (whole.len(), whole.len()));
        assert_eq!(stored, whole);
        let mut window = StepWindow::default();
        for number in [0, 1, PART_STEPS - 1, PART_STEPS, 2 * PART_STEPS - 1, 2 * PART_STEPS + 4, 3] {
            assert_eq!(stored.get(number, &mut window), Some(numbered(number as u64)), "{number}");
        }
        assert_eq!(stored.get(2 * PART_STEPS + 5, &mut window), None);
        let other = RecordedSteps::stored(Arc::new(Counting), vec![1, 0], Vec::new());
        assert_ne!(other, (0..2 * PART_STEPS as u64).map(numbered).collect());
        assert!(RecordedSteps::stored(Arc::new(Counting), Vec::new(), Vec::new()).is_empty());
    }
}
