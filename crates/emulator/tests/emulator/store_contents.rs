//! The store against a plain array: whatever the operations, the contents are the same.

use std::fs::File;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestCaseResult};
use seeklab_core::units::ByteSize;
use seeklab_emulator::store::{Access, Allocation, Store, StoreError};

const PAGE: usize = 4096;
/// Across the boundary between two 2 MiB chunks, and not a whole number of pages.
const MODEL_BYTES: usize = (4 << 20) + 700;

fn size(bytes: usize) -> ByteSize {
    ByteSize::from_bytes(bytes as u64)
}

fn ram(bytes: usize) -> Store {
    Store::in_ram(size(bytes), Some(size(1 << 30))).unwrap()
}

fn file(path: &Path, bytes: usize) -> Store {
    Store::in_file(path, size(bytes), Access::ReadWrite).unwrap()
}

fn contents(store: &Store) -> Vec<u8> {
    let mut bytes = vec![0xee; store.size().as_bytes() as usize];
    store.read(0, &mut bytes).unwrap();
    bytes
}

/// FNV-1a, 64 bits: enough to tell two devices apart.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
        (digest ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Bytes that differ from place to place and are never zero.
fn pattern(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|index| ((index * 31 + seed * 17) % 255) as u8 + 1).collect()
}

#[derive(Debug, Clone)]
enum Operation {
    Read,
    Write {
        seed: u64,
        fua: bool,
    },
    /// A write of which some is zero: pages, or their parts.
    WriteMixed {
        seed: u64,
        zero_from: usize,
    },
    Discard,
    WriteZeroes {
        may_unmap: bool,
    },
    Flush,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        2 => Just(Operation::Read),
        4 => (any::<u64>(), any::<bool>())
            .prop_map(|(seed, fua)| Operation::Write { seed: seed % 1000, fua }),
        2 => (any::<u64>(), 0..3 * PAGE)
            .prop_map(|(seed, zero_from)| Operation::WriteMixed { seed: seed % 1000, zero_from }),
        2 => Just(Operation::Discard),
        2 => any::<bool>().prop_map(|may_unmap| Operation::WriteZeroes { may_unmap }),
        1 => Just(Operation::Flush),
    ]
}

/// Offset and length: often a few pages near the boundary of two chunks, sometimes aligned,
/// sometimes large, sometimes nothing.
fn range() -> impl Strategy<Value = (usize, usize)> {
    let near = ((2 << 20) - 8 * PAGE..(2 << 20) + 8 * PAGE, 0..5 * PAGE);
    let aligned = (0..24_usize, 1..6_usize).prop_map(|(first, count)| (first * PAGE, count * PAGE));
    let sectors = (0..200_usize, 1..40_usize).prop_map(|(first, count)| (first * 512, count * 512));
    let any = (0..MODEL_BYTES, 0..MODEL_BYTES);
    prop_oneof![4 => near, 3 => aligned, 3 => sectors, 1 => any]
        .prop_map(|(offset, length)| (offset, length.min(MODEL_BYTES - offset)))
}

fn apply(store: &Store, model: &mut [u8], operation: &Operation, range: (usize, usize)) -> TestCaseResult {
    let (offset, length) = range;
    let target = &mut model[offset..offset + length];
    let (at, count) = (offset as u64, length as u64);
    let result = match operation {
        Operation::Read => {
            let mut buffer = vec![0xee; length];
            let result = store.read(at, &mut buffer);
            prop_assert!(buffer == target, "read at {offset}, {length} bytes");
            result
        }
        Operation::Write { seed, fua } => {
            target.copy_from_slice(&pattern(*seed, length));
            if *fua { store.write_fua(at, target) } else { store.write(at, target) }
        }
        Operation::WriteMixed { seed, zero_from } => {
            target.copy_from_slice(&pattern(*seed, length));
            target[(*zero_from).min(length)..].fill(0);
            store.write(at, target)
        }
        Operation::Discard => {
            target.fill(0);
            store.discard(at, count)
        }
        Operation::WriteZeroes { may_unmap } => {
            target.fill(0);
            store.write_zeroes(at, count, *may_unmap)
        }
        Operation::Flush => store.flush(),
    };
    result.map_err(|error| TestCaseError::fail(error.to_string()))
}

/// Extents cover a range, alternate, and are right about holes.
fn check_extents(store: &Store, model: &[u8], (offset, length): (usize, usize)) -> TestCaseResult {
    let mut position = offset;
    let mut before = None;
    for extent in store.extents(offset as u64, length as u64).unwrap() {
        let extent = extent.unwrap();
        prop_assert!(extent.length > 0);
        prop_assert_ne!(before, Some(extent.allocation));
        before = Some(extent.allocation);
        let end = position + extent.length as usize;
        prop_assert!(end <= offset + length);
        if extent.allocation == Allocation::Hole {
            prop_assert!(model[position..end].iter().all(|byte| *byte == 0), "hole {position}..{end}");
        }
        position = end;
    }
    prop_assert_eq!(position, offset + length);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn store_in_memory_behaves_like_an_array(
        operations in vec((operation(), range()), 1..40),
        asked in range(),
    ) {
        let store = ram(MODEL_BYTES);
        let mut model = vec![0; MODEL_BYTES];
        let mut is_exact = true;
        for (operation, range) in &operations {
            is_exact &= !matches!(operation, Operation::WriteZeroes { may_unmap: false });
            apply(&store, &mut model, operation, *range)?;
        }
        prop_assert!(contents(&store) == model);
        check_extents(&store, &model, asked)?;
        check_extents(&store, &model, (0, MODEL_BYTES))?;
        if is_exact {
            // A page is there if and only if something in it is not zero.
            for (index, page) in model.chunks(PAGE).enumerate() {
                let extent = store.extents((index * PAGE) as u64, page.len() as u64).unwrap().next();
                let is_there = extent.unwrap().unwrap().allocation == Allocation::Allocated;
                prop_assert_eq!(is_there, page.iter().any(|byte| *byte != 0), "page {}", index);
            }
        }
        store.discard(0, MODEL_BYTES as u64).unwrap();
        let left = store.allocated_bytes().unwrap().as_bytes();
        prop_assert!(left < 24 << 10, "only tables stay, but {} bytes do", left);
    }

    #[test]
    fn store_in_a_file_behaves_like_an_array(
        operations in vec((operation(), range()), 1..24),
        asked in range(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        let mut model = vec![0; MODEL_BYTES];
        {
            let store = file(&path, MODEL_BYTES);
            for (operation, range) in &operations {
                apply(&store, &mut model, operation, *range)?;
            }
            prop_assert!(contents(&store) == model);
            check_extents(&store, &model, asked)?;
        }
        let reopened = Store::in_file(&path, size(MODEL_BYTES), Access::ReadOnly).unwrap();
        prop_assert!(contents(&reopened) == model);
        prop_assert!(std::fs::read(&path).unwrap() == model);
    }

    #[test]
    fn image_carries_all_contents(operations in vec((operation(), range()), 1..12)) {
        let folder = tempfile::tempdir().unwrap();
        let (image, again) = (folder.path().join("image"), folder.path().join("again"));
        let store = ram(MODEL_BYTES);
        let mut model = vec![0; MODEL_BYTES];
        for (operation, range) in &operations {
            apply(&store, &mut model, operation, *range)?;
        }
        store.save_image(&image).unwrap();
        prop_assert_eq!(digest(&std::fs::read(&image).unwrap()), digest(&model));
        let kept = file(&folder.path().join("device"), MODEL_BYTES);
        kept.write(5, b"what was there before goes").unwrap();
        kept.load_image(&image).unwrap();
        prop_assert_eq!(digest(&contents(&kept)), digest(&model));
        kept.save_image(&again).unwrap();
        let loaded = ram(MODEL_BYTES);
        loaded.load_image(&again).unwrap();
        prop_assert_eq!(digest(&contents(&loaded)), digest(&model));
        let copied = ram(MODEL_BYTES);
        copied.write(9, b"this goes, too").unwrap();
        copied.copy_from(&loaded).unwrap();
        prop_assert_eq!(digest(&contents(&copied)), digest(&model));
    }
}

#[test]
fn terabyte_with_three_writes_takes_little_memory() {
    let store = ram(1 << 40);
    assert!(store.allocated_bytes().unwrap().as_bytes() <= 25 << 10);
    for offset in [0, 1 << 39, (1 << 40) - 10] {
        store.write(offset, b"superblock").unwrap();
    }
    let used = store.allocated_bytes().unwrap().as_bytes();
    assert!(used < 1 << 20, "{used}");
    let extents: Vec<_> = store.extents(0, 1 << 40).unwrap().map(Result::unwrap).collect();
    assert_eq!(extents.len(), 5);
    assert_eq!(extents.iter().map(|extent| extent.length).sum::<u64>(), 1 << 40);
}

#[test]
fn zero_pages_take_no_memory() {
    let store = ram(1 << 40);
    let empty = store.allocated_bytes().unwrap();
    store.write(1 << 30, &vec![0; 8 << 20]).unwrap();
    store.write_zeroes(0, 1 << 40, true).unwrap();
    store.write_zeroes(0, 1 << 40, false).unwrap();
    assert_eq!(store.allocated_bytes().unwrap(), empty);
    store.write(777, &[1; 9000]).unwrap();
    let held = store.allocated_bytes().unwrap();
    // Sector by sector, the last one frees the page.
    for offset in (0..10_240).step_by(512) {
        store.write(offset, &[0; 512]).unwrap();
    }
    let left = store.allocated_bytes().unwrap();
    assert!(left.as_bytes() + 3 * 4096 < held.as_bytes(), "{held} before, {left} after");
}

#[test]
fn ranges_beyond_the_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for store in [ram(10_000), file(&folder.path().join("device"), 10_000)] {
        let mut buffer = [0; 2];
        assert!(store.read(9_998, &mut buffer).is_ok());
        store.read(10_000, &mut []).unwrap();
        let refusals = [
            store.read(9_999, &mut buffer),
            store.read(u64::MAX, &mut buffer),
            store.write(9_999, &buffer),
            store.write_fua(10_000, &buffer),
            store.discard(1, 10_000),
            store.write_zeroes(u64::MAX - 1, 3, false),
            store.extents(10_001, 0).map(drop),
        ];
        for refusal in refusals {
            assert!(matches!(refusal, Err(StoreError::OutOfRange { .. })), "{refusal:?}");
        }
        assert_eq!(File::open(folder.path().join("device")).unwrap().metadata().unwrap().len(), 10_000);
    }
}
