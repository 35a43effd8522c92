//! Rates that a trace returns to, and how much went beyond them before.
//!
//! # Method
//! Completions are cut into windows of as many requests, at several scales. A limit shows as a rate that many windows
//! share to one percent. How much went before: the work done beyond `rate * time`, as it stands when windows of that
//! rate begin (reflected at zero, where the bucket is full).

use super::traffic::{Run, Traffic, quantile};

/// Requests of a window, scale by scale.
const SCALES: [usize; 5] = [64, 256, 1_024, 4_096, 16_384];

/// Windows that share a rate, at least.
const WINDOWS_LEAST: usize = 4;

/// Largest relative difference between rates of windows that count as equal.
const ALIKE: f64 = 0.01;

/// Rates that are looked at, of each scale.
const PEAKS: usize = 3;

/// A rate that many windows share.
#[derive(Debug)]
pub(super) struct Ceiling {
    /// Cost in a nanosecond.
    pub(super) rate: f64,
    /// The windows, by run: places in order of completion, begin and end.
    pub(super) windows: Vec<Vec<(usize, usize)>>,
}

/// Rates that a trace returns to, of larger windows first, none like another.
pub(super) fn ceilings(traffic: &Traffic) -> Vec<Ceiling> {
    let mut found: Vec<Ceiling> = Vec::new();
    for scale in SCALES.into_iter().rev() {
        let mut windows = windows(traffic, scale);
        windows.sort_by(|one, other| one.rate.total_cmp(&other.rate));
        for _ in 0..PEAKS {
            let Some((from, to)) = densest(&windows) else { break };
            let ceiling = Ceiling::of(traffic, windows.drain(from..to));
            let is_new = |other: &Ceiling| (other.rate / ceiling.rate - 1.0).abs() > ALIKE / 2.0;
            if found.iter().all(is_new) {
                found.push(ceiling);
            }
        }
    }
    found
}

/// Completions that follow each other.
#[derive(Debug, Clone, Copy)]
struct Window {
    rate: f64,
    run: usize,
    from: usize,
    to: usize,
}

/// The windows of so many requests; what completed in no time has no rate.
fn windows(traffic: &Traffic, scale: usize) -> Vec<Window> {
    let mut windows = Vec::new();
    for (number, run) in traffic.runs.iter().enumerate() {
        for from in (1..run.completed.len()).step_by(scale) {
            let to = from + scale;
            if to > run.completed.len() {
                break;
            }
            let (work, time) = run.work(from, to);
            if work > 0.0 && time > 0.0 {
                windows.push(Window { rate: work / time, run: number, from, to });
            }
        }
    }
    windows
}

impl Run {
    /// The cost of completions, and the time from the one before them to the last.
    fn work(&self, from: usize, to: usize) -> (f64, f64) {
        let of = |place: usize| &self.requests[self.completed[place] as usize];
        let work = (from..to).map(|place| of(place).cost).sum();
        (work, of(to - 1).completion - of(from - 1).completion)
    }
}

/// The most windows whose rates are alike, of windows by rate.
fn densest(windows: &[Window]) -> Option<(usize, usize)> {
    let mut best = (0, 0);
    let mut from = 0;
    for to in 1..=windows.len() {
        while windows[to - 1].rate > windows[from].rate * (1.0 + 2.0 * ALIKE) {
            from += 1;
        }
        if to - from > best.1 - best.0 {
            best = (from, to);
        }
    }
    (best.1 - best.0 >= WINDOWS_LEAST).then_some(best)
}

impl Ceiling {
    fn of(traffic: &Traffic, alike: impl Iterator<Item = Window>) -> Self {
        let mut windows = vec![Vec::new(); traffic.runs.len()];
        let (mut work, mut time) = (0.0, 0.0);
        for Window { run, from, to, .. } in alike {
            let (more, longer) = traffic.runs[run].work(from, to);
            (work, time) = (work + more, time + longer);
            windows[run].push((from, to));
        }
        windows.iter_mut().for_each(|windows| windows.sort_unstable());
        Self { rate: work / time, windows }
    }

    /// Returns the cost that went at once before the rate was held, as far as it can be determined; zero
    /// if it cannot.
    ///
    /// The bucket is empty when windows of the rate follow. The used cost is then the burst, if the
    /// bucket had been full before.
    pub(super) fn burst(&self, traffic: &Traffic) -> f64 {
        // What is used at the end of an episode is the burst, which the first pass has to guess.
        let first = self.used_at_episodes(traffic, None);
        let guess = largest(&first);
        largest(&self.used_at_episodes(traffic, Some(guess)))
    }

    /// Returns the used cost at the start of each episode of the rate, and true if the bucket had been
    /// full since the episode before.
    fn used_at_episodes(&self, traffic: &Traffic, burst: Option<f64>) -> Vec<(f64, bool)> {
        // Where within the first window of an episode what is used is looked at: clumps of completions lie beyond, stalls below.
        const SHARE: f64 = 0.5;
        let (mut used, mut was_full) = (0.0_f64, true);
        let mut episodes = Vec::new();
        let mut first = Vec::new();
        for (run, windows) in traffic.runs.iter().zip(&self.windows) {
            for (passed, cost) in &run.before {
                used += cost - self.rate * passed;
                was_full |= used <= 0.0;
                used = used.max(0.0);
            }
            let mut windows = windows.iter().copied().peekable();
            let (mut last, mut inside) = (0.0, false);
            for (place, index) in run.completed.iter().enumerate() {
                let request = &run.requests[*index as usize];
                used -= self.rate * (request.completion - last);
                last = request.completion;
                was_full |= used <= 0.0;
                used = used.max(0.0) + request.cost;
                let Some(&(from, to)) = windows.peek() else { continue };
                if (from..to).contains(&place) && !inside {
                    first.push(used);
                }
                if place + 1 == to {
                    windows.next();
                    if !inside {
                        episodes.push((quantile(&mut first, SHARE), was_full));
                        first.clear();
                    }
                    inside = windows.peek().is_some_and(|(from, _)| *from == to);
                    // The rate was held: the bucket is empty.
                    used = burst.unwrap_or_else(|| episodes.last().map_or(0.0, |episode| episode.0));
                    was_full = false;
                }
            }
        }
        episodes
    }
}

/// The most that was used, of episodes before which the bucket had been full if there are any.
fn largest(episodes: &[(f64, bool)]) -> f64 {
    // One in ten may have met a clump of completions.
    let upper = |mut used: Vec<f64>| if used.is_empty() { 0.0 } else { quantile(&mut used, 0.9) };
    let after_full: Vec<f64> =
        episodes.iter().filter(|(_, was_full)| *was_full).map(|(used, _)| *used).collect();
    if after_full.is_empty() {
        upper(episodes.iter().map(|(used, _)| *used).collect())
    } else {
        upper(after_full)
    }
}
