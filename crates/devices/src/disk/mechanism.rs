//! Arm, heads and platters: how long it takes to reach blocks and to pass over them.
//!
//! An access is computed in closed form, one step for each track that it touches:
//!
//! ```text
//! seek │ settle          ┐ the longer of the two, ┌ then for each further track:
//!      │ head switch ────┘ plus write settle      │ head switch or one-cylinder seek
//! initial rotational latency │ transfer │ … │ additional rotational latency │ transfer │ …
//! ```
//!
//! # Scope and limits
//! The time to switch heads does not depend on which heads; a seek that also switches heads takes the
//! longer of both. Settling is part of the seek curve. Thermal recalibration and retries are absent.

use std::sync::Arc;

use seeklab_core::{Angle, Duration, Instant, Location, RotationSpeed};

use super::layout::{Extent, Layout};
use super::mechanics::{Mechanics, Media, Position};
use super::params::MechanicsParameters;
use super::spindle::Spindle;
use crate::error::DescriptionError;

/// Nanoseconds after a sector's start within which the head still catches the sector. Without this
/// tolerance, the quantisation of time to whole nanoseconds would cost a turn.
const CATCH_NS: u64 = 4;

/// Place of the heads. The angle follows from the time alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arm {
    /// Cylinder under the arm.
    pub cylinder: u32,
    /// Active head.
    pub head: u32,
}

/// Parts of an access, without queueing, overheads and bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccessParts {
    /// Moving the arm, shortened by a negative write settle.
    pub seek: Duration,
    /// Extra settling.
    pub settle: Duration,
    /// Head switches as far as the seek beside them does not hide them.
    pub head_switch: Duration,
    /// Rotational latency.
    pub rotation: Duration,
    /// Passing over the sectors.
    pub transfer: Duration,
}

/// Passing over one extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// First block.
    pub lbn: u64,
    /// Blocks.
    pub blocks: u32,
    /// Time at which the first sector read begins to pass.
    pub start: Instant,
    /// Time at which the last sector read has passed.
    pub end: Instant,
    /// Blocks skipped at the front and read at the end (zero-latency access); else zero.
    pub wrapped: u32,
    /// Cylinder of the track.
    pub cylinder: u32,
    /// Zone of the track.
    pub zone: u32,
    /// Sectors from the first block to the last, slipped ones between included.
    pub span: u32,
}

impl Pass {
    /// The time `before` the pass ends.
    pub(super) fn end_less(&self, before: Duration) -> Instant {
        self.start + (self.end - self.start).saturating_sub(before)
    }

    const fn new(lbn: u64, extent: &Extent, start: Instant, end: Instant, wrapped: u32) -> Self {
        Self {
            lbn,
            blocks: extent.blocks,
            start,
            end,
            wrapped,
            cylinder: extent.cylinder,
            zone: extent.zone,
            span: extent.span,
        }
    }
}

/// The mechanics of a disk, prepared for fast queries.
#[derive(Debug, Clone)]
pub struct Mechanism {
    layout: Layout,
    spindle: Spindle,
    /// Seek time in nanoseconds by distance in cylinders.
    seek: Arc<[u32]>,
    /// Lower bound of the positioning time over at least as many cylinders as the index.
    positioning_min: Arc<[u32]>,
    head_switch: u32,
    /// Extra settle of a write in nanoseconds; negative shortens the seek.
    write_settle: i64,
    /// Time of a sector in units of 2⁻³² ns, by zone.
    sector_time: Vec<u64>,
}

/// Time of a sector in units of 2⁻³² ns, by zone.
fn sector_times(layout: &Layout, spindle: &Spindle) -> Vec<u64> {
    (0..layout.zone_count())
        .map(|zone| spindle.sector_time(u64::from(layout.sectors_per_track(zone as u32))))
        .collect()
}

/// Positioning onto a track.
#[derive(Debug, Clone, Copy)]
struct Positioned {
    seek: u64,
    settle: u64,
    head_switch: u64,
}

impl Mechanism {
    /// The mechanism with that layout and those parameters, turning at `speed`.
    ///
    /// # Errors
    /// Parameters that no disk can have.
    pub fn new(
        layout: Layout,
        cylinders: u32,
        parameters: &MechanicsParameters,
        speed: RotationSpeed,
    ) -> Result<Self, DescriptionError> {
        parameters.check()?;
        let seek = parameters.seek.tabulate(cylinders)?;
        let write_settle = parameters.write_settle.as_ns();
        let head_switch = u32::try_from(parameters.head_switch.as_ns()).map_err(|_| {
            DescriptionError::refused(
                "mechanics.head_switch",
                parameters.head_switch.to_string(),
                "at most 4294ms",
            )
        })?;
        let mut positioning_min = seek.clone();
        for index in (0..positioning_min.len().saturating_sub(1)).rev() {
            positioning_min[index] = positioning_min[index].min(positioning_min[index + 1]);
        }
        let shortened = u32::try_from((-write_settle).max(0)).unwrap_or(u32::MAX);
        positioning_min.iter_mut().for_each(|ns| *ns = ns.saturating_sub(shortened));
        if let Some(first) = positioning_min.first_mut() {
            *first = 0;
        }
        let start = Angle::from_turns(parameters.start_phase.as_f64());
        let spindle = Spindle::new(speed).with_start(start);
        let sector_time = sector_times(&layout, &spindle);
        let (seek, positioning_min) = (seek.into(), positioning_min.into());
        Ok(Self { layout, spindle, seek, positioning_min, head_switch, write_settle, sector_time })
    }

    /// The same mechanism turning at another speed; the seek times are shared.
    pub(super) fn at_speed(&self, speed: RotationSpeed) -> Self {
        let spindle = Spindle::new(speed).with_start(self.spindle.start());
        Self { spindle, sector_time: sector_times(&self.layout, &spindle), ..self.clone() }
    }

    /// Returns the layout of the blocks.
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the spindle, which gives the rotation of the platters.
    pub const fn spindle(&self) -> &Spindle {
        &self.spindle
    }

    /// Returns the place of block `lbn`.
    pub fn locate(&self, lbn: u64) -> Location {
        let extent = self.layout.extent(lbn, 1);
        Location { cylinder: extent.cylinder, head: extent.head, angle: extent.angle }
    }

    /// Seek or head switch, settle and rotational latency from `arm` at `now`.
    #[inline]
    pub fn positioning(&self, arm: Arm, now: Instant, location: &Location, write: bool) -> Duration {
        let there = now + self.positioned(arm, location.cylinder, location.head, write).total();
        (there + self.latency(there, location.angle)) - now
    }

    /// Lower bound of the positioning time over `cylinders` cylinders or more.
    pub fn positioning_min(&self, cylinders: u32) -> Duration {
        let last = self.positioning_min.len() - 1;
        Duration::from_ns(u64::from(self.positioning_min[(cylinders as usize).min(last)]))
    }

    /// Seek time over `cylinders` cylinders for a read.
    pub fn seek_time(&self, cylinders: u32) -> Duration {
        Duration::from_ns(u64::from(self.seek[cylinders as usize]))
    }

    /// Time for `sectors` sectors of a zone to pass, rounded to the nearest nanosecond.
    pub fn passing(&self, zone: u32, sectors: u32) -> Duration {
        Duration::from_ns((u64::from(sectors) * self.sector_time[zone as usize] + (1 << 31)) >> 32)
    }

    /// Returns the number of sectors of a zone that pass completely in `time`.
    pub fn passed(&self, zone: u32, time: Duration) -> u32 {
        let sectors = ((u128::from(time.as_ns()) + 1) << 32) / u128::from(self.sector_time[zone as usize]);
        u32::try_from(sectors).unwrap_or(u32::MAX)
    }

    /// Moves the arm onto the track of `extent`; returns when it is there and settled.
    pub fn move_to(
        &self,
        arm: &mut Arm,
        now: Instant,
        extent: &Extent,
        write: bool,
        parts: &mut AccessParts,
    ) -> Instant {
        let positioned = self.positioned(*arm, extent.cylinder, extent.head, write);
        parts.seek += Duration::from_ns(positioned.seek);
        parts.settle += Duration::from_ns(positioned.settle);
        parts.head_switch += Duration::from_ns(positioned.head_switch);
        *arm = Arm { cylinder: extent.cylinder, head: extent.head };
        now + positioned.total()
    }

    /// Passes over `extent`, first sector first, from `now` on its track.
    pub fn pass_in_order(&self, now: Instant, lbn: u64, extent: &Extent, parts: &mut AccessParts) -> Pass {
        let start = self.begins(now, extent.angle);
        let end = start + self.passing(extent.zone, extent.span);
        parts.rotation += start.saturating_since(now);
        parts.transfer += end - start.max(now);
        Pass::new(lbn, extent, start, end, 0)
    }

    /// Passes over `extent` from whichever of its sectors comes first after `now` on its track.
    pub fn pass_on_arrival(&self, now: Instant, lbn: u64, extent: &Extent, parts: &mut AccessParts) -> Pass {
        let sectors = u64::from(self.layout.sectors_per_track(extent.zone));
        let passed = self.spindle.angle_at(now) - extent.angle;
        let sector_time = self.sector_time[extent.zone as usize];
        // Sectors of the track that have begun to pass since the extent's first did.
        let passed_time = self.spindle.time_to_turn(passed).as_ns();
        let begun = ((u128::from(passed_time.saturating_sub(CATCH_NS)) << 32)
            .div_ceil(u128::from(sector_time))) as u64;
        if begun == 0 || begun >= u64::from(extent.span) || begun >= sectors {
            return self.pass_in_order(now, lbn, extent, parts);
        }
        let to_sector = self.passing(extent.zone, begun as u32).as_ns().saturating_sub(passed_time);
        let start = now + Duration::from_ns(to_sector);
        let end = start + self.spindle.period();
        let transfer = self.passing(extent.zone, extent.span);
        parts.transfer += transfer;
        parts.rotation += (end - now).saturating_sub(transfer);
        let wrapped = (begun as u32).min(extent.blocks);
        Pass::new(lbn, extent, start, end, wrapped)
    }

    /// Time until `angle` comes under the heads.
    #[inline]
    pub fn latency(&self, now: Instant, angle: Angle) -> Duration {
        let latency = self.spindle.time_to_turn(angle - self.spindle.angle_at(now));
        // A scheduler asks this for every pending request, and seldom within the tolerance.
        if latency.as_ns() + CATCH_NS < self.spindle.period().as_ns() {
            return latency;
        }
        self.begins(now, angle).saturating_since(now)
    }

    /// Time at which `angle` comes under the heads, or came within the tolerance before `now`. Times that
    /// follow from it stay exact, so that the tolerance is not used up over many sectors.
    fn begins(&self, now: Instant, angle: Angle) -> Instant {
        let latency = self.spindle.time_to_turn(angle - self.spindle.angle_at(now));
        let late = self.spindle.period().saturating_sub(latency);
        if late.as_ns() > CATCH_NS || late.as_ns() > now.as_ns() {
            return now + latency;
        }
        Instant::from_ns(now.as_ns() - late.as_ns())
    }

    fn positioned(&self, arm: Arm, cylinder: u32, head: u32, write: bool) -> Positioned {
        let seek = u64::from(self.seek[arm.cylinder.abs_diff(cylinder) as usize]);
        let head_switch = if arm.head == head { 0 } else { u64::from(self.head_switch).saturating_sub(seek) };
        let mut positioned = Positioned { seek, settle: 0, head_switch };
        if write && seek + head_switch > 0 {
            positioned.settle_write(self.write_settle);
        }
        positioned
    }
}

impl Position for Arm {
    fn cylinder(self) -> u32 {
        self.cylinder
    }

    fn head(self) -> u32 {
        self.head
    }
}

impl Media for Mechanism {
    fn blocks(&self) -> u64 {
        self.layout.blocks()
    }

    fn extent(&self, lbn: u64, blocks: u32) -> Extent {
        self.layout.extent(lbn, blocks)
    }

    fn track_bounds(&self, lbn: u64) -> (u64, u64) {
        self.layout.track_bounds(lbn)
    }

    fn sectors_per_track(&self, zone: u32) -> u32 {
        self.layout.sectors_per_track(zone)
    }

    fn period(&self) -> Duration {
        self.spindle.period()
    }

    fn latency(&self, now: Instant, angle: Angle) -> Duration {
        Self::latency(self, now, angle)
    }

    fn begins(&self, now: Instant, angle: Angle) -> Instant {
        Self::begins(self, now, angle)
    }

    fn passing(&self, zone: u32, sectors: u32) -> Duration {
        Self::passing(self, zone, sectors)
    }

    fn passed(&self, zone: u32, time: Duration) -> u32 {
        Self::passed(self, zone, time)
    }

    fn pass_in_order(&self, now: Instant, lbn: u64, extent: &Extent, parts: &mut AccessParts) -> Pass {
        Self::pass_in_order(self, now, lbn, extent, parts)
    }

    fn pass_on_arrival(&self, now: Instant, lbn: u64, extent: &Extent, parts: &mut AccessParts) -> Pass {
        Self::pass_on_arrival(self, now, lbn, extent, parts)
    }
}

impl Mechanics<Arm> for Mechanism {
    fn move_to(
        &self,
        arm: &mut Arm,
        now: Instant,
        extent: &Extent,
        write: bool,
        parts: &mut AccessParts,
    ) -> Instant {
        Self::move_to(self, arm, now, extent, write, parts)
    }
}

impl Positioned {
    fn settle_write(&mut self, write_settle: i64) {
        if write_settle >= 0 {
            self.settle = write_settle as u64;
            return;
        }
        let shorten = write_settle.unsigned_abs();
        let from_seek = shorten.min(self.seek);
        self.seek -= from_seek;
        self.head_switch = self.head_switch.saturating_sub(shorten - from_seek);
    }

    const fn total(self) -> Duration {
        Duration::from_ns(self.seek + self.settle + self.head_switch)
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Operation, Request, Seed};

    use super::*;
    use crate::catalog;

    #[test]
    fn contiguous_requests_lose_no_turn_to_rounding() {
        let disk = catalog::find("nearline-7200").unwrap().bare().unwrap();
        let mut device = disk.build(Seed(1), "disk0").unwrap();
        let (mut now, mut completions) = (Instant::ZERO, Vec::new());
        for id in 0..5_000 {
            device.submit(now, Request::new(id, Operation::Read, 4_085_363_371 + 16 * id, 16)).unwrap();
            now = device.next_event().unwrap();
            device.poll(now, &mut completions);
            let rotation = completions.pop().unwrap().breakdown.rotation;
            assert!(id == 0 || rotation < Duration::from_ms(1), "request {id}: {rotation}");
        }
    }

    #[test]
    fn start_phase_is_the_angle_under_the_heads_at_time_zero() {
        let latency = |phase: &str, rpm_error: &str| {
            let mut disk = catalog::find("nearline-7200").unwrap().bare().unwrap();
            disk.set("start_phase", phase).unwrap();
            disk.set("rpm_error", rpm_error).unwrap();
            let device = disk.build(Seed(1), "disk0").unwrap();
            let positioning = device.positioning().unwrap();
            let first = positioning.locate(&Request::new(0, Operation::Read, 0, 1));
            positioning.positioning_time(Instant::ZERO, Operation::Read, &first).as_ms()
        };
        // The speed that a drive draws moves the times, not the angle.
        let drawn_turn_ms = latency("1/2", "20%") * 2.0;
        let faster = 60_000.0 / 7_200.0 / drawn_turn_ms - 1.0;
        assert!((0.001..0.2).contains(&faster.abs()), "{drawn_turn_ms} ms");
        for (rpm_error, turn_ms) in [("0%", 60_000.0 / 7_200.0), ("20%", drawn_turn_ms)] {
            for (phase, turns) in [("0", 0.0), ("1/4", 0.75), ("87.5%", 0.125)] {
                let found_ms = latency(phase, rpm_error);
                assert!((found_ms - turns * turn_ms).abs() < 1e-5, "{phase}, {rpm_error}: {found_ms} ms");
            }
        }
    }

    #[test]
    fn write_settles_only_after_a_movement() {
        let disk = catalog::find("nearline-7200").unwrap().bare().unwrap();
        let device = disk.build(Seed(1), "disk0").unwrap();
        let positioning = device.positioning().unwrap();
        let at = |lbn| positioning.locate(&Request::new(0, Operation::Read, lbn, 1));
        let time = |now: u64, op, lbn| positioning.positioning_time(Instant::from_ns(now), op, &at(lbn));
        let (read, write) = (Operation::Read, Operation::Write);
        assert_eq!(positioning.cylinder(), at(0).cylinder, "the arm rests over the first track");
        let turn = Duration::from_us(8_334);
        let mut settled = 0;
        for step in 0..1_000 {
            let now = step * 123_457;
            // Within the settling time the sector can pass, where the heads moved at all.
            assert_eq!(time(now, write, 5), time(now, read, 5), "at {now} ns on the same track");
            let (slow, fast) = (time(now, write, 500_000), time(now, read, 500_000));
            assert!(slow >= fast && slow <= fast + turn + Duration::from_us(1), "{slow} {fast}");
            settled += u64::from(slow > fast);
        }
        assert!((20..200).contains(&settled), "{settled} of 1,000 writes missed their sector: 0.8 of 8.3 ms");
    }
}
