//! The pacer allocates nothing in its steady state; cost of an arrival.
//!
//! Everything happens in virtual time. The allocator of this test counts.

#![allow(unsafe_code, reason = "counting allocations takes an allocator of one's own")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use seeklab_core::{Device, Duration, Instant, Operation, Request, Seed, Stream};
use seeklab_devices::catalog;
use seeklab_devices::layer::queue_before;
use seeklab_emulator::clock::monotonic_ns;
use seeklab_emulator::pacer::{Compensation, Due, Mode, Options, Pacer};

struct Counting;

thread_local! {
    /// Allocations of this thread; the test's threads do not disturb each other.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.with(|allocations| allocations.set(allocations.get() + 1));
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches a constant-initialised
// thread-local without a destructor, which itself never allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and `System` allocated the pointer.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `realloc`, and `System` allocated the pointer.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of this thread so far.
pub(crate) fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

/// A host that keeps so many requests outstanding.
struct Host {
    pacer: Pacer,
    stream: Stream,
    capacity_blocks: u64,
    population: usize,
    now: Instant,
    due: Vec<Due>,
    next: u64,
}

impl Host {
    fn new(name: &str, mode: Mode, population: usize, run_behind: bool) -> Self {
        let mut description = catalog::find(name).unwrap();
        if description.kind().name == "disk" {
            // Schedulers that keep requests in order allocate for each; first come, first served does not.
            description.set("queue.scheduler", "fcfs").unwrap();
        }
        let device = description.build(Seed(7), "disk0").unwrap();
        let device = queue_before(device, &"fcfs".parse().unwrap(), 1).unwrap();
        let capacity_blocks = device.capabilities().capacity_blocks;
        let compensation = Compensation::skew(Duration::from_us(20)).with_lookahead(Duration::from_us(30));
        let options = Options { mode, compensation, record_arrivals: false, run_behind };
        Self {
            pacer: Pacer::new(Box::new(device), options),
            stream: Seed(3).stream("host"),
            capacity_blocks,
            population,
            now: Instant::ZERO,
            due: Vec::with_capacity(64),
            next: 0,
        }
    }

    fn serve(&mut self, requests: u64) {
        let end = self.next + requests;
        while self.next < end || self.pacer.outstanding() > 0 {
            while self.next < end && self.pacer.outstanding() < self.population {
                let op = if self.stream.chance(0.66) { Operation::Read } else { Operation::Write };
                let request = Request::new(self.next, op, self.stream.below(self.capacity_blocks - 16), 16);
                self.now += Duration::from_us(25);
                self.pacer.arrive(self.now, request).unwrap();
                self.next += 1;
            }
            let deadline = self.pacer.next_deadline().unwrap();
            self.now = self.now.max(deadline);
            self.due.clear();
            self.pacer.due(self.now, Duration::ZERO, &mut self.due);
            self.pacer.run_behind();
        }
    }
}

#[test]
fn warm_pacer_does_not_allocate() {
    // Not `exponential`: each fork of its random stream is a box of its own.
    for name in ["atlas10k", "cheetah-36es", "nearline-7200", "constant", "immediate"] {
        for mode in Mode::ALL {
            for run_behind in [false, true] {
                let mut host = Host::new(name, mode, 4, run_behind);
                host.serve(3_000);
                let before = allocations();
                host.serve(5_000);
                let count = allocations() - before;
                assert_eq!(count, 0, "{name}, {mode:?}, second instance: {run_behind}");
            }
        }
    }
}

#[test]
#[ignore = "measures and asserts nothing: run it alone, with --release"]
fn cost_of_an_arrival() {
    for population in [1, 4, 32] {
        for mode in Mode::ALL {
            let mut best = u64::MAX;
            let mut host = Host::new("atlas10k", mode, population, false);
            for _ in 0..5 {
                let start = monotonic_ns();
                host.serve(4_000);
                best = best.min((monotonic_ns() - start) / 4_000);
            }
            println!("atlas10k, {population:2} outstanding, {mode:?}: {best} ns a request");
        }
    }
    // The model alone, for comparison.
    let mut device = catalog::find("atlas10k").unwrap().build(Seed(7), "disk0").unwrap();
    let mut fork = device.fork();
    let start = monotonic_ns();
    for _ in 0..10_000 {
        device.fork_into(&mut fork);
        std::mem::swap(&mut device, &mut fork);
    }
    println!("atlas10k, one fork_into: {} ns", (monotonic_ns() - start) / 10_000);
}
