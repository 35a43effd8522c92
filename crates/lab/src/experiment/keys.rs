//! Keys of an experiment file that do not go together: those of simulations and those of measurements.
//!
//! | places | loads | |
//! | --- | --- | --- |
//! | `devices` | `workloads` | simulated |
//! | `targets` | `workloads`, `plans` or both | measured |
//! | none | `plans`, which name their own targets | measured |

use seeklab_bench::target::TargetKind;
use seeklab_core::{DescriptionError, Mistake};

use super::file::ExperimentFile;
use super::targets::NamedTarget;

/// Prefix of the name of a workload's parameter.
pub(super) const WORKLOAD: &str = "workload.";

/// Refuses keys that are missing, and keys that have no meaning beside another one.
pub(super) fn check(file: &ExperimentFile) -> Result<(), DescriptionError> {
    let measured = match (&file.targets, &file.plans) {
        (Some(_), _) => Some("targets"),
        (None, Some(_)) => Some("plans"),
        (None, None) => None,
    };
    match (measured, &file.devices) {
        (Some(key), Some(_)) => Err(DescriptionError::invalid(key, "stands beside `devices`")
            .hint("devices are simulated, and targets are measured; a target may be model:DEVICE")),
        (None, None) => Err(missing(
            "devices",
            "write for example devices = [\"hp-c2247a\"], or targets = [\"model:hp-c2247a\"] to measure",
        )),
        (None, Some(_)) => check_simulation(file),
        (Some(_), None) => check_measurement(file),
    }
}

fn missing(key: &str, hint: &str) -> DescriptionError {
    DescriptionError::new(Mistake::Missing, key, "is missing").hint(hint)
}

fn check_simulation(file: &ExperimentFile) -> Result<(), DescriptionError> {
    if file.workloads.is_none() {
        return Err(missing("workloads", "write for example workloads = [\"random,poisson=60/s\"]"));
    }
    let timed = [("duration", file.duration.is_some()), ("ramp", file.ramp.is_some())];
    match timed.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((key, _)) => {
            Err(DescriptionError::invalid(key, "is for measurements, and `devices` are simulated")
                .hint("limit a simulation by `requests`, or name `targets` in place of `devices`"))
        }
    }
}

fn check_measurement(file: &ExperimentFile) -> Result<(), DescriptionError> {
    if file.workloads.is_none() && file.plans.is_none() {
        let hint =
            "write for example workloads = [\"random,read=100%,closed=4\"], or plans = [\"plan.toml\"]";
        return Err(missing("workloads", hint));
    }
    if file.workloads.is_some() && file.targets.is_none() {
        let hint = "name the targets of the workloads, for example targets = [\"model:hp-c2247a\"]; only a plan may have its own";
        return Err(missing("targets", hint));
    }
    if file.max_outstanding.is_some() {
        let error =
            DescriptionError::invalid("max_outstanding", "is for simulations, and targets are measured");
        return Err(
            error.hint("requests that wait are counted; `outstanding_max` of a plan limits those under way")
        );
    }
    if file.plans.is_none() {
        return Ok(());
    }
    let in_plan = [
        ("arrivals", file.arrivals.is_some()),
        ("requests", file.requests.is_some()),
        ("duration", file.duration.is_some()),
        ("ramp", file.ramp.is_some()),
    ];
    let of_load = file.parameters.iter().position(|parameter| parameter.name.starts_with(WORKLOAD));
    let given = in_plan.into_iter().find(|(_, is_given)| *is_given).map(|(key, _)| key.to_owned());
    match given.or_else(|| Some(format!("parameters[{}].name", of_load?))) {
        None => Ok(()),
        Some(key) => {
            Err(DescriptionError::invalid(key, "stands beside `plans`, which have that in each phase")
                .hint("write it in the plans, or measure the workloads in an experiment of their own"))
        }
    }
}

/// Returns words on targets that are no models; `None` if all are models.
pub(super) fn other_than_models(targets: &[NamedTarget]) -> Option<String> {
    let is_other = |target: &&NamedTarget| !TargetKind::of(&target.choice.address).0.is_model;
    match targets.iter().find(is_other) {
        Some(target) => Some(format!("and `{}` is none", target.choice.address)),
        None => targets.is_empty().then(|| "and the plans have targets of their own".to_owned()),
    }
}

/// Refuses keys that set up models if a target is none.
pub(super) fn check_models(file: &ExperimentFile, targets: &[NamedTarget]) -> Result<(), DescriptionError> {
    let Some(other) = other_than_models(targets).filter(|_| file.devices.is_none()) else { return Ok(()) };
    let has_scheduler = file.schedulers.iter().flatten().any(|scheduler| scheduler != "none");
    let of_models = [("schedulers", has_scheduler), ("bare", file.bare)];
    let parameter = file.parameters.iter().position(|parameter| !parameter.name.starts_with(WORKLOAD));
    let given = of_models.into_iter().find(|(_, is_given)| *is_given).map(|(key, _)| key.to_owned());
    match given.or_else(|| Some(format!("parameters[{}].name", parameter?))) {
        None => Ok(()),
        Some(key) => Err(DescriptionError::invalid(key, format!("sets up a model, {other}"))
            .hint("name model:DEVICE in virtual time or emulate:DEVICE in real time, or leave it out")),
    }
}
