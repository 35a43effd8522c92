//! Faults of data: the device calls a request carried out, and something else became of its data.

use seeklab_core::{DataEffect, Effect, Operation, Request, Stream};

/// Fault of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataFault {
    /// A write reaches nothing.
    Lost,
    /// Only the first blocks of a write are written, whole units of so many blocks.
    Torn {
        /// Blocks that are written together or not at all.
        unit_blocks: u32,
    },
    /// The data of a write goes to another place.
    MisdirectedWrite(Displacement),
    /// A read brings the data of another place.
    MisdirectedRead(Displacement),
    /// A read brings what the blocks held before they were last written.
    Stale,
    /// A bit of a block changes on the media until the block is written.
    Rot,
}

/// Distance to the wrong place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Displacement {
    /// Blocks to the wrong place, or as far as that to the front where the device ends; `None` for any place.
    pub blocks: Option<u32>,
    /// Blocks of the device.
    pub capacity_blocks: u64,
}

impl Displacement {
    fn draw(self, request: &Request, stream: &mut Stream) -> Effect {
        let (most, length) = (u64::from(DataEffect::BLOCKS_MAX), u64::from(request.blocks));
        let last = self.capacity_blocks - length;
        let from = request.lbn;
        let place = match self.blocks {
            Some(blocks) if from + u64::from(blocks) <= last => from + u64::from(blocks),
            Some(blocks) => from.saturating_sub(u64::from(blocks)),
            None => {
                let (least, greatest) = (from.saturating_sub(most), (from + most).min(last));
                // Any place but its own.
                let place = least + stream.below((greatest - least).max(1));
                if place >= from { place + 1 } else { place }
            }
        };
        let blocks = place.min(last) as i64 - from as i64;
        if blocks == 0 { Effect::None } else { Effect::Misdirected(blocks as i32) }
    }
}

impl DataFault {
    /// Returns true if the fault can strike the request.
    pub const fn is_able(self, request: &Request) -> bool {
        match self {
            Self::Lost | Self::MisdirectedWrite(_) => matches!(request.op, Operation::Write),
            Self::Torn { unit_blocks } => {
                matches!(request.op, Operation::Write) && request.blocks > unit_blocks
            }
            Self::MisdirectedRead(_) | Self::Stale | Self::Rot => matches!(request.op, Operation::Read),
        }
    }

    /// The effect on a request that it can strike, of whose blocks it selects those from `start` to before `end`.
    pub fn effect(self, request: &Request, (start, end): (u64, u64), stream: &mut Stream) -> DataEffect {
        DataEffect::new(match self {
            Self::Lost => Effect::Torn(0),
            Self::Torn { unit_blocks } => {
                // Whole units before the last one, which is not written.
                let units = request.blocks.div_ceil(unit_blocks);
                Effect::Torn(unit_blocks * (1 + stream.below(u64::from(units) - 1) as u32))
            }
            Self::MisdirectedWrite(displacement) | Self::MisdirectedRead(displacement) => {
                displacement.draw(request, stream)
            }
            Self::Stale => Effect::Stale,
            Self::Rot => Effect::Rotten((start + stream.below(end - start) - request.lbn) as u32),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seeklab_core::Seed;

    use super::*;

    proptest! {
        #[test]
        fn wrong_place_lies_in_the_device_and_is_another(
            lbn in 0_u64..1_000, blocks in 1_u32..24, by in prop::option::of(1_u32..2_000), draw: u64
        ) {
            let displacement = Displacement { blocks: by, capacity_blocks: 1_024 };
            let request = Request::new(1, Operation::Write, lbn, blocks);
            let mut stream = Seed(draw).stream("place");
            match displacement.draw(&request, &mut stream) {
                Effect::Misdirected(distance) => {
                    let place = lbn as i64 + i64::from(distance);
                    prop_assert!(distance != 0 && place >= 0 && place + i64::from(blocks) <= 1_024);
                    if let Some(by) = by {
                        prop_assert!(distance.unsigned_abs() <= by);
                    }
                }
                other => prop_assert!(other == Effect::None && by.is_some_and(|by| u64::from(by) > lbn && lbn == 0)),
            }
        }

        #[test]
        fn torn_write_keeps_whole_units_and_never_all(blocks in 2_u32..200, unit_blocks in 1_u32..16, draw: u64) {
            let (fault, request) = (DataFault::Torn { unit_blocks }, Request::new(1, Operation::Write, 8, blocks));
            prop_assume!(fault.is_able(&request));
            let effect = fault.effect(&request, (8, request.end()), &mut Seed(draw).stream("torn"));
            let Effect::Torn(kept) = effect.effect() else { panic!("{effect:?}") };
            prop_assert!(kept > 0 && kept < blocks && kept.is_multiple_of(unit_blocks), "{kept}");
        }
    }
}
