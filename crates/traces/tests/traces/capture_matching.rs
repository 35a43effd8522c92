//! Captures matched with captures: a loop device over a loop device, both recorded while fio and others
//! work on the upper one.
//!
//! The lower device gets the requests that the driver of the upper device made, split where the lower device
//! takes less at once. An emulator behind a loop device receives its requests in the same way. Needs root,
//! `losetup`, `fio`, `blkdiscard` and `dd`; without them the test prints a message and passes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

use seeklab_analysis::{MatchCounts, Matcher};
use seeklab_core::{HostRequest, MeasurementPoints, Operation, TraceRecord};
use seeklab_traces::capture::{Capture, CaptureError, Observed, Options};

/// A loop device that goes when this does.
struct LoopDevice(PathBuf);

impl LoopDevice {
    fn over(backing: &Path, direct: bool) -> Option<Self> {
        let direct = format!("--direct-io={}", if direct { "on" } else { "off" });
        let losetup = Command::new("losetup").args(["--find", "--show", &direct]).arg(backing).output();
        match losetup {
            Ok(output) if output.status.success() => {
                Some(Self(String::from_utf8(output.stdout).expect("it is a path").trim().into()))
            }
            other => {
                println!("skipped: no such loop device here: {other:?}");
                None
            }
        }
    }

    /// A file of the device in sysfs.
    fn setting(&self, name: &str) -> PathBuf {
        Path::new("/sys/block").join(self.0.file_name().expect("it is in /dev")).join(name)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

/// The longest request of a device, which outlives what the device is over, and so is put back.
struct RequestLimit {
    path: PathBuf,
    before: String,
}

impl RequestLimit {
    fn set(device: &LoopDevice, kib: &str) -> Self {
        let path = device.setting("queue/max_sectors_kb");
        let before = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, kib).unwrap();
        Self { path, before }
    }
}

impl Drop for RequestLimit {
    fn drop(&mut self) {
        let _ = std::fs::write(&self.path, &self.before);
    }
}

fn start(device: &LoopDevice) -> Option<(Capture, Receiver<HostRequest>)> {
    let (sink, requests) = channel();
    let started = Capture::start(&device.0, &Options::default(), move |observed| {
        if let Observed::Request(request) = observed {
            sink.send(request).expect("the test listens");
        }
    });
    match started {
        Err(error @ (CaptureError::Tracefs { .. } | CaptureError::NoTracefs { .. })) => {
            println!("skipped: {error}");
            None
        }
        started => Some((started.unwrap(), requests)),
    }
}

/// Runs a program; whether there is one of that name.
fn run(program: &str, arguments: &[&str]) -> bool {
    match Command::new(program).args(arguments).output() {
        Ok(output) => {
            assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
            true
        }
        Err(error) => {
            println!("skipped: {program}: {error}");
            false
        }
    }
}

/// A request of the lower device as an emulator would record it.
fn as_record(request: &HostRequest) -> TraceRecord {
    let blocks = u32::try_from(request.length_bytes / 512).expect("requests are shorter");
    TraceRecord {
        points: MeasurementPoints {
            mp2_arrival: Some(request.issue),
            mp2_completion: Some(request.completion),
            ..MeasurementPoints::NONE
        },
        ..TraceRecord::new(request.issue, request.op, request.offset_bytes / 512, blocks)
    }
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn every_request_of_a_real_host_is_found_on_the_lower_device() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(64 << 20).unwrap();
    let Some(lower) = LoopDevice::over(file.path(), false) else { return };
    let Some(upper) = LoopDevice::over(&lower.0, true) else { return };
    if !std::fs::read_to_string(upper.setting("loop/dio")).is_ok_and(|direct| direct.trim() == "1") {
        return println!("skipped: this kernel's loop devices have no direct access to a block device");
    }
    // The upper device hands on up to 256 KiB; the lower takes 64 KiB at once.
    let _limits = (RequestLimit::set(&upper, "256"), RequestLimit::set(&lower, "64"));

    let Some((below, records)) = start(&lower) else { return };
    let Some((above, hosts)) = start(&upper) else { return };
    let path = upper.0.to_str().unwrap();
    let filename = format!("--filename={path}");
    let there = run(
        "fio",
        &[
            "--name=a",
            &filename,
            "--rw=randrw",
            "--bsrange=4k-256k",
            "--ioengine=libaio",
            "--iodepth=16",
            "--direct=1",
            "--size=64m",
            "--io_size=128m",
            "--fsync=20",
            "--norandommap",
            "--randrepeat=1",
        ],
    ) && run("blkdiscard", &["-o", "1048576", "-l", "524288", path])
        && run("dd", &["if=/dev/zero", &format!("of={path}"), "bs=4k", "count=8", "oflag=direct,dsync"]);
    let (above, below) = (above.finish().unwrap(), below.finish().unwrap());
    if !there {
        return;
    }
    let counts = (above.lost_events, below.lost_events, above.pending, below.pending);
    assert_eq!(counts, (0, 0, 0, 0), "{above:?} {below:?}");

    let mut matcher = Matcher::new(512);
    hosts.try_iter().for_each(|request| matcher.host(&request));
    records.try_iter().for_each(|request| matcher.record(as_record(&request)));
    let (mut flushes, mut clears) = (0, 0);
    let counts = matcher.finish(|record| {
        let (host, own) = (record.points.mp1(), record.points.mp2().unwrap());
        let host = host.unwrap_or_else(|| panic!("{record:?} serves nothing"));
        assert!(host.0 <= own.0 && own.1 <= host.1, "{record:?}");
        flushes += u64::from(record.op == Operation::Flush);
        clears += u64::from(matches!(record.op, Operation::Discard | Operation::WriteZeroes));
    });
    println!("{counts:?}, {flushes} flushes, {clears} discards");
    assert!(counts.split_groups > 100, "256 KiB do not fit in 64 KiB: {counts:?}");
    assert!(flushes > 10 && clears > 0);
    let MatchCounts { unmatched_host, unmatched_emulated, partly_unmatched_host, .. } = counts;
    assert_eq!((unmatched_host, unmatched_emulated, partly_unmatched_host), (0, 0, 0), "{counts:?}");
}
