//! Verdicts on cuts, and the result of a series of them.

use std::fmt::Write;

use schemars::JsonSchema;
use seeklab_core::{Duration, Instant, Operation, Seed};
use seeklab_devices::torn::TornUnit;
use serde::{Serialize, Serializer};

use super::CrashOptions;
use super::record::{Durability, Record};
use crate::output::VERSION;
use seeklab_core::number_words::counted;

/// Verdict on a device after a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// CHECK ended with 0: every promise holds.
    Held,
    /// CHECK ended with 1: a promise is broken.
    Broken,
    /// CHECK ended otherwise: it could not say.
    Unknown,
    /// The file system could not be mounted.
    NotMounted,
    /// Every promise holds, and the file system's own check found errors after the mount.
    Damaged,
}

/// Findings on a device after a cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Findings {
    /// Verdict.
    pub verdict: Verdict,
    /// Exit code of CHECK; 128 and the number of the signal that killed it. `None` if it did not run.
    pub exit_code: Option<i32>,
    /// Error of the mount, or the first line of what the file system's own check found.
    pub error: Option<String>,
    /// Output of CHECK, its first 4096 bytes.
    pub output: String,
}

/// A write that was complete at a cut and not on the media.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LostWrite {
    /// Number of the request in the record.
    pub request: u64,
    /// First block.
    pub lbn: u64,
    /// Blocks.
    pub blocks: u32,
    /// Blocks that were not on the media.
    pub missing_blocks: u64,
    /// Time of completion.
    pub completed_s: f64,
    /// True if a flush that was complete covers it, or it forced the media: the device broke its promise.
    pub is_flushed: bool,
}

/// One cut, and one state of the device after it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Point {
    /// Number of the cut.
    #[serde(skip)]
    pub(super) index: usize,
    /// State: 0 is that of this device, others are states that any device may leave.
    pub state: usize,
    /// Time of the cut in the record.
    #[serde(rename = "at_s", serialize_with = "seconds")]
    #[schemars(with = "f64")]
    pub at: Instant,
    /// Findings.
    #[serde(flatten)]
    pub findings: Findings,
    /// Promises made before the cut.
    pub promises: u64,
    /// Writes that were lost.
    pub lost: Vec<LostWrite>,
    /// Units that the heads were writing. `power_loss.torn_sector` of the device says what they hold after the cut.
    pub torn: Vec<TornUnit>,
}

impl Point {
    /// Time and state in words.
    pub(super) fn moment(&self) -> String {
        let at = self.at.as_s();
        match self.state {
            0 => format!("{at:.9} s"),
            state => format!("{at:.9} s, state {state} of those that devices may leave"),
        }
    }

    /// Bytes of complete writes that were not on the media.
    pub(super) fn lost_bytes(&self, block_bytes: u64) -> f64 {
        let blocks: u64 = self.lost.iter().map(|write| write.missing_blocks).sum();
        (blocks * block_bytes) as f64
    }
}

impl Findings {
    /// Verdict in words.
    pub(super) fn sentence(&self) -> String {
        let error = self.error.as_deref().unwrap_or_default();
        match self.verdict {
            Verdict::Held => "held".to_owned(),
            Verdict::Broken => "a promise is broken".to_owned(),
            Verdict::Unknown => {
                format!("CHECK could not say (exit code {})", self.exit_code.unwrap_or_default())
            }
            Verdict::NotMounted => format!("not mounted: {error}"),
            Verdict::Damaged => format!("damaged: {error}"),
        }
    }
}

/// Times of a run in the record.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Timeline {
    /// Start of COMMAND.
    pub(super) began_s: f64,
    /// Last completion.
    pub(super) end_s: f64,
    pub(super) promises_s: Vec<f64>,
    /// Completions of flushes, and of writes with force unit access.
    pub(super) flushes_s: Vec<f64>,
}

fn seconds<S: Serializer>(at: &Instant, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(at.as_s())
}

/// Numbers of points by verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Totals {
    /// Points at which every promise holds.
    pub held: u64,
    /// Points at which a promise is broken.
    pub broken: u64,
    /// Points at which CHECK could not say.
    pub unknown: u64,
    /// Points at which the file system could not be mounted.
    pub not_mounted: u64,
    /// Points at which the file system is damaged though every promise holds.
    pub damaged: u64,
}

impl Totals {
    pub(super) fn of<'a>(points: impl Iterator<Item = &'a Point>) -> Self {
        let mut totals = Self::default();
        for point in points {
            *match point.findings.verdict {
                Verdict::Held => &mut totals.held,
                Verdict::Broken => &mut totals.broken,
                Verdict::Unknown => &mut totals.unknown,
                Verdict::NotMounted => &mut totals.not_mounted,
                Verdict::Damaged => &mut totals.damaged,
            } += 1;
        }
        totals
    }

    /// Number of points.
    pub const fn count(&self) -> u64 {
        self.held + self.broken + self.unknown + self.not_mounted + self.damaged
    }

    /// Returns true if every promise holds, and every file system could be mounted and is sound.
    pub const fn is_clean(&self) -> bool {
        self.broken + self.unknown + self.not_mounted + self.damaged == 0
    }
}

/// Result of a series of cuts. Its serialized form is the JSON document.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CrashResult {
    /// Name of the device.
    pub device: String,
    /// Seed of all random draws.
    pub seed: Seed,
    /// Program and version.
    pub version: &'static str,
    /// Requests of the run.
    pub requests: u64,
    /// Promises of the run.
    pub promises: u64,
    /// Time from the start of COMMAND to the last completion.
    pub run_s: f64,
    /// Points by verdict, of this device.
    pub own: Totals,
    /// Points by verdict, of states that any device with a volatile cache may leave.
    pub legal: Totals,
    /// Points checked in a minute.
    pub points_per_minute: f64,
    /// Every point, in order of time.
    pub points: Vec<Point>,
    /// Folder of the record, if it was kept.
    pub record: Option<String>,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Times of the run.
    #[serde(skip)]
    pub(super) timeline: Timeline,
}

/// Points that are described one by one.
const SHOWN_MAX: usize = 5;

/// Lost writes of a point that are described one by one.
const WRITES_MAX: usize = 3;

impl CrashResult {
    pub(super) fn new(
        options: &CrashOptions,
        record: &Record,
        durability: &Durability,
        points: Vec<Point>,
        elapsed: Duration,
    ) -> Self {
        Self {
            device: options.device.label(),
            seed: options.seed,
            version: VERSION,
            requests: record.requests.len() as u64,
            promises: record.promises.len() as u64,
            run_s: record.end().saturating_since(record.began).as_s(),
            own: Totals::of(points.iter().filter(|point| point.state == 0)),
            legal: Totals::of(points.iter().filter(|point| point.state > 0)),
            points_per_minute: points.len() as f64 * 60.0 / elapsed.as_s().max(1e-9),
            record: options.keep.as_ref().map(|folder| folder.display().to_string()),
            block_bytes: record.block_bytes,
            timeline: timeline(record, durability),
            points,
        }
    }

    /// Returns true if every promise holds on this device, and every file system could be mounted and is sound.
    pub const fn is_clean(&self) -> bool {
        self.own.is_clean()
    }

    /// The result for people.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{}: {} and {} in {:.1} s; {:.0} points a minute; seed {}",
            self.device,
            counted(self.requests, "request"),
            counted(self.promises, "promise"),
            self.run_s,
            self.points_per_minute,
            self.seed.0
        );
        let _ = writeln!(
            text,
            "\n{:<22}{:>7}{:>8}{:>9}{:>13}{:>9}",
            "after a cut", "held", "broken", "unknown", "not mounted", "damaged"
        );
        let mut row = |name: &str, totals: &Totals| {
            let Totals { held, broken, unknown, not_mounted, damaged } = totals;
            let _ = writeln!(text, "{name:<22}{held:>7}{broken:>8}{unknown:>9}{not_mounted:>13}{damaged:>9}");
        };
        row("this device", &self.own);
        if self.legal != Totals::default() {
            row("what devices may do", &self.legal);
        }
        let bad: Vec<&Point> =
            self.points.iter().filter(|point| point.findings.verdict != Verdict::Held).collect();
        for point in bad.iter().take(SHOWN_MAX) {
            self.describe(&mut text, point);
        }
        if bad.len() > SHOWN_MAX {
            let _ = writeln!(text, "\n… and {} more, see --json", counted(bad.len() - SHOWN_MAX, "point"));
        }
        text
    }

    fn describe(&self, text: &mut String, point: &Point) {
        let _ = writeln!(text, "\n{}: {}", point.moment(), point.findings.sentence());
        for line in point.findings.output.lines().take(2) {
            let _ = writeln!(text, "  CHECK: {line}");
        }
        let _ = writeln!(text, "  {} before it", counted(point.promises, "promise"));
        if point.state == 0 {
            for unit in &point.torn {
                let _ = writeln!(text, "  blocks {}+{} were being written", unit.lbn, unit.blocks);
            }
            let flushed = point.lost.iter().filter(|write| write.is_flushed).count();
            let lost = counted(point.lost.len(), "write");
            let _ = writeln!(text, "  {lost} complete and not on the media, {flushed} covered by a flush");
            for write in point.lost.iter().rev().take(WRITES_MAX) {
                let covered = if write.is_flushed { "flushed" } else { "not flushed" };
                let _ = writeln!(
                    text,
                    "    blocks {}+{}, complete at {:.6} s, {covered}",
                    write.lbn, write.blocks, write.completed_s
                );
            }
            if let Some(command) = self.image_command(point) {
                let _ = writeln!(text, "  {command}");
            }
        }
    }

    /// The command that writes the device as it was after the cut, if the record was kept.
    pub(super) fn image_command(&self, point: &Point) -> Option<String> {
        let folder = self.record.as_ref().filter(|_| point.state == 0)?;
        Some(format!("seeklab crash --from {folder} --at {:.9}s --image crash.img", point.at.as_s()))
    }
}

/// Times of the run, from its start on.
fn timeline(record: &Record, durability: &Durability) -> Timeline {
    let flushes = durability.completions.iter().filter(|completion| {
        (completion.request.op == Operation::Flush || completion.request.fua)
            && completion.completed >= record.began
    });
    let mut flushes_s: Vec<f64> = flushes.map(|flush| flush.completed.as_s()).collect();
    flushes_s.sort_unstable_by(f64::total_cmp);
    Timeline {
        began_s: record.began.as_s(),
        end_s: record.end().as_s(),
        promises_s: record.promises.iter().map(|promise| promise.at.as_s()).collect(),
        flushes_s,
    }
}
