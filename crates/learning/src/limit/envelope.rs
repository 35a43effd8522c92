//! The arrival curve of completed work, and lines on it that a token bucket would leave.
//!
//! # Method
//! `E(t)` is the most work that completed in any window of length `t`. A bucket bounds it by `burst + rate t`, and `E` lies
//! on that line from the time that the burst lasts to the longest time in which no token was lost, whatever the
//! load did in between. The work of a device that is merely busy wanders, so that what goes beyond any rate grows with the
//! square root of the time. Lines over a factor of [`REACH`] in `t` are candidates for limits.
//!
//! # Scope and limits
//! Windows lie within the runs of the sample, or go across the gaps between them, of which [bins](super::History) are known:
//! such a window counts from [`BINS_LEAST`] bins on.
//!
//! # References
//! J.-Y. Le Boudec, P. Thiran, Network Calculus, Springer LNCS 2050, 2001, sections 1.2.1 and 1.2.4: arrival curves, minimum
//! arrival curve.

use super::traffic::{Traffic, Unit};
use crate::error::Error;
use crate::stop::StopCheck;

/// Ratio of lengths that follow each other.
const STEP: f64 = 1.189_207_115_002_721;
/// Lengths at most.
const LENGTHS_MAX: usize = 128;
/// Work of the shortest windows, in requests of mean cost.
const WORK_LEAST: f64 = 16.0;
/// Ratio of the ends of a line, at least.
const REACH: f64 = 4.0;
/// Largest distance of the curve from a line, by its intercept.
const BENT: f64 = 0.1;
/// Completions of a window of mean rate, of which the first of each so many parts begins a window.
const LEFT_OUT: f64 = 2_048.0;
/// Bins of a window across a gap, at least.
const BINS_LEAST: f64 = 64.0;
/// Candidates at most.
const LINES_MAX: usize = 12;
/// Relative differences of rate and burst of lines that count as equal.
const ALIKE: [f64; 2] = [0.01, 0.1];

/// A line on the curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    /// Cost in a nanosecond.
    pub(super) rate: f64,
    /// Cost at time zero.
    pub(super) burst: f64,
    /// Largest distance of the curve from the line, by the burst.
    bent: f64,
}

/// Completed work over time, in nanoseconds from the first completion.
struct Steps {
    times: Vec<f64>,
    /// Work up to each time, of which the first is before all.
    work: Vec<f64>,
    /// Longest step of which only the sum is known.
    coarse: f64,
}

/// Lines on the curves of the traffic, the straightest first.
///
/// # Errors
/// If the fit was stopped.
pub(super) fn lines(traffic: &Traffic, unit: Unit, stop: &StopCheck) -> Result<Vec<Line>, Error> {
    let mut found = Vec::new();
    let cost_mean = traffic.costs_mean[unit as usize];
    let whole = Steps::of(traffic, unit, 0..traffic.runs.len());
    if traffic.runs.len() > 1 {
        let runs: Vec<Steps> =
            (0..traffic.runs.len()).map(|run| Steps::of(traffic, unit, run..run + 1)).collect();
        found.extend(straight(&curve(&runs, cost_mean, stop)?));
    }
    found.extend(straight(&curve(&[whole], cost_mean, stop)?));
    found.sort_by(|one, other| one.bent.total_cmp(&other.bent));
    let mut distinct: Vec<Line> = Vec::new();
    for line in found {
        if distinct.len() < LINES_MAX && distinct.iter().all(|other| !line.is_like(other)) {
            distinct.push(line);
        }
    }
    Ok(distinct)
}

impl Line {
    fn is_like(&self, other: &Self) -> bool {
        let near = |one: f64, other: f64, share: f64| (one / other - 1.0).abs() <= share;
        near(self.rate, other.rate, ALIKE[0]) && near(self.burst, other.burst, ALIKE[1])
    }
}

impl Steps {
    fn of(traffic: &Traffic, unit: Unit, runs: std::ops::Range<usize>) -> Self {
        let mut this = Self { times: Vec::new(), work: vec![0.0], coarse: 0.0 };
        let mut now = 0.0;
        for (place, run) in traffic.runs[runs].iter().enumerate() {
            let before = if place == 0 { &[][..] } else { &run.before };
            for (passed, costs) in before {
                now += passed;
                this.push(now, costs[unit as usize]);
                this.coarse = this.coarse.max(*passed);
            }
            let begin = now;
            for index in &run.completed {
                let request = &run.requests[*index as usize];
                now = begin + request.completion;
                this.push(now, request.costs[unit as usize]);
            }
        }
        this
    }

    fn push(&mut self, time: f64, cost: f64) {
        let before = *self.work.last().expect("there is a first");
        self.times.push(time);
        self.work.push(before + cost);
    }

    fn span(&self) -> f64 {
        self.times.first().zip(self.times.last()).map_or(0.0, |(first, last)| last - first)
    }

    /// The most work in a window of that length, both ends of which count.
    fn most_in(&self, length: f64) -> f64 {
        let Self { times, work, .. } = self;
        // Beginnings that are left out would add this share of a window at most.
        let stride = (times.len() as f64 * length / self.span() / LEFT_OUT) as usize;
        let (mut most, mut from, mut to) = (0.0_f64, 0, 0);
        loop {
            // A window that begins here or later and holds more ends behind this step, ...
            let end = first(to, work.len(), |end| work[end] - work[from] > most);
            if end == work.len() {
                return most;
            }
            // ... so none holds more that does not reach it.
            from = first(from, times.len(), |from| times[end - 1] <= times[from] + length);
            from = from.next_multiple_of(stride.max(1));
            if from >= times.len() {
                return most;
            }
            to = first(end.max(from), times.len(), |to| times[to] > times[from] + length);
            most = most.max(work[to] - work[from]);
        }
    }
}

/// The first place of `from..end` at which it holds, or `end`. Once it holds, it goes on to.
fn first(from: usize, end: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut step) = (from, 1);
    while low + step <= end && !holds(low + step - 1) {
        low += step;
        step *= 2;
    }
    let mut high = end.min(low + step - 1);
    while low < high {
        let middle = usize::midpoint(low, high);
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// The curve of separate pieces: lengths, and the most work in each.
fn curve(pieces: &[Steps], cost_mean: f64, stop: &StopCheck) -> Result<Vec<(f64, f64)>, Error> {
    let span = pieces.iter().map(Steps::span).fold(0.0, f64::max);
    let (work, time) = pieces.iter().fold((0.0, 0.0), |(work, time), piece| {
        (work + piece.work.last().copied().unwrap_or(0.0), time + piece.span())
    });
    if work <= 0.0 || time <= 0.0 {
        return Ok(Vec::new());
    }
    let coarse = pieces.iter().map(|piece| piece.coarse).fold(0.0, f64::max);
    // At the mean rate of the trace; windows of a burst hold more.
    let shortest = (WORK_LEAST * cost_mean * time / work / 16.0).max(BINS_LEAST * coarse);
    let lengths = std::iter::successors(Some(span), |length| Some(length / STEP));
    let lengths = lengths.take_while(|length| *length >= shortest).take(LENGTHS_MAX);
    let curve: Result<Vec<(f64, f64)>, Error> = lengths
        .map(|length| {
            stop.check()?;
            let within = pieces.iter().filter(|piece| piece.span() >= length);
            Ok((length, within.map(|piece| piece.most_in(length)).fold(0.0, f64::max)))
        })
        .collect();
    let mut curve = curve?;
    curve.reverse();
    Ok(curve)
}

/// Lines on parts of a curve whose lengths reach so far, and lines that touch it from above at two such lengths.
fn straight(curve: &[(f64, f64)]) -> Vec<Line> {
    let mut lines = touching(curve);
    for from in 0..curve.len() {
        let Some(to) = curve.iter().position(|(length, _)| *length >= REACH * curve[from].0) else { break };
        lines.extend(line(&curve[from..=to]));
    }
    lines
}

/// The line of least squares, if it is one with a burst.
fn line(points: &[(f64, f64)]) -> Option<Line> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (length, work) = (mean(|point| point.0), mean(|point| point.1));
    let (mut above, mut below) = (0.0, 0.0);
    for point in points {
        above += (point.0 - length) * (point.1 - work);
        below += (point.0 - length).powi(2);
    }
    let rate = above / below;
    let burst = work - rate * length;
    let off = points.iter().map(|point| (point.1 - burst - rate * point.0).abs()).fold(0.0, f64::max);
    let bent = off / burst;
    (rate > 0.0 && burst > 0.0 && bent <= BENT).then_some(Line { rate, burst, bent })
}

/// Edges of the upper hull of the curve that reach far, and that have a burst.
fn touching(curve: &[(f64, f64)]) -> Vec<Line> {
    let mut hull: Vec<(f64, f64)> = Vec::new();
    let rate = |one: (f64, f64), other: (f64, f64)| (other.1 - one.1) / (other.0 - one.0);
    for point in curve {
        while let [.., one, other] = hull[..]
            && rate(one, other) <= rate(other, *point)
        {
            hull.pop();
        }
        hull.push(*point);
    }
    let far = hull.windows(2).filter(|edge| edge[1].0 >= REACH * edge[0].0);
    let line = |edge: &[(f64, f64)]| {
        let rate = rate(edge[0], edge[1]);
        let burst = edge[0].1 - rate * edge[0].0;
        let within = curve.iter().filter(|point| (edge[0].0..=edge[1].0).contains(&point.0));
        let off = within.map(|point| burst + rate * point.0 - point.1).fold(0.0, f64::max);
        Line { rate, burst, bent: off / burst }
    };
    far.map(line).filter(|line| line.rate > 0.0 && line.burst > 0.0).collect()
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Instant, Seed};

    use super::super::traffic::{Charged, Run};
    use super::*;

    /// Requests of cost 1 that complete at these times, on arrival.
    fn traffic(times: &[f64]) -> Traffic {
        let requests: Vec<Charged> =
            (0..).zip(times).map(|(place, time)| Charged::read([*time; 2], [1.0; 2], place)).collect();
        let completed = (0..requests.len() as u32).collect();
        let run = Run { origin: Instant::ZERO, before: Vec::new(), requests, completed };
        Traffic { runs: vec![run], costs_mean: [1.0; 2], response_min: 0.0 }
    }

    #[test]
    fn bucket_that_is_emptied_between_slow_times_leaves_its_line() {
        // Slow for a while, then 500 at once and one in 1,000 ns, five times.
        let (mut now, mut times) = (0.0, Vec::new());
        for step in [1_300.0, 1_100.0, 1_700.0, 1_200.0, 2_000.0] {
            for (count, apart) in [(3_000, step), (500, 10.0), (5_000, 1_000.0)] {
                times.extend((0..count).map(|place| now + f64::from(place) * apart));
                now += f64::from(count) * apart;
            }
        }
        let lines = lines(&traffic(&times), Unit::Requests, &StopCheck::default()).unwrap();
        let near =
            |line: &Line| (line.rate / 1e-3 - 1.0).abs() < 0.01 && (line.burst / 500.0 - 1.0).abs() < 0.05;
        assert!(lines.iter().any(near), "{lines:?}");
    }

    #[test]
    fn edges_of_the_hull_are_lines_where_few_windows_meet_the_bound() {
        // Two points of 100 + t far apart, and a curve that sags between them.
        let curve: Vec<(f64, f64)> =
            [(1.0, 40.0), (3.0, 90.0), (10.0, 110.0), (20.0, 111.0), (50.0, 120.0), (90.0, 190.0)].into();
        let touching = touching(&curve);
        let [line] = &touching[..] else { panic!("{touching:?}") };
        assert!((line.rate - 1.0).abs() < 1e-9 && (line.burst - 100.0).abs() < 1e-9, "{line:?}");
        assert!((line.bent - 0.3).abs() < 1e-9, "{line:?}");
    }

    #[test]
    fn curve_is_that_of_every_window() {
        let mut stream = Seed(3).stream("times");
        for (count, cost) in [(300, 1), (300, 9), (20_000, 9)] {
            let mut steps = Steps { times: Vec::new(), work: vec![0.0], coarse: 0.0 };
            let mut now = 0.0;
            for place in 0..count {
                // Bursts, in some of which all is at one time.
                now += stream.below(if place % 100 < 20 { 3 } else { 50 }) as f64;
                steps.push(now, 0.1 + stream.below(cost) as f64);
            }
            let Steps { times, work, .. } = &steps;
            for length in [1.0, 10.0, 100.0, 1_000.0, 5_000.0] {
                let stride = (times.len() as f64 * length / steps.span() / LEFT_OUT) as usize;
                let within = |from: usize| {
                    let to = times.partition_point(|time| *time <= times[from] + length);
                    work[to] - work[from]
                };
                let most = (0..times.len()).step_by(stride.max(1)).map(within).fold(0.0, f64::max);
                assert_eq!(steps.most_in(length).to_bits(), most.to_bits(), "{count} {cost} {length}");
            }
        }
    }
}
