//! Lateness of the replies that left the emulator, and its causes.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use seeklab_core::{Duration, MissCause};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::{NONE, Stamps, nearest_rank};
use crate::rounding::six_decimals;

/// Default deadline limit: a deadline is missed when the reply leaves later than this after it was due.
pub const DEADLINE_LIMIT: Duration = Duration::from_us(20);

/// Lateness: the completion at MP2 less what was due there; zero for replies that left early.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct LatenessSummary {
    /// Median.
    #[serde(rename = "lateness_p50_us")]
    pub p50_us: f64,
    /// Ninetieth percentile.
    #[serde(rename = "lateness_p90_us")]
    pub p90_us: f64,
    /// Ninety-ninth percentile.
    #[serde(rename = "lateness_p99_us")]
    pub p99_us: f64,
    /// The latest.
    #[serde(rename = "lateness_max_us")]
    pub max_us: f64,
    /// Mean of the lowest 99 %.
    #[serde(rename = "lateness_mean_lowest_99pct_us")]
    pub mean_lowest_99pct_us: f64,
    /// Lateness beyond which a deadline counts as missed.
    pub deadline_limit_us: f64,
    /// Share of the requests that were later than the deadline limit.
    #[serde(rename = "lateness_beyond_limit_pct")]
    pub beyond_limit_pct: f64,
    /// Requests whose reply left before it was due.
    pub early: u64,
}

/// Missed deadlines by cause, as the emulator attributed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MissCounts([u64; MissCause::ALL.len()]);

impl MissCounts {
    /// Counts in the order of [`MissCause::ALL`].
    pub const fn new(counts: [u64; MissCause::ALL.len()]) -> Self {
        Self(counts)
    }

    /// Deadlines missed for that cause.
    pub const fn of(&self, cause: MissCause) -> u64 {
        self.0[cause as usize]
    }

    /// Deadlines missed.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The causes that occurred with their counts, the most frequent first.
    pub fn ordered(&self) -> Vec<(MissCause, u64)> {
        let mut causes: Vec<_> = MissCause::ALL.map(|cause| (cause, self.of(cause))).to_vec();
        causes.retain(|(_, count)| *count > 0);
        causes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        causes
    }
}

impl Serialize for MissCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(MissCause::ALL.len()))?;
        for cause in MissCause::ALL {
            map.serialize_entry(cause.name(), &self.of(cause))?;
        }
        map.end()
    }
}

impl JsonSchema for MissCounts {
    fn schema_name() -> Cow<'static, str> {
        "MissCounts".into()
    }

    /// An object with a key for each cause.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let causes = MissCause::json_schema(generator);
        let described = |cause: &MissCause| {
            let variants = causes.get("oneOf").and_then(Value::as_array).into_iter().flatten();
            let mut variants = variants.filter(|variant| variant["const"] == cause.name());
            variants.next().map_or(Value::Null, |variant| variant["description"].clone())
        };
        let counts = MissCause::ALL.iter().map(|cause| {
            let count = json!({ "type": "integer", "minimum": 0, "description": described(cause) });
            (cause.name().to_owned(), count)
        });
        json_schema!({
            "type": "object",
            "properties": counts.collect::<Map<_, _>>(),
            "required": MissCause::ALL.map(MissCause::name),
        })
    }
}

impl Stamps {
    /// Lateness over all requests of which due and completion at MP2 are known, `None` if there are none.
    pub fn lateness(&self, limit: Duration) -> Option<LatenessSummary> {
        let known = self.rows.iter().filter(|row| row.mp2[1] != NONE && row.mp2[2] != NONE);
        let mut late_ns: Vec<u64> = known.clone().map(|row| row.mp2[2].saturating_sub(row.mp2[1])).collect();
        late_ns.sort_unstable();
        let us = |ns: u64| six_decimals(ns as f64 / 1e3);
        let lowest = &late_ns[..(late_ns.len() * 99).div_ceil(100)];
        let sum: u128 = lowest.iter().map(|ns| u128::from(*ns)).sum();
        let beyond = late_ns.len() - late_ns.partition_point(|ns| *ns <= limit.as_ns());
        Some(LatenessSummary {
            p50_us: us(nearest_rank(&late_ns, 0.5)?),
            p90_us: us(nearest_rank(&late_ns, 0.9)?),
            p99_us: us(nearest_rank(&late_ns, 0.99)?),
            max_us: us(*late_ns.last()?),
            mean_lowest_99pct_us: six_decimals(sum as f64 / lowest.len() as f64 / 1e3),
            deadline_limit_us: limit.as_us(),
            beyond_limit_pct: six_decimals(beyond as f64 / late_ns.len() as f64 * 100.0),
            early: known.filter(|row| row.mp2[2] < row.mp2[1]).count() as u64,
        })
    }

    /// Missed deadlines by cause.
    pub fn misses(&self) -> MissCounts {
        let mut counts = MissCounts::default();
        for cause in self.rows.iter().filter_map(|row| row.cause) {
            counts.0[cause as usize] += 1;
        }
        counts
    }
}
