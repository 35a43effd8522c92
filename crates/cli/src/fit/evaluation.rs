//! How a fitted device predicts what it did not see.

use seeklab_analysis::{Prediction, prediction};
use seeklab_core::statistics::Distribution;
use seeklab_core::{Completion, Coverage, Device, Duration, Instant, Ratio, Seed, Status, TraceRecord};
use seeklab_devices::fit::{About, Fit};
use seeklab_devices::replay::Replay;
use serde::Serialize;

use super::FitOptions;
use crate::failure::Failure;

/// How a device predicts what it did not see.
#[derive(Debug, Serialize)]
pub struct Evaluation {
    /// The model.
    pub model: &'static str,
    /// Requests in the part that it was fitted to.
    pub fitted: u64,
    /// Requests that it predicted.
    pub predicted: u64,
    /// What was measured.
    pub measured: Times,
    /// What it said.
    pub said: Times,
    /// How far these are apart.
    #[serde(flatten)]
    pub prediction: Prediction,
    /// Share of the requests that were unlike all that it was fitted to.
    pub outside_pct: f64,
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
pub(super) struct Predicting {
    model: &'static str,
    device: Box<dyn Device>,
    fitted: u64,
    replay: Replay,
    completions: Vec<Completion>,
    measured: Distribution,
    modelled: Distribution,
}

/// The id of requests whose response times were measured, and of the others.
const MEASURED: [u64; 2] = [1, 0];

impl Predicting {
    /// By the device that was fitted so far.
    pub(super) fn by(
        model: &'static str,
        fit: &dyn Fit,
        about: About,
        options: &FitOptions,
    ) -> Result<Self, Failure> {
        let device = seeklab_devices::fit::build(fit, about, options.seed, "disk0")?;
        let (measured, modelled) = Default::default();
        Ok(Self {
            model,
            device,
            fitted: fit.summary().requests,
            replay: if options.is_open { Replay::open() } else { Replay::default() },
            completions: Vec::new(),
            measured,
            modelled,
        })
    }

    /// One request more, in order of arrival.
    pub(super) fn take(&mut self, record: &TraceRecord) -> Result<(), Failure> {
        let response = record.response_time().filter(|_| record.status == Status::Ok);
        if self.replay.wakes(record.arrival) {
            while let Some(next) = self.device.next_event() {
                self.poll(next);
                self.replay.idle(next);
            }
        }
        let arrival = self.replay.arrival(record.arrival, record.completion.unwrap_or(record.arrival));
        self.poll(arrival);
        let request = record.request(MEASURED[usize::from(response.is_none())]);
        if self.device.capabilities().check(&request).is_err() {
            // A transfer of nothing; the trace says so, and no device takes it.
            return Ok(());
        }
        self.device.submit(arrival, request).map_err(|error| {
            Failure::chain(&error).context("the fitted device refuses a request of its own trace")
        })?;
        if let Some(response) = response {
            self.measured.record(response);
        }
        Ok(())
    }

    fn poll(&mut self, until: Instant) {
        self.device.poll(until, &mut self.completions);
        for completion in self.completions.drain(..) {
            if completion.request.id.0 == MEASURED[0] {
                self.modelled.record(completion.response_time());
            }
        }
    }

    /// How it did, when all is over; `None` if nothing was measured.
    pub(super) fn finish(mut self, seed: Seed) -> Option<Evaluation> {
        while let Some(next) = self.device.next_event() {
            self.poll(next);
        }
        let Coverage { requests, outside } = self.device.coverage().unwrap_or_default();
        Some(Evaluation {
            model: self.model,
            fitted: self.fitted,
            predicted: self.measured.moments().count(),
            measured: Times::of(&self.measured)?,
            said: Times::of(&self.modelled)?,
            prediction: prediction(&self.measured, &self.modelled, seed)?,
            outside_pct: 100.0 * outside as f64 / requests.max(1) as f64,
        })
    }
}
