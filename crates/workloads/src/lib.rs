//! Workloads: sources of requests. A workload decides when the next request arrives and which request it is.
//!
//! ```text
//!   TOML file ─┐                    ┌─▶ Synthetic ─┐
//!              ├─▶ WorkloadSpec ────┤              ├─▶ impl Workload ──requests──▶ Device
//!   one line ──┘   (text, units)    └─▶ Replay ────┘        ▲                        │
//!                                        ▲                  └──────completions───────┘
//!                                   trace records
//! ```
//!
//! A [`Synthetic`] workload draws its requests from distributions; a [`Replay`] takes them from a trace. A
//! [`Host`] and a [`JobStream`] run processes, whose requests depend on completions.
//! The first two may be *open* (arrivals ignore completions) or *closed* (a completion brings the next arrival). The
//! [`registry`] lists the kinds, the [`presets`] name ready-made workloads, and [`text`] documents the
//! one-line form of a workload.
//!
//! ```
//! use seeklab_core::{Arrival, ByteSize, Instant, Seed, Workload};
//! use seeklab_workloads::{Supplied, Synthetic, SyntheticSpec, AddressSpace};
//!
//! let spec = SyntheticSpec::parse("random,size=8KiB,constant=100/s,requests=2")?;
//! let target = AddressSpace { capacity_blocks: 1 << 20, block_size: ByteSize::from_bytes(512) };
//! let mut workload = Synthetic::new(&spec, target, Seed(1), Supplied::default())?;
//!
//! let first = Instant::from_ns(10_000_000);
//! assert_eq!(workload.next_arrival(Instant::ZERO), Arrival::At(first));
//! let Arrival::Request(request) = workload.next_arrival(first) else { unreachable!() };
//! assert_eq!(request.blocks, 16);
//! # Ok::<(), seeklab_core::DescriptionError>(())
//! ```
//!
//! # Scope and limits
//! No I/O: the caller opens the trace and hands its records over, one at a time. A workload never
//! reads a clock, and its draws follow from a [`Seed`](seeklab_core::Seed) alone.

pub mod application;
pub mod host;
pub mod jobs;
pub mod presets;
mod rate;
pub mod reference;
pub mod registry;
pub mod replay;
mod retrying;
mod spec;
pub mod synthetic;
pub mod text;

pub use application::Builtin;
pub use host::{Host, HostSpec};
pub use jobs::{JobStream, JobsSpec};
pub use rate::Rate;
pub use replay::{Replay, ReplaySpec};
pub use retrying::{Retries, RetryCounts, Retrying};
pub use spec::WorkloadSpec;
pub use synthetic::{AddressSpace, Supplied, Synthetic, SyntheticSpec};
