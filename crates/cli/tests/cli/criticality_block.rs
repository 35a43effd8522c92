//! Classes of the requests of a block device, by the host's flags and by who sleeps on them.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::fs::{Advice, fadvise};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use seeklab_emulator::frontend::fuse::{Place, unavailability};
use seeklab_emulator::frontend::loop_device;
use serde_json::Value;

use super::bench::Bench;

/// A served block device, killed when a test fails.
struct Served {
    child: Child,
    errors: BufReader<ChildStderr>,
    device: PathBuf,
}

impl Served {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_seeklab"))
            .args(["serve", "hp-c2247a", "--size", "64MiB", "--block", "--host-scheduler", "none", "--json"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let (mut device, mut line) = (PathBuf::new(), String::new());
        while !line.contains("Ctrl-C") {
            line.clear();
            assert!(errors.read_line(&mut line).unwrap() > 0, "the emulation ended before it was ready");
            if let Some((_, ready)) = line.split_once(" is ready: ") {
                device = ready.trim().into();
            }
        }
        Self { child, errors, device }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn interrupt(mut self) -> Value {
        kill_process(self.pid(), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        let mut rest = String::new();
        self.errors.read_to_string(&mut rest).unwrap();
        serde_json::from_reader(self.child.stdout.take().unwrap()).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Instances of tracefs that a process has made.
fn instances(process: u32) -> Vec<PathBuf> {
    let prefix = format!("seeklab-{process}-");
    let entries = fs::read_dir("/sys/kernel/tracing/instances").unwrap();
    let paths = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    paths.map(|entry| entry.path()).collect()
}

/// Returns false, with the reason on stderr, if no block device can be followed here.
fn is_possible(test: &str) -> bool {
    let missing = (!geteuid().is_root() || !Path::new("/sys/kernel/tracing/events/block").is_dir())
        .then(|| "the host cannot be followed: it needs root and tracefs".to_owned());
    let missing = missing.or_else(|| unavailability(&Place::Detached)).or_else(loop_device::unavailability);
    if let Some(missing) = &missing {
        eprintln!("skipped: {test}: {missing}");
    }
    missing.is_none()
}

/// Writes scattered blocks through the page cache, waits for them, and reads them again from the device.
fn work(device: &Path) {
    let mut file = OpenOptions::new().read(true).write(true).open(device).unwrap();
    let places: Vec<u64> = (0..60).map(|block: u64| block * 37 % 60 * (512 << 10)).collect();
    for place in &places {
        file.seek(SeekFrom::Start(*place)).unwrap();
        file.write_all(&[7; 8192]).unwrap();
    }
    file.sync_data().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    let mut bytes = [0; 4096];
    for place in &places {
        file.seek(SeekFrom::Start(*place)).unwrap();
        file.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, [7; 4096]);
    }
    // Half a second of reads that nobody waits for, and then one that somebody waits for.
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    for place in &places {
        fadvise(&file, *place, NonZeroU64::new(65_536), Advice::WillNeed).unwrap();
    }
    file.read_exact(&mut bytes).unwrap();
}

/// Times and classes of the rows of a trace: every column but the stamps of the emulator.
fn model_columns(text: &str) -> Vec<String> {
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let mut rows = rows.map(|row| row.split(',').collect::<Vec<_>>());
    let head = rows.next().unwrap();
    let is_of_model = |index: usize| !head[index].starts_with("mp") && head[index] != "miss_cause";
    rows.map(|row| {
        let kept = row.iter().enumerate().filter(|(index, _)| is_of_model(*index));
        kept.map(|(_, value)| *value).collect::<Vec<_>>().join(",")
    })
    .collect()
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn emulated_classes_are_replayed_to_the_nanosecond() {
    if !is_possible("emulated_classes_are_replayed_to_the_nanosecond") {
        return;
    }
    let bench = Bench::new();
    for (rule, mode) in [("waits", "rollback"), ("flags", "rollback"), ("waits", "synchronous")] {
        let trace = bench.path("seen.csv");
        let _ = fs::remove_file(&trace);
        let trace = trace.to_str().unwrap();
        let scheduler = ["--scheduler", "criticality-c-look"];
        let options = ["--criticality", rule, "--record", trace, "--mode", mode];
        let served = Served::start(&[&options[..], &scheduler].concat());
        let pid = served.child.id();
        assert_eq!(instances(pid).len(), 1);
        work(&served.device);
        let document = served.interrupt();
        assert_eq!(instances(pid), Vec::<PathBuf>::new(), "the instance is removed");
        let figures = &document["criticality"];
        assert_eq!((&figures["rule"], &figures["lost_events"]), (&Value::from(rule), &Value::from(0)));
        let count = |path: &str| figures.pointer(path).and_then(Value::as_u64).unwrap_or_default();
        let by_class = |class: &str| count(&format!("/by_criticality/{class}/requests"));
        if rule == "waits" {
            // The process sleeps on most reads before they arrive here, and on few of those that were read ahead.
            assert!(count("/request_waits") > 30 && by_class("time_critical") > 30, "{document}");
            assert!(by_class("time_limited") > 5, "{document}");
        } else {
            assert_eq!((count("/request_waits"), count("/reclassified_requests")), (0, 0), "{document}");
            // A process waits for what it writes with fdatasync. The kernel marks its reads as read-ahead.
            assert!(by_class("time_critical") > 30 && by_class("time_limited") > 30, "{document}");
        }
        // The same requests with the same changes at the same times take the same time in the simulator.
        let replayed = ["simulate", "hp-c2247a", "-w", trace, "--open", "--out", "replayed.csv"];
        bench.run(&[&replayed[..], &scheduler].concat()).done();
        let [seen, replayed] = [fs::read(trace).unwrap(), bench.read("replayed.csv")]
            .map(|bytes| model_columns(&String::from_utf8(bytes).unwrap()));
        assert!(seen.len() > 100);
        assert_eq!(seen.len(), replayed.len());
        for (seen, replayed) in seen.iter().zip(&replayed) {
            assert_eq!(seen, replayed, "{rule}, {mode}");
        }
    }
}

/// A second signal kills what is held; the file keeps the device in use, so that the first one does not end it.
#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn instance_is_removed_however_the_emulation_ends() {
    if !is_possible("instance_is_removed_however_the_emulation_ends") {
        return;
    }
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut served = Served::start(&["--criticality", "waits"]);
        let pid = served.child.id();
        let in_use = File::open(&served.device).unwrap();
        kill_process(served.pid(), signal).unwrap();
        let mut line = String::new();
        while !line.contains("in use") {
            line.clear();
            assert!(served.errors.read_line(&mut line).unwrap() > 0, "{signal:?}");
        }
        assert_eq!(instances(pid).len(), 1, "it is served");
        // Another one, which is no copy of the first: that comes within milliseconds.
        kill_process(served.pid(), if signal == Signal::TERM { Signal::INT } else { Signal::TERM }).unwrap();
        served.child.wait().unwrap();
        assert_eq!(instances(pid), Vec::<PathBuf>::new(), "{signal:?}");
        drop(in_use);
    }
    let mut served = Served::start(&["--criticality", "flags"]);
    let pid = served.child.id();
    served.child.kill().unwrap();
    served.child.wait().unwrap();
    assert_eq!(instances(pid).len(), 1, "nobody was left to remove it");
    let next = Served::start(&["--criticality", "flags"]);
    assert_eq!(instances(pid), Vec::<PathBuf>::new(), "the next one does");
    next.interrupt();
}

#[test]
fn criticality_is_refused_without_a_block_device_and_with_an_unknown_rule() {
    let refused = |arguments: &[&str], parts: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_seeklab")).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        for part in parts {
            assert!(errors.contains(part), "{arguments:?}: {errors}");
        }
    };
    let serve = ["serve", "immediate", "--size", "1MiB", "--criticality"];
    refused(&[&serve[..], &["waits"]].concat(), &["--block"]);
    refused(&[&serve[..], &["waits", "--block", "--nbd", "unix:/a"]].concat(), &["--criticality", "--nbd"]);
    refused(&[&serve[..], &["sleep", "--block"]].concat(), &["sleep", "flags", "waits"]);
    let run = ["run", "immediate", "--criticality", "flags", "--builtin", "postmark"];
    refused(&run, &["--criticality", "--builtin"]);
}
