//! Reference data beside the project, and the runs that are compared with it.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "reference data is read from files")]
pub(crate) mod measured;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use seeklab_core::{Completion, Device, Duration, Instant, Operation, Request};

/// Path of a file of the reference data.
pub(crate) fn reference(path: &str) -> PathBuf {
    Path::new(env!("SEEKLAB_SHARED_FOLDER")).join("reference").join(path)
}

/// Rows of a gzipped CSV file without its header.
pub(crate) fn rows(path: &Path) -> Vec<Vec<String>> {
    let mut text = String::new();
    GzDecoder::new(File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
        .read_to_string(&mut text)
        .unwrap();
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
