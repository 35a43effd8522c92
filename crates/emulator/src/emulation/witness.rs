//! A second instance of the model that is watched: it receives what the model receives, at the same times, and tells the
//! events. No speculation is in it, and it runs when there is time.

use std::collections::VecDeque;

use seeklab_core::{Completion, Device, Event, Instant, Request, RequestId};

/// Arrivals that wait at most; then the instance runs whether there is time or not.
const WAITING_MAX: usize = 1 << 12;

/// A watched instance of the model.
pub(super) struct Witness {
    device: Box<dyn Device>,
    /// Arrivals that it has not received.
    waiting: VecDeque<(Instant, Request)>,
    /// Time to which it has run.
    now: Instant,
    completions: Vec<Completion>,
}

impl Witness {
    /// Of a device that has received nothing.
    pub(super) fn new(device: &dyn Device) -> Self {
        let mut device = device.fork();
        device.watch();
        Self { device, waiting: VecDeque::new(), now: Instant::ZERO, completions: Vec::new() }
    }

    /// The model received the request of that rank of arrival at `time`.
    pub(super) fn arrive(&mut self, time: Instant, number: u64, request: Request) {
        self.waiting.push_back((time, Request { id: RequestId(number), ..request }));
        if self.waiting.len() > WAITING_MAX {
            self.run(time);
        }
    }

    fn run(&mut self, until: Instant) {
        while let Some((time, request)) = self.waiting.front().copied().filter(|(time, _)| *time <= until) {
            self.waiting.pop_front();
            self.poll(time);
            self.device.submit(self.now, request).expect("the model took it at that time");
        }
        self.poll(until);
    }

    fn poll(&mut self, time: Instant) {
        self.now = self.now.max(time);
        self.device.poll(self.now, &mut self.completions);
        self.completions.clear();
    }

    /// Appends the events up to `until`, before which no further request arrives.
    pub(super) fn events(&mut self, until: Instant, events: &mut Vec<Event>) {
        self.run(until);
        self.device.events(self.now, events);
    }
}
