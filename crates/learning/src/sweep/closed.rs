//! Jobs as fio runs them: each keeps its requests outstanding, and takes its time between one and the next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use seeklab_core::statistics::Distribution;
use seeklab_core::{
    Arrival, Completion, Device, Duration, Instant, Limits, Request, Seed, Stream, Workload, simulate,
};

use crate::error::{Error, ErrorKind};
use crate::fio::{Load, Loop};

/// Requests of which figures are taken.
const REQUESTS: u64 = 200_000;

/// Simulated figures of a component.
#[derive(Debug, Clone)]
pub(super) struct Simulated {
    /// Per second.
    pub(super) iops: f64,
    /// Mean response time.
    pub(super) mean_ns: f64,
    /// 99th percentile.
    pub(super) p99_ns: f64,
}

/// Runs a load's jobs on a device; figures of each of its components, `None` for those of which nothing came.
///
/// # Errors
/// If the device refuses a request.
pub(super) fn run(device: &mut dyn Device, load: &Load, seed: Seed) -> Result<Vec<Option<Simulated>>, Error> {
    let depth = u64::from(load.depth());
    // Until each job has its requests out and what they found at first is over.
    let settled = 4 * depth + 1_000;
    let mut jobs = Jobs::new(device, load, seed, settled + REQUESTS + depth);
    let kinds = load.components.len() as u64;
    let mut seen = vec![Distribution::default(); load.components.len()];
    let (mut completed, mut from, mut until) = (0, Instant::ZERO, Instant::ZERO);
    simulate(&mut jobs, device, Limits { outstanding_max: usize::MAX }, |completion| {
        completed += 1;
        if completed == settled {
            from = completion.completed;
        } else if completed > settled && completed <= settled + REQUESTS {
            until = completion.completed;
            seen[(completion.request.id.0 % kinds) as usize].record(completion.response_time());
        }
    })
    .map_err(|error| Error::new(ErrorKind::Device, format!("job {}: {error}", load.name)))?;
    let span_s = (until - from).as_s();
    let figures = seen.iter().map(|seen| {
        let (count, mean_ns) = (seen.moments().count(), seen.moments().mean()?);
        let p99_ns = seen.quantile(0.99)?.as_ns() as f64;
        (span_s > 0.0).then(|| Simulated { iops: count as f64 / span_s, mean_ns, p99_ns })
    });
    Ok(figures.collect())
}

/// A workload of jobs.
struct Jobs<'a> {
    load: &'a Load,
    capacity_blocks: u64,
    blocks: Vec<u32>,
    /// The end of the request before.
    end: u64,
    stream: Stream,
    /// Mean time of each job from a completion to the next request.
    pauses: Vec<Duration>,
    /// Times at which jobs make their next requests.
    ready: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    made: u64,
    total: u64,
}

impl<'a> Jobs<'a> {
    fn new(device: &dyn Device, load: &'a Load, seed: Seed, total: u64) -> Self {
        let capabilities = device.capabilities();
        let block_bytes = capabilities.block_size.as_bytes();
        let blocks =
            load.components.iter().map(|of| u32::try_from(of.bytes / block_bytes).unwrap_or(u32::MAX));
        let mut jobs = Self {
            load,
            capacity_blocks: capabilities.capacity_blocks,
            blocks: blocks.collect(),
            end: 0,
            stream: seed.stream("jobs"),
            pauses: load.loops.iter().map(|of| pause(load, of)).collect(),
            ready: BinaryHeap::new(),
            made: 0,
            total,
        };
        let mut number = 0;
        for (index, of) in load.loops.iter().enumerate() {
            for _ in 0..of.depth {
                let at = Instant::ZERO + jobs.pause(index);
                jobs.ready.push(Reverse((at, number, index)));
                number += 1;
            }
        }
        jobs
    }

    fn pause(&mut self, index: usize) -> Duration {
        let mean = self.pauses[index];
        if mean.is_zero() { mean } else { self.stream.exponential(mean) }
    }

    fn request(&mut self, index: usize) -> Request {
        let makes = &self.load.loops[index].makes;
        let total: f64 = makes.iter().map(|(_, iops)| iops).sum();
        let mut left = self.stream.unit() * total;
        let chosen = makes.iter().position(|(_, iops)| {
            left -= iops;
            left < 0.0
        });
        let kind = makes[chosen.unwrap_or(makes.len() - 1)].0;
        let (component, blocks) = (&self.load.components[kind], self.blocks[kind]);
        // The request's number says its job and its kind.
        let kinds = self.load.components.len() as u64;
        let id = (self.made * self.load.loops.len() as u64 + index as u64) * kinds + kind as u64;
        self.made += 1;
        if !component.op.addresses_blocks() {
            return Request::new(id, component.op, 0, 0);
        }
        let places = (self.capacity_blocks / u64::from(blocks)).max(1);
        let lbn = if !component.is_sequential {
            self.stream.below(places) * u64::from(blocks)
        } else if self.end + u64::from(blocks) <= self.capacity_blocks {
            self.end
        } else {
            0
        };
        self.end = lbn + u64::from(blocks);
        Request::new(id, component.op, lbn, blocks)
    }
}

/// Returns the mean time that a job's requests spend outside the device. By Little's law over the whole cycle
/// of a job, its depth divided by its requests per second is the mean of response time plus pause.
fn pause(load: &Load, of: &Loop) -> Duration {
    let iops: f64 = of.makes.iter().map(|(_, iops)| iops).sum();
    let outstanding: f64 =
        of.makes.iter().map(|(kind, iops)| load.components[*kind].mean_ns * iops / 1e9).sum();
    Duration::from_ns_f64(((f64::from(of.depth) - outstanding) / iops * 1e9).max(0.0))
}

impl Workload for Jobs<'_> {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        if self.made == self.total {
            return Arrival::Finished;
        }
        match self.ready.peek() {
            None => Arrival::WaitForCompletion,
            Some(Reverse((at, ..))) if *at > now => Arrival::At(*at),
            Some(Reverse((.., index))) => {
                let index = *index;
                self.ready.pop();
                Arrival::Request(self.request(index))
            }
        }
    }

    fn completed(&mut self, completion: &Completion) {
        let (loops, kinds) = (self.load.loops.len() as u64, self.load.components.len() as u64);
        let index = (completion.request.id.0 / kinds % loops) as usize;
        let at = completion.completed + self.pause(index);
        self.ready.push(Reverse((at, completion.request.id.0, index)));
    }
}
