//! Interrupted runs: their end, and no leftovers.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command, Stdio};

use libtest_mimic::Trial;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::{MountFlags, UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use seeklab_stage::{Error, Exit, FileSystem, PhaseResult, Stage, Stop};

use crate::caller::CALLER;
use crate::fixture::{
    Loop, check, has_program, mark, monotonic_ns, nothing_has, options, pause_ms, shell, stage_mounts,
    staged, succeed, until,
};
use crate::phases::test;

/// Default of `SEEKLAB_KILLS`, the number of times that the caller is killed.
const KILLS: u64 = 30;

pub(crate) fn tests() -> Vec<Trial> {
    let has_strace = has_program("strace");
    if !has_strace {
        eprintln!("skipped: a_signal_before_exec_ends_the_command: `strace` is not installed");
    }
    vec![
        test("a_signal_before_exec_ends_the_command", a_signal_before_exec_ends_the_command)
            .with_ignored_flag(!has_strace),
        test("stop_ends_the_phase_in_order", stop_ends_the_phase_in_order),
        test("second_stop_kills", second_stop_kills),
        test("step_after_a_stop_is_refused", step_after_a_stop_is_refused),
        test("dropping_leaves_no_process", dropping_leaves_no_process),
        test("signals_to_the_caller_end_the_run_in_order", signals_to_the_caller_end_the_run_in_order),
        test("nothing_survives_a_killed_caller", nothing_survives_a_killed_caller),
        test("killed_inner_process_ends_the_stage", killed_inner_process_ends_the_stage),
        test("emulator_can_unmount_while_a_stage_is_open", emulator_can_unmount_while_a_stage_is_open),
        test("command_runs_as_the_caller_of_sudo", command_runs_as_the_caller_of_sudo),
        test("standard_streams_reach_the_command", standard_streams_reach_the_command),
        test("hidden_argument_alone_is_refused", hidden_argument_alone_is_refused),
    ]
}

/// Runs `line` and, once it has made the file `$STARTED`, does something to it.
fn meanwhile(stage: &mut Stage, line: &str, act: impl FnOnce() + Send) -> Result<PhaseResult, Error> {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let mut phase = shell(line);
    phase.environment.push(("STARTED".into(), started.clone().into()));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            until(|| if started.exists() { Ok(()) } else { Err("the command does not start".to_owned()) });
            act();
        });
        stage.run_phase(&phase)
    })
}

fn stop_ends_the_phase_in_order() {
    let device = Loop::new(32, &mark("stop"));
    let stop = Stop::new();
    let mut stage = Stage::open(&options(&device, FileSystem::Ext4), &stop).unwrap();
    stage.make_file_system().unwrap();
    let line = "head -c 1000000 /dev/zero > data; touch $STARTED; exec sleep 1000";
    let result = meanwhile(&mut stage, line, || stop.stop()).unwrap();
    assert!(result.stopped && !result.is_success(), "{result:?}");
    assert_eq!((result.exit, &result.flush_error), (Exit::Signal(15), &None));
    assert!(matches!(stage.run_phase(&shell("true")), Err(Error::Stopped)));
    stage.end().unwrap();
    assert!(check(&device.path, FileSystem::Ext4).is_ok());
    // What it had written is there.
    let mut stage = Stage::open(&options(&device, FileSystem::Ext4), &Stop::new()).unwrap();
    succeed(&mut stage, "test $(stat -c %s data) = 1000000");
}

fn second_stop_kills() {
    let device = Loop::new(32, &mark("second"));
    let stop = Stop::new();
    let mut options = options(&device, FileSystem::Ext4);
    // So long that the test would fail if it were waited for.
    options.grace = seeklab_core::Duration::from_s(100_000);
    let mut stage = Stage::open(&options, &stop).unwrap();
    stage.make_file_system().unwrap();
    let line = "trap '' TERM; touch $STARTED; while :; do read x < /dev/zero; done";
    let result = meanwhile(&mut stage, line, || {
        stop.stop();
        stop.stop();
    });
    let result = result.unwrap();
    assert_eq!((result.exit, result.stopped), (Exit::Signal(9), true));
    stage.end().unwrap();
    assert!(check(&device.path, FileSystem::Ext4).is_ok());
}

fn step_after_a_stop_is_refused() {
    let device = Loop::new(32, &mark("before"));
    let stop = Stop::new();
    let mut stage = Stage::open(&options(&device, FileSystem::Ext4), &stop).unwrap();
    stop.stop();
    assert!(matches!(stage.make_file_system(), Err(Error::Stopped)));
    stage.end().unwrap();
    assert!(matches!(Stage::open(&options(&device, FileSystem::Ext4), &stop), Err(Error::Stopped)));
}

fn dropping_leaves_no_process() {
    // The other one ignores its children's end, which must not reach those inside.
    for mode in ["drop", "deaf"] {
        let mark = mark(mode);
        let child = start(&mark, mode, &["sleep 1000 &"]);
        let output = child.wait_with_output().unwrap();
        let (stdout, stderr) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        let lines: Vec<&str> = stdout.lines().collect();
        assert_eq!((lines[0], lines[2]), ("ready", "0 children"), "{stdout}{stderr}");
        let result: PhaseResult = serde_json::from_str(lines[1]).unwrap();
        // `sleep`, or `sh` if it had no time to execute that.
        assert_eq!(result.left_running.len(), 1, "{result:?}");
        until(|| nothing_has(&mark));
    }
}

fn emulator_can_unmount_while_a_stage_is_open() {
    let Ok(served) = File::options().read(true).write(true).open("/dev/fuse") else {
        return eprintln!("skipped: /dev/fuse cannot be opened");
    };
    let device = Loop::new(32, &mark("unmount"));
    let folder = tempfile::Builder::new().prefix("a b").tempdir().unwrap();
    let fields = format!("fd={},rootmode=40000,user_id=0,group_id=0", served.as_raw_fd());
    let fields = std::ffi::CString::new(fields).unwrap();
    rustix::mount::mount("seeklab", folder.path(), "fuse.seeklab", MountFlags::empty(), fields.as_c_str())
        .unwrap();
    let stage = Stage::open(&options(&device, FileSystem::Ext4), &Stop::new());
    let unmounted = unmount(folder.path(), UnmountFlags::NOFOLLOW);
    let stage = stage.unwrap();
    unmounted.unwrap();
    // The last reference gone, the kernel closes the connection.
    until(|| {
        let mut watched = [PollFd::new(&served, PollFlags::IN)];
        poll(&mut watched, Some(&Timespec::default())).unwrap();
        let closed = watched[0].revents().contains(PollFlags::ERR);
        if closed { Ok(()) } else { Err("the mount is held".to_owned()) }
    });
    stage.end().unwrap();
}

fn command_runs_as_the_caller_of_sudo() {
    let mark = mark("sudo");
    let child = caller(&mark, "stdout", &["id -un; touch mine"]).env("SUDO_UID", "65534").spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && stdout.contains("\nnobody\n"), "{stdout}");
    until(|| nothing_has(&mark));
}

fn start(mark: &str, mode: &str, lines: &[&str]) -> Child {
    caller(mark, mode, lines).spawn().unwrap()
}

fn caller(mark: &str, mode: &str, lines: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([CALLER, mark, mode])
        .args(lines)
        .env("SEEKLAB_TEST_MARK", mark)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .env_remove("SUDO_UID")
        .process_group(0);
    command
}

/// Reads what a child prints up to `end`; returns where the rest comes from.
fn read_until(child: &mut Child, end: &str) -> ChildStdout {
    let mut output = child.stdout.take().unwrap();
    let mut seen = String::new();
    while !seen.ends_with(end) {
        let mut byte = [0];
        output.read_exact(&mut byte).unwrap();
        seen.push(byte[0] as char);
    }
    output
}

fn signals_to_the_caller_end_the_run_in_order() {
    for (signal, to_group) in
        [(Signal::INT, true), (Signal::INT, false), (Signal::TERM, false), (Signal::HUP, false)]
    {
        let mark = mark("signal");
        // A line of output says that it runs; a daemon is there too.
        let line = "(setsid sleep 1000 &); echo x > f; echo started; exec sleep 1001";
        let mut child = start(&mark, "stdout", &[line, "echo never"]);
        let mut output = read_until(&mut child, "started\n");
        let pid = Pid::from_child(&child);
        // As a terminal does: the command gets it too.
        if to_group { kill_process_group(pid, signal) } else { kill_process(pid, signal) }.unwrap();
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert!(child.wait().unwrap().success(), "{signal:?}");
        let lines: Vec<&str> = rest.lines().collect();
        let result: PhaseResult = serde_json::from_str(lines[0]).unwrap();
        // To the group, the command may end by the signal before the caller has asked it to stop.
        assert!(result.stopped || to_group, "{result:?}");
        assert!(!result.exit.is_success() && result.flush_error.is_none(), "{result:?}");
        assert_eq!(lines[1..], ["\"stopped\"", "0 children"]);
        until(|| nothing_has(&mark));
    }
}

/// The commands that are held in `setgroups(2)`, between their fork and their exec, by what strace injects.
fn held_in_setgroups(mark: &str) -> Vec<Pid> {
    let is_held = |folder: &std::path::Path| {
        let environment = std::fs::read(folder.join("environ")).unwrap_or_default();
        let call = std::fs::read_to_string(folder.join("syscall")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(mark)
            && call.split(' ').next() == Some(&libc::SYS_setgroups.to_string())
    };
    let folders = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let held = folders.filter(|folder| is_held(folder));
    held.filter_map(|folder| Pid::from_raw(folder.file_name()?.to_str()?.parse().ok()?)).collect()
}

fn a_signal_before_exec_ends_the_command() {
    let mark = mark("exec");
    let mut command = Command::new("strace");
    command
        .args(["--follow-forks", "--output=/dev/null", "--trace=setgroups"])
        .arg("--inject=setgroups:delay_enter=2000000")
        .arg(std::env::current_exe().unwrap())
        .args([CALLER, &mark, "stdout", "echo never"])
        .env("SEEKLAB_TEST_MARK", &mark)
        .env("SUDO_UID", "65534")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut child = Killed(command.spawn().unwrap());
    let mut held = Vec::new();
    until(|| {
        held = held_in_setgroups(&mark);
        if held.is_empty() { Err("no command is held before its exec".to_owned()) } else { Ok(()) }
    });
    kill_process(held[0], Signal::TERM).unwrap();
    until(|| child.0.try_wait().unwrap().map(drop).ok_or_else(|| "the stage hangs".to_owned()));
    let mut output = String::new();
    child.0.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!((lines[0], lines[2]), ("ready", "0 children"), "{output}");
    let result: PhaseResult = serde_json::from_str(lines[1]).unwrap();
    assert_eq!((result.exit, result.stopped), (Exit::Signal(15), false), "{result:?}");
    assert!(result.start_ns <= result.exec_ns && result.exec_ns <= result.end_ns, "{result:?}");
    until(|| nothing_has(&mark));
}

/// A child that leads a process group, which is killed with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

fn nothing_survives_a_killed_caller() {
    let count = std::env::var("SEEKLAB_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let seed = monotonic_ns();
    let daemon = "(setsid sh -c 'trap \"\" TERM HUP; cat /dev/zero > daemon; sleep 1000' > /dev/null 2>&1 &)";
    let short = format!("{daemon}; for i in 1 2 3 4 5 6 7 8 9; do echo $i > f$i; sync f$i; done");
    // The last ends only if it is killed.
    let endless = format!("{daemon}; while :; do echo x > f; sync f; done");
    for round in 0..count {
        let mark = mark("kill");
        let lines = [short.as_str(), endless.as_str()];
        let mut child = start(&mark, "stderr", &lines[usize::from(round % 2 == 0)..]);
        // The device frees itself only on request, which is not tested here.
        let _output = read_until(&mut child, "ready\n");
        // Anywhere from the start of the stage to the second phase, and more often early.
        let random = (seed ^ (round << 32)).wrapping_mul(6_364_136_223_846_793_005).rotate_left(29) % 1000;
        pause_ms(random * random / 1_200);
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::KILL).unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9), "seed {seed}, round {round}");
        until(|| nothing_has(&mark).map_err(|left| format!("seed {seed}, round {round}: {left}")));
        assert_eq!(stage_mounts(), Vec::<String>::new(), "seed {seed}, round {round}");
    }
}

fn killed_inner_process_ends_the_stage() {
    let mark = mark("inside");
    let device = Loop::new(32, &mark);
    let mut stage = staged(&options(&device, FileSystem::Ext4));
    let before: Vec<u32> = children_called("seeklab-stage");
    let result = meanwhile(
        &mut stage,
        "readlink /proc/self/ns/pid > $STARTED.ns; mv $STARTED.ns $STARTED; exec sleep 1000",
        || {
            // Ours is the one that holds our device's mount.
            let device = device.path.display().to_string();
            let inside = before.iter().find(|pid| {
                std::fs::read_to_string(format!("/proc/{pid}/mountinfo"))
                    .is_ok_and(|mounts| mounts.contains(&format!("{device} ")))
            });
            kill_process(Pid::from_raw(*inside.unwrap() as i32).unwrap(), Signal::KILL).unwrap();
        },
    );
    assert!(matches!(&result, Err(Error::Died { how }) if how.contains("signal: 9")), "{result:?}");
    drop(stage);
    // Unmounted by the kernel, so it can be mounted again, and its journal makes it whole.
    let mut stage = Stage::open(&options(&device, FileSystem::Ext4), &Stop::new()).unwrap();
    succeed(&mut stage, "true");
    stage.end().unwrap();
    assert!(check(&device.path, FileSystem::Ext4).is_ok());
}

/// The children of this process with that name.
pub(crate) fn children_called(name: &str) -> Vec<u32> {
    let own = std::process::id();
    let all = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    all.filter(|pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains(&format!("({name}) "))
            && stat.split(") ").nth(1).is_some_and(|rest| rest.split(' ').nth(1) == Some(&own.to_string()))
    })
    .collect()
}

fn standard_streams_reach_the_command() {
    for (mode, on_stdout) in [("stdout", true), ("stderr", false)] {
        let mark = mark("streams");
        let mut child = start(&mark, mode, &["tr a-z A-Z; echo error >&2"]);
        child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let (stdout, stderr) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert_eq!(stdout.contains("HELLO\n"), on_stdout, "{stdout}");
        assert_eq!(stderr.contains("HELLO\n"), !on_stdout, "{stderr}");
        assert!(stderr.contains("error\n"));
        until(|| nothing_has(&mark));
    }
}

fn hidden_argument_alone_is_refused() {
    let output =
        Command::new(std::env::current_exe().unwrap()).arg("__seeklab-stage-inside").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("is not a verb"));
}
