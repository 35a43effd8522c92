//! Servers that take no connection, or take it and never answer: a caller who wants an end gets it.

use std::cell::Cell;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, listen, socket_with};
use seeklab_emulator::client::ClientError;
use seeklab_emulator::client::nbd::Client;
use seeklab_emulator::clock::Clock;

/// Connects until the caller wants an end, which it does at the third look.
fn stopped(uri: &str) -> ClientError {
    let looks = Cell::new(0);
    let is_stopped = || {
        looks.set(looks.get() + 1);
        looks.get() > 2
    };
    let connected = Client::connect_unless(&uri.parse().unwrap(), Clock::start(), &is_stopped);
    let error = connected.err().unwrap_or_else(|| panic!("{uri} has no server"));
    assert_eq!(looks.get(), 3, "{error}");
    error
}

#[track_caller]
fn assert_stopped(error: &ClientError) {
    assert!(matches!(error, ClientError::Stopped { outstanding: 0 }), "{error:?}");
}

fn uri(socket: &Path) -> String {
    format!("nbd+unix:///?socket={}", socket.display())
}

#[test]
fn handshake_without_an_answer_ends_when_the_caller_wants() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    // The kernel takes connections, and nobody reads from them.
    let _listener = UnixListener::bind(&socket).unwrap();
    assert_stopped(&stopped(&uri(&socket)));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    assert_stopped(&stopped(&format!("nbd://127.0.0.1:{port}")));
}

/// Connections that fill the queue of a unix socket.
fn fill(socket: &Path) -> Vec<OwnedFd> {
    let address = SocketAddrUnix::new(socket).unwrap();
    let mut taken = Vec::new();
    loop {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let one = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        match connect(&one, &address) {
            Ok(()) => taken.push(one),
            Err(error) => {
                assert_eq!(error, Errno::AGAIN);
                return taken;
            }
        }
    }
}

#[test]
fn connection_that_a_unix_socket_has_no_room_for_ends_when_the_caller_wants() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    listen(&listener, 0).unwrap();
    let taken = fill(&socket);
    assert!(!taken.is_empty());
    assert_stopped(&stopped(&uri(&socket)));
}

#[test]
fn connection_over_tcp_without_an_answer_ends_when_the_caller_wants() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut taken = Vec::new();
    // A full queue drops what comes.
    while let Ok(one) = TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
        taken.push(one);
        assert!(taken.len() < 100, "the queue is never full");
    }
    assert_stopped(&stopped(&format!("nbd://{address}")));
}

#[test]
fn names_are_looked_up_and_refusals_are_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // The name has an address with a server, which says nothing.
    assert_stopped(&stopped(&format!("nbd://localhost:{port}")));
    drop(listener);
    let refused = |uri: &str| Client::connect(&uri.parse().unwrap(), Clock::start()).unwrap_err();
    let kind = |uri: &str| match refused(uri) {
        ClientError::Connect { source, .. } => source.kind(),
        error => panic!("{error:?}"),
    };
    assert_eq!(kind(&format!("nbd://127.0.0.1:{port}")), ErrorKind::ConnectionRefused);
    assert_eq!(kind("nbd+unix:///?socket=/nonexistent/s"), ErrorKind::NotFound);
}
