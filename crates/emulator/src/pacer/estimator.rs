//! Estimates the allowances of a [`Compensation`] from requests whose stamps in the host are known.
//!
//! ```text
//! MP1 ── way in ──▶ MP2 ──────────── room ────────────▶ model's completion (MP3)
//!            ◀ arrival ┘└─────▶ reply leaves ◀── early ───┘
//!                                     └─── way out ───▶ MP1
//! ```
//! The times of the ways do not depend on the allowances, so they are measured, not steered. The allowance of
//! arrival is the present time of the way in. The allowance of early completion is the present time of the
//! way out, plus a correction that makes the mean error of whole requests (response time at MP1 less that in
//! the model) zero.
//!
//! Early completion is not always effective in full. A reply that was due before its request came leaves at
//! once, so at most the *room* between both is gained. The room of each of the last requests is known. So the
//! error of each request under another allowance is known too, and the allowance with a mean error of zero.
//! This allowance is set at once, not approached in steps. If half of the replies are late, steering in steps
//! would move the other half alone, and would swing or lag.
//!
//! # Scope and limits
//! The present time of a way moves half of the way to the *centre* of each sixteen requests: the mean of
//! their times, each limited to 100 us from their median. Longer deviations (missed deadlines, one request in
//! a hundred; stalls of the machine) would send the next sixteen early by all of it. They belong to the rest
//! of the error, which is averaged over 1024 requests. So does the delay of requests that come before the
//! model's last completion, which the model receives too late. If the model is faster than the ways through
//! the host, requests stay too long: the allowance is limited to the room that one request in sixteen has,
//! and to 1 ms.
//!
//! # References
//! \[Griffin 2004, §5.1.3, §5.3.2\], dynamic compensation.

use seeklab_core::{Duration, Instant, Operation, TraceRecord};

use super::{Allowance, Compensation, Fixed};

/// Finds allowances, for each operation on its own.
#[derive(Debug, Clone)]
pub struct AllowanceEstimator {
    begun_with: Compensation,
    bound: Bound,
    accounts: [Account; Operation::ALL.len()],
}

impl AllowanceEstimator {
    /// Requests whose centre is what a way takes now, and after which allowances are found anew.
    pub const WINDOW: usize = 16;
    /// Largest distance of a way from the median of its window that counts.
    pub const REACH: Duration = Duration::from_us(100);
    /// Requests over which the rest of the error is averaged.
    pub const MEMORY: usize = 1024;
    /// No more is allowed than one request in so many has room for.
    pub const ROOM_SHARE: i64 = 16;
    /// A larger error is not one of emulation: requests were paired wrong, or the machine stood still.
    pub const STALL: Duration = Duration::from_ms(10);
    /// No allowance is longer: what takes longer is the kernel's scheduling, not the way.
    pub const ALLOWED_MAX: Duration = Duration::from_ms(1);

    /// Begins with what an emulation compensates for; what of it grows with size stays as it is.
    pub fn new(begun_with: Compensation) -> Self {
        let account = |op| Account::new(begun_with.arrival.of(op).fixed, begun_with.early.of(op).fixed);
        Self { begun_with, bound: Bound::default(), accounts: Operation::ALL.map(account) }
    }

    /// Takes one request, in order of arrival. Returns new allowances at the end of a window. Requests that lack
    /// a stamp are ignored.
    pub fn see(&mut self, record: &TraceRecord) -> Option<Fixed> {
        let bound = self.bound.before(record);
        let points = &record.points;
        let (issue, done) = points.mp1()?;
        let (arrived, due, left) = (points.mp2_arrival?, points.mp2_due?, points.mp2_completion?);
        let (submitted, completion) = (record.arrival, record.completion?);
        let is_stall = |error: i64| error.unsigned_abs() > Self::STALL.as_ns();
        if is_stall(ns(issue, submitted)) || is_stall(ns(completion, done)) {
            return None;
        }
        let for_size = |allowance: Allowance| (allowance.per_block * u64::from(record.blocks)).as_ns() as i64;
        let for_size_in = for_size(self.begun_with.arrival.of(record.op));
        let for_size_out = for_size(self.begun_with.early.of(record.op));
        let request = Ways {
            inward: ns(issue, arrived) - for_size_in,
            bounded: (submitted == bound).then(|| ns(issue, submitted)),
            response: ns(submitted, completion) - for_size_in - for_size_out,
            late: ns(due.max(arrived), left),
            outward: ns(left, done) - for_size_out,
        };
        let account = &mut self.accounts[record.op as usize];
        let (arrival, early) = account.take(request)?;
        Some(Fixed { op: record.op, arrival, early })
    }
}

/// From one time to another, in ns.
fn ns(from: Instant, to: Instant) -> i64 {
    to.as_ns() as i64 - from.as_ns() as i64
}

/// Last arrival and completion of the model, before which it accepts no request.
#[derive(Debug, Clone, Default)]
struct Bound {
    last_arrival: Instant,
    last_completion: Instant,
    /// Completions after the last arrival.
    to_come: Vec<Instant>,
}

impl Bound {
    /// Takes a request in; returns when it could have been submitted at the earliest.
    fn before(&mut self, record: &TraceRecord) -> Instant {
        let passed = self.to_come.extract_if(.., |completion| *completion <= record.arrival);
        self.last_completion = passed.fold(self.last_completion, Instant::max);
        let bound = self.last_completion.max(self.last_arrival);
        self.last_arrival = record.arrival;
        self.to_come.extend(record.completion);
        bound
    }
}

/// Times of one request, in ns, less the parts that grow with size.
#[derive(Debug, Clone, Copy)]
struct Ways {
    /// From MP1 to MP2.
    inward: i64,
    /// The arrival error, if the model could not see it earlier.
    bounded: Option<i64>,
    /// In the model.
    response: i64,
    /// From its due time, or its arrival if that was later, until its reply left.
    late: i64,
    /// From MP2 to MP1.
    outward: i64,
}

/// Estimates for one operation. Times in ns.
#[derive(Debug, Clone)]
struct Account {
    /// Present times of the ways in and out.
    inward: i64,
    outward: i64,
    window: Vec<Ways>,
    rest: Rest,
}

impl Account {
    fn new(inward: Duration, outward: Duration) -> Self {
        let (inward, outward) = (inward.as_ns() as i64, outward.as_ns() as i64);
        Self { inward, outward, window: Vec::new(), rest: Rest::default() }
    }

    /// Takes one request in; at the end of a window, the allowances of arrival and early completion.
    fn take(&mut self, request: Ways) -> Option<(Duration, Duration)> {
        self.window.push(request);
        if self.window.len() < AllowanceEstimator::WINDOW {
            return None;
        }
        let inward = centre(self.window.iter().map(|request| request.inward));
        let outward = centre(self.window.iter().map(|request| request.outward));
        self.inward += (inward - self.inward) / 2;
        self.outward += (outward - self.outward) / 2;
        for request in self.window.drain(..) {
            let allowed = request.inward - inward;
            let arrival = request.bounded.map_or(allowed, |bounded| bounded.max(allowed));
            let error = arrival + request.late + request.outward - outward;
            self.rest.take(Seen { error, room: request.response - (request.inward - arrival) });
        }
        let allowable = |ns: i64| Duration::from_ns(ns.max(0) as u64).min(AllowanceEstimator::ALLOWED_MAX);
        Some((allowable(self.inward), allowable(self.rest.allowance(self.outward))))
    }
}

/// The mean, of each no more than [`AllowanceEstimator::REACH`] from the median.
fn centre(ways: impl Iterator<Item = i64>) -> i64 {
    let mut ways: Vec<i64> = ways.collect();
    let middle = ways.len() / 2;
    let median = *ways.select_nth_unstable(middle).1;
    let reach = AllowanceEstimator::REACH.as_ns() as i64;
    let within: i64 = ways.iter().map(|way| (way - median).clamp(-reach, reach)).sum();
    median + within / ways.len() as i64
}

/// The errors of the last requests, but for the way out.
#[derive(Debug, Clone, Default)]
struct Rest {
    /// A ring; the oldest is at `next` once there are enough.
    seen: Vec<Seen>,
    next: usize,
    /// Of the errors.
    sum: i64,
}

/// One request, if the way in is allowed for.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Excess of its time without early completion, over the model and the average way out at that time.
    error: i64,
    /// No more early completion than that would be had.
    room: i64,
}

impl Rest {
    fn take(&mut self, seen: Seen) {
        self.sum += seen.error;
        if self.seen.len() < AllowanceEstimator::MEMORY {
            self.seen.push(seen);
        } else {
            self.sum -= std::mem::replace(&mut self.seen[self.next], seen).error;
        }
        self.next = (self.next + 1) % AllowanceEstimator::MEMORY;
    }

    /// The least allowance under which errors have a mean of zero, if the way out takes that long, or for more than
    /// which too few have room.
    fn allowance(&self, way_out: i64) -> i64 {
        let count = self.seen.len() as i64;
        let wanted = way_out * count + self.sum;
        let mut allowance = wanted / count;
        // What is had of an allowance is concave in it, so Newton's method comes from below and ends.
        loop {
            let had: i64 = self.seen.iter().map(|seen| allowance.min(seen.room)).sum();
            let with_room = self.seen.iter().filter(|seen| allowance < seen.room).count() as i64;
            let missing = wanted - had;
            if missing < count || with_room * AllowanceEstimator::ROOM_SHARE < count {
                return allowance;
            }
            allowance += missing / with_room;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use seeklab_core::MeasurementPoints;

    use super::*;

    const US: i64 = 1_000;

    /// A program that makes one request after another, and the host and the emulator between it and a model.
    struct Host {
        compensation: Compensation,
        estimator: AllowanceEstimator,
        /// Requests after which what was found is known to the emulator.
        delay: usize,
        found: VecDeque<(usize, Fixed)>,
        issue: i64,
        last_completion: i64,
    }

    /// Times of one request, in ns.
    #[derive(Clone, Copy)]
    struct Fate {
        way_in: i64,
        response: i64,
        /// Lateness of the reply.
        late: i64,
        way_out: i64,
    }

    impl Host {
        fn new(delay: usize) -> Self {
            let compensation = Compensation::skew(Duration::from_us(5));
            let estimator = AllowanceEstimator::new(compensation);
            Self {
                compensation,
                estimator,
                delay,
                found: VecDeque::new(),
                issue: 100_000 * US,
                last_completion: 0,
            }
        }

        /// A request, and the errors of arrival and completion that it has.
        fn request(&mut self, number: usize, fate: Fate) -> (i64, i64) {
            while let Some((_, fixed)) = self.found.pop_front_if(|(at, _)| *at <= number) {
                self.compensation = self.compensation.with(fixed);
            }
            let ns = |duration: Duration| duration.as_ns() as i64;
            let arrived = self.issue + fate.way_in;
            let allowed = ns(self.compensation.arrival.of(Operation::Write).fixed);
            let submitted = (arrived - allowed).max(self.last_completion);
            let completion = submitted + fate.response;
            let due = completion - ns(self.compensation.early.of(Operation::Write).fixed);
            let left = due.max(arrived) + fate.late;
            let done = left + fate.way_out;
            let at = |ns: i64| Instant::from_ns(ns as u64);
            let points = MeasurementPoints {
                mp1_arrival: Some(at(self.issue)),
                mp1_completion: Some(at(done)),
                mp2_arrival: Some(at(arrived)),
                mp2_due: Some(at(due)),
                mp2_completion: Some(at(left)),
                miss_cause: None,
            };
            let record = TraceRecord::new(at(submitted), Operation::Write, 0, 8);
            let record = TraceRecord { completion: Some(at(completion)), points, ..record };
            if let Some(fixed) = self.estimator.see(&record) {
                self.found.push_back((number + self.delay, fixed));
            }
            let errors = (submitted - self.issue, done - completion);
            self.last_completion = completion;
            self.issue = done + 30 * US;
            errors
        }

        fn allowed_us(&self) -> (u64, u64) {
            let us = |duration: Duration| (duration.as_ns() + 500) / 1_000;
            let Compensation { arrival, early, .. } = &self.compensation;
            (us(arrival.of(Operation::Write).fixed), us(early.of(Operation::Write).fixed))
        }
    }

    const QUIET: Fate = Fate { way_in: 20 * US, response: 150 * US, late: 0, way_out: 10 * US };

    #[test]
    fn allowances_equal_the_times_of_the_ways() {
        let mut host = Host::new(1);
        for number in 0..400 {
            host.request(number, QUIET);
        }
        assert_eq!(host.allowed_us(), (20, 10));
        let (arrival, completion) = host.request(400, QUIET);
        assert!(arrival.abs() <= 1 && completion.abs() <= 1, "{arrival} and {completion} ns");
        let Compensation { arrival, early, .. } = host.compensation;
        assert_eq!((arrival.of(Operation::Read), early.of(Operation::Read)), {
            let begun_with = Allowance::fixed(Duration::from_us(5));
            (begun_with, begun_with)
        });
    }

    #[test]
    fn burst_has_no_lasting_effect_on_allowances() {
        // mkfs: many at once, which wait for each other on the way in.
        let mut host = Host::new(40);
        for number in 0..300 {
            host.request(number, Fate { way_in: 480 * US, ..QUIET });
        }
        for number in 300..500 {
            host.request(number, QUIET);
        }
        let (arrival, _) = host.allowed_us();
        assert!((18..=22).contains(&arrival), "{arrival} us are allowed for a way of 20");
    }

    #[test]
    fn mean_error_is_zero_even_if_replies_are_late() {
        // Random ways and times; the model answers within 110 us half of the time, which cannot be had.
        let check = |delay: usize, ways_us: i64, stall_us: i64| {
            let mut host = Host::new(delay);
            let mut state = 0x9e37_79b9_u64;
            let mut random = |below: i64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                ((state >> 33) as i64) % below
            };
            let (mut sum, mut late) = (0, 0);
            let requests = 40_000;
            for number in 0..2 * requests {
                let fate = Fate {
                    way_in: (ways_us / 2 + random(ways_us)) * US,
                    response: (20 + random(240)) * US,
                    late: if random(200) == 0 { stall_us * US } else { 0 },
                    way_out: (5 + random(10)) * US,
                };
                let (arrival, completion) = host.request(number as usize, fate);
                if number >= requests {
                    sum += arrival + completion;
                    late += i64::from(completion > 20 * US);
                }
            }
            let (mean, late) = (sum / requests, late as f64 / requests as f64);
            assert!(
                mean.abs() < 2 * US,
                "{mean} ns on average, {late} late, with {delay}, {ways_us}, {stall_us}"
            );
            late
        };
        assert!(check(1, 20, 0) < 0.02, "ways are short");
        let late = check(40, 70, 600);
        assert!((0.1..0.6).contains(&late), "{late} of the replies are late where ways are long");
        check(500, 70, 600);
    }

    #[test]
    fn allowance_is_limited_to_the_room() {
        let mut host = Host::new(1);
        for number in 0..4_000 {
            host.request(number, Fate { response: 5 * US, ..QUIET });
        }
        assert_eq!(host.allowed_us(), (20, 10), "none has room for more");
        for number in 4_000..20_000 {
            host.request(number, QUIET);
        }
        assert_eq!(host.allowed_us(), (20, 10), "there is room again");
    }

    #[test]
    fn stalls_of_the_machine_are_ignored() {
        let mut host = Host::new(1);
        for number in 0..400 {
            let stall = if number % 3 == 0 { 11_000 * US } else { 0 };
            host.request(number, Fate { late: stall, ..QUIET });
        }
        assert_eq!(host.allowed_us(), (20, 10));
    }

    #[test]
    fn outlying_ways_count_only_up_to_the_reach() {
        let check = |ways: &[i64], expected: i64| {
            assert_eq!(centre(ways.iter().copied()), expected, "{ways:?}");
        };
        check(&[7_000], 7_000);
        check(&[10_000, 20_000, 60_000], 30_000);
        check(&[30_000, 30_000, 30_000, 30_000, 900_000], 50_000);
        check(&[-900_000, 30_000, 30_000, 30_000, 30_000], 10_000);
    }
}
