//! A second instance of the model that is watched: it receives what the model receives, at the same times, and tells the
//! events. No speculation is in it, and it runs when there is time.

use std::collections::VecDeque;

use seeklab_core::{Completion, Device, Event, Instant, Reclassification, Request, RequestId};

/// Inputs that wait at most; then the instance runs whether there is time or not.
const WAITING_MAX: usize = 1 << 12;

/// A watched instance of the model.
pub(super) struct Witness {
    device: Box<dyn Device>,
    /// Inputs that it has not received.
    waiting: VecDeque<(Instant, Input)>,
    /// Time to which it has run.
    now: Instant,
    completions: Vec<Completion>,
}

/// Input of the model.
#[derive(Debug, Clone, Copy)]
enum Input {
    Request(Request),
    Reclassification(Reclassification),
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
        self.wait(time, Input::Request(Request { id: RequestId(number), ..request }));
    }

    /// The model received a change of class of the request of that rank at `time`.
    pub(super) fn reclassify(&mut self, time: Instant, number: u64, change: Reclassification) {
        self.wait(time, Input::Reclassification(Reclassification { id: RequestId(number), ..change }));
    }

    fn wait(&mut self, time: Instant, input: Input) {
        self.waiting.push_back((time, input));
        if self.waiting.len() > WAITING_MAX {
            self.run(time);
        }
    }

    fn run(&mut self, until: Instant) {
        while let Some((time, input)) = self.waiting.front().copied().filter(|(time, _)| *time <= until) {
            self.waiting.pop_front();
            self.poll(time);
            match input {
                Input::Request(request) => {
                    self.device.submit(self.now, request).expect("the model took it at that time");
                }
                Input::Reclassification(change) => {
                    self.device.reclassify(self.now, &change);
                }
            }
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
