//! Fits of devices of a trace, fed by the same passes over it.

use std::collections::BTreeMap;

use seeklab_core::number_words::in_number;
use seeklab_core::{Duration, Instant, Ratio, TraceRecord};
use seeklab_devices::limit::limit_summaries;
use seeklab_learning::StopCheck;
use seeklab_learning::evaluation::{Evaluated, Evaluating};
use seeklab_learning::fit::{DeviceInfo, Fit};
use seeklab_learning::survey::DeviceCounts;
use seeklab_learning::warm_up::Settled;
use seeklab_traces::schema::Column;
use seeklab_traces::{OpenTrace, Recorder};

use super::capacity::Capacity;
use super::passes::each_run;
use super::{
    FitOptions, FitReport, Fitted, FoundWarmUp, PredictedPart, Surveyed, TimesFrom, check_end,
    check_response_times, choice, opened, sentence,
};
use crate::failure::Failure;
use crate::session::Session;
use crate::trace_notes::reading;

/// Fit of one device of a trace that was looked at.
pub(super) struct DeviceFit<'a> {
    session: &'a Session,
    options: &'a FitOptions,
    device: u16,
    seen: DeviceCounts,
    recorder_requests: u64,
    split: Ratio,
    times_from: TimesFrom,
    capacity: Capacity,
    place: DeviceInfo,
    about: BTreeMap<String, String>,
    fits: Vec<Box<dyn Fit>>,
    evaluating: Evaluating,
    requests_without_response: u64,
    warm_up: Option<FoundWarmUp>,
}

/// Returns true for a request that is neither fitted nor predicted: one of the recorder, or one without a response time, which the device
/// may never have received.
fn is_left_out(record: &TraceRecord, recorder: Recorder) -> bool {
    record.completion.is_none() || recorder.is_recorders_own(record)
}

/// The failure of fits that a warm-up leaves without requests. `None` if they have some.
fn nothing_left(warm_up: Option<&FoundWarmUp>, fits: &[Box<dyn Fit>]) -> Option<Failure> {
    let left_out = warm_up.filter(|warm_up| warm_up.is_left_out && warm_up.requests > 0)?;
    let mut summaries = fits.iter().map(|fit| fit.summary());
    let is_empty = summaries.any(|summary| summary.requests == 0 && summary.failed_requests == 0);
    is_empty.then(|| left_out.nothing_behind())
}

impl<'a> DeviceFit<'a> {
    /// Begins a fit. The split is of the time between the two of `span`.
    ///
    /// # Errors
    /// Options that do not fit the device.
    pub(super) fn begin(
        session: &'a Session,
        options: &'a FitOptions,
        Surveyed { survey, metadata }: &Surveyed,
        device: u16,
        span: (Instant, Instant),
        about: BTreeMap<String, String>,
    ) -> Result<Self, Failure> {
        let seen = survey.counts(device);
        let times_from = TimesFrom::choose(options.times_from, metadata.is_captured(), &seen)?;
        let block_size = metadata.block_size;
        let capacity = Capacity::choose(options.capacity, metadata.capacity(device), &seen, block_size)?;
        let place = DeviceInfo { block_size, capacity_blocks: capacity.blocks, fit: BTreeMap::new() };
        check_end(&place, about.get("trace"))?;
        let begun: Result<Vec<_>, _> =
            options.models.iter().map(|model| (model.begin)(options.classes)).collect();
        let mut fits = begun?;
        let stop = session.stop().clone();
        let stop = StopCheck::new(move || stop.is_stopped());
        for fit in &mut fits {
            fit.leave_out(&options.left_out);
            fit.stop_by(&stop);
        }
        let boundary = options.split.boundary(span);
        let shown = survey.warm_up(device, boundary);
        let warm_up = FoundWarmUp::choose(options.warm_up, shown, (seen.span.0, boundary))?;
        if let Some(found) = &warm_up {
            let settled = options.models.iter().zip(fits).map(|(model, fit)| -> Box<dyn Fit> {
                if found.is_of(model) { Box::new(Settled::new(fit, found.end)) } else { fit }
            });
            fits = settled.collect();
        }
        let FitOptions { predicted, seed, is_open, .. } = *options;
        Ok(Self {
            session,
            options,
            device,
            seen,
            recorder_requests: survey.recorder_requests,
            split: options.split.share(span),
            times_from,
            capacity,
            place,
            about,
            fits,
            evaluating: Evaluating::from(boundary, predicted, device, seed, is_open),
            requests_without_response: 0,
            warm_up,
        })
    }

    /// Start of its response times.
    pub(super) const fn times_from(&self) -> TimesFrom {
        self.times_from
    }

    /// Fits the first part to requests of the device, which come once more.
    fn fit_first_part(&mut self, records: &[TraceRecord], recorder: Recorder) {
        let runs = records.split(|record| is_left_out(record, recorder));
        runs.for_each(|run| self.evaluating.fit_first_part(run, &mut self.fits));
    }

    /// Takes requests of the device.
    fn take(&mut self, records: &[TraceRecord], recorder: Recorder) -> Result<(), Failure> {
        let ours = records.iter().filter(|record| !recorder.is_recorders_own(record));
        check_response_times(ours.clone())?;
        if let Some(warm_up) = &mut self.warm_up {
            let is_in_it =
                |record: &&TraceRecord| record.arrival < warm_up.end && record.completion.is_some();
            warm_up.requests += ours.clone().filter(is_in_it).count() as u64;
        }
        self.requests_without_response += ours.filter(|record| record.completion.is_none()).count() as u64;
        let mut runs = records.split(|record| is_left_out(record, recorder));
        runs.try_for_each(|run| {
            let begins = self.evaluating.begins_with(run);
            let _working = begins.then(|| self.session.working("fitting the first part"));
            let taken = self.evaluating.take(run, &self.place, &self.options.models, &mut self.fits);
            taken.map_err(|error| {
                nothing_left(self.warm_up.as_ref(), &self.fits).unwrap_or_else(|| error.into())
            })
        })
    }

    /// Returns the fitted device when all requests are taken. `notes` are those on reading the trace.
    fn finish(self, notes: Vec<String>) -> Result<Fitted, Failure> {
        let Self { session, options, device, seen, split, times_from, capacity, mut about, mut fits, .. } =
            self;
        let (first, last) = seen.span;
        let block_size = self.place.block_size;
        if let Some(failure) = nothing_left(self.warm_up.as_ref(), &fits) {
            return Err(failure);
        }
        let summary = fits[0].summary();
        if summary.requests == 0 && summary.failed_requests > 0 {
            return Err(Failure::new(format!(
                "{} with a response time failed, so no model can be fitted",
                in_number(
                    summary.failed_requests,
                    &format!("[the only request|all {} requests]", summary.failed_requests)
                )
            ))
            .hint(
                "models are fitted to requests that succeed; `seeklab trace head` shows some of these requests",
            ));
        }
        if summary.requests == 0 {
            return Err(Failure::new("no request of the trace has a response time, so no model can be fitted")
                .hint("`seeklab trace info` lists the missing columns; record with `seeklab capture` or `seeklab record`"));
        }
        let Evaluated { evaluations, measured } = self.evaluating.finish().unwrap_or_default();
        about.insert("device".to_owned(), device.to_string());
        about.insert("span".to_owned(), format!("{:.3}s", (last - first).as_s()));
        about.insert("capacity".to_owned(), capacity.origin.text().to_owned());
        about.insert("times_from".to_owned(), times_from.name().to_owned());
        session.check()?;
        let _working = session.working("fitting the whole trace");
        let (saved, saved_because) = choice::choose(&evaluations, &fits, block_size)?;
        if evaluations.get(saved).is_some_and(choice::is_usable) {
            fits[saved].keep_structure();
        }
        let summary = fits[saved].summary();
        about.insert("requests".to_owned(), summary.requests.to_string());
        about.insert("queue_length_max".to_owned(), summary.queue_length_max.to_string());
        about.insert("model".to_owned(), options.models[saved].name.to_owned());
        if let Some(warm_up) = self.warm_up.as_ref().filter(|warm_up| warm_up.is_of(options.models[saved])) {
            about.insert("warm_up".to_owned(), format!("{:.3}s", warm_up.time_s));
        }
        if let Some(evaluation) = evaluations.get(saved) {
            about.insert("evaluation".to_owned(), sentence(evaluation, split, options.predicted));
        }
        let description = fits[saved].description(DeviceInfo { fit: about, ..self.place })?;
        let report = FitReport {
            device,
            predicted_part: options.predicted,
            saved_model: options.models[saved].name,
            saved_because,
            requests: summary.requests,
            requests_without_response: self.requests_without_response,
            failed_requests: summary.failed_requests,
            recorder_requests: self.recorder_requests,
            queue_length_max: summary.queue_length_max,
            span_s: (last - first).as_s(),
            capacity_bytes: capacity.blocks.saturating_mul(block_size.as_bytes()),
            capacity_origin: capacity.origin,
            times_from,
            host_queue_mean_ms: seen.waited_mean().map(Duration::as_ms),
            requests_without_issue: seen.requests - seen.issued,
            warm_up: self.warm_up,
            notes,
            limits: limit_summaries(&description),
            evaluations,
            rest: measured,
        };
        Ok(Fitted { description, report, split })
    }
}

/// Fits devices, each by its own requests, in one pass over the trace, or in two to predict all of it. Their times start at the same point.
/// An error of one is returned with what `context` makes of its number.
pub(super) fn fit_devices(
    session: &Session,
    open: &dyn Fn(&'static [Column]) -> Result<OpenTrace, Failure>,
    fits: Vec<DeviceFit>,
    context: &dyn Fn(u16, Failure) -> Failure,
) -> Result<Vec<Fitted>, Failure> {
    let Some(first) = fits.first() else { return Ok(Vec::new()) };
    let (times_from, predicted) = (first.times_from, first.options.predicted);
    let mut fits: BTreeMap<u16, DeviceFit> = fits.into_iter().map(|fit| (fit.device, fit)).collect();
    let by_device = |one: &TraceRecord, next: &TraceRecord| one.device == next.device;
    if predicted == PredictedPart::All {
        each_run(session, opened(open, times_from)?, "fitting the first part", |records, recorder| {
            for run in records.chunk_by(by_device) {
                if let Some(fit) = fits.get_mut(&run[0].device) {
                    fit.fit_first_part(run, recorder);
                }
            }
            Ok(())
        })?;
    }
    let trace = each_run(session, opened(open, times_from)?, "fitting", |records, recorder| {
        records.chunk_by(by_device).try_for_each(|run| {
            let device = run[0].device;
            let fit = fits.get_mut(&device);
            fit.map_or(Ok(()), |fit| fit.take(run, recorder)).map_err(|failure| context(device, failure))
        })
    })?;
    let finished = fits.into_values().map(|fit| {
        let device = fit.device;
        fit.finish(reading(&trace)).map_err(|failure| context(device, failure))
    });
    finished.collect()
}
