//! Fitting tables to a trace, and to the results of a benchmark. The model itself is [`seeklab_devices::table`].

mod fit;
pub mod sweep;

#[cfg(test)]
mod tests;

pub use fit::TableFit;
