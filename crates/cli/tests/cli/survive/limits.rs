//! Limits that make a host small: their effect by the kernel's counters, and no leftovers.

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::survive::harness::{Guarded, Held, Scene, Served, can_mount, until};

const NEEDS: [&str; 2] = ["mkfs.ext4", "dd"];
/// Limits of the dirty data and the memory in the tests.
const DIRTY_BYTES: u64 = 8 << 20;
const MEMORY_BYTES: u64 = 64 << 20;
const LIMITS: [&str; 4] = ["--dirty-limit", "8MiB", "--wbt", "off"];

fn run(scene: &Scene, arguments: &[&str]) -> Output {
    scene.seeklab().arg("run").args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// A setting of a block device, without its line end.
fn setting(device: &str, name: &str) -> Option<String> {
    let name = Path::new("/sys/block").join(device).join(name);
    Some(fs::read_to_string(name).ok()?.trim().to_owned())
}

/// Returns true if this kernel has the settings. Otherwise prints the missing one.
fn has_settings(test: &str) -> bool {
    let missing = ["bdi/strict_limit", "bdi/max_bytes", "queue/wbt_lat_usec"]
        .into_iter()
        .find(|name| !(0..8).any(|number| setting(&format!("loop{number}"), name).is_some()));
    if let Some(missing) = missing {
        eprintln!("skipped: {test}: no loop device has `{missing}`");
    }
    missing.is_none()
}

/// The settings of the loop devices before a test, and the right to change them.
struct Before {
    throttling: Vec<(String, Option<String>)>,
    /// Locked: one test of this machine at a time changes settings.
    _changing: fs::File,
}

impl Before {
    fn look() -> Self {
        let changing = fs::File::open("/sys/class/bdi").unwrap();
        changing.lock().unwrap();
        let names = (0..64).map(|number| format!("loop{number}"));
        let throttling = names.map(|name| (name.clone(), setting(&name, "queue/wbt_lat_usec"))).collect();
        Self { throttling, _changing: changing }
    }

    /// Fails if the device has limits of its own. One that is away at the moment has none: parallel tests make free
    /// devices anew.
    fn is_back(&self, device: &str) -> Result<(), String> {
        let throttling = self.throttling.iter().find(|(name, _)| name == device);
        let throttling = throttling.and_then(|(_, value)| value.as_deref());
        let expected = [
            ("bdi/strict_limit", Some("0")),
            ("bdi/max_ratio", Some("100")),
            ("queue/wbt_lat_usec", throttling),
        ];
        for (name, value) in expected {
            // A device that was made since has nothing to compare with.
            if let (Some(found), Some(value)) = (setting(device, name), value)
                && found != value
            {
                return Err(format!("{device}: {name} is {found}, {value} expected"));
            }
        }
        Ok(())
    }
}

/// The last processor that this thread may use, if there are others too.
fn last_processor() -> Option<String> {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let list = allowed(&status);
    list.contains(['-', ',']).then(|| list.rsplit(['-', ',']).next().unwrap().to_owned())
}

fn allowed(status: &str) -> String {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.unwrap_or_default().trim().to_owned()
}

/// The memory groups of seeklab with that process in their name.
fn groups(pid: u32) -> Vec<String> {
    let (name, mut found, mut folders) =
        (format!("seeklab-{pid}-"), Vec::new(), vec![Path::new("/sys/fs/cgroup").to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let path = entry.path();
                if entry.file_name().to_string_lossy().starts_with(&name) {
                    found.push(path.display().to_string());
                }
                folders.push(path);
            }
        }
    }
    found
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn limits_of_a_run_take_effect_and_are_undone() {
    let test = "limits_of_a_run_take_effect_and_are_undone";
    if !can_mount(test, &NEEDS) || !has_settings(test) {
        return;
    }
    let before = Before::look();
    let scene = Scene::new("limits");
    let (facts, written) = (scene.path("facts"), scene.path("written"));
    let line = format!(
        "echo ${{SEEKLAB_DEVICE##*/}} > {facts}; cat /proc/self/status >> {facts}; \
         dd if=/dev/zero of=f bs=1M count=40 2>/dev/null; cat /sys/block/${{SEEKLAB_DEVICE##*/}}/stat > {written}; \
         cat f > /dev/null"
    );
    let mut arguments = vec!["immediate", "--size", "96MiB", "--json", "--memory", "64MiB"];
    arguments.extend(LIMITS);
    let last = last_processor();
    if let Some(last) = &last {
        arguments.extend(["--cpus", last]);
    }
    arguments.extend(["--", "sh", "-c", &line]);
    let output = run(&scene, &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();

    let host = &document["application"]["host"];
    assert_eq!(host["memory_bytes"].as_u64(), Some(MEMORY_BYTES), "{host}");
    assert_eq!(host["dirty_limit_bytes"].as_u64(), Some(DIRTY_BYTES), "{host}");
    assert_eq!(host["writeback_throttling_us"].as_u64(), Some(0), "{host}");
    assert_eq!(host["cpus"].as_str(), last.as_deref(), "{host}");

    let repetition = &document["devices"][0]["repetitions"][0];
    let queue = &repetition["host_queue"];
    let limit = queue["dirty_limit_bytes"].as_u64().unwrap();
    // The kernel keeps a share of the memory that may be dirty, in millionths.
    assert!(limit.abs_diff(DIRTY_BYTES) < DIRTY_BYTES / 20, "{queue}");
    assert_eq!(queue["writeback_throttling_us"].as_u64(), Some(0), "{queue}");
    let memory = &repetition["memory"];
    assert_eq!(memory["limit_bytes"].as_u64(), Some(MEMORY_BYTES), "{memory}");
    assert_eq!(memory["oom_kills"].as_u64(), Some(0), "{memory}");
    if let Some(peak) = memory["peak_bytes"].as_u64() {
        assert!((DIRTY_BYTES..=MEMORY_BYTES).contains(&peak), "{memory}");
    }

    let facts = fs::read_to_string(facts).unwrap();
    let device = facts.lines().next().unwrap();
    if let Some(last) = last {
        assert_eq!(allowed(&facts), last);
    }
    // When `dd` has returned, most of what it wrote is on the device: no more than the limit was dirty.
    let sectors: u64 =
        fs::read_to_string(written).unwrap().split_whitespace().nth(6).unwrap().parse().unwrap();
    assert!(sectors * 512 > 20 << 20, "{sectors} sectors");
    before.is_back(device).unwrap();
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn emulator_runs_on_the_other_processors() {
    let Some(last) = last_processor().filter(|_| can_mount("emulator_runs_on_the_other_processors", &NEEDS))
    else {
        return eprintln!("skipped: it takes two processors, and block devices");
    };
    let scene = Scene::new("processors");
    let started = scene.path("started");
    let line = format!("touch {started}; sleep 1000");
    let mut command = scene.seeklab();
    command.args(["run", "immediate", "--size", "32MiB", "--cpus", &last, "--", "sh", "-c", &line]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let run = Guarded(command.spawn().unwrap());
    until(|| Path::new(&started).exists().then_some(()).ok_or_else(|| "it does not start".to_owned()));
    let tasks = fs::read_dir(format!("/proc/{}/task", run.0.id())).unwrap().flatten();
    let lists: Vec<String> = tasks
        .filter_map(|task| fs::read_to_string(task.path().join("status")).ok())
        .map(|status| allowed(&status))
        .collect();
    // Threads from before the run (signals, progress) compute nothing.
    assert!(lists.iter().filter(|list| !list.ends_with(&last)).count() >= 3, "{lists:?}");
    run.signal(Signal::INT);
    let mut run = run;
    until(|| run.0.try_wait().unwrap().map(drop).ok_or_else(|| "it does not end".to_owned()));
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn limits_are_undone_however_a_run_ends() {
    let test = "limits_are_undone_however_a_run_ends";
    if !can_mount(test, &NEEDS) || !has_settings(test) {
        return;
    }
    let before = Before::look();
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let scene = Scene::new("undone");
        let started = scene.path("started");
        let line =
            format!("echo ${{SEEKLAB_DEVICE##*/}} > {started}.new; mv {started}.new {started}; sleep 1000");
        let mut command = scene.seeklab();
        command.args(["run", "immediate", "--size", "32MiB", "--memory", "64MiB"]).args(LIMITS);
        command.args(["--", "sh", "-c", &line]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut run = Guarded(command.spawn().unwrap());
        let pid = run.0.id();
        until(|| Path::new(&started).exists().then_some(()).ok_or_else(|| "it does not start".to_owned()));
        let device = fs::read_to_string(&started).unwrap().trim().to_owned();
        assert_eq!(setting(&device, "bdi/strict_limit").as_deref(), Some("1"));
        assert_eq!(setting(&device, "queue/wbt_lat_usec").as_deref(), Some("0"));
        assert_eq!(groups(pid).len(), 1);
        run.signal(signal);
        until(|| {
            run.0.try_wait().unwrap().map(drop).ok_or_else(|| format!("it does not end after {signal:?}"))
        });
        until(|| scene.left(pid, &Held::default()));
        if signal == Signal::KILL {
            // The next run with such limits undoes those of one that was killed.
            let mut next = vec!["immediate", "--size", "32MiB", "--memory", "64MiB"];
            next.extend(LIMITS);
            next.extend(["--", "true"]);
            let output = self::run(&Scene::new("next"), &next);
            assert_eq!(output.status.code(), Some(0), "{output:?}");
        }
        before.is_back(&device).unwrap_or_else(|left| panic!("{signal:?}: {left}"));
        assert!(groups(pid).is_empty(), "{signal:?}: {:?}", groups(pid));
    }
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn limits_of_a_served_block_device_are_undone() {
    let test = "limits_of_a_served_block_device_are_undone";
    if !can_mount(test, &[]) || !has_settings(test) {
        return;
    }
    let before = Before::look();
    let served = Served::block(&["immediate", "--size", "32MiB", "--dirty-limit", "4MiB", "--wbt", "7ms"]);
    let device = served.place.rsplit('/').next().unwrap().to_owned();
    assert_eq!(setting(&device, "bdi/strict_limit").as_deref(), Some("1"));
    assert_eq!(setting(&device, "queue/wbt_lat_usec").as_deref(), Some("7000"));
    let document = served.interrupt();
    assert_eq!(document["host_queue"]["writeback_throttling_us"].as_u64(), Some(7_000));
    assert!(document["host_queue"]["dirty_limit_bytes"].as_u64().unwrap() <= 5 << 20, "{document}");
    before.is_back(&device).unwrap();
}

#[test]
fn limits_that_cannot_be_are_refused() {
    let builtin = ["--builtin", "postmark,transactions=5,files=5"];
    let command = ["--", "true"];
    let cases: [(&[&str], &[&str], &str); 8] = [
        (&["--dirty-limit", "8MiB"], &builtin, "--dirty-limit: a built-in application"),
        (&["--wbt", "off"], &builtin, "--wbt: a built-in application"),
        (&["--memory", "64MiB"], &builtin, "--memory"),
        (&["--cpus", "0"], &builtin, "--cpus"),
        (&["--memory", "4KiB"], &command, "at least 1MiB"),
        (&["--cpus", "0,"], &command, "is no list of processors"),
        (&["--cpus", "1023"], &command, "--cpus 1023: "),
        (&["--wbt", "fast"], &command, "`off` and times"),
    ];
    let refused = |arguments: &[&str], message: &str| {
        let scene = Scene::new("refused");
        let output = scene.seeklab().args(arguments).stdin(Stdio::null()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(errors.contains(message), "{arguments:?}: {errors}");
    };
    for (limit, what, message) in cases {
        refused(&[&["run", "immediate", "--size", "32MiB"][..], limit, what].concat(), message);
    }
    refused(
        &["serve", "immediate", "--dirty-limit", "8MiB"],
        "--dirty-limit: the device is not served as a block",
    );
}
