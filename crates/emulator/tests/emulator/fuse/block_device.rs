//! The block device: settings, contents, depth, discard.

use std::path::Path;

use crate::fuse::file::{fio, verify};
use crate::fuse::harness::{Served, Serving, can, pattern, run};

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn device_has_the_requested_settings() {
    if !can("device_has_the_requested_settings", true, &[]) {
        return;
    }
    let served = Served { rotational: true, block_size: 4096, read_only: true, ..Served::block_device(8) };
    let serving = Serving::start(&served);
    for part in ["rotational: true", "block_size_bytes: 4096", "read_ahead_kib: 128"] {
        assert!(serving.queue.contains(part), "{}", serving.queue);
    }
    assert_eq!(run("blockdev", ["--getro", serving.device()]).trim(), "1");
    assert_eq!(run("blockdev", ["--getsize64", serving.device()]).trim(), "8388608");
    let folder = Path::new("/sys/block").join(serving.path.file_name().expect("it has a name"));
    assert_eq!(std::fs::read_to_string(folder.join("loop/dio")).expect("it is there").trim(), "1");
    assert_eq!(std::fs::read_to_string(folder.join("loop/autoclear")).expect("it is there").trim(), "1");
    assert_eq!(std::fs::read_to_string(folder.join("loop/partscan")).expect("it is there").trim(), "0");
    assert_eq!(serving.end().detached, Some(true));
    assert!(!folder.join("loop").exists(), "nothing is left behind");
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn device_returns_the_written_data() {
    if !can("device_returns_the_written_data", true, &[]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    let (source, copy) = (folder.path().join("source"), folder.path().join("copy"));
    std::fs::write(&source, pattern(32 << 20)).expect("it can be written");
    let file = |way: &str, path: &Path| format!("{way}={}", path.display());
    let serving = Serving::start(&Served::block_device(32));
    // Direct, through the page cache, and in blocks as small as there are.
    for (writing, reading, size) in
        [("direct", "direct", "1M"), ("nocache", "direct", "64k"), ("direct", "direct", "512")]
    {
        run("blkdiscard", ["-f", serving.device()]);
        let counted = format!("count={}", if size == "512" { 2048 } else { 100_000 });
        let sized = format!("bs={size}");
        let flags = [format!("oflag={writing}"), format!("iflag={reading}")];
        run(
            "dd",
            [
                &file("if", &source),
                &file("of", &serving.path),
                &sized,
                &counted,
                &flags[0],
                "conv=fsync,notrunc",
            ],
        );
        run("dd", [&file("if", &serving.path), &file("of", &copy), &sized, &counted, &flags[1]]);
        let length = copy.metadata().expect("it is there").len().min(32 << 20) as usize;
        assert!(length >= 1 << 20);
        let (source, copy) =
            (std::fs::read(&source).expect("it is there"), std::fs::read(&copy).expect("it is there"));
        assert!(source[..length] == copy[..length], "contents differ: {writing} {size}");
    }
    run("blkdiscard", ["-f", serving.device()]);
    let figures = serving.end();
    assert!(figures.flushes >= 3, "{figures:?}");
    assert_eq!(figures.malformed, 0);
    assert!(
        figures.allocated_bytes < 64 << 10,
        "discarding frees the store, but for its tables: {figures:?}"
    );
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn loop_device_keeps_the_queue_depth_of_the_client() {
    if !can("loop_device_keeps_the_queue_depth_of_the_client", true, &["fio"]) {
        return;
    }
    let serving = Serving::start(&Served { service_us: 200, ..Served::block_device(64) });
    fio(serving.device(), &["--rw=randrw", "--iodepth=32", "--number_ios=3000", "--bs=4k"]);
    let figures = serving.end();
    assert_eq!(figures.outstanding_max, 32, "{figures:?}");
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn fio_verifies_its_data_on_the_device() {
    if !can("fio_verifies_its_data_on_the_device", true, &["fio"]) {
        return;
    }
    let serving = Serving::start(&Served { service_us: 20, ..Served::block_device(64) });
    verify(serving.device());
    assert_eq!(serving.end().malformed, 0);
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn contents_survive_a_restart() {
    if !can("contents_survive_a_restart", true, &["sha256sum"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    let source = folder.path().join("source");
    std::fs::write(&source, pattern(24 << 20)).expect("it can be written");
    let served = Served { file: Some(folder.path().join("store")), ..Served::block_device(32) };
    let digest = |serving: &Serving| {
        let text = run("sha256sum", [serving.device()]);
        text.split_whitespace().next().expect("it prints the digest").to_owned()
    };
    let serving = Serving::start(&served);
    // Through the page cache: what is dirty when the device is given up must get there.
    run("dd", [&format!("if={}", source.display()), &format!("of={}", serving.device()), "bs=1M", "seek=4"]);
    let before = digest(&serving);
    assert_eq!(serving.end().detached, Some(true));
    let serving = Serving::start(&served);
    assert_eq!(digest(&serving), before);
    let mut image = vec![0; 4 << 20];
    image.extend(pattern(24 << 20));
    image.resize(32 << 20, 0);
    assert!(std::fs::read(&serving.path).expect("it can be read") == image, "contents differ");
    serving.end();
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn device_is_new_to_the_kernel_each_time() {
    if !can("device_is_new_to_the_kernel_each_time", true, &[]) {
        return;
    }
    for _ in 0..2 {
        let serving = Serving::start(&Served::block_device(8));
        let folder = Path::new("/sys/block").join(serving.path.file_name().expect("it has a name"));
        let counters = std::fs::read_to_string(folder.join("stat")).expect("it is there");
        assert_eq!(counters.split_whitespace().nth(4), Some("0"), "it was written before: {counters}");
        run("dd", ["if=/dev/zero", &format!("of={}", serving.device()), "bs=1M", "count=4", "conv=fsync"]);
        serving.end();
    }
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn two_devices_have_different_backing_files() {
    if !can("two_devices_have_different_backing_files", true, &[]) {
        return;
    }
    // mkfs.btrfs takes a loop device whose file has the name of a mounted one's for mounted.
    let name = |serving: &Serving| {
        let folder = Path::new("/sys/block").join(serving.path.file_name().expect("it has a name"));
        std::fs::read_to_string(folder.join("loop/backing_file")).expect("it is there")
    };
    let (first, second) =
        (Serving::start(&Served::block_device(1)), Serving::start(&Served::block_device(1)));
    assert_ne!(name(&first), name(&second));
    assert!(name(&first).contains("seeklab-"), "{}", name(&first));
}
