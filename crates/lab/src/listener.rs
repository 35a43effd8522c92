//! Progress and notes for a caller of the laboratory while work goes on.

use seeklab_traces::Position;

/// Receives progress and notes. Every method has a default that does nothing.
pub trait Listener: Send + Sync {
    /// A task begins. The task ends when the returned value is dropped.
    fn begin(&self, _task: &Task) -> Box<dyn TaskListener> {
        Box::new(Unheard)
    }

    /// A remark or warning that belongs to no result.
    fn note(&self, _note: &Notice) {}
}

/// Receives the progress of one task.
pub trait TaskListener: Send {
    /// The number of steps done so far, at most a few times per second.
    fn advance(&mut self, _steps: u64) {}

    /// The step at hand, for tasks of few long steps.
    fn step(&mut self, _name: &str) {}

    /// A line of figures of a task that has no end, such as a served device. Replaces the line before.
    fn figures(&mut self, _text: &str) {}
}

/// A task that takes longer than a moment.
#[derive(Debug, Clone)]
pub struct Task {
    /// The work, such as `fitting`, or the name of a file.
    pub name: String,
    /// The measure of its progress.
    pub measure: Measure,
}

/// The measure of a task's progress.
#[derive(Debug, Clone)]
pub enum Measure {
    /// Requests or rows, of so many if the number is known.
    Requests(Option<u64>),
    /// The share of a trace that was read.
    Trace(Position),
    /// A few steps that take long each.
    Steps(u64),
    /// Nothing but the time.
    Time,
    /// No end: figures are shown until the task is stopped.
    Figures,
}

/// A remark or warning outside of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// True of a warning, false of a remark.
    pub is_warning: bool,
    /// One or more sentences.
    pub text: String,
}

/// The listener that hears nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unheard;

impl Listener for Unheard {}

impl TaskListener for Unheard {}
