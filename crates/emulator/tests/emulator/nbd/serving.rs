//! The server on real sockets: several clients, late answers, sudden deaths, orderly ends.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration as Time;

use seeklab_core::{ByteSize, Duration, Seed};
use seeklab_devices::Description;
use seeklab_emulator::clock::{Clock, Pacing, Waiter};
use seeklab_emulator::emulation::Emulation;
use seeklab_emulator::frontend::nbd::{Address, Export, Limits, Server, ServerOptions, Statistics, Uri};
use seeklab_emulator::frontend::{Backend, Stop, serve};
use seeklab_emulator::pacer::{Options, Pacer};
use seeklab_emulator::store::Store;

use crate::nbd::client::{self, Client, Request};
use crate::nbd::memory::{Memory, now};

/// A server in a thread of its own.
pub(crate) struct Serving {
    pub(crate) uri: Uri,
    pub(crate) path: PathBuf,
    stop: Stop,
    thread: Option<JoinHandle<Statistics>>,
    _directory: tempfile::TempDir,
}

impl Serving {
    pub(crate) fn start(size_mib: usize, delay: Duration) -> Self {
        Self::start_with(size_mib, delay, ServerOptions::default(), None)
    }

    pub(crate) fn start_with(
        size_mib: usize,
        delay: Duration,
        options: ServerOptions,
        tcp: Option<&str>,
    ) -> Self {
        Self::launch(size_mib, options, tcp, move || {
            (Clock::from_origin_ns(0), Memory::new(size_mib << 20, delay))
        })
    }

    /// Emulates the device of that description. Its time begins when clients can connect.
    pub(crate) fn emulating(size_mib: usize, description: &'static str) -> Self {
        Self::launch(size_mib, ServerOptions::default(), None, move || {
            let description = Description::parse("device", "device", description).expect(description);
            let device = description.build(Seed(1), "disk0").expect("it can be built");
            let store = Store::in_ram(ByteSize::from_bytes((size_mib as u64) << 20), None);
            let (clock, store) = (Clock::start(), store.expect("there is memory"));
            let pacer = Pacer::new(device, Options::default());
            (clock, Emulation::new(pacer, store, clock).failing(false).expect("there is memory"))
        })
    }

    fn launch<B: Backend>(
        size_mib: usize,
        options: ServerOptions,
        tcp: Option<&str>,
        make: impl FnOnce() -> (Clock, B) + Send + 'static,
    ) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let path = directory.path().join("disk.sock");
        let address = match tcp {
            Some(tcp) => tcp.parse().expect("it is an address"),
            None => Address::Unix(path.clone()),
        };
        let (sender, receiver) = mpsc::channel();
        let thread = thread::spawn(move || {
            let (clock, mut backend) = make();
            let export = Export::new("disk", (size_mib as u64) << 20, 512);
            let server = Server::bind(&address, export, options, Box::new(move || clock.now()));
            let mut server = server.expect("the address is free");
            let stop = Stop::new().expect("a descriptor is left");
            sender.send((server.uri(), stop.clone())).expect("the test waits for it");
            let mut waiter = Waiter::new(clock, Pacing::Balanced, Duration::from_us(20));
            serve(&mut server, &mut backend, &mut waiter, &stop).expect("serving ends only when asked to");
            server.statistics()
        });
        let (uri, stop) = receiver.recv().expect("the server starts");
        Self { uri, path, stop, thread: Some(thread), _directory: directory }
    }

    pub(crate) fn connect(&self) -> Client<UnixStream> {
        Client::connect(self.stream(), "disk", true).expect("the server takes clients")
    }

    fn stream(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.path).expect("the server listens");
        stream.set_read_timeout(Some(Time::from_secs(20))).expect("a timeout can be set");
        stream
    }

    pub(crate) fn end(mut self) -> Statistics {
        self.stop.stop();
        let thread = self.thread.take().expect("it ends once");
        thread.join().expect("the server does not panic")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write_then_read(client: &mut Client<impl Read + Write>, cookie: u64, offset: u64) {
    let mut write = Request::new(client::WRITE, cookie, offset, 4096);
    write.payload.fill(cookie as u8 | 1);
    assert_eq!(client.call(&write).expect("it is answered").error, 0);
    let read = client.call(&Request::new(client::READ, cookie + 1, offset, 4096)).expect("it is answered");
    assert_eq!((read.cookie, read.data), (cookie + 1, write.payload));
}

#[test]
fn several_clients_see_one_device() {
    let serving = Serving::start(1, Duration::default());
    let (mut first, mut second) = (serving.connect(), serving.connect());
    write_then_read(&mut first, 10, 4096);
    let read = second.call(&Request::new(client::READ, 1, 4096, 512)).expect("it is answered");
    assert_eq!(read.data, [11; 512]);
    let status = second.call(&Request::new(client::BLOCK_STATUS, 2, 0, 16384)).expect("it is answered");
    assert_eq!(status.extents, [(4096, 3), (4096, 0), (8192, 3)]);
    first.send(&Request::new(client::DISCONNECT, 0, 0, 0)).expect("it is there");
    assert_eq!(first.reply().expect_err("it was a goodbye").kind(), ErrorKind::UnexpectedEof);
    drop(second);
    write_then_read(&mut serving.connect(), 3, 0);
    let path = serving.path.clone();
    let statistics = serving.end();
    assert_eq!((statistics.connected_count, statistics.disconnected_count), (3, 1));
    assert!(!path.exists(), "nothing is left behind");
}

#[test]
fn late_answers_overtake_each_other_and_are_not_early() {
    let serving = Serving::start(1, Duration::from_ms(2));
    let mut client = serving.connect();
    let start = now();
    for cookie in 0..64 {
        client.send(&Request::new(client::READ, cookie, cookie * 512, 512)).expect("it is there");
    }
    let mut order: Vec<u64> = (0..64).map(|_| client.reply().expect("it is answered").cookie).collect();
    assert!(now().saturating_since(start) >= Duration::from_ms(4));
    assert!(!order.is_sorted(), "{order:?}");
    order.sort_unstable();
    assert!(order.into_iter().eq(0..64));
}

#[test]
fn a_slow_reader_is_held_back_and_disturbs_nobody() {
    let limits = Limits { outstanding_max: 16, reply_bytes_max: 1 << 20, receive_bytes: 65_536 };
    let options = ServerOptions { limits, ..ServerOptions::default() };
    let serving = Serving::start_with(2, Duration::default(), options, None);
    let mut slow = serving.connect();
    // 500 MiB of replies are asked for and not taken, until not even requests go through.
    slow.stream.set_nonblocking(true).expect("it can be set");
    let mut sent = 0;
    let request = Request::new(client::READ, 1, 0, 1 << 20).bytes();
    while sent < 500 && slow.stream.write_all(&request).is_ok() {
        sent += 1;
    }
    write_then_read(&mut serving.connect(), 5, 8192);
    slow.stream.set_nonblocking(false).expect("it can be set");
    let mut total = 0u64;
    let mut buffer = vec![0; 1 << 20];
    let expected = sent * ((1 << 20) + 28);
    while total < expected {
        total += slow.stream.read(&mut buffer).expect("replies come once they are taken") as u64;
    }
    assert_eq!(total, expected);
}

#[test]
fn clients_that_die_do_not_disturb_the_others() {
    let serving = Serving::start(1, Duration::from_ms(1));
    let mut lasting = serving.connect();
    for round in 0..50u64 {
        let mut dying = serving.connect();
        for cookie in 0..20 {
            dying.send(&Request::new(client::READ, cookie, 0, 65_536)).expect("it is there");
        }
        let write = Request::new(client::WRITE, 99, 0, 65_536).bytes();
        dying.stream.write_all(&write[..1000]).expect("it is there");
        if round % 2 == 0 {
            dying.reply().expect("it is answered");
        }
        drop(dying);
        let mut lost = serving.stream();
        lost.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it is there");
        // The greeting, then the end or a reset.
        let _ = lost.read_to_end(&mut Vec::new());
        write_then_read(&mut lasting, round * 2, 0);
    }
    drop(lasting);
    let statistics = serving.end();
    assert_eq!(statistics.connected_count, 101);
    assert!(statistics.orphan_count > 0, "{statistics:?}");
    assert_eq!(statistics.violation_count, 50, "{statistics:?}");
    assert!(statistics.vanished_count >= 50, "{statistics:?}");
}

#[test]
fn connecting_and_leaving_leaks_nothing() {
    let options = ServerOptions { connection_count_max: 2, ..ServerOptions::default() };
    let serving = Serving::start_with(1, Duration::default(), options, None);
    let descriptors = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    drop(serving.connect());
    let before = descriptors();
    for cycle in 0..2000 {
        let mut client = serving.connect();
        if cycle % 2 == 0 {
            client.send(&Request::new(client::DISCONNECT, 0, 0, 0)).expect("it is there");
        }
    }
    write_then_read(&mut serving.connect(), 1, 0);
    assert!(descriptors() < before + 100, "other tests run beside this one, but not so many");
}

#[test]
fn a_full_house_makes_the_next_client_wait() {
    let options = ServerOptions { connection_count_max: 1, ..ServerOptions::default() };
    let serving = Serving::start_with(1, Duration::default(), options, None);
    let mut first = serving.connect();
    let waiting = serving.stream();
    write_then_read(&mut first, 1, 0);
    drop(first);
    write_then_read(&mut Client::connect(waiting, "", true).expect("there is room now"), 1, 0);
}

#[test]
fn tcp_is_served_on_loopback() {
    let serving = Serving::start_with(1, Duration::default(), ServerOptions::default(), Some("tcp:0"));
    let Uri::Tcp { host, port, .. } = &serving.uri else { panic!("{}", serving.uri) };
    assert_eq!(host, "127.0.0.1");
    let stream = TcpStream::connect((host.as_str(), *port)).expect("the server listens");
    write_then_read(&mut Client::connect(stream, "", false).expect("the server takes clients"), 1, 0);
}

#[test]
fn stopping_answers_what_is_outstanding() {
    let serving = Serving::start(1, Duration::from_ms(100));
    let mut client = serving.connect();
    for cookie in 0..4 {
        client.send(&Request::new(client::READ, cookie, 0, 512)).expect("it is there");
    }
    // A round trip of a refused request: the four before it have arrived.
    client.send(&Request::new(client::READ, 4, 1, 512)).expect("it is there");
    assert_eq!(client.reply().expect("it is answered").error, 22);
    let path = serving.path.clone();
    let ending = thread::spawn(move || serving.end());
    for _ in 0..4 {
        assert_eq!(client.reply().expect("it is answered").error, 0);
    }
    assert_eq!(client.reply().expect_err("the server has gone").kind(), ErrorKind::UnexpectedEof);
    ending.join().expect("it ends");
    assert!(!path.exists());
}

#[test]
fn the_socket_is_private_and_only_a_stale_one_is_replaced() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let path = directory.path().join("disk.sock");
    let address = Address::Unix(path.clone());
    let bind = || Server::bind(&address, Export::new("", 512, 512), ServerOptions::default(), Box::new(now));
    drop(UnixListener::bind(&path).expect("the path is free"));
    assert!(path.exists(), "a socket that nobody listens on");
    let server = bind().expect("a stale socket makes way");
    let metadata = std::fs::symlink_metadata(&path).expect("it is there");
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    let Err(error) = bind() else { panic!("two servers at one path") };
    assert!(error.to_string().contains("something listens there"), "{error}");
    drop(server);
    assert!(!path.exists());
    std::fs::write(&path, "precious").expect("it can be written");
    let Err(error) = bind() else { panic!("a file is no stale socket") };
    assert!(error.to_string().contains("is not a socket"), "{error}");
    assert_eq!(std::fs::read(&path).expect("it is there"), b"precious");
}
