//! The moments at which the power is cut.

use seeklab_core::{Duration, EventKind, Instant, Operation, Seed};

use super::record::{Durability, Record};
use crate::failure::Failure;

/// Moments of the cuts, within the run of COMMAND.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cuts {
    /// So many, drawn: a third anywhere, a third beside the completions of flushes, a third within media writes.
    Count(u32),
    /// At these times of the record.
    At(Vec<Duration>),
}

/// Longest time from a flush to a cut beside it.
const BESIDE: Duration = Duration::from_us(500);

impl Cuts {
    /// The moments, in order of time.
    pub(super) fn choose(
        &self,
        record: &Record,
        durability: &Durability,
        seed: Seed,
    ) -> Result<Vec<Instant>, Failure> {
        let (began, end) = (record.began, record.end());
        let count = match self {
            Self::Count(count) => *count,
            Self::At(times) => {
                let mut cuts: Vec<Instant> = times.iter().map(|time| Instant::ZERO + *time).collect();
                cuts.sort_unstable();
                return Ok(cuts);
            }
        };
        if end <= began {
            return Err(Failure::new("the run sent no requests to the device: there is nothing to cut")
                .hint("let it write, and sync what it writes"));
        }
        let mut draws = seed.stream("crash.cuts");
        let flushes: Vec<Instant> = durability
            .completions
            .iter()
            .filter(|completion| completion.request.op == Operation::Flush || completion.request.fua)
            .map(|completion| completion.completed)
            .filter(|completed| *completed >= began)
            .collect();
        let writes: Vec<(Instant, Instant)> = durability
            .events
            .iter()
            .filter_map(|event| match event.kind {
                EventKind::Durable { begun } => Some((begun, event.time)),
                _ => None,
            })
            .filter(|(begun, written)| begun < written && *begun >= began)
            .collect();
        let mut cuts: Vec<Instant> = (0..count)
            .map(|number| match number % 3 {
                1 if !flushes.is_empty() => {
                    let flush = flushes[draws.below(flushes.len() as u64) as usize];
                    let shift = draws.below(2 * BESIDE.as_ns());
                    Instant::from_ns((flush.as_ns() + shift).saturating_sub(BESIDE.as_ns()))
                }
                2 if !writes.is_empty() => {
                    let (begun, written) = writes[draws.below(writes.len() as u64) as usize];
                    begun + Duration::from_ns(draws.below((written - begun).as_ns()))
                }
                _ => began + Duration::from_ns(draws.below((end - began).as_ns() + 1)),
            })
            .map(|cut| cut.max(began))
            .collect();
        cuts.sort_unstable();
        Ok(cuts)
    }
}
