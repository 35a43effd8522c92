//! Limits in front of a device, as cloud volumes, hypervisors and cgroups have them.
//!
//! Requests of the operations that are limited go on in order of arrival, each as soon as every bucket has room for it;
//! others go past those that the buckets hold. What has gone on waits for room in the device in the order in which it went on,
//! limited or not. All waits here are in the queue time of the completion.
//!
//! # References
//! Token bucket: [`limit`](crate::limit).

use std::any::Any;
use std::collections::VecDeque;

use seeklab_core::{
    Capabilities, Completion, Criticality, Device, Instant, Operation, Reclassification, Rejected, Request,
};

use super::issued::Issued;
use crate::limit::{Buckets, Limited};

/// Limits in front of a device.
pub struct Limit {
    device: Box<dyn Device>,
    of: Limited,
    buckets: Buckets,
    capabilities: Capabilities,
    block_bytes: u64,
    /// True once a request has arrived. The initial use of the buckets counts from the first arrival.
    begun: bool,
    /// Requests that the device can hold at a time, and requests that it holds.
    depth: usize,
    inside: usize,
    /// Requests that wait for the buckets.
    waiting: VecDeque<Taken>,
    /// Requests that the buckets let go, or do not count, and that wait for room in the device.
    released: VecDeque<Taken>,
    /// Time at which the first request in `waiting` may go; `None` if none waits.
    release: Option<Instant>,
    /// Requests in the device that had waited in this layer, or behind such requests.
    delayed: Issued,
    scratch: Vec<Completion>,
}

/// A request, as it was submitted here.
#[derive(Debug, Clone, Copy)]
struct Taken {
    request: Request,
    submitted: Instant,
    queue_length: u32,
}

impl Limit {
    /// Puts buckets in front of `device` for the operations that `of` holds.
    pub fn new(device: Box<dyn Device>, of: Limited, buckets: Buckets) -> Self {
        let own = device.capabilities();
        let capabilities = Capabilities { queue_depth: u32::MAX, ..own.clone() };
        let (depth, block_bytes) = (own.queue_depth as usize, own.block_size.as_bytes());
        Self {
            device,
            of,
            buckets,
            capabilities,
            block_bytes,
            begun: false,
            depth,
            inside: 0,
            waiting: VecDeque::new(),
            released: VecDeque::new(),
            release: None,
            delayed: Issued::default(),
            scratch: Vec::new(),
        }
    }

    /// Bytes that a request moves.
    fn bytes(&self, request: &Request) -> u64 {
        match request.op {
            Operation::Read | Operation::Write => u64::from(request.blocks).saturating_mul(self.block_bytes),
            _ => 0,
        }
    }

    /// Returns the time at which the buckets have room for a request.
    fn ready(&self, now: Instant, request: &Request) -> Instant {
        let bytes = self.bytes(request);
        let of_requests = self.buckets.requests.iter().map(|bucket| bucket.ready(now, 1));
        let of_bytes = self.buckets.bytes.iter().map(|bucket| bucket.ready(now, bytes));
        of_requests.chain(of_bytes).max().unwrap_or(now)
    }

    /// Lets go what the buckets have room for at `now`, and hands the device as much as it takes.
    fn issue(&mut self, now: Instant) {
        while let Some(first) = self.waiting.front() {
            if self.ready(now, &first.request) > now {
                break;
            }
            let taken = self.waiting.pop_front().expect("the loop condition found it");
            let bytes = self.bytes(&taken.request);
            self.buckets.requests.iter_mut().for_each(|bucket| bucket.take(now, 1));
            self.buckets.bytes.iter_mut().for_each(|bucket| bucket.take(now, bytes));
            self.released.push_back(taken);
        }
        while self.inside < self.depth {
            let Some(taken) = self.released.pop_front() else { break };
            self.device.submit(now, taken.request).expect("it was checked, and there is room");
            self.inside += 1;
            if taken.submitted < now || taken.queue_length as usize >= self.inside {
                self.delayed.push(taken.request.id, taken.submitted, taken.queue_length);
            }
        }
        self.release = self.waiting.front().map(|first| self.ready(now, &first.request));
    }
}

impl Device for Limit {
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), Rejected> {
        self.capabilities.check(&request)?;
        if !self.begun {
            self.begun = true;
            let Buckets { requests, bytes } = &mut self.buckets;
            requests.iter_mut().chain(bytes).for_each(|bucket| *bucket = bucket.beginning(now));
        }
        let others = self.inside + self.waiting.len() + self.released.len();
        let taken =
            Taken { request, submitted: now, queue_length: u32::try_from(others).unwrap_or(u32::MAX) };
        let line = if self.of.holds(request.op) { &mut self.waiting } else { &mut self.released };
        line.push_back(taken);
        self.issue(now);
        Ok(())
    }

    /// Requests go on in order of arrival, whatever their class.
    fn reclassify(&mut self, now: Instant, change: &Reclassification) -> Option<Criticality> {
        let own = self.waiting.iter_mut().chain(&mut self.released);
        match own.map(|taken| &mut taken.request).find(|request| request.id == change.id) {
            Some(request) => request.reclassify(change.criticality),
            None => self.device.reclassify(now, change),
        }
    }

    fn poll(&mut self, now: Instant, completions: &mut Vec<Completion>) {
        let mut scratch = std::mem::take(&mut self.scratch);
        while let Some(event) = self.next_event().filter(|event| *event <= now) {
            self.device.poll(event, &mut scratch);
            for mut completion in scratch.drain(..) {
                self.inside -= 1;
                // What went through at once is complete as it is.
                self.delayed.complete(&mut completion);
                completions.push(completion);
            }
            self.issue(event);
        }
        self.scratch = scratch;
    }

    fn next_event(&self) -> Option<Instant> {
        [self.device.next_event(), self.release].into_iter().flatten().min()
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn beneath(&self) -> Option<&dyn Device> {
        Some(&*self.device)
    }

    fn beneath_mut(&mut self) -> Option<&mut (dyn Device + 'static)> {
        Some(&mut *self.device)
    }

    fn fork(&self) -> Box<dyn Device> {
        Box::new(Self {
            device: self.device.fork(),
            of: self.of,
            buckets: self.buckets.clone(),
            capabilities: self.capabilities.clone(),
            block_bytes: self.block_bytes,
            begun: self.begun,
            depth: self.depth,
            inside: self.inside,
            waiting: self.waiting.clone(),
            released: self.released.clone(),
            release: self.release,
            delayed: self.delayed.clone(),
            scratch: Vec::new(),
        })
    }

    fn fork_into(&self, target: &mut Box<dyn Device>) {
        match target.as_any_mut().downcast_mut::<Self>() {
            Some(target) => {
                self.device.fork_into(&mut target.device);
                target.of = self.of;
                target.buckets.requests.clone_from(&self.buckets.requests);
                target.buckets.bytes.clone_from(&self.buckets.bytes);
                target.capabilities.clone_from(&self.capabilities);
                target.block_bytes = self.block_bytes;
                target.begun = self.begun;
                target.depth = self.depth;
                target.inside = self.inside;
                target.waiting.clone_from(&self.waiting);
                target.released.clone_from(&self.released);
                target.release = self.release;
                target.delayed.copy_from(&self.delayed);
            }
            None => *target = self.fork(),
        }
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Duration, RequestId};

    use super::*;
    use crate::catalog;
    use crate::limit::TokenBucket;

    #[test]
    fn credits_used_at_the_beginning_come_back_from_the_first_request_on() {
        let bucket = TokenBucket::of_requests("100/s".parse().unwrap(), 3).with_used(3);
        let buckets = Buckets { requests: vec![bucket], bytes: Vec::new() };
        let device = catalog::find("immediate").unwrap().build(seeklab_core::Seed(1), "disk0").unwrap();
        let mut limit = Limit::new(device, Limited::All, buckets);
        let first = Instant::ZERO + Duration::from_s(10);
        for id in 0..3 {
            limit.submit(first, Request::new(id, Operation::Read, 0, 1)).unwrap();
        }
        let mut completions = Vec::new();
        limit.poll(Instant::from_ns(u64::MAX / 2), &mut completions);
        let waits: Vec<(RequestId, Duration)> = completions
            .iter()
            .map(|completion| (completion.request.id, completion.response_time()))
            .collect();
        let expected: Vec<_> = (0..3).map(|id| (RequestId(id), Duration::from_ms(10 * (id + 1)))).collect();
        assert_eq!(waits, expected);
    }

    #[test]
    fn limit_that_holds_nothing_leaves_the_order_of_arrival() {
        // A disk that takes one request at a time. The bucket has room for all writes, so reads do not go before them.
        let buckets = |burst: u64| Buckets {
            requests: vec![TokenBucket::of_requests("1/s".parse().unwrap(), burst)],
            bytes: Vec::new(),
        };
        let order = |burst: u64| {
            let device = catalog::find("hp-c2247a").unwrap().build(seeklab_core::Seed(1), "disk0").unwrap();
            assert_eq!(device.capabilities().queue_depth, 1);
            let mut limit = Limit::new(device, Limited::Writes, buckets(burst));
            for id in 0..6 {
                let op = if id % 2 == 0 { Operation::Write } else { Operation::Read };
                limit.submit(Instant::ZERO, Request::new(id, op, 1_000 * id, 8)).unwrap();
            }
            let mut completions = Vec::new();
            limit.poll(Instant::ZERO + Duration::from_s(60), &mut completions);
            completions.iter().map(|completion| completion.request.id.0).collect::<Vec<_>>()
        };
        assert_eq!(order(3), [0, 1, 2, 3, 4, 5]);
        // The second and the third write wait a second each for their tokens, and the reads go past them.
        assert_eq!(order(1), [0, 1, 3, 5, 2, 4]);
    }
}
