//! Tests that a device with any kind of fault keeps the contract, behind and before every layer and scheduler.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use seeklab_core::{Device, Positioning, Seed};
use seeklab_devices::Children;
use seeklab_devices::fault::{FaultParameters, FaultTable, kinds};
use seeklab_devices::layer::Fault;
use seeklab_devices::limit::Limited;
use seeklab_devices::registry::KINDS;

use crate::contract::{Subject, built, check_all, limited, queue, schedulers, subject, track_blocks};

/// Faults that strike often within a load, which lasts up to two seconds. At least one of each kind.
const FAULTS: &[&str] = &[
    "delay,add=0ms..5ms,probability=30%",
    "delay,add=exponential 2ms,holds=device,every=2",
    "stall,at=20ms,for=30ms,repeat=about 100ms",
    "slow,factor=2.7,at=10ms,for=200ms,repeat=300ms",
    "recovered,add=11ms,probability=30%",
    "medium_error,add=3ms,probability=30%",
    "medium_error,lasting=sticky,probability=20%",
    "medium_error,lasting=until_rewritten,probability=40%",
    "aborted,probability=30%",
    "timeout,timeout=40ms,probability=30%,at=20ms,for=300ms,repeat=about 100ms",
    "write_protected,at=100ms,for=100ms,repeat=300ms",
    "no_space,every=3",
    "gone,at=100ms,for=50ms,repeat=about 200ms",
    "lost_flush,probability=50%",
    "ignored_fua",
    "bandwidth_cap,rate=2MB/s",
    "bandwidth_cap,rate=50MB/s,op=write,at=50ms",
    "retries,ladder=40% 0% 30%,turn=6ms,probability=50%",
    "remapped,turns=3,turn=6ms,detour=1ms..9ms,probability=50%",
    "throttle,load=64KiB,factor=3,idle=40ms",
    "throttle,load=30ms,window=200ms,factor=2.3,idle=20ms",
    "lost_write,probability=30%",
    "torn_write,probability=50%",
    "misdirected_write,probability=30%",
    "misdirected_read,probability=30%",
    "stale_read,probability=30%",
    "bit_rot,probability=50%",
    "power_loss,at=100ms,back_after=50ms",
];

fn faulty(device: Box<dyn Device>, line: &str) -> Box<dyn Device> {
    let faults = FaultParameters { fault: vec![FaultTable::from_line(line).unwrap()] };
    let turn = device.positioning().and_then(Positioning::turn);
    let rules = faults.rules(device.capabilities(), turn, Seed(1), "disk0").unwrap();
    Box::new(Fault::new(device, rules))
}

fn subject_of(name: &str, line: &str, around: &str, device: Box<dyn Device>) -> Subject {
    subject(format!("{name}, {line}, {around}"), device, track_blocks(name))
}

#[test]
fn list_of_faults_has_every_kind() {
    let of_line = |line: &&str| line.split(',').next().unwrap().to_owned();
    let listed: BTreeSet<String> = FAULTS.iter().map(of_line).collect();
    let all: BTreeSet<String> = kinds().into_iter().map(|kind| kind.kind).collect();
    assert_eq!(listed, all);
}

/// Checks the subjects of each fault, and names every fault of which one fails.
fn check_each(subjects: impl Fn(&'static str) -> Vec<Subject>, cases: u32) {
    let fails = |line: &&'static str| {
        let check = AssertUnwindSafe(|| check_all(subjects(line), cases));
        catch_unwind(check).is_err()
    };
    let failed: Vec<&str> = FAULTS.iter().copied().filter(fails).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn every_kind_of_fault_keeps_the_contract() {
    let names = ["hp-c2247a", "atlas10k", "exponential"];
    let of = |line: &'static str| {
        names.map(|name| subject_of(name, line, "alone", faulty(built(name, &[]), line)))
    };
    check_each(|line| of(line).into(), 40);
}

#[test]
fn every_kind_of_fault_behind_and_before_every_layer_keeps_the_contract() {
    let layers: [(&str, fn(Box<dyn Device>) -> Box<dyn Device>); 3] = [
        ("queue", |device| Box::new(queue(device, "c-look", 1))),
        ("limit", |device| limited(device, Limited::All)),
        ("fault", |device| faulty(device, "delay,add=0ms..9ms,holds=device,name=other,probability=30%")),
    ];
    let registered: BTreeSet<&str> =
        KINDS.iter().filter(|kind| kind.children == Children::One).map(|kind| kind.name).collect();
    assert_eq!(layers.iter().map(|(name, _)| *name).collect::<BTreeSet<_>>(), registered);
    let of = |line: &'static str| {
        let subjects = layers.iter().flat_map(|(layer, wrap)| {
            let behind = wrap(faulty(built("atlas10k", &[]), line));
            let before = faulty(wrap(built("atlas10k", &[])), line);
            [
                subject_of("atlas10k", line, &format!("behind {layer}"), behind),
                subject_of("atlas10k", line, &format!("before {layer}"), before),
            ]
        });
        subjects.collect()
    };
    check_each(of, 16);
}

#[test]
fn every_kind_of_fault_with_every_scheduler_keeps_the_contract() {
    let of = |line: &'static str| {
        let subjects = schedulers().into_iter().flat_map(|scheduler| {
            let inside = [("queue.depth", "8"), ("queue.scheduler", scheduler.as_str())];
            let behind = queue(faulty(built("atlas10k", &[]), line), &scheduler, 1);
            let before = faulty(built("atlas10k", &inside), line);
            [
                subject_of("atlas10k", line, &format!("behind {scheduler}"), Box::new(behind)),
                subject_of("atlas10k", line, &format!("before {scheduler} in the drive"), before),
            ]
        });
        subjects.collect()
    };
    check_each(of, 4);
}
