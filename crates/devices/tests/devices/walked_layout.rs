//! Layout found by walking over a disk track by track, to compare the closed forms with.
//!
//! It follows the documentation of the parameters and shares no code with the model: lists instead of numbering, and
//! angles as exact fractions that one step after the other is added to.

use seeklab_core::AngleStep;
use seeklab_devices::disk::{Alternation, Geometry, Mapping, PhysicalBlock, Sparing, ZoneParameters};

/// A fraction of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fraction {
    pub(crate) numerator: i128,
    pub(crate) denominator: i128,
}

impl Fraction {
    const ZERO: Self = Self { numerator: 0, denominator: 1 };

    fn plus(self, numerator: i64, denominator: u64) -> Self {
        let denominator = i128::from(denominator);
        let sum = self.numerator * denominator + i128::from(numerator) * self.denominator;
        let common = greatest_common_divisor(sum, self.denominator * denominator);
        let denominator = self.denominator * denominator / common;
        Self { numerator: (sum / common).rem_euclid(denominator), denominator }
    }

    /// The nearest multiple of 2⁻⁶⁴.
    pub(crate) fn nearest(self) -> u64 {
        let mut rest = self.numerator;
        let mut bits = 0_u64;
        for _ in 0..64 {
            rest *= 2;
            bits = bits << 1 | u64::from(rest >= self.denominator);
            rest %= self.denominator;
        }
        bits.wrapping_add(u64::from(2 * rest >= self.denominator))
    }
}

fn greatest_common_divisor(a: i128, b: i128) -> i128 {
    if b == 0 { a.abs().max(1) } else { greatest_common_divisor(b, a % b) }
}

/// Block of a walked disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WalkedBlock {
    pub(crate) place: PhysicalBlock,
    pub(crate) sectors_per_track: u32,
    pub(crate) zone: usize,
    pub(crate) angle: Fraction,
}

/// Track of a zone.
struct Track {
    cylinder: u32,
    head: u32,
    sectors: u32,
    angle: Fraction,
}

/// Logical blocks of a disk in their order.
pub(crate) fn walk(geometry: &Geometry) -> Vec<WalkedBlock> {
    let mut blocks = Vec::new();
    let mut last = None;
    for (index, zone) in geometry.zones.iter().enumerate() {
        let tracks = tracks(geometry, zone, last);
        last = tracks.last().map(|track| track.angle);
        let mut data = Vec::new();
        for (place, sectors_per_track, angle) in data_sectors(geometry, zone, &tracks) {
            data.push(WalkedBlock { place, sectors_per_track, zone: index, angle });
        }
        blocks.extend(data.into_iter().skip(zone.reserved_blocks as usize));
    }
    blocks
}

fn sectors_on(zone: &ZoneParameters, head: u32) -> u32 {
    zone.surface_sectors.get(head as usize).copied().unwrap_or(zone.sectors_per_track)
}

/// Cylinder, head and serpentine of each track in the order in which a zone uses them.
fn order(geometry: &Geometry, zone: &ZoneParameters) -> Vec<(u32, u32, usize)> {
    let mut order = Vec::new();
    let mut serpentine = 0;
    if geometry.mapping == Mapping::SurfaceFirst {
        let mut first = zone.first_cylinder;
        let mut surfaces: Vec<u32> = (0..geometry.surfaces).collect();
        while first <= zone.last_cylinder {
            let end = (first + geometry.serpentine_tracks).min(zone.last_cylinder + 1);
            let mut inwards = true;
            for head in &surfaces {
                let cylinders: Vec<u32> =
                    if inwards { (first..end).collect() } else { (first..end).rev().collect() };
                order.extend(cylinders.into_iter().map(|cylinder| (cylinder, *head, serpentine)));
                serpentine += 1;
                if geometry.seek_direction == Alternation::Alternating {
                    inwards = !inwards;
                }
            }
            if geometry.surface_order == Alternation::Alternating {
                surfaces.reverse();
            }
            first = end;
        }
        return order;
    }
    for cylinder in zone.first_cylinder..=zone.last_cylinder {
        let is_odd = match geometry.mapping {
            Mapping::SerpentinePerZone => (cylinder - zone.first_cylinder) % 2 == 1,
            Mapping::Serpentine => cylinder % 2 == 1,
            _ => false,
        };
        let mut heads: Vec<u32> = (0..geometry.surfaces).collect();
        if is_odd {
            heads.reverse();
        }
        order.extend(heads.into_iter().map(|head| (cylinder, head, 0)));
    }
    order
}

/// Tracks of a zone in the order of use; `last` is the angle of the last track of the zone before.
fn tracks(geometry: &Geometry, zone: &ZoneParameters, last: Option<Fraction>) -> Vec<Track> {
    let per_track = zone.sectors_per_track;
    let add = |angle: Fraction, step: AngleStep| {
        let (numerator, denominator) = step.fraction(per_track);
        angle.plus(numerator, denominator)
    };
    let add_sectors = |angle: Fraction, sectors: u32| angle.plus(i64::from(sectors), u64::from(per_track));
    let listed = |steps: &[AngleStep], index: usize| match steps.len() {
        0 => AngleStep::ZERO,
        count => steps[index % count],
    };
    let angles = &zone.angles;
    let mut angle = match (last, angles.zone_step) {
        (Some(last), Some(step)) => add(last, step),
        _ => Fraction::ZERO,
    };
    angle = add_sectors(add(angle, angles.origin), zone.first_block_offset);
    let mut cylinder_start = angle;
    let mut tracks: Vec<Track> = Vec::new();
    let (mut in_cylinder, mut serpentine_before) = (0, 0);
    for (cylinder, head, serpentine) in order(geometry, zone) {
        if let Some(before) = tracks.last() {
            if geometry.mapping == Mapping::SurfaceFirst {
                angle = if serpentine != serpentine_before {
                    add(angle, angles.serpentine_step)
                } else {
                    add(angle, listed(&angles.track_steps, head as usize))
                };
            } else if before.cylinder == cylinder {
                angle = add_sectors(add(angle, listed(&angles.head_steps, in_cylinder)), zone.track_skew);
                in_cylinder += 1;
            } else {
                angle = add(cylinder_start, angles.cylinder_step);
                for _ in 1..geometry.surfaces {
                    angle = add_sectors(angle, zone.track_skew);
                }
                angle = add_sectors(angle, zone.cylinder_skew);
                if (cylinder - zone.first_cylinder).is_multiple_of(geometry.sparing_range) {
                    angle = add(angle, angles.group_step);
                }
                cylinder_start = angle;
                in_cylinder = 0;
            }
        }
        serpentine_before = serpentine;
        tracks.push(Track { cylinder, head, sectors: sectors_on(zone, head), angle });
    }
    tracks
}

/// Place, sectors of the track and angle of each data sector of a zone, reserved ones included.
fn data_sectors(
    geometry: &Geometry,
    zone: &ZoneParameters,
    tracks: &[Track],
) -> Vec<(PhysicalBlock, u32, Fraction)> {
    let is_slip = |number: usize| zone.slips.contains(&(number as u64));
    let mut sectors = Vec::new();
    let mut number = 0;
    // Slips so far, and how many of them push the skew: those on earlier tracks, or on earlier cylinders.
    let (mut slipped, mut pushing) = (0, 0);
    for (index, track) in tracks.iter().enumerate() {
        let is_new_cylinder = index > 0 && tracks[index - 1].cylinder != track.cylinder;
        match geometry.sparing {
            Sparing::SectorsPerTrack => pushing = slipped,
            Sparing::SectorsPerCylinder if is_new_cylinder => pushing = slipped,
            _ => {}
        }
        let angle = track.angle.plus(pushing, u64::from(zone.sectors_per_track));
        for sector in 0..track.sectors {
            let is_slipped = match geometry.sparing {
                Sparing::TracksAtZoneEnd => is_slip(index),
                _ => is_slip(number),
            };
            let place = PhysicalBlock { cylinder: track.cylinder, head: track.head, sector };
            let angle = angle.plus(i64::from(sector), u64::from(track.sectors));
            sectors.push((is_slipped, (place, track.sectors, angle)));
            slipped += i64::from(is_slipped);
            number += 1;
        }
    }
    let spares = zone.spares as usize;
    let cylinder: u32 = (0..geometry.surfaces).map(|head| sectors_on(zone, head)).sum();
    let (region, spare_sectors) = match geometry.sparing {
        Sparing::None => (number, 0),
        Sparing::TracksAtZoneEnd => {
            (number, tracks[tracks.len() - spares..].iter().map(|track| track.sectors as usize).sum())
        }
        Sparing::SectorsPerCylinder => (cylinder as usize, spares),
        Sparing::SectorsPerTrack => (zone.sectors_per_track as usize, spares),
        Sparing::SectorsAtDiskEnd => (number, zone.slips.len()),
        Sparing::SectorsPerCylinderRange => ((cylinder * geometry.sparing_range) as usize, spares),
        Sparing::SectorsAtZoneEnd => (number, spares),
    };
    let of_region = |region_sectors: &[(bool, (PhysicalBlock, u32, Fraction))]| {
        let data: Vec<_> =
            region_sectors.iter().filter(|(slipped, _)| !slipped).map(|(_, sector)| *sector).collect();
        data.into_iter().take(region - spare_sectors).collect::<Vec<_>>()
    };
    sectors.chunks(region).flat_map(of_region).collect()
}
