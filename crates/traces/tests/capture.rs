//! Live capture of a loop device over a temporary file: is everything seen, once, with its times?
//!
//! Needs root, a loop device, `dd`, `blkdiscard` and `fio`; without them the tests say so and pass.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use seeklab_core::{HostRequest, Instant, Operation};
use seeklab_traces::capture::{Capture, CaptureError, Captured, Observed, Options};

/// A loop device that goes when this does.
struct LoopDevice {
    path: PathBuf,
    _file: tempfile::NamedTempFile,
}

impl LoopDevice {
    fn new(size_bytes: u64) -> Option<Self> {
        let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
        file.as_file().set_len(size_bytes).expect("it can be made longer");
        let losetup = Command::new("losetup").args(["--find", "--show"]).arg(file.path()).output();
        match losetup {
            Ok(output) if output.status.success() => {
                let path = String::from_utf8(output.stdout).expect("it is a path").trim().into();
                Some(Self { path, _file: file })
            }
            other => {
                println!("skipped: no loop device here: {other:?}");
                None
            }
        }
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
    }
}

/// What a capture gives while `load` runs; `None`, with the reason printed, where there can be none.
fn capture(device: &Path, options: &Options, load: impl FnOnce()) -> Option<(Vec<HostRequest>, Captured)> {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let too_early = Arc::new(AtomicU64::new(0));
    let (sink, early, mut settled_before) = (Arc::clone(&requests), Arc::clone(&too_early), Instant::ZERO);
    let started = Capture::start(device, options, move |observed| match observed {
        Observed::Request(request) => {
            early.fetch_add(u64::from(request.issue < settled_before), Ordering::Relaxed);
            sink.lock().unwrap().push(request);
        }
        Observed::Settled(until) => {
            assert!(until >= settled_before, "what is settled stays settled");
            settled_before = until;
        }
    });
    let capture = match started {
        Err(error @ (CaptureError::NotPermitted { .. } | CaptureError::NoTracefs { .. })) => {
            println!("skipped: {error}; {}", error.hint().unwrap());
            return None;
        }
        started => started.unwrap(),
    };
    load();
    let captured = capture.finish().unwrap();
    // What was said to be settled was, but for what the machine delivered too late.
    assert!(too_early.load(Ordering::Relaxed) <= captured.late_events, "{captured:?}");
    Some((Arc::into_inner(requests).unwrap().into_inner().unwrap(), captured))
}

/// Runs a program; its standard output, or `None` where there is no such program.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stderr(Stdio::piped()).output();
    let output = output.inspect_err(|error| println!("skipped: {program}: {error}")).ok()?;
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn is_everything_that_dd_writes_seen_once() {
    let Some(device) = LoopDevice::new(32 << 20) else { return };
    let target = format!("of={}", device.path.display());
    let direct = ["if=/dev/zero", &target, "bs=8k", "count=500", "oflag=direct", "conv=fsync"];
    let load = || {
        run("dd", &direct);
        run("dd", &["if=/dev/zero", &target, "bs=4k", "count=1", "seek=2000", "oflag=direct,dsync"]);
    };
    let Some((requests, captured)) = capture(&device.path, &Options::default(), load) else { return };

    let writes: Vec<&HostRequest> =
        requests.iter().filter(|request| request.op == Operation::Write).collect();
    let mut ranges: Vec<(u64, u64)> =
        writes.iter().map(|write| (write.offset_bytes, write.length_bytes)).collect();
    ranges.sort_unstable();
    let expected: Vec<(u64, u64)> =
        (0..500).map(|block| (block * 8192, 8192)).chain([(2000 * 4096, 4096)]).collect();
    assert_eq!(ranges, expected);
    assert!(writes.iter().all(|write| write.command.to_string() == "dd" && write.error.is_none()));
    // One by conv=fsync; dsync flushes after the write, and dd once more at its end.
    let flushes = requests.iter().filter(|request| request.op == Operation::Flush).count();
    assert!((2..=4).contains(&flushes), "{flushes} flushes");
    for request in &requests {
        assert!(request.queued.is_none_or(|queued| queued <= request.issue), "{request:?}");
        assert!(request.issue < request.completion, "{request:?}");
    }
    assert!(writes.iter().all(|write| write.queued.is_some()));
    assert!(requests.is_sorted_by_key(|request| request.completion));
    assert_eq!((captured.lost_events, captured.given_up, captured.pending), (0, 0, 0));
    assert_eq!((captured.malformed_records, captured.unpaired_completions), (0, 0));
    assert_eq!(captured.completed, requests.len() as u64);
}

#[test]
fn are_discard_and_write_zeroes_told_apart() {
    let Some(device) = LoopDevice::new(32 << 20) else { return };
    let path = device.path.to_str().unwrap();
    let mut there = true;
    let options = Options { queue_times: false, ..Options::default() };
    let load = || {
        there = run("blkdiscard", &["-o", "1048576", "-l", "65536", path]).is_some();
        run("blkdiscard", &["-z", "-o", "4194304", "-l", "131072", path]);
    };
    let Some((requests, _)) = capture(&device.path, &options, load) else { return };
    if !there {
        return;
    }
    let of = |op| -> Vec<(u64, u64)> {
        let found = requests.iter().filter(|request| request.op == op);
        found.map(|request| (request.offset_bytes, request.length_bytes)).collect()
    };
    assert_eq!(of(Operation::Discard), [(1_048_576, 65_536)]);
    assert_eq!(of(Operation::WriteZeroes), [(4_194_304, 131_072)]);
    assert!(requests.iter().all(|request| request.queued.is_none()));
}

#[test]
fn are_fios_requests_seen_and_shorter_than_fio_says() {
    let Some(device) = LoopDevice::new(32 << 20) else { return };
    let filename = format!("--filename={}", device.path.display());
    let mut report = None;
    let load = || {
        report = run(
            "fio",
            &[
                "--name=a",
                &filename,
                "--rw=randrw",
                "--bs=4k",
                "--ioengine=psync",
                "--direct=1",
                "--size=32m",
                "--io_size=16m",
                "--output-format=json",
            ],
        );
    };
    let Some((requests, captured)) = capture(&device.path, &Options::default(), load) else { return };
    let Some(report) = report else { return };
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(captured.lost_events, 0);
    for (direction, op) in [("read", Operation::Read), ("write", Operation::Write)] {
        let by_fio = &report["jobs"][0][direction];
        // By fio: others, such as what looks for a file system when a device appears, read too.
        let seen: Vec<&HostRequest> = requests
            .iter()
            .filter(|request| request.op == op && request.command.to_string() == "fio")
            .collect();
        let bytes: u64 = seen.iter().map(|request| request.length_bytes).sum();
        assert_eq!(seen.len() as u64, by_fio["total_ios"].as_u64().unwrap(), "{direction}");
        assert_eq!(bytes, by_fio["io_bytes"].as_u64().unwrap(), "{direction}");
        let busy_ns: u64 =
            seen.iter().map(|request| request.completion.saturating_since(request.issue).as_ns()).sum();
        // Each lies within what fio timed of it, so the mean does, by however much the machine is busy.
        let mean_ns = busy_ns as f64 / seen.len() as f64;
        let fio_mean_ns = by_fio["lat_ns"]["mean"].as_f64().unwrap();
        assert!(mean_ns <= fio_mean_ns, "{direction}: {mean_ns} ns, by fio {fio_mean_ns} ns");
        assert!(mean_ns > 0.0);
    }
}

#[test]
fn does_a_sink_that_waits_hold_up_nobody_and_lose_aloud() {
    let Some(device) = LoopDevice::new(32 << 20) else { return };
    let target = format!("of={}", device.path.display());
    let (go_on, waits) = mpsc::channel::<()>();
    let (sink, requests) = mpsc::channel();
    let options = Options { buffer_bytes: Some(1), ..Options::default() };
    let started = Capture::start(&device.path, &options, move |observed| {
        // Waits until the load is over, when the sender is gone.
        let _ = waits.recv();
        if let Observed::Request(request) = observed {
            sink.send(request).unwrap();
        }
    });
    let capture = match started {
        Err(error) => return println!("skipped: {error}"),
        Ok(capture) => capture,
    };
    run("dd", &["if=/dev/zero", &target, "bs=8k", "count=2000", "oflag=direct"]);
    drop(go_on);
    let captured = capture.finish().unwrap();
    assert!(captured.lost_events > 0, "{captured:?}");
    assert!(captured.completed < 2000, "{captured:?}");
    for request in requests.try_iter() {
        assert_eq!((request.length_bytes, request.offset_bytes % 8192), (8192, 0));
        assert!(request.issue < request.completion, "{request:?}");
    }
}

#[test]
fn is_a_panic_of_the_sink_an_error() {
    let Some(device) = LoopDevice::new(1 << 20) else { return };
    let (sender, dropped) = mpsc::channel::<()>();
    let started = Capture::start(&device.path, &Options::default(), move |_| {
        let _sender = &sender;
        panic!("as the test asks");
    });
    let capture = match started {
        Err(error) => return println!("skipped: {error}"),
        Ok(capture) => capture,
    };
    // The reader tells the sink what is settled every 10 ms, and takes the sink down with it.
    assert!(dropped.recv().is_err());
    assert!(matches!(capture.finish(), Err(CaptureError::SinkPanicked)));
}
