//! Progress of a task: steps are counted, the listener hears of them now and then, and the stop token is checked.

use crate::failure::Failure;
use crate::listener::TaskListener;
use crate::stop::Stop;

/// Steps between two calls of the listener.
const STRIDE: u64 = 1 << 16;

/// Progress of one task, which ends when this is dropped.
pub struct Progress {
    listener: Box<dyn TaskListener>,
    stop: Stop,
    done: u64,
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Progress").field("done", &self.done).finish_non_exhaustive()
    }
}

impl Progress {
    pub(crate) fn new(listener: Box<dyn TaskListener>, stop: Stop) -> Self {
        Self { listener, stop, done: 0 }
    }

    /// Counts one request or row.
    ///
    /// # Errors
    /// [`Failure::interrupted`] if the caller stopped the work.
    #[inline]
    pub fn step(&mut self) -> Result<(), Failure> {
        self.steps(1)
    }

    /// Counts `count` requests or rows.
    ///
    /// # Errors
    /// [`Failure::interrupted`] if the caller stopped the work.
    #[inline]
    pub fn steps(&mut self, count: u64) -> Result<(), Failure> {
        let strides = self.done / STRIDE;
        self.done += count;
        if self.done / STRIDE > strides { self.tell() } else { Ok(()) }
    }

    /// Counts one step that took long.
    ///
    /// # Errors
    /// [`Failure::interrupted`] if the caller stopped the work.
    pub fn big_step(&mut self) -> Result<(), Failure> {
        self.done += 1;
        self.tell()
    }

    /// The token that stops the task.
    pub(crate) fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Names the step at hand.
    pub fn begin(&mut self, step: &str) {
        self.listener.step(step);
    }

    /// Shows a line of figures.
    pub fn figures(&mut self, text: &str) {
        self.listener.figures(text);
    }

    #[cold]
    fn tell(&mut self) -> Result<(), Failure> {
        self.listener.advance(self.done);
        if self.stop.is_stopped() { Err(Failure::interrupted()) } else { Ok(()) }
    }
}
