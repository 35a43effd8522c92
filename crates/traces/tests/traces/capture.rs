//! Live capture of a loop device over a temporary file: every request is recorded once, with its times.
//!
//! Needs root, a loop device, `dd`, `blkdiscard` and `fio`; without them the tests print a message and pass.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use seeklab_core::{HostRequest, Instant, Operation};
use seeklab_traces::capture::{Capture, CaptureError, Captured, Observed, Options, look_at};

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

/// Returns the requests that a capture records while `load` runs. If no capture is possible, prints the
/// reason and returns `None`.
fn capture(device: &Path, options: &Options, load: impl FnOnce()) -> Option<(Vec<HostRequest>, Captured)> {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let too_early = Arc::new(AtomicU64::new(0));
    let (sink, early, mut settled_before) = (Arc::clone(&requests), Arc::clone(&too_early), Instant::ZERO);
    let started = Capture::start(device, options, move |observed| match observed {
        Observed::Request(request) => {
            let arrival = request.queued.unwrap_or(request.issue);
            early.fetch_add(u64::from(arrival < settled_before), Ordering::Relaxed);
            sink.lock().unwrap().push(request);
        }
        Observed::Settled { arrived: until, .. } => {
            assert!(until >= settled_before, "what is settled stays settled");
            settled_before = until;
        }
    });
    let capture = match started {
        Err(error @ (CaptureError::NoTracefs { .. } | CaptureError::Tracefs { .. })) => {
            println!("skipped: {error}; {}", error.hint().unwrap());
            return None;
        }
        started => started.unwrap(),
    };
    load();
    let captured = capture.finish().unwrap();
    // Every row reported as settled was settled, except those that the machine delivered too late.
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
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn every_write_of_dd_is_captured_once() {
    let Some(device) = LoopDevice::new(32 << 20) else { return };
    let target = format!("of={}", device.path.display());
    let direct = ["if=/dev/zero", &target, "bs=8k", "count=500", "oflag=direct", "conv=fsync"];
    let load = || {
        run("dd", &direct);
        run("dd", &["if=/dev/zero", &target, "bs=4k", "count=1", "seek=2000", "oflag=direct,dsync"]);
    };
    let Some((requests, captured)) = capture(&device.path, &Options::default(), load) else {
        return;
    };

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
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn discard_and_write_zeroes_are_distinguished() {
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
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn captured_fio_times_do_not_exceed_fios_own() {
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
    let Some((requests, captured)) = capture(&device.path, &Options::default(), load) else {
        return;
    };
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
        let by_fio_ios = by_fio["total_ios"].as_u64().unwrap();
        assert_eq!(seen.len() as u64, by_fio_ios, "{direction}: {captured:?}");
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
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn blocked_sink_delays_no_load_and_losses_are_counted() {
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
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn panic_of_the_sink_is_an_error() {
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

/// A zram device that goes when this does.
struct Zram {
    path: PathBuf,
    number: String,
}

impl Zram {
    fn new(size: &str) -> Option<Self> {
        let number = std::fs::read_to_string("/sys/class/zram-control/hot_add").ok()?.trim().to_owned();
        let this = Self { path: format!("/dev/zram{number}").into(), number };
        std::fs::write(format!("/sys/block/zram{}/disksize", this.number), size).ok()?;
        Some(this)
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let _ = std::fs::write("/sys/class/zram-control/hot_remove", &self.number);
    }
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn device_that_takes_bios_is_captured_bio_by_bio() {
    let Some(device) = Zram::new("16M") else { return println!("skipped: no zram device here") };
    assert!(look_at(&device.path).unwrap().takes_bios);
    let filename = format!("--filename={}", device.path.display());
    let mut there = true;
    let load = || {
        let fio = ["--name=a", &filename, "--rw=randwrite", "--bs=64k", "--ioengine=psync", "--direct=1"];
        there &= run("fio", &[&fio[..], &["--size=16m", "--number_ios=200"]].concat()).is_some();
        let path = device.path.to_str().unwrap();
        there &= run("blkdiscard", &["-o", "1048576", "-l", "65536", path]).is_some();
    };
    let Some((requests, captured)) = capture(&device.path, &Options::default(), load) else {
        return;
    };
    if !there {
        return;
    }
    let of = |op| requests.iter().filter(move |request| request.op == op);
    let written: u64 = of(Operation::Write).map(|request| request.length_bytes).sum();
    assert_eq!((of(Operation::Write).count(), written), (200, 200 * 65536), "{captured:?}");
    assert_eq!(of(Operation::Discard).map(|request| request.length_bytes).sum::<u64>(), 65536);
    assert!(of(Operation::Write).all(|write| write.command.to_string() == "fio"));
    assert!(requests.iter().all(|request| request.issue < request.completion));
    assert!(requests.iter().all(|request| request.queued.is_none()));
    assert_eq!((captured.lost_events, captured.given_up, captured.pending), (0, 0, 0));
    assert_eq!(captured.unpaired_completions, 0);
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn partition_capture_has_its_own_requests_relative_to_its_start() {
    let Some(device) = LoopDevice::new(32 << 20) else { return };
    let path = device.path.to_str().unwrap().to_owned();
    // Two partitions of 8 MiB from 1 MiB on, added as the kernel's own ioctl does.
    for (number, start) in [("1", "2048"), ("2", "18432")] {
        if run("addpart", &[&path, number, start, "16384"]).is_none() {
            return;
        }
    }
    let second = PathBuf::from(format!("{path}p2"));
    let gone = |number| run("delpart", &[&path, number]);
    if !second.exists() {
        gone("1");
        gone("2");
        return println!("skipped: the system makes no nodes for partitions");
    }
    let about = look_at(&second).unwrap();
    assert_eq!((about.is_partition, about.takes_bios, about.size_bytes), (true, false, 8 << 20));
    let load = || {
        for (number, seek) in [("p1", "3"), ("p2", "5")] {
            let target = format!("of={path}{number}");
            let seek = format!("seek={seek}");
            let zeroes = ["if=/dev/zero", &target, "bs=8k", "count=20", &seek, "oflag=direct", "conv=fsync"];
            run("dd", &zeroes);
        }
    };
    let observed = capture(&second, &Options::default(), load);
    gone("1");
    gone("2");
    let Some((requests, captured)) = observed else { return };
    let writes: Vec<(u64, u64)> = requests
        .iter()
        .filter(|request| request.op == Operation::Write)
        .map(|request| (request.offset_bytes, request.length_bytes))
        .collect();
    let expected: Vec<(u64, u64)> = (5..25).map(|block| (block * 8192, 8192)).collect();
    assert_eq!(writes, expected, "{captured:?}");
    // Those of the whole device: a flush has no address.
    assert!(requests.iter().filter(|request| request.op == Operation::Flush).count() >= 2);
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn trace_buffer_is_removed_with_its_capture() {
    let Some(device) = LoopDevice::new(1 << 20) else { return };
    let instances = || -> Vec<String> {
        let own = format!("seeklab-{}-", std::process::id());
        let entries = std::fs::read_dir("/sys/kernel/tracing/instances").into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(&own)).collect()
    };
    let options = Options::default();
    let capture = match Capture::start(&device.path, &options, |_| ()) {
        Err(error) => return println!("skipped: {error}"),
        Ok(capture) => capture,
    };
    assert!(!instances().is_empty());
    drop(capture);
    let killed = Path::new("/sys/kernel/tracing/instances/seeklab-4194304-0");
    std::fs::create_dir(killed).unwrap();
    drop(Capture::start(&device.path, &options, |_| ()).unwrap());
    assert!(!killed.exists(), "what a killed capture left goes with the next");
}
