//! Loss of power while clients are connected: what comes back is what was on the media.

use std::collections::BTreeMap;
use std::fs;

use crate::survive::client::{FLUSH, READ, Request, WRITE};
use crate::survive::harness::{Draw, Served, until};

const BLOCK: u64 = 4096;
const SECTOR: u64 = 512;
const SIZE: u64 = 4 << 20;
/// Error number of a device that is not there: `ESHUTDOWN`.
const GONE: u32 = 108;

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
