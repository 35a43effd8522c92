//! Errors of a served device as real clients receive them. The table is that of `docs/errors.md`.

use std::fs;
use std::path::Path;
use std::process::Command;

use seeklab_emulator::client::file;
use seeklab_emulator::clock::Clock;
use serde_json::Value;

use crate::survive::harness::{SEEKLAB, Served, can_mount, has, output, succeed, until};

/// Options of a device of 16 MiB with one kind of error in each of five places.
const FAULTS: [&str; 13] = [
    "immediate",
    "--size",
    "16MiB",
    "--fault",
    "medium_error,op=read,blocks=1MiB..+64KiB",
    "--fault",
    "timeout,timeout=20ms,op=read,blocks=2MiB..+64KiB",
    "--fault",
    "aborted,op=read,blocks=3MiB..+64KiB",
    "--fault",
    "write_protected,op=write,blocks=4MiB..+64KiB",
    "--fault",
    "no_space,op=write,blocks=5MiB..+64KiB",
];

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A device that is gone from the start.
const GONE: [&str; 5] = ["immediate", "--size", "16MiB", "--fault", "gone"];

/// Reads beside a bad block, reads over it, and fails in all other ways; prints what libnbd reports.
const NBDSH: &str = "\
import errno, sys
def attempt(name, call):
    chunks = []
    def chunk(data, offset, status, error):
        kind = {nbd.READ_DATA: 'data', nbd.READ_HOLE: 'hole', nbd.READ_ERROR: 'error'}[status]
        chunks.append(f'{kind}@{offset}+{len(data)}')
        return 0
    try:
        call(chunk)
        result = 'ok'
    except nbd.Error as error:
        result = errno.errorcode[error.errnum]
    print(name, result, *chunks)
M = 1 << 20
attempt('good', lambda chunk: h.pread_structured(4096, 0, chunk))
attempt('medium', lambda chunk: h.pread_structured(65536, M - 8192, chunk))
attempt('first', lambda chunk: h.pread_structured(4096, M, chunk))
attempt('timeout', lambda chunk: h.pread(4096, 2 * M))
attempt('aborted', lambda chunk: h.pread(4096, 3 * M))
attempt('protected', lambda chunk: h.pwrite(bytes(4096), 4 * M))
attempt('full', lambda chunk: h.pwrite(bytes(4096), 5 * M))
attempt('written', lambda chunk: h.pwrite(bytes(4096), 0))
";

/// A device that goes every four seconds, with requests that take longer than it stays.
const LEAVING: [&str; 7] =
    ["constant", "--set", "service_time=30s", "--size", "1MiB", "--fault", "gone,at=2s,for=500ms,repeat=4s"];

/// Sends a request of each kind and waits until the device has gone and is back.
const OUTSTANDING: &str = "\
import errno
K = 4096
def connect():
    global h
    try:
        h = nbd.NBD()
        h.connect_uri(uri)
        return True
    except nbd.Error:
        return False
while not connect():
    pass
calls = {
    h.aio_pread(nbd.Buffer(K), 0): 'read',
    h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(K)), K): 'write',
    h.aio_flush(): 'flush',
    h.aio_trim(K, 0): 'trim',
}
while calls:
    h.poll(-1)
    for call in list(calls):
        try:
            if h.aio_command_completed(call):
                print(calls.pop(call), 'ok')
        except nbd.Error as error:
            print(calls.pop(call), errno.errorcode[error.errnum])
while not (h.aio_is_closed() or h.aio_is_dead()):
    h.poll(-1)
print('closed')
while not connect():
    pass
print('back')
";

/// Runs libnbd's shell with the Python of the distribution, for which it is installed.
fn nbdsh(arguments: &[&str]) -> String {
    succeed("env", &[&["PATH=/usr/bin:/bin", "nbdsh"], arguments].concat())
}

#[test]
fn libnbd_gets_the_good_bytes_and_the_place_of_the_bad_ones() {
    if !has("libnbd_gets_the_good_bytes_and_the_place_of_the_bad_ones", &["nbdsh", "timeout"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let served = Served::nbd(folder.path(), &FAULTS);
    let text = nbdsh(&["--uri", &served.place, "--command", NBDSH]);
    let lines: Vec<&str> = text.lines().collect();
    let expected = [
        "good ok data@0+4096",
        "medium EIO data@1040384+8192 error@1048576+0",
        "first EIO error@1048576+0",
        "timeout EIO",
        "aborted EIO",
        "protected EPERM",
        "full ENOSPC",
        "written ok",
    ];
    assert_eq!(lines, expected);
    // Without structured replies the error number is all.
    let simple = "h.set_request_structured_replies(False)";
    let connect = format!("h.connect_uri('{}')", served.place);
    let text = nbdsh(&["-c", simple, "-c", &connect, "-c", NBDSH]);
    let lines: Vec<&str> = text.lines().take(3).collect();
    assert_eq!(lines, ["good ok data@0+4096", "medium EIO", "first EIO"]);
    let document = served.interrupt();
    assert_eq!(document["failed_requests"], 12, "six of each client: {document}");
}

#[test]
fn libnbd_gets_eshutdown_for_what_is_outstanding_when_the_device_goes() {
    if !has("libnbd_gets_eshutdown_for_what_is_outstanding_when_the_device_goes", &["nbdsh", "timeout"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let served = Served::nbd(folder.path(), &LEAVING);
    let uri = format!("uri = '{}'", served.place);
    let text = nbdsh(&["-c", &uri, "-c", OUTSTANDING]);
    let mut lines: Vec<&str> = text.lines().collect();
    lines[..4].sort_unstable();
    let expected =
        ["flush ESHUTDOWN", "read ESHUTDOWN", "trim ESHUTDOWN", "write ESHUTDOWN", "closed", "back"];
    assert_eq!(lines, expected);
    let document = served.interrupt();
    assert_eq!(document["failed_requests"], 4, "{document}");
}

#[test]
fn qemu_gets_eshutdown_for_what_is_outstanding_when_the_device_goes() {
    if !has("qemu_gets_eshutdown_for_what_is_outstanding_when_the_device_goes", &["qemu-io", "timeout"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let served = Served::nbd(folder.path(), &LEAVING);
    let commands = ["-c", "aio_read 0 4k", "-c", "aio_write 4k 4k", "-c", "aio_flush"];
    let arguments = [&["-f", "raw", "-t", "none"], &commands[..], &[served.place.as_str()]].concat();
    let mut text = String::new();
    // Connections are refused while the device is away.
    until(|| {
        let output = output("qemu-io", &arguments);
        text =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        if text.contains("can't open") { Err(text.clone()) } else { Ok(()) }
    });
    for request in ["readv", "aio_write"] {
        let failed = format!("{request} failed: Cannot send after transport endpoint shutdown");
        assert_eq!(text.matches(&failed).count(), 1, "{text}");
    }
    served.interrupt();
}

#[test]
fn qemu_gets_the_error_numbers() {
    if !has("qemu_gets_the_error_numbers", &["qemu-io", "timeout"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let served = Served::nbd(folder.path(), &FAULTS);
    let lines = ["read 1016k 64k", "read 2M 4k", "read 3M 4k", "write 4M 4k", "write 5M 4k", "read 0 4k"];
    let commands = lines.iter().flat_map(|line| ["-c", line]);
    let arguments: Vec<&str> =
        ["-f", "raw", "-t", "none"].into_iter().chain(commands).chain([served.place.as_str()]).collect();
    let output = output("qemu-io", &arguments);
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    for (count, part) in [
        (3, "read failed: Input/output error"),
        (1, "write failed: Operation not permitted"),
        (1, "write failed: No space left on device"),
        (1, "read 4096/4096 bytes at offset 0"),
    ] {
        assert_eq!(text.matches(part).count(), count, "{part} in\n{text}");
    }
    served.interrupt();
}

#[test]
fn fio_goes_on_and_counts_every_error() {
    if !has("fio_goes_on_and_counts_every_error", &["fio", "timeout"]) {
        return;
    }
    let engines = Command::new("fio").arg("--enghelp").output().unwrap();
    if !String::from_utf8_lossy(&engines.stdout).contains("nbd") {
        eprintln!("skipped: this fio has no nbd engine");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let served = Served::nbd(folder.path(), &FAULTS);
    let uri = format!("--uri=nbd+unix:///?socket={}", served.socket.display());
    let run = |rw: &str| -> Value {
        let rw = format!("--rw={rw}");
        // Of its own, fio goes on after EIO alone.
        let ignored = "--ignore_error=EIO,EPERM:ENOSPC";
        let options = ["--size=16m", "--bs=4k", "--iodepth=4", "--continue_on_error=io", ignored];
        let arguments = ["--name=errors", "--ioengine=nbd", &uri, &rw, "--output-format=json"];
        let output = output("fio", &[&arguments[..], &options].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        let document = text.find('{').map(|start| &text[start..]).unwrap_or_default();
        let document: Value = serde_json::from_str(document)
            .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
        document["jobs"][0].clone()
    };
    let (reads, writes) = (run("read"), run("write"));
    // Sixteen blocks of 4 KiB in each place.
    assert_eq!((&reads["total_err"], &reads["first_error"]), (&48.into(), &5.into()), "{reads}");
    assert_eq!((&writes["total_err"], &writes["first_error"]), (&32.into(), &1.into()), "{writes}");
    let document = served.interrupt();
    assert_eq!(document["failed_requests"], 80, "{document}");
}

/// Number and first of the errors that fio counts in direct requests of 4 KiB to all of a file or block device.
fn errors_of_fio(path: &Path, rw: &str) -> (Option<u64>, Option<u64>) {
    let (place, rw) = (format!("--filename={}", path.display()), format!("--rw={rw}"));
    let job = ["--name=errors", "--ioengine=psync", "--direct=1", "--size=16m", "--bs=4k", &place, &rw];
    // By number where fio knows no name: ENODATA, ETIMEDOUT, EREMOTEIO.
    let goes_on = ["--continue_on_error=all", "--ignore_error=EIO:61:110,EROFS:ENOSPC:121"];
    let output = output("fio", &[&job[..], &goes_on, &["--output-format=json"]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let document = text.find('{').map(|start| &text[start..]).unwrap_or_default();
    let document: Value = serde_json::from_str(document)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    let job = &document["jobs"][0];
    (job["total_err"].as_u64(), job["first_error"].as_u64())
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn fio_counts_every_error_of_a_file_and_of_a_block_device() {
    let test = "fio_counts_every_error_of_a_file_and_of_a_block_device";
    if !can_mount(test, &["fio", "fusermount3"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(SEEKLAB);
    command.arg("serve").args(FAULTS).args(["--json", "--fuse"]).arg(folder.path());
    let file = (Served::start(command, "".into()), folder.path().join("disk"), 5, 30);
    let block = Served::block(&FAULTS);
    let path = Path::new(&block.place).to_owned();
    for (served, path, read, write) in [file, (block, path, 61, 121)] {
        assert_eq!(errors_of_fio(&path, "read"), (Some(48), Some(read)), "{}", path.display());
        assert_eq!(errors_of_fio(&path, "write"), (Some(32), Some(write)), "{}", path.display());
        served.interrupt();
    }
}

/// Error number of a direct read or write of 4 KiB, if it fails.
fn attempt(path: &Path, offset: u64, write: bool) -> Option<i32> {
    let mut client = file::Client::open(path, Clock::start()).unwrap();
    assert!(client.is_direct());
    let mut buffer = [0; 4096];
    let result = if write { client.write(offset, &buffer) } else { client.read(offset, &mut buffer) };
    result.err().map(|error| error.raw_os_error().unwrap_or_else(|| panic!("{error}")))
}

/// Error numbers of the five places and of a good one.
fn attempts(path: &Path) -> [Option<i32>; 6] {
    let places = [
        (MIB, false),
        (2 * MIB, false),
        (3 * MIB, false),
        (4 * MIB, true),
        (5 * MIB, true),
        (64 * KIB, true),
    ];
    places.map(|(offset, write)| attempt(path, offset, write))
}

#[test]
#[cfg_attr(not(fuse), ignore = "needs /dev/fuse")]
fn programs_get_the_error_numbers_of_the_file() {
    let test = "programs_get_the_error_numbers_of_the_file";
    if !has(test, &["fusermount3"]) {
        return;
    }
    let serve = |faults: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(SEEKLAB);
        command.arg("serve").args(faults).args(["--json", "--fuse"]).arg(folder.path());
        let served = Served::start(command, "".into());
        (folder, served)
    };
    let (folder, served) = serve(&FAULTS);
    let path = folder.path().join("disk");
    assert_eq!(attempts(&path), [Some(5), Some(110), Some(5), Some(30), Some(28), None]);
    assert_eq!(attempt(&path, MIB - 4096, false), None, "the block before the bad one");
    served.interrupt();
    let (folder, served) = serve(&GONE);
    let path = folder.path().join("disk");
    assert_eq!((attempt(&path, 0, false), attempt(&path, 0, true)), (Some(108), Some(108)));
    served.interrupt();
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn block_layer_makes_errors_of_its_own_kind() {
    if !can_mount("block_layer_makes_errors_of_its_own_kind", &[]) {
        return;
    }
    let served = Served::block(&FAULTS);
    let path = Path::new(&served.place);
    assert_eq!(attempts(path), [Some(61), Some(110), Some(5), Some(121), Some(28), None]);
    // Through the page cache every failed read is an input/output error, and the good bytes come before it.
    let mut bytes = Vec::new();
    let mut read = fs::File::open(path).unwrap();
    let error = std::io::Read::read_to_end(&mut read, &mut bytes).unwrap_err();
    assert_eq!((error.raw_os_error(), bytes.len() as u64), (Some(5), MIB));
    drop(read);
    served.interrupt();
    let served = Served::block(&GONE);
    let path = Path::new(&served.place);
    assert_eq!((attempt(path, 0, false), attempt(path, 0, true)), (Some(67), Some(67)));
    served.interrupt();
}
