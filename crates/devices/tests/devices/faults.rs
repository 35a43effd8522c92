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
        ("aborted,for=0s", &["for: 0s", "1ns"]),
        ("power_loss,at=1s,back_after=0s", &["back_after: 0s", "1ns"]),
        ("power_loss,at=1s,for=1s,back_after=2s", &["back_after: ends what `for` ends", "one of the two"]),
        ("power_loss,at=1s,back_after=2s,repeat=1s", &["repeat: 1s", "at least 2s"]),
        ("stall,at=1s", &["for: is missing, and `stall` needs it"]),
        ("aborted,at=-1s", &["at", "-1s"]),
        ("delay,add=1ms,for=10s,ramp=60s", &["ramp: 60s", "at most 10s, the time `for`"]),
        ("aborted,blocks=1GiB..+0B", &["blocks: 1GiB..+0B", "the end above the start"]),
        ("aborted,blocks=1GiB..1GiB", &["blocks: 1GiB..1GiB", "the end above the start"]),
        ("aborted,blocks=1GiB", &["blocks: 1GiB", "1GiB..2GiB"]),
        ("aborted,blocks=1..2", &["blocks: `1` has no unit"]),
        ("lost_flush,blocks=0B..1MiB", &["blocks: selects by blocks, and a flush has none"]),
        ("aborted,op=read|flush,blocks=0B..1MiB", &["blocks: selects by blocks, and a flush has none"]),
        ("aborted,op=flush,size=4KiB..", &["size: selects by blocks, and a flush has none"]),
        ("aborted,at=1s,at=2s", &["at: is given twice"]),
        ("bandwidth_cap", &["rate: is missing, and `bandwidth_cap` needs it", "1MB/s"]),
        ("bandwidth_cap,rate=10", &["rate", "unit"]),
        ("bandwidth_cap,rate=1B/s", &["rate: 1B/s", "1kB/s"]),
        ("bandwidth_cap,rate=1MB/s,op=flush", &["op: `flush` cannot meet `bandwidth_cap`", "read, write"]),
        ("retries", &["ladder: is missing", "60% 30% 8%"]),
        ("retries,ladder=60% 50%", &["ladder: 60% 50%", "at most 100% together"]),
        ("retries,ladder=often", &["ladder"]),
        ("retries,ladder=10%,turn=2h", &["turn: 7200s", "1h"]),
        ("retries,ladder=10%,op=write", &["op: `write` cannot meet `retries`", "read"]),
        ("remapped,turns=3", &["detour: is missing"]),
        ("remapped,turns=0,detour=1ms", &["turns: 0", "1 to 10000"]),
        ("remapped,detour=3ms..1ms", &["detour: 3ms..1ms", "longer time behind"]),
        ("throttle,factor=2,idle=1s", &["load: is missing"]),
        ("throttle,load=8GiB,factor=0.5,idle=1s", &["factor: 0.5", "1 to 1000000"]),
        ("throttle,load=8GiB,factor=2", &["idle: is missing"]),
        ("throttle,load=8,factor=2,idle=1s", &["load", "8GiB"]),
        ("throttle,load=10s,factor=2,idle=1s,op=write", &["op: selects requests", "a load in bytes"]),
        ("throttle,load=10s,factor=2,idle=1s,window=5s", &["window: 5s", "more than 10s"]),
        ("delay,add=1ms,ladder=10%", &["ladder: is no key of `delay`"]),
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

/// The error of a device of 1000 blocks of 512 B with that fault, or of a drive that holds one request at a time.
fn refusal(line: &str, is_drive: bool) -> String {
    let text = "kind = \"constant\"\ncapacity_blocks = 1000\nblock_size = \"512B\"\n";
    let device = match is_drive {
        true => crate::drives::device("hp-c2247a", &[]),
        false => Description::parse("server", "server", text).unwrap(),
    };
    let faults = FaultParameters { fault: vec![FaultTable::from_line(line).unwrap()] };
    let error = match device.beneath("fault", &faults) {
        Ok(_) => panic!("{line} is accepted"),
        Err(error) => error,
    };
    format!("{error}; {}", error.advice().unwrap_or_default())
}

#[test]
fn fault_that_no_request_can_meet_is_a_mistake() {
    for (line, parts) in [
        ("aborted,blocks=1MiB..2MiB", &["blocks: 1MiB..2MiB lies beyond the end", "500KiB or before"][..]),
        ("aborted,blocks=500KiB..1MiB", &["blocks: 500KiB..1MiB lies beyond the end of the device"]),
        ("aborted,blocks=400KiB..+200KiB", &["blocks: 400KiB..+200KiB reaches beyond the end of the device"]),
        ("delay,add=1ms,size=100B..200B", &["size: no request has a size of 100B..200B", "512B"]),
        (
            "delay,add=1ms,size=700B",
            &["size: no request has a size of 700B", "multiple of the block size, 512B"],
        ),
        ("lost_write,size=..100B", &["size: no request has a size of ..100B"]),
        ("aborted,size=1MiB..", &["size: no request has a size of 1MiB..", "up to 500KiB"]),
        ("torn_write,unit=512000B", &["unit: a write of one unit", "less than 500KiB"]),
        ("torn_write,unit=4KiB,size=..4KiB", &["unit: a write of one unit of 4KiB", "less than 4KiB"]),
        ("misdirected_read,by=512000B", &["by: 500KiB", "less than 500KiB"]),
    ] {
        let text = refusal(line, false);
        assert!(parts.iter().all(|part| text.contains(part)), "{line}: {text}");
    }
    let text = refusal("delay,add=1ms,queue_length=1..", true);
    assert!(text.contains("queue_length: no request finds 1 others; allowed: at most 0"), "{text}");
    // These are as far as they can be.
    for line in [
        "aborted,blocks=511488B..512000B",
        "delay,add=1ms,size=500B..600B",
        "aborted,size=..100B",
        "torn_write,unit=511488B",
        "torn_write,unit=3584B,size=..4KiB",
        "misdirected_read,by=511488B",
        "delay,add=1ms,for=10s,ramp=10s",
        "aborted,queue_length=1..",
        "aborted,probability=0%",
    ] {
        device(&[line]);
    }
}

#[test]
fn mistakes_on_a_line_name_what_is_allowed() {
    for (line, parts) in [
        ("delay,add=1ms,name=", ["name: is empty", "a name, or none"]),
        ("delay,add=1ms,size=8KiB..4KiB", ["size: 8KiB..4KiB", "such as 4KiB..16KiB, 8KiB.. or ..2KiB"]),
        ("delay,add=1ms,queue_length=8..4", ["queue_length: 8..4", "such as 4..16, 8.. or ..2"]),
    ] {
        let error = FaultTable::from_line(line).unwrap_err();
        let text = format!("{error}; {}", error.advice().unwrap_or_default());
        assert!(parts.iter().all(|part| text.contains(part)), "{line}: {text}");
    }
}

#[test]
fn medium_error_strikes_zeroes_that_are_written_and_no_discards() {
    let requests = [
        (us(0), Operation::Read, 0, 8),
        (us(0), Operation::Write, 0, 8),
        (us(0), Operation::WriteZeroes, 0, 8),
        (us(0), Operation::Discard, 0, 8),
        (us(0), Operation::Flush, 0, 0),
    ];
    let statuses: Vec<Status> =
        run(&["medium_error,lasting=sticky"], &requests).iter().map(|done| done.outcome.status).collect();
    let bad = Status::MediumError;
    assert_eq!(statuses, [bad, bad, bad, Status::Ok, Status::Ok]);
    let zeroes = run(&["medium_error,op=write_zeroes"], &requests);
    assert_eq!(zeroes.iter().filter(|done| done.outcome.status == bad).count(), 1);
}

#[test]
fn flush_touches_no_blocks_and_has_no_size() {
    let requests = [(us(0), Operation::Flush, 0, 0), (us(0), Operation::Write, 0, 8)];
    for line in ["aborted,blocks=0B..4KiB", "aborted,size=512B..4KiB"] {
        let done = run(&[line], &requests);
        assert_eq!(done[0].outcome.status, Status::Ok, "{line}");
        assert_eq!(done[1].outcome.status, Status::Aborted, "{line}");
    }
    assert_eq!(run(&["aborted,size=..512B"], &requests)[0].outcome.status, Status::Aborted);
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

/// Requests of a mix of operations over the whole device, one every 5 ms.
fn mixed(count: u64) -> Vec<(Instant, Operation, u64, u32)> {
    let op = |index: u64| if index.is_multiple_of(3) { Operation::Write } else { Operation::Read };
    (0..count).map(|index| (us(index * 5_000), op(index), index * 37 % 990, 4)).collect()
}

#[test]
fn capped_device_passes_no_more_bytes_than_the_rate_and_its_reply_waits_apart() {
    // 8 blocks of 512 B take 4.096 ms at 1 MB/s.
    let cap = "bandwidth_cap,rate=1MB/s";
    let done = run(&[cap], &[(us(0), Operation::Read, 0, 8); 3]);
    let times: Vec<u64> = done.iter().map(|done| done.completed.as_ns()).collect();
    assert_eq!(times, [4_096_000, 8_192_000, 12_288_000]);
    let done = run(&[cap], &[(us(0), Operation::Read, 0, 1), (us(0), Operation::Flush, 0, 0)]);
    assert_eq!((done[0].completed, done[1].completed), (us(1_000), us(2_000)), "the device is slower here");
    let delayed = [cap, "delay,add=20ms,every=2"];
    let done = run(&delayed, &[(us(0), Operation::Read, 0, 8); 3]);
    let times: Vec<u64> = done.iter().map(|done| done.completed.as_ns()).collect();
    assert_eq!(times, [4_096_000, 28_192_000, 12_288_000], "a delayed reply holds no other up");
    let of_writes = ["bandwidth_cap,rate=1MB/s,op=write", "bandwidth_cap,rate=2MB/s"];
    let done = run(&of_writes, &[(us(0), Operation::Write, 0, 8), (us(0), Operation::Read, 0, 8)]);
    assert_eq!(done[0].completed, us(4_096), "both caps hold a write");
    assert_eq!(done[1].completed, us(4_096 + 2_048), "one cap holds a read");
}

#[test]
fn retried_read_takes_whole_turns_and_fails_after_the_last() {
    const N: u64 = 30_000;
    let times: Vec<u64> = (0..N).map(|index| index * 40_000).collect();
    let fault = "retries,ladder=50% 25% 5%,turn=6ms,blocks=0B..2KiB";
    let done = reads(&[fault], &times);
    let count = |turns: u64, status: Status| {
        let of = |(at, (done, found)): &(&u64, &(u64, Status))| {
            *done - **at == 1_000 + turns * 6_000 && *found == status
        };
        times.iter().zip(&done).filter(of).count() as f64
    };
    let counted = [
        (count(1, Status::Recovered), 0.5),
        (count(2, Status::Recovered), 0.25),
        (count(3, Status::Recovered), 0.05),
        (count(3, Status::MediumError), 0.2),
    ];
    for (count, share) in counted {
        let n = N as f64;
        assert!((count - n * share).abs() < 4.0 * (n * share * (1.0 - share)).sqrt(), "{counted:?}");
    }
    assert_eq!(counted.iter().map(|(count, _)| count).sum::<f64>(), N as f64, "no other time occurs");
    let others = [(us(0), Operation::Write, 0, 4), (us(50_000), Operation::Read, 4, 4)];
    let done = run(&[fault], &others);
    assert!(done.iter().all(|done| done.outcome.status == Status::Ok), "a write, and other blocks");
    let failed = run(&["retries,ladder=0%,turn=6ms,blocks=5120B..6144B"], &[(us(0), Operation::Read, 8, 8)]);
    assert_eq!(failed[0].outcome.status, Status::MediumError);
    assert!((2..4).contains(&failed[0].outcome.good_blocks), "blocks 10 and 11 are bad");
}

#[test]
fn turn_is_that_of_the_disk_beneath_or_is_given() {
    let of = |device: &str, line: &str| {
        let description = seeklab_devices::catalog::find(device).unwrap();
        let fault = vec![FaultTable::from_line(line).unwrap()];
        let device = description.beneath("fault", &FaultParameters { fault })?;
        device.build(Seed(1), "disk0").map(|mut device| {
            let mut completions = Vec::new();
            device.submit(us(0), Request::new(0, Operation::Read, 0, 8)).unwrap();
            while let Some(event) = device.next_event() {
                device.poll(event, &mut completions);
            }
            completions[0].response_time()
        })
    };
    let time = |line| of("cheetah-36es", line).unwrap();
    let turns = time("retries,ladder=0% 0% 100%") - time("aborted,after=1");
    assert_eq!(turns, Duration::from_ms(18), "three turns at 10,000 rpm");
    assert_eq!(time("retries,ladder=100%,turn=5ms") - time("aborted,after=1"), Duration::from_ms(5));
    let error = of("constant", "retries,ladder=100%").unwrap_err();
    assert!(error.to_string().contains("fault[0].turn: is missing, `retries` needs it"), "{error}");
    assert!(error.advice().unwrap().contains("turn = \"8.33ms\""));
    assert!(of("constant", "retries,ladder=100%,turn=5ms").is_ok());
}

#[test]
fn remapped_sector_takes_turns_once_and_a_detour_ever_after() {
    let fault = "remapped,blocks=5120B..6144B,turns=4,turn=6ms,detour=15ms"; // Blocks 10 and 11.
    let requests = [
        (us(0), Operation::Write, 8, 8),
        (us(100_000), Operation::Read, 8, 3),
        (us(200_000), Operation::Read, 8, 2),
        (us(300_000), Operation::Read, 10, 1),
        (us(400_000), Operation::Write, 8, 8),
        (us(500_000), Operation::Read, 8, 8),
        (us(600_000), Operation::Read, 8, 8),
        (us(700_000), Operation::Discard, 8, 8),
    ];
    let done = run(&[fault], &requests);
    let found: Vec<_> =
        done.iter().map(|done| (done.response_time().as_ns() / 1_000_000, done.outcome.status)).collect();
    let expected = [
        (1, Status::Ok),
        (25, Status::Recovered),
        (1, Status::Ok),
        (16, Status::Ok),
        (16, Status::Ok),
        // Block 11 is found, and block 10 is remapped already.
        (40, Status::Recovered),
        (16, Status::Ok),
        (1, Status::Ok),
    ];
    assert_eq!(found, expected);
    // One sector in so many reads: each is found once, and costs its detour later.
    let requests: Vec<_> =
        (0..20_000).map(|index| (us(index * 50_000), Operation::Read, index % 1_000, 1)).collect();
    let done = run(&["remapped,probability=5%,turn=6ms,detour=15ms"], &requests);
    let mut remapped = [false; 1_000];
    let mut found = 0;
    for completion in &done {
        let is_remapped = &mut remapped[completion.request.lbn as usize];
        let (time, status) = (completion.response_time().as_ns() / 1_000_000, completion.outcome.status);
        match status {
            Status::Recovered => {
                assert!(!*is_remapped && time == 7, "{completion:?}");
                *is_remapped = true;
                found += 1;
            }
            _ => assert_eq!(time, if *is_remapped { 16 } else { 1 }, "{completion:?}"),
        }
    }
    // Each block is read 20 times: 1 - 0.95^20 is 64.15 %, and four standard deviations of 1,000 are 6.1 %.
    assert!((580..703).contains(&found), "{found}");
}

#[test]
fn throttled_device_is_slow_from_the_load_to_the_rest() {
    // 4 KiB each: the fourth exceeds 12 KiB.
    let bytes = "throttle,load=12KiB,factor=3,idle=10ms";
    // A slow clock rounds to a nanosecond of the device, which is three here.
    let reads = |faults: &[&str], times: &[u64]| {
        let requests: Vec<_> = times.iter().map(|time| (us(*time), Operation::Read, 0, 8)).collect();
        let nearest = |done: &Completion| ((done.completed.as_ns() + 3) / 1_000, done.outcome.status);
        run(faults, &requests).iter().map(nearest).collect::<Vec<_>>()
    };
    let times = [0, 2_000, 4_000, 6_000, 10_000, 20_000, 40_000, 42_000];
    let expected = [1_000, 3_000, 5_000, 9_000, 13_000, 23_000, 41_000, 43_000];
    assert_eq!(reads(&[bytes], &times), ok(&expected), "17 ms of rest end it, and 7 ms do not");
    let windowed = "throttle,load=12KiB,factor=3,idle=10ms,window=5ms";
    let expected = [1_000, 3_000, 5_000, 7_000, 11_000, 21_000, 41_000, 43_000];
    assert_eq!(reads(&[windowed], &times), ok(&expected), "never more than three in a window");
    let busy = "throttle,load=2500us,factor=3,idle=10ms";
    // 1 ms, and the rest of the load within the second request: a quarter of the third is left, three times as long.
    assert_eq!(reads(&[busy], &[0, 5_000, 5_000]), ok(&[1_000, 6_000, 8_000]));
    let slowly = reads(&["throttle,load=2500us,factor=3,idle=10ms"], &[0, 5_000, 5_000, 9_000, 40_000]);
    assert_eq!(slowly, ok(&[1_000, 6_000, 8_000, 12_000, 41_000]));
    let writes = "throttle,op=write,load=4KiB,factor=3,idle=10ms";
    let requests = [Operation::Read, Operation::Write, Operation::Write, Operation::Read];
    let requests: Vec<_> = (0..4).map(|index| (us(index * 4_000), requests[index as usize], 0, 8)).collect();
    let done = run(&[writes], &requests);
    let times: Vec<u64> = done.iter().map(|done| (done.response_time().as_ns() + 3) / 1_000).collect();
    assert_eq!(times, [1_000, 1_000, 3_000, 3_000], "writes count, and everything is slow");
}

#[test]
fn another_fault_moves_no_turn_and_no_sector() {
    let requests = mixed(4_000);
    let fates = |faults: &[&str]| -> Vec<(Status, u32)> {
        let done = run(faults, &requests);
        done.iter().map(|done| (done.outcome.status, done.outcome.good_blocks)).collect()
    };
    for fault in
        ["retries,ladder=20% 20%,turn=6ms,probability=10%", "remapped,probability=5%,turn=6ms,detour=1ms"]
    {
        let alone = fates(&[fault]);
        assert!(alone.iter().any(|(status, _)| *status == Status::Recovered));
        let others = ["delay,add=exponential 1ms,probability=50%", "bandwidth_cap,rate=1MB/s", fault];
        assert_eq!(alone, fates(&others), "{fault}");
    }
}
