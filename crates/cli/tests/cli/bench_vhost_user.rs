//! `seeklab bench` on disks of qemu's storage daemon over vhost-user: verified data, limits, a server that dies, stops or is
//! none.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::Signal;
use serde_json::Value;

use super::bench::{Bench, unfolded};
use super::survive::harness::{Guarded, SEEKLAB, has, until};

const SERVER: &str = "qemu-storage-daemon";
const SIZE_BYTES: usize = 16 << 20;

/// Serves the file `disk` at the socket `s`, with these options of the export.
fn serve(bench: &Bench, options: &str) -> Guarded {
    let _ = std::fs::remove_file(bench.path("s"));
    let (disk, socket) = (bench.path("disk"), bench.path("s"));
    let mut command = Command::new(SERVER);
    command.arg("--blockdev");
    command.arg(format!("driver=file,node-name=f,filename={},discard=unmap", disk.display()));
    command.arg("--export");
    command.arg(format!(
        "type=vhost-user-blk,id=e,node-name=f,addr.type=unix,addr.path={},{options}",
        socket.display()
    ));
    let mut server = Guarded(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    until(|| {
        assert!(server.0.try_wait().unwrap().is_none(), "{SERVER} ended");
        if socket.exists() { Ok(()) } else { Err("there is no socket".to_owned()) }
    });
    server
}

fn address(bench: &Bench) -> String {
    format!("vhost-user:{}", bench.path("s").display())
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

#[test]
fn disk_is_verified_and_overwritten_by_its_name_only() {
    if !has("disk_is_verified_and_overwritten_by_its_name_only", &[SERVER]) {
        return;
    }
    let bench = Bench::new();
    bench.write("disk", vec![7; SIZE_BYTES]);
    let _server = serve(&bench, "writable=on");
    let disk = address(&bench);
    let load = "random,size=512B:1+4KiB:4+256KiB:1,read=50%,flush_every=50,closed=32,requests=4000";
    let write = ["bench", &disk, "-w", load, "--verify"];
    bench.run(&write).fails(&["the workload writes, which destroys its contents"]);
    assert_eq!(bench.read("disk"), vec![7; SIZE_BYTES], "nothing was written");
    let figures = bench.json(&[&write[..], &["--destroy", &disk, "--state", "state"]].concat());
    assert_eq!((&figures["requests"], &figures["errors"]), (&4000.into(), &0.into()));
    assert!(figures["verification"]["checked_blocks"].as_u64() > Some(4_000), "{figures:#}");
    assert_eq!(figures["verification"]["finding_blocks"], 0, "{figures:#}");
    let checked = bench.json(&["bench", "verify", "state"]);
    assert_eq!(checked["finding_blocks"], 0, "{checked:#}");
    bench.write("disk", vec![7; SIZE_BYTES]);
    assert_eq!(bench.run(&["bench", "verify", "state", "--json"]).code, 1);
    for operation in ["discard", "write_zeroes"] {
        bench.write("disk", vec![7; SIZE_BYTES]);
        let ranges = [(8, 504), (1024, 8), (30_000, 2_768)];
        let rows = ranges.map(|(lbn, blocks)| format!("0,{operation},{lbn},{blocks}\n"));
        bench.write("t.csv", format!("arrival_ns,op,lbn,blocks\n{}", rows.concat()));
        let figures = bench.json(&["bench", &disk, "-w", "t.csv", "--destroy", &disk]);
        assert_eq!((&figures["others"], &figures["errors"]), (&3.into(), &0.into()), "{figures:#}");
        let mut expected = vec![7; SIZE_BYTES];
        ranges.into_iter().for_each(|(lbn, blocks)| expected[lbn * 512..(lbn + blocks) * 512].fill(0));
        assert!(bench.read("disk") == expected, "{operation}");
    }
}

#[test]
fn limits_of_a_disk_are_known_before_the_run() {
    if !has("limits_of_a_disk_are_known_before_the_run", &[SERVER]) {
        return;
    }
    let bench = Bench::new();
    bench.write("disk", vec![0; SIZE_BYTES]);
    let server = serve(&bench, "writable=on,logical-block-size=4096");
    let disk = address(&bench);
    let run = |load: &str| {
        bench.run(&["bench", &disk, "-w", &format!("random,{load},closed=2,requests=20"), "--destroy", &disk])
    };
    run("size=4KiB,read=50%,fua=50%").fails(&["has no force unit access", "hint: "]);
    run("size=4KiB,read=50%,flush_every=5").done();
    drop(server);
    let _server = serve(&bench, "writable=off");
    run("size=4KiB,read=50%").fails(&["the disk refuses writes", "read=100%"]);
    bench.run(&["bench", &disk, "-w", "random,size=4KiB,read=100%,closed=2,requests=20"]).done();
    bench
        .run(&["bench", "vhost-user:none", "-w", "random,read=100%,closed=2"])
        .fails(&["cannot connect: No such file"]);
}

#[test]
fn killed_server_of_a_disk_costs_no_acknowledged_write() {
    if !has("killed_server_of_a_disk_costs_no_acknowledged_write", &[SERVER]) {
        return;
    }
    let bench = Bench::new();
    bench.write("disk", vec![0; SIZE_BYTES]);
    let server = serve(&bench, "writable=on");
    let disk = address(&bench);
    let load = "random,size=4KiB,read=50%,closed=32,requests=100000";
    let mut child = Guarded(spawn(&[
        "bench",
        &disk,
        "--destroy",
        &disk,
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
    drop(server);
    let _server = serve(&bench, "writable=on");
    // Both outputs are read, so that neither keeps it waiting.
    let rest = thread::spawn(move || lines.for_each(drop));
    let figures = document(&mut child.0);
    rest.join().unwrap();
    assert!(figures["reconnections"].as_u64() >= Some(1), "{figures:#}");
    assert!(figures["errors"].as_u64() >= Some(1), "{figures:#}");
    let ended = figures["requests"].as_u64().unwrap() + figures["failed_requests"].as_u64().unwrap();
    assert_eq!(ended, 100_000, "{figures:#}");
    assert_eq!(figures["verification"]["finding_blocks"], 0, "{figures:#}");
}

#[test]
fn stopped_server_of_a_disk_does_not_keep_the_report_back() {
    if !has("stopped_server_of_a_disk_does_not_keep_the_report_back", &[SERVER]) {
        return;
    }
    let bench = Bench::new();
    bench.write("disk", vec![0; SIZE_BYTES]);
    let server = serve(&bench, "writable=on");
    let disk = address(&bench);
    let mut child = Guarded(spawn(&[
        "bench",
        &disk,
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
    let statuses = &figures["statuses"];
    assert!(statuses["timeout"].as_u64() >= Some(1), "{figures:#}");
    assert!(statuses["gone"].as_u64() >= Some(1), "{figures:#}");
    assert!(figures["requests"].as_u64() >= Some(1), "{figures:#}");
}

#[test]
fn mute_server_of_a_disk_is_left_at_an_interrupt() {
    let bench = Bench::new();
    let listener = UnixListener::bind(bench.path("s")).unwrap();
    let disk = address(&bench);
    let mut child = Guarded(spawn(&["bench", &disk, "-w", "random,size=4KiB,read=100%,closed=1,requests=5"]));
    let _mute = listener.accept().unwrap();
    child.signal(Signal::INT);
    let mut text = String::new();
    child.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    let expected = "error: interrupted before anything was measured";
    assert_eq!((child.0.wait().unwrap().code(), unfolded(&text).as_str()), (Some(1), expected));
}
