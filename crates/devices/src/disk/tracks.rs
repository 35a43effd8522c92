//! Order in which the tracks of a zone are used, and the sectors on them.
//!
//! ```text
//! cylinder first                 surface first, serpentines of 3 tracks, seeks alternating
//!            cylinder                       cylinder
//!            0  1  2  3  4  5               0  1  2  3  4  5
//! surface 0  0  2  4  6  8 10    surface 0  0  1  2  6  7  8
//! surface 1  1  3  5  7  9 11    surface 1  5  4  3 11 10  9
//! ```
//! Sectors of a zone are numbered in the order of use. A *group* is the cylinders whose tracks are used before those of the
//! next: one cylinder, or those of one serpentine on each surface. A zone may end within a group.

use super::divisor::Divisor;
use super::geometry::{Alternation, Geometry, Mapping, ZoneParameters};

/// A sector of a zone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spot {
    /// Cylinder, counted from the zone's first.
    pub(super) cylinder: u64,
    pub(super) head: u64,
    pub(super) group: Group,
    /// Surfaces of the group that are used before this one.
    pub(super) pass: u64,
    /// Tracks of the group that are used before this one on its surface.
    pub(super) index: u64,
    /// Sector on the track.
    pub(super) sector: u64,
    /// Sectors on the track.
    pub(super) sectors: u64,
}

/// Cylinders whose tracks are used before those of the next group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    pub(super) number: u64,
    pub(super) cylinders: u64,
    /// True if the last surface is used first.
    pub(super) is_reversed: bool,
}

/// The order of the tracks of a zone.
#[derive(Debug, Clone)]
pub(super) enum TrackOrder {
    /// Cylinder by cylinder, equally many sectors on every track.
    Cylinders(Cylinders),
    /// Serpentines on one surface after the other, or surfaces with different numbers of sectors.
    Serpentines(Serpentines),
}

/// Groups in which the surfaces are used from the last to the first.
#[derive(Debug, Clone, Copy)]
enum Reversal {
    Never,
    /// Groups whose number plus this one is odd.
    Odd(u64),
}

#[derive(Debug, Clone)]
pub(super) struct Cylinders {
    cylinders: u64,
    heads: Divisor,
    sectors: Divisor,
    reversal: Reversal,
}

#[derive(Debug, Clone)]
pub(super) struct Serpentines {
    cylinders: u64,
    group_cylinders: Divisor,
    group_sectors: Divisor,
    /// Sectors on each track, by surface.
    sectors: Vec<Divisor>,
    /// Sectors of a cylinder on surfaces that are used before each: in order, and in reverse.
    before: [Vec<u64>; 2],
    reversal: Reversal,
    /// True if every other serpentine of a group runs outwards.
    seeks_alternate: bool,
}

impl TrackOrder {
    pub(super) fn new(geometry: &Geometry, zone: &ZoneParameters) -> Self {
        let cylinders = zone.cylinders();
        let reversal = match (geometry.mapping, geometry.surface_order) {
            (Mapping::Normal, _) | (Mapping::SurfaceFirst, Alternation::Forward) => Reversal::Never,
            (Mapping::SerpentinePerZone, _) | (Mapping::SurfaceFirst, Alternation::Alternating) => {
                Reversal::Odd(0)
            }
            (Mapping::Serpentine, _) => Reversal::Odd(u64::from(zone.first_cylinder)),
        };
        let is_surface_first = geometry.mapping == Mapping::SurfaceFirst;
        if !is_surface_first && zone.surface_sectors.is_empty() {
            return Self::Cylinders(Cylinders {
                cylinders,
                heads: Divisor::new(u64::from(geometry.surfaces)),
                sectors: Divisor::new(u64::from(zone.sectors_per_track)),
                reversal,
            });
        }
        let sectors: Vec<u64> = (0..geometry.surfaces).map(|head| u64::from(zone.sectors_on(head))).collect();
        let add = |sum: &mut u64, sectors: &u64| {
            let before = *sum;
            *sum += sectors;
            Some(before)
        };
        let before = [sectors.iter().scan(0, add).collect(), sectors.iter().rev().scan(0, add).collect()];
        let serpentine = if is_surface_first { u64::from(geometry.serpentine_tracks) } else { 1 };
        Self::Serpentines(Serpentines {
            cylinders,
            group_cylinders: Divisor::new(serpentine.min(cylinders)),
            group_sectors: Divisor::new(serpentine.min(cylinders) * sectors.iter().sum::<u64>()),
            before,
            sectors: sectors.into_iter().map(Divisor::new).collect(),
            reversal,
            seeks_alternate: is_surface_first && geometry.seek_direction == Alternation::Alternating,
        })
    }

    /// The place of a sector of the zone.
    #[inline]
    pub(super) fn spot(&self, sector: u64) -> Spot {
        match self {
            Self::Cylinders(cylinders) => cylinders.spot(sector),
            Self::Serpentines(serpentines) => serpentines.spot(sector),
        }
    }

    /// First sector of the zone on a track, and the sectors on that track.
    pub(super) fn track(&self, cylinder: u64, head: u64) -> (u64, u64) {
        match self {
            Self::Cylinders(cylinders) => cylinders.track(cylinder, head),
            Self::Serpentines(serpentines) => serpentines.track(cylinder, head),
        }
    }

    /// First sector of the track before which `tracks` tracks of the zone are used, or the end of the zone.
    pub(super) fn start(&self, tracks: u64) -> u64 {
        match self {
            Self::Cylinders(cylinders) => tracks * cylinders.sectors.get(),
            Self::Serpentines(serpentines) => serpentines.start(tracks),
        }
    }

    /// First sector of a group.
    pub(super) const fn group_start(&self, group: Group) -> u64 {
        match self {
            Self::Cylinders(Cylinders { heads, sectors, .. }) => group.number * heads.get() * sectors.get(),
            Self::Serpentines(serpentines) => group.number * serpentines.group_sectors.get(),
        }
    }

    /// Sectors of the zone.
    pub(super) fn sectors(&self) -> u64 {
        self.start(self.tracks())
    }

    /// Tracks of the zone.
    pub(super) const fn tracks(&self) -> u64 {
        match self {
            Self::Cylinders(Cylinders { cylinders, heads, .. }) => *cylinders * heads.get(),
            Self::Serpentines(Serpentines { cylinders, sectors, .. }) => *cylinders * sectors.len() as u64,
        }
    }
}

impl Reversal {
    #[inline]
    const fn reverses(self, group: u64) -> bool {
        match self {
            Self::Never => false,
            Self::Odd(from) => (group + from) % 2 == 1,
        }
    }
}

impl Cylinders {
    #[inline]
    fn spot(&self, sector: u64) -> Spot {
        let (track, sector) = self.sectors.div_rem(sector);
        let (cylinder, pass) = self.heads.div_rem(track);
        let is_reversed = self.reversal.reverses(cylinder);
        Spot {
            cylinder,
            head: if is_reversed { self.heads.get() - 1 - pass } else { pass },
            group: Group { number: cylinder, cylinders: 1, is_reversed },
            pass,
            index: 0,
            sector,
            sectors: self.sectors.get(),
        }
    }

    const fn track(&self, cylinder: u64, head: u64) -> (u64, u64) {
        let heads = self.heads.get();
        let pass = if self.reversal.reverses(cylinder) { heads - 1 - head } else { head };
        ((cylinder * heads + pass) * self.sectors.get(), self.sectors.get())
    }
}

impl Serpentines {
    fn group(&self, number: u64) -> Group {
        let most = self.group_cylinders.get();
        Group {
            number,
            cylinders: most.min(self.cylinders - number * most),
            is_reversed: self.reversal.reverses(number),
        }
    }

    fn before(&self, group: Group) -> &[u64] {
        &self.before[usize::from(group.is_reversed)]
    }

    /// Surface that is used after `pass` others, or the reverse.
    const fn head(&self, group: Group, pass: u64) -> u64 {
        if group.is_reversed { self.sectors.len() as u64 - 1 - pass } else { pass }
    }

    /// Cylinder of the group on which the track of that index lies, or the reverse.
    const fn cylinder(&self, group: Group, pass: u64, index: u64) -> u64 {
        if self.seeks_alternate && pass % 2 == 1 { group.cylinders - 1 - index } else { index }
    }

    #[inline(never)]
    fn spot(&self, sector: u64) -> Spot {
        let (number, in_group) = self.group_sectors.div_rem(sector);
        let group = self.group(number);
        let before = self.before(group);
        let pass = before.partition_point(|before| before * group.cylinders <= in_group) as u64 - 1;
        let head = self.head(group, pass);
        let sectors = self.sectors[head as usize];
        let (index, sector) = sectors.div_rem(in_group - before[pass as usize] * group.cylinders);
        Spot {
            cylinder: number * self.group_cylinders.get() + self.cylinder(group, pass, index),
            head,
            group,
            pass,
            index,
            sector,
            sectors: sectors.get(),
        }
    }

    /// First sector of the track at `index` of a serpentine.
    fn first(&self, group: Group, pass: u64, index: u64) -> u64 {
        let sectors = self.sectors[self.head(group, pass) as usize].get();
        let before = self.before(group)[pass as usize] * group.cylinders;
        group.number * self.group_sectors.get() + before + index * sectors
    }

    fn track(&self, cylinder: u64, head: u64) -> (u64, u64) {
        let (number, in_group) = self.group_cylinders.div_rem(cylinder);
        let group = self.group(number);
        let pass = self.head(group, head);
        let first = self.first(group, pass, self.cylinder(group, pass, in_group));
        (first, self.sectors[head as usize].get())
    }

    fn start(&self, tracks: u64) -> u64 {
        let heads = self.sectors.len() as u64;
        let number = tracks / (heads * self.group_cylinders.get());
        if tracks == heads * self.cylinders {
            return self.cylinders * (self.group_sectors.get() / self.group_cylinders.get());
        }
        let group = self.group(number);
        let in_group = tracks - number * heads * self.group_cylinders.get();
        self.first(group, in_group / group.cylinders, in_group % group.cylinders)
    }
}
