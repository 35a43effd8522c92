//! Phases that end in the steady state, and the end of burst credits.

use seeklab_bench::{Measurement, Plan, SteadyFigure, SteadyRule};
use seeklab_core::{Duration, Instant, Status};
use seeklab_devices::Description;

use crate::harness::{Ruled, any_number, built, model, options, run, virtual_plan};

fn plan(rounds_max: u64, hold: u64) -> Plan {
    let round = Duration::from_s(1);
    let rule = SteadyRule { figure: SteadyFigure::RequestsPerSecond, round, rounds_max, hold };
    Plan {
        steady: Some(rule),
        duration: Some(rule.duration_max()),
        interval: Some(round),
        record: false,
        ..virtual_plan()
    }
}

fn changes(measurement: &Measurement) -> Vec<(u64, bool)> {
    let track = measurement.steady.as_ref().unwrap();
    track.changes().iter().map(|change| (change.round, change.is_reached)).collect()
}

/// AWS's gp2, with fewer credits: a burst of 3,000/s until 27,000 credits are used up, 300/s then.
fn gp2(credits: u64) -> Description {
    let text = format!(
        "kind = \"limit\"\n[[requests]]\nrate = \"300/s\"\nburst = {credits}\n[[requests]]\nrate = \"3000/s\"\nburst = 300\n\
         [device]\nkind = \"exponential\"\nservice_time = \"0.3ms\"\ncapacity_blocks = 1048576\nblock_size = \"512B\"\n"
    );
    Description::parse("gp2", "", &text).unwrap()
}

const CLOSED: &str = "random,size=4KiB,read=100%,closed=8,requests=1000000000";

#[test]
fn phase_ends_with_the_round_that_makes_the_state_steady() {
    let target = Box::new(Ruled::new(Duration::from_ms(1), |_| Some(Status::Ok)));
    let (measurement, _) =
        run((&plan(25, 0), &any_number()), target, "random,size=4KiB,read=100%,closed=1,requests=1000000", 1);
    assert_eq!(changes(&measurement), [(5, true)]);
    assert_eq!(measurement.intervals.len(), 5, "what ends behind belongs to the last round");
    assert_eq!(measurement.totals.begin, Instant::ZERO);
    assert!((Duration::from_s(5)..=Duration::from_ms(5_002)).contains(&measurement.totals.elapsed()));
    assert!(!measurement.is_stopped);
}

#[test]
fn state_that_is_never_steady_ends_with_the_last_round() {
    // Of the requests of a second, twice as many are carried out as of the second before.
    let rule = |number: u64| {
        let is_ok = (number % 1_000) < (2 << (number / 1_000)).min(1_000);
        Some(if is_ok { Status::Ok } else { Status::MediumError })
    };
    let target = Box::new(Ruled::new(Duration::from_ms(1), rule));
    let line = "random,size=4KiB,read=100%,closed=1,requests=1000000";
    let (measurement, _) = run((&plan(7, 3), &any_number()), target, line, 1);
    let track = measurement.steady.as_ref().unwrap();
    assert_eq!((track.changes(), track.figures().len()), (&[][..], 7));
    assert!(track.figures()[6] > 60.0 * track.figures()[0], "{:?}", track.figures());
    assert!(measurement.totals.elapsed() <= Duration::from_ms(7_002), "{}", measurement.totals.elapsed());
}

#[test]
fn end_of_burst_credits_is_found_within_two_rounds() {
    // 27,000 credits at 3,000/s, of which 300/s come back, last 10 s; 54,000 last 20 s.
    for (credits, end_s) in [(27_000, 10), (54_000, 20)] {
        let target = model(built(&gp2(credits)), &options(100_000));
        let (measurement, _) = run((&plan(25, 40), &any_number()), target, CLOSED, 1);
        let found = changes(&measurement);
        assert_eq!(found[0], (5, true), "{found:?}");
        let (left, is_reached) = found[1];
        assert!(!is_reached && (end_s..=end_s + 2).contains(&left), "{credits} credits: {found:?}");
        let figures = measurement.steady.as_ref().unwrap().figures().to_vec();
        assert!(figures[2] > 2_900.0 && figures[figures.len() - 1] < 310.0, "{figures:?}");
        assert!(found[2].1, "300/s is steady again: {found:?}");
        assert_eq!(figures.len(), 45, "the state is held for 40 rounds");
    }
}
