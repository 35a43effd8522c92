//! The clients that people use: libnbd's, qemu's and fio's command lines, skipped where not installed.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use seeklab_core::Duration;

use crate::nbd::client::{self, Request};
use crate::nbd::serving::Serving;

fn is_installed(program: &str, test: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let installed = found.is_ok();
    if !installed {
        eprintln!("skipped: {test} needs `{program}` (Debian: libnbd-bin, qemu-utils, fio)");
    }
    installed
}

fn run<A: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = A>) -> String {
    let output = Command::new("timeout").arg("120").arg(program).args(arguments).output();
    let output = output.expect("it was found before");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program}: {}\n{text}\n{errors}", output.status);
    text.into_owned()
}

/// Bytes that differ everywhere, with holes.
fn pattern(size: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut bytes = Vec::with_capacity(size);
    while bytes.len() < size {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let hole = (bytes.len() >> 16) % 3 == 1;
        bytes.extend(if hole { [0; 8] } else { state.to_be_bytes() });
    }
    bytes
}

fn same(first: &Path, second: &Path) {
    let (first, second) = (fs::read(first).expect("it is there"), fs::read(second).expect("it is there"));
    assert!(first == second, "contents differ");
}

#[test]
fn nbdinfo_reads_the_export() {
    if !is_installed("nbdinfo", "nbdinfo_reads_the_export") {
        return;
    }
    let serving = Serving::start(8, Duration::default());
    let uri = serving.uri.to_string();
    let text = run("nbdinfo", [&uri]);
    for line in [
        "newstyle-fixed without TLS, using structured packets",
        "export-size: 8388608",
        "base:allocation",
        "can_flush: true",
        "can_fua: true",
        "can_multi_conn: true",
        "can_trim: true",
        "can_zero: true",
        "can_df: true",
        "can_cache: false",
        "can_fast_zero: false",
        "is_read_only: false",
        "is_rotational: false",
        "block_size_minimum: 512",
        "block_size_preferred: 4096",
        "block_size_maximum: 33554432",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(run("nbdinfo", ["--list", &uri]).contains("export=\"disk\""));
    let mut client = serving.connect();
    client.call(&Request::new(client::WRITE, 1, 1 << 20, 1 << 20)).expect("it is answered");
    let map = run("nbdinfo", ["--map", &uri]);
    let numbers: Vec<Vec<&str>> = map.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
    assert_eq!(numbers, [["0", "1048576", "3"], ["1048576", "1048576", "0"], ["2097152", "6291456", "3"]]);
}

#[test]
fn nbdcopy_brings_back_what_it_took() {
    if !is_installed("nbdcopy", "nbdcopy_brings_back_what_it_took") {
        return;
    }
    for delay in [Duration::default(), Duration::from_us(300)] {
        let serving = Serving::start(64, delay);
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let (source, copy) = (directory.path().join("source"), directory.path().join("copy"));
        fs::write(&source, pattern(64 << 20)).expect("it can be written");
        let uri = serving.uri.to_string();
        run("nbdcopy", [source.as_os_str(), OsStr::new(&uri)]);
        run("nbdcopy", [OsStr::new(&uri), copy.as_os_str()]);
        same(&source, &copy);
        let statistics = serving.end();
        assert_eq!((statistics.violation_count, statistics.vanished_count), (0, 0), "{statistics:?}");
        assert!(statistics.connected_count > 2, "nbdcopy uses several connections");
    }
}

#[test]
fn qemu_reads_writes_and_compares() {
    if !is_installed("qemu-io", "qemu_reads_writes_and_compares")
        || !is_installed("qemu-img", "qemu_reads_writes_and_compares")
    {
        return;
    }
    let serving = Serving::start(16, Duration::default());
    let uri = serving.uri.to_string();
    let text = run("qemu-img", ["info", "--output=json", &uri]);
    assert!(text.contains("\"virtual-size\": 16777216"), "{text}");
    let commands = [
        "write -P 0xab 0 64k",
        "read -P 0xab 0 64k",
        "write -f -P 0x11 1M 2M",
        "write -z 1M 64k",
        "read -P 0 1M 64k",
        "read -P 0x11 1088k 1984k",
        "write -zu 2M 64k",
        "read -P 0 2M 64k",
        "discard 2560k 64k",
        "aio_write -P 0x22 8M 4M",
        "aio_write -P 0x33 12M 4M",
        "aio_flush",
        "read -P 0x22 8M 4M",
        "read -P 0x33 12M 4M",
        "write -P 0x44 1000 100",
        "read -P 0x44 1000 100",
        "read -P 0xab 1100 1000",
        "flush",
    ];
    let arguments = commands.iter().flat_map(|command| ["-c", command]);
    let text = run("qemu-io", ["-f", "raw"].into_iter().chain(arguments).chain([uri.as_str()]));
    assert!(!text.contains("failed"), "{text}");
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let copy = directory.path().join("copy");
    run("qemu-img", [OsStr::new("convert"), "-O".as_ref(), "raw".as_ref(), uri.as_ref(), copy.as_os_str()]);
    run("qemu-img", [OsStr::new("compare"), uri.as_ref(), copy.as_os_str()]);
    fs::write(&copy, pattern(16 << 20)).expect("it can be written");
    let raw: [&OsStr; 5] = ["convert".as_ref(), "-n".as_ref(), "-f".as_ref(), "raw".as_ref(), "-O".as_ref()];
    run("qemu-img", raw.into_iter().chain(["raw".as_ref(), copy.as_os_str(), uri.as_ref()]));
    run("qemu-img", [OsStr::new("compare"), uri.as_ref(), copy.as_os_str()]);
}

#[test]
fn fio_verifies_what_it_wrote() {
    if !is_installed("fio", "fio_verifies_what_it_wrote") {
        return;
    }
    let engine = Command::new("fio").arg("--enghelp").output().expect("it was found before");
    if !String::from_utf8_lossy(&engine.stdout).contains("nbd") {
        eprintln!("skipped: this fio has no nbd engine");
        return;
    }
    let serving = Serving::start(16, Duration::from_us(100));
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let uri = format!("--uri=nbd+unix:///?socket={}", serving.path.display());
    let output = Command::new("timeout")
        .args(["120", "fio", "--name=verify", "--ioengine=nbd", &uri, "--rw=randwrite", "--bsrange=512-128k"])
        .args(["--bs_unaligned=0", "--blockalign=512", "--size=16m", "--iodepth=32", "--verify=crc32c"])
        .args(["--verify_fatal=1", "--do_verify=1", "--randrepeat=1", "--fsync=64", "--output-format=terse"])
        .current_dir(directory.path())
        .output()
        .expect("it was found before");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\n{}", String::from_utf8_lossy(&output.stdout));
}
