//! Division by a constant that is known only at run time.

/// A divisor with its reciprocal: dividing costs one multiplication.
///
/// Exact for dividends below 2⁶⁴ / divisor, that is for every sector of a disk of up to 2⁴⁸ sectors
/// with up to 65,536 sectors to the track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Divisor {
    divisor: u64,
    reciprocal: u64,
}

impl Divisor {
    /// # Panics
    /// If `divisor` is zero.
    pub(super) const fn new(divisor: u64) -> Self {
        // Rounded up: floor(2^64 / d) + 1, but for powers of two, where the quotient itself is exact
        // and for 1, where it would not fit, the largest value serves.
        let reciprocal = if divisor == 1 { u64::MAX } else { u64::MAX / divisor + 1 };
        Self { divisor, reciprocal }
    }

    pub(super) const fn get(self) -> u64 {
        self.divisor
    }

    /// Quotient and remainder.
    pub(super) const fn div_rem(self, dividend: u64) -> (u64, u64) {
        if self.divisor == 1 {
            return (dividend, 0);
        }
        let quotient = ((dividend as u128 * self.reciprocal as u128) >> 64) as u64;
        debug_assert!(quotient == dividend / self.divisor);
        (quotient, dividend - quotient * self.divisor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn reciprocal_divides_exactly(divisor in 1_u64..65_536, dividend in 0_u64..1 << 48) {
            prop_assert_eq!(
                Divisor::new(divisor).div_rem(dividend),
                (dividend / divisor, dividend % divisor)
            );
        }
    }
}
