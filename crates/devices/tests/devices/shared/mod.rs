//! Reference data beside the project, and the runs that are compared with it.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "reference data is read from files")]
pub(crate) mod measured;

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use seeklab_core::{Completion, Device, Duration, Instant, Operation, Request};

/// Returns a file of the reference data. If the data is absent, prints a message to stderr and
/// returns `None`.
///
/// # Panics
/// If the data is absent while `SEEKLAB_REQUIRE_SHARED` is set.
pub(crate) fn reference(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("SEEKLAB_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let file = root.join("reference").join(path);
    if file.exists() {
        return Some(file);
    }
    assert!(
        std::env::var_os("SEEKLAB_REQUIRE_SHARED").is_none(),
        "{} is absent, but SEEKLAB_REQUIRE_SHARED is set",
        file.display()
    );
    eprintln!("skipped: {} is absent", file.display());
    None
}

/// Rows of a gzipped CSV file without its header.
pub(crate) fn rows(path: &PathBuf) -> Vec<Vec<String>> {
    let mut text = String::new();
    GzDecoder::new(File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

/// Milliseconds in text as nanoseconds.
pub(crate) fn ns(ms: &str) -> u64 {
    Duration::from_ms_f64(ms.parse().unwrap()).as_ns()
}

/// One request of a reference trace.
pub(crate) fn request(id: usize, row: &[String]) -> (Instant, Request) {
    let op = if row[3] == "R" { Operation::Read } else { Operation::Write };
    let request = Request::new(id as u64, op, row[1].parse().unwrap(), row[2].parse().unwrap());
    (Instant::from_ns(ns(&row[0])), request)
}

/// Serves `requests` as they arrive; completions by request number.
pub(crate) fn serve(device: &mut dyn Device, requests: &[(Instant, Request)]) -> Vec<Completion> {
    let mut completions = Vec::new();
    for (arrival, request) in requests {
        device.poll(*arrival, &mut completions);
        device.submit(*arrival, *request).unwrap();
    }
    while let Some(event) = device.next_event() {
        device.poll(event, &mut completions);
    }
    completions
}
