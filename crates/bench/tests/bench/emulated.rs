//! Emulated devices in this process: real time, one device for all threads.

use seeklab_bench::target::SharedEmulation;
use seeklab_bench::{Dealt, Lane, Measurement, Plan, Stream, measure};
use seeklab_core::{Duration, TraceRecord};
use seeklab_emulator::clock::Clock;

use crate::harness::{Heard, at_most, built, device, emulated, options, synthetic};

fn measured(
    device: &SharedEmulation,
    line: &str,
    threads: u32,
    room: u32,
) -> (Measurement, Vec<TraceRecord>) {
    let lane = |thread| {
        let target = emulated(device, &options(room));
        let workload = synthetic(line, target.facts().space, 1);
        Lane::new(target, Dealt::new(workload, thread, threads))
    };
    let stream = Stream::new(at_most(room), (0..threads).map(lane).collect());
    let mut heard = Heard::default();
    let plan = Plan { record: true, ..Plan::default() };
    let measurement = measure(&plan, Clock::start(), vec![stream], &mut heard).unwrap();
    (measurement, heard.rows)
}

/// A device that takes one request at a time for 1 ms, behind a queue.
fn millisecond() -> SharedEmulation {
    SharedEmulation::new("emulate:x".to_owned(), device("constant", &[("service_time", "1ms")]))
}

#[test]
fn requests_take_at_least_the_time_of_the_model() {
    let shared = millisecond();
    let (measurement, rows) = measured(&shared, "random,size=4KiB,read=50%,closed=4,requests=60", 1, 64);
    assert_eq!((measurement.totals.part.requests(), rows.len()), (60, 60));
    assert!(measurement.totals.elapsed() >= Duration::from_ms(60), "one at a time, 1 ms each");
    let part = &measurement.totals.part;
    let shortest = part.operations.iter().filter_map(|direction| direction.service.quantile(0.0)).min();
    assert!(shortest.is_some_and(|shortest| shortest >= Duration::from_us(999)), "{shortest:?}");
    let lateness = shared.take_lateness();
    assert_eq!(lateness.moments().count(), 60);
    assert_eq!(shared.take_lateness().moments().count(), 0, "it counts from then on");
}

#[test]
fn threads_share_one_device() {
    let (measurement, rows) =
        measured(&millisecond(), "random,size=4KiB,read=100%,poisson=100000/s,requests=80", 3, 8);
    assert_eq!(rows.len(), 80);
    assert_eq!(measurement.totals.part.requests(), 80);
    assert!(measurement.totals.elapsed() >= Duration::from_ms(80), "{}", measurement.totals.elapsed());
}

#[test]
fn device_without_room_gets_the_rest_later() {
    let mut description = seeklab_devices::catalog::find("constant").unwrap();
    description.set("service_time", "0.2ms").unwrap();
    let bare = description.build(seeklab_core::Seed(1), "disk0").unwrap();
    let room = bare.capabilities().queue_depth;
    let shared = SharedEmulation::new("emulate:x".to_owned(), bare);
    // Each of the threads fills it.
    let line = "random,size=4KiB,read=100%,poisson=1000000/s,requests=400";
    let (measurement, rows) = measured(&shared, line, 3, room.min(100));
    assert_eq!((measurement.totals.part.requests(), rows.len()), (400, 400));
}

#[test]
fn emulated_device_keeps_its_state_from_phase_to_phase() {
    let text = "kind = \"limit\"\n[[requests]]\nrate = \"100/s\"\nburst = 60\n[device]\nkind = \"immediate\"\ncapacity_blocks = 1048576\nblock_size = \"512B\"\n";
    let description = seeklab_devices::Description::parse("limited", "", text).unwrap();
    let shared = SharedEmulation::new("emulate:x".to_owned(), built(&description));
    let line = "random,size=4KiB,read=100%,closed=1,requests=50";
    let first = measured(&shared, line, 1, 64).0.totals.elapsed();
    let second = measured(&shared, line, 1, 64).0.totals.elapsed();
    // 40 of the second 50 have no credit of the burst, less what came in the first.
    let refilled = first + Duration::from_ms(100);
    assert!(second + refilled >= Duration::from_ms(400), "{first}, {second}");
}
