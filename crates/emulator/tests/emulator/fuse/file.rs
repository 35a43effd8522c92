//! The file on a real mount: as root, and through `fusermount3` as somebody else.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, OFlags, SeekFrom as Whence, fallocate, seek};
use rustix::io::Errno;

use crate::fuse::harness::{Served, Serving, attempt, can, pattern, run};

fn open(path: &Path, flags: OFlags) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(flags.bits() as i32);
    options.open(path).expect("the file is there")
}

fn served(size_mib: u64, change: impl FnOnce(&mut Served)) -> (tempfile::TempDir, Serving) {
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    let mut served = Served::file_in(folder.path(), size_mib);
    change(&mut served);
    let serving = Serving::start(&served);
    (folder, serving)
}

fn is_mounted(folder: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("Linux has it");
    mounts.contains(&format!(" {} ", folder.display()))
}

#[test]
#[cfg_attr(not(fuse), ignore = "needs /dev/fuse")]
fn file_returns_the_written_data() {
    if !can("file_returns_the_written_data", false, &[]) {
        return;
    }
    let (folder, serving) = served(16, |_| {});
    assert!(is_mounted(folder.path()));
    let file = open(&serving.path, OFlags::empty());
    let metadata = file.metadata().expect("it is answered");
    assert_eq!((metadata.len(), metadata.mode()), (16 << 20, 0o100_600));
    let names: Vec<_> = folder.path().read_dir().expect("it is answered").collect();
    assert_eq!(names.len(), 1);
    let bytes = pattern(16 << 20);
    file.write_all_at(&bytes, 0).expect("it is taken");
    let mut back = vec![0; bytes.len()];
    file.read_exact_at(&mut back, 0).expect("it is given");
    assert!(back == bytes, "contents differ");
    // Any range, and the end.
    for (offset, length) in [(0, 1), (511, 2), (1_000_003, 12_345), ((16 << 20) - 7, 7)] {
        let mut part = vec![0; length];
        file.read_exact_at(&mut part, offset).expect("it is given");
        assert_eq!(part, bytes[offset as usize..][..length], "{offset}");
    }
    assert_eq!(file.read_at(&mut [0; 100], (16 << 20) - 7).expect("it is given"), 7);
    assert_eq!(file.read_at(&mut [0; 100], 16 << 20).expect("it is given"), 0);
    // From any place to any place: memory that is not aligned is cut by the kernel anyhow.
    let mut bytes = bytes;
    for (number, (offset, length)) in
        [(1, 511), (511, 2), (4095, 3), (1_000_003, 2_000_001), (7 << 20, 5 << 20)].into_iter().enumerate()
    {
        bytes[offset..][..length].fill(number as u8 + 1);
        file.write_all_at(&bytes[offset..][..length], offset as u64).expect("it is taken");
    }
    file.read_exact_at(&mut back, 0).expect("it is given");
    assert!(back == bytes, "contents differ");
    let error = file.write_at(&[0; 512], 16 << 20).expect_err("it is beyond the end");
    assert_eq!(error.raw_os_error(), Some(28));
    assert_eq!(file.write_at(&[5; 1024], (16 << 20) - 512).expect("half of it fits"), 512);
    drop(file);
    let direct = open(&serving.path, OFlags::DIRECT);
    drop(direct);
    File::create(&serving.path).expect("truncation is ignored");
    assert_eq!(std::fs::metadata(&serving.path).expect("it is answered").len(), 16 << 20);
    run("dd", [&format!("if={}", serving.device()), "of=/dev/null", "bs=1M", "iflag=direct"]);
    let figures = serving.end();
    assert_eq!((figures.malformed, figures.refused), (0, 0), "{figures:?}");
    assert!(!is_mounted(folder.path()), "nothing is left behind");
}

#[test]
#[cfg_attr(not(fuse), ignore = "needs /dev/fuse")]
fn flush_fua_discard_zeroes_and_holes_arrive() {
    if !can("flush_fua_discard_zeroes_and_holes_arrive", false, &[]) {
        return;
    }
    const MIB: u64 = 1 << 20;
    let (_folder, serving) = served(64, |_| {});
    let mut file = open(&serving.path, OFlags::empty());
    let whole = |file: &File| {
        let mut bytes = vec![1; 64 << 20];
        file.read_exact_at(&mut bytes, 0).expect("it is given");
        bytes
    };
    file.write_all_at(&vec![9; 8 << 20], 8 * MIB).expect("it is taken");
    file.sync_all().expect("it is flushed");
    file.sync_data().expect("it is flushed");
    assert_eq!(seek(&file, Whence::Data(0)), Ok(8 * MIB));
    assert_eq!(seek(&file, Whence::Hole(9 * MIB)), Ok(16 * MIB));
    assert_eq!(seek(&file, Whence::Data(20 * MIB)), Err(Errno::NXIO));
    assert_eq!(seek(&file, Whence::Hole(20 * MIB)), Ok(20 * MIB));
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    fallocate(&file, punch, 9 * MIB, MIB).expect("it is discarded");
    fallocate(&file, FallocateFlags::ZERO_RANGE, 11 * MIB, MIB).expect("it is zeroed");
    assert_eq!(fallocate(&file, FallocateFlags::empty(), 0, MIB), Err(Errno::OPNOTSUPP));
    assert_eq!(seek(&file, Whence::Hole(8 * MIB)), Ok(9 * MIB));
    let mut expected = vec![0; 64 << 20];
    for mib in [8, 10, 12, 13, 14, 15] {
        expected[mib << 20..(mib + 1) << 20].fill(9);
    }
    assert!(whole(&file) == expected, "contents differ");
    let durable = open(&serving.path, OFlags::DSYNC);
    durable.write_all_at(&[7; 4096], 40 * MIB).expect("it is taken");
    file.seek(SeekFrom::Start(40 * MIB)).expect("it is answered");
    let mut byte = [0];
    file.read_exact(&mut byte).expect("it is given");
    assert_eq!(byte, [7]);
    file.flush().expect("nothing is held back");
    fallocate(&file, punch, 0, 64 * MIB).expect("it is discarded");
    assert!(whole(&file).iter().all(|byte| *byte == 0));
    drop((file, durable));
    let figures = serving.end();
    assert_eq!((figures.flushes, figures.fua_writes), (2, 1), "{figures:?}");
    assert!(
        figures.allocated_bytes < 64 << 10,
        "discarding frees the store, but for its tables: {figures:?}"
    );
}

#[test]
#[cfg_attr(not(fuse), ignore = "needs /dev/fuse")]
fn read_only_device_refuses_to_be_opened_for_writing() {
    if !can("read_only_device_refuses_to_be_opened_for_writing", false, &[]) {
        return;
    }
    let (_folder, serving) = served(1, |served| served.read_only = true);
    let error = OpenOptions::new().write(true).open(&serving.path).expect_err("it is read-only");
    assert_eq!(error.raw_os_error(), Some(30));
    assert_eq!(std::fs::read(&serving.path).expect("it can be read"), vec![0; 1 << 20]);
    serving.end();
}

#[test]
#[cfg_attr(not(fuse), ignore = "needs /dev/fuse")]
fn file_keeps_the_queue_depth_of_the_client() {
    if !can("file_keeps_the_queue_depth_of_the_client", false, &["fio"]) {
        return;
    }
    let (folder, serving) = served(64, |served| served.service_us = 200);
    fio(serving.device(), &["--rw=randrw", "--iodepth=32", "--number_ios=3000", "--bs=4k"]);
    let figures = serving.end();
    assert_eq!(figures.outstanding_max, 32, "{figures:?}");
    drop(folder);
}

pub(crate) fn fio(path: &str, options: &[&str]) -> String {
    let name = format!("--filename={path}");
    let common = ["--name=test", "--direct=1", "--ioengine=libaio", "--size=32m", "--randrepeat=1", &name];
    run("fio", common.iter().chain(options))
}

#[test]
#[cfg_attr(not(fuse), ignore = "needs /dev/fuse")]
fn fio_verifies_its_data_in_the_file() {
    if !can("fio_verifies_its_data_in_the_file", false, &["fio"]) {
        return;
    }
    let (_folder, serving) = served(64, |served| served.service_us = 20);
    verify(serving.device());
    assert_eq!(serving.end().malformed, 0);
}

pub(crate) fn verify(path: &str) {
    let verifying =
        ["--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", "--do_verify=1", "--fsync=64"];
    let load =
        ["--rw=randwrite", "--bsrange=512-128k", "--bs_unaligned=0", "--blockalign=512", "--iodepth=32"];
    let options: Vec<&str> = load.into_iter().chain(verifying).collect();
    fio(path, &options);
}

#[test]
#[cfg_attr(not(fuse), ignore = "needs /dev/fuse")]
fn user_without_privilege_mounts() {
    let test = "user_without_privilege_mounts";
    if !can(test, false, &["fusermount3", "setpriv"]) || !rustix::process::geteuid().is_root() {
        return;
    }
    // The same test as another user, in folders that this user may enter.
    let program = std::env::current_exe().expect("this program has a path");
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    let copy = folder.path().join("test");
    std::fs::copy(program, &copy).expect("there is room");
    run("chown", ["-R", "65534:65534", folder.path().to_str().expect("it is UTF-8")]);
    let identity = ["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"];
    let temporary = format!("TMPDIR={}", folder.path().display());
    let copy = copy.to_str().expect("it is UTF-8");
    let tests = ["--exact", "fuse::file::file_returns_the_written_data", "--nocapture"];
    let arguments = identity.into_iter().chain(["env", &temporary, copy]).chain(tests);
    let (success, text) = attempt("setpriv", arguments);
    if text.contains("skipped") {
        eprintln!("skipped: {test}: {text}");
        return;
    }
    assert!(success && text.contains("1 passed"), "{text}");
    assert!(!is_mounted(folder.path()));
}

#[test]
fn place_is_checked_before_it_is_used() {
    use seeklab_emulator::frontend::fuse::{Place, unavailability};
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    let absent = unavailability(&Place::At(folder.path().join("absent"))).expect("it is not there");
    if !absent.contains("/dev/fuse") {
        assert!(absent.contains("create the directory first"), "{absent}");
        std::fs::write(folder.path().join("precious"), "x").expect("it can be written");
        let full = unavailability(&Place::At(folder.path().to_owned())).expect("it is not empty");
        assert!(full.contains("is not empty"), "{full}");
    }
}
