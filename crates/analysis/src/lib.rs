//! Metrics and comparison of traces.
