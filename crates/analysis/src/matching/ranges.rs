//! Remaining parts of a range of bytes.

use std::ops::Range;

/// Disjoint, non-empty ranges in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// All of one range, which may be empty.
    pub(super) fn all(range: &Range<u64>) -> Self {
        Self(if range.is_empty() { Vec::new() } else { vec![range.clone()] })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first byte, if there is one.
    pub(super) fn start(&self) -> Option<u64> {
        self.0.first().map(|range| range.start)
    }

    /// Returns true if these ranges are exactly the given range.
    pub(super) fn is(&self, range: &Range<u64>) -> bool {
        matches!(self.0.as_slice(), [only] if only == range)
    }

    /// Returns true if the range lies within one of these ranges.
    pub(super) fn contains(&self, range: &Range<u64>) -> bool {
        self.0.iter().any(|own| own.start <= range.start && range.end <= own.end)
    }

    /// Returns the intersection of both.
    pub(super) fn common(&self, other: &Self) -> Self {
        let mut common = Vec::new();
        let (mut own, mut others) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(one), Some(two)) = (own.peek(), others.peek()) {
            let both = one.start.max(two.start)..one.end.min(two.end);
            if !both.is_empty() {
                common.push(both);
            }
            if one.end < two.end {
                own.next();
            } else {
                others.next();
            }
        }
        Self(common)
    }

    /// Takes those out.
    pub(super) fn remove(&mut self, others: &Self) {
        for other in &others.0 {
            let kept = self
                .0
                .iter()
                .flat_map(|own| [own.start..own.end.min(other.start), own.start.max(other.end)..own.end]);
            self.0 = kept.filter(|range| !range.is_empty()).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(ranges: &Ranges) -> Vec<u64> {
        ranges.0.iter().cloned().flatten().collect()
    }

    fn any_ranges() -> impl Strategy<Value = Ranges> {
        prop::collection::vec((0_u64..20, 0_u64..8), 0..6).prop_map(|holes| {
            let mut ranges = Ranges::all(&(0..24));
            for (start, length) in holes {
                ranges.remove(&Ranges::all(&(start..start + length)));
            }
            ranges
        })
    }

    proptest! {
        #[test]
        fn arithmetic_equals_that_of_sets(one in any_ranges(), two in any_ranges()) {
            let (ones, twos) = (bytes(&one), bytes(&two));
            let common: Vec<u64> = ones.iter().copied().filter(|byte| twos.contains(byte)).collect();
            prop_assert_eq!(bytes(&one.common(&two)), common);
            let mut rest = one.clone();
            rest.remove(&two);
            let left: Vec<u64> = ones.iter().copied().filter(|byte| !twos.contains(byte)).collect();
            prop_assert_eq!(bytes(&rest), left);
            prop_assert_eq!(one.start(), ones.first().copied());
            prop_assert_eq!(one.contains(&(4..7)), (4..7).all(|byte| ones.contains(&byte)));
        }
    }
}
