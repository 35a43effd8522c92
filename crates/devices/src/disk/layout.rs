//! The mapping between logical blocks and places on the media.
//!
//! A zone uses its tracks in an [order](super::tracks), which numbers its sectors. Each zone is a
//! function from the zone's data blocks to its sectors that ascends with gaps: spare sectors end each
//! *region* (a track, a cylinder, a range of cylinders or the zone), and each slipped defect pushes the
//! rest of its region on. Both directions are closed forms over sorted breakpoints; nothing walks sector
//! by sector.
//!
//! ```text
//! lbn ─▶ data block of the zone ─▶ region, block in region ─▶ + slips before it ─▶ sector of the zone
//!     ─▶ track, sector of the track ─▶ cylinder, head ─▶ angle (sum of steps)
//! ```
//!
//! # References
//! The semantics are DiskSim 4's, as restated and checked in `../shared/reference/disksim/README.md`.

use seeklab_core::Angle;

use super::angles::{TrackAngles, Turns};
use super::divisor::Divisor;
use super::geometry::{Geometry, Sparing, ZoneParameters};
use super::tracks::{Spot, TrackOrder};
use crate::error::{DescriptionError, check};

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
    /// Index of the zone; where the sectors per track differ by surface, each surface of a zone has its own.
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
    /// First block of each zone.
    first_lbns: Vec<u64>,
    /// Sectors on each track, by the index that extents have.
    sectors_per_track: Vec<u32>,
    blocks: u64,
}

#[derive(Debug, Clone)]
struct Zone {
    first_lbn: u64,
    /// Logical blocks of the zone.
    blocks: u64,
    first_cylinder: u64,
    cylinders: u64,
    surfaces: u32,
    /// Index of the zone, or of its first surface if surfaces differ, and whether they do.
    index: u32,
    surfaces_differ: bool,
    tracks: TrackOrder,
    reserved_blocks: u64,
    angles: TrackAngles,
    region_sectors: Divisor,
    region_blocks: Divisor,
    /// `(data block, shift)`: from that data block of the zone on, sectors lie `shift` further.
    breaks: Vec<(u64, u64)>,
    /// First sectors of what is slipped, ascending.
    slips: Vec<u64>,
    /// Sectors that the slips before each take, and at the end those that all take.
    slipped: Vec<u64>,
    slip_skew: SlipSkew,
    /// `(data block, sector used instead)`, ascending.
    remaps: Vec<(u64, u64)>,
}

impl Layout {
    /// The layout of that geometry.
    ///
    /// # Errors
    /// A geometry that no disk can have, or whose zones hold fewer blocks than its capacity.
    pub fn new(geometry: &Geometry) -> Result<Self, DescriptionError> {
        geometry.check()?;
        let mut zones = Vec::with_capacity(geometry.zones.len());
        let mut sectors_per_track = Vec::with_capacity(geometry.zones.len());
        let (mut first_lbn, mut last_angle) = (0, None);
        for (index, parameters) in geometry.zones.iter().enumerate() {
            let start = ZoneStart { lbn: first_lbn, index: sectors_per_track.len() as u32, last_angle };
            let zone = Zone::new(geometry, parameters, &start)
                .map_err(|error| error.under(&format!("zones[{index}]")))?;
            first_lbn += zone.blocks;
            let last_track = zone.tracks.spot(zone.tracks.start(zone.tracks.tracks() - 1));
            last_angle = Some(zone.angles.of_sector(last_track));
            let differing = if zone.surfaces_differ { geometry.surfaces } else { 1 };
            sectors_per_track.extend((0..differing).map(|head| parameters.sectors_on(head)));
            zones.push(zone);
        }
        check(
            (1..=first_lbn).contains(&geometry.capacity_blocks),
            "capacity_blocks",
            geometry.capacity_blocks.to_string(),
            format!("1 to {first_lbn}, which is what the zones hold"),
        )?;
        let first_lbns = zones.iter().map(|zone| zone.first_lbn).collect();
        Ok(Self { zones, first_lbns, sectors_per_track, blocks: first_lbn })
    }

    /// Logical blocks that the zones hold; a drive may report fewer.
    pub const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Sectors on each track of a zone, which an extent names.
    pub fn sectors_per_track(&self, zone: u32) -> u32 {
        self.sectors_per_track[zone as usize]
    }

    /// Returns the number of zones; where the sectors per track differ by surface, each surface of a zone counts.
    pub fn zone_count(&self) -> usize {
        self.sectors_per_track.len()
    }

    /// The longest run of at most `blocks` blocks from `lbn` that lies on one track.
    ///
    /// # Panics
    /// If `lbn` lies beyond the zones or `blocks` is zero.
    pub fn extent(&self, lbn: u64, blocks: u32) -> Extent {
        debug_assert!(blocks > 0 && lbn < self.blocks);
        let zone = self.zone_of(lbn);
        let data_block = lbn - zone.first_lbn + zone.reserved_blocks;
        if zone.remaps.is_empty() {
            zone.extent(data_block, blocks, zone.run(data_block))
        } else {
            zone.extent_beside_remaps(data_block, blocks)
        }
    }

    /// First block of the track that holds `lbn` and the block after its last.
    ///
    /// # Panics
    /// If `lbn` lies beyond the zones.
    pub fn track_bounds(&self, lbn: u64) -> (u64, u64) {
        let zone = self.zone_of(lbn);
        let data_block = lbn - zone.first_lbn + zone.reserved_blocks;
        let first_sector = zone.sector_of(data_block);
        let Spot { sector, sectors, .. } = zone.tracks.spot(first_sector);
        let track_start = first_sector - sector;
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
        if place.head >= zone.surfaces {
            return None;
        }
        let (first, sectors) = zone.tracks.track(cylinder - zone.first_cylinder, u64::from(place.head));
        if u64::from(place.sector) >= sectors {
            return None;
        }
        let sector = first + u64::from(place.sector);
        let data_block = zone.data_block_at(sector)?;
        (data_block >= zone.reserved_blocks && data_block - zone.reserved_blocks < zone.blocks)
            .then(|| data_block - zone.reserved_blocks + zone.first_lbn)
    }

    #[inline]
    fn zone_of(&self, lbn: u64) -> &Zone {
        &self.zones[self.first_lbns.partition_point(|first| *first <= lbn) - 1]
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

/// Blocks on one track from a data block on.
struct Run {
    /// Sector of the zone that holds the first.
    first: u64,
    /// Place of that sector.
    spot: Spot,
    blocks: u32,
    /// Sectors from the first block to the last.
    span: u32,
}

/// Ends of the zones before a zone.
struct ZoneStart {
    lbn: u64,
    index: u32,
    last_angle: Option<Turns>,
}

/// Regions of a zone, each of which ends in spare space.
struct Regions {
    /// Sectors of a region.
    sectors: u64,
    /// Sectors of a region that are spare.
    spare_sectors: u64,
    /// Slips that a region has spare space for.
    spare_slips: u64,
}

impl Regions {
    fn new(
        geometry: &Geometry,
        parameters: &ZoneParameters,
        tracks: &TrackOrder,
    ) -> Result<Self, DescriptionError> {
        let zone_sectors = tracks.sectors();
        let cylinder_sectors = zone_sectors / parameters.cylinders();
        let spares = u64::from(parameters.spares);
        let (sectors, spare_sectors) = match geometry.sparing {
            Sparing::None => (zone_sectors, 0),
            Sparing::TracksAtZoneEnd => {
                (zone_sectors, zone_sectors - tracks.start(tracks.tracks().saturating_sub(spares)))
            }
            Sparing::SectorsPerCylinder => (cylinder_sectors, spares),
            Sparing::SectorsPerTrack => (u64::from(parameters.sectors_per_track), spares),
            Sparing::SectorsAtDiskEnd => (zone_sectors, parameters.slips.len() as u64),
            Sparing::SectorsPerCylinderRange => {
                (cylinder_sectors * u64::from(geometry.sparing_range), spares)
            }
            Sparing::SectorsAtZoneEnd => (zone_sectors, spares),
        };
        check(
            spare_sectors < sectors.min(zone_sectors),
            "spares",
            format!("{spares} spares leave no data"),
            format!("fewer than the {sectors} sectors of their region"),
        )?;
        let spare_slips = match geometry.sparing {
            Sparing::TracksAtZoneEnd => spares,
            _ => spare_sectors,
        };
        Ok(Self { sectors, spare_sectors, spare_slips })
    }

    /// First sectors of the slips, and the sectors that the slips before each take.
    fn slips(
        &self,
        geometry: &Geometry,
        parameters: &ZoneParameters,
        tracks: &TrackOrder,
    ) -> Result<(Vec<u64>, Vec<u64>), DescriptionError> {
        let (mut slips, mut slipped) = (Vec::with_capacity(parameters.slips.len()), vec![0]);
        let mut all = 0;
        let mut in_region = (u64::MAX, 0);
        for number in parameters.slips.iter().copied() {
            let (first, sectors) = match geometry.sparing {
                Sparing::TracksAtZoneEnd => {
                    let first = tracks.start(number);
                    (first, tracks.start(number + 1) - first)
                }
                _ => (number, 1),
            };
            let region = first / self.sectors;
            in_region = if in_region.0 == region { (region, in_region.1 + 1) } else { (region, 1) };
            check(
                in_region.1 <= self.spare_slips,
                "slips",
                format!("slip {number} is one too many for the spares of its place"),
                format!(
                    "at most {} slips for each place with {} spares",
                    self.spare_slips, parameters.spares
                ),
            )?;
            all += sectors;
            slips.push(first);
            slipped.push(all);
        }
        Ok((slips, slipped))
    }
}

impl Zone {
    fn new(
        geometry: &Geometry,
        parameters: &ZoneParameters,
        start: &ZoneStart,
    ) -> Result<Self, DescriptionError> {
        let tracks = TrackOrder::new(geometry, parameters);
        let zone_sectors = tracks.sectors();
        let regions = Regions::new(geometry, parameters, &tracks)?;
        let region_blocks = regions.sectors - regions.spare_sectors;
        // A last region that the zone cuts short keeps its data; its spares would lie beyond.
        let whole_regions = zone_sectors / regions.sectors;
        let data = whole_regions * region_blocks + (zone_sectors % regions.sectors).min(region_blocks);
        check(
            parameters.reserved_blocks < data,
            "reserved_blocks",
            parameters.reserved_blocks.to_string(),
            format!("fewer than the {data} data blocks of the zone"),
        )?;
        let (slips, slipped) = regions.slips(geometry, parameters, &tracks)?;
        let mut zone = Self {
            first_lbn: start.lbn,
            blocks: data - parameters.reserved_blocks,
            first_cylinder: u64::from(parameters.first_cylinder),
            cylinders: parameters.cylinders(),
            surfaces: geometry.surfaces,
            index: start.index,
            surfaces_differ: !parameters.surface_sectors.is_empty(),
            tracks,
            reserved_blocks: parameters.reserved_blocks,
            angles: TrackAngles::new(geometry, parameters, start.last_angle),
            region_sectors: Divisor::new(regions.sectors),
            region_blocks: Divisor::new(region_blocks),
            breaks: Vec::new(),
            slips,
            slipped,
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
            format!("at most the zone's spares ({})", parameters.spares),
        )?;
        Ok(zone)
    }

    /// Data blocks at which the shift between data blocks and sectors changes.
    fn find_breaks(&self) -> Vec<(u64, u64)> {
        let mut breaks = Vec::new();
        let mut open_region = None;
        let mut shift = 0;
        for (slip, slipped) in self.slips.iter().zip(self.slipped.windows(2)) {
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
            shift += slipped[1] - slipped[0];
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

    fn find_remaps(&self, parameters: &ZoneParameters) -> Result<Vec<(u64, u64)>, DescriptionError> {
        let mut remaps = Vec::new();
        for (from, to) in &parameters.remaps {
            if from == to {
                continue;
            }
            let block = self.data_block_at(*from).ok_or_else(|| {
                DescriptionError::refused(
                    "remaps",
                    format!("sector {from} holds no data"),
                    "defects hold data",
                )
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
        let end = self.slips.partition_point(|slip| *slip < sector);
        let first = self.slips[..end].partition_point(|slip| *slip < region_start);
        let slipped = if first == end {
            0
        } else {
            let last = end - 1;
            let of_last = (self.slipped[end] - self.slipped[last]).min(sector - self.slips[last]);
            self.slipped[last] - self.slipped[first] + of_last
        };
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

    /// Blocks from `block` to the end of its track, remapped defects aside.
    #[inline]
    fn run(&self, block: u64) -> Run {
        let (region, in_region) = self.region_blocks.div_rem(block);
        let index = self.breaks.partition_point(|(from, _)| *from <= block);
        let shift = if index == 0 { 0 } else { self.breaks[index - 1].1 };
        let first = region * self.region_sectors.get() + in_region + shift;
        let spot = self.tracks.spot(first);
        let to_track_end = spot.sectors - spot.sector;
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
        Run { first, spot, blocks: blocks as u32, span: span as u32 }
    }

    /// At most `blocks` blocks from a data block of the zone, of the run that begins there.
    #[inline]
    fn extent(&self, data_block: u64, blocks: u32, run: Run) -> Extent {
        let in_zone = self.reserved_blocks + self.blocks - data_block;
        let available = u64::from(run.blocks).min(in_zone);
        let to_track_end = u64::from(blocks) >= available;
        let blocks = u64::from(blocks).min(available);
        let span = if blocks == u64::from(run.blocks) {
            u64::from(run.span)
        } else if run.span == run.blocks {
            blocks
        } else {
            self.sector_of(data_block + blocks - 1) + 1 - run.first
        };
        let spot = run.spot;
        Extent {
            cylinder: (self.first_cylinder + spot.cylinder) as u32,
            head: spot.head as u32,
            sector: spot.sector as u32,
            blocks: blocks as u32,
            span: span as u32,
            to_track_end,
            zone: if self.surfaces_differ { self.index + spot.head as u32 } else { self.index },
            angle: self.angle(run.first, spot),
        }
    }

    /// As [`extent`](Self::extent), ending before a remapped block or being that block alone.
    #[inline(never)]
    fn extent_beside_remaps(&self, block: u64, blocks: u32) -> Extent {
        let mut run = self.run(block);
        let index = self.remaps.partition_point(|(from, _)| *from < block);
        if let Some((from, to)) = self.remaps.get(index) {
            if *from == block {
                run = Run { first: *to, spot: self.tracks.spot(*to), blocks: 1, span: 1 };
            } else if u64::from(run.blocks) > from - block {
                run.blocks = (from - block) as u32;
                run.span = (self.sector_of(from - 1) + 1 - run.first) as u32;
            }
        }
        self.extent(block, blocks, run)
    }

    /// Angle of a sector of the zone at its place.
    #[inline]
    fn angle(&self, sector: u64, spot: Spot) -> Angle {
        let angle = self.angles.of_sector(spot);
        let pushing = match self.slip_skew {
            SlipSkew::None => None,
            SlipSkew::LaterTracks => Some(sector - spot.sector),
            SlipSkew::LaterCylinders => Some(self.tracks.group_start(spot.group)),
        };
        let Some(start) = pushing else { return angle.to_angle() };
        let slips = self.slips.partition_point(|slip| *slip < start) as u64;
        (angle + self.angles.of_pushes(slips)).to_angle()
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
