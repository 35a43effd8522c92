//! Tests of every kind of fault: times to the nanosecond, outcomes, and counts.

use seeklab_core::{Completion, Device, Duration, Instant, Operation, Request, Seed, Status};
use seeklab_devices::Description;
use seeklab_devices::fault::{FaultParameters, FaultTable};

/// A device with faults that serves one request at a time, for 1 ms each.
fn device(faults: &[&str]) -> Box<dyn Device> {
    let text = "kind = \"constant\"\ncapacity_blocks = 1000\nblock_size = \"512B\"\nservice_time = \"1ms\"\n";
    let device = Description::parse("server", "server", text).unwrap();
    let fault = faults.iter().map(|line| FaultTable::from_line(line).unwrap()).collect();
    device.beneath("fault", &FaultParameters { fault }).unwrap().build(Seed(1), "disk0").unwrap()
}

fn us(us: u64) -> Instant {
    Instant::ZERO + Duration::from_us(us)
}

/// Completions of requests at these times, in order of their numbers.
fn run(faults: &[&str], requests: &[(Instant, Operation, u64, u32)]) -> Vec<Completion> {
    let mut device = device(faults);
    let mut completions = Vec::new();
    for (id, (at, op, lbn, blocks)) in requests.iter().enumerate() {
        device.poll(*at, &mut completions);
        device.submit(*at, Request::new(id as u64, *op, *lbn, *blocks)).unwrap();
    }
    while let Some(event) = device.next_event() {
        device.poll(event, &mut completions);
    }
    assert!(completions.is_sorted_by_key(|completion| completion.completed));
    completions.sort_by_key(|completion| completion.request.id.0);
    for completion in &completions {
        assert_eq!(completion.breakdown.total(), completion.response_time(), "{completion:?}");
    }
    completions
}

/// Times of completion in microseconds, and statuses, of reads of block 0 at these times in microseconds.
fn reads(faults: &[&str], times: &[u64]) -> Vec<(u64, Status)> {
    let requests: Vec<_> = times.iter().map(|time| (us(*time), Operation::Read, 0, 8)).collect();
    let completions = run(faults, &requests);
    completions.iter().map(|done| (done.completed.as_ns() / 1_000, done.outcome.status)).collect()
}

fn ok(times: &[u64]) -> Vec<(u64, Status)> {
    times.iter().map(|time| (*time, Status::Ok)).collect()
}

#[test]
fn delayed_reply_leaves_the_device_free_and_a_busy_device_does_not() {
    assert_eq!(reads(&["delay,add=20ms,every=2"], &[0, 0, 0]), ok(&[1_000, 22_000, 3_000]));
    assert_eq!(reads(&["delay,add=20ms,every=2,holds=device"], &[0, 0, 0]), ok(&[1_000, 22_000, 23_000]));
    let both = ["delay,add=20ms,holds=device", "delay,name=other,add=5ms"];
    assert_eq!(reads(&both, &[0, 0]), ok(&[26_000, 47_000]), "times add up");
}

#[test]
fn stalled_device_goes_on_where_it_stood() {
    let stall = ["stall,at=10ms,for=5ms,repeat=20ms"];
    let times = [9_500, 12_000, 16_100, 30_500];
    assert_eq!(reads(&stall, &times), ok(&[15_500, 16_500, 17_500, 36_000]));
}

#[test]
fn slow_device_takes_longer_by_the_factor_within_the_window() {
    let slow = ["slow,factor=3,at=10ms,for=6ms"];
    // The first is half done when the window begins, the last two thirds when it ends.
    assert_eq!(reads(&slow, &[9_500, 11_500, 20_000]), ok(&[11_500, 14_500, 21_000]));
    assert_eq!(reads(&slow, &[14_000]), ok(&[16_333]));
    let twice = ["slow,factor=3,at=10ms,for=6ms", "slow,factor=2,at=10ms,for=60ms"];
    assert_eq!(reads(&twice, &[10_000, 20_000]), ok(&[16_000, 22_000]), "factors multiply");
}

#[test]
fn corrected_request_is_carried_out_and_keeps_the_device_busy() {
    let done = run(
        &["recovered,add=11ms,op=read"],
        &[(us(0), Operation::Read, 4, 8), (us(0), Operation::Write, 4, 8)],
    );
    assert_eq!((done[0].completed, done[0].outcome.status), (us(12_000), Status::Recovered));
    assert_eq!(done[0].outcome.good_blocks, 8);
    assert_eq!((done[1].completed, done[1].outcome.status), (us(13_000), Status::Ok));
}

#[test]
fn medium_error_tells_the_good_blocks_and_lasts_as_described() {
    let reads_and_writes = |fault: &str| -> Vec<(Status, u32)> {
        let ops = [
            (Operation::Read, 0, 10),
            (Operation::Read, 9, 4),
            (Operation::Read, 12, 8),
            (Operation::Write, 10, 2),
            (Operation::Read, 8, 8),
        ];
        let requests = ops.map(|(op, lbn, blocks)| (us(0), op, lbn, blocks));
        let done = run(&[fault], &requests);
        done.iter().map(|done| (done.outcome.status, done.outcome.good_blocks)).collect()
    };
    use Status::{MediumError, Ok};
    let blocks = "blocks=5120B..6144B"; // Blocks 10 and 11.
    let until_rewritten = reads_and_writes(&format!("medium_error,{blocks},lasting=until_rewritten"));
    assert_eq!(until_rewritten, [(Ok, 10), (MediumError, 1), (Ok, 8), (Ok, 2), (Ok, 8)]);
    let of_reads = reads_and_writes(&format!("medium_error,{blocks},op=read"));
    assert_eq!(of_reads, [(Ok, 10), (MediumError, 1), (Ok, 8), (Ok, 2), (MediumError, 2)]);
    let of_all = reads_and_writes(&format!("medium_error,{blocks}"));
    assert_eq!(of_all[3], (MediumError, 0));
    // The fault itself is over after the second request: its blocks stay bad.
    let sticky = reads_and_writes("medium_error,every=2,size=..2KiB,lasting=sticky");
    assert_eq!(sticky, [(Ok, 10), (Ok, 4), (Ok, 8), (MediumError, 0), (MediumError, 2)]);
    let of_reads = reads_and_writes("medium_error,every=2,op=read,lasting=sticky,blocks=5120B..5632B");
    assert_eq!(
        of_reads,
        [(Ok, 10), (Ok, 4), (Ok, 8), (Ok, 2), (MediumError, 2)],
        "a write meets no error of reads"
    );
}

#[test]
fn refused_requests_end_after_their_time_and_never_reach_the_device() {
    let done = run(
        &["write_protected,at=1ms,for=10ms", "no_space,after=4", "aborted,op=flush,add=7us"],
        &[
            (us(0), Operation::Write, 0, 8),
            (us(1_000), Operation::Write, 0, 8),
            (us(1_000), Operation::Read, 0, 8),
            (us(1_000), Operation::Flush, 0, 0),
            (us(20_000), Operation::Write, 0, 8),
            (us(20_000), Operation::Discard, 0, 8),
        ],
    );
    let seen: Vec<_> = done.iter().map(|done| (done.completed, done.outcome.status)).collect();
    let expected = [
        (us(1_000), Status::Ok),
        (us(1_100), Status::WriteProtected),
        (us(2_000), Status::Ok),
        (us(1_007), Status::Aborted),
        (us(20_100), Status::NoSpace),
        (us(21_000), Status::Ok),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn hanging_request_ends_with_the_fault_or_with_the_patience_of_the_host() {
    let hangs = ["timeout,timeout=30ms,at=10ms,for=50ms"];
    let expected =
        [(1_000, Status::Ok), (40_000, Status::Timeout), (61_000, Status::Ok), (62_000, Status::Ok)];
    assert_eq!(reads(&hangs, &[0, 10_000, 31_000, 60_000]), expected);
    assert_eq!(reads(&["timeout"], &[5]), [(30_000_005, Status::Timeout)]);
}

#[test]
fn device_that_goes_fails_what_it_had_and_what_comes_until_it_is_back() {
    let gone = ["gone,at=10ms,for=5ms"];
    let expected = [
        (10_000, Status::Gone),
        (10_000, Status::Gone),
        (14_100, Status::Gone),
        // What was begun is still under way.
        (17_000, Status::Ok),
    ];
    let seen = reads(&gone, &[9_500, 9_600, 14_000, 16_000]);
    assert_eq!(seen, expected);
}

#[test]
fn strikes_are_as_frequent_as_described() {
    const N: u64 = 100_000;
    let count = |fault: &str| {
        let times: Vec<u64> = (0..N).map(|index| index * 2_000).collect();
        reads(&[fault], &times).iter().filter(|(_, status)| *status == Status::Aborted).count() as f64
    };
    // Four standard deviations of the binomial distribution.
    let near = |count: f64, share: f64, of: f64| {
        (count - of * share).abs() < 4.0 * (of * share * (1.0 - share)).sqrt()
    };
    let n = N as f64;
    assert!(near(count("aborted,probability=1%"), 0.01, n));
    assert!(near(count("aborted,probability=30%,every=10"), 0.3, n / 10.0));
    assert_eq!(count("aborted,every=7"), (N / 7) as f64);
    assert_eq!(count("aborted,after=99990"), 10.0);
    assert_eq!(count("aborted,at=100s,for=20s"), 10_000.0);
    // From 0 to 100 % over 100 s of the 200 s: a quarter of the requests on average less than that.
    assert!(near(count("aborted,ramp=200s"), 0.5, n));
}

#[test]
fn another_fault_moves_no_draw() {
    let times: Vec<u64> = (0..20_000).map(|index| index * 5_000).collect();
    let aborted = |faults: &[&str]| -> Vec<usize> {
        let done = reads(faults, &times);
        let failed = done.iter().enumerate().filter(|(_, (_, status))| *status == Status::Aborted);
        failed.map(|(index, _)| index).collect()
    };
    let alone = aborted(&["aborted,probability=5%"]);
    let beside = aborted(&["delay,add=exponential 1ms,probability=50%", "aborted,probability=5%"]);
    assert_eq!(alone, beside);
    assert_ne!(alone, aborted(&["aborted,name=other,probability=5%"]));
}

#[test]
fn mistakes_in_a_fault_name_key_value_and_what_is_allowed() {
    for (line, parts) in [
        ("delay", &["add: is missing, and `delay` needs it"][..]),
        ("melt,at=1s", &["unknown name `melt`", "medium_error"]),
        ("delay,add=3", &["add", "unit"]),
        ("delay,add=30ms..10ms", &["add: 30ms..10ms", "longer time behind"]),
        ("delay,add=1ms,factor=2", &["factor: is no key of `delay`", "add, holds, ramp"]),
        ("stall,for=1s,op=read", &["op: selects requests", "at, for and repeat"]),
        ("aborted,probability=120%", &["probability", "100%"]),
        ("aborted,repeat=5s", &["repeat", "together with `for`"]),
        ("aborted,for=1ns,repeat=2ns", &["repeat: 2ns", "at least 1us"]),
        ("aborted,for=1s,repeat=about 0s", &["repeat: about 0s", "at least 1us"]),
        ("delay,add=0s..500years", &["add: 500years", "at most"]),
        ("timeout,timeout=500years", &["timeout", "8760h"]),
        ("aborted,at=500years", &["at", "8760h"]),
        ("aborted,for=5s,repeat=3s", &["repeat: 3s", "at least 5s"]),
        ("aborted,op=reed", &["op: reed", "read, write"]),
        ("no_space,op=read", &["op: `read` cannot meet `no_space`", "write"]),
        ("aborted,blocks=2GiB..1GiB", &["blocks: 2GiB..1GiB", "the end above the start"]),
        ("aborted,queue_length=9..3", &["queue_length: 9..3"]),
        ("aborted,every=0", &["every"]),
        ("aborted,at=1s,at=2s", &["at: is given twice"]),
        ("aborted,often", &["`often` has no `=`"]),
    ] {
        let error = FaultTable::from_line(line).unwrap_err();
        let text = format!("{error}; {}", error.advice().unwrap_or_default());
        assert!(parts.iter().all(|part| text.contains(part)), "{line}: {text}");
    }
    let twice = ["aborted,name=a", "delay,name=a,add=1ms"].map(|line| FaultTable::from_line(line).unwrap());
    let error = FaultParameters { fault: twice.to_vec() }.checked().unwrap_err();
    assert_eq!(error.to_string(), "fault[1].name: `a` names two faults");
}

#[test]
fn completion_names_the_faults_of_every_layer_that_struck() {
    let text = "kind = \"constant\"\ncapacity_blocks = 1000\nblock_size = \"512B\"\nservice_time = \"1ms\"\n";
    let device = Description::parse("server", "server", text).unwrap();
    let layer = |lines: &[&str]| FaultParameters {
        fault: lines.iter().map(|line| FaultTable::from_line(line).unwrap()).collect(),
    };
    let inner =
        device.beneath("fault", &layer(&["recovered,add=1ms,every=3", "delay,add=1ms,every=4"])).unwrap();
    let outer = inner.beneath("fault", &layer(&["delay,name=far,add=1ms,every=2"])).unwrap();
    let mut device = outer.build(Seed(1), "disk0").unwrap();
    let names: Vec<String> = device.faults().iter().map(|name| name.to_string()).collect();
    assert_eq!(names, ["recovered", "delay", "far"]);
    // A copy answers as the device itself does.
    let mut fork = device.fork();
    let mut completions = Vec::new();
    for id in 0..12 {
        fork.submit(us(0), Request::new(id, Operation::Read, 0, 8)).unwrap();
        device.submit(us(0), Request::new(id, Operation::Read, 0, 8)).unwrap();
    }
    fork.poll(us(1_000_000), &mut completions);
    let mut numbers: Vec<(u64, Vec<usize>)> =
        completions.iter().map(|done| (done.request.id.0 + 1, done.faults.numbers().collect())).collect();
    numbers.sort_unstable();
    for (nth, numbers) in numbers {
        let every = [(3, 0), (4, 1), (2, 2)];
        let mut expected: Vec<usize> =
            every.iter().filter(|(count, _)| nth % count == 0).map(|(_, number)| *number).collect();
        expected.sort_unstable();
        assert_eq!(numbers, expected, "request {nth}");
    }
}

#[test]
fn request_that_was_outstanding_when_the_device_went_has_both_faults() {
    let faults = ["delay,add=5ms,every=2", "gone,at=2500us"];
    let requests = [0, 0, 0, 3_000].map(|at| (us(at), Operation::Read, 0, 8));
    let struck: Vec<Vec<usize>> =
        run(&faults, &requests).iter().map(|done| done.faults.numbers().collect()).collect();
    assert_eq!(struck, [vec![], vec![0, 1], vec![1], vec![0, 1]]);
}
