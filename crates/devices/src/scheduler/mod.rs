//! Schedulers: which pending request comes next. Used alike in the host's queue in front of a device
//! and inside a disk; adding one is a file here and a line in [`SCHEDULERS`].

mod criticality;
mod fcfs;
mod nearest;
mod ordered;
mod outward;
mod shortest;
mod spec;
mod sweep;

pub use criticality::CriticalityLook;
pub use fcfs::Fcfs;
pub use nearest::Nearest;
pub use ordered::Address;
pub use shortest::{ShortestPositioning, WeighedPositioning, Weighing};
pub use spec::{SCHEDULERS, SchedulerKind, SchedulerSpec};
pub use sweep::{Sweep, SweepEnd};
