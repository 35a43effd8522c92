//! Arrivals as they were given to the model.

use seeklab_core::{Duration, Instant, Request};

/// An arrival as it was handed to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    /// The request.
    pub request: Request,
    /// Time of the arrival at MP2.
    pub arrived: Instant,
    /// Time of the arrival in the model (MP3).
    pub given: Instant,
}

/// Arrivals given to the model later than their arrival at MP2 less the arrival error, by cause of the delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Clamped {
    /// The arrival or change of class before: allowances differ between requests.
    pub by_arrival: u64,
    /// The last final completion.
    pub by_completion: u64,
    /// The synchronous model's clock, which had passed that time, though it was not due yet.
    pub by_model_clock: u64,
    /// The furthest that one was moved.
    pub moved_max: Duration,
    /// Sum of the moves.
    pub moved_total: Duration,
}

impl Clamped {
    /// All of them.
    pub const fn count(&self) -> u64 {
        self.by_arrival + self.by_completion + self.by_model_clock
    }
}
