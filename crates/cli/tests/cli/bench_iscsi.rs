//! `seeklab bench` on units of tgtd over iSCSI: verified data, leave to write, limits, a server that dies, stops or is none,
//! and mistakes.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::Signal;
use serde_json::Value;

use super::bench::{Bench, Run, unfolded};
use super::survive::harness::{Guarded, SEEKLAB, has, until};

const TARGET: &str = "iqn.2026-11.dev.seeklab:test";
const SIZE_BYTES: usize = 16 << 20;

/// Returns true if a server can be started here. Otherwise prints the reason.
fn can_serve(test: &str) -> bool {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: {test}: tgtd needs root");
        return false;
    }
    has(test, &["tgtd", "tgtadm"])
}

/// A server with a port and a control socket of its own.
struct Tgtd<'a> {
    bench: &'a Bench,
    port: u16,
    server: Option<Guarded>,
    /// `tgtadm` with these arguments after every start.
    settings: Vec<Vec<String>>,
}

impl<'a> Tgtd<'a> {
    /// Starts a server with a target whose unit 1 is the file `disk`.
    fn start(bench: &'a Bench, parameters: &str) -> Self {
        bench.write("disk", vec![0; SIZE_BYTES]);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let disk = bench.path("disk").display().to_string();
        let settings = [
            "--op new --mode target --tid 1 -T".split(' ').chain([TARGET]).collect::<Vec<_>>(),
            "--op new --mode logicalunit --tid 1 --lun 1 -b".split(' ').chain([disk.as_str()]).collect(),
            "--op update --mode logicalunit --tid 1 --lun 1 --params"
                .split(' ')
                .chain([parameters])
                .collect(),
            "--op bind --mode target --tid 1 -I ALL".split(' ').collect(),
        ];
        let owned = |words: Vec<&str>| words.into_iter().map(str::to_owned).collect();
        let mut this =
            Self { bench, port, server: None, settings: settings.into_iter().map(owned).collect() };
        this.restart();
        this
    }

    /// Starts the server, or starts it again after [`kill`](Self::kill).
    fn restart(&mut self) {
        let mut command = Command::new("tgtd");
        command.args(["-f", "-C", "1", "-t", "2", "--iscsi"]).arg(format!("portal=127.0.0.1:{}", self.port));
        command.env("TGT_IPC_SOCKET", self.bench.path("control")).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Guarded(command.spawn().unwrap());
        until(|| {
            assert!(server.0.try_wait().unwrap().is_none(), "tgtd ended");
            self.control(&["--op", "show", "--mode", "target"])
        });
        self.server = Some(server);
        for setting in &self.settings {
            let words: Vec<&str> = setting.iter().map(String::as_str).collect();
            self.control(&words).unwrap();
        }
    }

    fn kill(&mut self) {
        self.server = None;
    }

    fn signal(&self, signal: Signal) {
        self.server.as_ref().unwrap().signal(signal);
    }

    fn control(&self, arguments: &[&str]) -> Result<(), String> {
        let mut command = Command::new("tgtadm");
        command.args(["-C", "1", "--lld", "iscsi"]).args(arguments);
        let output = command.env("TGT_IPC_SOCKET", self.bench.path("control")).output().unwrap();
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    fn address(&self, rest: &str) -> String {
        format!("iscsi://127.0.0.1:{}/{rest}", self.port)
    }

    fn unit(&self) -> String {
        self.address(&format!("{TARGET}/1"))
    }
}

fn spawn(arguments: &[&str]) -> Child {
    let mut command = Command::new(SEEKLAB);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn document(child: &mut Child) -> Value {
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The text of both outputs.
fn text_of(run: &Run) -> String {
    unfolded(&run.stdout) + &unfolded(&run.stderr)
}

#[test]
fn unit_is_verified_and_overwritten_by_its_name_only() {
    if !can_serve("unit_is_verified_and_overwritten_by_its_name_only") {
        return;
    }
    let bench = Bench::new();
    let server = Tgtd::start(&bench, "thin_provisioning=1,scsi_sn=SEEK0001");
    let unit = server.unit();
    let load = "random,size=512B:1+4KiB:4+256KiB:1,read=50%,fua=10%,flush_every=50,closed=32,requests=4000";
    let write = ["bench", &unit, "-w", load, "--verify", "--threads", "2"];
    for (name, part) in
        [(None, "the workload writes, which destroys its contents"), (Some("iscsi://x"), "another target")]
    {
        let named: Vec<&str> = name.into_iter().flat_map(|name| ["--destroy", name]).collect();
        let run = bench.run(&[&write[..], &named].concat());
        run.fails(&[]);
        assert!(text_of(&run).contains(part), "{}", run.stderr);
    }
    assert_eq!(bench.read("disk"), vec![0; SIZE_BYTES], "nothing was written");
    let figures = bench.json(&[&write[..], &["--destroy", &unit, "--folder", "run"]].concat());
    assert_eq!((&figures["requests"], &figures["errors"]), (&4000.into(), &0.into()));
    assert!(figures["verification"]["checked_blocks"].as_u64() > Some(4_000), "{figures:#}");
    assert_eq!(figures["verification"]["finding_blocks"], 0, "{figures:#}");
    assert_ne!(bench.read("disk"), vec![0; SIZE_BYTES]);
    let kept: Value = serde_json::from_slice(&bench.read("run/run.json")).unwrap();
    let target = &kept["run"]["targets"][0];
    assert_eq!((&target["target"], &target["target_kind"]), (&unit.clone().into(), &"iscsi".into()));
    assert_eq!((&target["serial"], &target["capacity_bytes"]), (&"SEEK0001".into(), &SIZE_BYTES.into()));
    assert_eq!((&target["path"], &target["block_device"]), (&Value::Null, &false.into()));
    // The file has what was read back: a later check finds the last writes there.
    let state = ["--destroy", &unit, "--state", "state"];
    bench.json(&[&write[..], &state].concat());
    let checked = bench.json(&["bench", "verify", "state"]);
    assert_eq!(checked["finding_blocks"], 0, "{checked:#}");
    assert!(checked["checked_blocks"].as_u64() > Some(1_000), "{checked:#}");
    bench.write("disk", vec![7; SIZE_BYTES]);
    let run = bench.run(&["bench", "verify", "state", "--json"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
}

#[test]
fn discards_and_zeroes_reach_the_blocks_of_their_address() {
    if !can_serve("discards_and_zeroes_reach_the_blocks_of_their_address") {
        return;
    }
    let bench = Bench::new();
    let server = Tgtd::start(&bench, "thin_provisioning=1");
    let unit = server.unit();
    for operation in ["discard", "write_zeroes"] {
        bench.write("disk", vec![7; SIZE_BYTES]);
        let ranges = [(8, 504), (1024, 8), (30_000, 2_768)];
        let rows = ranges.map(|(lbn, blocks)| format!("0,{operation},{lbn},{blocks}\n"));
        bench.write("t.csv", format!("arrival_ns,op,lbn,blocks\n{}", rows.concat()));
        let figures = bench.json(&["bench", &unit, "-w", "t.csv", "--destroy", &unit]);
        assert_eq!((&figures["others"], &figures["errors"]), (&3.into(), &0.into()), "{figures:#}");
        let mut expected = vec![7; SIZE_BYTES];
        ranges.into_iter().for_each(|(lbn, blocks)| expected[lbn * 512..(lbn + blocks) * 512].fill(0));
        assert!(bench.read("disk") == expected, "{operation}");
    }
    let load = "random,size=4KiB:4+256KiB:1,read=50%,discard=10%,write_zeroes=10%,closed=1,requests=2000";
    let figures = bench.json(&["bench", &unit, "-w", load, "--destroy", &unit, "--verify"]);
    assert_eq!((&figures["requests"], &figures["errors"]), (&2_000.into(), &0.into()));
    assert_eq!(figures["verification"]["finding_blocks"], 0, "{figures:#}");
}

#[test]
fn plan_is_bound_to_serial_number_and_size_of_a_unit() {
    if !can_serve("plan_is_bound_to_serial_number_and_size_of_a_unit") {
        return;
    }
    let bench = Bench::new();
    let server = Tgtd::start(&bench, "scsi_sn=SEEK0001");
    let unit = server.unit();
    let plan = |serial: &str, capacity: &str| {
        let text = format!(
            "target = \"disk\"\n[targets.disk]\naddress = \"{unit}\"\nserial = \"{serial}\"\ncapacity = \"{capacity}\"\n\
             [[phases]]\nrequests = 50\n[[phases.streams]]\nworkload = \"random,size=4KiB,read=100%,closed=4\"\n"
        );
        bench.write("plan.toml", text);
        bench.run(&["bench", "plan.toml"])
    };
    plan("SEEK0001", "16MiB").done();
    let run = plan("SEEK0002", "16MiB");
    assert!(
        text_of(&run).contains("has the serial number `SEEK0001`, and `SEEK0002` is expected"),
        "{}",
        run.stderr
    );
    let run = plan("SEEK0001", "17MiB");
    assert!(text_of(&run).contains("has 16MiB, and 17MiB is expected"), "{}", run.stderr);
}

#[test]
fn limits_of_a_unit_are_known_before_the_run() {
    if !can_serve("limits_of_a_unit_are_known_before_the_run") {
        return;
    }
    let bench = Bench::new();
    let server = Tgtd::start(&bench, "thin_provisioning=0");
    let unit = server.unit();
    let run = |load: &str| {
        bench.run(&["bench", &unit, "-w", &format!("random,{load},closed=2,requests=20"), "--destroy", &unit])
    };
    run("size=4KiB,read=50%,discard=10%").fails(&["carries out no discard", "hint: "]);
    run("size=4KiB,read=50%,write_zeroes=10%,flush_every=5").done();
    server
        .control(&[
            "--op",
            "update",
            "--mode",
            "logicalunit",
            "--tid",
            "1",
            "--lun",
            "1",
            "--params",
            "readonly=1",
        ])
        .unwrap();
    run("size=4KiB,read=50%").fails(&["the unit refuses writes", "read=100%"]);
    bench.run(&["bench", &unit, "-w", "random,size=4KiB,read=100%,closed=2,requests=20"]).done();
    bench
        .run(&["bench", &unit, "-w", "random,read=100%,closed=2", "--create", "1MiB"])
        .fails(&["is no file"]);
}

#[test]
fn killed_server_costs_no_acknowledged_write() {
    if !can_serve("killed_server_costs_no_acknowledged_write") {
        return;
    }
    let bench = Bench::new();
    let mut server = Tgtd::start(&bench, "scsi_sn=SEEK0001");
    let unit = server.unit();
    let load = "random,size=4KiB,read=50%,closed=32,requests=200000";
    let mut child = Guarded(spawn(&[
        "bench",
        &unit,
        "--destroy",
        &unit,
        "--verify",
        "--json",
        "--live",
        "--interval",
        "100ms",
        "--retries",
        "1",
        "-w",
        load,
    ]));
    let mut lines = BufReader::new(child.0.stderr.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    // The server dies with requests. Without the stop, it may have answered all of them just then.
    server.signal(Signal::STOP);
    assert!(lines.any(|line| line.unwrap().contains("  32 hung, ")), "32 requests hang");
    server.kill();
    server.restart();
    // Both outputs are read, so that neither keeps it waiting.
    let rest = thread::spawn(move || lines.for_each(drop));
    let figures = document(&mut child.0);
    rest.join().unwrap();
    assert!(figures["reconnections"].as_u64() >= Some(1), "{figures:#}");
    assert!(figures["errors"].as_u64() >= Some(1), "{figures:#}");
    assert!(figures["retries"]["retries"].as_u64() >= Some(1), "{figures:#}");
    let ended = figures["requests"].as_u64().unwrap() + figures["failed_requests"].as_u64().unwrap();
    assert_eq!(ended, 200_000, "{figures:#}");
    assert_eq!(figures["verification"]["finding_blocks"], 0, "{figures:#}");
}

#[test]
fn stopped_server_does_not_keep_the_report_back() {
    if !can_serve("stopped_server_does_not_keep_the_report_back") {
        return;
    }
    let bench = Bench::new();
    let server = Tgtd::start(&bench, "scsi_sn=SEEK0001");
    let unit = server.unit();
    let mut child = Guarded(spawn(&[
        "bench",
        &unit,
        "--json",
        "--live",
        "--interval",
        "100ms",
        "--timeout",
        "300ms",
        "--duration",
        "3s",
        "-w",
        "random,size=4KiB,read=100%,constant=200/s",
    ]));
    let mut lines = BufReader::new(child.0.stderr.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    server.signal(Signal::STOP);
    // Both outputs are read, so that neither keeps it waiting.
    let rest = thread::spawn(move || lines.for_each(drop));
    let figures = document(&mut child.0);
    rest.join().unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(1), "{figures:#}");
    server.signal(Signal::CONT);
    assert!(figures["statuses"]["timeout"].as_u64() >= Some(1), "{figures:#}");
    // The first one beyond its time limit cuts the connection, which ends the others.
    assert!(figures["statuses"]["gone"].as_u64() >= Some(1), "{figures:#}");
    assert!(figures["requests"].as_u64() >= Some(1), "{figures:#}");
    // They show while they hang: an interval has the age of the oldest.
    let intervals = figures["intervals"].as_array().unwrap();
    let oldest = intervals.iter().filter_map(|interval| interval["oldest_ms"].as_f64()).fold(0.0, f64::max);
    assert!(oldest >= 100.0, "{figures:#}");
}

#[test]
fn mistakes_with_units_are_named_without_a_password() {
    if !can_serve("mistakes_with_units_are_named_without_a_password") {
        return;
    }
    let bench = Bench::new();
    let server = Tgtd::start(&bench, "scsi_sn=SEEK0001");
    let [user, password, wrong] = ["annabel", "Twelve+Signs", "Thirteen+Signs"];
    let load = ["-w", "random,size=4KiB,read=100%,closed=4,requests=100", "--json"];
    let read = |variables: &[(&str, &str)], address: &str| {
        let run = bench.run_with(variables, &[&["bench", address][..], &load].concat());
        let text = text_of(&run);
        assert!(![password, wrong, user].iter().any(|secret| text.contains(secret)), "{text}");
        (run.code, text)
    };
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for (address, part) in [
        (
            server.address("iqn.2026-11.dev.seeklab:other/1"),
            "it has no target `iqn.2026-11.dev.seeklab:other`",
        ),
        (server.address(&format!("{TARGET}/9")), "the target has no unit 9"),
        (server.address(&format!("{TARGET}/0")), "is no disk, but a device of type 12"),
        (format!("iscsi://127.0.0.1:{unused}/{TARGET}/1"), "cannot connect: Connection refused"),
        (format!("iscsi://{user}%{password}@127.0.0.1/{TARGET}/1"), "an address names no user"),
        (format!("iscsi://127.0.0.1/{TARGET}"), "it has 2 parts"),
    ] {
        let (code, text) = read(&[], &address);
        assert!(code == 2 && text.contains(part), "{address}: {text}");
    }
    assert_eq!(read(&[], &server.unit()).0, 0);
    let account = ["--op", "new", "--mode", "account", "--user", user, "--password", password];
    server.control(&account).unwrap();
    server.control(&["--op", "bind", "--mode", "account", "--tid", "1", "--user", user]).unwrap();
    let variables = |password| [("LIBISCSI_CHAP_USERNAME", user), ("LIBISCSI_CHAP_PASSWORD", password)];
    let (code, text) = read(&[], &server.unit());
    assert!(code == 2 && text.contains("it demands a user name and a password (CHAP)"), "{text}");
    let (code, text) = read(&variables(wrong), &server.unit());
    assert!(code == 2 && text.contains("user name or password"), "{text}");
    assert_eq!(read(&variables(password), &server.unit()).0, 0);
    bench.write("chap", format!("{user}\n{password}\n"));
    let chap = format!("{}?chap={}", server.unit(), bench.path("chap").display());
    let (code, text) = read(&[], &chap);
    assert_eq!(code, 0, "{text}");
    let kept = bench.run(&[&["bench", &chap, "--folder", "run"][..], &load].concat());
    kept.done();
    let document = String::from_utf8(bench.read("run/run.json")).unwrap();
    assert!(!document.contains(password) && !document.contains(user), "{document}");
}

#[test]
fn mute_portal_is_left_at_an_interrupt_and_at_its_time_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let unit = format!("iscsi://{}/{TARGET}/1", listener.local_addr().unwrap());
    let arguments = ["bench", &unit, "-w", "random,size=4KiB,read=100%,closed=1,requests=5"];
    let child = Guarded(spawn(&arguments));
    let _mute = listener.accept().unwrap();
    child.signal(Signal::INT);
    let code = { child }.0.wait().unwrap().code();
    assert_eq!(code, Some(1));
    let mut child = Guarded(spawn(&arguments));
    let _mute = listener.accept().unwrap();
    let mut text = String::new();
    child.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(unfolded(&text).contains("the portal has not answered for 10 s"), "{text}");
    assert_eq!(child.0.wait().unwrap().code(), Some(2));
}
