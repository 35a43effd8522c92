//! Schedulers: which pending request comes next. Used alike in the host's queue in front of a device
//! and inside a disk; adding one is a file here and a line in [`SCHEDULERS`].

mod kind;
mod ordered;
mod outward;
mod spec;

pub use kind::{Parameter, SchedulerKind};
pub use ordered::Address;
pub use spec::SchedulerSpec;

/// Declares the module of each family of schedulers and lists its schedulers in order.
macro_rules! schedulers {
    ($($module:ident: $($kind:ident),+;)+) => {
        $(mod $module;)+

        /// THE list of schedulers.
        pub const SCHEDULERS: &[&SchedulerKind] = &[$($(&$module::$kind),+),+];
    };
}

schedulers! {
    fcfs: FCFS;
    nearest: SSTF, VSCAN;
    sweep: LOOK, C_LOOK, SCAN, C_SCAN;
    shortest: SPTF, AGED_SPTF, SPCTF;
    criticality: CRITICALITY_C_LOOK;
}
