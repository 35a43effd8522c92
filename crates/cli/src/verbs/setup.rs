//! Options for setting up a device, shared by all verbs that build one.

use std::path::PathBuf;

use clap::Args;
use clap_complete::ArgValueCompleter;
use seeklab_lab::crates::devices::scheduler::SchedulerSpec;
use seeklab_lab::devices::{Faults, Setup};

use crate::completion;

/// Options for setting up a device.
#[derive(Debug, Args)]
pub(crate) struct SetupFlags {
    /// Scheduler of the host's queue in front of the device [default: fcfs, as deep as the device's own queue]
    #[arg(long, value_name = "S", add = ArgValueCompleter::new(completion::scheduler))]
    scheduler: Option<SchedulerSpec>,
    /// Requests that the host lets the device hold at a time [default: 1]
    #[arg(long, value_name = "N", requires = "scheduler", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
    /// Emulate only a disk's mechanics, without overheads, buffer and bus
    #[arg(long)]
    bare: bool,
    /// Set a parameter of the device, by its name or path. Applies after --bare
    #[arg(long = "set", value_name = "KEY=VALUE", add = ArgValueCompleter::new(completion::override_key))]
    overrides: Vec<String>,
    #[command(flatten)]
    faults: FaultFlags,
}

/// Options for the faults of a device.
#[derive(Debug, Args)]
pub(crate) struct FaultFlags {
    /// A fault of the device: a kind or preset, then KEY=VALUE, such as delay,add=20ms,probability=1% or
    /// tail-disk,at=30s. May be given several times; `seeklab faults` lists kinds and presets
    #[arg(long = "fault", value_name = "FAULT", add = ArgValueCompleter::new(completion::fault))]
    fault: Vec<String>,
    /// Faults of the device from a TOML file with a list of tables `fault`, before those of --fault
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
}

impl FaultFlags {
    /// Returns the faults that the options describe.
    pub(crate) fn faults(&self) -> Faults {
        Faults { file: self.faults.clone(), lines: self.fault.clone() }
    }
}

impl SetupFlags {
    /// Returns true if any of the options is given.
    pub(crate) const fn is_given(&self) -> bool {
        let FaultFlags { fault, faults } = &self.faults;
        self.scheduler.is_some()
            || self.bare
            || !self.overrides.is_empty()
            || !fault.is_empty()
            || faults.is_some()
    }

    /// Returns the setup that the options describe.
    pub(crate) fn setup(&self) -> Setup {
        let queue = self.scheduler.map(|scheduler| (scheduler, self.depth.unwrap_or(1) as usize));
        let faults = self.faults.faults();
        Setup { bare: self.bare, overrides: self.overrides.clone(), faults, queue }
    }
}
