//! Programs of a recording on the host.

use std::num::NonZeroU32;
use std::sync::Arc;

use proptest::prelude::*;
use seeklab_core::{Duration, Instant, Limits, Operation, Seed, simulate};
use seeklab_workloads::AddressSpace;
use seeklab_workloads::host::{
    CachedPages, Host, HostSettings, PART_STEPS, RecordedAction, RecordedAllocation, RecordedExtent,
    RecordedFile, RecordedPlace, RecordedPool, RecordedStep, RecordedSteps, RecordedThread, Recording,
    StepStore, SyncEnd,
};

use crate::common::{Server, Service, TARGET};
use crate::host::{Run, run_host};

const SERVICE: Duration = Duration::from_ms(10);

fn free() -> HostSettings {
    let zero = Some(Duration::ZERO);
    HostSettings {
        submission: zero,
        page_submission: zero,
        interrupt: zero,
        context_switch: zero,
        cpus: Some(2),
        ..HostSettings::default()
    }
}

fn thread(steps: &[(u64, RecordedAction)]) -> RecordedThread {
    RecordedThread { start: Duration::ZERO, steps: steps.iter().map(step).collect() }
}

fn step((us, action): &(u64, RecordedAction)) -> RecordedStep {
    RecordedStep { computing: Duration::from_us(*us), action: *action }
}

fn file(address: u64, pages: u64) -> RecordedFile {
    RecordedFile {
        pages,
        extents: vec![RecordedExtent { first: 0, address, pages }],
        ..RecordedFile::default()
    }
}

fn host_of(files: Vec<RecordedFile>, threads: Vec<RecordedThread>) -> Host {
    Host::of_recording(Recording { files, threads, ..Recording::default() }, &free(), TARGET, Seed(1))
        .expect("it fits")
}

fn run(files: Vec<RecordedFile>, threads: Vec<RecordedThread>) -> Run {
    run_host(host_of(files, threads), Server::new(Service::Constant(SERVICE)))
}

/// Operation, first block and number of blocks of 4 KiB.
fn requests(run: &Run) -> Vec<(Operation, u64, u32)> {
    let of = |one: &seeklab_core::Completion| (one.request.op, one.request.lbn / 8, one.request.blocks / 8);
    run.completions.iter().map(of).collect()
}

const fn read(first: u32, pages: u32) -> RecordedAction {
    RecordedAction::Read { file: 0, first, pages, requested: pages }
}

const fn write(first: u32, pages: u32, keeps: bool) -> RecordedAction {
    RecordedAction::Write { file: 0, first, pages, keeps_first: keeps, keeps_last: false }
}

const fn metadata(address: u64, dirties: bool, is_present: bool) -> RecordedAction {
    RecordedAction::Metadata { address, dirties, is_present }
}

#[test]
fn elapsed_time_is_computing_and_waiting() {
    let steps = [
        (5_000, metadata(7, false, false)),
        (2_000, read(0, 4)),
        (1_000, metadata(7, true, false)),
        (1_000, metadata(9, false, true)),
        (3_000, RecordedAction::None),
    ];
    let run = run(vec![file(1000, 4)], vec![thread(&steps)]);
    assert_eq!(run.figures.elapsed, Duration::from_ms(12) + SERVICE * 2);
    assert_eq!(run.figures.task_cpu, Duration::from_ms(12));
    assert_eq!((run.figures.io_waits, run.figures.io_wait), (2, SERVICE * 2));
    // The changed block of metadata is written after the end of the command.
    let expected = [(Operation::Read, 7, 1), (Operation::Read, 1000, 4), (Operation::Write, 7, 1)];
    assert_eq!(requests(&run), expected);
}

#[test]
fn metadata_read_in_advance_is_one_request() {
    let steps =
        [(0, RecordedAction::MetadataAhead { address: 64, pages: 32 }), (0, metadata(70, false, false))];
    let run = run(Vec::new(), vec![thread(&steps)]);
    assert_eq!(requests(&run), [(Operation::Read, 64, 32)]);
    assert_eq!(run.figures.elapsed, SERVICE);
}

#[test]
fn write_of_a_part_reads_the_block_if_it_is_not_in_memory() {
    let part = run(vec![file(1000, 8)], vec![thread(&[(0, write(2, 1, true))])]);
    assert_eq!(requests(&part), [(Operation::Read, 1002, 1), (Operation::Write, 1002, 1)]);
    let whole = run(vec![file(1000, 8)], vec![thread(&[(0, write(2, 1, false))])]);
    assert_eq!(requests(&whole), [(Operation::Write, 1002, 1)]);
    let cached = RecordedFile { is_cached: true, ..file(1000, 8) };
    let cached = run(vec![cached], vec![thread(&[(0, write(2, 1, true)), (0, read(0, 8))])]);
    assert_eq!(requests(&cached), [(Operation::Write, 1002, 1)]);
}

#[test]
fn file_without_a_place_is_never_written() {
    let nowhere = RecordedFile { pages: 8, ..RecordedFile::default() };
    let run = run(vec![nowhere], vec![thread(&[(1_000, write(0, 8, false))])]);
    assert_eq!((run.completions.len(), run.figures.elapsed), (0, Duration::from_ms(1)));
}

#[test]
fn thread_waits_for_the_progress_of_another() {
    let parent = thread(&[
        (1_000, RecordedAction::Start { thread: 1 }),
        (0, RecordedAction::Await { thread: 1, steps: 2 }),
        (4_000, RecordedAction::None),
    ]);
    // The second step of the child ends when its read is complete.
    let child = thread(&[(2_000, RecordedAction::None), (3_000, read(0, 4)), (50_000, RecordedAction::None)]);
    let run = run(vec![file(1000, 4)], vec![parent, child]);
    assert_eq!(run.figures.elapsed, Duration::from_ms(1 + 2 + 3 + 50) + SERVICE);
    let host = host_of(
        vec![file(1000, 4)],
        Vec::new().into_iter().chain([thread(&[(1, RecordedAction::None)])]).collect(),
    );
    assert_eq!(run_host(host, Server::new(Service::Constant(SERVICE))).figures.elapsed, Duration::from_us(1));
}

#[test]
fn end_of_a_thread_is_enough_for_those_that_wait_for_it() {
    let waiting =
        thread(&[(0, RecordedAction::Await { thread: 1, steps: 1_000 }), (1_000, RecordedAction::None)]);
    let other = thread(&[(7_000, RecordedAction::None)]);
    assert_eq!(run(Vec::new(), vec![waiting, other]).figures.elapsed, Duration::from_ms(8));
}

#[test]
fn sleeps_between_looks_for_a_child_are_as_many_as_the_child_needs() {
    let poll = |back| {
        let time = Duration::from_ms(10);
        RecordedAction::Poll { time, thread: 1, steps: u32::MAX, end: 6, back }
    };
    let parent = [
        (0, RecordedAction::Start { thread: 1 }),
        (0, poll(0)),
        (1_000, RecordedAction::None),
        (0, poll(0)),
        (1_000, RecordedAction::None),
        (0, poll(2)),
        (500, RecordedAction::None),
    ];
    // A look follows 10 ms of sleep, and takes 1 ms if the child has not ended.
    for (child_ms, looks) in [(5, 1), (15, 2), (30, 3), (100, 10)] {
        let child = thread(&[(child_ms * 1_000, RecordedAction::None)]);
        let elapsed = run(Vec::new(), vec![thread(&parent), child]).figures.elapsed;
        assert_eq!(elapsed, Duration::from_us(500 + 1_000 * (10 * looks + looks - 1)), "{child_ms} ms");
    }
}

#[test]
fn run_ends_if_a_process_polls_one_that_never_ends() {
    let time = Duration::from_ms(10);
    // A look that is not repeated goes on, and the other process with it.
    for (back, steps, ends) in [(1, 9, false), (0, 2, true)] {
        let poll = RecordedAction::Poll { time, thread: 1, steps: u32::MAX, end: 2, back };
        let parent =
            thread(&[(0, RecordedAction::Start { thread: 1 }), (0, poll), (500, RecordedAction::None)]);
        let child =
            thread(&[(7_000, RecordedAction::Await { thread: 0, steps }), (1_000, RecordedAction::None)]);
        let mut host = host_of(Vec::new(), vec![parent, child]);
        let mut server = Server::new(Service::Constant(SERVICE));
        simulate(&mut host, &mut server, Limits::default(), |_| ()).expect("there is no request");
        assert_eq!(host.figures().is_finished, ends);
    }
}

#[test]
fn timed_wait_ends_when_the_other_thread_has_got_as_far() {
    let woken = RecordedAction::Poll { time: Duration::ZERO, thread: 1, steps: 1, end: 4, back: 0 };
    let sleep = RecordedAction::Sleep { time: Duration::from_ms(50) };
    let waiting = thread(&[
        (0, woken),
        (1_000, RecordedAction::None),
        (0, sleep),
        (0, sleep),
        (0, RecordedAction::Await { thread: 1, steps: 1 }),
        (2_000, RecordedAction::None),
    ]);
    for computing_ms in [3, 300] {
        let other = thread(&[
            (computing_ms * 1_000, RecordedAction::None),
            // It needs a step that the timed waits skip.
            (0, RecordedAction::Await { thread: 0, steps: 3 }),
        ]);
        let elapsed = run(Vec::new(), vec![waiting.clone(), other]).figures.elapsed;
        assert_eq!(elapsed, Duration::from_ms(computing_ms + 2));
    }
}

#[test]
fn timer_keeps_its_time_on_every_device() {
    let steps =
        [(1_000, RecordedAction::Sleep { time: Duration::from_ms(40) }), (1_000, RecordedAction::None)];
    let run = run(Vec::new(), vec![thread(&steps)]);
    assert_eq!((run.figures.elapsed, run.figures.io_waits), (Duration::from_ms(42), 0));
}

#[test]
fn synchronisation_waits_for_the_blocks_of_its_file() {
    let steps = [
        (0, write(0, 8, false)),
        (0, RecordedAction::SyncFile { file: 0, end: SyncEnd::Flush }),
        (1_000, write(0, 1, false)),
        (0, RecordedAction::SyncAll),
    ];
    let run = run(vec![file(1000, 8)], vec![thread(&steps)]);
    assert_eq!(requests(&run), [(Operation::Write, 1000, 8), (Operation::Write, 1000, 1)]);
    assert_eq!(run.figures.elapsed, Duration::from_ms(1) + SERVICE * 2);
}

#[test]
fn file_that_is_read_in_order_has_larger_windows() {
    let reads = |steps: &[(u64, RecordedAction)]| {
        let run = run(vec![file(1000, 400)], vec![thread(steps)]);
        requests(&run).iter().map(|(_, _, blocks)| *blocks).max()
    };
    let one_by_one: Vec<_> = (0..400).map(|page| (10, read(page, 1))).collect();
    assert_eq!(reads(&one_by_one), Some(32));
    let announced = [&[(0, RecordedAction::Sequential { file: 0 })], &one_by_one[..]].concat();
    assert_eq!(reads(&announced), Some(64));
}

#[test]
fn deleted_file_is_not_written_and_waits_for_what_is_being_written() {
    let delete = RecordedAction::Delete { file: 0 };
    let unwritten = run(vec![file(1000, 8)], vec![thread(&[(1_000, write(0, 8, false)), (1_000, delete)])]);
    assert_eq!((unwritten.completions.len(), unwritten.figures.elapsed), (0, Duration::from_ms(2)));
    // The other thread is writing the file. What it changed since then is dropped.
    let steps = [
        (0, write(0, 8, false)),
        (0, RecordedAction::Start { thread: 1 }),
        (2_000, write(2, 1, false)),
        (0, delete),
        (1_000, read(0, 8)),
    ];
    let syncing = thread(&[(0, RecordedAction::SyncFile { file: 0, end: SyncEnd::Flush })]);
    let run = run(vec![file(1000, 8)], vec![thread(&steps), syncing]);
    assert_eq!(requests(&run), [(Operation::Write, 1000, 8), (Operation::Read, 1000, 8)]);
    assert_eq!(run.figures.elapsed, Duration::from_ms(1) + SERVICE * 2);
}

#[test]
fn cpu_speed_divides_computing_times_alone() {
    let steps = [(8_000, read(0, 4)), (4_000, RecordedAction::Sleep { time: Duration::from_ms(5) })];
    let recording =
        Recording { files: vec![file(1000, 4)], threads: vec![thread(&steps)], ..Recording::default() };
    let mut settings = free();
    settings.override_with("cpu_speed=4").expect("the line is right");
    let host = Host::of_recording(recording, &settings, TARGET, Seed(1)).expect("it fits");
    let figures = run_host(host, Server::new(Service::Constant(SERVICE))).figures;
    assert_eq!(figures.elapsed, Duration::from_ms(3 + 5) + SERVICE);
}

#[test]
fn too_small_a_device_is_refused() {
    let small = AddressSpace { capacity_blocks: 8 * 1000, ..TARGET };
    for (files, action) in [
        (vec![file(999, 2)], RecordedAction::None),
        (vec![file(0, 2)], metadata(1000, false, false)),
        (Vec::new(), RecordedAction::MetadataAhead { address: 990, pages: 11 }),
    ] {
        let recording = Recording { files, threads: vec![thread(&[(0, action)])], ..Recording::default() };
        let error =
            Host::of_recording(recording.clone(), &free(), small, Seed(1)).expect_err("it is too small");
        assert!(error.to_string().contains("beyond the device") && error.advice().is_some(), "{error}");
        assert!(Host::of_recording(recording, &free(), TARGET, Seed(1)).is_ok());
    }
    let error = Host::of_recording(Recording::default(), &free(), TARGET, Seed(1)).expect_err("it is empty");
    assert!(error.to_string().contains("no thread"), "{error}");
}

fn action() -> impl Strategy<Value = RecordedAction> {
    prop_oneof![
        Just(RecordedAction::None),
        (0_u32..60, 1_u32..5).prop_map(|(first, pages)| read(first, pages)),
        (0_u32..64).prop_map(|page| RecordedAction::Fault { file: 0, page }),
        (0_u32..60, 1_u32..5, any::<bool>()).prop_map(|(first, pages, keeps)| write(first, pages, keeps)),
        (0_u64..99, any::<bool>(), any::<bool>())
            .prop_map(|(at, dirties, present)| metadata(at, dirties, present)),
        (0_u64..99).prop_map(|address| RecordedAction::MetadataAhead { address, pages: 9 }),
        Just(RecordedAction::Sequential { file: 0 }),
        (0_u64..600, 1_u32..99, any::<bool>(), 0_u32..3).prop_map(|(first, sectors, writes, queue)| direct(
            first,
            sectors,
            writes,
            Some(queue)
        )
        .1),
        Just(RecordedAction::Delete { file: 0 }),
        Just(RecordedAction::SyncFile { file: 0, end: SyncEnd::Flush }),
        Just(RecordedAction::SyncAll),
        (0_u32..40).prop_map(|steps| RecordedAction::Await { thread: 0, steps }),
        (0_u64..9_000).prop_map(|us| RecordedAction::Sleep { time: Duration::from_us(us) }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<(u64, RecordedAction)>> {
    prop::collection::vec((0_u64..3_000, action()), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn computing_time_of_a_recording_is_conserved(
        first in steps(), second in steps(), pages in 64_u64..300, tags in 1_u32..5, seed in 0_u64..1000,
    ) {
        // A thread that waits for itself would wait for ever.
        let first: Vec<_> =
            first.into_iter().filter(|(_, action)| !matches!(action, RecordedAction::Await { .. })).collect();
        let computing: u64 = first.iter().chain(&second).map(|(us, _)| us).sum();
        let recording = Recording { files: vec![file(1000, 64)], threads: vec![thread(&first), thread(&second)], ..Recording::default() };
        let mut settings = free();
        settings.override_with(&format!("memory={}KiB,tags={tags},dirty_bytes=64KiB", pages * 4)).expect("it is right");
        let host = || Host::of_recording(recording.clone(), &settings, TARGET, Seed(seed)).expect("it fits");
        let server = |mean| Server::new(Service::Exponential(mean, Seed(seed).stream("test.service")));
        let ours = run_host(host(), server(Duration::from_ms(7)));
        prop_assert_eq!(ours.figures.task_cpu, Duration::from_us(computing));
        prop_assert_eq!(ours.figures.failed_processes, 0);
        let immediate = run_host(host(), Server::new(Service::Constant(Duration::ZERO)));
        prop_assert_eq!(immediate.figures.io_wait, Duration::ZERO);
        prop_assert_eq!(immediate.figures.task_cpu, Duration::from_us(computing));
        prop_assert!(immediate.figures.elapsed <= ours.figures.elapsed || ours.figures.io_wait == Duration::ZERO);
        prop_assert!(ours.completions.iter().all(|one| one.submitted >= Instant::ZERO));
    }
}

#[test]
fn name_is_looked_up_after_a_write_of_its_block() {
    let first = thread(&[(0, metadata(500, true, true)), (0, RecordedAction::SyncAll)]);
    let second =
        |address| thread(&[(1_000, RecordedAction::LookUp { address }), (2_000, RecordedAction::None)]);
    let elapsed = |address| run(Vec::new(), vec![first.clone(), second(address)]).figures.elapsed;
    assert_eq!(elapsed(500), SERVICE + Duration::from_ms(2));
    assert_eq!(elapsed(501), SERVICE, "nothing is written there");
}

#[test]
fn recording_is_shared_by_copies_of_a_host() {
    let store = Arc::new(Parts(vec![vec![step(&(1, RecordedAction::None)); PART_STEPS]]));
    let host = host_of(Vec::new(), vec![stored(&store, vec![0], Vec::new())]);
    let before = Arc::strong_count(&store);
    let copy = host.clone();
    assert_eq!(Arc::strong_count(&store), before, "copies share the list of threads");
    drop((host, copy));
}

/// Parts of steps, by number.
#[derive(Debug)]
struct Parts(Vec<Vec<RecordedStep>>);

impl StepStore for Parts {
    fn read(&self, number: u64, steps: &mut Vec<RecordedStep>) {
        steps.clone_from(&self.0[number as usize]);
    }
}

fn stored(store: &Arc<Parts>, parts: Vec<u64>, last: Vec<RecordedStep>) -> RecordedThread {
    let store: Arc<dyn StepStore> = Arc::<Parts>::clone(store);
    RecordedThread { start: Duration::ZERO, steps: RecordedSteps::stored(store, parts, last) }
}

#[test]
fn steps_of_a_store_run_as_those_in_memory() {
    // Two threads with parts of one store between each other, and the second one waits for the first.
    let steps = |thread: u32| -> Vec<RecordedStep> {
        let pages = (0..2 * PART_STEPS as u32 + 100).map(|number| number * 7 % 512);
        let action = |(number, page)| match number % 9 {
            8 if thread == 1 => RecordedAction::Await { thread: 0, steps: number },
            _ => RecordedAction::Read { file: thread, first: page, pages: 1, requested: 1 },
        };
        pages.enumerate().map(|(number, page)| step(&(3, action((number as u32, page))))).collect()
    };
    let files = || vec![file(1000, 512), file(5000, 512)];
    let both = [steps(0), steps(1)];
    let in_memory = both.clone().map(|steps| RecordedThread { start: Duration::ZERO, steps: steps.into() });
    let part = |thread: usize, part: usize| both[thread][part * PART_STEPS..(part + 1) * PART_STEPS].to_vec();
    let store = Arc::new(Parts(vec![part(0, 0), part(1, 0), part(1, 1), part(0, 1)]));
    let rest = |thread: usize| both[thread][2 * PART_STEPS..].to_vec();
    let in_parts = vec![stored(&store, vec![0, 3], rest(0)), stored(&store, vec![1, 2], rest(1))];
    let (whole, parted) = (run(files(), in_memory.to_vec()), run(files(), in_parts));
    assert!(whole.completions.len() > 100);
    assert_eq!((&parted.completions, &parted.figures), (&whole.completions, &whole.figures));
}

/// Two files of four blocks, whose places in the recording are 1000 and 1004: the first one was written first there.
fn new_files() -> (Vec<RecordedFile>, RecordedPool) {
    let allocations = vec![RecordedAllocation { first: 0, pages: 4, pool: 0 }];
    let new = |address| RecordedFile { allocations: allocations.clone(), ..file(address, 4) };
    let places = [1000, 1004].map(|address| RecordedPlace { address, pages: 4 }).to_vec();
    (vec![new(1000), new(1004)], RecordedPool { places })
}

#[test]
fn new_data_lie_in_the_order_in_which_they_are_written() {
    let write =
        |file, pages| RecordedAction::Write { file, first: 0, pages, keeps_first: false, keeps_last: false };
    let written = |steps: &[(u64, RecordedAction)]| {
        let (files, pool) = new_files();
        let recording =
            Recording { files, threads: vec![thread(steps)], pools: vec![pool], ..Recording::default() };
        let host = Host::of_recording(recording, &free(), TARGET, Seed(1)).expect("it fits");
        requests(&run_host(host, Server::new(Service::Constant(SERVICE))))
    };
    let sync = |file| (0, RecordedAction::SyncFile { file, end: SyncEnd::Flush });
    let first = written(&[(0, write(0, 4)), sync(0), (0, write(1, 4)), sync(1)]);
    assert_eq!(first, [(Operation::Write, 1000, 4), (Operation::Write, 1004, 4)]);
    let second = written(&[(0, write(1, 4)), sync(1), (0, write(0, 4)), sync(0)]);
    assert_eq!(second, [(Operation::Write, 1000, 4), (Operation::Write, 1004, 4)]);
    // What became dirty together is one request, whichever came first. A block that is written again keeps its place.
    let together =
        written(&[(0, write(1, 1)), (0, write(0, 4)), (0, write(1, 4)), (0, RecordedAction::SyncAll)]);
    assert_eq!(together, [(Operation::Write, 1000, 8)]);
}

#[test]
fn new_metadata_lies_in_the_order_of_its_first_accesses() {
    let written = |steps: &[(u64, RecordedAction)]| {
        let places = vec![RecordedPlace { address: 40, pages: 3 }];
        let recording = Recording {
            threads: vec![thread(steps)],
            new_metadata: vec![RecordedPool { places }],
            ..Recording::default()
        };
        let host = Host::of_recording(recording, &free(), TARGET, Seed(1)).expect("it fits");
        requests(&run_host(host, Server::new(Service::Constant(SERVICE))))
    };
    let change = |address| (0, metadata(address, true, true));
    let sync = |address, pages| (0, RecordedAction::WriteMetadata { address, pages });
    // The one that comes first in the prediction takes the first place, and keeps it.
    assert_eq!(written(&[change(42), sync(42, 1)]), [(Operation::Write, 40, 1)]);
    let again = written(&[change(42), sync(42, 1), change(41), change(42), sync(41, 1), sync(42, 1)]);
    assert_eq!(again, [(Operation::Write, 40, 1), (Operation::Write, 41, 1), (Operation::Write, 40, 1)]);
    // A call that writes several blocks writes them where they lie: together if they still follow each other.
    assert_eq!(written(&[change(40), change(41), sync(40, 2)]), [(Operation::Write, 40, 2)]);
    let apart = written(&[change(41), change(40), change(42), sync(40, 2)]);
    assert_eq!(apart, [41, 40, 42].map(|address| (Operation::Write, address, 1)));
    // Other metadata stays where it was.
    assert_eq!(written(&[change(43), sync(43, 1)]), [(Operation::Write, 43, 1)]);
}

#[test]
fn metadata_stays_in_memory_while_files_pass_through_and_is_read_again_after_metadata_drove_it_out() {
    let read_of_500 = |metadata_at_start: bool, between: &[(u64, RecordedAction)]| {
        let mut settings = free();
        settings.override_with("memory=512KiB").expect("it is right");
        let access = (0, metadata(500, false, true));
        let mut steps = if metadata_at_start { Vec::new() } else { vec![access] };
        steps.extend(between);
        steps.push(access);
        let metadata = CachedPages { first: 500, pages: 1, is_dirty: false };
        let recording = Recording {
            files: vec![file(1000, 1024)],
            threads: vec![thread(&steps)],
            metadata: metadata_at_start.then_some(metadata).into_iter().collect(),
            ..Recording::default()
        };
        let host = Host::of_recording(recording, &settings, TARGET, Seed(1)).expect("it fits");
        let run = run_host(host, Server::new(Service::Constant(SERVICE)));
        requests(&run).contains(&(Operation::Read, 500, 1))
    };
    let file: Vec<_> = (0..256).map(|part| (0, read(part * 4, 4))).collect();
    let directory: Vec<_> = (0..256).map(|block| (0, metadata(2000 + block, false, true))).collect();
    for metadata_at_start in [false, true] {
        assert!(!read_of_500(metadata_at_start, &file), "at the start: {metadata_at_start}");
        assert!(read_of_500(metadata_at_start, &directory), "at the start: {metadata_at_start}");
    }
}

#[test]
fn clean_pages_that_the_machine_takes_are_read_again() {
    let lose = |first, pages| (0, RecordedAction::Lose { file: 0, first, pages });
    let steps =
        [(0, read(0, 4)), lose(1, 2), (0, read(0, 4)), (0, write(0, 1, false)), lose(0, 4), (0, read(0, 1))];
    let run = run(vec![file(1000, 4)], vec![thread(&steps)]);
    // The dirty block stays.
    let expected = [(Operation::Read, 1000, 4), (Operation::Read, 1001, 2), (Operation::Write, 1000, 1)];
    assert_eq!(requests(&run), expected);
}

#[test]
fn block_without_a_place_is_read_without_a_request_and_gets_its_place_when_it_is_written() {
    // A program writes blocks 1, 0 and 2 of a new file in this order, and reads block 0 before.
    let part = |first| RecordedAllocation { first, pages: 1, pool: 0 };
    let places = [(0, 2001), (1, 2000), (2, 2002)];
    let extents = places.map(|(first, address)| RecordedExtent { first, address, pages: 1 }).to_vec();
    let allocations = vec![part(0), part(1), part(2)];
    let files = vec![RecordedFile { pages: 3, extents, allocations, ..RecordedFile::default() }];
    let steps = [(0, write(1, 1, false)), (0, read(0, 1)), (0, write(0, 1, true)), (0, write(2, 1, false))];
    let pools = vec![RecordedPool { places: vec![RecordedPlace { address: 2000, pages: 3 }] }];
    let recording = Recording { files, threads: vec![thread(&steps)], pools, ..Recording::default() };
    let host = Host::of_recording(recording, &free(), TARGET, Seed(1)).expect("it fits");
    let run = run_host(host, Server::new(Service::Constant(SERVICE)));
    // Block 0 joins the request for block 1 in front, block 2 behind: one request as in the plug of the kernel.
    assert_eq!(requests(&run), [(Operation::Write, 2000, 3)]);
    assert_eq!(run.figures.io_waits, 0);
}

#[test]
fn host_begins_with_the_pages_that_are_in_memory() {
    let part = |first, pages, is_dirty| CachedPages { first, pages, is_dirty };
    let cached = vec![part(0, 2, false), part(3, 1, true)];
    let files = vec![RecordedFile { cached, ..file(1000, 8) }];
    let steps = [(1_000, read(0, 2)), (0, read(3, 1)), (0, metadata(40, false, false)), (0, read(6, 1))];
    let recording = Recording {
        files,
        threads: vec![thread(&steps)],
        metadata: vec![part(40, 1, true), part(9_999_999_999, 1, false)],
        ..Recording::default()
    };
    let host = Host::of_recording(recording.clone(), &free(), TARGET, Seed(1)).expect("it fits");
    let run = run_host(host, Server::new(Service::Constant(SERVICE)));
    // Block 6 alone is read, and what was dirty is written at the end.
    let mut made = requests(&run);
    made.sort_by_key(|(_, address, _)| *address);
    assert_eq!(made, [(Operation::Write, 40, 1), (Operation::Write, 1003, 1), (Operation::Read, 1006, 1)]);
    assert_eq!(run.figures.elapsed, Duration::from_ms(1) + SERVICE);
    let beyond = Recording { metadata: vec![part(9_999_999_999, 1, true)], ..recording };
    assert!(Host::of_recording(beyond, &free(), TARGET, Seed(1)).is_err());
}

fn direct(first: u64, sectors: u32, writes: bool, queue: Option<u32>) -> (u64, RecordedAction) {
    let queue = queue.and_then(NonZeroU32::new);
    (1_000, RecordedAction::Direct { file: 0, first, sectors, writes, queue })
}

fn reap(transfers: u32) -> (u64, RecordedAction) {
    (0, RecordedAction::Reap { queue: NonZeroU32::MIN, transfers })
}

#[test]
fn direct_transfer_waits_for_the_device_and_leaves_the_page_cache_alone() {
    let parts = vec![
        RecordedExtent { first: 0, address: 1000, pages: 2 },
        // Block 2 is a hole.
        RecordedExtent { first: 3, address: 500, pages: 2 },
    ];
    let of = |steps: &[(u64, RecordedAction)]| {
        run(
            vec![RecordedFile { pages: 5, extents: parts.clone(), ..RecordedFile::default() }],
            vec![thread(steps)],
        )
    };
    // Twice the same: nothing of it is in memory. The unit of a request is a sector.
    let twice = of(&[direct(1, 2, false, None), direct(1, 2, false, None)]);
    let sectors = |run: &Run| -> Vec<(Operation, u64, u32)> {
        run.completions.iter().map(|one| (one.request.op, one.request.lbn, one.request.blocks)).collect()
    };
    assert_eq!(sectors(&twice), [(Operation::Read, 8001, 2); 2]);
    assert_eq!(twice.figures.elapsed, Duration::from_ms(2) + SERVICE * 2);
    assert_eq!((twice.figures.io_waits, twice.figures.io_wait), (2, SERVICE * 2));
    // One request for each place, none for the hole, and one wait.
    let all = of(&[direct(0, 40, true, None)]);
    assert_eq!(sectors(&all), [(Operation::Write, 8000, 16), (Operation::Write, 4000, 16)]);
    assert_eq!(all.figures.io_waits, 1);
    assert_eq!(sectors(&of(&[direct(16, 8, false, None), direct(400, 8, false, None)])), []);
}

#[test]
fn direct_transfer_writes_what_is_dirty_before_and_a_write_takes_it_from_memory() {
    let read_again = (0, read(0, 1));
    let read_only = run(
        vec![file(1000, 2)],
        vec![thread(&[(0, write(0, 1, false)), direct(0, 8, false, None), read_again])],
    );
    let (written, got) = ((Operation::Write, 1000, 1), (Operation::Read, 1000, 1));
    assert_eq!(requests(&read_only), [written, got]);
    assert_eq!(read_only.figures.elapsed, Duration::from_ms(1) + SERVICE * 2);
    let overwritten = run(
        vec![file(1000, 2)],
        vec![thread(&[(0, write(0, 1, false)), direct(0, 8, true, None), read_again])],
    );
    assert_eq!(requests(&overwritten)[..2], [written, written]);
    assert_eq!(overwritten.completions[2].request.op, Operation::Read);
}

#[test]
fn asynchronous_transfers_overlap_until_their_completions_are_taken() {
    let submit: Vec<_> = (0..4).map(|place| direct(place * 8, 8, false, Some(1))).collect();
    // The device serves them one after the other.
    let steps = [&submit[..], &[reap(1), (7_000, RecordedAction::None), reap(3)]].concat();
    let run = run(vec![file(1000, 4)], vec![thread(&steps)]);
    assert_eq!(run.figures.elapsed, Duration::from_ms(1) + SERVICE * 4);
    assert_eq!((run.figures.task_cpu, run.figures.io_waits), (Duration::from_ms(11), 2));
}

#[test]
fn thread_takes_completions_of_transfers_that_another_submits() {
    let taking = thread(&[(0, RecordedAction::Start { thread: 1 }), reap(1), (5_000, RecordedAction::None)]);
    let submitting = thread(&[(3_000, RecordedAction::None), direct(0, 8, true, Some(1))]);
    let run = run(vec![file(1000, 1)], vec![taking, submitting]);
    assert_eq!(run.figures.elapsed, Duration::from_ms(9) + SERVICE);
}
