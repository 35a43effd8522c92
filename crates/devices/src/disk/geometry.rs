//! Parameters of the layout: zones, skews, spares, slips and remapped defects.

use schemars::JsonSchema;
use seeklab_core::description::schema::check_ranges;
use seeklab_core::{AngleStep, ByteSize};
use serde::{Deserialize, Serialize};

use crate::error::{DescriptionError, check};

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
    /// Tracks of a serpentine, for `surface_first`: the tracks of one surface that are used one after the other.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 16_777_216), extend("x-unit" = "tracks"))]
    pub serpentine_tracks: u32,
    /// Direction of the serpentines on the cylinders that they share, for `surface_first`: all inwards, or every other
    /// outwards.
    #[serde(default)]
    pub seek_direction: Alternation,
    /// Order of the surfaces, for `surface_first`: always from the first to the last, or every other time reversed.
    #[serde(default)]
    pub surface_order: Alternation,
    /// Location of the spare space.
    #[serde(default)]
    pub sparing: Sparing,
    /// Cylinders of a spare group: those that share spare sectors, for `sectors_per_cylinder_range`, and those that
    /// `group_step` counts.
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

/// Order in which the tracks of a zone are used.
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
    /// Serpentines of `serpentine_tracks` tracks: that many cylinders on one surface, the same cylinders on the next, and
    /// after the last surface the cylinders that follow. A zone's last serpentines may be shorter.
    SurfaceFirst,
}

/// A direction that is kept or alternates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Alternation {
    /// The same every time.
    #[default]
    Forward,
    /// Reversed every other time.
    Alternating,
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
    /// Sectors on each track, at least one; with `surface_sectors`, those of the surface that has most.
    #[schemars(range(min = 1, max = 65_535), extend("x-unit" = "sectors"))]
    pub sectors_per_track: u32,
    /// Sectors on each track by surface, where surfaces differ; empty if they do not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(range(min = 1, max = 65_535)), extend("x-unit" = "sectors"))]
    pub surface_sectors: Vec<u32>,
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
    /// Steps that are added to these skews.
    #[serde(default, skip_serializing_if = "AngleSteps::is_default")]
    pub angles: AngleSteps,
    /// Spare tracks or sectors in each place that the sparing scheme names.
    #[serde(default)]
    pub spares: u32,
    /// Defective sectors (tracks for `tracks_at_zone_end`) that push what follows on by one, ascending. Sectors and tracks
    /// are counted in the order of use.
    #[serde(default)]
    pub slips: Vec<u64>,
    /// `[defective sector, sector used instead]`, ascending.
    #[serde(default)]
    pub remaps: Vec<(u64, u64)>,
}

/// Steps of the angle from track to track in a zone: fractions of a turn, or sectors of `sectors_per_track`.
///
/// A track's angle is their exact sum with the skews, without drift over any number of tracks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AngleSteps {
    /// Angle of the zone's first track.
    #[serde(default)]
    pub origin: AngleStep,
    /// Angle from the last track of the zone before to the first track, to which `origin` is added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_step: Option<AngleStep>,
    /// Angles from each track of a cylinder to the next, in the order of use; a shorter list is repeated.
    #[serde(default)]
    #[schemars(extend("x-unit" = "rotation angles"))]
    pub head_steps: Vec<AngleStep>,
    /// Angle from the first track of each cylinder to the first track of the next.
    #[serde(default)]
    pub cylinder_step: AngleStep,
    /// Angle that the first cylinder of each spare group adds. The zone's first group is its first `sparing_range` cylinders.
    #[serde(default)]
    pub group_step: AngleStep,
    /// Angles from each track of a serpentine to the next, by surface, for `surface_first`; a shorter list is repeated.
    #[serde(default)]
    #[schemars(extend("x-unit" = "rotation angles"))]
    pub track_steps: Vec<AngleStep>,
    /// Angle from the last track of each serpentine to the first of the next, for `surface_first`.
    #[serde(default)]
    pub serpentine_step: AngleStep,
}

impl AngleSteps {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl ZoneParameters {
    /// Cylinders in the zone.
    pub fn cylinders(&self) -> u64 {
        u64::from(self.last_cylinder) + 1 - u64::from(self.first_cylinder)
    }

    /// Sectors on each track of a surface.
    pub fn sectors_on(&self, head: u32) -> u32 {
        self.surface_sectors.get(head as usize).copied().unwrap_or(self.sectors_per_track)
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
    pub fn check(&self) -> Result<(), DescriptionError> {
        check_ranges(self)?;
        self.check_mapping()?;
        let mut next_cylinder = 0;
        for (index, zone) in self.zones.iter().enumerate() {
            self.check_zone(zone, next_cylinder).map_err(|error| error.under(&format!("zones[{index}]")))?;
            next_cylinder = zone.last_cylinder + 1;
        }
        check(
            self.zones[0].angles.zone_step.is_none(),
            "zones[0].angles.zone_step",
            "has no zone before",
            "`origin` for the first zone",
        )
    }

    /// Checks that the mapping, its parameters and the sparing fit together.
    fn check_mapping(&self) -> Result<(), DescriptionError> {
        if self.mapping == Mapping::SurfaceFirst {
            let by_cylinder = [Sparing::SectorsPerCylinder, Sparing::SectorsPerCylinderRange];
            return check(
                !by_cylinder.contains(&self.sparing),
                "sparing",
                "spares by cylinder cannot be combined with the mapping `surface_first`",
                "none, or spares by track, zone or disk",
            );
        }
        let of_serpentines = [
            ("serpentine_tracks", self.serpentine_tracks != 1),
            ("seek_direction", self.seek_direction != Alternation::Forward),
            ("surface_order", self.surface_order != Alternation::Forward),
        ];
        check_absent(&of_serpentines, "is for the mapping `surface_first` only", "its default")
    }

    fn check_zone(&self, zone: &ZoneParameters, next_cylinder: u32) -> Result<(), DescriptionError> {
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
        self.check_surfaces(zone)?;
        let tracks = zone.cylinders() * u64::from(self.surfaces);
        let cylinder: u64 = (0..self.surfaces).map(|head| u64::from(zone.sectors_on(head))).sum();
        let sectors = zone.cylinders() * cylinder;
        check(
            sectors < 1 << 32,
            "last_cylinder",
            format!("a zone of {sectors} sectors"),
            "fewer than 4294967296 sectors in a zone; split it",
        )?;
        self.check_steps(zone)?;
        let units = if self.sparing == Sparing::TracksAtZoneEnd { tracks } else { sectors };
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

    fn check_surfaces(&self, zone: &ZoneParameters) -> Result<(), DescriptionError> {
        let sectors = &zone.surface_sectors;
        if sectors.is_empty() {
            return Ok(());
        }
        check(
            sectors.len() == self.surfaces as usize,
            "surface_sectors",
            format!("{} numbers for {} surfaces", sectors.len(), self.surfaces),
            "one number of sectors for each surface",
        )?;
        check(
            sectors.iter().max() == Some(&zone.sectors_per_track),
            "surface_sectors",
            format!("their most is not `sectors_per_track`, {}", zone.sectors_per_track),
            "`sectors_per_track` is the most of them",
        )?;
        check(
            self.sparing != Sparing::SectorsPerTrack,
            "surface_sectors",
            "cannot be combined with the sparing `sectors_per_track`",
            "sectors by surface with another sparing",
        )
    }

    /// Checks that the skews and steps are those of the mapping.
    fn check_steps(&self, zone: &ZoneParameters) -> Result<(), DescriptionError> {
        let AngleSteps { head_steps, cylinder_step, group_step, track_steps, serpentine_step, .. } =
            &zone.angles;
        let of_cylinders = [
            ("track_skew", zone.track_skew != 0),
            ("cylinder_skew", zone.cylinder_skew != 0),
            ("angles.head_steps", !head_steps.is_empty()),
            ("angles.cylinder_step", !cylinder_step.is_zero()),
            ("angles.group_step", !group_step.is_zero()),
        ];
        let of_serpentines = [
            ("angles.track_steps", !track_steps.is_empty()),
            ("angles.serpentine_step", !serpentine_step.is_zero()),
        ];
        if self.mapping == Mapping::SurfaceFirst {
            let allowed = "`angles.track_steps` and `angles.serpentine_step`";
            check_absent(&of_cylinders, "is not for the mapping `surface_first`", allowed)?;
        } else {
            let allowed = "skews, and steps by head, cylinder and group";
            check_absent(&of_serpentines, "is for the mapping `surface_first` only", allowed)?;
        }
        let surfaces = self.surfaces as usize;
        for (key, steps, most) in
            [("angles.head_steps", head_steps, surfaces - 1), ("angles.track_steps", track_steps, surfaces)]
        {
            check(
                steps.len() <= most,
                key,
                format!("{} steps on {surfaces} surfaces", steps.len()),
                format!("at most {most} steps"),
            )?;
        }
        Ok(())
    }
}

/// Refuses the first of those parameters that is set.
fn check_absent(parameters: &[(&str, bool)], problem: &str, allowed: &str) -> Result<(), DescriptionError> {
    match parameters.iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((parameter, _)) => Err(DescriptionError::refused(*parameter, problem, allowed)),
    }
}
