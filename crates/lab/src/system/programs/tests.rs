//! Programs from rows that are written here.

use std::collections::BTreeMap;

use seeklab_core::{Duration, ProcessName};
use seeklab_traces::capture::system::{JournalPart, JournalPlace};
use seeklab_traces::system::tables::{
    CachedRow, ExtentRow, InitialRow, OpenFileRow, ProcessRow, StepRow, TABLES_VERSION, WaitRow,
};
use seeklab_traces::system::{Role, StepEvent, WaitCause, Waker};
use seeklab_workloads::host::{CachedPages, RecordedAction, Recording, SyncEnd};

use super::KeptWaits;
use super::loader::{Loaded, Loader};
use crate::system::metadata::{DeviceFacts, EventCounts, MountFacts, SystemMetadata};

/// Device of the file system.
const DEVICE: u32 = 7 << 20;

pub(super) fn metadata() -> SystemMetadata {
    let settings = [
        ("vm.dirty_ratio", "40"),
        ("vm.dirty_bytes", "0"),
        ("vm.dirty_background_bytes", "1048576"),
        ("vm.dirty_expire_centisecs", "3000"),
        ("vm.dirty_writeback_centisecs", "0"),
        ("queue.read_ahead_kb", "64"),
        ("queue.max_sectors_kb", "256"),
        ("queue.nr_requests", "128"),
        ("bdi.max_bytes", "8388608"),
        ("bdi.strict_limit", "0"),
    ];
    SystemMetadata {
        tables_version: TABLES_VERSION,
        recorded_by: String::new(),
        clock: "monotonic".to_owned(),
        begin_ns: 0,
        elapsed_ns: 1_000_000,
        command: vec!["cp".to_owned()],
        task: 10,
        command_exit_code: Some(0),
        kernel: "6.18".to_owned(),
        machine: "x86_64".to_owned(),
        cpus: vec![0, 1],
        task_cpus: Vec::new(),
        memory_bytes: BTreeMap::from([("MemAvailable".to_owned(), 1 << 30)]),
        settings: settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        device: DeviceFacts {
            path: "/dev/loop0".to_owned(),
            number: DEVICE,
            size_bytes: 1 << 30,
            block_bytes: 512,
            partition_start_sector: None,
        },
        mount: MountFacts {
            point: "/mnt".to_owned(),
            file_system: "ext4".to_owned(),
            options: "rw".to_owned(),
            number: DEVICE,
        },
        journal: None,
        recording_cost: None,
        has_metadata_bytes: true,
        memory_group: None,
        device_age_ns: None,
        stolen_ns: None,
        has_start_pages: false,
        events: EventCounts {
            by_kind: BTreeMap::new(),
            events: 0,
            lost_events: 0,
            malformed_records: 0,
            repairs: BTreeMap::new(),
            clock_steps: 0,
            given_up_requests: 0,
            pending_requests: 0,
            has_call_stacks: true,
            missing_events: Vec::new(),
        },
        tables: BTreeMap::new(),
    }
}

pub(super) fn process(thread: u32, parent: u32, begin_ns: u64) -> ProcessRow {
    ProcessRow {
        thread,
        process: thread,
        parent,
        name: ProcessName::default(),
        begin_ns,
        elapsed_ns: 0,
        has_ended: true,
        computing_ns: 0,
        recording_ns: None,
        interrupted_ns: 0,
        ready_ns: 0,
        data_read_ns: 0,
        metadata_read_ns: 0,
        write_ns: 0,
        flush_ns: 0,
        journal_ns: 0,
        throttle_ns: 0,
        queue_ns: 0,
        memory_ns: 0,
        process_ns: 0,
        timer_ns: 0,
        other_device_ns: 0,
        outside_ns: 0,
        unknown_ns: 0,
        waits: 0,
        switches: 0,
    }
}

pub(super) fn step(thread: u32, time_ns: u64, event: StepEvent) -> StepRow {
    StepRow {
        thread,
        time_ns,
        computing_ns: 5,
        event,
        call: None,
        argument_0: None,
        argument_1: None,
        argument_2: None,
        argument_3: None,
        result: None,
        device: Some(DEVICE),
        inode: None,
        offset_bytes: None,
        length_bytes: None,
        other_thread: None,
        wait_ns: None,
        cause: None,
        is_async: None,
    }
}

/// An access to blocks of a file.
pub(super) fn access(
    time_ns: u64,
    event: StepEvent,
    inode: u64,
    offset_bytes: u64,
    length_bytes: u64,
) -> StepRow {
    StepRow {
        inode: Some(inode),
        offset_bytes: Some(offset_bytes),
        length_bytes: Some(length_bytes),
        ..step(10, time_ns, event)
    }
}

/// Entry and exit of a system call.
pub(super) fn call(time_ns: u64, number: u16, arguments: [u64; 3], result: i64) -> [StepRow; 2] {
    let [argument_0, argument_1, argument_2] = arguments.map(Some);
    let enter = StepRow {
        call: Some(number),
        argument_0,
        argument_1,
        argument_2,
        ..step(10, time_ns, StepEvent::CallEnter)
    };
    [
        enter,
        StepRow { call: Some(number), result: Some(result), ..step(10, time_ns + 9, StepEvent::CallExit) },
    ]
}

pub(super) fn wait_for_data(begin_ns: u64, wait_ns: u64) -> WaitRow {
    WaitRow {
        thread: 10,
        begin_ns,
        wait_ns,
        ready_ns: 0,
        cause: WaitCause::DataRead,
        call: None,
        waker: Waker::Completion,
        waker_thread: None,
        device: None,
        sector: None,
    }
}

fn load(
    processes: &[ProcessRow],
    waits: &[WaitRow],
    extents: &[ExtentRow],
    steps: &[StepRow],
) -> (Recording, KeptWaits) {
    let Loaded { recording, kept, .. } = loaded(processes, waits, extents, steps, 1 << 30);
    (recording, kept)
}

fn loaded(
    processes: &[ProcessRow],
    waits: &[WaitRow],
    extents: &[ExtentRow],
    steps: &[StepRow],
    room_bytes: u64,
) -> Loaded {
    let mut metadata = metadata();
    let kinds =
        [StepEvent::DeviceRead, StepEvent::DeviceWrite, StepEvent::JournalChange, StepEvent::FileSync];
    for event in kinds {
        if steps.iter().any(|row| row.event == event) {
            metadata.events.by_kind.insert(event.name().to_owned(), 1);
        }
    }
    let parts = [(1000, 8), (2000, 4)].map(|(device_block, blocks)| JournalPart { device_block, blocks });
    metadata.journal = Some(JournalPlace { block_bytes: 4096, parts: parts.to_vec(), next_block: 2 });
    let mut loader = Loader::new(&metadata, processes);
    steps.iter().for_each(|row| loader.survey(row));
    waits.iter().for_each(|row| loader.wait(row));
    extents.iter().for_each(|row| loader.extent(row).expect("the row is right"));
    steps.iter().for_each(|row| loader.step(row).expect("the row is right"));
    loader.finish(room_bytes).expect("the file can be used")
}

pub(super) fn actions(recording: &Recording, thread: usize) -> Vec<RecordedAction> {
    recording.threads[thread].steps.iter().map(|step| step.action).collect()
}

/// Actions other than `None` of a single thread.
pub(super) fn deeds(
    waits: &[WaitRow],
    extents: &[ExtentRow],
    steps: &[StepRow],
) -> (Recording, Vec<RecordedAction>) {
    let recording = load(&[process(10, 1, 0)], waits, extents, steps).0;
    let all = actions(&recording, 0);
    (recording, all.into_iter().filter(|action| *action != RecordedAction::None).collect())
}

#[test]
fn look_ups_of_one_request_are_one_read() {
    let read =
        |time_ns, first: u64| access(time_ns, StepEvent::FileRead, 77, first * 4096, (32 - first) * 4096);
    let (recording, deeds) =
        deeds(&[wait_for_data(15, 1)], &[], &[read(20, 0), read(30, 15), read(40, 30), read(50, 30)]);
    let part = |first, pages, requested| RecordedAction::Read { file: 0, first, pages, requested };
    assert_eq!(deeds, [part(0, 15, 32), part(15, 15, 17), part(30, 2, 2)]);
    assert_eq!((recording.files[0].pages, recording.files[0].is_cached), (32, false));
}

#[test]
fn pages_before_the_first_recorded_look_up_of_a_read_are_read_too() {
    // 80 KiB are read, and the look-up of the first 64 KiB was not recorded, for the folio behind them was being read.
    let read = |number, place: u64| {
        let [enter, exit] = call(100, number, [3, 0, 20 * 4096], 20 * 4096);
        let look_up = access(105, StepEvent::FileRead, 77, 16 * 4096, 4 * 4096);
        let steps = [StepRow { argument_3: Some(place), ..enter }, look_up, exit];
        deeds(&[], &[], &steps).1
    };
    let part = |first, pages, requested| RecordedAction::Read { file: 0, first, pages, requested };
    assert_eq!(read(0, 0), [part(0, 16, 20), part(16, 4, 4)]);
    assert_eq!(read(17, 0), [part(0, 16, 20), part(16, 4, 4)]);
    // A place that is another than that of the look-up, and a call whose length is not an argument, say nothing.
    assert_eq!(read(17, 8192), [part(16, 4, 4)]);
    assert_eq!(read(19, 0), [part(16, 4, 4)]);
    // A call takes at most 2 GiB and a page less, whatever it requests.
    let [enter, exit] = call(100, 0, [3, 0, 1 << 40], 4096);
    let steps = [enter, access(105, StepEvent::FileRead, 77, 8192, (1 << 31) - 8192), exit];
    let pages = (1 << 19) - 1;
    assert_eq!(deeds(&[], &[], &steps).1, [part(1, 1, pages), part(2, pages - 1, pages - 1)]);
    // A whole request has no part before it, wherever it begins within a page.
    let [enter, exit] = call(100, 0, [3, 0, 4096], 4096);
    let steps = [enter, access(105, StepEvent::FileRead, 77, 4096, 8192), exit];
    assert_eq!(deeds(&[], &[], &steps).1, [part(1, 2, 2)]);
}

#[test]
fn file_whose_first_access_does_not_wait_is_in_memory() {
    let steps = [
        access(20, StepEvent::FileRead, 1, 0, 4096),
        access(40, StepEvent::FileRead, 2, 0, 4096),
        access(60, StepEvent::FileRead, 1, 4096, 4096),
        access(80, StepEvent::FileFault, 3, 0, 4096),
        access(100, StepEvent::FileFault, 4, 0, 4096),
        access(120, StepEvent::FileWrite, 5, 0, 4096),
        access(140, StepEvent::FileRead, 5, 0, 4096),
    ];
    // Waits before the second read and after the first fault.
    let waits = [wait_for_data(30, 1), wait_for_data(85, 900)];
    let (recording, _) = deeds(&waits, &[], &steps);
    let cached: Vec<bool> = recording.files.iter().map(|file| file.is_cached).collect();
    assert_eq!(cached, [true, false, false, true, false]);
    // Lengths of waits change nothing.
    let others = [wait_for_data(30, 77_777), wait_for_data(85, 1)];
    assert_eq!(deeds(&others, &[], &steps).0, recording);
}

#[test]
fn part_of_a_block_is_kept_if_the_file_had_it() {
    let extent = |time_ns, file_block, blocks| ExtentRow {
        time_ns,
        thread: None,
        inode: 9,
        file_block,
        device_block: 500 + file_block,
        blocks,
    };
    let steps = [
        access(100, StepEvent::FileWrite, 9, 100, 4096),
        access(200, StepEvent::FileWrite, 9, 8192, 100),
        access(300, StepEvent::FileWrite, 9, 4096, 4096),
        access(310, StepEvent::FileWrite, 9, 16_384, 100),
        access(320, StepEvent::BufferRead, 9, 40 * 4096, 4096),
        step(10, 400, StepEvent::Exit),
    ];
    let write = |first, pages, keeps_first, keeps_last| RecordedAction::Write {
        file: 0,
        first,
        pages,
        keeps_first,
        keeps_last,
    };
    // Blocks 0 and 1 are looked up during the first write; blocks 2 and 4 get their places later.
    let nowhere = ExtentRow { device_block: (1 << 60) - 1, ..extent(950, 3, 1) };
    let extents = [extent(105, 0, 2), extent(900, 2, 1), extent(330, 4, 1), nowhere];
    let (recording, deeds) = deeds(&[], &extents, &steps);
    let written = [(0, 2, true, true), (2, 1, false, false), (1, 1, false, false), (4, 1, false, false)];
    assert_eq!(deeds[..4], written.map(|(first, pages, keeps, too)| write(first, pages, keeps, too)));
    assert_eq!(recording.files[0].extents.len(), 2);
}

#[test]
fn reads_of_metadata_are_those_that_a_thread_submits() {
    let read = |time_ns, first: u64, blocks: u64| StepRow {
        offset_bytes: Some(first * 4096),
        length_bytes: Some(blocks * 4096),
        ..step(10, time_ns, StepEvent::DeviceRead)
    };
    let buffer = |time_ns, event, block: u64| StepRow {
        offset_bytes: Some(block * 4096),
        length_bytes: Some(4096),
        ..step(10, time_ns, event)
    };
    let place = ExtentRow { time_ns: 1, thread: None, inode: 9, file_block: 0, device_block: 700, blocks: 8 };
    let steps = [
        access(10, StepEvent::FileWrite, 9, 0, 4096),
        // Data of a file, whose reads the host decides about, and whose buffers are no metadata.
        read(20, 704, 4),
        buffer(30, StepEvent::BufferWrite, 700),
        // The process needs block 42, and reads its surroundings before it.
        buffer(100, StepEvent::BufferRead, 42),
        read(110, 43, 1),
        read(111, 44, 2),
        read(112, 42, 1),
        buffer(200, StepEvent::BufferWrite, 43),
        // A directory that nobody has looked up.
        read(210, 80, 1),
        step(10, 300, StepEvent::Exit),
        // A read-ahead that nobody waits for.
        read(310, 90, 2),
        step(10, 320, StepEvent::Exit),
    ];
    let (_, deeds) = deeds(&[wait_for_data(120, 1), wait_for_data(220, 1)], &[place], &steps);
    let metadata = |address, dirties, is_present| RecordedAction::Metadata { address, dirties, is_present };
    let ahead = |address, pages| RecordedAction::MetadataAhead { address, pages };
    assert_eq!(
        deeds[1..],
        [
            metadata(42, false, true),
            ahead(43, 3),
            ahead(42, 1),
            metadata(42, false, false),
            metadata(43, true, false),
            metadata(80, false, false),
            ahead(90, 2),
        ]
    );
}

#[test]
fn pages_that_the_machine_took_leave_memory_before_the_same_access() {
    let read = |time_ns, first: u64, blocks: u64| StepRow {
        offset_bytes: Some(first * 4096),
        length_bytes: Some(blocks * 4096),
        ..step(10, time_ns, StepEvent::DeviceRead)
    };
    let place =
        ExtentRow { time_ns: 1, thread: None, inode: 9, file_block: 0, device_block: 700, blocks: 16 };
    let look_up = |time_ns, first: u64, blocks: u64| {
        access(time_ns, StepEvent::FileRead, 9, first * 4096, blocks * 4096)
    };
    let mut steps = Vec::new();
    let mut call = |time_ns, within: &[StepRow]| {
        let [enter, exit] = call(time_ns, 0, [3, 0, 0], 0);
        steps.push(enter);
        steps.extend_from_slice(within);
        steps.push(exit);
    };
    // The first read of pages 0 to 3, and 4 to 11 in advance.
    call(100, &[read(101, 700, 4), look_up(102, 0, 4), read(103, 704, 8)]);
    call(200, &[look_up(201, 4, 2)]);
    // Pages 1 to 5 were in memory. Page 8 was not used yet.
    call(300, &[read(301, 701, 8), look_up(302, 0, 4)]);
    // Page 2 again, for a write to a part of it.
    call(400, &[access(401, StepEvent::FileWrite, 9, 2 * 4096, 100), read(402, 702, 1)]);
    // A write to a part of a page that was never in memory.
    call(500, &[access(501, StepEvent::FileWrite, 9, 12 * 4096, 100), read(502, 712, 1)]);
    let of = |room_bytes| {
        let loaded = loaded(&[process(10, 1, 0)], &[], &[place], &steps, room_bytes);
        let deeds =
            actions(&loaded.recording, 0).into_iter().filter(|action| *action != RecordedAction::None);
        (loaded.lost_pages, deeds.collect::<Vec<_>>())
    };
    let look_up = |first, pages| RecordedAction::Read { file: 0, first, pages, requested: pages };
    let lose = |first, pages| RecordedAction::Lose { file: 0, first, pages };
    let write =
        |first| RecordedAction::Write { file: 0, first, pages: 1, keeps_first: true, keeps_last: true };
    let (pages, deeds) = of(1 << 30);
    assert_eq!(
        deeds,
        [look_up(0, 4), look_up(4, 2), lose(1, 5), look_up(0, 4), lose(2, 1), write(2), write(12)]
    );
    assert_eq!(pages, 6);
    // Seven pages, and room for six: the host itself decides what leaves it.
    let (pages, deeds) = of(6 * 4096);
    assert_eq!(deeds, [look_up(0, 4), look_up(4, 2), look_up(0, 4), write(2), write(12)]);
    assert_eq!(pages, 0);
}

#[test]
fn part_of_a_block_is_new_unless_the_trace_read_it_or_used_it_before() {
    let read = |time_ns, first: u64, blocks: u64| StepRow {
        offset_bytes: Some(first * 4096),
        length_bytes: Some(blocks * 4096),
        ..step(10, time_ns, StepEvent::DeviceRead)
    };
    let write = |time_ns, offset, length| access(time_ns, StepEvent::FileWrite, 9, offset, length);
    // Without delayed allocation, a new block has its place within the write.
    let place = |time_ns, file_block| ExtentRow {
        time_ns,
        thread: None,
        inode: 9,
        file_block,
        device_block: 500 + file_block,
        blocks: 1,
    };
    let steps = [
        write(100, 0, 3000),
        write(200, 3000, 500),
        write(300, 8192, 100),
        read(310, 502, 1),
        step(10, 400, StepEvent::Exit),
    ];
    let (_, deeds) = deeds(&[], &[place(105, 0), place(305, 2)], &steps);
    let keeps = |deed: &RecordedAction| match deed {
        RecordedAction::Write { keeps_first, keeps_last, .. } => keeps_first | keeps_last,
        _ => panic!("{deed:?}"),
    };
    assert_eq!(deeds.iter().map(keeps).collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn advice_belongs_to_the_file_that_is_read_next_by_the_descriptor() {
    let mut steps = Vec::new();
    let mut advise = |time_ns, descriptor, advice| {
        let [enter, exit] = call(time_ns, 221, [descriptor, 0, 0], 0);
        steps.extend([StepRow { argument_3: advice, ..enter }, exit]);
    };
    advise(100, 3, Some(2));
    advise(120, 4, Some(4));
    advise(140, 5, None);
    for (time_ns, descriptor, inode) in [(200, 3, 70), (220, 3, 70), (240, 4, 71), (260, 5, 72)] {
        let [enter, exit] = call(time_ns, 0, [descriptor, 0, 0], 4096);
        steps.extend([enter, access(time_ns + 5, StepEvent::FileRead, inode, 0, 4096), exit]);
    }
    let (_, deeds) = deeds(&[], &[], &steps);
    let read = |file| RecordedAction::Read { file, first: 0, pages: 1, requested: 1 };
    assert_eq!(deeds, [RecordedAction::Sequential { file: 0 }, read(0), read(0), read(1), read(2)]);
}

#[test]
fn files_that_have_an_inode_one_after_the_other_are_several() {
    let delete = |time_ns| StepRow { inode: Some(9), ..step(10, time_ns, StepEvent::FileDelete) };
    let other = StepRow { device: Some(DEVICE + 1), ..delete(150) };
    let steps = [
        access(100, StepEvent::FileWrite, 9, 0, 4096),
        other,
        delete(200),
        access(300, StepEvent::FileWrite, 9, 0, 8192),
        delete(400),
    ];
    let extent = |time_ns, device_block| ExtentRow {
        time_ns,
        thread: None,
        inode: 9,
        file_block: 0,
        device_block,
        blocks: 1,
    };
    let (recording, deeds) = deeds(&[], &[extent(110, 500), extent(310, 600)], &steps);
    let places: Vec<(u64, u64)> =
        recording.files.iter().map(|file| (file.pages, file.extents[0].address)).collect();
    assert_eq!(places, [(1, 500), (2, 600)]);
    let write =
        |file, pages| RecordedAction::Write { file, first: 0, pages, keeps_first: false, keeps_last: false };
    let delete = |file| RecordedAction::Delete { file };
    assert_eq!(deeds, [write(0, 1), delete(0), write(1, 2), delete(1)]);
}

#[test]
fn metadata_that_a_thread_writes_itself_is_written_by_the_model_too() {
    let transfer = |time_ns, block: u64, event| StepRow {
        offset_bytes: Some(block * 4096),
        length_bytes: Some(8192),
        ..step(10, time_ns, event)
    };
    let extent =
        ExtentRow { time_ns: 1, thread: None, inode: 50, file_block: 0, device_block: 500, blocks: 8 };
    let steps = [
        access(100, StepEvent::FileRead, 50, 0, 4096),
        transfer(110, 40, StepEvent::DeviceWrite),
        transfer(120, 502, StepEvent::DeviceWrite),
        transfer(130, (1 << 18) - 1, StepEvent::DeviceWrite),
    ];
    let (_, made) = deeds(&[], &[extent], &steps);
    assert_eq!(
        made[1..],
        [RecordedAction::WriteMetadata { address: 40, pages: 2 }],
        "neither data nor beyond the device"
    );
}

#[test]
fn dirty_buffers_of_file_data_are_no_metadata() {
    let dirty = |time_ns, block: u64| StepRow {
        offset_bytes: Some(block.saturating_mul(4096)),
        length_bytes: Some(4096),
        ..step(10, time_ns, StepEvent::BufferWrite)
    };
    let lookup = StepRow { event: StepEvent::BufferRead, ..dirty(130, 7) };
    let steps = [
        access(100, StepEvent::FileWrite, 9, 0, 8192),
        dirty(110, 500),
        dirty(120, 501),
        lookup,
        dirty(140, 7),
        dirty(150, u64::MAX),
    ];
    let (_, deeds) = deeds(&[], &[], &steps);
    let metadata = |dirties, is_present| RecordedAction::Metadata { address: 7, dirties, is_present };
    assert_eq!(deeds[1..], [metadata(false, true), metadata(true, false)]);
}

#[test]
fn wait_for_a_thread_is_a_dependency_on_its_progress() {
    let wait = |thread, time_ns, wait_ns, cause, other_thread| StepRow {
        wait_ns: Some(wait_ns),
        cause: Some(cause),
        other_thread,
        ..step(thread, time_ns, StepEvent::Wait)
    };
    let steps = [
        StepRow { other_thread: Some(11), ..step(10, 100, StepEvent::Fork) },
        step(11, 150, StepEvent::CallEnter),
        step(11, 170, StepEvent::CallExit),
        step(11, 300, StepEvent::CallEnter),
        wait(10, 120, 60, WaitCause::Process, Some(11)),
        wait(10, 200, 70, WaitCause::Timer, None),
        wait(10, 280, 11, WaitCause::Outside, Some(99)),
        wait(10, 295, 7, WaitCause::Process, Some(98)),
    ];
    let (recording, kept) = load(&[process(11, 10, 100), process(10, 1, 40)], &[], &[], &steps);
    let sleep = |ns| RecordedAction::Sleep { time: Duration::from_ns(ns) };
    assert_eq!(
        actions(&recording, 0),
        [
            RecordedAction::Start { thread: 1 },
            RecordedAction::Await { thread: 1, steps: 2 },
            sleep(70),
            sleep(11),
            sleep(7)
        ]
    );
    assert_eq!(kept, KeptWaits { waits: 2, wait_ns: 18 });
    assert_eq!(recording.threads[1].start, Duration::from_ns(60));
}

#[test]
fn other_file_systems_and_block_sizes_are_not_mistaken() {
    let elsewhere = StepRow { device: Some(1), ..access(20, StepEvent::FileRead, 1, 0, 4096) };
    assert_eq!(deeds(&[], &[], &[elsewhere]).1, []);
    let mut loader = Loader::new(&metadata(), &[process(10, 1, 0)]);
    let small =
        StepRow { offset_bytes: Some(1024), length_bytes: Some(1024), ..step(10, 20, StepEvent::BufferRead) };
    let problem = loader.step(&small).expect_err("the block is small");
    assert!(problem.contains("blocks of 1024 B") && problem.contains("-b 4096"), "{problem}");
    let unknown = loader.step(&step(77, 30, StepEvent::Exit)).expect_err("there is no such thread");
    assert!(unknown.contains("thread 77"), "{unknown}");
    let broken = access(20, StepEvent::FileRead, 1, u64::MAX, 4096);
    assert!(loader.step(&broken).expect_err("it ends nowhere").contains("largest file"));
}

#[test]
fn transfers_past_the_page_cache_are_causes_and_their_reads_effects() {
    let direct = |time_ns, event, offset, length, is_async| StepRow {
        is_async: Some(is_async),
        ..access(time_ns, event, 9, offset, length)
    };
    let read = StepRow {
        offset_bytes: Some(700 * 4096 + 512),
        length_bytes: Some(1024),
        ..step(10, 22, StepEvent::DeviceRead)
    };
    let place =
        ExtentRow { time_ns: 21, thread: None, inode: 9, file_block: 0, device_block: 700, blocks: 64 };
    let [pread, returned] = call(20, 17, [3, 0, 1024], 1024);
    let [write, written] = call(40, 18, [3, 0, 4096], 4096);
    let [sync, synced] = call(60, 75, [3, 0, 0], 0);
    let steps = [
        pread,
        direct(21, StepEvent::DirectRead, 512, 1024, false),
        read,
        returned,
        write,
        direct(41, StepEvent::DirectWrite, 8192, 4096, false),
        written,
        sync,
        synced,
    ];
    let (recording, deeds) = deeds(&[wait_for_data(23, 1)], &[place], &steps);
    let part =
        |first, sectors, writes| RecordedAction::Direct { file: 0, first, sectors, writes, queue: None };
    assert_eq!(
        deeds,
        [part(1, 2, false), part(16, 8, true), RecordedAction::SyncFile { file: 0, end: SyncEnd::Flush }]
    );
    // Such an access says nothing about what is in memory, and a write keeps the place that it has.
    let file = &recording.files[0];
    assert_eq!((file.is_cached, file.allocations.len(), file.extents[0].address), (false, 0, 700));
}

#[test]
fn asynchronous_transfers_end_in_their_queue() {
    let direct = |time_ns, offset, is_async| StepRow {
        is_async: Some(is_async),
        ..access(time_ns, StepEvent::DirectWrite, 9, offset, 4096)
    };
    let [submit, submitted] = call(20, 209, [0x7f00, 3, 0], 3);
    let [take, taken] = call(40, 208, [0x7f00, 2, 9], 2);
    let [rest, all] = call(60, 208, [0x7f00, 1, 9], 1);
    // The second transfer prolongs the file, so the kernel waits for it.
    let steps = [
        submit,
        direct(21, 0, true),
        direct(22, 4096, false),
        direct(23, 8192, true),
        submitted,
        take,
        taken,
        rest,
        all,
    ];
    let queue = std::num::NonZeroU32::new(1);
    let (_, deeds) = deeds(&[], &[], &steps);
    let part = |first, queue| RecordedAction::Direct { file: 0, first, sectors: 8, writes: true, queue };
    let reap = RecordedAction::Reap { queue: queue.expect("it is 1"), transfers: 1 };
    assert_eq!(deeds, [part(0, queue), part(8, None), part(16, queue), reap, reap]);
}

#[test]
fn files_opened_for_transfers_that_the_trace_lacks_are_counted() {
    let open = call(20, 257, [0, 0, 0o40002], 3);
    let loaded = |steps: &[StepRow]| loaded(&[process(10, 1, 0)], &[], &[], steps, 1 << 30);
    assert_eq!(loaded(&open).unused_direct_opens, 1);
    let direct = StepRow { is_async: Some(false), ..access(40, StepEvent::DirectRead, 9, 0, 4096) };
    assert_eq!(loaded(&[open[0], open[1], direct]).unused_direct_opens, 0);
    assert_eq!(loaded(&call(20, 257, [0, 0, 2], 3)).unused_direct_opens, 0);
}

#[test]
fn pages_in_memory_at_the_beginning_are_those_of_the_trace() {
    let mut loader = Loader::new(&metadata(), &[process(10, 1, 0)]);
    let part = |inode, page: u64, pages: u64, is_dirty| CachedRow {
        inode,
        offset_bytes: page * 4096,
        length_bytes: pages * 4096,
        is_dirty,
    };
    let read = access(50, StepEvent::FileRead, 1, 0, 4096);
    let other = access(60, StepEvent::FileRead, 2, 0, 4096);
    // Less than a page of each is written. The first one was in memory.
    let write = access(70, StepEvent::FileWrite, 1, 8 * 4096 + 100, 50);
    let far = access(80, StepEvent::FileWrite, 1, 20 * 4096 + 100, 50);
    let steps = [read, other, write, far];
    steps.iter().for_each(|row| loader.survey(row));
    loader
        .extent(&ExtentRow {
            time_ns: 90,
            thread: None,
            inode: 1,
            file_block: 8,
            device_block: 700,
            blocks: 2,
        })
        .expect("the row is right");
    let rows = [
        part(Some(1), 0, 2, false),
        part(Some(1), 8, 2, true),
        part(Some(3), 4, 1, false),
        part(None, 100, 3, true),
        part(None, 1 << 40, 1, false),
    ];
    rows.iter().for_each(|row| loader.cached(row).expect("the row is right"));
    steps.iter().for_each(|row| loader.step(row).expect("the row is right"));
    let Recording { files, metadata, threads, .. } =
        loader.finish(1 << 30).expect("the file can be used").recording;
    let cached = |first, pages, is_dirty| CachedPages { first, pages, is_dirty };
    let places: Vec<_> = files.iter().map(|file| (file.is_cached, file.cached.clone(), file.pages)).collect();
    // The first access to the file without rows did not wait.
    let first = vec![cached(0, 2, false), cached(8, 2, true)];
    let expected = [(false, first, 21), (true, vec![], 1), (false, vec![cached(4, 1, false)], 5)];
    assert_eq!(places, [expected[0].clone(), expected[2].clone(), expected[1].clone()]);
    assert_eq!(metadata, [cached(100, 3, true)]);
    // What was dirty gets its place when the host writes it.
    assert_eq!(files[0].allocations.len(), 1);
    let keeps = |step: usize| match threads[0].steps.iter().nth(step).expect("there is one").action {
        RecordedAction::Write { keeps_first, .. } => keeps_first,
        other => panic!("{other:?}"),
    };
    // This trace has no reads of the device, so a place that was known before decides.
    assert_eq!((keeps(2), keeps(3)), (false, false));
}

#[test]
fn name_is_looked_up_where_a_thread_requested_the_place_of_a_small_directory() {
    let mut loader = Loader::new(&metadata(), &[process(10, 1, 0)]);
    let steps = [access(50, StepEvent::FileRead, 1, 0, 4096), step(10, 70, StepEvent::Exit)];
    steps.iter().for_each(|row| loader.survey(row));
    let place = |thread, inode, file_block| ExtentRow {
        time_ns: 60,
        thread,
        inode,
        file_block,
        device_block: 300 + file_block,
        blocks: 1,
    };
    let mine = [(5, 0), (5, 0), (1, 0), (6, 0), (6, 1)];
    // Twice, of a file, of a directory of two blocks, and by threads that are not of the task.
    let mine = mine.map(|(inode, file_block)| place(Some(10), inode, file_block));
    let places = [mine.as_slice(), &[place(None, 5, 0), place(Some(77), 5, 0)]].concat();
    places.iter().for_each(|row| loader.extent(row).expect("the row is right"));
    loader.step(&steps[0]).expect("the row is right");
    places.iter().for_each(|row| loader.look_up(row));
    loader.step(&steps[1]).expect("the row is right");
    let recording = loader.finish(1 << 30).expect("the file can be used").recording;
    let look_up = RecordedAction::LookUp { address: 300 };
    let read = RecordedAction::Read { file: 1, first: 0, pages: 1, requested: 1 };
    assert_eq!(actions(&recording, 0), [read, look_up, RecordedAction::None]);
}

#[test]
fn files_open_at_the_beginning_are_those_of_the_process_that_made_the_command() {
    let mut loader = Loader::new(&metadata(), &[process(10, 5, 0)]);
    // Thread 5 of process 4 made the command.
    loader.initial(&InitialRow {
        thread: 5,
        process: 4,
        parent: 1,
        name: ProcessName::default(),
        role: Role::Recorder,
        cpu: None,
    });
    let open = |process, descriptor, inode, flags| OpenFileRow {
        process,
        descriptor,
        inode,
        flags,
        offset_bytes: 0,
    };
    loader.open_file(&open(4, 7, 9, 0o2));
    loader.open_file(&open(3, 8, 9, 0o2));
    let steps = [call(20, 74, [7, 0, 0], 0), call(40, 74, [8, 0, 0], 0)].concat();
    steps.iter().for_each(|row| loader.step(row).expect("the row is right"));
    let all = actions(&loader.finish(1 << 30).expect("the file can be used").recording, 0);
    let none = RecordedAction::None;
    assert_eq!(all, [RecordedAction::SyncFile { file: 0, end: SyncEnd::Flush }, none, none, none]);
}
