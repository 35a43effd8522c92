//! Brute-force models of what a buffer holds, against the controllers.
//!
//! Each model knows every block in the buffer by itself, moves the heads block by block over a platter of round
//! figures, and predicts for each of many random operations whether it hits, waits or misses.

mod segmented;
mod streaming;
mod track_buffer;

use seeklab_core::{Angle, BufferOutcome, Duration, Instant, Operation, Request, Seed, Stream};

use super::direct::{Direct, DirectParameters};
use super::{Controller, Served};
use crate::disk::layout::Extent;
use crate::disk::mechanics::{Mechanics, Media, Position};
use crate::disk::mechanism::{AccessParts, Pass};
use crate::disk::params::DiskParameters;

/// Operations of each test; all together a million.
const OPERATIONS: u64 = 350_000;
/// Sectors of a track.
const TRACK: u64 = 50;
const BLOCKS: u64 = 2_000;
const SECTOR: Duration = Duration::from_us(1);
const TURN: Duration = Duration::from_us(TRACK);

/// A platter with one surface, one block in each sector and no skew.
struct Platter;

/// Track under the head.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Head(u64);

impl Position for Head {
    fn cylinder(self) -> u32 {
        self.0 as u32
    }
    fn head(self) -> u32 {
        0
    }
}

/// Time of a seek between tracks.
fn seek(from: u64, to: u64) -> Duration {
    if from == to { Duration::ZERO } else { Duration::from_ns(7_300 + 210 * from.abs_diff(to)) }
}

/// Time until a block begins to pass.
fn until(now: Instant, lbn: u64) -> Duration {
    let angle = lbn % TRACK * SECTOR.as_ns();
    let turn = TURN.as_ns();
    Duration::from_ns((angle + turn - now.as_ns() % turn) % turn)
}

impl Media for Platter {
    fn blocks(&self) -> u64 {
        BLOCKS
    }
    fn extent(&self, lbn: u64, blocks: u32) -> Extent {
        let sector = lbn % TRACK;
        let blocks = u64::from(blocks).min(TRACK - sector) as u32;
        Extent {
            cylinder: (lbn / TRACK) as u32,
            head: 0,
            sector: sector as u32,
            blocks,
            span: blocks,
            to_track_end: sector + u64::from(blocks) == TRACK,
            zone: 0,
            angle: Angle::from_fraction(sector, TRACK),
        }
    }
    fn track_bounds(&self, lbn: u64) -> (u64, u64) {
        let first = lbn / TRACK * TRACK;
        (first, first + TRACK)
    }
    fn sectors_per_track(&self, _zone: u32) -> u32 {
        TRACK as u32
    }
    fn period(&self) -> Duration {
        TURN
    }
    fn latency(&self, now: Instant, angle: Angle) -> Duration {
        let sector = (u128::from(angle.as_raw()) * u128::from(TRACK) + (1 << 63)) >> 64;
        until(now, sector as u64)
    }
    fn passing(&self, _zone: u32, sectors: u32) -> Duration {
        SECTOR * u64::from(sectors)
    }
    fn passed(&self, _zone: u32, time: Duration) -> u32 {
        u32::try_from(time.as_ns() / SECTOR.as_ns()).unwrap_or(u32::MAX)
    }
    fn pass_in_order(&self, now: Instant, lbn: u64, extent: &Extent, parts: &mut AccessParts) -> Pass {
        let (latency, transfer) = (self.latency(now, extent.angle), self.passing(0, extent.span));
        parts.rotation += latency;
        parts.transfer += transfer;
        let start = now + latency;
        Pass {
            lbn,
            blocks: extent.blocks,
            start,
            end: start + transfer,
            wrapped: 0,
            cylinder: extent.cylinder,
            zone: 0,
            span: extent.span,
        }
    }
    fn pass_on_arrival(&self, now: Instant, lbn: u64, extent: &Extent, parts: &mut AccessParts) -> Pass {
        self.pass_in_order(now, lbn, extent, parts)
    }
}

impl Mechanics<Head> for Platter {
    fn move_to(
        &self,
        arm: &mut Head,
        now: Instant,
        extent: &Extent,
        _write: bool,
        parts: &mut AccessParts,
    ) -> Instant {
        let time = seek(arm.0, u64::from(extent.cylinder));
        parts.seek += time;
        *arm = Head(u64::from(extent.cylinder));
        now + time
    }
}

/// The head of a model, which passes over one block at a time.
#[derive(Debug, Clone, Copy, Default)]
struct Arm {
    track: u64,
}

impl Arm {
    /// Moves to the track of a block; returns the time of arrival.
    fn go(&mut self, now: Instant, lbn: u64) -> Instant {
        let there = now + seek(self.track, lbn / TRACK);
        self.track = lbn / TRACK;
        there
    }

    /// Passes over blocks in order; returns the end.
    fn pass(&mut self, begin: Instant, blocks: std::ops::Range<u64>) -> Instant {
        blocks.fold(begin, |now, lbn| {
            let there = self.go(now, lbn);
            there + until(there, lbn) + SECTOR
        })
    }
}

/// Part that the buffer has in a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Prediction {
    /// The command does not wait for the media.
    Hit,
    /// The buffer answers, and waits for the media.
    Wait,
    /// The media answers.
    Miss,
}

impl Prediction {
    /// The prediction as the controller reports it.
    fn of(served: &Served) -> Self {
        let parts = &served.breakdown;
        let media = parts.internal + parts.seek + parts.head_switch + parts.rotation + parts.transfer;
        match served.buffer {
            BufferOutcome::Miss => Self::Miss,
            _ if media.is_zero() => Self::Hit,
            _ => Self::Wait,
        }
    }
}

/// A model of a buffer's contents.
trait Model {
    /// Predicts the prediction of a command that begins at `now`, and takes it in.
    fn predict(&mut self, now: Instant, request: &Request) -> Prediction;

    /// Returns true if the buffer, as of the last command, answers the first block of a read, or a write as a whole.
    fn holds(&self, request: &Request) -> bool;

    /// Checks and takes in the times at which the command was served.
    fn served(&mut self, served: &Served);

    /// Prediction of a command as the controller shows it.
    fn prediction(&self, served: &Served) -> Prediction {
        Prediction::of(served)
    }
}

/// Random operations: places near and after earlier ones, of all kinds, at think times from none to a second.
struct Operations {
    stream: Stream,
    /// The last reads and writes.
    past: Vec<(u64, u64)>,
    longest: u64,
}

impl Operations {
    fn new(seed: u64, longest: u64) -> Self {
        Self { stream: Seed(seed).stream("operations"), past: vec![(0, 1); 12], longest }
    }

    fn next(&mut self, id: u64) -> Request {
        let stream = &mut self.stream;
        let op = match stream.below(100) {
            0..52 => Operation::Read,
            52..90 => Operation::Write,
            90..94 => Operation::WriteZeroes,
            94..97 => Operation::Discard,
            _ => Operation::Flush,
        };
        let longest = if stream.chance(0.05) { 3 * self.longest } else { self.longest / 2 };
        let mut blocks = 1 + stream.below(longest);
        // Mostly the last command, or one before it.
        let back = if stream.chance(0.5) { 0 } else { stream.below(self.past.len() as u64) };
        let (first, end) = self.past[back as usize];
        let lbn = match stream.below(20) {
            0..8 => end,
            8..10 => end + stream.below(4),
            10..12 => (end + stream.below(30)).saturating_sub(15),
            12..14 => first,
            14..16 => {
                let lbn = first + stream.below(end - first);
                blocks = blocks.min(end - lbn);
                lbn
            }
            16 => first.saturating_sub(stream.below(blocks + 2)),
            _ => stream.below(BLOCKS),
        };
        let lbn = lbn.min(BLOCKS - 1);
        let blocks = blocks.min(BLOCKS - lbn);
        if matches!(op, Operation::Read | Operation::Write) {
            self.past.rotate_right(1);
            self.past[0] = (lbn, lbn + blocks);
        }
        let fua = op == Operation::Write && stream.chance(0.07);
        Request { fua, ..Request::new(id, op, lbn, blocks as u32) }
    }

    /// Time from a completion to the next command.
    fn think(&mut self) -> Duration {
        let longest = match self.stream.below(10) {
            0..4 => return Duration::ZERO,
            4 => 1_000,
            5 | 6 => 20_000,
            7 => 100_000,
            8 => 2_000_000,
            _ => 1_000_000_000,
        };
        Duration::from_ns(self.stream.below(longest))
    }
}

/// Counts of the predictions of reads and of writes.
type Counts = [[u64; 3]; 2];

/// Serves random operations and compares each prediction with the model's. Each command goes to a copy of the controller
/// that served the one before, so a copy must forget nothing either.
fn compare<C: Controller<Head>>(
    context: &str,
    mut controller: C,
    mut model: impl Model,
    mut operations: Operations,
    count: u64,
) -> Counts {
    let mut counts = Counts::default();
    let mut now = Instant::ZERO;
    let mut copy = controller.clone();
    for id in 0..count {
        let request = operations.next(id);
        let holds = controller.holds(&Platter, &request);
        assert_eq!(holds, model.holds(&request), "{context}: operation {id} at {now}: {request:?}");
        let predicted = model.predict(now, &request);
        let served = controller.serve(&Platter, now, &request);
        let prediction = model.prediction(&served);
        assert_eq!(prediction, predicted, "{context}: operation {id} at {now}: {request:?}\n{served:?}");
        model.served(&served);
        if matches!(request.op, Operation::Read | Operation::Write) {
            counts[usize::from(request.op == Operation::Write)][prediction as usize] += 1;
        }
        now = served.free.max(served.completed) + operations.think();
        copy.clone_from(&controller);
        std::mem::swap(&mut copy, &mut controller);
    }
    counts
}

/// A disk whose mechanics the controllers under test never see.
fn disk() -> DiskParameters {
    let mut description = crate::catalog::find("hp-c2247a").unwrap();
    for (key, value) in [("zero_latency_read", "false"), ("zero_latency_write", "false")] {
        description.set(key, value).unwrap();
    }
    let table: toml::Table = description.to_toml().parse().unwrap();
    let part = |key: &str| (key.to_owned(), table[key].clone());
    ["geometry", "mechanics", "electronics"]
        .into_iter()
        .map(part)
        .collect::<toml::Table>()
        .try_into()
        .unwrap()
}

#[test]
fn direct_holds_nothing() {
    let parameters: DirectParameters = toml::from_str("per_command = \"0.5us\"").unwrap();
    let mut controller = Direct::<Head>::new(&parameters, &disk()).unwrap();
    let mut operations = Operations::new(300, 32);
    let mut arm = Arm::default();
    let mut now = Instant::ZERO;
    for id in 0..OPERATIONS / 10 {
        let request = operations.next(id);
        let begin = now + parameters.per_command;
        assert!(!controller.holds(&Platter, &request), "{request:?}");
        let served = controller.serve(&Platter, now, &request);
        let moves = !matches!(request.op, Operation::Flush | Operation::Discard);
        let end = if moves { arm.pass(begin, request.lbn..request.end()) } else { begin };
        assert_eq!((served.completed, served.buffer), (end, BufferOutcome::None), "{request:?}");
        now = end + operations.think();
    }
}
