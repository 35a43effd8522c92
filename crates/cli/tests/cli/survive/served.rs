//! A served device that is full, left ten thousand times, or taken away from under a load.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::Command;

use rustix::process::Signal;

use crate::survive::client::{DISCONNECT, READ, Request, WRITE};
use crate::survive::harness::{Guarded, Held, Scene, Served, can_mount, output, succeed, until};

#[test]
fn ten_thousand_clients_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::nbd(folder.path(), &["immediate", "--size", "16MiB"]);
    let pid = served.pid();
    let descriptors = || fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let rss_kib = || -> u64 {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let cycle = |number: u64| {
        if number % 5 == 4 {
            // Gone in the middle of the greeting.
            let mut stream = UnixStream::connect(&served.socket).unwrap();
            let _ = stream.write_all(&[0, 0]);
            return;
        }
        let mut client = served.connect();
        match number % 5 {
            0 => client.send(&Request::new(DISCONNECT, 0, 0, 0)).unwrap(),
            1 => {}
            2 => (0..8).for_each(|cookie| client.send(&Request::new(READ, cookie, 0, 65_536)).unwrap()),
            _ => {
                let write = Request::new(WRITE, 1, 0, 65_536).bytes();
                client.stream.write_all(&write[..5000]).unwrap();
            }
        }
    };
    let settle = |limit: usize| {
        until(|| match descriptors() {
            open if open <= limit => Ok(()),
            open => Err(format!("{open} descriptors are open, {limit} were")),
        });
    };
    let fresh = descriptors();
    (0..500).for_each(cycle);
    settle(fresh);
    let before_kib = rss_kib();
    (0..10_000).for_each(cycle);
    settle(fresh);
    let after_kib = rss_kib();
    // 500 bytes a client would show.
    assert!(after_kib < before_kib + 4096, "{before_kib} KiB have become {after_kib}");
    assert_eq!(served.connect().call(&Request::new(READ, 1, 0, 4096)).unwrap().error, 0);
    served.interrupt();
}

#[test]
fn full_store_is_reported_and_keeps_its_contents() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::nbd(folder.path(), &["immediate", "--size", "64MiB", "--cap", "4MiB"]);
    let mut client = served.connect();
    let (mut held, mut refused) = (Vec::new(), 0);
    for number in 0..64u64 {
        let mut write = Request::new(WRITE, number, number << 18, 1 << 18);
        write.payload.fill(number as u8 + 1);
        match client.call(&write).unwrap().error {
            0 => held.push(number),
            28 => refused += 1,
            error => panic!("error {error}"),
        }
    }
    assert!(held.len() >= 8 && refused >= 40, "{} held, {refused} refused", held.len());
    for number in held {
        let read = client.call(&Request::new(READ, number, number << 18, 1 << 18)).unwrap();
        assert!(read.error == 0 && read.data.iter().all(|byte| *byte == number as u8 + 1), "{number}");
    }
    assert_eq!(served.interrupt()["refused_requests"].as_u64(), Some(refused));
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn full_block_device_reports_no_space() {
    if !can_mount("full_block_device_reports_no_space", &["dd"]) {
        return;
    }
    let served = Served::block(&["immediate", "--size", "64MiB", "--cap", "8MiB"]);
    let device = format!("of={}", served.place);
    succeed("dd", &["if=/dev/urandom", &device, "bs=1M", "count=2", "oflag=direct", "conv=notrunc"]);
    let before = succeed("sh", &["-c", &format!("head -c 2M {} | sha256sum", served.place)]);
    let full = output("dd", &["if=/dev/zero", &device, "bs=1M", "oflag=direct", "seek=2", "conv=notrunc"]);
    let random = ["if=/dev/urandom", &device, "bs=1M", "oflag=direct", "seek=2", "conv=notrunc"];
    let finished = output("dd", &random);
    let errors = String::from_utf8_lossy(&finished.stderr);
    assert!(!finished.status.success() && errors.contains("No space left"), "{errors}{full:?}");
    let written: u64 = errors
        .lines()
        .find_map(|line| line.split(" bytes").next().filter(|_| line.contains(" copied"))?.parse().ok())
        .unwrap();
    assert!(written < 8 << 20, "{errors}");
    let line = format!("dd if={} bs=1M count=2 iflag=direct 2>/dev/null | sha256sum", served.place);
    assert_eq!(succeed("sh", &["-c", &line]), before);
    assert!(served.interrupt()["refused_requests"].as_u64() > Some(0));
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn flushed_data_survives_unmounting_and_ending_under_load() {
    let name = "flushed_data_survives_unmounting_and_ending_under_load";
    if !can_mount(name, &["mkfs.ext4", "mount", "umount", "dd", "timeout"]) {
        return;
    }
    let scene = Scene::new("underload");
    let (place, log, store) = (scene.path("mount"), scene.path("log"), scene.path("disk.img"));
    fs::create_dir(&place).unwrap();
    let device = ["exponential", "--set", "service_time=200us", "--size", "64MiB"];
    let kept = format!("file:{store}");
    let serve = || {
        let mut command = scene.seeklab();
        command.arg("serve").args(device).args(["--store", &kept, "--json", "--block"]);
        Served::start(command, std::path::PathBuf::new())
    };
    let mut served = serve();
    let mounted = Mounted(place.clone());
    succeed("mkfs.ext4", &["-q", "-F", &served.place]);
    succeed("mount", &[&served.place, &place]);
    // One file after the other, each on the disk before its name is logged; one stays open all the time.
    let line = format!(
        "exec 9>{place}/open; i=0; while dd if=/dev/urandom of={place}/f$i bs=16k count=2 conv=fsync 2>/dev/null; \
         do echo \"$i $(sha256sum < {place}/f$i)\" >> {log}; echo more >&9; i=$((i+1)); done"
    );
    let mut writer = Guarded(Command::new("timeout").args(["60", "sh", "-c", &line]).spawn().unwrap());
    let written = || fs::read_to_string(&log).unwrap_or_default().lines().count();
    let more =
        |than: usize| until(|| if written() > than { Ok(()) } else { Err("nothing is written".to_owned()) });
    more(4);
    assert!(!output("umount", &[&place]).status.success(), "somebody has a file open there");
    let mut held = Held::default();
    held.look(served.pid());
    assert!(held.is_bound, "{held:?}");
    // Asked to end, it serves on for as long as somebody needs it.
    served.child.signal(Signal::TERM);
    let before = written();
    more(before + 4);
    succeed("umount", &["--lazy", &place]);
    writer.signal(Signal::TERM);
    writer.0.wait().unwrap();
    // Whoever had files open there has gone, and so the file system, and so the device.
    let pid = served.pid();
    let status = served.child.0.wait().unwrap();
    assert!(status.success(), "{status}");
    until(|| scene.left(pid, &held));
    let served = serve();
    succeed("mount", &[&served.place, &place]);
    let logged = fs::read_to_string(&log).unwrap();
    // The writer was ended in the middle of something.
    let whole: Vec<&str> = logged.lines().filter(|line| line.ends_with(" -")).collect();
    assert!(whole.len() > 8, "{logged}");
    for line in whole {
        let (number, digest) = line.split_once(' ').unwrap();
        let found = succeed("sh", &["-c", &format!("sha256sum < {place}/f{number}")]);
        assert_eq!(found.trim(), digest, "file {number}");
    }
    succeed("umount", &[&place]);
    served.interrupt();
    drop(mounted);
}

/// A place that is unmounted with the test.
struct Mounted(String);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["--quiet", "--lazy", &self.0]).status();
    }
}

/// Connections to user-space file systems, as the kernel lists them: mounted if nobody has.
pub(crate) struct FuseControl(bool);

impl FuseControl {
    const PLACE: &str = "/sys/fs/fuse/connections";

    pub(crate) fn mount() -> Self {
        let is_mounted = || fs::read_to_string("/proc/mounts").unwrap().contains(Self::PLACE);
        let mounts =
            !is_mounted() && output("mount", &["-t", "fusectl", "none", Self::PLACE]).status.success();
        if !is_mounted() {
            eprintln!(
                "skipped: FUSE connections that are left cannot be looked for: fusectl cannot be mounted"
            );
        }
        Self(mounts)
    }
}

impl Drop for FuseControl {
    fn drop(&mut self) {
        if self.0 {
            let _ = Command::new("umount").args(["--lazy", Self::PLACE]).status();
        }
    }
}
