//! Sectors that a disk has remapped: found by a read that takes retries, and a detour from then on.

use seeklab_core::{Duration, Operation, Request, Stream};

use super::rule::{Action, Rule, RuleState, Strike};

/// Remapping of the sectors of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remapped {
    /// Time of the read that finds a sector and remaps it.
    pub(super) found: Duration,
    /// Time added to later accesses of the sector.
    pub(super) detour: super::rule::Length,
}

impl Rule {
    /// The detour of a request that touches blocks which have been remapped before it.
    pub fn detour(&self, state: &RuleState, number: u64, request: &Request) -> Option<Duration> {
        let Action::Remapped(remapped) = self.action else { return None };
        let reaches_media = matches!(request.op, Operation::Read | Operation::Write | Operation::WriteZeroes);
        if !reaches_media || state.bad.first_within(request.lbn, request.end()).is_none() {
            return None;
        }
        // A stream apart from that of a sector found by the same request, which counts up from zero.
        Some(remapped.detour.draw(&mut self.streams.stream(!number)))
    }
}

impl Remapped {
    /// The request finds a weak sector among its blocks from `start` to before `end`: each of them is weak if the fault
    /// is certain, otherwise one that is drawn. `None` if it is remapped already.
    pub(super) fn find(
        self,
        state: &mut RuleState,
        is_certain: bool,
        (start, end): (u64, u64),
        stream: &mut Stream,
    ) -> Option<Strike> {
        let (start, end) = if is_certain {
            (start, end)
        } else {
            let block = start + stream.below(end - start);
            (block, block + 1)
        };
        state.bad.first_missing(start, end)?;
        state.bad.insert(start, end);
        Some(Strike::of(self.found))
    }
}
