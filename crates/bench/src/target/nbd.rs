//! Exports of NBD servers, over a unix socket or TCP, with or without TLS: one connection for each thread, many requests outstanding.
//!
//! # Scope and limits
//! When the server closes the connection, or a request exceeds its time limit, the outstanding requests fail with the
//! status `gone` and the connection is remade: at once, then after waits that double up to a second. A thread of its own
//! connects, so a server that takes the connection and never answers delays no end of a run.

use seeklab_core::{ByteSize, Instant, Operation, Status};
use seeklab_emulator::client::nbd::{Client, Export};
use seeklab_emulator::client::{ClientError, Command, Patience};
use seeklab_emulator::clock::{Clock, Wait};
use seeklab_emulator::frontend::nbd::Uri;
use seeklab_workloads::AddressSpace;

use super::attempt::Attempt;
use super::away::Away;
use super::buffers::Buffers;
use super::idle::idle;
use crate::signature::{self, signature};
use crate::verify::Checker;

use super::{
    Ended, Opening, Target, TargetError, TargetFacts, TargetKind, TargetLimits, TargetOptions, Transfer,
    byte_range,
};

/// Its line in the list of targets.
pub(super) const KIND: TargetKind = TargetKind {
    name: "nbd",
    form: "nbd://HOST:PORT/EXPORT, nbd+unix:///EXPORT?socket=PATH; with TLS nbds:// and nbds+unix://",
    meaning: "An export of an NBD server",
    matches: |address| Uri::SCHEMES.iter().any(|scheme| address.starts_with(scheme)).then_some(address),
    holds_data: true,
    is_model: false,
    has_priorities: false,
    is_virtual: false,
    identify: super::unidentified,
    is_expendable,
    open,
};

fn open(address: &str, opening: &Opening<'_>) -> Result<Box<dyn Target>, TargetError> {
    let options = opening.options;
    let uri = uri_of(address)?;
    let client = Client::connect_unless(&uri, opening.clock, opening.is_stopped)?;
    let export = client.export();
    if export.read_only && options.writes {
        let hint = "choose a workload that only reads, read=100%";
        return Err(TargetError::unusable(address, "the export refuses writes", hint));
    }
    let block_bytes = u64::from(export.block_bytes_min.max(512));
    let space = AddressSpace {
        capacity_blocks: export.size_bytes / block_bytes,
        block_size: ByteSize::from_bytes(block_bytes),
    };
    if space.capacity_blocks == 0 {
        return Err(TargetError::unusable(address, "the export is empty", ""));
    }
    // The client has the buffers of reads.
    let buffers = Buffers::new(1, &TargetOptions { reads: false, ..options.clone() });
    let mut facts = TargetFacts::new(space, options.outstanding_max);
    facts.limits = limits(export);
    if uri.tls().is_some_and(|tls| tls.accepts_any_server) {
        facts.notes.push("The certificate of the server was not verified (tls-verify-peer=0).".to_owned());
    }
    Ok(Box::new(Nbd {
        uri,
        facts,
        clock: opening.clock,
        client: Some(client),
        buffers,
        unsent: Vec::new(),
        refusal: None,
        away: None,
        attempt: None,
        reconnections: 0,
        idle_calls: 0,
    }))
}

fn uri_of(address: &str) -> Result<Uri, TargetError> {
    address.parse().map_err(|error: seeklab_emulator::frontend::nbd::UriError| {
        TargetError::unusable(address, error.reason, "")
    })
}

/// Returns true of an export of seeklab whose bytes are in memory, without recognised contents.
fn is_expendable(address: &str, is_stopped: &dyn Fn() -> bool) -> Result<bool, TargetError> {
    let mut client = Client::connect_unless(&uri_of(address)?, Clock::start(), is_stopped)?;
    let export = *client.export();
    let mut is_expendable = export.is_in_memory;
    if is_expendable {
        let length = (signature::LENGTH as u64).next_multiple_of(export.block_bytes_min.into());
        let mut bytes = vec![0; length.min(export.size_bytes) as usize];
        client.read(0, &mut bytes)?;
        is_expendable = signature(&bytes).is_none();
    }
    client.disconnect()?;
    Ok(is_expendable)
}

/// The limits of an export.
fn limits(export: &Export) -> TargetLimits {
    let refused = [
        (Operation::Flush, export.flush),
        (Operation::Discard, export.discard),
        (Operation::WriteZeroes, export.write_zeroes),
    ];
    TargetLimits {
        refused: refused.into_iter().filter(|(_, has)| !has).map(|(op, _)| op).collect(),
        refuses_fua: !export.fua,
        request_bytes_max: Some(export.payload_bytes_max.into()),
    }
}

#[derive(Debug)]
struct Nbd {
    uri: Uri,
    facts: TargetFacts,
    clock: Clock,
    /// Always there, but for the drop.
    client: Option<Client>,
    buffers: Buffers,
    /// Transfers that were not sent, and the status with which they end.
    unsent: Vec<(u32, Status)>,
    /// Reason for which the client did not send a request, the first one.
    refusal: Option<String>,
    away: Option<Away>,
    /// The attempt that is under way while the target is away.
    attempt: Option<Attempt>,
    reconnections: u64,
    idle_calls: u64,
}

impl Nbd {
    fn client(&mut self) -> &mut Client {
        self.client.as_mut().expect("the client lives as long as the target")
    }

    /// The connection has ended: what is outstanding fails.
    fn cut(&mut self) {
        if self.away.is_none() {
            self.client().abandon();
            self.away = Some(Away::begin(self.clock.now()));
        }
    }

    /// Remakes the connection if it is time to, and waits for it; waits if it is not.
    ///
    /// # Errors
    /// If the server gives the export no more, or another one.
    fn remake(&mut self, away: Away, wait: Wait) -> Result<(), TargetError> {
        let attempt = match self.attempt.take() {
            Some(attempt) => attempt,
            None if !away.is_due(self.clock.now()) => {
                self.idle_calls += idle(self.clock, away.shorten(wait));
                return Ok(());
            }
            None => {
                let uri = self.uri.clone();
                match Attempt::begin(self.client().connector(&uri)) {
                    Ok(attempt) => attempt,
                    Err(_) => {
                        self.put_off(away);
                        return Ok(());
                    }
                }
            }
        };
        self.idle_calls += u64::from(wait != Wait::Spin);
        let Some(connected) = attempt.wait(wait, self.clock) else {
            self.attempt = Some(attempt);
            return Ok(());
        };
        match connected.and_then(|fresh| self.client().take_over(fresh)) {
            Ok(()) => {
                self.away = None;
                self.reconnections += 1;
            }
            Err(error) if error.is_permanent() => return Err(error.into()),
            Err(_) => self.put_off(away),
        }
        Ok(())
    }

    /// An attempt to connect has failed: the next one comes later.
    fn put_off(&mut self, mut away: Away) {
        away.failed(self.clock.now());
        self.away = Some(away);
    }

    fn send(&mut self, transfer: &Transfer) -> Result<(), ClientError> {
        let Transfer { tag, request } = transfer;
        let (offset, length) = byte_range(request, self.facts.space.block_size.as_bytes());
        let client = self.client.as_mut().expect("the client lives as long as the target");
        let tag = u64::from(*tag);
        let command = match request.op {
            Operation::Read => Command::read(tag, offset, length as u32),
            // The client has handed the bytes to the kernel when it returns, and has a copy of those that it did not take.
            Operation::Write => {
                Command::write(tag, offset, self.buffers.for_write(0, length, transfer).bytes)
            }
            Operation::Flush => Command::flush(tag),
            Operation::Discard => Command::discard(tag, offset, length as u32),
            Operation::WriteZeroes => Command::write_zeroes(tag, offset, length as u32),
        };
        client.submit(command.fua(request.fua))
    }

    /// Takes one reply, if one comes in time.
    fn collect(&mut self, patience: Patience, ended: &mut Vec<Ended>) -> Result<bool, ClientError> {
        let block_bytes = self.facts.space.block_size.as_bytes();
        let client = self.client.as_mut().expect("the client lives as long as the target");
        let Some(reply) = client.collect(patience)? else { return Ok(false) };
        let status = reply.failure.as_ref().map_or(Status::Ok, |failure| Status::from_errno(failure.code));
        let bad_byte = reply.failure.as_ref().and_then(|failure| failure.offset_bytes);
        let good_bytes = bad_byte.and_then(|byte| byte.checked_sub(reply.request.offset_bytes));
        let good_blocks = good_bytes.and_then(|bytes| u32::try_from(bytes / block_bytes).ok());
        let (tag, completed) = (reply.tag as u32, reply.request.completion);
        if reply.request.op == Operation::Read
            && status.is_success()
            && let Some(checker) = &mut self.buffers.checker
        {
            checker.check(tag, reply.data, completed);
        }
        ended.push(Ended { tag, completed, status, good_blocks });
        // The server shuts down: it would answer every further request so.
        if status == Status::Gone {
            self.cut();
        }
        Ok(true)
    }
}

impl Target for Nbd {
    fn facts(&self) -> &TargetFacts {
        &self.facts
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
        self.client().set_clock(clock);
    }

    fn submit(&mut self, transfers: &[Transfer]) -> Result<(), TargetError> {
        for transfer in transfers {
            if self.away.is_some() {
                self.unsent.push((transfer.tag, Status::Gone));
                continue;
            }
            match self.send(transfer) {
                Ok(()) => {}
                Err(error @ (ClientError::Unsupported { .. } | ClientError::Invalid { .. })) => {
                    self.refusal.get_or_insert_with(|| error.to_string());
                    self.unsent.push((transfer.tag, Status::Aborted));
                }
                Err(ClientError::Closed { .. } | ClientError::Io { .. }) => self.cut(),
                Err(error) => return Err(error.into()),
            }
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
        loop {
            let count = ended.len() - before;
            let patience = match wait {
                _ if count >= at_least.max(1) as usize => Patience::None,
                Wait::Spin => Patience::None,
                Wait::Until(until) => Patience::Until(until),
                Wait::Forever => Patience::Unlimited,
            };
            match self.collect(patience, ended) {
                Ok(true) => {}
                Ok(false) => break,
                Err(ClientError::Closed { .. } | ClientError::Io { .. }) => self.cut(),
                Err(error) => return Err(error.into()),
            }
        }
        if ended.len() > before {
            return Ok(());
        }
        if let Some(away) = self.away {
            return self.remake(away, wait);
        }
        if self.client().outstanding() == 0 {
            self.idle_calls += idle(self.clock, wait);
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        self.away.is_none()
    }

    fn timed_out(&mut self, _: u32) {
        self.cut();
    }

    fn checker(&mut self) -> Option<&mut Option<Box<Checker>>> {
        Some(&mut self.buffers.checker)
    }

    fn flush_covers_all(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.export().several_connections)
    }

    fn system_calls(&self) -> u64 {
        self.client.as_ref().map_or(0, Client::system_calls) + self.idle_calls
    }

    fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    fn reconnections(&self) -> u64 {
        self.reconnections
    }
}

impl Drop for Nbd {
    fn drop(&mut self) {
        let client = self.client.take().filter(|client| client.outstanding() == 0 && self.away.is_none());
        // The server may have gone in the meantime: nothing is lost.
        let _ = client.map(Client::disconnect);
    }
}
