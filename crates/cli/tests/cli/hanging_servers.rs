//! `seeklab bench` and `bench verify` on an NBD server that takes the connection and never answers: a signal ends them at once.

use std::io::Read;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use super::bench::{Bench, unfolded};
use crate::survive::harness::{Guarded, SEEKLAB, Served, now_ns, until};

/// Starts seeklab on a server that says nothing, sends a signal when it has connected, and returns what it wrote to stderr.
fn interrupted(bench: &Bench, listener: &UnixListener, arguments: &[&str], signal: Signal) -> String {
    let child = Command::new(SEEKLAB)
        .args(arguments)
        .current_dir(bench.path("."))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Guarded(child);
    // The handshake has begun, and its limit of 10 s is far.
    let _mute = listener.accept().unwrap();
    let begin_ns = now_ns();
    child.signal(signal);
    let mut status = None;
    until(|| {
        status = child.0.try_wait().unwrap();
        status.map(drop).ok_or_else(|| format!("{arguments:?} does not end"))
    });
    let taken_ns = now_ns() - begin_ns;
    assert!(taken_ns < 9_000_000_000, "{arguments:?}: {taken_ns} ns");
    assert_eq!(status.unwrap().code(), Some(1), "{arguments:?}");
    let mut text = String::new();
    child.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    unfolded(&text)
}

#[test]
fn signal_ends_a_command_that_waits_for_a_handshake() {
    let bench = Bench::new();
    let served = Served::nbd(&bench.path("."), &["immediate", "--size", "4MiB"]);
    let (uri, socket) = (served.place.clone(), served.socket.clone());
    let load = "random,size=4KiB,read=50%,closed=2,requests=100";
    let verified = ["bench", &uri, "-w", load, "--destroy", &uri, "--verify", "--state", "state"];
    bench.run(&verified).done();
    drop(served);
    let _ = std::fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).unwrap();
    let read = "random,size=4KiB,read=100%,closed=2";
    // Nobody accepts this one.
    bench.run(&["bench", &uri, "-w", read, "--requests", "9"]).fails(&[
        "has not answered for 10 s",
        "hint: something listens there: check that it is a server of NBD",
    ]);
    let _unheard = listener.accept().unwrap();
    bench.write(
        "plan.toml",
        format!(
            "target = \"{uri}\"\n[[phases]]\nduration = \"1s\"\n[[phases.streams]]\nworkload = \"{read}\"\n"
        ),
    );
    for signal in [Signal::INT, Signal::TERM] {
        let folder = format!("folder{}", signal.as_raw());
        let measured =
            ["bench", &uri, "-w", read, "--duration", "1s", "--timeout", "1s", "--folder", &folder];
        for arguments in
            [&measured[..], &["bench", "plan.toml"], &["bench", "verify", "state", "--acknowledged"]]
        {
            let text = interrupted(&bench, &listener, arguments, signal);
            assert_eq!(text, "error: interrupted", "{arguments:?}");
        }
        // What the run left behind can be read.
        let document: Value = serde_json::from_slice(&bench.read(&format!("{folder}/run.json"))).unwrap();
        let run = &document["run"];
        assert_eq!(run["state"], "failed", "{run:#}");
        assert!(run["failure"].as_str().unwrap().contains("interrupted"), "{run:#}");
    }
}
