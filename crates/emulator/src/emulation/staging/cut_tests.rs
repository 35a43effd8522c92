//! The store of a served device that lost its power against the image that `seeklab crash` makes of a run in which the
//! power stayed on.

use seeklab_core::{Device, Duration, Instant, Request, Seed, Tearing};
use seeklab_devices::Description;
use seeklab_devices::torn::AtCut;

use super::*;
use crate::frontend::Tag;

const BLOCK: u64 = 512;
const SIZE: u64 = 16 << 20;

/// One drive of each controller with a write buffer, and one without.
const DRIVES: [&str; 4] = ["cheetah-36es", "cheetah9lp", "atlas10k", "hp-c2247a"];

/// A drive with these faults, in lines of TOML.
fn drive(name: &str, contents: &str, unit: &str, faults: &str) -> Description {
    let text = format!(
        "kind = \"fault\"\n[[fault]]\nkind = \"delay\"\nadd = \"1ms\"\nat = \"8000h\"\n{faults}[device]\nbase = \"{name}\"\n"
    );
    let mut description = Description::parse("disk", "disk", &text).unwrap();
    description.set("power_loss.torn_sector", contents).unwrap();
    description.set("power_loss.atomic_unit", unit).unwrap();
    description
}

/// Requests and their times: short writes, most of them one behind the other, and others.
fn arrivals(seed: Seed) -> Vec<(Instant, Request)> {
    let mut draws = seed.stream("cut_tests");
    let (mut now, mut place) = (Instant::ZERO, 803);
    let mut next = |id: u64| {
        now += Duration::from_us(draws.below(if id % 9 == 8 { 9_000 } else { 600 }));
        let lbn = match draws.below(20) {
            0 => draws.below(30_000),
            1 => place - 3,
            _ => place,
        };
        let blocks = 1 + draws.below(6) as u32;
        place = lbn + u64::from(blocks);
        let op = match draws.below(30) {
            0 => Operation::Flush,
            1 => Operation::Discard,
            2 => Operation::WriteZeroes,
            _ => Operation::Write,
        };
        let request = if op == Operation::Flush {
            Request::new(id, op, 0, 0)
        } else {
            Request { fua: draws.chance(0.05), ..Request::new(id, op, lbn, blocks) }
        };
        (now, request)
    };
    (0..100).map(&mut next).collect()
}

/// Contents that a write of that number gives the blocks of its request.
fn bytes(request: &Request) -> Vec<u8> {
    let block = |lbn: u64| [request.id.0 as u8 + 1, lbn as u8].repeat(BLOCK as usize / 2);
    (request.lbn..request.end()).flat_map(block).collect()
}

/// Polls the device at `time` and at what comes before; shows the completions with the device.
fn poll(device: &mut dyn Device, time: Instant, see: &mut dyn FnMut(&mut dyn Device, &Completion)) {
    let mut completions = Vec::new();
    loop {
        let next = device.next_event().filter(|next| *next <= time);
        device.poll(next.unwrap_or(time), &mut completions);
        completions.drain(..).for_each(|completion| see(device, &completion));
        if next.is_none() {
            return;
        }
    }
}

/// Sends the requests that the device takes, and shows their completions up to `end`.
fn run(
    device: &mut dyn Device,
    arrivals: &[(Instant, Request)],
    end: Instant,
    stage: &mut dyn FnMut(&Request),
    see: &mut dyn FnMut(&mut dyn Device, &Completion),
) {
    for (at, request) in arrivals {
        poll(device, *at, see);
        if device.submit(*at, *request).is_ok() {
            stage(request);
        }
    }
    poll(device, end, see);
}

/// The store of a device that serves these requests with `line`, which cuts the power.
fn served(description: &Description, arrivals: &[(Instant, Request)], cut: Instant) -> Vec<u8> {
    let mut device = description.build(Seed(1), "disk0").unwrap();
    device.watch();
    let size = ByteSize::from_bytes(SIZE);
    let store = Store::in_ram(size, Some(size)).unwrap();
    let staging = Staging::new(size, BLOCK, device.hazards(), false).unwrap();
    let staging = std::cell::RefCell::new(staging);
    let take_events = |device: &mut dyn Device, until: Instant| {
        let mut events = Vec::new();
        device.events(until, &mut events);
        events.iter().for_each(|event| staging.borrow_mut().note(&store, event));
    };
    let mut stage = |request: &Request| {
        let bytes = bytes(request);
        let action = match request.op {
            Operation::Write => Action::Write(&bytes),
            Operation::Discard => Action::Discard,
            Operation::WriteZeroes => Action::WriteZeroes { may_discard: true },
            _ => Action::Flush,
        };
        let tag = Tag { frontend: 0, client: 0, command: request.id.0 as u32 };
        let length_bytes = request.blocks * BLOCK as u32;
        let (arrived, offset_bytes, fua) = (Instant::ZERO, request.lbn * BLOCK, request.fua);
        let command = Command { tag, arrived, offset_bytes, length_bytes, fua, action };
        staging.borrow_mut().stage(request.id.0, &command);
    };
    // As an emulation carries out what the model has completed.
    let mut see = |device: &mut dyn Device, completion: &Completion| {
        let Completion { request, outcome, completed, .. } = completion;
        let promises = outcome.status.is_success() && (request.op == Operation::Flush || request.fua);
        if promises || outcome.status == Status::Gone || request.id.0 % 5 == 0 {
            take_events(device, *completed);
        }
        staging.borrow_mut().complete(&store, request.id.0, completion).unwrap();
        if promises {
            take_events(device, *completed);
            staging.borrow_mut().promise(&store, request.id.0, request.op).unwrap();
        }
    };
    run(&mut *device, arrivals, cut + Duration::from_s(1), &mut stage, &mut see);
    take_events(&mut *device, cut + Duration::from_s(1));
    image(&store)
}

fn image(store: &Store) -> Vec<u8> {
    let mut image = vec![0; SIZE as usize];
    store.read(0, &mut image).unwrap();
    image
}

/// A run in which the power stays on: completions by number, and events of blocks that are durable.
fn recorded(
    description: &Description,
    arrivals: &[(Instant, Request)],
) -> (BTreeMap<u64, Completion>, Vec<Event>) {
    let mut device = description.build(Seed(1), "disk0").unwrap();
    device.watch();
    let end = Instant::ZERO + Duration::from_s(3_600);
    let (mut completions, mut events) = (BTreeMap::new(), Vec::new());
    run(&mut *device, arrivals, end, &mut |_| {}, &mut |_, completion| {
        completions.insert(completion.request.id.0, *completion);
    });
    device.events(end, &mut events);
    events.retain(|event| matches!(event.kind, EventKind::Durable { .. }));
    (completions, events)
}

/// The image that `seeklab crash` makes of a run that was cut then, and the number of units that are torn.
fn cut_image(
    (completions, events): &(BTreeMap<u64, Completion>, Vec<Event>),
    cut: Instant,
    tearing: Tearing,
) -> (Vec<u8>, usize) {
    let has_arrived = |event: &Event| completions[&event.request.unwrap().0].submitted <= cut;
    let AtCut { settled, parts, torn } = AtCut::new(events, cut, tearing, has_arrived);
    let whole = events[..settled].iter().map(|event| (event, event.lbn, event.blocks));
    let parts = parts.iter().map(|part| (&events[part.event], part.lbn, part.blocks));
    let mut image = vec![0; SIZE as usize];
    for (event, lbn, blocks) in whole.chain(parts) {
        let completion = &completions[&event.request.unwrap().0];
        let (to, length) = ((lbn * BLOCK) as usize, blocks as usize * BLOCK as usize);
        let from = ((lbn - completion.written_blocks().0) * BLOCK) as usize;
        match completion.request.op {
            Operation::Write => {
                let bytes = bytes(&completion.request);
                image[to..to + length].copy_from_slice(&bytes[from..from + length]);
            }
            _ => image[to..to + length].fill(0),
        }
    }
    if tearing.contents == TornContents::Unreadable {
        for unit in &torn {
            let (from, to) = (unit.lbn * BLOCK, (unit.lbn + unit.blocks) * BLOCK);
            image[from as usize..to as usize].fill(0);
        }
    }
    (image, torn.len())
}

/// Compares store and image at cuts within media writes; the number of torn units.
fn compare(name: &str, contents: &str, unit: &str, faults: &str, seed: Seed) -> usize {
    let context = format!("{name}, {contents}, {unit}, {faults:?}, seed {}", seed.0);
    let description = drive(name, contents, unit, faults);
    let tearing = description.power_loss().unwrap().tearing(ByteSize::from_bytes(BLOCK));
    let arrivals = arrivals(seed);
    let run = recorded(&description, &arrivals);
    let mut torn_units = 0;
    for (number, event) in run.1.iter().enumerate().skip(seed.0 as usize).step_by(5) {
        let EventKind::Durable { begun } = event.kind else { continue };
        let share = (event.time - begun).as_ns() * (number as u64 % 7) / 7;
        let cut = begun + Duration::from_ns(share + 1);
        let loss = format!("{faults}[[fault]]\nkind = \"power_loss\"\nat = \"{}ns\"\n", cut.as_ns());
        // What would have arrived later changes what the media write under way would have become.
        let before: Vec<_> = arrivals.iter().copied().filter(|(at, _)| *at < cut).collect();
        let (image, torn) = cut_image(&recorded(&description, &before), cut, tearing);
        let stored = served(&drive(name, contents, unit, &loss), &arrivals, cut);
        let differs = image.chunks(512).zip(stored.chunks(512)).position(|(one, other)| one != other);
        assert_eq!(differs, None, "first block that differs: {context}, cut at {} ns", cut.as_ns());
        assert!(contents == "new" || unit != "512B" || image == cut_image(&run, cut, tearing).0, "{context}");
        torn_units += torn;
    }
    torn_units
}

#[test]
fn store_after_a_loss_of_power_is_the_image_of_a_cut() {
    for name in DRIVES {
        for contents in ["old", "new", "unreadable"] {
            let runs = [("512B", 1), ("4KiB", 2), ("4KiB", 3), ("32KiB", 4)];
            let torn = runs.map(|(unit, seed)| compare(name, contents, unit, "", Seed(seed)));
            assert!(torn.iter().sum::<usize>() > 4, "{name}, {contents}: {torn:?}");
        }
    }
}

#[test]
fn misdirected_blocks_are_where_they_went_or_are_undone_with_the_power() {
    let fault = "[[fault]]\nkind = \"misdirected_write\"\nby = \"1MiB\"\nprobability = \"50%\"\n";
    for name in DRIVES {
        let runs = [("old", "512B", 5), ("old", "4KiB", 6), ("new", "4KiB", 7)];
        let torn = runs.map(|(contents, unit, seed)| compare(name, contents, unit, fault, Seed(seed)));
        assert!(torn.iter().sum::<usize>() > 0, "{name}: {torn:?}");
    }
}
