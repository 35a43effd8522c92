//! Transfers leave the same contents as the same operations one after the other.

use proptest::prelude::*;
use seeklab_core::units::ByteSize;

use super::super::{Access, Store};
use super::*;

const SIZE: u64 = 1 << 20;

/// Transfers over a new file, unless there is no io_uring.
fn transfers(folder: &tempfile::TempDir, size: u64) -> Option<(Arc<FileStore>, Transfers)> {
    let path = folder.path().join("disk");
    let store = Store::in_file(&path, ByteSize::from_bytes(size), Access::ReadWrite).unwrap();
    let Store::File(file) = store else { unreachable!("it is in a file") };
    match Transfers::over(&file, Clock::start()) {
        Ok(transfers) => Some((file, transfers)),
        Err(error) => {
            println!("SKIP: io_uring cannot be used here: {error}");
            None
        }
    }
}

#[derive(Debug, Clone)]
struct Asked {
    work: Work,
    offset: u64,
    length: u64,
    fill: u8,
}

fn asked() -> impl Strategy<Value = Asked> {
    let work = prop_oneof![
        5 => Just(Work::Read),
        5 => Just(Work::Write { durably: false }),
        1 => Just(Work::Write { durably: true }),
        1 => Just(Work::Flush),
        1 => Just(Work::Discard { durably: false }),
        1 => Just(Work::Zero { durably: true }),
    ];
    // Few blocks, so that much overlaps; lengths over several pages, so that something runs long.
    (work, 0..64_u64, 1..32_u64, 1..=255_u8).prop_map(|(work, block, blocks, fill)| Asked {
        work,
        offset: if work == Work::Flush { 0 } else { block * 4096 },
        length: if work == Work::Flush { 0 } else { blocks * 4096 },
        fill,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn contents_follow_the_order_of_arrival(asked in prop::collection::vec(asked(), 1..120)) {
        let folder = tempfile::tempdir().unwrap();
        let Some((file, mut transfers)) = transfers(&folder, SIZE) else { return Ok(()) };
        let mut known = vec![0_u8; SIZE as usize];
        let mut tokens = Vec::new();
        for Asked { work, offset, length, fill } in &asked {
            let range = *offset as usize..(*offset + *length) as usize;
            let bytes = vec![*fill; if matches!(work, Work::Write { .. }) { *length as usize } else { 0 }];
            let token = transfers.begin(*work, *offset, *length, &bytes).unwrap().expect("so much may be held");
            let expected = match work {
                Work::Read => known[range].to_vec(),
                Work::Write { .. } => {
                    known[range].fill(*fill);
                    bytes
                }
                Work::Flush => Vec::new(),
                Work::Discard { .. } | Work::Zero { .. } => {
                    known[range].fill(0);
                    Vec::new()
                }
            };
            tokens.push((token, expected));
            // Sometimes the kernel hears of it at once, sometimes of many.
            if fill % 3 == 0 {
                transfers.look().unwrap();
            }
        }
        transfers.settle_all().unwrap();
        for (token, expected) in tokens {
            prop_assert!(transfers.has_ended(token));
            let transferred = transfers.take(token).unwrap();
            let bytes = transferred.result.unwrap();
            prop_assert!(bytes == expected);
            transfers.give_back(bytes);
        }
        prop_assert_eq!(transfers.held_bytes, 0);
        let mut whole = vec![1; SIZE as usize];
        file.read(0, &mut whole).unwrap();
        prop_assert!(whole == known);
    }
}

#[test]
fn flush_begins_after_every_earlier_change_and_delays_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some((_, mut transfers)) = transfers(&folder, SIZE) else { return };
    let write = Work::Write { durably: false };
    // Not yet submitted, so neither can have ended.
    transfers.begin(write, 0, 4096, &[1; 4096]).unwrap().unwrap();
    transfers.begin(write, 8192, 4096, &[2; 4096]).unwrap().unwrap();
    transfers.begin(Work::Read, 65536, 4096, &[]).unwrap().unwrap();
    let flush = transfers.begin(Work::Flush, 0, 0, &[]).unwrap().unwrap();
    let later = transfers.begin(write, 0, 4096, &[3; 4096]).unwrap().unwrap();
    let elsewhere = transfers.begin(write, 32768, 4096, &[3; 4096]).unwrap().unwrap();
    let state = |transfers: &Transfers, token: Token| match &transfers.operations[token.0 as usize].state {
        State::Waiting { earlier, .. } => Some(*earlier),
        State::Running { .. } | State::Ready(_) => None,
        state => panic!("{state:?}"),
    };
    assert_eq!(state(&transfers, flush), Some(2), "both writes, and not the read");
    assert_eq!(state(&transfers, later), Some(1), "the write there, and not the flush");
    assert_eq!(state(&transfers, elsewhere), None);
    transfers.settle_all().unwrap();
    let ended = |transfers: &mut Transfers, token| transfers.take(token).unwrap().result.map(drop);
    for token in [flush, later, elsewhere] {
        ended(&mut transfers, token).unwrap();
    }
}

#[test]
fn impossible_transfers_are_refused_or_fail_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let Some((file, mut transfers)) = transfers(&folder, SIZE) else { return };
    let beyond = transfers.begin(Work::Read, SIZE - 4096, 8192, &[]);
    assert!(matches!(beyond, Err(StoreError::OutOfRange { .. })), "{beyond:?}");
    let overflow = transfers.begin(Work::Discard { durably: false }, u64::MAX, 2, &[]);
    assert!(matches!(overflow, Err(StoreError::OutOfRange { .. })), "{overflow:?}");
    // Somebody cuts the file: what is no longer there cannot be read.
    File::options().write(true).open(file.path()).unwrap().set_len(8192).unwrap();
    let across = transfers.begin(Work::Read, 4096, 8192, &[]).unwrap().unwrap();
    let within = transfers.begin(Work::Read, 0, 8192, &[]).unwrap().unwrap();
    transfers.settle_all().unwrap();
    let error = transfers.take(across).unwrap().result.unwrap_err();
    assert!(matches!(error, StoreError::Io { operation: "read", .. }), "{error:?}");
    assert_eq!(transfers.take(within).unwrap().result.unwrap().len(), 8192);
    drop((transfers, file));
    let path = folder.path().join("disk");
    let store = Store::in_file(&path, ByteSize::from_bytes(8192), Access::ReadOnly).unwrap();
    let Store::File(file) = store else { unreachable!("it is in a file") };
    let mut transfers = Transfers::over(&file, Clock::start()).unwrap();
    let refused = transfers.begin(Work::Write { durably: false }, 0, 512, &[0; 512]);
    assert!(matches!(refused, Err(StoreError::ReadOnly { .. })), "{refused:?}");
    assert!(transfers.begin(Work::Flush, 0, 0, &[]).unwrap().is_some(), "readers may flush");
}

#[test]
fn memory_of_transfers_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let Some((_, mut transfers)) = transfers(&folder, 1 << 30) else { return };
    let length = 16 << 20;
    let mut tokens = Vec::new();
    while let Some(token) = transfers.begin(Work::Read, 0, length, &[]).unwrap() {
        tokens.push(token);
        assert!(tokens.len() as u64 * length <= HELD_BYTES_MAX);
    }
    assert_eq!(tokens.len() as u64, HELD_BYTES_MAX / length);
    assert!(transfers.begin(Work::Flush, 0, 0, &[]).unwrap().is_some(), "it holds nothing");
    transfers.settle(0, length).unwrap();
    // Ended is not taken: the bytes are still held.
    assert!(transfers.begin(Work::Read, 0, length, &[]).unwrap().is_none());
    let bytes = transfers.take(tokens[0]).unwrap().result.unwrap();
    assert_eq!(bytes.len() as u64, length);
    assert!(transfers.begin(Work::Read, 0, length, &[]).unwrap().is_some());
}

#[test]
fn more_operations_than_entries_of_the_ring_are_done() {
    let folder = tempfile::tempdir().unwrap();
    let Some((file, mut transfers)) = transfers(&folder, 8 << 20) else { return };
    let write = Work::Write { durably: false };
    let mut tokens = Vec::new();
    for index in 0..UNDER_WAY_MAX as u64 {
        let bytes = [index as u8; 4096];
        tokens.push(transfers.begin(write, index * 4096, 4096, &bytes).unwrap().unwrap());
    }
    assert!(transfers.begin(write, 0, 4096, &[0; 4096]).unwrap().is_none(), "more are too many");
    transfers.settle_all().unwrap();
    for (index, token) in tokens.into_iter().enumerate() {
        transfers.take(token).unwrap().result.unwrap();
        let mut bytes = [0; 4096];
        file.read(index as u64 * 4096, &mut bytes).unwrap();
        assert_eq!(bytes, [index as u8; 4096]);
    }
}

#[test]
fn dropping_waits_for_the_kernel() {
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let Some((file, mut transfers)) = transfers(&folder, SIZE) else { return };
        for index in 0..64 {
            let token =
                transfers.begin(Work::Write { durably: index % 7 == 0 }, index * 8192, 8192, &[9; 8192]);
            token.unwrap().unwrap();
        }
        transfers.look().unwrap();
        drop(transfers);
        // Nothing refers to the file any more.
        assert_eq!(Arc::strong_count(&file), 1);
    }
}
