//! Clients that are silent, slow or do not read, by a clock of the test: nothing here waits.

use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use seeklab_core::{Duration, Instant};
use seeklab_emulator::frontend::nbd::{Address, Export, Expulsion, Limits, Server, ServerOptions};
use seeklab_emulator::frontend::{Backend, Departure, Frontend, Tag};

use crate::nbd::client::{self, Request};
use crate::nbd::memory::Memory;

const KIB: usize = 1 << 10;

/// A server whose loop and whose clock are the test's.
struct Scene {
    server: Server,
    memory: Memory,
    now: Rc<Cell<Instant>>,
    left: Vec<(Tag, Departure)>,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn new(options: ServerOptions) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let now = Rc::new(Cell::new(Instant::ZERO));
        let clock = Rc::clone(&now);
        let export = Export::new("disk", 1 << 20, 512);
        let address = Address::Unix(folder.path().join("disk.sock"));
        let server = Server::bind(&address, export, options, Box::new(move || clock.get()));
        let memory = Memory::new(1 << 20, Duration::ZERO);
        Self { server: server.expect("the address is free"), memory, now, left: Vec::new(), _folder: folder }
    }

    /// Lets the loop run until it would wait.
    fn run(&mut self) {
        for _ in 0..20 {
            self.turn();
        }
        for _ in 0..1_000 {
            if !self.server.is_busy() {
                return;
            }
            self.turn();
        }
        panic!("the loop never waits: {:?}", self.server.statistics());
    }

    fn turn(&mut self) {
        let Self { server, memory, left, .. } = self;
        server.receive(&mut |command| memory.take(command)).expect("the server goes on");
        memory.reply(self.now.get(), server).expect("the memory goes on");
        server.send(&mut |tag, departure| left.push((tag, departure))).expect("the server goes on");
    }

    /// Lets time pass, and what is due then happen.
    fn at_ms(&mut self, ms: u64) {
        self.now.set(Instant::from_ns(ms * 1_000_000));
        self.run();
    }

    fn connect(&mut self) -> Guest {
        let Address::Unix(path) = self.server.address() else { panic!("it is a socket") };
        let stream = UnixStream::connect(path).expect("the server listens");
        stream.set_nonblocking(true).expect("it can be set");
        self.run();
        Guest { stream, received: Vec::new() }
    }

    fn negotiated(&mut self) -> Guest {
        let mut guest = self.connect();
        guest.send(&client::negotiation("disk", false));
        self.run();
        assert!(guest.is_connected());
        guest.received.clear();
        guest
    }

    /// A client that asks and is answered.
    fn is_served(&mut self, guest: &mut Guest) -> bool {
        guest.received.clear();
        guest.send(&Request::new(client::READ, 7, 0, 512).bytes());
        self.run();
        guest.is_connected() && guest.received.len() == 16 + 512
    }

    fn expelled(&self) -> (u64, Option<Expulsion>) {
        let statistics = self.server.statistics();
        (statistics.expelled_count, statistics.last_expulsion)
    }
}

/// One client, by bytes.
struct Guest {
    stream: UnixStream,
    received: Vec<u8>,
}

impl Guest {
    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the socket takes it");
    }

    /// Takes what has come; whether the server still holds the connection.
    fn is_connected(&mut self) -> bool {
        let mut buffer = [0; 65_536];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(count) => self.received.extend(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
    }
}

/// Room for so many KiB of unsent replies, of all clients together.
fn tight(reply_kib: usize) -> ServerOptions {
    ServerOptions { reply_bytes_max: reply_kib * KIB, ..ServerOptions::default() }
}

#[test]
fn sixty_four_silent_connections_make_room_after_a_second() {
    let mut scene = Scene::new(ServerOptions::default());
    let mut silent: Vec<Guest> = (0..64).map(|_| scene.connect()).collect();
    let Address::Unix(path) = scene.server.address().clone() else { panic!("it is a socket") };
    let stream = UnixStream::connect(path).expect("it waits to be accepted");
    stream.set_nonblocking(true).expect("it can be set");
    let mut further = Guest { stream, received: Vec::new() };
    further.send(&client::negotiation("disk", false));
    scene.at_ms(1_000);
    assert!(further.is_connected() && further.received.is_empty(), "it waits for its turn");
    assert!(
        scene.server.deadline() <= Some(Instant::from_ns(1_000_000_001)),
        "{:?}",
        scene.server.deadline()
    );
    scene.at_ms(1_001);
    assert!(further.is_connected() && !further.received.is_empty());
    assert!(scene.is_served(&mut further));
    let gone = silent.iter_mut().map(|guest| !guest.is_connected());
    assert_eq!(gone.filter(|gone| *gone).count(), 1, "one makes room for one");
    assert!(!silent[0].is_connected(), "the oldest");
    assert_eq!(scene.expelled(), (1, Some(Expulsion::Place)));
}

#[test]
fn silent_connections_end_after_ten_seconds() {
    let mut scene = Scene::new(ServerOptions::default());
    let (mut served, mut silent) = (scene.negotiated(), scene.connect());
    let mut slow = scene.connect();
    slow.send(&client::client_flags(3));
    assert_eq!(scene.server.deadline(), Some(Instant::from_ns(10_000_000_000)));
    scene.at_ms(9_999);
    slow.send(b"IHAVEOPT");
    scene.run();
    assert!(silent.is_connected() && slow.is_connected());
    scene.at_ms(10_000);
    assert!(!silent.is_connected() && !slow.is_connected(), "bytes prolong nothing");
    assert_eq!(scene.expelled(), (2, Some(Expulsion::Negotiation)));
    scene.at_ms(365 * 86_400_000);
    assert!(scene.is_served(&mut served), "a negotiated client may be idle for a year");
    assert_eq!(scene.server.deadline(), None);
}

#[test]
fn half_sent_requests_end_after_thirty_seconds() {
    let mut scene = Scene::new(ServerOptions::default());
    let (mut half, mut slow) = (scene.negotiated(), scene.negotiated());
    let write = Request::new(client::WRITE, 1, 0, 4096).bytes();
    half.send(&write[..2_000]);
    slow.send(&write[..1]);
    scene.run();
    // The payload of a write that is refused counts as well.
    let mut refused = scene.negotiated();
    refused.send(&Request::new(client::WRITE, 1, 1, 4096).bytes()[..100]);
    scene.run();
    scene.at_ms(29_999);
    slow.send(&write[1..]);
    half.send(&write[2_000..2_100]);
    scene.run();
    assert!(half.is_connected() && slow.is_connected() && refused.is_connected());
    scene.at_ms(30_000);
    assert!(!half.is_connected() && !refused.is_connected());
    assert_eq!(scene.expelled(), (2, Some(Expulsion::Request)));
    scene.at_ms(1_000_000);
    assert!(scene.is_served(&mut slow), "its request arrived in time");
}

#[test]
fn all_unsent_replies_stay_below_the_maximum() {
    let mut scene = Scene::new(tight(8 * KIB));
    let mut good = scene.negotiated();
    let mut debtors: Vec<Guest> = (0..16).map(|_| scene.negotiated()).collect();
    for round in 0..64 {
        for debtor in &mut debtors {
            let request = Request::new(client::READ, round, 0, 64 << 10).bytes();
            // Once the server does not read it, the socket takes no more.
            let _ = debtor.stream.write(&request);
        }
        scene.run();
        assert!(scene.server.owed_bytes() <= 8 << 20, "{}", scene.server.owed_bytes());
        assert!(scene.is_served(&mut good), "round {round}");
    }
    assert!(scene.server.owed_bytes() > 4 << 20, "{}", scene.server.owed_bytes());
    // One of them reads on, slowly.
    let mut taken = 0;
    for second in 1..40 {
        let mut buffer = [0; 4096];
        taken += debtors[0].stream.read(&mut buffer).expect("replies are there");
        scene.at_ms(second * 1_000);
        assert!(scene.is_served(&mut good), "second {second}");
    }
    assert!(taken > 0 && debtors[0].is_connected(), "it made progress");
    let (count, why) = scene.expelled();
    assert!(count >= 1 && why == Some(Expulsion::Standstill), "{count} {why:?}");
    scene.at_ms(86_400_000);
    assert!(scene.is_served(&mut good));
}

#[test]
fn debtor_below_the_maximum_may_sleep() {
    let mut scene = Scene::new(tight(8 * KIB));
    let mut sleeper = scene.negotiated();
    for cookie in 0..20 {
        sleeper.send(&Request::new(client::READ, cookie, 0, 64 << 10).bytes());
    }
    scene.run();
    scene.at_ms(365 * 86_400_000);
    let expected = 20 * (16 + (64 << 10));
    while sleeper.received.len() < expected {
        assert!(sleeper.is_connected());
        scene.run();
    }
    assert_eq!((sleeper.received.len(), scene.server.owed_bytes()), (expected, 0));
    assert_eq!(scene.expelled(), (0, None));
}

#[test]
fn stalled_client_lets_the_loop_wait() {
    let limits = Limits { reply_bytes_max: 64 * KIB, ..Limits::default() };
    let mut scene = Scene::new(ServerOptions { limits, ..ServerOptions::default() });
    let mut stalled = scene.negotiated();
    for cookie in 0..20 {
        stalled.send(&Request::new(client::READ, cookie, 0, 64 << 10).bytes());
    }
    // It panics if the loop never waits.
    scene.run();
    assert!(scene.server.owed_bytes() > 0);
}

#[test]
fn stamp_belongs_to_the_write_that_the_client_took() {
    let mut scene = Scene::new(ServerOptions::default());
    let mut client = scene.negotiated();
    let bytes = 16 + (512 << 10);
    scene.now.set(Instant::from_ns(1_000_000_000));
    for cookie in 0..4 {
        client.send(&Request::new(client::READ, cookie, 0, 512 << 10).bytes());
    }
    scene.run();
    let taken_at = |scene: &Scene| -> Vec<u64> {
        let departures = scene.left.iter().map(|(_, departure)| match departure {
            Departure::Taken(at) => at.as_ns() / 1_000_000_000,
            Departure::Dropped => panic!("the client is there"),
        });
        departures.collect()
    };
    assert!(taken_at(&scene).is_empty(), "no socket takes 512 KiB at once: {:?}", scene.left);
    scene.at_ms(3_000);
    assert!(taken_at(&scene).is_empty(), "nothing was read for two seconds");
    while client.received.len() < 4 * bytes {
        assert!(client.is_connected());
        scene.run();
    }
    assert_eq!(taken_at(&scene), [3, 3, 3, 3]);
    let mut tags: Vec<Tag> = scene.left.iter().map(|(tag, _)| *tag).collect();
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(tags.len(), 4, "a tag stands for one command until its reply has left");
}

#[test]
fn replies_to_a_client_that_went_are_dropped_once() {
    let mut scene = Scene::new(ServerOptions::default());
    let mut client = scene.negotiated();
    for cookie in 0..3 {
        client.send(&Request::new(client::READ, cookie, 0, 1 << 20).bytes());
    }
    scene.run();
    drop(client);
    scene.run();
    assert_eq!(scene.left.len(), 3, "{:?}", scene.left);
    assert!(scene.left.iter().all(|(_, departure)| *departure == Departure::Dropped), "{:?}", scene.left);
}
