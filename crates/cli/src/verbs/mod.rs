//! One file for each verb.

mod arrivals;
mod criticality;
mod fit_jobs;
mod fit_sweep;
mod frontends;
mod pace;
mod parameters;
mod queue;
mod reading;
mod replay;
mod retries;
mod setup;
mod system_page;
mod trace_remap;
mod trace_report;

use clap::Subcommand;
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;

impl Command {
    /// Returns true if the kernel may never return from a request of this command, so that its process cannot end.
    pub(crate) fn can_be_held(&self) -> bool {
        match self {
            Self::Bench(arguments) => arguments.can_be_held(),
            Self::Experiment(arguments) => arguments.can_be_held(),
            _ => false,
        }
    }

    /// Returns true if nothing of this command has an order in which it ends: a result is written once it is whole.
    pub(crate) const fn only_computes(&self) -> bool {
        matches!(self, Self::Estimate(_))
    }
}

/// Declares the module of each verb, its subcommand and its call, in the order of the help.
macro_rules! verbs {
    ($($(#[doc = $doc:literal])+ $module:ident: $name:ident,)+) => {
        $(mod $module;)+

        /// The verbs of `seeklab`.
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($(#[doc = $doc])+ $name(Box<$module::Arguments>),)+
        }

        impl Command {
            pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
                match self {
                    $(Self::$name(arguments) => arguments.run(session),)+
                }
            }
        }
    };
}

verbs! {
    /// List the catalog, or show one device with its parameters, units and sources.
    devices: Devices,
    /// List the kinds and presets of workloads, or print the keys of a kind.
    workloads: Workloads,
    /// List the kinds and presets of faults, or explain one.
    faults: Faults,
    /// Simulate a workload on one or more devices.
    simulate: Simulate,
    /// Estimate the response times of a workload by arithmetic, before anything runs.
    estimate: Estimate,
    /// Run an experiment: devices or real targets × workloads × schedulers × arrivals × parameters.
    experiment: Experiment,
    /// Run programs on emulated devices and report the run times on each device.
    run: Run,
    /// Cut the power of an emulated device at many moments of one run, and check what survives.
    crash: Crash,
    /// Emulate a device in real time, as a block device, a file or an NBD export.
    serve: Serve,
    /// Measure a real target: a block device, a file or an NBD export.
    bench: Bench,
    /// Measure the time that this machine adds to every emulated request, so that emulation can compensate for
    /// it.
    calibrate: Calibrate,
    /// Record the requests sent to a block device.
    capture: Capture,
    /// Serve a real file or device and record every request to it. Over NBD, this needs no privileges.
    record: Record,
    /// Fit a device model to a trace. The result can be used as a device by every other verb.
    fit: Fit,
    /// Compare the response times of two traces of the same requests, or at two measurement points of one trace.
    compare: Compare,
    /// Describe, convert, cut and rewrite traces.
    trace: Trace,
    /// List the JSON documents that --json prints, or print the JSON schema of one.
    schema: Schema,
}
