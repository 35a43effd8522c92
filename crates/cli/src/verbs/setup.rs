//! The flags that say how a device is set up, the same for every verb that builds one.

use clap::Args;
use seeklab_devices::scheduler::SchedulerSpec;
use seeklab_lab::devices::Setup;

/// How a device is set up.
#[derive(Debug, Args)]
pub(crate) struct SetupFlags {
    /// The host's queue in front of the device; fcfs unless said
    #[arg(long, value_name = "S")]
    scheduler: Option<SchedulerSpec>,
    /// Requests that the host lets the device hold at a time; 1 unless said
    #[arg(long, value_name = "N", requires = "scheduler", value_parser = clap::value_parser!(u32).range(1..))]
    depth: Option<u32>,
    /// A disk's mechanics alone: no overheads, buffer or bus
    #[arg(long)]
    bare: bool,
    /// Change a parameter of the device, by its name or path; after --bare
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

impl SetupFlags {
    /// What they ask for.
    pub(crate) fn setup(&self) -> Setup {
        let queue = self.scheduler.map(|scheduler| (scheduler, self.depth.unwrap_or(1) as usize));
        Setup { bare: self.bare, overrides: self.overrides.clone(), queue }
    }
}
