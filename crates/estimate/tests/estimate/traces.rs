//! The recursion over recorded arrivals on a disk that reorders its queue, against simulations: at the rate of the run that
//! gave the service times, and at other rates.

use std::sync::Arc;

use seeklab_core::{
    Arrival, Completion, Device, Duration, Instant, Limits, Operation, Request, RequestId, Seed, Workload,
    simulate,
};
use seeklab_devices::catalog;
use seeklab_devices::layer::queue_before;
use seeklab_devices::scheduler::SchedulerSpec;
use seeklab_estimate::{Method, RecordedLoad, recorded, sample_law, services_in_queue};

/// A disk with a queue of 32 of its own, by shortest positioning time, and a write buffer.
fn nearline() -> Box<dyn Device> {
    let device = catalog::find("nearline-7200").unwrap().build(Seed(1), "disk0").unwrap();
    Box::new(queue_before(device, &SchedulerSpec::FCFS, 32).unwrap())
}

/// Requests with their arrivals.
struct Trace {
    requests: Arc<[Request]>,
    arrivals: Vec<Instant>,
    next: usize,
}

impl Trace {
    /// Bursts of geometric length whose requests lie near each other: reads, writes, and a flush at the end of every
    /// third burst.
    fn new(count: u64, reads: f64) -> Self {
        let blocks = catalog::find("nearline-7200").unwrap().capabilities().unwrap().capacity_blocks;
        let mut stream = Seed(9).stream("test");
        let (mut requests, mut arrivals) = (Vec::new(), Vec::new());
        let (mut now, mut burst) = (Instant::ZERO, 0_u64);
        while (requests.len() as u64) < count {
            now += stream.exponential(Duration::from_ms(90));
            let begin = stream.below(blocks - 2_000_000);
            burst += 1;
            while stream.unit() < 0.9 {
                let op = if stream.unit() < reads { Operation::Read } else { Operation::Write };
                let lbn = begin + stream.below(1_000_000);
                requests.push(Request::new(requests.len() as u64, op, lbn, 2));
                arrivals.push(now);
                now += stream.exponential(Duration::from_us(300));
            }
            if burst % 3 == 0 {
                requests.push(Request::new(requests.len() as u64, Operation::Flush, 0, 0));
                arrivals.push(now);
            }
        }
        Self { requests: requests.into(), arrivals, next: 0 }
    }

    /// The same requests with interarrival times divided by a factor.
    fn grown(&self, growth: f64) -> Self {
        let scaled = |arrival: &Instant| Instant::from_ns((arrival.as_ns() as f64 / growth) as u64);
        Self {
            requests: Arc::clone(&self.requests),
            arrivals: self.arrivals.iter().map(scaled).collect(),
            next: 0,
        }
    }

    /// Mean and 99th percentile of the simulated response times, in seconds.
    fn simulated(mut self) -> (f64, f64) {
        let (mut device, mut times_s) = (nearline(), Vec::new());
        simulate(&mut self, &mut *device, Limits::default(), |completion| {
            times_s.push((completion.completed - completion.submitted).as_s());
        })
        .unwrap();
        times_s.sort_unstable_by(f64::total_cmp);
        let mean_s = times_s.iter().sum::<f64>() / times_s.len() as f64;
        (mean_s, times_s[(times_s.len() * 99).div_ceil(100) - 1])
    }
}

impl Workload for Trace {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        match self.arrivals.get(self.next) {
            None => Arrival::Finished,
            Some(arrival) if *arrival > now => Arrival::At(*arrival),
            Some(_) => {
                self.next += 1;
                let id = RequestId(self.next as u64 - 1);
                Arrival::Request(Request { id, ..self.requests[self.next - 1] })
            }
        }
    }

    fn completed(&mut self, _completion: &Completion) {}
}

/// Relative errors of mean and 99th percentile at growths, with the services of the run at the growth 1.
fn errors(trace: &Trace, growths: &[f64]) -> Vec<(f64, f64)> {
    let law = sample_law(&nearline, &trace.requests, None).unwrap();
    let services = services_in_queue(&nearline, &trace.requests, &trace.arrivals).unwrap();
    let of = |growth: &f64| {
        let load = RecordedLoad { arrivals: &trace.arrivals, services: &services, growth: *growth };
        let estimate = recorded(load, &trace.requests, &law).unwrap();
        assert_eq!(estimate.method, Method::LindleyReordered);
        let (mean_s, p99_s) = trace.grown(*growth).simulated();
        (estimate.steady.response_mean_s / mean_s - 1.0, estimate.quantiles_s.unwrap()[3] / p99_s - 1.0)
    };
    growths.iter().map(of).collect()
}

#[test]
fn recursion_repeats_the_run_that_gave_its_services() {
    for reads in [1.0, 0.6] {
        let (mean, p99) = errors(&Trace::new(8_000, reads), &[1.0])[0];
        assert!(mean.abs() < 1e-9 && p99.abs() < 1e-9, "{reads}: {mean} {p99}");
    }
}

#[test]
fn recursion_predicts_the_response_times_at_other_rates() {
    // Reads depend on the queue alone. Idle times, which shrink with growth, put writes on the media besides.
    let rates: [(f64, [f64; 2], f64, f64); 3] =
        [(1.0, [0.8, 1.25], 0.05, 0.1), (1.0, [0.5, 2.0], 0.1, 0.3), (0.6, [0.8, 1.25], 0.25, 0.4)];
    for (reads, growths, tolerance, tolerance_p99) in rates {
        let found = errors(&Trace::new(12_000, reads), &growths);
        for (mean, p99) in &found {
            assert!(mean.abs() < tolerance && p99.abs() < tolerance_p99, "{reads}: {found:?}");
        }
    }
}
