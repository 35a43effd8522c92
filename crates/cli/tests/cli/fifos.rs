//! A FIFO as an input or an output: its other end is awaited, and signals end the wait.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::bench::{Bench, RANDOM};

const FIFO: &str = "fifo.csv";

/// A command that waits for the reader of its output.
struct Waiting {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Waiting {
    fn start(bench: &Bench, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_seeklab"))
            .args(arguments)
            .current_dir(bench.path("."))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut text = String::new();
        while !text.contains(&format!("waiting for a reader of the FIFO {FIFO}")) {
            let bytes = stderr.read_line(&mut text).unwrap();
            assert!(bytes > 0, "{arguments:?}: it ended: {text}");
        }
        Self { child, stderr }
    }

    /// Waits for the end. Returns the exit code and the rest of stderr.
    fn end(mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        self.stderr.read_to_string(&mut text).unwrap();
        (self.child.wait().unwrap().code(), text)
    }
}

fn bench() -> Bench {
    let bench = Bench::new();
    bench.trace("t.csv");
    bench.run(&["fit", "t.csv", "-o", "clone.toml"]).done();
    bench.write("backing", vec![0; 1 << 20]);
    assert!(Command::new("mkfifo").arg(bench.path(FIFO)).status().unwrap().success());
    bench
}

fn names(bench: &Bench) -> BTreeSet<std::ffi::OsString> {
    fs::read_dir(bench.path(".")).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

#[test]
fn signal_ends_the_wait_for_a_reader() {
    let bench = bench();
    let before = names(&bench);
    for arguments in [
        &["simulate", "hp-c2247a", "-w", RANDOM, "--report", FIFO][..],
        &["simulate", "hp-c2247a", "-w", RANDOM, "--out", FIFO],
        &["devices", "clone.toml", "--report", FIFO],
        &["compare", "t.csv", "t.csv", "--report", FIFO],
        &["fit", "t.csv", "-o", FIFO],
        &["trace", "report", "t.csv", "--report", FIFO],
        &["trace", "convert", "t.csv", FIFO],
        &["trace", "slice", "t.csv", "-o", FIFO],
        &["trace", "remap", "t.csv", "-o", FIFO, "--shuffle"],
        &["serve", "immediate", "--nbd", "unix:socket", "--record", FIFO],
        &["record", "--backing", "backing", "--nbd", "unix:socket", "-o", FIFO],
    ] {
        let waiting = Waiting::start(&bench, arguments);
        kill_process(Pid::from_child(&waiting.child), Signal::TERM).unwrap();
        let (code, text) = waiting.end();
        assert_eq!(code, Some(1), "{arguments:?}: {text}");
        assert!(text.contains("no process has opened the FIFO for reading: interrupted"), "{text}");
        assert_eq!(names(&bench), before, "{arguments:?}");
    }
}

/// Sends SIGINT, again and again, to a command that handles it, until the command has ended. Returns its exit code.
fn interrupt_until_it_ends(mut child: Child) -> Option<i32> {
    let process = Pid::from_child(&child);
    let status = format!("/proc/{}/status", process.as_raw_nonzero());
    let handles_it = || {
        let text = fs::read_to_string(&status).unwrap();
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        u64::from_str_radix(mask, 16).unwrap() & 2 != 0
    };
    while !handles_it() {
        thread::yield_now();
    }
    for _ in 0..1000 {
        kill_process(process, Signal::INT).unwrap();
        thread::park_timeout(Duration::from_millis(20));
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("1000 signals did not end it");
}

#[test]
fn second_signal_ends_what_a_pipe_holds_up() {
    let bench = bench();
    let before = names(&bench);
    let start = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seeklab"));
        let command = command.args(arguments).current_dir(bench.path("."));
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    // Nobody writes.
    let unwritten = start(&["trace", "info", FIFO]);
    assert_eq!(interrupt_until_it_ends(unwritten), Some(1));
    // Somebody has opened it, and writes nothing.
    let silent = start(&["trace", "convert", FIFO, "converted.csv"]);
    let writer = File::options().write(true).open(bench.path(FIFO)).unwrap();
    assert_eq!(interrupt_until_it_ends(silent), Some(1));
    drop(writer);
    // Somebody has opened it, and reads nothing.
    let unread = start(&["simulate", "hp-c2247a", "-w", "random,poisson=60/s,requests=20000", "--out", FIFO]);
    let reader = File::open(bench.path(FIFO)).unwrap();
    assert_eq!(interrupt_until_it_ends(unread), Some(1));
    drop(reader);
    assert_eq!(names(&bench), before);
}

#[test]
fn reader_that_comes_late_receives_the_whole_output() {
    let bench = bench();
    let waiting = Waiting::start(&bench, &["simulate", "hp-c2247a", "-w", RANDOM, "--report", FIFO]);
    let report = fs::read_to_string(bench.path(FIFO)).unwrap();
    let (begin, end) = (&report[..15], &report[report.len() - 8..]);
    assert_eq!((begin.to_lowercase().as_str(), end.trim()), ("<!doctype html>", "</html>"));
    let (code, text) = waiting.end();
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn fifo_is_refused_where_a_result_is_read_back() {
    let bench = bench();
    let series = ["run", "immediate", "--builtin", "postmark,transactions=1,files=1", "--results", FIFO];
    bench.run(&series).fails(&["fifo.csv: is no regular file", "hint: name a file"]);
}
