//! A rotating disk.
//!
//! ```text
//! requests ─▶ command queue ─▶ electronics (overheads, buffer, bus) ─▶ mechanism (arm, heads, platters)
//!             scheduler         one command at a time, closed form      layout: LBN ◀▶ place
//! ```
//! Commands are computed when they begin, in closed form: background work (read-ahead, destaging) is
//! a function of time that is brought up to date then, so there is no event for a sector.
//!
//! # Scope and limits
//! See `docs/models/disk.md`: what is modelled, what it was compared with, and how it came out.
//!
//! # References
//! \[RW94\] C. Ruemmler, J. Wilkes: An introduction to disk drive modeling. IEEE Computer 27(3), 1994.
//! \[DS4\] J. Bucy et al.: The DiskSim simulation environment version 4.0. CMU-PDL-08-101, 2008.

mod angles;
mod buffer_law;
mod device;
mod divisor;
pub mod electronics;
mod geometry;
mod law;
mod layout;
mod mechanics;
mod mechanism;
mod params;
mod seek;
mod spindle;
mod tracks;
mod watched;

pub use device::{Disk, DiskBlueprint};
pub use electronics::ElectronicsParameters;
pub use geometry::{Alternation, AngleSteps, Geometry, Mapping, Sparing, ZoneParameters};
pub use layout::{Extent, Layout, PhysicalBlock};
pub use mechanism::{AccessParts, Arm, Mechanism, Pass};
pub use params::{DiskParameters, MechanicsParameters, QueueParameters};
pub use seek::SeekCurve;
pub use spindle::Spindle;
