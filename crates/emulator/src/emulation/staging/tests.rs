//! Staging against a plain model of the media, of random writes, completions, durable blocks and losses of power.

use proptest::prelude::*;
use seeklab_core::{Breakdown, BufferOutcome, Duration, FaultSet, Instant, Outcome, Request, RequestId};

use super::*;
use crate::frontend::Tag;

const BLOCK: u64 = 512;
const BLOCKS: u64 = 40;

/// A step of a run.
#[derive(Debug, Clone)]
enum Step {
    Write { lbn: u64, blocks: u64, zeroes: bool },
    Complete { which: usize, effect: u8 },
    Durable { which: usize, from: u64, length: u64 },
    Loss,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..BLOCKS - 8, 1_u64..8, any::<bool>()).prop_map(|(lbn, blocks, zeroes)| Step::Write { lbn, blocks, zeroes }),
        4 => (any::<usize>(), 0_u8..8).prop_map(|(which, effect)| Step::Complete { which, effect }),
        4 => (any::<usize>(), 0_u64..8, 1_u64..8).prop_map(|(which, from, length)| Step::Durable { which, from, length }),
        1 => Just(Step::Loss),
    ]
}

/// A write as the plain model keeps it.
#[derive(Debug, Clone)]
struct Plain {
    number: u64,
    lbn: u64,
    blocks: u64,
    /// Contents of each of its blocks.
    tag: u8,
    place: u64,
    written: u64,
    rank: Option<u64>,
}

fn completion(write: &Plain, outcome: Outcome) -> Completion {
    let request = Request::new(0, Operation::Write, write.lbn, write.blocks as u32);
    Completion {
        request,
        submitted: Instant::ZERO,
        issued: Instant::ZERO,
        started: Instant::ZERO,
        completed: Instant::ZERO,
        breakdown: Breakdown { internal: Duration::ZERO, ..Breakdown::default() },
        outcome,
        buffer: BufferOutcome::None,
        seek_cylinders: 0,
        queue_length: 0,
        faults: FaultSet::NONE,
    }
}

fn read(staging: &Staging, store: &Store) -> Vec<u8> {
    let mut bytes = vec![0; (BLOCKS * BLOCK) as usize];
    staging.read(store, 0, DataEffect::NONE, &mut bytes).unwrap();
    bytes.chunks(BLOCK as usize).map(|block| block[0]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn reads_bring_what_completed_writes_left_and_the_media_what_is_durable(
        steps in prop::collection::vec(step(), 1..80), loses_power: bool
    ) {
        let size = ByteSize::from_bytes(BLOCKS * BLOCK);
        let store = Store::in_ram(size, Some(ByteSize::from_bytes(1 << 20))).unwrap();
        let hazards = Hazards { fails: true, loses_power, ..Hazards::default() };
        let mut staging = Staging::new(size, BLOCK, hazards, false).unwrap();
        let mut writes: Vec<Plain> = Vec::new();
        let (mut view, mut media) = (vec![0_u8; BLOCKS as usize], vec![0_u8; BLOCKS as usize]);
        // Rank of completion of what each block of the media holds.
        let mut newest_on_media = vec![None; BLOCKS as usize];
        let (mut rank, mut count) = (0, 0);
        for step in steps {
            match step {
                Step::Write { lbn, blocks, zeroes } => {
                    let number = count;
                    count += 1;
                    let tag = if zeroes { 0 } else { 1 + (number % 250) as u8 };
                    let bytes = vec![tag; (blocks * BLOCK) as usize];
                    let action = if zeroes { Action::WriteZeroes { may_discard: true } } else { Action::Write(&bytes) };
                    let length_bytes = (blocks * BLOCK) as u32;
                    let tag_of_client = Tag { frontend: 0, client: 0, command: number as u32 };
                    let command = Command {
                        tag: tag_of_client, arrived: Instant::ZERO, offset_bytes: lbn * BLOCK, length_bytes, fua: false, action,
                    };
                    staging.stage(number, &command);
                    writes.push(Plain { number, lbn, blocks, tag, place: lbn, written: blocks, rank: None });
                }
                Step::Complete { which, effect } => {
                    let open: Vec<usize> = (0..writes.len()).filter(|index| writes[*index].rank.is_none()).collect();
                    if open.is_empty() { continue }
                    let write = &mut writes[open[which % open.len()]];
                    let ok = Outcome::ok(&Request::new(0, Operation::Write, write.lbn, write.blocks as u32));
                    let effect = match effect {
                        0 => Effect::Torn(0),
                        1 => Effect::Torn((write.blocks / 2) as u32),
                        2 if write.lbn >= 9 => Effect::Misdirected(-9),
                        _ => Effect::None,
                    };
                    let outcome = if effect == Effect::None && which % 5 == 0 {
                        Outcome { status: Status::MediumError, good_blocks: (write.blocks / 2) as u32, ..ok }
                    } else {
                        Outcome { effect: DataEffect::new(effect), ..ok }
                    };
                    let completion = completion(write, outcome);
                    let (place, written) = completion.written_blocks();
                    (write.place, write.written, write.rank) = (place, u64::from(written), Some(rank));
                    staging.complete(&store, write.number, &completion).unwrap();
                    for block in place..place + u64::from(written) {
                        view[block as usize] = write.tag;
                        if !loses_power { media[block as usize] = write.tag }
                    }
                    rank += 1;
                }
                Step::Durable { which, from, length } if loses_power => {
                    let done: Vec<&Plain> = writes.iter().filter(|write| write.rank.is_some()).collect();
                    if done.is_empty() { continue }
                    let write = done[which % done.len()];
                    let (start, end) = (write.place + from.min(write.written), write.place + (from + length).min(write.written));
                    // No block goes back, and none is written twice: the contract of events.
                    let goes_back = (start..end).any(|block| newest_on_media[block as usize] >= write.rank);
                    if start >= end || goes_back { continue }
                    let blocks = (end - start) as u32;
                    let event = Event::durable(RequestId(write.number), start, blocks, Instant::ZERO, Instant::ZERO);
                    staging.note(&store, &event);
                    for block in start..end {
                        media[block as usize] = write.tag;
                        newest_on_media[block as usize] = write.rank;
                    }
                }
                Step::Durable { .. } => {}
                Step::Loss if loses_power => {
                    let lost = Event { time: Instant::ZERO, device: 0, request: None, lbn: 0, blocks: 0, kind: EventKind::PowerLoss };
                    staging.note(&store, &lost);
                    view.clone_from(&media);
                    writes.retain(|write| write.rank.is_none());
                }
                Step::Loss => {}
            }
            prop_assert_eq!(&read(&staging, &store), &view);
            let mut bytes = vec![0; (BLOCKS * BLOCK) as usize];
            store.read(0, &mut bytes).unwrap();
            let stored: Vec<u8> = bytes.chunks(BLOCK as usize).map(|block| block[0]).collect();
            prop_assert_eq!(&stored, &media);
        }
        staging.finish(&store).unwrap();
        let mut bytes = vec![0; (BLOCKS * BLOCK) as usize];
        store.read(0, &mut bytes).unwrap();
        let stored: Vec<u8> = bytes.chunks(BLOCK as usize).map(|block| block[0]).collect();
        prop_assert_eq!(stored, view);
    }
}

/// A store of tagged blocks under `hazards`, with a write of `tag` to `lbn..lbn + blocks` that ends so.
fn written(
    staging: &mut Staging,
    store: &Store,
    number: u64,
    (lbn, blocks, tag): (u64, u64, u8),
    effect: Effect,
) {
    let bytes = vec![tag; (blocks * BLOCK) as usize];
    let command = Command {
        tag: Tag { frontend: 0, client: 0, command: 0 },
        arrived: Instant::ZERO,
        offset_bytes: lbn * BLOCK,
        length_bytes: bytes.len() as u32,
        fua: false,
        action: Action::Write(&bytes),
    };
    staging.stage(number, &command);
    let plain = Plain { number, lbn, blocks, tag, place: lbn, written: blocks, rank: None };
    let request = Request::new(0, Operation::Write, lbn, blocks as u32);
    let outcome = Outcome { effect: DataEffect::new(effect), ..Outcome::ok(&request) };
    staging.complete(store, number, &completion(&plain, outcome)).unwrap();
}

fn ram() -> Store {
    Store::in_ram(ByteSize::from_bytes(BLOCKS * BLOCK), Some(ByteSize::from_bytes(1 << 20))).unwrap()
}

#[test]
fn stale_read_brings_what_was_before_the_last_write() {
    let (size, store) = (ByteSize::from_bytes(BLOCKS * BLOCK), ram());
    let hazards = Hazards { fails: true, reads_stale: true, ..Hazards::default() };
    let mut staging = Staging::new(size, BLOCK, hazards, false).unwrap();
    written(&mut staging, &store, 0, (0, 4, 1), Effect::None);
    written(&mut staging, &store, 1, (2, 4, 2), Effect::None);
    let mut bytes = vec![0; 8 * BLOCK as usize];
    staging.read(&store, 0, DataEffect::new(Effect::Stale), &mut bytes).unwrap();
    let tags: Vec<u8> = bytes.chunks(BLOCK as usize).map(|block| block[0]).collect();
    assert_eq!(tags, [0, 0, 1, 1, 0, 0, 0, 0]);
    staging
        .read(&store, BLOCK, DataEffect::new(Effect::Misdirected(2)), &mut bytes[..BLOCK as usize])
        .unwrap();
    assert_eq!(bytes[0], 2, "block 3 in place of block 1");
}

#[test]
fn rotten_block_differs_by_a_bit_until_it_is_written_and_the_store_does_not() {
    let (size, store) = (ByteSize::from_bytes(BLOCKS * BLOCK), ram());
    let mut staging =
        Staging::new(size, BLOCK, Hazards { fails: true, ..Hazards::default() }, false).unwrap();
    let request = Request::new(0, Operation::Read, 4, 4);
    let rotten = Outcome { effect: DataEffect::new(Effect::Rotten(1)), ..Outcome::ok(&request) };
    let plain = Plain { number: 9, lbn: 4, blocks: 4, tag: 0, place: 4, written: 4, rank: None };
    staging.complete(&store, 9, &Completion { request, ..completion(&plain, rotten) }).unwrap();
    let ones = |staging: &Staging| {
        let mut bytes = vec![0; (BLOCKS * BLOCK) as usize];
        staging.read(&store, 0, DataEffect::NONE, &mut bytes).unwrap();
        let set = |(at, byte): (usize, &u8)| (*byte != 0).then_some((at as u64 / BLOCK, byte.count_ones()));
        bytes.iter().enumerate().filter_map(set).collect::<Vec<_>>()
    };
    assert_eq!(ones(&staging), [(5, 1)]);
    let mut stored = vec![0; BLOCK as usize];
    store.read(5 * BLOCK, &mut stored).unwrap();
    assert_eq!(stored, vec![0; BLOCK as usize], "the mask is beside the store");
    written(&mut staging, &store, 10, (5, 1, 0), Effect::None);
    assert_eq!(ones(&staging), []);
}

#[test]
fn pristine_contents_are_those_without_faults_of_data() {
    for (pristine, expected) in
        [(true, [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 0, 0]), (false, [2, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0])]
    {
        let (size, store) = (ByteSize::from_bytes(BLOCKS * BLOCK), ram());
        let hazards = Hazards { fails: true, ..Hazards::default() };
        let mut staging = Staging::new(size, BLOCK, hazards, pristine).unwrap();
        written(&mut staging, &store, 0, (0, 4, 1), Effect::None);
        written(&mut staging, &store, 1, (4, 2, 2), Effect::Misdirected(-4));
        written(&mut staging, &store, 2, (6, 2, 2), Effect::Torn(0));
        written(&mut staging, &store, 3, (8, 2, 9), Effect::Torn(1));
        written(&mut staging, &store, 4, (8, 2, 3), Effect::Torn(0));
        staging.finish(&store).unwrap();
        let mut bytes = vec![0; 12 * BLOCK as usize];
        store.read(0, &mut bytes).unwrap();
        let tags: Vec<u8> = bytes.chunks(BLOCK as usize).map(|block| block[0]).collect();
        let expected = if pristine { expected.to_vec() } else { [&expected[..8], &[9, 0, 0, 0]].concat() };
        assert_eq!(tags, expected, "pristine: {pristine}");
    }
}

const PAGE_BLOCKS: u64 = 8;

/// A store in memory with space for so many pages of 4 KiB.
fn pages(count: u64) -> Store {
    let size = ByteSize::from_bytes(BLOCKS * BLOCK);
    let roomy = ram();
    roomy.write(0, &[1]).unwrap();
    let first = roomy.allocated_bytes().unwrap().as_bytes();
    roomy.write(PAGE_BLOCKS * BLOCK, &[1]).unwrap();
    let page = roomy.allocated_bytes().unwrap().as_bytes() - first;
    Store::in_ram(size, Some(ByteSize::from_bytes(first + (count - 1) * page))).unwrap()
}

fn losing_power(store: &Store) -> Staging {
    let hazards = Hazards { fails: true, loses_power: true, ..Hazards::default() };
    Staging::new(store.size(), BLOCK, hazards, false).unwrap()
}

fn durable(staging: &mut Staging, store: &Store, number: u64, lbn: u64, blocks: u32) {
    let event = Event::durable(RequestId(number), lbn, blocks, Instant::ZERO, Instant::ZERO);
    staging.note(store, &event);
}

fn lose_power(staging: &mut Staging, store: &Store) {
    let kind = EventKind::PowerLoss;
    staging.note(store, &Event { time: Instant::ZERO, device: 0, request: None, lbn: 0, blocks: 0, kind });
}

/// Four writes of a block: to the first page, to the second, and two to the third; the store has space for two pages.
fn full() -> (Staging, Store) {
    let store = pages(2);
    let mut staging = losing_power(&store);
    for (number, lbn) in [(0, 0), (1, 8), (2, 16), (3, 17)] {
        written(&mut staging, &store, number, (lbn, 1, number as u8 + 1), Effect::None);
    }
    for (number, lbn) in [(0, 0), (2, 16), (1, 8), (3, 17)] {
        durable(&mut staging, &store, number, lbn, 1);
    }
    (staging, store)
}

fn stored(store: &Store, lbn: u64) -> u8 {
    let mut byte = [0];
    store.read(lbn * BLOCK, &mut byte).unwrap();
    byte[0]
}

fn is_full(result: &Result<(), StoreError>) -> bool {
    matches!(result, Err(StoreError::NoSpace { .. }))
}

#[test]
fn refused_blocks_fail_every_flush_until_the_store_has_them() {
    let (mut staging, store) = full();
    assert_eq!([0, 8, 16, 17].map(|lbn| stored(&store, lbn)), [1, 0, 3, 4], "events behind a refusal count");
    assert_eq!([0, 8, 16, 17].map(|lbn| read(&staging, &store)[lbn]), [1, 2, 3, 4]);
    for _ in 0..2 {
        assert!(is_full(&staging.promise(&store, 9, Operation::Flush)));
    }
    assert!(staging.promise(&store, 0, Operation::Write).is_ok(), "its own blocks are in the store");
    assert!(is_full(&staging.promise(&store, 1, Operation::Write)));
    // A discard that gets to the media makes space.
    let bytes = Command {
        tag: Tag { frontend: 0, client: 0, command: 0 },
        arrived: Instant::ZERO,
        offset_bytes: 16 * BLOCK,
        length_bytes: (PAGE_BLOCKS * BLOCK) as u32,
        fua: false,
        action: Action::Discard,
    };
    staging.stage(4, &bytes);
    let request = Request::new(0, Operation::Discard, 16, PAGE_BLOCKS as u32);
    let plain = Plain { number: 4, lbn: 16, blocks: PAGE_BLOCKS, tag: 0, place: 16, written: 0, rank: None };
    let completion = Completion { request, ..completion(&plain, Outcome::ok(&request)) };
    staging.complete(&store, 4, &completion).unwrap();
    durable(&mut staging, &store, 4, 16, PAGE_BLOCKS as u32);
    assert!(staging.promise(&store, 9, Operation::Flush).is_ok());
    assert_eq!([0, 8, 16, 17].map(|lbn| stored(&store, lbn)), [1, 2, 0, 0]);
    staging.finish(&store).unwrap();
}

#[test]
fn writes_without_space_fail_while_blocks_are_refused_and_others_do_not() {
    let (mut staging, store) = full();
    let bytes = [9; BLOCK as usize];
    let mut write = |number: u64, lbn: u64| {
        let command = Command {
            tag: Tag { frontend: 0, client: 0, command: 0 },
            arrived: Instant::ZERO,
            offset_bytes: lbn * BLOCK,
            length_bytes: BLOCK as u32,
            fua: false,
            action: Action::Write(&bytes),
        };
        staging.stage(number, &command);
        let plain = Plain { number, lbn, blocks: 1, tag: 9, place: lbn, written: 1, rank: None };
        let request = Request::new(0, Operation::Write, lbn, 1);
        let result = staging.complete(&store, number, &completion(&plain, Outcome::ok(&request)));
        durable(&mut staging, &store, number, lbn, 1);
        (result, read(&staging, &store)[lbn as usize])
    };
    let (refused, found) = write(5, 24);
    assert!(is_full(&refused) && found == 0, "{refused:?}");
    assert!(matches!(write(6, 1), (Ok(()), 9)));
    assert!(is_full(&staging.promise(&store, 9, Operation::Flush)));
    assert_eq!(stored(&store, 1), 9);
}

#[test]
fn newer_write_that_is_durable_takes_the_place_of_a_refused_one() {
    let (mut staging, store) = full();
    written(&mut staging, &store, 5, (0, 8, 0), Effect::None);
    durable(&mut staging, &store, 5, 0, 8);
    // The first page has given its space back: the refused block gets it, and is overwritten there.
    assert!(staging.promise(&store, 9, Operation::Flush).is_ok());
    assert_eq!([stored(&store, 0), stored(&store, 8)], [0, 2]);
    written(&mut staging, &store, 6, (8, 1, 7), Effect::None);
    written(&mut staging, &store, 7, (0, 1, 5), Effect::None);
    durable(&mut staging, &store, 7, 0, 1);
    written(&mut staging, &store, 8, (8, 1, 8), Effect::None);
    durable(&mut staging, &store, 8, 8, 1);
    assert!(is_full(&staging.promise(&store, 9, Operation::Flush)), "block 0 has no page any more");
    assert_eq!([stored(&store, 0), stored(&store, 8)], [0, 8]);
    lose_power(&mut staging, &store);
    assert_eq!([read(&staging, &store)[0], read(&staging, &store)[8]], [0, 8]);
    assert!(is_full(&staging.finish(&store)), "the media of the device would have block 0");
}

#[test]
fn refused_blocks_that_are_stored_or_never_durable_are_no_failure_at_the_end() {
    let store = pages(1);
    let mut staging = losing_power(&store);
    written(&mut staging, &store, 0, (0, 1, 1), Effect::None);
    written(&mut staging, &store, 1, (8, 1, 2), Effect::None);
    durable(&mut staging, &store, 0, 0, 1);
    lose_power(&mut staging, &store);
    staging.finish(&store).unwrap();

    let (staging, store) = full();
    assert!(is_full(&staging.finish(&store)), "the second page has nowhere to go");
}

#[test]
fn blocks_that_were_on_the_media_when_the_device_went_are_stored_as_far_as_there_is_space() {
    let store = pages(1);
    let mut staging = losing_power(&store);
    let bytes = vec![3; 16 * BLOCK as usize];
    let command = Command {
        tag: Tag { frontend: 0, client: 0, command: 0 },
        arrived: Instant::ZERO,
        offset_bytes: 0,
        length_bytes: bytes.len() as u32,
        fua: false,
        action: Action::Write(&bytes),
    };
    staging.stage(0, &command);
    for (lbn, blocks) in [(0, 2), (8, 2), (2, 3)] {
        durable(&mut staging, &store, 0, lbn, blocks);
    }
    lose_power(&mut staging, &store);
    let plain = Plain { number: 0, lbn: 0, blocks: 16, tag: 3, place: 0, written: 0, rank: None };
    let gone = Outcome {
        status: Status::Gone,
        good_blocks: 0,
        ..Outcome::ok(&Request::new(0, Operation::Write, 0, 16))
    };
    staging.complete(&store, 0, &completion(&plain, gone)).unwrap();
    assert_eq!([0, 1, 2, 4, 5, 8].map(|lbn| stored(&store, lbn)), [3, 3, 3, 3, 0, 0]);
    assert!(is_full(&staging.finish(&store)));
}

#[test]
fn data_that_goes_beyond_what_is_served_is_lost_and_comes_as_zeroes() {
    for loses_power in [false, true] {
        let (size, store) = (ByteSize::from_bytes(BLOCKS * BLOCK), ram());
        let hazards = Hazards { fails: true, loses_power, ..Hazards::default() };
        let mut staging = Staging::new(size, BLOCK, hazards, false).unwrap();
        let end = BLOCKS as i32;
        written(&mut staging, &store, 0, (0, 4, 1), Effect::Misdirected(end));
        written(&mut staging, &store, 1, (0, 4, 2), Effect::Misdirected(end - 2));
        for (number, lbn) in [(0, BLOCKS), (1, BLOCKS - 2)] {
            durable(&mut staging, &store, number, lbn, 4);
        }
        let mut expected = vec![0; BLOCKS as usize];
        expected[BLOCKS as usize - 2..].fill(2);
        assert_eq!(read(&staging, &store), expected);
        let mut bytes = vec![9; 4 * BLOCK as usize];
        let effect = DataEffect::new(Effect::Misdirected(2));
        staging.read(&store, (BLOCKS - 4) * BLOCK, effect, &mut bytes).unwrap();
        let firsts: Vec<u8> = bytes.chunks(BLOCK as usize).map(|block| block[0]).collect();
        assert_eq!(firsts, [2, 2, 0, 0]);
        staging.promise(&store, 9, Operation::Flush).unwrap();
        staging.finish(&store).unwrap();
    }
}
