//! Tests of the rules by which requests have classes.

use proptest::prelude::*;
use seeklab_core::Criticality::{self, TimeCritical, TimeLimited, TimeNoncritical};
use seeklab_core::Operation;

use super::classifier::{Classifier, Flags, HostEvent, What};
use super::{ClassNotice, ClassRule, WaitCounts};

const READ: Operation = Operation::Read;
const WRITE: Operation = Operation::Write;
const NONE: Flags = Flags { read_ahead: false, synchronous: false, metadata: false };
const AHEAD: Flags = Flags { read_ahead: true, ..NONE };
const SYNC: Flags = Flags { synchronous: true, ..NONE };

/// Number of the device.
const DEVICE: u64 = 7 << 20;

/// A host whose events are given one by one.
struct Host {
    classifier: Classifier,
    time_ns: u64,
    notices: Vec<ClassNotice>,
}

impl Host {
    fn new(rule: ClassRule) -> Self {
        Self { classifier: Classifier::new(rule, DEVICE), time_ns: 0, notices: Vec::new() }
    }

    fn push(&mut self, thread: u32, what: What) -> &mut Self {
        self.time_ns += 10;
        let event = HostEvent { time_ns: self.time_ns, thread, what };
        self.classifier.push(&event, &mut |notice| self.notices.push(notice));
        self
    }

    fn submit(&mut self, thread: u32, op: Operation, page: u64, flags: Flags) -> &mut Self {
        self.push(thread, What::Submitted { op, sector: page * 8, sectors: 8, flags })
    }

    fn complete(&mut self, op: Operation, page: u64) -> &mut Self {
        self.push(0, What::Completed { op, sector: page * 8, sectors: 8 })
    }

    fn sleep(&mut self, thread: u32) -> &mut Self {
        self.push(thread, What::Slept)
    }

    fn extent(&mut self, inode: u64, file_block: u64, device_block: u64, blocks: u64) -> &mut Self {
        self.push(0, What::Extent { inode, file_block, device_block, blocks })
    }

    fn class(&self, op: Operation, page: u64) -> Criticality {
        self.classifier.class(op, page * 4096, 4096)
    }

    /// Pages whose class changed, with the new class, since the last call.
    fn changed(&mut self) -> Vec<(u64, Criticality)> {
        self.notices.drain(..).map(|notice| (notice.offset_bytes / 4096, notice.criticality)).collect()
    }
}

#[test]
fn flags_are_read_from_the_kernels_letters() {
    let flags = |read_ahead, synchronous, metadata| Flags { read_ahead, synchronous, metadata };
    for (letters, expected) in [
        (&b"R\0\0A"[..], flags(false, false, false)),
        (b"RA", flags(true, false, false)),
        (b"RAM", flags(true, false, true)),
        (b"W", flags(false, false, false)),
        (b"WS", flags(false, true, false)),
        (b"WM", flags(false, false, true)),
        (b"WFS", flags(false, true, false)),
        (b"WF", flags(false, true, false)),
        (b"FW", flags(false, true, false)),
        (b"FWFSM", flags(false, true, true)),
        (b"FF", flags(false, true, false)),
        (b"F", flags(false, false, false)),
        (b"", flags(false, false, false)),
    ] {
        assert_eq!(Flags::of(letters), expected, "{}", letters.escape_ascii());
    }
}

#[test]
fn class_follows_from_the_flags() {
    let mut host = Host::new(ClassRule::Flags);
    let metadata = Flags { metadata: true, ..NONE };
    for (page, op, flags, class) in [
        (1, READ, NONE, TimeCritical),
        (2, READ, AHEAD, TimeLimited),
        (3, WRITE, SYNC, TimeCritical),
        (4, WRITE, metadata, TimeLimited),
        (5, WRITE, Flags { synchronous: true, ..metadata }, TimeCritical),
        (6, WRITE, NONE, TimeNoncritical),
        (7, Operation::Discard, NONE, TimeNoncritical),
        (8, Operation::Flush, SYNC, TimeCritical),
    ] {
        host.submit(1, op, page, flags);
        assert_eq!(host.class(op, page), class, "{page}");
    }
    assert_eq!(host.class(WRITE, 1), TimeNoncritical, "it is a read");
    // Of a request that covers several, the most pressing counts.
    assert_eq!(host.classifier.class(WRITE, 3 * 4096, 8 * 4096), TimeCritical);
    host.complete(WRITE, 3).complete(READ, 2);
    assert_eq!((host.class(WRITE, 3), host.class(READ, 2)), (TimeNoncritical, TimeCritical), "the defaults");
    host.sleep(1);
    assert!(host.changed().is_empty(), "sleeps do not matter");
    assert_eq!(host.classifier.counts(), WaitCounts::default());
}

#[test]
fn reader_sleeps_on_the_first_of_its_read_ahead() {
    let mut host = Host::new(ClassRule::Waits);
    host.submit(7, READ, 100, AHEAD).submit(7, READ, 132, AHEAD).submit(8, READ, 500, AHEAD);
    assert_eq!(host.class(READ, 100), TimeLimited);
    host.sleep(7);
    assert_eq!(host.changed(), [(100, TimeCritical)]);
    assert_eq!((host.class(READ, 100), host.class(READ, 132)), (TimeCritical, TimeLimited));
    // It sleeps again, on the next.
    host.complete(READ, 100).sleep(7);
    assert_eq!(host.changed(), [(132, TimeCritical)]);
    assert_eq!(host.classifier.counts(), WaitCounts { attributed: 2, throttled: 0, other: 0 });
}

#[test]
fn reader_sleeps_on_the_page_that_it_comes_to() {
    let mut host = Host::new(ClassRule::Waits);
    // Pages 0 to 63 of file 12 lie at 1000, and its reader has pages 0 to 3.
    host.extent(12, 0, 1000, 64).submit(7, READ, 1004, AHEAD).submit(7, READ, 1008, AHEAD);
    host.push(7, What::Pages { inode: 12, first: 0, last: 3 }).sleep(7);
    assert_eq!(host.changed(), [(1004, TimeCritical)], "the page behind the range");
    // Somebody else reads what the first has asked for.
    host.push(9, What::Page { inode: 12, page: 8 }).sleep(9);
    assert_eq!(host.changed(), [(1008, TimeCritical)]);
    // The place of the page is known, and nothing is pending there: it sleeps on something else.
    host.submit(7, READ, 1020, AHEAD).push(7, What::Page { inode: 12, page: 40 }).sleep(7);
    assert_eq!((host.changed(), host.classifier.counts().other), (vec![], 1));
    // Of a file without places, the last submitted request is the best guess.
    host.push(7, What::Page { inode: 13, page: 40 }).sleep(7);
    assert_eq!(host.changed(), [(1020, TimeCritical)]);
}

#[test]
fn places_of_pages_follow_from_blocks_of_the_file_system() {
    let mut host = Host::new(ClassRule::Waits);
    // Blocks of 1 KiB: page 2 is blocks 8 to 11, which lie at 4008 KiB.
    host.push(7, What::Buffer { sector: 2, bytes: 1024 })
        .extent(12, 4, 4004, 20)
        .submit(7, READ, 1002, AHEAD);
    host.push(9, What::Page { inode: 12, page: 2 }).sleep(9);
    assert_eq!(host.changed(), [(1002, TimeCritical)]);
    host.push(9, What::Page { inode: 12, page: 0 }).sleep(9);
    assert_eq!(host.classifier.counts().other, 1, "the place of page 0 is not known");
}

#[test]
fn direct_reads_are_waited_for_together() {
    let mut host = Host::new(ClassRule::Waits);
    host.submit(7, READ, 10, NONE).submit(7, READ, 20, NONE).submit(7, READ, 30, AHEAD).sleep(7);
    assert_eq!(host.changed(), [(10, TimeCritical), (20, TimeCritical)]);
    // A later request is another wait.
    host.submit(7, READ, 40, NONE).sleep(7);
    assert_eq!(host.changed(), [(40, TimeCritical)]);
}

#[test]
fn metadata_is_waited_for_by_whoever_looks_it_up() {
    let mut host = Host::new(ClassRule::Waits);
    host.submit(3, READ, 50, AHEAD).submit(7, READ, 90, AHEAD);
    host.push(7, What::Buffer { sector: 400, bytes: 4096 }).sleep(7);
    assert_eq!(host.changed(), [(50, TimeCritical)]);
    // Blocks that nothing is pending for: it sleeps on a lock.
    host.push(7, What::Buffer { sector: 4000, bytes: 4096 }).sleep(7);
    assert_eq!((host.changed(), host.classifier.counts().other), (vec![], 1));
}

#[test]
fn synchronous_writes_are_waited_for_together() {
    let mut host = Host::new(ClassRule::Waits);
    host.extent(12, 0, 60, 1)
        .submit(7, WRITE, 60, SYNC)
        .submit(7, WRITE, 70, SYNC)
        .submit(8, WRITE, 80, SYNC);
    assert_eq!(host.class(WRITE, 60), TimeNoncritical, "nobody sleeps yet");
    host.push(7, What::Written { inode: 12, page: 0 }).sleep(7);
    assert_eq!(host.changed(), [(60, TimeCritical), (70, TimeCritical)]);
}

#[test]
fn write_back_becomes_critical_only_if_somebody_sleeps_on_it() {
    let mut host = Host::new(ClassRule::Waits);
    host.extent(12, 0, 60, 1).submit(5, WRITE, 60, NONE).submit(5, WRITE, 61, NONE).sleep(5);
    assert_eq!((host.changed(), host.classifier.counts().other), (vec![], 1), "the flusher sleeps for a tag");
    host.push(7, What::Written { inode: 12, page: 0 }).sleep(7);
    assert_eq!(host.changed(), [(60, TimeCritical)]);
    // A page of the device itself, and one of a file whose place is not known.
    host.push(7, What::Written { inode: DEVICE, page: 61 }).sleep(7);
    assert_eq!(host.changed(), [(61, TimeCritical)]);
    host.submit(7, WRITE, 90, NONE).push(7, What::Written { inode: 13, page: 2 }).sleep(7);
    assert_eq!(host.changed(), [(90, TimeCritical)]);
}

#[test]
fn throttled_writer_waits_for_any_write() {
    let mut host = Host::new(ClassRule::Waits);
    host.submit(5, WRITE, 60, NONE).submit(5, WRITE, 61, NONE).push(7, What::Throttled).sleep(7);
    assert_eq!(host.changed(), [(60, TimeLimited), (61, TimeLimited)]);
    host.submit(5, WRITE, 62, NONE).sleep(7);
    assert!(host.changed().is_empty(), "it was not throttled again");
    assert_eq!(host.classifier.counts(), WaitCounts { attributed: 0, throttled: 1, other: 1 });
}

#[test]
fn request_that_arrives_after_the_sleep_has_the_class_by_then() {
    let mut host = Host::new(ClassRule::Waits);
    host.submit(7, READ, 10, AHEAD).sleep(7);
    assert_eq!(host.class(READ, 10), TimeCritical);
    // A part of a larger request completes: the rest is pending.
    host.push(7, What::Submitted { op: READ, sector: 800, sectors: 16, flags: AHEAD }).sleep(7);
    host.complete(READ, 100);
    assert_eq!(host.class(READ, 101), TimeCritical);
    host.complete(READ, 101);
    assert_eq!(host.class(READ, 101), TimeLimited);
}

#[test]
fn sleep_of_a_thread_that_does_not_use_the_device_is_not_counted() {
    let mut host = Host::new(ClassRule::Waits);
    host.submit(7, READ, 10, AHEAD).sleep(8);
    assert_eq!((host.changed(), host.classifier.counts()), (vec![], WaitCounts::default()));
}

fn arbitrary() -> impl Strategy<Value = (u32, What)> {
    let op = prop::sample::select(vec![READ, WRITE, Operation::Flush, Operation::Discard]);
    let flags = any::<(bool, bool, bool)>();
    let flags =
        flags.prop_map(|(read_ahead, synchronous, metadata)| Flags { read_ahead, synchronous, metadata });
    let number = || prop_oneof![4 => 0_u64..64, 1 => any::<u64>()];
    let what = prop_oneof![
        4 => (op.clone(), number(), 0_u64..64, flags).prop_map(|(op, sector, sectors, flags)| {
            What::Submitted { op, sector, sectors, flags }
        }),
        2 => (op, number(), 0_u64..64).prop_map(|(op, sector, sectors)| What::Completed { op, sector, sectors }),
        1 => (number(), number()).prop_map(|(sector, bytes)| What::Buffer { sector, bytes }),
        1 => (0_u64..4, number(), number()).prop_map(|(inode, first, last)| What::Pages { inode, first, last }),
        1 => (0_u64..4, number()).prop_map(|(inode, page)| What::Page { inode, page }),
        1 => (0_u64..4, number()).prop_map(|(inode, page)| What::Written { inode, page }),
        1 => Just(What::Throttled),
        1 => (0_u64..4, number(), number(), number()).prop_map(|(inode, file_block, device_block, blocks)| {
            What::Extent { inode, file_block, device_block, blocks }
        }),
        3 => Just(What::Slept),
    ];
    (0_u32..4, what)
}

proptest! {
    #[test]
    fn classes_only_become_more_pressing(
        events in prop::collection::vec(arbitrary(), 0..200),
        waits: bool,
    ) {
        let rule = if waits { ClassRule::Waits } else { ClassRule::Flags };
        let mut host = Host::new(rule);
        for (thread, what) in events {
            host.push(thread, what);
            for notice in std::mem::take(&mut host.notices) {
                prop_assert!(waits && what == What::Slept);
                prop_assert_eq!(notice.time_ns, host.time_ns);
                let now = host.classifier.class(notice.op, notice.offset_bytes, notice.length_bytes);
                let is_empty = notice.length_bytes == 0;
                // Sectors beyond all devices have no place in bytes.
                let is_beyond = notice.offset_bytes.checked_add(notice.length_bytes).is_none();
                prop_assert!(is_empty || is_beyond || now <= notice.criticality);
            }
        }
    }
}
