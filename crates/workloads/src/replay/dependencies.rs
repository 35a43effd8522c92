//! Dependencies between the requests of a trace, inferred from its times, and kept at another device.
//!
//! # Rule
//! Whoever makes requests often waits for one before. So a request is taken to have waited
//! - for all before it, if it found the device idle: it arrives as long after the other device has gone idle as it did after
//!   the measured one;
//! - for the one that had completed last, if it arrived soon after that: it arrives as long after the other device has
//!   completed that one. The limit is fitted to the trace, of which arrivals may follow completions no more than chance
//!   does ([`Following`](super::Following)).
//!
//! Where the device holds up clients ([`Clients`]), a request was made by the client that had been free for longest, if that was
//! so soon before, be the device idle or not. It arrives as long after the completion that freed a client on the other
//! device, whichever was the first there that is not followed. If a device answers sooner than clients can make
//! their next requests, it is idle for a moment; but a limit that holds up one of them holds up no other.
//!
//! Any other request that found the device busy keeps its distance from the one before it. So a slower device delays its load, as it
//! would whoever made it, and does not drown in arrivals that its slowness would have prevented; a trace of one request
//! at a time is replayed closed, with its think times; and bursts that wait for nothing stay bursts.
//!
//! # Scope and limits
//! Requests arrive in the order of the trace. Dependencies are inferred from times alone.
//!
//! # References
//! G. R. Ganger, Y. N. Patt, Using system-level models to evaluate I/O subsystem designs, IEEE Transactions on Computers
//! 47(6), 1998: what open replay gets wrong. A. Haghdoost et al., On the accuracy and scalability of intensive I/O workload
//! replay, FAST 2017: dependence on the request that completed just before.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use seeklab_core::{Duration, Instant};

use super::clients::Clients;

/// Arrivals being replayed, request by request in order of the trace.
#[derive(Debug, Clone, Default)]
pub struct Dependencies {
    /// Longest time from a completion to the arrival of a request that waited for it; `None` if none
    /// waits.
    soon: Option<Duration>,
    /// Arrival of the previous request at the measured device, and at the other device.
    before: (Instant, Instant),
    /// Time at which all requests so far had completed on the measured device.
    busy_until: Instant,
    /// Time of the last completion on the other device, and number of requests that are outstanding
    /// there.
    idle_since: Instant,
    left: u64,
    /// Completions there that freed a client who has not made its next request.
    freed: VecDeque<Instant>,
    followed: Followed,
    counts: DependencyCounts,
}

/// Requests by what they were found to have waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DependencyCounts {
    /// For all requests before: they had found the device idle.
    pub after_idle: u64,
    /// For the request that had completed last, or for one of a client.
    pub after_completion: u64,
    /// For none: they keep their distance from the request before.
    pub independent: u64,
}

/// Requests that later ones may wait for.
#[derive(Debug, Clone, Default)]
struct Followed {
    /// Requests outstanding on the measured device, by their completions.
    outstanding: BinaryHeap<Reverse<(Instant, u64)>>,
    /// The one that had completed last on the measured device, and when.
    last: Option<(u64, Instant)>,
    clients: Clients,
    /// Completions there that freed a client who has not made its next request.
    freed: VecDeque<Instant>,
    /// True if one had completed since the last arrival.
    has_completed: bool,
    /// Requests from number `first` on, which others may still wait for or which have not completed.
    requests: VecDeque<AtBoth>,
    first: u64,
}

/// A request at both devices.
#[derive(Debug, Clone, Copy, Default)]
struct AtBoth {
    /// Time at which the other device completed the request.
    completed: Option<Instant>,
    /// True if no request waits for this one any more.
    is_over: bool,
}

/// Requests that the next one waited for, with their time of completion on the measured device.
enum Awaited {
    Nothing,
    One(u64, Instant),
    Client(Instant),
    All(Instant),
}

impl Dependencies {
    /// Arrivals that wait for the device to be idle, as they did, and for a completion if they arrived so soon after it;
    /// for no completion if `None`.
    pub fn following(soon: Option<Duration>) -> Self {
        Self { soon, ..Self::default() }
    }

    /// Returns the numbers of requests so far by the event that they waited for.
    pub const fn counts(&self) -> DependencyCounts {
        self.counts
    }

    /// The other device has completed a request, counted from 0 in the order of the trace.
    pub fn completed(&mut self, number: u64, at: Instant) {
        self.left -= 1;
        self.idle_since = at;
        self.followed.of(number).completed = Some(at);
        self.freed.push_back(at);
    }

    /// Returns true if the other device must advance before the arrival of the next request there is
    /// known. `arrival` is its measured arrival.
    pub fn waits(&mut self, arrival: Instant) -> bool {
        match self.awaited(arrival) {
            Awaited::Nothing => false,
            Awaited::One(number, _) => self.followed.of(number).completed.is_none(),
            Awaited::Client(_) => self.freed.is_empty() && self.left > 0 && !self.lacks_a_client(),
            Awaited::All(_) => self.left > 0,
        }
    }

    /// Returns the arrival of the next request at the other device, from its measured arrival and
    /// completion. The request must not wait any more, see [`waits`](Self::waits).
    pub fn arrival(&mut self, arrival: Instant, completion: Instant) -> Instant {
        let (measured, other) = self.before;
        let at = match self.awaited(arrival) {
            Awaited::Nothing => {
                self.counts.independent += 1;
                other + (arrival - measured)
            }
            Awaited::One(number, since) => {
                self.counts.after_completion += 1;
                self.followed.of(number).completed.expect("it was waited for") + (arrival - since)
            }
            Awaited::Client(since) => {
                let at = if self.lacks_a_client() {
                    self.counts.independent += 1;
                    other + (arrival - measured)
                } else {
                    self.counts.after_completion += 1;
                    self.freed.pop_front().unwrap_or(self.idle_since) + (arrival - since)
                };
                self.followed.freed.pop_front();
                at
            }
            Awaited::All(since) => {
                self.counts.after_idle += 1;
                self.idle_since + (arrival - since)
            }
        };
        let at = at.max(other);
        self.before = (arrival, at);
        self.busy_until = self.busy_until.max(completion);
        self.left += 1;
        self.followed.push(arrival, completion);
        at
    }

    /// Returns true if fewer clients than on the measured device wait there, or think.
    fn lacks_a_client(&self) -> bool {
        let measured = self.followed.outstanding.len() + self.followed.freed.len();
        self.left + (self.freed.len() as u64) < measured as u64
    }

    fn awaited(&mut self, arrival: Instant) -> Awaited {
        let clients = self.followed.advance(arrival, self.soon);
        while self.freed.len() as u64 + self.left > clients as u64 && self.freed.pop_front().is_some() {}
        match (self.followed.freed.front(), self.followed.last) {
            (Some(since), _) => Awaited::Client(*since),
            _ if arrival >= self.busy_until => Awaited::All(self.busy_until),
            (_, Some((number, since))) if self.soon.is_some_and(|soon| arrival - since <= soon) => {
                Awaited::One(number, since)
            }
            _ => Awaited::Nothing,
        }
    }
}

impl Followed {
    fn push(&mut self, arrival: Instant, completion: Instant) {
        self.clients.pass(arrival, self.outstanding.len());
        self.clients.arrived(self.has_completed && !self.outstanding.is_empty());
        self.has_completed = false;
        let number = self.first + self.requests.len() as u64;
        self.outstanding.push(Reverse((completion, number)));
        self.requests.push_back(AtBoth::default());
    }

    fn of(&mut self, number: u64) -> &mut AtBoth {
        &mut self.requests[(number - self.first) as usize]
    }

    /// Takes the completions on the measured device until then, and returns the number of clients that it holds up, 0 for
    /// none; one that was freed more than `soon` before is none.
    fn advance(&mut self, now: Instant, soon: Option<Duration>) -> usize {
        while let Some(Reverse((completion, number))) = self.outstanding.peek().copied()
            && completion <= now
        {
            self.clients.pass(completion, self.outstanding.len());
            self.outstanding.pop();
            self.has_completed = true;
            self.freed.push_back(completion);
            if let Some((before, _)) = self.last.replace((number, completion)) {
                self.of(before).is_over = true;
            }
        }
        let clients = self.clients.number().unwrap_or(0);
        while let Some(since) = self.freed.front()
            && (soon.is_some_and(|soon| now - *since > soon)
                || self.outstanding.len() + self.freed.len() > clients)
        {
            self.freed.pop_front();
        }
        while self.requests.front().is_some_and(|request| request.is_over && request.completed.is_some()) {
            self.requests.pop_front();
            self.first += 1;
        }
        clients
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    #[test]
    fn slower_device_delays_requests_that_waited_for_it() {
        let mut replay = Dependencies::default();
        assert!(!replay.waits(at(100)));
        assert_eq!(replay.arrival(at(100), at(110)), at(100));
        // Behind it, while it is busy.
        assert!(!replay.waits(at(105)));
        assert_eq!(replay.arrival(at(105), at(120)), at(105));
        // Five after the measured one went idle; the other one did so at 200.
        assert!(replay.waits(at(125)));
        replay.completed(0, at(150));
        assert!(replay.waits(at(125)));
        replay.completed(1, at(200));
        assert!(!replay.waits(at(125)));
        assert_eq!(replay.arrival(at(125), at(130)), at(205));
        assert_eq!(replay.arrival(at(128), at(140)), at(208));
    }

    #[test]
    fn request_that_followed_a_completion_waits_for_it() {
        let mut replay = Dependencies::following(Some(Duration::from_ns(3)));
        assert_eq!(replay.arrival(at(100), at(110)), at(100));
        assert_eq!(replay.arrival(at(101), at(200)), at(101));
        // Two after the first, while the second is in the device.
        assert!(replay.waits(at(112)));
        replay.completed(0, at(150));
        assert!(!replay.waits(at(112)), "the second is not waited for");
        assert_eq!(replay.arrival(at(112), at(210)), at(152));
        // Ten after it: that is too late to have waited.
        assert!(!replay.waits(at(120)));
        assert_eq!(replay.arrival(at(120), at(220)), at(160));
        // What the other device completes out of order is known all the same, and forgotten when it is over.
        replay.completed(2, at(161));
        replay.completed(3, at(162));
        assert!(replay.waits(at(201)), "for the second");
        replay.completed(1, at(300));
        assert_eq!(replay.arrival(at(201), at(230)), at(301));
        assert!(!replay.waits(at(211)));
        assert!(replay.followed.requests.len() <= 3, "{:?}", replay.followed);
        assert_eq!(replay.counts(), DependencyCounts { after_idle: 1, after_completion: 2, independent: 2 });
    }

    /// A device that takes 30 us, and makes every 60th request and those behind it wait for 100 ms.
    fn allowed(index: u64, offset: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(100) * ((index + offset) / 60)
    }

    /// Replays eight clients, which take 20 us for each request one after the other, and returns how many wait at a time.
    fn longest_queue(offset: u64) -> usize {
        let mut replay = Dependencies::following(Some(Duration::from_us(200)));
        let served =
            |arrival: Instant, index, offset| arrival.max(allowed(index, offset)) + Duration::from_us(30);
        let mut ready: BinaryHeap<Reverse<Instant>> = (0..8).map(|_| Reverse(Instant::ZERO)).collect();
        let mut outstanding: BinaryHeap<Reverse<(Instant, u64)>> = BinaryHeap::new();
        let (mut now, mut longest) = (Instant::ZERO, 0);
        for index in 0..4_000 {
            let Reverse(since) = ready.pop().unwrap();
            now = now.max(since) + Duration::from_us(20);
            let completion = served(now, index, 0);
            ready.push(Reverse(completion));
            while replay.waits(now) {
                let Reverse((at, number)) = outstanding.pop().unwrap();
                replay.completed(number, at);
            }
            let arrival = replay.arrival(now, completion);
            while let Some(Reverse((at, number))) = outstanding.peek().copied()
                && at <= arrival
            {
                outstanding.pop();
                replay.completed(number, at);
            }
            outstanding.push(Reverse((served(arrival, index, offset), index)));
            if index > 1_000 {
                longest = longest.max(outstanding.len());
            }
        }
        longest
    }

    #[test]
    fn limit_that_holds_up_one_client_holds_up_no_other() {
        for offset in [0, 1, 25, 57] {
            assert_eq!(longest_queue(offset), 8, "offset {offset}");
        }
    }
}
