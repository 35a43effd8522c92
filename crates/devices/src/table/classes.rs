//! The classes into which requests fall: by length, queue length and seek distance.
//!
//! ```text
//! value    1   2   3   4   5   6   7   8 … 15   16 …      one class for each doubling,
//! class    0 │ 1     │ 2             │ 3      │ 4 …       or 2 or 4
//! distance … -2..-3  -1  0  sequential  +1  +2..+3 …      a line: neighbours are alike
//! ```
//! # References
//! \[Thornock97, 3\], which does not give its classes.

use schemars::JsonSchema;
use seeklab_core::statistics::{least_of, octave_class};
use serde::{Deserialize, Serialize};

use crate::error::{DescriptionError, check};

/// Resolution of the classes of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Classes {
    /// Classes of lengths for each doubling: 1, 2 or 4.
    pub lengths_per_octave: u32,
    /// Classes of queue lengths for each doubling: 1, 2 or 4. With 4, each queue length up to 7 has its
    /// own class. With 0, all queue lengths are one class.
    pub queues_per_octave: u32,
    /// Classes of seek distances for each doubling: 1, 2 or 4. With 0, all distances are one class.
    pub distances_per_octave: u32,
}

impl Default for Classes {
    fn default() -> Self {
        Self { lengths_per_octave: 1, queues_per_octave: 4, distances_per_octave: 1 }
    }
}

/// Doublings of a length in blocks, a queue length and a distance in blocks; what is beyond counts as the last.
const OCTAVES: [u32; 3] = [24, 16, 48];

/// Distance of a request from the one before it on the same device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// From start to start, in blocks.
    Blocks(i64),
    /// The request begins where the one before ended.
    Sequential,
}

/// The class of a request, apart from its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    /// Of its length.
    pub length: u32,
    /// Of the queue length at its arrival.
    pub queue: u32,
    /// Of its seek distance.
    pub distance: u32,
}

impl Classes {
    /// Classes that distinguish requests by their length alone, as finely as possible.
    pub const LENGTHS: Self = Self { lengths_per_octave: 4, queues_per_octave: 0, distances_per_octave: 0 };

    /// Checks that there are 1, 2 or 4 for each doubling; or 0 for one class of all queue lengths or distances.
    ///
    /// # Errors
    /// The first of the three numbers that is none of these.
    pub fn check(&self) -> Result<(), DescriptionError> {
        let all = [
            ("lengths_per_octave", self.lengths_per_octave, false),
            ("queues_per_octave", self.queues_per_octave, true),
            ("distances_per_octave", self.distances_per_octave, true),
        ];
        for (name, per_octave, may_be_none) in all {
            let is_allowed = matches!(per_octave, 1 | 2 | 4) || (may_be_none && per_octave == 0);
            let allowed = if may_be_none { "1, 2 or 4, or 0 for a single class" } else { "1, 2 or 4" };
            check(is_allowed, format!("classes.{name}"), per_octave.to_string(), allowed)?;
        }
        Ok(())
    }

    /// Returns the numbers of classes of lengths, queue lengths and distances.
    pub const fn counts(&self) -> [u32; 3] {
        [
            OCTAVES[0] * self.lengths_per_octave,
            1 + OCTAVES[1] * self.queues_per_octave,
            if self.distances_per_octave == 0 { 1 } else { 2 + 2 * OCTAVES[2] * self.distances_per_octave },
        ]
    }

    /// The class of a request.
    pub fn of(&self, blocks: u32, queue_length: u32, distance: Distance) -> Class {
        let [lengths, queues, _] = self.counts();
        let length = octave_class(u64::from(blocks.max(1)), self.lengths_per_octave).min(lengths - 1);
        let queue = match queue_length {
            _ if self.queues_per_octave == 0 => 0,
            0 => 0,
            length => (1 + octave_class(u64::from(length), self.queues_per_octave)).min(queues - 1),
        };
        Class { length, queue, distance: self.of_distance(distance) }
    }

    fn of_distance(&self, distance: Distance) -> u32 {
        let side = OCTAVES[2] * self.distances_per_octave;
        let far = |blocks: u64| octave_class(blocks, self.distances_per_octave).min(side - 1);
        match distance {
            _ if self.distances_per_octave == 0 => 0,
            Distance::Blocks(0) => side,
            Distance::Sequential => side + 1,
            Distance::Blocks(blocks) if blocks > 0 => side + 2 + far(blocks.unsigned_abs()),
            Distance::Blocks(blocks) => side - 1 - far(blocks.unsigned_abs()),
        }
    }

    /// Every class of distances but that of sequential requests; the only class, if all distances are one.
    pub(super) fn elsewhere(&self) -> impl Iterator<Item = u32> + use<> {
        let (sequential, count) = (self.of_distance(Distance::Sequential), self.counts()[2]);
        (0..count).filter(move |class| *class != sequential || count == 1)
    }

    /// The least length, queue length and distance of a class.
    pub fn least(&self, class: Class) -> (u32, u32, Distance) {
        let side = OCTAVES[2] * self.distances_per_octave;
        let distance = match class.distance {
            // Of a single class of distances, the side has no classes.
            zero if zero == side => Distance::Blocks(0),
            sequential if sequential == side + 1 => Distance::Sequential,
            ahead if ahead > side => {
                Distance::Blocks(least_of(ahead - side - 2, self.distances_per_octave) as i64)
            }
            behind => Distance::Blocks(-(least_of(side - 1 - behind, self.distances_per_octave) as i64)),
        };
        let queue = match class.queue {
            0 => 0,
            class => least_of(class - 1, self.queues_per_octave) as u32,
        };
        (least_of(class.length, self.lengths_per_octave) as u32, queue, distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_classes_ascend_along_the_line_of_distances() {
        let classes = Classes::default();
        let line = [-5000, -3, -1, 0, 1, 2, 3, 4, 1 << 40].map(Distance::Blocks);
        let mut places: Vec<u32> = line.iter().map(|distance| classes.of_distance(*distance)).collect();
        places.insert(4, classes.of_distance(Distance::Sequential));
        assert!(places.windows(2).all(|pair| pair[0] <= pair[1]), "{places:?}");
        assert_eq!(places[3] + 1, places[4]);
        assert_eq!(places[6], places[7], "2 and 3 are one class");
        let last = classes.counts()[2] - 1;
        assert_eq!(classes.of_distance(Distance::Blocks(i64::MAX)), last);
        assert_eq!(classes.of_distance(Distance::Blocks(i64::MIN)), 0);
    }

    #[test]
    fn least_value_of_a_class_is_in_that_class() {
        for per_octave in [0, 1, 2, 4] {
            let classes = Classes {
                lengths_per_octave: per_octave.max(1),
                queues_per_octave: per_octave,
                distances_per_octave: per_octave,
            };
            assert!(classes.check().is_ok());
            for value in (1..5_000_u32).chain([1 << 20, u32::MAX]) {
                for distance in [Distance::Blocks(i64::from(value)), Distance::Blocks(-i64::from(value))] {
                    let class = classes.of(value, value, distance);
                    let (blocks, queue_length, least) = classes.least(class);
                    assert!(blocks <= value && queue_length <= value);
                    assert_eq!(classes.of(blocks, queue_length, least), class, "{value} by {per_octave}");
                }
            }
        }
        assert!(Classes { lengths_per_octave: 3, ..Classes::default() }.check().is_err());
        assert!(Classes { lengths_per_octave: 0, ..Classes::default() }.check().is_err());
    }

    #[test]
    fn classes_of_lengths_alone_distinguish_nothing_else() {
        let classes = Classes::LENGTHS;
        let class = classes.of(8, 0, Distance::Sequential);
        for (queue, distance) in [(3, Distance::Blocks(-7)), (1 << 20, Distance::Blocks(0))] {
            assert_eq!(classes.of(8, queue, distance), class);
        }
        assert_ne!(classes.of(10, 0, Distance::Sequential), class);
        assert_eq!(classes.elsewhere().collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn short_queues_have_classes_of_their_own() {
        let classes = Classes::default();
        let class = |length| classes.of(8, length, Distance::Sequential).queue;
        for length in 0..8 {
            assert_ne!(class(length), class(length + 1), "{length}");
        }
        assert_eq!(class(8), class(9));
    }
}
