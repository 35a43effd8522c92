//! Detection of arrivals that follow completions, with the longest time between the two, and of arrivals that follow nothing.
//!
//! # Method
//! The age of the last completion is counted at each arrival, and over all of the time, apart for a busy and an idle device.
//! - *Completions.* While the device is busy, arrivals that are independent of completions have the distribution of all of the
//!   time. At the age where the distribution of arrivals is furthest ahead (the distance of Kolmogorov and Smirnov),
//!   arrivals up to that age are assumed to have waited for the completion. If arrivals are never ahead by
//!   [`TELLING`], they are assumed to wait for no completion.
//! - *Independence.* Poisson arrivals see time averages \[Wolff82\]: they meet the device busy and idle, each age of the last
//!   completion, and each number outstanding, as often as these are there. If the greatest distance of the two distributions over
//!   all ages, and over all numbers, is what chance makes of so many arrivals, and less than [`FAINT`], arrivals are independent
//!   of the device. Of others, such as bursts, this shows nothing: they count as dependent. Clients of a device that is never
//!   idle meet all ages alike, and fewer outstanding than there are, for one of them is not.
//!
//! # Scope and limits
//! The first [`REQUESTS_MAX`] requests are counted. Ages are in classes of a quarter of a doubling.
//!
//! # References
//! \[Wolff82\]: R. W. Wolff, Poisson arrivals see time averages, Operations Research 30(2), 1982.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use seeklab_core::statistics::{least_of, octave_class};
use seeklab_core::{Duration, Instant};

use super::Mode;

/// Share of the arrivals by which they have to be ahead of chance.
const TELLING: f64 = 0.1;

/// Distance of the states at arrivals from those at large, from which on arrivals depend on the device, however few there are.
const FAINT: f64 = 0.02;

/// Distance of the states times the square root of the number of arrivals, which one in 1,000 samples of independent arrivals exceeds
/// (Kolmogorov's distribution; in a few classes it is exceeded more rarely).
const BY_CHANCE: f64 = 1.95;

/// Requests that are looked at.
const REQUESTS_MAX: u64 = 1 << 18;

/// Classes of a doubling, and all of them.
const PER_OCTAVE: u32 = 4;
const CLASSES: usize = 64 * PER_OCTAVE as usize;

/// Class from which on each has a whole number.
const DENSE: usize = 2 * PER_OCTAVE as usize;

/// The least value of the class behind each.
const NEXT: [u64; CLASSES] = {
    let (mut next, mut class) = ([u64::MAX; CLASSES], 1);
    while class < CLASSES {
        next[class - 1] = least_of(class as u32, PER_OCTAVE);
        class += 1;
    }
    next
};

/// Statistics of the arrivals that follow completions, recorded request by request in order of
/// arrival.
#[derive(Debug, Clone, Default)]
pub struct Following {
    /// Requests outstanding, by their completions.
    outstanding: BinaryHeap<Reverse<Instant>>,
    now: Instant,
    last_completion: Option<Instant>,
    requests: u64,
    busy: States,
    idle: States,
    /// By the number outstanding.
    lengths: States,
}

/// Arrivals, and the time at large, by the age of the last completion or another property of the device.
#[derive(Debug, Clone)]
struct States {
    arrivals: Vec<u64>,
    at_large_ns: Vec<u64>,
}

impl Default for States {
    fn default() -> Self {
        Self { arrivals: vec![0; CLASSES], at_large_ns: vec![0; CLASSES] }
    }
}

fn class_of(age_ns: u64) -> usize {
    (octave_class(age_ns.max(1), PER_OCTAVE) as usize).min(CLASSES - 1)
}

impl Following {
    /// A request that was measured.
    pub fn record(&mut self, arrival: Instant, completion: Instant) {
        if self.requests == REQUESTS_MAX {
            return;
        }
        self.requests += 1;
        while let Some(Reverse(next)) = self.outstanding.peek().copied()
            && next <= arrival
        {
            self.pass(next);
            self.outstanding.pop();
            self.last_completion = Some(next);
        }
        self.pass(arrival);
        if let Some(last) = self.last_completion {
            self.states().arrivals[class_of((arrival - last).as_ns())] += 1;
            let length = self.length();
            self.lengths.arrivals[length] += 1;
        }
        self.outstanding.push(Reverse(completion.max(arrival)));
    }

    /// Requests are missing before the next one: what the device does until then is unknown.
    pub fn interrupt(&mut self) {
        self.outstanding.clear();
        self.last_completion = None;
    }

    /// States of the device as it is now.
    fn states(&mut self) -> &mut States {
        if self.outstanding.is_empty() { &mut self.idle } else { &mut self.busy }
    }

    /// Class of the number outstanding now.
    fn length(&self) -> usize {
        class_of(self.outstanding.len() as u64 + 1)
    }

    /// The device stayed busy, or idle, until then.
    fn pass(&mut self, until: Instant) {
        let from = std::mem::replace(&mut self.now, until);
        if let Some(last) = self.last_completion {
            self.states().pass((from - last).as_ns(), (until - last).as_ns());
            let length = self.length();
            self.lengths.at_large_ns[length] += (until - from).as_ns();
        }
    }

    /// Returns the mode that keeps what arrivals depended on: [`Mode::Open`] if they are independent of the device.
    pub fn mode(&self) -> Mode {
        if self.are_independent() { Mode::Open } else { Mode::Follow { within: self.soon() } }
    }

    /// Returns true if arrivals meet the device in each state as often as that is there, but for chance.
    fn are_independent(&self) -> bool {
        is_met_as_it_is(&[&self.busy, &self.idle]) && is_met_as_it_is(&[&self.lengths])
    }

    /// Returns the longest time from a completion to the arrival of a request that waited for it; `None`
    /// if arrivals follow completions no more than by chance.
    fn soon(&self) -> Option<Duration> {
        let States { arrivals, at_large_ns } = &self.busy;
        let (all, all_ns) = (arrivals.iter().sum::<u64>(), at_large_ns.iter().sum::<u64>());
        if all == 0 || all_ns == 0 {
            return None;
        }
        let (mut best, mut soon) = (TELLING, None);
        let (mut met, mut met_ns) = (0, 0);
        for class in 0..CLASSES - 1 {
            met += arrivals[class];
            met_ns += at_large_ns[class];
            let ahead = met as f64 / all as f64 - met_ns as f64 / all_ns as f64;
            if ahead > best {
                best = ahead;
                soon = Some(Duration::from_ns(NEXT[class] - 1));
            }
        }
        soon
    }
}

/// Returns true if arrivals meet each of the states as often as it is there, but for chance; false if there are none.
fn is_met_as_it_is(states: &[&States]) -> bool {
    let each =
        || states.iter().flat_map(|one| one.arrivals.iter().zip(&one.at_large_ns)).map(|(of, ns)| (*of, *ns));
    let (all, all_ns) = each().fold((0, 0), |(all, all_ns), (of, ns)| (all + of, all_ns + ns));
    if all == 0 || all_ns == 0 {
        return false;
    }
    let bound = FAINT.min(BY_CHANCE / (all as f64).sqrt());
    let (mut met, mut met_ns) = (0, 0);
    each().all(|(of, ns)| {
        met += of;
        met_ns += ns;
        (met as f64 / all as f64 - met_ns as f64 / all_ns as f64).abs() <= bound
    })
}

impl States {
    /// The age of the last completion grew from one to the other.
    fn pass(&mut self, mut age_ns: u64, end_ns: u64) {
        let mut class = class_of(age_ns);
        while age_ns < end_ns {
            let next_ns = NEXT[class].clamp(age_ns + 1, end_ns);
            self.at_large_ns[class] += next_ns - age_ns;
            age_ns = next_ns;
            class = if class < DENSE { class_of(age_ns) } else { class + 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Seed, Stream};

    use super::*;

    /// A device that serves one at a time in 100 us, of `clients` that think for 20 to 30 us after each completion.
    fn closed(clients: usize) -> Following {
        let mut stream = Seed(1).stream("think");
        let think = |stream: &mut Stream| Duration::from_us(20 + stream.below(10));
        let mut arrivals: Vec<Instant> = (0..clients).map(|_| Instant::ZERO + think(&mut stream)).collect();
        let (mut following, mut free) = (Following::default(), Instant::ZERO);
        for _ in 0..5_000 {
            arrivals.sort_unstable();
            let arrival = arrivals[0];
            free = free.max(arrival) + Duration::from_us(100);
            following.record(arrival, free);
            arrivals[0] = free + think(&mut stream);
        }
        following
    }

    #[test]
    fn each_nanosecond_counts_for_the_class_of_its_age() {
        for (from, end) in [(0, 1), (0, 300), (1, 2), (3, 9), (5, 5), (7, 1_000), (1_023, 4_097)] {
            let (mut states, mut expected) = (States::default(), States::default());
            states.pass(from, end);
            (from..end).for_each(|age_ns| expected.at_large_ns[class_of(age_ns)] += 1);
            assert_eq!(states.at_large_ns, expected.at_large_ns, "{from} to {end}");
        }
        let mut states = States::default();
        states.pass(0, u64::MAX);
        assert_eq!(states.at_large_ns.iter().sum::<u64>(), u64::MAX);
    }

    #[test]
    fn time_within_which_clients_follow_is_found() {
        let Mode::Follow { within: Some(soon) } = closed(3).mode() else { panic!("it is closed") };
        assert!((Duration::from_us(29)..Duration::from_us(38)).contains(&soon), "{soon}");
        assert_eq!(closed(1).mode(), Mode::Follow { within: None }, "the device is idle before each");
    }

    /// A device that serves one at a time in 100 us, with so many arrivals after gaps that are drawn.
    fn open(requests: u32, mut gap: impl FnMut(&mut Stream) -> Duration) -> Following {
        let mut stream = Seed(2).stream("arrivals");
        let (mut following, mut now, mut free) = (Following::default(), Instant::ZERO, Instant::ZERO);
        for _ in 0..requests {
            now += gap(&mut stream);
            free = free.max(now) + Duration::from_us(100);
            following.record(now, free);
        }
        following
    }

    #[test]
    fn poisson_arrivals_follow_nothing() {
        for mean_us in [110, 140, 300, 3_000] {
            let following = open(20_000, |stream| stream.exponential(Duration::from_us(mean_us)));
            assert_eq!(following.mode(), Mode::Open, "{mean_us} us apart");
        }
        assert_eq!(Following::default().mode(), Mode::Follow { within: None });
    }

    #[test]
    fn clients_that_think_at_random_beside_a_busy_device_follow_it() {
        let mut stream = Seed(5).stream("think");
        let mut ready: BinaryHeap<Reverse<Instant>> = (0..32).map(|_| Reverse(Instant::ZERO)).collect();
        let (mut following, mut free) = (Following::default(), Instant::ZERO);
        for _ in 0..20_000 {
            let Reverse(arrival) = ready.pop().unwrap();
            free = free.max(arrival) + stream.exponential(Duration::from_ms(10));
            following.record(arrival, free);
            ready.push(Reverse(free + stream.exponential(Duration::from_ms(40))));
        }
        assert_ne!(following.mode(), Mode::Open);
    }

    #[test]
    fn requests_that_are_missing_between_parts_tell_nothing() {
        let parts = |is_known: bool| {
            let mut stream = Seed(4).stream("arrivals");
            let (mut following, mut now, mut free) = (Following::default(), Instant::ZERO, Instant::ZERO);
            for index in 0..20_000 {
                if index % 5_000 == 0 {
                    now += Duration::from_s(60);
                    if is_known {
                        following.interrupt();
                    }
                }
                now += stream.exponential(Duration::from_us(140));
                free = free.max(now) + Duration::from_us(100);
                following.record(now, free);
            }
            following.mode()
        };
        assert_eq!(parts(true), Mode::Open);
        assert_eq!(parts(false), Mode::Follow { within: None }, "the device seems idle for minutes");
    }

    #[test]
    fn bursts_do_not_show_that_they_follow_nothing() {
        let mut left = 0;
        let bursts = open(20_000, |stream| {
            left = if left == 0 { 7 } else { left - 1 };
            stream.exponential(Duration::from_us(if left == 7 { 900 } else { 10 }))
        });
        assert_eq!(bursts.mode(), Mode::Follow { within: None });
    }

    #[test]
    fn client_that_thinks_for_random_times_follows_the_device() {
        let mut stream = Seed(3).stream("think");
        let (mut following, mut now) = (Following::default(), Instant::ZERO);
        for _ in 0..20_000 {
            now += stream.exponential(Duration::from_us(1_500));
            following.record(now, now + Duration::from_us(100));
            now += Duration::from_us(100);
        }
        assert_eq!(following.mode(), Mode::Follow { within: None });
    }
}
