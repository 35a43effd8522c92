//! A second instance of the model, run behind without clamping, to see what the clamping changed.
//!
//! # References
//! \[Griffin 2004, §5.3.3\]: a secondary instance whose clock lags and which sees fully reduced arrivals.

use std::collections::VecDeque;

use seeklab_core::{Completion, Device, Duration, Instant, Reclassification, Request, RequestId};

/// Differences that the second instance found so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Changed {
    /// Answers that both instances have given.
    pub compared: u64,
    /// Answers with different completion times, due to the clamping of this or of earlier arrivals.
    pub changed: u64,
    /// The largest difference.
    pub difference_max: Duration,
    /// The sum of the differences.
    pub difference_total: Duration,
    /// Requests that the second instance had no room for, or that came out of order behind its clock.
    pub lost: u64,
}

/// Stands for the answer that this instance will not give.
const LOST: Instant = Instant::MAX;

/// The model as it would be if every arrival had come at its own time.
///
/// The first instance may have answered a request, and its number may be that of another one, while this instance still has
/// the former. So requests have numbers of their own here.
pub(super) struct Behind {
    model: Box<dyn Device>,
    clock: Instant,
    /// Number of the next arrival here.
    next: u64,
    /// Requests that the first instance has not answered: their number there, and here.
    numbers: Vec<(RequestId, RequestId)>,
    /// Arrivals and changes of class that the clock has not reached, in order of time.
    waiting: VecDeque<(Instant, Input)>,
    /// Answers of the first instance that this instance has not given yet.
    answered: Vec<(RequestId, Instant)>,
    /// Answers of this instance that the first instance has not given yet.
    ahead: Vec<(RequestId, Instant)>,
    scratch: Vec<Completion>,
    changed: Changed,
}

/// An input of the instance.
#[derive(Debug, Clone, Copy)]
enum Input {
    Request(Request),
    Reclassification(Reclassification),
}

impl Behind {
    pub(super) fn new(model: Box<dyn Device>) -> Self {
        Self {
            model,
            clock: Instant::ZERO,
            next: 0,
            numbers: Vec::new(),
            waiting: VecDeque::new(),
            answered: Vec::new(),
            ahead: Vec::new(),
            scratch: Vec::new(),
            changed: Changed::default(),
        }
    }

    pub(super) const fn changed(&self) -> Changed {
        self.changed
    }

    /// `request` arrived at `time`, had nothing clamped it.
    pub(super) fn arrive(&mut self, time: Instant, request: Request) {
        let id = RequestId(self.next);
        self.next += 1;
        self.numbers.push((request.id, id));
        self.wait(time, Input::Request(Request { id, ..request }));
    }

    /// The class of a request that the first instance has not answered changed at `time`.
    pub(super) fn reclassify(&mut self, time: Instant, change: Reclassification) {
        if let Some((_, id)) = self.numbers.iter().find(|(there, _)| *there == change.id) {
            self.wait(time, Input::Reclassification(Reclassification { id: *id, ..change }));
        }
    }

    fn wait(&mut self, time: Instant, input: Input) {
        let place = self.waiting.partition_point(|(other, _)| *other <= time);
        self.waiting.insert(place, (time, input));
    }

    /// The first instance's answer, which is final.
    pub(super) fn answered(&mut self, completion: &Completion) {
        let completed = completion.completed;
        let id = take(&mut self.numbers, completion.request.id).expect("a request that arrived is answered");
        match take(&mut self.ahead, id) {
            Some(LOST) => {}
            Some(other) => self.compare(completed, other),
            None => self.answered.push((id, completed)),
        }
    }

    /// Runs the instance up to `until`.
    pub(super) fn run(&mut self, until: Instant) {
        while let Some(&(time, input)) = self.waiting.front().filter(|(time, _)| *time <= until) {
            self.waiting.pop_front();
            if time > self.clock {
                self.advance(time);
            }
            let request = match input {
                Input::Request(request) => request,
                Input::Reclassification(change) => {
                    // Behind its clock, the change takes effect at once.
                    self.model.reclassify(self.clock, &change);
                    continue;
                }
            };
            if time < self.clock || self.model.submit(time, request).is_err() {
                self.changed.lost += 1;
                if take(&mut self.answered, request.id).is_none() {
                    self.ahead.push((request.id, LOST));
                }
            }
        }
        self.advance(until);
    }

    /// Runs the instance until it has answered everything.
    pub(super) fn finish(&mut self) {
        while let Some(&(time, _)) = self.waiting.back() {
            self.run(time);
        }
        while let Some(event) = self.model.next_event() {
            self.advance(event);
        }
    }

    fn advance(&mut self, time: Instant) {
        self.clock = self.clock.max(time);
        let mut scratch = std::mem::take(&mut self.scratch);
        self.model.poll(self.clock, &mut scratch);
        for completion in scratch.drain(..) {
            let id = completion.request.id;
            match take(&mut self.answered, id) {
                Some(other) => self.compare(other, completion.completed),
                None => self.ahead.push((id, completion.completed)),
            }
        }
        self.scratch = scratch;
    }

    fn compare(&mut self, one: Instant, other: Instant) {
        let difference = Duration::from_ns(one.as_ns().abs_diff(other.as_ns()));
        self.changed.compared += 1;
        self.changed.changed += u64::from(!difference.is_zero());
        self.changed.difference_max = self.changed.difference_max.max(difference);
        self.changed.difference_total += difference;
    }
}

fn take<T>(list: &mut Vec<(RequestId, T)>, id: RequestId) -> Option<T> {
    let place = list.iter().position(|(other, _)| *other == id)?;
    Some(list.swap_remove(place).1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seeklab_core::{ByteSize, Operation};
    use seeklab_devices::layer::queue_before;
    use seeklab_devices::scheduler::SchedulerSpec;
    use seeklab_devices::simple::{Server, ServerParameters};

    use super::*;

    proptest! {
        #[test]
        fn numbers_of_requests_come_again_while_this_instance_still_has_them(
            requests in prop::collection::vec((0_u64..3_000, 0_u64..400), 1..60)
        ) {
            let us = |us: u64| Instant::ZERO + Duration::from_us(us);
            let server = || {
                let parameters = ServerParameters {
                    capacity_blocks: 1_000,
                    block_size: ByteSize::from_bytes(512),
                    service_time: Duration::from_ms(1),
                };
                let server = Server::constant(&parameters).unwrap();
                Box::new(queue_before(Box::new(server), &SchedulerSpec::FCFS, 1).unwrap())
            };
            let (mut first, mut behind) = (server(), Behind::new(server()));
            let (mut free, mut used, mut done) = (Vec::new(), 0, Vec::new());
            let (mut wanted, mut received) = (us(0), us(0));
            // When the servers are free, by hand, and the sum of the differences of their answers.
            let (mut free_first, mut free_behind, mut total) = (us(0), us(0), Duration::ZERO);
            let count = requests.len() as u64;
            for (gap, clamped) in requests {
                // The first instance gets a request later than it came.
                wanted += Duration::from_us(gap);
                received = received.max(wanted + Duration::from_us(clamped));
                free_first = free_first.max(received) + Duration::from_ms(1);
                free_behind = free_behind.max(wanted) + Duration::from_ms(1);
                total += free_first - free_behind;
                first.poll(received, &mut done);
                for completion in done.drain(..) {
                    behind.answered(&completion);
                    free.push(completion.request.id.0);
                }
                let id = free.pop().unwrap_or_else(|| {
                    used += 1;
                    used - 1
                });
                let request = Request::new(id, Operation::Read, 0, 8);
                first.submit(received, request).unwrap();
                behind.arrive(wanted, request);
            }
            first.poll(free_first, &mut done);
            done.iter().for_each(|completion| behind.answered(completion));
            behind.finish();
            let changed = behind.changed();
            prop_assert_eq!((changed.compared, changed.lost, changed.difference_total), (count, 0, total));
        }
    }

    #[test]
    fn arrivals_behind_its_clock_are_lost() {
        let ms = |ms: u64| Instant::ZERO + Duration::from_ms(ms);
        let parameters = ServerParameters {
            capacity_blocks: 1_000,
            block_size: ByteSize::from_bytes(512),
            service_time: Duration::from_ms(1),
        };
        let mut behind = Behind::new(Box::new(Server::constant(&parameters).unwrap()));
        behind.run(ms(10));
        let request = |id| Request::new(id, Operation::Read, 0, 8);
        behind.arrive(ms(9), request(0));
        behind.arrive(ms(10), request(1));
        behind.run(ms(20));
        assert_eq!(behind.changed().lost, 1, "what comes at its clock is not behind it");
        assert_eq!(behind.ahead, [(RequestId(0), LOST), (RequestId(1), ms(11))]);
    }
}
