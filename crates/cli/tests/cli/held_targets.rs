//! `seeklab bench` on targets that never answer: the report comes, the command ends, and the process that the kernel holds is
//! named and goes when the target answers.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use crate::bench::{Bench, unfolded};
use crate::survive::harness::{Guarded, Scene, Served, can_mount, output, succeed, until};

/// A measurement under way, and its lines on stderr so far.
struct Measured {
    child: Guarded,
    errors: BufReader<std::process::ChildStderr>,
}

impl Measured {
    /// Starts it in the folder of `bench`, in a process group of its own.
    fn start(bench: &Bench, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seeklab"));
        command.arg("bench").args(arguments).current_dir(bench.path(".")).process_group(0);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        Self { child: Guarded(child), errors }
    }

    /// Waits for the figures of the first interval.
    fn has_begun(&mut self) {
        let mut line = String::new();
        assert!(self.errors.read_line(&mut line).unwrap() > 0, "it ended before an interval");
        assert!(line.contains("/s") && line.contains("out"), "{line}");
    }

    /// The process that measures: the child of the one that was started.
    fn measuring(&self) -> u32 {
        let mut found = None;
        until(|| {
            found = child_of(self.child.0.id());
            found.map(drop).ok_or_else(|| "no process measures".to_owned())
        });
        found.unwrap()
    }

    /// Its exit code, stdout and stderr. Both streams end although a process that is left behind has begun with them.
    fn end(mut self) -> (i32, String, String) {
        let (mut printed, mut errors) = (String::new(), String::new());
        self.child.0.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        self.errors.read_to_string(&mut errors).unwrap();
        (self.child.0.wait().unwrap().code().unwrap(), printed, errors)
    }
}

/// The process whose parent is `parent`.
fn child_of(parent: u32) -> Option<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.find(|number| {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        let parents = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        parents.is_some_and(|of| of == parent.to_string())
    })
}

/// Returns true if a process is there, its remains included.
fn is_there(process: u32) -> bool {
    fs::exists(format!("/proc/{process}")).unwrap()
}

/// Number of the process that a warning names as left behind.
fn left_behind(errors: &str) -> u32 {
    let number = errors.split("warning: process ").nth(1).and_then(|rest| rest.split(' ').next());
    number
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("nothing is left behind: {errors}"))
}

/// Asserts that the report of a target that holds its requests is there: figures, folder and exit code.
fn is_reported(bench: &Bench, target: &str, (code, printed, errors): &(i32, String, String)) {
    assert_eq!(*code, 1, "{target}: {errors}");
    let figures: Value = serde_json::from_str(printed).unwrap_or_else(|error| panic!("{error}: {errors}"));
    assert!(figures["requests"].as_u64() > Some(10), "{target}: {figures}");
    assert!(errors.contains(&format!("error: `{target}`: the target never returned ")), "{errors}");
    let kept: Value = serde_json::from_slice(&bench.read("run/run.json")).unwrap();
    assert_eq!(kept["run"]["state"], "complete");
    assert_eq!(kept["requests"], figures["requests"]);
    for file in ["intervals.parquet", "response.hlog", "events.jsonl", "report.html"] {
        assert!(bench.path("run").join(file).exists(), "{target}: {file}");
    }
}

#[test]
fn process_held_by_a_device_that_stands_still_is_left_behind_and_named() {
    if !can_mount("held device", &["losetup"]) {
        return;
    }
    for kind in ["psync:", ""] {
        let (bench, served) = (Bench::new(), Served::block(&["immediate"]));
        let target = format!("{kind}{}", served.place);
        let load = "random,size=4KiB,read=100%,closed=1";
        let arguments = [&target, "-w", load, "--duration", "1s", "--interval", "100ms", "--live"];
        let mut run = Measured::start(&bench, &[&arguments[..], &["--folder", "run", "--json"]].concat());
        run.has_begun();
        served.child.signal(Signal::STOP);
        let measuring = run.measuring();
        let ended = run.end();
        is_reported(&bench, &target, &ended);
        if kind == "psync:" {
            let figures: Value = serde_json::from_str(&ended.1).unwrap();
            let calls = &figures["cost"]["system_calls_per_request"];
            assert!(calls.is_null(), "those of a thread that does not come back are unknown: {calls}");
            assert_eq!(left_behind(&ended.2), measuring);
            assert!(ended.2.contains("`bench 0`") && ended.2.contains(" in pread64"), "{}", ended.2);
            assert!(is_there(measuring));
        }
        assert!(unfolded(&ended.2).contains(&format!("may keep process {measuring}, which sent them")));
        served.child.signal(Signal::CONT);
        until(|| if is_there(measuring) { Err(format!("process {measuring} stays")) } else { Ok(()) });
    }
}

/// A file system of its own on a loop device, mounted, and thawed and removed with the test.
struct Mounted {
    scene: Scene,
    device: String,
}

impl Mounted {
    fn new(name: &str) -> Self {
        let scene = Scene::new(name);
        let (image, place) = (scene.path("image"), scene.path("place"));
        fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        fs::create_dir(&place).unwrap();
        succeed("mkfs.ext4", &["-q", "-F", &image]);
        let device = succeed("losetup", &["--show", "-f", &image]).trim().to_owned();
        let mounted = Self { scene, device };
        succeed("mount", &[&mounted.device, &place]);
        mounted
    }

    fn place(&self) -> PathBuf {
        PathBuf::from(self.scene.path("place"))
    }

    fn freeze(&self) {
        succeed("fsfreeze", &["-f", &self.scene.path("place")]);
    }

    fn thaw(&self) {
        output("fsfreeze", &["-u", &self.scene.path("place")]);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.thaw();
        output("umount", &["-l", &self.scene.path("place")]);
        output("losetup", &["-d", &self.device]);
    }
}

#[test]
fn process_held_by_a_frozen_file_system_is_left_behind_and_named() {
    if !can_mount("frozen file system", &["losetup", "mkfs.ext4", "fsfreeze"]) {
        return;
    }
    for (kind, options) in [("psync:", &["--buffered"][..]), ("", &["--buffered"]), ("", &[])] {
        let (mounted, bench) = (Mounted::new("frozen"), Bench::new());
        let file = mounted.place().join("disk.img");
        let target = format!("{kind}{}", file.display());
        fs::write(&file, vec![7; 8 << 20]).unwrap();
        let load = "random,size=4KiB,read=0%,closed=1";
        let arguments =
            [&target, "-w", load, "--destroy", &target, "--duration", "1s", "--interval", "100ms"];
        let rest = ["--live", "--folder", "run", "--json"];
        let mut run = Measured::start(&bench, &[&arguments[..], &rest, options].concat());
        run.has_begun();
        mounted.freeze();
        let measuring = run.measuring();
        let ended = run.end();
        is_reported(&bench, &target, &ended);
        assert_eq!(left_behind(&ended.2), measuring, "{kind}{options:?}: {}", ended.2);
        assert!(is_there(measuring));
        mounted.thaw();
        until(|| if is_there(measuring) { Err(format!("process {measuring} stays")) } else { Ok(()) });
    }
}

#[test]
fn device_that_does_not_answer_before_the_run_ends_with_the_first_interrupt() {
    if !can_mount("device without an answer", &["losetup"]) {
        return;
    }
    let (bench, served) = (Bench::new(), Served::block(&["immediate"]));
    served.child.signal(Signal::STOP);
    let target = served.place.as_str();
    let load = "random,size=4KiB,read=0%,closed=1";
    let run = Measured::start(&bench, &[target, "-w", load, "--duration", "60s", "--destroy", target]);
    let measuring = is_held(&run);
    run.child.signal(Signal::INT);
    let (code, printed, errors) = run.end();
    assert_eq!((code, printed.as_str()), (1, ""), "{errors}");
    assert!(errors.contains("error: interrupted"), "{errors}");
    // A buffered read of a device that does not answer ends with its process.
    until(|| if is_there(measuring) { Err(format!("process {measuring} stays")) } else { Ok(()) });
}

/// Waits until the kernel holds a thread of the process that measures in a wait that no signal ends.
fn is_held(run: &Measured) -> u32 {
    let measuring = run.measuring();
    until(|| {
        let threads = fs::read_dir(format!("/proc/{measuring}/task")).unwrap().flatten();
        let stats = threads.map(|thread| fs::read_to_string(thread.path().join("stat")).unwrap_or_default());
        let is_held = stats.into_iter().any(|stat| stat.contains("(target) D"));
        if is_held { Ok(()) } else { Err("nothing waits for the device".to_owned()) }
    });
    measuring
}

#[test]
fn check_of_a_device_that_stands_still_ends_with_the_first_interrupt() {
    if !can_mount("check of a device without an answer", &["losetup"]) {
        return;
    }
    let (bench, served) = (Bench::new(), Served::block(&["immediate", "--size", "16MiB"]));
    let target = format!("psync:{}", served.place);
    let load = "sequential,size=4KiB,read=0%,closed=1,flush_every=100";
    let run = ["bench", &target, "-w", load, "--requests", "2000", "--verify", "--state", "state"];
    bench.run(&[&run[..], &["--destroy", &target]].concat()).done();
    served.child.signal(Signal::STOP);
    let run = Measured::start(&bench, &["verify", "state", "--json"]);
    let measuring = is_held(&run);
    run.child.signal(Signal::INT);
    let (code, printed, errors) = run.end();
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains(&format!("error: interrupted, and `{target}` does not answer")), "{errors}");
    let figures: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((&figures["stopped"], &figures["issued_writes"]), (&true.into(), &1981.into()), "{figures}");
    served.child.signal(Signal::CONT);
    until(|| if is_there(measuring) { Err(format!("process {measuring} stays")) } else { Ok(()) });
}

#[test]
fn file_that_is_made_on_a_frozen_file_system_ends_with_the_first_interrupt() {
    if !can_mount("file on a frozen file system", &["losetup", "mkfs.ext4", "fsfreeze"]) {
        return;
    }
    let (mounted, bench) = (Mounted::new("made"), Bench::new());
    let file = mounted.place().join("disk.img");
    let target = file.to_str().unwrap();
    mounted.freeze();
    let load = "random,size=4KiB,read=100%,closed=1";
    let run = Measured::start(&bench, &[target, "--create", "1MiB", "-w", load, "--duration", "60s"]);
    let measuring = is_held(&run);
    run.child.signal(Signal::INT);
    let (code, printed, errors) = run.end();
    assert_eq!((code, printed.as_str()), (1, ""), "{errors}");
    let expected = format!("error: {target}: interrupted while it was filled, and its file system does not");
    assert!(errors.contains(&expected), "{errors}");
    assert_eq!(left_behind(&errors), measuring);
    mounted.thaw();
    until(|| if is_there(measuring) { Err(format!("process {measuring} stays")) } else { Ok(()) });
}

/// A measurement of a file that ends in ten minutes.
fn long(bench: &Bench) -> Measured {
    bench.write("disk.img", vec![7; 1 << 20]);
    let load = "random,size=4KiB,read=100%,constant=200/s";
    let rest = ["--buffered", "--duration", "600s", "--interval", "100ms", "--live", "--json"];
    let mut run = Measured::start(bench, &[&["psync:disk.img", "-w", load], &rest[..]].concat());
    run.has_begun();
    run
}

#[test]
fn signal_of_the_terminal_to_both_processes_counts_once() {
    let bench = Bench::new();
    let run = long(&bench);
    kill_process_group(Pid::from_child(&run.child.0), Signal::INT).unwrap();
    let (code, printed, errors) = run.end();
    assert_eq!(code, 1, "{errors}");
    let figures: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(figures["stopped"], true);
    assert_eq!(errors.matches("error: interrupted").count(), 1, "{errors}");
}

#[test]
fn signal_to_the_measuring_process_alone_changes_nothing() {
    let bench = Bench::new();
    let mut run = long(&bench);
    let measuring = Pid::from_raw(run.measuring() as i32).unwrap();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        kill_process(measuring, signal).unwrap();
        run.has_begun();
    }
    run.child.signal(Signal::TERM);
    assert_eq!(run.end().0, 1);
}

#[test]
fn measuring_process_dies_with_the_one_that_was_started() {
    let bench = Bench::new();
    let run = long(&bench);
    let measuring = run.measuring();
    run.child.signal(Signal::KILL);
    until(|| if is_there(measuring) { Err(format!("process {measuring} stays")) } else { Ok(()) });
}

#[test]
fn trace_of_a_killed_measurement_has_the_requests_so_far() {
    let load = "random,size=4KiB,read=100%,poisson=100/s";
    for (is_supervisor, place, part) in [
        (false, ["--record", "t.parquet"], "t.parquet.part"),
        (true, ["--record", "t.parquet"], "t.parquet.part"),
        (false, ["--record", "--folder=run"], "run/trace.parquet.part"),
    ] {
        let bench = Bench::new();
        bench.write("there.img", vec![7; 1 << 20]);
        let run = ["psync:there.img", "--buffered", "-w", load, "--duration", "60s", "--interval", "0s"];
        let mut run = Measured::start(&bench, &[&run[..], &place].concat());
        // Few requests, and no interval that ends.
        until(|| match fs::metadata(bench.path(part)) {
            Ok(of) if of.len() > 3_000 => Ok(()),
            found => Err(format!("no rows are saved: {found:?}")),
        });
        let measuring = run.measuring();
        if is_supervisor {
            run.child.signal(Signal::KILL);
            run.child.0.wait().unwrap();
        } else {
            kill_process(Pid::from_raw(measuring as i32).unwrap(), Signal::KILL).unwrap();
        }
        until(|| if is_there(measuring) { Err(format!("process {measuring} stays")) } else { Ok(()) });
        bench.run(&["trace", "convert", part, "t.csv"]).done();
        let rows = String::from_utf8(bench.read("t.csv")).unwrap();
        let rows: Vec<&str> =
            rows.lines().filter(|line| line.starts_with(|of: char| of.is_ascii_digit())).collect();
        assert!(rows.len() > 30, "{place:?}: {} rows", rows.len());
    }
}

#[test]
fn trace_of_a_killed_measurement_waits_for_no_stream_whose_next_request_is_far() {
    let bench = Bench::new();
    bench.write("there.img", vec![7; 1 << 20]);
    let stream = |name: &str, load: &str| {
        format!("[[phases.streams]]\nname = \"{name}\"\nworkload = \"random,size=4KiB,read=100%,{load}\"\n")
    };
    let plan = "[targets.file]\naddress = \"psync:there.img\"\nbuffered = true\n\
                [[phases]]\nduration = \"60s\"\n"
        .to_owned()
        + &stream("rare", "constant=0.01/s")
        + &stream("slow", "closed=1,think=100s")
        + &stream("busy", "poisson=100/s");
    bench.write("plan.toml", plan.replace("\nname = ", "\ntarget = \"file\"\nname = "));
    let mut run = Measured::start(&bench, &["plan.toml", "--record", "t.parquet", "--interval", "0s"]);
    until(|| match fs::metadata(bench.path("t.parquet.part")) {
        Ok(of) if of.len() > 3_000 => Ok(()),
        found => Err(format!("no rows are saved: {found:?}")),
    });
    let measuring = run.measuring();
    kill_process(Pid::from_raw(measuring as i32).unwrap(), Signal::KILL).unwrap();
    run.child.0.wait().unwrap();
    until(|| if is_there(measuring) { Err(format!("process {measuring} stays")) } else { Ok(()) });
    bench.run(&["trace", "convert", "t.parquet.part", "t.csv"]).done();
    let rows = String::from_utf8(bench.read("t.csv")).unwrap();
    let rows: Vec<&str> =
        rows.lines().filter(|line| line.starts_with(|of: char| of.is_ascii_digit())).collect();
    assert!(rows.len() > 30, "{} rows", rows.len());
    let arrival = |row: &&str| row.split(',').next().unwrap().parse::<u64>().unwrap();
    assert!(rows.is_sorted_by_key(arrival), "{rows:?}");
}

#[test]
fn end_of_the_measuring_process_by_a_signal_is_an_error() {
    let bench = Bench::new();
    let run = long(&bench);
    kill_process(Pid::from_raw(run.measuring() as i32).unwrap(), Signal::KILL).unwrap();
    let (code, _, errors) = run.end();
    assert_eq!(code, 137);
    assert!(errors.contains("error: signal 9 ended the measuring process"), "{errors}");
}
