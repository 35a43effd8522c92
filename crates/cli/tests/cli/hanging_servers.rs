//! `seeklab bench` and `bench verify` on an NBD server that takes the connection and never answers: a signal ends them at once.

use std::io::Read;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{JoinHandle, spawn};

use rustix::process::Signal;
use serde_json::Value;

use super::bench::{Bench, unfolded};
use crate::survive::harness::{Guarded, SEEKLAB, Served, now_ns, until};

/// Starts seeklab in the folder of the bench.
fn started(bench: &Bench, arguments: &[&str]) -> Guarded {
    let mut command = Command::new(SEEKLAB);
    command.args(arguments).current_dir(bench.path("."));
    Guarded(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

/// Starts seeklab on a server that says nothing, sends a signal when it has connected, and returns what it wrote to stderr.
fn interrupted(bench: &Bench, listener: &UnixListener, arguments: &[&str], signal: Signal) -> String {
    let mut child = started(bench, arguments);
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
            let when = if arguments[1] == "verify" { "" } else { " before anything was measured" };
            assert_eq!(text, format!("error: interrupted{when}"), "{arguments:?}");
        }
        // What the run left behind can be read.
        let document: Value = serde_json::from_slice(&bench.read(&format!("{folder}/run.json"))).unwrap();
        let run = &document["run"];
        assert_eq!(run["state"], "stopped", "{run:#}");
        assert_eq!(run["failure"], "interrupted before anything was measured", "{run:#}");
        bench.run(&["bench", "compare", &folder, &folder]).fails(&["ended without figures"]);
    }
}

/// Hands bytes on from one socket to another until the first one ends.
fn hand_on(from: &UnixStream, to: &UnixStream) -> JoinHandle<()> {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    })
}

#[test]
fn stop_while_a_target_is_opened_for_a_trial_keeps_the_trials_before() {
    let bench = Bench::new();
    let served = Served::nbd(&bench.path("."), &["immediate", "--size", "4MiB"]);
    let place = bench.path("between");
    let listener = UnixListener::bind(&place).unwrap();
    let uri = format!("nbd+unix:///?socket={}", place.display());
    let load = "random,size=4KiB,read=100%,poisson=1000/s";
    let run = ["bench", &uri, "-w", load, "--requests", "50", "--find-rate", "response_p99_ms<=10000"];
    let mut child = started(&bench, &[&run[..], &["--folder", "run", "--json"]].concat());
    // Each trial has a connection of its own, behind those that examine the target.
    let mut threads = Vec::new();
    for _ in 0..4 {
        let client = listener.accept().unwrap().0;
        let server = UnixStream::connect(&served.socket).unwrap();
        threads.extend([hand_on(&client, &server), hand_on(&server, &client)]);
    }
    let _mute = listener.accept().unwrap();
    child.signal(Signal::TERM);
    let mut text = String::new();
    child.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(1));
    let figures: Value = serde_json::from_str(&text).unwrap();
    let found = &figures["found_rate"];
    assert_eq!((&figures["stopped"], &found["complete"]), (&true.into(), &false.into()), "{found:#}");
    let trials = found["trials"].as_array().unwrap();
    assert!(!trials.is_empty() && trials.iter().all(|trial| trial["holds"] == true), "{found:#}");
    assert_eq!(trials.last().unwrap()["arrivals_per_s"], found["arrivals_per_s"]);
    assert!(figures["notes"].to_string().contains("was broken off: it held at"), "{}", figures["notes"]);
    let kept: Value = serde_json::from_slice(&bench.read("run/run.json")).unwrap();
    assert_eq!((&kept["run"]["state"], &kept["found_rate"]), (&"stopped".into(), found));
}

/// Hands connections on to a server, except the one of a number, which it sends to the receiver.
struct Proxy {
    /// Connections so far.
    connections: Arc<AtomicUsize>,
    /// Number of the connection that gets no answer, from 1 on.
    mute_at: Arc<AtomicUsize>,
    mute: Receiver<UnixStream>,
}

impl Proxy {
    fn start(listener: UnixListener, served: &Served) -> Self {
        let (sender, mute) = channel();
        let (connections, mute_at) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(usize::MAX)));
        let (count, number, socket) = (connections.clone(), mute_at.clone(), served.socket.clone());
        spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if count.fetch_add(1, Ordering::SeqCst) + 1 == number.load(Ordering::SeqCst) {
                    let _ = sender.send(client);
                } else if let Ok(server) = UnixStream::connect(&socket) {
                    hand_on(&client, &server);
                    hand_on(&server, &client);
                }
            }
        });
        Self { connections, mute_at, mute }
    }
}

#[test]
fn stopped_read_back_leaves_the_report_of_what_was_measured() {
    let bench = Bench::new();
    let served = Served::nbd(&bench.path("."), &["immediate", "--size", "4MiB"]);
    let place = bench.path("between");
    let proxy = Proxy::start(UnixListener::bind(&place).unwrap(), &served);
    let uri = format!("nbd+unix:///?socket={}", place.display());
    let load = "random,size=4KiB,read=0%,closed=2";
    let arguments = |folder| {
        let run = ["bench", &uri, "-w", load, "--requests", "50", "--destroy", &uri];
        [&run[..], &["--verify", "--read-back", "--folder", folder, "--json"]].concat()
    };
    let whole: Value = serde_json::from_str(&bench.run(&arguments("whole")).done()).unwrap();
    let read_back = &whole["verification"]["read_back"];
    assert_eq!(read_back["complete"], true, "{whole:#}");
    let blocks = read_back["blocks"].as_u64().unwrap();
    assert!(blocks > 0, "{whole:#}");
    // Its last connection was that of the blocks that were read back.
    proxy.mute_at.store(2 * proxy.connections.load(Ordering::SeqCst), Ordering::SeqCst);
    let mut child = started(&bench, &arguments("stopped"));
    let _mute = proxy.mute.recv().unwrap();
    child.signal(Signal::INT);
    let mut text = String::new();
    child.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(1));
    let figures: Value = serde_json::from_str(&text).unwrap();
    let read_back = &figures["verification"]["read_back"];
    assert_eq!((&figures["stopped"], &read_back["complete"]), (&true.into(), &false.into()), "{figures:#}");
    assert_eq!((&figures["requests"], read_back["blocks"].as_u64()), (&50.into(), Some(0)), "{figures:#}");
    let kept: Value = serde_json::from_slice(&bench.read("stopped/run.json")).unwrap();
    assert_eq!((&kept["run"]["state"], &kept["requests"]), (&"stopped".into(), &50.into()), "{kept:#}");
}
