//! A device that lost its power answers as one that received nothing before, whatever it was doing when the power went.

use proptest::collection::vec;
use proptest::prelude::*;
use seeklab_core::{Completion, Device, Duration, Event, EventKind, Instant, Operation, Request, Seed};
use seeklab_devices::Description;
use seeklab_devices::fault::{FaultParameters, FaultTable};

use crate::drives;

/// One drive of each controller with a write buffer, and one without.
const DRIVES: [&str; 4] = ["cheetah-36es", "cheetah9lp", "atlas10k", "hp-c2247a"];

/// Time of the answer to a request that is refused.
const REFUSAL: Duration = Duration::from_us(100);

/// A request, and the time to it from the one before.
type Draft = (u64, Operation, u64, u32, bool);

fn draft() -> impl Strategy<Value = Draft> {
    use Operation::{Discard, Flush, Read, Write};
    let op = prop::sample::select(vec![Read, Read, Write, Write, Write, Flush, Discard]);
    // Together, in a busy drive, and with pauses in which read-ahead and destaging end.
    let gap = prop_oneof![Just(0), 0..3_000_u64, 0..30_000_u64];
    (gap, op, 0_u64..60, 1_u32..40, prop::bool::weighted(0.1))
}

/// The requests behind `start`, numbered from `first` on.
fn requests(drafts: &[Draft], start: Instant, first: u64) -> Vec<(Instant, Request)> {
    let mut now = start;
    let numbered = drafts.iter().zip(first..);
    let request = |((gap, op, place, blocks, fua), id): (&Draft, u64)| {
        now += Duration::from_us(*gap);
        let request = match op {
            Operation::Flush => Request::new(id, *op, 0, 0),
            _ => {
                Request { fua: *fua && *op == Operation::Write, ..Request::new(id, *op, place * 8, *blocks) }
            }
        };
        (now, request)
    };
    numbered.map(request).collect()
}

/// Requests that the device accepted, their completions by number, and events.
fn answers(
    drive: &Description,
    lines: &[String],
    requests: &[(Instant, Request)],
    (is_watched, is_forked): (bool, bool),
) -> (Vec<u64>, Vec<Completion>, Vec<Event>) {
    let fault = lines.iter().map(|line| FaultTable::from_line(line).unwrap()).collect();
    let device = drive.clone().beneath("fault", &FaultParameters { fault }).unwrap();
    let mut device: Box<dyn Device> = device.build(Seed(1), "disk0").unwrap();
    if is_watched {
        device.watch();
    }
    let (mut accepted, mut completions, mut events) = (Vec::new(), Vec::new(), Vec::new());
    for (at, request) in requests {
        while let Some(event) = device.next_event().filter(|event| event <= at) {
            device.poll(event, &mut completions);
        }
        device.poll(*at, &mut completions);
        if device.submit(*at, *request).is_ok() {
            accepted.push(request.id.0);
        }
        if is_forked {
            device = device.fork();
        }
    }
    while let Some(event) = device.next_event() {
        device.poll(event, &mut completions);
    }
    if is_watched {
        device.events(Instant::ZERO + Duration::from_s(3_600), &mut events);
    }
    completions.sort_by_key(|completion| completion.request.id);
    (accepted, completions, events)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn device_that_lost_its_power_answers_as_a_new_one(
        before in vec(draft(), 0..12),
        away in vec(draft(), 0..3),
        after in vec(draft(), 1..12),
        at_us in 1_u64..60_000,
        back_after_us in prop_oneof![1_u64..100, 1_u64..60_000],
        is_second: bool,
        loses_writes: bool,
        is_watched: bool,
        is_forked: bool,
    ) {
        let away_us = Duration::from_us(back_after_us);
        let loss = Instant::ZERO + Duration::from_us(at_us);
        let mut lines = vec![format!("power_loss,at={at_us}us,back_after={back_after_us}us")];
        let mut back = loss + away_us;
        if is_second {
            // Another loss, before which the device receives nothing.
            lines.push(format!("power_loss,name=second,at={}us,back_after=7us", at_us + back_after_us + 13));
            back += Duration::from_us(20);
        }
        let first = requests(&before, Instant::ZERO, 0).into_iter().filter(|(at, _)| *at < loss);
        if loses_writes {
            // What a write of these does not reach keeps what it had before, and that is nothing of the buffer that was lost.
            lines.push(format!("lost_write,at={}ns", back.as_ns()));
        }
        // Refused, and answered before the device is back: an answer that waits takes a place in the queue.
        let is_answered = |at: Instant| at + REFUSAL < loss + away_us;
        let gone = requests(&away, loss, 100).into_iter().filter(|(at, _)| is_answered(*at));
        let last = requests(&after, back, 200);
        let all: Vec<_> = first.chain(gone).chain(last.iter().copied()).collect();
        for name in DRIVES {
            let drive = drives::device(name, &[]);
            let (accepted, completions, events) = answers(&drive, &lines, &all, (is_watched, is_forked));
            let (new_accepted, new_completions, new_events) = answers(&drive, &lines, &last, (is_watched, false));
            let accepted: Vec<u64> = accepted.into_iter().filter(|id| *id >= 200).collect();
            prop_assert_eq!(accepted, new_accepted, "{}", name);
            let completions: Vec<Completion> =
                completions.into_iter().filter(|completion| completion.request.id.0 >= 200).collect();
            prop_assert_eq!(completions, new_completions, "{}", name);
            // Nothing that the device had before gets to the media behind the loss.
            let durable = |event: &Event| matches!(event.kind, EventKind::Durable { .. });
            let behind: Vec<Event> =
                events.into_iter().filter(|event| durable(event) && event.time > loss).collect();
            let of_new: Vec<Event> = new_events.into_iter().filter(durable).collect();
            prop_assert_eq!(behind, of_new, "{}", name);
        }
    }
}
