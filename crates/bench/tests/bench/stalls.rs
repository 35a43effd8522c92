//! A target that stands still: response times from the intended start show it in full, service times do not.
//!
//! ```text
//! arrivals each 1 ms, service 0.5 ms, stall from 10 s to 12 s: an arrival x after 10 s starts at 12 s + x / 2 while x < 4 s
//! response(x) = 2 s - x / 2 + 0.5 ms
//! ```

use seeklab_bench::{Interval, Plan};
use seeklab_core::{Duration, Instant, Status};
use seeklab_devices::catalog;
use seeklab_devices::fault::FaultParameters;

use crate::harness::{Ruled, at_most, built, model, options, run, virtual_plan};

fn stalled(outstanding_max: u32) -> seeklab_bench::Measurement {
    let mut description = catalog::find("constant").unwrap();
    description.set("service_time", "0.5ms").unwrap();
    let stall = FaultParameters::from_line("stall,at=10s,for=2s").unwrap();
    let description = description.beneath("fault", &stall).unwrap();
    let plan = Plan { duration: Some(Duration::from_s(20)), record: false, ..virtual_plan() };
    let line = "random,size=4KiB,read=100%,constant=1000/s,requests=1000000";
    run((&plan, &at_most(outstanding_max)), model(built(&description), &options(outstanding_max)), line, 1).0
}

/// The closed form: the response time that the share `quantile` of 19,999 requests does not exceed.
fn closed_form_ms(quantile: f64) -> f64 {
    let requests = 19_999.0;
    let backlogged = 4_000.0;
    let above = (quantile * requests - (requests - backlogged)).max(0.0);
    0.5 + above / backlogged * 2_000.0
}

#[test]
fn response_times_of_a_stall_match_the_closed_form() {
    // With room for all, and with room for four.
    for outstanding_max in [100_000, 4] {
        let measurement = stalled(outstanding_max);
        let part = &measurement.totals.part;
        assert_eq!(part.requests(), 19_999);
        let response = part.response();
        for quantile in [0.5, 0.75, 0.85, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0] {
            let found = response.quantile(quantile).unwrap().as_ms();
            let expected = closed_form_ms(quantile);
            assert!(
                (found / expected - 1.0).abs() < 0.01,
                "{outstanding_max}: {quantile}: {found} {expected}"
            );
        }
        let mean_ms = response.moments().mean().unwrap() / 1e6;
        assert!((mean_ms / (0.5 + 0.2 * 1_000.0) - 1.0).abs() < 0.01, "{mean_ms}");
    }
}

#[test]
fn service_times_hide_the_stall_if_few_requests_are_under_way() {
    let measurement = stalled(4);
    let service = measurement.totals.part.service();
    let long = service.buckets().filter(|(upper, _)| *upper > Duration::from_ms(100)).map(|(_, count)| count);
    assert_eq!(long.sum::<u64>(), 4, "as a generator that waits for its target would see it");
    assert!(measurement.totals.part.delayed > 3_900);
}

#[test]
fn pause_is_found_in_its_intervals() {
    let measurement = stalled(100_000);
    let pause_s = |interval: &Interval| interval.part.pause.as_s();
    assert_eq!(measurement.intervals.len(), 20);
    for interval in &measurement.intervals {
        let expected = match interval.index {
            // The first second of the stall, and all of it.
            10 => 1.0,
            11 => 2.0,
            12 => 2.0,
            _ => 0.0,
        };
        assert!((pause_s(interval) - expected).abs() < 0.01, "{}: {}", interval.index, pause_s(interval));
    }
    let stalled = &measurement.intervals[11].part;
    assert_eq!((stalled.requests(), stalled.outstanding), (0, 2_000));
    assert_eq!(stalled.oldest.map(|age| age.as_s().round()), Some(2.0));
    assert!((measurement.totals.part.pause.as_s() - 2.0).abs() < 0.01);
    assert_eq!(measurement.totals.begin, Instant::ZERO);
}

#[test]
fn arrivals_before_a_late_loop_fills_the_target_are_late_and_did_not_wait_for_room() {
    // All 50 arrive in 5 ms, and the loop comes back after 10 ms: the target had room for each of them.
    let target = Ruled::new(Duration::from_us(10), |_| Some(Status::Ok)).lagging(Duration::from_ms(10));
    let line = "random,size=4KiB,read=100%,constant=10000/s,requests=50";
    let (measurement, _) = run((&virtual_plan(), &at_most(4)), Box::new(target), line, 1);
    let part = &measurement.totals.part;
    assert_eq!((part.requests(), part.delayed), (50, 0));
    assert_eq!(part.lateness.moments().count(), 50);
    assert!(part.lateness.moments().min().unwrap() >= 5e6);
}

#[test]
fn mean_outstanding_has_requests_that_never_ended_and_none_that_were_never_issued() {
    // One request never ends and one fails; behind them, two at a time of 1 ms are under way, and most arrivals have no room.
    let rule = |number| match number {
        0 => None,
        1 => Some(Status::MediumError),
        _ => Some(Status::Ok),
    };
    let plan = Plan { duration: Some(Duration::from_s(1)), ..virtual_plan() };
    let line = "random,size=4KiB,read=100%,constant=1000000/s,requests=1000000";
    let target = Box::new(Ruled::new(Duration::from_ms(1), rule));
    let (measurement, heard) = run((&plan, &at_most(3)), target, line, 1);
    let totals = &measurement.totals;
    assert!(totals.unissued > 900_000 && totals.unfinished.len() == 1, "{}", totals.unissued);
    // The same from the rows, of which each is outstanding from its arrival to its completion or to the end.
    let ends = heard.rows.iter().map(|row| row.completion.unwrap_or(totals.end));
    let outstanding_s: f64 =
        heard.rows.iter().zip(ends).map(|(row, end)| end.saturating_since(row.arrival).as_s()).sum();
    let expected = outstanding_s / totals.elapsed().as_s();
    let found = totals.outstanding_mean().unwrap();
    assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
}
