//! Times of an emulated request outside the model.
//!
//! ```text
//!  mp1_arrival ─▶ mp2_arrival ─▶ arrival ══ model (MP3) ══ completion
//!                                                              │ less the early-completion allowance
//!  mp1_completion ◀── mp2_completion ◀── lateness ── mp2_due ◀─┘
//!  host               where the emulator meets the host
//! ```
//! All times are on one clock (CLOCK_MONOTONIC, counted from the start of the run), so arrivals and
//! completions can be compared separately. The times in the model (MP3) are those of the
//! [`TraceRecord`](crate::TraceRecord) itself.
//!
//! # References
//! J. L. Griffin, Timing-accurate storage emulation, CMU, 2004: section 5.2.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Instant;

/// The stamps of one request outside the model; what was not measured is `None`.
///
/// Where the host split or merged requests, all that stand for one request of the host carry the same
/// pair of stamps at MP1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MeasurementPoints {
    /// Time at which the host issued the request (MP1).
    pub mp1_arrival: Option<Instant>,
    /// Time at which the host recorded the completion of the request (MP1).
    pub mp1_completion: Option<Instant>,
    /// Time at which the read that delivered the request to the emulator returned (MP2).
    pub mp2_arrival: Option<Instant>,
    /// Time at which the reply was due: the model's completion less the early-completion allowance.
    pub mp2_due: Option<Instant>,
    /// Time just before the reply was written (MP2).
    pub mp2_completion: Option<Instant>,
    /// Reason why the reply left too late, if it did.
    pub miss_cause: Option<MissCause>,
}

impl MeasurementPoints {
    /// Nothing was measured outside the model.
    pub const NONE: Self = Self {
        mp1_arrival: None,
        mp1_completion: None,
        mp2_arrival: None,
        mp2_due: None,
        mp2_completion: None,
        miss_cause: None,
    };

    /// Arrival and completion in the host, where both are known.
    pub fn mp1(&self) -> Option<(Instant, Instant)> {
        self.mp1_arrival.zip(self.mp1_completion)
    }

    /// Arrival and completion where the emulator meets the host, where both are known.
    pub fn mp2(&self) -> Option<(Instant, Instant)> {
        self.mp2_arrival.zip(self.mp2_completion)
    }
}

/// Reason why a deadline was missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissCause {
    /// The pacer called the model in time, and the model took until after the due time.
    ModelTooSlow,
    /// The store had not brought the data, or had not made it durable.
    DataNotThere,
    /// The request came after its answer was due, the loop was busy with others, or the reply took long.
    Transport,
    /// The kernel ran something else: the loop was not woken in time, or was off the processor for most of a late step.
    KernelScheduling,
    /// For most of the time by which it is late, the reply was offered and the client did not take it.
    ClientNotReading,
}

impl MissCause {
    /// Every cause, in the order of the steps.
    pub const ALL: [Self; 5] = [
        Self::ModelTooSlow,
        Self::DataNotThere,
        Self::Transport,
        Self::KernelScheduling,
        Self::ClientNotReading,
    ];

    /// The name in traces and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ModelTooSlow => "model_too_slow",
            Self::DataNotThere => "data_not_there",
            Self::Transport => "transport",
            Self::KernelScheduling => "kernel_scheduling",
            Self::ClientNotReading => "client_not_reading",
        }
    }
}
