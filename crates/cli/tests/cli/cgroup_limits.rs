//! A limit of this machine's kernel: `blkio.throttle` of a control group (version 1), on the disk beneath a loop device.
//!
//! Needs root, the controller, fio, a loop device and tracefs; without them, the test prints a note.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn seeklab(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_seeklab")).args(arguments).current_dir(folder).output().unwrap()
}

/// A control group that limits the reads of the disk beneath a loop device; both are gone when this is dropped.
struct Limited {
    folder: tempfile::TempDir,
    group: PathBuf,
    device: Option<String>,
}

impl Limited {
    /// `None` with a line where something is missing.
    fn start(reads_per_s: u32) -> Option<Self> {
        let controller = Path::new("/sys/fs/cgroup/blkio");
        if !Path::new("/sys/kernel/tracing/events/block").is_dir()
            || !controller.join("blkio.throttle.read_iops_device").exists()
        {
            println!("skipped: tracefs and the controller blkio (version 1) are needed");
            return None;
        }
        if Command::new("fio").arg("--version").output().is_err() {
            println!("skipped: fio is not installed");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let group = controller.join(format!("seeklab-test-{}", std::process::id()));
        let disk = folder.path().join("disk");
        std::fs::write(&disk, vec![0xa5; 64 << 20]).unwrap();
        std::fs::File::open(&disk).unwrap().sync_all().unwrap();
        let number = Command::new("stat").args(["--format", "%Hd:%Ld"]).arg(&disk).output().unwrap().stdout;
        let line = format!("{} {reads_per_s}", String::from_utf8(number).unwrap().trim());
        let mut this = Self { folder, group, device: None };
        let is_made = std::fs::create_dir(&this.group).is_ok()
            && std::fs::write(this.group.join("blkio.throttle.read_iops_device"), line).is_ok();
        let looped = Command::new("losetup").args(["--find", "--show", "--direct-io=on"]).arg(&disk).output();
        match looped.ok().filter(|looped| is_made && looped.status.success()) {
            Some(looped) => this.device = Some(String::from_utf8(looped.stdout).unwrap().trim().to_owned()),
            None => {
                println!(
                    "skipped: no control group, no limit on the disk of temporary files, or no loop device"
                );
                return None;
            }
        }
        Some(this)
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        if let Some(device) = &self.device {
            let _ = Command::new("losetup").args(["--detach", device]).status();
        }
        let _ = std::fs::remove_dir(&self.group);
    }
}

#[test]
fn fit_finds_the_limit_of_a_control_group_with_its_interval() {
    let Some(limited) = Limited::start(600) else { return };
    let device = limited.device.clone().unwrap();
    let fio = format!(
        "fio --name=x --filename={device} --direct=1 --ioengine=libaio --bs=4k --rw=randread --time_based --randrepeat=0 --minimal"
    );
    let group = limited.group.join("cgroup.procs");
    let script = format!(
        "echo $$ > {} && {fio} --iodepth=16 --runtime=6 && {fio} --iodepth=4 --runtime=6",
        group.display()
    );
    let at = limited.folder.path();
    // A busy machine may keep fio from asking for more than the limit: one of three captures has to show it.
    let is_found = (0..3).any(|number| {
        let trace = format!("seen{number}.parquet");
        let captured = seeklab(at, &["capture", &device, "-o", &trace, "--json", "--", "sh", "-c", &script]);
        assert!(captured.status.success(), "{}", String::from_utf8_lossy(&captured.stderr));
        let fitted = seeklab(at, &["fit", &trace, "-o", &format!("clone{number}.toml"), "--json"]);
        let document: Value = serde_json::from_slice(&fitted.stdout).unwrap();
        let limits = document["fit"]["limits"].as_array().unwrap();
        println!("{limits:?}");
        let [limit] = &limits[..] else { return false };
        let figure = |key: &str| limit[key].as_f64().unwrap();
        let portion = figure("rate_per_s") * figure("interval_ms") / 1e3;
        // The kernel's interval: 100 ms, or 20 in some kernels if the disk does not rotate.
        let is_interval = [20.0, 100.0].iter().any(|ms| (figure("interval_ms") / ms - 1.0).abs() < 0.03);
        limit["counts"] == "requests"
            && (figure("rate_per_s") / 600.0 - 1.0).abs() < 0.03
            && is_interval
            && (figure("burst") - portion).abs() <= 2.0
    });
    assert!(is_found);
}
