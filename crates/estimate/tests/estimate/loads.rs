//! Estimates of open loads against simulations of the same loads, on a few disks: the bounds of
//! `validation/estimate/loads.csv` and `writes.csv`, with fewer requests.

use seeklab_core::{
    Arrival, Completion, Device, Duration, Instant, Limits, Operation, Request, Seed, Stream, Workload,
    simulate,
};
use seeklab_devices::layer::queue_before;
use seeklab_devices::scheduler::SchedulerSpec;
use seeklab_devices::service_law::Demand;
use seeklab_devices::{Description, catalog};
use seeklab_estimate::{Estimate, Method, open_poisson, sample_law, with_write_buffer};

/// Poisson arrivals of requests of 8 KiB anywhere.
struct Poisson {
    stream: Stream,
    interarrival: Duration,
    next: Instant,
    left: u64,
    slots: u64,
    blocks: u32,
    reads: f64,
}

impl Poisson {
    fn new(disk: &Description, reads: f64, arrivals_per_s: f64, requests: u64) -> Self {
        let capabilities = disk.capabilities().unwrap();
        let blocks = (8192 / capabilities.block_size.as_bytes()) as u32;
        Self {
            stream: Seed(21).stream("test"),
            interarrival: Duration::from_ms_f64(1e3 / arrivals_per_s),
            next: Instant::ZERO,
            left: requests,
            slots: capabilities.capacity_blocks - u64::from(blocks) + 1,
            blocks,
            reads,
        }
    }

    fn request(&mut self) -> Request {
        let op = if self.stream.unit() < self.reads { Operation::Read } else { Operation::Write };
        let lbn = self.stream.below(self.slots);
        Request::new(self.left, op, lbn, self.blocks)
    }
}

impl Workload for Poisson {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        if self.left == 0 {
            return Arrival::Finished;
        }
        if self.next > now {
            return Arrival::At(self.next);
        }
        self.left -= 1;
        self.next += self.stream.exponential(self.interarrival);
        Arrival::Request(self.request())
    }

    fn completed(&mut self, _completion: &Completion) {}
}

/// Mean and 99th percentile of the response times of an operation, in seconds.
fn simulated(disk: &Description, mut load: Poisson, of: Operation) -> (f64, f64) {
    let device = disk.build(Seed(1), "disk0").unwrap();
    let mut device = queue_before(device, &SchedulerSpec::FCFS, 1).unwrap();
    let mut times_s = Vec::new();
    simulate(&mut load, &mut device, Limits::default(), |completion| {
        if completion.request.op == of {
            times_s.push((completion.completed - completion.submitted).as_s());
        }
    })
    .unwrap();
    times_s.sort_unstable_by(f64::total_cmp);
    let mean_s = times_s.iter().sum::<f64>() / times_s.len() as f64;
    (mean_s, times_s[times_s.len() * 99 / 100])
}

fn demand(disk: &Description, reads: f64) -> Demand {
    let capabilities = disk.capabilities().unwrap();
    let blocks = (8192 / capabilities.block_size.as_bytes()) as u32;
    Demand { reads, ..Demand::random_reads(&capabilities, blocks) }
}

fn close(name: &str, found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() < tolerance, "{name}: {found} {expected}");
}

#[test]
fn reads_in_order_of_arrival_are_mg1() {
    for name in ["hp-c2247a", "cheetah-36es", "cheetah9lp"] {
        let disk = catalog::find(name).unwrap();
        let law = disk.service_law(&demand(&disk, 1.0), &|_| None).unwrap();
        let arrivals_per_s = 0.6 * law.saturation_per_s();
        let estimate = open_poisson(arrivals_per_s, &law).unwrap();
        let (mean_s, p99_s) =
            simulated(&disk, Poisson::new(&disk, 1.0, arrivals_per_s, 150_000), Operation::Read);
        close(name, estimate.steady.response_mean_s, mean_s, 0.02);
        close(name, estimate.quantiles_s.unwrap()[3], p99_s, 0.04);
    }
}

/// Estimate of a mix of reads and writes at a share of its saturation, beside the simulated mean of the reads.
fn mixed(name: &str, reads: f64, share: f64) -> (Estimate, f64) {
    let disk = catalog::find(name).unwrap();
    let demand = demand(&disk, reads);
    let buffer = disk.write_buffer(&demand).unwrap();
    let read_law = disk.service_law(&Demand { reads: 1.0, ..demand }, &|_| None).unwrap();
    let law = with_write_buffer(read_law, buffer, reads);
    let arrivals_per_s = share * law.saturation_per_s();
    let estimate = open_poisson(arrivals_per_s, &law).unwrap();
    assert_eq!(estimate.method, Method::BufferedWrites);
    let (mean_s, _) = simulated(&disk, Poisson::new(&disk, reads, arrivals_per_s, 100_000), Operation::Read);
    (estimate, mean_s)
}

#[test]
fn reads_beside_buffered_writes_wait_for_destages() {
    // Whole track buffers, segments, a stream with few extents, and one segment that serves writes alone.
    for name in ["atlas10k", "cheetah-36es", "cheetah9lp", "ibm18es"] {
        for share in [0.3, 0.65] {
            let (estimate, mean_s) = mixed(name, 0.67, share);
            close(name, estimate.reads.unwrap().mean_s, mean_s, 0.10);
        }
    }
}

#[test]
fn reads_beside_half_writes_wait_for_the_extents_that_wait() {
    let (estimate, mean_s) = mixed("cheetah-36es", 0.5, 0.8);
    close("cheetah-36es", estimate.reads.unwrap().mean_s, mean_s, 0.06);
}

#[test]
fn full_buffer_sustains_what_closed_runs_complete() {
    for name in ["atlas10k", "cheetah-36es", "cheetah9lp", "ibm18es"] {
        let disk = catalog::find(name).unwrap();
        for reads in [0.0, 0.5] {
            let demand = demand(&disk, reads);
            let buffer = disk.write_buffer(&demand).unwrap();
            let read_law = disk.service_law(&Demand { reads: 1.0, ..demand }, &|_| None).unwrap();
            let law = with_write_buffer(read_law, buffer, reads);
            let mut load = Poisson::new(&disk, reads, 1.0, 6_000);
            let requests: Vec<Request> = (0..6_000).map(|_| load.request()).collect();
            let build = || {
                let device = disk.build(Seed(1), "disk0").unwrap();
                Box::new(queue_before(device, &SchedulerSpec::FCFS, 1).unwrap()) as Box<dyn Device>
            };
            let closed = sample_law(&build, &requests.into(), None).unwrap();
            close(name, law.saturation_per_s(), closed.saturation_per_s(), 0.05);
        }
    }
}
