//! Tests of the unit under the heads when the power is lost: the device leaves it as a cut of a recorded run does.

use std::collections::BTreeMap;

use seeklab_core::{
    Completion, Device, Duration, Event, EventKind, Instant, Operation, Request, Seed, Status, Tearing,
    TornContents,
};
use seeklab_devices::Description;
use seeklab_devices::fault::{FaultParameters, FaultTable};
use seeklab_devices::torn::AtCut;

use crate::drives;

/// One drive of each controller with a write buffer, and one without.
const DRIVES: [&str; 4] = ["cheetah-36es", "cheetah9lp", "atlas10k", "hp-c2247a"];

fn faulty(device: &Description, lines: &[&str]) -> Box<dyn Device> {
    let fault = lines.iter().map(|line| FaultTable::from_line(line).unwrap()).collect();
    device.clone().beneath("fault", &FaultParameters { fault }).unwrap().build(Seed(1), "disk0").unwrap()
}

fn drive(name: &str, contents: &str, unit: &str) -> (Description, Tearing) {
    drive_with(name, contents, unit, &[])
}

fn drive_with(name: &str, contents: &str, unit: &str, overrides: &[(&str, &str)]) -> (Description, Tearing) {
    let power_loss = [("power_loss.torn_sector", contents), ("power_loss.atomic_unit", unit)];
    let drive = drives::device(name, &[&power_loss[..], overrides].concat());
    let tearing = drive.power_loss().unwrap().tearing("512B".parse().unwrap());
    (drive, tearing)
}

/// Short writes, most of them one behind the other, that arrive before `end`: completions and events.
fn written(
    drive: &Description,
    lines: &[&str],
    seed: Seed,
    end: Instant,
) -> (BTreeMap<u64, Completion>, Vec<Event>) {
    let mut device = faulty(drive, lines);
    device.watch();
    let mut draws = seed.stream("torn_units.writes");
    let (mut completions, mut events) = (Vec::new(), Vec::new());
    let (mut now, mut place) = (Instant::ZERO, 8_003);
    for id in 0..90 {
        place += if id % 15 == 14 { 1_000 } else { 0 };
        let blocks = 1 + draws.below(6) as u32;
        let pause = Duration::from_us(draws.below(if id % 9 == 8 { 9_000 } else { 300 }));
        // Some overwrite what was written last.
        let lbn = if draws.chance(0.1) { place - 3 } else { place };
        place = lbn + u64::from(blocks);
        device.poll(now, &mut completions);
        if now < end && device.submit(now, Request::new(id, Operation::Write, lbn, blocks)).is_ok() {
            while device.next_event().is_some_and(|event| event < now + pause) {
                device.poll(device.next_event().unwrap(), &mut completions);
            }
        }
        now += pause;
    }
    device.poll(Instant::from_ns(u64::MAX / 4), &mut completions);
    device.events(Instant::from_ns(u64::MAX / 2), &mut events);
    (completions.into_iter().map(|completion| (completion.request.id.0, completion)).collect(), events)
}

/// Contents of each block, the number of a write; `None` of a block that cannot be read.
type Contents = BTreeMap<u64, Option<u64>>;

/// Contents after the events of a device that lost its power.
fn left(events: &[Event]) -> Contents {
    let mut versions: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut unreadable = Vec::new();
    for event in events {
        let blocks = event.lbn..event.lbn + u64::from(event.blocks);
        match (&event.kind, event.request) {
            (EventKind::Durable { .. }, Some(request)) => {
                blocks.for_each(|block| versions.entry(block).or_default().push(request.0));
            }
            (EventKind::Torn, Some(request)) => blocks.for_each(|block| {
                let undone = versions.get_mut(&block).and_then(Vec::pop);
                assert_eq!(undone, Some(request.0), "the last version of block {block} is undone");
            }),
            (EventKind::Unreadable, None) => unreadable.extend(blocks),
            _ => {}
        }
    }
    let written = versions.into_iter().filter_map(|(block, versions)| Some((block, Some(*versions.last()?))));
    written.chain(unreadable.into_iter().map(|block| (block, None))).collect()
}

/// Contents that `seeklab crash` gives a device at a cut of a run in which the power stayed on.
fn cut_at(events: &[Event], cut: Instant, tearing: Tearing) -> Contents {
    let AtCut { settled, parts, torn } = AtCut::new(events, cut, tearing, |_| true);
    let whole = events[..settled].iter().map(|event| (event, event.lbn, event.blocks));
    let parts = parts.iter().map(|part| (&events[part.event], part.lbn, part.blocks));
    let mut contents = Contents::new();
    for (event, lbn, blocks) in whole.chain(parts) {
        contents.extend((lbn..lbn + u64::from(blocks)).map(|block| (block, Some(event.request.unwrap().0))));
    }
    if tearing.contents == TornContents::Unreadable {
        let blocks = torn.iter().flat_map(|unit| unit.lbn..unit.lbn + unit.blocks);
        contents.extend(blocks.map(|block| (block, None)));
    }
    contents
}

fn durable(events: Vec<Event>) -> Vec<Event> {
    events.into_iter().filter(|event| matches!(event.kind, EventKind::Durable { .. })).collect()
}

/// Cuts a device within its media writes, live and in the record of a run. Returns the torn units, and the events of blocks
/// that were undone.
fn compare_cuts(
    name: &str,
    (contents, unit): (&str, &str),
    seed: u64,
    more: &[&str],
    depth: &str,
) -> (usize, usize) {
    let (drive, tearing) = drive_with(name, contents, unit, &[("queue.depth", depth)]);
    let quiet = [more, &["delay,add=1ms,at=8000h"]].concat();
    let (_, events) = written(&drive, &quiet, Seed(seed), Instant::MAX);
    let (mut torn, mut undone) = (0, 0);
    for event in durable(events).iter().skip(seed as usize).step_by(5) {
        let EventKind::Durable { begun } = event.kind else { continue };
        let cut = begun + (event.time - begun) / 3 + Duration::from_ns(1);
        let (_, whole) = written(&drive, &quiet, Seed(seed), cut);
        let line = format!("power_loss,at={}ns", cut.as_ns());
        let (_, events) = written(&drive, &[more, &[line.as_str()]].concat(), Seed(seed), Instant::MAX);
        let context = format!("{name}, {contents}, {unit}, {more:?}, depth {depth}, cut at {cut}");
        let whole = durable(whole);
        assert_eq!(left(&events), cut_at(&whole, cut, tearing), "{context}");
        assert!(events.iter().is_sorted_by_key(|event| event.time), "{context}");
        let is_late = |event: &Event| event.time > cut && !matches!(event.kind, EventKind::Fault(_));
        assert!(!events.iter().any(is_late), "nothing of the media is behind the cut: {context}");
        torn += AtCut::new(&whole, cut, tearing, |_| true).torn.len();
        undone += events.iter().filter(|event| event.kind == EventKind::Torn).count();
    }
    (torn, undone)
}

#[test]
fn device_leaves_its_torn_unit_as_a_cut_does() {
    for name in DRIVES {
        for contents in ["old", "new", "unreadable"] {
            let mut torn = 0;
            for (unit, seed) in [("512B", 1), ("4KiB", 2), ("4KiB", 3), ("64KiB", 4)] {
                let (of_unit, undone) = compare_cuts(name, (contents, unit), seed, &[], "1");
                torn += of_unit;
                let undoes = contents != "new" && unit != "512B";
                assert!(undoes || undone == 0, "{name}, {contents}, {unit}: {undone}");
            }
            assert!(torn > 2, "{name}, {contents}: {torn}");
        }
    }
}

#[test]
fn device_with_a_queue_or_slower_clock_leaves_its_torn_unit_as_a_cut_does() {
    for name in DRIVES {
        for contents in ["old", "new", "unreadable"] {
            let queued = compare_cuts(name, (contents, "64KiB"), 4, &[], "8");
            let slow = compare_cuts(name, (contents, "64KiB"), 4, &["slow,factor=3"], "8");
            assert!(queued.0 > 0 && slow.0 > 0, "{name}, {contents}: {queued:?} {slow:?}");
        }
    }
}

#[test]
fn blocks_that_were_durable_are_undone_with_their_unit() {
    let (drive, _) = drive("cheetah-36es", "old", "64KiB");
    let (_, events) = written(&drive, &["delay,add=1ms,at=8000h"], Seed(4), Instant::MAX);
    let cuts = durable(events).into_iter().map(|event| Instant::from_ns(event.time.as_ns() - 1_000));
    let undone = cuts.step_by(3).map(|cut| {
        let line = format!("power_loss,at={}ns", cut.as_ns());
        let (_, events) = written(&drive, &[&line], Seed(4), Instant::MAX);
        let power = events.iter().position(|event| event.kind == EventKind::PowerLoss).unwrap();
        let torn = events.iter().enumerate().filter(|(_, event)| event.kind == EventKind::Torn);
        torn.inspect(|(place, event)| assert!(*place < power && event.time == cut, "{event:?}")).count()
    });
    assert!(undone.sum::<usize>() > 3);
}

/// Requests at their times, each with its outcome; also of a device that nobody watches.
fn outcomes(lines: &[&str], requests: &[(u64, Operation, u64, u32)]) -> Vec<(Status, u32)> {
    let (drive, _) = drive("cheetah-36es", "unreadable", "4KiB");
    let both = [false, true].map(|is_watched| {
        let mut device = faulty(&drive, &[lines, &["power_loss,at=21s,back_after=1s,name=second"]].concat());
        if is_watched {
            device.watch();
        }
        let mut completions = Vec::new();
        for (id, (at_ms, op, lbn, blocks)) in (0..).zip(requests) {
            let at = Instant::ZERO + Duration::from_ms(*at_ms);
            device.poll(at, &mut completions);
            device.submit(at, Request::new(id, *op, *lbn, *blocks)).unwrap();
        }
        device.poll(Instant::ZERO + Duration::from_s(100), &mut completions);
        completions.sort_by_key(|completion| completion.request.id);
        completions
    });
    assert_eq!(both[0], both[1], "watching changes nothing");
    let struck = |completion: &&Completion| completion.outcome.status == Status::MediumError;
    assert!(both[0].iter().filter(struck).all(|completion| completion.faults.bits() != 0));
    both[0].iter().map(|completion| (completion.outcome.status, completion.outcome.good_blocks)).collect()
}

/// The loss of power, and the first block of the unit that it leaves unreadable, of the drive of [`outcomes`] amid its media
/// write of 64 blocks from block 8000 on, a multiple of a unit.
fn loss_amid_a_media_write() -> (String, u64) {
    let (drive, tearing) = drive("cheetah-36es", "unreadable", "4KiB");
    let mut device = faulty(&drive, &["delay,add=1ms,at=8000h"]);
    device.watch();
    device.submit(Instant::ZERO, Request::new(0, Operation::Write, 8_000, 64)).unwrap();
    let mut events = Vec::new();
    device.poll(Instant::ZERO + Duration::from_s(1), &mut Vec::new());
    device.events(Instant::ZERO + Duration::from_s(1), &mut events);
    let event = &events[0];
    let EventKind::Durable { begun } = event.kind else { panic!("{event:?}") };
    let cut = begun + (event.time - begun) / 2 + Duration::from_us(7);
    let unit = AtCut::new(&events, cut, tearing, |_| true).torn[0].lbn;
    assert!((8_000..8_064).contains(&unit) && unit.is_multiple_of(8), "{unit}");
    (format!("power_loss,at={}ns,back_after=10s", cut.as_ns()), unit)
}

#[test]
fn unreadable_unit_fails_reads_until_the_media_have_it_again() {
    use Operation::{Flush, Read, Write};
    let (line, unit) = loss_amid_a_media_write();
    let requests = [
        (0, Write, 8_000, 64),
        (11_000, Read, unit - 4, 16),
        (12_000, Read, unit - 4, 4),
        (12_100, Read, unit + 8, 4),
        // A part of the unit is written, and read from the buffer.
        (20_000, Write, unit, 3),
        (20_100, Read, unit, 3),
        (20_200, Read, unit, 8),
        (20_999, Write, unit + 3, 2),
        // The power was lost again, before the last write was on the media.
        (23_000, Read, unit, 8),
        (24_000, Write, unit + 3, 5),
        (24_100, Flush, 0, 0),
        (25_000, Read, unit, 8),
    ];
    let expected = [
        (Status::Ok, 64),
        (Status::MediumError, 4),
        (Status::Ok, 4),
        (Status::Ok, 4),
        (Status::Ok, 3),
        (Status::Ok, 3),
        (Status::MediumError, 3),
        (Status::Ok, 2),
        (Status::MediumError, 3),
        (Status::Ok, 5),
        (Status::Ok, 0),
        (Status::Ok, 8),
    ];
    assert_eq!(outcomes(&[&line], &requests), expected);
}

#[test]
fn unreadable_unit_is_written_by_the_write_that_gets_there_whatever_its_address() {
    use Operation::{Flush, Read, Write};
    let (line, unit) = loss_amid_a_media_write();
    let displaced = "misdirected_write,at=12s,by=512KiB";
    let requests = [
        (0, Write, 8_000, 64),
        (11_000, Read, unit, 8),
        // Its data gets to another place.
        (12_000, Write, unit, 8),
        (12_100, Read, unit, 8),
        (12_200, Flush, 0, 0),
        (12_300, Read, unit, 8),
        // The data of another place gets there, all but the last blocks.
        (13_000, Write, unit - 1_024, 5),
        (13_100, Read, unit, 5),
        (13_200, Read, unit, 8),
        (13_300, Flush, 0, 0),
        (13_400, Read, unit, 8),
        (13_500, Write, unit - 1_024 + 5, 3),
        (13_600, Flush, 0, 0),
        (13_700, Read, unit, 8),
    ];
    let bad = |good_blocks| (Status::MediumError, good_blocks);
    let good = |blocks| (Status::Ok, blocks);
    let expected = [
        good(64),
        bad(0),
        good(8),
        bad(0),
        good(0),
        bad(0),
        good(5),
        good(5),
        bad(5),
        good(0),
        bad(5),
        good(3),
        good(0),
        good(8),
    ];
    assert_eq!(outcomes(&[&line, displaced], &requests), expected);
}
