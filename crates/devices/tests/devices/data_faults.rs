//! Tests of faults of data and of lost power: what the answers say, and what is on the media.

use std::collections::BTreeMap;

use seeklab_core::{
    BufferOutcome, Completion, Device, Duration, Effect, Event, EventKind, Hazards, Instant, Operation,
    Request, Seed, Status,
};
use seeklab_devices::Description;
use seeklab_devices::fault::{FaultParameters, FaultTable};

use crate::drives;

const CONSTANT: &str =
    "kind = \"constant\"\ncapacity_blocks = 1000\nblock_size = \"512B\"\nservice_time = \"1ms\"\n";

/// Faults on the lines before `device`.
fn faulty(device: Description, lines: &[&str]) -> Box<dyn Device> {
    let fault = lines.iter().map(|line| FaultTable::from_line(line).unwrap()).collect();
    device.beneath("fault", &FaultParameters { fault }).unwrap().build(Seed(1), "disk0").unwrap()
}

/// Requests one after the other, each when the one before has completed.
fn one_by_one(device: &mut dyn Device, requests: &[(Operation, u64, u32)]) -> Vec<Completion> {
    let (mut now, mut completions) = (Instant::ZERO, Vec::new());
    for (id, (op, lbn, blocks)) in requests.iter().enumerate() {
        device.submit(now, Request::new(id as u64, *op, *lbn, *blocks)).unwrap();
        while let Some(event) = device.next_event() {
            now = event;
            device.poll(now, &mut completions);
        }
    }
    completions
}

fn effects(lines: &[&str], requests: &[(Operation, u64, u32)]) -> Vec<Effect> {
    let device = Description::parse("server", "server", CONSTANT).unwrap();
    let completions = one_by_one(&mut *faulty(device, lines), requests);
    for (index, completion) in completions.iter().enumerate() {
        assert_eq!(completion.completed, Instant::ZERO + Duration::from_ms(1) * (index as u64 + 1));
        assert_eq!(
            (completion.outcome.status, completion.outcome.good_blocks),
            (Status::Ok, requests[index].2)
        );
    }
    completions.iter().map(|completion| completion.outcome.effect.effect()).collect()
}

use Operation::{Read, Write};

#[test]
fn faults_of_data_change_neither_time_nor_status() {
    let both = [(Write, 8, 8), (Read, 8, 8)];
    assert_eq!(effects(&["lost_write"], &both), [Effect::Torn(0), Effect::None]);
    assert_eq!(effects(&["stale_read"], &both), [Effect::None, Effect::Stale]);
    assert_eq!(effects(&["misdirected_write,by=8KiB"], &both), [Effect::Misdirected(16), Effect::None]);
    assert_eq!(effects(&["misdirected_read,by=8KiB"], &[(Read, 990, 8)]), [Effect::Misdirected(-16)]);
    let torn = effects(&["torn_write,unit=2KiB"], &[(Write, 0, 12), (Write, 0, 4), (Read, 0, 12)]);
    assert!(matches!(torn[..], [Effect::Torn(4 | 8), Effect::None, Effect::None]), "{torn:?}");
    let first = effects(&["lost_write,probability=100%", "torn_write"], &[(Write, 0, 8)]);
    assert_eq!(first, [Effect::Torn(0)], "of several, the first applies");
}

#[test]
fn rotten_block_stays_so_until_it_is_written() {
    let rot = ["bit_rot,blocks=2560B..+512B,for=1500us"];
    let requests = [(Read, 0, 8), (Read, 0, 8), (Read, 0, 5), (Read, 5, 1), (Write, 5, 1), (Read, 0, 8)];
    let expected =
        [Effect::Rotten(5), Effect::Rotten(5), Effect::None, Effect::Rotten(0), Effect::None, Effect::None];
    assert_eq!(effects(&rot, &requests), expected);
}

#[test]
fn counts_of_faults_of_data_follow_their_probability_and_their_blocks() {
    let requests: Vec<_> = (0..4_000).map(|index| (Write, index % 100 * 8, 8)).collect();
    let lost = effects(&["lost_write,probability=10%,blocks=0B..204800B"], &requests);
    let is_lost = |effect: &&Effect| **effect == Effect::Torn(0);
    // Half of the requests, with 10 %: 200, and a standard deviation of 13.4.
    let count = lost.iter().filter(is_lost).count();
    assert!((200 - 54..=200 + 54).contains(&count), "{count}");
    let outside = lost.iter().zip(&requests).filter(|(effect, (_, lbn, _))| is_lost(effect) && *lbn >= 400);
    assert_eq!(outside.count(), 0);
    let another = effects(
        &["misdirected_write,probability=10%,at=1h", "lost_write,probability=10%,blocks=0B..204800B"],
        &requests,
    );
    assert_eq!(lost, another, "another fault moves no draw");
}

/// Random writes, with and without a cut of the power at a time; completions and events.
fn written(lines: &[&str]) -> (Vec<Completion>, Vec<Event>) {
    let mut device = faulty(drives::device("cheetah-36es", &[]), lines);
    device.watch();
    let mut draws = Seed(5).stream("data_faults.writes");
    let (mut completions, mut events, mut now) = (Vec::new(), Vec::new(), Instant::ZERO);
    for id in 0..120 {
        let request = Request::new(id, Write, (1 + id * 37 % 120) * 8_000, 1 + draws.below(400) as u32);
        device.submit(now, request).unwrap();
        while let Some(event) = device.next_event() {
            now = event;
            device.poll(now, &mut completions);
        }
        now += Duration::from_us(draws.below(4_000));
        device.poll(now, &mut completions);
    }
    device.events(Instant::from_ns(u64::MAX / 2), &mut events);
    (completions, events)
}

/// Blocks on the media at `cut`, with the write that they are of.
fn media(events: &[Event], cut: Instant) -> BTreeMap<u64, u64> {
    let mut media = BTreeMap::new();
    for event in events {
        let written = event.on_media(cut).blocks;
        for block in event.lbn..event.lbn + u64::from(written) {
            media.insert(block, event.request.unwrap().0);
        }
    }
    media
}

#[test]
fn loss_of_power_leaves_what_was_on_the_media_to_the_sector() {
    let (completions, whole) = written(&["delay,add=1ms,at=8000h"]);
    let end = completions.last().unwrap().completed;
    let mut torn_events = 0;
    for cut_ns in (1..80).map(|index| end.as_ns() / 80 * index + 77_777) {
        let cut = Instant::from_ns(cut_ns);
        let (_, events) = written(&[&format!("power_loss,at={cut_ns}ns")]);
        let power = events.iter().position(|event| event.kind == EventKind::PowerLoss).unwrap();
        assert_eq!(events[power].time, cut);
        let durable = |event: &&Event| matches!(event.kind, EventKind::Durable { .. });
        assert!(events.iter().filter(durable).all(|event| event.time <= cut), "nothing behind the cut");
        assert_eq!(media(&events, Instant::MAX), media(&whole, cut), "cut at {cut}");
        torn_events += usize::from(
            whole.iter().any(|event| !matches!(event.on_media(cut).blocks, 0) && event.time > cut),
        );
    }
    assert!(torn_events > 3, "cuts within media writes: {torn_events}");
}

#[test]
fn device_says_which_faults_it_can_have() {
    let hazards = |lines: &[&str]| {
        let hazards = faulty(drives::device("cheetah-36es", &[]), lines).hazards();
        assert!(hazards.tearing.is_some(), "the disk has media");
        Hazards { tearing: None, ..hazards }
    };
    let (none, fails) = (Hazards::default(), Hazards { fails: true, ..Hazards::default() });
    assert_eq!(
        hazards(&["delay,add=1ms", "stall,at=1s,for=1s", "throttle,load=1GiB,factor=2,idle=1s"]),
        none
    );
    for line in ["aborted", "medium_error", "lost_write", "lost_flush", "ignored_fua", "gone,at=1s,for=1s"] {
        assert_eq!(hazards(&["delay,add=1ms", line]), fails, "{line}");
    }
    assert_eq!(hazards(&["stale_read"]), Hazards { reads_stale: true, ..fails });
    assert_eq!(
        hazards(&["power_loss,at=1s,back_after=1s", "delay,add=1ms"]),
        Hazards { loses_power: true, ..fails }
    );
    // A layer has those of its device, too.
    let beneath = faulty(drives::device("cheetah-36es", &[]), &["power_loss,at=1s,back_after=1s"]);
    assert!(crate::contract::queue(beneath, "fcfs", 1).hazards().loses_power);
}

#[test]
fn device_comes_back_with_an_empty_buffer() {
    let mut device = faulty(drives::device("cheetah-36es", &[]), &["power_loss,at=20ms,back_after=100ms"]);
    let ms = |ms: u64| Instant::ZERO + Duration::from_ms(ms);
    let mut completions = Vec::new();
    let mut run = |at: Instant, requests: &[Request]| {
        completions.clear();
        device.poll(at, &mut completions);
        requests.iter().for_each(|request| device.submit(at, *request).unwrap());
        while let Some(event) = device.next_event() {
            device.poll(event, &mut completions);
        }
        completions.sort_by_key(|completion| completion.request.id);
        completions.clone()
    };
    let read = |id| Request::new(id, Read, 4_000, 8);
    assert_eq!(run(ms(0), &[read(1)])[0].buffer, BufferOutcome::Miss);
    assert_eq!(run(ms(15), &[read(2)])[0].buffer, BufferOutcome::Hit);
    let cut = run(ms(19), &[Request::new(3, Read, 30_000_000, 8)]);
    assert!(
        cut.iter().all(|done| done.outcome.status == Status::Gone && done.completed == ms(20)),
        "{cut:?}"
    );
    let away = run(ms(50), &[read(5)]);
    assert_eq!((away[0].outcome.status, away[0].completed), (Status::Gone, ms(50) + Duration::from_us(100)));
    let back = run(ms(120), &[read(6)]);
    assert_eq!((back[0].outcome.status, back[0].buffer), (Status::Ok, BufferOutcome::Miss));
}

#[test]
fn idle_device_is_not_held_up_by_losses_of_power_that_repeat() {
    let mut device =
        faulty(drives::device("cheetah-36es", &[]), &["power_loss,at=1ms,back_after=1ms,repeat=3ms"]);
    let mut completions = Vec::new();
    device.submit(Instant::ZERO, Request::new(0, Write, 0, 8)).unwrap();
    let late = Instant::ZERO + Duration::from_s(100 * 365 * 24 * 3600);
    device.poll(late, &mut completions);
    assert!(completions[0].completed < Instant::ZERO + Duration::from_ms(1), "it was buffered");
    let window = late + Duration::from_us(2_500);
    device.submit(window, Request::new(1, Read, 0, 8)).unwrap();
    device.poll(window + Duration::from_s(1), &mut completions);
    assert_eq!(completions.len(), 2);
}

#[test]
fn lost_torn_and_misdirected_writes_are_on_the_media_as_their_answers_say() {
    let (_, lost) = written(&["lost_write,name=fault"]);
    assert!(!lost.iter().any(|event| matches!(event.kind, EventKind::Durable { .. })));
    for line in ["torn_write,probability=50%", "misdirected_write,by=1MiB,every=3"] {
        let (completions, events) = written(&[line]);
        let mut expected = BTreeMap::new();
        for completion in &completions {
            let Request { id, lbn, blocks, .. } = completion.request;
            let (lbn, blocks) = match completion.outcome.effect.effect() {
                Effect::Torn(kept) => (lbn, kept),
                Effect::Misdirected(by) => (lbn.saturating_add_signed(i64::from(by)), blocks),
                _ => (lbn, blocks),
            };
            expected.extend((lbn..lbn + u64::from(blocks)).map(|block| (block, id.0)));
        }
        assert!(completions.iter().any(|completion| !completion.outcome.effect.is_none()));
        let media = media(&events, Instant::MAX);
        // A buffered write that a later one covers need not get to the media itself.
        assert_eq!(media.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{line}");
    }
}
