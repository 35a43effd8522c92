//! The host model, mechanism by mechanism, in front of a device of the test's own.

use seeklab_core::{
    Arrival, Breakdown, BufferOutcome, ByteSize, ClassHistory, Completion, Criticality, Duration, FaultSet,
    Instant, Limits, Operation, Outcome, Request, Seed, Simulation, Status, Workload, simulate,
};
use seeklab_workloads::host::{Host, HostFigures};
use seeklab_workloads::{AddressSpace, WorkloadSpec};

use crate::common::{Server, Service, TARGET};

/// Settings without any cost of the system and without a clock.
pub(crate) const FREE: &str =
    "host.system_call=0s,host.submission=0s,host.interrupt=0s,host.context_switch=0s,host.clock_interval=0s";

/// The host that a line describes.
pub(crate) fn host(line: &str) -> Host {
    host_with_seed(line, 1)
}

pub(crate) fn host_with_seed(line: &str, seed: u64) -> Host {
    match WorkloadSpec::parse(&format!("host,{line}")).unwrap_or_else(|error| panic!("{line}: {error}")) {
        WorkloadSpec::Host(spec) => {
            Host::new(&spec, TARGET, Seed(seed)).unwrap_or_else(|error| panic!("{line}: {error}"))
        }
        other => panic!("{other:?}"),
    }
}

/// Result of a run on a device that serves one request at a time.
pub(crate) struct Run {
    pub(crate) figures: HostFigures,
    pub(crate) completions: Vec<Completion>,
    pub(crate) host: Host,
}

impl Run {
    fn addresses(&self) -> Vec<u64> {
        self.completions.iter().map(|completion| completion.request.lbn / 8).collect()
    }
}

pub(crate) fn run(line: &str, service: Duration) -> Run {
    run_host(host(line), Server::new(Service::Constant(service)))
}

pub(crate) fn run_host(mut host: Host, mut device: Server) -> Run {
    let mut completions = Vec::new();
    simulate(&mut host, &mut device, Limits::default(), |completion| completions.push(*completion))
        .expect("the device takes every request");
    let figures = host.figures();
    assert!(figures.is_finished, "every process ends");
    Run { figures, completions, host }
}

const SERVICE: Duration = Duration::from_ms(10);

#[test]
fn sequential_reads_read_one_block_ahead() {
    let line = format!(
        "{FREE},files.data.size=40KiB,processes.p.program=repeat 10 {{ read data 4KiB; compute 30ms }}"
    );
    let run = run(&line, SERVICE);
    assert_eq!(run.addresses(), (0..10).collect::<Vec<u64>>());
    let classes: Vec<Criticality> = run.completions.iter().map(|one| one.request.criticality).collect();
    assert_eq!((classes[0], &classes[1..]), (Criticality::TimeCritical, &[Criticality::TimeLimited; 9][..]));
    let limited = run.figures.time_limited;
    // The process waits for block 0 and computes while block 1 is read. Every other one is issued at the access to the
    // block before.
    assert_eq!((limited.limits, limited.limits_met), (9, 9));
    assert_eq!(limited.limit_sum, Duration::from_ms(40) + Duration::from_ms(30) * 8);
    assert_eq!((run.figures.io_waits, run.figures.io_wait), (1, SERVICE));
    assert_eq!(run.figures.elapsed, Duration::from_ms(310));
}

#[test]
fn read_ahead_that_is_not_complete_in_time_makes_the_process_wait() {
    let line = format!(
        "{FREE},files.data.size=40KiB,processes.p.program=repeat 10 {{ read data 4KiB; compute 4ms }}"
    );
    let figures = run(&line, SERVICE).figures;
    assert_eq!((figures.time_limited.limits, figures.time_limited.limits_met), (9, 0));
    assert_eq!(figures.elapsed, Duration::from_ms(104), "the device is always busy");
    assert_eq!(figures.io_waits, 10);
    assert_eq!(figures.false_idle, figures.elapsed - figures.task_cpu);
}

#[test]
fn program_that_takes_no_time_ends_all_the_same() {
    let loops = |count: u64| format!("{FREE},processes.p.program=repeat {count} {{ compute 0s }}");
    let figures = run(&loops(500_000), SERVICE).figures;
    assert_eq!(figures.elapsed, Duration::ZERO);
    let figures = run(&loops(3_000_000), SERVICE).figures;
    assert_eq!(figures.elapsed, Duration::from_ns(5), "two statements in a repetition, and 2^20 take 1 ns");
}

#[test]
fn run_ends_after_a_year() {
    let program = "repeat 9 { sleep 500000000s; compute 500000000s }";
    let mut host = host(&format!("{FREE},host.sweep_interval=9999999s,processes.p.program={program}"));
    let mut device = Server::new(Service::Constant(SERVICE));
    simulate(&mut host, &mut device, Limits::default(), |_| {}).expect("nothing is submitted");
    assert!(!host.figures().is_finished, "{:?}", host.figures());
    assert_eq!(host.process_times()[0].waits.timer, host.figures().elapsed);
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    for (line, part) in [
        (
            "host.clock_interval=0.1ms",
            "host.clock_interval: 0.1ms is no longer than a clock interrupt takes: 0.15ms",
        ),
        ("host.memory=65GiB", "host.memory: 65GiB is more than 64GiB"),
    ] {
        let Ok(WorkloadSpec::Host(spec)) =
            WorkloadSpec::parse(&format!("host,{line},processes.p.program=wait"))
        else {
            panic!("{line}")
        };
        let error = Host::new(&spec, TARGET, Seed(1)).expect_err(line);
        assert!(error.to_string().starts_with(part) && error.advice().is_some(), "{error}");
    }
    let whole = "host.memory=65GiB,host.contiguous=65GiB,processes.p.program=wait";
    assert_eq!(run(whole, SERVICE).figures.io_waits, 0);
}

#[test]
fn process_that_forks_without_end_fails() {
    let line =
        format!("{FREE},processes.child.program=sleep 1s,processes.p.program=repeat 200000 {{ fork child }}");
    let run = run(&line, SERVICE);
    assert_eq!((run.figures.failed_processes, run.host.process_times()[0].processes), (1, 99_999));
}

#[test]
fn times_of_processes_are_divided_by_state_and_kind_of_wait() {
    let line = format!(
        "{FREE},files.data.size=400KiB,files.log.size=400KiB,files.log.new=true,task=p,\
         processes.child.program=compute 5ms; sleep 20ms,\
         processes.p.program=compute 1ms; read data 4KiB direct; write log 4KiB sync; fork child; wait; sleep 3ms,\
         processes.q.program=sleep 4ms; compute 2ms; read data 4KiB at 80KiB direct,\
         processes.r.program=compute 7ms"
    );
    let run = run(&line, SERVICE);
    let [child, p, q, r] = run.host.process_times().try_into().expect("there are four definitions");
    let ms = Duration::from_ms;
    assert_eq!(
        (child.processes, child.elapsed, child.computing, child.waits.timer),
        (1, ms(25), ms(5), ms(20))
    );
    // Its write stands behind the read of another process.
    assert_eq!((p.computing, p.waits.read, p.waits.write), (ms(1), SERVICE, SERVICE * 2));
    // The child computes and sleeps, and the process waits for its end.
    assert_eq!((p.waits.children, p.waits.timer, p.elapsed), (ms(25), ms(3), ms(59)));
    // The first process has the CPU for 1 ms.
    assert_eq!((r.computing, r.ready, r.elapsed), (ms(7), ms(1), ms(8)));
    assert_eq!((q.computing, q.waits.timer, q.ready), (ms(2), ms(4), ms(4)));
    assert!(q.waits.read > SERVICE, "the device is busy: {q:?}");
}

/// Requests with their class at issue, and the times at which they were issued, became time-critical and completed.
fn classes(line: &str) -> Vec<(Criticality, Duration, Option<Duration>, Duration)> {
    let mut classes = Vec::new();
    Simulation::new(Limits::default())
        .run_with_classes(
            &mut host(line),
            &mut Server::new(Service::Constant(SERVICE)),
            |completion, history| {
                let ClassHistory { at_arrival, became } = history;
                let since_start = |time: Instant| time - Instant::ZERO;
                let became = became.time_critical().map(since_start);
                classes.push((
                    at_arrival,
                    since_start(completion.submitted),
                    became,
                    since_start(completion.completed),
                ));
            },
        )
        .expect("the device takes every request");
    classes
}

#[test]
fn read_ahead_that_a_process_waits_for_becomes_time_critical() {
    let program = |time: &str| {
        let line = format!(
            "files.data.size=40KiB,processes.p.program=repeat 10 {{ read data 4KiB; compute {time} }}"
        );
        classes(&format!("{FREE},{line}"))
    };
    let ms = Duration::from_ms;
    let late = program("4ms");
    assert_eq!(late[0], (Criticality::TimeCritical, ms(0), None, ms(10)));
    assert_eq!(late[1], (Criticality::TimeLimited, ms(0), Some(ms(14)), ms(20)));
    for (index, request) in late.iter().enumerate().skip(2) {
        let (issued, needed) = (ms(index as u64 * 10 - 6), ms(index as u64 * 10 + 4));
        let completed = needed + ms(6);
        assert_eq!(*request, (Criticality::TimeLimited, issued, Some(needed), completed), "{index}");
    }
    assert!(program("30ms").iter().all(|(_, _, became, _)| became.is_none()), "every limit is met");
}

#[test]
fn write_back_that_a_process_waits_for_becomes_time_critical() {
    let line = |after| {
        format!(
            "{FREE},files.data.size=4KiB,files.data.new=true,host.sweep=100%,\
             processes.p.program=write data 4KiB; sleep {after}; write data 4KiB"
        )
    };
    let ms = Duration::from_ms;
    let first = |after| classes(&line(after))[0];
    assert_eq!(first("1001ms"), (Criticality::TimeNoncritical, ms(1000), Some(ms(1001)), ms(1010)));
    assert_eq!(first("1011ms"), (Criticality::TimeNoncritical, ms(1000), None, ms(1010)));
}

#[test]
fn read_ahead_that_nobody_needs_is_counted() {
    let line = format!("{FREE},files.data.size=40KiB,processes.p.program=read data 4KiB");
    let figures = run(&line, SERVICE).figures;
    assert_eq!((figures.unneeded_read_ahead_blocks, figures.time_limited.requests), (1, 1));
    assert_eq!(figures.time_limited.limits, 0);
    assert_eq!(figures.time_limited.met(), None);
}

#[test]
fn blocks_in_memory_are_not_read_again() {
    let line =
        format!("{FREE},files.data.size=40KiB,files.data.cached=true,processes.p.program=read data 40KiB");
    let run = run(&line, SERVICE);
    assert_eq!((run.completions.len(), run.figures.elapsed), (0, Duration::ZERO));
}

#[test]
fn reads_at_random_places_have_no_read_ahead() {
    let line =
        format!("{FREE},files.data.size=40MiB,processes.p.program=repeat 50 {{ read data 4KiB random }}");
    let run = run(&line, SERVICE);
    let (figures, addresses) = (run.figures, run.addresses());
    assert!(figures.time_limited.requests <= 1, "{figures:?}");
    assert!(addresses.windows(2).any(|pair| pair[1] < pair[0]) && addresses.iter().max() > Some(&5000));
}

#[test]
fn read_ahead_stops_at_the_end_of_each_file() {
    let line = format!(
        "{FREE},files.data.size=48KiB,files.data.each=16KiB,files.data.distance=1MiB,host.read_ahead=32KiB,\
         processes.p.program=read data 4KiB; read data 4KiB at 16KiB"
    );
    let mut addresses = run(&line, SERVICE).addresses();
    addresses.sort_unstable();
    assert_eq!(addresses[..4], [0, 1, 2, 3]);
    // A read elsewhere in the file has no read-ahead: its place does not follow the last.
    assert_eq!(addresses[4..], [256]);
}

#[test]
fn syncer_writes_what_its_sweep_passes() {
    // Four frames of 64 a second: frames 0 to 3 after 1 s, and so on.
    let line = format!(
        "{FREE},files.data.size=48KiB,files.data.new=true,host.memory=256KiB,host.sweep=1/16,host.contiguous=256KiB,\
         processes.p.program=repeat 3 {{ write data 48KiB }}"
    );
    let run = run(&line, SERVICE);
    assert_eq!(run.addresses(), (0..12).collect::<Vec<u64>>(), "each block is written once");
    for (index, completion) in run.completions.iter().enumerate() {
        let second = index as u64 / 4 + 1;
        assert_eq!(completion.submitted, Instant::ZERO + Duration::from_s(second));
        assert_eq!(completion.request.op, Operation::Write);
        assert_eq!(completion.request.criticality, Criticality::TimeNoncritical);
    }
    assert_eq!(run.figures.elapsed, Duration::ZERO, "the process does not wait");
    assert_eq!(run.figures.time_noncritical.requests, 12);
}

#[test]
fn sweep_passes_parts_of_memory_in_a_random_order() {
    let line = |part| {
        format!(
            "{FREE},files.data.size=1MiB,files.data.new=true,host.memory=1MiB,host.sweep=1/16,\
             host.contiguous={part},processes.p.program=write data 1MiB"
        )
    };
    let writes = |part| run(&line(part), Duration::from_ms(1));
    let (whole, parts) = (writes("1MiB"), writes("16KiB"));
    assert_eq!(whole.addresses(), (0..256).collect::<Vec<u64>>());
    let mut addresses = parts.addresses();
    assert_ne!(addresses, whole.addresses());
    assert!(addresses.chunks(4).all(|part| part[0].is_multiple_of(4) && part[3] == part[0] + 3));
    addresses.sort_unstable();
    assert_eq!(addresses, whole.addresses(), "each frame is passed once in sixteen sweeps");
    let seconds = |run: &Run| run.completions.iter().map(|one| one.submitted).max();
    assert_eq!((seconds(&whole), seconds(&parts)), (Some(Instant::from_ns(16_000_000_000)), seconds(&whole)));
}

#[test]
fn full_memory_turns_noncritical_writes_critical() {
    let line = format!(
        "{FREE},files.data.size=4MiB,files.data.new=true,host.memory=256KiB,processes.p.program=write data 4MiB"
    );
    let figures = run(&line, SERVICE).figures;
    assert_eq!(figures.time_noncritical.requests, 1024);
    // All but the last 64 blocks are on the device before the last block fits.
    assert!(figures.turned_critical > 900, "{figures:?}");
    assert_eq!(figures.elapsed, SERVICE * (1024 - 64));
    assert_eq!(figures.io_wait, figures.elapsed);
}

#[test]
fn writers_wait_while_too_much_is_dirty() {
    let line = |limit| {
        format!(
            "{FREE},files.data.size=512KiB,files.data.new=true,host.memory=1MiB,host.dirty_limit={limit},\
             processes.p.program=write data 512KiB"
        )
    };
    // 128 blocks, of which 256, 64 or 32 may be dirty.
    assert_eq!(run(&line("100%"), SERVICE).figures.elapsed, Duration::ZERO);
    assert_eq!(run(&line("25%"), SERVICE).figures.elapsed, SERVICE * 64);
    assert_eq!(run(&line("12.5%"), SERVICE).figures.elapsed, SERVICE * 96);
}

#[test]
fn synchronous_writes_are_waited_for_and_asynchronous_ones_are_not() {
    let line = |mode| {
        format!(
            "{FREE},files.data.size=40KiB,files.data.new=true,processes.p.program=write data 40KiB {mode}"
        )
    };
    let sync = run(&line("sync"), SERVICE).figures;
    assert_eq!((sync.time_critical.requests, sync.elapsed, sync.io_waits), (10, SERVICE * 10, 10));
    let later = run(&line("async"), SERVICE).figures;
    assert_eq!(
        (later.time_limited.requests, later.elapsed, later.unneeded_read_ahead_blocks),
        (10, Duration::ZERO, 0)
    );
    let synced = run(&line("; sync data"), SERVICE).figures;
    assert_eq!((synced.time_critical.requests, synced.elapsed), (10, SERVICE * 10));
    let all = run(&line("; sync"), SERVICE).figures;
    assert_eq!((all.time_critical.requests, all.elapsed), (10, SERVICE * 10));
}

#[test]
fn write_to_a_part_of_a_block_reads_what_the_block_holds() {
    let line = |new, bytes| {
        format!(
            "{FREE},files.data.size=8KiB,files.data.new={new},processes.p.program=repeat 4 {{ write data {bytes} }}; sync"
        )
    };
    let reads = |line: &str| {
        run(line, SERVICE).completions.iter().filter(|one| one.request.op == Operation::Read).count()
    };
    assert_eq!(reads(&line(false, "1000B")), 1);
    assert_eq!(reads(&line(true, "1000B")), 0);
    assert_eq!(reads(&line(false, "4KiB")), 0);
}

#[test]
fn write_waits_for_the_write_of_its_block_by_the_syncer() {
    let line = format!(
        "{FREE},files.data.size=4KiB,files.data.new=true,host.sweep=100%,\
         processes.p.program=write data 4KiB; sleep 1001ms; write data 4KiB; sync"
    );
    let figures = run(&line, SERVICE).figures;
    assert_eq!((figures.turned_critical, figures.time_noncritical.requests), (1, 1));
    assert_eq!(figures.elapsed, Duration::from_ms(1000) + SERVICE * 2);
}

#[test]
fn transfers_past_the_cache_are_one_request_for_each_contiguous_part() {
    let line = format!(
        "{FREE},files.data.size=1MiB,files.data.extent=64KiB,files.data.distance=1MiB,\
         processes.p.program=read data 128KiB at 1000B direct"
    );
    let run = run(&line, SERVICE);
    let blocks: Vec<(u64, u32)> =
        run.completions.iter().map(|one| (one.request.lbn, one.request.blocks)).collect();
    assert_eq!(blocks, [(1, 127), (2048, 128), (4096, 2)]);
    assert_eq!(run.figures.elapsed, SERVICE * 3);
}

#[test]
fn process_that_waited_preempts_one_that_used_its_time_slice() {
    let line = |preempts| {
        format!(
            "{FREE},files.data.size=4MiB,task=reader,host.time_slice=100ms,host.wakeup_preemption={preempts},\
             processes.reader.program=repeat 20 {{ read data 4KiB random direct }},\
             processes.thinker.program=compute 10s"
        )
    };
    let (with, without) = (run(&line(true), SERVICE).figures, run(&line(false), SERVICE).figures);
    // The thinker runs first only until its first slice is over: then every completion preempts it.
    assert_eq!(with.elapsed, Duration::from_ms(100) + SERVICE * 19);
    // It runs a slice for each of the reader's requests.
    assert_eq!(without.elapsed, Duration::from_ms(100) * 20);
    assert_eq!(
        (with.task_cpu, with.false_idle, with.other_cpu),
        (Duration::ZERO, Duration::ZERO, with.elapsed)
    );
}

#[test]
fn time_slices_share_a_cpu() {
    let line = format!(
        "{FREE},host.time_slice=50ms,task=short,processes.short.program=compute 200ms,\
         processes.zlong.program=compute 1s"
    );
    // Four slices of each in turn, the short one first.
    assert_eq!(run(&line, SERVICE).figures.elapsed, Duration::from_ms(350));
}

#[test]
fn parent_waits_for_its_children() {
    let line = |cpus| {
        format!(
            "{FREE},host.cpus={cpus},processes.child.program=compute 100ms,\
             processes.parent.program=repeat 4 {{ fork child }}; wait; compute 10ms"
        )
    };
    assert_eq!(run(&line(1), SERVICE).figures.elapsed, Duration::from_ms(410));
    assert_eq!(run(&line(4), SERVICE).figures.elapsed, Duration::from_ms(110));
}

#[test]
fn faster_cpu_takes_less_time() {
    let line = |speed| {
        format!(
            "host.cpu_speed={speed},files.data.size=400KiB,processes.p.program=repeat 100 {{ read data 4KiB; compute 5ms }}"
        )
    };
    let (one, two) = (run(&line("1"), SERVICE).figures, run(&line("2"), SERVICE).figures);
    assert_eq!(one.task_cpu, two.task_cpu * 2);
    assert_eq!(one.io_waits, 100, "the device is slower than the process");
}

#[test]
fn idle_time_is_false_while_as_many_processes_wait_as_cpus_idle() {
    let line = |cpus, count| {
        format!(
            "{FREE},host.cpus={cpus},files.data.size=4MiB,processes.p.count={count},\
             processes.p.program=repeat 10 {{ read data 4KiB random direct }}"
        )
    };
    let times = |cpus, count| {
        let figures = run(&line(cpus, count), SERVICE).figures;
        (figures.false_idle, figures.idle)
    };
    assert_eq!(times(1, 1), (SERVICE * 10, Duration::ZERO));
    assert_eq!(times(2, 1), (Duration::ZERO, SERVICE * 20));
    assert_eq!(times(2, 2), (SERVICE * 2 * 19, SERVICE * 2), "the last request has one process waiting");
}

#[test]
fn clock_and_interrupts_take_time_from_the_process() {
    let line = "host.context_switch=0s,host.clock_interval=10ms,host.clock_interrupt=1ms,processes.p.program=compute 90ms";
    let figures = run(line, SERVICE).figures;
    // Nine interrupts in the 99 ms that it takes.
    assert_eq!(
        (figures.elapsed, figures.other_cpu, figures.interrupts),
        (Duration::from_ms(99), Duration::from_ms(9), 9)
    );
}

#[test]
fn failed_request_ends_its_process() {
    let line = format!(
        "{FREE},files.data.size=1MiB,processes.p.program=read data 4KiB random direct; compute 1s,\
         processes.q.program=compute 1s"
    );
    let mut host = host(&line);
    let Arrival::Request(request) = host.next_arrival(Instant::ZERO) else { panic!("it reads") };
    host.completed(&completion(request, SERVICE, Status::MediumError));
    let mut now = Instant::ZERO + SERVICE;
    while let Arrival::At(time) = host.next_arrival(now) {
        now = time;
    }
    let figures = host.figures();
    assert_eq!((figures.failed_requests, figures.failed_processes), (1, 1));
    assert_eq!(figures.elapsed, Duration::from_s(1), "the other process goes on");
}

#[test]
fn failed_read_ahead_leaves_no_block_in_memory() {
    let line =
        format!("{FREE},files.data.size=8KiB,processes.p.program=read data 4KiB; sleep 1s; read data 4KiB");
    let mut host = host(&line);
    let read = |host: &mut Host, now| match host.next_arrival(now) {
        Arrival::Request(request) => request,
        other => panic!("{other:?}"),
    };
    let (first, ahead) = (read(&mut host, Instant::ZERO), read(&mut host, Instant::ZERO));
    host.completed(&completion(first, SERVICE, Status::Ok));
    host.completed(&completion(ahead, SERVICE, Status::MediumError));
    let mut now = Instant::ZERO + SERVICE;
    let again = loop {
        match host.next_arrival(now) {
            Arrival::At(time) => now = time,
            Arrival::Request(request) => break request,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((again.lbn, again.criticality), (ahead.lbn, Criticality::TimeCritical));
    assert_eq!(host.figures().failed_processes, 0);
}

fn completion(request: Request, after: Duration, status: Status) -> Completion {
    let completed = Instant::ZERO + after;
    Completion {
        request,
        submitted: Instant::ZERO,
        issued: Instant::ZERO,
        started: Instant::ZERO,
        completed,
        breakdown: Breakdown { transfer: after, ..Breakdown::default() },
        outcome: Outcome { status, ..Outcome::default() },
        buffer: BufferOutcome::None,
        seek_cylinders: 0,
        queue_length: 0,
        faults: FaultSet::NONE,
    }
}

#[test]
fn settings_are_overridden() {
    let mut spec = match WorkloadSpec::parse("host,processes.p.program=compute 1s").expect("it is right") {
        WorkloadSpec::Host(spec) => *spec,
        other => panic!("{other:?}"),
    };
    spec.override_settings("memory=8MiB, cpu_speed=4,wakeup_preemption=false").expect("it is right");
    assert_eq!(spec.host.memory, Some(ByteSize::from_bytes(8 << 20)));
    assert_eq!(spec.host.wakeup_preemption, Some(false));
    let figures = Host::new(&spec, TARGET, Seed(1)).expect("it fits").figures();
    assert_eq!(figures.cpus, 1);
    for (line, part) in [
        ("memoory=8MiB", "unknown key `memoory`"),
        ("memory=8", "has no unit"),
        ("memory=8KiB", "memory: 8KiB"),
        ("cpus=0", "cpus: 0"),
        ("cpu_speed=0", "cpu_speed: 0"),
        ("cpus", "has no value"),
        ("cpus=1,cpus=2", "already set"),
        ("profile=vms", "unknown name `vms`"),
    ] {
        let error = spec.override_settings(line).expect_err(line).to_string();
        assert!(error.contains(part), "{line}: {error}");
    }
}

#[test]
fn mistakes_are_named() {
    for (line, part) in [
        ("processes.p.program=reed a 4KiB", "processes.p.program: line 1, `reed a 4KiB`: unknown statement"),
        ("processes.p.program=read a 4KiB", "unknown file `a`"),
        ("task=q,processes.p.program=wait", "task: unknown process `q`"),
        ("processes.p.program=fork q,processes.q.program=fork p", "starts itself"),
        ("files.a.size=9GiB,processes.p.program=wait", "beyond the device"),
    ] {
        let spec = match WorkloadSpec::parse(&format!("host,{line}")).expect(line) {
            WorkloadSpec::Host(spec) => spec,
            other => panic!("{other:?}"),
        };
        let error = Host::new(&spec, TARGET, Seed(1)).expect_err(line);
        assert!(error.to_string().contains(part) && error.advice().is_some(), "{line}: {error}");
    }
    for (line, part) in [
        ("processes.p.program=wait,processes.p.count=0", "processes.p.count: 0"),
        ("processes.p.prog=wait", "unknown key `prog`"),
        ("files.a.size=4KiB", "processes"),
        ("files.a.size=0B,processes.p.program=wait", "files.a.size: 0"),
    ] {
        let error = WorkloadSpec::parse(&format!("host,{line}")).expect_err(line).to_string();
        assert!(error.contains(part), "{line}: {error}");
    }
    let large = AddressSpace { capacity_blocks: 1 << 20, block_size: ByteSize::from_bytes(8192) };
    let Ok(WorkloadSpec::Host(spec)) = WorkloadSpec::parse("host,processes.p.program=wait") else {
        panic!("it is right")
    };
    assert!(Host::new(&spec, large, Seed(1)).expect_err("too large").to_string().contains("do not divide"));
}
