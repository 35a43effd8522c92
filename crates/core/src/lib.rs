//! The spine of seeklab: what every technique of evaluating storage shares.
//!
//! ```text
//!    Workload ──requests──▶ Device (layers ▸ layers ▸ model) ──completions──▶ Workload
//!                                                     │
//!                                                     ▼
//!                                              TraceRecord ──▶ metrics, comparison, report
//! ```
//!
//! A [`Device`] is a pure state machine with time as an argument; a [`Workload`] decides when the
//! next request arrives; [`simulate()`] drives one with the other as fast as possible.
//!
//! # Scope and limits
//! No I/O, no threads, no `unsafe`, no wall clock, no randomness from the operating system, no data
//! bytes. Time is unsigned integer nanoseconds ([`Instant`], [`Duration`]) and ends after 584 years.

pub mod blocks;
pub mod completion;
mod coverage;
pub mod description;
pub mod device;
pub mod effect;
pub mod event;
mod fault_set;
pub mod hazards;
pub mod host;
pub mod names;
pub mod number_words;
pub mod points;
pub mod random;
pub mod reclassification;
pub mod record;
pub mod request;
pub mod scheduler;
mod simulate;
pub mod statistics;
pub mod units;
pub mod workload;

pub use blocks::BlockSet;
pub use completion::{Breakdown, BufferOutcome, Completion, Outcome, Status};
pub use coverage::{Coverage, RegionBound, RegionBounds, RegionSide};
pub use description::{DescriptionError, Mistake};
pub use device::{Capabilities, Device, Estimate, Location, Positioning, Rejected};
pub use effect::{DataEffect, Effect};
pub use event::{Event, EventKind, OnMedia};
pub use fault_set::FaultSet;
pub use hazards::{Absence, FaultWindow, Hazards, Tearing, TornContents};
pub use host::{HostRequest, ProcessName};
pub use points::{MeasurementPoints, MissCause};
pub use random::{Chance, NumberedStreams, Seed, Stream};
pub use reclassification::{ClassHistory, ClassLedger, ClassTimes, Reclassification};
pub use record::{ArrivalOrder, TraceRecord};
pub use request::{Criticality, Operation, Request, RequestId};
pub use scheduler::{Pending, Scheduler};
pub use simulate::{Limits, RunSummary, Simulation, SimulationError, simulate};
pub use units::{
    Angle, AngleStep, ByteSize, DataRate, Duration, Instant, QuantityError, Ratio, RotationSpeed,
    SignedDuration,
};
pub use workload::{Arrival, Workload};
