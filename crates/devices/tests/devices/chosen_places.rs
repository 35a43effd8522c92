//! Choices by position behind a write buffer: the place of the heads is that after the destage that has begun.

use seeklab_core::{BufferOutcome, Completion, Device, Instant, Operation, Positioning, Request, Seed};
use seeklab_devices::layer::queue_before;

use crate::drives::{closed, device, disks};

/// Half reads, half writes of 8 KiB at random places.
fn mixed(device: &dyn Device, requests: u64) -> Vec<Request> {
    let places = device.capabilities().capacity_blocks / 16;
    let mut stream = Seed(1).stream("mixed");
    let mut request = |id| {
        let op = if stream.below(2) == 0 { Operation::Read } else { Operation::Write };
        Request::new(id, op, stream.below(places) * 16, 16)
    };
    (0..requests).map(&mut request).collect()
}

/// Mean rotation in turns of the reads from the media that were served behind a request of that operation.
fn rotation_behind(op: Operation, completions: &[Completion], turn_ms: f64) -> f64 {
    let pairs = completions.iter().zip(&completions[1..]);
    let of_media =
        |read: &Completion| read.request.op == Operation::Read && read.buffer == BufferOutcome::Miss;
    let turns: Vec<f64> = pairs
        .filter(|(before, read)| before.request.op == op && of_media(read))
        .map(|(_, read)| read.breakdown.rotation.as_ms() / turn_ms)
        .collect();
    assert!(turns.len() > 1_000, "{} reads behind a {op:?}", turns.len());
    turns.iter().sum::<f64>() / turns.len() as f64
}

#[test]
fn sptf_chooses_by_the_place_of_the_arm_behind_the_destage_that_has_begun() {
    // Drives whose reads go before the destages that have not begun.
    for name in ["nearline-7200", "cheetah-36es", "barracuda"] {
        for inside in [true, false] {
            let (depth, scheduler) = if inside { ("32", "sptf") } else { ("1", "fcfs") };
            let overrides = [("queue.depth", depth), ("queue.scheduler", scheduler)];
            let mut disk = device(name, &overrides).build(Seed(1), "disk0").unwrap();
            if !inside {
                disk = Box::new(queue_before(disk, &"sptf".parse().unwrap(), 1).unwrap());
            }
            let turn_ms = disk.positioning().and_then(Positioning::turn).unwrap().as_ms();
            let requests = mixed(&*disk, 8_000);
            let mut completions = closed(&mut *disk, 16, requests);
            completions.sort_by_key(|completion| completion.started);
            for op in [Operation::Read, Operation::Write] {
                let turns = rotation_behind(op, &completions, turn_ms);
                println!("{name}, inside: {inside}: {turns:.3} turns behind a {op:?}");
                // A blind choice waits half a turn.
                assert!(turns < 0.35, "{name}, inside: {inside}: {turns:.3} turns behind a {op:?}");
            }
        }
    }
}

#[test]
fn advancing_the_heads_before_a_submission_changes_no_completion() {
    for name in disks() {
        for (scheduler, watched) in [("sptf", false), ("sptf", true), ("sstf-cylinder", false)] {
            let overrides = [("queue.depth", "8"), ("queue.scheduler", scheduler)];
            let disk = device(name, &overrides).build(Seed(1), "disk0").unwrap();
            let run = |advances: bool| {
                let mut disk = disk.fork();
                if watched {
                    disk.watch();
                }
                let (mut completions, mut events) = (Vec::new(), Vec::new());
                for (number, mut request) in mixed(&*disk, 1_000).into_iter().enumerate() {
                    // The place of a flush is that of the heads.
                    if number % 20 == 10 {
                        request.op = Operation::Flush;
                    }
                    // Some requests find the disk idle.
                    let outstanding = if number % 50 == 0 { 0 } else { 7 };
                    while number - completions.len() > outstanding {
                        let event = disk.next_event().unwrap();
                        disk.poll(event, &mut completions);
                    }
                    let now = completions.last().map_or(Instant::ZERO, |last| last.completed);
                    if advances {
                        disk.advance_heads(now);
                    }
                    disk.submit(now, request).unwrap();
                }
                disk.events(completions.last().unwrap().completed, &mut events);
                (completions, events)
            };
            assert!(run(true) == run(false), "{name}, {scheduler}, watched: {watched}");
        }
    }
}
