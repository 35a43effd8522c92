//! The rules by which clients must leave, and the debt that each may have, from the times and debts of all.
//!
//! ```text
//! connected ─ 10 s ─▶ goes                 negotiating; after 1 s already, if a further client needs the place
//! request started ─ 30 s ─▶ goes           its bytes do not all arrive
//! replies unsent, no byte taken ─ 30 s ─▶ goes
//!                                          a client that has disconnected, or the greatest debtor while others are held back
//! ```
//! A *debt* is what the replies to a client will occupy: those that wait to leave and those that outstanding commands
//! need. All debts together stay below a maximum. Each client may owe at most as much as it leaves of that for others;
//! the greatest debtors are not read. A client whose next request does not fit is held back until it does.
//!
//! # Scope and limits
//! Pure: times are arguments. A negotiated client that owes nothing, or whose debt holds nobody back, stays for ever.
//!
//! # References
//! The share that a debtor may take of what is left is the dynamic threshold of shared-memory switches \[Choudhury
//! and Hahne 1998\].

use seeklab_core::{Duration, Instant};

/// The longest negotiation.
const NEGOTIATION_MAX: Duration = Duration::from_s(10);
/// The age from which a negotiating client makes room for a further one.
const YIELDING_AGE: Duration = Duration::from_s(1);
/// The longest time from the first byte of a request to its last.
const REQUEST_MAX: Duration = Duration::from_s(30);
/// The longest time without a byte taken, of a client that is in the way.
const STANDSTILL_MAX: Duration = Duration::from_s(30);

/// Reason for which a server drops a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expulsion {
    /// Negotiation took longer than 10 s.
    Negotiation,
    /// A further client needed the place, and negotiation had taken longer than 1 s.
    Place,
    /// A request had not arrived 30 s after its first byte.
    Request,
    /// No byte of the waiting replies was taken for 30 s, after a goodbye or while they held others back.
    Standstill,
}

/// State of a client, as far as it decides how long the client may stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Standing {
    /// An export was chosen.
    pub(super) negotiated: bool,
    /// The client disconnected or broke the protocol.
    pub(super) closing: bool,
    /// Number of the request of which some bytes have arrived, if more are waited for.
    pub(super) started_request: Option<u64>,
    /// Debt in bytes.
    pub(super) owed_bytes: usize,
    /// Some replies wait for the client to take them.
    pub(super) unsent: bool,
    /// Its next request does not fit below the maximum of all debts.
    pub(super) held_back: bool,
}

#[derive(Debug, Clone, Copy)]
struct Watched {
    standing: Standing,
    connected: Instant,
    /// Start of the request that is incomplete.
    request_began: Instant,
    /// Time at which the client last took bytes, or last began to have some to take.
    progressed: Instant,
}

/// Watches the clients of one server.
#[derive(Debug)]
pub(super) struct Supervisor {
    owed_bytes_max: usize,
    owed_bytes: usize,
    clients: Vec<Option<Watched>>,
    held_back_count: usize,
    /// Time from which clients are held back, if any are.
    pressed: Option<Instant>,
    /// Nobody must go before.
    deadline: Instant,
}

impl Supervisor {
    pub(super) const fn new(owed_bytes_max: usize) -> Self {
        Self {
            owed_bytes_max,
            owed_bytes: 0,
            clients: Vec::new(),
            held_back_count: 0,
            pressed: None,
            deadline: Instant::MAX,
        }
    }

    /// A client connected at place `index`.
    pub(super) fn connected(&mut self, index: u32, now: Instant) {
        let place = index as usize;
        if self.clients.len() <= place {
            self.clients.resize(place + 1, None);
        }
        let standing = Standing::default();
        self.clients[place] = Some(Watched { standing, connected: now, request_began: now, progressed: now });
        self.deadline = self.deadline.min(now + NEGOTIATION_MAX);
    }

    /// The client at place `index` has gone.
    pub(super) fn removed(&mut self, index: u32, now: Instant) {
        if let Some(watched) = self.clients[index as usize].take() {
            self.account(&watched.standing, &Standing::default(), now);
        }
    }

    /// The client at `index` stands so from now on; `took` says that it has taken bytes.
    pub(super) fn observe(&mut self, index: u32, standing: Standing, took: bool, now: Instant) {
        let Some(watched) = self.clients[index as usize].as_mut() else { return };
        let before = std::mem::replace(&mut watched.standing, standing);
        if standing == before && !took {
            return;
        }
        if took || (standing.unsent && !before.unsent) {
            watched.progressed = now;
        }
        if standing.started_request.is_some() && standing.started_request != before.started_request {
            watched.request_began = now;
        }
        let watched = *watched;
        self.account(&before, &standing, now);
        if let Some(limit) = limit(&watched, self.pressed) {
            self.deadline = self.deadline.min(limit.0);
        }
    }

    fn account(&mut self, before: &Standing, after: &Standing, now: Instant) {
        self.owed_bytes = self.owed_bytes - before.owed_bytes + after.owed_bytes;
        self.held_back_count =
            self.held_back_count - usize::from(before.held_back) + usize::from(after.held_back);
        if self.held_back_count == 0 {
            self.pressed = None;
        } else if self.pressed.is_none() {
            self.pressed = Some(now);
            self.deadline = self.deadline.min(now + STANDSTILL_MAX);
        }
    }

    /// Bytes of all debts.
    pub(super) const fn owed_bytes(&self) -> usize {
        self.owed_bytes
    }

    /// Some client waits for the debts to become smaller.
    pub(super) const fn is_pressed(&self) -> bool {
        self.pressed.is_some()
    }

    /// The most that the client at `index` may owe now.
    pub(super) fn debt_max(&self, index: u32) -> usize {
        let own = self.clients[index as usize].map_or(0, |watched| watched.standing.owed_bytes);
        let free = self.owed_bytes_max.saturating_sub(self.owed_bytes);
        // One reply is always admitted, however large.
        if self.owed_bytes == 0 { usize::MAX } else { own.max(own.midpoint(free)) }
    }

    /// The time before which [`overdue`](Self::overdue) has nobody; `None` while that is for ever.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (self.deadline < Instant::MAX).then_some(self.deadline)
    }

    /// A client that must go at `now`, and why. Ask again until there is none.
    pub(super) fn overdue(&mut self, now: Instant) -> Option<(u32, Expulsion)> {
        if now < self.deadline {
            return None;
        }
        self.deadline = Instant::MAX;
        let mut overdue: Option<(usize, u32, Expulsion)> = None;
        for (index, watched) in (0..).zip(&self.clients) {
            let Some(watched) = watched else { continue };
            let Some((limit, expulsion)) = limit(watched, self.pressed) else { continue };
            self.deadline = self.deadline.min(limit);
            let owed_bytes = watched.standing.owed_bytes;
            // Once the greatest debtor has gone, the others may stay.
            if limit <= now && overdue.is_none_or(|(most, ..)| owed_bytes > most) {
                overdue = Some((owed_bytes, index, expulsion));
            }
        }
        overdue.map(|(_, index, expulsion)| (index, expulsion))
    }

    /// The client that has negotiated longest, if that is longer than a further client must wait at `now`.
    pub(super) fn yielding(&self, now: Instant) -> Option<u32> {
        self.oldest_negotiating().filter(|(_, since)| *since + YIELDING_AGE < now).map(|(index, _)| index)
    }

    /// Returns the time at which [`yielding`](Self::yielding) next has a client.
    pub(super) fn next_yielding(&self) -> Option<Instant> {
        self.oldest_negotiating().map(|(_, since)| since + YIELDING_AGE + Duration::from_ns(1))
    }

    fn oldest_negotiating(&self) -> Option<(u32, Instant)> {
        let clients = (0..).zip(&self.clients).filter_map(|(index, watched)| Some((index, (*watched)?)));
        let negotiating = clients.filter(|(_, watched)| !watched.standing.negotiated);
        negotiating.map(|(index, watched)| (index, watched.connected)).min_by_key(|(_, since)| *since)
    }
}

/// Returns the time at which a client must leave if nothing changes, and the reason.
fn limit(watched: &Watched, pressed: Option<Instant>) -> Option<(Instant, Expulsion)> {
    let Watched { standing, connected, request_began, progressed } = *watched;
    if !standing.negotiated {
        return Some((connected + NEGOTIATION_MAX, Expulsion::Negotiation));
    }
    let request = standing.started_request.map(|_| (request_began + REQUEST_MAX, Expulsion::Request));
    let standstill =
        if standing.closing { Some(progressed) } else { pressed.map(|since| since.max(progressed)) };
    let standstill = standstill.filter(|_| standing.unsent);
    let standstill = standstill.map(|since| (since + STANDSTILL_MAX, Expulsion::Standstill));
    request.into_iter().chain(standstill).min_by_key(|(limit, _)| *limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    const fn s(s: u64) -> Instant {
        Instant::from_ns(s * 1_000_000_000)
    }

    fn served() -> Standing {
        Standing { negotiated: true, ..Standing::default() }
    }

    fn debtor(owed_bytes: usize) -> Standing {
        Standing { owed_bytes, unsent: true, ..served() }
    }

    /// Clients that connected one second after the other.
    fn clients<const N: usize>(standings: [Standing; N]) -> Supervisor {
        let mut supervisor = Supervisor::new(256 * MIB);
        for (index, standing) in (0..).zip(standings) {
            supervisor.connected(index, s(index.into()));
            supervisor.observe(index, standing, false, s(index.into()));
        }
        supervisor
    }

    #[test]
    fn negotiation_ends_after_ten_seconds() {
        let mut supervisor = clients([Standing::default(), served(), Standing::default()]);
        assert_eq!(supervisor.overdue(Instant::from_ns(9_999_999_999)), None);
        assert_eq!(supervisor.deadline(), Some(s(10)));
        assert_eq!(supervisor.overdue(s(10)), Some((0, Expulsion::Negotiation)));
        supervisor.removed(0, s(10));
        assert_eq!(supervisor.overdue(s(10)), None);
        assert_eq!(supervisor.deadline(), Some(s(12)));
        supervisor.observe(2, served(), false, s(11));
        assert_eq!(supervisor.overdue(s(1_000_000)), None, "who negotiated in time may be silent for ever");
        assert_eq!(supervisor.deadline(), None);
    }

    #[test]
    fn oldest_negotiation_yields_its_place_after_a_second() {
        let supervisor = clients([served(), Standing::default(), Standing::default()]);
        assert_eq!(supervisor.yielding(s(2)), None);
        assert_eq!(supervisor.next_yielding(), Some(Instant::from_ns(2_000_000_001)));
        assert_eq!(supervisor.yielding(Instant::from_ns(2_000_000_001)), Some(1));
        assert_eq!(clients([served()]).yielding(s(1_000)), None);
        assert_eq!(clients([served()]).next_yielding(), None);
    }

    #[test]
    fn started_request_arrives_within_thirty_seconds() {
        let started = |number| Standing { started_request: Some(number), ..served() };
        let mut supervisor = clients([started(7)]);
        supervisor.observe(0, Standing { owed_bytes: 1, ..started(7) }, false, s(20));
        assert_eq!(supervisor.overdue(s(29)), None);
        assert_eq!(supervisor.overdue(s(30)), Some((0, Expulsion::Request)), "other news prolong nothing");
        supervisor.observe(0, started(8), false, s(30));
        assert_eq!(supervisor.overdue(s(59)), None, "each request has its own time");
        assert_eq!(supervisor.overdue(s(60)), Some((0, Expulsion::Request)));
        supervisor.observe(0, served(), false, s(60));
        assert_eq!(supervisor.overdue(s(1_000)), None);
    }

    #[test]
    fn greatest_debtor_goes_after_thirty_seconds_of_holding_others_back() {
        let held_back = Standing { held_back: true, ..served() };
        let mut supervisor = clients([debtor(100 * MIB), debtor(120 * MIB), served()]);
        assert_eq!(supervisor.overdue(s(1_000)), None, "below the maximum a debtor may sleep");
        supervisor.observe(2, held_back, false, s(1_000));
        assert!(supervisor.is_pressed());
        assert_eq!(supervisor.overdue(s(1_029)), None);
        assert_eq!(supervisor.deadline(), Some(s(1_030)));
        assert_eq!(supervisor.overdue(s(1_030)), Some((1, Expulsion::Standstill)));
        supervisor.removed(1, s(1_030));
        supervisor.observe(2, served(), false, s(1_030));
        assert_eq!((supervisor.overdue(s(2_000)), supervisor.is_pressed()), (None, false));
    }

    #[test]
    fn debtor_that_takes_bytes_stays() {
        let mut supervisor = clients([debtor(200 * MIB), Standing { held_back: true, ..served() }]);
        for second in 1..100 {
            supervisor.observe(0, debtor(200 * MIB), true, s(second * 20));
            assert_eq!(supervisor.overdue(s(second * 20 + 19)), None);
        }
    }

    #[test]
    fn goodbye_gives_thirty_seconds_to_take_the_rest() {
        let mut supervisor = clients([Standing { closing: true, ..debtor(5) }]);
        assert_eq!(supervisor.overdue(s(29)), None);
        supervisor.observe(0, Standing { closing: true, ..debtor(4) }, true, s(29));
        assert_eq!(supervisor.overdue(s(58)), None);
        assert_eq!(supervisor.overdue(s(59)), Some((0, Expulsion::Standstill)));
    }

    #[test]
    fn debts_stay_below_the_maximum_and_leave_room_for_others() {
        for count in [1_u32, 3, 64, 1_000] {
            let mut supervisor = Supervisor::new(256 * MIB);
            let mut owed = vec![0; count as usize];
            for index in 0..count {
                supervisor.connected(index, s(0));
            }
            // Each takes what it may, in pieces of 64 KiB, and gives nothing back.
            for _ in 0..8 * 1024 {
                for index in 0..count {
                    let own = &mut owed[index as usize];
                    if *own + (MIB >> 4) <= supervisor.debt_max(index) {
                        *own += MIB >> 4;
                        supervisor.observe(index, debtor(*own), false, s(0));
                    }
                }
            }
            assert!(supervisor.owed_bytes() <= 256 * MIB, "{count}: {}", supervisor.owed_bytes());
            supervisor.connected(count, s(0));
            let left = supervisor.debt_max(count);
            let share = 256 * MIB / (count as usize + 1);
            assert!(left >= share / 2 - (MIB >> 3), "{count}: {left}");
        }
        let mut alone = Supervisor::new(10);
        alone.connected(0, s(0));
        assert_eq!(alone.debt_max(0), usize::MAX, "one reply is always admitted");
    }
}
