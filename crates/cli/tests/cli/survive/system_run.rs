//! System-level traces of commands on emulated devices: `seeklab run --system`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::survive::harness::{Guarded, Held, SEEKLAB, Scene, can_mount, until};

const NEEDS: [&str; 2] = ["mkfs.ext4", "dd"];
/// Processes that write, synchronise and read, and one that waits for another.
const LINE: &str = "dd if=/dev/zero of=f bs=16k count=8 conv=fsync 2>/dev/null; (sleep 0; true) & wait; \
                    dd if=f of=/dev/null bs=16k iflag=direct 2>/dev/null";

/// Returns true if the traces can be recorded here. Otherwise prints the reason.
fn can_trace(test: &str) -> bool {
    let has_tracefs = Path::new("/sys/kernel/tracing/events/sched").is_dir();
    // The inode of the initial namespace is fixed.
    let is_initial =
        fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name.as_os_str() == "pid:[4026531836]");
    if !has_tracefs || !is_initial {
        eprintln!("skipped: {test}: it needs tracefs and the initial PID namespace");
    }
    has_tracefs && is_initial && can_mount(test, &NEEDS)
}

fn run(scene: &Scene, arguments: &[&str]) -> Output {
    scene.seeklab().arg("run").args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn info(scene: &Scene, trace: &Path) -> Value {
    let output =
        scene.seeklab().args(["trace", "info", "--json"]).arg(trace).stdin(Stdio::null()).output().unwrap();
    let document: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    document["traces"][0].clone()
}

/// Instances of tracefs that belong to a process.
fn instances(pid: u32) -> Vec<String> {
    let entries = fs::read_dir("/sys/kernel/tracing/instances").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.split('-').any(|part| part == pid.to_string())).collect()
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, /dev/fuse, loop devices and tracefs")]
fn each_command_of_each_repetition_has_a_trace() {
    if !can_trace("each_command_of_each_repetition_has_a_trace") {
        return;
    }
    let scene = Scene::new("system");
    let traces = scene.path("traces");
    let arguments = ["hp-c2247a", "--size", "64MiB", "--repeat", "2", "--json", "--system", &traces];
    let commands = ["--phase", "first=echo x > g", "--", "sh", "-c", LINE];
    let output = run(&scene, &[&arguments[..], &commands].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut names: Vec<String> = fs::read_dir(&traces)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected = ["hp-c2247a-1-1.sys", "hp-c2247a-1-2.sys", "hp-c2247a-2-1.sys", "hp-c2247a-2-2.sys"];
    assert_eq!(names, expected);
    for (index, repetition) in document["devices"][0]["repetitions"].as_array().unwrap().iter().enumerate() {
        let trace = Path::new(&traces).join(format!("hp-c2247a-{}-2.sys", index + 1));
        assert_eq!(repetition["phases"][1]["system_trace"].as_str(), trace.to_str());
        let info = info(&scene, &trace);
        assert_eq!(info["command"].as_array().unwrap().last().unwrap(), LINE, "{info}");
        assert_eq!(info["lost_events"].as_u64(), Some(0), "{info}");
        let processes = info["processes"].as_array().unwrap();
        let count = |name: &str| processes.iter().filter(|process| process["name"] == name).count();
        assert_eq!((count("sh"), count("dd"), count("sleep")), (2, 2, 1), "{info}");
        assert!(processes.iter().all(|process| process["has_ended"] == true), "{info}");
        let waits = &info["task"]["waits"];
        assert!(waits["flush_s"].as_f64() > Some(0.0), "{waits}");
        // Recording is calibrated and no computing time, and each of its events has a kind.
        assert!(info["recording_cost"]["call_event_ns"].as_u64() > Some(0), "{info}");
        assert!(info["task"]["recording_s"].as_f64() > Some(0.0), "{info}");
        let kinds = info["events_by_kind"].as_object().unwrap();
        assert_eq!(
            kinds.values().filter_map(Value::as_u64).sum::<u64>(),
            info["events"].as_u64().unwrap(),
            "{info}"
        );
        assert!(kinds["call_enter"].as_u64() > Some(0), "{info}");
        // The emulator and the recorder have times of their own.
        let sum = |name: &str| -> f64 {
            info["cpus"].as_array().unwrap().iter().map(|cpu| cpu[name].as_f64().unwrap()).sum()
        };
        assert!(sum("emulator_s") > 0.0 && sum("recorder_s") > 0.0 && sum("task_s") > 0.0, "{info}");
        // Eight writes and reads of 16 KiB at least reach the device.
        assert!(info["requests"].as_u64() >= Some(9), "{info}");
        assert!(info["requests"].as_u64() <= repetition["compared_requests"].as_u64(), "{info}");
    }
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, /dev/fuse, loop devices and tracefs")]
fn run_needs_no_mounted_tracefs() {
    if !can_mount(
        "run_needs_no_mounted_tracefs",
        &[&NEEDS[..], &["unshare", "umount", "mountpoint"]].concat(),
    ) {
        return;
    }
    let scene = Scene::new("unmounted");
    let traces = scene.path("traces");
    // In a mount namespace of its own, this machine's mounts stay.
    let line = format!(
        "for folder in /sys/kernel/debug /sys/kernel/tracing; do
             while mountpoint -q $folder; do umount --lazy --recursive $folder || exit 90; done
         done
         exec {SEEKLAB} run immediate --size 32MiB --system {traces} --json -- sh -c '{LINE}'"
    );
    let mut unshared = Command::new("unshare");
    for (name, value) in scene.seeklab().get_envs() {
        unshared.env(name, value.unwrap());
    }
    let output = unshared.args(["--mount", "sh", "-c", &line]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["devices"][0]["repetitions"][0]["compared_requests"].as_u64() > Some(0), "{document}");
    let info = info(&scene, &Path::new(&traces).join("immediate-1.sys"));
    assert!(info["requests"].as_u64() >= Some(9), "{info}");
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, /dev/fuse, loop devices and tracefs")]
fn trace_that_cannot_be_written_ends_the_run() {
    if !can_trace("trace_that_cannot_be_written_ends_the_run") {
        return;
    }
    let scene = Scene::new("unwritable");
    let (traces, ran) = (scene.path("traces"), scene.path("ran"));
    let taken = Path::new(&traces).join("immediate-1.sys");
    fs::create_dir_all(&taken).unwrap();
    fs::write(taken.join("precious"), "x").unwrap();
    let line = format!("touch {ran}");
    let arguments = ["immediate", "--size", "32MiB", "--system", &traces, "--", "sh", "-c", &line];
    let output = run(&scene, &arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("the folder exists and is no system-level trace"), "{errors}");
    assert!(!Path::new(&ran).exists(), "the command waits for its trace");
    assert!(taken.join("precious").exists());
    let xfs = ["immediate", "--fs", "none", "--size", "32MiB", "--system", &traces, "--", "true"];
    let output = run(&scene, &xfs);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("--system: ") && errors.contains("--fs ext4"), "{errors}");
}

#[test]
#[cfg_attr(not(captures), ignore = "needs root, /dev/fuse, loop devices and tracefs")]
fn interrupted_trace_leaves_no_instance_and_no_file() {
    if !can_trace("interrupted_trace_leaves_no_instance_and_no_file") {
        return;
    }
    let scene = Scene::new("cut");
    let (traces, started) = (scene.path("traces"), scene.path("started"));
    let line = format!("touch {started}; sleep 1000");
    let mut command = scene.seeklab();
    command.args(["run", "immediate", "--size", "32MiB", "--system", &traces, "--", "sh", "-c", &line]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = Guarded(command.spawn().unwrap());
    let pid = run.0.id();
    until(|| Path::new(&started).exists().then_some(()).ok_or_else(|| "it does not start".to_owned()));
    // Two of the recorder, and one of the times of the host.
    assert_eq!(instances(pid).len(), 3);
    run.signal(Signal::INT);
    until(|| run.0.try_wait().unwrap().map(drop).ok_or_else(|| "it does not end".to_owned()));
    until(|| scene.left(pid, &Held::default()));
    assert!(instances(pid).is_empty(), "{:?}", instances(pid));
    let left: Vec<_> = fs::read_dir(&traces).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    // The command has a result up to the interruption, and so has its trace.
    assert!(left.iter().all(|name| name == "immediate-1.sys"), "{left:?}");
}
