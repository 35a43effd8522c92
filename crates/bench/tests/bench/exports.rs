//! Exports of the landed NBD server, served in this process.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use seeklab_bench::Plan;
use seeklab_core::{ByteSize, Duration, Operation, Seed};
use seeklab_devices::catalog;
use seeklab_emulator::client::nbd::Client;
use seeklab_emulator::clock::{Clock, Pacing, Waiter};
use seeklab_emulator::emulation::Emulation;
use seeklab_emulator::frontend::nbd::{Address, Export, Server, ServerOptions, Uri};
use seeklab_emulator::frontend::{Stop, serve};
use seeklab_emulator::pacer::{Options, Pacer};
use seeklab_emulator::store::Store;

use crate::harness::{at_most, open, options, run};

const SIZE_BYTES: u64 = 16 << 20;

/// An emulated device on a thread of its own.
struct Serving {
    uri: Uri,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
    _directory: tempfile::TempDir,
}

impl Serving {
    fn start(device: &'static str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let address = Address::Unix(directory.path().join("disk.sock"));
        let (sender, receiver) = mpsc::channel();
        let thread = thread::spawn(move || {
            let device = catalog::find(device).unwrap().build(Seed(1), "disk0").unwrap();
            let store = Store::in_ram(ByteSize::from_bytes(SIZE_BYTES), None).unwrap();
            let clock = Clock::start();
            let pacer = Pacer::new(device, Options::default());
            let mut emulation = Emulation::new(pacer, store, clock).failing(false).unwrap();
            let export = Export::new("", SIZE_BYTES, 512);
            let server =
                Server::bind(&address, export, ServerOptions::default(), Box::new(move || clock.now()));
            let mut server = server.unwrap();
            let stop = Stop::new().unwrap();
            sender.send((server.uri(), stop.clone())).unwrap();
            let mut waiter = Waiter::new(clock, Pacing::Balanced, Duration::from_us(20));
            serve(&mut server, &mut emulation, &mut waiter, &stop).unwrap();
        });
        let (uri, stop) = receiver.recv().unwrap();
        Self { uri, stop, thread: Some(thread), _directory: directory }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.stop();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[test]
fn export_is_measured_with_many_requests_outstanding() {
    let serving = Serving::start("immediate");
    let clock = Clock::start();
    let target = open(&serving.uri.to_string(), clock, &options(32)).unwrap();
    assert_eq!(target.facts().space.capacity_blocks, SIZE_BYTES / 512);
    let plan = Plan { record: true, ..Plan::default() };
    let line = "random,size=4KiB,read=50%,closed=32,requests=4000";
    let (measurement, heard) = run((&plan, &at_most(32)), target, line, 1);
    let part = &measurement.totals.part;
    assert_eq!((part.requests(), part.errors(), heard.rows.len()), (4_000, 0, 4_000));
    assert!(part.operations[Operation::Write as usize].requests > 1_800);
    let cost = measurement.totals.cost.unwrap();
    assert!(cost.system_calls > 4_000, "one to send each request at least: {cost:?}");
    // The data of the last write to each place is there: the address and number of its write.
    let mut last = std::collections::BTreeMap::new();
    for (number, row) in heard.rows.iter().enumerate().filter(|(_, row)| row.op == Operation::Write) {
        last.insert(row.lbn, number as u64);
    }
    let mut client = Client::connect(&serving.uri, clock).unwrap();
    let mut checked = 0;
    for (lbn, number) in last {
        let mut block = [0; 512];
        client.read(lbn * 512, &mut block).unwrap();
        let word = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().unwrap());
        // Another write may begin within this one, or overlap it and have ended later.
        checked += u64::from((word(0), word(8)) == (lbn, number));
    }
    assert!(checked > 100, "{checked}");
}

#[test]
fn service_times_are_at_least_those_of_the_emulated_device() {
    // 10 ms for each request.
    let serving = Serving::start("constant");
    let target = open(&serving.uri.to_string(), Clock::start(), &options(4)).unwrap();
    let line = "random,size=4KiB,read=100%,closed=1,requests=20";
    let (measurement, _) = run((&Plan::default(), &at_most(4)), target, line, 1);
    let shortest = measurement.totals.part.service().moments().min().unwrap();
    assert!(shortest >= 9_900_000.0, "{shortest} ns");
    assert_eq!(measurement.totals.part.requests(), 20);
}
