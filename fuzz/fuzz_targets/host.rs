//! Reading the description of a workload, and running its host for some events.
#![no_main]

use seeklab_core::Seed;
use seeklab_fuzz::{TARGET, run_host};
use seeklab_workloads::{Host, WorkloadSpec};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(WorkloadSpec::Host(spec)) = WorkloadSpec::from_toml(text)
        && let Ok(host) = Host::new(&spec, TARGET, Seed(1))
    {
        run_host(host);
    }
});
