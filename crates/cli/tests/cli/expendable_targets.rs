//! Devices of `seeklab serve` whose bytes are in memory are overwritten without their name, as long as they hold nothing
//! recognised.

use crate::bench::{Bench, unfolded};
use crate::survive::client::{Request, WRITE};
use crate::survive::harness::{Served, can_mount, succeed};

const LOAD: &str = "random,size=4KiB,read=50%,closed=4,requests=100";

/// Asserts that a workload that writes to the target is refused without its name, and that the refusal names `what`.
fn needs_name(bench: &Bench, target: &str, what: &str) {
    let run = bench.run(&["bench", target, "-w", LOAD]);
    let text = unfolded(&run.stderr);
    assert_eq!(run.code, 2, "{target}: {text}");
    assert!(text.contains(what) && text.contains(&format!("--destroy {target}")), "{target}: {text}");
}

fn needs_none(bench: &Bench, target: &str) {
    let figures = bench.json(&["bench", target, "-w", LOAD]);
    assert_eq!((&figures["requests"], &figures["errors"]), (&100.into(), &0.into()), "{target}");
}

#[test]
fn export_in_memory_needs_no_name_and_one_in_a_file_does() {
    let bench = Bench::new();
    {
        let served = Served::nbd(&bench.path("."), &["immediate", "--size", "4MiB"]);
        needs_none(&bench, &served.place);
        // Its own data of the run before are nothing that somebody loses.
        needs_none(&bench, &served.place);
        let other = bench.run(&["bench", &served.place, "-w", LOAD, "--destroy", "/dev/other"]);
        assert_eq!(other.code, 2, "{}", other.stderr);
        // The mark of ext4.
        let mut client = served.connect();
        let mut write = Request::new(WRITE, 0, 1_024, 512);
        write.payload[0x38..0x3a].copy_from_slice(b"\x53\xef");
        assert_eq!(client.call(&write).unwrap().error, 0);
        needs_name(&bench, &served.place, "the workload writes, which destroys its contents");
    }
    let store = format!("file:{}", bench.path("disk").display());
    let served = Served::nbd(&bench.path("."), &["immediate", "--size", "4MiB", "--store", &store]);
    needs_name(&bench, &served.place, "the workload writes, which destroys its contents");
}

#[test]
fn block_device_in_memory_needs_no_name_until_it_has_a_file_system() {
    if !can_mount("block_device_in_memory_needs_no_name_until_it_has_a_file_system", &["mkfs.ext4"]) {
        return;
    }
    let bench = Bench::new();
    let served = Served::block(&["immediate", "--size", "32MiB"]);
    needs_none(&bench, &served.place);
    succeed("mkfs.ext4", &["-q", "-F", &served.place]);
    needs_name(&bench, &served.place, "an ext2, ext3 or ext4 file system that is on it");
}
