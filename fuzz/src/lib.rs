//! The common part of the fuzz targets: they read every row of a trace, or an error; panics and hangs are bugs.
//!
//! ```text
//! cargo install cargo-fuzz
//! scripts/fuzz.py                                                 # all targets, a minute each, from real samples
//! cd fuzz && cargo +nightly fuzz run spc -- -max_total_time=60
//! cargo +nightly fuzz run csv ../crates/traces/tests/data/csv    # starts from the samples
//! ```
//! A crash leaves its input under `fuzz/artifacts`; give it a test beside the reader it broke.

use std::io::{Cursor, Write};

use seeklab_columnar::FORMATS;
use seeklab_core::{
    Arrival, Breakdown, BufferOutcome, ByteSize, Completion, FaultSet, Instant, Outcome, Request, Workload,
};
use seeklab_traces::{OpenTrace, ReadOptions, Source, TraceError, open_source};
use seeklab_workloads::{AddressSpace, Host};

/// Reads `bytes` in the format of that name, or guesses.
pub fn read(format: Option<&str>, bytes: &[u8]) {
    let source = Source::from_stream("fuzz", Box::new(Cursor::new(bytes.to_vec())));
    drain(source.and_then(|source| open_source(FORMATS, source, format, &ReadOptions::default())));
}

/// Reads `bytes` in the format that the fuzz target of that name is for.
pub fn read_named(target: &str, bytes: &[u8]) {
    read(Some(&target.replace('_', "-")), bytes);
}

/// Reads `bytes` from a file in the format of that name.
pub fn read_file(format: &str, bytes: &[u8]) {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    file.write_all(bytes).expect("a temporary file can be written");
    drain(seeklab_columnar::open(file.path(), Some(format), &ReadOptions::default()));
}

fn drain(trace: Result<OpenTrace, TraceError>) {
    let Ok(trace) = trace else { return };
    let errors = trace.filter(Result::is_err).count();
    assert!(errors <= 1, "an error ends a trace");
}

/// The device of fuzzed hosts: 1 GiB.
pub const TARGET: AddressSpace =
    AddressSpace { capacity_blocks: 1 << 21, block_size: ByteSize::from_bytes(512) };

/// Events of a fuzzed host at most.
const EVENTS_MAX: u32 = 20_000;

/// Runs a host whose requests complete at once until it has finished, or for some events.
pub fn run_host(mut host: Host) {
    let mut now = Instant::ZERO;
    for _ in 0..EVENTS_MAX {
        match host.next_arrival(now) {
            Arrival::Request(request) => {
                assert!(request.lbn + u64::from(request.blocks) <= TARGET.capacity_blocks, "{request:?}");
                host.completed(&completion(request, now));
            }
            Arrival::Reclassification(_) => {}
            Arrival::At(time) => now = time,
            Arrival::WaitForCompletion => unreachable!("every request is complete"),
            Arrival::Finished => break,
        }
    }
    for times in host.process_times() {
        assert_eq!(times.computing + times.ready + times.waits.sum(), times.elapsed);
    }
}

fn completion(request: Request, now: Instant) -> Completion {
    Completion {
        request,
        submitted: now,
        issued: now,
        started: now,
        completed: now,
        breakdown: Breakdown::default(),
        outcome: Outcome::ok(&request),
        buffer: BufferOutcome::None,
        seek_cylinders: 0,
        queue_length: 0,
        faults: FaultSet::NONE,
    }
}
