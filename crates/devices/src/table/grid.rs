//! Assignment of distributions to classes: a class has its own distribution if there is one, otherwise the
//! nearest.
//!
//! # Rule
//! Of one operation, the classes of length, queue length and distance span a grid. A class without a
//! distribution of its own has that of the nearest class that has one, counted in steps along the grid's
//! edges; of several equally near classes the first in order of length, queue length and distance. An
//! operation without requests is answered as another: write-zeroes as discards, discards as writes, writes as
//! reads, reads as writes, and flushes as writes. The same holds for the other operation if it has no
//! requests either.

use std::collections::VecDeque;

use seeklab_core::Operation;

use super::classes::{Class, Classes};

/// No distribution.
const NONE: u32 = u32::MAX;

/// Set where the distribution is a neighbour's.
const BORROWED: u32 = 1 << 31;

/// The distribution of each class of each operation.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    counts: [u32; 3],
    /// By operation; empty for an operation without requests.
    places: [Vec<u32>; Operation::ALL.len()],
    /// Operation as which each operation is answered.
    stand_in: [usize; Operation::ALL.len()],
}

/// Requests that a distribution applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) op: Operation,
    pub(super) class: Class,
    /// True if the distribution holds for every distance except sequential ones, regardless of the
    /// class's distance.
    pub(super) is_anywhere: bool,
    /// True if the distribution was extrapolated from others, beyond the measured range.
    pub(super) is_beyond: bool,
}

impl Place {
    /// The classes for which it holds.
    pub(super) fn classes(&self, classes: &Classes) -> impl Iterator<Item = Class> + use<> {
        let class = self.class;
        let one = (!self.is_anywhere).then_some(class);
        let all = self.is_anywhere.then(|| classes.elsewhere());
        one.into_iter().chain(all.into_iter().flatten().map(move |distance| Class { distance, ..class }))
    }
}

/// Distribution of a class, with its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    /// The distribution.
    pub(super) cell: usize,
    /// True if the distribution is that of a neighbour or of another operation, or lies beyond the
    /// measured range.
    pub(super) borrowed: bool,
}

impl Grid {
    /// The grid of the cells given by operation and class, in the order of their distributions.
    pub(super) fn of(classes: &Classes, cells: &[Place]) -> Self {
        let counts = classes.counts();
        let size = counts.iter().map(|count| *count as usize).product();
        let mut places: [Vec<u32>; Operation::ALL.len()] = Default::default();
        for op in Operation::ALL {
            let mut own: Vec<(usize, u32)> = cells
                .iter()
                .enumerate()
                .filter(|(_, cell)| cell.op == op)
                .flat_map(|(index, cell)| {
                    let found = index as u32 | if cell.is_beyond { BORROWED } else { 0 };
                    cell.classes(classes).map(move |class| (place(counts, class), found))
                })
                .collect();
            if own.is_empty() {
                continue;
            }
            own.sort_unstable();
            places[op as usize] = spread(counts, size, &own);
        }
        let seen = |op: Operation| !places[op as usize].is_empty();
        let stand_in = Operation::ALL.map(|op| {
            use Operation::{Discard, Flush, Read, Write, WriteZeroes};
            let others: &[Operation] = match op {
                Read => &[Read, Write, Discard, WriteZeroes, Flush],
                Write => &[Write, Read, Discard, WriteZeroes, Flush],
                Flush => &[Flush, Write, Discard, WriteZeroes, Read],
                Discard => &[Discard, WriteZeroes, Write, Read, Flush],
                WriteZeroes => &[WriteZeroes, Discard, Write, Read, Flush],
            };
            others.iter().copied().find(|other| seen(*other)).unwrap_or(op) as usize
        });
        Self { counts, places, stand_in }
    }

    /// The distribution for requests of that operation and class; there is at least one cell.
    pub(super) fn find(&self, op: Operation, class: Class) -> Found {
        let stand_in = self.stand_in[op as usize];
        let found = self.places[stand_in][place(self.counts, class)];
        Found {
            cell: (found & !BORROWED) as usize,
            borrowed: found & BORROWED != 0 || stand_in != op as usize,
        }
    }
}

/// The place of a class in the grid of so many lengths, queue lengths and distances; in order of these.
pub(super) const fn place([_, queues, distances]: [u32; 3], class: Class) -> usize {
    ((class.length * queues + class.queue) as usize) * distances as usize + class.distance as usize
}

/// Spreads the cells that there are over the grid, nearest first.
fn spread([lengths, queues, distances]: [u32; 3], size: usize, own: &[(usize, u32)]) -> Vec<u32> {
    let mut places = vec![NONE; size];
    let mut reached: VecDeque<usize> = VecDeque::with_capacity(size);
    for (place, cell) in own {
        places[*place] = *cell;
        reached.push_back(*place);
    }
    let (queues, distances) = (queues as usize, distances as usize);
    let steps = [(queues * distances, lengths as usize), (distances, queues), (1, distances)];
    while let Some(from) = reached.pop_front() {
        let cell = places[from] | BORROWED;
        for (step, along) in steps {
            let position = from / step % along;
            let before = (position > 0).then(|| from - step);
            let after = (position + 1 < along).then(|| from + step);
            for to in before.into_iter().chain(after) {
                if places[to] == NONE {
                    places[to] = cell;
                    reached.push_back(to);
                }
            }
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::super::classes::Distance;
    use super::*;

    #[test]
    fn every_class_has_the_nearest_distribution() {
        let classes = Classes::default();
        let class = |blocks, queue, distance| classes.of(blocks, queue, distance);
        let at = |op, class| Place { op, class, is_anywhere: false, is_beyond: false };
        let cells = [
            at(Operation::Read, class(8, 0, Distance::Sequential)),
            at(Operation::Read, class(8, 4, Distance::Blocks(1 << 20))),
            at(Operation::Write, class(64, 0, Distance::Blocks(-100))),
        ];
        let grid = Grid::of(&classes, &cells);
        let find = |op, blocks, queue, distance| grid.find(op, class(blocks, queue, distance));
        assert_eq!(find(Operation::Read, 8, 0, Distance::Sequential), Found { cell: 0, borrowed: false });
        assert_eq!(find(Operation::Read, 15, 0, Distance::Sequential), Found { cell: 0, borrowed: false });
        assert_eq!(find(Operation::Read, 16, 0, Distance::Blocks(0)), Found { cell: 0, borrowed: true });
        assert_eq!(find(Operation::Read, 8, 3, Distance::Blocks(1 << 22)), Found { cell: 1, borrowed: true });
        assert_eq!(find(Operation::Write, 1, 1000, Distance::Blocks(0)), Found { cell: 2, borrowed: true });
        let zeroes = find(Operation::WriteZeroes, 64, 0, Distance::Blocks(-100));
        assert_eq!(zeroes, Found { cell: 2, borrowed: true }, "as a write");
    }

    #[test]
    fn cell_of_any_distance_holds_for_all_but_sequential_requests() {
        let classes = Classes::default();
        let class = |queue, distance| classes.of(8, queue, distance);
        let read = Operation::Read;
        let cells = [
            Place { op: read, class: class(0, Distance::Sequential), is_anywhere: false, is_beyond: false },
            Place { op: read, class: class(0, Distance::Blocks(0)), is_anywhere: true, is_beyond: false },
            Place { op: read, class: class(1, Distance::Blocks(0)), is_anywhere: true, is_beyond: true },
        ];
        let grid = Grid::of(&classes, &cells);
        for blocks in [i64::MIN, -1000, -1, 0, 1, 7, 1 << 40] {
            let at = Distance::Blocks(blocks);
            assert_eq!(grid.find(read, class(0, at)), Found { cell: 1, borrowed: false });
            assert_eq!(grid.find(read, class(1, at)), Found { cell: 2, borrowed: true }, "it lies beyond");
        }
        assert_eq!(grid.find(read, class(0, Distance::Sequential)), Found { cell: 0, borrowed: false });
    }
}
