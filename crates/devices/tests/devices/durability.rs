//! Events of a watched device, checked against its completions.
//!
//! The checker knows no device: it keeps, for each block, the writes that a drive may have on its media at a time.

use std::collections::BTreeMap;

use crate::drives::{device, disks};
use seeklab_core::{
    ByteSize, Capabilities, Completion, Device, Duration, Effect, Event, EventKind, FaultSet, Instant,
    Operation, Request, Seed, Status,
};
use seeklab_devices::description::Description;
use seeklab_devices::power_loss::TornSector;

/// Checks the events of a run, taken at a time long after its end.
///
/// # Errors
/// The first promise that is broken.
pub(crate) fn check(
    capabilities: &Capabilities,
    completions: &[Completion],
    events: &[Event],
) -> Result<(), String> {
    check_but(capabilities, completions, events, FaultSet::NONE)
}

/// As [`check`], of a device in which requests struck by one of `lies` promise nothing.
///
/// # Errors
/// The first promise that is broken.
pub(crate) fn check_but(
    capabilities: &Capabilities,
    completions: &[Completion],
    events: &[Event],
    lies: FaultSet,
) -> Result<(), String> {
    let promises = |completion: &Completion| {
        completion.outcome.status.is_success() && completion.faults.bits() & lies.bits() == 0
    };
    let losses_of_power: Vec<Instant> =
        events.iter().filter(|event| event.kind == EventKind::PowerLoss).map(|event| event.time).collect();
    if !events.is_sorted_by_key(|event| event.time) {
        return Err("the events are not in order of time".into());
    }
    let writes: BTreeMap<u64, &Completion> = completions
        .iter()
        .filter(|completion| changes_blocks(&completion.request))
        .map(|completion| (completion.request.id.0, completion))
        .collect();
    // Of each block of each device, the writes on its media one after the other.
    let mut media: BTreeMap<(u16, u64), Vec<(Instant, &Completion)>> = BTreeMap::new();
    for event in events {
        let EventKind::Durable { begun } = event.kind else { continue };
        let Some(write) = event.request.and_then(|request| writes.get(&request.0)) else {
            return Err(format!("{event:?} belongs to no write"));
        };
        let request = &write.request;
        // A write that failed may have changed more blocks than its outcome says.
        let (start, blocks) = if write.outcome.status.is_success() {
            write.written_blocks()
        } else {
            (request.lbn, request.blocks)
        };
        let within = event.lbn >= start && event.lbn + u64::from(event.blocks) <= start + u64::from(blocks);
        if event.blocks == 0 || !within || event.device != request.device {
            return Err(format!("{event:?} is no part of {request:?}"));
        }
        // The clock of a slow device rounds to whole nanoseconds.
        let rounding = Duration::from_ns(10);
        if begun > event.time || begun + rounding < write.submitted {
            return Err(format!("{event:?} lies before its write, submitted at {}", write.submitted));
        }
        for block in event.lbn..event.lbn + u64::from(event.blocks) {
            let versions = media.entry((event.device, block)).or_default();
            // A device that was gone carries out later what it had.
            let went = write.outcome.status == Status::Gone;
            let is_newer = |(_, other): &&(Instant, &Completion)| write.completed < other.submitted && !went;
            if let Some((_, newer)) = versions.iter().find(is_newer) {
                return Err(format!("{event:?}: block {block} goes back from {newer:?}"));
            }
            if versions.iter().any(|(_, other)| other.request.id == request.id) {
                return Err(format!("{event:?}: block {block} twice"));
            }
            versions.push((event.time, write));
        }
    }
    // A write is kept if each of its blocks has it, or one that is not older, on the media.
    let kept = |write: &Completion, by: Instant, why: &str| {
        // The wrong place keeps nothing of a write that another one replaced in the buffer.
        if matches!(write.outcome.effect.effect(), Effect::Misdirected(_)) {
            return Ok(());
        }
        let (start, blocks) = write.written_blocks();
        for block in start..start + u64::from(blocks) {
            let versions = media.get(&(write.request.device, block)).map_or(&[][..], Vec::as_slice);
            let is_kept = |(at, other): &(Instant, &Completion)| {
                *at <= by && (other.request.id == write.request.id || other.completed > write.submitted)
            };
            if !versions.iter().any(is_kept) {
                return Err(format!("block {block} of {write:?} is not durable at {by}: {why}"));
            }
        }
        Ok(())
    };
    for write in writes.values() {
        if write.request.fua && promises(write) {
            kept(write, write.completed, "it completed with force unit access")?;
        }
        if !capabilities.volatile_write_cache {
            kept(write, write.completed, "there is no volatile cache")?;
        }
    }
    let flushes = completions.iter().filter(|completion| completion.request.op == Operation::Flush);
    for flush in flushes.filter(|flush| promises(flush)) {
        let of_device = |write: &&&Completion| write.request.device == flush.request.device;
        // What was in the buffer when the power went is lost, and no later flush brings it back.
        let is_lost = |write: &Completion| {
            losses_of_power.iter().any(|loss| (write.completed..=flush.completed).contains(loss))
        };
        let covered = |write: &&&Completion| write.completed <= flush.submitted && !is_lost(write);
        for write in writes.values().filter(of_device).filter(covered) {
            kept(write, flush.completed, "a flush completed")?;
        }
    }
    Ok(())
}

fn changes_blocks(request: &Request) -> bool {
    matches!(request.op, Operation::Write | Operation::WriteZeroes | Operation::Discard)
}

/// Random writes, a quarter of them followed by a flush, on a drive; completions and events.
fn written(name: &str, seed: Seed) -> (Capabilities, Vec<Completion>, Vec<Event>) {
    written_on(&device(name, &[]), seed)
}

fn written_on(description: &Description, seed: Seed) -> (Capabilities, Vec<Completion>, Vec<Event>) {
    let mut device = description.build(seed, "disk0").unwrap();
    device.watch();
    let mut draws = seed.stream("durability.writes");
    let (mut completions, mut events, mut now) = (Vec::new(), Vec::new(), Instant::ZERO);
    let capacity = device.capabilities().capacity_blocks;
    for id in 0..400 {
        let op = if draws.chance(0.2) { Operation::Flush } else { Operation::Write };
        let blocks = 1 + draws.below(64) as u32;
        let request = Request::new(id, op, draws.below(capacity / 1000), blocks);
        device.submit(now, request).unwrap();
        while let Some(event) = device.next_event() {
            now = event;
            device.poll(now, &mut completions);
        }
        now += Duration::from_us(draws.below(3_000));
        device.poll(now, &mut completions);
    }
    device.events(Instant::from_ns(u64::MAX / 2), &mut events);
    (device.capabilities().clone(), completions, events)
}

#[test]
fn device_that_forgets_one_destaged_write_is_found() {
    let (capabilities, completions, events) = written("cheetah-36es", Seed(1));
    assert!(capabilities.volatile_write_cache);
    check(&capabilities, &completions, &events).unwrap();
    let last_flush = completions.iter().rfind(|completion| completion.request.op == Operation::Flush);
    let covered = last_flush.expect("one in five is a flush").submitted;
    let mut found = 0;
    for forgotten in (0..events.len()).step_by(7) {
        let is_covered = |completion: &&Completion| completion.completed <= covered;
        let write = events[forgotten].request.expect("it is durable");
        if !completions.iter().filter(is_covered).any(|completion| completion.request.id == write) {
            continue;
        }
        let mut events = events.clone();
        events.remove(forgotten);
        let error = check(&capabilities, &completions, &events).expect_err("a flush covers it");
        assert!(error.contains("a flush completed"), "{error}");
        found += 1;
    }
    assert!(found > 20, "{found}");
}

#[test]
fn buffered_write_is_on_the_media_after_its_completion_and_without_a_flush() {
    let (_, completions, events) = written("cheetah-36es", Seed(2));
    let late = |event: &&Event| {
        let write = completions.iter().find(|completion| Some(completion.request.id) == event.request);
        write.is_some_and(|write| event.time > write.completed)
    };
    let count = events.iter().filter(late).count();
    assert!(count > events.len() / 2, "{count} of {}", events.len());
}

#[test]
fn device_is_idle_when_its_last_write_is_on_the_media() {
    let faults = "[[fault]]\nkind = \"delay\"\nadd = \"3ms\"\nholds = \"device\"\n";
    let layered = format!("kind = \"fault\"\n{faults}[device]\nbase = \"cheetah-36es\"\n");
    let layered = Description::parse("busy", "busy", &layered).unwrap();
    let mut late = 0;
    for description in disks().map(|name| device(name, &[])).chain([layered]) {
        let mut device = description.build(Seed(4), "disk0").unwrap();
        device.watch();
        let (mut completions, mut events) = (Vec::new(), Vec::new());
        for id in 0..20 {
            device.submit(Instant::ZERO, Request::new(id, Operation::Write, id * 10_000, 8)).ok();
            device.poll(Instant::ZERO, &mut completions);
        }
        while let Some(event) = device.next_event() {
            device.poll(event, &mut completions);
        }
        let end = completions.last().unwrap().completed;
        device.events(end, &mut events);
        if let Some(idle) = device.work_ends() {
            let before = events.len();
            device.events(idle, &mut events);
            assert!(idle > end && events.len() > before, "{}", description.name);
            assert_eq!(events.last().unwrap().time, idle, "{}", description.name);
            late += 1;
        }
        assert_eq!(device.work_ends(), None, "{}", description.name);
        let before = events.len();
        device.events(Instant::from_ns(u64::MAX / 4), &mut events);
        assert_eq!(events.len(), before, "{}: nothing is left to do", description.name);
    }
    assert!(late > 4, "{late} devices go on behind the last completion");
}

#[test]
fn protected_cache_loses_no_completed_write() {
    for name in disks() {
        let description = device(name, &[("power_loss.cache", "protected")]);
        let (capabilities, completions, events) = written_on(&description, Seed(3));
        assert!(!capabilities.volatile_write_cache, "{name}");
        check(&capabilities, &completions, &events).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (volatile, completions, events) = written(name, Seed(3));
        let kept = check(&capabilities, &completions, &events);
        assert_eq!(
            kept.is_ok(),
            !volatile.volatile_write_cache,
            "{name}: a volatile cache loses some: {kept:?}"
        );
    }
}

#[test]
fn disk_that_lies_answers_flushes_at_once_and_loses_what_they_promised() {
    // Twelve writes, the first with force unit access, and a flush.
    let run = |name: &str, flush: &str| {
        let mut disk = device(name, &[("power_loss.flush", flush)]).build(Seed(1), "disk0").unwrap();
        disk.watch();
        let (mut completions, mut events, mut now) = (Vec::new(), Vec::new(), Instant::ZERO);
        for id in 0..13 {
            let op = if id == 12 { Operation::Flush } else { Operation::Write };
            let request = Request { fua: id == 0, ..Request::new(id, op, id * 10_000, 8) };
            let request = if id == 12 { Request::new(id, op, 0, 0) } else { request };
            disk.submit(now, request).unwrap();
            while let Some(event) = disk.next_event() {
                now = event;
                disk.poll(now, &mut completions);
            }
        }
        disk.events(now + Duration::from_s(10), &mut events);
        let kept = check(disk.capabilities(), &completions, &events);
        (kept, completions[12].response_time(), completions[0].response_time())
    };
    let mut buffered = 0;
    for name in disks() {
        let is_volatile = device(name, &[]).capabilities().unwrap().volatile_write_cache;
        let (honest, flush, forced) = run(name, "honest");
        assert_eq!(honest, Ok(()), "{name}");
        let (lies, lying_flush, lying_forced) = run(name, "lies");
        // Without a volatile cache there is nothing to lie about.
        assert_eq!(lies.is_err(), is_volatile, "{name}: {lies:?}");
        if is_volatile {
            assert!(lying_flush < flush && lying_forced < forced, "{name}: {lying_flush} {flush}");
            assert!(lying_flush < Duration::from_ms(2), "{name}: the overhead of a command, {lying_flush}");
            buffered += 1;
        }
    }
    assert!(buffered > 4, "{buffered} disks have a write buffer");
}

#[test]
fn effects_of_a_power_loss_are_those_of_the_disk_beneath_its_layers() {
    let text = "kind = \"fault\"\n[[fault]]\nkind = \"lost_flush\"\n[device]\nbase = \"cheetah-36es\"\n";
    let mut layered = Description::parse("layered", "layered", text).unwrap();
    for (key, value) in [("torn_sector", "unreadable"), ("atomic_unit", "4KiB")] {
        layered.set(&format!("power_loss.{key}"), value).unwrap();
    }
    let effects = layered.power_loss().unwrap();
    assert_eq!(effects.torn_sector, TornSector::Unreadable);
    assert_eq!(effects.unit_blocks(ByteSize::from_bytes(512)), 8);
    assert_eq!(effects.unit_blocks(ByteSize::from_bytes(8192)), 1);
    assert_eq!(device("immediate", &[]).power_loss(), None);
    let mut wrong = device("cheetah-36es", &[]);
    let error = wrong.set("power_loss.atomic_unit", "3KiB").unwrap_err().to_string();
    assert!(error.contains("power_loss.atomic_unit"), "{error}");
}

#[test]
fn blocks_become_durable_one_after_the_other() {
    let mut disk = device("cheetah-36es", &[]).bare().unwrap().build(Seed(1), "disk0").unwrap();
    disk.watch();
    let track = 300;
    disk.submit(Instant::ZERO, Request::new(0, Operation::Write, 1_000, track)).unwrap();
    let (mut completions, mut events) = (Vec::new(), Vec::new());
    disk.poll(Instant::from_ns(u64::MAX / 2), &mut completions);
    let write = completions[0];
    disk.events(write.completed, &mut events);
    let blocks: u32 = events.iter().map(|event| event.blocks).sum();
    assert_eq!((blocks, events.last().unwrap().time), (track, write.completed));
    let transfer = write.breakdown.transfer;
    let written: Duration = events
        .iter()
        .map(|event| match event.kind {
            EventKind::Durable { begun } => event.time - begun,
            _ => unreachable!("nothing else happens"),
        })
        .sum();
    assert_eq!(written, transfer, "the sectors pass for as long as the breakdown says");
}

#[test]
fn lost_flushes_and_ignored_force_unit_access_break_the_promise() {
    for (fault, promise) in [("lost_flush", "a flush completed"), ("ignored_fua", "force unit access")] {
        let text =
            format!("kind = \"fault\"\n[[fault]]\nkind = \"{fault}\"\n[device]\nbase = \"cheetah-36es\"\n");
        let description = Description::parse(fault, fault, &text).unwrap();
        let mut device = description.build(Seed(1), "disk0").unwrap();
        device.watch();
        let (mut completions, mut events, mut now) = (Vec::new(), Vec::new(), Instant::ZERO);
        for id in 0..40 {
            let op = if id % 2 == 0 || fault == "ignored_fua" { Operation::Write } else { Operation::Flush };
            let request = Request { fua: fault == "ignored_fua", ..Request::new(id, op, id * 100_000, 8) };
            device.submit(now, request).unwrap();
            while let Some(event) = device.next_event() {
                now = event;
                device.poll(now, &mut completions);
            }
        }
        device.events(now + Duration::from_s(10), &mut events);
        assert!(completions.iter().all(|completion| completion.outcome.status.is_success()), "{fault}");
        let struck = events.iter().filter(|event| matches!(event.kind, EventKind::Fault(_))).count();
        assert_eq!(struck, if fault == "lost_flush" { 20 } else { 40 }, "{fault}");
        let error = check(device.capabilities(), &completions, &events).unwrap_err();
        assert!(error.contains(promise), "{fault}: {error}");
    }
}

#[test]
fn write_that_fails_at_a_block_leaves_the_blocks_before_it() {
    let text = "kind = \"fault\"\n[[fault]]\nkind = \"medium_error\"\nop = \"write\"\nblocks = \"2KiB..3KiB\"\n\
                [device]\nbase = \"cheetah-36es\"\n";
    let description = Description::parse("faulty", "faulty", text).unwrap();
    let mut device = description.build(Seed(1), "disk0").unwrap();
    device.watch();
    let (mut completions, mut events) = (Vec::new(), Vec::new());
    device.submit(Instant::ZERO, Request::new(0, Operation::Write, 0, 16)).unwrap();
    device.poll(Instant::ZERO + Duration::from_s(1), &mut completions);
    device.events(Instant::ZERO + Duration::from_s(10), &mut events);
    assert_eq!(completions[0].outcome.good_blocks, 4);
    let durable = |event: &&Event| matches!(event.kind, EventKind::Durable { .. });
    let blocks: Vec<(u64, u32)> =
        events.iter().filter(durable).map(|event| (event.lbn, event.blocks)).collect();
    assert_eq!(blocks, [(0, 4)]);
}

#[test]
fn flush_covers_what_a_failing_write_replaced_in_the_buffer() {
    // The second write fails at block 1004, while the first waits in the buffer.
    let text = "kind = \"fault\"\n[[fault]]\nkind = \"medium_error\"\nop = \"write\"\nblocks = \"502KiB..503KiB\"\n\
                after = 1\n[device]\nbase = \"cheetah-36es\"\n";
    let description = Description::parse("faulty", "faulty", text).unwrap();
    let mut device = description.build(Seed(1), "disk0").unwrap();
    device.watch();
    let (mut completions, mut events, mut now) = (Vec::new(), Vec::new(), Instant::ZERO);
    for (id, op) in [(0, Operation::Write), (1, Operation::Write), (2, Operation::Flush)] {
        device.submit(now, Request::new(id, op, 1000, 16)).unwrap();
        while let Some(event) = device.next_event() {
            now = event;
            device.poll(now, &mut completions);
        }
    }
    device.events(now + Duration::from_s(10), &mut events);
    assert_eq!(completions[1].outcome.good_blocks, 4);
    check(device.capabilities(), &completions, &events).unwrap();
    let durable = events.iter().filter(|event| matches!(event.kind, EventKind::Durable { .. }));
    let mut writes = [0; 16];
    for event in durable {
        writes[(event.lbn - 1000) as usize..][..event.blocks as usize].fill(1 + event.request.unwrap().0);
        assert!(event.time <= completions[2].completed, "{event:?} lies behind the flush");
    }
    assert_eq!(writes, [2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], "by number, from one");
}
