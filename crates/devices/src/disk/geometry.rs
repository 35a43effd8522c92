//! Parameters of the layout: zones, skews, spares, slips and remapped defects.

use schemars::JsonSchema;
use seeklab_core::ByteSize;
use serde::{Deserialize, Serialize};

use crate::error::{ParameterError, check};
use crate::schema::check_ranges;

/// Places of the blocks of a disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Blocks that the drive reports; the layout may extend beyond.
    #[schemars(range(min = 1), extend("x-unit" = "blocks"))]
    pub capacity_blocks: u64,
    /// Bytes in a block, which is a sector.
    #[serde(default = "sector")]
    #[schemars(extend("x-minimum" = "1B", "x-maximum" = "16MiB"))]
    pub block_size: ByteSize,
    /// Recording surfaces, one head each, at least one.
    #[schemars(range(min = 1, max = 256), extend("x-unit" = "surfaces"))]
    pub surfaces: u32,
    /// Order in which the tracks of a zone are used.
    #[serde(default)]
    pub mapping: Mapping,
    /// Location of the spare space.
    #[serde(default)]
    pub sparing: Sparing,
    /// Cylinders that share spare sectors, for `sectors_per_cylinder_range`.
    #[serde(default = "one")]
    #[schemars(range(min = 1), extend("x-unit" = "cylinders"))]
    pub sparing_range: u32,
    /// Recording zones from the outer edge inwards; cylinders between two zones are not used.
    #[schemars(length(min = 1), extend("x-unit" = "zones"))]
    pub zones: Vec<ZoneParameters>,
}

/// Cylinders of a disk at most: the seek times of all of them are tabulated.
const CYLINDERS_MAX: u32 = 1 << 24;

fn sector() -> ByteSize {
    ByteSize::from_bytes(512)
}

fn one() -> u32 {
    1
}

/// In which order the tracks of a zone are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mapping {
    /// Head 0 to the last in every cylinder.
    #[default]
    Normal,
    /// Every odd cylinder of a zone, counted from the zone's first, runs from the last head to 0.
    SerpentinePerZone,
    /// Every odd cylinder of the disk runs from the last head to 0.
    Serpentine,
}

/// Places of spare space. The numbers are the codes of DiskSim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sparing {
    /// Nowhere (code 0).
    #[default]
    None,
    /// Whole tracks at the end of each zone; slips name tracks (code 1).
    TracksAtZoneEnd,
    /// Sectors at the end of each cylinder; slips push the skew of the cylinders that follow (code 2).
    SectorsPerCylinder,
    /// Sectors at the end of each track; slips push the skew of what follows (code 3).
    SectorsPerTrack,
    /// Sectors at the end of the disk: a slip pushes all that follows (code 7).
    SectorsAtDiskEnd,
    /// Sectors at the end of each range of cylinders (code 8).
    SectorsPerCylinderRange,
    /// Sectors at the end of each zone (code 9).
    SectorsAtZoneEnd,
}

/// One recording zone. Sectors and tracks of a zone are counted from its first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZoneParameters {
    /// First cylinder.
    #[schemars(range(max = 16_777_215))]
    pub first_cylinder: u32,
    /// Last cylinder.
    pub last_cylinder: u32,
    /// Sectors on each track, at least one.
    #[schemars(range(min = 1, max = 65_535), extend("x-unit" = "sectors"))]
    pub sectors_per_track: u32,
    /// Angle of the zone's first sector, in sectors.
    #[serde(default)]
    #[schemars(extend("x-unit" = "sectors"))]
    pub first_block_offset: u32,
    /// Data sectors at the zone's front that hold no logical blocks.
    #[serde(default)]
    #[schemars(extend("x-unit" = "sectors"))]
    pub reserved_blocks: u64,
    /// Sectors by which each track begins after the one before in the same cylinder.
    #[serde(default)]
    #[schemars(extend("x-unit" = "sectors"))]
    pub track_skew: u32,
    /// Sectors by which each cylinder begins after the last track of the one before.
    #[serde(default)]
    #[schemars(extend("x-unit" = "sectors"))]
    pub cylinder_skew: u32,
    /// Spare tracks or sectors in each place that the sparing scheme names.
    #[serde(default)]
    pub spares: u32,
    /// Defective sectors (tracks for `tracks_at_zone_end`) that push what follows on by one, ascending.
    #[serde(default)]
    pub slips: Vec<u64>,
    /// `[defective sector, sector used instead]`, ascending.
    #[serde(default)]
    pub remaps: Vec<(u64, u64)>,
}

impl ZoneParameters {
    /// Cylinders in the zone.
    pub fn cylinders(&self) -> u64 {
        u64::from(self.last_cylinder) + 1 - u64::from(self.first_cylinder)
    }
}

impl Geometry {
    /// Cylinders of the disk.
    pub fn cylinders(&self) -> u32 {
        self.zones.last().map_or(0, |zone| zone.last_cylinder + 1)
    }

    /// Checks that a disk can have this geometry.
    ///
    /// # Errors
    /// The first parameter that it cannot have.
    pub fn check(&self) -> Result<(), ParameterError> {
        check_ranges(self)?;
        let mut next_cylinder = 0;
        for (index, zone) in self.zones.iter().enumerate() {
            self.check_zone(zone, next_cylinder).map_err(|error| error.within(&format!("zones[{index}]")))?;
            next_cylinder = zone.last_cylinder + 1;
        }
        Ok(())
    }

    fn check_zone(&self, zone: &ZoneParameters, next_cylinder: u32) -> Result<(), ParameterError> {
        check(
            zone.first_cylinder >= next_cylinder,
            "first_cylinder",
            format!("{} overlaps the zone before", zone.first_cylinder),
            format!("the zone before ends at cylinder {}", i64::from(next_cylinder) - 1),
        )?;
        check(
            (zone.first_cylinder..CYLINDERS_MAX).contains(&zone.last_cylinder),
            "last_cylinder",
            zone.last_cylinder.to_string(),
            format!("from the zone's first cylinder, {}, to {}", zone.first_cylinder, CYLINDERS_MAX - 1),
        )?;
        let sectors = zone.cylinders() * u64::from(self.surfaces) * u64::from(zone.sectors_per_track);
        check(
            sectors < 1 << 32,
            "last_cylinder",
            format!("a zone of {sectors} sectors"),
            "fewer than 4294967296 sectors in a zone; split it",
        )?;
        let units = if self.sparing == Sparing::TracksAtZoneEnd {
            sectors / u64::from(zone.sectors_per_track)
        } else {
            sectors
        };
        let slips = &zone.slips;
        check(
            slips.windows(2).all(|pair| pair[0] < pair[1]) && slips.last().is_none_or(|last| *last < units),
            "slips",
            "are not ascending within the zone",
            format!("ascending numbers below {units}"),
        )?;
        check(
            zone.remaps.windows(2).all(|pair| pair[0].0 < pair[1].0)
                && zone.remaps.iter().all(|(from, to)| *from < sectors && *to < sectors),
            "remaps",
            "are not ascending within the zone",
            format!("ascending sector numbers below {sectors}"),
        )
    }
}
