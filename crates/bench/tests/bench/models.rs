//! Models in virtual time: measured as they are simulated, to the nanosecond.

use seeklab_bench::{Plan, Ramp, Stream, StreamPlan, measure};
use seeklab_core::{Arrival, Completion, Duration, Instant, Limits, Operation, Seed, Workload, simulate};
use seeklab_workloads::{Retries, Retrying, Supplied, Synthetic, SyntheticSpec};

use crate::harness::{any_number, built, device, model, options, run, virtual_plan};

type Row = (Instant, Instant, Operation, u64, u32);

/// The requests of a simulation, in order of arrival.
fn simulated(device: &mut Box<dyn seeklab_core::Device>, workload: &mut dyn Workload) -> Vec<Row> {
    let mut rows = Vec::new();
    simulate(workload, device, Limits::default(), |completion: &Completion| {
        let request = &completion.request;
        let row = (completion.submitted, completion.completed, request.op, request.lbn, request.blocks);
        rows.push((request.id, row));
    })
    .unwrap();
    rows.sort_by_key(|(id, _)| *id);
    rows.into_iter().map(|(_, row)| row).collect()
}

#[test]
fn measured_model_completes_at_the_times_of_the_simulated_one() {
    for name in ["constant", "exponential", "cheetah-36es", "hp-c2247a", "immediate"] {
        for line in [
            "random,size=8KiB,read=66%,poisson=60/s,requests=2000",
            "random,size=4KiB:3+64KiB:1,read=50%,poisson=150/s,requests=1000",
            "sequential,size=64KiB,read=100%,closed=1,requests=1000",
            "random,size=8KiB,read=66%,closed=8,think=20ms,requests=1000",
            "random,size=4KiB,read=100%,closed=32,requests=2000",
        ] {
            let Ok(spec) = SyntheticSpec::parse(line) else { panic!("{line}") };
            let mut simulating = device(name, &[]);
            let space = simulating.capabilities().into();
            let mut workload = Synthetic::new(&spec, space, Seed(3), Supplied::default()).unwrap();
            let expected = simulated(&mut simulating, &mut workload);
            let target = model(device(name, &[]), &options(100_000));
            let (measurement, heard) = run((&virtual_plan(), &any_number()), target, line, 3);
            let measured: Vec<Row> = heard
                .rows
                .iter()
                .map(|row| (row.arrival, row.completion.unwrap(), row.op, row.lbn, row.blocks))
                .collect();
            assert!(measured == expected, "{name}, {line}");
            let span = expected.iter().map(|row| row.1).max().unwrap().saturating_since(expected[0].0);
            assert_eq!(measurement.totals.elapsed(), span, "{name}, {line}");
            let mean =
                |times: &mut dyn Iterator<Item = Duration>| times.map(Duration::as_ns).sum::<u64>() as f64;
            let response =
                mean(&mut expected.iter().map(|row| row.1.saturating_since(row.0))) / expected.len() as f64;
            let found = measurement.totals.part.response().moments().mean().unwrap();
            assert!((found - response).abs() <= 1e-12 * response, "{name}, {line}: {found} {response}");
        }
    }
}

#[test]
fn retried_requests_are_those_of_the_simulated_host() {
    let fault = seeklab_devices::fault::FaultParameters::from_line("aborted,probability=20%").unwrap();
    let description = seeklab_devices::catalog::find("cheetah-36es").unwrap();
    let description = description.beneath("fault", &fault).unwrap();
    let line = "random,size=8KiB,read=66%,poisson=40/s,requests=2000";
    let retries = Retries { count: 2, after: Duration::from_ms(5) };
    let spec = SyntheticSpec::parse(line).unwrap();
    let mut simulating = built(&description);
    let space = simulating.capabilities().into();
    let workload = Synthetic::new(&spec, space, Seed(3), Supplied::default()).unwrap();
    let mut retrying = Retrying::new(workload, retries);
    let expected = simulated(&mut simulating, &mut retrying);
    let stream = StreamPlan { retries, ..any_number() };
    let (measurement, heard) =
        run((&virtual_plan(), &stream), model(built(&description), &options(100_000)), line, 3);
    let measured: Vec<Row> = heard
        .rows
        .iter()
        .map(|row| (row.arrival, row.completion.unwrap(), row.op, row.lbn, row.blocks))
        .collect();
    assert!(measured == expected, "attempt by attempt");
    let (counts, part) = (retrying.counts(), &measurement.totals.part);
    assert!(counts.retries > 300 && counts.abandoned_requests > 5, "{counts:?}");
    assert_eq!(
        (part.retries, part.retried, part.failed),
        (counts.retries, counts.retried_requests, counts.abandoned_requests)
    );
    assert_eq!(part.requests() + part.failed, 2_000);
    assert_eq!(part.attempts, part.requests() + part.errors());
}

#[test]
fn ramp_up_is_not_counted() {
    let target = || model(device("constant", &[("service_time", "1ms")]), &options(100));
    let line = "random,size=4KiB,read=100%,closed=4,requests=1000000";
    let counted = |ramp, duration| {
        let plan = Plan { ramp, duration: Some(duration), record: false, ..virtual_plan() };
        let (measurement, _) = run((&plan, &any_number()), target(), line, 1);
        let totals = measurement.totals;
        (totals.begin, totals.elapsed(), totals.part.requests(), measurement.intervals.len())
    };
    let s = Duration::from_s;
    // One request each millisecond, and the four under way at the end are waited for.
    assert_eq!(counted(Ramp::None, s(5)), (Instant::ZERO, Duration::from_ms(5_003), 5_003, 5));
    let (begin, elapsed, requests, intervals) = counted(Ramp::Time(s(2)), s(5));
    assert_eq!((begin, elapsed, intervals), (Instant::from_ns(2_000_000_000), Duration::from_ms(5_003), 5));
    // The four that had arrived before do not count.
    assert!((4_999..=5_003).contains(&requests), "{requests}");
    let (begin, _, requests, _) = counted(Ramp::Requests(100), s(5));
    assert_eq!(begin, Instant::from_ns(100_000_000));
    assert!((4_999..=5_003).contains(&requests), "{requests}");
}

/// A workload that ends at once.
struct Nothing;

impl Workload for Nothing {
    fn next_arrival(&mut self, _: Instant) -> Arrival {
        Arrival::Finished
    }
    fn completed(&mut self, _: &Completion) {}
}

#[test]
fn workload_without_requests_ends_without_figures() {
    let target = model(device("constant", &[]), &options(4));
    let lanes = vec![seeklab_bench::Lane::new(target, Nothing)];
    let clock = seeklab_emulator::clock::Clock::start();
    let mut heard = crate::harness::Heard::default();
    let measurement =
        measure(&virtual_plan(), clock, vec![Stream::new(any_number(), lanes)], &mut heard).unwrap();
    assert_eq!((measurement.totals.part.attempts, measurement.totals.elapsed()), (0, Duration::ZERO));
}
