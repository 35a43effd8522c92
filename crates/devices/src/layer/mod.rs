//! Layers: devices that own a device. They stack in any order; the engine knows nothing of them.

mod bank;
mod events;
mod fault;
mod issued;
mod limit;
mod queue;

pub use bank::Bank;
pub(crate) use bank::common;
pub use fault::Fault;
pub use limit::Limit;
pub use queue::{Queue, QueueError, queue_before};
