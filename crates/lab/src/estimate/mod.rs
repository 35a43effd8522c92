//! Estimates the response times of devices by arithmetic, before anything runs.
//!
//! ```text
//! DEVICE ─▶ law (a formula, or sampled) ─┐
//! W ─▶ load (Poisson, closed, recorded) ─┴▶ seeklab-estimate ─▶ EstimateFigures, page
//! ```

mod bound;
mod check;
mod errors;
mod figures;
mod jobs;
mod jobs_check;
mod jobs_range;
mod law;
mod load;
mod network;
mod observed;
mod operational;
mod page;
mod population_curve;
mod until;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use seeklab_core::{Duration, Instant, Operation, Request, Seed};
use seeklab_devices::Description;
use seeklab_devices::service_law::{LawOrigin, ServiceLaw};
use seeklab_estimate::assumptions::{
    Assumption, RequestShape, exponential_services, exponential_think_times, independent_routing,
    independent_services, poisson_arrivals, requests_of_the_law, services_independent_of_idle,
    stationary_arrivals, writes_of_the_law,
};
use seeklab_estimate::queueing::Population;
use seeklab_estimate::{
    Estimate, EstimateError, HELD_SHARE_MAX, Method, NetworkEstimate, NetworkStation, RecordedLoad,
    RecordedService, closed, closed_network, closed_replay, closed_with_constant_think_times,
    depends_on_queue, held, is_one_server, open_batches, open_poisson, open_priorities, recorded,
    recorded_moments, response_min_s, services_in_queue, services_one_at_a_time,
};
use seeklab_files::check_distinct;
use seeklab_report::Page;
use toml::{Table, Value};

use crate::devices::{Resolved, Setup, resolve};
use crate::failure::Failure;
use crate::output::VERSION;
use crate::session::Session;
use crate::workload::{ResolvedWorkload, WorkloadOptions, resolve_workload};
pub(crate) use load::check_method;
use load::{Load, Times, load, with_drawn_arrivals};
use network::Network;
use population_curve::PopulationCurve;

pub use bound::Bound;
pub(crate) use check::check;
pub use check::{EstimateCheck, MethodCheck};
pub use figures::{
    AssumptionFigures, DeviceEstimate, ErrorFigures, EstimateFigures, LawFigures, LawPointFigures,
    MethodFigures, RateLimitFigures, UntilFigures, WriteBufferFigures,
};
pub use jobs::{
    JobsDeviceEstimate, JobsEstimateFigures, JobsEstimateOptions, JobsEstimateResult, JobsMethodFigures,
    JobsPoint, Vary, estimate_jobs, stream_of_jobs,
};
pub use jobs_check::{JobsEstimateCheck, JobsMethodCheck};
pub(crate) use jobs_check::{check_jobs, jobs_of};
pub use network::{NetworkDeviceFigures, NetworkFigures};
pub(crate) use observed::{Observed, Observer};
pub use operational::{
    BoundsFigures, TraceDeviceEstimate, TraceEstimateFigures, TraceEstimateOptions, TraceEstimateResult,
    estimate_trace,
};

/// Options of an estimate.
#[derive(Debug, Clone)]
pub struct EstimateOptions {
    /// Catalog names or TOML files.
    pub devices: Vec<String>,
    /// Setup of every device.
    pub setup: Setup,
    /// Workload: a trace, a TOML file, or a line that describes it.
    pub workload: String,
    /// Options beside the workload.
    pub workload_options: WorkloadOptions,
    /// Seed of the draws of the samples.
    pub seed: Seed,
    /// Bound up to which the load may grow.
    pub until: Option<Bound>,
    /// Path that the caller writes the page to.
    pub report: Option<PathBuf>,
}

/// Result of an estimate.
#[derive(Debug)]
pub struct EstimateResult {
    /// Figures, as one JSON document.
    pub figures: EstimateFigures,
    /// The same, with plots.
    pub page: Page,
    /// The failed check, if a device cannot sustain the load, or none has a load with which the bound is met.
    pub missed: Option<Failure>,
}

/// A load that grows by a factor, on a device with its law.
pub(crate) struct Estimating {
    device: Resolved,
    seed: Seed,
    /// Law of the device; of several, that of the one that limits the rate.
    law: ServiceLaw,
    /// Several devices of a closed load.
    network: Option<Network>,
    load: Load,
    /// Means of the requests that the law was made from.
    law_shape: Option<RequestShape>,
    /// True of devices that were fitted to a trace.
    is_clone: bool,
    /// Services of recorded requests in a run at the recorded rate.
    services: Vec<RecordedService>,
    /// Closed replays of the requests of a trace by their members, each of which is a run of the device.
    closed_replays: RefCell<BTreeMap<u32, Estimate>>,
    /// Share of the requests that are writes whose law is that of a full buffer, though arrivals leave the device idle.
    writes_without_law: f64,
}

/// Relative error of a highest rate that is no formula.
const SATURATION_ERROR: f64 = 0.01;

/// Estimates the workload on each device.
///
/// # Errors
/// If a device or the workload does not fit, a trace cannot be read or has no times, or a bound of a figure that no method gives.
pub fn estimate(session: &Session, options: &EstimateOptions) -> Result<EstimateResult, Failure> {
    let devices: Vec<Resolved> =
        options.devices.iter().map(|name| resolve(name, &options.setup)).collect::<Result<_, _>>()?;
    let workload = resolve_workload(&options.workload, &options.workload_options)?;
    if let Some(path) = &options.report {
        let inputs = options.devices.iter().chain([&options.workload]).map(PathBuf::from);
        check_distinct(path, inputs.chain(workload.trace().map(PathBuf::from)))?;
    }
    let (mut figures, mut curves, mut population_curves, mut saturated) =
        (Vec::new(), Vec::new(), Vec::new(), None);
    let mut unmet = Vec::new();
    for device in &devices {
        session.check()?;
        let _working = session.working(&format!("estimating {}", device.label()));
        let estimating = Estimating::new(device, &workload, options.seed)?;
        let (mut row, failure) = row(device, &estimating)?;
        if let Some(bound) = options.until {
            match estimating.until_or_unmet(bound) {
                Ok(until) => {
                    row.notes.extend(until.figures.growth_unknown_because.clone());
                    row.until = Some(until.figures);
                    unmet.extend(until.unmet.map(|failure| failure.context(device.label())));
                }
                // The other devices may have the figure.
                Err(failure) if devices.len() > 1 => {
                    row.notes.push(failure.to_string());
                    unmet.push(failure.context(device.label()));
                }
                Err(failure) => return Err(failure.context(device.label())),
            }
        }
        curves.push(page::Curve::of(&estimating, &row, options.report.is_some()));
        if options.report.is_some() {
            population_curves.extend(PopulationCurve::of(&estimating, &row));
        }
        figures.push(row);
        saturated = saturated.or(failure);
    }
    // Another device may meet the bound.
    let unmet = if unmet.len() == devices.len() { Failure::all(unmet) } else { None };
    let unmet = match unmet {
        Some(failure) if figures.iter().all(|row| row.until.is_none()) => return Err(failure),
        unmet => unmet.map(Failure::into_check),
    };
    let figures = EstimateFigures {
        seed: options.seed.0,
        workload: workload.name.clone(),
        version: VERSION,
        command: session.command(),
        devices: figures,
    };
    let page = page::page(&figures, &curves, &population_curves);
    // The load of --until may be one that the device sustains although it does not sustain this one.
    let saturated = saturated.filter(|_| options.until.is_none());
    Ok(EstimateResult { figures, page, missed: unmet.or(saturated) })
}

/// Estimates of one device, and the failure if it cannot sustain the load.
pub(crate) fn row(
    device: &Resolved,
    estimating: &Estimating,
) -> Result<(DeviceEstimate, Option<Failure>), Failure> {
    let context = |error: EstimateError| law::failure(error).context(device.label());
    let (estimate, overload) = match estimating.at(1.0) {
        Ok(estimate) => (Some(estimate), None),
        Err(error @ EstimateError::Overload { .. }) => (None, Some(context(error))),
        Err(error) => return Err(context(error)),
    };
    let arrivals_per_s = estimating.arrivals_per_s(1.0);
    let mut notes = estimating.load.notes.clone();
    let method = estimate.as_ref().map(|estimate| estimate.method);
    let assumptions = estimating.assumptions(method);
    for broken in assumptions.iter().filter(|assumption| assumption.is_broken()) {
        notes.push(broken.sentence());
    }
    let mut figures = estimate.as_ref().map(MethodFigures::from).unwrap_or_default();
    if estimate.is_none() {
        let saturation = estimating.law.saturation_per_s();
        figures.saturation_per_s = saturation.is_finite().then(|| figures::rounded(saturation));
    }
    let error_pct =
        estimate.as_ref().map_or_else(ErrorFigures::default, |estimate| estimating.errors_of(estimate));
    notes.extend(estimating.notes_of_limits(arrivals_per_s, estimate.as_ref()));
    notes.extend(estimate.as_ref().and_then(|estimate| estimating.note_of_think_times(estimate)));
    if estimating.is_clone {
        notes.push(
            "a clone answers loads outside of its fitted range with the times of the nearest fitted ones, and an estimate does not \
             count them: see what `seeklab simulate` says of its range at this rate, and at that of --until"
                .to_owned(),
        );
    }
    let row = DeviceEstimate {
        device: device.name.clone(),
        bare: device.bare,
        law: LawFigures::of(&estimating.law, arrivals_per_s),
        arrivals_per_s: arrivals_per_s.map(figures::rounded),
        saturated: overload.is_some(),
        estimate: figures,
        network: estimating.network_figures(),
        beside: estimating.beside().iter().map(MethodFigures::from).collect(),
        assumptions,
        error_pct,
        until: None,
        notes,
    };
    Ok((row, overload))
}

impl Estimating {
    /// Prepares the estimate of a workload on a device: the law, and for recorded arrivals the service times.
    pub(crate) fn new(device: &Resolved, workload: &ResolvedWorkload, seed: Seed) -> Result<Self, Failure> {
        let mut load = load(device, workload, seed)?;
        let mut sample = law::sample(&load.requests);
        let network = Network::of(device, &load, seed)?;
        let own_law = |load: &Load, sample: &Arc<[Request]>| {
            law::law(device, load, sample, seed).map_err(|failure| failure.context(device.label()))
        };
        let buffered_law = |load: &Load, sample: &Arc<[Request]>| {
            let law = law::with_buffered_writes(device, load, sample, seed);
            law.map_err(|failure| failure.context(device.label()))
        };
        let law = match (&network, law::with_priorities(device, &load)) {
            (Some(network), _) => network.bottleneck().clone(),
            (None, Some((law, times))) => {
                load.times = times;
                law
            }
            (None, None) => match buffered_law(&load, &sample)? {
                Some(law) => law,
                None => {
                    // A law of closed runs is one of a full buffer. What arrivals meet, a run over drawn ones shows.
                    if matches!(load.times, Times::Poisson { .. })
                        && law::writes_until_idle(device, &load) > 0.0
                        && let Some(drawn) = with_drawn_arrivals(device, workload, seed)?
                    {
                        load = drawn;
                        sample = law::sample(&load.requests);
                    }
                    own_law(&load, &sample)?
                }
            },
        };
        if let Some(batches) = load.batches.take().filter(|_| is_one_server(&law)) {
            let recorded = std::mem::replace(&mut load.times, batches);
            if law::writes_without_law(device, &load, &law) > 0.0 {
                load.times = recorded;
            }
        }
        let law_shape = RequestShape::of(sample.iter().map(shape));
        let writes_without_law = law::writes_without_law(device, &load, &law);
        let mut estimating = Self {
            device: device.clone(),
            seed,
            law,
            network,
            load,
            law_shape,
            is_clone: device.build(Seed(0), "disk0").is_ok_and(|built| built.coverage().is_some()),
            services: Vec::new(),
            closed_replays: RefCell::default(),
            writes_without_law,
        };
        estimating.services = estimating.services_at(estimating.growth_to_run())?;
        Ok(estimating)
    }

    /// Growth of the first run over recorded arrivals: 1, or of drawn ones that the device cannot sustain that of its highest
    /// sustained rate. Their queue would grow to the end of the run, which takes long under SPTF, and nothing but the overload is stated.
    fn growth_to_run(&self) -> f64 {
        let saturation_per_s = self.law.saturation_per_s();
        match self.arrivals_per_s(1.0) {
            Some(rate)
                if !self.load.has_same_arrivals && rate > saturation_per_s * (1.0 + SATURATION_ERROR) =>
            {
                saturation_per_s / rate
            }
            _ => 1.0,
        }
    }

    /// Services of recorded requests in a run with the rate multiplied by a factor: one at a time, or with the queue of the
    /// device if they depend on it. Empty of other loads.
    fn services_at(&self, growth: f64) -> Result<Vec<RecordedService>, Failure> {
        let Times::Recorded(arrivals) = &self.load.times else { return Ok(Vec::new()) };
        let build = || self.device.build(self.seed, "disk0").expect("the device was built before");
        let first = arrivals.first().copied().unwrap_or(Instant::ZERO);
        let scaled = |arrival: &Instant| {
            first + Duration::from_ms_f64(arrival.saturating_since(first).as_ms() / growth)
        };
        let scaled: Vec<Instant> = arrivals.iter().map(scaled).collect();
        let run = if depends_on_queue(&self.law) { services_in_queue } else { services_one_at_a_time };
        run(&build, &self.load.requests, &scaled)
            .map_err(|error| law::failure(error).context(self.device.label()))
    }

    /// The recorded load, its rate multiplied by a factor; `None` of other loads.
    fn recorded(&self, growth: f64) -> Option<RecordedLoad<'_>> {
        self.recorded_with(&self.services, growth)
    }

    /// The recorded load with these service times.
    fn recorded_with<'a>(&'a self, services: &'a [RecordedService], growth: f64) -> Option<RecordedLoad<'a>> {
        match &self.load.times {
            Times::Recorded(arrivals) => Some(RecordedLoad { arrivals, services, growth }),
            _ => None,
        }
    }

    /// The estimate under the load multiplied by a factor: its rate, or its population.
    pub(crate) fn at(&self, growth: f64) -> Result<Estimate, EstimateError> {
        self.at_with(&self.services, growth)
    }

    /// As [`at`](Self::at), with the services of a run at that growth.
    fn at_own_services(&self, growth: f64) -> Result<Estimate, Failure> {
        let services = self.services_at(growth)?;
        self.at_with(&services, growth).map_err(law::failure)
    }

    /// As [`at`](Self::at), with these services of recorded requests.
    fn at_with(&self, services: &[RecordedService], growth: f64) -> Result<Estimate, EstimateError> {
        match &self.load.times {
            Times::Poisson { arrivals_per_s } => open_poisson(arrivals_per_s * growth, &self.law),
            Times::Batches { batches_per_s, batch } => {
                open_batches(batches_per_s * growth, *batch, &self.law)
            }
            Times::Prioritised { arrivals_per_s, noncritical } => {
                open_priorities(arrivals_per_s * growth, *noncritical, &self.law)
            }
            Times::Closed(population) => match self.network_at(growth) {
                Some(found) => found.map(|found| found.estimate),
                None if self.load.has_same_arrivals => {
                    self.closed_replay_of(grown(*population, growth).members)
                }
                None => self.closed_at(grown(*population, growth)),
            },
            Times::Recorded(arrivals) => {
                let estimate =
                    recorded(RecordedLoad { arrivals, services, growth }, &self.load.requests, &self.law)?;
                // The arrivals of a trace end; those of a description go on.
                match self.exceeded(&estimate) {
                    Some(overload) if !self.load.has_same_arrivals => Err(overload),
                    _ => Ok(estimate),
                }
            }
        }
    }

    /// The estimate of a population that sends the requests of a trace to one device, of one run for each population.
    fn closed_replay_of(&self, members: u32) -> Result<Estimate, EstimateError> {
        if let Some(found) = self.closed_replays.borrow().get(&members) {
            return Ok(found.clone());
        }
        let build = || self.device.build(self.seed, "disk0").expect("the device was built before");
        let mut found = closed_replay(&build, &self.load.requests, members)?;
        // The law is that of a sample of the requests; the device sustains what the run shows.
        let saturation_per_s = self.law.saturation_per_s().max(found.steady.throughput_per_s);
        found.saturation_per_s = saturation_per_s.is_finite().then_some(saturation_per_s);
        self.closed_replays.borrow_mut().insert(members, found.clone());
        Ok(found)
    }

    /// The estimate of a population on one device.
    fn closed_at(&self, population: Population) -> Result<Estimate, EstimateError> {
        let followed = match self.load.think_variation {
            Some(0.0) => closed_with_constant_think_times(population, &self.law)?,
            _ => None,
        };
        followed.map_or_else(|| closed(population, &self.law), Ok)
    }

    /// Note on constant think times that are estimated as exponential ones.
    fn note_of_think_times(&self, estimate: &Estimate) -> Option<String> {
        let Times::Closed(population) = self.load.times else { return None };
        let is_other = estimate.method == Method::FinitePopulation && self.load.think_variation == Some(0.0);
        is_other.then(|| {
            format!(
                "constant think times are estimated as exponential ones here, with which more requests wait below saturation: the mean \
                 response time is between its asymptotic bound, {} ms, and this estimate",
                page::number(1e3 * response_min_s(population, &self.law))
            )
        })
    }

    /// The estimate of several devices with the population multiplied by a factor; `None` of one device.
    fn network_at(&self, growth: f64) -> Option<Result<NetworkEstimate, EstimateError>> {
        match (&self.network, &self.load.times) {
            (Some(network), Times::Closed(population)) => {
                Some(closed_network(grown(*population, growth).members, &network.stations))
            }
            _ => None,
        }
    }

    /// Figures of several devices.
    fn network_figures(&self) -> Option<NetworkFigures> {
        let (Some(network), Times::Closed(population)) = (&self.network, &self.load.times) else {
            return None;
        };
        let found = self.network_at(1.0)?.ok()?;
        Some(network.figures(population.members, &found))
    }

    /// Tests of the assumptions on several devices.
    fn network_tests(&self) -> impl Iterator<Item = Assumption> {
        let network = self.network.iter();
        network.flat_map(|network| {
            [
                exponential_services(network.stations.iter().map(NetworkStation::variation)),
                independent_routing(self.load.requests.iter().map(|request| request.device)),
            ]
            .into_iter()
            .flatten()
        })
    }

    /// The overload, if the arrivals of an estimate exceed the highest sustained rate of the device.
    fn exceeded(&self, estimate: &Estimate) -> Option<EstimateError> {
        let (arrivals_per_s, saturation_per_s) =
            (estimate.steady.throughput_per_s, estimate.saturation_per_s?);
        let certain = if self.law.origin == LawOrigin::Exact { 1.0 } else { 1.0 + SATURATION_ERROR };
        (arrivals_per_s > saturation_per_s * certain)
            .then_some(EstimateError::Overload { arrivals_per_s, saturation_per_s })
    }

    /// Errors of such estimates in the validation; unknown if an assumption is broken, or none was compared.
    pub(super) fn errors_of(&self, estimate: &Estimate) -> ErrorFigures {
        // Behind limits, requests in one queue in order of arrival were compared, not populations, and no portions that hold.
        let is_compared = match estimate.method {
            Method::FinitePopulation => self.law.limits.is_empty(),
            Method::LimitedQueue => self.law.limits.iter().all(|limit| limit.interval_s <= 0.0),
            _ => self.law.limits.is_empty() || estimate.quantiles_s.is_some(),
        };
        match is_compared && !self.assumptions(Some(estimate.method)).iter().any(AssumptionFigures::is_broken)
        {
            true => {
                errors::errors(estimate.method, self.origin(estimate.method), estimate.steady.utilisation)
            }
            false => ErrorFigures::default(),
        }
    }

    /// Errors of such estimates in the validation where their assumptions hold, with which a simulation is judged: with another
    /// law if none was compared with this.
    pub(super) fn errors_with_assumptions(&self, estimate: &Estimate) -> ErrorFigures {
        errors::errors_with_any_law(
            estimate.method,
            self.origin(estimate.method),
            estimate.steady.utilisation,
        )
    }

    /// Origin of the law in the tables of the validation. Clones and devices with delays have tables of their own: rare long
    /// services make a sample of them less precise. So have two classes of priority on devices without a formula: requests that
    /// wait for the other class have a longer tail than an order that does not look at classes. A recursion over drawn arrivals
    /// has the random variation of its draw, and so has a closed replay on a device that draws its service times; on others it is
    /// the simulation. Other faults were not compared.
    fn origin(&self, method: Method) -> &'static str {
        if self.is_clone {
            return "clone";
        }
        let faults = fault_kinds(&self.device.description);
        if faults.is_empty() && method == Method::ClosedReplay {
            return if self.draws_services() { "drawn" } else { figures::origin(LawOrigin::Sampled) };
        }
        let has_priorities =
            self.law.origin != LawOrigin::Exact && law::serves_one_class_first(&self.device, &self.load);
        if faults.is_empty() && has_priorities {
            "priorities"
        } else if faults.is_empty() {
            let is_recursion = matches!(method, Method::Lindley | Method::LindleyReordered);
            let is_drawn = is_recursion && !self.load.has_same_arrivals;
            if is_drawn { "drawn" } else { figures::origin(self.law.origin) }
        } else if faults.iter().all(|kind| kind == "delay") {
            "faults"
        } else {
            "other faults"
        }
    }

    /// Returns true if service times depend on the seed: of the first requests, one at a time.
    fn draws_services(&self) -> bool {
        const REQUESTS: usize = 64;
        let first: Arc<[Request]> = self.load.requests.iter().take(REQUESTS).copied().collect();
        let run = |seed: Seed| {
            let build = || self.device.build(seed, "disk0").expect("the device was built before");
            closed_replay(&build, &first, 1)
        };
        run(self.seed) != run(self.seed.repetition(1))
    }

    /// Notes on limits: how long bursts last, and a trace that exceeds the highest sustained rate.
    fn notes_of_limits(&self, arrivals_per_s: Option<f64>, estimate: Option<&Estimate>) -> Vec<String> {
        let mut notes = Vec::new();
        for limit in &self.law.limits {
            if let Some(lasts) = arrivals_per_s.and_then(|rate| limit.burst_lasts(rate)) {
                notes.push(format!(
                    "the burst of the limit of {} requests/s lasts {:.1} s under this load",
                    page::number(limit.requests_per_s),
                    lasts.as_s()
                ));
            }
        }
        if let (Times::Poisson { arrivals_per_s }, Some(Estimate { quantiles_s: None, .. })) =
            (&self.load.times, estimate)
            && held(*arrivals_per_s, &self.law).share > HELD_SHARE_MAX
        {
            notes.push(format!(
                "the limits hold {} % of the requests, and on this device, or behind limits that count different requests, no method \
                 says for how long the slowest of them: no percentiles",
                page::number(100.0 * held(*arrivals_per_s, &self.law).share)
            ));
        }
        if let Some(EstimateError::Overload { arrivals_per_s, saturation_per_s }) = estimate
            .filter(|_| matches!(self.load.times, Times::Recorded(_)))
            .and_then(|of| self.exceeded(of))
        {
            notes.push(format!(
                "{} requests arrive per second, and the device completes at most {}: response times grow until the trace ends",
                page::number(arrivals_per_s),
                page::number(saturation_per_s)
            ));
        }
        notes
    }

    /// Arrivals per second under the load multiplied by a factor; `None` of a closed load.
    pub(crate) fn arrivals_per_s(&self, growth: f64) -> Option<f64> {
        match &self.load.times {
            Times::Poisson { arrivals_per_s } | Times::Prioritised { arrivals_per_s, .. } => {
                Some(arrivals_per_s * growth)
            }
            Times::Batches { batches_per_s, batch } => Some(batches_per_s * batch.sizes().mean * growth),
            Times::Closed(_) => None,
            Times::Recorded(_) => self.recorded(growth).map(|load| load.arrivals_per_s()),
        }
    }

    /// Estimates by methods that know only the rate and moments of recorded arrivals.
    fn beside(&self) -> Vec<Estimate> {
        let moments = self.recorded(1.0).and_then(|load| recorded_moments(load).ok());
        moments.map(Vec::from).unwrap_or_default()
    }

    /// Tests of the assumptions on the load; of each, if the method relies on it.
    fn assumptions(&self, method: Option<Method>) -> Vec<AssumptionFigures> {
        let arrivals = match &self.load.times {
            Times::Recorded(arrivals) => arrivals.as_slice(),
            _ => &[],
        };
        let services_s: Vec<f64> = self.services.iter().map(|service| service.service_s).collect();
        let mut tests: Vec<Assumption> = [
            poisson_arrivals(arrivals),
            stationary_arrivals(arrivals),
            independent_services(&services_s),
            services_independent_of_idle(&self.law).filter(|_| !matches!(self.load.times, Times::Closed(_))),
        ]
        .into_iter()
        .flatten()
        .collect();
        if let (Some(load), Some(law)) =
            (RequestShape::of(self.load.requests.iter().map(shape)), self.law_shape)
        {
            tests.extend(requests_of_the_law(load, law));
        }
        tests.push(writes_of_the_law(self.writes_without_law));
        tests.extend(self.load.think_variation.map(exponential_think_times));
        tests.extend(self.network_tests());
        let needed = |test: &Assumption| method.is_some_and(|method| method.relies_on(test.kind));
        tests.iter().map(|test| AssumptionFigures::of(test, needed(test))).collect()
    }
}

/// A population multiplied by a factor, at least one member.
fn grown(population: Population, growth: f64) -> Population {
    let members = (f64::from(population.members) * growth).round().max(1.0);
    Population { members: members as u32, ..population }
}

/// Kinds of the faults of a device; empty if it has none.
fn fault_kinds(description: &Description) -> Vec<String> {
    let layer: Option<Table> =
        (description.kind().name == "fault").then(|| description.to_toml().parse().ok()).flatten();
    let faults = layer.as_ref().and_then(|layer| layer.get("fault")?.as_array());
    let kind = |fault: &Value| fault.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    let own = faults.into_iter().flatten().map(kind);
    own.chain(description.children().iter().flat_map(fault_kinds)).collect()
}

/// Operation, first block and number of blocks.
const fn shape(request: &Request) -> (Operation, u64, u32) {
    (request.op, request.lbn, request.blocks)
}
