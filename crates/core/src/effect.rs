//! Effect of a fault on the data of a request that the device calls carried out.

use std::fmt;

/// Effect of a fault on the data of a request, in four bytes. The device does not know of it: the status of the request
/// says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct DataEffect(u32);

/// Kind of an effect on data, with its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The data is where it should be.
    None,
    /// Of a write that many blocks from the first on were written; none if the write was lost.
    Torn(u32),
    /// The data was written to, or read from, the place that many blocks further on.
    Misdirected(i32),
    /// A read brought what the blocks held before they were last written.
    Stale,
    /// A bit of that block of the request, counted from its first, has changed on the media.
    Rotten(u32),
}

/// Bits of the kind.
const KIND_BITS: u32 = 3;

impl DataEffect {
    /// No effect.
    pub const NONE: Self = Self(0);

    /// Blocks that the size of an effect can count.
    pub const BLOCKS_MAX: u32 = (1 << 28) - 1;

    /// Packs `effect`.
    ///
    /// # Panics
    /// If its size is above [`BLOCKS_MAX`](Self::BLOCKS_MAX).
    pub fn new(effect: Effect) -> Self {
        let (kind, size) = match effect {
            Effect::None => (0, 0),
            Effect::Torn(blocks) => (1, i64::from(blocks)),
            Effect::Misdirected(blocks) => (2, i64::from(blocks)),
            Effect::Stale => (3, 0),
            Effect::Rotten(block) => (4, i64::from(block)),
        };
        assert!(size.unsigned_abs() <= u64::from(Self::BLOCKS_MAX), "{effect:?} is too large");
        Self(((size as u32) << KIND_BITS) | kind)
    }

    /// The effect.
    pub const fn effect(self) -> Effect {
        let size = (self.0 as i32) >> KIND_BITS;
        match self.0 & ((1 << KIND_BITS) - 1) {
            1 => Effect::Torn(size as u32),
            2 => Effect::Misdirected(size),
            3 => Effect::Stale,
            4 => Effect::Rotten(size as u32),
            _ => Effect::None,
        }
    }

    /// Returns true if there is none.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for DataEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.effect().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_are_packed_and_unpacked() {
        let most = DataEffect::BLOCKS_MAX;
        for effect in [
            Effect::None,
            Effect::Torn(0),
            Effect::Torn(most),
            Effect::Misdirected(-(most as i32)),
            Effect::Misdirected(-1),
            Effect::Misdirected(most as i32),
            Effect::Stale,
            Effect::Rotten(0),
            Effect::Rotten(most),
        ] {
            let packed = DataEffect::new(effect);
            assert_eq!((packed.effect(), packed.is_none()), (effect, effect == Effect::None));
        }
    }

    #[test]
    fn completion_is_no_larger_for_them() {
        assert_eq!(size_of::<DataEffect>(), 4);
        assert_eq!(size_of::<crate::Completion>(), 160);
    }
}
