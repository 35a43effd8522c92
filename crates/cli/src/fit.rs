//! A device fitted to its trace, and how well it predicts what it did not see.
//!
//! ```text
//! trace ─▶ first pass: span, size ─▶ second pass ─┬─ before the split ─▶ fit ─▶ model
//!                                                 └─ after ─▶ model, open, beside what was measured
//!                                                           └▶ fit goes on: the saved device is of all
//! ```

use std::collections::BTreeMap;

use seeklab_analysis::{Prediction, prediction};
use seeklab_core::statistics::Distribution;
use seeklab_core::{ByteSize, Completion, Device, Duration, Instant, Ratio, Seed, Status, TraceRecord};
use seeklab_devices::table::{Classes, TableFit, TableModel, TableParameters, Usage};
use seeklab_traces::OpenTrace;
use serde::Serialize;

use crate::failure::Failure;
use crate::progress::Progress;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct FitOptions {
    /// Which device of the trace; its only one if `None`.
    pub device: Option<u16>,
    /// Share of the time that is fitted before the rest is predicted.
    pub split: Ratio,
    /// How finely requests are told apart.
    pub classes: Classes,
    /// Root of the draws of the prediction.
    pub seed: Seed,
}

/// A fitted device.
#[derive(Debug)]
pub struct Fitted {
    /// Its description.
    pub parameters: TableParameters,
    /// What it was fitted to, and how it predicts.
    pub report: FitReport,
}

/// What was fitted, and how it predicts.
#[derive(Debug, Serialize)]
pub struct FitReport {
    /// Which device of the trace.
    pub device: u16,
    /// Requests that the saved device was fitted to.
    pub requests: u64,
    /// Requests without a response time.
    pub without_response: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests of the recorder itself, which were left out.
    pub recorders_own: u64,
    /// Most requests that were outstanding when another arrived.
    pub queue_length_max: u32,
    /// Cells of the tables.
    pub cells: usize,
    /// From the first arrival to the last.
    pub span_s: f64,
    /// How the device fitted to the first part predicts the rest; `None` if either has no requests.
    pub evaluation: Option<Evaluation>,
}

/// How a device predicts what it did not see.
#[derive(Debug, Serialize)]
pub struct Evaluation {
    /// Requests in the part that it was fitted to.
    pub fitted: u64,
    /// Requests that it predicted.
    pub predicted: u64,
    /// What was measured.
    pub measured: Times,
    /// What it predicted.
    pub model: Times,
    /// How far these are apart.
    #[serde(flatten)]
    pub prediction: Prediction,
    /// Share of the requests that had no distribution of their own class.
    pub borrowed_pct: f64,
}

/// A distribution in a few figures.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Times {
    /// Mean response time.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// 99.9th percentile.
    pub p999_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl Times {
    fn of(distribution: &Distribution) -> Option<Self> {
        let quantile = |share| distribution.quantile(share).map(Duration::as_ms);
        Some(Self {
            mean_ms: distribution.moments().mean()? / 1e6,
            p50_ms: quantile(0.5)?,
            p99_ms: quantile(0.99)?,
            p999_ms: quantile(0.999)?,
            max_ms: distribution.moments().max()? / 1e6,
        })
    }
}

/// What one pass tells.
#[derive(Debug, Default)]
struct Survey {
    /// Requests of each device.
    devices: BTreeMap<u16, u64>,
    span: BTreeMap<u16, (Instant, Instant)>,
    end: BTreeMap<u16, u64>,
    recorders_own: u64,
}

impl Survey {
    fn of(trace: OpenTrace) -> Result<Self, Failure> {
        let mut survey = Self::default();
        each(trace, "looking at the trace", |record, is_own| {
            if is_own {
                survey.recorders_own += 1;
                return;
            }
            *survey.devices.entry(record.device).or_default() += 1;
            let span = survey.span.entry(record.device).or_insert((record.arrival, record.arrival));
            span.1 = span.1.max(record.arrival);
            let end = survey.end.entry(record.device).or_default();
            *end = (*end).max(record.lbn.saturating_add(u64::from(record.blocks)));
        })?;
        Ok(survey)
    }

    fn device(&self, wanted: Option<u16>) -> Result<u16, Failure> {
        let names = || self.devices.keys().map(u16::to_string).collect::<Vec<_>>().join(", ");
        match (wanted, self.devices.len()) {
            (_, 0) => Err(Failure::new("the trace has no requests")),
            (Some(device), _) if self.devices.contains_key(&device) => Ok(device),
            (Some(device), _) => Err(Failure::new(format!("--device {device}: there is no such device"))
                .hint(format!("the trace has {}", names()))),
            (None, 1) => Ok(*self.devices.keys().next().expect("there is one")),
            (None, count) => {
                Err(Failure::new(format!("the trace has {count} devices, and a model is of one"))
                    .hint(format!("choose with --device: {}", names())))
            }
        }
    }
}

/// Shows every row to `take`, and whether the recorder made it.
fn each(mut trace: OpenTrace, what: &str, mut take: impl FnMut(&TraceRecord, bool)) -> Result<(), Failure> {
    let mut progress = Progress::new(what, None);
    while let Some(record) = trace.next().transpose()? {
        let recorder = trace.metadata().recorder();
        take(&record, recorder.is_recorders_own(&record));
        progress.step();
    }
    Ok(())
}

/// Fits a device to the trace that `open` opens, twice; `about` says in the description where it came from.
///
/// # Errors
/// A trace that cannot be read, has no such device, or no response times.
pub fn fit(
    open: &dyn Fn() -> Result<OpenTrace, Failure>,
    options: &FitOptions,
    mut about: BTreeMap<String, String>,
) -> Result<Fitted, Failure> {
    let survey = Survey::of(open()?)?;
    let device = survey.device(options.device)?;
    let (first, last) = survey.span[&device];
    let boundary = first + Duration::from_ns_f64((last - first).as_ns() as f64 * options.split.as_f64());
    let capacity_blocks = survey.end[&device];
    let trace = open()?;
    let block_size = trace.metadata().block_size;
    let mut fit = TableFit::new(options.classes).map_err(seeklab_devices::DescriptionError::from)?;
    let mut predicting = None;
    let mut failure = None;
    each(trace, "fitting", |record, is_own| {
        if is_own || record.device != device || failure.is_some() {
            return;
        }
        if record.arrival >= boundary && predicting.is_none() && fit.summary().requests > 0 {
            let made = Predicting::by(&fit, block_size, capacity_blocks, options.seed);
            predicting = made.map_err(|error| failure = Some(error)).ok();
        }
        if let Some(predicting) = &mut predicting {
            failure = predicting.take(record).err();
        }
        fit.record(record);
    })?;
    if let Some(error) = failure {
        return Err(error);
    }
    let summary = fit.summary();
    if summary.requests == 0 {
        return Err(Failure::new("no request of the trace has a response time, so there is nothing to learn from")
            .hint("`seeklab trace info` says what the format lacks; record with `seeklab capture` or `seeklab record`"));
    }
    let evaluation = predicting.and_then(|predicting| predicting.finish(options.seed));
    about.insert("device".to_owned(), device.to_string());
    about.insert("requests".to_owned(), summary.requests.to_string());
    about.insert("span".to_owned(), format!("{:.3}s", (last - first).as_s()));
    about.insert("queue_length_max".to_owned(), summary.queue_length_max.to_string());
    if let Some(evaluation) = &evaluation {
        about.insert("evaluation".to_owned(), sentence(evaluation, options.split));
    }
    let report = FitReport {
        device,
        requests: summary.requests,
        without_response: summary.without_response,
        failed: summary.failed,
        recorders_own: survey.recorders_own,
        queue_length_max: summary.queue_length_max,
        cells: fit.cells(),
        span_s: (last - first).as_s(),
        evaluation,
    };
    Ok(Fitted { parameters: fit.parameters(block_size, Some(capacity_blocks), about), report })
}

/// How well it predicts, in one sentence for its description.
pub fn sentence(evaluation: &Evaluation, split: Ratio) -> String {
    let pct = |demerit: &seeklab_analysis::comparison::Demerit| {
        demerit.ea_rms_pct.map_or_else(|| "-".to_owned(), |pct| format!("{pct:.2} %"))
    };
    let Prediction { all, to_p99, floor_all, floor_to_p99 } = &evaluation.prediction;
    format!(
        "fitted to the first {:.0} % of the time, demerit over the rest {} (floor {}), to p99 {} (floor {})",
        100.0 * split.as_f64(),
        pct(all),
        pct(floor_all),
        pct(to_p99),
        pct(floor_to_p99)
    )
}

/// A device that predicts what follows, request by request.
struct Predicting {
    model: TableModel,
    fitted: u64,
    completions: Vec<Completion>,
    measured: Distribution,
    modelled: Distribution,
}

/// The id of requests whose response times were measured, and of the others.
const MEASURED: [u64; 2] = [1, 0];

impl Predicting {
    fn by(fit: &TableFit, block_size: ByteSize, capacity_blocks: u64, seed: Seed) -> Result<Self, Failure> {
        let parameters = fit.parameters(block_size, Some(capacity_blocks), BTreeMap::new());
        let model =
            TableModel::new(&parameters, seed, "disk0").map_err(seeklab_devices::DescriptionError::from)?;
        let (measured, modelled) = Default::default();
        Ok(Self { model, fitted: fit.summary().requests, completions: Vec::new(), measured, modelled })
    }

    /// One request more, in order of arrival.
    fn take(&mut self, record: &TraceRecord) -> Result<(), Failure> {
        let response = record.response_time().filter(|_| record.status == Status::Ok);
        self.poll(record.arrival);
        let request = record.request(MEASURED[usize::from(response.is_none())]);
        if self.model.capabilities().check(&request).is_err() {
            // A transfer of nothing; the trace says so, and no device takes it.
            return Ok(());
        }
        self.model.submit(record.arrival, request).map_err(|error| {
            Failure::chain(&error).context("the fitted device refuses a request of its own trace")
        })?;
        if let Some(response) = response {
            self.measured.record(response);
        }
        Ok(())
    }

    fn poll(&mut self, until: Instant) {
        self.model.poll(until, &mut self.completions);
        for completion in self.completions.drain(..) {
            if completion.request.id.0 == MEASURED[0] {
                self.modelled.record(completion.response_time());
            }
        }
    }

    fn finish(mut self, seed: Seed) -> Option<Evaluation> {
        while let Some(next) = self.model.next_event() {
            self.poll(next);
        }
        let Usage { requests, borrowed } = self.model.usage();
        Some(Evaluation {
            fitted: self.fitted,
            predicted: self.measured.moments().count(),
            measured: Times::of(&self.measured)?,
            model: Times::of(&self.modelled)?,
            prediction: prediction(&self.measured, &self.modelled, seed)?,
            borrowed_pct: 100.0 * borrowed as f64 / requests.max(1) as f64,
        })
    }
}
