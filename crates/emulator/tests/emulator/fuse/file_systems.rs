//! Real file systems on the block device: made, mounted, filled, compared, checked.

use std::fs;
use std::path::{Path, PathBuf};

use crate::fuse::harness::{Mounted, Served, Serving, can, pattern, run};

/// Files of many sizes in many folders.
fn fill(folder: &Path) {
    let bytes = pattern(3 << 20);
    for number in 0..200usize {
        let inner = folder.join(format!("folder{}", number % 7));
        fs::create_dir_all(&inner).expect("there is room");
        let length = (number * number * 131) % bytes.len();
        fs::write(inner.join(format!("file{number}")), &bytes[number..][..length.min(bytes.len() - number)])
            .expect("there is room");
    }
    for number in (0..200).step_by(3) {
        fs::remove_file(folder.join(format!("folder{}/file{number}", number % 7))).expect("it is there");
    }
}

fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for number in 0..7 {
        let inner = folder.join(format!("folder{number}"));
        for entry in fs::read_dir(inner).expect("it is there") {
            let path = entry.expect("it can be read").path();
            let bytes = fs::read(&path).expect("it can be read");
            files.push((path.strip_prefix(folder).expect("it is inside").to_owned(), bytes));
        }
    }
    files.sort();
    files
}

fn check(name: &str, make: &[&str], checker: &[&str], size_mib: u64, options: &str) {
    let test = format!("{name} on the block device");
    let programs: Vec<&str> = vec![make[0], checker[0], "mount"];
    if !can(&test, true, &programs) {
        return;
    }
    let listed = fs::read_to_string("/proc/filesystems").expect("Linux has it");
    if !listed.lines().any(|line| line.split_whitespace().last() == Some(name)) {
        eprintln!("skipped: {test}: this kernel has no {name}");
        return;
    }
    let source = tempfile::tempdir().expect("a temporary directory can be made");
    fill(source.path());
    let expected = contents(source.path());
    let serving = Serving::start(&Served { service_us: 10, ..Served::block_device(size_mib) });
    run(make[0], make[1..].iter().copied().chain([serving.device()]));
    let mounted = Mounted::new(serving.device(), options);
    fill(mounted.folder.path());
    run("fstrim", [mounted.path()]);
    mounted.unmount();
    run(checker[0], checker[1..].iter().copied().chain([serving.device()]));
    let mounted = Mounted::new(serving.device(), options);
    let found = contents(mounted.folder.path());
    assert_eq!(found.len(), 133);
    assert!(found == expected, "contents differ");
    mounted.unmount();
    let figures = serving.end();
    assert_eq!((figures.malformed, figures.refused, figures.detached), (0, 0, Some(true)), "{figures:?}");
    assert!(figures.flushes > 0, "{figures:?}");
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn ext4_is_whole() {
    check("ext4", &["mkfs.ext4", "-q", "-F"], &["fsck.ext4", "-f", "-n"], 512, "discard");
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn xfs_is_whole() {
    check("xfs", &["mkfs.xfs", "-q", "-f"], &["xfs_repair", "-n"], 512, "discard");
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn btrfs_is_whole() {
    check("btrfs", &["mkfs.btrfs", "-q", "-f"], &["btrfs", "check", "--readonly"], 768, "discard");
}
