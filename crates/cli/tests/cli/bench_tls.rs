//! `seeklab bench` over TLS with nbdkit: verified data, leave to write, a server that comes back, and mistakes.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

use super::bench::{Bench, unfolded};
use super::certificates::{Authority, VALID};
use super::survive::harness::{Guarded, SEEKLAB, has, until};

/// Starts nbdkit at the socket `s` of the folder, with a certificate of the folder `server`, and waits until it listens.
fn nbdkit(bench: &Bench, options: &[&str], plugin: &[&str]) -> Guarded {
    let socket = bench.path("s");
    let _ = std::fs::remove_file(&socket);
    let mut command = Command::new("nbdkit");
    command.args(["--foreground", "--exit-with-parent", "-U"]).arg(&socket).args(options);
    command.arg(format!("--tls-certificates={}", bench.path("server").display())).args(plugin);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut server = Guarded(child);
    until(|| {
        assert!(server.0.try_wait().unwrap().is_none(), "nbdkit ended");
        UnixStream::connect(&socket).map(drop).map_err(|error| error.to_string())
    });
    server
}

/// Makes the certificates of a server in `server`, those of a client in `client`, and those of a stranger in `other`.
fn certified(bench: &Bench) {
    let authority = Authority::new("first");
    authority.server_in(&bench.path("server"), &["localhost"], VALID);
    authority.client_in(&bench.path("client"));
    Authority::new("second").trusted_in(&bench.path("other"));
}

/// The address of the socket, with the certificates of a folder.
fn uri(bench: &Bench, folder: &str) -> String {
    let (socket, folder) = (bench.path("s"), bench.path(folder));
    format!("nbds+unix:///?socket={}&tls-certificates={}", socket.display(), folder.display())
}

#[test]
fn export_over_tls_is_verified_and_overwritten_by_its_name_only() {
    if !has("export_over_tls_is_verified_and_overwritten_by_its_name_only", &["nbdkit"]) {
        return;
    }
    let bench = Bench::new();
    certified(&bench);
    bench.write("disk", vec![7; 4 << 20]);
    let disk = format!("file={}", bench.path("disk").display());
    let _server = nbdkit(&bench, &["--tls=require", "--tls-verify-peer"], &["file", &disk]);
    let uri = uri(&bench, "client");
    let load = "random,size=512B:1+4KiB:4+64KiB:1,read=50%,fua=10%,flush_every=50,closed=32,requests=4000";
    let write = ["bench", &uri, "-w", load, "--verify", "--threads", "2"];
    for (name, part) in [
        (None, "the workload writes, which destroys its contents"),
        (Some("nbds+unix:///"), "another target"),
    ] {
        let named: Vec<&str> = name.into_iter().flat_map(|name| ["--destroy", name]).collect();
        let run = bench.run(&[&write[..], &named].concat());
        run.fails(&[]);
        let text = unfolded(&run.stderr);
        assert!(text.contains(part) && text.contains("--destroy nbds+unix:///?socket="), "{text}");
    }
    assert_eq!(bench.read("disk"), vec![7; 4 << 20], "nothing was written");
    let figures = bench.json(&[&write[..], &["--destroy", &uri, "--folder", "run"]].concat());
    assert_eq!((&figures["requests"], &figures["errors"]), (&4000.into(), &0.into()));
    assert!(figures["verification"]["checked_blocks"].as_u64() > Some(4_000), "{figures:#}");
    assert_eq!(figures["verification"]["finding_blocks"], 0);
    assert_ne!(bench.read("disk"), vec![7; 4 << 20]);
    let kept: Value = serde_json::from_slice(&bench.read("run/run.json")).unwrap();
    assert_eq!(kept["run"]["targets"][0]["target"], uri);
    assert_eq!(kept["run"]["targets"][0]["export"], "");
}

#[test]
fn connection_over_tls_is_remade_without_a_finding() {
    if !has("connection_over_tls_is_remade_without_a_finding", &["nbdkit"]) {
        return;
    }
    let bench = Bench::new();
    certified(&bench);
    bench.write("disk", vec![0; 4 << 20]);
    let disk = format!("file={}", bench.path("disk").display());
    let serve = || nbdkit(&bench, &["--tls=require"], &["file", &disk]);
    let server = serve();
    let uri = uri(&bench, "client");
    let child = Command::new(SEEKLAB)
        .args(["bench", &uri, "--destroy", &uri, "--verify", "--json", "--live", "--interval", "100ms"])
        .args(["-w", "random,size=4KiB,read=50%,constant=500/s,requests=1500"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Guarded(child);
    let mut lines = BufReader::new(child.0.stderr.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    drop(server);
    let _server = serve();
    // Both outputs are read, so that neither keeps it waiting.
    let rest = thread::spawn(move || lines.for_each(drop));
    let mut text = String::new();
    child.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    rest.join().unwrap();
    let figures: Value = serde_json::from_str(&text).unwrap();
    assert!(figures["reconnections"].as_u64() >= Some(1), "{figures:#}");
    let ended = figures["requests"].as_u64().unwrap() + figures["failed_requests"].as_u64().unwrap();
    assert_eq!(ended, 1_500, "{figures:#}");
    assert_eq!(figures["verification"]["finding_blocks"], 0, "{figures:#}");
}

#[test]
fn mistakes_with_tls_are_named() {
    if !has("mistakes_with_tls_are_named", &["nbdkit"]) {
        return;
    }
    let bench = Bench::new();
    certified(&bench);
    let read =
        |uri: &str| bench.run(&["bench", uri, "-w", "random,size=4KiB,read=100%,closed=4,requests=100"]);
    let (plain, good) = (format!("nbd+unix:///?socket={}", bench.path("s").display()), uri(&bench, "client"));
    let server = nbdkit(&bench, &["--tls=require", "--tls-verify-peer"], &["memory", "4M"]);
    for (uri, parts) in [
        (plain.clone(), &["it requires TLS", "nbds:// in place of nbd://"][..]),
        (uri(&bench, "absent"), &["absent", "is no folder"]),
        (uri(&bench, "server"), &["it may demand a certificate of the client"]),
        (uri(&bench, "other"), &["signed by none of the authorities of", "other/ca-cert.pem"]),
        (good.clone() + "&tls-hostname=disk", &["is for localhost, not for `disk`", "tls-hostname=NAME"]),
        (good.clone() + "&tls-type=psk", &["it can be x509"]),
        (plain.clone() + "&tls-hostname=a", &["goes with TLS only"]),
    ] {
        let run = read(&uri);
        run.fails(&[]);
        let text = unfolded(&run.stderr);
        parts.iter().for_each(|part| assert!(text.contains(part), "{uri}: no `{part}` in: {text}"));
    }
    let run = read(&(good.clone() + "&tls-verify-peer=0"));
    let (code, notes) = (run.code, unfolded(&run.stdout) + &unfolded(&run.stderr));
    assert_eq!(code, 0, "{notes}");
    assert!(notes.contains("certificate of the server was not verified"), "{notes}");
    drop(server);
    let _server = nbdkit(&bench, &["--tls=off"], &["memory", "4M"]);
    let text = unfolded(&read(&good).stderr);
    assert!(text.contains("it has no TLS; write nbd:// in place of nbds://"), "{text}");
}

#[test]
fn authorities_of_the_system_are_trusted_without_a_folder() {
    if !has("authorities_of_the_system_are_trusted_without_a_folder", &["nbdkit"]) {
        return;
    }
    let bench = Bench::new();
    certified(&bench);
    let _server = nbdkit(&bench, &["--tls=require"], &["memory", "4M"]);
    let uri = format!("nbds+unix:///?socket={}", bench.path("s").display());
    let bench_with = |authorities: &Path| {
        Command::new(SEEKLAB)
            .args(["bench", &uri, "-w", "random,size=4KiB,read=100%,closed=4,requests=100"])
            .env("SSL_CERT_FILE", authorities)
            .env_remove("SSL_CERT_DIR")
            .output()
            .unwrap()
    };
    for (folder, expected) in
        [("client", None), ("other", Some("signed by none of the authorities of the system"))]
    {
        let output = bench_with(&bench.path(folder).join("ca-cert.pem"));
        let text = unfolded(&String::from_utf8(output.stderr).unwrap());
        assert_eq!(output.status.code(), Some(if expected.is_some() { 2 } else { 0 }), "{text}");
        assert!(text.contains(expected.unwrap_or_default()), "{text}");
    }
    let text = unfolded(&String::from_utf8(bench_with(&bench.path("none")).stderr).unwrap());
    assert!(
        text.contains("the system trusts no authority") && text.contains("tls-certificates=FOLDER"),
        "{text}"
    );
}
