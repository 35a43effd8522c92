//! Our client over TLS, with nbdkit, qemu-nbd and a server of the tests: data, certificates of both sides, and refusals.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command as Program, Stdio};
use std::sync::Arc;

use rcgen::ExtendedKeyUsagePurpose;
use rustls::ServerConnection;
use rustls::version::{TLS12, TLS13};
use seeklab_emulator::client::nbd::Client;
use seeklab_emulator::client::{ClientError, Command, Patience};
use seeklab_emulator::clock::Clock;

use crate::nbd::certificates::{Authority, VALID};
use crate::nbd::own_client::{Ended, exercise, notices_the_end_of, start};
use crate::nbd::tls_server::{ACK, Once, START_TLS, option_reply, serve, server_config, take_choice_of_tls};
use crate::pacer_allocations::allocations;

pub(crate) fn connect(uri: &str) -> Result<Client, ClientError> {
    Client::connect(&uri.parse().unwrap(), Clock::start())
}

/// Folders of certificates: `server`, `client` with a certificate of its own, `trust` without.
pub(crate) struct Scene {
    folder: tempfile::TempDir,
    pub(crate) authority: Authority,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let scene = Self { folder: tempfile::tempdir().unwrap(), authority: Authority::new("first") };
        scene.authority.server_in(&scene.path("server"), &["localhost", "127.0.0.1"], VALID);
        scene.authority.client_in(&scene.path("client"));
        scene.authority.trusted_in(&scene.path("trust"));
        scene
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn uri(&self, scheme: &str, client: &str, more: &str) -> String {
        let (socket, certificates) = (self.path("socket"), self.path(client));
        let certificates = match scheme {
            "nbd+unix" => String::new(),
            _ => format!("&tls-certificates={}", certificates.display()),
        };
        format!("{scheme}:///?socket={}{certificates}{more}", socket.display())
    }

    /// nbdkit with 2 MiB of memory, the certificate of the folder `server`, and these options.
    fn nbdkit(&self, server: &str, options: &[&str], test: &str) -> Option<Ended> {
        let socket = self.path("socket");
        let _ = std::fs::remove_file(&socket);
        let mut program = Program::new("nbdkit");
        program.args(["--foreground", "--exit-with-parent", "-U"]).arg(&socket).args(options);
        program.arg(format!("--tls-certificates={}", self.path(server).display())).args(["memory", "2M"]);
        start(&mut program, &socket, test)
    }

    /// The reason why a connection to nbdkit fails.
    fn refusal(&self, uri: &str) -> String {
        connect(uri).expect_err(uri).to_string()
    }
}

#[test]
fn client_reads_back_its_data_from_nbdkit_over_tls() {
    let scene = Scene::new();
    let test = "client_reads_back_its_data_from_nbdkit_over_tls";
    for (options, client) in
        [(&["--tls=require"][..], "trust"), (&["--tls=require", "--tls-verify-peer"], "client")]
    {
        let Some(server) = scene.nbdkit("server", options, test) else { return };
        let uri = scene.uri("nbds+unix", client, "");
        let mut client = connect(&uri).unwrap();
        exercise(&mut client);
        assert!(client.is_structured());
        notices_the_end_of(server, &mut client);
        // The server comes back: the same handshake again.
        client.abandon();
        while client.collect(Patience::None).unwrap().is_some() {}
        let error = client.reconnect(&uri.parse().unwrap()).unwrap_err();
        assert!(matches!(error, ClientError::Connect { .. }), "{error:?}");
        let _server = scene.nbdkit("server", options, test);
        client.reconnect(&uri.parse().unwrap()).unwrap();
        exercise(&mut client);
        client.disconnect().unwrap();
    }
}

#[test]
fn nbdkit_over_tcp_is_known_by_name_and_by_address() {
    let scene = Scene::new();
    // The port is free when nbdkit takes it, unless another program is quicker.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let mut program = Program::new("nbdkit");
    program.args(["--foreground", "--exit-with-parent", "--tls=require", "-i", "127.0.0.1", "-p", &port]);
    program.arg(format!("--tls-certificates={}", scene.path("server").display())).args(["memory", "2M"]);
    let Ok(child) = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
        eprintln!("skipped: nbdkit_over_tcp_is_known_by_name_and_by_address needs nbdkit");
        return;
    };
    let mut server = Ended(child);
    for host in ["localhost", "127.0.0.1"] {
        let uri = format!("nbds://{host}:{port}/?tls-certificates={}", scene.path("trust").display());
        let mut client = loop {
            match connect(&uri) {
                Err(ClientError::Connect { .. }) if server.0.try_wait().unwrap().is_none() => {
                    std::thread::yield_now()
                }
                client => break client.unwrap(),
            }
        };
        exercise(&mut client);
    }
}

#[test]
fn client_reads_back_its_data_from_qemu_over_tls() {
    let scene = Scene::new();
    let (socket, image) = (scene.path("socket"), scene.path("image"));
    std::fs::File::create(&image).unwrap().set_len(2 << 20).unwrap();
    let mut program = Program::new("qemu-nbd");
    program.args([
        "--persistent",
        "--shared=4",
        "--format=raw",
        "--discard=unmap",
        "--tls-creds=tls0",
        "--socket",
    ]);
    program.arg(&socket).arg("--object").arg(format!(
        "tls-creds-x509,id=tls0,dir={},endpoint=server,verify-peer=on",
        scene.path("server").display()
    ));
    let test = "client_reads_back_its_data_from_qemu_over_tls";
    let Some(_server) = start(program.arg(&image), &socket, test) else { return };
    exercise(&mut connect(&scene.uri("nbds+unix", "client", "")).unwrap());
    let text = scene.refusal(&scene.uri("nbd+unix", "", ""));
    assert!(text.contains("requires TLS; write nbds:// in place of nbd://"), "{text}");
}

#[test]
fn certificates_that_do_not_fit_are_refused_with_the_reason() {
    let scene = Scene::new();
    let other = Authority::new("second");
    scene.authority.server_in(&scene.path("elsewhere"), &["disk.example", "10.1.2.3"], VALID);
    scene.authority.server_in(&scene.path("old"), &["localhost"], (2001, 2002));
    scene.authority.server_in(&scene.path("early"), &["localhost"], (3001, 3002));
    scene.authority.server_in(&scene.path("nameless"), &[], VALID);
    scene.authority.trusted_in(&scene.path("wrong-purpose"));
    let of_client = scene.authority.sign(&["localhost"], ExtendedKeyUsagePurpose::ClientAuth, VALID);
    of_client.write(&scene.path("wrong-purpose"), "server");
    other.trusted_in(&scene.path("other"));
    scene.authority.trusted_in(&scene.path("stranger"));
    other
        .sign(&["client"], ExtendedKeyUsagePurpose::ClientAuth, VALID)
        .write(&scene.path("stranger"), "client");
    let test = "certificates_that_do_not_fit_are_refused_with_the_reason";
    let require = &["--tls=require"][..];
    let verify = &["--tls=require", "--tls-verify-peer"][..];
    for (server, options, client, more, parts) in [
        (
            "server",
            require,
            "trust",
            "&tls-hostname=disk",
            &["for localhost, 127.0.0.1, not for `disk`", "tls-hostname=NAME"][..],
        ),
        ("elsewhere", require, "trust", "", &["for disk.example, 10.1.2.3, not for `localhost`"]),
        ("nameless", require, "trust", "", &["names no host, and `localhost` is expected", "subjectAltName"]),
        ("old", require, "trust", "", &["expired at 2002-01-01T00:00:00Z, and now is 2"]),
        ("early", require, "trust", "", &["valid from 3001-01-01T00:00:00Z on"]),
        (
            "wrong-purpose",
            require,
            "trust",
            "",
            &["does not allow extended key usage for server authentication"],
        ),
        ("server", require, "other", "", &["signed by none of the authorities of `", "/other/ca-cert.pem`"]),
        (
            "server",
            verify,
            "trust",
            "",
            &["it may demand a certificate of the client that it trusts", "client-cert.pem"],
        ),
        (
            "server",
            verify,
            "stranger",
            "",
            &["it may demand a certificate of the client that it trusts", "client-cert.pem"],
        ),
    ] {
        let Some(_server) = scene.nbdkit(server, options, test) else { return };
        let uri = scene.uri("nbds+unix", client, more);
        let error = connect(&uri).expect_err(&uri);
        assert!(matches!(error, ClientError::Tls { .. }), "{server}, {client}: {error:?}");
        let text = error.to_string();
        parts.iter().for_each(|part| assert!(text.contains(part), "{server}, {client}: {text}"));
        // Neither name nor date nor authority counts without verification. A certificate of the client does.
        if options == require {
            exercise(&mut connect(&(uri + "&tls-verify-peer=0")).unwrap());
        }
    }
}

#[test]
fn connection_is_encrypted_or_there_is_none() {
    let scene = Scene::new();
    let test = "connection_is_encrypted_or_there_is_none";
    let Some(server) = scene.nbdkit("server", &["--tls=off"], test) else { return };
    let text = scene.refusal(&scene.uri("nbds+unix", "trust", ""));
    assert!(text.contains("it has no TLS; write nbd:// in place of nbds://"), "{text}");
    drop(server);
    let server = scene.nbdkit("server", &["--tls=require"], test);
    let text = scene.refusal(&scene.uri("nbd+unix", "", ""));
    assert!(text.contains("it requires TLS; write nbds:// in place of nbd://"), "{text}");
    drop(server);
    // A server that leaves the choice to the client serves both.
    let _server = scene.nbdkit("server", &["--tls=on"], test);
    for scheme in ["nbd+unix", "nbds+unix"] {
        exercise(&mut connect(&scene.uri(scheme, "trust", "")).unwrap());
    }
}

#[test]
fn files_that_are_missing_or_damaged_are_named_before_the_server_is_called() {
    let scene = Scene::new();
    let other = Authority::new("second").sign(&["client"], ExtendedKeyUsagePurpose::ClientAuth, VALID);
    for (name, file, content) in [
        ("no-authority", "ca-cert.pem", None),
        ("empty-authority", "ca-cert.pem", Some("")),
        (
            "damaged-authority",
            "ca-cert.pem",
            Some("-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n"),
        ),
        (
            "no-certificate",
            "ca-cert.pem",
            Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        ),
        ("no-key", "client-key.pem", None),
        ("no-chain", "client-cert.pem", None),
        (
            "locked-key",
            "client-key.pem",
            Some("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"),
        ),
        ("other-key", "client-key.pem", Some(&other.key)),
    ] {
        scene.authority.client_in(&scene.path(name));
        let file = scene.path(name).join(file);
        match content {
            Some(content) => std::fs::write(file, content).unwrap(),
            None => std::fs::remove_file(file).unwrap(),
        }
    }
    for (client, part) in [
        ("absent", "absent` is no folder; tls-certificates names a folder with ca-cert.pem"),
        (
            "no-authority",
            "no-authority/ca-cert.pem` is missing; the folder of tls-certificates has ca-cert.pem",
        ),
        ("empty-authority", "ca-cert.pem` holds no certificate in PEM form"),
        ("damaged-authority", "ca-cert.pem` holds no certificate in PEM form: "),
        ("no-certificate", "ca-cert.pem` certificate 1 is damaged: "),
        ("no-key", "no-key/client-key.pem` is missing; "),
        ("no-chain", "no-chain/client-cert.pem` is missing; "),
        ("locked-key", "client-key.pem` holds no private key in PEM form without a password"),
        ("other-key", "client-key.pem` is not the key of the certificate in client-cert.pem"),
    ] {
        // Nobody listens there.
        let error = connect(&scene.uri("nbds+unix", client, "")).expect_err(client);
        assert!(matches!(error, ClientError::Credentials { .. }), "{client}: {error:?}");
        assert!(error.to_string().contains(part), "{client}: {error}");
    }
    let text = scene.refusal(&scene.uri("nbds+unix", "trust", "&tls-hostname=a%20b"));
    assert!(text.contains("no certificate is for `a b`"), "{text}");
}

/// Serves one client over TLS of these versions, in records of at most so many bytes.
fn serve_once(
    scene: &Scene,
    version: &'static rustls::SupportedProtocolVersion,
    record_bytes: Option<usize>,
    between: impl FnMut(&mut ServerConnection, u64) -> bool + Send + 'static,
) -> Once<Option<String>> {
    let mut config = server_config(&scene.path("server"), &[version]);
    config.max_fragment_size = record_bytes;
    Once::start(move |mut stream| {
        take_choice_of_tls(&mut stream);
        std::io::Write::write_all(&mut stream, &option_reply(START_TLS, ACK, &[])).unwrap();
        serve(ServerConnection::new(Arc::new(config)).unwrap(), stream, between)
    })
}

fn write_and_read_back(client: &mut Client, rounds: u64) {
    let mut back = vec![0; 200_000];
    for round in 0..rounds {
        let length = [512, 4096, 16_384, 65_536, 200_000][round as usize % 5];
        let data: Vec<u8> = (0..length as u64).map(|at| (at * 7 + (at >> 8) + round) as u8).collect();
        client.write(round, &data, false).unwrap();
        client.read(round, &mut back[..length]).unwrap();
        assert!(back[..length] == data, "round {round}");
    }
}

#[test]
fn records_of_any_size_and_new_keys_change_no_data() {
    let scene = Scene::new();
    for (version, record_bytes) in [(&TLS12, None), (&TLS13, None), (&TLS12, Some(64)), (&TLS13, Some(100))] {
        let server = serve_once(&scene, version, record_bytes, |connection, replies| {
            // TLS 1.3 can change its keys, and asks the other side to do so, too.
            if replies % 3 == 2 {
                let _ = connection.refresh_traffic_keys();
            }
            true
        });
        let trust = format!("tls-certificates={}", scene.path("trust").display());
        let uri = server.uri(&trust).replace("/?", "/a%20disk?");
        let mut client = connect(&uri).unwrap();
        write_and_read_back(&mut client, 25);
        client.disconnect().unwrap();
        assert_eq!(server.end().as_deref(), Some("a disk"));
    }
}

#[test]
fn end_of_a_tls_connection_is_detected() {
    let scene = Scene::new();
    for is_announced in [false, true] {
        let server = serve_once(&scene, &TLS13, None, move |connection, replies| {
            if replies == 3 && is_announced {
                connection.send_close_notify();
            }
            replies < 3 || is_announced
        });
        let mut client = connect(&server.uri("tls-verify-peer=0")).unwrap();
        let mut result = Ok(());
        for _ in 0..5 {
            result = result.and_then(|()| client.read(0, &mut [0; 512]).map(drop));
        }
        assert!(matches!(result, Err(ClientError::Closed { .. })), "{result:?}");
        drop(client);
        server.end();
    }
}

#[test]
fn request_over_tls_takes_memory_for_two_records_only() {
    let scene = Scene::new();
    let server = serve_once(&scene, &TLS13, None, |_, _| true);
    let mut client = connect(&server.uri("tls-verify-peer=0")).unwrap();
    let mut buffer = [0; 4096];
    let mut requests = |count: u64| {
        let before = allocations();
        for _ in 0..count {
            client.write(0, &buffer, false).unwrap();
            client.read(0, &mut buffer).unwrap();
        }
        allocations() - before
    };
    requests(100);
    // rustls takes one for each record that it encrypts, and one for each that it decrypts.
    assert_eq!(requests(1_000), 4_000);
    drop(client);
    server.end();
}

#[test]
fn writes_over_tls_wait_in_memory_while_the_server_reads_nothing() {
    const WRITES: u64 = 64;
    let scene = Scene::new();
    let (read, is_read) = std::sync::mpsc::channel();
    // It stops reading behind the first request until the test goes on.
    let server = serve_once(&scene, &TLS13, None, move |_, replies| replies > 0 || is_read.recv().is_ok());
    let mut client = connect(&server.uri("tls-verify-peer=0")).unwrap();
    // More than the sockets of both sides take.
    let data: Vec<u8> = (0..1_u32 << 20).map(|at| (at * 7 + (at >> 8)) as u8).collect();
    for tag in 0..WRITES {
        client.submit(Command::write(tag, 0, &data)).unwrap();
    }
    assert!(client.is_sending());
    assert_eq!(client.collect(Patience::None).unwrap(), None);
    assert_eq!(client.outstanding(), WRITES as usize);
    read.send(()).unwrap();
    for tag in 0..WRITES {
        assert_eq!(client.collect(Patience::Unlimited).unwrap().map(|reply| reply.tag), Some(tag));
    }
    assert!(!client.is_sending());
    let mut back = vec![0; data.len()];
    client.read(0, &mut back).unwrap();
    assert!(back == data);
    drop(client);
    server.end();
}
