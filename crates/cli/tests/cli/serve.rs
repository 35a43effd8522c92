//! `seeklab serve` serves real clients, and leaves nothing behind.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use seeklab_emulator::frontend::PROTOCOLS;

/// An emulation that runs in the background.
struct Served {
    child: Child,
    uri: String,
    /// The line that names a command to try.
    trial: String,
}

impl Served {
    fn start(socket: &Path, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_seeklab"))
            .arg("serve")
            .args(arguments)
            .args(["--json", "--nbd", &format!("unix:{}", socket.display())])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        let uri = line.split(" is ready: ").nth(1).unwrap_or_else(|| panic!("{line}")).trim().to_owned();
        let trial = lines.next().unwrap().unwrap();
        Self { child, uri, trial }
    }

    /// Interrupts it and returns its document.
    fn interrupt(mut self) -> serde_json::Value {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        serde_json::from_reader(self.child.stdout.take().unwrap()).unwrap()
    }
}

/// Runs qemu's client, `None` with a line where it is not installed.
fn qemu_io(uri: &str, commands: &[&str]) -> Option<String> {
    let mut command = Command::new("qemu-io");
    command.args(["-f", "raw"]);
    for line in commands {
        command.args(["-c", line]);
    }
    let Ok(output) = command.arg(uri).output() else {
        eprintln!("skipped: qemu-io is not installed");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    Some(text)
}

#[test]
fn client_reads_back_its_data_and_the_trace_has_its_requests() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, trace) = (folder.path().join("nbd"), folder.path().join("seen.csv"));
    let served =
        Served::start(&socket, &["atlas10k", "--size", "64MiB", "--record", trace.to_str().unwrap()]);
    let commands = ["write -P 0xab 1M 64k", "read -P 0xab 1M 64k", "read -P 0 2M 4k", "flush"];
    let Some(text) = qemu_io(&served.uri, &commands) else {
        served.interrupt();
        return;
    };
    assert!(!text.contains("verification failed"), "{text}");
    let document = served.interrupt();
    let requests = document["requests"].as_u64().unwrap();
    assert!(requests >= 4, "{document}");
    assert!(document["lateness_p50_us"].is_number(), "{document}");
    assert!(!socket.exists(), "the socket is left behind");
    let rows = std::fs::read_to_string(&trace).unwrap();
    let rows = rows.lines().filter(|line| !line.starts_with('#')).count() as u64 - 1;
    assert_eq!(rows, requests, "every request is in the trace");
    assert!(std::fs::read_dir(folder.path()).unwrap().count() == 1, "files are left behind");
    // The model's times are in the trace: what it was given, replayed, completes at the same nanoseconds.
    let seeklab = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_seeklab"))
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    seeklab(&["simulate", "atlas10k", "-w", "seen.csv", "--open", "--out", "again.csv"]);
    let read =
        |arguments: &[&str]| -> serde_json::Value { serde_json::from_slice(&seeklab(arguments)).unwrap() };
    let again = read(&["compare", "seen.csv", "again.csv", "--json"]);
    assert_eq!((&again["requests"], again["ei_rms_ms"].as_f64()), (&requests.into(), Some(0.0)), "{again}");
    // And the emulator's stand beside them.
    let between = read(&["compare", "seen.csv", "--between", "mp2,mp3", "--json"]);
    assert_eq!(between["requests"].as_u64(), Some(requests), "{between}");
    assert_eq!(between["deadline_misses"], document["deadline_misses"], "{between}");
}

#[test]
fn file_store_keeps_written_data() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, file) = (folder.path().join("nbd"), folder.path().join("disk.img"));
    let store = format!("file:{}", file.display());
    let arguments = ["immediate", "--size", "16MiB", "--store", &store];
    let served = Served::start(&socket, &arguments);
    let written = qemu_io(&served.uri, &["write -P 0x5a 8M 128k"]);
    served.interrupt();
    if written.is_none() {
        return;
    }
    let served = Served::start(&socket, &arguments);
    let text = qemu_io(&served.uri, &["read -P 0x5a 8M 128k", "read -P 0 0 128k"]).unwrap();
    assert!(!text.contains("verification failed"), "{text}");
    served.interrupt();
}

#[test]
fn ready_text_names_a_command_to_try() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(&folder.path().join("nbd"), &["immediate", "--size", "1MiB"]);
    assert_eq!(served.trial, format!("end it with Ctrl-C; try it with: nbdinfo '{}'", served.uri));
    served.interrupt();
}

#[test]
fn serve_and_record_offer_every_protocol() {
    for verb in ["serve", "record"] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_seeklab")).args([verb, "--help"]).output().unwrap().stdout;
        let help = String::from_utf8(output).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        for protocol in PROTOCOLS {
            let option = format!("--{} <{}> {}", protocol.name, protocol.value_name, protocol.help);
            assert!(help.contains(&option), "{verb}: {option}: {help}");
        }
        assert!(help.contains("in the temporary folder, unless --block or --fuse"), "{help}");
    }
}

#[test]
fn wrong_options_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let here = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let socket = format!("unix:{}", here("nbd"));
    let directory = here("");
    for (arguments, expected) in [
        (vec!["immediate", "--nbd", "smoke:signals"], "smoke"),
        (vec!["immediate", "--nbd", &socket, "--size", "100B"], "cannot be exported"),
        (vec!["hp-c2247a", "--nbd", &socket, "--size", "1TiB"], "cannot be exported"),
        (vec!["immediate", "--nbd", &socket, "--store", "tape"], "`ram` and `file:PATH`"),
        (
            vec!["immediate", "--nbd", &socket, "--size", "1MiB", "--image", "/no/such/image"],
            "/no/such/image",
        ),
        (vec!["immediate", "--nbd", &socket, "--fuse", &directory], "where --fuse serves the device"),
    ] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_seeklab")).arg("serve").args(&arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty());
    }
}
