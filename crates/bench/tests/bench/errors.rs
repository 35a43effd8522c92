//! Errors are never I/O, and requests that never return are reported while they hang.

use seeklab_bench::target::Target;
use seeklab_bench::{Plan, StreamPlan};
use seeklab_core::{Duration, Instant, Status};
use seeklab_emulator::clock::Clock;
use seeklab_workloads::Retries;

use crate::harness::{Heard, Ruled, any_number, at_most, open, options, run, run_until, virtual_plan};

const MS: Duration = Duration::from_ms(1);

#[test]
fn failed_requests_count_in_no_rate_and_no_time() {
    let status = |number: u64| Some(if number.is_multiple_of(2) { Status::MediumError } else { Status::Ok });
    let target = Box::new(Ruled::new(MS, status));
    let line = "random,size=4KiB,read=100%,closed=1,requests=1000";
    let (measurement, heard) = run((&virtual_plan(), &any_number()), target, line, 1);
    let part = &measurement.totals.part;
    assert_eq!((part.requests(), part.failed, part.errors(), part.attempts), (500, 500, 500, 1_000));
    assert_eq!(part.statuses[Status::MediumError as usize], 500);
    assert_eq!((part.bytes(), part.response().moments().count()), (500 * 4_096, 500));
    assert_eq!(part.failed_response.moments().count(), 500);
    assert_eq!(heard.rows.iter().filter(|row| row.status == Status::MediumError).count(), 500);
    assert_eq!(measurement.totals.elapsed(), Duration::from_s(1));
}

#[test]
fn retried_request_is_timed_from_its_first_intended_start() {
    // Each request fails twice and is carried out then.
    let status = |number: u64| Some(if number % 3 < 2 { Status::Aborted } else { Status::Ok });
    let target = Box::new(Ruled::new(MS, status));
    let retries = Retries { count: 2, after: Duration::from_ms(10) };
    let stream = StreamPlan { retries, ..any_number() };
    let (measurement, heard) =
        run((&virtual_plan(), &stream), target, "random,size=4KiB,read=100%,closed=1,requests=100", 1);
    let part = &measurement.totals.part;
    assert_eq!(
        (part.requests(), part.retried, part.retries, part.errors(), part.failed),
        (100, 100, 200, 200, 0)
    );
    assert_eq!(part.response().quantile(1.0), Some(Duration::from_ms(23)), "three attempts and two waits");
    assert_eq!(part.service().quantile(1.0), Some(MS));
    assert_eq!(heard.rows.len(), 300, "a row for each attempt");
}

#[test]
fn hung_request_shows_its_age_in_every_interval_and_the_run_ends_on_time() {
    // The 100th attempt never ends.
    let target = Box::new(Ruled::new(MS, |number| (number != 99).then_some(Status::Ok)));
    let plan = Plan { duration: Some(Duration::from_s(5)), ..virtual_plan() };
    let line = "random,size=4KiB,read=100%,constant=100/s,requests=1000000";
    let (measurement, heard) = run((&plan, &any_number()), target, line, 1);
    let ages: Vec<f64> = measurement
        .intervals
        .iter()
        .map(|one| one.part.oldest.map_or(0.0, |age| age.as_s().round()))
        .collect();
    assert_eq!(ages[1..4], [1.0, 2.0, 3.0], "{ages:?}");
    assert_eq!(measurement.intervals[2].part.hung, 1);
    let totals = &measurement.totals;
    assert_eq!(totals.unfinished.len(), 1);
    assert!(totals.unfinished[0].age >= Duration::from_s(4), "{:?}", totals.unfinished);
    assert_eq!(totals.part.requests(), 498);
    assert_eq!(heard.rows.iter().filter(|row| row.completion.is_none()).count(), 1);
    // Arrivals ended at 5 s, and the rest got two seconds.
    assert!(totals.end <= Instant::from_ns(7_000_000_000));
}

#[test]
fn request_beyond_its_time_limit_fails_and_its_slot_stays_taken() {
    let target = Box::new(Ruled::new(MS, |number| (number != 99).then_some(Status::Ok)));
    let plan = Plan { duration: Some(Duration::from_s(5)), ..virtual_plan() };
    let stream = StreamPlan { timeout: Some(Duration::from_ms(200)), ..at_most(2) };
    let (measurement, _) =
        run((&plan, &stream), target, "random,size=4KiB,read=100%,closed=2,requests=1000000", 1);
    let part = &measurement.totals.part;
    assert_eq!((part.statuses[Status::Timeout as usize], part.failed), (1, 1));
    // The member that waited goes on when the other slot is free: half of the requests are missing.
    assert!((5_000..5_100).contains(&part.requests()), "{}", part.requests());
    assert_eq!(measurement.intervals[3].part.outstanding, 2, "the target still has one");
}

/// A target that takes no requests any more after 500, the last of which fails.
fn leaving() -> Box<dyn Target> {
    let rule = |number| Some(if number < 499 { Status::Ok } else { Status::Gone });
    Box::new(Ruled::new(MS, rule).leaving_after(500))
}

#[test]
fn target_that_leaves_for_good_is_a_pause_to_the_end_and_its_requests_fail() {
    let plan = Plan { duration: Some(Duration::from_s(5)), ..virtual_plan() };
    let retries = Retries { count: 3, ..Retries::default() };
    let stream = StreamPlan { retries, ..at_most(1) };
    let (measurement, _) =
        run((&plan, &stream), leaving(), "random,size=4KiB,read=100%,closed=1,requests=1000000", 1);
    let (totals, part) = (&measurement.totals, &measurement.totals.part);
    assert_eq!((part.requests(), part.failed, totals.unissued), (499, 1, 0), "each request is in one count");
    assert!(part.pause > Duration::from_ms(4_400), "{}", part.pause);
    assert!(totals.away.is_some_and(|away| away > Duration::from_ms(4_400)), "{:?}", totals.away);
    assert_eq!(measurement.intervals[2].part.pause, Duration::from_ms(2_500), "to the end of the interval");
}

#[test]
fn run_without_a_duration_ends_when_its_target_has_left_for_a_minute() {
    let (measurement, _) = run(
        (&virtual_plan(), &at_most(1)),
        leaving(),
        "random,size=4KiB,read=100%,poisson=1000/s,requests=100000",
        1,
    );
    assert_eq!(measurement.failure.unwrap().to_string(), "no connection for 60 s");
    assert_eq!(measurement.totals.part.requests(), 499);
}

#[test]
fn last_requests_of_a_slow_target_get_the_time_that_requests_take() {
    // The third one of five seconds is under way when the time is over.
    let slow = || Box::new(Ruled::new(Duration::from_s(5), |_| Some(Status::Ok)));
    let plan = Plan { duration: Some(Duration::from_s(12)), ..virtual_plan() };
    let (measurement, _) =
        run((&plan, &at_most(1)), slow(), "random,size=4KiB,read=100%,closed=1,requests=1000000", 1);
    assert_eq!((measurement.totals.part.requests(), measurement.totals.unfinished.len()), (3, 0));
    // One that does not return is waited for as long as the longest one took, and two seconds.
    let last = Ruled::new(Duration::from_s(5), |number| (number < 2).then_some(Status::Ok));
    let (measurement, _) =
        run((&plan, &at_most(1)), Box::new(last), "random,size=4KiB,read=100%,closed=1,requests=1000000", 1);
    let unfinished = &measurement.totals.unfinished;
    assert_eq!((measurement.totals.part.requests(), unfinished.len()), (2, 1));
    assert_eq!(unfinished[0].age, Duration::from_s(9), "{unfinished:?}");
}

#[test]
fn stop_ends_the_run_with_the_figures_so_far() {
    let clock = Clock::start();
    let target = open("null", clock, &options(8)).unwrap();
    let plan = Plan { interval: Some(Duration::from_ms(20)), ..Plan::default() };
    let heard = Heard { stops_after_intervals: Some(3), ..Heard::default() };
    let line = "random,size=4KiB,read=100%,closed=8,requests=1000000000000";
    let (measurement, _) = run_until((&plan, &at_most(8)), target, line, 1, heard);
    assert!(measurement.is_stopped && measurement.totals.part.requests() > 0);
    assert!(measurement.totals.elapsed() >= Duration::from_ms(60));
    assert!(measurement.totals.unfinished.is_empty());
}
