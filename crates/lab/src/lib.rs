//! Common code of the verbs of `seeklab`: from command-line arguments to a run and its results.
//!
//! ```text
//! DEVICE, --set ─▶ devices ─┐
//! W, --closed … ─▶ workload ┼▶ run ─▶ Metrics, trace ─▶ report
//! FILE.toml ─▶ experiment ──┘   (one run for each cell and repetition, on all cores)
//! trace ─▶ fit ─▶ a device, described
//! ```

pub mod bench;
pub mod calibrate;
pub mod capture;
pub mod compare;
pub mod crash;
pub mod descriptions;
pub mod devices;
pub mod documents;
pub mod drive;
pub mod emulate;
mod entry;
pub mod estimate;
pub mod events;
pub mod experiment;
pub mod failure;
pub mod fio_words;
pub mod fit;
pub mod fitted;
pub mod fitted_range;
mod host;
pub mod jobs;
mod journal;
pub mod listener;
pub mod output;
pub mod points;
pub mod progress;
pub mod record;
mod replay_part;
pub mod retries;
pub mod run;
pub mod series;
pub mod session;
pub mod simulate;
pub mod stop;
pub mod system;
pub mod trace;
pub mod trace_notes;
pub mod workload;

/// The crates below, whose types stand in options and results. A program over the laboratory needs no other dependency.
pub mod crates {
    pub use seeklab_analysis as analysis;
    pub use seeklab_bench as bench;
    pub use seeklab_columnar as columnar;
    pub use seeklab_core as core;
    pub use seeklab_devices as devices;
    pub use seeklab_emulator as emulator;
    pub use seeklab_estimate as estimate;
    pub use seeklab_files as files;
    pub use seeklab_learning as learning;
    pub use seeklab_report as report;
    pub use seeklab_stage as stage;
    pub use seeklab_traces as traces;
    pub use seeklab_workloads as workloads;
}
