//! Arrivals as the model saw them.

use seeklab_core::{Duration, Instant, Request};

/// An arrival as it was handed to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    /// The request.
    pub request: Request,
    /// When it arrived at MP2.
    pub arrived: Instant,
    /// When it arrived in the model (MP3).
    pub given: Instant,
}

/// Arrivals that the model saw later than at now less the arrival error, by what held them back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clamped {
    /// The arrival before: allowances differ between requests.
    pub by_arrival: u64,
    /// The last final completion.
    pub by_completion: u64,
    /// What the synchronous model's clock had passed, though it was not due yet.
    pub by_model_clock: u64,
    /// The furthest that one was moved.
    pub moved_max: Duration,
    /// By how much all of them were moved.
    pub moved_total: Duration,
}

impl Clamped {
    /// All of them.
    pub const fn count(&self) -> u64 {
        self.by_arrival + self.by_completion + self.by_model_clock
    }
}
