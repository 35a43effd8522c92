//! Requests of a fitted model that lie outside of what it was fitted to, counted by what they lie outside of.

use std::ops::AddAssign;

use crate::request::Operation;

/// A bound of the region that a model was fitted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(usize)]
pub enum RegionBound {
    /// The operation of the request was not fitted.
    Operation,
    /// Requests shorter than fitted.
    LengthBelow,
    /// Requests longer than fitted.
    LengthAbove,
    /// Fewer other requests in the device than fitted.
    QueueBelow,
    /// More other requests in the device than fitted.
    QueueAbove,
    /// Less sequential than fitted.
    SequentialBelow,
    /// More sequential than fitted.
    SequentialAbove,
    /// Reads less sequential than fitted.
    SequentialReadsBelow,
    /// Reads more sequential than fitted.
    SequentialReadsAbove,
    /// Writes less sequential than fitted.
    SequentialWritesBelow,
    /// Writes more sequential than fitted.
    SequentialWritesAbove,
    /// Longer interarrival times than fitted.
    RateBelow,
    /// More requests per second than fitted.
    RateAbove,
    /// Share of requests with force unit access below the fitted one.
    FuaBelow,
    /// Share of requests with force unit access above the fitted one.
    FuaAbove,
    /// Share of reads above the fitted one.
    Reads,
    /// Share of writes above the fitted one.
    Writes,
    /// Share of flushes above the fitted one.
    Flushes,
    /// Share of discards above the fitted one.
    Discards,
    /// Share of write-zeroes above the fitted one.
    WriteZeroes,
    /// A combination of length, queue length and distance without fitted requests, of a model that has tables.
    Combination,
}

/// Side of a bound on which requests lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegionSide {
    /// Below the least that was fitted.
    Below,
    /// Above the most that was fitted.
    Above,
    /// Not fitted at all.
    Absent,
}

impl RegionBound {
    /// Number of bounds.
    pub const COUNT: usize = 21;

    /// Every bound.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Operation,
        Self::LengthBelow,
        Self::LengthAbove,
        Self::QueueBelow,
        Self::QueueAbove,
        Self::SequentialBelow,
        Self::SequentialAbove,
        Self::SequentialReadsBelow,
        Self::SequentialReadsAbove,
        Self::SequentialWritesBelow,
        Self::SequentialWritesAbove,
        Self::RateBelow,
        Self::RateAbove,
        Self::FuaBelow,
        Self::FuaAbove,
        Self::Reads,
        Self::Writes,
        Self::Flushes,
        Self::Discards,
        Self::WriteZeroes,
        Self::Combination,
    ];

    /// The bound of the share of an operation.
    pub const fn share_of(op: Operation) -> Self {
        match op {
            Operation::Read => Self::Reads,
            Operation::Write => Self::Writes,
            Operation::Flush => Self::Flushes,
            Operation::Discard => Self::Discards,
            Operation::WriteZeroes => Self::WriteZeroes,
        }
    }

    /// The bounded property, in documents for machines.
    pub const fn property(self) -> &'static str {
        match self {
            Self::Operation => "operation",
            Self::LengthBelow | Self::LengthAbove => "length",
            Self::QueueBelow | Self::QueueAbove => "queue_length",
            Self::SequentialBelow | Self::SequentialAbove => "sequential_share",
            Self::SequentialReadsBelow | Self::SequentialReadsAbove => "sequential_share_of_reads",
            Self::SequentialWritesBelow | Self::SequentialWritesAbove => "sequential_share_of_writes",
            Self::RateBelow | Self::RateAbove => "rate",
            Self::FuaBelow | Self::FuaAbove => "fua_share",
            Self::Reads => "read_share",
            Self::Writes => "write_share",
            Self::Flushes => "flush_share",
            Self::Discards => "discard_share",
            Self::WriteZeroes => "write_zeroes_share",
            Self::Combination => "combination",
        }
    }

    /// Side of the bound on which requests are counted.
    pub const fn side(self) -> RegionSide {
        match self {
            Self::LengthBelow
            | Self::QueueBelow
            | Self::SequentialBelow
            | Self::SequentialReadsBelow
            | Self::SequentialWritesBelow
            | Self::RateBelow
            | Self::FuaBelow => RegionSide::Below,
            Self::Operation | Self::Combination => RegionSide::Absent,
            _ => RegionSide::Above,
        }
    }

    /// The bound in words, as in "… lies outside of the fitted range: WORDS".
    pub const fn words(self) -> &'static str {
        match self {
            Self::Operation => "operation without fitted requests",
            Self::LengthBelow => "length below",
            Self::LengthAbove => "length above",
            Self::QueueBelow => "queue length below",
            Self::QueueAbove => "queue length above",
            Self::SequentialBelow => "sequential share below",
            Self::SequentialAbove => "sequential share above",
            Self::SequentialReadsBelow => "sequential share of reads below",
            Self::SequentialReadsAbove => "sequential share of reads above",
            Self::SequentialWritesBelow => "sequential share of writes below",
            Self::SequentialWritesAbove => "sequential share of writes above",
            Self::RateBelow => "rate below",
            Self::RateAbove => "rate above",
            Self::FuaBelow => "share of FUA below",
            Self::FuaAbove => "share of FUA above",
            Self::Reads => "share of reads above",
            Self::Writes => "share of writes above",
            Self::Flushes => "share of flushes above",
            Self::Discards => "share of discards above",
            Self::WriteZeroes => "share of write-zeroes above",
            Self::Combination => "combination of length, queue length and distance without fitted requests",
        }
    }
}

/// A set of bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RegionBounds(u32);

impl RegionBounds {
    /// No bound.
    pub const NONE: Self = Self(0);

    /// Returns the set with `bound` as well, if `is_beyond`.
    #[must_use]
    pub const fn with(self, bound: RegionBound, is_beyond: bool) -> Self {
        Self(self.0 | ((is_beyond as u32) << bound as usize))
    }

    /// Returns true if the set has no bound.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if the set has `bound`.
    pub const fn has(self, bound: RegionBound) -> bool {
        self.0 >> bound as usize & 1 == 1
    }

    /// The bounds of the set, in order.
    pub fn iter(self) -> impl Iterator<Item = RegionBound> {
        RegionBound::ALL.into_iter().filter(move |bound| self.has(*bound))
    }
}

/// Number of requests that a model answered inside and outside the region that it was fitted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Coverage {
    /// Requests answered.
    pub requests: u64,
    /// Requests outside the fitted range, which get the times of the nearest fitted ones.
    pub outside: u64,
    /// Requests beyond each bound, in the order of [`RegionBound::ALL`]. A request can lie beyond several.
    pub beyond: [u64; RegionBound::COUNT],
}

impl Coverage {
    /// Share of the requests that lie outside, in percent; 0 of none.
    pub fn out_of_fitted_range_pct(&self) -> f64 {
        100.0 * self.outside as f64 / self.requests.max(1) as f64
    }

    /// The counts since `before`, which are earlier counts of the same device.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        self.requests -= before.requests;
        self.outside -= before.outside;
        self.beyond.iter_mut().zip(before.beyond).for_each(|(count, before)| *count -= before);
        self
    }

    /// Bounds with requests beyond them and the number of these, the most frequent first.
    pub fn by_bound(&self) -> Vec<(RegionBound, u64)> {
        let all = RegionBound::ALL.into_iter().zip(self.beyond);
        let mut found: Vec<(RegionBound, u64)> = all.filter(|(_, count)| *count > 0).collect();
        found.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        found
    }
}

impl AddAssign for Coverage {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.outside += other.outside;
        self.beyond.iter_mut().zip(other.beyond).for_each(|(sum, more)| *sum += more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_have_places_of_their_own_and_the_most_frequent_comes_first() {
        for (place, bound) in RegionBound::ALL.into_iter().enumerate() {
            assert_eq!(bound as usize, place);
            let only = RegionBounds::NONE.with(bound, true).with(RegionBound::Reads, false);
            assert_eq!(only.iter().collect::<Vec<_>>(), [bound]);
        }
        let mut coverage = Coverage { requests: 10, outside: 4, ..Coverage::default() };
        coverage.beyond[RegionBound::QueueBelow as usize] = 1;
        coverage.beyond[RegionBound::Writes as usize] = 4;
        let mut twice = coverage;
        twice += coverage;
        assert_eq!(twice.by_bound(), [(RegionBound::Writes, 8), (RegionBound::QueueBelow, 2)]);
        assert_eq!(twice.out_of_fitted_range_pct(), 40.0);
        assert_eq!(twice.since(&coverage), coverage);
    }
}
