//! Our client against our server, other servers, and servers that misbehave.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command as Program, Stdio};
use std::sync::mpsc;
use std::thread;

use seeklab_core::{Duration, Operation};
use seeklab_emulator::client::nbd::Client;
use seeklab_emulator::client::{ClientError, Command, Patience};
use seeklab_emulator::clock::Clock;
use seeklab_emulator::frontend::nbd::{Address, ServerOptions, Uri};

use crate::nbd::serving::Serving;

fn connect(uri: &Uri) -> Client {
    Client::connect(uri, Clock::start()).expect("the server takes clients")
}

fn uri_of(path: &Path, export: &str) -> Uri {
    Uri::of(&Address::Unix(path.into()), export)
}

/// Ends the server while the client waits for it.
pub(crate) fn notices_the_end_of(server: Ended, client: &mut Client) {
    client.submit(Command::read(0, 0, 512)).expect("it is sent");
    drop(server);
    let mut last = Ok(true);
    while let Ok(true) = last {
        last = client.collect(Patience::Unlimited).map(|reply| reply.is_some());
    }
    let error = match last {
        Err(error) => error,
        Ok(_) => client.read(0, &mut [0; 512]).expect_err("the server was killed"),
    };
    assert!(matches!(error, ClientError::Closed { .. }), "{error:?}");
}

/// Everything that a client can ask, on the first mebibyte.
pub(crate) fn exercise(client: &mut Client) {
    let data: Vec<u8> = (0..1u32 << 20).map(|at| (at * 7 + (at >> 9)) as u8).collect();
    let written = client.write(0, &data, false).expect("it is written");
    assert_eq!((written.op, written.offset_bytes, written.length_bytes), (Operation::Write, 0, 1 << 20));
    assert!(written.completion > written.issue);
    let fua = client.export().fua;
    assert_eq!(client.write(4096, &data[..512], fua).expect("it is written").fua, fua);
    let flushed = client.flush().expect("it is flushed");
    assert!(flushed.issue >= written.completion);
    let mut back = vec![1; 1 << 20];
    client.read(0, &mut back).expect("it is read");
    assert!(back[..4096] == data[..4096] && back[4096..4608] == data[..512] && back[4608..] == data[4608..]);
    client.write_zeroes(8192, 4096).expect("it is zeroed");
    let mut zeroes = vec![1; 4096];
    client.read(8192, &mut zeroes).expect("it is read");
    assert_eq!(zeroes, [0; 4096]);
    client.discard(65_536, 65_536).expect("it is discarded");
}

#[test]
fn client_reads_back_its_data_over_unix_sockets_and_tcp() {
    for tcp in [None, Some("tcp:127.0.0.1:0")] {
        let serving = Serving::start_with(2, Duration::default(), ServerOptions::default(), tcp);
        let mut client = connect(&serving.uri);
        assert!(client.is_structured());
        assert_eq!((client.export().size_bytes, client.export().block_bytes_min), (2 << 20, 512));
        exercise(&mut client);
        client.disconnect().expect("the server is there");
        let statistics = serving.end();
        assert_eq!((statistics.violation_count, statistics.vanished_count), (0, 0), "{statistics:?}");
    }
}

#[test]
fn each_of_many_outstanding_requests_gets_its_own_reply() {
    let serving = Serving::start(1, Duration::from_ms(2));
    let mut client = connect(&serving.uri);
    for tag in 0..64u64 {
        client.submit(Command::write(tag, tag * 512, &[tag as u8; 512])).expect("it is sent");
    }
    while client.collect(Patience::Unlimited).expect("the server is there").is_some() {}
    for tag in 0..64u64 {
        client.submit(Command::read(tag, tag * 512, 512)).expect("it is sent");
    }
    let mut order = Vec::new();
    while let Some(reply) = client.collect(Patience::Unlimited).expect("the server is there") {
        assert_eq!(reply.data, [reply.tag as u8; 512]);
        assert_eq!((reply.failure, reply.request.offset_bytes), (None, reply.tag * 512));
        order.push(reply.tag);
    }
    assert!(!order.is_sorted(), "replies overtake each other here: {order:?}");
    order.sort_unstable();
    assert!(order.into_iter().eq(0..64));
}

#[test]
fn full_sockets_in_both_directions_do_not_deadlock() {
    let serving = Serving::start(32, Duration::default());
    let mut client = connect(&serving.uri);
    let data = vec![5; 1 << 20];
    let mut replies = 0;
    for round in 0..200 {
        client.submit(Command::read(0, 0, 1 << 20)).expect("it is sent");
        client.submit(Command::write(1, (1 + round % 31) << 20, &data)).expect("it is sent");
        replies += u32::from(client.collect(Patience::None).expect("the server is there").is_some());
    }
    while let Some(reply) = client.collect(Patience::Unlimited).expect("the server is there") {
        assert_eq!(reply.data.len(), if reply.tag == 0 { 1 << 20 } else { 0 });
        replies += 1;
    }
    assert_eq!(replies, 400);
}

#[test]
fn waiting_for_a_reply_ends_after_the_limit() {
    let serving = Serving::start(1, Duration::from_s(5));
    let mut client = connect(&serving.uri);
    client.submit(Command::read(0, 512, 512)).expect("it is sent");
    assert_eq!(client.collect(Patience::None).expect("the server is there"), None);
    let until = client.clock().now() + Duration::from_ms(1);
    assert_eq!(client.collect(Patience::Until(until)).expect("the server is there"), None);
    assert!(client.clock().now() >= until);
    assert_eq!(client.outstanding(), 1);
}

#[test]
fn impossible_requests_are_refused_before_they_are_sent() {
    let serving = Serving::start(1, Duration::default());
    let mut client = connect(&serving.uri);
    for (command, reason) in [
        (Command::read(0, 100, 512), "whole blocks of 512"),
        (Command::read(0, 0, 0), "at least one"),
        (Command::read(0, 1 << 20, 512), "ends at 1048576"),
        (Command::write(0, u64::MAX - 511, &[0; 512]), "ends at 1048576"),
        (Command::read(0, 0, 512).fua(true), "force unit access"),
        (Command { length_bytes: 1024, ..Command::write(0, 0, &[0; 512]) }, "512 bytes of data"),
    ] {
        let error = client.submit(command).expect_err(reason);
        assert!(
            matches!(error, ClientError::Invalid { .. }) && error.to_string().contains(reason),
            "{error}"
        );
    }
    client.read(0, &mut [0; 512]).expect("the connection goes on");
}

#[test]
fn missing_server_and_missing_export_are_distinguished() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let error = Client::connect(&uri_of(&directory.path().join("none"), ""), Clock::start());
    assert!(matches!(error.expect_err("nobody listens"), ClientError::Connect { .. }));
    let serving = Serving::start(1, Duration::default());
    let error = Client::connect(&uri_of(&serving.path, "other"), Clock::start()).expect_err("no such export");
    assert!(matches!(error, ClientError::Refused { .. }), "{error:?}");
    assert!(error.to_string().contains("it has no export `other`"), "{error}");
}

/// Runs a server that completes the handshake, offers an export of 1 MiB, reads one request and then sends
/// `reply`. The eight bytes `COOKIE!!` in it are replaced by the request's cookie.
fn misbehave(reply: &'static [u8]) -> (Result<(), ClientError>, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).expect("the path is free");
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the client connects");
        greet(&mut stream);
        let mut request = [0; 28];
        stream.read_exact(&mut request).expect("the client asks");
        let mut bytes = reply.to_vec();
        if let Some(at) = bytes.windows(8).position(|window| window == b"COOKIE!!") {
            bytes[at..at + 8].copy_from_slice(&request[8..16]);
        }
        // The client may have gone before the whole message was sent.
        let _ = stream.write_all(&bytes);
    });
    let mut client = connect(&uri_of(&path, ""));
    let result = client.read(0, &mut [0; 512]).map(|_| ());
    drop(client);
    server.join().expect("the server does not panic");
    (result, directory)
}

fn greet(stream: &mut UnixStream) {
    let reply = |option: u32, kind: u32, data: &[u8]| {
        let mut bytes = 0x0003_e889_0455_65a9u64.to_be_bytes().to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        bytes
    };
    let mut bytes = b"NBDMAGICIHAVEOPT\0\x03".to_vec();
    bytes.extend(reply(8, 1, &[]));
    bytes.extend(reply(7, 3, b"\0\0\0\0\0\0\0\x10\0\0\0\x01"));
    bytes.extend(reply(7, 1, &[]));
    stream.write_all(&bytes).expect("the client is there");
    // Client flags, the option of structured replies, and the choice of an unnamed export with two kinds of information.
    let mut options = [0; 4 + 16 + 16 + 4 + 2 + 2 * 2];
    stream.read_exact(&mut options).expect("the client chooses");
}

#[test]
fn violation_of_the_protocol_ends_the_connection_with_its_reason() {
    for (reply, reason) in [
        (&b"HTTP/1.1 200 OK\r\n\r\n"[..], "begins with 0x48545450"),
        (b"\x67\x44\x66\x98\0\0\0\0WRONGONE", "which is not outstanding"),
        (b"\x66\x8e\x33\xef\0\x01\0\0COOKIE!!\0\0\0\0", "0 bytes in answer to a read of 512"),
        (b"\x66\x8e\x33\xef\0\x01\0\x01COOKIE!!\xff\xff\xff\xff\0\0\0\0\0\0\0\0", "4294967287 bytes at 0"),
        (b"\x66\x8e\x33\xef\0\x01\0\x01COOKIE!!\0\0\0\x09\0\0\0\0\0\0\x02\0", "1 bytes at 512"),
        (b"\x66\x8e\x33\xef\0\x01\0\x01COOKIE!!\0\0\0\x08\0\0\0\0\0\0\0\0", "a data chunk of 8 bytes"),
        (b"\x66\x8e\x33\xef\0\x01\x80\x01COOKIE!!\xff\xff\xff\xff\0\0\0\0", "with 4294967295 bytes"),
        (b"\x66\x8e\x33\xef\0\x01\x80\x01COOKIE!!\0\0\0\x06\0\0\0\x05\xff\xff", "a message of 65535 bytes"),
        (b"\x66\x8e\x33\xef\0\x01\0\x02COOKIE!!\0\0\0\x0c\0\0\0\0\0\0\0\0\0\0\x02\x01", "513 bytes at 0"),
        (b"\x66\x8e\x33\xef\0\x01\0\x07COOKIE!!\0\0\0\0", "chunk of kind 7"),
    ] {
        let error = misbehave(reply).0.expect_err(reason);
        assert!(matches!(error, ClientError::Protocol { .. }), "{error:?}");
        assert!(error.to_string().contains(reason), "{error} is not about: {reason}");
    }
}

#[test]
fn writes_wait_in_memory_while_the_server_reads_nothing_and_leave_in_order_later() {
    const WRITES: u64 = 32;
    const LENGTH: usize = 256 << 10;
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let path = directory.path().join("socket");
    let listener = UnixListener::bind(&path).expect("the path is free");
    let (read, is_read) = mpsc::channel();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("the client connects");
        greet(&mut stream);
        is_read.recv().expect("the client goes on");
        for number in 0..WRITES {
            let (mut head, mut data) = ([0; 28], vec![0; LENGTH]);
            stream.read_exact(&mut head).expect("the client writes");
            stream.read_exact(&mut data).expect("the client writes");
            assert!(data.iter().all(|byte| u64::from(*byte) == number), "write {number}");
            let reply = [&0x6744_6698_u32.to_be_bytes()[..], &[0; 4], &head[8..16]].concat();
            stream.write_all(&reply).expect("the client is there");
        }
    });
    let mut client = connect(&uri_of(&path, ""));
    for tag in 0..WRITES {
        client.submit(Command::write(tag, 0, &[tag as u8; LENGTH])).expect("it waits for nothing");
    }
    assert!(client.is_sending());
    for patience in [Patience::None, Patience::Until(client.clock().now() + Duration::from_ms(1))] {
        assert_eq!(client.collect(patience).expect("the server is there"), None);
    }
    assert_eq!(client.outstanding(), WRITES as usize);
    read.send(()).expect("the server is there");
    for tag in 0..WRITES {
        let reply = client.collect(Patience::Unlimited).expect("the server is there");
        assert_eq!(reply.map(|reply| (reply.tag, reply.failure)), Some((tag, None)));
    }
    assert!(!client.is_sending());
    server.join().expect("the server does not panic");
}

#[test]
fn errors_and_replies_in_pieces_are_decoded() {
    let failed = b"\x66\x8e\x33\xef\0\x01\x80\x01COOKIE!!\0\0\0\x0a\0\0\0\x05\0\x04dust";
    let error = misbehave(failed).0.expect_err("the server fails it").to_string();
    assert_eq!(error, "read of 512 bytes at 0 failed: input/output error (5): dust");
    let simple = b"\x67\x44\x66\x98\0\0\0\x1cCOOKIE!!";
    let error = misbehave(simple).0.expect_err("the server fails it").to_string();
    assert_eq!(error, "read of 512 bytes at 0 failed: no space left (28)");
}

#[test]
fn closed_connection_is_detected() {
    for reply in [&b""[..], b"\x66\x8e\x33\xef\0\x01", b"\x67\x44\x66\x98\0\0\0\0COOKIE!!half"] {
        let error = misbehave(reply).0.expect_err("the server goes");
        assert!(matches!(error, ClientError::Closed { outstanding: 1, .. }), "{error:?}");
    }
}

/// A server program that is ended with the test.
pub(crate) struct Ended(pub(crate) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server that listens at `socket`, and waits until it does; `None` if it is not installed.
pub(crate) fn start(program: &mut Program, socket: &Path, test: &str) -> Option<Ended> {
    let name = program.get_program().to_owned();
    let Ok(child) = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
        eprintln!("skipped: {test} needs {name:?} (Debian: nbdkit, qemu-utils)");
        return None;
    };
    let mut server = Ended(child);
    while UnixStream::connect(socket).is_err() {
        let ended = server.0.try_wait().expect("it is our child");
        assert!(ended.is_none(), "{name:?} ended: {ended:?}");
        thread::yield_now();
    }
    Some(server)
}

#[test]
fn client_works_with_nbdkit() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let socket = directory.path().join("socket");
    let mut program = Program::new("nbdkit");
    program.args(["--foreground", "--exit-with-parent", "-U"]).arg(&socket).args(["memory", "2M"]);
    if let Some(server) = start(&mut program, &socket, "client_works_with_nbdkit") {
        let mut client = connect(&uri_of(&socket, ""));
        exercise(&mut client);
        notices_the_end_of(server, &mut client);
    }
}

#[test]
fn client_works_with_qemu() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let (socket, image) = (directory.path().join("socket"), directory.path().join("image"));
    let file = std::fs::File::create(&image).expect("it can be created");
    file.set_len(2 << 20).expect("it can be grown");
    let mut program = Program::new("qemu-nbd");
    program.args(["--persistent", "--shared=4", "--format=raw", "--discard=unmap", "--socket"]);
    program.arg(&socket).arg(&image);
    if let Some(_server) = start(&mut program, &socket, "client_works_with_qemu") {
        let mut client = connect(&uri_of(&socket, ""));
        exercise(&mut client);
    }
}
