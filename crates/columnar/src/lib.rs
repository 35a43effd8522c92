//! Canonical traces as Parquet: the only crate that names arrow.
