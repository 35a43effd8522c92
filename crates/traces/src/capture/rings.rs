//! The kernel's ring buffers: one for each processor and tracepoint, filtered to one device.

use std::ffi::CString;
use std::io;

use perf_event_open::config::{Clock, Cpu, Opts, Proc, RecordIdFormat, SampleFormat, SampleOn, StatFormat};
use perf_event_open::count::Counter;
use perf_event_open::event::tp::Tracepoint;
use perf_event_open::sample::Sampler;

use super::device::processors;
use super::error::CaptureError;
use super::event::{Kind, Stamped, What};
use super::layout::Layout;
use super::record::decode;

/// Bytes that all buffers may have together, where the sizes are not given.
const BUFFERS_BYTES: usize = 64 << 20;
/// The largest and smallest buffer then: 20,000 and 2,500 events.
const BUFFER_BYTES_MAX: usize = 2 << 20;
const BUFFER_BYTES_MIN: usize = 256 << 10;
/// Requeues are rare.
const REQUEUE_BUFFER_BYTES: usize = 64 << 10;

struct Ring {
    kind: Kind,
    layout: Layout,
    counter: Counter,
    sampler: Sampler,
    /// Events lost, by the records in the buffer.
    lost: u64,
}

/// All ring buffers of a capture; the kernel ends the recording when they are dropped, or the process ends.
pub(super) struct Rings {
    rings: Vec<Ring>,
    pub(super) malformed: u64,
}

impl Rings {
    /// Sets everything up and begins to record the device.
    pub(super) fn open(
        filter: &str,
        layouts: &[(Kind, Layout)],
        buffer_bytes: Option<usize>,
    ) -> Result<Self, CaptureError> {
        let processors = processors()?;
        let buffers = processors.len() * layouts.len();
        let bytes = buffer_bytes
            .unwrap_or_else(|| (BUFFERS_BYTES / buffers).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX));
        let filter = CString::new(filter).expect("there is no zero in it");
        let mut rings = Vec::with_capacity(buffers);
        for (kind, layout) in layouts {
            for processor in &processors {
                let counter = open(layout.id, *processor)?;
                counter
                    .with_ftrace_filter(&filter)
                    .map_err(|source| CaptureError::Kernel { action: "filter events by device", source })?;
                let bytes = if *kind == Kind::Requeue { bytes.min(REQUEUE_BUFFER_BYTES) } else { bytes };
                let sampler = counter
                    .sampler(pages_exponent(bytes))
                    .map_err(|source| CaptureError::Buffers { buffers, bytes, source })?;
                rings.push(Ring { kind: *kind, layout: layout.clone(), counter, sampler, lost: 0 });
            }
        }
        let rings = Self { rings, malformed: 0 };
        for ring in &rings.rings {
            ring.counter
                .enable()
                .map_err(|source| CaptureError::Kernel { action: "switch on the events", source })?;
        }
        Ok(rings)
    }

    /// Takes what is in the buffers, in order within each.
    pub(super) fn drain(&mut self, mut take: impl FnMut(Stamped)) {
        for ring in &mut self.rings {
            let mut records = ring.sampler.iter().expect("one reads at a time").into_cow();
            while let Some(record) = records.lending_next() {
                match decode(record.as_raw(), ring.kind, &ring.layout) {
                    Ok(Some(stamped)) => {
                        if let What::Lost(_, lost) = stamped.what {
                            ring.lost += lost;
                        }
                        take(stamped);
                    }
                    Ok(None) => {}
                    Err(_) => self.malformed += 1,
                }
            }
        }
    }

    /// Ends the recording. The buffers keep their contents.
    ///
    /// The events are switched off in the reverse order of switching on, so the capture still records the
    /// completion of a request issued last, if it completes in time.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        self.rings.iter().rev().try_for_each(|ring| ring.counter.disable())
    }

    /// Returns the number of lost events. Includes events that no later record reported, where the kernel counts
    /// them itself (since 6.0).
    pub(super) fn lost(&self) -> u64 {
        let by_kernel = |ring: &Ring| ring.counter.stat().ok().and_then(|stat| stat.lost_records);
        self.rings.iter().map(|ring| ring.lost.max(by_kernel(ring).unwrap_or(0))).sum()
    }
}

/// One tracepoint on one processor, off.
fn open(id: u64, processor: u32) -> Result<Counter, CaptureError> {
    let mut options = Opts {
        sample_on: SampleOn::Count(1),
        sample_format: SampleFormat { raw: true, ..SampleFormat::default() },
        record_id_format: RecordIdFormat { task: true, time: true, cpu: true, ..RecordIdFormat::default() },
        record_id_all: true,
        timer: Some(Clock::Monotonic),
        stat_format: StatFormat { lost_records: true, ..StatFormat::default() },
        ..Opts::default()
    };
    let target = (Proc::ALL, Cpu(processor));
    let mut opened = Counter::new(Tracepoint { id }, target, &options);
    if opened.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput) {
        options.stat_format.lost_records = false;
        opened = Counter::new(Tracepoint { id }, target, &options);
    }
    opened.map_err(|source| match source.kind() {
        io::ErrorKind::PermissionDenied => CaptureError::NotPermitted { paranoid: paranoid(), source },
        io::ErrorKind::Unsupported => CaptureError::NoPerfEvents { source },
        _ => CaptureError::Kernel { action: "open an event on a processor", source },
    })
}

fn paranoid() -> Option<i32> {
    std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?.trim().parse().ok()
}

/// The power of two of pages that holds at least that many bytes.
fn pages_exponent(bytes: usize) -> u8 {
    let pages = bytes.div_ceil(rustix::param::page_size()).max(1).next_power_of_two();
    u8::try_from(pages.trailing_zeros()).expect("a usize has at most 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_powers_of_two_of_pages() {
        let page = rustix::param::page_size();
        assert_eq!(pages_exponent(0), 0);
        assert_eq!(pages_exponent(page), 0);
        assert_eq!(pages_exponent(page + 1), 1);
        assert_eq!(pages_exponent(512 * page), 9);
    }
}
