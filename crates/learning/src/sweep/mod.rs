//! A device fitted to a benchmark's results, and its prediction of loads that it was not fitted to.
//!
//! ```text
//! fio's JSON ─▶ loads ─▶ points (queue length by Little's law) ─▶ tables ─▶ device
//!                 │        └ all but one load ─▶ tables ─▶ device ─┐
//!                 └────── each load, run closed on the device ─────┴─▶ beside fio's own figures
//! ```
//! # References
//! Little's law: J. D. C. Little, Operations Research 9(3), 1961.

mod closed;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use seeklab_core::{ByteSize, Operation, Seed};
use seeklab_devices::table::{TableModel, TableParameters};
use serde::Serialize;
use toml::Table;

use crate::error::{Error, ErrorKind};
use crate::fio::{Component, Load, Sweep};
use crate::fit::DeviceInfo;
use crate::table::sweep::{Point, tables};
use closed::Simulated;

/// Bytes in a block of the fitted device.
const BLOCK_BYTES: u64 = 512;

/// The size of a device whose results do not tell it.
const UNKNOWN_BYTES: u64 = 1 << 40;

/// A device fitted to results.
#[derive(Debug)]
pub struct FittedSweep {
    /// Its description.
    pub description: Table,
    /// Report on the fitted results and the prediction.
    pub report: SweepReport,
}

/// Report on the fitted results and the prediction.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SweepReport {
    /// Every kind of requests of every load.
    pub points: Vec<PointReport>,
    /// Notes on results that were omitted or interpreted, with the reasons.
    pub notes: Vec<String>,
    /// Cells of the tables.
    pub cells: usize,
    /// Bytes of the device.
    pub capacity_bytes: u64,
    /// The device against what it was fitted to.
    pub in_sample: Medians,
    /// Each load predicted from the others.
    pub left_out: Medians,
    /// Each load between others, predicted from the others.
    pub left_out_between: Medians,
}

/// One kind of requests of a load.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PointReport {
    /// The jobs' names.
    pub job: String,
    /// Operation of the requests.
    pub op: Operation,
    /// Bytes of each.
    pub bytes: u64,
    /// True if each request began where the one before ended.
    pub is_sequential: bool,
    /// Requests that the jobs were to keep outstanding, of all kinds.
    pub depth: u32,
    /// Requests outstanding on average, by Little's law.
    pub outstanding: f64,
    /// True if the jobs kept their depth. If not, something other than the device delayed them.
    pub fits: bool,
    /// Requests outstanding that an arrival finds.
    pub queue_length: u32,
    /// Per second, measured.
    pub iops: f64,
    /// Mean response time, measured.
    pub mean_us: f64,
    /// 99th percentile, measured.
    pub p99_us: f64,
    /// Errors of the device for the loads that it was fitted to.
    pub in_sample: Option<Errors>,
    /// Errors of a device fitted to all other loads. `None` if no other load has this operation and order.
    pub left_out: Option<LeftOut>,
}

/// Relative errors: predicted value divided by measured value, less one.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct Errors {
    /// Requests per second.
    pub iops_pct: f64,
    /// Mean response time.
    pub mean_pct: f64,
    /// 99th percentile.
    pub p99_pct: f64,
}

/// A point predicted from the others.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct LeftOut {
    /// Errors of the prediction.
    #[serde(flatten)]
    pub errors: Errors,
    /// True if the point lies beyond the others.
    pub is_beyond: bool,
}

/// Medians of the absolute errors.
#[derive(Debug, Clone, Copy, Default, Serialize, JsonSchema)]
pub struct Medians {
    /// Points, of loads that kept their depth: how often others came round was not the device's doing.
    pub points: usize,
    /// Requests per second.
    pub iops_pct: Option<f64>,
    /// Mean response time.
    pub mean_pct: Option<f64>,
    /// 99th percentile.
    pub p99_pct: Option<f64>,
    /// Largest error of the requests per second.
    pub iops_max_pct: Option<f64>,
}

/// Fits a device to results; `about` says in the description where they came from, and `progressed` is called for each load
/// that was predicted from the others; an error of it ends the fit.
///
/// # Errors
/// Results that contain nothing to fit.
pub fn fit_loads<E: From<Error>>(
    Sweep { loads, mut notes }: Sweep,
    seed: Seed,
    mut about: BTreeMap<String, String>,
    mut progressed: impl FnMut() -> Result<(), E>,
) -> Result<FittedSweep, E> {
    if loads.is_empty() {
        let why = if notes.is_empty() { "there are no jobs".to_owned() } else { notes.join("; ") };
        return Err(Error::new(ErrorKind::NothingToFit, format!("no model can be fitted: {why}"))
            .with_hint("a job of one direction at a time, `rw=randread` for example, with percentiles")
            .into());
    }
    let capacity_bytes = loads.iter().filter_map(|load| load.region_bytes).max().unwrap_or_else(|| {
        notes.push(
            "no job says how large the device is (`size=`): taken as 1 TiB; set `capacity_blocks`".to_owned(),
        );
        UNKNOWN_BYTES
    });
    let build = |loads: &[&Load], fit: BTreeMap<String, String>| {
        let points: Vec<Point> = loads.iter().flat_map(|load| points(load)).collect();
        let points = kept(points);
        let place = DeviceInfo {
            block_size: ByteSize::from_bytes(BLOCK_BYTES),
            // Of which every other thing can count on whole pages.
            capacity_blocks: (capacity_bytes / 4096 * 4096 / BLOCK_BYTES).clamp(8, 1 << 54),
            fit,
        };
        tables(&points, place)
    };
    let all: Vec<&Load> = loads.iter().collect();
    let parameters = build(&all, BTreeMap::new()).expect("there is a load");
    let mut reports = Vec::new();
    for (index, load) in loads.iter().enumerate() {
        let (simulated, _) = run(&parameters, load, seed)?;
        let others: Vec<&Load> =
            loads.iter().enumerate().filter(|(at, _)| *at != index).map(|(_, of)| of).collect();
        let left_out = match build(&others, BTreeMap::new()).filter(|_| can_be_predicted(load, &others)) {
            Some(parameters) => Some(run(&parameters, load, seed)?),
            None => None,
        };
        reports.extend(report(load, &simulated, left_out.as_ref()));
        progressed()?;
    }
    let in_sample =
        Medians::of(reports.iter().filter(|point| point.fits).filter_map(|point| point.in_sample));
    let left_out = |between: bool| {
        let fitting = reports.iter().filter(|point| point.fits).filter_map(|point| point.left_out);
        Medians::of(fitting.filter(|point| !(between && point.is_beyond)).map(|point| point.errors))
    };
    let (all_left_out, left_out_between) = (left_out(false), left_out(true));
    about.insert("points".to_owned(), reports.len().to_string());
    about.insert("evaluation".to_owned(), sentence(&in_sample, &all_left_out));
    let parameters = build(&all, about).expect("there is a load");
    Ok(FittedSweep {
        description: parameters.description().map_err(Error::from)?,
        report: SweepReport {
            points: reports,
            notes,
            cells: parameters.cells.len(),
            capacity_bytes: parameters.capacity_blocks * BLOCK_BYTES,
            in_sample,
            left_out: all_left_out,
            left_out_between,
        },
    })
}

/// Describes the quality of the prediction in one sentence, for the device's description.
pub fn sentence(in_sample: &Medians, left_out: &Medians) -> String {
    let pct = |pct: Option<f64>| pct.map_or_else(|| "-".to_owned(), |pct| format!("{pct:.1} %"));
    format!(
        "median error of requests per second, mean and p99 of each point: in sample {}, {}, {}; predicted from the others {}, {}, {} ({} points)",
        pct(in_sample.iops_pct),
        pct(in_sample.mean_pct),
        pct(in_sample.p99_pct),
        pct(left_out.iops_pct),
        pct(left_out.mean_pct),
        pct(left_out.p99_pct),
        left_out.points
    )
}

/// The precedence of what a load meets that something else than the device holds up.
const HELD_UP: u8 = 2;

/// Points of loads that were held up count only where there are no others of that operation and order.
fn kept(points: Vec<Point>) -> Vec<Point> {
    let kind = |of: &Point| (of.op, of.is_sequential);
    let known: Vec<_> = points.iter().filter(|of| of.precedence < HELD_UP).map(kind).collect();
    points.into_iter().filter(|of| of.precedence < HELD_UP || !known.contains(&kind(of))).collect()
}

/// A load as points of the tables.
fn points(load: &Load) -> Vec<Point> {
    // What one kind of requests meets alone comes before what it meets beside others.
    let precedence = if load.fits() { u8::from(load.components.len() > 1) } else { HELD_UP };
    let of = |component: &Component| Point {
        precedence,
        op: component.op,
        blocks: u32::try_from(component.bytes / BLOCK_BYTES).unwrap_or(u32::MAX).max(1),
        queue_length: load.queue_length(),
        is_sequential: component.is_sequential,
        requests: component.requests,
        times: component.times.clone(),
    };
    load.components.iter().map(of).collect()
}

/// Returns true if each kind of the load's requests occurs in one of the others.
fn can_be_predicted(load: &Load, others: &[&Load]) -> bool {
    let kind = |of: &Component| (of.op, of.is_sequential);
    let known = |of| others.iter().flat_map(|other| &other.components).any(|other| kind(other) == kind(of));
    load.components.iter().all(known)
}

/// Returns the simulated figures of a load on a device with these tables, and whether most of the load lies
/// beyond the tables.
fn run(
    parameters: &TableParameters,
    load: &Load,
    seed: Seed,
) -> Result<(Vec<Option<Simulated>>, bool), Error> {
    use seeklab_core::Device;
    let mut device = TableModel::new(parameters, seed, "disk0")
        .map_err(|error| Error::from(error).context("the fitted tables"))?;
    let simulated = closed::run(&mut device, load, seed)?;
    let coverage = device.coverage().unwrap_or_default();
    Ok((simulated, 2 * coverage.outside > coverage.requests))
}

fn report(
    load: &Load,
    simulated: &[Option<Simulated>],
    left_out: Option<&(Vec<Option<Simulated>>, bool)>,
) -> Vec<PointReport> {
    let each = load.components.iter().enumerate().map(|(index, component)| {
        let errors = |simulated: &Simulated| {
            let pct = |simulated: f64, measured: f64| 100.0 * (simulated / measured - 1.0);
            Errors {
                iops_pct: pct(simulated.iops, component.iops),
                mean_pct: pct(simulated.mean_ns, component.mean_ns),
                p99_pct: pct(simulated.p99_ns, component.p99_ns),
            }
        };
        PointReport {
            job: load.name.clone(),
            op: component.op,
            bytes: component.bytes,
            is_sequential: component.is_sequential,
            depth: load.depth(),
            outstanding: load.outstanding(),
            fits: load.fits(),
            queue_length: load.queue_length(),
            iops: component.iops,
            mean_us: component.mean_ns / 1e3,
            p99_us: component.p99_ns / 1e3,
            in_sample: simulated[index].as_ref().map(errors),
            left_out: left_out.and_then(|(simulated, is_beyond)| {
                let errors = errors(simulated[index].as_ref()?);
                Some(LeftOut { errors, is_beyond: *is_beyond })
            }),
        }
    });
    each.collect()
}

impl Medians {
    fn of(errors: impl Iterator<Item = Errors>) -> Self {
        let errors: Vec<Errors> = errors.collect();
        let sorted = |value: fn(&Errors) -> f64| {
            let mut values: Vec<f64> = errors.iter().map(|errors| value(errors).abs()).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let median = |value| {
            let values = sorted(value);
            let (upper, lower) =
                (values.get(values.len() / 2)?, values.get(values.len().checked_sub(1)? / 2)?);
            Some((upper + lower) / 2.0)
        };
        Self {
            points: errors.len(),
            iops_pct: median(|errors| errors.iops_pct),
            mean_pct: median(|errors| errors.mean_pct),
            p99_pct: median(|errors| errors.p99_pct),
            iops_max_pct: sorted(|errors| errors.iops_pct).last().copied(),
        }
    }
}
