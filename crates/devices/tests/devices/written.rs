//! Reads of written data: hits from its arrival until its segment is reused.

use crate::drives::device;
use seeklab_core::{BufferOutcome, Completion, Device, Duration, Instant, Operation, Request, Seed};

/// A drive that serves one request at a time.
struct Session {
    device: Box<dyn Device>,
    now: Instant,
    requests: u64,
}

impl Session {
    fn new(name: &str, overrides: &[(&str, &str)]) -> Self {
        let device = Box::new(device(name, overrides).build(Seed(1), "disk0").unwrap());
        Self { device, now: Instant::ZERO, requests: 0 }
    }

    fn ask(&mut self, request: Request) -> Completion {
        self.requests += 1;
        let mut completions = Vec::new();
        self.device.submit(self.now, request).unwrap();
        while completions.is_empty() {
            self.now = self.device.next_event().unwrap();
            self.device.poll(self.now, &mut completions);
        }
        completions[0]
    }

    fn op(&mut self, op: Operation, lbn: u64, blocks: u32) -> Completion {
        self.ask(Request::new(self.requests, op, lbn, blocks))
    }

    fn read(&mut self, lbn: u64, blocks: u32) -> Completion {
        self.op(Operation::Read, lbn, blocks)
    }

    fn write(&mut self, lbn: u64, blocks: u32) -> Completion {
        self.op(Operation::Write, lbn, blocks)
    }

    fn force(&mut self, lbn: u64, blocks: u32) -> Completion {
        self.ask(Request { fua: true, ..Request::new(self.requests, Operation::Write, lbn, blocks) })
    }

    fn think(&mut self, time: Duration) -> &mut Self {
        self.now += time;
        self
    }
}

/// Drives with write-back of which written data answers reads.
const WRITE_BACK: [&str; 8] = [
    "atlas-iii",
    "atlas10k",
    "barracuda",
    "cheetah-36es",
    "cheetah4lp",
    "cheetah9lp",
    "nearline-7200",
    "superdisk",
];

#[track_caller]
fn check_hit(context: &str, read: &Completion) {
    assert_eq!(read.buffer, BufferOutcome::Hit, "{context}: {read:?}");
    let parts = &read.breakdown;
    let media =
        parts.internal + parts.seek + parts.settle + parts.head_switch + parts.rotation + parts.transfer;
    assert_eq!(media, Duration::ZERO, "{context}: {read:?}");
}

#[track_caller]
fn check_miss(context: &str, read: &Completion) {
    assert_eq!(read.buffer, BufferOutcome::Miss, "{context}: {read:?}");
}

#[test]
fn written_data_answers_reads_before_during_and_after_its_destage() {
    for name in WRITE_BACK {
        // At once, while the arm is under way, over the blocks, and long after.
        for think_us in [0, 1, 100, 1_000, 3_000, 5_000, 8_000, 12_000, 20_000, 200_000, 1_000_000] {
            let mut session = Session::new(name, &[]);
            let write = session.write(800_000, 16);
            assert_eq!(write.buffer, BufferOutcome::Hit, "{name}: {write:?}");
            let context = format!("{name}, {think_us} us after the write");
            check_hit(&context, &session.think(Duration::from_us(think_us)).read(800_000, 16));
            check_hit(&context, &session.read(800_004, 8));
        }
    }
}

#[test]
fn zeroes_and_forced_writes_answer_reads() {
    for name in WRITE_BACK {
        let mut session = Session::new(name, &[]);
        session.op(Operation::WriteZeroes, 800_000, 16);
        check_hit(name, &session.read(800_000, 16));
        session.think(Duration::from_ms(50));
        let forced = session.force(900_000, 16);
        assert_eq!(forced.buffer, BufferOutcome::Miss, "{name}: {forced:?}");
        check_hit(name, &session.read(900_000, 16));
        session.op(Operation::Flush, 0, 0);
        check_hit(name, &session.read(900_008, 8));
    }
}

/// A drive with three segments of 64 blocks.
fn three_segments(overrides: &[(&str, &str)]) -> Session {
    let mut all = vec![
        ("electronics.buffer.segments", "3"),
        ("electronics.buffer.segment_blocks", "64"),
        ("electronics.buffer.read_ahead", "none"),
    ];
    all.extend(overrides);
    Session::new("cheetah-36es", &all)
}

#[test]
fn reads_and_writes_share_the_segments() {
    let mut session = three_segments(&[]);
    session.write(1_000, 8);
    session.think(Duration::from_ms(50)).read(500_000, 8);
    session.read(600_000, 8);
    check_hit("it is in the third segment", &session.read(1_000, 8));
    session.read(700_000, 8);
    check_hit("it was used after the other two", &session.read(1_000, 8));
    check_miss("its segment was reused", &session.read(500_000, 8));
    session.write(800_000, 8);
    session.write(900_000, 8);
    session.write(950_000, 8);
    session.think(Duration::from_ms(100));
    check_miss("three writes reused all segments", &session.read(1_000, 8));
}

#[test]
fn unwritten_data_keeps_its_segment() {
    let mut session = three_segments(&[]);
    for lbn in [1_000, 200_000, 400_000] {
        let write = session.write(lbn, 8);
        assert_eq!(write.breakdown.internal, Duration::ZERO, "{write:?}");
    }
    let fourth = session.write(600_000, 8);
    assert!(fourth.breakdown.internal > Duration::from_ms(1), "{fourth:?}");
    for lbn in [200_000, 400_000, 600_000] {
        check_hit("three segments hold three writes", &session.read(lbn, 8));
    }
    // The read waits for what is being written; then that segment is free.
    check_miss("the first was destaged and reused", &session.read(1_000, 8));
}

#[test]
fn sequential_writes_share_a_segment() {
    let mut session = three_segments(&[]);
    for index in 0..8 {
        session.write(1_000 + 8 * index, 8);
        session.think(Duration::from_ms(20));
    }
    session.read(500_000, 8);
    session.read(600_000, 8);
    check_hit("all eight are in one segment", &session.read(1_000, 64));
}

#[test]
fn read_over_several_segments_is_one_hit() {
    let mut session = three_segments(&[]);
    session.write(1_008, 8);
    session.write(1_000, 8);
    check_hit("the second write lies before the first", &session.read(1_000, 16));
    session.think(Duration::from_ms(50));
    check_hit("after the destage", &session.read(1_004, 10));
}

#[test]
fn part_that_is_not_buffered_comes_from_the_media() {
    let mut session = three_segments(&[]);
    session.write(1_000, 8);
    session.think(Duration::from_ms(50));
    let read = session.read(1_004, 8);
    assert_eq!(read.buffer, BufferOutcome::Hit, "the first block is buffered: {read:?}");
    assert!(read.breakdown.transfer > Duration::ZERO, "{read:?}");
    check_hit("it is buffered now", &session.read(1_000, 12));
    check_miss("the first block is not buffered", &session.read(996, 8));
}

#[test]
fn missing_part_is_read_after_unwritten_data_in_it() {
    let mut session = three_segments(&[]);
    // The first is destaged from its arrival on; the others wait.
    session.write(900_000, 8);
    session.write(1_016, 8);
    session.write(1_000, 8);
    let read = session.read(1_000, 24);
    assert_eq!(read.buffer, BufferOutcome::Hit, "{read:?}");
    assert!(read.breakdown.internal > Duration::from_ms(2), "two destages come before: {read:?}");
}

#[test]
fn overwritten_blocks_stay_and_their_neighbours_too() {
    let mut session = three_segments(&[]);
    session.write(1_000, 60);
    session.think(Duration::from_ms(50));
    session.write(1_050, 30);
    check_hit("neighbours", &session.read(1_000, 50));
    check_hit("both", &session.read(1_000, 80));
    session.read(500_000, 8);
    session.write(500_004, 2);
    check_miss("a segment that was read is dropped", &session.read(500_000, 4));
}

#[test]
fn discarded_blocks_leave_the_buffer() {
    let mut session = three_segments(&[]);
    session.write(1_000, 60);
    session.think(Duration::from_ms(50));
    session.op(Operation::Discard, 1_020, 10);
    check_hit("before the discarded", &session.read(1_000, 20));
    check_miss("discarded", &session.read(1_020, 10));
    check_miss("behind the discarded", &session.read(1_040, 8));
}

#[test]
fn separate_write_segment_answers_no_reads() {
    let separate = [("electronics.buffer.separate_write_segment", "true")];
    let mut session = three_segments(&separate);
    session.write(800_000, 8);
    let read = session.read(800_000, 8);
    check_miss("unwritten", &read);
    assert!(read.breakdown.internal > Duration::from_ms(1), "it waits for the destage: {read:?}");
    check_hit("it was read", &session.read(800_000, 8));
    session.force(800_004, 2);
    check_miss("overwritten", &session.read(800_000, 8));
    // One segment is written at a time.
    session.write(1_000, 8);
    let second = session.write(500_000, 8);
    assert!(second.breakdown.internal > Duration::from_ms(1), "{second:?}");
    let third = session.write(500_008, 8);
    assert_eq!(third.breakdown.internal, Duration::ZERO, "it continues the second: {third:?}");
}

#[test]
fn write_through_keeps_its_data() {
    let through = [("electronics.buffer.write_back", "none")];
    let mut session = three_segments(&through);
    check_miss("written through", &session.write(1_000, 8));
    check_hit("kept", &session.read(1_000, 8));
    session.write(2_000, 100);
    check_miss("a segment holds the last 64 blocks", &session.read(2_000, 8));
    session.write(2_000, 100);
    check_hit("a segment holds the last 64 blocks", &session.read(2_036, 64));
}
