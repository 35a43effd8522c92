//! Servers that take connections and never answer, or stop reading: a run ends on time, whenever that begins.

use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread;

use seeklab_bench::{Plan, StreamPlan};
use seeklab_core::{Duration, Status};
use seeklab_emulator::clock::Clock;

use crate::harness::{Heard, at_most, open, options, run, run_until};
use crate::liar::{Accidents, Liar, uri};

/// A handshake without an answer takes 10 s, and so would a run that waits for one.
const HANDSHAKE: Duration = Duration::from_s(10);

/// A server that serves one connection, cuts it after some requests, and answers on no other. Returns its address.
fn hanging(directory: &tempfile::TempDir) -> String {
    let socket = directory.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    let accidents = Accidents { cut: 20_000, ..Accidents::default() };
    let liar = Arc::new(Liar::new(tempfile::tempfile().unwrap(), 1 << 20, 512, accidents));
    thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        liar.converse(stream, 0);
        // From now on, the kernel takes connections for the listener.
        loop {
            thread::park();
        }
    });
    uri(&socket)
}

#[test]
fn run_ends_on_time_although_the_handshake_of_a_remade_connection_hangs() {
    let load = "random,size=4KiB,read=100%,closed=4,requests=1000000000";
    let by_time = Plan { duration: Some(Duration::from_s(1)), ..Plan::default() };
    let by_caller = Plan { interval: Some(Duration::from_ms(100)), ..Plan::default() };
    let heard = Heard { stops_after_intervals: Some(5), ..Heard::default() };
    for (plan, heard) in [(by_time, Heard::default()), (by_caller, heard)] {
        let directory = tempfile::tempdir().unwrap();
        let clock = Clock::start();
        let target = open(&hanging(&directory), clock, &options(4)).unwrap();
        let begin = clock.now();
        let (measurement, _) = run_until((&plan, &at_most(4)), target, load, 1, heard);
        let taken = clock.now().saturating_since(begin);
        assert!(taken < HANDSHAKE, "{taken}");
        let totals = &measurement.totals;
        // Every thread came back by itself, and says that it had no connection.
        assert_eq!((totals.silent_threads, totals.unfinished.len(), totals.reconnections), (0, 0, 0));
        assert!(totals.away.is_some() && totals.part.requests() > 0, "{totals:?}");
        assert!(measurement.failure.is_none(), "{:?}", measurement.failure);
    }
}

#[test]
fn requests_time_out_and_the_connection_is_remade_though_the_server_stops_reading() {
    let liar = Liar::new(tempfile::tempfile().unwrap(), 16 << 20, 512, Accidents::default());
    // More than the socket takes is under way when the server stops.
    let served = liar.reading(40).serve();
    let load = "random,size=256KiB,read=0%,closed=8,requests=60";
    let target = open(&served.uri, Clock::start(), &options(8)).unwrap();
    let plan = Plan {
        duration: Some(Duration::from_s(20)),
        interval: Some(Duration::from_ms(100)),
        ..Plan::default()
    };
    let stream = StreamPlan { timeout: Some(Duration::from_ms(500)), ..at_most(8) };
    let (measurement, _) = run((&plan, &stream), target, load, 1);
    let (totals, part) = (&measurement.totals, &measurement.totals.part);
    assert!(measurement.failure.is_none(), "{:?}", measurement.failure);
    assert_eq!((totals.silent_threads, totals.unfinished.len(), totals.unissued), (0, 0, 0), "{totals:?}");
    assert!(totals.reconnections >= 1, "{totals:?}");
    assert!(part.statuses[Status::Timeout as usize] >= 1, "{:?}", part.statuses);
    assert_eq!(part.requests() + part.failed, 60);
    assert!(part.requests() >= 40, "{}", part.requests());
    // All that are under way show, not only the one that the socket did not take.
    assert!(measurement.intervals.iter().any(|interval| interval.part.outstanding == 8));
}
