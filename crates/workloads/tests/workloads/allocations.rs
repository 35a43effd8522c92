//! Tests that a host does not allocate in its steady state.
//!
//! A run may have a billion events, so no event may allocate once the host is warm. The allocator of this test counts.

#![allow(unsafe_code, reason = "counting allocations takes an allocator of one's own")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use seeklab_core::{Arrival, Device, Duration, Instant, Seed, Workload};
use seeklab_workloads::Builtin;
use seeklab_workloads::host::{
    Host, HostSettings, RecordedAction, RecordedExtent, RecordedFile, RecordedStep, RecordedSteps,
    RecordedThread, Recording, SyncEnd,
};

use crate::common::{Server, Service, TARGET};
use crate::host::host;

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

/// Drives the host for so many completions. Returns false if it finished before.
fn drive(host: &mut Host, device: &mut Server, now: &mut Instant, completions: u64) -> bool {
    let mut ready = Vec::with_capacity(64);
    let mut done = 0;
    while done < completions {
        let at = match host.next_arrival(*now) {
            Arrival::Request(request) => {
                device.submit(*now, request).expect("it is taken");
                continue;
            }
            Arrival::Reclassification(change) => {
                device.reclassify(*now, &change);
                continue;
            }
            Arrival::At(time) => device.next_event().map_or(time, |event| event.min(time)),
            Arrival::WaitForCompletion => device.next_event().expect("something is outstanding"),
            Arrival::Finished => return false,
        };
        *now = at;
        ready.clear();
        device.poll(*now, &mut ready);
        for completion in &ready {
            host.completed(completion);
            done += 1;
        }
    }
    true
}

/// A host that completed so many requests allocates at most so often during 20,000 more.
fn check(name: &str, mut host: Host, warm: u64, most: u64) {
    let mut device = Server::new(Service::Constant(Duration::from_ms(5)));
    let mut now = Instant::ZERO;
    assert!(drive(&mut host, &mut device, &mut now, warm), "{name}");
    let before = ALLOCATIONS.with(Cell::get);
    assert!(drive(&mut host, &mut device, &mut now, 20_000), "{name}");
    // One is the list of completions of this test.
    let allocations = ALLOCATIONS.with(Cell::get) - before - 1;
    assert!(allocations <= most, "{name} allocates {allocations} times while it runs");
}

#[test]
fn warm_host_does_not_allocate() {
    for profile in ["svr4", "linux,host.dirty_background=10%"] {
        // Reads that miss and hit, writes that are throttled, synchronisations, children, and two CPUs.
        let line = format!(
            "host.profile={profile},host.cpus=2,host.memory=1MiB,host.dirty_limit=20%,\
             files.data.size=8MiB,files.data.extent=64KiB,files.data.distance=1MiB,files.log.size=1MiB,\
             files.log.at=4GiB,processes.child.program=compute 3ms; read data 8KiB random; write log 5KiB,\
             processes.p.program=repeat 1000000 {{ read data 10KiB; compute 4ms; write log 3KiB; fork child; wait; \
             read data 4KiB random direct; sync log }},\
             processes.q.program=repeat 1000000 {{ sleep 30ms; write data 20KiB random; read log 4KiB }}"
        );
        check(profile, host(&line), 40_000, 0);
    }
}

#[test]
fn warm_application_allocates_next_to_never() {
    // More deletions than creations: a file more than ever before takes memory. The list of free numbers doubles at times.
    for line in [
        "postmark,files=3000,transactions=1000000,create=48%,cache=4MiB",
        "postmark,files=3000,transactions=1000000,create=48%,cache=2MiB,mount=journal,discard=true",
        "database,clients=8,transactions=1000000,table=64MiB,pool=1MiB,checkpoint=256KiB",
    ] {
        let host = Builtin::parse(line).expect(line).host(TARGET, Seed(1)).expect(line);
        check(line, host, 100_000, 1);
    }
}

#[test]
fn warm_host_of_a_recording_does_not_allocate() {
    let steps = |thread: u32| -> RecordedSteps {
        let cycle = (0..60_000_u32).flat_map(|number| {
            let page = number * 37 % 2000;
            let actions = [
                RecordedAction::Metadata { address: u64::from(page), dirties: true, is_present: false },
                RecordedAction::Read { file: thread, first: page, pages: 3, requested: 3 },
                RecordedAction::Write {
                    file: thread,
                    first: page,
                    pages: 2,
                    keeps_first: true,
                    keeps_last: false,
                },
                RecordedAction::SyncFile { file: thread, end: SyncEnd::Flush },
            ];
            // The second thread waits for the first.
            let await_other = RecordedAction::Await { thread: 0, steps: number * 4 };
            actions.into_iter().chain((thread == 1).then_some(await_other))
        });
        let computing = Duration::from_us(30);
        cycle.map(|action| RecordedStep { computing, action }).collect()
    };
    let file = |address| {
        let extents = vec![RecordedExtent { first: 0, address, pages: 2002 }];
        RecordedFile { pages: 2002, extents, ..RecordedFile::default() }
    };
    let threads = (0..2).map(|number| RecordedThread { start: Duration::ZERO, steps: steps(number) });
    let recording = Recording {
        files: vec![file(10_000), file(20_000)],
        threads: threads.collect(),
        ..Recording::default()
    };
    let settings = HostSettings { memory: Some("2MiB".parse().expect("a size")), ..HostSettings::default() };
    check(
        "recording",
        Host::of_recording(recording, &settings, TARGET, Seed(1)).expect("it fits"),
        20_000,
        0,
    );
}
