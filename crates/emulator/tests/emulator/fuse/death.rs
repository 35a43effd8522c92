//! Sudden ends: the emulator is killed, clients are killed, the mount is taken away under load.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::fuse::harness::{Mounted, Served, Serving, attempt, can, run};

fn is_attached(device: &Path) -> bool {
    Path::new("/sys/block").join(device.file_name().expect("it has a name")).join("loop").exists()
}

/// Waits until a condition holds, for a minute at most. Returns true if it holds.
fn soon(condition: impl Fn() -> bool) -> bool {
    for _ in 0..600 {
        if condition() {
            return true;
        }
        std::thread::park_timeout(std::time::Duration::from_millis(100));
    }
    false
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn nothing_hangs_or_stays_after_a_kill_under_dirty_writes() {
    if !can("nothing_hangs_or_stays_after_a_kill_under_dirty_writes", true, &[]) {
        return;
    }
    // At 5 ms a request, what is written waits in the page cache when the end comes, and requests are under way.
    let serving = Serving::start(&Served { service_us: 5000, ..Served::block_device(256) });
    let device = serving.path.clone();
    let mut file = OpenOptions::new().write(true).open(&device).expect("it is there");
    let mut busy = Command::new("timeout")
        .args(["60", "dd", "if=/dev/zero", "bs=64k", "oflag=direct"])
        .arg(format!("of={}", device.display()))
        .stderr(Stdio::null())
        .spawn()
        .expect("dd is part of every system");
    file.write_all(&vec![1; 100 << 20]).expect("the page cache takes it");
    serving.kill();
    assert!(!busy.wait().expect("it ends").success(), "dd sees an error");
    assert!(file.sync_all().is_err(), "the writes are lost, and the file reports it");
    drop(file);
    assert!(soon(|| !is_attached(&device)), "the device goes with its last user");
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn mounted_file_system_can_be_unmounted_after_a_kill() {
    if !can("mounted_file_system_can_be_unmounted_after_a_kill", true, &["mkfs.ext4", "mount"]) {
        return;
    }
    let serving = Serving::start(&Served { service_us: 500, ..Served::block_device(256) });
    let device = serving.path.clone();
    run("mkfs.ext4", ["-q", "-F", serving.device()]);
    let mounted = Mounted::new(serving.device(), "errors=remount-ro");
    fs::write(mounted.folder.path().join("dirty"), vec![7; 20 << 20]).expect("the page cache takes it");
    serving.kill();
    let (success, _) = attempt("sync", ["-f", mounted.path()]);
    assert!(!success, "whoever asks learns that the data is lost");
    assert!(is_attached(&device), "it is still mounted");
    mounted.unmount();
    assert!(soon(|| !is_attached(&device)), "the device goes with its last user");
}

#[test]
#[cfg_attr(not(fuse), ignore = "needs /dev/fuse")]
fn file_fails_and_mount_goes_after_a_kill() {
    let test = "file_fails_and_mount_goes_after_a_kill";
    if !can(test, false, &["fusermount3"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    let serving = Serving::start(&Served { service_us: 2000, ..Served::file_in(folder.path(), 16) });
    let mut busy = Command::new("timeout")
        .args(["60", "dd", "of=/dev/null", "bs=4k"])
        .arg(format!("if={}", serving.path.display()))
        .stderr(Stdio::null())
        .spawn()
        .expect("dd is part of every system");
    serving.kill();
    assert!(!busy.wait().expect("it ends").success(), "dd sees an error");
    let name = format!(" {} ", folder.path().display());
    let mounts = || fs::read_to_string("/proc/self/mountinfo").expect("Linux has it");
    assert!(soon(|| !mounts().contains(&name)), "the helper unmounts");
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn device_in_use_is_given_up_in_order() {
    if !can("device_in_use_is_given_up_in_order", true, &[]) {
        return;
    }
    let serving = Serving::start(&Served::block_device(16));
    let device = serving.path.clone();
    let file = OpenOptions::new().read(true).open(&device).expect("it is there");
    let figures = serving.end();
    assert_eq!(figures.detached, Some(false), "an open file keeps the mount, and the figures report it");
    assert!(is_attached(&device));
    drop(file);
    assert!(soon(|| !is_attached(&device)));
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn clients_that_die_do_no_harm() {
    if !can("clients_that_die_do_no_harm", true, &["fio"]) {
        return;
    }
    let serving = Serving::start(&Served { service_us: 1000, ..Served::block_device(64) });
    for _ in 0..5 {
        let mut client = Command::new("dd")
            .args(["if=/dev/zero", "bs=1M", "oflag=direct"])
            .arg(format!("of={}", serving.device()))
            .stderr(Stdio::null())
            .spawn()
            .expect("dd is part of every system");
        std::thread::park_timeout(std::time::Duration::from_millis(20));
        client.kill().expect("it runs or has run");
        let status = client.wait().expect("it ends");
        assert!(status.signal() == Some(9) || status.code().is_some());
    }
    run("dd", [&format!("of={}", serving.device()), "if=/dev/zero", "bs=64k", "count=10", "oflag=direct"]);
    assert_eq!(serving.end().detached, Some(true));
}

#[test]
#[cfg_attr(not(fuse), ignore = "needs /dev/fuse")]
fn aborted_mount_ends_the_load_and_the_server_ends_in_order() {
    let test = "aborted_mount_ends_the_load_and_the_server_ends_in_order";
    if !can(test, false, &[]) || !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    let serving = Serving::start(&Served { service_us: 500, ..Served::file_in(folder.path(), 64) });
    let mut busy = Command::new("timeout")
        .args(["60", "dd", "of=/dev/null", "bs=4k"])
        .arg(format!("if={}", serving.path.display()))
        .stderr(Stdio::null())
        .spawn()
        .expect("dd is part of every system");
    // As soon as it is busy, the connection is cut, which is the kernel's way to clear what hangs.
    let control = Control::mount();
    let number = device_number(folder.path());
    let waiting = control.folder.path().join(number.to_string()).join("waiting");
    assert!(soon(|| fs::read_to_string(&waiting).is_ok_and(|count| count.trim() != "0")));
    fs::write(control.folder.path().join(number.to_string()).join("abort"), "1").expect("root may");
    assert!(!busy.wait().expect("it ends").success(), "dd sees an error");
    let figures = serving.end();
    assert_eq!(figures.malformed, 0, "the server ends in order");
}

/// The minor number of the mount's device, which names its connection.
fn device_number(folder: &Path) -> u32 {
    let mounts = fs::read_to_string("/proc/self/mountinfo").expect("Linux has it");
    let name = format!(" {} ", folder.display());
    let line = mounts.lines().find(|line| line.contains(&name)).expect("it is mounted");
    let device = line.split_whitespace().nth(2).expect("the third field is the device");
    device.split_once(':').expect("major and minor").1.parse().expect("a number")
}

/// The file system by which connections are cut.
struct Control {
    folder: tempfile::TempDir,
}

impl Control {
    fn mount() -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let path: PathBuf = folder.path().to_owned();
        run("mount", ["-t", "fusectl", "none", path.to_str().expect("it is UTF-8")]);
        Self { folder }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.folder.path()).status();
    }
}
