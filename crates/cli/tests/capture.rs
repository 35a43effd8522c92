//! `seeklab capture` records every request of a command to a device, and reports how the command ended.
//!
//! Needs root, a loop device and tracefs. Without them, the tests print a note and pass.

#[path = "cli/schema_check.rs"]
mod schema_check;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use schema_check::differences;

/// A loop device over a file that goes when this does.
struct LoopDevice {
    path: PathBuf,
    _file: tempfile::NamedTempFile,
}

impl LoopDevice {
    fn new() -> Option<Self> {
        Self::over(tempfile::NamedTempFile::new().unwrap(), 16 << 20)
    }

    fn over(file: tempfile::NamedTempFile, bytes: u64) -> Option<Self> {
        file.as_file().set_len(bytes).unwrap();
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file.path()).output();
        let output = output.ok().filter(|output| output.status.success());
        let has_tracefs = Path::new("/sys/kernel/tracing/events/block").is_dir();
        match output {
            Some(output) => {
                let path = String::from_utf8(output.stdout).unwrap().trim().into();
                let this = Self { path, _file: file };
                if !has_tracefs {
                    println!("skipped: there is no tracefs");
                }
                has_tracefs.then_some(this)
            }
            None => {
                println!("skipped: no loop device here");
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

fn seeklab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_seeklab")).args(arguments).env("CAPTURED", "by us").output().unwrap()
}

fn document(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn trace_has_every_request_and_the_counts_of_lost_events() {
    let Some(device) = LoopDevice::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = device.path.to_str().unwrap();
    for name in ["seen.parquet", "seen.csv"] {
        let trace = folder.path().join(name);
        let trace = trace.to_str().unwrap();
        let target = format!("of={path}");
        let dd = ["dd", "if=/dev/zero", &target, "bs=8k", "count=300", "oflag=direct", "conv=notrunc"];
        let output = seeklab(&[&["capture", path, "-o", trace, "--json", "--"], &dd[..]].concat());
        let result = document(&output);
        assert!(output.status.success(), "{result}");
        assert_eq!(result["command_exit_code"], 0);
        assert_eq!((&result["lost_events"], &result["lost_requests"]), (&0.into(), &0.into()));
        assert!(result["writes"].as_u64() >= Some(300), "{result}");
        let info = document(&seeklab(&["trace", "info", trace, "--json"]));
        let info = &info["traces"][0];
        assert_eq!(info["requests"], result["rows"], "every request is in {name}");
        let metadata = &info["metadata"];
        for key in ["lost_events", "lost_requests", "given_up", "pending"] {
            assert_eq!(metadata[format!("capture.{key}")], "0", "{name}: {metadata}");
        }
        assert!(metadata["recorder"].as_str().unwrap().parse::<u32>().unwrap() > 0);
        let names = metadata.as_object().unwrap();
        assert!(names.iter().any(|(key, name)| key.starts_with("process.") && name == "dd"), "{metadata}");
        let report = document(&seeklab(&["trace", "report", trace, "--json"]));
        assert_eq!(report["summary"]["writes"], result["writes"]);
        let differences = differences(&document(&seeklab(&["schema", "capture"])), &result);
        assert!(differences.is_empty(), "{differences:#?}");
    }
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn killed_capture_leaves_its_rows_marked_as_cut() {
    let Some(device) = LoopDevice::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (path, trace, part) = (device.path.to_str().unwrap(), at("seen.parquet"), at("seen.parquet.part"));
    let mut capture = Command::new(env!("CARGO_BIN_EXE_seeklab"))
        .args(["capture", path, "-o", &trace, "--quiet"])
        .spawn()
        .unwrap();
    let mut wait_until = |is_done: &dyn Fn() -> bool| {
        for _ in 0..2_400 {
            if is_done() {
                return;
            }
            assert_eq!(capture.try_wait().unwrap(), None, "the capture ended");
            std::thread::park_timeout(std::time::Duration::from_millis(50));
        }
        panic!("the capture does not get there");
    };
    wait_until(&|| Path::new(&part).exists());
    let target = format!("of={path}");
    let dd = ["if=/dev/zero", &target, "bs=8k", "count=300", "oflag=direct", "conv=notrunc", "status=none"];
    assert!(Command::new("dd").args(dd).status().unwrap().success());
    let writes = |trace: &str| {
        let report = document(&seeklab(&["trace", "report", trace, "--json"]));
        report["summary"]["writes"].as_u64().unwrap()
    };
    // The last request waits for the next one, which ends its think time.
    wait_until(&|| writes(&part) >= 299);
    capture.kill().unwrap();
    capture.wait().unwrap();
    let refused = seeklab(&["capture", path, "-o", &trace, "--duration", "1s"]);
    let problem = String::from_utf8_lossy(&refused.stderr).into_owned();
    let advice = format!("`seeklab trace convert {part} {trace}`");
    assert!(refused.status.code() == Some(2) && problem.contains(&advice), "{problem}");
    assert!(seeklab(&["trace", "convert", &part, &trace]).status.success());
    assert!(writes(&trace) >= 299);
    let info = document(&seeklab(&["trace", "info", &trace, "--json"]));
    assert!(info["traces"][0]["notes"].to_string().contains("the trace is cut"), "{info}");
    std::fs::remove_file(&part).unwrap();
    assert!(seeklab(&["capture", path, "-o", &trace, "--duration", "1ms"]).status.success());
    assert!(!Path::new(&part).exists(), "a capture that ends in order leaves no part file");
    let left = std::fs::read_dir("/sys/kernel/tracing/instances").unwrap().flatten();
    let orphan = format!("seeklab-{}-", capture.id());
    assert!(left.map(|entry| entry.file_name()).all(|name| !name.to_string_lossy().starts_with(&orphan)));
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn capture_in_a_pid_namespace_marks_no_process_as_recorder() {
    let Some(device) = LoopDevice::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("seen.csv");
    let (path, trace) = (device.path.to_str().unwrap(), trace.to_str().unwrap());
    let output = Command::new("unshare")
        .args([
            "--pid",
            "--fork",
            "--mount-proc",
            env!("CARGO_BIN_EXE_seeklab"),
            "capture",
            path,
            "-o",
            trace,
        ])
        .args(["--json", "--duration", "100ms"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stderr).contains("PID namespace"));
    let info = document(&seeklab(&["trace", "info", trace, "--json"]));
    assert!(info["traces"][0]["metadata"]["recorder"].is_null(), "{info}");
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn command_gets_its_environment_and_its_exit_code_is_returned() {
    let Some(device) = LoopDevice::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("seen.parquet");
    let (path, trace) = (device.path.to_str().unwrap(), trace.to_str().unwrap());
    let script = "test \"$CAPTURED\" = 'by us' || exit 99; echo out; exit 7";
    let output = seeklab(&["capture", path, "-o", trace, "--json", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(1), "it ran, but the command failed");
    assert_eq!(document(&output)["command_exit_code"], 7);
    assert!(String::from_utf8_lossy(&output.stderr).contains("out"), "its output goes to stderr");
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn figures_are_printed_although_the_trace_cannot_be_written() {
    let Some(device) = LoopDevice::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("full.csv");
    std::os::unix::fs::symlink("/dev/full", &trace).unwrap();
    let (path, trace) = (device.path.to_str().unwrap(), trace.to_str().unwrap());
    let target = format!("of={path}");
    let dd = ["dd", "if=/dev/zero", &target, "bs=8k", "count=10", "oflag=direct", "conv=notrunc"];
    let output = seeklab(&[&["capture", path, "-o", trace, "--json", "--"], &dd[..]].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("No space left on device"), "{errors}");
    let result = document(&output);
    assert!(result["writes"].as_u64() >= Some(10), "{result}");
    assert_eq!(result["command_exit_code"], 0);
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn capture_ends_after_its_duration() {
    let Some(device) = LoopDevice::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("seen.parquet");
    let (path, trace) = (device.path.to_str().unwrap(), trace.to_str().unwrap());
    let output = seeklab(&["capture", path, "-o", trace, "--json", "--duration", "150ms"]);
    let result = document(&output);
    assert!(result["elapsed_s"].as_f64().unwrap() >= 0.15, "{result}");
    assert_eq!(result["command_exit_code"], serde_json::Value::Null);
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn writes_of_the_recorder_to_the_captured_device_are_marked() {
    let Some(device) = LoopDevice::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("mkfs.ext4").arg("-q").arg(&device.path).status();
    let mounted = Command::new("mount").arg(&device.path).arg(folder.path()).status();
    if !made.is_ok_and(|status| status.success()) || !mounted.is_ok_and(|status| status.success()) {
        return println!("skipped: no file system can be mounted here");
    }
    let path = device.path.to_str().unwrap();
    let trace = folder.path().join("seen.csv");
    // Twenty thousand requests are more than a mebibyte of rows.
    let filename = format!("--filename={}/load", folder.path().display());
    let fio = ["fio", "--name=a", &filename, "--rw=randread", "--bs=4k", "--direct=1", "--size=4m"];
    let load = [&fio[..], &["--io_size=80m", "--ioengine=psync"]].concat();
    let output =
        seeklab(&[&["capture", path, "-o", trace.to_str().unwrap(), "--json", "--"], &load[..]].concat());
    let report = seeklab(&["trace", "report", trace.to_str().unwrap(), "--json"]);
    let unmounted = Command::new("umount").arg(folder.path()).status();
    assert!(unmounted.unwrap().success());
    if String::from_utf8_lossy(&output.stderr).contains("there is no program `fio`") {
        return println!("skipped: fio is not installed");
    }
    let result = document(&output);
    assert!(String::from_utf8_lossy(&output.stderr).contains("lies on the captured device"));
    let own = result["recorder_requests"].as_u64().unwrap();
    assert!(own > 0, "{result}");
    assert_eq!(result["requests"].as_u64().unwrap() + own, result["rows"].as_u64().unwrap());
    assert_eq!(document(&report)["summary"]["requests"], result["requests"], "no figure counts them");
}

#[test]
fn capture_refuses_unsuitable_devices_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("seen.parquet");
    let flag = folder.path().join("started");
    let output = seeklab(&[
        "capture",
        "/dev/null",
        "-o",
        trace.to_str().unwrap(),
        "--",
        "touch",
        flag.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("`/dev/null` is no block device"));
    let output = seeklab(&["capture", "/dev/null", "-o", trace.to_str().unwrap(), "--", "no-such-program"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no program `no-such-program`"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// A loop device with a mounted ext4 file system.
struct FileSystem {
    device: LoopDevice,
    folder: tempfile::TempDir,
}

impl FileSystem {
    fn new(kind: &str) -> Option<Self> {
        Self::on(LoopDevice::new()?, kind)
    }

    fn on(device: LoopDevice, kind: &str) -> Option<Self> {
        let made = Command::new(format!("mkfs.{kind}")).args(["-q", "-b", "4096"]).arg(&device.path).status();
        if !made.is_ok_and(|status| status.success()) {
            println!("skipped: no mkfs.{kind} here");
            return None;
        }
        let this = Self { device, folder: tempfile::tempdir().unwrap() };
        this.mount().then_some(this)
    }

    fn mount(&self) -> bool {
        let status = Command::new("mount").arg(&self.device.path).arg(self.folder.path()).status();
        status.is_ok_and(|status| status.success())
    }

    /// A folder with 40 files of 12,000 bytes, none of which is cached.
    fn cold_files(&self) -> PathBuf {
        let folder = self.folder.path().join("a");
        std::fs::create_dir(&folder).unwrap();
        for file in 0..40 {
            std::fs::write(folder.join(format!("{file}")), vec![file; 12_000]).unwrap();
        }
        self.cool();
        folder
    }

    /// Takes everything out of the page cache.
    fn cool(&self) {
        assert!(Command::new("umount").arg(self.folder.path()).status().unwrap().success());
        assert!(self.mount());
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.folder.path()).status();
    }
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn time_of_a_copy_is_divided_completely() {
    let Some(file_system) = FileSystem::new("ext4") else { return };
    let source = file_system.cold_files();
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("copy.sys");
    let (device, trace) = (file_system.device.path.to_str().unwrap(), trace.to_str().unwrap());
    let copy = format!("cp -r {0} {0}.copy && sync {0}.copy/1", source.display());
    let output = seeklab(&["capture", "--system", device, "-o", trace, "--json", "--", "sh", "-c", &copy]);
    let result = document(&output);
    assert!(output.status.success(), "{result}: {}", String::from_utf8_lossy(&output.stderr));
    let info = document(&seeklab(&["trace", "info", trace, "--json"]));
    assert_eq!(info["traces"][0], result["trace"]);
    for (schema, document) in [("capture-system", &result), ("trace-info-system", &info)] {
        let schema = serde_json::from_slice(&seeklab(&["schema", schema]).stdout).unwrap();
        let differences = differences(&schema, document);
        assert!(differences.is_empty(), "{differences:#?}");
    }
    let trace_info = &result["trace"];
    assert_eq!(trace_info["lost_events"], 0);
    assert!(trace_info["unknown_pct"].as_f64().is_some_and(|pct| pct <= 1.0), "{trace_info}");
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let sum = |process: &serde_json::Value| -> f64 {
        let waits: f64 = process["waits"].as_object().unwrap().values().map(&number).sum();
        waits
            + ["computing_s", "recording_s", "interrupted_s", "ready_s"]
                .iter()
                .map(|key| number(&process[*key]))
                .sum::<f64>()
    };
    let processes = trace_info["processes"].as_array().unwrap();
    for process in processes {
        assert!((sum(process) - number(&process["elapsed_s"])).abs() < 1e-6, "{process}");
        assert_eq!(process["has_ended"], true);
    }
    let named = |name: &str| processes.iter().find(|process| process["name"] == name).unwrap();
    // Every file and folder was cold.
    assert!(number(&named("cp")["waits"]["data_read_s"]) > 0.0, "{trace_info}");
    assert!(number(&named("cp")["waits"]["metadata_read_s"]) > 0.0, "{trace_info}");
    let sync = &named("sync")["waits"];
    assert!(number(&sync["flush_s"]) + number(&sync["journal_s"]) > 0.0, "{trace_info}");
    // The shell waits for its children.
    assert!(number(&named("sh")["waits"]["process_s"]) > 0.0, "{trace_info}");
    let task = &trace_info["task"];
    let computed =
        ["computing_s", "recording_s", "interrupted_s"].iter().map(|key| number(&task[*key])).sum::<f64>();
    // On a busy machine the kernel leaves out switches, so that other threads' time may be counted. What a hypervisor takes is in the
    // computing times, and not in those of getrusage.
    let counted = number(&result["command_cpu_s"]);
    let allowed = 0.005 + 0.2 * counted + trace_info["stolen_s"].as_f64().unwrap();
    assert!((computed - counted).abs() < allowed, "{computed} s, and {counted} s by getrusage: {trace_info}");
    for cpu in trace_info["cpus"].as_array().unwrap() {
        let keys = [
            "task_s",
            "kernel_s",
            "emulator_s",
            "recorder_s",
            "other_s",
            "interrupt_s",
            "idle_s",
            "unknown_s",
        ];
        let sum: f64 = keys.iter().map(|key| number(&cpu[*key])).sum();
        assert!((sum - number(&trace_info["elapsed_s"])).abs() < 1e-6, "{cpu}");
    }
    // The requests are a canonical trace.
    let requests = format!("{trace}/requests.parquet");
    let requests = document(&seeklab(&["trace", "info", &requests, "--json"]));
    assert_eq!(requests["traces"][0]["requests"], trace_info["requests"]);
    assert!(requests["traces"][0]["reads"].as_u64().unwrap() >= 40);
    assert!(requests["traces"][0]["writes"].as_u64().unwrap() >= 1);
}

/// Major and minor version of the kernel that runs.
fn linux_version() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, loop devices, tracefs and Linux 6.5")]
fn prediction_begins_with_what_is_dirty_and_in_memory() {
    let Some(file_system) = FileSystem::new("ext4") else { return };
    let path = |name: &str| file_system.folder.path().join(name);
    let sizes = [("read", 1 << 20), ("dirty", 3 << 20)];
    sizes.iter().for_each(|(name, size)| std::fs::write(path(name), vec![7; *size]).unwrap());
    file_system.cool();
    // A third is read, and a third of the other is changed and not written.
    std::fs::File::open(path("read")).unwrap().take(4096).read_to_end(&mut Vec::new()).unwrap();
    let mut dirty = std::fs::OpenOptions::new().write(true).open(path("dirty")).unwrap();
    dirty.write_all(&vec![8; 1 << 20]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (device, trace) = (file_system.device.path.to_str().unwrap(), folder.path().join("start.sys"));
    let trace = trace.to_str().unwrap();
    let output = seeklab(&["capture", "--system", device, "-o", trace, "--json", "--", "sleep", "0.01"]);
    let result = document(&output);
    assert!(output.status.success(), "{result}: {}", String::from_utf8_lossy(&output.stderr));
    let info = &result["trace"];
    let Some(cached) = info["cached_at_start_bytes"].as_u64() else {
        assert!(linux_version() < (6, 5), "this kernel has cachestat: {info}");
        return println!("skipped: this kernel has no cachestat");
    };
    assert!(info["open_files"].as_u64() >= Some(1), "{info}");
    let dirtied = info["dirty_at_start_bytes"].as_u64().unwrap();
    // Beside the data, some metadata is dirty.
    assert!((1 << 20..1 << 20 | 1 << 18).contains(&dirtied), "{info}");
    assert!(cached > dirtied + 4096, "{info}");
    // The command reads and writes nothing, and yet the model writes what was dirty.
    let simulated = document(&seeklab(&["simulate", "cheetah-36es", "--workload", trace, "--json"]));
    let device = &simulated["devices"][0];
    let written = device["written_bytes"].as_u64().unwrap();
    assert!((1 << 20..=dirtied).contains(&written), "{device}");
    assert_eq!(device["reads"], 0, "{device}");
}

/// Operation, address and length of the requests of a CSV trace that are longer than `blocks`, sorted.
fn long_requests(trace: &Path, blocks: u64) -> Vec<(String, u64, u64)> {
    let text = std::fs::read_to_string(trace).unwrap();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let place = |name| names.iter().position(|column| *column == name).unwrap();
    let (op, lbn, length) = (place("op"), place("lbn"), place("blocks"));
    let request = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        (cells[op].to_owned(), cells[lbn].parse().unwrap(), cells[length].parse().unwrap())
    };
    let mut requests: Vec<(String, u64, u64)> = lines.map(request).filter(|row| row.2 > blocks).collect();
    requests.sort();
    requests
}

/// Requests that are longer than 16 blocks.
struct Predicted {
    measured: Vec<(String, u64, u64)>,
    predicted: Vec<(String, u64, u64)>,
    /// The document of the recording.
    result: serde_json::Value,
}

/// Records a shell's commands on a cold ext2 whose file `a` has 1 MiB, and predicts them. `FOLDER` in the commands is the place of the
/// file system.
fn predicted(commands: &str) -> Option<Predicted> {
    let file_system = FileSystem::new("ext2")?;
    std::fs::write(file_system.folder.path().join("a"), vec![7; 1 << 20]).unwrap();
    file_system.cool();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (device, trace) = (file_system.device.path.to_str().unwrap(), path("t.sys"));
    let commands = commands.replace("FOLDER", file_system.folder.path().to_str().unwrap());
    let output =
        seeklab(&["capture", "--system", device, "-o", &trace, "--json", "--", "sh", "-ec", &commands]);
    let result = document(&output);
    assert!(output.status.success(), "{result}: {}", String::from_utf8_lossy(&output.stderr));
    let (measured, predicted) = (path("measured.csv"), path("predicted.csv"));
    let requests = format!("{trace}/requests.parquet");
    assert!(seeklab(&["trace", "convert", &requests, &measured]).status.success());
    let simulated = seeklab(&["simulate", "cheetah-36es", "--workload", &trace, "--out", &predicted]);
    assert!(simulated.status.success(), "{}", String::from_utf8_lossy(&simulated.stderr));
    let [measured, predicted] = [measured, predicted].map(|trace| long_requests(trace.as_ref(), 16));
    Some(Predicted { measured, predicted, result })
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn transfers_past_the_page_cache_are_predicted_with_their_places() {
    // The same is read twice, so a page cache would hide half of it. Half of what was read is written over.
    let read = "dd if=FOLDER/a of=/dev/null bs=64k iflag=direct status=none";
    let write = "dd if=/dev/zero of=FOLDER/a bs=64k count=8 seek=4 oflag=direct conv=notrunc status=none";
    let Some(Predicted { measured, predicted, result }) = predicted(&format!("{read}; {read}; {write}"))
    else {
        return;
    };
    // Other programs of the machine may make some, too.
    assert!(result["trace"]["events_by_kind"]["direct"].as_u64() >= Some(16 + 16 + 8), "{result}");
    let waits = &result["trace"]["task"]["waits"];
    assert!(waits["data_read_s"].as_f64() > Some(0.0), "{waits}");
    // Metadata of some blocks that follow each other may be written, too. ext2 reads the addresses of the blocks behind the
    // twelfth when they are first needed, and cuts the transfer there. The model knows all addresses.
    assert!(measured.len() >= 40 && predicted.len() == 40, "{measured:?}, {predicted:?}");
    let pages = |requests: &[(String, u64, u64)]| {
        let of = |(op, lbn, blocks): &(String, u64, u64)| {
            (*lbn..lbn + blocks).step_by(8).map(|page| (op.clone(), page)).collect::<Vec<_>>()
        };
        let mut pages: Vec<(String, u64)> = requests.iter().flat_map(of).collect();
        pages.sort();
        pages
    };
    assert_eq!(pages(&predicted), pages(&measured));
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn writes_by_copied_descriptors_and_mapped_pages_are_predicted_with_their_places() {
    // dd opens with O_DSYNC, copies the descriptor to 1 and closes the first one.
    let write = "dd if=/dev/zero of=FOLDER/b bs=64k count=8 oflag=dsync status=none";
    // In three parts of a mapped file, four pages change.
    let change = "python3 -c \"
import mmap
with open('FOLDER/a', 'r+b') as file:
    pages = mmap.mmap(file.fileno(), 0)
    for part in (3, 8, 13):
        for page in range(4): pages[part * 65536 + page * 4096] = 1
    pages.flush()\"";
    let Some(Predicted { mut measured, mut predicted, result }) = predicted(&format!("{write}; {change}"))
    else {
        return;
    };
    // Eight writes, and the flush of the mapped pages.
    assert!(result["trace"]["events_by_kind"]["file_sync"].as_u64() >= Some(9), "{result}");
    // Before the first data lies the metadata of the file system.
    for requests in [&mut measured, &mut predicted] {
        requests.retain(|(op, lbn, _)| op == "write" && *lbn >= 1024);
    }
    let lengths: Vec<u64> = predicted.iter().map(|(.., blocks)| *blocks).collect();
    let of = |length| lengths.iter().filter(|blocks| **blocks == length).count();
    assert_eq!((of(128), of(32)), (8, 3), "{predicted:?}");
    assert_eq!(predicted, measured);
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn killed_system_capture_leaves_a_recording_of_which_a_trace_is_made() {
    let Some(file_system) = FileSystem::new("ext4") else { return };
    let source = file_system.cold_files();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (trace, part, copied) = (at("copy.sys"), at("copy.sys.part"), at("copied"));
    let device = file_system.device.path.to_str().unwrap();
    // The command goes on after the recorder, until this test lets go of its input.
    let line =
        format!("cp -r {0} {0}.copy && sync {0}.copy/1 && : > {copied} && read line", source.display());
    let arguments = ["capture", "--system", device, "-o", &trace, "--quiet", "--", "sh", "-c", &line];
    let mut capture = Command::new(env!("CARGO_BIN_EXE_seeklab"))
        .args(arguments)
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let input = capture.stdin.take();
    let has_reads = || {
        let converted = seeklab(&["trace", "convert", &part, &at("early.sys"), "--json"]);
        converted.status.success() && document(&converted)["requests"].as_u64() >= Some(40)
    };
    for turn in 0.. {
        if Path::new(&copied).exists() && has_reads() {
            break;
        }
        assert!(turn < 2_400 && capture.try_wait().unwrap().is_none(), "the capture does not get there");
        std::thread::park_timeout(std::time::Duration::from_millis(50));
    }
    capture.kill().unwrap();
    capture.wait().unwrap();
    drop(input);
    let refused = seeklab(&["capture", "--system", device, "-o", &trace, "--", "true"]);
    let problem = String::from_utf8_lossy(&refused.stderr).into_owned();
    let advice = format!("`seeklab trace convert {part} {trace}`");
    assert!(refused.status.code() == Some(2) && problem.contains(&advice), "{problem}");
    let problem = String::from_utf8(seeklab(&["trace", "info", &part]).stderr).unwrap();
    assert!(problem.contains("`seeklab trace convert` makes a trace of it"), "{problem}");
    // Bytes behind the last whole frame are what an interrupted write leaves.
    let whole = std::fs::read(&part).unwrap();
    std::fs::write(&part, [&whole[..], &[2, 0, 0, 0, 0, 16]].concat()).unwrap();
    let converted = seeklab(&["trace", "convert", &part, &trace, "--json"]);
    assert!(converted.status.success(), "{}", String::from_utf8_lossy(&converted.stderr));
    let notes = document(&converted)["notes"].to_string();
    assert!(notes.contains("the recorder was killed") && notes.contains("6 bytes at the end"), "{notes}");
    let info = document(&seeklab(&["trace", "info", &trace, "--json"]));
    let info = &info["traces"][0];
    assert!(info["notes"].to_string().contains("the trace ends before the command"), "{info}");
    assert_eq!(info["lost_events"], 0);
    let metadata = std::fs::read(Path::new(&trace).join("system.json")).unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&metadata).unwrap();
    let cpus = std::thread::available_parallelism().unwrap().get();
    assert_eq!(metadata["task_cpus"].as_array().map(Vec::len), Some(cpus), "{metadata}");
    let processes = info["processes"].as_array().unwrap();
    let named = |name: &str| processes.iter().find(|process| process["name"] == name).unwrap();
    assert_eq!(
        (&named("cp")["has_ended"], &named("sh")["has_ended"]),
        (&true.into(), &false.into()),
        "{info}"
    );
    assert!(named("cp")["waits"]["data_read_s"].as_f64() > Some(0.0), "{info}");
    let predicted = seeklab(&["simulate", "immediate", "--workload", &trace]);
    let page = String::from_utf8_lossy(&predicted.stdout).into_owned();
    let errors = String::from_utf8_lossy(&predicted.stderr).into_owned();
    assert!((page.clone() + &errors).contains("prediction ends where the trace does"), "{page}{errors}");
    // What is cut anywhere is an error or a shorter trace.
    for share in [1, 3, 10, 50, 90, 99] {
        std::fs::write(&part, &whole[..whole.len() * share / 100]).unwrap();
        let cut = seeklab(&["trace", "convert", &part, &at("cut.sys")]);
        assert!(
            matches!(cut.status.code(), Some(0 | 2)),
            "{share}: {}",
            String::from_utf8_lossy(&cut.stderr)
        );
    }
    let mut left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.retain(|name| {
        !["copy.sys", "copy.sys.part", "copied", "early.sys", "cut.sys"].contains(&name.to_str().unwrap())
    });
    assert!(left.is_empty(), "{left:?}");
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn system_capture_onto_its_own_device_marks_its_requests() {
    let Some(file_system) = FileSystem::new("ext4") else { return };
    let trace = file_system.folder.path().join("t.sys");
    let (device, trace) = (file_system.device.path.to_str().unwrap(), trace.to_str().unwrap());
    // The journal and the recording are written with the file.
    let line = format!("echo a > {0}/a && sync {0}/a", file_system.folder.path().display());
    let output = seeklab(&["capture", "--system", device, "-o", trace, "--", "sh", "-c", &line]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && errors.contains("lies on the recorded device"), "{errors}");
    let requests = Path::new(trace).join("requests.parquet");
    let opened = seeklab_columnar::open(&requests, None, &seeklab_traces::ReadOptions::default()).unwrap();
    let recorder = opened.metadata().other.get(seeklab_traces::recorder::KEY).cloned();
    assert!(recorder.is_some_and(|number| number.parse::<u32>().is_ok_and(|number| number > 1)));
    drop(opened);
    assert!(seeklab(&["trace", "info", trace]).status.success());
}

/// A small file system in memory, on which a device gets full.
struct FullMemory(tempfile::TempDir);

impl FullMemory {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=12m", "none"];
        let mounted = Command::new("mount").args(mount).arg(folder.path()).status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(folder))
    }
}

impl Drop for FullMemory {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["--lazy"]).arg(self.0.path()).status();
    }
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn recording_is_kept_although_the_device_fails_at_its_end() {
    let Some(memory) = FullMemory::new() else { return println!("skipped: no tmpfs can be mounted here") };
    let image = tempfile::NamedTempFile::new_in(memory.0.path()).unwrap();
    let Some(device) = LoopDevice::over(image, 64 << 20) else { return };
    let Some(file_system) = FileSystem::on(device, "ext4") else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.sys");
    let (device, trace) = (file_system.device.path.to_str().unwrap(), trace.to_str().unwrap());
    // The page cache takes it, and the device does not.
    let written = format!("of={}/large", file_system.folder.path().display());
    let command = ["dd", "if=/dev/zero", &written, "bs=1M", "count=30", "status=none"];
    let arguments = ["capture", "--system", device, "-o", trace, "--json", "--"];
    let output = seeklab(&[&arguments[..], &command].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(
        errors.contains("not all on the device") && errors.contains("complete up to this failure"),
        "{errors}"
    );
    assert_eq!(document(&output)["command_exit_code"], 0);
    let info = document(&seeklab(&["trace", "info", trace, "--json"]));
    assert_eq!(info["traces"][0]["processes"][0]["name"], "dd", "{info}");
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, loop devices and tracefs")]
fn system_capture_refuses_what_it_cannot_record() {
    let Some(device) = LoopDevice::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.sys");
    let (path, trace) = (device.path.to_str().unwrap(), trace.to_str().unwrap());
    let refused = |arguments: &[&str]| {
        let output = seeklab(&[&["capture", "--system"], arguments].concat());
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let error = refused(&[path, "-o", trace, "--", "true"]);
    assert!(error.contains("no file system of") && error.contains("hint: mount"), "{error}");
    let error = refused(&[path, "-o", trace]);
    assert!(error.contains("COMMAND"), "{error}");
    std::fs::create_dir(trace).unwrap();
    std::fs::write(Path::new(trace).join("mine"), "").unwrap();
    let error = refused(&[path, "-o", trace, "--", "true"]);
    assert!(error.contains("no system-level trace"), "{error}");
    assert!(Path::new(trace).join("mine").exists());
}
