//! Disks of vhost-user servers: requests in shared memory, one connection and queue for each thread.
//!
//! ```text
//! submit ─▶ Ring (shared memory) ─kick▶ server ─call▶ Ring ─▶ Ended
//! ```
//! # Scope and limits
//! virtio-blk over the vhost-user protocol. No force unit access: virtio-blk has none. Servers that take one client at a time,
//! such as qemu's, serve one thread. When the server ends the connection or a request exceeds its time limit, the outstanding
//! requests fail with the status `gone` and the connection is remade with memory of its own, after waits that double up to
//! a second.

mod connection;
mod ring;

use std::path::PathBuf;
use std::time::Duration as StdDuration;

use memmap2::MmapMut;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;
use seeklab_core::{ByteSize, Instant, Operation, Request, Status};
use seeklab_emulator::client::ClientError;
use seeklab_emulator::clock::{Clock, Wait};
use seeklab_workloads::AddressSpace;

use self::connection::{Attempt, Connected, Connection, Disk};
use self::ring::{Data, Layout, SLOTS_MAX, descriptor_of};
use super::away::Away;
use super::buffers::{Buffers, Region};
use super::idle::idle;
use super::{
    Ended, Opening, Target, TargetError, TargetFacts, TargetKind, TargetLimits, TargetOptions, Transfer,
    byte_range,
};
use crate::verify::Checker;

/// Its line in the list of targets.
pub(super) const KIND: TargetKind = TargetKind {
    name: "vhost-user",
    form: "vhost-user:PATH",
    meaning: "A disk of a vhost-user server, over a unix socket",
    matches: |address| address.strip_prefix("vhost-user:"),
    holds_data: true,
    is_model: false,
    has_priorities: false,
    is_virtual: false,
    identify: super::unidentified,
    is_expendable: super::never_expendable,
    open,
};

/// Longest request for which there is a buffer at least.
const BUFFER_BYTES_MIN: usize = 256 << 10;
/// Longest wait for a server, after which the caller looks around.
const LOOK_MS: u64 = 50;
/// Sectors of the protocol.
const SECTOR_BYTES: u64 = 512;

/// Types of requests.
mod kind {
    pub(super) const READ: u32 = 0;
    pub(super) const WRITE: u32 = 1;
    pub(super) const FLUSH: u32 = 4;
    pub(super) const DISCARD: u32 = 11;
    pub(super) const WRITE_ZEROES: u32 = 13;
}

/// Number and lengths of the buffers of a target.
#[derive(Debug, Clone)]
struct Sizes {
    slots: u32,
    options: TargetOptions,
}

impl Sizes {
    fn of(options: &TargetOptions) -> Self {
        let prepared_bytes = options.prepared_bytes.max(BUFFER_BYTES_MIN);
        let slots = options.outstanding_max.clamp(1, SLOTS_MAX);
        Self { slots, options: TargetOptions { prepared_bytes, ..options.clone() } }
    }

    fn layout(&self) -> Layout {
        Layout::new(self.slots, Buffers::region_bytes(self.slots as usize, &self.options))
    }

    fn buffers(&self, memory: MmapMut) -> Buffers {
        Buffers::over(Region::Shared(memory), self.slots as usize, &self.options)
    }

    /// Longest request for which there is a buffer, in bytes.
    const fn request_bytes_max(&self) -> usize {
        self.options.prepared_bytes
    }
}

fn open(path: &str, opening: &Opening<'_>) -> Result<Box<dyn Target>, TargetError> {
    let address = format!("vhost-user:{path}");
    let options = opening.options;
    let sizes = Sizes::of(options);
    let refused = |problem: String| {
        let hint = "start the server, or end its other client: most servers take one at a time";
        TargetError::unusable(&address, problem, hint)
    };
    let clock = opening.clock;
    let attempt = Attempt::begin(path.as_ref(), sizes.layout(), clock.now()).map_err(refused)?;
    let (connection, memory) = loop {
        if (opening.is_stopped)() {
            return Err(ClientError::Stopped { outstanding: 0 }.into());
        }
        let look = StdDuration::from_millis(LOOK_MS);
        if let Some(connected) = attempt.wait(look, clock.now()).map_err(refused)? {
            break connected;
        }
    };
    let disk = connection.disk;
    if disk.is_read_only && options.writes {
        let hint = "choose a workload that only reads, read=100%";
        return Err(TargetError::unusable(&address, "the disk refuses writes", hint));
    }
    let block_bytes = u64::from(disk.block_bytes);
    let space = AddressSpace {
        capacity_blocks: disk.sectors / (block_bytes / SECTOR_BYTES),
        block_size: ByteSize::from_bytes(block_bytes),
    };
    if space.capacity_blocks == 0 {
        return Err(TargetError::unusable(&address, "the disk is empty", ""));
    }
    let mut facts = TargetFacts::new(space, sizes.slots);
    facts.limits = limits(&disk, &sizes);
    let mut buffers = sizes.buffers(memory);
    let slots = sizes.slots as usize;
    let origin = buffers.region().as_ptr() as usize;
    Ok(Box::new(VhostUser {
        address,
        path: path.into(),
        sizes,
        disk,
        facts,
        clock,
        buffers,
        origin,
        link: Link::Up(Box::new(connection)),
        requests: vec![None; slots],
        unsent: Vec::new(),
        refusal: None,
        reconnections: 0,
        calls: 0,
    }))
}

fn limits(disk: &Disk, sizes: &Sizes) -> TargetLimits {
    let refused = [
        (Operation::Flush, disk.flushes),
        (Operation::Discard, disk.discard_sectors_max.is_some()),
        (Operation::WriteZeroes, disk.zeroes_sectors_max.is_some()),
    ];
    TargetLimits {
        refused: refused.into_iter().filter(|(_, has)| !has).map(|(op, _)| op).collect(),
        refuses_fua: true,
        request_bytes_max: Some(disk.request_bytes_max.min(sizes.request_bytes_max() as u64)),
    }
}

/// State of the connection.
#[derive(Debug)]
enum Link {
    Up(Box<Connection>),
    /// There is none.
    Away(Away),
    /// It is being remade.
    Attempt(Attempt, Away),
}

#[derive(Debug)]
struct VhostUser {
    address: String,
    path: PathBuf,
    sizes: Sizes,
    disk: Disk,
    facts: TargetFacts,
    clock: Clock,
    buffers: Buffers,
    /// Address at which the buffers begin.
    origin: usize,
    link: Link,
    /// Requests under way, by slot.
    requests: Vec<Option<Request>>,
    /// Transfers that have ended without the server, and their status.
    unsent: Vec<(u32, Status)>,
    /// Reason for which a request was not sent, the first one.
    refusal: Option<String>,
    reconnections: u64,
    calls: u64,
}

impl VhostUser {
    /// The connection has ended: what is outstanding fails.
    fn cut(&mut self) {
        let Link::Up(_) = self.link else { return };
        self.link = Link::Away(Away::begin(self.clock.now()));
        for (tag, request) in self.requests.iter_mut().enumerate() {
            if request.take().is_some() {
                self.unsent.push((tag as u32, Status::Gone));
            }
        }
    }

    /// Puts a request into the ring.
    ///
    /// # Errors
    /// The reason, if the disk does not carry it out.
    fn push(&mut self, transfer: &Transfer) -> Result<(), String> {
        let Transfer { tag, request } = *transfer;
        let Link::Up(connection) = &mut self.link else { return Ok(()) };
        let (offset, length) = byte_range(&request, self.disk.block_bytes.into());
        let sector = offset / SECTOR_BYTES;
        let range = |most: Option<u32>, name: &str| {
            let sectors = length as u64 / SECTOR_BYTES;
            match most {
                None => Err(format!("the disk carries out no {name}")),
                Some(most) if sectors > u64::from(most) => {
                    Err(format!("a {name} of {sectors} sectors: the disk takes at most {most}"))
                }
                Some(_) => Ok(Data::Range(sector, sectors as u32, 0)),
            }
        };
        let (kind, sector, data) = match request.op {
            _ if request.fua => return Err("virtio has no writes with force unit access".to_owned()),
            Operation::Read | Operation::Write
                if length as u64 > self.facts.limits.request_bytes_max.unwrap_or(u64::MAX) =>
            {
                return Err(format!(
                    "a request of {length} bytes: buffers have {}",
                    self.sizes.request_bytes_max()
                ));
            }
            Operation::Read => {
                let at = self.buffers.for_read(tag, length).bytes.as_ptr() as usize - self.origin;
                (kind::READ, sector, Data::FromServer(at, length as u32))
            }
            Operation::Write => {
                let at = self.buffers.for_write(tag, length, transfer).bytes.as_ptr() as usize - self.origin;
                (kind::WRITE, sector, Data::ToServer(at, length as u32))
            }
            Operation::Flush if !self.disk.flushes => return Err("the disk carries out no flush".to_owned()),
            Operation::Flush => (kind::FLUSH, 0, Data::None),
            Operation::Discard => (kind::DISCARD, 0, range(self.disk.discard_sectors_max, "discard")?),
            Operation::WriteZeroes => {
                (kind::WRITE_ZEROES, 0, range(self.disk.zeroes_sectors_max, "write of zeroes")?)
            }
        };
        connection.ring.push(tag, kind, sector, data);
        self.requests[tag as usize] = Some(request);
        Ok(())
    }

    /// Appends the requests that have ended.
    fn collect(&mut self, ended: &mut Vec<Ended>) {
        let completed = self.clock.now();
        while let Link::Up(connection) = &mut self.link {
            let (tag, status) = match connection.ring.take() {
                Ok(Some(taken)) => taken,
                Ok(None) => break,
                Err(reason) => {
                    self.refusal.get_or_insert(reason);
                    self.cut();
                    break;
                }
            };
            let Some(request) = self.requests[tag as usize].take() else { continue };
            let status = if status == 0 { Status::Ok } else { Status::Aborted };
            if request.op == Operation::Read && status.is_success() {
                let (_, length) = byte_range(&request, self.disk.block_bytes.into());
                self.buffers.was_read(tag, length, completed);
            }
            ended.push(Ended { tag, completed, status, good_blocks: None });
        }
        let end = |(tag, status)| Ended { tag, completed, status, good_blocks: None };
        ended.extend(self.unsent.drain(..).map(end));
    }

    /// The time left of a wait.
    fn left(&self, wait: Wait) -> StdDuration {
        match wait {
            Wait::Spin => StdDuration::ZERO,
            Wait::Until(until) => StdDuration::from_nanos(until.saturating_since(self.clock.now()).as_ns()),
            Wait::Forever => StdDuration::from_millis(LOOK_MS),
        }
    }

    /// Waits for the server. Returns true if something happened.
    fn work(&mut self, limit: StdDuration) -> Result<bool, TargetError> {
        let Link::Up(connection) = &self.link else { return Ok(false) };
        let call = descriptor_of(&connection.call);
        let mut descriptors = [
            PollFd::from_borrowed_fd(call, PollFlags::IN),
            PollFd::new(&connection.stream, PollFlags::RDHUP),
        ];
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        self.calls += 1;
        match poll(&mut descriptors, Some(&limit)) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(error) => return Err(TargetError::io(&self.address, "wait for", error)),
        }
        let [call, stream] = descriptors.map(|one| one.revents());
        if call.contains(PollFlags::IN) {
            self.calls += 1;
            let _ = connection.call.read();
        }
        if stream.intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR) {
            self.cut();
        }
        Ok(true)
    }

    /// Remakes the connection if it is time to; waits if it is not.
    fn remake(&mut self, wait: Wait) -> Result<(), TargetError> {
        let (now, limit) = (self.clock.now(), self.left(wait));
        match &mut self.link {
            Link::Up(_) => {}
            Link::Away(away) if !away.is_due(now) => self.calls += idle(self.clock, away.shorten(wait)),
            Link::Away(away) => {
                let away = *away;
                match Attempt::begin(&self.path, self.sizes.layout(), now) {
                    Ok(attempt) => self.link = Link::Attempt(attempt, away),
                    Err(_) => self.put_off(away),
                }
            }
            Link::Attempt(attempt, away) => {
                let away = *away;
                match attempt.wait(limit, now) {
                    Ok(None) => {}
                    Ok(Some(connected)) => self.take_over(connected)?,
                    Err(_) => self.put_off(away),
                }
            }
        }
        Ok(())
    }

    fn put_off(&mut self, mut away: Away) {
        away.failed(self.clock.now());
        self.link = Link::Away(away);
    }

    fn take_over(&mut self, (connection, memory): Connected) -> Result<(), TargetError> {
        if connection.disk != self.disk {
            let problem = "another disk answers there since the connection was remade";
            return Err(TargetError::unusable(&self.address, problem, ""));
        }
        let checker = self.buffers.checker.take();
        self.buffers = self.sizes.buffers(memory);
        self.buffers.checker = checker;
        self.origin = self.buffers.region().as_ptr() as usize;
        self.link = Link::Up(Box::new(connection));
        self.reconnections += 1;
        Ok(())
    }
}

impl Target for VhostUser {
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
            if !self.is_ready() {
                self.unsent.push((transfer.tag, Status::Gone));
            } else if let Err(reason) = self.push(transfer) {
                self.refusal.get_or_insert(reason);
                self.unsent.push((transfer.tag, Status::Aborted));
            }
        }
        if let Link::Up(connection) = &self.link
            && connection.ring.count() > 0
            && connection.ring.needs_kick()
        {
            self.calls += 1;
            if connection.kick.write(1).is_err() {
                self.cut();
            }
        }
        Ok(())
    }

    fn poll(&mut self, wait: Wait, at_least: u32, ended: &mut Vec<Ended>) -> Result<(), TargetError> {
        let before = ended.len();
        self.collect(ended);
        loop {
            if ended.len() - before >= at_least.max(1) as usize || (wait == Wait::Spin && self.is_ready()) {
                return Ok(());
            }
            if !self.is_ready() {
                return if ended.len() > before { Ok(()) } else { self.remake(wait) };
            }
            if !self.work(self.left(wait))? {
                return Ok(());
            }
            self.collect(ended);
        }
    }

    fn is_ready(&self) -> bool {
        matches!(self.link, Link::Up(_))
    }

    fn timed_out(&mut self, _: u32) {
        self.cut();
    }

    fn checker(&mut self) -> Option<&mut Option<Box<Checker>>> {
        Some(&mut self.buffers.checker)
    }

    fn system_calls(&self) -> u64 {
        self.calls
    }

    fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    fn reconnections(&self) -> u64 {
        self.reconnections
    }
}
