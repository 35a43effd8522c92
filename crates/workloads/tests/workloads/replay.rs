//! Tests that a replay issues each request at the time that its mode prescribes.

use std::convert::Infallible;

use seeklab_core::{
    Duration, Instant, Limits, Mistake, Operation, Ratio, Request, Simulation, TraceRecord, simulate,
};
use seeklab_workloads::WorkloadSpec;
use seeklab_workloads::replay::{
    Beyond, Counters, FedReplay, Mode, Replay, ReplayError, ReplaySpec, Settings, Survey,
};

use crate::common::{Server, Service, TARGET, arrivals};

const SERVICE: Duration = Duration::from_ms(4);

fn settings(mode: Mode) -> Settings {
    Settings {
        mode,
        beyond: Beyond::Error,
        capacity_blocks: TARGET.capacity_blocks,
        address_range_blocks: 0,
        requests: None,
        device: None,
        from: Instant::ZERO,
        devices: None,
    }
}

fn at_ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_ms(ms)
}

/// Reads of 8 blocks that arrive at these times, each at 100 times its row, counted from zero.
fn trace(arrivals_ms: &[u64]) -> Vec<TraceRecord> {
    let record =
        |(index, ms): (usize, &u64)| TraceRecord::new(at_ms(*ms), Operation::Read, 100 * index as u64, 8);
    arrivals_ms.iter().enumerate().map(record).collect()
}

fn ok(records: Vec<TraceRecord>) -> impl Iterator<Item = Result<TraceRecord, Infallible>> + Clone {
    records.into_iter().map(Ok)
}

/// Submission times in milliseconds on a device with constant service time.
fn submissions(
    records: Vec<TraceRecord>,
    settings: Settings,
) -> (Vec<f64>, Result<Counters, ReplayError<Infallible>>) {
    let mut replay = Replay::new(ok(records), settings);
    let mut times = Vec::new();
    let mut server = Server::new(Service::Constant(SERVICE));
    simulate(&mut replay, &mut server, Limits::default(), |completion| {
        times.push(completion.submitted.as_ms())
    })
    .unwrap();
    (times, replay.into_result())
}

#[test]
fn open_replay_keeps_arrival_times() {
    let (times, counters) = submissions(trace(&[3, 3, 4, 50]), settings(Mode::Open));
    assert_eq!(times, [3.0, 3.0, 4.0, 50.0]);
    assert_eq!(counters, Ok(Counters { read: 4, issued: 4, ..Counters::default() }));
}

#[test]
fn scaling_divides_interarrival_times() {
    for (factor, expect) in [("2", [1.5, 2.0, 25.0]), ("1/2", [6.0, 8.0, 100.0])] {
        let factor: Ratio = factor.parse().unwrap();
        let (times, _) = submissions(trace(&[3, 4, 50]), settings(Mode::Scaled { factor }));
        assert_eq!(times, expect);
    }
}

#[test]
fn record_out_of_order_arrives_with_its_predecessor() {
    let (times, counters) = submissions(trace(&[3, 9, 5, 12]), settings(Mode::Open));
    assert_eq!(times, [3.0, 9.0, 9.0, 12.0]);
    assert_eq!(counters.unwrap().out_of_order, 1);
}

#[test]
fn closed_replay_issues_the_next_at_each_completion() {
    let (times, _) =
        submissions(trace(&[0, 1_000, 2_000, 3_000, 4_000]), settings(Mode::Closed { population: 2 }));
    // The server takes 4 ms for each in turn, so after the first two one is issued every 4 ms.
    assert_eq!(times, [0.0, 0.0, 4.0, 8.0, 12.0]);
}

#[test]
fn population_larger_than_the_trace_issues_every_request() {
    let (times, counters) = submissions(trace(&[7, 8]), settings(Mode::Closed { population: 100 }));
    assert_eq!((times.len(), counters.unwrap().issued), (2, 2));
}

#[test]
fn think_times_are_exact() {
    let mut records = trace(&[2, 500, 500, 500]);
    let thinks = [Some(10), Some(0), Some(7), None];
    for (record, think) in records.iter_mut().zip(thinks) {
        record.think = think.map(Duration::from_ms);
    }
    let (times, counters) = submissions(records, settings(Mode::Think));
    // 2, 2 + 4 + 10, 16 + 4 + 0, 20 + 4 + 7; the last record needs no think time.
    assert_eq!(times, [2.0, 16.0, 20.0, 31.0]);
    assert_eq!(counters.unwrap().issued, 4);
}

#[test]
fn missing_think_time_is_an_error_that_names_the_record() {
    let mut records = trace(&[0, 0, 0]);
    records[0].think = Some(Duration::ZERO);
    let (times, result) = submissions(records, settings(Mode::Think));
    assert_eq!(times.len(), 2);
    let error = result.unwrap_err();
    assert_eq!(error, ReplayError::NoThinkTime { row: 2 });
    assert_eq!(
        error.to_string(),
        "record 2 of the trace has no think time, which a replay with think times needs"
    );
}

#[test]
fn process_thinks_after_a_dropped_request_too() {
    let mut records = trace(&[0, 0, 0]);
    records.iter_mut().for_each(|record| record.think = Some(Duration::from_ms(5)));
    records[1].lbn = TARGET.capacity_blocks;
    let (times, counters) = submissions(records, Settings { beyond: Beyond::Drop, ..settings(Mode::Think) });
    assert_eq!(times, [0.0, 14.0]);
    assert_eq!(counters.unwrap().dropped, 1);
}

#[test]
fn requests_beyond_the_end_are_reported_moved_or_dropped() {
    let capacity = TARGET.capacity_blocks;
    let mut records = trace(&[0, 1, 2]);
    records[1].lbn = capacity + 1_000;
    let address_range_blocks = Survey::of(ok(records.clone()), None).unwrap().address_range_blocks();
    assert_eq!(address_range_blocks, capacity + 1_008);
    let replay = |beyond| {
        let mut replay = Replay::new(
            ok(records.clone()),
            Settings { beyond, address_range_blocks, ..settings(Mode::Open) },
        );
        let lbns: Vec<u64> = arrivals(&mut replay).iter().map(|(_, request)| request.lbn).collect();
        (lbns, replay.into_result())
    };
    let (lbns, result) = replay(Beyond::Error);
    assert_eq!(lbns, [0]);
    assert_eq!(
        result.unwrap_err().to_string(),
        "record 2 of the trace: 8 blocks at lbn 16778216 lie beyond the end of the device, which has 16777216 blocks"
    );
    let (lbns, counters) = replay(Beyond::Wrap);
    assert_eq!((lbns, counters.unwrap().wrapped), (vec![0, 1_007, 200], 1));
    let (lbns, counters) = replay(Beyond::Drop);
    assert_eq!((lbns, counters.unwrap().dropped), (vec![0, 200], 1));
    let (lbns, counters) = replay(Beyond::Scale);
    let counters = counters.unwrap();
    assert_eq!((lbns[0], lbns[1], lbns[2]), (0, capacity - 8, 199));
    assert_eq!((counters.scaled, counters.issued), (2, 3));
}

#[test]
fn read_error_ends_the_replay_and_names_its_record() {
    let records = trace(&[1, 2]).into_iter().map(Ok).chain([Err(std::fmt::Error)]);
    let mut replay = Replay::new(records, settings(Mode::Open));
    assert_eq!(arrivals(&mut replay).len(), 2);
    let failure = replay.failure().unwrap();
    assert_eq!(failure, &ReplayError::Trace { row: 3, source: std::fmt::Error });
    assert!(std::error::Error::source(failure).is_some());
    assert!(replay.into_result().is_err());
}

#[test]
fn devices_are_kept_chosen_or_numbered_densely() {
    let mut records = trace(&[0, 1, 2, 3]);
    for (record, device) in records.iter_mut().zip([7, 2, 7, 40]) {
        record.device = device;
    }
    let survey = Survey::of(ok(records.clone()), None).unwrap();
    assert_eq!(survey.devices().clone().into_iter().collect::<Vec<_>>(), [(2, 1), (7, 2), (40, 1)]);
    let map = survey.device_map();
    assert_eq!((map.len(), map.original(1), map.dense(3)), (3, Some(7), None));
    let devices = |settings| {
        let mut replay = Replay::new(ok(records.clone()), settings);
        arrivals(&mut replay).iter().map(|(_, request): &(_, Request)| request.device).collect::<Vec<_>>()
    };
    assert_eq!(devices(settings(Mode::Open)), [7, 2, 7, 40]);
    assert_eq!(devices(Settings { devices: Some(map), ..settings(Mode::Open) }), [1, 0, 1, 2]);
    assert_eq!(devices(Settings { device: Some(7), ..settings(Mode::Open) }), [7, 7]);
}

#[test]
fn number_of_requests_is_limited() {
    let (times, counters) =
        submissions(trace(&[0, 1, 2, 3]), Settings { requests: Some(2), ..settings(Mode::Open) });
    assert_eq!(times, [0.0, 1.0]);
    assert_eq!(counters.unwrap(), Counters { read: 2, issued: 2, ..Counters::default() });
}

#[test]
fn automatic_population_is_the_time_average() {
    let mut records = trace(&[0, 10, 20, 30]);
    for (record, completion) in records.iter_mut().zip([30, 40, 50, 60]) {
        record.completion = Some(at_ms(completion));
    }
    // Four requests of 30 ms in 60 ms: two outstanding on average.
    let survey = Survey::of(ok(records.clone()), None).unwrap();
    assert_eq!((survey.mean_outstanding(), survey.population()), (Ok(2.0), Ok(2)));
    let WorkloadSpec::Replay(spec) = WorkloadSpec::parse("replay,arrivals=closed auto").unwrap() else {
        unreachable!()
    };
    assert!(spec.needs_survey());
    assert_eq!(spec.settings(100, Some(&survey)).unwrap().mode, Mode::Closed { population: 2 });
    assert_eq!(spec.settings(100, None).unwrap_err().mistake(), Mistake::NotSupplied);

    // Hardly busy: at least one.
    records.truncate(1);
    records[0].completion = Some(at_ms(1));
    records.push(TraceRecord {
        completion: Some(at_ms(1_001)),
        ..TraceRecord::new(at_ms(1_000), Operation::Read, 0, 8)
    });
    assert_eq!(Survey::of(ok(records.clone()), None).unwrap().population(), Ok(1));

    records[1].completion = None;
    let error = Survey::of(ok(records), None).unwrap().population().unwrap_err();
    assert_eq!(
        error.to_string(),
        "arrivals: `auto` needs completion times, which record 2 of the trace does not have"
    );
}

#[test]
fn settings_without_the_survey_they_need_are_refused() {
    let check = |spec: ReplaySpec, expect: &str| {
        assert_eq!(spec.settings(100, None).unwrap_err().to_string(), expect);
    };
    let spec = |line: &str| match WorkloadSpec::parse(line).unwrap() {
        WorkloadSpec::Replay(spec) => spec,
        _ => unreachable!(),
    };
    check(spec("replay,arrivals=follow"), "arrivals: needs a survey of the trace beforehand");
    check(spec("replay,arrivals=closed auto"), "arrivals: needs a survey of the trace beforehand");
    check(spec("replay,beyond=scale"), "beyond: needs a survey of the trace beforehand");
}

/// A device with a constant service time that serves any number at once: completions at submission + `service`.
fn on_a_device(service: Duration, records: &[TraceRecord]) -> Vec<f64> {
    let survey = Survey::of(ok(records.to_vec()), None).unwrap();
    let WorkloadSpec::Replay(spec) = WorkloadSpec::parse("replay,arrivals=follow").unwrap() else {
        unreachable!()
    };
    let settings = spec.settings(TARGET.capacity_blocks, Some(&survey)).unwrap();
    let mut replay = Replay::new(ok(records.to_vec()), settings);
    let mut times = Vec::new();
    let mut server = Server::new(Service::Constant(service));
    simulate(&mut replay, &mut server, Limits::default(), |completion| {
        times.push(completion.submitted.as_ms())
    })
    .unwrap();
    let counts = replay.dependencies().unwrap();
    assert_eq!(counts.after_idle + counts.after_completion + counts.independent, records.len() as u64);
    times
}

#[test]
fn follow_keeps_the_think_times_of_requests_that_waited() {
    // One at a time: 4 ms of service, then 6 ms until the next.
    let mut records = trace(&[0, 10, 20, 30]);
    for record in &mut records {
        record.completion = Some(record.arrival + SERVICE);
    }
    assert_eq!(on_a_device(SERVICE, &records), [0.0, 10.0, 20.0, 30.0], "the same device");
    assert_eq!(on_a_device(Duration::from_ms(14), &records), [0.0, 20.0, 40.0, 60.0], "a slower one");
    assert_eq!(on_a_device(Duration::from_ms(1), &records), [0.0, 7.0, 14.0, 21.0], "a faster one");
}

#[test]
fn follow_needs_completion_times_and_survives_disorder() {
    let survey = Survey::of(ok(trace(&[0, 10])), None).unwrap();
    let error = survey.following().unwrap_err();
    assert_eq!(
        error.to_string(),
        "arrivals: `follow` needs completion times, which no record of the trace has"
    );
    let mut records = trace(&[30, 10, 20]);
    for record in &mut records {
        record.completion = Some(record.arrival + SERVICE);
    }
    assert_eq!(on_a_device(SERVICE, &records), [30.0, 30.0, 30.0]);
}

#[test]
fn fed_replay_arrives_as_one_that_reads() {
    let records = trace(&[3, 9, 12, 50]);
    let mut replay = FedReplay::fed(settings(Mode::Open));
    let mut server = Server::new(Service::Constant(SERVICE));
    let mut simulation = Simulation::new(Limits::default());
    let mut times = Vec::new();
    for record in &records {
        replay.push(record).unwrap();
        simulation
            .run_until_finished(&mut replay, &mut server, |completion| {
                times.push(completion.submitted.as_ms())
            })
            .unwrap();
    }
    assert_eq!(times, [3.0, 9.0, 12.0], "the last stays outstanding");
    let summary = simulation
        .run(&mut replay, &mut server, |completion| times.push(completion.submitted.as_ms()))
        .unwrap();
    assert_eq!((times, summary.requests), (vec![3.0, 9.0, 12.0, 50.0], 4));
}
