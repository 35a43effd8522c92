//! Tests that the mappings hold everywhere.

use proptest::prelude::*;

use super::super::geometry::{Alternation, AngleSteps, Geometry, Mapping, Sparing, ZoneParameters};
use super::*;
use seeklab_core::{AngleStep, ByteSize};

fn zone(first_cylinder: u32, last_cylinder: u32, sectors_per_track: u32) -> ZoneParameters {
    ZoneParameters {
        first_cylinder,
        last_cylinder,
        sectors_per_track,
        surface_sectors: Vec::new(),
        first_block_offset: 0,
        reserved_blocks: 0,
        track_skew: 3,
        cylinder_skew: 5,
        angles: AngleSteps::default(),
        spares: 0,
        slips: Vec::new(),
        remaps: Vec::new(),
    }
}

fn geometry(sparing: Sparing, mapping: Mapping, zones: Vec<ZoneParameters>) -> Geometry {
    Geometry {
        capacity_blocks: 1,
        block_size: ByteSize::from_bytes(512),
        surfaces: 3,
        mapping,
        serpentine_tracks: 1,
        seek_direction: Alternation::Forward,
        surface_order: Alternation::Forward,
        sparing,
        sparing_range: 2,
        zones,
    }
}

/// Walks all blocks: each has its own place, maps back, and lies in the extent of its neighbour.
fn check_exhaustively(geometry: &Geometry) {
    let layout = Layout::new(geometry).unwrap();
    let mut places = std::collections::BTreeMap::new();
    for lbn in 0..layout.blocks() {
        let place = layout.physical(lbn);
        assert_eq!(layout.logical(place), Some(lbn), "{place:?}");
        assert_eq!(places.insert(place, lbn), None, "two blocks at {place:?}");
        let (first, end) = layout.track_bounds(lbn);
        assert!((first..end).contains(&lbn), "{lbn} is not in {first}..{end}");
    }
    let mut logical = 0;
    for cylinder in 0..geometry.cylinders() {
        for head in 0..geometry.surfaces {
            for sector in 0..70 {
                if let Some(lbn) = layout.logical(PhysicalBlock { cylinder, head, sector }) {
                    assert_eq!(layout.physical(lbn), PhysicalBlock { cylinder, head, sector });
                    logical += 1;
                }
            }
        }
    }
    assert_eq!(logical, layout.blocks());
    check_extents(&layout, geometry);
}

/// Extents of every length agree with the places of their blocks one by one.
fn check_extents(layout: &Layout, geometry: &Geometry) {
    for lbn in 0..layout.blocks() {
        let whole = layout.extent(lbn, u32::MAX);
        for blocks in 1..=whole.blocks {
            let extent = layout.extent(lbn, blocks);
            assert_eq!(extent.blocks, blocks);
            let (first, last) = (layout.physical(lbn), layout.physical(lbn + u64::from(blocks) - 1));
            assert_eq!((first.cylinder, first.head), (last.cylinder, last.head), "lbn {lbn} + {blocks}");
            assert_eq!(extent.span, last.sector - first.sector + 1, "lbn {lbn} + {blocks} {extent:?}");
        }
        let next = lbn + u64::from(whole.blocks);
        if next < layout.blocks() && geometry.zones.iter().all(|zone| zone.remaps.is_empty()) {
            let (here, there) = (layout.physical(lbn), layout.physical(next));
            assert_ne!((here.cylinder, here.head), (there.cylinder, there.head), "lbn {lbn} stops early");
        }
    }
}

#[test]
fn every_sparing_scheme_is_a_bijection() {
    for mapping in [Mapping::Normal, Mapping::SerpentinePerZone, Mapping::Serpentine] {
        for (sparing, spares, slips) in [
            (Sparing::None, 0, vec![]),
            (Sparing::TracksAtZoneEnd, 2, vec![1, 4]),
            (Sparing::SectorsPerCylinder, 3, vec![2, 3, 60, 61, 100, 130]),
            (Sparing::SectorsPerTrack, 2, vec![0, 1, 23, 40, 41]),
            (Sparing::SectorsAtDiskEnd, 0, vec![0, 5, 6, 19, 20, 100]),
            (Sparing::SectorsPerCylinderRange, 4, vec![10, 11, 59, 60, 130]),
            (Sparing::SectorsAtZoneEnd, 5, vec![18, 19, 20, 21, 22]),
        ] {
            let mut outer = ZoneParameters { spares, slips, reserved_blocks: 7, ..zone(0, 4, 20) };
            outer.first_block_offset = 2;
            let inner = ZoneParameters { spares, ..zone(6, 9, 17) };
            let geometry = geometry(sparing, mapping, vec![outer, inner]);
            println!("{sparing:?} {mapping:?}");
            check_exhaustively(&geometry);
        }
    }
}

#[test]
fn remapped_defect_lies_among_the_spares() {
    let mut outer = ZoneParameters { spares: 4, slips: vec![3], ..zone(0, 2, 20) };
    outer.remaps = vec![(10, 177), (25, 178)];
    let geometry = geometry(Sparing::SectorsAtZoneEnd, Mapping::Normal, vec![outer]);
    check_exhaustively(&geometry);
    let layout = Layout::new(&geometry).unwrap();
    assert_eq!(layout.physical(9), PhysicalBlock { cylinder: 2, head: 2, sector: 17 });
    assert_eq!(layout.extent(0, 20).blocks, 9, "the run ends before the defect");
    assert_eq!(layout.extent(9, 20).blocks, 1);
}

#[test]
fn slip_costs_one_sector() {
    let outer = ZoneParameters { spares: 4, slips: vec![3], ..zone(0, 2, 20) };
    let layout = Layout::new(&geometry(Sparing::SectorsAtZoneEnd, Mapping::Normal, vec![outer])).unwrap();
    assert_eq!((layout.extent(0, 3).span, layout.extent(0, 4).span), (3, 5));
    assert_eq!(layout.extent(0, 100).blocks, 19);
    assert!(layout.extent(0, 19).to_track_end);
    assert!(!layout.extent(0, 18).to_track_end);
}

#[test]
fn skews_add_up() {
    let layout = Layout::new(&geometry(Sparing::None, Mapping::Normal, vec![zone(0, 2, 20)])).unwrap();
    let sectors = |lbn| (layout.extent(lbn, 1).angle.as_turns() * 20.0).round() as u32 % 20;
    assert_eq!(sectors(0), 0);
    assert_eq!(sectors(20), 3);
    assert_eq!(sectors(60), 2 * 3 + 5, "two track skews and a cylinder skew");
    assert_eq!(sectors(61), 12);
}

/// Fractions of a turn, added up, as the nearest angle.
fn sum(fractions: &[(i64, i64)]) -> Angle {
    let common: i64 = fractions.iter().map(|(_, denominator)| denominator).product();
    let numerator: i64 =
        fractions.iter().map(|(numerator, denominator)| numerator * (common / denominator)).sum();
    let exact = (i128::from(numerator.rem_euclid(common)) << 65) / i128::from(common);
    Angle::from_raw(((exact + 1) >> 1) as u64)
}

#[test]
fn angles_add_up_by_head_cylinder_group_and_zone() {
    let turns = AngleStep::from_turns;
    let mut outer = ZoneParameters { track_skew: 0, cylinder_skew: 0, ..zone(0, 4, 20) };
    outer.angles = AngleSteps {
        origin: turns(1, 7),
        head_steps: vec![turns(17, 134), turns(19, 134)],
        cylinder_step: turns(43, 67),
        group_step: turns(-2, 21),
        ..AngleSteps::default()
    };
    let mut inner =
        ZoneParameters { first_block_offset: 2, track_skew: 1, cylinder_skew: 4, ..zone(7, 9, 16) };
    inner.angles = AngleSteps {
        zone_step: Some(turns(9, 16)),
        head_steps: vec![AngleStep::from_sectors(5)],
        ..AngleSteps::default()
    };
    let layout = Layout::new(&geometry(Sparing::None, Mapping::Serpentine, vec![outer, inner])).unwrap();
    let angle = |lbn| layout.extent(lbn, 1).angle;
    assert_eq!(angle(0), sum(&[(1, 7)]));
    assert_eq!(angle(13), sum(&[(1, 7), (13, 20)]));
    assert_eq!(angle(20), sum(&[(1, 7), (17, 134)]));
    assert_eq!(angle(40), sum(&[(1, 7), (36, 134)]));
    assert_eq!(angle(60), sum(&[(1, 7), (43, 67)]), "the next cylinder of the group");
    assert_eq!(angle(120), sum(&[(1, 7), (86, 67), (-2, 21)]), "the next group");
    assert_eq!(angle(240 + 40 + 3), sum(&[(1, 7), (4 * 43, 67), (36, 134), (-4, 21), (3, 20)]));
    let last = [(1, 7), (4 * 43, 67), (36, 134), (-4, 21)];
    assert_eq!(angle(300), sum(&[&last[..], &[(9, 16), (2, 16)]].concat()), "the next zone");
    assert_eq!(angle(300 + 48 + 16), sum(&[&last[..], &[(9, 16), (2 + 6 + 6, 16)]].concat()));
}

#[test]
fn serpentines_of_one_track_are_the_mappings_by_cylinder() {
    let step = AngleStep::from_turns(17, 134);
    let plain = ZoneParameters { track_skew: 0, cylinder_skew: 0, ..zone(0, 6, 20) };
    for (mapping, surface_order) in
        [(Mapping::Normal, Alternation::Forward), (Mapping::SerpentinePerZone, Alternation::Alternating)]
    {
        let mut by_cylinder = plain.clone();
        by_cylinder.angles.head_steps = vec![step];
        by_cylinder.angles.cylinder_step = AngleStep::from_turns(3 * 17, 134);
        let by_cylinder = Layout::new(&geometry(Sparing::None, mapping, vec![by_cylinder])).unwrap();
        let mut serpentine = plain.clone();
        serpentine.angles.serpentine_step = step;
        let serpentines = geometry(Sparing::None, Mapping::SurfaceFirst, vec![serpentine]);
        let serpentines = Layout::new(&Geometry { surface_order, ..serpentines }).unwrap();
        for lbn in 0..by_cylinder.blocks() {
            assert_eq!(serpentines.extent(lbn, 100), by_cylinder.extent(lbn, 100), "{mapping:?} {lbn}");
        }
    }
}

#[test]
fn slips_push_the_skew_of_what_follows_their_place() {
    // Slips in cylinder 0 (head 1), in cylinder 1 (head 0, two of them) and among the last cylinder's.
    let slips = vec![25, 61, 62, 130];
    let starts = |sparing: Sparing| -> Vec<u32> {
        let outer = ZoneParameters { spares: 4, slips: slips.clone(), ..zone(0, 2, 20) };
        let layout = Layout::new(&geometry(sparing, Mapping::Normal, vec![outer])).unwrap();
        let unslipped = Layout::new(&geometry(Sparing::None, Mapping::Normal, vec![zone(0, 2, 20)])).unwrap();
        let first_sector = |layout: &Layout, lbn: u64| {
            let extent = layout.extent(lbn, 1);
            let angle = (extent.angle.as_turns() * 20.0).round() as u32 + 20 - extent.sector;
            ((extent.cylinder, extent.head), angle % 20)
        };
        let mut pushed = Vec::new();
        let mut lbn = 0;
        for track in 0..9 {
            let (place, angle) = first_sector(&layout, lbn);
            assert_eq!(place, (track / 3, track % 3), "{sparing:?}");
            let (_, without) = first_sector(&unslipped, u64::from(track) * 20);
            pushed.push((angle + 20 - without) % 20);
            lbn = layout.track_bounds(lbn).1;
        }
        pushed
    };
    assert_eq!(starts(Sparing::SectorsPerTrack), [0, 0, 1, 1, 3, 3, 3, 4, 4]);
    assert_eq!(starts(Sparing::SectorsPerCylinder), [0, 0, 0, 1, 1, 1, 3, 3, 3]);
    assert_eq!(starts(Sparing::SectorsAtZoneEnd).iter().sum::<u32>(), 0);
}

#[test]
fn impossible_geometries_are_refused() {
    let check_refused = |geometry: Geometry, parameter: &str| {
        let error = Layout::new(&geometry).unwrap_err();
        assert_eq!(error.path(), parameter, "{error}");
    };
    let normal = |zones| geometry(Sparing::None, Mapping::Normal, zones);
    check_refused(Geometry { surfaces: 0, ..normal(vec![zone(0, 1, 20)]) }, "surfaces");
    check_refused(normal(vec![]), "zones");
    check_refused(normal(vec![zone(0, 5, 20), zone(4, 8, 20)]), "zones[1].first_cylinder");
    check_refused(normal(vec![zone(0, 5, 0)]), "zones[0].sectors_per_track");
    check_refused(normal(vec![ZoneParameters { slips: vec![5, 5], ..zone(0, 5, 20) }]), "zones[0].slips");
    check_refused(Geometry { capacity_blocks: 9_999, ..normal(vec![zone(0, 5, 20)]) }, "capacity_blocks");
    let mut stepped = zone(0, 1, 20);
    stepped.angles.head_steps = vec![AngleStep::ZERO; 3];
    check_refused(normal(vec![stepped]), "zones[0].angles.head_steps");
    let mut first = zone(0, 1, 20);
    first.angles.zone_step = Some(AngleStep::ZERO);
    check_refused(normal(vec![first]), "zones[0].angles.zone_step");
    let serpentines = |zone: ZoneParameters| Geometry {
        mapping: Mapping::SurfaceFirst,
        serpentine_tracks: 4,
        ..normal(vec![ZoneParameters { track_skew: 0, cylinder_skew: 0, ..zone }])
    };
    assert!(Layout::new(&serpentines(zone(0, 9, 20))).is_ok());
    check_refused(Geometry { serpentine_tracks: 4, ..normal(vec![zone(0, 9, 20)]) }, "serpentine_tracks");
    check_refused(
        Geometry { sparing: Sparing::SectorsPerCylinder, ..serpentines(zone(0, 9, 20)) },
        "sparing",
    );
    let mut skewed = serpentines(zone(0, 9, 20));
    skewed.zones[0].cylinder_skew = 1;
    check_refused(skewed, "zones[0].cylinder_skew");
    let mut stepped = zone(0, 9, 20);
    stepped.angles.serpentine_step = AngleStep::from_turns(9, 16);
    check_refused(normal(vec![stepped]), "zones[0].angles.serpentine_step");
    let by_surface = |surface_sectors: &[u32]| ZoneParameters {
        surface_sectors: surface_sectors.to_vec(),
        ..zone(0, 9, 20)
    };
    assert!(Layout::new(&normal(vec![by_surface(&[20, 18, 20])])).is_ok());
    check_refused(normal(vec![by_surface(&[20, 18])]), "zones[0].surface_sectors");
    check_refused(normal(vec![by_surface(&[19, 18, 19])]), "zones[0].surface_sectors");
    check_refused(normal(vec![by_surface(&[20, 0, 20])]), "zones[0].surface_sectors[1]");
    let beyond = ZoneParameters { slips: vec![580], spares: 9, ..by_surface(&[20, 18, 20]) };
    check_refused(geometry(Sparing::SectorsAtZoneEnd, Mapping::Normal, vec![beyond]), "zones[0].slips");
    let spared = ZoneParameters { spares: 2, ..by_surface(&[20, 18, 20]) };
    check_refused(
        geometry(Sparing::SectorsPerTrack, Mapping::Normal, vec![spared]),
        "zones[0].surface_sectors",
    );
    let full = ZoneParameters { spares: 20, ..zone(0, 5, 20) };
    check_refused(geometry(Sparing::SectorsPerTrack, Mapping::Normal, vec![full]), "zones[0].spares");
    let overslipped = ZoneParameters { spares: 1, slips: vec![4, 5], ..zone(0, 5, 20) };
    check_refused(geometry(Sparing::SectorsAtZoneEnd, Mapping::Normal, vec![overslipped]), "zones[0].slips");
}

proptest! {
    #[test]
    fn random_layout_is_a_bijection(
        sparing in 0_usize..7,
        mapping in 0_usize..3,
        sectors in 5_u32..30,
        cylinders in 1_u32..6,
        slips in proptest::collection::btree_set(0_u64..60, 0..4),
        reserved in 0_u64..5,
    ) {
        let sparing = [
            Sparing::None, Sparing::TracksAtZoneEnd, Sparing::SectorsPerCylinder, Sparing::SectorsPerTrack,
            Sparing::SectorsAtDiskEnd, Sparing::SectorsPerCylinderRange, Sparing::SectorsAtZoneEnd,
        ][sparing];
        let mapping = [Mapping::Normal, Mapping::SerpentinePerZone, Mapping::Serpentine][mapping];
        let slips = if sparing == Sparing::None { Vec::new() } else { slips.into_iter().collect() };
        let zone = ZoneParameters { spares: 4, slips, reserved_blocks: reserved, ..zone(0, cylinders, sectors) };
        let geometry = geometry(sparing, mapping, vec![zone]);
        if Layout::new(&geometry).is_ok() {
            check_exhaustively(&geometry);
        }
    }
}
