//! Fitting tables to a trace, and to the results of a benchmark. The model itself is [`seeklab_devices::table`].

mod fit;
pub mod sweep;

#[cfg(test)]
mod tests;

use crate::fit::Model;

pub use fit::TableFit;

pub(super) const MODEL: Model = Model {
    name: "plain",
    description: "response times from tables, as published",
    leaves_out_warm_up: true,
    carries_waits: true,
    begin: |classes| Ok(Box::new(TableFit::new(classes)?)),
};
