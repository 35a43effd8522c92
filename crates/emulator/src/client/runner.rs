//! Built-in workloads on a real server, against the wall clock: no privilege, no mount.
//!
//! ```text
//! Host ──Request──▶ submit ─▶ NBD server
//!  ▲  At(t): sleep, then spin, until t or a reply   │
//!  └──────── complete ◀─ check the data ◀─ collect ◀┘
//! ```
//! The application runs on the simulator's model of a host, whose time is the wall clock here. A stretch of computing lasts that
//! long on the wall clock and does nothing else: the runner's thread sleeps until a margin before its end and spins
//! the rest, as the emulator does, so that the processor stays with the emulator. A simulated and an emulated run of an
//! application make the same requests as long as their order of completion is the same.
//!
//! # Failed requests
//! A request that the server fails is sent again as often as the options allow, and then counts as failed: the
//! application goes on as if it were complete. What a failed write left is not known, so its blocks are not checked.
//!
//! # Closed connections
//! If the options allow it, a connection that the server closes is opened again: the device had gone, or had lost its
//! power. Its outstanding requests fail with `ESHUTDOWN`, and the application waits meanwhile. Blocks of writes that no
//! flush covers may be lost then, so they are not checked any more.
//!
//! # Scope and limits
//! One thread drives all connections. Making the data of a write and comparing that of a read takes the
//! runner about 0.1 ms for 256 KiB, which is between the stamps of no request but may delay the next.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use seeklab_core::{Arrival, ByteSize, Duration, HostRequest, Instant, Operation, Request, Seed, Workload};
use seeklab_workloads::host::Phase;
use seeklab_workloads::{AddressSpace, Builtin, Host, Retries, RetryCounts};

use super::content::Content;
pub use super::content::Mismatch;
use super::nbd::Client;
use super::promised::Promises;
use super::volatile::Volatile;
use super::{ClientError, Command, Patience};
use crate::clock::{Clock, DEFAULT_MARGIN, Pacing, Wait, Waiter};
use crate::frontend::nbd::Uri;

/// Options of a run.
#[derive(Debug, Clone, Copy)]
pub struct RunnerOptions<'a> {
    /// Connections; one, where the export does not let several share flushes. Processes share them.
    pub connections: usize,
    /// Clock of the stamps [default: a clock that starts with the run].
    pub clock: Option<Clock>,
    /// Method of waiting for the end of computing.
    pub pacing: Pacing,
    /// Time before the end of computing at which sleeping ends.
    pub margin: Duration,
    /// Compare the data read with the data written.
    pub verify: bool,
    /// Read all written data once more at the end, and compare it. The result includes the `verified_bytes`, mismatches
    /// and failed requests of this check, but not its time and requests.
    pub read_back: bool,
    /// Keep what each commit promises.
    pub promises: bool,
    /// Attempts after a request failed.
    pub retries: Retries,
    /// Time within which a connection that the server closed is open again. Zero ends the run when the server closes one.
    pub reconnect_within: Duration,
    /// Ends the run when true.
    pub stop: Option<&'a AtomicBool>,
}

impl Default for RunnerOptions<'_> {
    fn default() -> Self {
        Self {
            connections: 1,
            clock: None,
            pacing: Pacing::Balanced,
            margin: DEFAULT_MARGIN,
            verify: true,
            read_back: false,
            promises: false,
            retries: Retries::default(),
            reconnect_within: Duration::ZERO,
            stop: None,
        }
    }
}

/// Progress of a run, reported about ten times per second and at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The phase that runs.
    pub phase: &'static str,
    /// Its number, from zero.
    pub phase_index: usize,
    /// Operations done in the phase.
    pub operations: u64,
    /// Requests completed so far.
    pub requests: u64,
    /// Time since the start.
    pub elapsed: Duration,
}

/// Result of a run of a built-in workload.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltinResult {
    /// The clock of all stamps.
    pub clock: Clock,
    /// From the first request to the end, unmounts included.
    pub elapsed: Duration,
    /// Its phases; all have ended.
    pub phases: Vec<Phase>,
    /// Every request at MP1, each attempt on its own, in order of completion. Those that failed have an error number.
    pub requests: Vec<HostRequest>,
    /// Requests that failed, each attempt on its own.
    pub failed_requests: u64,
    /// Requests that were sent again, and how they ended.
    pub retries: RetryCounts,
    /// Connections that were opened again.
    pub reconnections: u64,
    /// Bytes read by requests that were carried out.
    pub read_bytes: u64,
    /// Bytes written by requests that were carried out.
    pub written_bytes: u64,
    /// Bytes read that were compared with what was written there.
    pub verified_bytes: u64,
    /// Blocks that did not hold what was written: a failure of the device under test.
    pub mismatch_count: u64,
    /// The first of them, at most sixteen.
    pub mismatches: Vec<Mismatch>,
    /// True if the run ended early because the export was too small for its files.
    pub is_full: bool,
    /// Promises of its commits, if the options say so.
    pub promises: Option<Promises>,
}

impl BuiltinResult {
    /// Operations of all phases.
    pub fn operations(&self) -> u64 {
        self.phases.iter().map(|phase| phase.operations).sum()
    }

    fn compare(&mut self, content: &Content, offset: u64, data: &[u8]) {
        self.verified_bytes += content.check(offset, data, &mut |mismatch| {
            self.mismatch_count += 1;
            if self.mismatches.len() < MISMATCHES_KEPT {
                self.mismatches.push(mismatch);
            }
        });
    }

    /// Operations per second in the phase of that name; `None` if there is none or it took no time.
    pub fn operations_per_s(&self, phase: &str) -> Option<f64> {
        let phase = self.phases.iter().find(|candidate| candidate.name == phase)?;
        let elapsed = phase.elapsed().filter(|elapsed| !elapsed.is_zero())?;
        Some(phase.operations as f64 / elapsed.as_s())
    }
}

/// A device that has not answered for so long will not.
const PATIENCE: Duration = Duration::from_s(60);
/// Time between two attempts to connect again.
const RECONNECT_INTERVAL: std::time::Duration = std::time::Duration::from_millis(5);
const PROGRESS_INTERVAL: Duration = Duration::from_ms(100);
const MISMATCHES_KEPT: usize = 16;
/// Reading back: enough at a time to keep a disk streaming.
const READ_BACK_BYTES: u64 = 512 << 10;
const READ_BACK_DEPTH: usize = 8;

/// Runs `builtin` on the export that `uri` names, which it overwrites.
///
/// # Errors
/// [`ClientError`] if the server cannot be reached, breaks the protocol or closes a connection, or if the workload does not
/// fit.
/// Failed requests and wrong data are not an error, but are reported in the result.
pub fn run_builtin(
    builtin: &Builtin,
    uri: &Uri,
    seed: Seed,
    progress: &mut dyn FnMut(Progress),
) -> Result<BuiltinResult, ClientError> {
    run_builtin_with(builtin, uri, seed, &RunnerOptions::default(), progress)
}

/// As [`run_builtin`], with options.
///
/// # Errors
/// As [`run_builtin`], and [`ClientError::Stopped`]. A closed connection is an error only if it is not open again in time.
pub fn run_builtin_with(
    builtin: &Builtin,
    uri: &Uri,
    seed: Seed,
    options: &RunnerOptions<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<BuiltinResult, ClientError> {
    let clock = options.clock.unwrap_or_else(Clock::start);
    let first = Client::connect(uri, clock)?;
    let export = *first.export();
    let mut clients = vec![first];
    while export.several_connections && clients.len() < options.connections {
        clients.push(Client::connect(uri, clock)?);
    }
    let block_bytes = u64::from(export.block_bytes_min.max(512));
    let capacity_blocks = export.size_bytes / block_bytes;
    let target = AddressSpace { capacity_blocks, block_size: ByteSize::from_bytes(block_bytes) };
    let host = builtin
        .host(target, seed)
        .map_err(|source| ClientError::Workload { server: uri.to_string(), source })?;
    // Connecting is no part of the run.
    let clock = options.clock.unwrap_or_else(Clock::start);
    clients.iter_mut().for_each(|client| client.set_clock(clock));
    let waiter = Waiter::new(clock, options.pacing, options.margin);
    let start = clock.now();
    let mut runner = Runner {
        host,
        clients,
        options,
        uri,
        clock,
        waiter,
        block_bytes,
        content: Content::new(seed.0, block_bytes),
        buffer: Vec::new(),
        volatile: Volatile::default(),
        attempts: BTreeMap::new(),
        again: VecDeque::new(),
        start,
        last_reply: start,
        next_progress: start,
        result: BuiltinResult {
            clock,
            elapsed: Duration::ZERO,
            phases: Vec::new(),
            requests: Vec::new(),
            failed_requests: 0,
            retries: RetryCounts::default(),
            reconnections: 0,
            read_bytes: 0,
            written_bytes: 0,
            verified_bytes: 0,
            mismatch_count: 0,
            mismatches: Vec::new(),
            is_full: false,
            promises: options.promises.then(|| Promises::new(seed.0, block_bytes)),
        },
    };
    runner.run(progress)?;
    let elapsed = clock.now().saturating_since(start);
    if options.read_back {
        runner.read_back()?;
    }
    let mut result = runner.result;
    result.elapsed = elapsed;
    result.phases = runner.host.phases().to_vec();
    result.is_full = runner.host.is_full();
    for client in runner.clients {
        match client.disconnect() {
            // The device may go at any time: nothing is lost behind the last reply.
            Err(ClientError::Closed { .. }) if !options.reconnect_within.is_zero() => {}
            disconnected => disconnected?,
        }
    }
    Ok(result)
}

/// Attempt at a request.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    request: Request,
    /// Number of the attempt, the first is 1.
    number: u32,
}

struct Runner<'a> {
    host: Host,
    clients: Vec<Client>,
    options: &'a RunnerOptions<'a>,
    uri: &'a Uri,
    clock: Clock,
    waiter: Waiter,
    block_bytes: u64,
    content: Content,
    buffer: Vec<u8>,
    /// Blocks that a device may lose with its power.
    volatile: Volatile,
    /// Outstanding requests, by the number that the application knows.
    attempts: BTreeMap<u64, Attempt>,
    /// Failed requests in order of their next attempt, with its time.
    again: VecDeque<(Instant, Attempt)>,
    start: Instant,
    last_reply: Instant,
    next_progress: Instant,
    result: BuiltinResult,
}

impl Runner<'_> {
    fn run(&mut self, progress: &mut dyn FnMut(Progress)) -> Result<(), ClientError> {
        loop {
            let now = self.clock.now();
            if now >= self.next_progress {
                self.tell(now, progress);
                self.next_progress = now + PROGRESS_INTERVAL;
            }
            if self.options.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Err(ClientError::Stopped { outstanding: self.outstanding() });
            }
            let again = self.again.front().map(|(time, _)| *time);
            if again.is_some_and(|time| time <= now) {
                let (_, attempt) = self.again.pop_front().expect("the first is there");
                self.result.retries.retries += 1;
                self.submit(Attempt { number: attempt.number + 1, ..attempt })?;
                continue;
            }
            let arrival = self.host.next_arrival(now);
            if let Some(promises) = &mut self.result.promises {
                promises.committed(self.host.commits(), self.clock.now());
            }
            match arrival {
                Arrival::Request(request) => self.submit(Attempt { request, number: 1 })?,
                // No protocol between a client and a device carries the class of a request.
                Arrival::Reclassification(_) => {}
                Arrival::At(time) => self.wait(Some(again.map_or(time, |again| time.min(again))))?,
                Arrival::WaitForCompletion => self.wait(again)?,
                Arrival::Finished => {
                    self.tell(self.clock.now(), progress);
                    return Ok(());
                }
            }
        }
    }

    fn tell(&self, now: Instant, progress: &mut dyn FnMut(Progress)) {
        let Some(phase) = self.host.phases().last() else { return };
        progress(Progress {
            phase: phase.name,
            phase_index: self.host.phases().len() - 1,
            operations: phase.operations,
            requests: self.result.requests.len() as u64,
            elapsed: now.saturating_since(self.start),
        });
    }

    fn outstanding(&self) -> usize {
        self.clients.iter().map(Client::outstanding).sum()
    }

    fn submit(&mut self, attempt: Attempt) -> Result<(), ClientError> {
        let Attempt { request, number } = attempt;
        self.attempts.insert(request.id.0, attempt);
        if self.outstanding() == 0 {
            self.last_reply = self.clock.now();
        }
        let (offset, length) = (request.lbn * self.block_bytes, u64::from(request.blocks) * self.block_bytes);
        let tag = request.id.0;
        let mut version = 0;
        let command = match request.op {
            Operation::Read => Command::read(tag, offset, length as u32),
            Operation::Write => {
                self.buffer.resize(length as usize, 0);
                version = match number {
                    1 => self.content.write(offset, &mut self.buffer),
                    _ => self.content.write_again(offset, &mut self.buffer),
                };
                Command::write(tag, offset, &self.buffer)
            }
            Operation::Flush => {
                self.volatile.flush_sent(tag);
                Command::flush(tag)
            }
            Operation::Discard | Operation::WriteZeroes => {
                self.content.forget(offset..offset + length);
                match request.op {
                    Operation::Discard => Command::discard(tag, offset, length as u32),
                    _ => Command::write_zeroes(tag, offset, length as u32),
                }
            }
        };
        if let Some(promises) = &mut self.result.promises {
            promises.submitted(tag, request.op, (offset, length), version, request.fua);
        }
        let index = request.initiator as usize % self.clients.len();
        match self.clients[index].submit(command.fua(request.fua)) {
            Err(closed @ ClientError::Closed { .. }) => self.reconnect(index, closed),
            submitted => submitted,
        }
    }

    /// Opens a connection again that the server closed. Its outstanding requests have failed.
    fn reconnect(&mut self, index: usize, closed: ClientError) -> Result<(), ClientError> {
        let within = self.options.reconnect_within;
        if within.is_zero() {
            return Err(closed);
        }
        self.clients[index].abandon();
        let give_up = self.clock.now() + within;
        while let Err(error) = self.clients[index].reconnect(self.uri) {
            match error {
                error if error.is_permanent() => return Err(error),
                _ if self.options.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) => {
                    return Err(ClientError::Stopped { outstanding: self.outstanding() });
                }
                _ if self.clock.now() >= give_up => {
                    return Err(ClientError::Away { server: self.uri.to_string(), seconds: within.as_s() });
                }
                _ => std::thread::park_timeout(RECONNECT_INTERVAL),
            }
        }
        self.last_reply = self.clock.now();
        self.result.reconnections += 1;
        for (start, end) in self.volatile.take() {
            self.content.forget(start * self.block_bytes..end * self.block_bytes);
        }
        Ok(())
    }

    /// Takes the replies that have come; waits for one until `time` if there are none.
    fn wait(&mut self, time: Option<Instant>) -> Result<(), ClientError> {
        loop {
            if self.collect()? {
                return Ok(());
            }
            let now = self.clock.now();
            let deadline = self.last_reply + PATIENCE;
            let outstanding = self.outstanding();
            if outstanding > 0 && now >= deadline {
                let seconds = PATIENCE.as_ns() / 1_000_000_000;
                return Err(ClientError::Silent { server: self.uri.to_string(), seconds, outstanding });
            }
            // The caller looks at its stop flag and tells the progress.
            if now >= self.next_progress {
                return Ok(());
            }
            if time.is_some_and(|time| now >= time) {
                return Ok(());
            }
            let until = match self.waiter.plan(now, time, None) {
                Wait::Spin => {
                    std::hint::spin_loop();
                    continue;
                }
                Wait::Until(until) => until.min(self.next_progress),
                Wait::Forever => self.next_progress,
            };
            self.sleep(until.saturating_since(now))?;
        }
    }

    /// Sleeps until any connection has something, or that long; may end sooner. Opens idle connections again that the
    /// server closed.
    fn sleep(&mut self, time: Duration) -> Result<(), ClientError> {
        let ns = time.as_ns();
        let timeout = Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ };
        let events = |client: &Client| match client.is_sending() {
            true => PollFlags::IN | PollFlags::RDHUP | PollFlags::OUT,
            false => PollFlags::IN | PollFlags::RDHUP,
        };
        let mut fds: Vec<PollFd<'_>> =
            self.clients.iter().map(|client| PollFd::new(client, events(client))).collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                let server = self.uri.to_string();
                return Err(ClientError::Io { action: "wait for", server, source: error.into() });
            }
        }
        let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let ended: Vec<bool> = fds.iter().map(|fd| fd.revents().intersects(ended)).collect();
        for (index, _) in ended.iter().enumerate().filter(|(_, ended)| **ended) {
            // Replies may have come before the end; they are collected first.
            if self.clients[index].outstanding() == 0 {
                let closed = ClientError::Closed { server: self.uri.to_string(), outstanding: 0 };
                self.reconnect(index, closed)?;
            }
        }
        Ok(())
    }

    /// Reads all that was written and compares it, on the first connection.
    fn read_back(&mut self) -> Result<(), ClientError> {
        let length_max = READ_BACK_BYTES.min(u64::from(self.clients[0].export().payload_bytes_max));
        let mut ranges = self.content.ranges(length_max).into_iter();
        loop {
            while self.clients[0].outstanding() < READ_BACK_DEPTH {
                let Some(range) = ranges.next() else { break };
                let command = Command::read(0, range.start, (range.end - range.start) as u32);
                match self.clients[0].submit(command) {
                    Err(closed @ ClientError::Closed { .. }) => self.reconnect(0, closed)?,
                    submitted => submitted?,
                }
            }
            let until = self.clock.now() + PATIENCE;
            let outstanding = self.clients[0].outstanding();
            let reply = match self.clients[0].collect(Patience::Until(until)) {
                Ok(Some(reply)) => reply,
                Ok(None) if outstanding == 0 => return Ok(()),
                Ok(None) => {
                    let (server, seconds) = (self.uri.to_string(), PATIENCE.as_ns() / 1_000_000_000);
                    return Err(ClientError::Silent { server, seconds, outstanding });
                }
                Err(closed @ ClientError::Closed { .. }) => {
                    self.reconnect(0, closed)?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            match reply.failure {
                Some(_) => self.result.failed_requests += 1,
                None => self.result.compare(&self.content, reply.request.offset_bytes, reply.data),
            }
        }
    }

    /// Collects available replies, and returns true if there was any.
    fn collect(&mut self) -> Result<bool, ClientError> {
        let mut any = false;
        for index in 0..self.clients.len() {
            loop {
                match self.collect_one(index) {
                    Ok(true) => any = true,
                    Ok(false) => break,
                    // The requests that it failed come next.
                    Err(closed @ ClientError::Closed { .. }) => self.reconnect(index, closed)?,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(any)
    }

    /// Collects a reply of that connection, and returns true if there was one.
    fn collect_one(&mut self, index: usize) -> Result<bool, ClientError> {
        let Some(reply) = self.clients[index].collect(Patience::None)? else { return Ok(false) };
        let HostRequest { op, fua, offset_bytes, length_bytes, completion, .. } = reply.request;
        let response = reply.request.response_time();
        self.last_reply = completion;
        let attempt = self.attempts.remove(&reply.tag).expect("an outstanding request completes");
        if op == Operation::Flush {
            self.volatile.flush_ended(reply.tag, reply.failure.is_none());
        }
        let result = &mut self.result;
        if let Some(failure) = reply.failure {
            let request = HostRequest { error: Some(failure.code), ..reply.request };
            result.requests.push(request);
            result.failed_requests += 1;
            let retries = self.options.retries;
            if retries.sends_again(request.status(), attempt.number) {
                self.again.push_back((completion + retries.after, attempt));
                return Ok(true);
            }
            result.retries.abandoned_requests += 1;
            if let Some(promises) = &mut result.promises {
                promises.failed(reply.tag);
            }
            if op != Operation::Read {
                self.content.forget(offset_bytes..offset_bytes + length_bytes);
            }
            self.host.complete(attempt.request.id, false, response);
            return Ok(true);
        }
        result.retries.retried_requests += u64::from(attempt.number > 1);
        match op {
            Operation::Read => result.read_bytes += length_bytes,
            Operation::Write => result.written_bytes += length_bytes,
            _ => {}
        }
        if op != Operation::Read && op != Operation::Flush && !fua {
            let block = self.block_bytes;
            self.volatile.written(offset_bytes / block, (offset_bytes + length_bytes) / block);
        }
        if self.options.verify {
            result.compare(&self.content, offset_bytes, reply.data);
        }
        if let Some(promises) = &mut result.promises {
            promises.completed(reply.tag);
        }
        result.requests.push(reply.request);
        self.host.complete(attempt.request.id, true, response);
        Ok(true)
    }
}
