//! Faults of data: what clients read, and what is saved.

use std::fs;

use crate::survive::client::{READ, Request, WRITE};
use crate::survive::harness::Served;

const KIB: usize = 1 << 10;

/// Places of 4 KiB, each with a fault of its own.
const LOST: usize = 64 * KIB;
const TORN: usize = 128 * KIB;
const MISDIRECTED: usize = 256 * KIB;
const ROTTEN: usize = 512 * KIB;
const STALE: usize = 0;
const VICTIM: usize = MISDIRECTED + (1 << 20);

const FAULTS: [&str; 5] = [
    "lost_write,blocks=64KiB..+4KiB",
    "torn_write,blocks=128KiB..+4KiB,unit=2KiB",
    "misdirected_write,by=1MiB,blocks=256KiB..+4KiB",
    "bit_rot,blocks=512KiB..+512B",
    "stale_read,blocks=0B..+4KiB",
];

/// Contents of the blocks at these places as they are read after each was written, and the image that is saved.
fn spoilt(more: &[&str]) -> ([Vec<u8>; 6], Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image").display().to_string();
    let mut arguments = vec!["immediate", "--size", "2MiB", "--save", &image];
    FAULTS.iter().for_each(|fault| arguments.extend(["--fault", fault]));
    arguments.extend(more);
    let served = Served::nbd(folder.path(), &arguments);
    let mut client = served.connect();
    let mut cookie = 0;
    for (offset, fill) in [(STALE, 1), (STALE, 2), (LOST, 3), (TORN, 4), (MISDIRECTED, 5)] {
        cookie += 1;
        let mut write = Request::new(WRITE, cookie, offset as u64, 4096);
        write.payload.fill(fill);
        assert_eq!(client.call(&write).unwrap().error, 0, "no fault shows in the answer");
    }
    let read = [STALE, LOST, TORN, MISDIRECTED, VICTIM, ROTTEN].map(|offset| {
        cookie += 1;
        let reply = client.call(&Request::new(READ, cookie, offset as u64, 4096)).unwrap();
        assert_eq!(reply.error, 0, "no fault shows in the answer");
        reply.data
    });
    drop(client);
    served.interrupt();
    (read, fs::read(&image).unwrap())
}

fn ones(bytes: &[u8]) -> u32 {
    bytes.iter().map(|byte| byte.count_ones()).sum()
}

#[test]
fn faults_of_data_are_what_clients_read_and_what_is_saved() {
    let ([stale, lost, torn, right_place, wrong_place, rotten], image) = spoilt(&[]);
    assert!(stale == [1; 4096] && lost == [0; 4096]);
    assert!(torn == [[4; 2048], [0; 2048]].concat());
    assert!(right_place == [0; 4096] && wrong_place == [5; 4096]);
    assert!(ones(&rotten) == 1 && ones(&rotten[..512]) == 1);
    let saved = |offset: usize| &image[offset..offset + 4096];
    assert!(saved(STALE) == [2; 4096], "a stale read changes nothing");
    assert!(saved(LOST) == lost && saved(TORN) == torn && saved(VICTIM) == wrong_place);
    assert!(saved(ROTTEN) == rotten);

    let (read, image) = spoilt(&["--pristine"]);
    assert!(read == [stale, lost, torn, right_place, wrong_place, rotten], "the same seed, the same faults");
    let saved = |offset: usize| &image[offset..offset + 4096];
    for (offset, fill) in [(STALE, 2), (LOST, 3), (TORN, 4), (MISDIRECTED, 5), (VICTIM, 0), (ROTTEN, 0)] {
        assert!(saved(offset) == [fill; 4096], "{offset}");
    }
}
