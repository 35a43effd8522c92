//! Requests of a simulation, as the tests of an estimate's assumptions need them.

use seeklab_analysis::MetricsSummary;
use seeklab_core::{Criticality, Instant, Operation, Status, TraceRecord};
use seeklab_devices::service_law::ServiceLaw;
use seeklab_estimate::assumptions::{
    Assumption, RequestShape, independent_services, limits_in_steady_state, no_faults, observed_after_idle,
    poisson_arrivals, poisson_batches, requests_of_the_law, services_independent_of_idle,
    stationary_arrivals,
};
use seeklab_traces::{Note, TraceError, TraceWriter};

/// Requests that are kept at most. Those behind count for the share of faults only.
const REQUESTS_MAX: usize = 2_000_000;

/// Stretches of the run from which the random variation of its figures follows.
const STRETCHES: usize = 10;

/// Requests of a stretch at least.
const STRETCH_MIN: usize = 10;

/// 95th percentile of Student's distribution with 9 degrees of freedom, for intervals of 90 %.
const STUDENT: f64 = 1.833;

/// Idle times at least for a mean service time after them.
const AFTER_IDLE_MIN: usize = 100;

/// Requests of a simulation in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    arrivals: Vec<Instant>,
    completions: Vec<Instant>,
    shapes: Vec<(Operation, u64, u32)>,
    criticalities: Vec<Criticality>,
    /// True of the requests that a fault struck.
    struck: Vec<bool>,
    requests: u64,
    struck_requests: u64,
}

/// Random variation of a run's figures: half the width of a 90 % interval, in percent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Variation {
    pub(super) mean_pct: Option<f64>,
    pub(super) p99_pct: Option<f64>,
    pub(super) time_critical_mean_pct: Option<f64>,
    pub(super) time_noncritical_mean_pct: Option<f64>,
}

impl Observed {
    /// Takes in a completed request. Requests come in order of arrival.
    fn push(&mut self, record: &TraceRecord) {
        self.requests += 1;
        let is_struck = record.status != Status::Ok || !record.faults.is_empty();
        self.struck_requests += u64::from(is_struck);
        if let Some(completion) = record.completion
            && self.arrivals.len() < REQUESTS_MAX
        {
            self.arrivals.push(record.arrival);
            self.completions.push(completion);
            self.shapes.push((record.op, record.lbn, record.blocks));
            self.criticalities.push(record.criticality);
            self.struck.push(is_struck);
        }
    }

    /// Time from the first arrival to the last, in seconds.
    fn span_s(&self) -> f64 {
        match (self.arrivals.first(), self.arrivals.last()) {
            (Some(first), Some(last)) => last.saturating_since(*first).as_s(),
            _ => 0.0,
        }
    }

    /// Requests outstanding at the last arrival.
    fn backlog(&self) -> usize {
        let Some(last) = self.arrivals.last() else { return 0 };
        self.completions.iter().filter(|completion| *completion > last).count()
    }

    /// Returns true if as many requests were outstanding at the last arrival as pile up when the device completes only
    /// `saturation_per_s` requests per second and holds that share of them: at least half.
    pub(super) fn has_piled_up(&self, saturation_per_s: Option<f64>, share: f64) -> bool {
        let Some(saturation) = saturation_per_s else { return false };
        let left = self.arrivals.len() as f64 - saturation * self.span_s();
        left > 0.0 && self.backlog() as f64 > left * share / 2.0
    }

    /// Times by which requests without a fault prolonged busy periods, in seconds and order of completion, and of those
    /// among them that arrived at an idle device the mean.
    fn services_s(&self) -> (Vec<f64>, Option<f64>) {
        let mut order: Vec<usize> = (0..self.completions.len()).collect();
        order.sort_by_key(|index| self.completions[*index]);
        let sorted: Vec<Instant> = order.iter().map(|index| self.completions[*index]).collect();
        let mut services_s = Vec::with_capacity(order.len());
        let (mut idle_sum_s, mut idle) = (0.0, 0_usize);
        for (place, index) in order.iter().enumerate() {
            let arrival = self.arrivals[*index];
            let before = place.checked_sub(1).map_or(arrival, |before| sorted[before]);
            if self.struck[*index] {
                continue;
            }
            let service_s = sorted[place].saturating_since(before.max(arrival)).as_s();
            services_s.push(service_s);
            // All earlier arrivals had completed.
            if arrival > before && sorted.partition_point(|completion| *completion <= arrival) == *index {
                idle_sum_s += service_s;
                idle += 1;
            }
        }
        (services_s, (idle >= AFTER_IDLE_MIN).then(|| idle_sum_s / idle as f64))
    }

    /// Tests of the assumptions on the run. In a trace, the requests that meet an idle device may be others than those that
    /// wait, so the effect of idle times is that of the law.
    pub(super) fn assumptions(
        &self,
        law: &ServiceLaw,
        of_the_law: Option<RequestShape>,
        is_trace: bool,
    ) -> Vec<Assumption> {
        let (services_s, after_idle_s) = self.services_s();
        let arrivals_per_s = (self.arrivals.len().max(1) - 1) as f64 / self.span_s().max(f64::MIN_POSITIVE);
        let mut tests: Vec<Assumption> = [
            poisson_arrivals(&self.arrivals),
            poisson_batches(&self.arrivals),
            stationary_arrivals(&self.arrivals),
            independent_services(&services_s).filter(|_| law.servers <= 1.0),
            if is_trace {
                services_independent_of_idle(law)
            } else {
                after_idle_s
                    .filter(|_| law.servers <= 1.0)
                    .and_then(|after_idle_s| observed_after_idle(law, after_idle_s))
            },
            Some(no_faults(self.struck_requests, self.requests)),
            limits_in_steady_state(law, arrivals_per_s, self.span_s()),
        ]
        .into_iter()
        .flatten()
        .collect();
        if let (Some(run), Some(law)) = (RequestShape::of(self.shapes.iter().copied()), of_the_law) {
            tests.extend(requests_of_the_law(run, law));
        }
        tests
    }

    /// Variation of the mean and the 99th percentile of the response time, and of the mean of each class, from stretches of
    /// equally many requests.
    pub(super) fn variation(&self, summary: &MetricsSummary) -> Variation {
        let Some(response) = summary.response.as_ref() else { return Variation::default() };
        let times = self.arrivals.iter().zip(&self.completions).zip(&self.criticalities);
        let responses_ms: Vec<(f64, Criticality)> = times
            .map(|((arrival, completion), class)| (completion.saturating_since(*arrival).as_ms(), *class))
            .collect();
        let all_ms: Vec<f64> = responses_ms.iter().map(|(ms, _)| *ms).collect();
        let mean_ms = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
        let p99_ms = |times: &[f64]| {
            let mut times = times.to_vec();
            let place = times.len() * 99 / 100;
            *times.select_nth_unstable_by(place, f64::total_cmp).1
        };
        let class_pct = |class: Criticality| {
            let of_class = responses_ms.iter().filter(|(_, found)| *found == class);
            let times_ms: Vec<f64> = of_class.map(|(ms, _)| *ms).collect();
            variation_pct(&times_ms, mean_ms(&times_ms), mean_ms)
        };
        Variation {
            mean_pct: variation_pct(&all_ms, response.mean_ms, mean_ms),
            p99_pct: variation_pct(&all_ms, response.p99_ms, p99_ms),
            time_critical_mean_pct: class_pct(Criticality::TimeCritical),
            time_noncritical_mean_pct: class_pct(Criticality::TimeNoncritical),
        }
    }
}

/// Half the width of the 90 % interval of a figure of these times, in percent of its value over the whole run. `None` of too few
/// requests.
fn variation_pct(times_ms: &[f64], whole_ms: f64, figure: impl Fn(&[f64]) -> f64) -> Option<f64> {
    let count = times_ms.len() / STRETCHES;
    if count < STRETCH_MIN || whole_ms <= 0.0 {
        return None;
    }
    let figures: Vec<f64> = times_ms.chunks_exact(count).take(STRETCHES).map(figure).collect();
    Some(100.0 * half_width(&figures) / whole_ms)
}

/// Half the width of the 90 % interval of a mean.
fn half_width(figures: &[f64]) -> f64 {
    let count = figures.len() as f64;
    let mean = figures.iter().sum::<f64>() / count;
    let squares: f64 = figures.iter().map(|figure| (figure - mean).powi(2)).sum();
    STUDENT * (squares / (count - 1.0) / count).sqrt()
}

/// Writer of a trace that keeps the requests, too; without a trace, it only keeps them.
pub(crate) struct Observer {
    observed: Observed,
    trace: Option<Box<dyn TraceWriter>>,
}

impl Observer {
    /// An observer of the requests that go to `trace`.
    pub(crate) fn new(trace: Option<Box<dyn TraceWriter>>) -> Self {
        Self { observed: Observed::default(), trace }
    }

    /// Returns the requests, and the trace that is to be finished.
    pub(crate) fn into_parts(self) -> (Observed, Option<Box<dyn TraceWriter>>) {
        (self.observed, self.trace)
    }
}

impl TraceWriter for Observer {
    fn write(&mut self, record: &TraceRecord) -> Result<(), TraceError> {
        self.observed.push(record);
        self.trace.as_mut().map_or(Ok(()), |trace| trace.write(record))
    }

    fn annotate(&mut self, key: &str, value: &str) -> Result<(), TraceError> {
        self.trace.as_mut().map_or(Ok(()), |trace| trace.annotate(key, value))
    }

    fn label(&mut self, device: u16, name: &str) -> Result<(), TraceError> {
        self.trace.as_mut().map_or(Ok(()), |trace| trace.label(device, name))
    }

    fn notes(&self) -> Vec<Note> {
        self.trace.as_ref().map_or_else(Vec::new, |trace| trace.notes())
    }

    fn finish(self: Box<Self>) -> Result<(), TraceError> {
        self.trace.map_or(Ok(()), |trace| trace.finish())
    }
}

#[cfg(test)]
mod tests {
    use seeklab_devices::service_law::{LawOrigin, ServiceTimes};
    use seeklab_estimate::assumptions::AssumptionKind;

    use super::*;

    /// Requests with these arrivals and completions, in milliseconds.
    fn observed(times_ms: impl IntoIterator<Item = (u64, u64)>) -> Observed {
        let at = |ms: u64| Instant::from_ns(ms * 1_000_000);
        let mut observer = Observer::new(None);
        for (index, (arrival, completion)) in times_ms.into_iter().enumerate() {
            let mut record = TraceRecord::new(at(arrival), Operation::Read, index as u64 * 100, 8);
            record.completion = Some(at(completion));
            observer.write(&record).unwrap();
        }
        observer.into_parts().0
    }

    #[test]
    fn services_prolong_busy_periods() {
        // Two overlap and complete in reverse order; a third finds the device idle.
        let run = observed([(0, 9), (1, 4), (20, 25), (21, 28)]);
        assert_eq!(run.services_s().0, [0.003, 0.005, 0.005, 0.003]);
        assert_eq!(run.backlog(), 2);
        assert!(!run.has_piled_up(None, 1.0) && !run.has_piled_up(Some(1_000.0), 1.0));
    }

    #[test]
    fn mean_service_after_idle_times_is_apart() {
        // Pairs: the first of each finds an idle device and takes 2 ms, the second 5 ms.
        let run =
            observed((0..200).flat_map(|pair| [(pair * 20, pair * 20 + 2), (pair * 20 + 1, pair * 20 + 7)]));
        assert!((run.services_s().1.unwrap() - 0.002).abs() < 1e-12);
        let law = ServiceLaw::of_server(LawOrigin::Sampled, ServiceTimes::constant(0.005));
        let tests = run.assumptions(&law, None, false);
        let idle = tests.iter().find(|test| test.kind == AssumptionKind::ServicesIndependentOfIdle).unwrap();
        assert!(!idle.holds() && (idle.figure - 0.4).abs() < 1e-9, "{idle:?}");
    }

    #[test]
    fn overload_shows_in_the_backlog() {
        // 1000 arrivals a second and 500 completions a second.
        let run = observed((0..1_000).map(|index| (index, 2 * index + 2)));
        assert!(run.has_piled_up(Some(500.0), 1.0));
        assert!(!observed((0..1_000).map(|index| (index, index + 1))).has_piled_up(Some(500.0), 1.0));
        // Every second request is held by a limit.
        let held =
            observed((0..1_000).map(|index| (index, if index % 2 == 0 { index + 1 } else { 2 * index + 2 })));
        assert!(held.has_piled_up(Some(500.0), 0.5) && held.has_piled_up(Some(500.0), 0.9));
        assert!(!held.has_piled_up(Some(400.0), 1.0));
    }
}
