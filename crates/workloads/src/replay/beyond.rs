//! Requests of a trace that lie beyond the end of the device it is replayed on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Treatment of a request whose last block lies beyond the end of the device.
///
/// With `c` blocks of capacity, a request of `b` blocks at `lbn`, and a trace that extends over `e`
/// blocks (the end of its furthest request):
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Beyond {
    /// The replay ends with an error that names it.
    #[default]
    Error,
    /// The request begins at `lbn modulo (c - b + 1)`; requests within the device stay where they are.
    Wrap,
    /// If `e > c`, *every* request begins at `lbn × c / e`, rounded down, and at `c - b` at the
    /// latest. Distances shrink, and requests that followed each other may overlap or leave gaps.
    Scale,
    /// The request is omitted and counted.
    Drop,
}

/// Placement of a request of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// At its recorded block.
    Same,
    /// To another block.
    Moved(u64),
    /// Nowhere.
    Dropped,
    /// The request cannot be placed.
    Refused,
}

/// Places requests on a device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fit {
    pub(super) beyond: Beyond,
    pub(super) capacity_blocks: u64,
    /// Blocks that the trace extends over. Used only by `Scale`.
    pub(super) address_range_blocks: u64,
}

impl Fit {
    pub(super) fn place(self, lbn: u64, blocks: u32) -> Place {
        let (capacity, blocks) = (self.capacity_blocks, u64::from(blocks));
        let within = lbn.checked_add(blocks).is_some_and(|end| end <= capacity);
        let place = match self.beyond {
            Beyond::Scale if self.address_range_blocks > capacity => {
                let Some(last) = capacity.checked_sub(blocks) else { return Place::Refused };
                let scaled = u128::from(lbn) * u128::from(capacity) / u128::from(self.address_range_blocks);
                u64::try_from(scaled).unwrap_or(u64::MAX).min(last)
            }
            _ if within => lbn,
            Beyond::Drop => return Place::Dropped,
            Beyond::Wrap if blocks <= capacity => lbn % (capacity - blocks + 1),
            _ => return Place::Refused,
        };
        if place == lbn { Place::Same } else { Place::Moved(place) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(beyond: Beyond, lbn: u64, blocks: u32, expect: Place) {
        let fit = Fit { beyond, capacity_blocks: 100, address_range_blocks: 400 };
        assert_eq!(fit.place(lbn, blocks), expect, "{beyond:?} {lbn} {blocks}");
    }

    #[test]
    fn every_policy_places_requests_as_documented() {
        for beyond in [Beyond::Error, Beyond::Wrap, Beyond::Drop] {
            check(beyond, 92, 8, Place::Same);
        }
        check(Beyond::Error, 93, 8, Place::Refused);
        check(Beyond::Drop, 93, 8, Place::Dropped);
        check(Beyond::Wrap, 93, 8, Place::Moved(0));
        check(Beyond::Wrap, 94, 8, Place::Moved(1));
        check(Beyond::Wrap, 0, 101, Place::Refused);
        check(Beyond::Wrap, u64::MAX, 8, Place::Moved(u64::MAX % 93));
        check(Beyond::Scale, 200, 8, Place::Moved(50));
        check(Beyond::Scale, 399, 8, Place::Moved(92));
        check(Beyond::Scale, 0, 8, Place::Same);
        check(Beyond::Scale, 0, 101, Place::Refused);
    }
}
