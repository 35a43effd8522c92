//! Rate and burst limits imposed by other software: every form of output of `seeklab fit` reports them, and
//! none is found where there is no limit.
//!
//! QEMU's throttle needs qemu-storage-daemon, fio, root, FUSE, a loop device and tracefs. Without them, the
//! test prints a note.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use seeklab_learning::fit::Fit;
use seeklab_learning::station::StationFit;
use seeklab_traces::{ReadOptions, Rows};
use serde_json::Value;

use super::shared_trace;

fn seeklab(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_seeklab")).args(arguments).current_dir(folder).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&text(&seeklab(folder, &[arguments, &["--json"]].concat()))).unwrap()
}

fn near(value: &Value, expected: f64, share: f64) {
    let value = value.as_f64().unwrap();
    assert!((value / expected - 1.0).abs() <= share, "{value}, {expected} expected");
}

const VOLUME: &str = r#"
kind = "limit"
[[requests]]
rate = "500/s"
burst = 3000
[device]
kind = "exponential"
capacity_blocks = 2097152
block_size = "512B"
service_time = "0.2ms"
"#;

/// Clients that share one processor, 20 us for each request, behind a limit of 60 requests in each 100 ms.
fn clients_behind_portions(count: usize, requests: u64) -> String {
    let mut ready: BinaryHeap<Reverse<u64>> = (0..count).map(|_| Reverse(0)).collect();
    let (mut now, mut draw) = (0, 1_u64);
    let mut text = "arrival_ns,completion_ns,device,op,lbn,blocks\n".to_owned();
    for index in 0..requests {
        let Reverse(since) = ready.pop().unwrap();
        now = now.max(since) + 20_000;
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let completion = now.max(index / 60 * 100_000_000) + 20_000 + (draw >> 33) % 200_000;
        ready.push(Reverse(completion));
        text += &format!("{now},{completion},0,read,{},8\n", (draw >> 20) % 1_000_000 * 8);
    }
    text
}

#[test]
fn clone_of_a_limit_in_portions_holds_up_as_many_clients_as_the_device() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("seen.csv"), clients_behind_portions(8, 12_000)).unwrap();
    let document = json(folder.path(), &["fit", "seen.csv", "-o", "clone.toml", "--model", "station"]);
    let limits = document["fit"]["limits"].as_array().unwrap();
    assert_eq!(limits.len(), 1, "{limits:?}");
    let [evaluation] = &document["fit"]["evaluations"].as_array().unwrap()[..] else { panic!("one model") };
    let [reads] = &evaluation["operations"].as_array().unwrap()[..] else { panic!("reads") };
    assert!(reads["mean_error_pct"].as_f64().unwrap().abs() < 5.0, "{reads}");
    assert!(reads["p99_error_pct"].as_f64().unwrap().abs() < 5.0, "{reads}");
    assert_eq!(reads["verdict"], "usable", "{reads}");
    let queues = evaluation["classes"].as_array().unwrap().iter();
    for of in queues.filter(|of| of["requests_pct"].as_f64().unwrap() > 10.0) {
        assert!(of["mean_error_pct"].as_f64().unwrap().abs() < 25.0, "{of}");
    }
}

#[test]
fn every_form_of_output_reports_the_limit_of_a_volume() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("volume.toml"), VOLUME).unwrap();
    let load = ["-w", "random,size=4KiB", "--closed", "8", "--requests", "12000"];
    text(&seeklab(at, &[&["simulate", "volume.toml", "--out", "seen.parquet"][..], &load].concat()));
    let fit = ["fit", "seen.parquet", "-o", "clone.toml", "--report", "fit.html"];
    let document = json(at, &fit);
    let limits = document["fit"]["limits"].as_array().unwrap();
    assert_eq!((limits.len(), &limits[0]["counts"]), (1, &"requests".into()), "{limits:?}");
    near(&limits[0]["rate_per_s"], 500.0, 0.01);
    near(&limits[0]["burst"], 3_000.0, 0.02);
    let printed = text(&seeklab(at, &fit));
    assert!(printed.contains("limit: ") && printed.contains("requests/s, "), "{printed}");
    assert!(std::fs::read_to_string(at.join("fit.html")).unwrap().contains("limit: "));
    let shown = text(&seeklab(at, &["devices", "clone.toml"]));
    assert!(shown.contains("limit of") && shown.contains("requests of all"), "{shown}");
    let fitted = &json(at, &["devices", "clone.toml"])["fitted_model"];
    near(&fitted["limits"][0]["rate_per_s"], 500.0, 0.01);
    assert!(fitted["services"].as_array().is_some_and(|rows| !rows.is_empty()), "{fitted}");
    // Everything takes it: beyond the burst, the clone does what the volume does.
    let mean = |device: &str| {
        let other = ["simulate", device, "-w", "random,size=4KiB", "--closed", "2", "--requests", "9000"];
        json(at, &other)["devices"][0]["response_mean_ms"].as_f64().unwrap()
    };
    let (ours, theirs) = (mean("clone.toml"), mean("volume.toml"));
    assert!((ours / theirs - 1.0).abs() < 0.03, "{ours} ms, {theirs} of the volume");
    let without = json(at, &[&fit[..], &["--no-limits"]].concat());
    assert_eq!(without["fit"]["limits"], Value::Array(Vec::new()));
    // The first part has the burst alone, so its model cannot judge the clone.
    let early = ["fit", "seen.parquet", "-o", "early.toml", "--split", "1%", "--require", "mean_pct<=1000"];
    let run = seeklab(at, &early);
    let printed = String::from_utf8_lossy(&run.stdout);
    assert!(printed.contains("The clone is not judged"), "{printed}");
    assert_eq!(run.status.code(), Some(1), "{printed}");
    assert!(String::from_utf8_lossy(&run.stderr).contains("unknown"));
    let described = std::fs::read_to_string(at.join("early.toml")).unwrap();
    assert!(described.contains("not judged: its limit shows in the whole trace only"), "{described}");
}

/// The limits that a trace shows, device by device, and its requests with response times.
fn limits_of(path: &Path) -> (Vec<String>, u64) {
    let mut trace = seeklab_columnar::open(path, None, &ReadOptions::default()).unwrap();
    let block_size = trace.metadata().block_size;
    let mut fits: BTreeMap<u16, StationFit> = BTreeMap::new();
    loop {
        let Rows { records, .. } = trace.next_rows().unwrap();
        if records.is_empty() {
            break;
        }
        records.iter().for_each(|record| fits.entry(record.device).or_default().record(record));
    }
    let summaries = fits.values().flat_map(|fit| fit.limit_summaries(block_size).unwrap());
    (
        summaries.map(|limit| limit.to_string()).collect(),
        fits.values().map(|fit| fit.summary().requests).sum(),
    )
}

#[test]
#[cfg_attr(not(shared_traces), ignore = "needs ../shared/traces")]
fn no_limit_is_found_in_traces_of_devices_without_limits() {
    let mut seen = 0;
    for name in [
        "hpl-srt-ajw/ajw.1week.srt.zst",
        "pgbench-loop/pgbench.biosnoop.txt.zst",
        "pgbench-loop/pgbench.ftrace.zst",
        "opencas-ycsb-rocksdb-optane/ycsb_a_rocksdb.csv.zst",
        "wpa-win11-boot/diskio.part1.csv.zst",
        "blktrace-hadoop-node8/sdb.blktrace.tar.zst",
        "blktrace-sample-bsd/sample.blktrace.0.zst",
        "disksim-validate/atlas10k.trace.zst",
        "disksim-validate/barracuda.trace.zst",
        "disksim-validate/cheetah9LP.trace.zst",
        "disksim-validate/dec_rz26.trace.zst",
        "disksim-validate/hp_c2247a.trace.zst",
        "disksim-validate/hp_c2490a.trace.zst",
    ] {
        let path = shared_trace(name);
        let (limits, requests) = limits_of(&path);
        assert!(requests > 0, "{name} has no response times");
        assert!(limits.is_empty(), "{name}: {limits:?}");
        seen += 1;
    }
    println!("{seen} traces");
}

/// QEMU's throttle before a file, as a loop device; gone when this is dropped.
struct Throttled {
    folder: tempfile::TempDir,
    daemon: Child,
    device: Option<String>,
}

impl Throttled {
    /// `None` with a line where something is missing.
    fn start(throttle: &str) -> Option<Self> {
        if !Path::new("/sys/kernel/tracing/events/block").is_dir() || !Path::new("/dev/fuse").exists() {
            println!("skipped: tracefs and FUSE are needed");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        // QEMU answers zeroes without asking anybody.
        std::fs::write(at("base"), vec![0xa5; 64 << 20]).unwrap();
        std::fs::write(at("volume"), []).unwrap();
        let daemon = Command::new("qemu-storage-daemon")
            .args(["--object", &format!("throttle-group,id=group,{throttle}")])
            .args(["--blockdev", &format!("driver=file,filename={},node-name=file", at("base"))])
            .args(["--blockdev", "driver=throttle,throttle-group=group,file=file,node-name=throttled"])
            .args([
                "--export",
                &format!("type=fuse,id=out,node-name=throttled,mountpoint={},writable=on", at("volume")),
            ])
            .stderr(Stdio::null())
            .spawn();
        let Ok(daemon) = daemon else {
            println!("skipped: qemu-storage-daemon is not installed");
            return None;
        };
        let mut this = Self { folder, daemon, device: None };
        let volume = this.path("volume");
        for _ in 0..200 {
            if std::fs::metadata(&volume).is_ok_and(|metadata| metadata.len() == 64 << 20) {
                let looped = Command::new("losetup")
                    .args(["--find", "--show", "--direct-io=on"])
                    .arg(&volume)
                    .output();
                let looped = looped.ok().filter(|output| output.status.success());
                this.device =
                    looped.map(|output| String::from_utf8(output.stdout).unwrap().trim().to_owned());
                break;
            }
            if this.daemon.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(50));
        }
        if this.device.is_none() {
            println!("skipped: QEMU cannot export over FUSE here, or there is no loop device");
            return None;
        }
        Some(this)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Throttled {
    fn drop(&mut self) {
        if let Some(device) = &self.device {
            let _ = Command::new("losetup").args(["--detach", device]).status();
        }
        // It unmounts its export as it ends; if it does not, what is mounted there goes when nobody uses it.
        let _ = kill_process(Pid::from_child(&self.daemon), Signal::TERM);
        let _ = self.daemon.wait();
        let _ = Command::new("umount")
            .args(["--quiet", "--lazy"])
            .arg(self.path("volume"))
            .stderr(Stdio::null())
            .status();
    }
}

#[test]
fn fit_finds_the_limits_set_in_the_throttle_of_qemu() {
    let Some(throttled) = Throttled::start("x-iops-total=1000,x-iops-total-max=5000") else { return };
    let device = throttled.device.clone().unwrap();
    // A pause that fills the bucket, a burst and what comes after, a pause, and the same with fewer outstanding.
    let fio = format!(
        "fio --name=x --filename={device} --direct=1 --ioengine=libaio --bs=4k --rw=randread --time_based --randrepeat=0 \
         --minimal"
    );
    let script =
        format!("sleep 6 && {fio} --iodepth=16 --runtime=6 && sleep 4 && {fio} --iodepth=4 --runtime=7");
    let has_fio = Command::new("fio").arg("--version").output().is_ok();
    if !has_fio {
        return println!("skipped: fio is not installed");
    }
    // On a busy machine fio may not reach the rate of the burst: one of three captures has to show the limit.
    let is_found = (0..3).any(|number| {
        let trace = format!("seen{number}.parquet");
        let captured = seeklab(
            throttled.folder.path(),
            &["capture", &device, "-o", &trace, "--json", "--", "sh", "-c", &script],
        );
        text(&captured);
        let (limits, requests) = limits_of(&throttled.path(&trace));
        println!("{requests} requests: {limits:?}");
        let document = json(throttled.folder.path(), &["fit", &trace, "-o", &format!("clone{number}.toml")]);
        let limits = document["fit"]["limits"].as_array().unwrap();
        println!("{limits:?}");
        let is_near = |key: &str, expected: f64, share: f64| {
            limits[0][key].as_f64().is_some_and(|found| (found / expected - 1.0).abs() < share)
        };
        limits.len() == 1
            && limits[0]["counts"] == "requests"
            && is_near("rate_per_s", 1_000.0, 0.02)
            && is_near("burst", 5_000.0, 0.05)
    });
    assert!(is_found);
}

/// Limits of requests and of bytes, by loads that mix short and long requests.
#[test]
fn limit_that_a_mixed_load_does_not_reach_is_named_as_hidden() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let both = VOLUME.replace("[device]", "[[bytes]]\nrate = \"20MB/s\"\nburst = \"100MB\"\n[device]");
    std::fs::write(at.join("both.toml"), both).unwrap();
    let hidden = "limit of requests above it cannot be found";
    for (sizes, requests, is_hidden, found) in
        [("4KiB:50+256KiB:50", "30000", true, "bytes"), ("4KiB:90+256KiB:10", "30000", false, "requests")]
    {
        let load = format!("random,size={sizes},read=100%,closed=32");
        let load = ["-w", load.as_str(), "--requests", requests];
        text(&seeklab(at, &[&["simulate", "both.toml", "--out", "seen.parquet"][..], &load].concat()));
        let document = json(at, &["fit", "seen.parquet", "-o", "clone.toml"]);
        let limits = document["fit"]["limits"].as_array().unwrap();
        assert_eq!((limits.len(), &limits[0]["counts"]), (1, &found.into()), "{sizes}: {limits:?}");
        let printed = text(&seeklab(at, &["fit", "seen.parquet", "-o", "clone.toml"]));
        let printed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(printed.contains(hidden), is_hidden, "{printed}");
        assert!(printed.contains("above it cannot be found"), "{printed}");
    }
}
