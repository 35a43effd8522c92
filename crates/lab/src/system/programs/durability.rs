//! Synchronisations of files and writes to mapped pages, from rows that are written here.

use seeklab_traces::system::tables::{ExtentRow, StepRow, WaitRow};
use seeklab_traces::system::{StepEvent, WaitCause};
use seeklab_workloads::host::{RecordedAction, SyncEnd};

use super::loader::Loader;
use super::tests::{access, actions, call, deeds, metadata, process, step, wait_for_data};

fn sync(time_ns: u64, inode: u64) -> StepRow {
    StepRow { inode: Some(inode), ..step(10, time_ns, StepEvent::FileSync) }
}

/// Places of the 64 blocks of a file from block 500 of the device on.
fn places(inode: u64) -> ExtentRow {
    ExtentRow { time_ns: 1, thread: None, inode, file_block: 0, device_block: 500, blocks: 64 }
}

/// A buffer of the device that becomes dirty.
fn dirty(time_ns: u64, block: u64) -> StepRow {
    StepRow {
        offset_bytes: Some(block.saturating_mul(4096)),
        length_bytes: Some(4096),
        ..step(10, time_ns, StepEvent::BufferWrite)
    }
}

const OPEN_DSYNC: u64 = 0o10000;

#[test]
fn synchronisation_finds_its_file_by_the_descriptor() {
    let mut steps = Vec::new();
    let write = |time_ns, inode| access(time_ns, StepEvent::FileWrite, inode, 0, 4096);
    let mut write_by = |time_ns: u64, number, arguments, inode| {
        let [enter, exit] = call(time_ns, number, arguments, 1);
        steps.extend([enter, write(time_ns + 5, inode), exit]);
    };
    write_by(100, 1, [3, 0, 0], 50);
    write_by(200, 40, [4, 3, 0], 51);
    let mut plain =
        |time_ns, number, arguments, result| steps.extend(call(time_ns, number, arguments, result));
    plain(300, 74, [3, 0, 0], 0);
    plain(400, 75, [4, 0, 0], 0);
    plain(500, 3, [3, 0, 0], 0);
    plain(600, 74, [3, 0, 0], 0);
    plain(700, 162, [0, 0, 0], 0);
    // Opened with O_DSYNC: each write is a synchronisation.
    plain(800, 257, [0, 0, OPEN_DSYNC | 1], 3);
    let [enter, exit] = call(900, 1, [3, 0, 0], 1);
    steps.extend([enter, write(905, 52), exit]);
    let (_, deeds) = deeds(&[], &[], &steps);
    let deeds: Vec<_> =
        deeds.into_iter().filter(|deed| !matches!(deed, RecordedAction::Write { .. })).collect();
    let sync = |file| RecordedAction::SyncFile { file, end: SyncEnd::Flush };
    assert_eq!(deeds, [sync(0), sync(1), RecordedAction::SyncAll, sync(2)]);
}

#[test]
fn synchronisation_that_waits_for_the_journal_ends_with_a_commit() {
    let change =
        |time_ns| StepRow { length_bytes: Some(3 * 4096), ..step(10, time_ns, StepEvent::JournalChange) };
    let mut steps = Vec::new();
    let mut sync = |time_ns, within: Option<StepRow>| {
        let [enter, exit] = call(time_ns, 74, [3, 0, 0], 0);
        steps.extend([Some(enter), within, Some(exit)].into_iter().flatten());
    };
    sync(200, Some(change(205)));
    sync(300, None);
    let [enter, exit] = call(100, 1, [3, 0, 0], 1);
    let steps =
        [vec![enter, access(105, StepEvent::FileWrite, 50, 0, 4096), change(106), exit], steps].concat();
    let wait = WaitRow { cause: WaitCause::Journal, ..wait_for_data(207, 1) };
    let (recording, made) = deeds(&[wait], &[], &steps);
    let (change, end) =
        (RecordedAction::Change { blocks: 3 }, |end| RecordedAction::SyncFile { file: 0, end });
    let first = [change, end(SyncEnd::Later), change, RecordedAction::Commit];
    assert_eq!(made[1..], [&first[..], &[end(SyncEnd::Later), end(SyncEnd::Flush)]].concat());
    let journal: Vec<_> = recording.journal.iter().map(|place| (place.address, place.pages)).collect();
    assert_eq!(journal, [(1002, 6), (2000, 4), (1000, 2)]);
    // Without the changes, nothing is known of the transactions.
    let steps: Vec<StepRow> = steps.into_iter().filter(|row| row.event != StepEvent::JournalChange).collect();
    let (recording, made) = deeds(&[wait], &[], &steps);
    assert_eq!((made[1..].to_vec(), recording.journal), (vec![end(SyncEnd::Flush); 2], Vec::new()));
}

#[test]
fn synchronisation_is_of_the_file_that_the_kernel_names_whatever_the_descriptor() {
    // A write by a descriptor that was made by dup2 of one with O_DSYNC, then fdatasync of another file by an unknown one.
    let [write, written] = call(100, 1, [1, 0, 0], 1);
    let [enter, exit] = call(200, 75, [9, 0, 0], 0);
    let steps = [
        write,
        access(103, StepEvent::FileWrite, 50, 0, 4096),
        sync(105, 50),
        written,
        enter,
        sync(205, 51),
        exit,
    ];
    let (_, made) = deeds(&[], &[], &steps);
    let of = |file, end| RecordedAction::SyncFile { file, end };
    assert_eq!(
        made[1..],
        [of(0, SyncEnd::Later), of(0, SyncEnd::Flush), of(1, SyncEnd::Later), of(1, SyncEnd::Flush)]
    );
    // A call that waited for the journal ends with a commit.
    let waits = [105, 205].map(|begin_ns| wait_for_data(begin_ns, 1));
    let waits = waits.map(|wait| WaitRow { cause: WaitCause::Journal, ..wait });
    let change = StepRow { length_bytes: Some(4096), ..step(10, 104, StepEvent::JournalChange) };
    let steps = [&steps[..2], &[change], &steps[2..]].concat();
    let (_, made) = deeds(&waits, &[], &steps);
    let made: Vec<_> =
        made.into_iter().filter(|deed| !matches!(deed, RecordedAction::Write { .. })).collect();
    let change = RecordedAction::Change { blocks: 1 };
    assert_eq!(
        made,
        [
            change,
            of(0, SyncEnd::Later),
            RecordedAction::Commit,
            of(1, SyncEnd::Later),
            RecordedAction::Commit
        ]
    );
}

#[test]
fn files_that_one_call_synchronises_are_durable_one_after_the_other() {
    let [enter, exit] = call(100, 20, [1, 0, 0], 1);
    let (_, made) = deeds(&[], &[], &[enter, sync(103, 50), sync(105, 51), exit]);
    let of = |file, end| RecordedAction::SyncFile { file, end };
    assert_eq!(
        made,
        [of(0, SyncEnd::Later), of(0, SyncEnd::Flush), of(1, SyncEnd::Later), of(1, SyncEnd::Flush)]
    );
    // A thread of the kernel makes no calls.
    let (_, made) = deeds(&[], &[], &[sync(103, 50), sync(105, 51)]);
    assert_eq!(made, [of(0, SyncEnd::Flush), of(1, SyncEnd::Flush)]);
}

#[test]
fn change_of_a_mapped_page_is_a_write_of_it() {
    let read = |time_ns| StepRow { event: StepEvent::DeviceRead, ..dirty(time_ns, 505) };
    let fault = |time_ns, page: u64| access(time_ns, StepEvent::FileFault, 50, page * 4096, 4096);
    let [enter, exit] = call(200, 1, [1, 0, 0], 1);
    let [read_in, read_out] = call(300, 0, [1, 0, 0], 1);
    let steps = [
        fault(100, 5),
        read(102),
        dirty(110, 505),
        // Another page that was read around the first, without a fault of its own; then metadata.
        dirty(120, 506),
        dirty(121, 40),
        // A page without a place.
        fault(130, 9),
        dirty(131, 40),
        dirty(135, u64::MAX),
        dirty(136, u64::MAX),
        // What a call writes is no change of a mapped page. What a call reads into a mapping is.
        enter,
        access(203, StepEvent::FileWrite, 50, 20 * 4096, 8192),
        dirty(204, 520),
        dirty(205, 521),
        exit,
        dirty(280, 531),
        read_in,
        dirty(306, 530),
        read_out,
    ];
    let (recording, made) = deeds(&[wait_for_data(105, 1)], &[places(50)], &steps);
    let faults = |page| RecordedAction::Fault { file: 0, page };
    let write = |first, pages, keeps| RecordedAction::Write {
        file: 0,
        first,
        pages,
        keeps_first: keeps,
        keeps_last: keeps,
    };
    let metadata = RecordedAction::Metadata { address: 40, dirties: true, is_present: true };
    assert_eq!(
        made,
        [
            faults(5),
            write(5, 1, true),
            write(6, 1, true),
            metadata,
            faults(9),
            metadata,
            write(9, 1, true),
            write(20, 2, false),
            write(31, 1, true),
            write(30, 1, true)
        ]
    );
    assert!(!recording.files[0].is_cached, "the first fault waited for its read");
}

#[test]
fn file_is_not_taken_for_cached_if_the_trace_has_what_was_in_memory() {
    let steps = [access(20, StepEvent::FileRead, 1, 0, 4096), access(40, StepEvent::FileFault, 2, 0, 4096)];
    for has_start_pages in [false, true] {
        let mut metadata = metadata();
        metadata.has_start_pages = has_start_pages;
        let mut loader = Loader::new(&metadata, &[process(10, 1, 0)]);
        steps.iter().for_each(|row| loader.step(row).expect("the row is right"));
        let recording = loader.finish(1 << 30).expect("the file can be used").recording;
        let cached: Vec<bool> = recording.files.iter().map(|file| file.is_cached).collect();
        assert_eq!(cached, [!has_start_pages; 2]);
        assert_eq!(actions(&recording, 0).len(), 2);
    }
}
