//! Streams of jobs over NBD: the sectors of the simulated stream, processor time that is burnt, ends that are noticed.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use seeklab_core::{ByteSize, Duration, HostRequest, Operation, Seed};
use seeklab_emulator::client::ClientError;
use seeklab_emulator::client::jobs::{DriveClient, JobsOptions, JobsResult, Scheduling, check, run_jobs};
use seeklab_emulator::client::nbd::Client;
use seeklab_emulator::clock::Clock;
use seeklab_workloads::{AddressSpace, JobsSpec, WorkloadSpec};

use crate::nbd::serving::Serving;

const SIZE_MIB: usize = 64;
/// Blocks of each of two drives.
const SPACE: AddressSpace =
    AddressSpace { capacity_blocks: (SIZE_MIB as u64) << 10, block_size: ByteSize::from_bytes(512) };

fn spec(items: &str) -> JobsSpec {
    let line = format!(
        "jobs,jobs=4,cycles=50,buffer=8,input=100000/s:50%:9+4000/s:50%:9,output=100000/s:50%:9+4000/s:50%:9{items}"
    );
    match WorkloadSpec::parse(&line) {
        Ok(WorkloadSpec::Jobs(spec)) => *spec,
        other => panic!("{line}: {other:?}"),
    }
}

fn run(
    spec: &JobsSpec,
    serving: &Serving,
    stop: &AtomicBool,
) -> (Result<JobsResult, ClientError>, Vec<HostRequest>) {
    let clock = Clock::start();
    let requests = Mutex::new(Vec::new());
    let options = JobsOptions {
        clock,
        emulator: None,
        stop: Some(stop),
        observe: &|request| requests.lock().unwrap().push(*request),
    };
    let drives = (0..u64::from(spec.drives))
        .map(|number| {
            let client = Client::connect(&serving.uri, clock).unwrap();
            DriveClient::over_nbd(client, number * SPACE.capacity_blocks * 512)
        })
        .collect();
    check(spec, SPACE).unwrap();
    let result = run_jobs(spec, drives, SPACE, Seed(1), &options, &mut |_| ());
    (result, requests.into_inner().unwrap())
}

#[test]
fn every_sector_of_every_job_is_transferred_once() {
    for items in [
        "",
        ",threshold=8,reactivation=sector,multiprogramming=3",
        ",transfers=sized_at_start,multiprogramming=1",
        ",drives=2,multiprogramming=4",
        ",call_time=1ms,sector_time=10us",
    ] {
        let spec = spec(items);
        let serving = Serving::start(SIZE_MIB, Duration::from_us(100));
        let (result, requests) = run(&spec, &serving, &AtomicBool::new(false));
        let result = result.expect(items);
        let figures = &result.figures;
        assert!(figures.is_finished && figures.jobs == 4, "{items}: {figures:?}");
        assert_eq!((figures.sectors, figures.failed_requests), (400, 0), "{items}");
        for op in [Operation::Read, Operation::Write] {
            let of_op = requests.iter().filter(|request| request.op == op);
            let bytes: u64 = of_op.map(|request| request.length_bytes).sum();
            assert_eq!(bytes, 200 * 512, "{items}");
        }
        // Addresses are those on the drive.
        assert!(requests.iter().all(|request| request.offset_bytes < SPACE.capacity_blocks * 512));
        // Processor time is that of the threads. It is as the seed draws it, and a little more: each job exceeds its end.
        let drawn = spec.processor_time(Seed(1));
        assert!(figures.job_processor >= drawn, "{items}: {} of {drawn}", figures.job_processor);
        assert!(result.user + result.kernel > Duration::ZERO, "{items}");
        if result.processor.is_some() {
            assert!(figures.elapsed >= drawn, "{items}: jobs share one processor");
        }
        let calls: u64 = figures.calls.iter().sum();
        let described = spec.call_time * calls + spec.sector_time * figures.sectors;
        assert!(figures.system_processor + Duration::from_ms(2) >= described, "{items}: {figures:?}");
        if let Scheduling::Ordinary(reason) = &result.scheduling {
            assert!(reason.contains("not permitted"), "{reason}");
        }
        serving.end();
    }
}

#[test]
fn stream_of_many_slots_is_refused() {
    let error = check(&spec(",multiprogramming=65"), SPACE).unwrap_err().to_string();
    assert!(error.contains("multiprogramming: 65 job slots are too many"), "{error}");
    check(&spec(",multiprogramming=64"), SPACE).unwrap();
}

#[test]
fn stop_ends_a_stream_that_waits_for_replies_or_burns() {
    // A reply takes a minute; a sector takes more than a minute of processor time.
    for delay in [Duration::from_s(60), Duration::ZERO] {
        let mut spec = spec("");
        if delay.is_zero() {
            spec.output = "0.01/s".parse().unwrap();
        }
        let serving = Serving::start(SIZE_MIB, delay);
        let (result, _) = run(&spec, &serving, &AtomicBool::new(true));
        assert!(matches!(result, Err(ClientError::Stopped { .. })), "{result:?}");
        serving.end();
    }
}
