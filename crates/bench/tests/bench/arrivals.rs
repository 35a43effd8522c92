//! Intended times: the arrivals of the workload, whatever the target, the seed and the number of threads.

use seeklab_bench::{Interval, Lane, Late, Plan, Stream, StreamPlan, measure};
use seeklab_core::{Duration, Instant, Operation, Status, TraceRecord};
use seeklab_emulator::clock::Clock;

use crate::harness::{Heard, Ruled, at_most, open, options, run, synthetic, virtual_plan};

/// Kolmogorov-Smirnov distance of gaps to the exponential distribution of that mean.
fn distance_to_exponential(gaps: &mut [f64], mean: f64) -> f64 {
    gaps.sort_by(f64::total_cmp);
    let count = gaps.len() as f64;
    let steps = gaps.iter().enumerate().map(|(index, gap)| {
        let share = 1.0 - (-gap / mean).exp();
        (share - index as f64 / count).abs().max((share - (index + 1) as f64 / count).abs())
    });
    steps.fold(0.0, f64::max)
}

fn arrivals(rows: &[TraceRecord]) -> Vec<Instant> {
    rows.iter().map(|row| row.arrival).collect()
}

#[test]
fn poisson_arrivals_pass_a_kolmogorov_smirnov_test_over_a_thousand_seeds() {
    const REQUESTS: usize = 200;
    let line = format!("random,size=4KiB,read=100%,poisson=1000/s,requests={REQUESTS}");
    let mut rejected = 0;
    for seed in 0..1_000 {
        // Slower than the arrivals, and with so little room that most of them wait.
        let target = Box::new(Ruled::new(Duration::from_ms(3), |_| Some(Status::Ok)));
        let (_, heard) = run((&virtual_plan(), &at_most(2)), target, &line, seed);
        let mut last = Instant::ZERO;
        let gaps = arrivals(&heard.rows).into_iter().map(|arrival| {
            let gap = arrival.saturating_since(last);
            last = arrival;
            gap.as_ns() as f64
        });
        let mut gaps: Vec<f64> = gaps.collect();
        assert_eq!(gaps.len(), REQUESTS);
        // Critical value at 5 % for a distribution that is known wholly.
        rejected += u32::from(distance_to_exponential(&mut gaps, 1e6) * (REQUESTS as f64).sqrt() > 1.358);
    }
    // Binomial around 50 with a standard deviation of 6.9.
    assert!((22..=78).contains(&rejected), "{rejected} of 1,000 seeds at 5 %");
}

#[test]
fn constant_arrivals_never_wait_for_a_slow_target() {
    let target = Box::new(Ruled::new(Duration::from_ms(50), |_| Some(Status::Ok)));
    let (measurement, heard) = run(
        (&virtual_plan(), &at_most(3)),
        target,
        "random,size=4KiB,read=50%,constant=1000/s,requests=500",
        1,
    );
    let expected: Vec<Instant> = (1..=500).map(|ms| Instant::from_ns(ms * 1_000_000)).collect();
    assert_eq!(arrivals(&heard.rows), expected);
    assert_eq!(measurement.totals.part.delayed, 497, "all but the first three found no room");
    // The last one leaves after 500 requests in 167 turns of 50 ms, of three each.
    let last = heard.rows.last().unwrap();
    let (response, issue) = (last.response_time().unwrap(), last.issue.unwrap());
    assert!(response > Duration::from_s(7), "{response}");
    assert_eq!(last.completion.unwrap().saturating_since(issue), Duration::from_ms(50));
}

#[test]
fn worker_that_wakes_late_begins_to_spin_earlier() {
    // Sleeps end 180 us late, and at first a worker spins for 100 us before an arrival.
    let lag = Duration::from_us(180);
    let target = Box::new(Ruled::new(Duration::from_us(10), |_| Some(Status::Ok)).lagging(lag));
    let plan = Plan { is_virtual: false, ..virtual_plan() };
    let (_, heard) =
        run((&plan, &at_most(4)), target, "random,size=4KiB,read=100%,constant=100/s,requests=200", 1);
    let late: Vec<Duration> =
        heard.rows.iter().map(|row| row.issue.unwrap().saturating_since(row.arrival)).collect();
    assert_eq!(late.len(), 200);
    assert_eq!(late[0], Duration::from_us(80));
    let rest = &late[100..];
    assert!(rest.iter().all(|late| *late <= Duration::from_us(3)), "{rest:?}");
}

#[test]
fn load_far_above_the_target_keeps_its_figures_and_ends_on_time() {
    // Of a thousand million arrivals, most are not counted one by one, and nothing that was done is lost.
    let target = Box::new(Ruled::new(Duration::from_ms(5), |_| Some(Status::Ok)));
    let plan = Plan { duration: Some(Duration::from_s(10)), interval: None, record: false, ..virtual_plan() };
    let (measurement, _) = run(
        (&plan, &at_most(1)),
        target,
        "random,size=4KiB,read=50%,constant=100000000/s,requests=1000000000",
        1,
    );
    let totals = &measurement.totals;
    assert_eq!((totals.silent_threads, totals.unfinished.len()), (0, 0));
    assert!((1_999..=2_001).contains(&totals.part.requests()), "{}", totals.part.requests());
    assert!(totals.has_more_unissued && totals.unissued >= 1 << 20, "{}", totals.unissued);
}

#[test]
fn arrivals_before_the_end_are_issued_although_the_generator_is_late() {
    let plan = Plan { duration: Some(Duration::from_us(9_500)), ..virtual_plan() };
    let line = "random,size=4KiB,read=50%,constant=1000/s,requests=1000000";
    let measure = |outstanding_max, service, lag| {
        let target = Ruled::new(service, |_| Some(Status::Ok)).lagging(lag);
        run((&plan, &at_most(outstanding_max)), Box::new(target), line, 1)
    };
    let (service, lag) = (Duration::from_us(100), Duration::from_us(3_400));
    let (measurement, heard) = measure(64, service, lag);
    let expected: Vec<Instant> = (1..=9).map(|ms| Instant::from_ns(ms * 1_000_000)).collect();
    assert_eq!(arrivals(&heard.rows), expected, "those behind the end are left out");
    assert_eq!((measurement.totals.unissued, measurement.totals.part.requests()), (0, 9));
    // Those without room are the target's: it takes two requests and returns none.
    let (measurement, heard) = measure(2, Duration::from_ms(100), lag);
    assert_eq!((measurement.totals.unissued, heard.rows.len()), (7, 2));
    // A thread in time issues no more than before: room at the end is too late.
    let (measurement, _) = measure(1, Duration::from_us(8_500), Duration::ZERO);
    assert_eq!((measurement.totals.unissued, measurement.totals.part.requests()), (8, 1));
}

#[test]
fn last_interval_shows_the_arrivals_that_waited_at_the_end() {
    let target = Box::new(Ruled::new(Duration::from_ms(50), |_| Some(Status::Ok)));
    let plan = Plan { duration: Some(Duration::from_s(3)), ..virtual_plan() };
    let line = "random,size=4KiB,read=50%,constant=1000/s,requests=1000000";
    let (measurement, _) = run((&plan, &at_most(3)), target, line, 1);
    let queued: Vec<u64> = measurement.intervals.iter().map(|interval| interval.part.queued).collect();
    assert!(queued.is_sorted() && queued[0] > 900, "{queued:?}");
    assert_eq!(queued.last(), Some(&measurement.totals.unissued));
}

#[test]
fn intervals_beyond_those_that_are_kept_are_in_the_last_one() {
    let measure = |intervals_max| {
        let target = Box::new(Ruled::new(Duration::from_ms(5), |_| Some(Status::Ok)));
        let (duration, interval) = (Some(Duration::from_s(1)), Some(Duration::from_ms(50)));
        let plan = Plan { duration, interval, intervals_max, ..virtual_plan() };
        run((&plan, &at_most(8)), target, "random,size=4KiB,read=50%,constant=50/s", 1).0
    };
    let (all, few) = (measure(100), measure(3));
    assert_eq!((all.intervals.len(), few.intervals.len()), (20, 3));
    assert_eq!(all.totals.part.requests(), few.totals.part.requests());
    let requests = |intervals: &[Interval]| intervals.iter().map(|one| one.part.requests()).sum::<u64>();
    assert_eq!(requests(&few.intervals), requests(&all.intervals));
    assert_eq!(requests(&few.intervals[..2]), requests(&all.intervals[..2]));
    let last = few.intervals.last().unwrap();
    assert_eq!((last.index, last.part.from.as_ms()), (2, 100.0));
    assert_eq!(last.part.until, all.intervals[19].part.until);
}

#[test]
fn late_arrivals_are_left_out_and_counted_on_request() {
    let target = Box::new(Ruled::new(Duration::from_ms(50), |_| Some(Status::Ok)));
    let stream = StreamPlan { late: Late::Drop, ..at_most(3) };
    let (measurement, heard) =
        run((&virtual_plan(), &stream), target, "random,size=4KiB,read=50%,constant=1000/s,requests=500", 1);
    let part = &measurement.totals.part;
    assert_eq!(part.dropped + part.requests(), 500);
    // Three each 50 ms.
    assert_eq!((part.requests(), heard.rows.len()), (30, 30));
    assert!(heard.rows.iter().all(|row| row.response_time() == Some(Duration::from_ms(50))));
}

#[test]
fn arrival_that_found_no_room_is_left_out_although_there_is_some_when_a_late_generator_comes() {
    let (service, lag) = (Duration::from_us(2_500), Duration::from_us(1_200));
    let target = Ruled::new(service, |_| Some(Status::Ok)).lagging(lag);
    let stream = StreamPlan { late: Late::Drop, ..at_most(1) };
    let line = "random,size=4KiB,read=50%,constant=1000/s,requests=100";
    let (measurement, heard) = run((&virtual_plan(), &stream), Box::new(target), line, 1);
    let part = &measurement.totals.part;
    assert_eq!((part.dropped + part.requests(), part.delayed), (100, 0));
    // The arrival at 8 ms comes before the end of the second request, at 8.4 ms.
    let first: Vec<u64> = arrivals(&heard.rows).iter().take(3).map(|arrival| arrival.as_ns()).collect();
    assert_eq!(first, [1_000_000, 5_000_000, 9_000_000]);
}

#[test]
fn arrivals_that_wait_for_a_connection_are_counted_apart_from_those_that_wait_for_room() {
    let at = |us: u64| Instant::from_ns(us * 1_000);
    let target = || Ruled::new(Duration::from_us(100), |_| Some(Status::Ok)).away(at(2_500)..at(6_500));
    let line = "random,size=4KiB,read=50%,constant=1000/s,requests=10";
    let (measurement, _) = run((&virtual_plan(), &at_most(64)), Box::new(target()), line, 1);
    let part = &measurement.totals.part;
    assert_eq!((part.requests(), part.delayed, part.delayed_away), (10, 4, 4));
    let stream = StreamPlan { late: Late::Drop, ..at_most(64) };
    let (measurement, _) = run((&virtual_plan(), &stream), Box::new(target()), line, 1);
    let part = &measurement.totals.part;
    assert_eq!((part.requests(), part.dropped, part.delayed), (6, 4, 0));
    let slow = Box::new(Ruled::new(Duration::from_ms(3), |_| Some(Status::Ok)));
    let (measurement, _) = run((&virtual_plan(), &at_most(1)), slow, line, 1);
    assert_eq!((measurement.totals.part.delayed, measurement.totals.part.delayed_away), (9, 0));
}

#[test]
fn threads_change_neither_requests_nor_arrivals() {
    let asked = |line: &str, threads: u32| {
        let clock = Clock::start();
        let lanes = (0..threads).map(|index| {
            let target = open("null", clock, &options(64)).unwrap();
            let workload = synthetic(line, target.facts().space, 7).share(index, threads);
            Lane::new(target, workload)
        });
        let mut heard = Heard::default();
        let plan = Plan { record: true, ..Plan::default() };
        let measurement =
            measure(&plan, clock, vec![Stream::new(at_most(64), lanes.collect())], &mut heard).unwrap();
        assert_eq!(measurement.totals.part.requests() as usize, heard.rows.len());
        assert!(arrivals(&heard.rows).is_sorted());
        heard.rows
    };
    let request = |row: &TraceRecord| (row.op, row.lbn, row.blocks);
    let open = "random,size=4KiB:1+64KiB:1,read=70%,poisson=20000/s,requests=2000";
    let one = asked(open, 1);
    assert_eq!(one.len(), 2_000);
    for threads in [2, 3] {
        let several = asked(open, threads);
        let arrived =
            |rows: &[TraceRecord]| -> Vec<_> { rows.iter().map(|row| (row.arrival, request(row))).collect() };
        assert_eq!(arrived(&several), arrived(&one), "{threads} threads");
    }
    let closed = "random,size=4KiB,read=70%,sequential=50%,closed=8,requests=2000";
    let sorted = |rows: &[TraceRecord]| -> Vec<(Operation, u64, u32)> {
        let mut requests: Vec<_> = rows.iter().map(request).collect();
        requests.sort();
        requests
    };
    assert_eq!(sorted(&asked(closed, 3)), sorted(&asked(closed, 1)));
}
