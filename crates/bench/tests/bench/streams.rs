//! Several streams at once: on one model in virtual time, in an order that is always the same.

use seeklab_bench::target::SharedModel;
use seeklab_bench::{Dealt, Lane, Measurement, Plan, Ramp, Stream, StreamPlan, measure};
use seeklab_core::{
    Arrival, Completion, Device, Duration, Instant, Limits, Request, RequestId, TraceRecord, Workload,
    simulate,
};
use seeklab_emulator::clock::Clock;
use seeklab_workloads::Synthetic;

use crate::harness::{Heard, any_number, at_most, device, join, open, options, synthetic, virtual_plan};

const LINES: [&str; 3] = [
    "random,size=4KiB,read=100%,poisson=40/s,requests=700",
    "random,size=64KiB,read=0%,poisson=15/s,requests=300",
    "random,size=8KiB,read=50%,constant=7/s,requests=120",
];

/// Measures one stream for each line on one model, with those threads.
fn measured(name: &str, lines: &[&str], plan: &Plan, threads: u32) -> (Measurement, Vec<TraceRecord>) {
    let model = SharedModel::new("model:x".to_owned(), device(name, &[]));
    on_model(&model, lines, plan, threads)
}

fn on_model(
    model: &SharedModel,
    lines: &[&str],
    plan: &Plan,
    threads: u32,
) -> (Measurement, Vec<TraceRecord>) {
    let mut streams = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let lane = |thread| {
            let target = join(model, &options(100_000));
            let workload = synthetic(line, target.facts().space, number as u64 + 1);
            Lane::new(target, Dealt::new(workload, thread, threads))
        };
        let stream = StreamPlan { device: number as u16, ..any_number() };
        streams.push(Stream::new(stream, (0..threads).map(lane).collect()));
    }
    let mut heard = Heard::default();
    let measurement = measure(plan, Clock::start(), streams, &mut heard).unwrap();
    (measurement, heard.rows)
}

/// Several open workloads as one: whoever arrives first is next.
struct Merged {
    workloads: Vec<Synthetic>,
    arrived: u64,
}

impl Workload for Merged {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        let mut next = None;
        for workload in &mut self.workloads {
            match workload.next_arrival(now) {
                Arrival::Request(request) => {
                    let id = RequestId(self.arrived);
                    self.arrived += 1;
                    return Arrival::Request(Request { id, ..request });
                }
                Arrival::At(time) => next = Some(next.map_or(time, |next: Instant| next.min(time))),
                _ => {}
            }
        }
        next.map_or(Arrival::Finished, Arrival::At)
    }
    fn completed(&mut self, _: &Completion) {}
}

type Row = (Instant, Instant, u64, u32);

fn simulated(mut device: Box<dyn Device>) -> Vec<Row> {
    let space = device.capabilities().into();
    let workloads = LINES.iter().enumerate().map(|(number, line)| synthetic(line, space, number as u64 + 1));
    let mut merged = Merged { workloads: workloads.collect(), arrived: 0 };
    let mut rows = Vec::new();
    simulate(&mut merged, &mut device, Limits::default(), |completion: &Completion| {
        let request = &completion.request;
        rows.push((completion.submitted, completion.completed, request.lbn, request.blocks));
    })
    .unwrap();
    rows.sort();
    rows
}

fn rows(records: &[TraceRecord]) -> Vec<Row> {
    let row = |record: &TraceRecord| (record.arrival, record.completion.unwrap(), record.lbn, record.blocks);
    let mut rows: Vec<Row> = records.iter().map(row).collect();
    rows.sort();
    rows
}

#[test]
fn streams_on_one_model_complete_as_their_merged_requests_do() {
    for name in ["cheetah-36es", "constant", "exponential"] {
        let expected = simulated(device(name, &[]));
        for threads in [1, 3] {
            let (measurement, records) = measured(name, &LINES, &virtual_plan(), threads);
            assert!(rows(&records) == expected, "{name}, {threads} threads");
            let requests: Vec<u64> =
                measurement.streams.iter().map(|totals| totals.part.requests()).collect();
            assert_eq!(requests, [700, 300, 120]);
            assert_eq!(measurement.totals.part.requests(), 1_120);
            for (number, totals) in measurement.streams.iter().enumerate() {
                let rows = records.iter().filter(|row| usize::from(row.device) == number);
                assert_eq!(rows.count() as u64, totals.part.requests());
            }
        }
    }
}

#[test]
fn figures_of_intervals_are_the_sums_of_their_streams() {
    let (measurement, _) = measured("cheetah-36es", &LINES, &virtual_plan(), 2);
    assert!(measurement.intervals.len() > 10);
    for interval in &measurement.intervals {
        let sum: u64 = interval.streams.iter().map(|part| part.requests()).sum();
        assert_eq!(interval.part.requests(), sum);
    }
    for (number, totals) in measurement.streams.iter().enumerate() {
        let sum: u64 = measurement.intervals.iter().map(|interval| interval.streams[number].requests()).sum();
        assert_eq!(totals.part.requests(), sum);
    }
}

#[test]
fn closed_streams_on_one_model_are_the_same_every_time() {
    let lines = [
        "random,size=4KiB,read=100%,closed=4,requests=400",
        "random,size=64KiB,read=0%,closed=2,requests=300",
        "random,size=8KiB,read=50%,poisson=50/s,requests=200",
    ];
    let first = measured("cheetah-36es", &lines, &virtual_plan(), 1).1;
    for _ in 0..5 {
        assert!(measured("cheetah-36es", &lines, &virtual_plan(), 1).1 == first);
    }
}

#[test]
fn model_keeps_its_state_from_phase_to_phase() {
    // 1,000 requests at once, of which 600 are in the burst; the rest come at 100/s.
    let text = "kind = \"limit\"\n[[requests]]\nrate = \"100/s\"\nburst = 600\n[device]\nkind = \"immediate\"\ncapacity_blocks = 1048576\nblock_size = \"512B\"\n";
    let device = seeklab_devices::Description::parse("limited", "", text).unwrap();
    let model = SharedModel::new("model:x".to_owned(), crate::harness::built(&device));
    let line = "random,size=4KiB,read=100%,closed=1,requests=500";
    let elapsed = |measurement: Measurement| measurement.totals.elapsed();
    let first = elapsed(on_model(&model, &[line], &virtual_plan(), 1).0);
    let before = model.time();
    let second = elapsed(on_model(&model, &[line], &virtual_plan(), 1).0);
    assert!(first < Duration::from_ms(100), "{first}");
    assert!((Duration::from_s(3)..Duration::from_s(5)).contains(&second), "{second}");
    assert!(model.time().saturating_since(before) >= second);
}

#[test]
fn streams_on_several_targets_end_together() {
    let clock = Clock::start();
    let stream = |line: &str, threads: u32| {
        let lane = |thread| {
            let target = open("null", clock, &options(16)).unwrap();
            let workload = synthetic(line, target.facts().space, 1);
            Lane::new(target, Dealt::new(workload, thread, threads))
        };
        Stream::new(any_number(), (0..threads).map(lane).collect())
    };
    let streams = vec![
        stream("random,size=4KiB,read=100%,constant=2000/s,requests=1000000", 2),
        stream("random,size=4KiB,read=0%,constant=500/s,requests=1000000", 1),
    ];
    let duration = Duration::from_ms(400);
    let plan = Plan { duration: Some(duration), interval: Some(Duration::from_ms(100)), ..Plan::default() };
    let measurement = measure(&plan, clock, streams, &mut Heard::default()).unwrap();
    // The arrivals of the duration, whatever the machine does beside: the last ones may not be issued in time.
    let arrivals = measurement.streams.iter().map(|totals| totals.part.requests() + totals.unissued);
    assert_eq!(arrivals.collect::<Vec<_>>(), [799, 199]);
    assert!(
        measurement.totals.cost.is_some() && measurement.streams.iter().all(|totals| totals.cost.is_some())
    );
}

#[test]
fn threads_that_share_a_processor_wait_for_it() {
    if std::fs::metadata("/proc/thread-self/schedstat").is_err() {
        eprintln!("skipped: threads_that_share_a_processor_wait_for_it needs schedstat of the kernel");
        return;
    }
    let clock = Clock::start();
    // Each thread stays on one processor, and `null` never lets it sleep.
    let threads = 2 * std::thread::available_parallelism().unwrap().get() as u32;
    let lanes = (0..threads).map(|_| {
        let target = open("null", clock, &options(1)).unwrap();
        let workload =
            synthetic("random,size=4KiB,read=100%,closed=1,requests=1000000000", target.facts().space, 1);
        Lane::new(target, workload)
    });
    let plan = Plan { duration: Some(Duration::from_ms(300)), ..Plan::default() };
    let streams = vec![Stream::new(at_most(threads), lanes.collect())];
    let measurement = measure(&plan, clock, streams, &mut Heard::default()).unwrap();
    for totals in [&measurement.totals, &measurement.streams[0]] {
        let wait = totals.cost.unwrap().processor_wait;
        // Half of their time, if nothing else runs.
        assert!(wait > totals.elapsed() * u64::from(threads) / 10, "{wait} of {threads} threads");
    }
}

/// Measures closed loads on two models of one clock, whose speeds differ; the rows of each.
fn on_two_models(plan: &Plan) -> (Measurement, [Vec<TraceRecord>; 2]) {
    let fast = SharedModel::new("model:fast".to_owned(), device("constant", &[]));
    let slow = fast.beside("model:slow".to_owned(), device("cheetah-36es", &[]));
    let stream = |number: u16, model: &SharedModel| {
        let target = join(model, &options(100_000));
        let workload =
            synthetic("random,size=4KiB,read=50%,closed=2,requests=1000000", target.facts().space, 1);
        Stream::new(StreamPlan { device: number, ..any_number() }, vec![Lane::new(target, workload)])
    };
    let mut heard = Heard::default();
    let measurement =
        measure(plan, Clock::start(), vec![stream(0, &fast), stream(1, &slow)], &mut heard).unwrap();
    let of = |device| heard.rows.iter().filter(|row| row.device == device).copied().collect();
    (measurement, [of(0), of(1)])
}

#[test]
fn models_of_one_clock_see_the_end_of_a_ramp_and_of_a_phase_at_one_time() {
    let length = Duration::from_s(16);
    let plan = Plan { duration: Some(length), ramp: Ramp::Requests(200), ..virtual_plan() };
    let (first, rows) = on_two_models(&plan);
    assert_eq!(first.totals.elapsed().as_s().round(), 16.0, "both begin and end together");
    let [fast, slow] = [0, 1].map(|stream| &first.streams[stream]);
    assert_eq!(fast.begin, slow.begin);
    assert!(rows.iter().all(|rows| rows.len() > 500));
    for _ in 0..4 {
        let (again, of_again) = on_two_models(&plan);
        assert_eq!(of_again, rows, "a run is the same every time");
        assert_eq!((again.totals.begin, again.totals.end), (first.totals.begin, first.totals.end));
    }
}
