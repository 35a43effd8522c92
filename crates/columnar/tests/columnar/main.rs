//! Parquet and the full list of formats, through the public interface of the crate.

#[path = "../../../traces/tests/traces/any_points.rs"]
mod any_points;
mod documentation;
mod parquet;
mod wanted;
