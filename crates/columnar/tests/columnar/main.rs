//! Parquet and the full list of formats, through the public interface of the crate.

mod documentation;
mod parquet;
mod wanted;
