//! Faults of devices: what strikes which requests, when, and with what effect. The layer that applies them is
//! [`Fault`](crate::layer::Fault).
//!
//! ```text
//! Preset ─▶ FaultParameters ─▶ Rule ── strike(request, its number, time) ─▶ Strike
//!                               ├─ Selector: which requests
//!                               ├─ Schedule: at what times
//!                               ├─ Action:   the effect
//!                               └─ Gate:     lets pass what the fault does nothing to
//! DeviceClock: the time of a device that stands still or runs slow
//! ```
//! A draw depends on the seed, the name of the fault and the number of the request alone, so another fault moves no
//! draw, and a request that is simulated twice by the emulator meets the same fate.

mod buffered;
mod cap;
mod clock;
mod data;
mod gate;
mod head_unit;
mod ladder;
mod parameters;
mod preset;
mod reach;
mod reference;
mod remapped;
mod rule;
mod schedule;
mod throttle;
mod watch;

pub use clock::DeviceClock;
pub use data::{DataFault, Displacement};
pub use gate::Gate;
pub use parameters::{FaultKind, FaultParameters, FaultTable};
pub(crate) use preset::expanded;
pub use preset::{PRESETS, Preset};
pub use reference::{KindInfo, common_keys, kinds, reference_page};
pub use rule::{Action, Lasting, Length, Rule, RuleState, Strike};
pub use watch::Watch;
