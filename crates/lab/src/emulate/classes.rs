//! Classes of the requests of an emulated block device, as its host has them.
//!
//! ```text
//!  start ─▶ block device ─▶ ClassCapture::start ── Following ──▶ HostClasses, in the emulation ─▶ pacer
//!                                                     └─ records, counts ─▶ CriticalityFigures ◀─┘
//! ```
//! The emulation begins before there is a block device, so the capture follows it. Requests until then have the class of
//! their operation. The capture ends, and its instance of tracefs is removed, with the emulation.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use seeklab_analysis::{CriticalitySummaries, Metrics};
use seeklab_core::number_words::numbered;
use seeklab_core::statistics::Distribution;
use seeklab_core::{ByteSize, Criticality, Duration, Instant, Operation, TraceRecord};
use seeklab_emulator::clock::Clock;
use seeklab_emulator::emulation::{ClassChange, ClassSource, Observe};
use seeklab_traces::capture::criticality::{ClassCapture, ClassRule, WaitCounts};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Figures of the classes of an emulation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CriticalityFigures {
    /// Rule by which requests had classes: `flags` or `waits`.
    pub rule: String,
    /// Requests by their class at arrival. `None` if all requests had one class, which did not change.
    pub by_criticality: Option<CriticalitySummaries>,
    /// Requests whose class changed while the model had them.
    pub reclassified_requests: u64,
    /// Time from the arrival of these requests to the last change. Mean.
    pub class_delay_mean_ms: Option<f64>,
    /// Time from the arrival of these requests to the last change. Median.
    pub class_delay_p50_ms: Option<f64>,
    /// Time from the arrival of these requests to the last change. 99th percentile.
    pub class_delay_p99_ms: Option<f64>,
    /// Time from the arrival of these requests to the last change. The longest.
    pub class_delay_max_ms: Option<f64>,
    /// Changes that had no effect, as the model had completed the request.
    pub missed_changes: u64,
    /// Sleeps of threads on a request of the device. 0 by flags.
    pub request_waits: u64,
    /// Sleeps of threads that had made too much dirty. 0 by flags.
    pub throttled_waits: u64,
    /// Other sleeps of threads that use the device, as on a lock. 0 by flags.
    pub other_waits: u64,
    /// Events that the kernel lost.
    pub lost_events: u64,
}

impl CriticalityFigures {
    /// Returns the figures in a sentence.
    pub fn sentence(&self) -> String {
        let classes = self.by_criticality.iter().flat_map(CriticalitySummaries::by_class);
        let classes = classes.filter(|(_, class)| class.requests > 0).map(|(criticality, class)| {
            let name = criticality.name().replace('_', "-");
            let mean_ms = class.response_mean_ms.unwrap_or_default();
            format!("{} {name} (mean response {mean_ms:.2} ms)", class.requests)
        });
        let mut text = format!("by {}: {}", self.rule, classes.collect::<Vec<_>>().join(", "));
        if self.by_criticality.is_none() {
            text += "all requests of one class";
        }
        if let (Some(mean_ms), Some(p99_ms)) = (self.class_delay_mean_ms, self.class_delay_p99_ms) {
            text += &format!(
                "; {} changed class after the arrival: mean {mean_ms:.3} ms, p99 {p99_ms:.3} ms",
                self.reclassified_requests
            );
        }
        if self.lost_events > 0 {
            text += &format!("; {}", numbered(self.lost_events, "event[|s] [was|were] lost"));
        }
        text
    }
}

/// Requests by class, and counts of the capture, for the figures.
struct Gathered {
    metrics: Metrics,
    delays: Distribution,
    waits: WaitCounts,
    lost_events: u64,
}

impl Gathered {
    fn take(&mut self, record: &TraceRecord) {
        self.metrics.record(record);
        if let Some((last, _)) = record.became.changes().last() {
            self.delays.record(last.saturating_since(record.arrival));
        }
    }
}

/// The part of an emulation that starts the capture.
pub(super) struct Following {
    rule: ClassRule,
    start: Sender<ClassCapture>,
}

/// The part of an emulation that its thread has.
pub(super) struct Classes {
    started: Receiver<ClassCapture>,
    rule: ClassRule,
    gathered: Arc<Mutex<Gathered>>,
}

/// Source of classes: the host, once it is followed.
struct HostClasses {
    rule: ClassRule,
    origin_ns: u64,
    started: Receiver<ClassCapture>,
    capture: Option<ClassCapture>,
    gathered: Arc<Mutex<Gathered>>,
}

/// Both parts of an emulation in blocks of that size whose requests have classes by `rule`.
pub(super) fn follow(rule: ClassRule, block_size: ByteSize) -> (Following, Classes) {
    let (start, started) = channel();
    let gathered = Gathered {
        metrics: Metrics::new(block_size),
        delays: Distribution::default(),
        waits: WaitCounts::default(),
        lost_events: 0,
    };
    let gathered = Arc::new(Mutex::new(gathered));
    (Following { rule, start }, Classes { started, rule, gathered })
}

impl Following {
    /// Begins to follow the host of `block`.
    ///
    /// # Errors
    /// Requirements that are missing, and their remedy.
    pub(super) fn begin(&self, block: &Path) -> Result<(), Failure> {
        let capture = ClassCapture::start(block, self.rule).map_err(|error| {
            let hint = error.hint();
            let failure = Failure::chain(&error).context(format!("--criticality {}", self.rule.name()));
            hint.into_iter().fold(failure, Failure::hint)
        })?;
        // An emulation that has ended follows nothing.
        let _ = self.start.send(capture);
        Ok(())
    }
}

impl Classes {
    /// The source for an emulation on that clock, its observer, and the figures when both have gone.
    pub(super) fn into_parts(
        self,
        clock: Clock,
        mut observe: Option<Observe>,
    ) -> (Box<dyn ClassSource>, Observe, ClassResult) {
        let Self { started, rule, gathered } = self;
        let source = HostClasses {
            rule,
            origin_ns: clock.origin_ns(),
            started,
            capture: None,
            gathered: Arc::clone(&gathered),
        };
        let taken = Arc::clone(&gathered);
        let observe: Observe = Box::new(move |record| {
            taken.lock().expect("nothing panics while it holds this").take(record);
            if let Some(observe) = &mut observe {
                observe(record);
            }
        });
        (Box::new(source), observe, ClassResult { rule, gathered })
    }
}

impl ClassSource for HostClasses {
    fn poll(&mut self, changes: &mut Vec<ClassChange>) {
        if self.capture.is_none() {
            self.capture = self.started.try_recv().ok();
        }
        let Some(capture) = &mut self.capture else { return };
        let origin_ns = self.origin_ns;
        capture.poll(|notice| {
            changes.push(ClassChange {
                at: Instant::from_ns(notice.time_ns.saturating_sub(origin_ns)),
                op: notice.op,
                offset_bytes: notice.offset_bytes,
                length_bytes: notice.length_bytes,
                criticality: notice.criticality,
            });
        });
    }

    fn class(&self, op: Operation, offset_bytes: u64, length_bytes: u64) -> Criticality {
        match &self.capture {
            Some(capture) => capture.class(op, offset_bytes, length_bytes),
            None => self.rule.class_of_operation(op),
        }
    }
}

impl Drop for HostClasses {
    fn drop(&mut self) {
        if let (Some(capture), Ok(mut gathered)) = (&self.capture, self.gathered.lock()) {
            (gathered.waits, gathered.lost_events) = (capture.waits(), capture.lost_events());
        }
    }
}

/// Access to the figures, when the emulation and its source have gone.
pub(super) struct ClassResult {
    rule: ClassRule,
    gathered: Arc<Mutex<Gathered>>,
}

impl ClassResult {
    /// Returns the figures of an emulation in which so many changes had no effect.
    pub(super) fn figures(&self, missed_changes: u64) -> CriticalityFigures {
        let gathered = self.gathered.lock().expect("nothing panics while it holds this");
        let delays = &gathered.delays;
        let moments = delays.moments();
        let ms = |ns: f64| ns / 1e6;
        let quantile = |quantile| delays.quantile(quantile).map(Duration::as_ms);
        CriticalityFigures {
            rule: self.rule.name().to_owned(),
            by_criticality: gathered.metrics.summary().by_criticality,
            reclassified_requests: moments.count(),
            class_delay_mean_ms: moments.mean().map(ms),
            class_delay_p50_ms: quantile(0.5),
            class_delay_p99_ms: quantile(0.99),
            class_delay_max_ms: moments.max().map(ms),
            missed_changes,
            request_waits: gathered.waits.attributed,
            throttled_waits: gathered.waits.throttled,
            other_waits: gathered.waits.other,
            lost_events: gathered.lost_events,
        }
    }
}
