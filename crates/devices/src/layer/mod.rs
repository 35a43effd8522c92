//! Layers: devices that own a device. They stack in any order; the engine knows nothing of them.

mod bank;
mod queue;

pub use bank::Bank;
pub use queue::{Queue, QueueError};
