//! Streaming statistics: one pass, bounded memory, mergeable.

mod distribution;
mod log_histogram;
mod moments;
mod octaves;

pub use distribution::Distribution;
pub use log_histogram::LogHistogram;
pub use moments::Moments;
pub use octaves::{least_of, octave_class};
