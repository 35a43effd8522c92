//! Journals and synchronous metadata of recordings.

use seeklab_core::{Duration, Operation, Seed};
use seeklab_workloads::host::{
    Host, HostSettings, RecordedAction, RecordedExtent, RecordedFile, RecordedPlace, RecordedStep,
    RecordedThread, Recording, SyncEnd,
};

use crate::common::{Server, Service, TARGET};
use crate::host::{Run, run_host};

const SERVICE: Duration = Duration::from_ms(10);

const FLUSH: (Operation, u64, u32) = (Operation::Flush, 0, 0);

const WRITE: RecordedAction =
    RecordedAction::Write { file: 0, first: 0, pages: 2, keeps_first: false, keeps_last: false };

const fn change(blocks: u32) -> RecordedAction {
    RecordedAction::Change { blocks }
}

const fn sync(end: SyncEnd) -> RecordedAction {
    RecordedAction::SyncFile { file: 0, end }
}

const fn written(address: u64, pages: u32) -> (Operation, u64, u32) {
    (Operation::Write, address, pages)
}

/// Threads that do these actions on a file at block 1000, with a journal of so many blocks from 5000 on.
fn run(journal_pages: u64, settings: &HostSettings, threads: &[&[RecordedAction]]) -> Run {
    let zero = Some(Duration::ZERO);
    let settings = HostSettings {
        submission: zero,
        interrupt: zero,
        context_switch: zero,
        cpus: Some(2),
        ..settings.clone()
    };
    let thread = |actions: &&[RecordedAction]| RecordedThread {
        start: Duration::ZERO,
        steps: actions
            .iter()
            .map(|action| RecordedStep { computing: Duration::ZERO, action: *action })
            .collect(),
    };
    let file = RecordedFile {
        pages: 8,
        extents: vec![RecordedExtent { first: 0, address: 1000, pages: 8 }],
        ..RecordedFile::default()
    };
    let recording = Recording {
        files: vec![file],
        threads: threads.iter().map(thread).collect(),
        journal: vec![RecordedPlace { address: 5000, pages: journal_pages }],
        ..Recording::default()
    };
    let host = Host::of_recording(recording, &settings, TARGET, Seed(1)).expect("it fits");
    run_host(host, Server::new(Service::Constant(SERVICE)))
}

/// Operation, first block and number of blocks of 4 KiB.
fn requests(run: &Run) -> Vec<(Operation, u64, u32)> {
    let of = |one: &seeklab_core::Completion| (one.request.op, one.request.lbn / 8, one.request.blocks / 8);
    run.completions.iter().map(of).collect()
}

fn cached(fua: bool) -> HostSettings {
    HostSettings { write_cache: Some(true), fua: Some(fua), ..HostSettings::default() }
}

#[test]
fn synchronisation_of_a_recording_ends_with_the_commit_of_its_changes() {
    let steps =
        [WRITE, change(2), sync(SyncEnd::Later), change(1), RecordedAction::Commit, RecordedAction::Commit];
    let run = run(100, &cached(false), &[&steps]);
    // The data; a descriptor and three blocks; a flush before and one behind the commit block. Then nothing has changed.
    let commit = [written(5000, 4), FLUSH, written(5004, 1), FLUSH];
    assert_eq!(requests(&run), [&[written(1000, 2)], &commit[..], &[FLUSH]].concat());
    assert_eq!(run.figures.elapsed, SERVICE * 6, "one after another");
    assert_eq!(run.figures.failed_processes, 0);
}

#[test]
fn commit_block_passes_a_write_cache_that_lets_it() {
    let run = run(100, &cached(true), &[&[change(1), RecordedAction::Commit]]);
    assert_eq!(requests(&run), [written(5000, 2), FLUSH, written(5002, 1)]);
    let fua: Vec<bool> = run.completions.iter().map(|one| one.request.fua).collect();
    assert_eq!(fua, [false, false, true]);
}

#[test]
fn synchronisations_of_two_threads_share_a_commit() {
    let steps = [change(1), RecordedAction::Commit];
    let run = run(100, &HostSettings::default(), &[&steps, &steps]);
    // The second change comes too late for the first transaction, or both are in one.
    let blocks: u32 = run.completions.iter().map(|one| one.request.blocks / 8).sum();
    assert!([4, 6].contains(&blocks), "{:?}", requests(&run));
    assert!(run.figures.elapsed <= SERVICE * 4);
}

#[test]
fn changes_are_committed_after_five_seconds_and_the_journal_begins_anew_at_its_end() {
    let second = RecordedAction::Sleep { time: Duration::from_s(6) };
    let run = run(4, &HostSettings::default(), &[&[change(1), second, change(1), second]]);
    assert_eq!(
        requests(&run),
        [written(5000, 2), written(5002, 1), written(5003, 1), written(5000, 1), written(5001, 1)]
    );
    assert_eq!(run.figures.elapsed, Duration::from_s(12), "nobody waits for it");
}

#[test]
fn synchronisation_of_everything_commits() {
    let run = run(100, &HostSettings::default(), &[&[WRITE, change(1), RecordedAction::SyncAll]]);
    assert_eq!(requests(&run), [written(1000, 2), written(5000, 2), written(5002, 1)]);
    assert_eq!(run.figures.elapsed, SERVICE * 3);
}

#[test]
fn synchronous_metadata_are_written_while_the_process_waits_if_they_are_dirty() {
    let dirty = RecordedAction::Metadata { address: 40, dirties: true, is_present: true };
    let write = |address, pages| RecordedAction::WriteMetadata { address, pages };
    let run =
        run(100, &HostSettings::default(), &[&[dirty, write(40, 1), write(40, 1), dirty, write(39, 3)]]);
    assert_eq!(requests(&run), [written(40, 1), written(40, 1)]);
    assert_eq!((run.figures.elapsed, run.figures.io_waits), (SERVICE * 2, 2));
}
