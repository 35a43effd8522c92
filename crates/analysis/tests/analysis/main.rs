//! Figures of traces, compared with published ones.

mod measured;
