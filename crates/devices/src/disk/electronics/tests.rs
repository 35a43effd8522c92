//! Controllers over mechanics that are no disk.

use seeklab_core::{Angle, Duration, Seed};

use super::*;
use crate::catalog;
use crate::disk::layout::Extent;
use crate::disk::mechanics::Media;
use crate::disk::mechanism::{AccessParts, Pass};
use crate::disk::params::DiskParameters;

/// Blocks on each track of the sled.
const TRACK: u64 = 100;
const BLOCKS: u64 = 100_000;
const BLOCK_TIME: Duration = Duration::from_us(2);

/// A sled that moves along tracks: it turns round in no time and can begin to read at any place.
struct Sled;

/// Track of the tips, and whether they move towards its end.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Tips {
    track: u32,
    is_forward: bool,
}

impl Position for Tips {
    fn cylinder(self) -> u32 {
        self.track
    }
    fn head(self) -> u32 {
        0
    }
}

impl Media for Sled {
    fn blocks(&self) -> u64 {
        BLOCKS
    }
    fn extent(&self, lbn: u64, blocks: u32) -> Extent {
        let sector = lbn % TRACK;
        let blocks_here = u64::from(blocks).min(TRACK - sector) as u32;
        Extent {
            cylinder: (lbn / TRACK) as u32,
            head: 0,
            sector: sector as u32,
            blocks: blocks_here,
            span: blocks_here,
            to_track_end: sector + u64::from(blocks_here) == TRACK,
            zone: 0,
            angle: Angle::default(),
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
        BLOCK_TIME * TRACK
    }
    fn latency(&self, _now: Instant, _angle: Angle) -> Duration {
        Duration::ZERO
    }
    fn passing(&self, _zone: u32, sectors: u32) -> Duration {
        BLOCK_TIME * u64::from(sectors)
    }
    fn passed(&self, _zone: u32, time: Duration) -> u32 {
        (time.as_ns() / BLOCK_TIME.as_ns()) as u32
    }
    fn pass_in_order(&self, now: Instant, lbn: u64, extent: &Extent, parts: &mut AccessParts) -> Pass {
        let transfer = self.passing(0, extent.span);
        parts.transfer += transfer;
        Pass {
            lbn,
            blocks: extent.blocks,
            start: now,
            end: now + transfer,
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

impl Mechanics<Tips> for Sled {
    fn move_to(
        &self,
        arm: &mut Tips,
        now: Instant,
        extent: &Extent,
        _write: bool,
        parts: &mut AccessParts,
    ) -> Instant {
        let seek = Duration::from_us(u64::from(arm.track.abs_diff(extent.cylinder)));
        parts.seek += seek;
        *arm = Tips { track: extent.cylinder, is_forward: !arm.is_forward };
        now + seek
    }
}

#[test]
fn every_controller_drives_a_sled() {
    for (name, controller) in [
        ("hp-c2247a", "direct"),
        ("hp-c2247a", "segmented"),
        ("barracuda", "streaming"),
        ("atlas10k", "track_buffer"),
    ] {
        let device = catalog::find(name).unwrap();
        let device = if controller == "direct" { device.bare().unwrap() } else { device };
        let table: toml::Table = device.to_toml().parse().unwrap();
        assert_eq!(table["electronics"]["controller"].as_str(), Some(controller), "{name}");
        let mut disk = toml::Table::new();
        for key in ["geometry", "mechanics", "electronics", "queue"] {
            disk.insert(key.to_owned(), table[key].clone());
        }
        let disk: DiskParameters = disk.try_into().unwrap();
        let mut electronics = Electronics::<Tips>::new(&disk).unwrap();
        let mut stream = Seed(1).stream("sled");
        let (mut now, mut seeks) = (Instant::ZERO, 0);
        for id in 0..1_000 {
            let op = Operation::ALL[stream.below(Operation::ALL.len() as u64) as usize];
            let blocks = 1 + stream.below(150) as u32;
            let request = Request::new(id, op, stream.below(BLOCKS - u64::from(blocks)), blocks);
            electronics.holds(&Sled, &request);
            assert!(electronics.arm_moves_at(now, op) >= now);
            let served = electronics.serve(&Sled, now, &request);
            assert_eq!(served.breakdown.service(), served.completed - now, "{name}: {request:?}");
            seeks += u64::from(served.seek_cylinders > 0);
            now = served.free.max(served.completed);
        }
        assert!(seeks > 100, "{name}: {seeks}");
        assert_ne!(electronics.arm(), Tips::default());
    }
}
