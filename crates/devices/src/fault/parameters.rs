//! Description of a layer of faults.
//!
//! ```toml
//! kind = "fault"
//! [[fault]]
//! kind = "delay"
//! add = "20ms"               # or "10ms..30ms", uniform, or "exponential 20ms"
//! probability = "1%"
//! [[fault]]
//! kind = "medium_error"
//! op = "read"
//! blocks = "1GiB..+64KiB"
//! at = "30s"
//! for = "5s"
//! [device]
//! base = "cheetah-36es"
//! ```

use std::fmt::Display;
use std::str::FromStr;

use schemars::JsonSchema;
use seeklab_core::description::schema::{check_ranges, schema_of, type_texts};
use seeklab_core::{
    ByteSize, Capabilities, DataEffect, DataRate, Duration, Mistake, Operation, Ratio, Seed, Status,
    description,
};
use serde::{Deserialize, Serialize};
use toml::Table;

use super::cap::Cap;
use super::data::{DataFault, Displacement};
use super::ladder::Ladder;
use super::remapped::Remapped;
use super::rule::{Action, Lasting, Length, Rule, Selector};
use super::schedule::{Repeat, Schedule};
use super::throttle::{Load, Throttle};
use crate::error::{DescriptionError, check};

/// Kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A reply comes later.
    Delay,
    /// The device stands still for a time.
    Stall,
    /// Everything in the device takes longer by a factor.
    Slow,
    /// A request is carried out after a correction.
    Recovered,
    /// A block cannot be read or written.
    MediumError,
    /// The device ends a request without carrying it out.
    Aborted,
    /// There is no answer until the timeout of the host.
    Timeout,
    /// The device refuses writes.
    WriteProtected,
    /// The device has no space for the data of writes.
    NoSpace,
    /// The device is not there.
    Gone,
    /// A flush is answered without making anything durable.
    LostFlush,
    /// A write with force unit access is answered when it is in the buffer.
    IgnoredFua,
    /// No more than so many bytes pass in a second.
    BandwidthCap,
    /// A read is repeated for one or more turns of the platters until it succeeds or fails for good.
    Retries,
    /// Weak sectors are found by a read, remapped, and reached by a detour from then on.
    Remapped,
    /// Everything in the device takes longer after sustained load until the device has been idle.
    Throttle,
    /// A write is answered and reaches nothing.
    LostWrite,
    /// A write is answered, and only its first blocks were written.
    TornWrite,
    /// The data of a write goes to another place.
    MisdirectedWrite,
    /// A read brings the data of another place.
    MisdirectedRead,
    /// A read brings what its blocks held before they were last written.
    StaleRead,
    /// A bit of a block changes on the media, until the block is written.
    BitRot,
    /// The device loses its power, and with it what is in a volatile buffer.
    PowerLoss,
}

impl FaultKind {
    /// The name in descriptions.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::Stall => "stall",
            Self::Slow => "slow",
            Self::Recovered => "recovered",
            Self::MediumError => "medium_error",
            Self::Aborted => "aborted",
            Self::Timeout => "timeout",
            Self::WriteProtected => "write_protected",
            Self::NoSpace => "no_space",
            Self::LostFlush => "lost_flush",
            Self::IgnoredFua => "ignored_fua",
            Self::BandwidthCap => "bandwidth_cap",
            Self::Retries => "retries",
            Self::Remapped => "remapped",
            Self::Throttle => "throttle",
            Self::Gone => "gone",
            Self::LostWrite => "lost_write",
            Self::TornWrite => "torn_write",
            Self::MisdirectedWrite => "misdirected_write",
            Self::MisdirectedRead => "misdirected_read",
            Self::StaleRead => "stale_read",
            Self::BitRot => "bit_rot",
            Self::PowerLoss => "power_loss",
        }
    }

    /// Keys that belong to this kind, apart from those of every kind.
    pub(super) const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Delay => &["add", "holds", "ramp"],
            Self::Stall => &[],
            Self::Gone | Self::PowerLoss => &["add", "back_after"],
            Self::Slow => &["factor"],
            Self::Recovered => &["add", "ramp"],
            Self::MediumError => &["add", "ramp", "lasting"],
            Self::Timeout => &["timeout", "ramp"],
            Self::Aborted | Self::WriteProtected | Self::NoSpace | Self::LostFlush => &["add", "ramp"],
            Self::BandwidthCap => &["rate"],
            Self::Retries => &["ladder", "turn", "ramp"],
            Self::Remapped => &["turns", "turn", "detour"],
            Self::Throttle => &["load", "window", "factor", "idle"],
            Self::IgnoredFua | Self::LostWrite | Self::StaleRead | Self::BitRot => &["ramp"],
            Self::TornWrite => &["unit", "ramp"],
            Self::MisdirectedWrite | Self::MisdirectedRead => &["by", "ramp"],
        }
    }

    /// Returns true if the fault is one of the whole device, which selects no requests.
    pub(super) const fn is_of_device(self) -> bool {
        matches!(self, Self::Stall | Self::Slow | Self::Gone | Self::PowerLoss)
    }
}

/// The part that a delay holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Holds {
    /// The reply; the device is free for other requests.
    Reply,
    /// The device, which is busy for longer.
    Device,
}

/// A fault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = super::preset::declare)]
pub struct FaultTable {
    /// Kind of the fault. Required unless a preset is given.
    pub kind: FaultKind,
    /// Name of the fault. Its random draws follow from it. [default: the kind, with a number from the second one on]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Operations, such as `read` or `write|discard` [default: all that the kind can strike, such as reads for
    /// `retries`; reads for errors that last until they are rewritten].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// Requests that touch these blocks, in bytes of the device: `1GiB..2GiB` or `1GiB..+64KiB` [default: all].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<String>,
    /// Requests of this size: `4KiB`, `4KiB..64KiB`, `64KiB..` or `..4KiB` [default: all].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// Requests that find so many others in the device: `0`, `4..16`, `8..` or `..2` [default: all].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_length: Option<String>,
    /// Requests of this initiator [default: all].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initiator: Option<u32>,
    /// Probability for each request that the fault can strike.
    #[serde(default = "certain")]
    #[schemars(extend("x-maximum" = "100%"))]
    pub probability: Ratio,
    /// Of the requests that the fault can strike, each so many-th.
    #[serde(default = "one")]
    #[schemars(range(min = 1), extend("x-unit" = "requests"))]
    pub every: u64,
    /// Requests of the device that pass first.
    #[serde(default)]
    #[schemars(extend("x-unit" = "requests"))]
    pub after: u64,
    /// Time from which on the fault can strike.
    #[serde(default)]
    #[schemars(extend("x-maximum" = "8760h"))]
    pub at: Duration,
    /// Time for which it can strike [default: for ever].
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1ns", "x-maximum" = "8760h"))]
    pub length: Option<Duration>,
    /// Time from one start to the next: `60s`; or the mean of random times from an end to the next start: `about 60s`
    /// [default: once].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<String>,
    /// Time from the start to full strength: of the probability, of a delay its length.
    #[serde(default)]
    #[schemars(extend("x-maximum" = "8760h"))]
    pub ramp: Duration,
    /// Time added: `20ms`, `10ms..30ms` for a uniform and `exponential 20ms` for an exponential distribution; of a
    /// request that is refused, the time of the answer [default: 100us of what is refused, otherwise 0s].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add: Option<String>,
    /// The part that a delay holds [default: reply].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<Holds>,
    /// Factor by which everything takes longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1.0, max = 1_000_000.0))]
    pub factor: Option<f64>,
    /// Time for which the device is away [default: for ever].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1ns", "x-maximum" = "8760h"))]
    pub back_after: Option<Duration>,
    /// Distance from the right place to the wrong one, towards the end of the device or, where it ends before, towards
    /// the front [default: drawn from all places].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "512B"))]
    pub by: Option<ByteSize>,
    /// Piece of a write that is written whole or not at all [default: a block].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "512B"))]
    pub unit: Option<ByteSize>,
    /// Time until the host gives up [default: 30s].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1ns", "x-maximum" = "8760h"))]
    pub timeout: Option<Duration>,
    /// End of a medium error: `transient`, one request; `sticky`, the same blocks fail again; `until_rewritten`
    /// [default: transient].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasting: Option<Lasting>,
    /// Bytes per second that pass, without bursts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1kB/s"))]
    pub rate: Option<DataRate>,
    /// Probabilities that a read succeeds after 1, 2, 3, … turns, such as `60% 30% 8%`. In the remaining cases it ends
    /// in a medium error after all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ladder: Option<String>,
    /// Time of one turn [default: the rotation time of the disk beneath].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1ns", "x-maximum" = "1h"))]
    pub turn: Option<Duration>,
    /// Turns of the read that finds a weak sector [default: 1].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000), extend("x-unit" = "turns"))]
    pub turns: Option<u32>,
    /// Time added to later accesses of a remapped sector, in the forms of `add`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detour: Option<String>,
    /// Load after which the device is slow: bytes of requests, such as `8GiB`, or busy time, such as `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// Time within which the load counts, from its first request on [default: since the last idle time].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1ns", "x-maximum" = "8760h"))]
    pub window: Option<Duration>,
    /// Idle time after which the device is at full speed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1ns", "x-maximum" = "8760h"))]
    pub idle: Option<Duration>,
}

/// The longest time in a fault: a year. Sums of several stay within the range of a clock.
const TIME_MAX: Duration = Duration::from_s(8760 * 3600);

/// The shortest time from one window to the next: each is an event while the device is busy.
const REPEAT_MIN: Duration = Duration::from_us(1);

/// Time of an answer that the device gives without carrying the request out. Assumed: of the order of a command on an
/// interface. Above zero, so that a host that asks again at once does not stop the clock.
const REFUSAL: Duration = Duration::from_us(100);

const fn certain() -> Ratio {
    Ratio::from_const(1.0)
}

const fn one() -> u64 {
    1
}

/// A layer of faults, in the order in which they apply.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultParameters {
    /// Faults.
    #[serde(default)]
    pub fault: Vec<FaultTable>,
}

impl FaultParameters {
    /// The faults checked as far as they can be without the device.
    ///
    /// # Errors
    /// Values that contradict each other, and keys that do not belong to the kind of fault.
    pub fn checked(&self) -> Result<(), DescriptionError> {
        let names = self.names();
        for (index, fault) in self.fault.iter().enumerate() {
            let under = |error: DescriptionError| error.under(&format!("fault[{index}]"));
            fault.check().map_err(under)?;
            let is_new = !names[..index].contains(&names[index]);
            check(is_new, "name", format!("`{}` names two faults", names[index]), "a name of its own")
                .map_err(under)?;
        }
        let caps = self.fault.iter().filter(|fault| fault.kind == FaultKind::BandwidthCap).count();
        check(caps <= Cap::MAX, "fault", format!("{caps} bandwidth caps"), format!("at most {}", Cap::MAX))
    }

    /// Names of the faults.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (index, fault) in self.fault.iter().enumerate() {
            let before = self.fault[..index].iter().filter(|other| other.kind == fault.kind).count();
            let kind = fault.kind.name();
            let default = || if before == 0 { kind.to_owned() } else { format!("{kind}-{}", before + 1) };
            names.push(fault.name.clone().unwrap_or_else(default));
        }
        names
    }

    /// The rules for a device with these capabilities, the platters of which turn once in `turn`; `name` is that of the
    /// device.
    ///
    /// # Errors
    /// As [`checked`](Self::checked), and blocks beyond the end of the device.
    pub fn rules(
        &self,
        capabilities: &Capabilities,
        turn: Option<Duration>,
        seed: Seed,
        name: &str,
    ) -> Result<Vec<Rule>, DescriptionError> {
        self.checked()?;
        let names = self.names();
        let rules = self.fault.iter().zip(names).enumerate().map(|(index, (fault, fault_name))| {
            let base = format!("{name}.fault.{fault_name}");
            let rule = fault.rule(capabilities, turn, seed, &base);
            rule.map_err(|error| error.under(&format!("fault[{index}]")))
        });
        let mut rules: Vec<Rule> = rules.collect::<Result<_, _>>()?;
        let caps = rules.iter_mut().filter_map(|rule| match &mut rule.action {
            Action::Cap(cap) => Some(cap),
            _ => None,
        });
        caps.enumerate().for_each(|(place, cap)| cap.bit = 1 << place);
        Ok(rules)
    }
}

impl FaultTable {
    /// A fault on one line: its kind, then `key=value` with commas between, such as
    /// `delay,add=20ms,probability=1%`.
    ///
    /// # Errors
    /// A line without a kind, keys that do not exist or are given twice, and values that cannot be read.
    pub fn from_line(line: &str) -> Result<Self, DescriptionError> {
        let (kind, mut table) = entries(line)?;
        table.insert("kind".to_owned(), kind.into());
        Self::from_table(&table)
    }

    /// A fault in a table, checked alone.
    pub(super) fn from_table(table: &Table) -> Result<Self, DescriptionError> {
        let fault: Self = description::read(table)?;
        check_ranges(&fault)?;
        fault.check()?;
        Ok(fault)
    }

    /// Keys that are given and not those of every kind.
    fn given(&self) -> impl Iterator<Item = &'static str> {
        let keys = [
            ("add", self.add.is_some()),
            ("holds", self.holds.is_some()),
            ("factor", self.factor.is_some()),
            ("timeout", self.timeout.is_some()),
            ("back_after", self.back_after.is_some()),
            ("by", self.by.is_some()),
            ("unit", self.unit.is_some()),
            ("lasting", self.lasting.is_some()),
            ("rate", self.rate.is_some()),
            ("ladder", self.ladder.is_some()),
            ("turn", self.turn.is_some()),
            ("turns", self.turns.is_some()),
            ("detour", self.detour.is_some()),
            ("load", self.load.is_some()),
            ("window", self.window.is_some()),
            ("idle", self.idle.is_some()),
            ("ramp", !self.ramp.is_zero()),
        ];
        keys.into_iter().filter(|(_, given)| *given).map(|(key, _)| key)
    }

    /// Keys that are given and select requests.
    fn selecting(&self) -> impl Iterator<Item = &'static str> {
        let keys = [
            ("op", self.op.is_some()),
            ("blocks", self.blocks.is_some()),
            ("size", self.size.is_some()),
            ("queue_length", self.queue_length.is_some()),
            ("initiator", self.initiator.is_some()),
            ("probability", self.probability.as_f64() < 1.0),
            ("every", self.every > 1),
            ("after", self.after > 0),
        ];
        keys.into_iter().filter(|(_, given)| *given).map(|(key, _)| key)
    }

    pub(super) fn check(&self) -> Result<(), DescriptionError> {
        let kind = self.kind.name();
        check(self.name.as_deref() != Some(""), "name", "is empty", "a name, or none")?;
        for key in self.given() {
            let allowed = self.kind.keys();
            let allowed = if allowed.is_empty() { "no such key".to_owned() } else { allowed.join(", ") };
            let problem = format!("is no key of `{kind}`");
            check(self.kind.keys().contains(&key), key, problem, format!("of `{kind}`: {allowed}"))?;
        }
        if self.kind.is_of_device() {
            let of_device = format!("selects requests, and `{kind}` is a fault of the whole device");
            for key in self.selecting() {
                check(false, key, &of_device, "at, for and repeat")?;
            }
        }
        match self.kind {
            FaultKind::Delay => required(self.add.is_some(), "add", kind, "20ms")?,
            FaultKind::Slow => required(self.factor.is_some(), "factor", kind, "3.0")?,
            FaultKind::Stall => required(self.length.is_some(), "for", kind, "500ms")?,
            FaultKind::BandwidthCap => required(self.rate.is_some(), "rate", kind, "1MB/s")?,
            FaultKind::Retries => required(self.ladder.is_some(), "ladder", kind, "60% 30% 8%")?,
            FaultKind::Remapped => required(self.detour.is_some(), "detour", kind, "15ms")?,
            FaultKind::Throttle => self.check_throttle(kind)?,
            _ => {}
        }
        let both = self.length.is_some() && self.back_after.is_some();
        check(!both, "back_after", "ends what `for` ends, too", "one of the two")?;
        if self.repeat.is_some() {
            let problem = "repeats without an end of the first time";
            check(self.duration().is_some(), "repeat", problem, "together with `for` or `back_after`")?;
        }
        if let Some(length) = self.duration() {
            let ramp = self.ramp.to_string();
            check(self.ramp <= length, "ramp", ramp, format!("at most {length}, the time `for`"))?;
        }
        self.repeat_of(Seed(0), "")?;
        self.operations()?;
        self.check_flushes()?;
        let _ = (self.bytes()?, self.sizes()?, self.queue_lengths()?, self.add()?);
        let _ = self.ladder.as_deref().map(|text| Ladder::parse(text, Duration::ZERO)).transpose()?;
        self.detour.as_deref().map_or(Ok(()), |text| length("detour", text).map(drop))
    }

    fn check_throttle(&self, kind: &str) -> Result<(), DescriptionError> {
        required(self.load.is_some(), "load", kind, "8GiB")?;
        required(self.factor.is_some(), "factor", kind, "3.0")?;
        required(self.idle.is_some(), "idle", kind, "10s")?;
        let Some(Load::Busy(load)) = self.load.as_deref().map(Load::parse).transpose()? else {
            return Ok(());
        };
        for key in self.selecting() {
            check(
                false,
                key,
                "selects requests, and `load` is the busy time of the whole device",
                "a load in bytes",
            )?;
        }
        let window = self.window.unwrap_or(Duration::MAX);
        check(load < window, "window", format!("{window}"), format!("more than {load}, the time `load`"))
    }

    /// Time for which it lasts.
    fn duration(&self) -> Option<Duration> {
        self.length.or(self.back_after)
    }

    fn repeat_of(&self, seed: Seed, name: &str) -> Result<Repeat, DescriptionError> {
        let Some(text) = &self.repeat else { return Ok(Repeat::Never) };
        let (random, length) = match text.strip_prefix("about ") {
            Some(mean) => (true, mean),
            None => (false, text.as_str()),
        };
        let length = time("repeat", length)?;
        let least = if random { REPEAT_MIN } else { self.duration().unwrap_or_default().max(REPEAT_MIN) };
        let meaning = if random { "" } else { ", the time `for`" };
        check(length >= least, "repeat", text, format!("at least {least}{meaning}"))?;
        if random {
            return Ok(Repeat::About(length, seed.numbered(&format!("{name}.times"))));
        }
        Ok(Repeat::Every(length))
    }

    fn operations(&self) -> Result<[bool; Operation::ALL.len()], DescriptionError> {
        let lasts = self.lasting == Some(Lasting::UntilRewritten);
        let has_blocks = |op: Operation| op.addresses_blocks() || self.blocks.is_none();
        let default = |op: Operation| match self.kind {
            FaultKind::WriteProtected => {
                matches!(op, Operation::Write | Operation::Discard | Operation::WriteZeroes)
            }
            FaultKind::NoSpace => matches!(op, Operation::Write | Operation::WriteZeroes),
            FaultKind::LostFlush => op == Operation::Flush,
            FaultKind::IgnoredFua => matches!(op, Operation::Write | Operation::WriteZeroes),
            FaultKind::LostWrite | FaultKind::TornWrite | FaultKind::MisdirectedWrite => {
                op == Operation::Write
            }
            FaultKind::MisdirectedRead | FaultKind::StaleRead | FaultKind::BitRot => op == Operation::Read,
            FaultKind::MediumError if lasts => op == Operation::Read,
            FaultKind::Retries | FaultKind::Remapped => op == Operation::Read,
            // Zeroes are written to the media, too.
            FaultKind::MediumError => {
                matches!(op, Operation::Read | Operation::Write | Operation::WriteZeroes)
            }
            FaultKind::BandwidthCap | FaultKind::Throttle => {
                matches!(op, Operation::Read | Operation::Write)
            }
            _ => true,
        };
        let Some(text) = &self.op else {
            return Ok(Operation::ALL.map(|op| default(op) && has_blocks(op)));
        };
        let names = Operation::ALL.map(Operation::name);
        let mut chosen = [false; Operation::ALL.len()];
        for name in text.split('|').map(str::trim) {
            let place = names.iter().position(|known| *known == name);
            let allowed = format!("{}, several with | between them", names.join(", "));
            let Some(place) = place else { return Err(DescriptionError::refused("op", text, allowed)) };
            let fits = Operation::ALL.into_iter().all(default) || default(Operation::ALL[place]);
            let problem = format!("`{name}` cannot meet `{}`", self.kind.name());
            let able = Operation::ALL.into_iter().filter(|op| default(*op)).map(Operation::name);
            check(fits, "op", problem, able.collect::<Vec<_>>().join(", "))?;
            chosen[place] = true;
        }
        Ok(chosen)
    }

    /// Bytes that the blocks hold, `None` for all.
    pub(super) fn bytes(&self) -> Result<Option<(u64, u64)>, DescriptionError> {
        const ALLOWED: &str = "1GiB..2GiB or 1GiB..+64KiB, the end above the start";
        let Some(text) = &self.blocks else { return Ok(None) };
        let refused = || DescriptionError::refused("blocks", text, ALLOWED);
        let (start, end) = text.split_once("..").ok_or_else(refused)?;
        let start = parsed::<ByteSize>("blocks", start.trim())?.as_bytes();
        let end = match end.trim().strip_prefix('+') {
            Some(length) => start
                .checked_add(parsed::<ByteSize>("blocks", length.trim())?.as_bytes())
                .ok_or_else(refused)?,
            None => parsed::<ByteSize>("blocks", end.trim())?.as_bytes(),
        };
        if end > start { Ok(Some((start, end))) } else { Err(refused()) }
    }

    pub(super) fn sizes(&self) -> Result<(u64, u64), DescriptionError> {
        let bounds = bounds::<ByteSize>("size", self.size.as_deref(), "4KiB..16KiB, 8KiB.. or ..2KiB")?;
        Ok((bounds.0.map_or(0, ByteSize::as_bytes), bounds.1.map_or(u64::MAX, ByteSize::as_bytes)))
    }

    fn queue_lengths(&self) -> Result<(u32, u32), DescriptionError> {
        let bounds = bounds::<u32>("queue_length", self.queue_length.as_deref(), "4..16, 8.. or ..2")?;
        Ok((bounds.0.unwrap_or(0), bounds.1.unwrap_or(u32::MAX)))
    }

    fn add(&self) -> Result<Length, DescriptionError> {
        use FaultKind::{Aborted, Gone, LostFlush, NoSpace, PowerLoss, WriteProtected};
        let Some(text) = self.add.as_deref() else {
            let refuses =
                matches!(self.kind, Aborted | Gone | LostFlush | NoSpace | PowerLoss | WriteProtected);
            return Ok(Length::Constant(if refuses { REFUSAL } else { Duration::ZERO }));
        };
        length("add", text)
    }

    /// The effect on a device the platters of which turn once in `turn`.
    fn action(
        &self,
        capabilities: &Capabilities,
        turn: Option<Duration>,
    ) -> Result<Action, DescriptionError> {
        let add = self.add()?;
        let turn = || {
            self.turn.or(turn).ok_or_else(|| {
                let problem =
                    format!("is missing, `{}` needs it, and the device has no platters", self.kind.name());
                DescriptionError::refused("turn", problem, "for example turn = \"8.33ms\"")
            })
        };
        let blocks = |key: &'static str, size: Option<ByteSize>| {
            let (size, block) = (size.map(ByteSize::as_bytes), capabilities.block_size);
            let fits = size.is_none_or(|size| {
                size.is_multiple_of(block.as_bytes())
                    && (1..=u64::from(DataEffect::BLOCKS_MAX)).contains(&(size / block.as_bytes()))
            });
            let value = size.map_or_else(String::new, |size| ByteSize::from_bytes(size).to_string());
            let most = ByteSize::from_bytes(block.as_bytes() * u64::from(DataEffect::BLOCKS_MAX));
            check(fits, key, value, format!("a multiple of the block size, {block}, up to {most}"))?;
            Ok::<_, DescriptionError>(size.map(|size| (size / block.as_bytes()) as u32))
        };
        let place = || {
            let capacity_blocks = capabilities.capacity_blocks;
            Ok::<_, DescriptionError>(Displacement { blocks: blocks("by", self.by)?, capacity_blocks })
        };
        Ok(match self.kind {
            FaultKind::Delay if self.holds == Some(Holds::Device) => Action::Busy(add),
            FaultKind::Delay => Action::Delay(add),
            FaultKind::Stall => Action::Stall,
            FaultKind::Slow => Action::Slow(self.factor.unwrap_or(1.0)),
            FaultKind::Recovered => Action::Recovered(add),
            FaultKind::MediumError => {
                Action::MediumError { attempts: add, lasting: self.lasting.unwrap_or(Lasting::Transient) }
            }
            FaultKind::Aborted => Action::Fail(Status::Aborted, add),
            FaultKind::Timeout => Action::Hang(self.timeout.unwrap_or(Duration::from_s(30))),
            FaultKind::WriteProtected => Action::Fail(Status::WriteProtected, add),
            FaultKind::NoSpace => Action::Fail(Status::NoSpace, add),
            FaultKind::Gone => Action::Gone(add),
            FaultKind::LostFlush => Action::Fail(Status::Ok, add),
            FaultKind::IgnoredFua => Action::IgnoreFua,
            FaultKind::BandwidthCap => {
                let rate = self.rate.unwrap_or(DataRate::from_bytes_per_s(1));
                Action::Cap(Cap { rate, bit: 0 })
            }
            FaultKind::Retries => {
                Action::Retries(Ladder::parse(self.ladder.as_deref().unwrap_or_default(), turn()?)?)
            }
            FaultKind::Remapped => Action::Remapped(Remapped {
                found: turn()? * u64::from(self.turns.unwrap_or(1)),
                detour: length("detour", self.detour.as_deref().unwrap_or_default())?,
            }),
            FaultKind::Throttle => Action::Throttle(Throttle {
                load: Load::parse(self.load.as_deref().unwrap_or_default())?,
                window: self.window.unwrap_or(Duration::MAX),
                factor: self.factor.unwrap_or(1.0),
                idle: self.idle.unwrap_or(Duration::MAX),
            }),
            FaultKind::PowerLoss => Action::PowerLoss(add),
            FaultKind::LostWrite => Action::Data(DataFault::Lost),
            FaultKind::TornWrite => {
                Action::Data(DataFault::Torn { unit_blocks: blocks("unit", self.unit)?.unwrap_or(1) })
            }
            FaultKind::MisdirectedWrite => Action::Data(DataFault::MisdirectedWrite(place()?)),
            FaultKind::MisdirectedRead => Action::Data(DataFault::MisdirectedRead(place()?)),
            FaultKind::StaleRead => Action::Data(DataFault::Stale),
            FaultKind::BitRot => Action::Data(DataFault::Rot),
        })
    }

    fn rule(
        &self,
        capabilities: &Capabilities,
        turn: Option<Duration>,
        seed: Seed,
        name: &str,
    ) -> Result<Rule, DescriptionError> {
        let block_bytes = capabilities.block_size.as_bytes();
        let blocks = match self.bytes()? {
            None => (0, capabilities.capacity_blocks),
            Some((start, end)) => {
                self.check_end(capabilities.capacity(), "the end of the device")?;
                (start / block_bytes, end.div_ceil(block_bytes))
            }
        };
        let (least, most) = self.sizes()?;
        let narrow = |blocks: u64| u32::try_from(blocks).unwrap_or(u32::MAX);
        let rule = Rule {
            name: name.into(),
            action: self.action(capabilities, turn)?,
            selector: Selector {
                operations: self.operations()?,
                blocks,
                length: (narrow(least.div_ceil(block_bytes)), narrow(most / block_bytes)),
                queue_length: self.queue_lengths()?,
                initiator: self.initiator,
            },
            schedule: Schedule { at: self.at, length: self.duration(), repeat: self.repeat_of(seed, name)? },
            ramp: self.ramp,
            after: self.after,
            every: self.every,
            probability: self.probability.as_f64(),
            streams: seed.numbered(name),
        };
        self.check_reach(&rule, capabilities)?;
        Ok(rule)
    }
}

/// The first word of a line, and its `key=value` entries. Numbers are typed.
pub(super) fn entries(line: &str) -> Result<(&str, Table), DescriptionError> {
    let mut parts = line.split(',').map(str::trim);
    let first = parts.next().unwrap_or_default();
    let mut table = Table::new();
    for part in parts {
        let (key, value) = part.split_once('=').ok_or_else(|| {
            let problem = format!("`{part}` has no `=`");
            DescriptionError::new(Mistake::Syntax, "", problem)
                .hint("KIND,KEY=VALUE,…, for example delay,add=20ms")
        })?;
        let before = table.insert(key.trim().to_owned(), value.trim().into());
        check(before.is_none(), key.trim(), "is given twice", "once")?;
    }
    type_texts(&schema_of::<FaultTable>(), &mut table);
    Ok((first, table))
}

fn required(given: bool, key: &str, kind: &str, example: &str) -> Result<(), DescriptionError> {
    let problem = format!("is missing, and `{kind}` needs it");
    check(given, key, problem, format!("for example {key} = \"{example}\""))
}

/// A length of time in one of the forms that `add` documents.
fn length(key: &str, text: &str) -> Result<Length, DescriptionError> {
    if let Some(mean) = text.strip_prefix("exponential ") {
        return Ok(Length::Exponential(time(key, mean)?));
    }
    let Some((from, to)) = text.split_once("..") else {
        return Ok(Length::Constant(time(key, text)?));
    };
    let (from, to) = (time(key, from)?, time(key, to)?);
    check(from <= to, key, text, "10ms..30ms, the longer time behind")?;
    Ok(Length::Uniform(from, to))
}

/// A time of at most [`TIME_MAX`].
pub(super) fn time(key: &str, text: &str) -> Result<Duration, DescriptionError> {
    let time = parsed(key, text.trim())?;
    check(time <= TIME_MAX, key, text, format!("at most {TIME_MAX}"))?;
    Ok(time)
}

pub(super) fn parsed<T: FromStr<Err: Display>>(key: &str, text: &str) -> Result<T, DescriptionError> {
    text.parse().map_err(|error: T::Err| DescriptionError::invalid(key, error.to_string()))
}

/// The bounds in `1..2`, `1..`, `..2` or `1`; the examples are for the message.
fn bounds<T: FromStr<Err: Display> + PartialOrd + Copy>(
    key: &str,
    text: Option<&str>,
    examples: &str,
) -> Result<(Option<T>, Option<T>), DescriptionError> {
    let Some(text) = text else { return Ok((None, None)) };
    let bound = |text: &str| match text.trim() {
        "" => Ok(None),
        text => parsed(key, text).map(Some),
    };
    let (from, to) = match text.split_once("..") {
        Some((from, to)) => (bound(from)?, bound(to)?),
        None => (bound(text)?, bound(text)?),
    };
    let ordered = from.zip(to).is_none_or(|(from, to)| from <= to);
    check(
        ordered && (from.is_some() || to.is_some()),
        key,
        text,
        format!("a lower and an upper bound, such as {examples}"),
    )?;
    Ok((from, to))
}
