//! The gate of a fault: a test by which most requests pass unharmed, at the cost of a few comparisons.
//!
//! A gate changes nothing. What it lets pass, the fault would neither strike nor remember; what it stops may still not
//! be struck: the rule decides.

use seeklab_core::{Chance, Instant, NumberedStreams, Operation, Request};

use super::data::DataFault;
use super::rule::{Action, Lasting, Rule, RuleState};

/// Gate of a fault up to the next change of its window.
#[derive(Debug, Clone, Copy)]
pub struct Gate {
    /// Blocks of which a request that may be struck touches one, from the first to before the end.
    blocks: (u64, u64),
    /// Operations that may be struck, one bit each.
    operations: u8,
    needs_fua: bool,
    /// Blocks of a request, least and most.
    length: (u32, u32),
    /// Requests ahead of a request, least and most.
    queue_length: (u32, u32),
    initiator: Option<u32>,
    /// Requests of the device that pass first.
    after: u64,
    /// Chance of each of those that may be struck; certain if more than the draw decides.
    chance: Chance,
    streams: NumberedStreams,
}

impl Gate {
    /// Returns true if the fault does nothing to the request of that number.
    #[inline]
    pub fn lets_pass(&self, number: u64, request: &Request, queue_length: u32) -> bool {
        let touches = request.lbn < self.blocks.1 && request.end() > self.blocks.0;
        let is_selected = (touches || !request.op.addresses_blocks())
            && self.operations >> (request.op as u8) & 1 == 1
            && (self.length.0..=self.length.1).contains(&request.blocks)
            && (self.queue_length.0..=self.queue_length.1).contains(&queue_length)
            && self.initiator.is_none_or(|initiator| initiator == request.initiator)
            && (request.fua || !self.needs_fua)
            && number >= self.after;
        !is_selected || !self.streams.chance(number, self.chance)
    }
}

impl Rule {
    /// The gate of the fault from `now` to the next change of its window. `None` if everything passes.
    pub fn gate(&self, state: &RuleState, now: Instant) -> Option<Gate> {
        let Self { selector, action, .. } = self;
        // Struck blocks are found again whatever the window, and rewritten ones are remembered.
        let rewrites = matches!(action, Action::MediumError { lasting: Lasting::UntilRewritten, .. })
            && self.probability >= 1.0;
        let remembers = state.remembers_blocks() || (rewrites && now >= state.window.start);
        // The load counts whatever the window.
        if remembers || matches!(action, Action::Throttle(_)) {
            return Some(Gate::closed(self.streams));
        }
        if !state.window.holds(now) {
            return None;
        }
        let is_able = |op: Operation| match action {
            Action::Data(fault) => fault.is_able(&Request::new(0, op, 0, u32::MAX)),
            _ => true,
        };
        let is_selected = |op: &Operation| selector.operations[*op as usize] && is_able(*op);
        let operations =
            Operation::ALL.into_iter().filter(is_selected).fold(0, |bits, op| bits | 1 << (op as u8));
        let least = match action {
            Action::Data(DataFault::Torn { unit_blocks }) => unit_blocks.saturating_add(1),
            _ => 0,
        };
        Some(Gate {
            blocks: selector.blocks,
            operations,
            needs_fua: *action == Action::IgnoreFua,
            length: (selector.length.0.max(least), selector.length.1),
            queue_length: selector.queue_length,
            initiator: selector.initiator,
            after: self.after,
            // Each so many-th: those between count.
            chance: if self.every == 1 { Chance::new(self.probability) } else { Chance::CERTAIN },
            streams: self.streams,
        })
    }
}

impl Gate {
    /// A gate that nothing passes.
    const fn closed(streams: NumberedStreams) -> Self {
        Self {
            blocks: (0, u64::MAX),
            operations: u8::MAX,
            needs_fua: false,
            length: (0, u32::MAX),
            queue_length: (0, u32::MAX),
            initiator: None,
            after: 0,
            chance: Chance::CERTAIN,
            streams,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use seeklab_core::{ByteSize, Capabilities, Duration, Seed};

    use super::*;
    use crate::fault::{FaultParameters, FaultTable};

    /// Faults of every way to select, behind which a request passes or not.
    const FAULTS: &[&str] = &[
        "delay,add=1ms",
        "delay,add=1ms,probability=40%",
        "delay,add=1ms,probability=40%,every=2",
        "delay,add=1ms,probability=70%,ramp=1ms,at=0s,for=2ms",
        "aborted,probability=70%,ramp=1ms",
        "aborted,op=read,blocks=8KiB..16KiB",
        "aborted,size=1KiB..4KiB,queue_length=2..3",
        "aborted,initiator=1,after=7",
        "ignored_fua",
        "torn_write,unit=2KiB",
        "lost_write,at=1ms,for=1ms",
        "stale_read,probability=30%",
        "misdirected_read",
        "bit_rot,probability=20%",
        "medium_error,lasting=sticky,probability=10%",
        "medium_error,lasting=until_rewritten,blocks=8KiB..12KiB,at=1ms",
        "medium_error,lasting=until_rewritten,probability=30%",
        "remapped,turns=1,turn=1ms,detour=1ms,probability=10%",
        "retries,ladder=50% 20%,turn=1ms,probability=20%",
        "lost_flush,probability=50%",
        "write_protected,at=1ms,for=1ms,repeat=3ms",
        "bandwidth_cap,rate=2MB/s,op=write",
    ];

    fn request() -> impl Strategy<Value = Request> {
        let op = prop::sample::select(Operation::ALL.to_vec());
        (op, 0_u64..100, 1_u32..12, 0_u32..3, any::<bool>()).prop_map(|(op, lbn, blocks, initiator, fua)| {
            let blocks = if op == Operation::Flush { 0 } else { blocks };
            Request { initiator, fua, ..Request::new(0, op, lbn, blocks) }
        })
    }

    proptest! {
        #[test]
        fn request_that_passes_is_not_struck_and_leaves_the_fault_as_it_was(
            requests in prop::collection::vec((request(), 0_u64..300_000, 0_u32..5), 1..60)
        ) {
            let capabilities = Capabilities {
                capacity_blocks: 200,
                block_size: ByteSize::from_bytes(512),
                queue_depth: 32,
                volatile_write_cache: true,
                rotational: true,
            };
            for line in FAULTS {
                let faults = FaultParameters { fault: vec![FaultTable::from_line(line).unwrap()] };
                let rules = faults.rules(&capabilities, None, Seed(3), "disk0").unwrap();
                let rule = &rules[0];
                let mut state = rule.state();
                let mut now = Instant::ZERO;
                for (number, (request, gap, queue_length)) in requests.iter().enumerate() {
                    let number = number as u64;
                    now += Duration::from_ns(*gap);
                    state.window = rule.schedule.advance(state.window, now);
                    let passes =
                        rule.gate(&state, now).is_none_or(|gate| gate.lets_pass(number, request, *queue_length));
                    let remembered = state.remembers_blocks();
                    let before = format!("{state:?}");
                    let detour = rule.detour(&state, number, request);
                    let strike = rule.strike(&mut state, now, number, request, *queue_length);
                    let is_struck = strike.is_some() || detour.is_some();
                    let is_free = passes && rule.every == 1;
                    prop_assert!(!(passes && is_struck), "{line}: {request:?} at {now}: {strike:?}");
                    // Without a share of them, the number of requests that it could strike is of no use.
                    let forgotten = |text: &str| match is_free {
                        true => text.split("matched").next().unwrap_or_default().to_owned()
                            + text.split("bad:").nth(1).unwrap_or_default(),
                        false => text.to_owned(),
                    };
                    if passes {
                        prop_assert_eq!(forgotten(&before), forgotten(&format!("{state:?}")), "{}", line);
                    }
                    // It stops no more than it must: what it stops for a draw is struck.
                    let is_drawn = line.contains("probability") && !line.contains("ramp") && rule.every == 1;
                    if is_drawn && !passes && !remembered && !line.contains("until_rewritten") {
                        prop_assert!(is_struck, "{line}: {request:?} at {now} is stopped for nothing");
                    }
                }
            }
        }
    }
}
