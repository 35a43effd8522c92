//! The target: requests as commands of a session, and a connection that is remade.

use rustix::time::Timespec;
use seeklab_core::{ByteSize, Duration, Instant, Operation, Request, Status};
use seeklab_emulator::client::ClientError;
use seeklab_emulator::clock::{Clock, Wait};
use seeklab_workloads::AddressSpace;

use super::command::Command;
use super::login::{Login, LoginError};
use super::outcome::CANCELLED;
use super::portal::Portal;
use super::session::Session;
use super::unit::Unit;
use crate::identity::DeviceIdentity;
use crate::target::away::Away;
use crate::target::buffers::Buffers;
use crate::target::idle::idle;
use crate::target::{Ended, Opening, Target, TargetError, TargetFacts, TargetLimits, Transfer, byte_range};
use crate::verify::Checker;

/// Longest wait for a portal, after which the caller looks around.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Time for a logout.
const LOGOUT_MAX: Duration = Duration::from_s(1);
/// No waiting.
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Logs in, and returns the session and the properties of the unit.
fn begin(
    address: &str,
    (clock, is_stopped): (Clock, &dyn Fn() -> bool),
    buffers: Buffers,
    slots: u32,
) -> Result<(Portal, Session, Unit), TargetError> {
    let portal = Portal::of(address, |name| std::env::var_os(name))?;
    let mut session = Session::new(buffers, slots);
    let refused = |error: LoginError| TargetError::unusable(address, error.problem, error.hint);
    let mut login = Login::begin(&mut session, &portal, clock.now()).map_err(refused)?;
    loop {
        if is_stopped() {
            return Err(ClientError::Stopped { outstanding: 0 }.into());
        }
        let advanced = login.advance(&mut session, &portal, clock.now(), LOOK);
        if let Some(unit) = advanced.map_err(refused)? {
            return Ok((portal, session, unit));
        }
    }
}

/// Logs in, asks for the identity of the unit, and logs out.
pub(super) fn identify(
    address: &str,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Option<DeviceIdentity>, TargetError> {
    let buffers = Buffers::none();
    let clock = Clock::start();
    let (_, mut session, unit) = begin(address, (clock, is_stopped), buffers, 1)?;
    leave(&mut session, clock);
    Ok(Some(DeviceIdentity {
        capacity_bytes: unit.capacity_blocks.saturating_mul(unit.block_bytes.into()),
        serial: unit.serial,
        model: unit.model,
        ..DeviceIdentity::default()
    }))
}

pub(super) fn open(address: &str, opening: &Opening<'_>) -> Result<Box<dyn Target>, TargetError> {
    let options = opening.options;
    let slots = options.outstanding_max;
    let buffers = Buffers::new(slots as usize, options);
    let (portal, session, unit) = begin(address, (opening.clock, opening.is_stopped), buffers, slots)?;
    if unit.is_read_only && options.writes {
        let hint = "choose a workload that only reads, read=100%";
        return Err(TargetError::unusable(address, "the unit refuses writes", hint));
    }
    let space = AddressSpace {
        capacity_blocks: unit.capacity_blocks,
        block_size: ByteSize::from_bytes(unit.block_bytes.into()),
    };
    let mut facts = TargetFacts::new(space, slots);
    facts.serial.clone_from(&unit.serial);
    facts.limits = limits(&unit);
    facts.notes.push("System calls of libiscsi are not among those that are counted.".to_owned());
    Ok(Box::new(Iscsi {
        portal,
        facts,
        clock: opening.clock,
        session,
        unit,
        link: Link::Up,
        requests: vec![None; slots as usize],
        unsent: Vec::new(),
        refusal: None,
        reconnections: 0,
        idle_calls: 0,
    }))
}

fn limits(unit: &Unit) -> TargetLimits {
    let refused = [
        (Operation::Flush, unit.flush.is_some()),
        (Operation::Discard, unit.discards),
        (Operation::WriteZeroes, unit.writes_same),
    ];
    TargetLimits {
        refused: refused.into_iter().filter(|(_, has)| !has).map(|(op, _)| op).collect(),
        refuses_fua: !unit.fua,
        request_bytes_max: Some(unit.transfer_blocks_max.saturating_mul(unit.block_bytes.into())),
    }
}

/// Logs out, if the server lets it.
fn leave(session: &mut Session, clock: Clock) {
    let deadline = clock.now() + LOGOUT_MAX;
    let mut goes_on = session.log_out().is_ok();
    while goes_on && session.login().is_none() && clock.now() < deadline {
        goes_on = session.work(LOOK).is_ok();
    }
    session.close();
}

/// State of the connection.
#[derive(Debug)]
enum Link {
    Up,
    /// There is none.
    Away(Away),
    /// It is being remade.
    Login(Login, Away),
}

#[derive(Debug)]
struct Iscsi {
    portal: Portal,
    facts: TargetFacts,
    clock: Clock,
    session: Session,
    unit: Unit,
    link: Link,
    /// Requests under way, by slot.
    requests: Vec<Option<Request>>,
    /// Transfers that were not sent, and the status with which they end.
    unsent: Vec<(u32, Status)>,
    /// Reason for which a request was not sent, the first one.
    refusal: Option<String>,
    reconnections: u64,
    idle_calls: u64,
}

impl Iscsi {
    /// The connection has ended: what is outstanding fails.
    fn cut(&mut self) {
        if matches!(self.link, Link::Up) {
            self.session.close();
            self.link = Link::Away(Away::begin(self.clock.now()));
        }
    }

    /// The time left of a wait.
    fn left(&self, wait: Wait) -> Timespec {
        match wait {
            Wait::Spin => AT_ONCE,
            Wait::Until(until) => {
                let ns = until.saturating_since(self.clock.now()).as_ns();
                Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
            }
            Wait::Forever => LOOK,
        }
    }

    /// Appends the replies that are there.
    fn collect(&mut self, ended: &mut Vec<Ended>) {
        let mut completed = None;
        let mut is_cut = false;
        while let Some(reply) = self.session.take() {
            // A question about the unit, whose login was given up, has no request.
            let Some(request) = self.requests.get_mut(reply.slot as usize).and_then(Option::take) else {
                continue;
            };
            let completed = *completed.get_or_insert_with(|| self.clock.now());
            let (status, good_blocks) = reply.outcome(&request, self.unit.block_bytes);
            if request.op == Operation::Read && status.is_success() {
                let (_, length) = byte_range(&request, self.unit.block_bytes.into());
                self.session.buffers().was_read(reply.slot, length, completed);
            }
            is_cut |= reply.status == CANCELLED;
            ended.push(Ended { tag: reply.slot, completed, status, good_blocks });
        }
        if is_cut {
            self.cut();
            // Those that closing has ended.
            self.collect(ended);
        }
    }

    /// Remakes the connection if it is time to; waits if it is not.
    ///
    /// # Errors
    /// If the target refuses this client for good, or has another unit under the address.
    fn remake(&mut self, wait: Wait) -> Result<(), TargetError> {
        let now = self.clock.now();
        let limit = self.left(wait);
        match std::mem::replace(&mut self.link, Link::Up) {
            Link::Up => {}
            Link::Away(away) if !away.is_due(now) => {
                self.link = Link::Away(away);
                self.idle_calls += idle(self.clock, away.shorten(wait));
            }
            Link::Away(away) => match Login::begin(&mut self.session, &self.portal, now) {
                Ok(login) => self.link = Link::Login(login, away),
                Err(error) => self.put_off(away, error)?,
            },
            Link::Login(mut login, away) => {
                match login.advance(&mut self.session, &self.portal, now, limit) {
                    Ok(None) => self.link = Link::Login(login, away),
                    Ok(Some(unit)) if unit.is_same(&self.unit) => self.reconnections += 1,
                    Ok(Some(_)) => {
                        let problem = "another unit answers at this address since the connection was remade";
                        return Err(TargetError::unusable(&self.portal.address.to_string(), problem, ""));
                    }
                    Err(error) => self.put_off(away, error)?,
                }
            }
        }
        Ok(())
    }

    /// An attempt to remake the connection has failed.
    fn put_off(&mut self, mut away: Away, error: LoginError) -> Result<(), TargetError> {
        self.session.close();
        if error.is_permanent {
            return Err(TargetError::unusable(&self.portal.address.to_string(), error.problem, error.hint));
        }
        away.failed(self.clock.now());
        self.link = Link::Away(away);
        Ok(())
    }
}

impl Target for Iscsi {
    fn facts(&self) -> &TargetFacts {
        &self.facts
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    fn submit(&mut self, transfers: &[Transfer]) -> Result<(), TargetError> {
        for transfer in transfers {
            let Transfer { tag, request } = *transfer;
            if !self.is_ready() {
                self.unsent.push((tag, Status::Gone));
                continue;
            }
            match Command::of(&request, &self.unit) {
                Ok(command) => match self.session.push(transfer, &command) {
                    Ok(()) => self.requests[tag as usize] = Some(request),
                    Err(_) => {
                        self.unsent.push((tag, Status::Gone));
                        self.cut();
                    }
                },
                Err(reason) => {
                    self.refusal.get_or_insert(reason);
                    self.unsent.push((tag, Status::Aborted));
                }
            }
        }
        if self.is_ready() && self.session.under_way() > 0 && self.session.flush_out().is_err() {
            self.cut();
        }
        Ok(())
    }

    fn poll(&mut self, wait: Wait, at_least: u32, ended: &mut Vec<Ended>) -> Result<(), TargetError> {
        let before = ended.len();
        if !self.unsent.is_empty() {
            let completed = self.clock.now();
            let end = |(tag, status)| Ended { tag, completed, status, good_blocks: None };
            ended.extend(self.unsent.drain(..).map(end));
        }
        self.collect(ended);
        loop {
            let is_enough = ended.len() - before >= at_least.max(1) as usize;
            if !self.is_ready() {
                return if ended.len() > before { Ok(()) } else { self.remake(wait) };
            }
            let limit = if is_enough { AT_ONCE } else { self.left(wait) };
            match self.session.work(limit) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(_) => self.cut(),
            }
            self.collect(ended);
            if is_enough || wait == Wait::Spin {
                return Ok(());
            }
        }
    }

    fn is_ready(&self) -> bool {
        matches!(self.link, Link::Up)
    }

    fn timed_out(&mut self, _: u32) {
        self.cut();
    }

    fn checker(&mut self) -> Option<&mut Option<Box<Checker>>> {
        Some(&mut self.session.buffers().checker)
    }

    fn system_calls(&self) -> u64 {
        self.session.calls() + self.idle_calls
    }

    fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    fn reconnections(&self) -> u64 {
        self.reconnections
    }
}

impl Drop for Iscsi {
    fn drop(&mut self) {
        if self.is_ready() && self.session.under_way() == 0 {
            leave(&mut self.session, self.clock);
        }
    }
}
