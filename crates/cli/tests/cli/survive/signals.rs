//! `seeklab serve` and `seeklab run` under a caller that ignores signals, as `nohup` and shells do.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::survive::client::{READ, Request, WRITE};
use crate::survive::harness::{Guarded, Held, MARK, SEEKLAB, Scene, Served, can_mount, until};

/// `seeklab` under a shell that ignores these signals.
fn seeklab_ignoring(scene: &Scene, signals: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", &format!("trap '' {signals}; exec \"$0\" \"$@\""), SEEKLAB])
        .env(MARK, &scene.mark)
        .env("TMPDIR", scene.path("tmp"));
    command
}

/// The signals among `signals` that a line such as `SigIgn:` of `/proc/PID/status` names.
fn named(status: &str, line: &str, signals: &[Signal]) -> Vec<Signal> {
    let mask = status.lines().find_map(|text| text.strip_prefix(line)).unwrap();
    let mask = u64::from_str_radix(mask.trim_start_matches(':').trim(), 16).unwrap();
    signals.iter().copied().filter(|signal| mask >> (signal.as_raw() - 1) & 1 == 1).collect()
}

const ENDING: [Signal; 3] = [Signal::HUP, Signal::INT, Signal::TERM];

fn status(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/status")).unwrap()
}

#[test]
fn serve_goes_on_after_a_hangup_that_was_ignored_at_start() {
    let scene = Scene::new("nohup");
    let socket = scene.folder.path().join("nbd");
    let mut command = seeklab_ignoring(&scene, "HUP");
    let address = format!("unix:{}", socket.display());
    command.args(["serve", "immediate", "--size", "1MiB", "--json", "--nbd", &address]);
    let served = Served::start(command, socket);
    assert_eq!(named(&status(served.pid()), "SigIgn", &ENDING), [Signal::HUP]);
    assert_eq!(named(&status(served.pid()), "SigCgt", &ENDING), [Signal::INT, Signal::TERM]);
    served.child.signal(Signal::HUP);
    let mut client = served.connect();
    let reply = client.call(&Request::new(READ, 1, 0, 4096)).unwrap();
    assert_eq!(reply.error, 0, "{reply:?}");
    drop(client);
    // The others still end it in order.
    assert_eq!(served.interrupt()["requests"].as_u64(), Some(1));
}

#[test]
fn simulated_host_that_only_computes_ends_by_a_signal() {
    let scene = Scene::new("computes");
    let workload = scene.path("host.toml");
    let endless =
        "kind = \"host\"\n[processes.p]\nprogram = \"repeat 18446744073709551615 { compute 1s }\"\n";
    fs::write(&workload, endless).unwrap();
    ends_by_a_signal(&scene, &["simulate", "immediate", "--workload", &workload]);
}

#[test]
fn estimate_that_takes_long_ends_by_a_signal() {
    // Runs of 200,000 requests, each at the growth that the one before gave: it computes for several seconds.
    let load = "random,size=4KiB,read=100%,constant=100/s,requests=200000";
    let device = ["estimate", "cheetah-36es", "--scheduler", "sptf", "-w", load];
    let bound = ["--until", "response_p99_ms<=100000"];
    ends_by_a_signal(&Scene::new("estimates"), &[&device[..], &bound].concat());
}

/// Starts a command that computes for long, and ends it by one signal.
fn ends_by_a_signal(scene: &Scene, arguments: &[&str]) {
    let mut command = scene.seeklab();
    command.args(arguments);
    let mut child = Guarded(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    until(|| match named(&status(child.0.id()), "SigCgt", &[Signal::INT])[..] {
        [] => Err("it does not handle signals".to_owned()),
        _ => Ok(()),
    });
    child.signal(Signal::INT);
    let mut ended = None;
    until(|| {
        ended = child.0.try_wait().unwrap();
        ended.map(drop).ok_or_else(|| "it does not end".to_owned())
    });
    assert_eq!(ended.unwrap().code(), Some(1));
}

#[test]
fn second_signal_leaves_the_time_to_save_what_is_held() {
    let scene = Scene::new("twice");
    let image = scene.path("image");
    let served = Served::nbd(scene.folder.path(), &["immediate", "--size", "1MiB", "--save", &image]);
    let mut client = served.connect();
    let reply = client.call(&Request::new(WRITE, 0x5a, 8192, 4096)).unwrap();
    assert_eq!(reply.error, 0, "{reply:?}");
    drop(client);
    // Stopped, it finds both signals at once, before it could end by the first.
    served.child.signal(Signal::STOP);
    until(|| match status(served.pid()) {
        status if status.contains("State:\tT") => Ok(()),
        status => Err(format!("it does not stop: {status}")),
    });
    served.child.signal(Signal::INT);
    served.child.signal(Signal::TERM);
    let (code, document, errors) = served.end(Signal::CONT);
    assert_eq!((code, document["requests"].as_u64()), (Some(0), Some(1)), "{errors}");
    let saved = fs::read(&image).unwrap();
    assert_eq!((saved.len(), &saved[8192..12288], saved[8191]), (1 << 20, &[0x5a; 4096][..], 0));
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn run_ends_by_sigterm_where_interrupts_and_hangups_are_ignored() {
    if !can_mount("run_ends_by_sigterm_where_interrupts_and_hangups_are_ignored", &["mkfs.ext4"]) {
        return;
    }
    let scene = Scene::new("background");
    let started = scene.path("started");
    let line =
        format!("cat /proc/self/status > {started}.part; mv {started}.part {started}; exec sleep 1000");
    let mut command = seeklab_ignoring(&scene, "HUP INT");
    command
        .args(["run", "immediate", "--size", "32MiB", "--json", "--", "sh", "-c", &line])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut run = Guarded(command.spawn().unwrap());
    let pid = run.0.id();
    until(|| match fs::exists(&started) {
        Ok(true) => Ok(()),
        _ => Err("the command does not start".to_owned()),
    });
    assert_eq!(named(&status(pid), "SigIgn", &ENDING), [Signal::HUP, Signal::INT]);
    assert_eq!(named(&status(pid), "SigCgt", &ENDING), [Signal::TERM]);
    // The command inherits what its caller ignores.
    let inherited = fs::read_to_string(&started).unwrap();
    assert_eq!(named(&inherited, "SigIgn", &ENDING), [Signal::HUP, Signal::INT]);
    let mut held = Held::default();
    held.look(pid);
    run.signal(Signal::INT);
    run.signal(Signal::HUP);
    run.signal(Signal::TERM);
    let mut ended = None;
    until(|| {
        ended = run.0.try_wait().unwrap();
        ended.map(drop).ok_or_else(|| "it does not end".to_owned())
    });
    assert_eq!(ended.unwrap().code(), Some(1));
    until(|| scene.left(pid, &held));
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn commands_of_a_run_get_the_default_sigterm() {
    if !can_mount("commands_of_a_run_get_the_default_sigterm", &["mkfs.ext4"]) {
        return;
    }
    let scene = Scene::new("default");
    let seen = scene.path("seen");
    let line = format!("cat /proc/self/status > {seen}");
    let mut command = seeklab_ignoring(&scene, "TERM");
    command.args(["run", "immediate", "--size", "32MiB", "--json", "--", "sh", "-c", &line]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let inherited = fs::read_to_string(&seen).unwrap();
    let defaults = [Signal::TERM, Signal::CHILD, Signal::PIPE];
    assert_eq!(named(&inherited, "SigIgn", &defaults), []);
    assert_eq!(named(&inherited, "SigBlk", &[&ENDING[..], &defaults].concat()), []);
}

/// The descriptors of a thread.
fn descriptors(task: &std::path::Path) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> =
        fs::read_dir(task.join("fd")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    names
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn threads_with_descriptors_of_their_own_handle_no_signals() {
    if !can_mount("threads_with_descriptors_of_their_own_handle_no_signals", &[]) {
        return;
    }
    let served = Served::block(&["immediate", "--size", "1MiB"]);
    let process = std::path::PathBuf::from(format!("/proc/{}", served.pid()));
    let shared = descriptors(&process);
    let mut apart = 0;
    for task in fs::read_dir(process.join("task")).unwrap().flatten() {
        if descriptors(&task.path()) != shared {
            apart += 1;
            // A handler there could wake nobody: its descriptor is closed.
            let status = fs::read_to_string(task.path().join("status")).unwrap();
            assert_eq!(named(&status, "SigBlk", &ENDING), ENDING, "{status}");
        }
    }
    assert!(apart > 0, "the thread of the block device has descriptors of its own");
    served.interrupt();
}
