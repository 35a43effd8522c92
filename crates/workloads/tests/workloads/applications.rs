//! Applications: what they ask of a device, on a device of the test's own.

use std::collections::BTreeMap;

use seeklab_core::{
    Arrival, ByteSize, Criticality, Duration, Instant, Operation, Request, RequestId, Seed, Stream, Workload,
};
use seeklab_workloads::host::Phase;
use seeklab_workloads::{AddressSpace, Builtin, Host, WorkloadSpec};

/// Result of a run.
struct Run {
    requests: Vec<Request>,
    phases: Vec<Phase>,
    end: Instant,
    outstanding_max: usize,
    is_full: bool,
    /// Background requests for which a process began to wait.
    reclassified: usize,
}

impl Run {
    fn count(&self, op: Operation) -> f64 {
        self.requests.iter().filter(|request| request.op == op).count() as f64
    }

    fn phase(&self, name: &str) -> &Phase {
        self.phases.iter().find(|phase| phase.name == name).expect("there is such a phase")
    }
}

fn target(mebibytes: u64) -> AddressSpace {
    AddressSpace { capacity_blocks: mebibytes << 11, block_size: ByteSize::from_bytes(512) }
}

/// Serves any number of requests at once, each in `service`, up to as much again at random.
fn run_on(line: &str, target: AddressSpace, seed: u64, service: Duration) -> Run {
    let builtin = Builtin::parse(line).expect(line);
    let mut host = builtin.host(target, Seed(seed)).expect(line);
    let mut random: Stream = Seed(seed).stream("test.device");
    let mut outstanding: BTreeMap<(Instant, u64), Request> = BTreeMap::new();
    let (mut now, mut requests, mut outstanding_max) = (Instant::ZERO, Vec::new(), 0);
    let mut reclassified = 0;
    loop {
        let next = match host.next_arrival(now) {
            Arrival::Request(request) => {
                assert!(request.end() <= target.capacity_blocks, "{request:?} ends beyond the device");
                assert_eq!(request.op.addresses_blocks(), request.blocks > 0);
                let conflicts = outstanding.values().any(|other| {
                    let overlap = request.lbn < other.end() && other.lbn < request.end();
                    overlap && !(request.op == Operation::Read && other.op == Operation::Read)
                });
                assert!(!conflicts, "{request:?} conflicts with one outstanding");
                let extra = Duration::from_ns(random.below(service.as_ns() + 1));
                outstanding.insert((now + service + extra, request.id.0), request);
                outstanding_max = outstanding_max.max(outstanding.len());
                requests.push(request);
                continue;
            }
            Arrival::Reclassification(change) => {
                let mut requests = outstanding.values_mut();
                let request = requests.find(|request| request.id == change.id).expect("it is outstanding");
                let before = request.reclassify(change.criticality);
                assert_ne!(before, Some(Criticality::TimeCritical), "{change:?} of {request:?}");
                reclassified += usize::from(before == Some(Criticality::TimeNoncritical));
                continue;
            }
            Arrival::At(time) => {
                assert!(time > now, "it waits for {time} at {now}");
                Some(time)
            }
            Arrival::WaitForCompletion => None,
            Arrival::Finished => break,
        };
        let done = outstanding.first_key_value().map(|((done, _), _)| *done);
        now = match (next, done) {
            (Some(next), Some(done)) => next.min(done),
            (Some(time), None) | (None, Some(time)) => time,
            (None, None) => panic!("it waits, but nothing is outstanding"),
        };
        while let Some(first) = outstanding.first_entry().filter(|first| first.key().0 <= now) {
            let (_, number) = *first.key();
            host.complete(RequestId(number), true, service);
            first.remove();
        }
    }
    assert!(outstanding.is_empty());
    let (phases, is_full) = (host.phases().to_vec(), host.is_full());
    Run { requests, phases, end: now, outstanding_max, is_full, reclassified }
}

fn run(line: &str) -> Run {
    run_on(line, target(4096), 1, Duration::from_us(500))
}

const ALL: [&str; 7] = [
    "postmark,scale=0.2",
    "postmark,scale=0.5,mount=journal,cache=1MiB,discard=true",
    "build,scale=0.2",
    "build,scale=0.3,mount=journal,processes=4,cache=2MiB",
    "database,scale=0.3,table=8MiB,pool=1MiB,checkpoint=64KiB",
    "database,scale=0.1,table=8MiB,clients=16,pool=2MiB",
    "postmark,scale=0.2,discard=true,host.cpus=2,host.max_request=8KiB",
];

#[test]
fn requests_depend_on_the_seed_alone() {
    for line in ALL {
        let run = |seed| run_on(line, target(2048), seed, Duration::from_us(300)).requests;
        assert_eq!(run(1), run(1), "{line}");
        assert_ne!(run(1), run(2), "{line}");
    }
}

#[test]
fn background_writes_that_a_process_waits_for_become_time_critical() {
    let of = |line: &str| run_on(line, target(2048), 1, Duration::from_ms(20)).reclassified;
    let reclassified: Vec<usize> = ALL.iter().map(|line| of(line)).collect();
    assert!(reclassified.iter().sum::<usize>() > 0, "{reclassified:?}");
}

#[test]
fn phases_follow_each_other_and_sum_up() {
    for (line, names) in [
        (ALL[0], &["create", "transactions", "delete"][..]),
        (ALL[3], &["unpack", "configure", "build"]),
        (ALL[4], &["load", "transactions"]),
    ] {
        let run = run(line);
        assert!(run.phases.iter().map(|phase| phase.name).eq(names.iter().copied()), "{line}");
        let mut before = Instant::ZERO;
        for phase in &run.phases {
            assert!(phase.start >= before && phase.operations > 0 && phase.requests > 0, "{line} {phase:?}");
            before = phase.end.expect("it has ended");
            before = phase.unmounted.unwrap_or(before).max(before);
        }
        assert_eq!(before, run.end);
        let requests: u64 = run.phases.iter().map(|phase| phase.requests).sum();
        assert_eq!(requests, run.requests.len() as u64);
        let bytes = |op| -> u64 {
            run.requests
                .iter()
                .filter(|request| request.op == op)
                .map(|request| u64::from(request.blocks) * 512)
                .sum()
        };
        assert_eq!(run.phases.iter().map(|phase| phase.read_bytes).sum::<u64>(), bytes(Operation::Read));
        assert_eq!(run.phases.iter().map(|phase| phase.written_bytes).sum::<u64>(), bytes(Operation::Write));
        assert!(!run.is_full);
    }
}

#[test]
fn faster_device_helps_until_only_computing_is_left() {
    let line = "build,files=60,tests=10,compile=20ms,processes=2";
    let slow = run_on(line, target(4096), 1, Duration::from_ms(4));
    let fast = run_on(line, target(4096), 1, Duration::from_us(4));
    assert!(fast.end < slow.end);
    // Sixty bursts of 20 ms and ten of that length to link, by two processes.
    let elapsed = fast.phase("build").elapsed().expect("it has ended").as_s();
    assert!((0.6..1.8).contains(&elapsed), "{elapsed}");
}

/// Real PostMark 1.51 on a loop device: ext2 made by `mkfs.ext2 -b 4096` (e2fsprogs 1.47.0), mounted
/// `-o sync`, Linux 6.18.44; `set number 500`, `set transactions N`, its own seed 42. Requests are those of
/// `perf record -e block:block_rq_issue`; docs/models/applications.md has the commands.
struct Real {
    transactions: f64,
    creations: f64,
    appends: f64,
    /// Requests that write.
    writes: f64,
    flushes: f64,
    written_bytes: f64,
}

const REAL: [Real; 2] = [
    Real {
        transactions: 500.0,
        creations: 764.0,
        appends: 257.0,
        writes: 5075.0,
        flushes: 1707.0,
        written_bytes: (5052.0 * 8.0 + 23.0 * 16.0) * 512.0,
    },
    Real {
        transactions: 2500.0,
        creations: 1801.0,
        appends: 1276.0,
        writes: 13_603.0,
        flushes: 4714.0,
        written_bytes: (13_562.0 * 8.0 + 41.0 * 16.0) * 512.0,
    },
];

#[test]
fn postmark_makes_the_requests_of_the_real_program() {
    for real in &REAL {
        let line = format!("postmark,files=500,transactions={}", real.transactions);
        let (mut creations, mut writes, mut flushes, mut bytes) = (0.0, 0.0, 0.0, 0.0);
        const SEEDS: u64 = 5;
        for seed in 0..SEEDS {
            let run = run_on(&line, target(1024), seed, Duration::from_us(50));
            creations +=
                run.phase("create").operations as f64 + run.phase("transactions").operations as f64 / 2.0;
            writes += run.count(Operation::Write);
            flushes += run.count(Operation::Flush);
            bytes += run.phases.iter().map(|phase| phase.written_bytes as f64).sum::<f64>();
        }
        let seeds = SEEDS as f64;
        // Its own draws created a few more files and appended a little more or less than the mean.
        let expected = 500.0 + real.transactions / 2.0;
        assert!(
            (real.creations / expected - 1.0).abs() < 0.05
                && (real.appends * 2.0 / real.transactions - 1.0).abs() < 0.05
        );
        println!(
            "{line}: per creation, ours and real: writes {:.3} {:.3}, flushes {:.3} {:.3}; bytes per write {:.0} {:.0}",
            writes / creations,
            real.writes / real.creations,
            flushes / creations,
            real.flushes / real.creations,
            bytes / writes,
            real.written_bytes / real.writes,
        );
        let check = |what, ours: f64, real: f64, tolerance: f64| {
            assert!((ours / real - 1.0).abs() < tolerance, "{what}: ours {ours}, real {real}");
        };
        check("writes per creation", writes / creations, real.writes / real.creations, 0.05);
        check("flushes per creation", flushes / creations, real.flushes / real.creations, 0.05);
        check("bytes per write", bytes / writes, real.written_bytes / real.writes, 0.03);
        assert!(writes / seeds > 1000.0);
    }
}

#[test]
fn postmark_keeps_the_given_shares_of_operations() {
    let reads = run("postmark,read=100%,create=50%,transactions=1000,files=200");
    let appends = run("postmark,read=0%,create=50%,transactions=1000,files=200");
    let (few, many) =
        (reads.phase("transactions").written_bytes, appends.phase("transactions").written_bytes);
    assert!(many as f64 > few as f64 * 1.3, "{few} {many}");
    let creations = run("postmark,create=100%,transactions=300,files=200");
    assert_eq!(creations.phase("delete").operations, 500);
    let deletions = run("postmark,create=0%,transactions=100,files=200");
    assert_eq!(deletions.phase("delete").operations, 100);
    assert!(run("postmark,transactions=50,files=20,discard=true").count(Operation::Discard) > 20.0);
}

#[test]
fn journal_saves_writes_and_uses_force_unit_access() {
    let sync = run("postmark,mount=sync,transactions=300");
    let journal = run("postmark,mount=journal,transactions=300");
    assert!(journal.count(Operation::Write) * 4.0 < sync.count(Operation::Write));
    assert!(journal.requests.iter().any(|request| request.fua && request.op == Operation::Write));
    assert!(sync.requests.iter().all(|request| !request.fua));
}

#[test]
fn caches_are_cold_after_an_unmount_and_warm_within_a_phase() {
    let build = run("build,files=100,headers=30,tests=5,size=16KiB");
    let unpacked = build.phase("unpack").written_bytes;
    let read = build.phase("build").read_bytes;
    // Every source is read once, though every header is read many times over.
    assert!(read > unpacked / 4 && read < unpacked * 2, "{read} {unpacked}");
    assert_eq!(build.phase("configure").operations, 5);
    let small = run("build,files=100,headers=30,tests=5,size=16KiB,cache=256KiB");
    assert!(small.phase("build").read_bytes > read * 2, "a small cache reads again");
}

#[test]
fn group_commit_gathers_the_clients() {
    let flushes = |clients: u64| {
        let line =
            format!("database,clients={clients},transactions=400,table=8MiB,pool=4MiB,checkpoint=1GiB");
        let run = run(&line);
        assert_eq!(run.phase("transactions").operations, 400);
        let start =
            run.requests.iter().position(|request| request.op == Operation::Flush).expect("it flushes");
        run.requests[start..].iter().filter(|request| request.op == Operation::Flush).count()
    };
    let (one, sixteen) = (flushes(1), flushes(16));
    assert!((400..415).contains(&one), "each transaction of a single client is flushed: {one}");
    assert!(sixteen * 3 < one, "{sixteen} of {one}");
}

#[test]
fn larger_pool_reads_less_and_more_checkpoints_write_more() {
    let run = |pool, checkpoint| {
        run(&format!("database,transactions=1000,table=16MiB,pool={pool},checkpoint={checkpoint}"))
    };
    let (small, large) = (run("1MiB", "1GiB"), run("16MiB", "1GiB"));
    let reads = |run: &Run| run.phase("transactions").read_bytes;
    assert!(reads(&small) > reads(&large) * 3 / 2, "{} {}", reads(&small), reads(&large));
    let often = run("16MiB", "32KiB");
    let writes = |run: &Run| run.phase("transactions").written_bytes;
    assert!(writes(&often) > writes(&large), "{} {}", writes(&often), writes(&large));
}

#[test]
fn outstanding_requests_are_bounded() {
    let run = run("postmark,mount=journal,files=3000,transactions=0,cache=64MiB");
    assert!(run.outstanding_max <= 128, "{}", run.outstanding_max);
}

#[test]
fn copy_of_an_application_goes_on_as_the_application_does() {
    for line in ALL {
        let builtin = Builtin::parse(line).expect(line);
        let mut host = builtin.host(target(2048), Seed(1)).expect(line);
        let service = Duration::from_us(300);
        // Up to a moment in the middle, then both to the end.
        let (mut outstanding, mut now) = (BTreeMap::new(), Instant::ZERO);
        let begun = drive(&mut host, &mut outstanding, &mut now, service, 40);
        assert_eq!(begun.len(), 40, "{line}");
        let (mut copy, mut of_copy, mut now_of_copy) = (host.clone(), outstanding.clone(), now);
        let rest = drive(&mut host, &mut outstanding, &mut now, service, usize::MAX);
        let rest_of_copy = drive(&mut copy, &mut of_copy, &mut now_of_copy, service, usize::MAX);
        assert!(rest.len() > 40 && rest == rest_of_copy, "{line}");
        assert_eq!((host.phases(), host.figures()), (copy.phases(), copy.figures()), "{line}");
    }
}

/// Serves each request in `service`, until so many have been sent. Returns them.
fn drive(
    host: &mut Host,
    outstanding: &mut BTreeMap<(Instant, u64), Request>,
    now: &mut Instant,
    service: Duration,
    requests: usize,
) -> Vec<Request> {
    let mut sent = Vec::new();
    while sent.len() < requests {
        let next = match host.next_arrival(*now) {
            Arrival::Request(request) => {
                outstanding.insert((*now + service, request.id.0), request);
                sent.push(request);
                continue;
            }
            Arrival::Reclassification(_) => continue,
            Arrival::At(time) => time,
            Arrival::WaitForCompletion => Instant::from_ns(u64::MAX),
            Arrival::Finished => break,
        };
        let done = outstanding.first_key_value().map_or(next, |((done, _), _)| *done);
        *now = next.min(done);
        while let Some(first) = outstanding.first_entry().filter(|first| first.key().0 <= *now) {
            host.complete(RequestId(first.key().1), true, service);
            first.remove();
        }
    }
    sent
}

/// The host of an application after its run on a device that takes that long for each request.
fn finished(line: &str, service: Duration) -> Host {
    let mut host = Builtin::parse(line).expect(line).host(target(4096), Seed(1)).expect(line);
    drive(&mut host, &mut BTreeMap::new(), &mut { Instant::ZERO }, service, usize::MAX);
    host
}

#[test]
fn processes_of_an_application_share_the_cpus_of_the_host() {
    let of = |settings: &str| {
        let line = format!("build,files=60,tests=10,compile=20ms,processes=4,{settings}");
        let host = finished(&line, Duration::from_us(4));
        let build = host.phases().last().expect("it has phases").elapsed().expect("it has ended");
        (build.as_s(), host.figures().task_cpu)
    };
    let (alone, cpu) = of("host.cpus=1");
    let (together, same_cpu) = of("host.cpus=4");
    let (default, _) = of("host.tags=128");
    let (fast, less_cpu) = of("host.cpus=1,host.cpu_speed=4");
    // Sixty bursts are shared by four; ten of that length to link are not.
    assert!(alone > together * 1.7, "{alone} {together}");
    assert!((alone / fast - 4.0).abs() < 0.5, "{alone} {fast}");
    assert_eq!((cpu, default), (same_cpu, together), "by default there is a CPU for each process");
    assert!(less_cpu * 4 <= cpu + Duration::from_us(100), "{less_cpu} {cpu}");
}

#[test]
fn times_of_the_processes_of_an_application_add_up() {
    for line in ALL {
        let host = finished(line, Duration::from_ms(2));
        assert!(host.figures().is_finished, "{line}");
        let times = host.process_times();
        assert_eq!(times.len(), host.kinds().len(), "{line}");
        for (kind, times) in host.kinds().iter().zip(times) {
            assert!(times.processes > 0 && times.elapsed > Duration::ZERO, "{line}: {kind}");
            let sum = times.computing + times.ready + times.waits.sum();
            assert_eq!(sum, times.elapsed, "{line}: {kind}");
        }
    }
}

#[test]
fn small_memory_lets_writers_wait_and_a_large_one_does_not() {
    let waits = |memory: &str| {
        let line = format!("postmark,mount=journal,files=2000,transactions=0,host.memory={memory}");
        let host = finished(&line, Duration::from_ms(2));
        host.process_times()[0].waits
    };
    let (small, large) = (waits("1MiB"), waits("256MiB"));
    assert!(small.dirty_limit > Duration::from_ms(10), "{small:?}");
    assert_eq!(large.dirty_limit, Duration::ZERO, "{large:?}");
    // `cache` is another name of it, for a host that is not described.
    let line = "postmark,mount=journal,files=2000,transactions=0,cache=1MiB";
    assert_eq!(finished(line, Duration::from_ms(2)).process_times()[0].waits, small);
}

#[test]
fn commit_is_counted_when_its_log_record_is_durable() {
    for clients in [1, 8] {
        let line =
            format!("database,clients={clients},transactions=200,table=8MiB,pool=1MiB,checkpoint=1GiB");
        let mut host = Builtin::parse(&line).expect(&line).host(target(1024), Seed(1)).expect(&line);
        let (mut outstanding, mut now) = (BTreeMap::new(), Instant::ZERO);
        let service = Duration::from_us(200);
        let mut commits = vec![(0, 0)];
        // Completed flushes of the phase, by request.
        let mut flushes = 0;
        loop {
            let sent = drive(&mut host, &mut outstanding, &mut now, service, 1);
            let Some(request) = sent.first() else { break };
            let has_begun = host.phases().len() == 2;
            if has_begun && host.commits() > commits.last().expect("it begins with none").0 {
                commits.push((host.commits(), flushes));
            }
            flushes += u64::from(has_begun && request.op == Operation::Flush);
        }
        assert_eq!(host.commits(), 200);
        // Each increase follows a flush of its own.
        assert!(commits.windows(2).all(|pair| pair[0].1 < pair[1].1), "{commits:?}");
        assert_eq!(commits.len() > 150, clients == 1, "{}", commits.len());
    }
}

#[test]
fn journal_is_flushed_before_the_record_that_commits_it() {
    let run = run("postmark,mount=journal,transactions=300");
    let records: Vec<usize> =
        run.requests.iter().enumerate().filter(|(_, request)| request.fua).map(|(index, _)| index).collect();
    assert!(!records.is_empty());
    for record in records {
        let [journal, flush] = &run.requests[record - 2..record] else { unreachable!("two are before it") };
        assert_eq!((journal.op, flush.op), (Operation::Write, Operation::Flush));
        assert_eq!(journal.end(), run.requests[record].lbn, "the record follows the metadata");
    }
    // A device without a volatile cache needs neither.
    let line = "postmark,mount=journal,transactions=300,host.write_cache=false";
    let durable = run_on(line, target(4096), 1, Duration::from_us(500));
    assert!(durable.requests.iter().all(|request| request.op != Operation::Flush && !request.fua));
}

#[test]
fn full_device_is_reported() {
    let run = run_on("database,table=1GiB,transactions=10", target(64), 1, Duration::from_us(1));
    assert!(run.is_full);
}

#[test]
fn mistakes_are_named() {
    for (line, part) in [
        ("random", "not an application"),
        ("postmark,file=3", "unknown key `file`"),
        ("postmark,mount=async", "unknown name `async`"),
        ("postmark,discard=1", "discard: string \"1\" is not true or false"),
        ("postmark,files=0", "files: 0"),
        ("build,processes=0", "processes: 0"),
    ] {
        let error = Builtin::parse(line).expect_err(line).to_string();
        assert!(error.contains(part), "{error}");
    }
    for (line, target, part) in [
        ("postmark,scale=0", target(1024), "scale: `0` is out of range"),
        ("postmark,size_min=20KB", target(1024), "more than `size_max`"),
        ("database,exponent=0", target(1024), "exponent: `0` is out of range"),
        ("database,pool=8KiB", target(1024), "pool: 8KiB"),
        ("postmark,cache=4KiB", target(1024), "cache: is too small"),
        ("postmark", target(1), "holds no file system"),
        (
            "postmark",
            AddressSpace { capacity_blocks: 1 << 20, block_size: ByteSize::from_bytes(8192) },
            "do not divide",
        ),
    ] {
        let builtin = Builtin::parse(line).expect(line);
        let error = builtin.host(target, Seed(1)).expect_err(line);
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.advice().is_some() || part.contains("size_max"), "{error}");
    }
}

#[test]
fn descriptions_round_trip() {
    for line in ALL {
        let spec = WorkloadSpec::parse(line).expect(line);
        let text = toml::to_string(&spec).expect("it can be written");
        assert_eq!(WorkloadSpec::from_toml(&text), Ok(spec));
    }
}
