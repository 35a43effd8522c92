//! The choice of a station's structure: its number of servers, and the features of its times, by how well it predicts
//! the part of the trace that it was not fitted to.
//!
//! # Method
//! The requests are cut into pieces, and these parted into a calm and a busy half. Each candidate is fitted to one half and
//! judged by the other, and the other way round, so that what counts is whether it holds under another load:
//! - *Likelihood*: how probable each response is, given all that was measured before it.
//! - *Demerit*: driven by the arrivals alone, its queue its own, how far the distribution of its responses is from the
//!   measured one, up to the 99th percentile. They arrive after what they had waited for, if they had ([`Following`]):
//!   open, a load that had waited for the device would drown any that is slower by a percent.
//!
//! Candidates in which requests overtake each other are left out if they did not on the device. Of the others whose
//! demerit is harmless ([`HARMLESS_OPEN`], [`HARMLESS_FOLLOWED`]), or [`TOLERATED`] times the best, the likeliest is
//! taken: a device that was understood is likely, and one that runs away on its own was not. Features that come later must
//! not cost demerit, but for a clear gain of those that stand for a write buffer, and are for devices of which it is harmless.

use std::ops::Range;
use std::sync::Arc;

use seeklab_core::{
    ByteSize, Capabilities, Completion, Duration, Instant, Operation, Request, Seed, TraceRecord,
};
use seeklab_devices::region::Region;
use seeklab_devices::station::parts::{FEATURES, Line, Parts, StationRequest, Tree};
use seeklab_devices::station::{Feature, Order, Station};
use seeklab_workloads::replay::{Following, Mode};

use super::grow::{Service, grow};
use super::observe::Observed;
use super::sample::RecordedRequest;
use super::survival::{Survival, resolution};
use crate::driven::Driven;
use crate::error::Error;
use crate::stop::StopCheck;

/// A kind of station.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Structure {
    /// Requests that are served at a time.
    pub(super) servers: usize,
    /// The order of what waits, if the requests show one.
    pub(super) line: Option<Line>,
    /// The features that times may depend on.
    pub(super) mask: [bool; FEATURES],
}

impl Structure {
    /// Returns true if it has the servers and the order of another, and all its features.
    pub(super) fn extends(&self, other: &Self) -> bool {
        let order = |structure: &Self| structure.line.map(|line| (line.order, line.first));
        self.servers == other.servers
            && order(self) == order(other)
            && self.mask.iter().zip(other.mask).all(|(own, others)| *own || !others)
    }
}

/// Servers that are tried.
const SERVERS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, usize::MAX];

/// Features that every candidate may use: those of the request itself, and the place of the request
/// before.
const FIRST: [Feature; 7] = [
    Feature::Op,
    Feature::Fua,
    Feature::Length,
    Feature::Waited,
    Feature::Distance,
    Feature::Stream,
    Feature::Place,
];

/// Further features, each group tried in turn.
const MORE: [&[Feature]; 4] = [
    &[Feature::Queue],
    &[Feature::Idle],
    &[Feature::Before],
    // Two sides of a write buffer that has to be emptied.
    &[Feature::WritesInRow, Feature::WritesSinceIdle, Feature::Owed],
];

/// Gain of the mean logarithm of the probability by which a device clearly owes writes. What it owes outlasts many requests, and
/// arrivals that are taken to follow the device distort the queues that this makes, so the demerit then excludes only what runs
/// away.
const CLEAR: f64 = 0.02;

/// Difference of the mean logarithm of the probability up to which an order by times and one by distances are equals, so that the demerit
/// decides. The first compares distances by classes of a factor of two, and the other to the block. A drive that orders its commands by
/// position makes the first likelier by 0.15 to 0.45, or less likely by 0.02 where its buffer takes writes; disks behind a host that does
/// make it from 0.01 likelier to 0.14 less likely, and traces in another order less likely by 0.3 and more (docs/notes/2026-11-station.md).
const CLOSE: f64 = 0.05;

/// Factor by which a demerit may exceed the best one.
const TOLERATED: f64 = 3.0;

/// Demerit up to which no device counts as having run away: of arrivals that follow no completion, which collect queues by chance,
/// and of others. Replays keep the clients of a device: of disks behind SPTF, the one server that holds at every number outstanding has
/// up to 0.07, and a server for each request, which is right at that number alone, 0.01.
const HARMLESS_OPEN: f64 = 0.25;
const HARMLESS_FOLLOWED: f64 = 0.1;

/// Share of overtaking requests up to which a device keeps their order, and from which on a prediction does not.
const IN_ORDER: f64 = 0.001;
const DISORDER: f64 = 0.05;

/// Pieces into which requests are cut, if they have [`PIECE_LEAST`] each.
const PIECES: usize = 16;

/// Requests that make a piece.
const PIECE_LEAST: usize = 256;

/// Share of a response time by which a prediction of it may miss.
const NEAR: f64 = 0.05;

/// Result of trying a structure.
#[derive(Debug, Clone, Copy)]
struct Trial {
    structure: Structure,
    /// Mean logarithm of the probability that a response lies within [`NEAR`] of what was measured.
    likelihood: f64,
    /// As a share of the mean.
    demerit: f64,
    /// Shares of the requests that overtook an earlier one, as measured and as predicted.
    overtaking: [f64; 2],
}

impl Trial {
    /// Returns true if requests overtake each other in the prediction and not on the device: servers of its own would not have kept
    /// their order.
    fn is_disorderly(&self) -> bool {
        let [measured, predicted] = self.overtaking;
        measured <= IN_ORDER && predicted > DISORDER
    }
}

/// The structure that predicts best, with no feature that is not allowed.
pub(super) fn choose(
    runs: &[Vec<RecordedRequest>],
    capacity_blocks: u64,
    allowed: [bool; FEATURES],
    stop: &StopCheck,
) -> Result<Structure, Error> {
    let only = |features: &[Feature]| {
        Feature::ALL.map(|feature| allowed[feature as usize] && features.contains(&feature))
    };
    let queue_max = queue_max(runs);
    if queue_max < 2 {
        // The trace does not show requests that share the device: it has one at a time.
        return Ok(Structure { servers: 1, line: None, mask: allowed });
    }
    let pieces = pieces(runs);
    let tried = SERVERS.into_iter().filter(|servers| *servers <= queue_max || *servers == usize::MAX);
    let observed: Result<Vec<(usize, Observed)>, Error> = tried
        .map(|servers| Ok((servers, Observed::of(runs, servers, None, capacity_blocks, stop)?)))
        .collect();
    let mut observed = observed?;
    let mode = arrivals(runs);
    let follows = matches!(mode, Mode::Follow { within: Some(_) });
    let harmless = if follows { HARMLESS_FOLLOWED } else { HARMLESS_OPEN };
    let judge = |mask: [bool; FEATURES], (servers, observed): &(usize, Observed)| {
        let structure = Structure { servers: *servers, line: Some(observed.line), mask };
        trial(runs, &pieces, observed, structure, mode, capacity_blocks, stop)
    };
    let with_queue = [&FIRST[..], MORE[0]].concat();
    let masks = [only(&FIRST), only(&with_queue)];
    let trials: Result<Vec<Trial>, Error> =
        masks.iter().flat_map(|mask| observed.iter().map(|observed| judge(*mask, observed))).collect();
    let mut trials = trials?;
    let by_distance = |trial: &Trial| {
        let Structure { servers, line, .. } = trial.structure;
        servers == 1 && line.is_some_and(|line| line.order == Order::Nearest)
    };
    let likelier = |one: &&Trial, other: &&Trial| one.likelihood.total_cmp(&other.likelihood);
    if let Some(likeliest) = trials.iter().filter(|trial| by_distance(trial)).max_by(likelier)
        && let Some(line) = likeliest.structure.line
    {
        // A drive that orders by position takes near ones more often, too.
        let line = Line { order: Order::Sptf, band_blocks: 1, ..line };
        let by_time = (1, Observed::of(runs, 1, Some(line), capacity_blocks, stop)?);
        let trial = judge(masks[1], &by_time)?;
        let gain = trial.likelihood - likeliest.likelihood;
        let is_clear = gain > CLOSE && trial.demerit <= HARMLESS_OPEN;
        let is_better = gain > -CLOSE && trial.demerit <= (likeliest.demerit / 2.0).min(harmless);
        if is_clear || is_better {
            // A server for each request is right at the recorded number alone.
            trials.retain(|trial| !is_clear && !by_distance(trial));
            trials.push(trial);
            observed.push(by_time);
        }
    }
    let orderly: Vec<Trial> = trials.iter().filter(|trial| !trial.is_disorderly()).copied().collect();
    let trials = if orderly.is_empty() { trials } else { orderly };
    let least = trials.iter().map(|trial| trial.demerit).fold(f64::INFINITY, f64::min);
    let tolerated = trials.iter().filter(|trial| trial.demerit <= (TOLERATED * least).max(harmless));
    let mut best = *tolerated.max_by(likelier).unwrap_or(&trials[0]);
    let is_best = |(servers, observed): &&(usize, Observed)| {
        *servers == best.structure.servers && Some(observed.line) == best.structure.line
    };
    let chosen = observed.iter().find(is_best).expect("it was tried");
    for more in &MORE[1..] {
        let mut mask = best.structure.mask;
        more.iter().for_each(|feature| mask[*feature as usize] = allowed[*feature as usize]);
        let next = judge(mask, chosen)?;
        let gain = next.likelihood - best.likelihood;
        let is_debt = more.contains(&Feature::WritesSinceIdle);
        let factor = if is_debt && gain > CLEAR { TOLERATED } else { 1.0 };
        if gain > 0.0 && next.demerit <= (factor * best.demerit).min(harmless) {
            best = next;
        }
    }
    Ok(best.structure)
}

/// Returns the mode that keeps what the arrivals depended on.
fn arrivals(runs: &[Vec<RecordedRequest>]) -> Mode {
    let mut following = Following::default();
    for run in runs {
        following.interrupt();
        run.iter().for_each(|seen| following.record(seen.arrival, seen.completion));
    }
    following.mode()
}

/// Most requests that were outstanding.
fn queue_max(runs: &[Vec<RecordedRequest>]) -> usize {
    let mut most = 0;
    for run in runs {
        let mut ends: Vec<Instant> = run.iter().map(|seen| seen.completion).collect();
        ends.sort_unstable();
        let mut ended = 0;
        for (arrived, seen) in run.iter().enumerate() {
            while ended < arrived && ends[ended] <= seen.arrival {
                ended += 1;
            }
            most = most.max(arrived - ended + 1);
        }
    }
    most
}

/// Requests that follow each other.
#[derive(Debug, Clone)]
struct Piece {
    run: usize,
    /// Its requests within the run.
    within: Range<usize>,
    /// The number of its first request in all runs.
    first: usize,
    /// Mean number outstanding.
    load: f64,
    /// True if the piece belongs to the busier half.
    is_busy: bool,
}

/// Cuts runs into pieces, and marks those of the busier half.
fn pieces(runs: &[Vec<RecordedRequest>]) -> Vec<Piece> {
    let total: usize = runs.iter().map(Vec::len).sum();
    let length = total.div_ceil(PIECES).max(PIECE_LEAST);
    let mut pieces = Vec::new();
    let mut before = 0;
    for (number, run) in runs.iter().enumerate() {
        for from in (0..run.len()).step_by(length) {
            let within = from..(from + length).min(run.len());
            let seen = &run[within.clone()];
            let span = seen[seen.len() - 1].arrival - seen[0].arrival;
            let spent: f64 = seen.iter().map(|seen| (seen.completion - seen.arrival).as_s()).sum();
            let load = spent / span.as_s().max(1e-9);
            pieces.push(Piece { run: number, first: before + from, within, load, is_busy: false });
        }
        before += run.len();
    }
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by(|one, other| pieces[*one].load.total_cmp(&pieces[*other].load));
    for place in &order[order.len() / 2..] {
        pieces[*place].is_busy = true;
    }
    pieces
}

impl Observed {
    fn services_of(&self, piece: &Piece) -> &[(u32, Service)] {
        let place = |number: usize| self.services.partition_point(|(index, _)| (*index as usize) < number);
        &self.services[place(piece.first)..place(piece.first + piece.within.len())]
    }
}

/// Tries a structure on requests that it was not fitted to.
fn trial(
    runs: &[Vec<RecordedRequest>],
    pieces: &[Piece],
    observed: &Observed,
    structure: Structure,
    mode: Mode,
    capacity_blocks: u64,
    stop: &StopCheck,
) -> Result<Trial, Error> {
    let (mut sum, mut count) = (observed.picks.likelihood(), 0_usize);
    let mut answers = Answers::default();
    for fitted_to_busy in [false, true] {
        let (fitted, others): (Vec<&Piece>, Vec<&Piece>) =
            pieces.iter().partition(|piece| piece.is_busy == fitted_to_busy);
        let services = fitted.iter().flat_map(|piece| observed.services_of(piece));
        let services: Vec<(u32, Service)> = services.copied().collect();
        if services.is_empty() {
            continue;
        }
        let tree = grow(&services, structure.mask, stop)?;
        let finer = resolution(&services);
        let parts = Arc::new(Parts {
            capabilities: Capabilities {
                capacity_blocks,
                block_size: ByteSize::from_bytes(512),
                queue_depth: u32::MAX,
                volatile_write_cache: false,
                rotational: false,
            },
            servers: structure.servers,
            line: observed.line,
            picks: observed.picks.picks(),
            scale: observed.scale,
            tree: Tree {
                nodes: tree.nodes.clone(),
                leaves: tree.leaves.iter().map(|times| times.counts(finer).times()).collect(),
            },
            region: Region::default(),
        });
        for piece in others {
            let run = &runs[piece.run];
            for (number, service) in observed.services_of(piece) {
                let seen = &run[piece.within.start + (*number as usize - piece.first)];
                sum += likelihood(&tree, service, seen.completion - seen.arrival);
                count += usize::from(service.is_served());
            }
            predict(&parts, run, piece, mode, &mut answers, stop)?;
        }
    }
    let overtaking = answers.overtaking.map(|requests| requests as f64 / answers.driven.max(1) as f64);
    let demerit = answers.distance_to_p99();
    Ok(Trial { structure, likelihood: sum / count.max(1) as f64, demerit, overtaking })
}

/// Logarithm of the probability that the response is near the measured one, or that a request which was passed over lasts longer.
fn likelihood(tree: &Tree<Survival>, service: &Service, response: Duration) -> f64 {
    // Clocks of traces often count in microseconds.
    const CLOCK_NS: u64 = 500;
    // A time that no leaf contains is still possible.
    const UNSEEN: f64 = 0.01;
    let times = &tree.leaves[tree.leaf(&service.row)];
    let share = |count: f64| ((count + UNSEEN) / (times.total() + 1.0)).ln();
    if service.is_served() {
        let near = Duration::from_ns((response.as_ns() as f64 * NEAR) as u64 + CLOCK_NS);
        share(times.near(service.time, near))
    } else {
        f64::from(service.passed_over) * share(times.total() - times.until(service.time))
    }
}

/// Drives a device by the arrivals of a piece.
fn predict(
    parts: &Arc<Parts>,
    run: &[RecordedRequest],
    piece: &Piece,
    mode: Mode,
    answers: &mut Answers,
    stop: &StopCheck,
) -> Result<(), Error> {
    // How far back a request may be that is outstanding when the piece begins.
    const BACK: usize = 4_096;
    let Range { start: from, end: to } = piece.within;
    // What the piece before left outstanding is not there.
    let busy_until =
        run[..from].iter().rev().take(BACK).map(|seen| seen.completion).max().unwrap_or_default();
    // A transfer of nothing: no device takes it.
    let takes = |seen: &&RecordedRequest| {
        let StationRequest { op, lbn, blocks, fua } = seen.asked;
        parts.capabilities.check(&Request { fua, ..Request::new(0, op, lbn, blocks) }).is_ok()
    };
    let kept: Vec<&RecordedRequest> = run[from..to].iter().filter(takes).collect();
    let counts = |seen: &RecordedRequest| seen.counts && seen.arrival >= busy_until;
    let Answers { measured, answered, overtaking, driven: requests } = answers;
    let mut ends = vec![Instant::ZERO; kept.len()];
    let mut observe = |completion: &Completion| {
        let number = completion.request.id.0 as usize;
        ends[number] = completion.completed;
        if counts(kept[number]) {
            answered.push(completion.response_time());
        }
    };
    let mut driven = Driven::new(Station::of(Arc::clone(parts), Seed(from as u64), "choice"), mode);
    let mut record = TraceRecord::new(Instant::ZERO, Operation::Read, 0, 0);
    for (step, seen) in kept.iter().enumerate() {
        stop.check_at(step)?;
        (record.arrival, record.completion) = (seen.arrival, Some(seen.completion));
        StationRequest { op: record.op, lbn: record.lbn, blocks: record.blocks, fua: record.fua } =
            seen.asked;
        driven.take(&record, &mut observe).expect("the device takes requests that were checked");
        if counts(seen) {
            measured.push(seen.completion - seen.arrival);
        }
    }
    driven.finish(observe);
    *requests += kept.len();
    overtaking[0] += overtaken(kept.iter().map(|seen| seen.completion));
    overtaking[1] += overtaken(ends);
    Ok(())
}

/// Returns how many of these completions, in order of arrival, are before one of an earlier request.
fn overtaken(ends: impl IntoIterator<Item = Instant>) -> usize {
    let mut latest = Instant::ZERO;
    let overtakes = |end: &Instant| {
        let is_before = *end < latest;
        latest = latest.max(*end);
        is_before
    };
    ends.into_iter().filter(overtakes).count()
}

/// Response times that were measured, and those that a device answers.
#[derive(Debug, Default)]
struct Answers {
    measured: Vec<Duration>,
    answered: Vec<Duration>,
    /// Requests that overtook an earlier one, as measured and as answered, of those that were driven.
    overtaking: [usize; 2],
    driven: usize,
}

impl Answers {
    /// Root mean square distance of the quantiles up to the 99th percentile, by the mean of the measured ones.
    fn distance_to_p99(mut self) -> f64 {
        if self.measured.is_empty() || self.measured.len() != self.answered.len() {
            return f64::INFINITY;
        }
        self.measured.sort_unstable();
        self.answered.sort_unstable();
        let counted = (self.measured.len() * 99).div_ceil(100);
        let pairs = self.measured.iter().zip(&self.answered).take(counted);
        let squares: f64 =
            pairs.map(|(one, other)| (one.as_ns() as f64 - other.as_ns() as f64).powi(2)).sum();
        let measured = self.measured[..counted].iter();
        let mean = measured.map(|time| time.as_ns() as f64).sum::<f64>() / counted as f64;
        (squares / counted as f64).sqrt() / mean
    }
}

#[cfg(test)]
mod tests {
    use seeklab_devices::station::{First, Order};

    use super::*;

    #[test]
    fn structure_is_extended_by_one_with_its_servers_its_order_and_more_features() {
        let line = |order, first| Some(Line { order, band_blocks: 1, first });
        let mask = |features: &[Feature]| Feature::ALL.map(|feature| features.contains(&feature));
        let structure =
            |servers, line, features: &[Feature]| Structure { servers, line, mask: mask(features) };
        let judged = structure(1, line(Order::Fcfs, First::None), &[Feature::Op, Feature::Owed]);
        let more = [Feature::Op, Feature::Owed, Feature::Queue];
        assert!(
            judged.extends(&judged) && structure(1, line(Order::Fcfs, First::None), &more).extends(&judged)
        );
        for other in [
            structure(4, line(Order::Fcfs, First::None), &more),
            structure(1, line(Order::Nearest, First::None), &more),
            structure(1, line(Order::Fcfs, First::Reads), &more),
            structure(1, None, &more),
            structure(1, line(Order::Fcfs, First::None), &[Feature::Op, Feature::Queue]),
        ] {
            assert!(!other.extends(&judged), "{other:?}");
        }
    }
}
