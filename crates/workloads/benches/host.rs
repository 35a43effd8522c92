//! Measures the speed of a host: `cargo bench -p seeklab-workloads --bench host`.
//!
//! The first table has the time of a host per repetition of a program, the device apart: requests complete at once. The second
//! has events per CPU-second with a disk behind the host: statements of a program, steps of a recording, or transactions of an
//! application.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads its arguments")]

use rustix::time::{ClockId, clock_gettime};
use seeklab_core::{
    Arrival, Breakdown, BufferOutcome, ByteSize, Completion, Duration, FaultSet, Instant, Limits, Outcome,
    Request, Seed, Workload, simulate,
};
use seeklab_devices::catalog;
use seeklab_devices::layer::queue_before;
use seeklab_workloads::host::{
    HostSettings, RecordedAction, RecordedExtent, RecordedFile, RecordedStep, RecordedThread, Recording,
};
use seeklab_workloads::{AddressSpace, Builtin, Host, WorkloadSpec};

/// Programs by name; `N` is replaced by the number of repetitions.
const PROGRAMS: &[(&str, &str)] = &[
    ("sequential reads", "repeat N { read data 4KiB; compute 1ms }"),
    ("reads that hit the page cache", "repeat N { read data 4KiB at 0B }"),
    ("delayed writes", "repeat N { write data 4KiB; compute 1ms }"),
    ("reads past the page cache", "repeat N { read data 4KiB random direct }"),
];

/// Programs in front of a disk, with the number of statements in a repetition.
const ON_A_DISK: &[(&str, u64, &str)] = &[
    (
        "compress, svr4",
        3,
        "host.profile=svr4,processes.p.program=repeat N { read data 4KiB; compute 20ms; write log 1453B }",
    ),
    (
        "copy, linux",
        3,
        "host.profile=linux,host.memory=64MiB,processes.p.program=repeat N { read data 4KiB; compute 5us; write log 4KiB }",
    ),
    (
        "random reads, linux",
        2,
        "host.profile=linux,host.memory=64MiB,processes.p.program=repeat N { read data 4KiB random; compute 5us }",
    ),
];

/// Applications; `N` is replaced by a tenth of the number of repetitions. An event is a transaction.
const APPLICATIONS: &[&str] = &["postmark,transactions=N", "database,transactions=N"];

const TARGET: AddressSpace = AddressSpace { capacity_blocks: 1 << 24, block_size: ByteSize::from_bytes(512) };

fn main() {
    // `cargo test --benches` runs the small size, so that the benchmark never rots.
    let large = std::env::args().any(|argument| argument == "--bench");
    let repetitions: u64 = if large { 1_000_000 } else { 1_000 };
    for (name, program) in PROGRAMS {
        let program = program.replace('N', &repetitions.to_string());
        let mut host = host(&format!("files.data.size=4GiB,processes.p.program={program}"));
        let start_s = cpu_s();
        let requests = answer_at_once(&mut host);
        let ns = 1e9 * (cpu_s() - start_s) / repetitions as f64;
        println!("{ns:6.1} ns per repetition, {requests} requests: {name}");
    }
    for (name, statements, line) in ON_A_DISK {
        let line = line.replace('N', &repetitions.to_string());
        let files = "files.data.size=2GiB,files.log.size=2GiB,files.log.at=3GiB";
        on_a_disk(name, host(&format!("{files},{line}")), repetitions * statements);
    }
    for line in APPLICATIONS {
        let line = line.replace('N', &(repetitions / 10).to_string());
        let builtin = Builtin::parse(&line).expect("the line is right");
        let host = builtin.host(TARGET, Seed(1)).expect("the line fits the device");
        on_a_disk(&line, host, repetitions / 10);
    }
    let steps = repetitions * 3;
    on_a_disk("recorded copy of small files", recorded(steps), steps);
}

fn host(line: &str) -> Host {
    let Ok(WorkloadSpec::Host(spec)) = WorkloadSpec::parse(&format!("host,{line}")) else {
        panic!("the line is right: {line}")
    };
    Host::new(&spec, TARGET, Seed(1)).expect("the line fits the device")
}

/// A recording with the steps of a copy of files of 16 KiB: system calls, accesses to metadata, reads and writes.
fn recorded(steps: u64) -> Host {
    const FILE_PAGES: u64 = 4;
    const FILES: u64 = 4096;
    let files = (0..FILES * 2).map(|file| RecordedFile {
        pages: FILE_PAGES,
        extents: vec![RecordedExtent { first: 0, address: 4096 + file * FILE_PAGES, pages: FILE_PAGES }],
        ..RecordedFile::default()
    });
    let action = |number: u64| {
        let file = (number / 16 % FILES) as u32;
        let pages = FILE_PAGES as u32;
        match number % 16 {
            2 | 5 => RecordedAction::Metadata {
                address: u64::from(file) / 16,
                dirties: number % 16 == 5,
                is_present: false,
            },
            8 => RecordedAction::Read { file, first: 0, pages, requested: pages },
            11 => RecordedAction::Write {
                file: file + FILES as u32,
                first: 0,
                pages,
                keeps_first: false,
                keeps_last: false,
            },
            _ => RecordedAction::None,
        }
    };
    let step = |number| RecordedStep { computing: Duration::from_us(2), action: action(number) };
    let steps = (0..steps).map(step).collect();
    let thread = RecordedThread { start: Duration::ZERO, steps };
    let recording = Recording { files: files.collect(), threads: vec![thread], ..Recording::default() };
    // Less memory than the files have, so that the device has work all the time.
    let settings = HostSettings { memory: Some(ByteSize::from_bytes(32 << 20)), ..HostSettings::default() };
    Host::of_recording(recording, &settings, TARGET, Seed(1)).expect("the files fit the device")
}

/// Runs a host in front of a disk model. Prints its speed.
fn on_a_disk(name: &str, mut host: Host, events: u64) {
    let description = catalog::find("cheetah-36es").expect("it is in the catalog");
    let disk = description.build(Seed(1), "disk0").expect("it is complete");
    let scheduler = "c-look".parse().expect("it is a scheduler");
    let mut disk = queue_before(disk, &scheduler, 1).expect("a disk takes a queue");
    let mut requests = 0_u64;
    let start_s = cpu_s();
    simulate(&mut host, &mut disk, Limits::default(), |_| requests += 1)
        .expect("the disk takes every request");
    let seconds = cpu_s() - start_s;
    println!(
        "{:6.2} M events per CPU-second, {events} events, {requests} requests: {name}",
        events as f64 / seconds / 1e6
    );
}

/// CPU time of this thread so far: other work on the machine does not count.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Completes each request at its arrival. Returns the number of requests.
fn answer_at_once(host: &mut Host) -> u64 {
    let (mut now, mut requests) = (Instant::ZERO, 0);
    loop {
        match host.next_arrival(now) {
            Arrival::Request(request) => {
                requests += 1;
                host.completed(&completion(request, now));
            }
            Arrival::Reclassification(_) => {}
            Arrival::At(time) => now = time,
            Arrival::WaitForCompletion | Arrival::Finished => return requests,
        }
    }
}

fn completion(request: Request, now: Instant) -> Completion {
    Completion {
        request,
        submitted: now,
        issued: now,
        started: now,
        completed: now,
        breakdown: Breakdown::default(),
        outcome: Outcome::ok(&request),
        buffer: BufferOutcome::None,
        seek_cylinders: 0,
        queue_length: 0,
        faults: FaultSet::NONE,
    }
}
