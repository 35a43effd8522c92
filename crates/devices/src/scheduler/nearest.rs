//! SSTF and VSCAN: the nearest request, with or without a penalty for turning round.

use std::any::Any;

use seeklab_core::{Instant, Pending, Positioning, Ratio, Scheduler};

use super::ordered::{Address, Ordered};

/// Serves the request nearest to the one before (SSTF); VSCAN(r) counts a request that lies against
/// the direction of travel as farther by r times the range of addresses.
///
/// # References
/// VSCAN: Geist & Daniel, ACM TOCS 5(1), 1987. VSCAN(0) is SSTF, VSCAN(1) is LOOK.
#[derive(Debug, Clone)]
pub struct Nearest {
    pending: Ordered,
    penalty: u64,
    last: u64,
    upwards: bool,
}

impl Nearest {
    /// SSTF over that address.
    pub const fn sstf(address: Address) -> Self {
        Self { pending: Ordered::new(address), penalty: 0, last: 0, upwards: true }
    }

    /// VSCAN with a penalty of `ratio` times `range`, the number of addresses.
    pub fn vscan(address: Address, ratio: Ratio, range: u64) -> Self {
        let penalty = (ratio.as_f64() * range as f64) as u64;
        Self { penalty, ..Self::sstf(address) }
    }

    fn nearest(&self) -> Option<(u64, u64)> {
        let above = self.pending.at_or_above(self.last);
        let below = self.pending.at_or_below(self.last);
        let (Some(up), Some(down)) = (above, below) else {
            return above.or(below);
        };
        let penalised = |key: (u64, u64), upwards: bool| {
            let turn = key.0 != self.last && upwards != self.upwards;
            key.0.abs_diff(self.last) + if turn { self.penalty } else { 0 }
        };
        // At equal distance the one that came first.
        let (up_cost, down_cost) = (penalised(up, true), penalised(down, false));
        let take_up = up_cost < down_cost || (up_cost == down_cost && up.1 < down.1);
        Some(if take_up { up } else { down })
    }
}

impl Scheduler for Nearest {
    fn push(&mut self, pending: Pending) {
        self.pending.push(pending);
    }

    fn choose(&mut self, _now: Instant, _positioning: Option<&dyn Positioning>) -> Option<Pending> {
        let key = self.nearest()?;
        if key.0 != self.last {
            self.upwards = key.0 > self.last;
        }
        self.last = key.0;
        self.pending.remove(key)
    }

    fn needs_positioning(&self) -> bool {
        self.pending.address() == Address::Cylinder
    }

    fn len(&self) -> usize {
        self.pending.len()
    }

    fn fork(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
