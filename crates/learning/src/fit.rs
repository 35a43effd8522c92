//! Fitting a model to a trace.
//!
//! ```text
//! trace, in order of arrival ─▶ Fit ─▶ description (TOML) ─▶ Device
//! ```
//! # Scope and limits
//! A model is of one device. Requests without a response time and failed ones shape the load, but their times
//! are not fitted.

use std::collections::BTreeMap;

use seeklab_core::{ByteSize, Device, Seed, TraceRecord};
use seeklab_devices::Description;
use seeklab_devices::station::Feature;
use seeklab_devices::table::Classes;
use toml::Table;

use crate::MODELS;
use crate::error::Error;
use crate::stop::StopCheck;

/// A model being fitted, request by request of one device in order of arrival; its memory does not grow with the trace.
pub trait Fit: Send {
    /// Takes one request in.
    fn record(&mut self, record: &TraceRecord);

    /// Takes several in, in their order.
    fn record_all(&mut self, records: &[TraceRecord]) {
        records.iter().for_each(|record| self.record(record));
    }

    /// Returns a summary of the requests recorded so far.
    fn summary(&self) -> FitSummary;

    /// The description of the device fitted so far, its kind included.
    ///
    /// # Errors
    /// If it cannot be written.
    fn description(&self, about: DeviceInfo) -> Result<Table, Error>;

    /// The same device in the state in which the trace left it, as far as that lasts: credits that were used.
    ///
    /// # Errors
    /// As [`description`](Self::description).
    fn description_with_state(&self, about: DeviceInfo) -> Result<Table, Error> {
        self.description(about)
    }

    /// Returns true if the requests recorded so far show rate or burst limits, of models that fit some. Blocks have that
    /// size.
    ///
    /// # Errors
    /// If the fit was stopped.
    fn has_limits(&self, _block_size: ByteSize) -> Result<bool, Error> {
        Ok(false)
    }

    /// Keeps or extends the structure of the last description in later ones, if the model chooses one: what was judged is what is saved.
    fn keep_structure(&mut self) {}

    /// Excludes parts from the fit, if the model has them.
    fn leave_out(&mut self, _left_out: &LeftOut) {}

    /// Ends what takes long with [`ErrorKind::Interrupted`](crate::ErrorKind::Interrupted) when the caller stops it.
    fn stop_by(&mut self, _stop: &StopCheck) {}
}

/// Parts that a fit excludes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Rate and burst limits.
    pub limits: bool,
    /// Features that service times must not depend on.
    pub features: Vec<Feature>,
}

/// The device fitted so far, [with its state](Fit::description_with_state). It draws from streams of `seed` whose names begin with `name`.
///
/// # Errors
/// If the model has no requests.
pub fn build(fit: &dyn Fit, about: DeviceInfo, seed: Seed, name: &str) -> Result<Box<dyn Device>, Error> {
    Ok(Description::from_table(name, name, fit.description_with_state(about)?)?.build(seed, name)?)
}

/// Returns the model of that name.
pub fn find(name: &str) -> Option<&'static Model> {
    MODELS.iter().find(|model| model.name == name)
}

/// Properties of the device that the requests of a trace do not show.
#[derive(Debug, Clone)]
pub struct DeviceInfo {
    /// Bytes in a block.
    pub block_size: ByteSize,
    /// Blocks of the device. If requests go further, the fit uses the end of the furthest one.
    pub capacity_blocks: u64,
    /// Origin of the fit, for people.
    pub fit: BTreeMap<String, String>,
}

/// Summary of the recorded requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FitSummary {
    /// Requests whose response times were fitted.
    pub requests: u64,
    /// Requests without a response time, which is not known.
    pub requests_without_response: u64,
    /// Requests that failed, whose response times are not those of service.
    pub failed_requests: u64,
    /// First block that no request went beyond.
    pub end: u64,
    /// Most requests that were outstanding when another arrived.
    pub queue_length_max: u32,
}

/// Returns true if several requests were outstanding when another arrived, at most so many, so that requests waited for each other.
pub const fn has_waits(queue_length_max: u32) -> bool {
    queue_length_max >= 2
}

/// A model that can be fitted.
#[derive(Debug)]
pub struct Model {
    /// Its name.
    pub name: &'static str,
    /// Description of the model, in one line.
    pub description: &'static str,
    /// True if a [warm-up](crate::warm_up) that the trace shows is left out.
    pub leaves_out_warm_up: bool,
    /// True if its times contain the waits of the fitted load by queue length, so that a lighter load gets waits that only this one had.
    pub carries_waits: bool,
    /// Begins a fit, with classes of requests of the given fineness.
    pub begin: fn(Classes) -> Result<Box<dyn Fit>, Error>,
}
