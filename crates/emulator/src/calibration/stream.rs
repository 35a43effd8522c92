//! Streams of one characteristic request against an emulated device of known service time.
//!
//! ```text
//! client's thread   MP1 issue ───────────────────────────────────────────▶ MP1 completion ─ pause ─▶ again
//!                        │ arrival                                ▲ completion
//! emulator's thread      ▼ MP2 ─── service time ───▶ due ─▶ MP2 ──┘
//!                                                    lateness
//! ```
//! # Scope and limits
//! Client and emulator are two threads of this process, scheduled by the kernel like any two programs; both
//! read one clock. The client sleeps while it waits, as a process that reads does; what of the waiting is its
//! own waking is part of the completion error, as it is for real clients. Requests do not overlap.
//!
//! # References
//! \[Griffin 2004, §5.4\].

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use seeklab_core::{ByteSize, Duration, HostRequest, Instant, Operation, Request};
use seeklab_devices::simple::{Server as Constant, ServerParameters};

use super::CalibrationError;
use super::site::{FrontendKind, Host, Way};
use crate::clock::waiting::sleep_until;
use crate::clock::{Clock, Pacing, Waited, Waiter, wake_this_thread_exactly};
use crate::emulation::Emulation;
use crate::frontend::nbd::Export;
use crate::frontend::{Backend, Command, Departure, Frontend, Next, Stop, Tag, serve};
use crate::pacer::{Compensation, Options, Pacer};
use crate::store::Store;

/// Blocks of the device that is served.
pub(super) const BLOCK_BYTES: u32 = 512;

/// Its size.
const SIZE_BYTES: u64 = 16 << 20;

/// Settings of the device that serves a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Over what.
    pub frontend: FrontendKind,
    /// Service time of every request.
    pub service_time: Duration,
    /// Trade-off between processor time and accuracy.
    pub pacing: Pacing,
    /// Longest time to spin, unless pacing is exact.
    pub margin: Duration,
    /// Compensation to apply.
    pub compensation: Compensation,
}

/// A stream of like requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// Operation of each request.
    pub op: Operation,
    /// Length of each request in bytes: a multiple of 512, or 0 for a flush.
    pub bytes: u32,
    /// Number of requests.
    pub requests: usize,
    /// From the completion of one to the issue of the next.
    pub pause: Duration,
}

/// Measured times of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// From MP1 to MP2, on the way in.
    pub arrival: Duration,
    /// From the due time of the completion at MP2 until it left there.
    pub lateness: Duration,
    /// From MP2 to MP1, on the way out.
    pub completion: Duration,
    /// At MP1.
    pub response: Duration,
}

/// Observation of one request by the emulator, at MP2.
#[derive(Debug, Clone, Copy)]
struct Seen {
    tag: Tag,
    op: Operation,
    bytes: u32,
    arrival: Instant,
    /// Not yet if `None`.
    completion: Option<Instant>,
}

impl Seen {
    /// Returns true if this request is the one that a host's `request` became. A kernel sends more requests to a
    /// block device than its clients make.
    fn is_of(&self, request: &HostRequest) -> bool {
        let asked = (self.op, u64::from(self.bytes)) == (request.op, request.length_bytes);
        asked && self.arrival >= request.issue && self.arrival <= request.completion
    }
}

/// An emulated device being served for streams.
pub struct Served {
    setting: Setting,
    clock: Clock,
    seen: Arc<Mutex<Vec<Seen>>>,
    host: Option<Box<dyn Host>>,
    memory: Vec<u8>,
    stop: Option<Stop>,
    thread: Option<JoinHandle<io::Result<Waited>>>,
}

impl Served {
    /// Serves a device in a thread of its own and connects to it.
    ///
    /// # Errors
    /// Errors of the operating system or the client.
    pub fn start(setting: Setting, clock: Clock) -> Result<Self, CalibrationError> {
        let (sender, receiver) = sync_channel(1);
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let saw = Arc::clone(&seen);
        let thread = std::thread::spawn(move || run(setting, clock, &saw, &sender));
        let mut served =
            Self { setting, clock, seen, host: None, memory: Vec::new(), stop: None, thread: Some(thread) };
        let Ok((way, stop)) = receiver.recv() else {
            return Err(served.end().expect_err("a server that does not begin has failed"));
        };
        served.stop = Some(stop);
        let frontend = setting.frontend;
        let host = way.reach(clock).map_err(|source| CalibrationError::Client { frontend, source })?;
        served.host = Some(host);
        Ok(served)
    }

    /// Makes the requests of a stream, one after the other.
    ///
    /// # Errors
    /// Errors of the client, and if the emulator did not receive every request.
    pub fn run(&mut self, stream: Stream) -> Result<Vec<Sample>, CalibrationError> {
        let frontend = self.setting.frontend;
        let host = self.host.as_mut().expect("it is connected until it ends");
        self.memory.resize(stream.bytes as usize, 0x5A);
        let mut requests = Vec::with_capacity(stream.requests);
        for _ in 0..stream.requests {
            if !stream.pause.is_zero() {
                sleep_until(self.clock, self.clock.now() + stream.pause);
            }
            let request = host.request(stream.op, &mut self.memory);
            requests.push(request.map_err(|source| CalibrationError::Client { frontend, source })?);
        }
        self.samples(&requests)
    }

    /// Pairs requests with the emulator's observations of them.
    fn samples(&self, requests: &[HostRequest]) -> Result<Vec<Sample>, CalibrationError> {
        // The last reply may be with the client before the emulator's thread has booked that it left.
        let limit = self.clock.now() + Duration::from_s(5);
        while lock(&self.seen).last().is_some_and(|seen| seen.completion.is_none())
            && self.clock.now() < limit
        {
            sleep_until(self.clock, self.clock.now() + Duration::from_us(100));
        }
        let seen = std::mem::take(&mut *lock(&self.seen));
        let mut rest = seen.as_slice();
        let mut samples = Vec::with_capacity(requests.len());
        for request in requests {
            let Some(place) = rest.iter().position(|seen| seen.is_of(request)) else { continue };
            samples.extend(self.sample(request, &rest[place]));
            rest = &rest[place + 1..];
        }
        if samples.len() < requests.len() {
            let (frontend, made, seen) = (self.setting.frontend, requests.len(), samples.len());
            return Err(CalibrationError::Unpaired { frontend, made, seen });
        }
        Ok(samples)
    }

    fn sample(&self, request: &HostRequest, seen: &Seen) -> Option<Sample> {
        let Setting { service_time, compensation, .. } = &self.setting;
        let model = Request::new(0, request.op, 0, request.length_bytes as u32 / BLOCK_BYTES);
        let early = compensation.arrival_error(&model) + compensation.early_allowance(&model);
        let due = (seen.arrival + *service_time).as_ns().saturating_sub(early.as_ns());
        let left = seen.completion?;
        Some(Sample {
            arrival: seen.arrival.saturating_since(request.issue),
            lateness: left.saturating_since(Instant::from_ns(due)),
            completion: request.completion.saturating_since(left),
            response: request.response_time(),
        })
    }

    /// Ends serving; returns how the emulator waited.
    ///
    /// # Errors
    /// The failure that ended serving early.
    pub fn finish(mut self) -> Result<Waited, CalibrationError> {
        self.end()
    }

    fn end(&mut self) -> Result<Waited, CalibrationError> {
        self.host = None;
        if let Some(stop) = &self.stop {
            stop.stop();
        }
        let frontend = self.setting.frontend;
        let thread = self.thread.take().expect("it ends once");
        let result = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        result.map_err(|source| CalibrationError::Serve { frontend, source })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if self.thread.is_some() && !std::thread::panicking() {
            let _ = self.end();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The emulator's thread.
fn run(
    setting: Setting,
    clock: Clock,
    seen: &Arc<Mutex<Vec<Seen>>>,
    started: &SyncSender<(Way, Stop)>,
) -> io::Result<Waited> {
    let parameters = ServerParameters {
        capacity_blocks: SIZE_BYTES / u64::from(BLOCK_BYTES),
        block_size: ByteSize::from_bytes(u64::from(BLOCK_BYTES)),
        service_time: setting.service_time,
    };
    let device = Constant::constant(&parameters).expect("the parameters are right");
    let options = Options { compensation: setting.compensation, ..Options::default() };
    let size = ByteSize::from_bytes(SIZE_BYTES);
    let store = Store::in_ram(size, Some(size)).map_err(io::Error::other)?;
    // Data that is there is copied, as on a device in use.
    store.write(0, &vec![0xA5; 1 << 20]).map_err(io::Error::other)?;
    let mut emulation = Emulation::new(Pacer::new(Box::new(device), options), store, clock);
    if setting.pacing != Pacing::Frugal {
        emulation = emulation.prepares_ahead();
    }
    let mut watched = Watched { emulation, seen: Arc::clone(seen) };
    let export = Export::new("", SIZE_BYTES, BLOCK_BYTES);
    let (mut frontend, way) = setting.frontend.open(export, clock)?;
    let stop = Stop::new()?;
    let _ = wake_this_thread_exactly();
    if started.send((way, stop.clone())).is_err() {
        return Ok(Waited::default());
    }
    let mut waiter = Waiter::new(clock, setting.pacing, setting.margin);
    serve(frontend.as_mut(), &mut watched, &mut waiter, &stop)?;
    Ok(waiter.waited())
}

/// An emulation that records its observations at MP2.
struct Watched {
    emulation: Emulation,
    seen: Arc<Mutex<Vec<Seen>>>,
}

fn stamp(seen: &Mutex<Vec<Seen>>, tag: Tag, now: Instant) {
    let mut seen = lock(seen);
    if let Some(seen) = seen.iter_mut().rev().find(|seen| seen.tag == tag && seen.completion.is_none()) {
        seen.completion = Some(now);
    }
}

impl Backend for Watched {
    fn take(&mut self, command: Command<'_>) {
        if let Some(op) = command.action.operation() {
            let (tag, bytes, arrival) = (command.tag, command.length_bytes, command.arrived);
            lock(&self.seen).push(Seen { tag, op, bytes, arrival, completion: None });
        }
        self.emulation.take(command);
    }

    fn reply(&mut self, now: Instant, frontend: &mut dyn Frontend) -> io::Result<Next> {
        self.emulation.reply(now, frontend)
    }

    fn left(&mut self, tag: Tag, departure: Departure) {
        if let Departure::Taken(now) = departure {
            stamp(&self.seen, tag, now);
        }
        self.emulation.left(tag, departure);
    }
}
