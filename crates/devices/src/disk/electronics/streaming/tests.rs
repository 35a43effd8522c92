//! Each rule on a small disk: 100 sectors a track, two heads, 100 cylinders, no skews; a turn takes
//! 10 ms, a sector 0.1 ms, a seek 1 ms.

use proptest::prelude::*;
use seeklab_core::{BufferOutcome, Completion, Device, Duration, RequestId, RotationSpeed, Seed};

use super::*;
use crate::catalog;
use crate::disk::layout::Layout;
use crate::disk::mechanism::{Arm, Mechanism};

const DISK: &str = r#"
[geometry]
capacity_blocks = 20000
block_size = "512B"
surfaces = 2
mapping = "normal"
sparing = "none"
[[geometry.zones]]
first_cylinder = 0
last_cylinder = 49
sectors_per_track = 100
[[geometry.zones]]
first_cylinder = 50
last_cylinder = 99
sectors_per_track = 100
[mechanics]
rpm = "6000rpm"
seek = { curve = "constant", time = "1ms" }
"#;

/// Overheads that tell the classes apart; the bus takes 0.2 ms a block, twice as long as the media.
const ELECTRONICS: &str = r#"
bus_per_block = "0.2ms"
without_data = "9us"
[stream]
read_ahead = 50
survives_writes = 2
consumed = "while_live"
live = { rule = "idle_timer", idle = "50ms" }
[read_hit]
live_sequential = "11us"
live_skip = "12us"
live_skip_after_sequential = "13us"
sequential = "14us"
skip = "15us"
after_sequential = "16us"
after_write = "17us"
written = "18us"
[read_miss]
same_cylinder = "21us"
other_cylinder = "22us"
bus_per_block = "0.3ms"
completion = "23us"
[write]
same_track = "31us"
same_track_after_write = "32us"
same_cylinder = "133us"
same_zone = "134us"
other_zone = "135us"
saved_after_write = "100us"
live = "1ms"
live_after_sequential = "2ms"
after_sequential = "3ms"
segments = 2
segment_blocks = 40
kept = 2
"#;

const SECOND: &str = r#"live = { rule = "reading_ahead", margin = "1ms" }"#;

struct Bench {
    mechanism: Mechanism,
    streaming: Streaming<Arm>,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self::with(&[])
    }

    /// The small disk, with lines of its electronics replaced.
    fn with(changes: &[(&str, &str)]) -> Self {
        let disk: DiskParameters = toml::from_str(DISK).unwrap();
        let text = changes.iter().fold(ELECTRONICS.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replace(from, to)
        });
        let parameters: StreamingParameters = toml::from_str(&text).unwrap();
        let layout = Layout::new(&disk.geometry).unwrap();
        let speed = RotationSpeed::from_rpm(6_000);
        let mechanism = Mechanism::new(layout, 100, &disk.mechanics, speed).unwrap();
        let streaming = Streaming::new(&parameters, &disk).unwrap();
        Self { mechanism, streaming, now: Instant::ZERO }
    }

    /// The drive that is live while it reads ahead, consumes always and ends the stream at a write.
    fn second() -> Self {
        Self::with(&[
            (r#"live = { rule = "idle_timer", idle = "50ms" }"#, SECOND),
            (r#"consumed = "while_live""#, r#"consumed = "always""#),
            ("survives_writes = 2", "survives_writes = 0"),
        ])
    }

    fn serve(&mut self, request: &Request) -> Served {
        let served = self.streaming.serve(&self.mechanism, self.now, request);
        assert_eq!(served.breakdown.service(), served.completed - self.now, "{request:?}");
        self.now = served.completed;
        served
    }

    fn op(&mut self, op: Operation, lbn: u64, blocks: u32) -> Served {
        self.serve(&Request::new(0, op, lbn, blocks))
    }

    fn read(&mut self, lbn: u64, blocks: u32) -> Served {
        self.op(Operation::Read, lbn, blocks)
    }

    fn write(&mut self, lbn: u64, blocks: u32) -> Served {
        self.op(Operation::Write, lbn, blocks)
    }

    fn think(&mut self, us: u64) -> &mut Self {
        self.now += Duration::from_us(us);
        self
    }

    /// Overhead of a read in microseconds if the buffer answers, else `None`.
    fn hit(&mut self, lbn: u64, blocks: u32) -> Option<u64> {
        let served = self.read(lbn, blocks);
        (served.buffer == BufferOutcome::Hit).then(|| us(served.breakdown.overhead))
    }

    /// Overhead of a write in microseconds.
    fn write_overhead(&mut self, lbn: u64) -> u64 {
        us(self.write(lbn, 1).breakdown.overhead)
    }
}

fn us(duration: Duration) -> u64 {
    duration.as_ns() / 1_000
}

#[test]
fn miss_takes_overhead_seek_rotation_and_bus() {
    let mut bench = Bench::new();
    // Cylinder 10, sector 50: there after 22 us and a seek of 1 ms, 5 ms for the sector to come.
    let served = bench.read(10 * 200 + 50, 4);
    let breakdown = served.breakdown;
    assert_eq!(served.buffer, BufferOutcome::Miss);
    assert_eq!(served.seek_cylinders, 10);
    assert_eq!(breakdown.overhead, Duration::from_us(22 + 23));
    assert_eq!(breakdown.seek, Duration::from_ms(1));
    assert_eq!(breakdown.rotation, Duration::from_us(5_000 - 1_022));
    assert_eq!(breakdown.transfer, Duration::from_us(400));
    // The bus begins with the first sector and takes 1.2 ms, of which the media hide 0.4.
    assert_eq!(breakdown.bus, Duration::from_us(800));
    assert_eq!(served.completed, Instant::from_ns(6_223_000));
}

#[test]
fn miss_within_the_cylinder_has_its_own_overhead() {
    let mut bench = Bench::new();
    assert_eq!(us(bench.read(150, 1).breakdown.overhead), 21 + 23);
}

#[test]
fn stream_is_read_once_in_order() {
    let mut bench = Bench::new();
    bench.read(100, 10);
    bench.think(20_000);
    assert_eq!(bench.hit(110, 5), Some(11), "sequential");
    assert_eq!(bench.hit(120, 5), Some(13), "skips after a sequential hit");
    assert_eq!(bench.hit(130, 5), Some(12), "skips");
    assert_eq!(bench.hit(135, 5), Some(11), "sequential to the last");
    assert_eq!(bench.hit(115, 5), None, "lies before what was consumed");
}

#[test]
fn data_read_from_the_media_is_not_kept() {
    let mut bench = Bench::new();
    bench.read(100, 10);
    bench.think(20_000);
    assert_eq!(bench.hit(100, 10), None);
}

#[test]
fn stream_ends_with_the_read_ahead() {
    for (lbn, expect) in [(159, Some(12)), (160, None)] {
        let mut bench = Bench::new();
        bench.read(100, 10);
        bench.think(20_000);
        assert_eq!(bench.hit(lbn, 1), expect, "{lbn}");
    }
}

#[test]
fn live_hit_extends_the_stream() {
    let mut bench = Bench::new();
    bench.read(100, 10);
    bench.think(20_000);
    assert_eq!(bench.hit(110, 10), Some(11));
    bench.think(20_000);
    assert_eq!(bench.hit(169, 1), Some(13), "20 + 50 blocks from 100 on");
}

#[test]
fn idle_timer_ends_the_life_of_the_stream() {
    for (idle_us, sequential, skip) in [(50_000, 11, 12), (50_001, 14, 15)] {
        let mut bench = Bench::new();
        bench.read(100, 10);
        assert_eq!(bench.think(idle_us).hit(110, 1), Some(sequential), "{idle_us} us");
        let mut bench = Bench::new();
        bench.read(100, 10);
        assert_eq!(bench.think(idle_us).hit(120, 1), Some(skip), "{idle_us} us");
    }
}

#[test]
fn quiet_stream_keeps_its_data() {
    let mut bench = Bench::new();
    bench.read(100, 10);
    bench.think(60_000);
    assert_eq!(bench.hit(110, 5), Some(14));
    assert_eq!(bench.hit(110, 5), Some(15), "again");
    assert_eq!(bench.hit(160, 1), None, "not extended");
}

#[test]
fn end_of_the_read_ahead_ends_the_life_of_the_stream() {
    // 50 blocks more take 5 ms, the head in place.
    let ends = |bench: &Bench| bench.streaming.mechanism_free + Duration::from_ms(5);
    for (late_ns, overhead) in [(999_999, 11), (1_000_000, 14)] {
        let mut bench = Bench::second();
        bench.read(10, 10);
        bench.now = ends(&bench) + Duration::from_ns(late_ns);
        assert_eq!(bench.hit(20, 1), Some(overhead), "a read {late_ns} ns after the end");
    }
    for (late_ns, overhead) in [(0, 31), (1, 1_031)] {
        let mut bench = Bench::second();
        bench.read(10, 10);
        bench.now = Instant::from_ns(ends(&bench).as_ns() - late_ns);
        assert_eq!(bench.write_overhead(40), overhead, "a write {late_ns} ns before the end");
    }
}

#[test]
fn every_hit_consumes_under_the_rule_always() {
    let mut bench = Bench::second();
    bench.read(100, 10);
    bench.think(60_000);
    assert_eq!(bench.hit(110, 5), Some(14));
    bench.think(60_000);
    assert_eq!(bench.hit(164, 1), Some(15), "extended");
    assert_eq!(bench.hit(110, 5), None, "consumed");
}

#[test]
fn hit_directly_after_a_sequential_hit_has_its_own_overhead() {
    let mut bench = Bench::new();
    bench.read(100, 10);
    bench.think(20_000);
    assert_eq!(bench.hit(110, 5), Some(11));
    assert_eq!(bench.think(60_000).hit(115, 5), Some(16));
    assert_eq!(bench.hit(120, 5), Some(14));
}

#[test]
fn hit_waits_for_the_heads() {
    let mut bench = Bench::with(&[("bus_per_block = \"0.2ms\"", "bus_per_block = \"1us\"")]);
    let miss = bench.read(50, 10);
    // The bus took 1.9 ms beyond the media; block 99 passes 4 ms after block 59.
    let served = bench.read(99, 1);
    assert_eq!(served.buffer, BufferOutcome::Hit);
    let passes = miss.completed.as_ns() - 2_023_000 + 4_000_000;
    assert_eq!(served.completed, Instant::from_ns(passes + 1_000));
}

#[test]
fn write_overhead_depends_on_distance_and_predecessor() {
    let mut bench = Bench::new();
    assert_eq!(bench.write_overhead(5), 31, "same track");
    assert_eq!(bench.think(30_000).write_overhead(10), 32, "same track after a write");
    assert_eq!(bench.think(30_000).write_overhead(110), 33, "same cylinder after a write");
    assert_eq!(bench.think(30_000).write_overhead(1_000), 34, "same zone after a write");
    assert_eq!(bench.think(30_000).write_overhead(15_000), 35, "other zone after a write");
    bench.think(30_000).read(15_000, 1);
    assert_eq!(bench.think(60_000).write_overhead(15_100), 133, "same cylinder");
    bench.read(15_101, 1);
    assert_eq!(bench.think(30_000).write_overhead(0), 1_135, "other zone while live");
}

#[test]
fn writes_cost_more_after_a_sequential_hit() {
    for (idle_us, overhead) in [(20_000, 2_031), (60_000, 3_031)] {
        let mut bench = Bench::new();
        bench.read(0, 10);
        bench.think(20_000).read(10, 1);
        assert_eq!(bench.think(idle_us).write_overhead(0), overhead, "{idle_us} us");
    }
}

#[test]
fn stream_survives_the_given_number_of_writes() {
    for (writes, expect) in [(2, Some(17)), (3, None)] {
        let mut bench = Bench::new();
        bench.read(100, 10);
        for write in 0..writes {
            bench.think(30_000).write(5_000 + write, 1);
        }
        assert_eq!(bench.think(30_000).hit(110, 1), expect, "after {writes} writes");
    }
    let mut bench = Bench::second();
    bench.read(100, 10);
    bench.think(30_000).write(5_000, 1);
    assert_eq!(bench.think(30_000).hit(110, 1), None, "survives none");
}

#[test]
fn write_within_the_stream_consumes_the_blocks_before_it() {
    let mut bench = Bench::new();
    bench.read(100, 10);
    bench.think(30_000).write(120, 5);
    assert_eq!(bench.think(30_000).hit(125, 1), Some(17));
    assert_eq!(bench.hit(115, 1), None);
}

#[test]
fn write_ends_the_read_ahead() {
    // 50 blocks take 5 ms; the write comes while they pass.
    let mut bench = Bench::with(&[("bus_per_block = \"0.3ms\"", "bus_per_block = \"1us\"")]);
    bench.read(0, 10);
    bench.think(977).write(10_000, 1);
    // 0.023 ms completion, 0.977 ms idle, 1.135 ms overhead, 0.2 ms bus: 23 blocks have passed.
    let held = bench.streaming.stream.unwrap().ahead;
    assert_eq!((held.lbn, held.end), (10, 33));
}

#[test]
fn last_written_extents_answer_reads() {
    let mut bench = Bench::new();
    for lbn in [1_000, 2_000, 3_000] {
        bench.think(30_000).write(lbn, 4);
    }
    assert_eq!(bench.think(30_000).hit(3_000, 4), Some(18));
    assert_eq!(bench.hit(2_000, 4), Some(18));
    assert_eq!(bench.hit(1_000, 4), None, "only two are kept");
    assert_eq!(
        bench.think(60_000).hit(2_000, 4),
        Some(18),
        "a read from the media takes no segment of theirs"
    );
}

/// Of the reads that span two writes of a run, the Barracuda 4LP and the Cheetah 9LP answer none from the buffer.
#[test]
fn contiguous_writes_answer_reads_each_for_itself() {
    let mut bench = Bench::new();
    for lbn in [3_000, 3_004, 3_008] {
        bench.think(30_000).write(lbn, 4);
    }
    bench.think(30_000);
    assert_eq!(bench.hit(3_008, 4), Some(18));
    assert_eq!(bench.hit(3_005, 3), Some(18));
    assert_eq!(bench.hit(3_006, 4), None, "it spans two writes");
}

#[test]
fn miss_waits_only_for_a_destage_that_has_begun() {
    let mut bench = Bench::new();
    bench.write(1_000, 4);
    assert_eq!(bench.read(5_000, 1).breakdown.internal, Duration::ZERO, "goes first");
    let mut bench = Bench::new();
    bench.write(1_000, 4);
    bench.now += Duration::from_ns(1);
    assert!(bench.read(5_000, 1).breakdown.internal > Duration::from_ms(1), "waits");
    let mut bench = Bench::new();
    bench.write(1_000, 4);
    assert_eq!(bench.think(30_000).read(5_000, 1).breakdown.internal, Duration::ZERO, "it is over");
    assert!(bench.streaming.dirty.is_empty());
}

#[test]
fn miss_waits_for_the_dirty_data_that_it_overlaps() {
    let mut bench = Bench::new();
    bench.write(1_000, 4);
    let served = bench.read(1_002, 4);
    assert_eq!(served.buffer, BufferOutcome::Miss);
    assert!(served.breakdown.internal > Duration::from_ms(1));
    assert!(bench.streaming.dirty.is_empty());
}

#[test]
fn write_without_room_waits_for_the_oldest_extent() {
    let mut bench = Bench::new();
    for lbn in [1_000, 2_000] {
        let served = bench.write(lbn, 4);
        assert_eq!((served.buffer, served.breakdown.internal), (BufferOutcome::Hit, Duration::ZERO));
    }
    let request = Request::new(0, Operation::Write, 3_000, 4);
    assert!(!bench.streaming.holds(&bench.mechanism, &request));
    let joining = Request::new(0, Operation::Write, 2_004, 4);
    assert!(bench.streaming.holds(&bench.mechanism, &joining));
    let served = bench.serve(&request);
    assert_eq!(served.buffer, BufferOutcome::Miss);
    assert!(served.breakdown.internal > Duration::from_ms(1));
}

#[test]
fn flush_completes_when_everything_is_on_the_media() {
    let mut bench = Bench::new();
    bench.write(1_000, 4);
    bench.write(3_000, 4);
    let served = bench.op(Operation::Flush, 0, 0);
    assert!(bench.streaming.dirty.is_empty());
    assert_eq!(served.completed, bench.streaming.mechanism_free);
    assert_eq!(us(bench.op(Operation::Flush, 0, 0).breakdown.service()), 9, "nothing to do");
}

#[test]
fn write_with_force_unit_access_completes_on_the_media() {
    let mut bench = Bench::new();
    let request = Request { fua: true, ..Request::new(0, Operation::Write, 1_000, 4) };
    assert!(!bench.streaming.holds(&bench.mechanism, &request));
    let served = bench.serve(&request);
    assert_eq!(served.buffer, BufferOutcome::Miss);
    assert_eq!(served.completed, bench.streaming.mechanism_free);
    assert_eq!(served.breakdown.transfer, Duration::from_us(400));
    assert!(bench.streaming.dirty.is_empty());
    // So is one that is longer than a segment; here the bus is the slower one.
    let served = bench.write(2_000, 41);
    assert_eq!(served.breakdown.transfer, Duration::from_us(4_100));
    assert!(served.completed >= bench.streaming.mechanism_free);
}

#[test]
fn commands_without_data_and_zeroes_do_not_use_the_bus() {
    let mut bench = Bench::new();
    let discard = bench.op(Operation::Discard, 1_000, 400);
    assert_eq!((us(discard.breakdown.service()), discard.buffer), (9, BufferOutcome::None));
    let zeroes = bench.op(Operation::WriteZeroes, 5, 10);
    assert_eq!((us(zeroes.breakdown.service()), zeroes.breakdown.bus), (31, Duration::ZERO));
}

#[test]
fn read_ahead_stops_at_the_end_of_the_disk() {
    let mut bench = Bench::new();
    bench.read(19_990, 5);
    assert_eq!(bench.think(30_000).hit(19_995, 5), Some(11));
    bench.read(19_999, 1);
    assert_eq!(bench.think(30_000).hit(19_998, 2), None);
}

#[test]
fn impossible_parameters_are_refused() {
    let disk: DiskParameters = toml::from_str(DISK).unwrap();
    for (from, to, parameter) in [
        ("segments = 2", "segments = 0", "electronics.write.segments"),
        ("segments = 2", "segments = 9", "electronics.write.segments"),
        ("kept = 2", "kept = 5", "electronics.write.kept"),
        ("segment_blocks = 40", "segment_blocks = 0", "electronics.write.segment_blocks"),
        ("read_ahead = 50", "read_ahead = 1000001", "electronics.stream.read_ahead"),
        ("\"0.3ms\"", "\"2s\"", "electronics.read_miss.bus_per_block"),
    ] {
        let parameters: StreamingParameters = toml::from_str(&ELECTRONICS.replace(from, to)).unwrap();
        let error = Streaming::<Arm>::new(&parameters, &disk).unwrap_err();
        assert_eq!(error.path(), parameter);
    }
    assert!(toml::from_str::<StreamingParameters>(&ELECTRONICS.replace("[stream]", "[streams]")).is_err());
}

/// A request and the time before it; `None` lets everything complete first.
type Step = (Option<u64>, Request);

fn steps(capacity: u64) -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![
        Just(None),
        Just(Some(0)),
        (0..3_000_000_u64).prop_map(Some),
        (0..100_000_000_u64).prop_map(Some),
    ];
    let lbn = prop_oneof![0..1_500_u64, 0..capacity, capacity - 900..capacity];
    let blocks = prop_oneof![6 => 1..40_u32, 2 => 1..900_u32, 1 => 1..6_000_u32];
    let op = prop_oneof![
        4 => Just(Operation::Read),
        4 => Just(Operation::Write),
        1 => (0..5_usize).prop_map(|index| Operation::ALL[index]),
    ];
    let request = (lbn, blocks, op, prop::bool::weighted(0.1)).prop_map(move |(lbn, blocks, op, fua)| {
        let blocks = blocks.min((capacity - lbn) as u32);
        Request { fua: fua && op == Operation::Write, ..Request::new(0, op, lbn, blocks) }
    });
    prop::collection::vec((gap, request), 1..60)
}

/// Runs the steps, numbered from `first`; polls often if `often`. Whoever is rejected is left out.
fn run(
    device: &mut dyn Device,
    now: &mut Instant,
    first: u64,
    steps: &[Step],
    often: bool,
) -> Vec<Completion> {
    let mut completions = Vec::new();
    for (index, (gap, request)) in steps.iter().enumerate() {
        match gap {
            Some(gap) => {
                let target = *now + Duration::from_ns(*gap);
                for part in 1..if often { 7 } else { 1 } {
                    device.poll(*now + Duration::from_ns(gap / 7 * part), &mut completions);
                }
                device.poll(target, &mut completions);
                *now = target;
            }
            None => {
                while let Some(event) = device.next_event() {
                    assert!(event >= *now);
                    *now = event;
                    device.poll(event, &mut completions);
                }
            }
        }
        let _ = device.submit(*now, Request { id: RequestId(first + index as u64), ..*request });
    }
    completions
}

fn drain(device: &mut dyn Device, now: Instant, completions: &mut Vec<Completion>) {
    device.poll(now + Duration::from_s(1_000), completions);
    assert_eq!(device.next_event(), None);
}

fn check_the_contract(name: &str, steps: &[Step], split: usize) {
    let mut description = catalog::find(name).unwrap();
    description.set("queue.depth", "8").unwrap();
    description.set("queue.scheduler", "sptf").unwrap();
    let (before, after) = steps.split_at(split.min(steps.len()));
    let build = || description.build(Seed(1), "disk0").unwrap();
    let (mut device, mut other) = (build(), build());
    let (mut now, mut other_now) = (Instant::ZERO, Instant::ZERO);
    let mut completions = run(&mut *device, &mut now, 0, before, false);
    let mut often = run(&mut *other, &mut other_now, 0, before, true);
    // From here on the second device is a copy of the first, in the memory of its own past.
    assert_eq!(completions, often);
    device.fork_into(&mut other);
    completions.extend(run(&mut *device, &mut now, split as u64, after, false));
    often.extend(run(&mut *other, &mut other_now, split as u64, after, true));
    drain(&mut *device, now, &mut completions);
    drain(&mut *other, other_now, &mut often);
    assert_eq!(completions, often);
    for completion in &completions {
        assert!(completion.completed >= completion.submitted);
        assert_eq!(completion.breakdown.total(), completion.response_time(), "{completion:?}");
    }
    let mut ids: Vec<u64> = completions.iter().map(|completion| completion.request.id.0).collect();
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "completes once");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cheetah_keeps_the_contract(steps in steps(17_783_240), split in 0..60_usize) {
        check_the_contract("cheetah9lp", &steps, split);
    }

    #[test]
    fn barracuda_keeps_the_contract(steps in steps(4_110_000), split in 0..60_usize) {
        check_the_contract("barracuda", &steps, split);
    }
}
