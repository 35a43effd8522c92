//! Live capture of one block device: the requests that the host's block layer sends to it (measurement point
//! MP1).
//!
//! ```text
//!  kernel: block_rq_issue, … ─▶ ring buffers of each processor ─────────────┐  never waits; what does not
//!                                                                           │  fit is counted
//!  reader thread: every 10 ms ─ drain ─▶ order by time ─▶ pair ─▶ sink(HostRequest)
//! ```
//! The events come, filtered by device in the kernel, from an instance of its trace buffer (tracefs). Times are
//! CLOCK_MONOTONIC's, in nanoseconds. perf_event_open(2) does not suit: on Linux 6.18 (a guest), the kernel counts but
//! does not write some events of interrupts, where devices complete their requests, and calls none of them lost. The sink receives requests in order of completion. A request lasts from
//! its first issue to the driver to the completion of its last byte, even if it was merged, requeued or
//! completed in parts (rules: `pairing.rs`). With [`Options::queue_times`], the capture also records when the
//! block layer made the request.
//!
//! # Scope and limits
//! - Any block device. A device with a request queue (loop, NVMe, virtio, SCSI, NBD, ublk) is observed
//!   request by request. A device that is given bios (device-mapper, md, zram, brd) is observed bio by bio,
//!   see `bios.rs`. A partition is observed by the requests of its device that start within the partition;
//!   addresses count from its start.
//! - Only flushes that reach the driver are recorded. Several processes' `fsync` calls may lead to one flush.
//!   A device without a volatile cache gets no flushes. A FUA write to a device without FUA becomes a write
//!   and then a flush. A flush has no address, so the capture of a partition contains the flushes of the
//!   whole device. Secure erase is a discard. Passed-through commands and zone management are omitted and
//!   counted.
//! - Root, or tracefs writable. Events on processors that go online during a capture are not
//!   recorded.
//! - An event is used 50 ms after it happened. An event that its processor delivers even later is used out of
//!   order and counted. At most 65,536 requests are tracked.
//! - The recorded process is the process that made the request, if that event was recorded
//!   ([`Options::queue_times`]), otherwise the process that issued it.
//! - A slow sink delays the reader, not the processes under observation. When a buffer is full, events are
//!   lost and counted. [`recording`] puts two buffers between the reader and the thread that writes a file.

mod bios;
pub mod criticality;
mod device;
mod error;
mod instance;
mod layout;
mod pages;
mod pipes;
pub mod recording;
mod rows;
pub mod system;
mod tracefs;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::time::{ClockId, clock_gettime};
use seeklab_core::{HostRequest, Instant};

use bios::BioPairing;
use device::Target;
use event::{Kind, Stamped};
use pairing::Pairing;
use pipes::Pipes;

use crate::event::{block_event as event, pairing};

pub use crate::event::pairing::Captured;
pub use error::CaptureError;
pub use rows::{Rows, RowsCounts};

/// Interval at which the buffers are emptied.
const DRAIN_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// Age at which an event is used, in nanoseconds.
const HOLD_NS: u64 = 50_000_000;

/// Options of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Time zero, in nanoseconds of CLOCK_MONOTONIC. Earlier requests get the time zero.
    pub origin_ns: u64,
    /// Record when and by which process each request was made. Costs one more event per request.
    pub queue_times: bool,
    /// Bytes of the buffer of each processor; by default a share of 64 MiB, between 1 MiB and 16 MiB. An event takes
    /// about 100 bytes.
    pub buffer_bytes: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self { origin_ns: 0, queue_times: true, buffer_bytes: None }
    }
}

/// Item that a capture passes to its sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observed {
    /// A request is complete.
    Request(HostRequest),
    /// Times up to which the requests of the device are completely known.
    Settled {
        /// Every request that arrived before this has been given, or never will be (but for what waited in the
        /// block layer for more than a minute).
        arrived: Instant,
        /// Everything that happened before this was taken in. What `arrived` waits for has not completed until then, or
        /// its completion is lost.
        happened: Instant,
    },
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
        let target = Target::of(device)?;
        let kinds = if target.takes_bios { &Kind::OF_BIOS[..] } else { &Kind::OF_REQUESTS };
        let layouts = kinds
            .iter()
            .copied()
            .filter(|kind| options.queue_times || *kind != Kind::Queue)
            .map(|kind| Ok((kind, tracefs::layout(kind)?)))
            .collect::<Result<Vec<_>, CaptureError>>()?;
        let failed = |action| move |source| CaptureError::Kernel { action, source };
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| failed("make an event descriptor")(error.into()))?;
        let stop = Arc::new(stop);
        let mut reader = Reader {
            buffers: Pipes::open(&target.filter(), &layouts, options.buffer_bytes)?,
            pairs: match target.takes_bios {
                true => Pairs::Bios(BioPairing::new(options.origin_ns)),
                false => Pairs::Requests(Pairing::new(options.origin_ns)),
            },
            start_bytes: target.partition.map_or(0, |(start, _)| start * pairing::SECTOR_BYTES),
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
        // Fails only if the counter is at its end, when the reader was woken before.
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

/// Properties of a block device that can be captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockDevice {
    /// Bytes of its logical blocks.
    pub block_bytes: u64,
    /// Bytes that it holds.
    pub size_bytes: u64,
    /// True if the device is a partition of another device.
    pub is_partition: bool,
    /// True if the device is observed bio by bio, since it makes no requests of its bios.
    pub takes_bios: bool,
}

/// Looks at the block device at `path`.
///
/// # Errors
/// If it is none, or cannot be looked at.
pub fn look_at(path: &Path) -> Result<BlockDevice, CaptureError> {
    let target = Target::of(path)?;
    Ok(BlockDevice {
        block_bytes: target.block_bytes,
        size_bytes: target.size_bytes,
        is_partition: target.partition.is_some(),
        takes_bios: target.takes_bios,
    })
}

/// Returns true if the file system reports that the file or folder at `path` lies on the block device at
/// `device` or on one of its partitions.
pub fn holds(device: &Path, path: &Path) -> bool {
    device::holds(device, path)
}

/// CLOCK_MONOTONIC in nanoseconds: what [`Options::origin_ns`] counts.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Pairing of events into requests or bios.
enum Pairs {
    Requests(Pairing),
    Bios(BioPairing),
}

impl Pairs {
    fn push(&mut self, stamped: &Stamped) -> Option<HostRequest> {
        match self {
            Self::Requests(pairing) => pairing.push(stamped).map(|(_, request)| request),
            Self::Bios(pairing) => pairing.push(stamped),
        }
    }

    fn oldest(&mut self, now_ns: u64) -> Option<Instant> {
        match self {
            Self::Requests(pairing) => pairing.oldest(now_ns),
            Self::Bios(pairing) => pairing.oldest(),
        }
    }

    fn finish(self) -> Captured {
        match self {
            Self::Requests(pairing) => pairing.finish(),
            Self::Bios(pairing) => pairing.finish(),
        }
    }
}

struct Reader<Sink> {
    buffers: Pipes,
    pairs: Pairs,
    /// Start of the partition on its device, in bytes.
    start_bytes: u64,
    origin_ns: u64,
    /// Events too recent to be used, since another processor may still deliver an older event.
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
        let Self { buffers, held, used_until_ns, late, .. } = self;
        buffers.drain(|stamped| {
            *late += u64::from(stamped.time_ns < *used_until_ns);
            held.push(stamped);
        });
    }

    fn use_until(&mut self, until_ns: u64) {
        // Stable, so that what one processor stamps equal stays in its order; fast on sorted runs.
        self.held.sort_by_key(|stamped| stamped.time_ns);
        let ready = self.held.partition_point(|stamped| stamped.time_ns < until_ns);
        for stamped in self.held.drain(..ready) {
            if let Some(mut request) = self.pairs.push(&stamped) {
                request.offset_bytes = request.offset_bytes.saturating_sub(self.start_bytes);
                (self.sink)(Observed::Request(request));
            }
        }
        self.used_until_ns = self.used_until_ns.max(until_ns);
        let settled = Instant::from_ns(until_ns.saturating_sub(self.origin_ns));
        let oldest = self.pairs.oldest(until_ns);
        let arrived = oldest.map_or(settled, |oldest| oldest.min(settled));
        (self.sink)(Observed::Settled { arrived, happened: settled });
    }

    fn finish(mut self) -> Result<Captured, CaptureError> {
        self.buffers
            .stop()
            .map_err(|source| CaptureError::Kernel { action: "switch off the events", source })?;
        self.take();
        self.use_until(u64::MAX);
        (self.sink)(Observed::Settled { arrived: Instant::MAX, happened: Instant::MAX });
        let (lost_events, malformed_records) = (self.buffers.lost(), self.buffers.malformed);
        Ok(Captured { lost_events, malformed_records, late_events: self.late, ..self.pairs.finish() })
    }
}
