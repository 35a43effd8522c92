//! Loss of power while clients are connected: what comes back is what was on the media.

use std::collections::BTreeMap;
use std::fs;

use rustix::process::Signal;

use crate::survive::client::{FLUSH, READ, Request, TRIM, WRITE};
use crate::survive::harness::{Draw, Served, until};

const BLOCK: u64 = 4096;
const SECTOR: u64 = 512;
const SIZE: u64 = 4 << 20;
/// Error number of a device that is not there: `ESHUTDOWN`.
const GONE: u32 = 108;
/// Error number of a store that is full: `ENOSPC`.
const FULL: u32 = 28;
/// Force unit access.
const FUA: u16 = 1;

#[test]
fn power_comes_back_with_what_was_on_the_media() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (events, image) = (path("events.csv"), path("image"));
    // A disk so slow that its buffer is never empty when the power goes.
    let faults = ["--fault", "power_loss,at=3s,back_after=500ms", "--fault", "slow,factor=8"];
    let arguments = ["cheetah-36es", "--size", "4MiB", "--events", &events, "--save", &image];
    let served = Served::nbd(folder.path(), &[&arguments[..], &faults].concat());
    let mut client = served.connect();
    let mut draw = Draw(1);
    // By number of the request, what a write gives its block; and of each block, what a flush covers.
    let (mut writes, mut flushed) = (BTreeMap::new(), BTreeMap::new());
    let mut since: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut answered = 0;
    let error = (0_u64..1_000_000).find_map(|number| {
        let offset = draw.below(SIZE / BLOCK) * BLOCK;
        let is_flush = draw.below(40) == 0;
        let mut request = Request::new(WRITE, number, offset, BLOCK as u32);
        request.payload.chunks_mut(8).for_each(|word| word.copy_from_slice(&(number + 1).to_le_bytes()));
        if is_flush {
            request = Request::new(FLUSH, number, 0, 0);
        } else {
            writes.insert(number, offset);
        }
        match client.call(&request) {
            Ok(reply) if reply.error == 0 && is_flush => {
                let covered = std::mem::take(&mut since);
                flushed.extend(
                    covered.into_iter().map(|(offset, numbers)| (offset, numbers[numbers.len() - 1])),
                );
            }
            Ok(reply) if reply.error == 0 => {
                since.entry(offset).or_default().push(number);
                answered += 1;
            }
            Ok(reply) => return Some(reply.error),
            Err(_) => return Some(GONE),
        }
        None
    });
    assert_eq!(error, Some(GONE));
    assert!(answered > 20 && !flushed.is_empty(), "{answered} writes, {} flushed", flushed.len());

    // While the power is off, clients are refused.
    let mut back = None;
    until(|| {
        back = served.try_connect();
        if back.is_some() { Ok(()) } else { Err("the power is not back".into()) }
    });
    let mut client = back.unwrap();
    let mut whole = Vec::new();
    for offset in (0..SIZE).step_by(1 << 20) {
        whole.extend(client.call(&Request::new(READ, offset, offset, 1 << 20)).unwrap().data);
    }
    drop(client);
    served.interrupt();
    assert!(whole == fs::read(&image).unwrap(), "what was read is what is saved");

    // The contents, sector by sector, as the events of the device say.
    let mut expected = vec![0_u8; SIZE as usize];
    let mut loss = None;
    for line in fs::read_to_string(&events).unwrap().lines().skip(2) {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse::<u64>().unwrap();
        match fields[2] {
            "durable" => {
                assert_eq!(loss, None, "nothing was written after the loss");
                let tag = (number(3) + 1).to_le_bytes();
                let (from, length) = (number(4) * SECTOR, number(5) * SECTOR);
                let offset = writes[&number(3)];
                assert!(from >= offset && from + length <= offset + BLOCK);
                let sectors = &mut expected[from as usize..(from + length) as usize];
                sectors.chunks_mut(8).for_each(|word| word.copy_from_slice(&tag));
            }
            "power_loss" => loss = Some(number(0)),
            _ => {}
        }
    }
    assert_eq!(loss, Some(3_000_000_000));
    assert!(whole == expected, "the sectors are those that were durable");
    let number_at = |offset: u64| {
        let word: [u8; 8] = whole[offset as usize..][..8].try_into().unwrap();
        u64::from_le_bytes(word).checked_sub(1)
    };
    for (offset, number) in &flushed {
        assert!(number_at(*offset) >= Some(*number), "the flush covers {number} at {offset}");
    }
    let lost = since.iter().filter(|(offset, numbers)| number_at(**offset) != numbers.last().copied());
    assert!(lost.count() > 0, "writes that no flush covers were in the buffer");
}

/// A write of 64 KiB at a multiple of it, with contents that tell its number.
fn piece(number: u64) -> Request {
    let mut write = Request::new(WRITE, number, number << 16, 1 << 16);
    write.payload.fill(number as u8 + 1);
    write
}

#[test]
fn full_store_fails_flushes_until_there_is_space_and_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image").display().to_string();
    // A buffer that never loses its power here: its blocks get to the store when they are on the media.
    let faults = ["--fault", "power_loss,at=10h", "--save", &image];
    let serve = || {
        Served::nbd(
            folder.path(),
            &[&["cheetah-36es", "--size", "16MiB", "--cap", "2MiB"], &faults[..]].concat(),
        )
    };
    let flush = Request::new(FLUSH, 1 << 20, 0, 0);
    for discards in [true, false] {
        let served = serve();
        let mut client = served.connect();
        assert_eq!(client.call(&piece(0)).unwrap().error, 0);
        assert_eq!(client.call(&flush).unwrap().error, 0, "there is space");
        let mut held = Vec::new();
        let mut refused = 0;
        for number in 1..128 {
            match client.call(&piece(number)).unwrap().error {
                0 => held.push(number),
                FULL => refused += 1,
                error => panic!("error {error}"),
            }
        }
        for _ in 0..2 {
            assert_eq!(client.call(&flush).unwrap().error, FULL, "no flush covers what is nowhere");
        }
        assert_eq!(client.call(&piece(200).flags(FUA)).unwrap().error, FULL);
        assert_eq!(client.call(&piece(0).flags(FUA)).unwrap().error, 0, "it has its place");
        // What was acknowledged is read, wherever it is.
        for number in &held {
            let read = client.call(&Request::new(READ, *number, number << 16, 1 << 16)).unwrap();
            assert!(read.error == 0 && read.data.iter().all(|byte| *byte == *number as u8 + 1), "{number}");
        }
        // 32 pieces have their place in the store, and at most 64 the buffer, which holds 4 MiB, has yet to write.
        assert!(held.len() <= 96 && refused >= 31, "{} held, {refused} refused", held.len());
        if discards {
            let discard = Request::new(TRIM, 1 << 21, 1 << 16, 15 << 20);
            assert_eq!(client.call(&discard).unwrap().error, 0);
            assert_eq!(client.call(&flush).unwrap().error, 0, "a discard makes space");
            assert_eq!(client.call(&piece(1)).unwrap().error, 0);
            assert_eq!(client.call(&flush).unwrap().error, 0);
        }
        drop(client);
        let (code, document, errors) = served.end(Signal::INT);
        assert_eq!(document["refused_requests"].as_u64(), Some(refused + 3), "{errors}");
        assert_eq!(code, Some(if discards { 0 } else { 2 }), "{errors}");
        assert_eq!(errors.contains("the contents are incomplete: store is full"), !discards, "{errors}");
        let saved = fs::read(&image).unwrap();
        assert!(saved[..1 << 16].iter().all(|byte| *byte == 1), "a flush covers it");
        fs::remove_file(&image).unwrap();
    }
}

#[test]
fn no_flush_covers_what_a_full_store_refused_when_the_power_goes() {
    let folder = tempfile::tempdir().unwrap();
    let faults = ["--fault", "power_loss,at=3s,back_after=300ms"];
    let arguments = ["cheetah-36es", "--size", "16MiB", "--cap", "1MiB"];
    let served = Served::nbd(folder.path(), &[&arguments[..], &faults].concat());
    let mut client = served.connect();
    let (mut since, mut flushed, mut failed_flushes) = (Vec::new(), Vec::new(), 0);
    let error = (0_u64..1_000_000).find_map(|number| {
        let place = number % 250;
        let reply = client.call(&piece(place)).and_then(|reply| match reply.error {
            0 => {
                since.push(place);
                client.call(&Request::new(FLUSH, 1 << 20, 0, 0))
            }
            _ => Ok(reply),
        });
        match reply.map_or(GONE, |reply| reply.error) {
            0 => flushed.append(&mut since),
            FULL => failed_flushes += 1,
            error => return Some(error),
        }
        None
    });
    assert_eq!(error, Some(GONE));
    assert!(failed_flushes > 0 && !flushed.is_empty(), "{failed_flushes} failed, {} covered", flushed.len());
    let mut back = None;
    until(|| {
        back = served.try_connect();
        if back.is_some() { Ok(()) } else { Err("the power is not back".into()) }
    });
    let mut client = back.unwrap();
    for place in flushed {
        let read = client.call(&Request::new(READ, place, place << 16, 1 << 16)).unwrap();
        assert!(read.error == 0 && read.data.iter().all(|byte| *byte == place as u8 + 1), "{place}");
    }
    drop(client);
    let (code, _, errors) = served.end(Signal::TERM);
    // Blocks that the device had on its media were lost with the power.
    assert!(code == Some(2) && errors.contains("the contents are incomplete"), "{code:?} {errors}");
}

/// Error number of a medium error: `EIO`.
const BAD: u32 = 5;

#[test]
fn unit_that_was_being_written_cannot_be_read_until_it_is_written() {
    // The heads may be between two media writes when the power goes.
    let is_found = (0..10).any(|_| {
        let folder = tempfile::tempdir().unwrap();
        let events = folder.path().join("events.csv").display().to_string();
        let unit = ["--set", "power_loss.torn_sector=unreadable", "--set", "power_loss.atomic_unit=4KiB"];
        let faults = ["--fault", "power_loss,at=1s,back_after=300ms"];
        let arguments = ["cheetah-36es", "--size", "16MiB", "--events", &events];
        let served = Served::nbd(folder.path(), &[&arguments[..], &unit, &faults].concat());
        let mut client = served.connect();
        // Long writes past the buffer: the heads write for most of the time.
        let long = |number: u64| Request::new(WRITE, number, (number % 15) << 20, 1 << 20).flags(FUA);
        let error = (0_u64..1_000_000).find_map(|number| match client.call(&long(number)) {
            Ok(reply) => Some(reply.error).filter(|error| *error != 0),
            Err(_) => Some(GONE),
        });
        assert_eq!(error, Some(GONE));
        let mut back = None;
        until(|| {
            back = served.try_connect();
            if back.is_some() { Ok(()) } else { Err("the power is not back".into()) }
        });
        let mut client = back.unwrap();
        let mut read = |lbn: u64, blocks: u64| {
            let read = Request::new(READ, lbn, lbn * SECTOR, (blocks * SECTOR) as u32);
            client.call(&read).unwrap().error
        };
        let bad: Vec<u64> = (0..(16 << 20) / SECTOR).step_by(8).filter(|lbn| read(*lbn, 8) != 0).collect();
        let unit = bad.first().copied();
        if let Some(unit) = unit {
            assert_eq!((read(unit + 3, 1), read(unit - 1, 1), read(unit + 8, 1)), (BAD, 0, 0));
            let mut write = Request::new(WRITE, 1, unit * SECTOR, 2 * SECTOR as u32);
            write.payload.fill(9);
            assert_eq!(client.call(&write).unwrap().error, 0);
            let reply = client.call(&Request::new(READ, 2, unit * SECTOR, 1024)).unwrap();
            assert!(reply.error == 0 && reply.data == [9; 1024], "it was written");
            assert_eq!(client.call(&Request::new(READ, 3, unit * SECTOR, 4096)).unwrap().error, BAD);
        }
        drop(client);
        served.interrupt();
        let text = fs::read_to_string(&events).unwrap();
        let unreadable: Vec<&str> = text.lines().filter(|line| line.contains(",unreadable,")).collect();
        let expected = unit.map(|unit| format!("1000000000,disk0,unreadable,,{unit},8,"));
        assert_eq!(unreadable, expected.as_slice(), "bad: {bad:?}");
        assert_eq!(bad.len(), unreadable.len());
        unit.is_some()
    });
    assert!(is_found);
}
