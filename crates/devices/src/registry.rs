//! THE list of kinds of devices and layers.

use seeklab_core::{Device, Seed};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::Table;

use crate::description::{Description, DescriptionError};
use crate::disk::{Disk, DiskParameters, Layout};
use crate::error::ParameterError;
use crate::layer::{Limit, Queue, QueueError};
use crate::learnt::Learnt;
use crate::limit::LimitParameters;
use crate::reader::read;
use crate::scheduler::SchedulerSpec;
use crate::simple::{Server, ServerParameters};
use crate::station::{Station, StationParameters};
use crate::table::{TableModel, TableParameters};

/// One kind of device or layer.
#[derive(Debug)]
pub struct Kind {
    /// The name in `kind = "…"`.
    pub name: &'static str,
    /// Description of the kind, in one line.
    pub description: &'static str,
    /// Checks the parameters and fills in the defaults.
    pub(crate) complete: fn(&Table) -> Result<Table, DescriptionError>,
    /// Builds it from complete parameters.
    pub(crate) build: fn(&Table, Seed, &str) -> Result<Box<dyn Device>, DescriptionError>,
    /// Leaves of complete parameters the bare mechanics, where there are any.
    pub(crate) bare: Option<fn(&Table) -> Result<Table, DescriptionError>>,
    /// Its tracks as `(first block, blocks)`, where it has any.
    pub(crate) tracks: Option<fn(&Table) -> Result<Vec<(u64, u32)>, DescriptionError>>,
    /// Returns the fitted model, for kinds that can be fitted.
    pub(crate) learnt: Option<Learn>,
}

/// Returns the fitted model of a device from its complete parameters; `None` if the device was not
/// fitted.
pub(crate) type Learn = fn(&Table) -> Result<Option<Learnt>, DescriptionError>;

/// THE list of kinds of devices and layers.
pub static KINDS: &[Kind] = &[
    Kind {
        name: "disk",
        description: "a rotating disk: zones, skews, seeks, rotation, electronics, buffer",
        complete: complete::<DiskParameters>,
        build: |table, seed, name| Ok(Box::new(Disk::new(&read(table)?, seed, name)?)),
        bare: Some(|table| {
            let parameters: DiskParameters = read(table)?;
            written(&parameters.bare())
        }),
        tracks: Some(|table| {
            let parameters: DiskParameters = read(table)?;
            Ok(Layout::new(&parameters.geometry)?.tracks(parameters.geometry.capacity_blocks))
        }),
        learnt: None,
    },
    Kind {
        name: "immediate",
        description: "answers at once",
        complete: complete::<ServerParameters>,
        build: |table, _, _| Ok(Box::new(Server::constant(&read(table)?)?)),
        bare: None,
        tracks: None,
        learnt: None,
    },
    Kind {
        name: "constant",
        description: "one server that always takes as long",
        complete: complete::<ServerParameters>,
        build: |table, _, _| Ok(Box::new(Server::constant(&read(table)?)?)),
        bare: None,
        tracks: None,
        learnt: None,
    },
    Kind {
        name: "exponential",
        description: "one server with an exponential service time",
        complete: complete::<ServerParameters>,
        build: |table, seed, name| Ok(Box::new(Server::exponential(&read(table)?, seed, name)?)),
        bare: None,
        tracks: None,
        learnt: None,
    },
    Kind {
        name: "table",
        description: "a device cloned from its trace: response times drawn from tables",
        complete: complete::<TableParameters>,
        build: |table, seed, name| Ok(Box::new(TableModel::new(&read(table)?, seed, name)?)),
        bare: None,
        tracks: None,
        learnt: Some(|table| Ok(Some(crate::table::learnt(&read(table)?)?))),
    },
    Kind {
        name: "station",
        description: "a device cloned from its trace: servers, waiting, and service times drawn from a tree",
        complete: complete::<StationParameters>,
        build: |table, seed, name| Ok(Box::new(Station::new(&read(table)?, seed, name)?)),
        bare: None,
        tracks: None,
        learnt: Some(|table| Ok(Some(crate::station::learnt(&read(table)?)?))),
    },
    Kind {
        name: "queue",
        description: "a layer: a queue with a scheduler in front of the device that it owns",
        complete: complete_queue,
        build: build_queue,
        bare: None,
        tracks: None,
        learnt: Some(|table| {
            let layer: QueueLayer = read(table)?;
            inner(layer.device, 1)?.learnt()
        }),
    },
    Kind {
        name: "limit",
        description: "a layer: rate and burst limits in front of the device that it owns",
        complete: complete_limit,
        build: |table, seed, name| {
            let layer: LimitParameters = read(table)?;
            let buckets = layer.buckets()?;
            Ok(Box::new(Limit::new(inner(layer.device, 1)?.build(seed, name)?, layer.of, buckets)))
        },
        bare: None,
        tracks: None,
        learnt: Some(|table| {
            let layer: LimitParameters = read(table)?;
            Ok(inner(layer.device.clone(), 1)?.learnt()?.map(|learnt| crate::limit::learnt(&layer, learnt)))
        }),
    },
];

/// The kind of that name.
pub(crate) fn find(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

fn complete<P: DeserializeOwned + Serialize>(table: &Table) -> Result<Table, DescriptionError> {
    written(&read::<P>(table)?)
}

/// The table of complete parameters.
fn written(parameters: &impl Serialize) -> Result<Table, DescriptionError> {
    Table::try_from(parameters).map_err(|error| DescriptionError::new(error.to_string()))
}

/// The description of a device of that kind.
pub(crate) fn described(kind: &str, parameters: &impl Serialize) -> Result<Table, DescriptionError> {
    let mut table = written(parameters)?;
    table.insert("kind".to_owned(), kind.into());
    Ok(table)
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct QueueLayer {
    #[serde(default = "fcfs")]
    scheduler: SchedulerSpec,
    #[serde(default = "one")]
    depth: usize,
    device: Table,
}

fn fcfs() -> SchedulerSpec {
    SchedulerSpec::FCFS
}

fn one() -> usize {
    1
}

fn inner(table: Table, depth: usize) -> Result<Description, DescriptionError> {
    Description::from_table("device", "device", table, depth)
}

fn complete_queue(table: &Table) -> Result<Table, DescriptionError> {
    let layer: QueueLayer = read(table)?;
    let depth = nesting(&layer.device);
    let device = inner(layer.device, depth)?.into_table();
    written(&QueueLayer { device, ..layer })
}

fn complete_limit(table: &Table) -> Result<Table, DescriptionError> {
    let layer: LimitParameters = read(table)?;
    layer.buckets()?;
    let depth = nesting(&layer.device);
    let device = inner(layer.device, depth)?.into_table();
    written(&LimitParameters { device, ..layer })
}

/// Returns the number of `device` tables that lie within each other.
fn nesting(table: &Table) -> usize {
    1 + table.get("device").and_then(toml::Value::as_table).map_or(0, nesting)
}

fn build_queue(table: &Table, seed: Seed, name: &str) -> Result<Box<dyn Device>, DescriptionError> {
    let layer: QueueLayer = read(table)?;
    let device = inner(layer.device, 1)?.build(seed, name)?;
    Ok(Box::new(queue_before(device, &layer.scheduler, layer.depth)?))
}

/// Puts the host's queue in front of a device.
///
/// # Errors
/// A scheduler or depth that does not fit the device.
pub fn queue_before(
    device: Box<dyn Device>,
    scheduler: &SchedulerSpec,
    depth: usize,
) -> Result<Queue, ParameterError> {
    let blocks = device.capabilities().capacity_blocks;
    let cylinders = device.positioning().map_or(1, |positioning| u64::from(positioning.cylinders()));
    Queue::new(device, scheduler.build(blocks, cylinders), depth).map_err(|error| match error {
        QueueError::Depth { queue_depth, .. } => {
            ParameterError::new("depth", error.to_string(), format!("1 to {queue_depth}"))
        }
        QueueError::NeedsPositioning => ParameterError::new(
            "scheduler",
            format!("{scheduler}: {error}"),
            "fcfs, sstf, look, c-look, scan, c-scan, vscan, or a disk",
        ),
    })
}
