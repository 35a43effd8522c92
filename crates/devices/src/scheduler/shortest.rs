//! SPTF, aged SPTF and SPCTF: the shortest positioning time.

use std::any::Any;

use seeklab_core::{Criticality, Duration, Instant, Location, Pending, Positioning, RequestId, Scheduler};

use super::kind::{Parameter, SchedulerKind, Value};
use super::ordered::{Address, Ordered};
use super::outward::Outward;

pub(super) const SPTF: SchedulerKind =
    SchedulerKind::new("sptf", "shortest positioning time first", |_| Box::new(ShortestPositioning::new()));

pub(super) const AGED_SPTF: SchedulerKind =
    SchedulerKind::new("aged-sptf", "shortest positioning time first, less a credit for age", |settings| {
        Box::new(WeighedPositioning::new(Weighing::Age { credit_per_s: settings.duration() }))
    })
    .with(Parameter {
        description: "credit for each second of waiting [default: 6ms]",
        default: Value::Duration(Duration::from_ms(6)),
    });

pub(super) const SPCTF: SchedulerKind =
    SchedulerKind::new("spctf", "shortest positioning time first, what the buffer holds before all", |_| {
        Box::new(WeighedPositioning::new(Weighing::Buffer))
    });

/// Serves the request with the shortest positioning time (seek or head switch, settle, rotational
/// latency), of equal ones the first that came.
///
/// It picks what an exhaustive search would pick, but looks outwards from the arm's cylinder and stops
/// where the seek alone takes longer than the best found.
///
/// # References
/// Seltzer, Chen & Ousterhout, USENIX Winter 1990; Jacobson & Wilkes, HPL-CSP-91-7.
#[derive(Debug, Clone, Default)]
struct ShortestPositioning {
    pending: Outward,
}

impl ShortestPositioning {
    /// An empty queue.
    fn new() -> Self {
        Self::default()
    }

    fn shortest(&self, now: Instant, positioning: &dyn Positioning) -> Option<usize> {
        let here = positioning.cylinder();
        let mut above = self.pending.place_of(here);
        let mut below = above;
        let mut best: Option<(Duration, u64, usize)> = None;
        loop {
            let up = self.pending.cylinder(above).map_or(u32::MAX, |cylinder| cylinder - here);
            let down = below
                .checked_sub(1)
                .and_then(|place| self.pending.cylinder(place))
                .map_or(u32::MAX, |cylinder| here - cylinder);
            let distance = up.min(down);
            if distance == u32::MAX
                || best.is_some_and(|(shortest, ..)| positioning.positioning_min(distance) > shortest)
            {
                return best.map(|(.., place)| place);
            }
            let place = if up <= down {
                above += 1;
                above - 1
            } else {
                below -= 1;
                below
            };
            let candidate = self.pending.candidate(place);
            let time = positioning.positioning_time(now, candidate.op, &candidate.location);
            if best.is_none_or(|(shortest, rank, _)| (time, candidate.rank) < (shortest, rank)) {
                best = Some((time, candidate.rank, place));
            }
        }
    }
}

impl Scheduler for ShortestPositioning {
    fn push(&mut self, pending: Pending) {
        self.pending.push(pending);
    }

    fn choose(&mut self, now: Instant, positioning: Option<&dyn Positioning>) -> Option<Pending> {
        let positioning = positioning.expect("SPTF is only put before devices that know their heads");
        let place = self.shortest(now, positioning)?;
        Some(self.pending.remove(place))
    }

    fn reclassify(&mut self, id: RequestId, criticality: Criticality) -> Option<Criticality> {
        self.pending.get_mut(id)?.request.reclassify(criticality)
    }

    fn needs_positioning(&self) -> bool {
        true
    }

    fn len(&self) -> usize {
        self.pending.len()
    }

    fn fork(&self) -> Box<dyn Scheduler> {
        Box::new(self.clone())
    }

    fn fork_into(&self, target: &mut Box<dyn Scheduler>) {
        match target.as_any_mut().downcast_mut::<Self>() {
            Some(target) => target.pending.clone_from(&self.pending),
            None => *target = self.fork(),
        }
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// Quantity that [`WeighedPositioning`] combines with the positioning time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Weighing {
    /// Every second that a request has waited counts as that much less (aged SPTF).
    Age {
        /// Credit for each second of age.
        credit_per_s: Duration,
    },
    /// A request that the device's buffer answers counts as zero (SPCTF, Ganger & Patt 6.3), and a write for which it has no room
    /// as the destage that makes it, so that such writes keep their order and leave the media to reads that are nearer.
    Buffer,
}

/// Serves the request with the least weighed positioning time, by exhaustive search: age and buffer
/// make far requests attractive, so distance gives no bound.
#[derive(Debug, Clone)]
struct WeighedPositioning {
    pending: Ordered,
    weighing: Weighing,
}

impl WeighedPositioning {
    /// An empty queue.
    const fn new(weighing: Weighing) -> Self {
        Self { pending: Ordered::new(Address::Cylinder), weighing }
    }

    /// Weighed time in units of 10⁻⁹ ns.
    fn weigh(&self, now: Instant, pending: &Pending, positioning: &dyn Positioning) -> i128 {
        let time_at = |location: &Location| {
            let time = positioning.positioning_time(now, pending.request.op, location);
            i128::from(time.as_ns()) * 1_000_000_000
        };
        let time = || time_at(&pending.location);
        match self.weighing {
            Weighing::Age { credit_per_s } => {
                let age = now.saturating_since(pending.submitted).as_ns();
                time() - i128::from(age) * i128::from(credit_per_s.as_ns())
            }
            Weighing::Buffer => match positioning.buffer_lacks_room(now, &pending.request) {
                // It waits for another write, whatever its own place.
                Some(written) => time_at(&written),
                None if positioning.buffer_holds(&pending.request) => 0,
                None => time(),
            },
        }
    }
}

impl Scheduler for WeighedPositioning {
    fn push(&mut self, pending: Pending) {
        self.pending.push(pending);
    }

    fn choose(&mut self, now: Instant, positioning: Option<&dyn Positioning>) -> Option<Pending> {
        let positioning =
            positioning.expect("positioning schedulers are only put before devices that know their heads");
        let key = self
            .pending
            .iter()
            .min_by_key(|(key, pending)| (self.weigh(now, pending, positioning), key.1))
            .map(|(key, _)| *key)?;
        self.pending.remove(key)
    }

    fn reclassify(&mut self, id: RequestId, criticality: Criticality) -> Option<Criticality> {
        self.pending.get_mut(id)?.request.reclassify(criticality)
    }

    fn needs_positioning(&self) -> bool {
        true
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
