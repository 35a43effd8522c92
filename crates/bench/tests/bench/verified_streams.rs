//! Verification of several streams and phases: every fault is found, rightly named, and counted to its stream, and nothing else.

use std::fs::File;
use std::ops::Range;

use seeklab_bench::target::{Target, TargetOptions, Transfer};
use seeklab_bench::verify::{
    Findings, Kind, PassOptions, PassResults, RunState, Verification, VerifiedLane, VerifiedTarget,
    VerifyOptions, verify_pass,
};
use seeklab_bench::{Lane, Measurement, Plan, Stream, StreamPlan, measure};
use seeklab_core::{Duration, Operation, Request, Status};
use seeklab_emulator::clock::{Clock, Wait};

use crate::harness::{Heard, open, options, synthetic};
use crate::liar::{Accidents, Liar, Lie, Served, chosen, on_read, on_write};
use crate::verification::{requests, target, verification, verify_options};

/// Faults of each kind.
const FAULTS: usize = 1_000;
/// Blocks of the server.
const BLOCKS: u64 = 4_096;
/// Streams that write at the same time, each to a part of the blocks of its own.
const WRITERS: u64 = 4;
const PART: u64 = BLOCKS / WRITERS;
/// Streams of two phases, each with the writers and a reader.
const STREAMS: usize = 2 * (WRITERS as usize + 1);

/// A stream of a phase: its number, its load, and whether it writes.
type Loaded = (u32, String, bool);

/// Measures streams at the same time, each on one thread.
fn run(verification: &Verification, uri: &str, streams: &[Loaded], plan: &StreamPlan) -> Measurement {
    let stream = |(number, line, writes): &Loaded| {
        let target = target(uri);
        let workload = synthetic(line, target.facts().space, u64::from(*number) + 1);
        let lane = VerifiedLane { stream: *number, writes: *writes, ..VerifiedLane::default() };
        let target = verification.attach(target, &lane).unwrap();
        Stream::new(plan.clone(), vec![Lane::new(target, workload)])
    };
    let streams = streams.iter().map(stream).collect();
    measure(&Plan::default(), Clock::start(), streams, &mut Heard::default()).unwrap()
}

/// A server, and the verification of all phases on it.
struct Trial {
    served: Served,
    verification: Verification,
    block_bytes: u64,
    plan: StreamPlan,
}

impl Trial {
    fn new(block_bytes: u64) -> Self {
        let disk = tempfile::tempfile().unwrap();
        let served = Liar::new(disk, BLOCKS * block_bytes, block_bytes as u32, Accidents::default()).serve();
        let verification =
            verification(&verify_options(), &*target(&served.uri), &served.uri, STREAMS).unwrap();
        let plan = StreamPlan { outstanding_max: 64, ..StreamPlan::default() };
        Self { served, verification, block_bytes, plan }
    }

    /// The first so many blocks of a part are written once by a stream.
    fn writer(&self, stream: u64, part: u64, blocks: u64) -> Loaded {
        let size = self.block_bytes;
        let [start, end] = [part * 100 / WRITERS, (part + 1) * 100 / WRITERS];
        let line = format!(
            "sequential,size={size}B,align={size}B,read=0%,closed=8,requests={blocks},\
             address.start={start}%,address.end={end}%"
        );
        (stream as u32, line, true)
    }

    /// The writers write all of their parts once, at the same time.
    fn write(&self) {
        let writers: Vec<Loaded> = (0..WRITERS).map(|part| self.writer(part, part, PART)).collect();
        run(&self.verification, &self.served.uri, &writers, &self.plan);
    }

    /// A stream that only reads reads every block once.
    fn read(&self) -> Findings {
        let size = self.block_bytes;
        let line = format!("sequential,size={size}B,align={size}B,read=100%,closed=32,requests={BLOCKS}");
        run(&self.verification, &self.served.uri, &[(WRITERS as u32, line, false)], &self.plan);
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

/// So many of the blocks lie in that part.
fn in_part(blocks: &[u64], part: u64) -> u64 {
    blocks.iter().filter(|block| **block / PART == part).count() as u64
}

/// Findings of one kind and of no other: one at each of the blocks, counted to the writer of its part.
#[track_caller]
fn assert_only(findings: &Findings, kind: Kind, blocks: &[u64]) {
    let mut all = [0; Kind::ALL.len()];
    all[kind as usize] = blocks.len() as u64;
    assert_eq!(findings.counts, all, "{kind:?}: {:?}", findings.first);
    for (stream, counts) in findings.streams.iter().enumerate() {
        let mut expected = [0; Kind::ALL.len()];
        expected[kind as usize] = in_part(blocks, stream as u64);
        assert_eq!(*counts, expected, "{kind:?}, stream {stream}");
    }
    for finding in &findings.first {
        assert!(blocks.contains(&finding.lbn), "{finding:?}");
        assert_eq!(finding.expected_stream, Some((finding.lbn / PART) as u32), "{finding:?}");
    }
}

#[test]
fn faults_are_found_and_counted_to_the_stream_whose_write_is_missing() {
    for block_bytes in [512, 4096] {
        let trial = Trial::new(block_bytes);
        let lost = chosen(FAULTS, BLOCKS, 11);
        trial.order(on_write, &lost, |_| Lie::Lose);
        trial.write();
        assert_only(&trial.read(), Kind::Blank, &lost);
        assert_eq!(trial.planted(), FAULTS as u64);

        let trial = Trial::new(block_bytes);
        trial.write();
        let lost = chosen(FAULTS, BLOCKS, 12);
        trial.order(on_write, &lost, |_| Lie::Lose);
        trial.write();
        let findings = trial.read();
        assert_only(&findings, Kind::Stale, &lost);
        for finding in &findings.first {
            let found = finding.found.unwrap();
            assert_eq!(Some(found.stream), finding.expected_stream, "both are writes of the owner");
        }

        let trial = Trial::new(block_bytes);
        trial.write();
        let flipped = chosen(FAULTS, BLOCKS, 13);
        trial.order(on_read, &flipped, |block| Lie::Flip(block as usize * 7919));
        assert_only(&trial.read(), Kind::Corrupt, &flipped);

        let trial = Trial::new(block_bytes);
        trial.write();
        let torn = chosen(FAULTS, BLOCKS, 14);
        // Two markers are those of the first write, so a flip of a bit explains none of them.
        trial.order(on_write, &torn, |block| Lie::Tear(64 + 8 * (block as usize % 42)));
        trial.write();
        assert_only(&trial.read(), Kind::Torn, &torn);
    }
}

#[test]
fn data_of_another_stream_is_misdirected_and_names_both_streams() {
    let trial = Trial::new(512);
    trial.write();
    let elsewhere = chosen(FAULTS, BLOCKS, 15);
    // From the part of the next writer.
    trial.order(on_read, &elsewhere, |block| Lie::ReadFrom((block + PART) % BLOCKS * 512));
    let findings = trial.read();
    assert_only(&findings, Kind::Misdirected, &elsewhere);
    for finding in &findings.first {
        let (found, owner) = (finding.found.unwrap(), u64::from(finding.expected_stream.unwrap()));
        assert_eq!(
            (found.lbn, u64::from(found.stream)),
            ((finding.lbn + PART) % BLOCKS, (owner + 1) % WRITERS)
        );
    }

    let trial = Trial::new(512);
    trial.write();
    // Two streams write to the parts of the two that rest.
    let misdirected = chosen(FAULTS, 2 * PART, 16);
    trial.order(on_write, &misdirected, |block| Lie::Misdirect((block + 2 * PART) * 512));
    let two = [trial.writer(0, 0, PART), trial.writer(1, 1, PART)];
    run(&trial.verification, &trial.served.uri, &two, &trial.plan);
    assert_eq!(trial.planted(), FAULTS as u64);
    let findings = trial.read();
    let of = |kind: Kind| findings.streams.iter().map(|counts| counts[kind as usize]).collect::<Vec<_>>();
    let counts = [in_part(&misdirected, 0), in_part(&misdirected, 1)];
    assert_eq!(findings.count(), 2 * FAULTS as u64, "{:?}", findings.first);
    assert_eq!(of(Kind::Stale)[..4], [counts[0], counts[1], 0, 0]);
    assert_eq!(of(Kind::Misdirected)[..4], [0, 0, counts[0], counts[1]], "the owners of the places");
}

#[test]
fn next_phase_goes_on_with_the_writes_of_the_last() {
    let trial = Trial::new(512);
    trial.write();
    // In the second phase, each part belongs to another stream.
    let second = WRITERS + 1;
    let owner = |part: u64| second + (part + 1) % WRITERS;
    let writers: Vec<Loaded> = (0..WRITERS).map(|part| trial.writer(owner(part), part, PART)).collect();
    let lost = chosen(FAULTS, BLOCKS, 17);
    trial.order(on_write, &lost, |_| Lie::Lose);
    run(&trial.verification, &trial.served.uri, &writers, &trial.plan);
    assert_eq!(trial.planted(), FAULTS as u64);
    let findings = trial.read();
    for part in 0..WRITERS {
        let counts = findings.streams[owner(part) as usize];
        assert_eq!(counts[Kind::Stale as usize], in_part(&lost, part));
        assert_eq!(findings.streams[part as usize], [0; Kind::ALL.len()]);
    }
    assert_eq!(findings.count(), FAULTS as u64);
    // The lost writes were those of the second phase; the data found are those of the first.
    for finding in &findings.first {
        let part = finding.lbn / PART;
        assert_eq!(finding.expected_stream, Some(owner(part) as u32));
        assert_eq!(finding.found.unwrap().stream, part as u32);
    }
    // Blocks that only the first phase wrote stay with its streams.
    let trial = Trial::new(512);
    trial.write();
    let one = trial.writer(owner(0), 0, PART);
    run(&trial.verification, &trial.served.uri, &[one], &trial.plan);
    let flipped = chosen(FAULTS, BLOCKS, 18);
    trial.order(on_read, &flipped, |block| Lie::Flip(block as usize * 7919));
    let findings = trial.read();
    let corrupt = |stream: u64| findings.streams[stream as usize][Kind::Corrupt as usize];
    assert_eq!((corrupt(0), corrupt(owner(0))), (0, in_part(&flipped, 0)));
    assert!((1..WRITERS).all(|part| corrupt(part) == in_part(&flipped, part)));
}

#[test]
fn nothing_is_found_among_streams_and_phases_with_accidents() {
    let silent = 40_000_000 / requests();
    let accidents = Accidents { refused: 5_000, failed_after: 5_000, silent, cut: 1_000 };
    let served = Liar::new(tempfile::tempfile().unwrap(), 1 << 20, 512, accidents).serve();
    let verification = verification(&verify_options(), &*target(&served.uri), &served.uri, STREAMS).unwrap();
    let plan =
        StreamPlan { outstanding_max: 64, timeout: Some(Duration::from_ms(100)), ..StreamPlan::default() };
    let each = requests() / (2 * STREAMS as u64);
    let mut before = 0;
    for phase in 0..2 {
        let stream = |index: u64| (phase * (WRITERS + 1) + index) as u32;
        let sizes = "random,size=512B:1+4KiB:4+64KiB:1,closed=16";
        let mut streams: Vec<Loaded> = (0..WRITERS)
            .map(|part| {
                let [start, end] = [part * 100 / WRITERS, (part + 1) * 100 / WRITERS];
                let range = format!("address.start={start}%,address.end={end}%");
                (stream(part), format!("{sizes},read=40%,requests={each},{range}"), true)
            })
            .collect();
        streams.push((stream(WRITERS), format!("{sizes},read=100%,requests={}", 2 * each), false));
        let measurement = run(&verification, &served.uri, &streams, &plan);
        assert!(measurement.totals.part.failed > 20, "{:?}", measurement.totals);
        // The stream that only reads meets what the others wrote.
        assert!(measurement.streams[WRITERS as usize].part.requests() > each);
        let findings = verification.findings();
        assert_eq!(findings.count(), 0, "{findings:?}");
        assert!(findings.checked_blocks > before + 4 * each, "{findings:?}");
        before = findings.checked_blocks;
    }
    let findings = verification.findings();
    assert!(findings.held_writes > 10 && findings.writes > each, "{findings:?}");
}

/// Sends a request, and waits for its end.
fn send(target: &mut dyn Target, request: Request) -> Status {
    target.submit(&[Transfer { tag: 0, request }]).unwrap();
    let mut ended = Vec::new();
    while ended.is_empty() {
        target.poll(Wait::Forever, 1, &mut ended).unwrap();
    }
    ended[0].status
}

#[test]
fn write_under_way_at_the_end_of_a_phase_holds_back_none_of_the_next() {
    let trial = Trial::new(512);
    let lane = VerifiedLane { writes: true, ..VerifiedLane::default() };
    let attached = || trial.verification.attach(target(&trial.served.uri), &lane).unwrap();
    let write = Request::new(0, Operation::Write, 7, 1);
    let mut of_first_phase = attached();
    of_first_phase.submit(&[Transfer { tag: 0, request: write }]).unwrap();
    // Its end was not waited for.
    drop(of_first_phase);
    assert!(send(&mut *attached(), write).is_success());
    let findings = trial.verification.findings();
    assert_eq!((findings.held_writes, findings.writes), (0, 2));
}

/// A file of zeroes as a target.
fn file(path: &std::path::Path) -> Box<dyn Target> {
    let options = TargetOptions { direct: false, ..options(1) };
    open(&format!("psync:{}", path.display()), Clock::start(), &options).unwrap()
}

#[test]
fn state_of_several_streams_and_targets_is_checked_later() {
    let directory = tempfile::tempdir().unwrap();
    let (state, images) =
        (directory.path().join("state"), ["a", "b"].map(|name| directory.path().join(name)));
    for (image, size_bytes) in images.iter().zip([1 << 20, 1 << 19]) {
        File::create(image).unwrap().set_len(size_bytes).unwrap();
    }
    let verified = images.iter().map(|image| VerifiedTarget {
        address: image.display().to_string(),
        space: file(image).facts().space,
    });
    let streams = ["one/log", "one/data", "two/log"].map(str::to_owned);
    let verify = VerifyOptions { state: Some(state.clone()), ..verify_options() };
    let verification = Verification::new(&verify, verified.collect(), &streams).unwrap();
    let write = |target: usize, stream: u32, lbns: Range<u64>| {
        let lane = VerifiedLane { target, stream, writes: true, ..VerifiedLane::default() };
        let mut attached = verification.attach(file(&images[target]), &lane).unwrap();
        let last = Request::new(0, Operation::Flush, 0, 0);
        for request in lbns.map(|lbn| Request::new(lbn, Operation::Write, lbn, 1)).chain([last]) {
            assert!(send(&mut *attached, request).is_success());
        }
    };
    write(0, 0, 0..100);
    write(0, 1, 100..200);
    // Another phase: its stream takes over a part of the first one's.
    write(0, 2, 0..50);
    write(1, 1, 0..300);
    let busy = RunState::open(&state, false).unwrap_err();
    assert!(busy.to_string().contains("in use"), "{busy}");
    drop(verification);
    let check = |number: usize| {
        let state = RunState::open(&state, false).unwrap();
        assert_eq!((state.streams(), state.targets().len()), (&streams[..], 2));
        let facts = state.targets().nth(number).unwrap();
        assert_eq!((facts.address.as_str(), facts.has_flushed), (images[number].to_str().unwrap(), true));
        verify_pass(
            (&state, number),
            (file(&images[number]), "it"),
            &PassOptions::default(),
            &PassResults::new(&state),
            &mut |_| true,
        )
        .unwrap()
    };
    for (number, blocks) in [(0, 200), (1, 300)] {
        let pass = check(number);
        assert_eq!((pass.required_blocks, pass.findings.checked_blocks), (blocks, blocks));
        assert_eq!(pass.findings.count(), 0, "{:?}", pass.findings);
    }
    // Each stream loses a block of the first target, and one of them a block of the second.
    let lose = |image: usize, lbn: usize| {
        let mut bytes = std::fs::read(&images[image]).unwrap();
        bytes[512 * lbn..512 * (lbn + 1)].fill(0);
        std::fs::write(&images[image], bytes).unwrap();
    };
    [10, 70, 150].into_iter().for_each(|lbn| lose(0, lbn));
    lose(1, 299);
    let blank = |number: usize| {
        let findings = check(number).findings;
        assert_eq!(findings.counts[Kind::Blank as usize], findings.count());
        let owners: Vec<_> =
            findings.first.iter().map(|finding| (finding.target, finding.expected_stream)).collect();
        (findings.streams.iter().map(|counts| counts[Kind::Blank as usize]).collect::<Vec<_>>(), owners)
    };
    let (counts, mut owners) = blank(0);
    owners.sort_unstable();
    assert_eq!((counts, owners), (vec![1, 1, 1], vec![(0, Some(0)), (0, Some(1)), (0, Some(2))]));
    assert_eq!(blank(1), (vec![0, 1, 0], vec![(1, Some(1))]));
    // A target that has become another one, and a head that is damaged.
    let options_of_run = VerifyOptions { state: None, ..verify };
    let verified = VerifiedTarget { address: "it".to_owned(), space: file(&images[0]).facts().space };
    let verification = Verification::new(&options_of_run, vec![verified], &streams).unwrap();
    let error = verification.attach(file(&images[1]), &VerifiedLane::default()).err().unwrap();
    assert!(error.to_string().contains("has 1024 blocks of 512B now, and had 2048"), "{error}");
    let bytes = std::fs::read(&state).unwrap();
    for (word, value, reason) in [
        (1, 1_u64, "its version is 1, and 2 is known"),
        (2, u64::MAX, "its head is damaged"),
        (3, 1 << 40, "its head is damaged"),
        (4, 511, "a name in its head is damaged"),
        (6, 5, "its length is not that of its blocks"),
        (15, u64::MAX, "a name in its head is damaged"),
    ] {
        let mut damaged = bytes.clone();
        damaged[8 * word..8 * (word + 1)].copy_from_slice(&value.to_le_bytes());
        std::fs::write(&state, damaged).unwrap();
        let error = RunState::open(&state, false).unwrap_err();
        assert!(error.to_string().contains(reason), "{word}: {error}");
    }
}
