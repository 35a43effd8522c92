//! The mapping between logical blocks and places on the media.
//!
//! Each zone is a function from the zone's data blocks to its sectors that ascends with gaps:
//! spare sectors end each *region* (a track, a cylinder, a range of cylinders or the zone), and each
//! slipped defect pushes the rest of its region on. Both directions are closed forms over sorted
//! breakpoints; nothing walks sector by sector.
//!
//! ```text
//! lbn ─▶ data block of the zone ─▶ region, block in region ─▶ + slips before it ─▶ sector of the zone
//!     ─▶ track, sector of the track ─▶ cylinder, head ─▶ angle (zone offset + skews)
//! ```
//!
//! # References
//! The semantics are DiskSim 4's, as restated and checked in `../shared/reference/disksim/README.md`.

use seeklab_core::Angle;

use super::divisor::Divisor;
use super::geometry::{Geometry, Mapping, Sparing, ZoneParameters};
use crate::error::{ParameterError, check};

/// Blocks that lie one behind the other on one track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Cylinder of the track, from the outer edge.
    pub cylinder: u32,
    /// Head of the track.
    pub head: u32,
    /// Sector of the first block on its track.
    pub sector: u32,
    /// Logical blocks in the extent.
    pub blocks: u32,
    /// Sectors from the first block to the last, slipped ones between included.
    pub span: u32,
    /// True if the extent is everything of its track that holds logical blocks from its start on.
    pub to_track_end: bool,
    /// Index of the zone.
    pub zone: u32,
    /// Angle at which the first block begins.
    pub angle: Angle,
}

/// A physical sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalBlock {
    /// Cylinder, from the outer edge.
    pub cylinder: u32,
    /// Head.
    pub head: u32,
    /// Sector on the track.
    pub sector: u32,
}

/// The layout of a disk, prepared for fast queries.
#[derive(Debug, Clone)]
pub struct Layout {
    zones: Vec<Zone>,
    heads: Divisor,
    mapping: Mapping,
    blocks: u64,
}

#[derive(Debug, Clone)]
struct Zone {
    first_lbn: u64,
    /// Logical blocks of the zone.
    blocks: u64,
    first_cylinder: u64,
    cylinders: u64,
    sectors_per_track: Divisor,
    sector_angle: u64,
    first_block_offset: u64,
    reserved_blocks: u64,
    track_skew: u64,
    cylinder_skew: u64,
    region_sectors: Divisor,
    region_blocks: Divisor,
    /// `(data block, shift)`: from that data block of the zone on, sectors lie `shift` further.
    breaks: Vec<(u64, u64)>,
    /// First sectors of what is slipped, ascending, and how many sectors each slip takes.
    slips: Vec<u64>,
    slip_sectors: u64,
    slip_skew: SlipSkew,
    /// `(data block, sector used instead)`, ascending.
    remaps: Vec<(u64, u64)>,
}

impl Layout {
    /// The layout of that geometry.
    ///
    /// # Errors
    /// A geometry that no disk can have, or whose zones hold fewer blocks than its capacity.
    pub fn new(geometry: &Geometry) -> Result<Self, ParameterError> {
        geometry.check()?;
        let mut zones = Vec::with_capacity(geometry.zones.len());
        let mut first_lbn = 0;
        for (index, parameters) in geometry.zones.iter().enumerate() {
            let zone = Zone::new(geometry, parameters, first_lbn)
                .map_err(|error| error.within(&format!("zones[{index}]")))?;
            first_lbn += zone.blocks;
            zones.push(zone);
        }
        check(
            (1..=first_lbn).contains(&geometry.capacity_blocks),
            "capacity_blocks",
            geometry.capacity_blocks.to_string(),
            format!("1 to {first_lbn}, which is what the zones hold"),
        )?;
        Ok(Self {
            zones,
            heads: Divisor::new(u64::from(geometry.surfaces)),
            mapping: geometry.mapping,
            blocks: first_lbn,
        })
    }

    /// Logical blocks that the zones hold; a drive may report fewer.
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Sectors on each track of a zone.
    pub fn sectors_per_track(&self, zone: u32) -> u32 {
        self.zones[zone as usize].sectors_per_track.get() as u32
    }

    /// Returns the number of zones.
    pub fn zone_count(&self) -> usize {
        self.zones.len()
    }

    /// The longest run of at most `blocks` blocks from `lbn` that lies on one track.
    ///
    /// # Panics
    /// If `lbn` lies beyond the zones or `blocks` is zero.
    pub fn extent(&self, lbn: u64, blocks: u32) -> Extent {
        debug_assert!(blocks > 0 && lbn < self.blocks);
        let zone_index = self.zone_of(lbn);
        let zone = &self.zones[zone_index];
        let data_block = lbn - zone.first_lbn + zone.reserved_blocks;
        let (run, first) =
            if zone.remaps.is_empty() { zone.run(data_block) } else { zone.run_with_remaps(data_block) };
        let in_zone = zone.blocks - (lbn - zone.first_lbn);
        let available = u64::from(run.blocks).min(in_zone);
        let to_track_end = u64::from(blocks) >= available;
        let blocks = u64::from(blocks).min(available);
        let span = if blocks == u64::from(run.blocks) {
            u64::from(run.span)
        } else if run.span == run.blocks {
            blocks
        } else {
            zone.sector_of(data_block + blocks - 1) + 1 - first
        };
        let (track, sector) = zone.sectors_per_track.div_rem(first);
        let (cylinder, logical_head) = self.heads.div_rem(track);
        let angle = zone.angle(track, cylinder, logical_head, sector, self.heads.get());
        Extent {
            cylinder: (zone.first_cylinder + cylinder) as u32,
            head: self.head(zone, cylinder, logical_head) as u32,
            sector: sector as u32,
            blocks: blocks as u32,
            span: span as u32,
            to_track_end,
            zone: zone_index as u32,
            angle,
        }
    }

    /// First block of the track that holds `lbn` and the block after its last.
    ///
    /// # Panics
    /// If `lbn` lies beyond the zones.
    pub fn track_bounds(&self, lbn: u64) -> (u64, u64) {
        let zone = &self.zones[self.zone_of(lbn)];
        let data_block = lbn - zone.first_lbn + zone.reserved_blocks;
        let sectors = zone.sectors_per_track.get();
        let track_start = zone.sector_of(data_block) / sectors * sectors;
        let first = zone.data_blocks_before(track_start).max(zone.reserved_blocks);
        let end = zone.data_blocks_before(track_start + sectors).min(zone.reserved_blocks + zone.blocks);
        (first - zone.reserved_blocks + zone.first_lbn, end - zone.reserved_blocks + zone.first_lbn)
    }

    /// Every whole track below `capacity_blocks`: its first block and how many it has.
    pub fn tracks(&self, capacity_blocks: u64) -> Vec<(u64, u32)> {
        let mut tracks = Vec::new();
        let mut lbn = 0;
        while lbn < capacity_blocks.min(self.blocks) {
            let (first, end) = self.track_bounds(lbn);
            if end <= capacity_blocks {
                tracks.push((first, (end - first) as u32));
            }
            lbn = end;
        }
        tracks
    }

    /// Returns the place of `lbn`.
    ///
    /// # Panics
    /// If `lbn` lies beyond the zones.
    pub fn physical(&self, lbn: u64) -> PhysicalBlock {
        let extent = self.extent(lbn, 1);
        PhysicalBlock { cylinder: extent.cylinder, head: extent.head, sector: extent.sector }
    }

    /// Returns the logical block at a place; `None` for spares, slipped and reserved sectors, and places
    /// that the disk does not have.
    pub fn logical(&self, place: PhysicalBlock) -> Option<u64> {
        let cylinder = u64::from(place.cylinder);
        let zone = self
            .zones
            .iter()
            .find(|zone| (zone.first_cylinder..zone.first_cylinder + zone.cylinders).contains(&cylinder))?;
        let sectors = zone.sectors_per_track.get();
        if u64::from(place.head) >= self.heads.get() || u64::from(place.sector) >= sectors {
            return None;
        }
        let relative = cylinder - zone.first_cylinder;
        let logical_head = self.head(zone, relative, u64::from(place.head));
        let sector = (relative * self.heads.get() + logical_head) * sectors + u64::from(place.sector);
        let data_block = zone.data_block_at(sector)?;
        (data_block >= zone.reserved_blocks && data_block - zone.reserved_blocks < zone.blocks)
            .then(|| data_block - zone.reserved_blocks + zone.first_lbn)
    }

    fn zone_of(&self, lbn: u64) -> usize {
        self.zones.partition_point(|zone| zone.first_lbn <= lbn) - 1
    }

    /// Physical head of a logical one, or the reverse: the mapping is its own inverse.
    fn head(&self, zone: &Zone, cylinder: u64, head: u64) -> u64 {
        let reversed = match self.mapping {
            Mapping::Normal => false,
            Mapping::SerpentinePerZone => cylinder % 2 == 1,
            Mapping::Serpentine => (cylinder + zone.first_cylinder) % 2 == 1,
        };
        if reversed { self.heads.get() - 1 - head } else { head }
    }
}

/// Tracks of a zone that begin one sector later for each slip before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlipSkew {
    None,
    /// Tracks behind that of the slip.
    LaterTracks,
    /// Tracks of the cylinders behind that of the slip.
    LaterCylinders,
}

impl SlipSkew {
    /// Returns the tracks that a slip pushes in DiskSim's model of `sparing`.
    const fn of(sparing: Sparing) -> Self {
        match sparing {
            Sparing::SectorsPerTrack => Self::LaterTracks,
            Sparing::SectorsPerCylinder => Self::LaterCylinders,
            _ => Self::None,
        }
    }
}

/// Blocks of a run and the sectors that they span.
struct Run {
    blocks: u32,
    span: u32,
}

impl Zone {
    fn new(geometry: &Geometry, parameters: &ZoneParameters, first_lbn: u64) -> Result<Self, ParameterError> {
        let sectors_per_track = u64::from(parameters.sectors_per_track);
        let track_sectors = sectors_per_track;
        let cylinder_sectors = track_sectors * u64::from(geometry.surfaces);
        let cylinders = parameters.cylinders();
        let zone_sectors = cylinder_sectors * cylinders;
        let spares = u64::from(parameters.spares);
        let slip_sectors = if geometry.sparing == Sparing::TracksAtZoneEnd { track_sectors } else { 1 };
        // Sectors of a region, and how many of them are spare.
        let (region, region_spares) = match geometry.sparing {
            Sparing::None => (zone_sectors, 0),
            Sparing::TracksAtZoneEnd => (zone_sectors, spares * track_sectors),
            Sparing::SectorsPerCylinder => (cylinder_sectors, spares),
            Sparing::SectorsPerTrack => (track_sectors, spares),
            Sparing::SectorsAtDiskEnd => (zone_sectors, parameters.slips.len() as u64),
            Sparing::SectorsPerCylinderRange => {
                (cylinder_sectors * u64::from(geometry.sparing_range), spares)
            }
            Sparing::SectorsAtZoneEnd => (zone_sectors, spares),
        };
        check(
            region_spares < region.min(zone_sectors),
            "spares",
            format!("{spares} spares leave no data"),
            format!("fewer than the {region} sectors of their region"),
        )?;
        let region_blocks = region - region_spares;
        // A last region that the zone cuts short keeps its data; its spares would lie beyond.
        let whole_regions = zone_sectors / region;
        let data = whole_regions * region_blocks + (zone_sectors % region).min(region_blocks);
        check(
            parameters.reserved_blocks < data,
            "reserved_blocks",
            parameters.reserved_blocks.to_string(),
            format!("fewer than the {data} data blocks of the zone"),
        )?;
        let slips: Vec<u64> = parameters.slips.iter().map(|slip| slip * slip_sectors).collect();
        let mut region_of_slip = (u64::MAX, 0);
        for slip in &slips {
            let index = slip / region;
            region_of_slip = if region_of_slip.0 == index {
                (index, region_of_slip.1 + slip_sectors)
            } else {
                (index, slip_sectors)
            };
            check(
                region_of_slip.1 <= region_spares,
                "slips",
                format!("slip {} is one too many for the spares of its place", slip / slip_sectors),
                format!("at most {} slips for each place with {spares} spares", region_spares / slip_sectors),
            )?;
        }
        let mut zone = Self {
            first_lbn,
            blocks: data - parameters.reserved_blocks,
            first_cylinder: u64::from(parameters.first_cylinder),
            cylinders,
            sectors_per_track: Divisor::new(sectors_per_track),
            sector_angle: u64::MAX / sectors_per_track,
            first_block_offset: u64::from(parameters.first_block_offset),
            reserved_blocks: parameters.reserved_blocks,
            track_skew: u64::from(parameters.track_skew),
            cylinder_skew: u64::from(parameters.cylinder_skew),
            region_sectors: Divisor::new(region),
            region_blocks: Divisor::new(region_blocks),
            breaks: Vec::new(),
            slips,
            slip_sectors,
            slip_skew: SlipSkew::of(geometry.sparing),
            remaps: Vec::new(),
        };
        zone.breaks = zone.find_breaks();
        zone.remaps = zone.find_remaps(parameters)?;
        let last = zone.sector_of(data - 1);
        check(
            last < zone_sectors,
            "slips",
            format!("{} slips push the last block out of the zone", parameters.slips.len()),
            format!("at most the zone's spares ({spares})"),
        )?;
        Ok(zone)
    }

    /// Data blocks at which the shift between data blocks and sectors changes.
    fn find_breaks(&self) -> Vec<(u64, u64)> {
        let mut breaks = Vec::new();
        let mut open_region = None;
        let mut shift = 0;
        for slip in &self.slips {
            let (region, in_region) = self.region_sectors.div_rem(*slip);
            if open_region != Some(region) {
                if let Some(last) = open_region {
                    breaks.push(((last + 1) * self.region_blocks.get(), 0));
                }
                open_region = Some(region);
                shift = 0;
            }
            let block_in_region = in_region - shift;
            if block_in_region >= self.region_blocks.get() {
                continue; // a slip among the spares pushes nothing
            }
            shift += self.slip_sectors;
            let block = region * self.region_blocks.get() + block_in_region;
            match breaks.last_mut() {
                Some((last, last_shift)) if *last == block => *last_shift = shift,
                _ => breaks.push((block, shift)),
            }
        }
        if let Some(last) = open_region {
            breaks.push(((last + 1) * self.region_blocks.get(), 0));
        }
        breaks
    }

    fn find_remaps(&self, parameters: &ZoneParameters) -> Result<Vec<(u64, u64)>, ParameterError> {
        let mut remaps = Vec::new();
        for (from, to) in &parameters.remaps {
            if from == to {
                continue;
            }
            let block = self.data_block_at(*from).ok_or_else(|| {
                ParameterError::new("remaps", format!("sector {from} holds no data"), "defects hold data")
            })?;
            check(
                self.data_block_at(*to).is_none_or(|block| block >= self.reserved_blocks + self.blocks),
                "remaps",
                format!("sector {to} holds data"),
                "defects are remapped to spare sectors",
            )?;
            remaps.push((block, *to));
        }
        Ok(remaps)
    }

    /// Sector of a data block, remapped defects aside.
    fn sector_of(&self, block: u64) -> u64 {
        let (region, in_region) = self.region_blocks.div_rem(block);
        region * self.region_sectors.get() + in_region + self.shift_at(block)
    }

    fn shift_at(&self, block: u64) -> u64 {
        match self.breaks.partition_point(|(from, _)| *from <= block) {
            0 => 0,
            index => self.breaks[index - 1].1,
        }
    }

    /// Data blocks that lie before a sector, remapped defects aside.
    fn data_blocks_before(&self, sector: u64) -> u64 {
        let (region, in_region) = self.region_sectors.div_rem(sector);
        let region_start = region * self.region_sectors.get();
        let first = self.slips.partition_point(|slip| *slip < region_start);
        let slipped: u64 = self.slips[first..]
            .iter()
            .take_while(|slip| **slip < sector)
            .map(|slip| self.slip_sectors.min(sector - slip))
            .sum();
        region * self.region_blocks.get() + (in_region - slipped).min(self.region_blocks.get())
    }

    /// The data block at a sector, if it holds one.
    fn data_block_at(&self, sector: u64) -> Option<u64> {
        if let Some((block, _)) = self.remaps.iter().find(|(_, to)| *to == sector) {
            return Some(*block);
        }
        let block = self.data_blocks_before(sector);
        let holds_it = block < self.data_blocks_before(sector + 1);
        (holds_it && self.remaps.binary_search_by_key(&block, |(from, _)| *from).is_err()).then_some(block)
    }

    /// Blocks from `block` to the end of its track, and the sector at which they begin.
    fn run(&self, block: u64) -> (Run, u64) {
        let (region, in_region) = self.region_blocks.div_rem(block);
        let index = self.breaks.partition_point(|(from, _)| *from <= block);
        let shift = if index == 0 { 0 } else { self.breaks[index - 1].1 };
        let first = region * self.region_sectors.get() + in_region + shift;
        let (_, on_track) = self.sectors_per_track.div_rem(first);
        let to_track_end = self.sectors_per_track.get() - on_track;
        let to_region_end = self.region_blocks.get() - in_region;
        let mut blocks = to_track_end.min(to_region_end);
        let mut span = blocks;
        for (from, shift_after) in &self.breaks[index..] {
            let before = from - block;
            if before >= blocks || before >= to_region_end {
                break;
            }
            // The blocks from this break on lie further along; those past the track's end drop out.
            let pushed = shift_after - shift;
            let fitting = to_track_end.saturating_sub(pushed).max(before).min(to_region_end);
            if fitting == before {
                (blocks, span) =
                    (before, if before == 0 { 0 } else { self.sector_of(block + before - 1) + 1 - first });
                break;
            }
            (blocks, span) = (fitting, fitting + pushed);
        }
        (Run { blocks: blocks as u32, span: span as u32 }, first)
    }

    /// As [`run`](Self::run), ending before a remapped block or being that block alone.
    fn run_with_remaps(&self, block: u64) -> (Run, u64) {
        let index = self.remaps.partition_point(|(from, _)| *from < block);
        match self.remaps.get(index) {
            Some((from, to)) if *from == block => (Run { blocks: 1, span: 1 }, *to),
            next => {
                let (run, first) = self.run(block);
                let limit = next.map_or(u64::MAX, |(from, _)| from - block);
                if u64::from(run.blocks) <= limit {
                    return (run, first);
                }
                let span = self.sector_of(block + limit - 1) + 1 - first;
                (Run { blocks: limit as u32, span: span as u32 }, first)
            }
        }
    }

    fn angle(&self, track: u64, cylinder: u64, logical_head: u64, sector: u64, heads: u64) -> Angle {
        let mut sectors = self.first_block_offset
            + (logical_head + (heads - 1) * cylinder) * self.track_skew
            + cylinder * self.cylinder_skew;
        let first_track = match self.slip_skew {
            SlipSkew::None => None,
            SlipSkew::LaterTracks => Some(track),
            SlipSkew::LaterCylinders => Some(cylinder * heads),
        };
        if let Some(first_track) = first_track {
            let start = first_track * self.sectors_per_track.get();
            sectors += self.slips.partition_point(|slip| *slip < start) as u64;
        }
        let (_, offset) = self.sectors_per_track.div_rem(sectors + sector);
        Angle::from_raw(offset * self.sector_angle)
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
