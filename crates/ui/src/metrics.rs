//! Figures for Prometheus: of the run under way, and of the last one that ended.
//!
//! # Scope and limits
//! The text has numbers and no names: no target, no path, no plan. So it is served without the token, which changes with each
//! server while the configuration of a scraper does not.
//!
//! # References
//! Prometheus, *Exposition formats*, text format 0.0.4.

use std::fmt::Write;
use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use seeklab_lab::bench::{BenchFigures, DrainingFigures, IntervalFigures};

/// Type of the text.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// End of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunEnd {
    /// Everything was measured.
    Done,
    /// Somebody stopped it.
    Stopped,
    /// A check failed, or nothing was measured.
    Failed,
}

impl RunEnd {
    const ALL: [Self; 3] = [Self::Done, Self::Stopped, Self::Failed];

    /// Its name in events and labels.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

/// The figures, brought up to date by the run.
#[derive(Debug)]
pub(crate) struct Metrics(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_running: bool,
    /// Phases that have begun in the run under way.
    phases: u64,
    /// Sums over all runs of the server.
    requests: u64,
    bytes: u64,
    errors: [(&'static str, u64); 7],
    retries: u64,
    dropped: u64,
    ended: [u64; 3],
    interval: Option<IntervalFigures>,
    last: Option<LastRun>,
}

/// The last run that ended with figures.
#[derive(Debug)]
struct LastRun {
    end_s: f64,
    figures: [(&'static str, &'static str, Option<f64>); 5],
    quantiles_s: [(&'static str, Option<f64>); 4],
    is_trusted: bool,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self(Mutex::default())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no holder panics")
    }

    /// A run begins.
    pub(crate) fn begin(&self) {
        let mut inner = self.lock();
        inner.is_running = true;
        inner.phases = 0;
        inner.interval = None;
    }

    /// A phase begins.
    pub(crate) fn phase(&self) {
        self.lock().phases += 1;
    }

    /// An interval is over.
    pub(crate) fn interval(&self, figures: &IntervalFigures, bytes: u64) {
        let mut inner = self.lock();
        inner.requests += figures.requests;
        inner.bytes += bytes;
        inner.retries += figures.retries;
        inner.dropped += figures.dropped_requests;
        for (sum, (name, count)) in inner.errors.iter_mut().zip(figures.statuses.by_name()) {
            *sum = (name, sum.1 + count);
        }
        inner.interval = Some(figures.clone());
    }

    /// The last requests of a phase are waited for.
    pub(crate) fn draining(&self, figures: &DrainingFigures) {
        if let Some(interval) = &mut self.lock().interval {
            interval.outstanding = figures.outstanding;
            interval.hung_requests = figures.hung_requests;
            interval.oldest_ms = figures.oldest_ms;
        }
    }

    /// The run has ended.
    pub(crate) fn end(&self, end: RunEnd, figures: Option<&BenchFigures>) {
        let mut inner = self.lock();
        inner.is_running = false;
        inner.interval = None;
        inner.ended[end as usize] += 1;
        if let Some(figures) = figures {
            inner.last = Some(LastRun::of(figures));
        }
    }

    /// The text for a scraper.
    pub(crate) fn text(&self) -> String {
        let inner = self.lock();
        let mut text = Exposition::default();
        text.family("running", "gauge", "1 while a run is under way.");
        text.sample("running", "", f64::from(u8::from(inner.is_running)));
        text.family("runs_total", "counter", "Runs of this server that have ended, by their end.");
        for (end, count) in RunEnd::ALL.iter().zip(inner.ended) {
            text.sample("runs_total", &format!("end=\"{}\"", end.name()), count as f64);
        }
        let counters = [
            (
                "requests_total",
                "Requests that were carried out, over all runs of this server.",
                inner.requests,
            ),
            ("bytes_total", "Bytes of these requests.", inner.bytes),
            ("retries_total", "Attempts after the first of a request.", inner.retries),
            ("dropped_requests_total", "Arrivals that found no room and were left out.", inner.dropped),
        ];
        for (name, help, value) in counters {
            text.family(name, "counter", help);
            text.sample(name, "", value as f64);
        }
        text.family("errors_total", "counter", "Attempts by status, but for ok.");
        for (status, count) in inner.errors.iter().filter(|(status, _)| !status.is_empty()) {
            text.sample("errors_total", &format!("status=\"{status}\""), *count as f64);
        }
        text.family(
            "phases_begun",
            "gauge",
            "Phases of the run under way, or of the last one, that have begun.",
        );
        text.sample("phases_begun", "", inner.phases as f64);
        if let Some(interval) = &inner.interval {
            interval_text(&mut text, interval);
        }
        if let Some(last) = &inner.last {
            last.text(&mut text);
        }
        text.0
    }
}

/// Figures of the last interval of the run under way.
fn interval_text(text: &mut Exposition, interval: &IntervalFigures) {
    let gauges = [
        ("requests_per_second", "Requests per second of the last interval.", interval.requests_per_second),
        ("mib_per_second", "MiB per second of the last interval.", interval.mib_per_second),
        ("outstanding_requests", "Attempts that the target has.", Some(interval.outstanding as f64)),
        ("queued_requests", "Arrivals that wait for room.", Some(interval.queued_requests as f64)),
        ("hung_requests", "Attempts of at least a second of age.", Some(interval.hung_requests as f64)),
        (
            "oldest_seconds",
            "Age of the oldest attempt that the target has.",
            interval.oldest_ms.map(|ms| ms / 1e3),
        ),
        (
            "longest_pause_seconds",
            "Longest time without a completion.",
            Some(interval.longest_pause_ms / 1e3),
        ),
    ];
    for (name, help, value) in gauges {
        if let Some(value) = value {
            text.family(name, "gauge", help);
            text.sample(name, "", value);
        }
    }
    let response = &interval.response;
    let quantiles = [
        ("0.5", response.response_p50_ms),
        ("0.9", response.response_p90_ms),
        ("0.99", response.response_p99_ms),
        ("1", response.response_max_ms),
    ];
    text.quantiles(
        "response_seconds",
        "Response times of the last interval, from the intended start.",
        quantiles.map(|(quantile, ms)| (quantile, ms.map(|ms| ms / 1e3))),
    );
}

impl LastRun {
    #[expect(clippy::disallowed_methods, reason = "Prometheus shows the time at which the run ended")]
    fn of(figures: &BenchFigures) -> Self {
        let (load, response) = (&figures.load, &figures.load.response);
        let seconds = |ms: Option<f64>| ms.map(|ms| ms / 1e3);
        Self {
            end_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64()),
            figures: [
                (
                    "last_requests_per_second",
                    "Requests per second of the last run.",
                    load.requests_per_second,
                ),
                ("last_mib_per_second", "MiB per second of the last run.", load.mib_per_second),
                ("last_duration_seconds", "Time that counts in the last run.", Some(load.duration_s)),
                ("last_errors", "Attempts that failed in the last run.", Some(load.errors as f64)),
                (
                    "last_response_mean_seconds",
                    "Mean response time of the last run.",
                    seconds(response.response_mean_ms),
                ),
            ],
            quantiles_s: [
                ("0.5", seconds(response.response_p50_ms)),
                ("0.9", seconds(response.response_p90_ms)),
                ("0.99", seconds(response.response_p99_ms)),
                ("1", seconds(response.response_max_ms)),
            ],
            is_trusted: figures.trusted,
        }
    }

    fn text(&self, text: &mut Exposition) {
        text.family("last_end_timestamp_seconds", "gauge", "End of the last run, since 1970.");
        text.sample("last_end_timestamp_seconds", "", self.end_s.round());
        text.family(
            "last_trusted",
            "gauge",
            "1 if nothing is known that distorts the figures of the last run.",
        );
        text.sample("last_trusted", "", f64::from(u8::from(self.is_trusted)));
        for (name, help, value) in self.figures {
            if let Some(value) = value {
                text.family(name, "gauge", help);
                text.sample(name, "", value);
            }
        }
        text.quantiles("last_response_seconds", "Response times of the last run.", self.quantiles_s);
    }
}

/// Text in Prometheus' format.
#[derive(Default)]
struct Exposition(String);

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP seeklab_bench_{name} {help}\n# TYPE seeklab_bench_{name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &str, value: f64) {
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(self.0, "seeklab_bench_{name}{labels} {value}");
    }

    fn quantiles(&mut self, name: &str, help: &str, quantiles: [(&str, Option<f64>); 4]) {
        if quantiles.iter().all(|(_, value)| value.is_none()) {
            return;
        }
        self.family(name, "gauge", help);
        for (quantile, value) in quantiles {
            if let Some(value) = value {
                self.sample(name, &format!("quantile=\"{quantile}\""), value);
            }
        }
    }
}
