//! Sentences on how far to trust a measurement.

use seeklab_bench::{
    Interval, Measurement, Part, Plan, STEADY_RANGE_PCT, STEADY_ROUNDS, STEADY_SLOPE_PCT, SteadyFigure,
    SteadyRule, SteadyWindow, Totals,
};

use seeklab_core::statistics::Distribution;
use seeklab_core::{Duration, Status};
use seeklab_workloads::WorkloadSpec;

use super::figures::{LATE, statuses};
use super::load::Load;
use super::options::{PhaseOptions, StreamLoad};
use super::phase::StreamRun;
use super::phases::track;
use crate::run::in_whole_blocks;
use seeklab_core::number_words::counted;

/// Share of late issues, in percent, above which arrivals are not as intended.
const LATE_PCT_MAX: f64 = 1.0;
/// Share of its time, in percent, from which a thread has none left.
const BUSY_PCT: f64 = 95.0;
/// Shortest run of which that share says something. The processor time of the kernel is coarser than short runs.
const BUSY_TIME_MIN: Duration = Duration::from_ms(100);

/// Share of the busy time in the kernel, below which it counts as this program's.
const KERNEL_SHARE_MAX: f64 = 0.5;
/// Share of its time, in percent, for which a thread of a closed load may wait for a processor.
const PROCESSOR_WAIT_PCT_MAX: f64 = 5.0;
/// Time without a connection at the end of a run up to which it is a reconnection like any other.
const AWAY_MAX: Duration = Duration::from_ms(100);
/// Range and trend of the counts of five intervals, in standard deviations of a count, that random variation explains. A
/// larger range has a probability of 0.4 % without any change, a larger trend one of 0.008 %.
const RANDOM_DEVIATIONS: f64 = 5.0;
/// Sentence on a run that nothing distorted.
const ALL_CLEAR: &str = "no disturbance was found: requests were issued in time, none failed or is missing";
/// The same of closed loads whose threads were late, which lowers their rates.
const NO_DOUBT: &str =
    "no disturbance was found: no request failed or is missing, and the threads had a processor";
/// The same of a run in virtual time.
const EXACT: &str = "the times are those of the model, exactly";

/// Notes on a measurement.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// True if nothing is known that distorts the figures.
    pub(super) is_trusted: bool,
    /// The notes.
    pub(super) sentences: Vec<String>,
}

impl Notes {
    /// Adds a note, which may limit the trust.
    pub(super) fn add(&mut self, limits_trust: bool, note: String) {
        if limits_trust {
            self.is_trusted = false;
            self.sentences.retain(|sentence| ![ALL_CLEAR, NO_DOUBT, EXACT].contains(&sentence.as_str()));
        }
        self.sentences.push(note);
    }
}

/// Examines a phase: each of its streams, then all together.
pub(super) fn notes(
    plan: &Plan,
    phase: &PhaseOptions,
    streams: &[StreamRun],
    loads: &[Load],
    measurement: &Measurement,
) -> Notes {
    let (mut facts, mut doubts) = (Vec::new(), Vec::new());
    for (index, (stream, load)) in streams.iter().zip(loads).enumerate() {
        let named = |note: String| match streams.len() {
            1 => note,
            _ => format!("stream `{}`: {note}", phase.streams[index].name),
        };
        facts.extend(stream.facts.notes.iter().cloned().map(named));
        facts.extend(rounding(&phase.streams[index].workload, stream).map(named));
        doubts.extend(of_stream(plan, stream, load, measurement, index).into_iter().map(named));
    }
    let mut remarks = Vec::new();
    match plan.steady {
        Some(rule) => doubts.extend(not_reached(rule, measurement)),
        None => doubts.extend(unsteady(&measurement.intervals)),
    }
    remarks.extend(changes(plan, measurement));
    let is_trusted = doubts.is_empty();
    if is_trusted && measurement.totals.part.requests() > 0 {
        doubts.push(all_clear(plan.is_virtual, &measurement.totals).to_owned());
    }
    Notes { is_trusted, sentences: facts.into_iter().chain(doubts).chain(remarks).collect() }
}

/// Sentence on a run that nothing distorted.
fn all_clear(is_virtual: bool, totals: &Totals) -> &'static str {
    let is_late = totals.late_pct(LATE).is_some_and(|late_pct| late_pct > LATE_PCT_MAX);
    match (is_virtual, is_late) {
        (true, _) => EXACT,
        (false, false) => ALL_CLEAR,
        (false, true) => NO_DOUBT,
    }
}

/// A sentence on how late an emulated device completed its requests. It limits the trust if more than [`LATE_PCT_MAX`] were
/// [`LATE`]. `None` if there were none.
pub(super) fn emulation(address: &str, lateness: &Distribution) -> Option<(bool, String)> {
    let (median, longest) = (lateness.quantile(0.5)?, lateness.quantile(1.0)?);
    let late: u64 = lateness.buckets().filter(|(upper, _)| *upper > LATE).map(|(_, count)| count).sum();
    let late_pct = 100.0 * late as f64 / lateness.moments().count() as f64;
    let sentence = format!(
        "`{address}`: half of the completions came more than {:.2} us after they were due, {late_pct:.2} % more than 50 us, the \
         latest {:.0} us",
        median.as_us(),
        longest.as_us(),
    );
    Some((late_pct > LATE_PCT_MAX, sentence))
}

/// A remark if the sizes of a workload are no whole blocks of the target.
fn rounding(workload: &StreamLoad, stream: &StreamRun) -> Option<String> {
    match &workload.workload()?.spec {
        WorkloadSpec::Synthetic(spec) => {
            in_whole_blocks(spec, stream.facts.space.block_size).1.map(|note| note.text().to_owned())
        }
        _ => None,
    }
}

/// Doubts on a stream.
fn of_stream(
    plan: &Plan,
    stream: &StreamRun,
    load: &Load,
    measurement: &Measurement,
    index: usize,
) -> Vec<String> {
    let totals = &measurement.streams[index];
    let part = &totals.part;
    let mut doubts = Vec::new();
    let late_pct = totals.late_pct(LATE).filter(|_| load.is_open && !plan.is_virtual);
    if let Some(late_pct) = late_pct.filter(|pct| *pct > LATE_PCT_MAX) {
        let switches = measurement.totals.cost.map_or(0, |cost| cost.preemptions);
        doubts.push(format!(
            "{late_pct:.1} % of the requests were issued more than 50 us late by this program itself, and the kernel took \
             its processor away {switches} times: response times include that, service times do not"
        ));
    }
    doubts.extend(no_time_left(totals).or_else(|| {
        let is_closed = !load.is_open && !plan.is_virtual;
        is_closed.then(|| without_processor(totals, stream.threads)).flatten()
    }));
    doubts.extend(never_issued(totals));
    if part.dropped > 0 {
        let dropped = counted(part.dropped, "request");
        let were = was(part.dropped);
        doubts.push(format!(
            "{dropped} found no room and {were} left out: no time includes {}",
            them(part.dropped)
        ));
    }
    if !totals.unfinished.is_empty() || totals.silent_threads > 0 {
        doubts.push(format!("{}: no time includes them", unreturned(totals)));
    }
    if let Some(away) = totals.away {
        doubts.push(match away < AWAY_MAX {
            true => "the connection was being remade when the run ended".to_owned(),
            false => format!("there was no connection in the last {:.1} s", away.as_s()),
        });
    }
    if part.pause >= Plan::HUNG && !plan.is_virtual {
        let pause_s = part.pause.as_s();
        doubts.push(format!("for {pause_s:.1} s no request ended, although some were under way or waited"));
    }
    if let Some(refusal) = &totals.refusal {
        doubts.push(format!("requests were not sent, because the target refuses them: {refusal}"));
    }
    if part.failed > 0 {
        let failed = counted(part.failed, "request");
        let by_status = statuses(part)
            .by_name()
            .into_iter()
            .filter(|(name, count)| *count > 0 && *name != Status::Recovered.name());
        let by_status: Vec<String> = by_status.map(|(status, count)| format!("{status} {count}")).collect();
        doubts.push(format!(
            "{failed} failed (attempts by status: {}): no time of successful requests includes {}",
            by_status.join(", "),
            them(part.failed)
        ));
    }
    doubts.extend(repeated(totals));
    if totals.unissued == 0 {
        doubts.extend(waited(part, stream.room()));
    }
    let takes = stream.facts.outstanding_max;
    // The queue of a model is part of what is measured.
    let is_limit = takes == 1 || !plan.is_virtual;
    if let Some(population) = load.population.filter(|population| is_limit && *population > stream.room()) {
        let takes = if takes == 1 { "one request".to_owned() } else { counted(takes, "request") };
        doubts.push(format!(
            "this target takes {takes} at a time from each thread, not the {population} of the load"
        ));
    }
    doubts
}

/// The requests that a target has not returned, in words.
pub(super) fn unreturned(totals: &Totals) -> String {
    let threads = counted(totals.silent_threads, "thread");
    match totals.unfinished.len() {
        0 => format!("{threads} did not end in time, and figures of the last interval are missing"),
        held if totals.silent_threads > 0 => format!(
            "the target never returned {}, and {threads} with it: what arrived there since is in no count",
            counted(held, "request")
        ),
        held => format!("the target never returned {}", counted(held, "request")),
    }
}

/// The end of a run without a connection, in words. `None` if there was one, or if it was being remade for a moment and no
/// request is lost.
pub(super) fn away_at_end(totals: &Totals) -> Option<String> {
    let away = totals.away?;
    let has_lost = totals.unissued > 0 || totals.part.failed > 0 || totals.part.dropped > 0;
    match away < AWAY_MAX {
        true => has_lost
            .then(|| "the connection was being remade when the run ended, and requests are lost".to_owned()),
        false => Some(format!("no connection in the last {:.1} s", away.as_s())),
    }
}

/// A doubt if requests arrived and were never issued.
fn never_issued(totals: &Totals) -> Option<String> {
    let count = totals.unissued;
    let at_least = if totals.has_more_unissued { "at least " } else { "" };
    let reason = match totals.away {
        Some(_) => "there was no connection",
        None if is_generator_limit(totals) => "this program did not sustain the load",
        None => "the target did not sustain the load",
    };
    (count > 0).then(|| {
        let (requests, were) = (counted(count, "request"), was(count));
        format!(
            "{at_least}{requests} arrived and {were} never issued, because {reason}: no time includes {}",
            them(count)
        )
    })
}

/// Doubts about arrivals that waited for room, of which there is that much, and for a connection.
fn waited(part: &Part, room: u32) -> Vec<String> {
    let under_way = format!("{} {} under way", counted(room, "request"), was(room.into()));
    let reasons = [
        (part.delayed - part.delayed_away, under_way.as_str()),
        (part.delayed_away, "the connection was being remade"),
    ];
    let waits = reasons.into_iter().filter(|(count, _)| *count > 0).map(|(count, reason)| {
        let include = if count == 1 { "its response time includes" } else { "their response times include" };
        format!("{} waited because {reason}: {include} the wait", counted(count, "arrival"))
    });
    waits.collect()
}

/// Doubts about attempts that were sent again and connections that were remade.
fn repeated(totals: &Totals) -> Vec<String> {
    let mut doubts = Vec::new();
    let (retries, reconnections) = (totals.part.retries, totals.reconnections);
    if retries > 0 {
        let attempts = counted(retries, "failed attempt");
        doubts.push(format!(
            "{attempts} {} repeated: response times include what failed before, service times do not",
            was(retries)
        ));
    }
    if reconnections > 0 {
        let times = counted(reconnections, "time");
        doubts.push(format!("the connection was remade {times}: no request ends meanwhile"));
    }
    doubts
}

/// A doubt if the threads of a closed load could have run and had no processor.
fn without_processor(totals: &Totals, threads: u32) -> Option<String> {
    let cost = totals.cost.filter(|_| totals.elapsed() >= BUSY_TIME_MIN)?;
    let time_s = totals.elapsed().as_s() * f64::from(threads);
    let pct = 100.0 * cost.processor_wait.as_s() / time_s;
    (time_s > 0.0 && pct > PROCESSOR_WAIT_PCT_MAX).then(|| {
        format!(
            "the threads of this program waited for a processor for {pct:.0} % of the time, and the kernel took theirs away {}: all \
             times include that, and the rates are lower",
            counted(cost.preemptions, "time")
        )
    })
}

/// The verb of that many requests.
const fn was(count: u64) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

/// The pronoun of that many requests.
const fn them(count: u64) -> &'static str {
    if count == 1 { "it" } else { "them" }
}

/// True if the threads of this program had no time left, so that a faster target would look the same. What they spend in the kernel
/// may be work of the target, as copies from the page cache are, so most of the time must be spent elsewhere.
pub(super) fn is_generator_limit(totals: &Totals) -> bool {
    let of_long = totals.cost.filter(|_| totals.elapsed() >= BUSY_TIME_MIN);
    let own = of_long.filter(|cost| cost.kernel.as_s() < KERNEL_SHARE_MAX * cost.busy.as_s());
    own.and_then(|cost| cost.busy_pct()).is_some_and(|pct| pct >= BUSY_PCT)
}

/// A doubt if the threads of this program had no time left.
fn no_time_left(totals: &Totals) -> Option<String> {
    let cost = totals.cost.filter(|_| is_generator_limit(totals))?;
    let share =
        |part: Duration, of: Duration| if of.is_zero() { 0.0 } else { 100.0 * part.as_s() / of.as_s() };
    Some(format!(
        "this program, not the target, is the limit of the rate: its threads were busy for {:.0} % of the time ({:.0} % of it in the \
         kernel, {:.0} % without a processor). One thread per processor (--threads) may find more requests per second",
        cost.busy_pct()?,
        share(cost.kernel, cost.busy),
        share(cost.processor_wait, cost.busy),
    ))
}

/// A doubt if the rate of the last intervals still changed by more than random variation of so many requests.
fn unsteady(intervals: &[Interval]) -> Option<String> {
    // The last interval may be cut.
    let inner = intervals.get(..intervals.len().checked_sub(1)?)?;
    let last = inner.get(inner.len().checked_sub(STEADY_ROUNDS)?..)?;
    let rates: Vec<f64> =
        last.iter().map(|interval| SteadyFigure::RequestsPerSecond.of(&interval.part)).collect();
    let Some(window) = SteadyWindow::of_last(&rates) else {
        return Some("the target completed nothing in the last intervals".to_owned());
    };
    let requests: u64 = last.iter().map(|interval| interval.part.requests()).sum();
    // The deviation of a count of Poisson arrivals is its root.
    let deviation_pct = 100.0 / (requests as f64 / STEADY_ROUNDS as f64).sqrt();
    let random_pct = RANDOM_DEVIATIONS * deviation_pct;
    let allowed = (STEADY_RANGE_PCT.max(random_pct), STEADY_SLOPE_PCT.max(random_pct));
    (window.range_pct > allowed.0 || window.slope_pct.abs() > allowed.1).then(|| {
        let figures = in_words(window, allowed);
        format!("no steady state: over the last {STEADY_ROUNDS} intervals the rate had {figures}")
    })
}

/// Range and trend of a window in words, with those that are allowed.
fn in_words(window: SteadyWindow, (range_pct, slope_pct): (f64, f64)) -> String {
    format!(
        "a range of {:.0} % of its mean (allowed {range_pct:.0} %) and a trend of {:.0} % (allowed {slope_pct:.0} %)",
        window.range_pct,
        window.slope_pct.abs()
    )
}

/// A doubt if a phase that was to end in its steady state did not reach it.
fn not_reached(rule: SteadyRule, measurement: &Measurement) -> Option<String> {
    let track = measurement.steady.as_ref().filter(|track| track.changes().is_empty())?;
    let rounds = counted(track.figures().len(), "round");
    let name = rule.figure.name();
    Some(match track.window() {
        Some(window) => format!(
            "no steady state in {rounds}: over the last {STEADY_ROUNDS} of them {name} had {}",
            in_words(window, (STEADY_RANGE_PCT, STEADY_SLOPE_PCT))
        ),
        None => format!("no steady state in {rounds} of {name}: the test takes {STEADY_ROUNDS}"),
    })
}

/// A remark if the steady state was left again.
fn changes(plan: &Plan, measurement: &Measurement) -> Option<String> {
    let (figure, track) = track(plan, measurement)?;
    let [reached, left, rest @ ..] = track.changes() else { return None };
    let round_s = plan.interval?.as_s();
    let values = track.figures();
    let again = match rest.first() {
        Some(again) => format!("; it was reached again with interval {}", again.round),
        None => String::new(),
    };
    Some(format!(
        "the steady state of interval {} was left with interval {}, {:.1} s after the begin of the phase: {} went from {:.3} \
         to {:.3}{again}",
        reached.round,
        left.round,
        left.round as f64 * round_s,
        figure.name(),
        values[left.round as usize - 2],
        values[left.round as usize - 1],
    ))
}

#[cfg(test)]
mod tests {
    use seeklab_bench::Cost;
    use seeklab_core::Instant;

    use super::*;

    fn totals(part: Part) -> Totals {
        Totals { part, end: Instant::from_ns(1_000_000_000), ..Totals::default() }
    }

    #[test]
    fn arrivals_name_what_they_waited_for() {
        let part = |delayed, delayed_away| Part { delayed, delayed_away, ..Part::default() };
        assert_eq!(
            waited(&part(1, 0), 1),
            ["1 arrival waited because 1 request was under way: its response time includes the wait"]
        );
        assert_eq!(
            waited(&part(5, 3), 1024),
            [
                "2 arrivals waited because 1024 requests were under way: their response times include the wait",
                "3 arrivals waited because the connection was being remade: their response times include the wait",
            ]
        );
        assert_eq!(waited(&part(3, 3), 1024).len(), 1, "all of them waited for the connection");
        assert!(waited(&part(0, 0), 1024).is_empty());
    }

    #[test]
    fn closed_load_that_was_late_is_no_load_issued_in_time() {
        let late = |requests: u64| {
            let mut part = Part::default();
            (0..100).for_each(|request| {
                let lateness = if request < requests { LATE * 2 } else { Duration::ZERO };
                part.lateness.record(lateness);
            });
            totals(part)
        };
        assert_eq!(all_clear(false, &late(1)), ALL_CLEAR);
        assert_eq!(all_clear(false, &late(2)), NO_DOUBT);
        assert_eq!(all_clear(true, &late(2)), EXACT);
    }

    #[test]
    fn requests_that_were_never_issued_have_the_reason() {
        let note = |unissued, away| never_issued(&Totals { unissued, away, ..Totals::default() });
        assert_eq!(note(0, None), None);
        assert_eq!(
            note(1, None).unwrap(),
            "1 request arrived and was never issued, because the target did not sustain the load: no time includes it"
        );
        assert_eq!(
            note(2, Some(Duration::from_s(1))).unwrap(),
            "2 requests arrived and were never issued, because there was no connection: no time includes them"
        );
    }

    #[test]
    fn retries_and_reconnections_are_disturbances() {
        assert!(repeated(&totals(Part::default())).is_empty());
        let disturbed = Totals { reconnections: 1, ..totals(Part { retries: 2, ..Part::default() }) };
        assert_eq!(
            repeated(&disturbed),
            [
                "2 failed attempts were repeated: response times include what failed before, service times do not",
                "the connection was remade 1 time: no request ends meanwhile",
            ]
        );
    }

    #[test]
    fn short_reconnection_at_the_end_is_no_failure_unless_requests_are_lost() {
        let ended = |away_ms, part| {
            let away = Some(Duration::from_ms(away_ms));
            away_at_end(&Totals { away, ..totals(part) })
        };
        assert_eq!(ended(99, Part::default()), None);
        assert_eq!(ended(100, Part::default()).unwrap(), "no connection in the last 0.1 s");
        assert_eq!(
            ended(12, Part { failed: 1, ..Part::default() }).unwrap(),
            "the connection was being remade when the run ended, and requests are lost"
        );
        let unissued = Totals { unissued: 1, away: Some(Duration::ZERO), ..Totals::default() };
        assert!(away_at_end(&unissued).is_some());
        assert_eq!(away_at_end(&totals(Part::default())), None);
    }

    #[test]
    fn threads_without_time_left_are_the_limit_unless_the_run_is_short() {
        let of = |busy_ms, loop_ms| {
            let busy = Duration::from_ms(busy_ms);
            let cost = Cost {
                kernel: busy / 4,
                processor_wait: busy / 2,
                busy,
                loop_time: Duration::from_ms(loop_ms),
                ..Cost::default()
            };
            let end = Instant::ZERO + cost.loop_time;
            Totals { cost: Some(cost), end, unissued: 1, ..Totals::default() }
        };
        assert_eq!(no_time_left(&of(30, 30)), None);
        assert_eq!(no_time_left(&of(94, 100)), None);
        let note = no_time_left(&of(95, 100)).unwrap();
        assert!(
            note.contains("busy for 95 %") && note.contains("25 % of it in the kernel, 50 % without"),
            "{note}"
        );
        // Copies from the page cache are work of the target, too.
        let mut copying = of(95, 100);
        copying.cost.as_mut().unwrap().kernel = Duration::from_ms(48);
        assert_eq!(no_time_left(&copying), None);
        assert!(never_issued(&of(94, 100)).unwrap().contains("the target did not sustain"));
        assert!(never_issued(&of(95, 100)).unwrap().contains("this program did not sustain"));
    }

    #[test]
    fn threads_that_wait_for_a_processor_limit_the_trust() {
        let of = |wait_ms, threads| {
            let processor_wait = Duration::from_ms(wait_ms);
            let cost = Some(Cost { processor_wait, preemptions: 62, ..Cost::default() });
            without_processor(&Totals { cost, ..totals(Part::default()) }, threads)
        };
        assert_eq!(of(49, 1), None);
        let note = of(800, 1).unwrap();
        assert!(note.contains("for 80 % of the time") && note.contains("62 times"), "{note}");
        let short = Totals {
            cost: Some(Cost { processor_wait: Duration::from_ms(90), ..Cost::default() }),
            ..Totals::default()
        };
        assert_eq!(without_processor(&Totals { end: Instant::from_ns(99_000_000), ..short }, 1), None);
        assert!(of(800, 8).unwrap().contains("for 10 % of the time"));
        assert_eq!(without_processor(&totals(Part::default()), 1), None, "nothing is known");
    }

    /// The doubt about a run with these requests in each second.
    fn doubt(requests: &[u64]) -> Option<String> {
        let interval = |(index, requests): (usize, &u64)| {
            let at = |index| Instant::from_ns(index as u64 * 1_000_000_000);
            let mut part = Part { from: at(index), until: at(index + 1), ..Part::default() };
            part.operations[0].requests = *requests;
            Interval { index: index as u64, part, streams: Vec::new(), silent_threads: 0 }
        };
        unsteady(&requests.iter().enumerate().map(interval).collect::<Vec<_>>())
    }

    #[test]
    fn random_variation_of_few_requests_is_a_steady_state() {
        // Poisson arrivals at 20 per second. The last interval may be cut.
        assert_eq!(doubt(&[20, 27, 14, 22, 17, 3]), None);
        assert_eq!(doubt(&[13, 18, 20, 24, 28, 3]), None);
        // The same shares of many requests are a change.
        let note = doubt(&[20_000, 27_000, 14_000, 22_000, 17_000, 3_000]).unwrap();
        assert!(note.contains("(allowed 20 %)") && note.contains("(allowed 10 %)"), "{note}");
        assert!(doubt(&[40, 20, 10, 5, 2, 0]).is_some());
        assert!(doubt(&[0, 0, 0, 0, 0, 0]).unwrap().contains("completed nothing"));
    }
}
