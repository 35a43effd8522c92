//! Fitting a station to a trace. Requests are kept while the trace is read. The fit is made when the device
//! is requested, without the waits for [limits](crate::limit).

use std::cell::Cell;

use seeklab_core::{ByteSize, Operation, TraceRecord};
use seeklab_devices::limit::LimitSummary;
use seeklab_devices::region::RegionParameters;
use seeklab_devices::station::parts::{OperationSeen, is_sequential};
use seeklab_devices::station::{Feature, StationParameters};
use toml::Table;

use super::choose::{Structure, choose};
use super::grow::grow;
use super::observe::Observed;
use super::sample::{RecordedRequest, Sample};
use super::survival::resolution;
use crate::counts::FitCounts;
use crate::error::{Error, ErrorKind};
use crate::fit::{DeviceInfo, Fit, FitSummary, LeftOut};
use crate::limit::{self, History, Limits, Passed};
use crate::stop::StopCheck;

/// Stretches of the sample by which the structure is chosen.
const CHOOSING: usize = 8;

/// Number of requests not held up by a limit from which on the fit uses these requests alone.
const FIT_LEAST: usize = 1_024;

/// A station being fitted.
#[derive(Debug, Clone, Default)]
pub struct StationFit {
    sample: Sample,
    counts: FitCounts,
    history: History,
    left_out: LeftOut,
    stop: StopCheck,
    /// Structure of the last description, and the number of limits around it.
    last: Cell<Option<(Structure, usize)>>,
    /// Structure that later descriptions keep or extend, if they have as many limits.
    kept: Option<(Structure, usize)>,
}

impl StationFit {
    /// Returns the station fitted so far, without limits.
    ///
    /// # Errors
    /// If no request could be fitted.
    pub fn parameters(&self, about: DeviceInfo) -> Result<StationParameters, Error> {
        self.station(&self.sample, self.counts.region(), about, 0)
    }

    /// The limits of what was taken in, in blocks of that size.
    ///
    /// # Errors
    /// If the fit was stopped.
    pub fn limit_summaries(&self, block_size: ByteSize) -> Result<Vec<LimitSummary>, Error> {
        Ok(self.limits(block_size)?.limit_summaries(block_size))
    }

    /// The limits of what was taken in.
    fn limits(&self, block_size: ByteSize) -> Result<Limits, Error> {
        if self.left_out.limits {
            return Ok(Limits::default());
        }
        let passed = |seen: &RecordedRequest| {
            let RecordedRequest { arrival, completion, asked, .. } = *seen;
            Passed { arrival, completion, op: asked.op, lbn: asked.lbn, blocks: asked.blocks }
        };
        let runs = self.sample.runs(usize::MAX).into_iter();
        let runs = runs.map(|run| run.iter().map(passed).collect()).collect();
        limit::find(runs, &self.history, block_size, &self.stop)
    }

    /// The station behind its limits, whose buckets are full, or as the trace left them.
    fn limited(&self, about: DeviceInfo, with_state: bool) -> Result<Table, Error> {
        let block_size = about.block_size;
        let limits = self.limits(block_size)?;
        if limits.found.is_empty() {
            return Ok(self.parameters(about)?.description()?);
        }
        let sample = self.sample.past_limits(&limits.waits, FIT_LEAST);
        let station = self.station(&sample, sample.region(), about, limits.found.len())?;
        Ok(limits.around(station.description()?, block_size, with_state)?)
    }

    fn station(
        &self,
        sample: &Sample,
        region: Option<RegionParameters>,
        about: DeviceInfo,
        limits: usize,
    ) -> Result<StationParameters, Error> {
        let capacity_blocks = about.capacity_blocks.max(self.counts.summary().end).max(1);
        let runs = sample.runs(usize::MAX);
        if !runs.iter().flatten().any(|seen| seen.counts) {
            return Err(Error::new(
                ErrorKind::NothingToFit,
                "no request has a response time, so no model can be fitted",
            ));
        }
        let allowed = Feature::ALL.map(|feature| !self.left_out.features.contains(&feature));
        let chosen = choose(&sample.runs(CHOOSING), capacity_blocks, allowed, &self.stop)?;
        let kept = self.kept.filter(|(_, others)| *others == limits).map(|(structure, _)| structure);
        let structure = kept.filter(|kept| !chosen.extends(kept)).unwrap_or(chosen);
        self.last.set(Some((structure, limits)));
        let Structure { servers, line, mask } = structure;
        let observed = Observed::of(&runs, servers, line, capacity_blocks, &self.stop)?;
        let services = &observed.services;
        let served = || services.iter().map(|(_, service)| service).filter(|service| service.is_served());
        let resolution = resolution(services);
        let tree = grow(services, mask, &self.stop)?;
        let seen: Vec<&RecordedRequest> = runs.iter().flatten().filter(|seen| seen.counts).collect();
        let operations = Operation::ALL.into_iter().filter_map(|op| {
            let lengths = || seen.iter().filter(|seen| seen.asked.op == op).map(|seen| seen.asked.blocks);
            Some(OperationSeen {
                op,
                requests: lengths().count() as u64,
                typical: observed.typical[op as usize],
                blocks_min: lengths().min()?,
                blocks_max: lengths().max()?,
                queue_max: self.counts.queue_length_max(op),
                sequential: op.addresses_blocks().then(|| {
                    let rows = served().map(|service| &service.row);
                    let of_it = rows.filter(|row| row[Feature::Op as usize] == op as u8);
                    of_it.filter(|row| is_sequential(row)).count() as u64
                }),
            })
        });
        let operations: Vec<OperationSeen> = operations.collect();
        let mut fit = about.fit;
        fit.insert("overtaking".to_owned(), format!("{} of {}", observed.overtaking, served().count()));
        Ok(StationParameters {
            capacity_blocks,
            block_size: about.block_size,
            volatile_write_cache: operations.iter().any(|seen| seen.op == Operation::Flush),
            rotational: false,
            servers: u32::try_from(servers).unwrap_or(0),
            order: observed.line.order,
            band_blocks: observed.line.band_blocks,
            first: observed.line.first,
            picks: observed.picks.write(),
            tree: tree.write(|survival| survival.counts(resolution).write()),
            operations,
            region,
            fit,
        })
    }
}

impl Fit for StationFit {
    fn record(&mut self, record: &TraceRecord) {
        self.counts.record(record);
        self.sample.record(record);
        if let Some(completion) = record.completion {
            self.history.record(record.arrival, completion, record.op, record.blocks);
        }
    }

    fn summary(&self) -> FitSummary {
        self.counts.summary()
    }

    fn description(&self, about: DeviceInfo) -> Result<Table, Error> {
        self.limited(about, false)
    }

    fn description_with_state(&self, about: DeviceInfo) -> Result<Table, Error> {
        self.limited(about, true)
    }

    fn has_limits(&self, block_size: ByteSize) -> Result<bool, Error> {
        Ok(!self.limits(block_size)?.found.is_empty())
    }

    fn keep_structure(&mut self) {
        self.kept = self.last.get();
    }

    fn leave_out(&mut self, left_out: &LeftOut) {
        self.left_out = left_out.clone();
    }

    fn stop_by(&mut self, stop: &StopCheck) {
        self.stop = stop.clone();
    }
}
