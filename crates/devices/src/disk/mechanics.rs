//! The mechanics that a controller drives: a disk's arm and platters, or a sled over its media.

use std::fmt;

use seeklab_core::{Angle, Duration, Instant};

use super::layout::Extent;
use super::mechanism::{AccessParts, Pass};

/// Position of the heads, as far as it does not follow from the time alone.
pub(crate) trait Position: Copy + Default + PartialEq + fmt::Debug {
    /// Cylinder under the heads.
    fn cylinder(self) -> u32;

    /// Active head, or group of heads.
    fn head(self) -> u32;
}

/// Media that pass under heads: where blocks lie, and how long they take to pass.
pub(crate) trait Media {
    /// Logical blocks on the media.
    fn blocks(&self) -> u64;

    /// The longest run of at most `blocks` blocks from `lbn` that lies on one track.
    fn extent(&self, lbn: u64, blocks: u32) -> Extent;

    /// First block of the track that holds `lbn` and the block after its last.
    fn track_bounds(&self, lbn: u64) -> (u64, u64);

    /// Sectors on each track of a zone.
    fn sectors_per_track(&self, zone: u32) -> u32;

    /// Time after which a track passes again.
    fn period(&self) -> Duration;

    /// Time until `angle` comes under the heads.
    fn latency(&self, now: Instant, angle: Angle) -> Duration;

    /// Time at which `angle` comes under the heads, or came just before `now` if the heads still catch it.
    fn begins(&self, now: Instant, angle: Angle) -> Instant {
        now + self.latency(now, angle)
    }

    /// Time for `sectors` sectors of a zone to pass.
    fn passing(&self, zone: u32, sectors: u32) -> Duration;

    /// Sectors of a zone that pass completely in `time`.
    fn passed(&self, zone: u32, time: Duration) -> u32;

    /// Passes over `extent`, first sector first, from `now` on its track.
    fn pass_in_order(&self, now: Instant, lbn: u64, extent: &Extent, parts: &mut AccessParts) -> Pass;

    /// Passes over `extent` from whichever of its sectors comes first after `now` on its track.
    fn pass_on_arrival(&self, now: Instant, lbn: u64, extent: &Extent, parts: &mut AccessParts) -> Pass;

    /// The controller has blocks `start..end` of the write at hand, which it is about to write or keeps for later.
    fn note_taken_in(&self, _start: u64, _end: u64) {}

    /// The heads write the blocks of `pass`.
    fn note_written(&self, _pass: &Pass) {}
}

/// Media with heads that move to a track.
pub(crate) trait Mechanics<P: Position>: Media {
    /// Moves the heads onto the track of `extent`; returns when they are there and settled.
    fn move_to(
        &self,
        arm: &mut P,
        now: Instant,
        extent: &Extent,
        write: bool,
        parts: &mut AccessParts,
    ) -> Instant;

    /// Accesses `blocks` blocks from `lbn`, starting at `now`: moves `arm`, adds to `parts`, shows each
    /// pass to `see` and returns when the last sector has passed.
    ///
    /// With `zero_latency` each track is accessed on arrival: a head that lands within the wanted
    /// sectors takes them from there, and the front when it comes around.
    #[expect(clippy::too_many_arguments, reason = "one access has this many aspects; all are distinct types")]
    fn access(
        &self,
        arm: &mut P,
        now: Instant,
        lbn: u64,
        blocks: u32,
        write: bool,
        zero_latency: bool,
        parts: &mut AccessParts,
        mut see: impl FnMut(Pass),
    ) -> Instant {
        let mut time = now;
        let (mut next, mut left) = (lbn, blocks);
        while left > 0 {
            let extent = self.extent(next, left);
            time = self.move_to(arm, time, &extent, write, parts);
            let pass = if zero_latency {
                self.pass_on_arrival(time, next, &extent, parts)
            } else {
                self.pass_in_order(time, next, &extent, parts)
            };
            if write {
                self.note_written(&pass);
            }
            see(pass);
            time = pass.end;
            next += u64::from(extent.blocks);
            left -= extent.blocks;
        }
        time
    }
}
