//! Durability of the store: a cap reached, several openers, several threads, and `kill -9`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use seeklab_core::units::ByteSize;
use seeklab_emulator::store::{Access, Store, StoreError, image_size};

const SIZE: ByteSize = ByteSize::from_bytes(64 << 20);

fn open(path: &Path) -> Result<Store, StoreError> {
    Store::in_file(path, SIZE, Access::ReadWrite)
}

#[test]
fn full_store_refuses_and_loses_nothing() {
    let cap = ByteSize::from_bytes(1 << 20);
    let store = Store::in_ram(SIZE, Some(cap)).unwrap();
    let mut kept = 0_u64;
    let refusal = loop {
        match store.write(kept * 4096, &[kept as u8 | 1; 4096]) {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refusal, StoreError::NoSpace { .. }), "{refusal}");
    assert_eq!(refusal.errno(), 28);
    assert!(refusal.hint().unwrap().contains("file:"));
    assert!((240..256).contains(&kept), "{kept} pages");
    let used = store.allocated_bytes().unwrap();
    assert!(used <= cap);
    // A write of which a part would fit changes nothing, across chunks too.
    assert!(store.write((kept - 1) * 4096, &[9; 8192]).is_err());
    assert!(store.write((2 << 20) - 4096, &[9; 8192]).is_err());
    assert_eq!(store.allocated_bytes().unwrap(), used);
    let mut buffer = [0; 4096];
    for index in 0..kept {
        store.read(index * 4096, &mut buffer).unwrap();
        assert_eq!(buffer, [index as u8 | 1; 4096]);
    }
    // What is there can be overwritten, and what is given back can be used again.
    store.write(4096, &[7; 4096]).unwrap();
    store.write(kept * 4096, &[0; 4096]).unwrap();
    store.discard(0, 4096).unwrap();
    store.write(kept * 4096, &[8; 4096]).unwrap();
    assert!(store.write(0, b"x").is_err());
}

#[test]
fn device_too_large_for_its_tables_is_refused() {
    let device = ByteSize::from_bytes(1 << 50);
    let refusal = Store::in_ram(device, Some(ByteSize::from_bytes(1 << 20))).unwrap_err();
    assert!(matches!(refusal, StoreError::NoSpace { .. }), "{refusal}");
}

#[test]
fn threads_keep_the_count_and_the_cap() {
    let cap = ByteSize::from_bytes(2 << 20);
    let store = Store::in_ram(SIZE, Some(cap)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let store = &store;
            scope.spawn(move || {
                for step in 0..2_000_u64 {
                    // The same places for all, across a chunk boundary, to and fro around the cap.
                    let offset = (2 << 20) - 65_536 + (step * 7919 + thread) % 64 * 4096;
                    let bytes = vec![thread as u8 + 1; 65_536];
                    match store.write(offset, &bytes) {
                        Ok(()) | Err(StoreError::NoSpace { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                    assert!(store.allocated_bytes().unwrap() <= cap);
                    if step % 3 == 0 {
                        store.discard(offset + 100, 100_000).unwrap();
                    }
                }
            });
        }
    });
    store.discard(0, SIZE.as_bytes()).unwrap();
    assert!(store.allocated_bytes().unwrap().as_bytes() < 24 << 10);
}

#[test]
fn writes_are_atomic_to_writes() {
    let store = Store::in_ram(SIZE, None).unwrap();
    let offset = (2 << 20) - 8192;
    std::thread::scope(|scope| {
        for thread in 1..=3_u8 {
            let store = &store;
            scope.spawn(move || (0..500).for_each(|_| store.write(offset, &[thread; 16_384]).unwrap()));
        }
    });
    let mut bytes = [0; 16_384];
    store.read(offset, &mut bytes).unwrap();
    assert_eq!(bytes, [bytes[0]; 16_384]);
}

#[test]
fn second_opener_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    let first = open(&path).unwrap();
    assert!(matches!(open(&path), Err(StoreError::Locked { .. })));
    assert!(matches!(Store::in_file(&path, SIZE, Access::ReadOnly), Err(StoreError::Locked { .. })));
    // Neither is it an image meanwhile, to load or to replace: not even the store's own.
    assert!(matches!(first.load_image(&path), Err(StoreError::Locked { .. })));
    assert!(matches!(first.save_image(&path), Err(StoreError::Locked { .. })));
    drop(first);
    let readers = [(); 2].map(|()| Store::in_file(&path, SIZE, Access::ReadOnly).unwrap());
    assert!(matches!(open(&path), Err(StoreError::Locked { .. })));
    let refusal = readers[0].write(0, b"x").unwrap_err();
    assert!(matches!(refusal, StoreError::ReadOnly { .. }), "{refusal}");
    assert!(readers[0].discard(0, 1).is_err() && readers[0].write_fua(0, b"x").is_err());
}

#[test]
fn files_of_another_size_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    fs::write(&path, "not a device of this size").unwrap();
    let refusal = open(&path).unwrap_err();
    assert_eq!(refusal.to_string(), format!("`{}` holds 25B, but the device 64MiB", path.display()));
    assert_eq!(fs::read(&path).unwrap().len(), 25);
    assert!(matches!(open(folder.path()), Err(StoreError::Io { .. } | StoreError::Unsuitable { .. })));
    assert!(matches!(open(Path::new("/dev/null")), Err(StoreError::Unsuitable { .. })));
    assert!(Store::in_file(&folder.path().join("none"), SIZE, Access::ReadOnly).is_err());
}

#[test]
fn images_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let store = Store::in_ram(ByteSize::from_bytes(8192), None).unwrap();
    store.write(0, &[5; 8192]).unwrap();
    fs::write(&path, [1; 8193]).unwrap();
    assert!(matches!(store.load_image(&path), Err(StoreError::SizeMismatch { .. })));
    let mut bytes = [0; 8192];
    store.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [5; 8192]);
    fs::write(&path, [1; 5000]).unwrap();
    assert_eq!(image_size(&path).unwrap().as_bytes(), 5000);
    store.load_image(&path).unwrap();
    store.read(0, &mut bytes).unwrap();
    assert!(bytes[..5000] == [1; 5000] && bytes[5000..] == [0; 3192]);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    store.save_image(&link).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read(&path).unwrap(), bytes);
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for unsuitable in [folder.path(), &fifo] {
        assert!(matches!(store.save_image(unsuitable), Err(StoreError::Unsuitable { .. })));
    }
    assert!(store.save_image(&folder.path().join("no/such")).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn large_image_is_copied_sparsely() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image");
    let size = ByteSize::from_bytes(1 << 40);
    let store = Store::in_ram(size, None).unwrap();
    store.write(1 << 39, b"in the middle").unwrap();
    store.save_image(&path).unwrap();
    let image = Store::in_file(&path, size, Access::ReadOnly).unwrap();
    assert_eq!(image.size(), size);
    assert!(image.allocated_bytes().unwrap().as_bytes() < 1 << 20);
    let loaded = Store::in_ram(size, None).unwrap();
    loaded.load_image(&path).unwrap();
    let mut bytes = [0; 13];
    loaded.read(1 << 39, &mut bytes).unwrap();
    assert_eq!(&bytes, b"in the middle");
}

const GLUTTON: &str = "SEEKLAB_TEST_GLUTTON";

/// Not a test by itself: the process that the next test gives too little memory.
#[test]
fn glutton() {
    if std::env::var_os(GLUTTON).is_none() {
        return;
    }
    let size = ByteSize::from_bytes(1 << 30);
    let store = Store::in_ram(size, Some(size)).unwrap();
    let refused = (0_u64..).find_map(|index| store.write(index * 4096, &[3; 4096]).err()).unwrap();
    assert!(matches!(refused, StoreError::NoMemory { .. }), "{refused}");
    assert_eq!(refused.errno(), 28);
    let mut bytes = [0; 4096];
    store.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [3; 4096]);
    store.discard(0, 1 << 20).unwrap();
    store.write(0, &bytes).unwrap();
}

#[test]
fn refusal_of_the_allocator_ends_no_process() {
    let run = Command::new("sh")
        .args(["-c", "ulimit -v 400000 && exec \"$0\" --exact store_survival::glutton"])
        .arg(std::env::current_exe().unwrap())
        .env(GLUTTON, "yes")
        .output()
        .unwrap();
    assert!(run.status.success(), "{run:?}");
}

const VICTIM_PATH: &str = "SEEKLAB_TEST_VICTIM_PATH";

fn place(index: u64) -> u64 {
    index * 7919 % 16_000 * 4096
}

/// Not a test by itself: the process that the next test kills.
#[test]
fn victim() {
    let Some(path) = std::env::var_os(VICTIM_PATH) else { return };
    let store = open(Path::new(&path)).unwrap();
    for index in 0.. {
        let bytes = [index as u8 | 1; 4096];
        if index % 2 == 0 {
            store.write(place(index), &bytes).unwrap();
            store.flush().unwrap();
        } else {
            store.write_fua(place(index), &bytes).unwrap();
        }
        println!("flushed {index}");
        if index % 16_000 == 15_999 {
            return;
        }
    }
}

#[test]
fn flushed_data_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("device");
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store_survival::victim", "--nocapture"])
        .env(VICTIM_PATH, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let mut flushed = lines.filter_map(|line| line.unwrap().strip_prefix("flushed ")?.parse::<u64>().ok());
    let mut last = 0;
    let mut buffer = [0; 4096];
    while last < 50 {
        last = flushed.next().expect("the victim is alive");
        // Another process sees it at once.
        fs::File::open(&path).unwrap().read_exact_at(&mut buffer, place(last)).unwrap();
        assert_eq!(buffer, [last as u8 | 1; 4096]);
    }
    assert!(matches!(open(&path), Err(StoreError::Locked { .. })));
    victim.kill().unwrap();
    victim.wait().unwrap();
    // Output from before its death counts as well.
    last = flushed.last().unwrap_or(last);
    let store = open(&path).expect("the lock died with its holder");
    for index in 0..=last {
        store.read(place(index), &mut buffer).unwrap();
        assert_eq!(buffer, [index as u8 | 1; 4096], "write {index} of {last}");
    }
}
