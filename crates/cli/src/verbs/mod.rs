//! One file for each verb.

mod calibrate;
mod capture;
mod compare;
mod devices;
mod experiment;
mod fit;
mod fit_sweep;
mod pace;
mod queue;
mod reading;
mod record;
mod run;
mod schema;
mod serve;
mod setup;
mod simulate;
mod trace;
mod trace_remap;
mod trace_report;

use clap::Subcommand;
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;

/// The verbs of `seeklab`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the catalog, or show one device with its parameters, units and sources.
    Devices(devices::Arguments),
    /// Simulate a workload on one or more devices.
    Simulate(Box<simulate::Arguments>),
    /// Run an experiment: devices × workloads × schedulers × arrivals × parameters.
    Experiment(experiment::Arguments),
    /// Run programs on emulated devices and report the run times on each device.
    Run(Box<run::Arguments>),
    /// Emulate a device in real time, as a block device, a file or an NBD export.
    Serve(Box<serve::Arguments>),
    /// Measure the time that this machine adds to every emulated request, so that emulation can compensate for
    /// it.
    Calibrate(calibrate::Arguments),
    /// Record the requests sent to a block device.
    Capture(capture::Arguments),
    /// Serve a real file or device and record every request to it. Over NBD, this needs no privileges.
    Record(record::Arguments),
    /// Fit a device model to a trace. The result can be used as a device by every other verb.
    Fit(fit::Arguments),
    /// Compare the response times of two traces of the same requests, or at two measurement points of one trace.
    Compare(compare::Arguments),
    /// Describe, convert, cut and rewrite traces.
    Trace(trace::Arguments),
    /// List the JSON documents that --json prints, or print the JSON schema of one.
    Schema(schema::Arguments),
}

impl Command {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        match self {
            Self::Devices(arguments) => arguments.run(session),
            Self::Simulate(arguments) => arguments.run(session),
            Self::Experiment(arguments) => arguments.run(session),
            Self::Run(arguments) => arguments.run(session),
            Self::Serve(arguments) => arguments.run(session),
            Self::Calibrate(arguments) => arguments.run(session),
            Self::Capture(arguments) => arguments.run(session),
            Self::Record(arguments) => arguments.run(session),
            Self::Fit(arguments) => arguments.run(session),
            Self::Compare(arguments) => arguments.run(session),
            Self::Trace(arguments) => arguments.run(session),
            Self::Schema(arguments) => arguments.run(session),
        }
    }
}
