//! Tests of layouts: angles as sums of steps, orders of tracks, sectors by surface, slipped tracks.

use std::collections::{BTreeMap, BTreeSet};

use crate::drives::{self, bare, closed, device, disks, parameters};
use crate::walked_layout::walk;
use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use seeklab_core::{AngleStep, ByteSize, Completion, Operation, Request, Seed};
use seeklab_devices::Description;
use seeklab_devices::disk::{
    Alternation, AngleSteps, Disk, Geometry, Layout, Mapping, PhysicalBlock, Sparing, ZoneParameters,
};
use toml::{Table, Value};

// ---- Random geometries.

/// Kinds of layouts that are drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayoutKind {
    pub(crate) mapping: Mapping,
    surfaces_differ: bool,
    sparing: Sparing,
}

/// Every kind of layout: orders of tracks, sectors by surface, places of spare space.
pub(crate) fn kinds() -> Vec<LayoutKind> {
    let mut kinds = Vec::new();
    for mapping in [Mapping::Normal, Mapping::SerpentinePerZone, Mapping::Serpentine, Mapping::SurfaceFirst] {
        for surfaces_differ in [false, true] {
            for sparing in [
                Sparing::None,
                Sparing::TracksAtZoneEnd,
                Sparing::SectorsPerCylinder,
                Sparing::SectorsPerTrack,
                Sparing::SectorsAtDiskEnd,
                Sparing::SectorsPerCylinderRange,
                Sparing::SectorsAtZoneEnd,
            ] {
                let by_cylinder = [Sparing::SectorsPerCylinder, Sparing::SectorsPerCylinderRange];
                let is_possible = !(mapping == Mapping::SurfaceFirst && by_cylinder.contains(&sparing)
                    || surfaces_differ && sparing == Sparing::SectorsPerTrack);
                if is_possible {
                    kinds.push(LayoutKind { mapping, surfaces_differ, sparing });
                }
            }
        }
    }
    kinds
}

fn step() -> impl Strategy<Value = AngleStep> {
    prop_oneof![
        2 => (-200_i64..200, prop::sample::select(vec![1_u64, 16, 21, 36, 134]))
            .prop_map(|(numerator, denominator)| AngleStep::from_turns(numerator, denominator)),
        1 => (-20_i32..40).prop_map(AngleStep::from_sectors),
    ]
}

fn angles(kind: LayoutKind, surfaces: usize, is_first: bool) -> impl Strategy<Value = AngleSteps> {
    let steps = (vec(step(), 0..surfaces), step(), step());
    let changes = (step(), prop::option::of(step()));
    (steps, changes).prop_map(move |((listed, long, group_step), (origin, zone_step))| {
        let zone_step = zone_step.filter(|_| !is_first);
        let general = AngleSteps { origin, zone_step, ..AngleSteps::default() };
        if kind.mapping == Mapping::SurfaceFirst {
            AngleSteps { track_steps: listed, serpentine_step: long, ..general }
        } else {
            AngleSteps { head_steps: listed, cylinder_step: long, group_step, ..general }
        }
    })
}

/// A zone that begins at cylinder `gap`.
fn zone(kind: LayoutKind, surfaces: usize, is_first: bool) -> impl Strategy<Value = ZoneParameters> {
    let extent = (0..3_u32, 1..12_u32, 6..26_u32);
    let fewer = vec(0..5_u32, surfaces);
    let defects = (0..5_u32, btree_set(0..80_u64, 0..4), 0..6_u64);
    let skews = (0..9_u32, 0..5_u32, 0..5_u32);
    (extent, fewer, defects, skews, angles(kind, surfaces, is_first)).prop_map(
        move |((gap, cylinders, sectors), mut fewer, (spares, slips, reserved_blocks), skews, angles)| {
            let by_cylinder = kind.mapping != Mapping::SurfaceFirst;
            let least = *fewer.iter().min().unwrap();
            fewer.iter_mut().for_each(|fewer| *fewer -= least);
            let surface_sectors: Vec<u32> = fewer.iter().map(|fewer| sectors - fewer).collect();
            let least_sectors = *surface_sectors.iter().min().unwrap();
            let units = match kind.sparing {
                Sparing::TracksAtZoneEnd => u64::from(cylinders) * surfaces as u64,
                _ => u64::from(cylinders * least_sectors) * surfaces as u64,
            };
            let slips: BTreeSet<u64> = match kind.sparing {
                Sparing::None => BTreeSet::new(),
                _ => slips.into_iter().map(|slip| slip % units).collect(),
            };
            ZoneParameters {
                first_cylinder: gap,
                last_cylinder: gap + cylinders - 1,
                sectors_per_track: sectors,
                surface_sectors: if kind.surfaces_differ { surface_sectors } else { Vec::new() },
                first_block_offset: skews.0,
                reserved_blocks,
                track_skew: if by_cylinder { skews.1 } else { 0 },
                cylinder_skew: if by_cylinder { skews.2 } else { 0 },
                angles,
                spares: spares.max(slips.len() as u32),
                slips: slips.into_iter().collect(),
                remaps: Vec::new(),
            }
        },
    )
}

/// Geometries of a kind, most of them possible.
pub(crate) fn geometry(kind: LayoutKind) -> impl Strategy<Value = Geometry> {
    let alternation = || prop::sample::select(vec![Alternation::Forward, Alternation::Alternating]);
    (1..5_usize).prop_flat_map(move |surfaces| {
        let zones = (zone(kind, surfaces, true), vec(zone(kind, surfaces, false), 0..3));
        let order = (1..6_u32, alternation(), alternation(), 1..4_u32);
        (zones, order).prop_map(move |((first, others), (tracks, seek_direction, surface_order, range))| {
            let mut zones = vec![first];
            zones.extend(others);
            let mut next = 0;
            for zone in &mut zones {
                zone.first_cylinder += next;
                zone.last_cylinder += next;
                next = zone.last_cylinder + 1;
            }
            let is_surface_first = kind.mapping == Mapping::SurfaceFirst;
            let order = |alternation| if is_surface_first { alternation } else { Alternation::Forward };
            Geometry {
                capacity_blocks: 1,
                block_size: ByteSize::from_bytes(512),
                surfaces: surfaces as u32,
                mapping: kind.mapping,
                serpentine_tracks: if is_surface_first { tracks } else { 1 },
                seek_direction: order(seek_direction),
                surface_order: order(surface_order),
                sparing: kind.sparing,
                sparing_range: range,
                zones,
            }
        })
    })
}

/// A disk with a random layout of each kind, its other parameters those of a drive of the catalog.
pub(crate) fn sampled_disks(like: &str) -> Vec<(String, Disk)> {
    let mut runner = TestRunner::deterministic();
    let mut sampled = |kind: LayoutKind| loop {
        let mut geometry = geometry(kind).new_tree(&mut runner).unwrap().current();
        let Ok(layout) = Layout::new(&geometry) else { continue };
        if layout.blocks() < 64 {
            continue;
        }
        geometry.capacity_blocks = layout.blocks();
        let parameters = parameters(&device(like, &[("queue.scheduler", "fcfs")]));
        let parameters = seeklab_devices::disk::DiskParameters { geometry, ..parameters };
        let disk =
            Disk::new(&parameters, Seed(1), "disk0").unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        return (format!("{like} with {kind:?}"), disk);
    };
    kinds().into_iter().map(&mut sampled).collect()
}

// ---- Layouts against a walk over all tracks.

/// Compares the closed forms with the walk, in both directions.
fn check_walked(geometry: &Geometry, layout: &Layout) -> Result<(), TestCaseError> {
    let walked = walk(geometry);
    prop_assert_eq!(layout.blocks(), walked.len() as u64);
    let mut by_place = BTreeMap::new();
    for (lbn, block) in walked.iter().enumerate() {
        let extent = layout.extent(lbn as u64, 1);
        let place = PhysicalBlock { cylinder: extent.cylinder, head: extent.head, sector: extent.sector };
        prop_assert_eq!(place, block.place, "lbn {}", lbn);
        prop_assert_eq!(extent.angle.as_raw(), block.angle.nearest(), "lbn {} at {:?}", lbn, place);
        prop_assert_eq!(layout.sectors_per_track(extent.zone), block.sectors_per_track, "lbn {}", lbn);
        prop_assert_eq!(by_place.insert(place, lbn as u64), None);
    }
    for cylinder in 0..geometry.cylinders() + 1 {
        for head in 0..geometry.surfaces + 1 {
            for sector in 0..28 {
                let place = PhysicalBlock { cylinder, head, sector };
                prop_assert_eq!(layout.logical(place), by_place.get(&place).copied(), "{:?}", place);
            }
        }
    }
    let track = |lbn: usize| (walked[lbn].zone, walked[lbn].place.cylinder, walked[lbn].place.head);
    let mut first = 0;
    for lbn in 0..walked.len() {
        if track(first) != track(lbn) {
            first = lbn;
        }
        let end = (lbn..walked.len()).find(|other| track(*other) != track(lbn)).unwrap_or(walked.len());
        prop_assert_eq!(layout.track_bounds(lbn as u64), (first as u64, end as u64), "lbn {}", lbn);
        for blocks in [1, (end - lbn).div_ceil(2), end - lbn] {
            let extent = layout.extent(lbn as u64, blocks as u32);
            let span = walked[lbn + blocks - 1].place.sector - walked[lbn].place.sector + 1;
            let is_whole = blocks == end - lbn;
            prop_assert_eq!(
                (extent.blocks, extent.span, extent.to_track_end),
                (blocks as u32, span, is_whole),
                "lbn {} + {}",
                lbn,
                blocks
            );
        }
        prop_assert_eq!(layout.extent(lbn as u64, u32::MAX).blocks as usize, end - lbn, "lbn {}", lbn);
    }
    Ok(())
}

#[test]
fn random_layouts_are_those_of_a_walk_over_the_disk() {
    for kind in kinds() {
        let mut runner = TestRunner::new(ProptestConfig { cases: 60, ..ProptestConfig::default() });
        let possible = std::cell::Cell::new(0);
        let result = runner.run(&geometry(kind), |geometry| {
            // Random slips may need more spares than there are.
            let Ok(layout) = Layout::new(&geometry) else { return Ok(()) };
            possible.set(possible.get() + 1);
            check_walked(&geometry, &layout)
        });
        result.unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        assert!(possible.get() >= 10, "{kind:?}: only {} layouts are possible", possible.get());
    }
}

// ---- One drive, described in two ways.

/// The same disk with its skews written as steps of the angle.
fn skews_as_steps(description: &Description, text: impl Fn(i64, i64) -> String) -> Description {
    let mut table: Table = description.to_toml().parse().unwrap();
    let geometry = table["geometry"].as_table_mut().unwrap();
    let surfaces = geometry["surfaces"].as_integer().unwrap();
    for zone in geometry["zones"].as_array_mut().unwrap() {
        let zone = zone.as_table_mut().unwrap();
        let sectors = zone["sectors_per_track"].as_integer().unwrap();
        let mut take = |key: &str| zone.remove(key).and_then(|value| value.as_integer()).unwrap_or(0);
        let (offset, track_skew, cylinder_skew) =
            (take("first_block_offset"), take("track_skew"), take("cylinder_skew"));
        let mut angles = Table::new();
        let step = |skew: i64| Value::String(text(skew, sectors));
        angles.insert("origin".into(), step(offset));
        angles.insert("cylinder_step".into(), step((surfaces - 1) * track_skew + cylinder_skew));
        if surfaces > 1 {
            angles.insert("head_steps".into(), Value::Array(vec![step(track_skew)]));
        }
        zone.insert("angles".into(), Value::Table(angles));
    }
    Description::parse(&description.name, "test", &table.to_string())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Completions of random and of sequential requests, reads and writes, one and two tracks long at most.
fn completions(description: &Description) -> Vec<Completion> {
    let mut device = description.build(Seed(1), "disk0").unwrap();
    let capacity_blocks = device.capabilities().capacity_blocks;
    let mut stream = Seed(7).stream("layouts.requests");
    let mut end = 0;
    let requests: Vec<Request> = (0..1_500)
        .map(|id| {
            let blocks = 1 + stream.below(if id % 10 == 0 { 700 } else { 16 }) as u32;
            let lbn = if id % 3 == 0 { end } else { stream.below(capacity_blocks) };
            let lbn = lbn.min(capacity_blocks - u64::from(blocks));
            end = lbn + u64::from(blocks);
            let op = if stream.chance(0.7) { Operation::Read } else { Operation::Write };
            Request::new(id, op, lbn, blocks)
        })
        .collect();
    closed(&mut *device, 1, requests)
}

#[test]
fn skews_and_equal_fractions_give_the_same_completions() {
    let by_cylinder = |name: &&str| parameters(&device(name, &[])).geometry.mapping != Mapping::SurfaceFirst;
    for name in disks().filter(by_cylinder) {
        for description in [device(name, &[]), bare(name, &[])] {
            let as_fractions = skews_as_steps(&description, |skew, sectors| {
                let common = greatest_common_divisor(skew, sectors);
                format!("{}/{}turn", skew / common, sectors / common)
            });
            let as_sectors = skews_as_steps(&description, |skew, _| format!("{skew}sectors"));
            let expected = completions(&description);
            assert_eq!(completions(&as_fractions), expected, "{name}");
            assert_eq!(completions(&as_sectors), expected, "{name}");
        }
    }
}

#[test]
fn desktop_7200_has_the_published_serpentines_and_angles() {
    let layout = drives::disk(&device("desktop-7200", &[])).mechanism().layout().clone();
    let track = |number: u64| layout.extent(500 * number, 1);
    let place = |number: u64| (track(number).cylinder, track(number).head);
    // Ten serpentines of 315 tracks, every other one outwards, then the next cylinders.
    assert_eq!([0, 1, 314].map(place), [(0, 0), (1, 0), (314, 0)]);
    assert_eq!([315, 316, 629].map(place), [(314, 1), (313, 1), (0, 1)]);
    assert_eq!([630, 3_149, 3_150].map(place), [(0, 2), (0, 9), (315, 0)]);
    let step = |number: u64| (track(number + 1).angle - track(number).angle).as_turns();
    for number in [0, 100, 313, 315, 628, 3_148, 3_150] {
        assert!(
            (step(number) - (1.0 / 16.0 - 0.000_008)).abs() < 1e-15,
            "after track {number}: {}",
            step(number)
        );
    }
    for number in [314, 629, 3_149] {
        assert!((step(number) - 9.0 / 16.0).abs() < 1e-15, "after track {number}: {}", step(number));
    }
    let tracks: u64 = layout.tracks(layout.blocks()).len() as u64;
    assert!((3_279_583..3_279_583 + 10).contains(&tracks), "{tracks}");
}
