//! Sequential requests of one host, with think times: rates beside what media and bus allow.

use std::fmt::Write;

use crate::drives::{bare, closed, device, disks, parameters};
use crate::page::Page;
use seeklab_core::{BufferOutcome, Completion, Device, Duration, Instant, Operation, Request, Seed};
use toml::{Table, Value};

/// Sizes of requests.
const SIZES_KIB: [u64; 5] = [4, 16, 64, 256, 1024];

/// Think times in percent of a turn.
const THINK_PCT: [u64; 7] = [0, 1, 3, 20, 50, 80, 100];

/// Think times of the tables.
const SHOWN_PCT: [u64; 4] = [0, 3, 50, 100];

/// A drive of the catalog.
struct Drive {
    name: &'static str,
    block_size: u64,
    turn: Duration,
}

/// Sequential requests of one size and think time.
struct Load {
    op: Operation,
    /// First block of all.
    first: u64,
    blocks: u64,
    think: Duration,
}

/// Rates in MiB/s.
struct Rates {
    reached: f64,
    media: f64,
    /// Of a host whose every command the buffer answers.
    host: f64,
}

impl Drive {
    fn of(name: &'static str) -> Self {
        let description = device(name, &[]);
        let probe = description.build(Seed(1), "disk0").unwrap();
        let capabilities = probe.capabilities();
        let block_size = capabilities.block_size.as_bytes();
        let micro_rpm = parameters(&description).mechanics.rpm.as_micro_rpm();
        let turn = Duration::from_ns(60_000_000_000_000_000 / micro_rpm);
        Self { name, block_size, turn }
    }

    /// Serves so many requests, one after the other.
    fn run(&self, load: &Load, count: u64) -> Vec<Completion> {
        let mut device = device(self.name, &[]).build(Seed(1), "disk0").unwrap();
        let mut completions = Vec::new();
        let mut now = Instant::ZERO;
        for id in 0..count {
            let request = Request::new(id, load.op, load.first + id * load.blocks, load.blocks as u32);
            device.submit(now, request).unwrap();
            while completions.len() <= id as usize {
                let event = device.next_event().unwrap();
                device.poll(event, &mut completions);
            }
            now = completions[id as usize].completed + load.think;
        }
        completions
    }

    /// Rates after a warm-up of some requests.
    fn rates(&self, load: &Load) -> Rates {
        let warm_up = 8;
        let blocks_min = if load.op == Operation::Read { 40_000 } else { 80_000 };
        let count = (warm_up + 32 + blocks_min / load.blocks).min(500);
        let completions = self.run(load, count);
        let (first, last) = (completions[warm_up as usize - 1], completions[count as usize - 1]);
        let requests = count - warm_up;
        let mib = (requests * load.blocks * self.block_size) as f64 / (1024.0 * 1024.0);
        let rate = |time: Duration| mib / time.as_s();
        Rates {
            reached: rate(last.completed - first.completed),
            media: rate(self.media_time(load.first + warm_up * load.blocks, load.blocks * requests)),
            host: rate((self.hit_time(load) + load.think) * requests),
        }
    }

    /// Time of so many sequential blocks on the media.
    fn media_time(&self, first: u64, blocks: u64) -> Duration {
        let read = |blocks: u64| {
            let mut device = bare(self.name, &[]).build(Seed(1), "disk0").unwrap();
            closed(&mut *device, 1, [Request::new(0, Operation::Read, first, blocks as u32)])[0]
                .response_time()
        };
        read(blocks + 1) - read(1)
    }

    /// Time of a sequential command that the buffer answers, by the drive's parameters.
    fn hit_time(&self, load: &Load) -> Duration {
        let table: Table = device(self.name, &[]).to_toml().parse().unwrap();
        let time = |path: &str| {
            let value = path.split('.').try_fold(&table["electronics"], |value, key| value.get(key));
            value.and_then(Value::as_str).map_or(Duration::ZERO, |text| text.parse().unwrap())
        };
        let or = |one: Duration, other| if one.is_zero() { other } else { one };
        let read = load.op == Operation::Read;
        let (overhead, block) = match (table["electronics"]["controller"].as_str().unwrap(), read) {
            ("segmented", true) => {
                let hit = or(time("overheads.stream_hit"), time("overheads.read_hit_after_read"));
                let block = or(time("bus.stream_block"), time("bus.read_block"));
                let more = time("overheads.busy_hit") + time("overheads.data_preparation");
                (hit + more + time("overheads.read_completion"), block)
            }
            ("segmented", false) => {
                let hit = time("overheads.write_hit_after_write");
                let more = time("overheads.data_preparation") + time("overheads.write_completion");
                (hit + more, time("bus.write_block"))
            }
            ("track_buffer", true) => (time("stream_hit"), time("bus_per_block")),
            ("track_buffer", false) => (time("write_hit"), time("bus_per_block")),
            // The Barracuda leaves its stream when read-ahead ends, which is before the next command.
            ("streaming", true) if self.name == "barracuda" => {
                (time("read_hit.sequential"), time("bus_per_block"))
            }
            ("streaming", true) => (time("read_hit.live_sequential"), time("bus_per_block")),
            ("streaming", false) => (time("write.same_track_after_write"), time("bus_per_block")),
            (other, _) => panic!("{other}"),
        };
        overhead + block * load.blocks
    }

    fn load(&self, op: Operation, kib: u64, think_pct: u64) -> Load {
        Load { op, first: 0, blocks: kib * 1024 / self.block_size, think: self.turn * think_pct / 100 }
    }
}

#[test]
fn sequential_reads_reach_what_media_and_bus_allow() {
    for name in disks() {
        let drive = Drive::of(name);
        for kib in SIZES_KIB {
            for think_pct in THINK_PCT {
                let Rates { reached, media, host } =
                    drive.rates(&drive.load(Operation::Read, kib, think_pct));
                let allowed = media.min(host);
                // The drive stops at the end of a track, as its measured trace shows: requests that cross it wait.
                let stops = name == "dec-rz26" && reached < media && kib <= 16 && think_pct >= 20;
                let share_min = if stops { 0.6 } else { 0.9 };
                assert!(
                    reached >= share_min * allowed,
                    "{name}, {kib} KiB, think time {think_pct} % of a turn: {reached:.2} MiB/s; \
                     media {media:.2}, bus {host:.2}"
                );
                // Hits that find the stream of the Barracuda live cost less.
                let share_max = if name == "barracuda" { 1.5 } else { 1.07 };
                assert!(
                    reached <= share_max * allowed,
                    "{name}, {kib} KiB: {reached:.2} of {allowed:.2} MiB/s"
                );
            }
        }
    }
}

/// The next block may be passing, or be the next to pass, or the one behind that.
#[test]
fn read_ahead_is_found_at_every_moment() {
    for name in ["cheetah-36es", "nearline-7200", "superdisk", "hp-c2247a", "atlas10k", "cheetah9lp"] {
        let drive = Drive::of(name);
        let sectors = parameters(&device(name, &[])).geometry.zones[0].sectors_per_track;
        let sector = drive.turn / u64::from(sectors);
        for step in 0..40 {
            for skipped in [0, 1] {
                let mut device = device(name, &[]).build(Seed(1), "disk0").unwrap();
                let mut now = Instant::ZERO;
                let mut completions = Vec::new();
                for (id, lbn) in [(0, 64), (1, 72), (2, 80), (3, 88 + skipped)] {
                    device.submit(now, Request::new(id, Operation::Read, lbn, 8)).unwrap();
                    while completions.len() <= id as usize {
                        let event = device.next_event().unwrap();
                        device.poll(event, &mut completions);
                    }
                    now = completions[id as usize].completed + sector * step / 7;
                }
                let last = &completions[3];
                assert_eq!(last.buffer, BufferOutcome::Hit, "{name}, {step}/7 sectors later: {last:?}");
                assert!(last.response_time() < drive.turn / 2, "{name}: {last:?}");
            }
        }
    }
}

/// Commands that the buffer answers do not wait for the arm, so those of one stream do not overtake each other.
#[test]
fn sequential_commands_in_a_queue_keep_the_rate_of_one_at_a_time() {
    for drive in disks().map(Drive::of) {
        let description = device(drive.name, &[]);
        let depth = parameters(&description).queue.depth;
        if depth == 1 {
            continue;
        }
        for (op, kib) in
            [Operation::Read, Operation::Write].into_iter().flat_map(|op| SIZES_KIB.map(|kib| (op, kib)))
        {
            let load = drive.load(op, kib, 0);
            let count = 2000.min(80_000 / load.blocks);
            let rate = |outstanding: u32| {
                let mut device = description.build(Seed(1), "disk0").unwrap();
                let requests =
                    (0..count).map(|id| Request::new(id, op, id * load.blocks, load.blocks as u32));
                let completions = closed(&mut *device, outstanding as usize, requests);
                count as f64 / completions.last().unwrap().completed.as_s()
            };
            let alone = rate(1);
            for outstanding in [2, 4, 8, 32].into_iter().filter(|&outstanding| outstanding <= depth) {
                let share = rate(outstanding) / alone;
                assert!(
                    share > 0.98,
                    "{}, {op:?}, {kib} KiB, {outstanding} outstanding: {share:.3} of the rate of one",
                    drive.name
                );
            }
        }
    }
}

/// The tables of `docs/models/sequential.md`.
fn tables() -> String {
    let mut page = String::new();
    for name in disks() {
        let drive = Drive::of(name);
        let media = drive.rates(&drive.load(Operation::Read, 1024, 0)).media;
        write!(page, "\n### `{name}`\nMedia: {media:.2} MiB/s.\n\n").unwrap();
        page += "| | none | 3 % | 50 % | a turn |\n| --- | --- | --- | --- | --- |\n";
        for (op, verb) in [(Operation::Read, "reads"), (Operation::Write, "writes")] {
            for kib in SIZES_KIB {
                let cells = SHOWN_PCT.map(|think_pct| {
                    let rates = drive.rates(&drive.load(op, kib, think_pct));
                    format!("{:.2} ({:.2})", rates.reached, rates.host)
                });
                writeln!(page, "| {verb}, {kib} KiB | {} |", cells.join(" | ")).unwrap();
            }
        }
    }
    page
}

#[test]
fn page_of_sequential_rates_is_current() {
    let page = Page::read("models/sequential.md");
    let (kept, _) = page.text.split_once("## Tables\n").expect("the page has its tables at the end");
    page.has(&format!("{kept}## Tables\n{}", tables()));
}
