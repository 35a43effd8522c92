//! Live capture of one block device: what the host's block layer asks of it (measurement point MP1).
//!
//! ```text
//!  kernel: block_rq_issue, … ─▶ a ring buffer per processor and tracepoint ─┐  never waits; what does not
//!                                                                           │  fit is counted
//!  reader thread: every 10 ms ─ drain ─▶ order by time ─▶ pair ─▶ sink(HostRequest)
//! ```
//! The events come through perf_event_open(2) with a filter on the device in the kernel; descriptors end
//! with the process however it ends, so nothing is left behind. Times are CLOCK_MONOTONIC's, in
//! nanoseconds. Requests come to the sink in order of completion; what a request is, is stated in
//! `pairing.rs`:
//! from its first issue to the driver to the completion of its last byte, merged or requeued or
//! completed in parts. With [`Options::queue_times`] also when the block layer made it.
//!
//! # Scope and limits
//! - Devices with a request queue (loop, NVMe, virtio, SCSI, NBD, ublk), whole; a partition, or a device
//!   that hands bios on (device-mapper, md, zram, brd), is refused with what to capture instead.
//! - Flushes are those that the driver gets: `fsync` by several processes may be one; on a device without a
//!   volatile cache there are none; a FUA write to a device without FUA is a write, then a flush.
//!   Secure erase is a discard. Passed-through commands and zone management are left out, and counted.
//! - Root, or CAP_PERFMON and tracefs readable. Processors that go online during a capture are not seen.
//! - An event is used 50 ms after it happened; one that its processor delivers later than that is used out
//!   of order and counted. At most 65,536 requests are tracked.
//! - The process is the one that made the request, where that was seen ([`Options::queue_times`]), else the
//!   one that happened to issue it.
//! - A slow sink delays the reader, not the recorded; when a buffer fills, events are lost and counted.

mod device;
mod error;
mod layout;
mod record;
mod rings;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::time::{ClockId, clock_gettime};
use seeklab_core::{HostRequest, Instant};

use event::{Kind, Stamped};
use pairing::Pairing;
use rings::Rings;

use crate::{block_event as event, pairing};

pub use crate::pairing::Captured;
pub use error::CaptureError;

/// How often the buffers are emptied.
const DRAIN_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// How long after its time an event is used.
const HOLD_NS: u64 = 50_000_000;

/// How to capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// What counts as time zero, in nanoseconds of CLOCK_MONOTONIC; requests before it are stamped zero.
    pub origin_ns: u64,
    /// Whether to record when and by whom a request was made, which costs one more event for each.
    pub queue_times: bool,
    /// Bytes of the buffer of each processor and tracepoint, rounded up to a power of two of pages; by
    /// default a share of 64 MiB, between 256 KiB and 2 MiB. An event takes about 100 bytes.
    pub buffer_bytes: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self { origin_ns: 0, queue_times: true, buffer_bytes: None }
    }
}

/// What a capture tells its sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// A request is complete.
    Request(HostRequest),
    /// Every request issued before this has been given, or never will be.
    Settled(Instant),
}

/// A capture that goes on until it is finished or dropped.
#[derive(Debug)]
pub struct Capture {
    stop: Arc<OwnedFd>,
    reader: Option<JoinHandle<Result<Captured, CaptureError>>>,
}

impl Capture {
    /// Begins to record the requests of `device`; when this returns, they are recorded.
    ///
    /// The sink is called on a thread of the capture.
    ///
    /// # Errors
    /// [`CaptureError`], naming what is missing and, in its hint, the remedy.
    pub fn start(
        device: &Path,
        options: &Options,
        sink: impl FnMut(Observed) + Send + 'static,
    ) -> Result<Self, CaptureError> {
        let number = device::kernel_number(device)?;
        let layouts = Kind::ALL
            .into_iter()
            .filter(|kind| options.queue_times || *kind != Kind::Queue)
            .map(|kind| Ok((kind, device::layout(kind)?)))
            .collect::<Result<Vec<_>, CaptureError>>()?;
        let failed = |action| move |source| CaptureError::Kernel { action, source };
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| failed("make an event descriptor")(error.into()))?;
        let stop = Arc::new(stop);
        let mut reader = Reader {
            rings: Rings::open(number, &layouts, options.buffer_bytes)?,
            pairing: Pairing::new(options.origin_ns),
            origin_ns: options.origin_ns,
            held: Vec::new(),
            used_until_ns: 0,
            late: 0,
            sink,
        };
        let reader = thread::Builder::new()
            .name("capture".to_owned())
            .spawn({
                let stop = Arc::clone(&stop);
                move || {
                    while !wait(&stop)? {
                        reader.drain(HOLD_NS);
                    }
                    reader.finish()
                }
            })
            .map_err(failed("start the reader's thread"))?;
        Ok(Self { stop, reader: Some(reader) })
    }

    /// Ends the capture; when this returns, the sink has been given every request that is complete.
    ///
    /// # Errors
    /// [`CaptureError::SinkPanicked`], or that the kernel did not end the recording.
    pub fn finish(mut self) -> Result<Captured, CaptureError> {
        let reader = self.end().expect("only this and drop end a capture");
        reader.join().map_err(|_| CaptureError::SinkPanicked)?
    }

    fn end(&mut self) -> Option<JoinHandle<Result<Captured, CaptureError>>> {
        // Fails only if the counter is at its end, when the reader has been told before.
        let _ = rustix::io::write(&*self.stop, &1_u64.to_ne_bytes());
        self.reader.take()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if let Some(reader) = self.end() {
            let _ = reader.join();
        }
    }
}

/// Waits for the next drain; whether to stop.
fn wait(stop: &OwnedFd) -> Result<bool, CaptureError> {
    let mut descriptors = [PollFd::new(stop, PollFlags::IN)];
    match poll(&mut descriptors, Some(&DRAIN_INTERVAL)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(CaptureError::Kernel { action: "wait for events", source: error.into() }),
    }
}

/// CLOCK_MONOTONIC in nanoseconds.
fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

struct Reader<Sink> {
    rings: Rings,
    pairing: Pairing,
    origin_ns: u64,
    /// What is too recent to be used, since another processor may yet deliver something older.
    held: Vec<Stamped>,
    used_until_ns: u64,
    late: u64,
    sink: Sink,
}

impl<Sink: FnMut(Observed)> Reader<Sink> {
    /// Takes what the buffers hold and uses what is older than `hold_ns`.
    fn drain(&mut self, hold_ns: u64) {
        let until_ns = monotonic_ns().saturating_sub(hold_ns);
        self.take();
        self.use_until(until_ns);
    }

    fn take(&mut self) {
        let Self { rings, held, used_until_ns, late, .. } = self;
        rings.drain(|stamped| {
            *late += u64::from(stamped.time_ns < *used_until_ns);
            held.push(stamped);
        });
    }

    fn use_until(&mut self, until_ns: u64) {
        // Stable, so that what one processor stamps equal stays in its order; fast on sorted runs.
        self.held.sort_by_key(|stamped| stamped.time_ns);
        let ready = self.held.partition_point(|stamped| stamped.time_ns < until_ns);
        for stamped in self.held.drain(..ready) {
            if let Some((_, request)) = self.pairing.push(&stamped) {
                (self.sink)(Observed::Request(request));
            }
        }
        self.used_until_ns = self.used_until_ns.max(until_ns);
        let settled = Instant::from_ns(until_ns.saturating_sub(self.origin_ns));
        (self.sink)(Observed::Settled(self.pairing.oldest().map_or(settled, |oldest| oldest.min(settled))));
    }

    fn finish(mut self) -> Result<Captured, CaptureError> {
        self.rings
            .stop()
            .map_err(|source| CaptureError::Kernel { action: "switch off the events", source })?;
        self.take();
        self.use_until(u64::MAX);
        (self.sink)(Observed::Settled(Instant::MAX));
        Ok(Captured {
            lost_events: self.rings.lost(),
            malformed_records: self.rings.malformed,
            late_events: self.late,
            ..self.pairing.finish()
        })
    }
}
