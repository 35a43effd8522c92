//! A device served as a file and as a block device keeps the written data, and leaves nothing behind.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use seeklab_emulator::frontend::fuse::{Place, unavailability};
use seeklab_emulator::frontend::loop_device;

/// An emulation that runs in the background, killed when a test fails: what it served goes with it.
struct Served {
    child: Child,
    /// Kept open: who writes to it must not fail.
    _errors: BufReader<ChildStderr>,
    paths: Vec<PathBuf>,
}

impl Served {
    fn start(arguments: &[&str]) -> Self {
        Self::device("immediate", arguments)
    }

    fn device(name: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_seeklab"))
            .args(["serve", name, "--size", "16MiB", "--json"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut paths = Vec::new();
        let mut line = String::new();
        while !line.contains("Ctrl-C") {
            line.clear();
            assert!(errors.read_line(&mut line).unwrap() > 0, "the emulation ended before it was ready");
            if let Some((_, ready)) = line.split_once(" is ready: ") {
                paths = ready.trim().split(", ").map(PathBuf::from).collect();
            }
        }
        Self { child, _errors: errors, paths }
    }

    fn interrupt(mut self) -> serde_json::Value {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        serde_json::from_reader(self.child.stdout.take().unwrap()).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_possible(test: &str, missing: Option<String>) -> bool {
    if let Some(missing) = &missing {
        eprintln!("skipped: {test}: {missing}");
    }
    missing.is_none()
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn interrupt_saves_data_written_to_the_block_device_to_the_store() {
    let test = "interrupt_saves_data_written_to_the_block_device_to_the_store";
    if !is_possible(test, unavailability(&Place::Detached).or_else(loop_device::unavailability)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let stored = format!("file:{}", store.display());
    let served = Served::start(&["--store", &stored, "--block", "--host-read-ahead", "64KiB"]);
    let device = served.paths[0].clone();
    let of_kernel = Path::new("/sys/block").join(device.file_name().unwrap());
    assert_eq!(fs::read_to_string(of_kernel.join("queue/read_ahead_kb")).unwrap().trim(), "64");
    assert_eq!(fs::read_to_string(of_kernel.join("queue/rotational")).unwrap().trim(), "0");
    let bytes: Vec<u8> = (0..4 << 20).map(|at: u32| (at / 512 % 251) as u8).collect();
    // Through the page cache, and not flushed: closing leaves it dirty while somebody else holds the device.
    OpenOptions::new().write(true).open(&device).unwrap().write_all(&bytes).unwrap();
    let document = served.interrupt();
    assert!(document["requests"].as_u64().unwrap() > 2, "{document}");
    assert!(fs::read(&store).unwrap()[..bytes.len()] == bytes, "contents differ");
    assert!(!of_kernel.join("loop").exists(), "the block device is left behind");
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn follow_host_matches_and_records_every_request_of_the_host() {
    let test = "follow_host_matches_and_records_every_request_of_the_host";
    let missing = (!geteuid().is_root() || !Path::new("/sys/kernel/tracing/events/block").is_dir())
        .then(|| "the block layer cannot be watched: it needs root and tracefs".to_owned());
    let missing = missing.or_else(|| unavailability(&Place::Detached)).or_else(loop_device::unavailability);
    if !is_possible(test, missing) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("seen.csv");
    let settings =
        ["--block", "--follow-host", "--set", "service_time=2ms", "--record", trace.to_str().unwrap()];
    let served = Served::device("constant", &settings);
    let mut file = OpenOptions::new().write(true).open(&served.paths[0]).unwrap();
    for _ in 0..100 {
        file.write_all(&[7; 4096]).unwrap();
        file.sync_data().unwrap();
    }
    drop(file);
    let document = served.interrupt();
    let host = &document["host"];
    assert_eq!(host["lost"], 0, "{document}");
    // A write and a flush each; what came while the watch began, and after it ended, is not seen in the host.
    assert!(host["requests"].as_u64().unwrap() >= 200, "{document}");
    assert!(host["unmatched"].as_u64().unwrap() <= 20, "{document}");
    let mean_ms = host["mean_ms"].as_f64().unwrap();
    // A reply leaves no more than a millisecond before the model's completion.
    assert!(mean_ms > 1.0 && host["ei_avg_ms"].as_f64().unwrap() < mean_ms, "{document}");
    assert!(document["trust_sentence"].as_str().unwrap().contains("in the host"), "{document}");
    let text = fs::read_to_string(&trace).unwrap();
    let head =
        text.lines().find(|line| line.contains("mp1_arrival_ns")).expect("the host's stamps are there");
    let column = head.split(',').position(|name| name == "mp1_completion_ns").unwrap();
    let rows = text.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    let stamped =
        rows.filter(|row| row.split(',').nth(column).is_some_and(|stamp| !stamp.is_empty())).count();
    assert!(stamped >= 200, "{stamped} of the rows have them");
}

#[test]
fn follow_host_is_refused_without_block_and_with_uncalibrated_or_another_frontend() {
    for arguments in [
        &["--follow-host"][..],
        &["--block", "--follow-host", "--uncalibrated"],
        &["--block", "--follow-host", "--nbd", "unix:/a"],
        &["--block", "--follow-host", "--fuse", "/a"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_seeklab"))
            .args(["serve", "immediate", "--size", "1MiB"])
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        let other = arguments.iter().rfind(|word| word.starts_with("--")).unwrap();
        assert!(errors.contains("--follow-host") && errors.contains(other), "{arguments:?}: {errors}");
    }
}

#[test]
#[cfg_attr(not(fuse), ignore = "needs /dev/fuse")]
fn file_exists_only_while_it_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::At(folder.path().to_owned());
    if !is_possible("file_exists_only_while_it_is_served", unavailability(&place)) {
        return;
    }
    if !geteuid().is_root() && Command::new("fusermount3").arg("--version").output().is_err() {
        eprintln!("skipped: fusermount3 is not installed");
        return;
    }
    let served = Served::start(&["--fuse", folder.path().to_str().unwrap()]);
    let file = served.paths[0].clone();
    assert_eq!(file, folder.path().join("disk"));
    assert_eq!(fs::metadata(&file).unwrap().len(), 16 << 20);
    OpenOptions::new().write(true).open(&file).unwrap().write_all(&[7; 8192]).unwrap();
    assert!(fs::read(&file).unwrap().iter().map(|byte| u64::from(*byte)).sum::<u64>() == 7 * 8192);
    let document = served.interrupt();
    assert!(document["requests"].as_u64().unwrap() > 2, "{document}");
    assert!(fs::read_dir(folder.path()).unwrap().next().is_none(), "the file is left behind");
}

#[test]
fn non_empty_folder_is_refused_and_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("precious"), "x").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_seeklab"))
        .args(["serve", "immediate", "--size", "1MiB", "--fuse", folder.path().to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("--fuse: "), "{errors}");
    assert!(errors.contains("is not empty"), "{errors}");
    assert_eq!(fs::read(folder.path().join("precious")).unwrap(), b"x");
}
