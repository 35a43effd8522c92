//! Built-in workloads over NBD: the requests of the simulator, data that is checked, ends that are noticed.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use seeklab_core::{Device, Duration, Limits, Operation, Seed, simulate};
use seeklab_devices::simple::{Server, ServerParameters};
use seeklab_emulator::client::nbd::Client;
use seeklab_emulator::client::runner::RunnerOptions;
use seeklab_emulator::client::{BuiltinResult, ClientError, Progress, run_builtin, run_builtin_with};
use seeklab_emulator::clock::Clock;
use seeklab_workloads::host::Phase;
use seeklab_workloads::{AddressSpace, Builtin, Retries};

use crate::nbd::serving::Serving;

const SIZE_MIB: usize = 256;
const POSTMARK: &str = "postmark,files=40,transactions=60";
const BUILD: &str = "build,files=30,headers=10,tests=5,compile=1ms,test=1ms,directories=3";
const DATABASE: &str = "database,table=8MiB,pool=1MiB,transactions=100,checkpoint=16KiB,compute=50us";

fn parse(line: &str) -> Builtin {
    Builtin::parse(line).expect(line)
}

fn run(line: &str, delay: Duration) -> BuiltinResult {
    let serving = Serving::start(SIZE_MIB, delay);
    let result = run_builtin(&parse(line), &serving.uri, Seed(1), &mut |_| ()).expect(line);
    let statistics = serving.end();
    assert_eq!((statistics.violation_count, statistics.vanished_count), (0, 0), "{statistics:?}");
    result
}

#[test]
fn every_workload_runs_and_reads_its_own_data() {
    for line in [POSTMARK, BUILD, DATABASE, "postmark,files=50,transactions=50,mount=journal,discard=true"] {
        for delay in [Duration::ZERO, Duration::from_us(100)] {
            let result = run(line, delay);
            assert_eq!(
                (result.mismatch_count, result.is_full),
                (0, false),
                "{line}: {:?}",
                result.mismatches
            );
            let requests: u64 = result.phases.iter().map(|phase| phase.requests).sum();
            assert_eq!(result.requests.len() as u64, requests);
            assert!(result.phases.iter().all(|phase| phase.end.is_some() && phase.operations > 0));
            for request in &result.requests {
                assert!(request.completion > request.issue && request.response_time() >= delay);
            }
            let of = |op| -> u64 {
                let requests = result.requests.iter().filter(|request| request.op == op);
                requests.map(|request| request.length_bytes).sum()
            };
            assert_eq!(of(Operation::Read), result.read_bytes);
            assert_eq!(of(Operation::Write), result.written_bytes);
            let last = result.phases.last().expect("there are phases");
            assert!(result.operations_per_s(last.name).expect("it took time") > 0.0);
        }
    }
}

#[test]
fn data_read_are_compared_with_data_written() {
    let result = run(BUILD, Duration::ZERO);
    // The build reads what was unpacked, which is most of what it reads.
    assert!(result.verified_bytes * 2 > result.read_bytes, "{} {}", result.verified_bytes, result.read_bytes);
    let options = RunnerOptions { verify: false, ..RunnerOptions::default() };
    let serving = Serving::start(SIZE_MIB, Duration::ZERO);
    let unchecked = run_builtin_with(&parse(BUILD), &serving.uri, Seed(1), &options, &mut |_| ());
    assert_eq!(unchecked.expect(BUILD).verified_bytes, 0);
    // PostMark's files are all cached, so nothing of them is read unless it is read back.
    let options = RunnerOptions { read_back: true, ..RunnerOptions::default() };
    let result = run_builtin_with(&parse(POSTMARK), &serving.uri, Seed(1), &options, &mut |_| ());
    let result = result.expect(POSTMARK);
    assert!(result.verified_bytes > 40 * 4096 && result.mismatch_count == 0, "{}", result.verified_bytes);
    assert!(result.read_bytes < result.verified_bytes);
}

#[test]
fn lost_blocks_are_found_and_reported() {
    let serving = Serving::start(SIZE_MIB, Duration::ZERO);
    let mut vandal = Client::connect(&serving.uri, Clock::start()).expect("the server takes clients");
    let was_here = Cell::new(false);
    let mut progress = |progress: Progress| {
        if progress.phase == "configure" && !was_here.replace(true) {
            vandal.write_zeroes(0, (SIZE_MIB as u32) << 20).expect("it is zeroed");
        }
    };
    // Long enough for a progress report in its second phase.
    let line = format!("{BUILD},test=60ms,tests=10");
    let line = line.replace("tests=5,", "").replace("test=1ms,", "");
    let result = run_builtin(&parse(&line), &serving.uri, Seed(1), &mut progress).expect(BUILD);
    assert!(was_here.get() && result.mismatch_count > 16, "{}", result.mismatch_count);
    assert_eq!(result.mismatches.len(), 16);
    assert!(result.mismatches[0].to_string().contains("zero"), "{}", result.mismatches[0]);
}

#[test]
fn runner_sends_the_same_requests_as_the_simulation() {
    let parameters = ServerParameters {
        capacity_blocks: (SIZE_MIB as u64) << 11,
        block_size: "512B".parse().expect("it is a size"),
        service_time: Duration::from_us(20),
    };
    for line in [POSTMARK, BUILD.replace(",files", ",processes=1,files").as_str()] {
        let mut device = Server::constant(&parameters).expect("it can be built");
        let target = AddressSpace::from(device.capabilities());
        let mut host = parse(line).host(target, Seed(1)).expect(line);
        let mut simulated = Vec::new();
        simulate(&mut host, &mut device, Limits::default(), |completion| {
            let request = completion.request;
            simulated.push((request.op, request.lbn * 512, u64::from(request.blocks) * 512, request.fua));
        })
        .expect(line);
        let result = run(line, Duration::ZERO);
        let phases = |phases: &[Phase]| -> Vec<(&str, u64)> {
            phases.iter().map(|phase| (phase.name, phase.operations)).collect()
        };
        assert_eq!(phases(host.phases()), phases(&result.phases));
        // From five seconds on, write-back comes in between, where a machine is so slow.
        if result.elapsed < Duration::from_s(5) {
            let mut emulated: Vec<_> = result
                .requests
                .iter()
                .map(|request| (request.op, request.offset_bytes, request.length_bytes, request.fua))
                .collect();
            emulated.sort_unstable_by_key(|(op, offset, length, _)| (*offset, *length, op.name()));
            simulated.sort_unstable_by_key(|(op, offset, length, _)| (*offset, *length, op.name()));
            assert_eq!(simulated.len(), emulated.len(), "{line}");
            assert!(simulated == emulated, "{line}");
        }
    }
}

#[test]
fn several_connections_work_as_one() {
    let serving = Serving::start(SIZE_MIB, Duration::from_us(50));
    let options = RunnerOptions { connections: 4, ..RunnerOptions::default() };
    let result = run_builtin_with(&parse(DATABASE), &serving.uri, Seed(1), &options, &mut |_| ());
    assert_eq!(result.expect(DATABASE).mismatch_count, 0);
    assert_eq!(serving.end().connected_count, 4);
}

#[test]
fn vanished_server_is_reported() {
    let mut serving = Some(Serving::start(SIZE_MIB, Duration::from_us(200)));
    let uri = serving.as_ref().expect("it was just started").uri.clone();
    let mut progress = |progress: Progress| {
        if progress.requests > 10
            && let Some(serving) = serving.take()
        {
            serving.end();
        }
    };
    let result = run_builtin(&parse("postmark"), &uri, Seed(1), &mut progress);
    let error = result.expect_err("the server has gone");
    // A server that ends in order says so to requests that it takes no more.
    assert!(matches!(error, ClientError::Closed { .. }), "{error:?}");
}

#[test]
fn run_stops_on_request() {
    let serving = Serving::start(SIZE_MIB, Duration::from_us(200));
    let stop = AtomicBool::new(false);
    let options = RunnerOptions { stop: Some(&stop), ..RunnerOptions::default() };
    let mut progress = |progress: Progress| stop.store(progress.requests > 0, Ordering::Relaxed);
    let result = run_builtin_with(&parse("postmark"), &serving.uri, Seed(1), &options, &mut progress);
    assert!(matches!(result, Err(ClientError::Stopped { .. })), "{result:?}");
}

#[test]
fn export_that_is_too_small_is_reported() {
    let serving = Serving::start(1, Duration::ZERO);
    let error =
        run_builtin(&parse("postmark"), &serving.uri, Seed(1), &mut |_| ()).expect_err("1 MiB is too small");
    assert!(matches!(error, ClientError::Workload { .. }), "{error:?}");
}

/// A database of a megabyte and more that runs for at least two seconds on a device of half a millisecond.
const LONG: &str = "database,table=8MiB,pool=1MiB,transactions=2000,checkpoint=256KiB,compute=50us";

#[test]
fn application_goes_on_when_the_device_is_back() {
    let gone = "kind = \"fault\"\n[[fault]]\nkind = \"gone\"\nat = \"1s\"\nfor = \"100ms\"\nrepeat = \"400ms\"\n\
                [device]\nkind = \"constant\"\ncapacity_blocks = 524288\nblock_size = \"512B\"\nservice_time = \"500us\"\n";
    let serving = Serving::emulating(SIZE_MIB, gone);
    let reconnect_within = Duration::from_s(60);
    let options =
        RunnerOptions { connections: 3, read_back: true, reconnect_within, ..RunnerOptions::default() };
    let result = run_builtin_with(&parse(LONG), &serving.uri, Seed(1), &options, &mut |_| ()).expect(LONG);
    let statistics = serving.end();
    assert_eq!((result.mismatch_count, result.is_full), (0, false), "{:?}", result.mismatches);
    assert!(result.phases.iter().all(|phase| phase.end.is_some() && phase.operations > 0));
    assert!(result.reconnections >= 3 && result.failed_requests > 0, "{}", result.reconnections);
    assert_eq!(statistics.connected_count, 3 + result.reconnections);
    let failed = result.requests.iter().filter(|request| request.error.is_some()).count() as u64;
    assert!(failed > 0 && failed <= result.failed_requests);
    assert!(result.requests.iter().all(|request| matches!(request.error, None | Some(108))));
    assert_eq!(result.retries.abandoned_requests, failed);
    assert!(result.verified_bytes > 8 << 20, "{}", result.verified_bytes);
}

#[test]
fn application_survives_losses_of_power_and_what_no_flush_covers_is_not_checked() {
    // A buffer that is never empty when the power goes. The drive itself takes one request at a time.
    let loss = "kind = \"queue\"\n[device]\nkind = \"fault\"\n\
                [[device.fault]]\nkind = \"power_loss\"\nat = \"1s\"\nback_after = \"50ms\"\nrepeat = \"300ms\"\n\
                [[device.fault]]\nkind = \"slow\"\nfactor = 3\n[device.device]\nbase = \"cheetah-36es\"\n";
    let serving = Serving::emulating(SIZE_MIB, loss);
    let retries = Retries { count: 3, after: Duration::ZERO };
    let reconnect_within = Duration::from_s(60);
    let options = RunnerOptions { read_back: true, reconnect_within, retries, ..RunnerOptions::default() };
    let line = LONG.replace("transactions=2000", "transactions=200");
    let result = run_builtin_with(&parse(&line), &serving.uri, Seed(1), &options, &mut |_| ()).expect(&line);
    assert_eq!(result.mismatch_count, 0, "{:?}", result.mismatches);
    assert!(result.reconnections > 0 && result.verified_bytes > 0, "{}", result.reconnections);
    assert!(result.retries.retried_requests > 0, "{:?}", result.retries);
}

#[test]
fn device_that_does_not_come_back_in_time_ends_the_run() {
    let gone = "kind = \"fault\"\n[[fault]]\nkind = \"gone\"\nat = \"1s\"\n\
                [device]\nkind = \"constant\"\ncapacity_blocks = 524288\nblock_size = \"512B\"\nservice_time = \"500us\"\n";
    let serving = Serving::emulating(SIZE_MIB, gone);
    let options = RunnerOptions { reconnect_within: Duration::from_ms(100), ..RunnerOptions::default() };
    let error = run_builtin_with(&parse(LONG), &serving.uri, Seed(1), &options, &mut |_| ())
        .expect_err("it is gone for good");
    assert!(error.to_string().ends_with("closed the connection and has taken no other for 0.1 s"), "{error}");
    let stop = AtomicBool::new(false);
    let options = RunnerOptions { stop: Some(&stop), reconnect_within: Duration::from_s(600), ..options };
    let serving = Serving::emulating(SIZE_MIB, gone);
    let result = std::thread::scope(|scope| {
        let run =
            scope.spawn(|| run_builtin_with(&parse(LONG), &serving.uri, Seed(1), &options, &mut |_| ()));
        // The device is gone when it refuses clients.
        while Client::connect(&serving.uri, Clock::start()).is_ok() {
            std::thread::park_timeout(std::time::Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
        run.join().expect("it does not panic")
    });
    assert!(matches!(result, Err(ClientError::Stopped { .. })), "{result:?}");
}

#[test]
fn blocks_that_no_flush_covers_are_not_checked_behind_a_loss_of_power() {
    // A clone with a volatile cache: what no flush covers is lost, and a flush takes as long as a write.
    let loss = "kind = \"fault\"\n[[fault]]\nkind = \"power_loss\"\nat = \"300ms\"\nback_after = \"20ms\"\nrepeat = \"70ms\"\n\
                [device]\nkind = \"station\"\ncapacity_blocks = 524288\nblock_size = \"512B\"\nservers = 1\nvolatile_write_cache = true\n\
                tree = [\"op < write\", \". = 865 1\", \". = 865 1\"]\n\
                [[device.operations]]\nop = \"read\"\nrequests = 1\ntypical = \"400us\"\nblocks_min = 1\nblocks_max = 1024\nqueue_max = 64\n";
    let serving = Serving::emulating(SIZE_MIB, loss);
    let reconnect_within = Duration::from_s(60);
    let options = RunnerOptions { read_back: true, reconnect_within, ..RunnerOptions::default() };
    let line = LONG.replace("transactions=2000", "transactions=400");
    let result = run_builtin_with(&parse(&line), &serving.uri, Seed(1), &options, &mut |_| ()).expect(&line);
    // Each loss takes something with a probability of about a half, so one of so many surely does.
    assert!(result.reconnections > 10 && result.failed_requests > 5, "{}", result.reconnections);
    assert_eq!(result.mismatch_count, 0, "{:?}", result.mismatches);
    assert!(result.verified_bytes > 1 << 20, "{}", result.verified_bytes);
}

#[test]
fn idle_connection_that_was_closed_is_opened_again() {
    let gone = "kind = \"fault\"\n[[fault]]\nkind = \"gone\"\nat = \"1s\"\nfor = \"100ms\"\n\
                [device]\nkind = \"constant\"\ncapacity_blocks = 524288\nblock_size = \"512B\"\nservice_time = \"500us\"\n";
    let serving = Serving::emulating(SIZE_MIB, gone);
    let reconnect_within = Duration::from_s(60);
    // More connections than processes: nothing is ever sent over the last ones.
    let options = RunnerOptions { connections: 16, reconnect_within, ..RunnerOptions::default() };
    let result = run_builtin_with(&parse(LONG), &serving.uri, Seed(1), &options, &mut |_| ()).expect(LONG);
    assert_eq!(result.reconnections, 16);
    assert_eq!(serving.end().connected_count, 32);
}
