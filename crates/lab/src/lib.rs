//! Common code of the verbs of `seeklab`: from command-line arguments to a run and its results.
//!
//! ```text
//! DEVICE, --set ─▶ devices ─┐
//! W, --closed … ─▶ workload ┼▶ run ─▶ Metrics, trace ─▶ report
//! FILE.toml ─▶ experiment ──┘   (one run for each cell and repetition, on all cores)
//! trace ─▶ fit ─▶ a device, described
//! ```

pub mod calibrate;
pub mod capture;
pub mod compare;
pub mod devices;
pub mod drive;
pub mod emulate;
pub mod experiment;
pub mod failure;
pub mod fit;
mod journal;
pub mod learnt;
pub mod listener;
pub mod output;
pub mod points;
pub mod progress;
pub mod record;
pub mod run;
pub mod series;
pub mod session;
pub mod simulate;
pub mod stop;
pub mod trace;
pub mod trace_notes;
pub mod workload;
