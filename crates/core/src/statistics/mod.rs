//! Streaming statistics: one pass, bounded memory, mergeable.

mod distribution;
mod moments;

pub use distribution::Distribution;
pub use moments::Moments;
