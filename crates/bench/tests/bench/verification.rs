//! Verification: every fault that a lying server plants is found and rightly named, and nothing else.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use seeklab_bench::target::Target;
use seeklab_bench::verify::{
    Findings, Kind, LedgerError, PassOptions, PassResults, RunState, Verification, VerifiedLane,
    VerifiedTarget, VerifyOptions, verify_pass,
};
use seeklab_bench::{Lane, Plan, Stream, StreamPlan, measure};
use seeklab_core::{ByteSize, Duration};
use seeklab_emulator::clock::Clock;

use crate::harness::{Heard, open, options, synthetic};
use crate::liar::{Accidents, Liar, Lie, Served, chosen, on_read, on_write};

/// Faults of each kind.
const FAULTS: usize = 1_000;
/// Blocks of the server: each is written by a request of its own.
const BLOCKS: u64 = 4_096;

pub(crate) fn verify_options() -> VerifyOptions {
    VerifyOptions { ram: VerifyOptions::RAM, state: None, run: 0x1234_5678_9abc_def1 }
}

/// The verification of one target, for so many streams.
pub(crate) fn verification(
    options: &VerifyOptions,
    target: &dyn Target,
    address: &str,
    streams: usize,
) -> Result<Verification, LedgerError> {
    let target = VerifiedTarget { address: address.to_owned(), space: target.facts().space };
    let streams: Vec<String> = (0..streams).map(|stream| format!("stream {stream}")).collect();
    Verification::new(options, vec![target], &streams)
}

/// A server, and the verification of all runs on it.
struct Trial {
    served: Served,
    verification: Verification,
    block_bytes: u64,
}

impl Trial {
    fn new(block_bytes: u64) -> Self {
        let disk = tempfile::tempfile().unwrap();
        let liar = Liar::new(disk, BLOCKS * block_bytes, block_bytes as u32, Accidents::default());
        let served = liar.serve();
        let target = target(&served.uri);
        assert_eq!(target.facts().space.block_size.as_bytes(), block_bytes);
        let verification = verification(&verify_options(), &*target, &served.uri, 1).unwrap();
        Self { served, verification, block_bytes }
    }

    /// Runs a load with checks.
    fn run(&self, line: &str, seed: u64) {
        run(&self.verification, vec![target(&self.served.uri)], line, seed, StreamPlan::default());
    }

    /// Writes every block once, a request of `size_bytes` after the other.
    fn write(&self, size_bytes: u64) {
        let requests = BLOCKS * self.block_bytes / size_bytes;
        self.run(
            &format!(
                "sequential,size={size_bytes}B,align={size_bytes}B,read=0%,closed=8,requests={requests}"
            ),
            1,
        );
    }

    /// Reads every block once.
    fn read(&self, size_bytes: u64) -> Findings {
        let requests = BLOCKS * self.block_bytes / size_bytes;
        self.run(
            &format!(
                "sequential,size={size_bytes}B,align={size_bytes}B,read=100%,closed=32,requests={requests}"
            ),
            1,
        );
        self.verification.findings()
    }

    /// Lies about requests that begin at the chosen blocks.
    fn order(&self, key: fn(u64) -> u64, blocks: &[u64], lie: impl Fn(u64) -> Lie) {
        self.served.liar.order(blocks.iter().map(|block| (key(block * self.block_bytes), lie(*block))));
    }

    fn planted(&self) -> u64 {
        *self.served.liar.planted.lock().unwrap()
    }
}

pub(crate) fn target(address: &str) -> Box<dyn Target> {
    open(address, Clock::start(), &options(64)).unwrap()
}

fn run(
    verification: &Verification,
    targets: Vec<Box<dyn Target>>,
    line: &str,
    seed: u64,
    plan: StreamPlan,
) -> seeklab_bench::Measurement {
    let threads = targets.len() as u32;
    let lanes = targets.into_iter().enumerate().map(|(index, target)| {
        let workload = synthetic(line, target.facts().space, seed).share(index as u32, threads);
        let lane = VerifiedLane { is_shared: threads > 1, writes: true, ..VerifiedLane::default() };
        Lane::new(verification.attach(target, &lane).unwrap(), workload)
    });
    let plan = StreamPlan { outstanding_max: 64 * threads, ..plan };
    let streams = vec![Stream::new(plan, lanes.collect())];
    measure(&Plan::default(), Clock::start(), streams, &mut Heard::default()).unwrap()
}

/// Findings of one kind and of no other.
#[track_caller]
fn assert_only(findings: &Findings, kind: Kind, count: u64) {
    let mut expected = [0; Kind::ALL.len()];
    expected[kind as usize] = count;
    assert_eq!(findings.counts, expected, "{kind:?}: {:?}", findings.first);
    assert_eq!((findings.undecided_blocks, findings.overtaken_blocks), (0, 0));
}

/// Trials with blocks of one sector and of eight.
fn trials() -> impl Iterator<Item = Trial> {
    [512, 4096].into_iter().map(Trial::new)
}

#[test]
fn nothing_is_found_on_an_honest_server() {
    for trial in trials() {
        trial.write(trial.block_bytes);
        trial.write(16 * trial.block_bytes);
        let findings = trial.read(4 * trial.block_bytes);
        assert_eq!((findings.count(), findings.checked_blocks, findings.unwritten_blocks), (0, BLOCKS, 0));
    }
}

#[test]
fn corrupt_blocks_are_found_and_named() {
    for trial in trials() {
        trial.write(trial.block_bytes);
        trial.order(on_read, &chosen(FAULTS, BLOCKS, 1), |block| Lie::Flip(block as usize * 7919));
        assert_only(&trial.read(trial.block_bytes), Kind::Corrupt, FAULTS as u64);
        assert_eq!(trial.planted(), FAULTS as u64);
    }
}

#[test]
fn stale_blocks_are_found_and_named() {
    for trial in trials() {
        trial.write(trial.block_bytes);
        trial.order(on_write, &chosen(FAULTS, BLOCKS, 2), |_| Lie::Lose);
        trial.write(trial.block_bytes);
        assert_eq!(trial.planted(), FAULTS as u64);
        let findings = trial.read(8 * trial.block_bytes);
        assert_only(&findings, Kind::Stale, FAULTS as u64);
        let first = findings.first[0];
        let found = first.found.unwrap();
        assert!(found.is_of_run && found.lbn == first.lbn && found.sequence < first.expected_sequence);
    }
}

#[test]
fn blank_blocks_are_found_and_named() {
    for trial in trials() {
        trial.order(on_write, &chosen(FAULTS, BLOCKS, 3), |_| Lie::Lose);
        trial.write(trial.block_bytes);
        assert_only(&trial.read(8 * trial.block_bytes), Kind::Blank, FAULTS as u64);
        assert_eq!(trial.planted(), FAULTS as u64);
    }
}

#[test]
fn misdirected_reads_are_found_and_named() {
    for trial in trials() {
        trial.write(trial.block_bytes);
        let elsewhere = |block: u64| Lie::ReadFrom((block + 1 + block % 1000) % BLOCKS * trial.block_bytes);
        trial.order(on_read, &chosen(FAULTS, BLOCKS, 4), elsewhere);
        assert_only(&trial.read(trial.block_bytes), Kind::Misdirected, FAULTS as u64);
        assert_eq!(trial.planted(), FAULTS as u64);
    }
}

#[test]
fn misdirected_writes_are_found_at_both_places() {
    for trial in trials() {
        trial.write(trial.block_bytes);
        // A sequential load begins anywhere. Any half of the blocks has as many lies, and the other half is not written.
        let half = BLOCKS / 2;
        let blocks = chosen(FAULTS, half, 5);
        let blocks: Vec<u64> = blocks.iter().flat_map(|block| [*block, block + half]).collect();
        trial.order(on_write, &blocks, |block| Lie::Misdirect((block + half) % BLOCKS * trial.block_bytes));
        let size = trial.block_bytes;
        trial.run(&format!("sequential,size={size}B,align={size}B,read=0%,closed=8,requests={half}"), 1);
        assert_eq!(trial.planted(), FAULTS as u64);
        let findings = trial.read(8 * trial.block_bytes);
        let mut expected = [0; Kind::ALL.len()];
        expected[Kind::Misdirected as usize] = FAULTS as u64;
        expected[Kind::Stale as usize] = FAULTS as u64;
        assert_eq!(findings.counts, expected, "{:?}", findings.first);
    }
}

#[test]
fn torn_writes_are_found_and_named() {
    // Within a block of eight sectors.
    let trial = Trial::new(4096);
    trial.write(4096);
    trial.order(on_write, &chosen(FAULTS, BLOCKS, 6), |block| Lie::Tear(512 * (1 + block as usize % 7)));
    trial.write(4096);
    assert_only(&trial.read(32 << 10), Kind::Torn, FAULTS as u64);
    assert_eq!(trial.planted(), FAULTS as u64);
    // Within a sector, also where nothing was written before.
    for times in [1, 2] {
        let trial = Trial::new(512);
        // The numbers of the two writes of a block differ in more than a bit.
        (1..times).for_each(|_| trial.write(512));
        (1..times).for_each(|_| trial.run("random,size=512B,read=0%,closed=1,requests=77", 1));
        trial.order(on_write, &chosen(FAULTS, BLOCKS, 7), |block| Lie::Tear(64 + 8 * (block as usize % 50)));
        trial.write(512);
        assert_only(&trial.read(4096), Kind::Torn, FAULTS as u64);
    }
    // Between the blocks of a write.
    let trial = Trial::new(512);
    trial.write(512);
    let writes: Vec<u64> = chosen(400, BLOCKS / 8, 8).into_iter().map(|write| 8 * write).collect();
    trial.order(on_write, &writes, |block| Lie::Tear(512 * (1 + (block / 8) as usize % 7)));
    trial.write(4096);
    let missing: u64 = writes.iter().map(|block| 7 - block / 8 % 7).sum();
    assert!(missing > FAULTS as u64);
    assert_only(&trial.read(4096), Kind::Torn, missing);
}

/// Requests of the trials without lies: `SEEKLAB_VERIFY_REQUESTS`, or few.
pub(crate) fn requests() -> u64 {
    std::env::var("SEEKLAB_VERIFY_REQUESTS").map_or(40_000, |text| text.parse().unwrap())
}

fn assert_no_alarm(findings: &Findings) {
    assert_eq!(findings.count(), 0, "{findings:?}");
    eprintln!("{findings:?}");
}

#[test]
fn accidents_are_no_findings() {
    // Each request without a reply costs its time limit: some forty of them, however many requests.
    let silent = 40_000_000 / requests();
    let accidents = Accidents { refused: 5_000, failed_after: 5_000, silent, cut: 1_000 };
    let disk = tempfile::tempfile().unwrap();
    // A small disk, so that requests overlap.
    let served = Liar::new(disk, 1 << 20, 512, accidents).serve();
    let targets = || -> Vec<_> { (0..2).map(|_| target(&served.uri)).collect() };
    let verification = verification(&verify_options(), &*target(&served.uri), &served.uri, 1).unwrap();
    let line = format!("random,size=512B:1+4KiB:4+64KiB:1,read=50%,closed=64,requests={}", requests());
    let plan = StreamPlan { timeout: Some(Duration::from_ms(100)), ..StreamPlan::default() };
    let measurement = run(&verification, targets(), &line, 3, plan);
    let totals = &measurement.totals;
    assert!(totals.part.failed > 100 && totals.reconnections > 5, "{totals:?}");
    let findings = verification.findings();
    assert_no_alarm(&findings);
    assert!(findings.held_writes > 100 && findings.checked_blocks > requests(), "{findings:?}");
}

#[test]
fn nothing_is_found_in_files_under_many_threads() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let path = file.path().to_str().unwrap();
    let written = "random,size=512B:1+4KiB:4+64KiB:1,read=50%,closed=32,requests=20000";
    // Blocks that are cleared while they are read.
    let cleared =
        "random,size=512B:1+4KiB:4+64KiB:1,read=50%,discard=8%,write_zeroes=8%,closed=32,requests=20000";
    let runs = [("io_uring:", written), ("psync:", written), ("io_uring:", cleared), ("psync:", cleared)];
    // The file keeps the stamps of the runs before, so each needs a number of its own.
    for (run_number, (kind, line)) in (1..).zip(runs) {
        let address = format!("{kind}{path}");
        let options = seeklab_bench::target::TargetOptions { direct: false, ..options(16) };
        let Ok(first) = open(&address, Clock::start(), &options) else { continue };
        let options_of_run = VerifyOptions { run: run_number, ..verify_options() };
        let verification = verification(&options_of_run, &*first, &address, 1).unwrap();
        let targets = (0..2).map(|_| open(&address, Clock::start(), &options).unwrap()).collect();
        run(&verification, targets, line, 4, StreamPlan::default());
        let findings = verification.findings();
        assert_no_alarm(&findings);
        assert!(findings.checked_blocks > 10_000, "{findings:?}");
    }
}

/// A server in a process of its own.
fn server(socket: &Path, image: &Path) -> Child {
    // The socket has its name before it listens.
    let answers = || std::os::unix::net::UnixStream::connect(socket).is_ok();
    let _ = std::fs::remove_file(socket);
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "liar::serve_until_killed", "--ignored", "--nocapture"])
        .env("LIAR_SOCKET", socket)
        .env("LIAR_IMAGE", image)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while !answers() {
        std::thread::yield_now();
    }
    child
}

#[test]
fn killed_servers_are_no_findings_and_keep_what_was_flushed() {
    let directory = tempfile::tempdir().unwrap();
    let (socket, image) = (directory.path().join("s.sock"), directory.path().join("image"));
    let state = directory.path().join("state");
    File::create(&image).unwrap().set_len(4 << 20).unwrap();
    let mut child = server(&socket, &image);
    let address = crate::liar::uri(&socket);
    let verify = VerifyOptions { state: Some(state.clone()), ..verify_options() };
    let first = target(&address);
    let verification = verification(&verify, &*first, &address, 1).unwrap();
    drop(first);
    let line = format!("random,size=512B:1+4KiB:4,read=50%,closed=32,requests={}", requests());
    let is_over = AtomicBool::new(false);
    let (measurement, mut child, kills) = std::thread::scope(|scope| {
        let killer = scope.spawn(|| {
            let mut kills = 0;
            // Each time when a twentieth of the reads has been checked since.
            while !is_over.load(Ordering::Relaxed) {
                if verification.findings().reads < (kills + 1) * requests() / 40 {
                    std::thread::park_timeout(std::time::Duration::from_millis(1));
                    continue;
                }
                child.kill().unwrap();
                child.wait().unwrap();
                kills += 1;
                child = server(&socket, &image);
            }
            (child, kills)
        });
        let measurement = run(&verification, vec![target(&address)], &line, 5, StreamPlan::default());
        is_over.store(true, Ordering::Relaxed);
        let (child, kills) = killer.join().unwrap();
        (measurement, child, kills)
    });
    assert!(kills > 10 && measurement.totals.reconnections > 0, "{kills}");
    eprintln!("{kills} kills, {} reconnections", measurement.totals.reconnections);
    assert_no_alarm(&verification.findings());
    drop(verification);
    let opened = RunState::open(&state, true).unwrap();
    assert_eq!(opened.targets().next().unwrap().address, address);
    let pass = verify_pass(
        (&opened, 0),
        (target(&address), &address),
        &PassOptions::default(),
        &PassResults::new(&opened),
        &mut |_| true,
    )
    .unwrap();
    // A write of a killed connection that was carried out late is named by a pass.
    assert!(pass.required_blocks > 1_000 && pass.unreadable_blocks == 0, "{pass:?}");
    assert_eq!(pass.findings.count(), 0, "{pass:?}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn pass_finds_what_was_lost_behind_a_flush_and_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let (state, image) = (directory.path().join("state"), directory.path().join("image"));
    File::create(&image).unwrap().set_len(1 << 20).unwrap();
    let address = format!("psync:{}", image.display());
    let options = seeklab_bench::target::TargetOptions { direct: false, ..options(1) };
    let opened = || open(&address, Clock::start(), &options).unwrap();
    let verify = VerifyOptions { state: Some(state.clone()), ..verify_options() };
    let checked = verification(&verify, &*opened(), &address, 1).unwrap();
    let write = |lbns: std::ops::Range<u64>| {
        use seeklab_core::{Operation, Request};
        let lane = VerifiedLane { writes: true, ..VerifiedLane::default() };
        let mut target = checked.attach(opened(), &lane).unwrap();
        let requests = lbns.map(|lbn| Request::new(lbn, Operation::Write, lbn, 1));
        for request in requests.chain([Request::new(0, Operation::Flush, 0, 0)]) {
            target.submit(&[seeklab_bench::target::Transfer { tag: 0, request }]).unwrap();
            let mut ended = Vec::new();
            target.poll(seeklab_emulator::clock::Wait::Spin, 1, &mut ended).unwrap();
            assert_eq!(ended.len(), 1);
            // Without the flush at the end.
            if request.lbn == 399 {
                break;
            }
        }
    };
    write(0..200);
    let flushed = std::fs::read(&image).unwrap();
    // Not flushed: the second half of what was, and new blocks.
    write(100..400);
    drop(checked);
    let count = |acknowledged: bool| {
        let state = RunState::open(&state, acknowledged).unwrap();
        verify_pass(
            (&state, 0),
            (opened(), "it"),
            &PassOptions::default(),
            &PassResults::new(&state),
            &mut |_| true,
        )
        .unwrap()
    };
    assert_eq!((count(false).required_blocks, count(false).findings.count()), (200, 0));
    assert_eq!((count(true).required_blocks, count(true).findings.count()), (400, 0));
    // The power is lost: what was not flushed has gone. That is allowed.
    std::fs::write(&image, &flushed).unwrap();
    assert_eq!(count(false).findings.count(), 0);
    let acknowledged = count(true).findings;
    assert_eq!(acknowledged.counts[Kind::Stale as usize], 100, "{acknowledged:?}");
    assert_eq!(acknowledged.counts[Kind::Blank as usize], 200);
    // A block that was flushed is lost: that is not.
    let mut lost = flushed;
    lost[150 * 512..151 * 512].fill(0);
    std::fs::write(&image, &lost).unwrap();
    assert_eq!(count(false).findings.counts[Kind::Blank as usize], 1);
    // In use, and there already.
    let busy = RunState::open(&state, false).unwrap();
    assert!(RunState::open(&state, false).unwrap_err().to_string().contains("in use"));
    drop(busy);
    let again = verification(&verify, &*opened(), &address, 1).unwrap_err();
    assert!(again.to_string().contains("is there already"), "{again}");
}

#[test]
fn ledger_beyond_its_memory_is_kept_in_a_file() {
    let trial = Trial::new(512);
    let options = VerifyOptions { ram: ByteSize::from_bytes(4096), ..verify_options() };
    let verification = verification(&options, &*target(&trial.served.uri), "x", 1).unwrap();
    let line = "random,size=4KiB,read=50%,closed=8,requests=2000";
    run(&verification, vec![target(&trial.served.uri)], line, 6, StreamPlan::default());
    let findings = verification.findings();
    assert!(findings.memory_in_file && findings.memory_bytes >= 8 * BLOCKS && findings.count() == 0);
    assert!(findings.checked_blocks > 1_000);
}
