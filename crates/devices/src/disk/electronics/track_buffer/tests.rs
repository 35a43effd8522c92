//! Tests of each rule of the controller, and of the contract of a device.

use proptest::prelude::*;

use seeklab_core::{BufferOutcome, Completion, Device, Duration, Instant, Operation, Request, Seed};

use crate::description::Description;

/// Two surfaces, 40 tracks of 32 sectors and 38 of 28; a turn takes 10 ms. Times are round, so that
/// every cost shows.
const DRIVE: &str = r#"
kind = "disk"
title = "test drive"
validated = "not at all"
sources.default = "invented"

[geometry]
capacity_blocks = 2340
surfaces = 2
sparing = "sectors_at_zone_end"

[[geometry.zones]]
first_cylinder = 0
last_cylinder = 19
sectors_per_track = 32
track_skew = 4
cylinder_skew = 6
spares = 4
slips = [70]

[[geometry.zones]]
first_cylinder = 20
last_cylinder = 38
sectors_per_track = 28
track_skew = 4
cylinder_skew = 6
spares = 0

[mechanics]
rpm = "6000rpm"
head_switch = "0.5ms"
write_settle = "0.2ms"
zero_latency_write = true
seek = { curve = "table", points = [[1, "1ms"], [38, "5ms"]] }

[electronics]
controller = "track_buffer"
segments = 4
bus_per_block = "0.5ms"
read_hit = "0.1ms"
stream_after = 2
stream_hit = "0.01ms"
stream_end = "0.02ms"
read_setup = "0.6ms"
read_setup_after_write = "0.7ms"
write_hit = "0.2ms"
write_per_zone = "0.001ms"
write_new_segment = "0.03ms"
write_into_read_segment = "0.004ms"
write_gap = "0.32ms"
write_next_track = "0.8ms"
write_next_track_new = "0.9ms"
"#;

/// First blocks of tracks of zone 0; a slipped sector shortens the third track by one.
const TRACK: [u64; 6] = [0, 32, 64, 95, 127, 159];

fn drive(overrides: &[(&str, &str)]) -> Box<dyn Device> {
    let mut description = Description::parse("test", "test.toml", DRIVE).unwrap();
    for (key, value) in overrides {
        description.set(key, value).unwrap();
    }
    description.build(Seed(1), "disk0").unwrap()
}

/// A drive that receives one request after another.
struct Session {
    drive: Box<dyn Device>,
    now: Instant,
}

impl Session {
    fn new() -> Self {
        Self { drive: drive(&[]), now: Instant::ZERO }
    }

    /// Issues a request now and waits for it.
    fn ask(&mut self, request: Request) -> Completion {
        let mut completions = Vec::new();
        self.drive.submit(self.now, request).unwrap();
        while let Some(event) = self.drive.next_event() {
            self.drive.poll(event, &mut completions);
        }
        let completion = completions.pop().unwrap();
        assert_eq!(completion.breakdown.total(), completion.response_time(), "{completion:?}");
        self.now = completion.completed;
        completion
    }

    fn read(&mut self, lbn: u64, blocks: u32) -> Completion {
        self.ask(Request::new(0, Operation::Read, lbn, blocks))
    }

    fn write(&mut self, lbn: u64, blocks: u32) -> Completion {
        self.ask(Request::new(0, Operation::Write, lbn, blocks))
    }

    fn pause(&mut self, ms: u64) {
        self.now += Duration::from_ms(ms);
    }

    fn cylinder(&self) -> u32 {
        self.drive.positioning().unwrap().cylinder()
    }
}

fn us(us: u64) -> Duration {
    Duration::from_us(us)
}

fn check_hit(completion: &Completion, service: Duration) {
    assert_eq!(completion.buffer, BufferOutcome::Hit, "{completion:?}");
    assert_eq!(completion.response_time(), service, "{completion:?}");
}

#[test]
fn read_buffers_its_whole_track() {
    let mut session = Session::new();
    assert_eq!(session.read(TRACK[1] + 20, 4).buffer, BufferOutcome::Miss);
    session.pause(20);
    check_hit(&session.read(TRACK[1] + 2, 4), us(100 + 2_000));
    check_hit(&session.read(TRACK[1] + 28, 4), us(100 + 2_000));
    assert_eq!(session.read(TRACK[2], 4).buffer, BufferOutcome::Miss);
}

#[test]
fn read_waits_for_sectors_that_will_pass() {
    let mut session = Session::new();
    let miss = session.read(TRACK[0] + 4, 1);
    // The turn began on landing; blocks behind the head come at its end.
    let landed = miss.submitted + us(600);
    let hit = session.read(TRACK[0], 1);
    assert_eq!(hit.buffer, BufferOutcome::Hit);
    assert!(hit.breakdown.rotation > Duration::from_ms(5), "{hit:?}");
    assert!(hit.completed <= landed + Duration::from_ms(10) + us(500), "{hit:?}");
}

#[test]
fn leaving_early_loses_the_rest_of_the_track() {
    let mut session = Session::new();
    let miss = session.read(TRACK[0] + 4, 1);
    assert!(miss.response_time() < Duration::from_ms(3), "{miss:?}");
    session.read(TRACK[5], 1);
    session.pause(50);
    check_hit(&session.read(TRACK[0] + 4, 1), us(100 + 500));
    assert_eq!(session.read(TRACK[0] + 1, 1).buffer, BufferOutcome::Miss);
}

#[test]
fn next_track_is_fetched_only_after_two_sequential_reads() {
    for (reads, result) in [(2, BufferOutcome::Miss), (3, BufferOutcome::Hit)] {
        let mut session = Session::new();
        for index in 0..reads {
            session.read(TRACK[1] + index, 1);
        }
        session.pause(50);
        let next = session.read(TRACK[2] + 5, 1);
        assert_eq!(next.buffer, result, "after {reads} reads: {next:?}");
    }
}

#[test]
fn stream_hit_costs_less_and_the_end_of_the_stream_more() {
    let mut session = Session::new();
    for (index, overhead) in [(1, 100), (2, 100), (3, 10), (4, 10)] {
        if index == 1 {
            session.read(TRACK[1], 1);
        }
        session.pause(20);
        check_hit(&session.read(TRACK[1] + index, 1), us(overhead + 500));
    }
    let mut reading = Session { drive: session.drive.fork(), now: session.now };
    check_hit(&reading.read(TRACK[1] + 20, 1), us(100 + 20 + 500));
    check_hit(&reading.read(TRACK[1] + 2, 1), us(100 + 500));
    check_hit(&session.write(TRACK[5], 1), us(200 + 30 + 20 + 500));
    check_hit(&session.write(TRACK[4], 1), us(200 + 30 + 500));
}

#[test]
fn write_overhead_depends_on_the_segment_of_its_track() {
    let mut session = Session::new();
    check_hit(&session.write(TRACK[3], 4), us(200 + 30 + 2_000));
    session.pause(50);
    check_hit(&session.write(TRACK[3] + 4, 4), us(200 + 2_000));
    session.pause(50);
    // A gap of 8 of the track's 32 sectors, forward; then one that ends where the last write began.
    check_hit(&session.write(TRACK[3] + 16, 4), us(200 + 80 + 2_000));
    session.pause(50);
    check_hit(&session.write(TRACK[3] + 12, 4), us(200 + 2_000));
    session.pause(50);
    session.read(TRACK[4], 1);
    session.pause(50);
    check_hit(&session.write(TRACK[4] + 9, 2), us(200 + 4 + 1_000));
    session.pause(50);
    check_hit(&session.write(2_000, 2), us(200 + 1 + 30 + 1_000));
}

#[test]
fn write_across_tracks_overlaps_its_second_set_up() {
    let mut session = Session::new();
    check_hit(&session.write(TRACK[5] - 1, 2), us(200 + 30 + 900 + 500));
    session.pause(50);
    check_hit(&session.write(TRACK[5] - 1, 3), us(200 + 800 + 1_000));
    session.pause(50);
    check_hit(&session.write(TRACK[4] - 4, 6), us(200 + 30 + 3_000));
}

#[test]
fn written_data_answers_reads_without_the_rest_of_its_track() {
    let mut session = Session::new();
    session.write(TRACK[3] + 8, 8);
    session.pause(50);
    check_hit(&session.read(TRACK[3] + 10, 4), us(100 + 2_000));
    assert_eq!(session.read(TRACK[3] + 14, 4).buffer, BufferOutcome::Miss);
}

#[test]
fn destaging_moves_the_arm_at_once() {
    let mut session = Session::new();
    session.write(1_980, 2);
    session.pause(50);
    session.read(1_981, 1);
    assert!(session.cylinder() > 20, "{}", session.cylinder());
    let miss = session.read(1_990, 1);
    assert_eq!((miss.breakdown.seek, miss.breakdown.internal), (Duration::ZERO, Duration::ZERO));
}

#[test]
fn read_of_the_media_waits_for_unwritten_data() {
    let mut session = Session::new();
    session.write(2_000, 2);
    let miss = session.read(TRACK[0], 1);
    assert!(miss.breakdown.internal > Duration::from_ms(1), "{miss:?}");
    assert!(miss.seek_cylinders > 20, "{miss:?}");
}

#[test]
fn writes_wait_when_nothing_more_can_be_unwritten() {
    let mut session = Session::new();
    let waits: Vec<bool> =
        (0..6).map(|index| !session.write(index * 390, 1).breakdown.internal.is_zero()).collect();
    assert_eq!(waits[..3], [false; 3], "three of four segments may be unwritten");
    assert!(waits.contains(&true), "{waits:?}");
    assert_eq!(session.drive.fork().next_event(), None);
}

#[test]
fn unwritten_data_is_on_the_media_after_a_flush() {
    let mut session = Session::new();
    session.write(2_000, 2);
    let flush = session.ask(Request::new(0, Operation::Flush, 0, 0));
    assert!(flush.breakdown.internal > Duration::from_ms(1), "{flush:?}");
    let again = session.ask(Request::new(0, Operation::Flush, 0, 0));
    assert_eq!(again.response_time(), us(200));
}

#[test]
fn forced_write_is_on_the_media_when_it_completes() {
    let mut session = Session::new();
    let forced = session.ask(Request { fua: true, ..Request::new(0, Operation::Write, 2_000, 2) });
    assert_eq!((forced.buffer, forced.breakdown.internal), (BufferOutcome::Miss, Duration::ZERO));
    assert!(forced.breakdown.seek > Duration::from_ms(1), "{forced:?}");
    let flush = session.ask(Request::new(0, Operation::Flush, 0, 0));
    assert_eq!(flush.response_time(), us(200));
}

#[test]
fn whole_disk_can_be_one_request() {
    let mut session = Session::new();
    let write = session.write(0, 2_340);
    assert!(!write.breakdown.internal.is_zero(), "{write:?}");
    let read = session.read(0, 2_340);
    // The bus is slower than the media: 0.5 ms a block against 0.3 ms.
    assert!(read.response_time() >= Duration::from_us(500) * 2_340, "{read:?}");
    session.pause(500);
    check_hit(&session.read(2_339, 1), us(100 + 500));
}

#[test]
fn senseless_parameters_are_refused() {
    for (key, value) in [("segments", "1"), ("segments", "257"), ("stream_after", "0")] {
        let mut description = Description::parse("test", "test.toml", DRIVE).unwrap();
        let refused = description.set(key, value).is_err() || description.build(Seed(1), "disk0").is_err();
        assert!(refused, "{key} = {value}");
    }
}

/// A gap before a request, and the request.
fn arrival() -> impl Strategy<Value = (u64, Request)> {
    let op = prop_oneof![
        6 => Just(Operation::Read),
        6 => Just(Operation::Write),
        1 => Just(Operation::Flush),
        1 => Just(Operation::Discard),
        1 => Just(Operation::WriteZeroes),
    ];
    let lbn = prop_oneof![0_u64..2_340, 0_u64..100, Just(2_339)];
    let blocks = prop_oneof![4 => 1_u32..8, 2 => 1_u32..70, 1 => 1_u32..2_340];
    let gap = prop_oneof![Just(0_u64), 0_u64..2_000_000, 0_u64..40_000_000];
    (op, lbn, blocks, gap, any::<[bool; 2]>(), 0_u64..3).prop_map(|(op, lbn, blocks, gap, fua, follow)| {
        let blocks = blocks.min((2_340 - lbn) as u32);
        let request = Request { fua: fua == [true; 2], ..Request::new(follow, op, lbn, blocks) };
        (gap, request)
    })
}

/// The arrivals as times and requests; some requests follow the last one on the media.
fn schedule(arrivals: &[(u64, Request)]) -> Vec<(Instant, Request)> {
    let (mut now, mut end) = (Instant::ZERO, 0);
    let schedule = arrivals.iter().zip(0..).map(|((gap, request), id)| {
        now += Duration::from_ns(*gap);
        let follows = request.id.0 > 0 && end + u64::from(request.blocks) <= 2_340;
        let lbn = if follows { end } else { request.lbn };
        let request = Request { lbn, id: seeklab_core::RequestId(id), ..*request };
        end = request.end();
        (now, request)
    });
    schedule.collect()
}

/// Submits everything, polling on the way at every event or once before each arrival.
fn serve(drive: &mut dyn Device, arrivals: &[(Instant, Request)], small_steps: bool) -> Vec<Completion> {
    let mut completions = Vec::new();
    for (now, request) in arrivals {
        while let Some(event) = drive.next_event().filter(|event| small_steps && event <= now) {
            drive.poll(event, &mut completions);
        }
        drive.poll(*now, &mut completions);
        drive.submit(*now, *request).unwrap();
    }
    while let Some(event) = drive.next_event() {
        drive.poll(if small_steps { event } else { Instant::from_ns(1 << 60) }, &mut completions);
    }
    completions
}

proptest! {
    #[test]
    fn device_contract_is_kept(
        arrivals in proptest::collection::vec(arrival(), 1..60),
        segments in 2_u32..6,
        bus in prop_oneof![Just("0.5ms"), Just("0.01ms"), Just("0ms")],
        scheduler in prop_oneof![Just("fcfs"), Just("sptf"), Just("aged-sptf(6ms)"), Just("c-look")],
        cut in 0_usize..60,
    ) {
        let segments = segments.to_string();
        let overrides =
            [("segments", segments.as_str()), ("bus_per_block", bus), ("depth", "100"), ("scheduler", scheduler)];
        let arrivals = schedule(&arrivals);
        let completions = serve(&mut drive(&overrides), &arrivals, false);
        prop_assert_eq!(completions.len(), arrivals.len());
        prop_assert!(completions.is_sorted_by_key(|completion| completion.completed));
        let mut seen = vec![false; arrivals.len()];
        for completion in &completions {
            let id = completion.request.id.0 as usize;
            prop_assert!(!std::mem::replace(&mut seen[id], true), "{:?} twice", completion);
            prop_assert_eq!((completion.submitted, completion.request), arrivals[id]);
            prop_assert!(completion.completed >= completion.started);
            prop_assert_eq!(completion.breakdown.total(), completion.response_time());
        }
        prop_assert_eq!(&serve(&mut drive(&overrides), &arrivals, true), &completions, "small steps");

        let (before, after) = arrivals.split_at(cut.min(arrivals.len()));
        let mut original = drive(&overrides);
        let mut fork = drive(&overrides);
        serve(&mut fork, after.split_at(after.len() / 2).0, false);
        let mut polled = Vec::new();
        for (now, request) in before {
            original.poll(*now, &mut polled);
            original.submit(*now, *request).unwrap();
        }
        original.fork_into(&mut fork);
        prop_assert_eq!(serve(&mut fork, after, false), serve(&mut original, after, false), "fork");
    }
}
