//! Reconstruction of a trace at a station with a given number of servers: the services, and the picks among
//! the waiting requests.

use std::collections::VecDeque;

use seeklab_core::{Duration, Instant, Operation};
use seeklab_devices::station::parts::{COMPARED, Line, PickCounts, Scale, State, StationRequest};
use seeklab_devices::station::{First, Order};

use super::grow::Service;
use super::sample::RecordedRequest;
use super::starts::{Event, Starts};
use crate::error::Error;
use crate::stop::StopCheck;

/// Of lines of twice as many every second pick is looked at, of three times as many every third ..., so that a burst of
/// thousands costs no more than its length times this.
const LOOKED_AT: u32 = 512;

/// Waiting requests that are looked at, in all lines that are tried; if there are more, fewer picks are looked at, evenly over
/// the trace. As many take about 0.1 s.
const LOOKED_AT_MAX: u64 = 1 << 27;

/// Requests that were passed over which are kept of each pick at most.
const PASSED: u64 = 8;

/// Requests that were passed over which are kept of all picks, about; at least one of each.
const PASSED_MAX: u64 = 1 << 21;

/// A trace reconstructed at a station.
#[derive(Debug)]
pub(super) struct Observed {
    /// The services that count, each with the number of its request, in order of arrival. Where times are compared, requests that were passed
    /// over for one have its number and stand before it.
    pub(super) services: Vec<(u32, Service)>,
    /// Order of the waiting requests: the known one, or that under which the picks have the highest likelihood.
    pub(super) line: Line,
    pub(super) picks: PickCounts,
    pub(super) scale: Scale,
    /// Median service time of each operation.
    pub(super) typical: [Duration; Operation::ALL.len()],
    /// Requests that were taken in place of earlier ones.
    pub(super) overtaking: u64,
}

impl Observed {
    /// The services of runs at a station of so many servers, in that order if it is known.
    pub(super) fn of(
        runs: &[Vec<RecordedRequest>],
        servers: usize,
        known: Option<Line>,
        capacity_blocks: u64,
        stop: &StopCheck,
    ) -> Result<Self, Error> {
        let all: Result<Vec<Starts>, Error> = runs.iter().map(|run| Starts::of(run, servers, stop)).collect();
        let all = all?;
        let is_there =
            |is_read: bool| runs.iter().flatten().any(|seen| (seen.asked.op == Operation::Read) == is_read);
        let mut tried = Tried::of(known, is_there(true) && is_there(false));
        let each = || runs.iter().zip(&all);
        let counted = || {
            let requests = each().flat_map(|(run, starts)| run.iter().zip(&starts.starts));
            requests.filter(|(seen, _)| seen.counts)
        };
        let typical = medians(|| counted().map(|(seen, start)| (seen.asked.op, seen.completion - *start)));
        let on_media = if is_there(true) { Operation::Read } else { Operation::Write };
        let scale = Scale { capacity_blocks, destage: typical[on_media as usize] };
        let mut services = Vec::with_capacity(counted().count());
        let looked_at = each().map(|(run, starts)| looked_at(run, starts)).sum::<u64>();
        let every = (looked_at * tried.lines.len() as u64).div_ceil(LOOKED_AT_MAX).max(1);
        let compared = known.filter(|line| line.order == Order::Sptf);
        let passed = compared.map(|line| {
            let picks = counted().filter(|(seen, start)| **start > seen.arrival).count() as u64;
            PassedOver { line, each: (PASSED_MAX / picks.max(1)).clamp(1, PASSED) }
        });
        let mut before = 0;
        for (run, starts) in each() {
            let take = |index, service| services.push((before + index, service));
            observe(run, starts, &scale, (&mut tried, every), passed, take, stop)?;
            before += run.len() as u32;
        }
        services.sort_by_key(|(index, _)| *index);
        let overtaking = all.iter().map(|starts| starts.overtaking).sum();
        let (line, picks) = tried.likeliest();
        // Times decide, not ranks.
        let picks = if passed.is_some() { picks.precedence() } else { picks };
        Ok(Self { services, line, picks, scale, typical, overtaking })
    }
}

/// Lines that are tried, with the picks under each.
struct Tried {
    /// Without precedence, and the picks under the line with each of [`First::ALL`].
    lines: Vec<(Line, [PickCounts; First::ALL.len()])>,
    /// Precedences that are tried.
    first: Vec<First>,
}

impl Tried {
    fn of(known: Option<Line>, is_mixed: bool) -> Self {
        let lines = match known {
            Some(line) => vec![Line { first: First::None, ..line }],
            None => Line::all().collect(),
        };
        let first = match known {
            Some(line) => vec![line.first],
            None if is_mixed => First::ALL.to_vec(),
            None => vec![First::None],
        };
        Self { lines: lines.into_iter().map(|line| (line, Default::default())).collect(), first }
    }

    /// The request at `place` was taken of those that wait.
    fn record(&mut self, waiting: &VecDeque<(u32, StationRequest)>, place: usize, last_end: u64) {
        let length = waiting.len() as u32;
        let firsts = First::ALL.map(|first| {
            let line = Line { first, ..self.lines[0].0 };
            line.firsts(waiting.iter().map(|(_, asked)| asked)) as u32
        });
        for (line, picks) in &mut self.lines {
            let others = waiting.iter().map(|(_, asked)| asked);
            let ranks = line.ranks(others, place, &waiting[place].1, last_end);
            for first in self.first.iter().map(|first| *first as usize) {
                picks[first].record(ranks[first] as u32, length, firsts[first]);
            }
        }
    }

    /// The line under which the picks have the highest likelihood, of equal ones the first.
    fn likeliest(self) -> (Line, PickCounts) {
        let lines = self.first.iter().flat_map(|first| {
            let line = |line: &Line| Line { first: *first, ..*line };
            self.lines.iter().map(move |(of, picks)| (line(of), &picks[*first as usize]))
        });
        // What is seldom taken first stands behind: that is the precedence of another operation.
        let judged = lines
            .filter(|(_, picks)| self.first.len() == 1 || picks.keeps_precedence())
            .map(|(line, picks)| (picks.likelihood(), line, picks));
        let (_, line, picks) =
            judged.reduce(|best, next| if next.0 > best.0 { next } else { best }).expect("there are lines");
        (line, picks.clone())
    }
}

/// Choice of the requests that were passed over which are kept.
#[derive(Debug, Clone, Copy)]
struct PassedOver {
    line: Line,
    /// Of each pick, at most.
    each: u64,
}

impl PassedOver {
    /// The requests among which the one at `place` was taken, but for itself, and how many each stands for: those of the operation that stands
    /// first, or the others, if both wait; no more than a station compares.
    fn of<'a>(
        &self,
        waiting: &'a VecDeque<(u32, StationRequest)>,
        place: usize,
        picked: u64,
    ) -> (impl Iterator<Item = &'a StationRequest>, u16) {
        let first = self.line.first;
        let is_first = first.is_of(waiting[place].1.op);
        let others = || {
            let others = waiting.iter().enumerate().filter(move |(at, _)| *at != place);
            let compared =
                others.map(|(_, (_, asked))| asked).filter(move |asked| first.is_of(asked.op) == is_first);
            compared.take(COMPARED)
        };
        // Every so many, from another one on at each pick.
        let every = (others().count() as u64).div_ceil(self.each).max(1);
        (others().skip((picked % every) as usize).step_by(every as usize), every as u16)
    }
}

/// Waiting requests that the picks of a run would look at.
fn looked_at(run: &[RecordedRequest], starts: &Starts) -> u64 {
    let waiting = || run.iter().zip(&starts.starts).filter(|(seen, start)| **start > seen.arrival);
    let mut begins: Vec<Instant> = waiting().map(|(_, start)| *start).collect();
    begins.sort_unstable();
    let mut arrivals = waiting().map(|(seen, _)| seen.arrival).peekable();
    let mut arrived = 0_u32;
    let looked_at = (0..).zip(begins).map(|(begun, begin)| {
        while arrivals.next_if(|arrival| *arrival < begin).is_some() {
            arrived += 1;
        }
        let length = arrived - begun;
        u64::from(length / (length / LOOKED_AT).max(1))
    });
    looked_at.sum()
}

/// Goes through a run in order of time, and looks at every so many picks.
fn observe(
    run: &[RecordedRequest],
    starts: &Starts,
    scale: &Scale,
    (tried, every): (&mut Tried, u64),
    passed: Option<PassedOver>,
    mut take: impl FnMut(u32, Service),
    stop: &StopCheck,
) -> Result<(), Error> {
    let mut state = State::default();
    let mut waiting: VecDeque<(u32, StationRequest)> = VecDeque::new();
    let mut picked = 0_u64;
    for (step, (now, event, index)) in starts.events(run).enumerate() {
        stop.check_at(step)?;
        let RecordedRequest { asked, counts, completion, .. } = &run[index as usize];
        let start = starts.starts[index as usize];
        match event {
            Event::Arrival => {
                state.arrive();
                if start > now {
                    waiting.push_back((index, *asked));
                }
            }
            Event::Start => {
                let in_line = waiting.iter().position(|(waits, _)| *waits == index);
                let time = *completion - start;
                if let Some(place) = in_line {
                    let length = waiting.len() as u32;
                    picked += 1;
                    let every = every * u64::from(length / LOOKED_AT).max(1);
                    let is_counted = length > 1 && picked.is_multiple_of(every);
                    if is_counted {
                        tried.record(&waiting, place, state.last_end());
                    }
                    if let Some(passed) = passed.filter(|_| *counts) {
                        let (others, weight) = passed.of(&waiting, place, picked);
                        for other in others {
                            let row = state.row(now, other, true, scale);
                            take(index, Service { row, time, passed_over: weight });
                        }
                    }
                    waiting.remove(place);
                }
                let row = state.start(now, asked, in_line.is_some(), scale);
                if *counts {
                    take(index, Service { row, time, passed_over: 0 });
                }
            }
            Event::Completion => state.complete(now),
        }
    }
    Ok(())
}

/// Returns the median time of each operation. An operation without times has the median of all.
fn medians<I: Iterator<Item = (Operation, Duration)>>(
    times: impl Fn() -> I,
) -> [Duration; Operation::ALL.len()] {
    let median = |mut times: Vec<Duration>| {
        let middle = times.len() / 2;
        (!times.is_empty()).then(|| *times.select_nth_unstable(middle).1)
    };
    let all = median(times().map(|(_, time)| time).collect()).unwrap_or_default();
    Operation::ALL
        .map(|op| median(times().filter(|(of, _)| *of == op).map(|(_, time)| time).collect()).unwrap_or(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests that arrive at once, and are served one by one in that order.
    fn burst(count: u64) -> Vec<RecordedRequest> {
        let served = |place: u64| RecordedRequest {
            arrival: Instant::ZERO,
            completion: Instant::from_ns(1_000 * (place + 1)),
            asked: StationRequest {
                op: Operation::Read,
                lbn: 800 * (place * 7 % count),
                blocks: 8,
                fua: false,
            },
            counts: true,
            is_seen: true,
        };
        (0..count).map(served).collect()
    }

    #[test]
    fn requests_that_are_kept_stand_for_all_that_a_station_compares() {
        let of = |op, lbn| StationRequest { op, lbn, blocks: 8, fua: false };
        let (read, write) = (|lbn| of(Operation::Read, lbn), |lbn| of(Operation::Write, lbn));
        // The request itself, one of the other operation, and so many reads.
        for (reads, compared) in [(0, 0), (3, 3), (20, 20), (1_000, COMPARED as u64)] {
            let line = Line { order: Order::Sptf, band_blocks: 1, first: First::Writes };
            let passed = PassedOver { line, each: 8 };
            let waiting: VecDeque<(u32, StationRequest)> = [read(0), write(1)]
                .into_iter()
                .chain((2..2 + reads).map(read))
                .map(|asked| (0, asked))
                .collect();
            let mut stood_for = Vec::new();
            for picked in 0..240 {
                let (kept, weight) = passed.of(&waiting, 0, picked);
                let kept: Vec<&StationRequest> = kept.collect();
                assert!(
                    kept.len() <= 8 && kept.iter().all(|asked| asked.op == Operation::Read && asked.lbn > 1)
                );
                stood_for.push(kept.len() as u64 * u64::from(weight));
            }
            assert_eq!(stood_for.iter().sum::<u64>(), 240 * compared, "{reads}");
        }
    }

    #[test]
    fn work_of_looking_at_a_deep_line_has_a_bound() {
        let stop = StopCheck::default();
        for count in [300, 3_000, 60_000] {
            let run = burst(count);
            let starts = Starts::of(&run, 1, &stop).unwrap();
            let lengths = (1..count).map(|waiting| waiting / (waiting / u64::from(LOOKED_AT)).max(1));
            assert_eq!(looked_at(&run, &starts), lengths.sum::<u64>(), "{count}");
            let observed = Observed::of(&[run], 1, None, 1 << 40, &stop).unwrap();
            assert_eq!(observed.line.order, Order::Fcfs);
            let picks: u64 = observed
                .picks
                .write()
                .iter()
                .map(|line| {
                    let items = line.split(' ').skip(1).map(|item| item.split('*').nth(1).unwrap());
                    items.map(|count| count.parse::<u64>().unwrap()).sum::<u64>()
                })
                .sum();
            let lines = Line::all().count() as u64;
            // Half of the picks are of lines that are longer than their mean.
            let looked_at = picks * u64::from(LOOKED_AT).min(count / 2) * lines;
            assert!(looked_at <= 2 * LOOKED_AT_MAX, "{count}: {looked_at}");
            assert!(picks >= (count / 2).min(500), "{count}: {picks}");
        }
    }
}
