//! Tests that a device does not allocate in its steady state.
//!
//! Under emulation a device is forked for every request, so neither serving nor forking into an earlier
//! fork may allocate once warm. The allocator of this test counts.

#![allow(unsafe_code, reason = "counting allocations takes an allocator of one's own")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use crate::clones::clones;
use crate::drives::{bare, device};
use crate::layouts::sampled_disks;
use seeklab_core::{Completion, Device, Instant, Operation, Request, Seed, Stream};
use seeklab_devices::layer::queue_before;
use seeklab_devices::{Description, catalog};

struct Counting;

thread_local! {
    /// Allocations of this thread; the test's threads do not disturb each other.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes that they took, freed ones included.
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

fn count(bytes: usize) {
    ALLOCATIONS.with(|allocations| allocations.set(allocations.get() + 1));
    BYTES.with(|all| all.set(all.get() + bytes as u64));
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches a constant-initialised
// thread-local without a destructor, which itself never allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and `System` allocated the pointer.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: the caller keeps the contract of `realloc`, and `System` allocated the pointer.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_of(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

/// Serves so many random requests with a few outstanding; before each, `between` sees the device.
fn serve(
    device: &mut dyn Device,
    now: &mut Instant,
    stream: &mut Stream,
    completions: &mut Vec<Completion>,
    count: u64,
    mut between: impl FnMut(&dyn Device),
) {
    let capacity_blocks = device.capabilities().capacity_blocks;
    let mut outstanding = 0;
    for id in 0..count {
        let op = if stream.chance(0.66) { Operation::Read } else { Operation::Write };
        let request = Request::new(id, op, stream.below(capacity_blocks - 16), 16);
        between(device);
        device.submit(*now, request).unwrap();
        outstanding += 1;
        while outstanding > 4 {
            *now = device.next_event().unwrap();
            completions.clear();
            device.poll(*now, completions);
            outstanding -= completions.len();
        }
    }
    while let Some(event) = device.next_event() {
        *now = event;
        completions.clear();
        device.poll(event, completions);
    }
}

fn check(description: &Description) {
    check_device(&description.name, description.build(Seed(1), "disk0").unwrap());
}

fn check_device(name: &str, device: Box<dyn Device>) {
    let mut device = queue_before(device, &"fcfs".parse().unwrap(), 1).unwrap();
    let mut completions = Vec::with_capacity(64);
    let mut stream = Seed(3).stream("allocations.address");
    let mut now = Instant::ZERO;
    serve(&mut device, &mut now, &mut stream, &mut completions, 1_000, |_| {});
    let serving = allocations_of(|| {
        serve(&mut device, &mut now, &mut stream, &mut completions, 10_000, |_| {});
    });
    let mut fork = device.fork();
    serve(&mut device, &mut now, &mut stream, &mut completions, 1_000, |device| device.fork_into(&mut fork));
    let forking = allocations_of(|| {
        serve(&mut device, &mut now, &mut stream, &mut completions, 10_000, |device| {
            device.fork_into(&mut fork);
        });
    });
    println!("{name}: {serving} allocations serving, {forking} serving and forking");
    assert_eq!(serving, 0, "{name} allocates while it serves");
    assert_eq!(forking, 0, "{name} allocates while it is forked into a fork");
}

/// A trace may name thousands of volumes: what they have in common is there once, and buffers grow when they are used.
#[test]
fn idle_volume_of_a_known_description_takes_less_than_4_kib() {
    const VOLUMES: u64 = 100;
    for name in catalog::names() {
        let description = device(name, &[]);
        let build = |number| {
            let device = description.build(Seed(1), &format!("disk{number}")).unwrap();
            let depth = device.capabilities().queue_depth.min(32) as usize;
            queue_before(device, &"fcfs".parse().unwrap(), depth).unwrap()
        };
        let first = build(0);
        let before = BYTES.with(Cell::get);
        let others: Vec<_> = (1..=VOLUMES).map(build).collect();
        let bytes = (BYTES.with(Cell::get) - before) / VOLUMES;
        assert!(bytes < 4096, "{name}: {bytes} bytes for each volume");
        println!("{name}: {bytes} bytes for each volume");
        drop((first, others));
    }
}

#[test]
fn warm_disk_does_not_allocate() {
    for name in crate::drives::disks() {
        // Schedulers that keep requests in order allocate for each; first come, first served does not.
        check(&device(name, &[("queue.scheduler", "fcfs")]));
        check(&bare(name, &[]));
    }
}

#[test]
fn warm_disk_of_a_random_layout_does_not_allocate() {
    for (name, disk) in sampled_disks("hp-c2247a") {
        check_device(&name, Box::new(disk));
    }
}

#[test]
fn warm_clones_and_other_kinds_do_not_allocate() {
    let without_heads = ["immediate", "constant", "exponential"].map(|name| device(name, &[]));
    // Schedulers that keep requests in order allocate for each.
    let clones = clones().into_iter().filter(|clone| !clone.name.contains("queue"));
    for description in without_heads.into_iter().chain(clones) {
        check(&description);
    }
}

#[test]
fn warm_limits_do_not_allocate() {
    let text = "kind = \"limit\"\n[[requests]]\nrate = \"200/s\"\nburst = 3\n[[bytes]]\nrate = \"1MB/s\"\nburst = \"8kB\"\n\
                [device]\nbase = \"atlas10k\"\nset = { \"queue.scheduler\" = \"fcfs\" }\n";
    check(&Description::parse("limited", "limited.toml", text).unwrap_or_else(|error| panic!("{error}")));
}
