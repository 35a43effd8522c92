//! Faults that struck a request.

/// Faults that struck a request, by their numbers in the device: the places of their names in
/// [`Device::faults`](crate::Device::faults). A set is as cheap to copy as a number.
///
/// # Scope and limits
/// Twenty-four numbers. Faults from the number 23 on share the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FaultSet([u8; 3]);

impl FaultSet {
    /// No fault.
    pub const NONE: Self = Self([0; 3]);

    /// Numbers that are kept apart.
    pub const CAPACITY: usize = 24;

    /// Adds the fault of that number.
    #[must_use]
    pub const fn with(self, number: usize) -> Self {
        let last = Self::CAPACITY - 1;
        Self::from_bits(self.bits() | 1 << if number < last { number } else { last })
    }

    /// Adds the faults of another set.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self::from_bits(self.bits() | other.bits())
    }

    /// Returns true if no fault struck.
    pub const fn is_empty(self) -> bool {
        self.bits() == 0
    }

    /// Returns the numbers in order.
    pub fn numbers(self) -> impl Iterator<Item = usize> {
        (0..Self::CAPACITY).filter(move |number| self.bits() >> number & 1 == 1)
    }

    /// The set as a number, one bit for each fault.
    pub const fn bits(self) -> u32 {
        let [low, middle, high] = self.0;
        u32::from_le_bytes([low, middle, high, 0])
    }

    /// The set of that number. Bits beyond the last fault count as the last one.
    pub const fn from_bits(bits: u32) -> Self {
        let [low, middle, high, beyond] = bits.to_le_bytes();
        Self([low, middle, if beyond == 0 { high } else { high | 1 << 7 }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_return_in_order_and_the_last_is_shared() {
        let set = FaultSet::NONE.with(5).with(0).with(23).with(99);
        assert_eq!(set.numbers().collect::<Vec<_>>(), [0, 5, 23]);
        assert_eq!(FaultSet::from_bits(set.bits()), set);
        assert!(FaultSet::NONE.is_empty() && !set.is_empty());
        assert_eq!(FaultSet::NONE.with(3).and(set).numbers().collect::<Vec<_>>(), [0, 3, 5, 23]);
    }
}
