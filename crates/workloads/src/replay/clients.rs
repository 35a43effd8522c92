//! Detection of clients that the device holds up: each makes its next request when its last has completed.
//!
//! # Method
//! So many clients have at most so many requests outstanding, and no arrival comes while that many are. Clients are assumed
//! - while the device is busy with as many requests as were outstanding together at most for [`HELD_MIN`] of its busy time: what
//!   they wait for is the device. Requests that were made together and had to be complete before the next ones (a
//!   barrier) may look alike where a device serves all at once; but none arrives when some of those are complete and others are
//!   not. So [`BETWEEN_MIN`] of the arrivals have to do so. The last [`WINDOW`] to twice as many requests count;
//! - or if, of at least [`WINDOW`] requests since the device was idle, [`MISSED_MIN`] would have come while that many were
//!   outstanding, had they been independent of the device. Of clients that think for long, all are rarely outstanding.
//!
//! # Scope and limits
//! Clients that think for so long that all are never outstanding are not found.

use seeklab_core::{Duration, Instant};

/// Share of the busy time for which all clients wait.
const HELD_MIN: f64 = 0.3;

/// Share of the arrivals that come when some have completed since the last one, and others have not.
const BETWEEN_MIN: f64 = 0.01;

/// Arrivals that would have come while all clients wait, if they were independent of the device: that none comes then has a
/// probability of one in nine million.
const MISSED_MIN: f64 = 16.0;

/// Requests of each of two parts that count.
const WINDOW: u64 = 256;

/// The clients of a trace, by the requests outstanding at the measured device.
#[derive(Debug, Clone, Default)]
pub(super) struct Clients {
    /// The requests before the last so many, and those so far.
    parts: [Part; 2],
    /// The requests since the device was idle.
    since_idle: Part,
    now: Instant,
}

/// Requests in a row.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    requests: u64,
    between: u64,
    busy: Duration,
    /// Requests outstanding together, at most, and the time for which that many were.
    most: usize,
    at_most: Duration,
}

impl Clients {
    /// So many requests were outstanding until then.
    pub(super) fn pass(&mut self, until: Instant, outstanding: usize) {
        let until = until.max(self.now);
        let time = until - std::mem::replace(&mut self.now, until);
        if outstanding > 0 {
            self.parts[1].pass(time, outstanding);
            self.since_idle.pass(time, outstanding);
        } else {
            self.since_idle = Part::default();
        }
    }

    /// A request arrived; `is_between` if some had completed since the one before, and others were outstanding.
    pub(super) fn arrived(&mut self, is_between: bool) {
        if self.parts[1].requests == WINDOW {
            self.parts = [self.parts[1], Part::default()];
        }
        for part in [&mut self.parts[1], &mut self.since_idle] {
            part.requests += 1;
            part.between += u64::from(is_between);
        }
    }

    /// Returns the number of clients; `None` if the device does not hold up several, or fewer than [`WINDOW`] requests are known.
    pub(super) fn number(&self) -> Option<usize> {
        let [before, last] = &self.parts;
        let both = before.and(last);
        let are_held = before.requests > 0
            && both.held() >= HELD_MIN
            && both.between as f64 >= BETWEEN_MIN * both.requests as f64;
        let are_missed =
            |part: &Part| part.requests >= WINDOW && part.held() * part.requests as f64 >= MISSED_MIN;
        let part =
            if are_held { Some(&both) } else { Some(&self.since_idle).filter(|part| are_missed(part)) };
        part.map(|part| part.most).filter(|most| *most > 1)
    }
}

impl Part {
    fn pass(&mut self, time: Duration, outstanding: usize) {
        self.busy += time;
        if outstanding > self.most {
            (self.most, self.at_most) = (outstanding, Duration::ZERO);
        }
        if outstanding == self.most {
            self.at_most += time;
        }
    }

    /// Returns this part and the next in one.
    fn and(&self, next: &Self) -> Self {
        let most = self.most.max(next.most);
        let at_most = |part: &Self| if part.most == most { part.at_most } else { Duration::ZERO };
        Self {
            requests: self.requests + next.requests,
            between: self.between + next.between,
            busy: self.busy + next.busy,
            most,
            at_most: at_most(self) + at_most(next),
        }
    }

    /// Returns the share of the busy time for which as many were outstanding as there were at most.
    fn held(&self) -> f64 {
        self.at_most.as_ns() as f64 / self.busy.as_ns().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use seeklab_core::{Seed, Stream};

    use super::*;

    /// A device, from the outside: requests outstanding, and what is known of its clients.
    #[derive(Debug, Default)]
    struct Observed {
        clients: Clients,
        outstanding: BinaryHeap<Reverse<Instant>>,
        has_completed: bool,
    }

    impl Observed {
        fn record(&mut self, arrival: Instant, completion: Instant) {
            while let Some(Reverse(next)) = self.outstanding.peek().copied()
                && next <= arrival
            {
                self.clients.pass(next, self.outstanding.len());
                self.outstanding.pop();
                self.has_completed = true;
            }
            self.clients.pass(arrival, self.outstanding.len());
            self.clients.arrived(self.has_completed && !self.outstanding.is_empty());
            self.has_completed = false;
            self.outstanding.push(Reverse(completion));
        }
    }

    fn service(stream: &mut Stream) -> Duration {
        Duration::from_us(20 + stream.below(20))
    }

    /// So many clients on one processor, which needs 20 us for each request; the device serves 60 of them in each 100 ms.
    fn limited(observed: &mut Observed, count: usize, requests: u64) {
        let mut stream = Seed(1).stream("service");
        let start = observed.clients.now + Duration::from_s(1);
        let mut ready: BinaryHeap<Reverse<Instant>> = (0..count).map(|_| Reverse(start)).collect();
        let mut now = start;
        for index in 0..requests {
            let Reverse(since) = ready.pop().unwrap();
            now = now.max(since) + Duration::from_us(20);
            let allowed = start + Duration::from_ms(100) * (index / 60);
            let completion = now.max(allowed) + service(&mut stream);
            observed.record(now, completion);
            ready.push(Reverse(completion));
        }
    }

    #[test]
    fn clients_that_a_limit_holds_up_are_counted_and_may_change() {
        for count in [2, 8, 16] {
            let mut observed = Observed::default();
            limited(&mut observed, count, 2_000);
            assert_eq!(observed.clients.number(), Some(count));
            limited(&mut observed, 5, 2_000);
            assert_eq!(observed.clients.number(), Some(5), "after {count}");
        }
    }

    #[test]
    fn clients_that_think_for_long_are_counted_while_the_device_is_busy() {
        let (mut observed, mut stream) = (Observed::default(), Seed(1).stream("think"));
        let mut ready: BinaryHeap<Reverse<Instant>> = (0..16).map(|_| Reverse(Instant::ZERO)).collect();
        let mut free = Instant::ZERO;
        for _ in 0..5_000 {
            let Reverse(arrival) = ready.pop().unwrap();
            free = free.max(arrival) + stream.exponential(Duration::from_ms(10));
            observed.record(arrival, free);
            ready.push(Reverse(free + stream.exponential(Duration::from_ms(20))));
        }
        let [before, last] = &observed.clients.parts;
        assert!(before.and(last).held() < HELD_MIN, "{observed:?}");
        assert_eq!(observed.clients.number(), Some(16));
    }

    #[test]
    fn requests_of_a_barrier_are_none_of_clients() {
        let (mut observed, mut stream) = (Observed::default(), Seed(1).stream("service"));
        let mut now = Instant::ZERO;
        for _ in 0..500 {
            let completions = [(); 8].map(|()| now + service(&mut stream) + Duration::from_ms(1));
            completions.iter().for_each(|completion| observed.record(now, *completion));
            now = *completions.iter().max().unwrap() + Duration::from_us(20);
        }
        assert_eq!(observed.clients.number(), None);
    }

    #[test]
    fn independent_arrivals_are_none_of_clients() {
        for mean_us in [35, 60, 300] {
            let (mut observed, mut stream) = (Observed::default(), Seed(1).stream("arrivals"));
            let (mut now, mut free) = (Instant::ZERO, Instant::ZERO);
            for _ in 0..20_000 {
                now += stream.exponential(Duration::from_us(mean_us));
                free = free.max(now) + service(&mut stream);
                observed.record(now, free);
                assert_eq!(observed.clients.number(), None, "{mean_us} us apart");
            }
        }
    }
}
