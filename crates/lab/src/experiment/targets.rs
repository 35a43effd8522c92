//! Targets and plans of an experiment that measures.

use std::path::Path;

use seeklab_core::{DescriptionError, description};
use toml::{Table, Value};

use super::spec::Source;
use crate::bench::{BenchOptions, PlanOverrides, TargetChoice, TargetTable, read_plan};
use crate::entry::Entry;
use crate::failure::Failure;

/// A target under the name that it has in the table.
#[derive(Debug)]
pub(super) struct NamedTarget {
    pub(super) name: String,
    pub(super) choice: TargetChoice,
}

/// A plan under the name that it has in the table.
#[derive(Debug)]
pub(super) struct NamedPlan {
    pub(super) name: String,
    /// Its options, on the first target of the experiment or on targets of its own.
    pub(super) options: BenchOptions,
}

/// Reads the list `targets`, whose files of faults are looked for in `folder`.
pub(super) fn read(entries: &[Entry], source: &Source, folder: &Path) -> Result<Vec<NamedTarget>, Failure> {
    let mut targets: Vec<NamedTarget> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let key = format!("targets[{index}]");
        let target = match entry {
            Entry::Text(address) => NamedTarget { name: address.clone(), choice: TargetChoice::at(address) },
            Entry::Table(table) => {
                read_table(table.clone(), folder).map_err(|error| source.place(error.under(&key)))?
            }
        };
        if targets.iter().any(|other| other.name == target.name) {
            return Err(source.twice(&key, &target.name));
        }
        targets.push(target);
    }
    Ok(targets)
}

fn read_table(mut table: Table, folder: &Path) -> Result<NamedTarget, DescriptionError> {
    let name = match table.remove("name") {
        None => None,
        Some(Value::String(name)) => Some(name),
        Some(other) => {
            return Err(DescriptionError::refused("name", format!("{other} is no name"), "a text"));
        }
    };
    let target: TargetTable = description::read_beside(&table, &["name"])?;
    let choice = target.choice(folder)?;
    Ok(NamedTarget { name: name.unwrap_or_else(|| choice.address.clone()), choice })
}

/// Reads the list `plans`, whose files are looked for in `folder`.
pub(super) fn read_plans(
    names: Vec<String>,
    targets: &[NamedTarget],
    source: &Source,
    folder: &Path,
) -> Result<Vec<NamedPlan>, Failure> {
    let target = targets.first().map(|target| target.choice.clone());
    let overrides = PlanOverrides { repetitions: Some(1), target, ..PlanOverrides::default() };
    let mut plans: Vec<NamedPlan> = Vec::new();
    for (index, name) in names.into_iter().enumerate() {
        let key = format!("plans[{index}]");
        if !name.ends_with(".toml") {
            let error =
                DescriptionError::refused(key, format!("`{name}` is no plan"), "files that end in .toml");
            return Err(source.place(error));
        }
        if plans.iter().any(|other| other.name == name) {
            return Err(source.twice(&key, &name));
        }
        let options = read_plan(&folder.join(&name), &overrides)
            .map_err(|failure| failure.context(format!("{}: {key}", source.at(&key))))?;
        plans.push(NamedPlan { name, options });
    }
    Ok(plans)
}
