//! Cost of recording an event, measured before a capture begins.
//!
//! A thread calls the system many times, and reads a cached file many times, first unrecorded and then with the events of
//! the task in an instance of its own. Of each, the fastest of several batches counts: a batch can be disturbed, and
//! nothing makes it faster than it is.
//!
//! # Scope and limits
//! The calls follow each other closely, so all that the kernel needs is in the caches of the processor. In a program it often
//! is not, and an event costs more there.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::parent_id;
use std::path::Path;
use std::thread;

use super::super::error::CaptureError;
use super::super::instance::Instance;
use super::super::monotonic_ns;
use crate::system::RecordingCost;

/// Batches of which the fastest counts.
const BATCHES: usize = 25;
/// Calls of a batch.
const CALLS: u64 = 400;
/// Buffer of each processor. It is not read.
const BUFFER_BYTES: usize = 1 << 20;
/// Events that a system call makes.
const CALL_EVENTS: [&str; 2] = ["raw_syscalls/sys_enter", "raw_syscalls/sys_exit"];
/// Event that a read of a cached file makes too.
const ACCESS_EVENT: &str = "filemap/mm_filemap_get_pages";

/// Measures the cost of an event on this host.
pub(super) fn measure(tracefs: &Path) -> Result<RecordingCost, CaptureError> {
    let failed = |source| CaptureError::Kernel { action: "calibrate the recording", source };
    let instance = Instance::create(tracefs, Some(BUFFER_BYTES))?;
    // The program itself is a file on a disk: a file in memory makes no such event.
    let file = File::open("/proc/self/exe").map_err(failed)?;
    let measured = thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let without = Batch::fastest(&file);
            let number = rustix::thread::gettid().as_raw_pid();
            instance.write("set_event_pid", &number.to_string())?;
            for event in CALL_EVENTS {
                instance.write(&format!("events/{event}/enable"), "1")?;
            }
            let has_access = instance.write(&format!("events/{ACCESS_EVENT}/enable"), "1").is_ok();
            Ok((without, Batch::fastest(&file), has_access))
        });
        thread.join().expect("the measurement does not panic")
    });
    let (without, with, has_access) = measured?;
    let call_ns = with.calls_ns.saturating_sub(without.calls_ns) / (CALLS * CALL_EVENTS.len() as u64);
    let read_ns = with.reads_ns.saturating_sub(without.reads_ns) / CALLS;
    let access_ns = read_ns.saturating_sub(call_ns * CALL_EVENTS.len() as u64);
    Ok(RecordingCost { call_ns, access_ns: if has_access && access_ns > 0 { access_ns } else { call_ns } })
}

/// Times of the fastest batches.
struct Batch {
    calls_ns: u64,
    reads_ns: u64,
}

impl Batch {
    fn fastest(file: &File) -> Self {
        Self {
            calls_ns: fastest(|| {
                let _ = parent_id();
            }),
            reads_ns: fastest(|| {
                let mut byte = [0];
                // What it reads does not matter.
                let _ = file.read_at(&mut byte, 0);
            }),
        }
    }
}

fn fastest(mut call: impl FnMut()) -> u64 {
    let mut batch = || {
        let begin_ns = monotonic_ns();
        (0..CALLS).for_each(|_| call());
        monotonic_ns() - begin_ns
    };
    (0..BATCHES).map(|_| batch()).min().unwrap_or(0)
}
