//! Lateness of the replies, and the causes of missed deadlines.
//!
//! Lateness is the completion at MP2 less what was due there. A deadline is missed when it exceeds a
//! limit; a miss is blamed on the first step that ended after the due time:
//!
//! ```text
//! arrived ─▶ model knows ─▶ data is there ─▶ loop is free, waits ─▶ wakes ─▶ reply is ready ─▶ is offered ─▶ leaves (MP2)
//! Transport   ModelTooSlow   DataNotThere     Transport     KernelScheduling   Transport   KernelScheduling  ClientNotReading
//! ```
//! A reply that waited for its client for most of its lateness is the client's miss, whatever was late before. An answer
//! that the pacer requested from the model after its due time is not the model's slowness. A miss whose due lies within a time
//! in which the loop did one thing for long has the cause of that time, see `stalls`.

use seeklab_core::statistics::Distribution;
use seeklab_core::{Duration, Instant, MissCause};

use super::Due;

/// Times at which the steps of one completion ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// The request was there (arrival at MP2).
    pub arrived: Instant,
    /// Its answer was known, see [`Due::known`].
    pub known: Instant,
    /// Its data was there.
    pub data: Instant,
    /// The loop was done with other requests and began to wait for the deadline.
    pub free: Instant,
    /// The wait ended; ahead of the due by what preparing the reply is expected to take.
    pub woken: Instant,
    /// The reply was prepared, and waited for its due if that was ahead.
    pub ready: Instant,
    /// The reply was first offered to the client.
    pub offered: Instant,
    /// The write that the client took begins (completion at MP2).
    pub left: Instant,
}

impl Steps {
    /// The client made the reply wait for most of the time by which it is late.
    fn is_late_by_client(&self, due: Instant) -> bool {
        self.left.saturating_since(self.offered) > self.left.saturating_since(due) / 2
    }

    /// The first step that ended after the due. Waking always does; it is blamed from [`WAKING`] on.
    fn late(&self, due: &Due) -> MissCause {
        let (asked, due) = (due.asked, due.due);
        if self.arrived > due {
            MissCause::Transport
        } else if self.known > due && asked <= due {
            MissCause::ModelTooSlow
        } else if self.data > due {
            MissCause::DataNotThere
        } else if self.free > due {
            MissCause::Transport
        } else if self.woken.saturating_since(due) > WAKING {
            MissCause::KernelScheduling
        } else if self.ready > due {
            MissCause::Transport
        } else {
            MissCause::KernelScheduling
        }
    }
}

/// Time after its deadline at which a wait may end without being late: some reads of the clock.
const WAKING: Duration = Duration::from_us(1);

/// Lateness over a run. Nothing is hidden in a mean: every miss is counted by its cause.
#[derive(Debug, Clone)]
pub struct Deadlines {
    limit: Duration,
    floor: Duration,
    lateness: Distribution,
    early: Distribution,
    misses: [u64; MissCause::ALL.len()],
    below_floor: u64,
    missed_above_floor: u64,
}

impl Default for Deadlines {
    /// A deadline is missed by more than 20 us; no floor is known.
    fn default() -> Self {
        Self::new(Duration::from_us(20), Duration::ZERO)
    }
}

impl Deadlines {
    /// A deadline is missed by more than `limit`; `floor` is the shortest response time that can be
    /// emulated here.
    pub fn new(limit: Duration, floor: Duration) -> Self {
        Self {
            limit,
            floor,
            lateness: Distribution::default(),
            early: Distribution::default(),
            misses: [0; MissCause::ALL.len()],
            below_floor: 0,
            missed_above_floor: 0,
        }
    }

    /// Books a completion that left; returns why it missed its deadline, if it did. `stall` is the cause of the long
    /// step of the loop within which it was due, if there was one.
    pub fn record(&mut self, due: &Due, steps: &Steps, stall: Option<MissCause>) -> Option<MissCause> {
        let lateness = steps.left.saturating_since(due.due);
        self.lateness.record(lateness);
        if steps.left < due.due {
            self.early.record(due.due - steps.left);
        }
        let is_possible = due.completion.response_time() >= self.floor;
        self.below_floor += u64::from(!is_possible);
        let cause = (lateness > self.limit).then(|| match stall {
            _ if steps.is_late_by_client(due.due) => MissCause::ClientNotReading,
            Some(cause) => cause,
            None => steps.late(due),
        })?;
        self.misses[cause as usize] += 1;
        self.missed_above_floor += u64::from(is_possible);
        Some(cause)
    }

    /// Takes all completions of `other` in, which counted by the same limit and floor.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!((self.limit, self.floor), (other.limit, other.floor), "one limit and one floor");
        self.lateness.merge(&other.lateness);
        self.early.merge(&other.early);
        for (misses, others) in self.misses.iter_mut().zip(other.misses) {
            *misses += others;
        }
        self.below_floor += other.below_floor;
        self.missed_above_floor += other.missed_above_floor;
    }

    /// Completion at MP2 less due; zero for those that left early.
    pub const fn lateness(&self) -> &Distribution {
        &self.lateness
    }

    /// Times by which replies left before their due time.
    pub const fn early(&self) -> &Distribution {
        &self.early
    }

    /// Deadlines missed for that cause.
    pub const fn missed(&self, cause: MissCause) -> u64 {
        self.misses[cause as usize]
    }

    /// Deadlines missed.
    pub fn misses(&self) -> u64 {
        self.misses.iter().sum()
    }

    /// Deadlines missed by requests that can be emulated at all.
    pub const fn missed_above_floor(&self) -> u64 {
        self.missed_above_floor
    }

    /// Completions whose response time in the model is below the floor.
    pub const fn below_floor(&self) -> u64 {
        self.below_floor
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::{
        Breakdown, BufferOutcome, ClassHistory, Completion, FaultSet, Operation, Outcome, Request,
    };

    use super::*;

    const fn us(us: u64) -> Instant {
        Instant::from_ns(us * 1_000)
    }

    /// A request that arrived at 100 us and is due at 1,000 us.
    fn due() -> Due {
        let request = Request::new(0, Operation::Read, 0, 8);
        let completion = Completion {
            request,
            submitted: us(100),
            issued: us(100),
            started: us(100),
            completed: us(1_010),
            breakdown: Breakdown::default(),
            outcome: Outcome::ok(&request),
            buffer: BufferOutcome::None,
            seek_cylinders: 0,
            queue_length: 0,
            faults: FaultSet::NONE,
        };
        let classes = ClassHistory::constant(request.criticality);
        Due { completion, classes, due: us(1_000), asked: us(105), known: us(110) }
    }

    /// Each step as late as that step alone makes it.
    fn steps() -> Steps {
        Steps {
            arrived: us(100),
            known: us(110),
            data: us(120),
            free: us(130),
            woken: us(1_000),
            ready: us(1_020),
            offered: us(1_021),
            left: us(1_021),
        }
    }

    fn check(steps: Steps, cause: Option<MissCause>) {
        let mut deadlines = Deadlines::new(Duration::from_us(20), Duration::from_us(50));
        assert_eq!(deadlines.record(&due(), &steps, None), cause, "{steps:?}");
        assert_eq!(deadlines.misses(), u64::from(cause.is_some()));
        for each in MissCause::ALL {
            assert_eq!(deadlines.missed(each), u64::from(cause == Some(each)));
        }
    }

    #[test]
    fn miss_is_blamed_on_the_first_late_step() {
        let left = |us_: u64| Steps { offered: us(us_), left: us(us_), ..steps() };
        check(Steps { ready: us(1_019), ..left(1_020) }, None);
        check(steps(), Some(MissCause::Transport));
        check(Steps { woken: us(1_002), ..steps() }, Some(MissCause::KernelScheduling));
        check(Steps { woken: us(995), ready: us(999), ..steps() }, Some(MissCause::KernelScheduling));
        check(Steps { free: us(1_001), woken: us(1_015), ..steps() }, Some(MissCause::Transport));
        check(Steps { data: us(1_001), free: us(1_020), ..steps() }, Some(MissCause::DataNotThere));
        check(Steps { known: us(1_001), data: us(1_020), ..steps() }, Some(MissCause::ModelTooSlow));
        check(Steps { arrived: us(1_001), known: us(1_005), ..steps() }, Some(MissCause::Transport));
    }

    #[test]
    fn reply_that_waits_longest_for_the_client_is_the_clients_miss() {
        check(Steps { offered: us(900), left: us(1_021), ..steps() }, Some(MissCause::ClientNotReading));
        check(Steps { offered: us(1_999), left: us(3_000), ..steps() }, Some(MissCause::ClientNotReading));
        check(Steps { offered: us(2_000), left: us(3_000), ..steps() }, Some(MissCause::Transport));
    }

    #[test]
    fn answer_asked_for_late_is_not_the_models_miss() {
        let late = Steps { known: us(1_150), free: us(900), woken: us(1_100), ..steps() };
        let asked_late = Due { asked: us(1_100), known: us(1_150), ..due() };
        let mut deadlines = Deadlines::default();
        let left = Steps { offered: us(1_200), left: us(1_200), ..late };
        assert_eq!(deadlines.record(&asked_late, &left, None), Some(MissCause::KernelScheduling));
        let asked_in_time = Due { asked: us(1_000), ..asked_late };
        assert_eq!(deadlines.record(&asked_in_time, &left, None), Some(MissCause::ModelTooSlow));
        let stall = Some(MissCause::DataNotThere);
        assert_eq!(
            deadlines.record(&asked_in_time, &left, stall),
            stall,
            "the loop was elsewhere when it was due"
        );
        assert_eq!(
            deadlines.record(&due(), &Steps { offered: us(1_001), left: us(1_001), ..late }, stall),
            None
        );
    }

    #[test]
    fn early_completions_and_those_below_the_floor_are_counted() {
        let mut deadlines = Deadlines::new(Duration::from_us(20), Duration::from_ms(1));
        assert_eq!(deadlines.record(&due(), &Steps { left: us(990), ..steps() }, None), None);
        assert_eq!(deadlines.record(&due(), &steps(), None), Some(MissCause::Transport));
        assert_eq!(deadlines.early().moments().count(), 1);
        assert_eq!(deadlines.early().moments().max(), Some(10_000.0));
        assert_eq!(deadlines.lateness().moments().max(), Some(21_000.0));
        assert_eq!(deadlines.below_floor(), 2);
        let mut twice = deadlines.clone();
        twice.merge(&deadlines);
        assert_eq!((twice.misses(), twice.below_floor()), (2, 4));
        assert_eq!(twice.lateness().moments().count(), 4);
    }
}
