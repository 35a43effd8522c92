//! Faults that struck a request.

/// Faults that struck a request, by their numbers in the device: the places of their names in
/// [`Device::faults`](crate::Device::faults). A set is as cheap to copy as a number.
///
/// # Scope and limits
/// Thirty-two numbers. Faults from the number 31 on share the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FaultSet(u32);

impl FaultSet {
    /// No fault.
    pub const NONE: Self = Self(0);

    /// Numbers that are kept apart.
    pub const CAPACITY: usize = u32::BITS as usize;

    /// Adds the fault of that number.
    #[must_use]
    pub const fn with(self, number: usize) -> Self {
        let last = Self::CAPACITY - 1;
        Self(self.0 | 1 << if number < last { number } else { last })
    }

    /// Adds the faults of another set.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns true if no fault struck.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the numbers in order.
    pub fn numbers(self) -> impl Iterator<Item = usize> {
        (0..Self::CAPACITY).filter(move |number| self.0 >> number & 1 == 1)
    }

    /// The set as a number, one bit for each fault.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The set of that number.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_return_in_order_and_the_last_is_shared() {
        let set = FaultSet::NONE.with(5).with(0).with(31).with(99);
        assert_eq!(set.numbers().collect::<Vec<_>>(), [0, 5, 31]);
        assert_eq!(FaultSet::from_bits(set.bits()), set);
        assert!(FaultSet::NONE.is_empty() && !set.is_empty());
        assert_eq!(FaultSet::NONE.with(3).and(set).numbers().collect::<Vec<_>>(), [0, 3, 5, 31]);
    }
}
