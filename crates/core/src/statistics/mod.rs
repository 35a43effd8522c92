//! Streaming statistics: one pass, bounded memory, mergeable.

mod distribution;
mod log_histogram;
mod moments;

pub use distribution::Distribution;
pub use log_histogram::LogHistogram;
pub use moments::Moments;
