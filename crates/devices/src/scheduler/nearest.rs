//! SSTF and VSCAN: the nearest request, with or without a penalty for turning round.

use std::any::Any;

use seeklab_core::{Criticality, Instant, Pending, Positioning, Ratio, RequestId, Scheduler};

use super::kind::{Parameter, SchedulerKind, Value};
use super::ordered::{Address, Ordered};

pub(super) const SSTF: SchedulerKind =
    SchedulerKind::new("sstf", "the request nearest to the one before", |settings| {
        Box::new(Nearest::sstf(settings.address))
    })
    .by_cylinder();

pub(super) const VSCAN: SchedulerKind = SchedulerKind::new(
    "vscan",
    "nearest first, requests against the direction of travel penalised",
    |settings| Box::new(Nearest::vscan(settings.address, settings.ratio(), settings.range)),
)
.by_cylinder()
.with(Parameter {
    description: "penalty for turning round as a share of the device [default: 0.2]",
    default: Value::Ratio(Ratio::from_const(0.2)),
});

/// Serves the request nearest to the one before (SSTF); VSCAN(r) counts a request that lies against
/// the direction of travel as farther by r times the range of addresses.
///
/// # References
/// VSCAN: Geist & Daniel, ACM TOCS 5(1), 1987. VSCAN(0) is SSTF, VSCAN(1) is LOOK.
#[derive(Debug, Clone)]
struct Nearest {
    pending: Ordered,
    penalty: u64,
    last: u64,
    upwards: bool,
}

impl Nearest {
    /// SSTF over that address.
    const fn sstf(address: Address) -> Self {
        Self { pending: Ordered::new(address), penalty: 0, last: 0, upwards: true }
    }

    /// VSCAN with a penalty of `ratio` times `range`, the number of addresses.
    fn vscan(address: Address, ratio: Ratio, range: u64) -> Self {
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

    fn reclassify(&mut self, id: RequestId, criticality: Criticality) -> Option<Criticality> {
        self.pending.get_mut(id)?.request.reclassify(criticality)
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

#[cfg(test)]
mod tests {
    use seeklab_core::{Location, Operation, Request};

    use super::*;

    /// Order in which requests to these blocks are served after one to block 100.
    fn order(mut scheduler: Nearest, blocks: &[u64]) -> Vec<u64> {
        let pending = |lbn: u64| Pending {
            request: Request::new(lbn, Operation::Read, lbn, 1),
            submitted: Instant::ZERO,
            queue_length: 0,
            location: Location::default(),
        };
        scheduler.push(pending(100));
        scheduler.choose(Instant::ZERO, None).unwrap();
        blocks.iter().for_each(|lbn| scheduler.push(pending(*lbn)));
        std::iter::from_fn(|| scheduler.choose(Instant::ZERO, None))
            .map(|pending| pending.request.lbn)
            .collect()
    }

    #[test]
    fn first_of_two_equally_near_requests_is_served_first() {
        assert_eq!(order(Nearest::sstf(Address::Lbn), &[90, 110]), [90, 110]);
        assert_eq!(order(Nearest::sstf(Address::Lbn), &[110, 90]), [110, 90]);
        // The travel is upwards: a penalty of 20 makes 130 and 90 equally near.
        let vscan = || Nearest::vscan(Address::Lbn, Ratio::from_const(0.02), 1_000);
        assert_eq!(order(vscan(), &[90, 130]), [90, 130]);
        assert_eq!(order(vscan(), &[130, 90]), [130, 90]);
    }
}
