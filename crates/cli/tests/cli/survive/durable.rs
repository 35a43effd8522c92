//! Flushed data survives `kill -9`, and no flush is answered before its `fdatasync`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::survive::client::{FLUSH, READ, Request, WRITE};
use crate::survive::harness::{Draw, SEEKLAB, Served, has, until};

const BLOCK: u64 = 4096;
const SIZE: u64 = 4 << 20;

#[test]
fn flushed_data_survives_a_kill() {
    for round in 0..6u64 {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk.img");
        let store = format!("file:{}", file.display());
        let arguments = ["immediate", "--size", "4MiB", "--store", &store];
        let mut served = Served::nbd(folder.path(), &arguments);
        let mut client = served.connect();
        let mut draw = Draw(round);
        // What each block holds: what was written last before a flush, and every write since.
        let mut flushed = vec![0u8; SIZE as usize];
        let mut since: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let kill_after = 40 + draw.below(400);
        for cookie in 0..kill_after {
            let offset = draw.below(SIZE / BLOCK) * BLOCK;
            let fill = draw.below(255) as u8 + 1;
            let mut write = Request::new(WRITE, cookie, offset, BLOCK as u32);
            write.payload.fill(fill);
            let fua = draw.below(8) == 0;
            assert_eq!(client.call(&if fua { write.flags(1) } else { write }).unwrap().error, 0);
            since.entry(offset).or_default().push(fill);
            if fua {
                since.remove(&offset);
                flushed[offset as usize..][..BLOCK as usize].fill(fill);
            }
            if draw.below(6) == 0 {
                assert_eq!(client.call(&Request::new(FLUSH, 1 << 32, 0, 0)).unwrap().error, 0);
                for (offset, fills) in std::mem::take(&mut since) {
                    flushed[offset as usize..][..BLOCK as usize].fill(*fills.last().unwrap());
                }
            }
        }
        // The last writes are under way, their answers not awaited.
        let mut answered = Vec::new();
        for cookie in 0..16 {
            let offset = draw.below(SIZE / BLOCK) * BLOCK;
            let mut write = Request::new(WRITE, cookie, offset, BLOCK as u32);
            write.payload.fill(255);
            client.send(&write).unwrap();
            answered.push(offset);
        }
        served.child.signal(Signal::KILL);
        served.child.0.wait().unwrap();
        for offset in answered {
            since.entry(offset).or_default().push(255);
        }
        // The socket that it left is no obstacle.
        let served = Served::nbd(folder.path(), &arguments);
        let mut client = served.connect();
        let mut whole = Vec::new();
        for offset in (0..SIZE).step_by(1 << 20) {
            let reply = client.call(&Request::new(READ, offset, offset, 1 << 20)).unwrap();
            assert_eq!(reply.error, 0);
            whole.extend(reply.data);
        }
        assert!(whole == fs::read(&file).unwrap(), "the file is the device, byte by byte");
        for offset in (0..SIZE).step_by(BLOCK as usize) {
            let range = offset as usize..(offset + BLOCK) as usize;
            let (found, wanted) = (&whole[range.clone()], &flushed[range]);
            let other =
                since.get(&offset).is_some_and(|fills| fills.iter().any(|fill| found == [*fill; 4096]));
            assert!(found == wanted || other, "round {round}: the block at {offset} is not what was flushed");
        }
        // Writes that were answered survive the emulator alone, flushed or not: the page cache has them.
        served.interrupt();
    }
}

#[test]
fn whole_device_has_the_expected_contents_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file:{}", folder.path().join("disk.img").display());
    let arguments = ["exponential", "--set", "service_time=50us", "--size", "4MiB", "--store", &store];
    let mut served = Served::nbd(folder.path(), &arguments);
    let mut client = served.connect();
    let (mut draw, mut known) = (Draw(5), vec![0; SIZE as usize]);
    for cookie in 0..200 {
        let offset = draw.below(SIZE / BLOCK) * BLOCK;
        let mut write = Request::new(WRITE, cookie, offset, BLOCK as u32);
        write.payload.iter_mut().for_each(|byte| *byte = draw.below(256) as u8);
        assert_eq!(client.call(&write).unwrap().error, 0);
        known[offset as usize..][..BLOCK as usize].copy_from_slice(&write.payload);
    }
    assert_eq!(client.call(&Request::new(FLUSH, 999, 0, 0)).unwrap().error, 0);
    served.child.signal(Signal::KILL);
    served.child.0.wait().unwrap();
    let served = Served::nbd(folder.path(), &arguments);
    let mut client = served.connect();
    let reads = (0..4).map(|mib| client.call(&Request::new(READ, mib, mib << 20, 1 << 20)).unwrap().data);
    assert!(reads.collect::<Vec<_>>().concat() == known);
    served.interrupt();
}

/// The bytes that flush replies are known by: a simple reply's magic, no error, and the cookie.
fn reply_to(cookie: u64) -> String {
    let bytes = [&0x6744_6698u32.to_be_bytes()[..], &[0; 4], &cookie.to_be_bytes()].concat();
    bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

/// The bytes of a flush as it arrives.
fn flush_of(cookie: u64) -> String {
    Request::new(FLUSH, cookie, 0, 0).bytes().iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

#[test]
fn no_flush_is_answered_before_its_fdatasync() {
    if !has("no_flush_is_answered_before_its_fdatasync", &["strace"])
        || !succeeds("strace", &["-o", "/dev/null", "true"])
    {
        return eprintln!("skipped: strace cannot trace here");
    }
    const FLUSHES: u64 = 24;
    const COOKIE: u64 = 0x5ee0_1ab0_0000_0000;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("trace");
    let store = format!("file:{}", folder.path().join("disk.img").display());
    let frontend = format!("unix:{}", folder.path().join("nbd").display());
    // The document is asked for so that it prints nothing else; strace runs it, and it runs in the foreground.
    let mut command = Command::new("strace");
    command.args(["-f", "-D", "-xx", "-s", "4096", "-o", log.to_str().unwrap()]);
    command.args(["-e", "trace=fdatasync,fsync,read,readv,recvfrom,recvmsg,write,writev,sendto,sendmsg"]);
    command.args([SEEKLAB, "serve", "immediate", "--size", "4MiB", "--store", &store]);
    command.args(["--json", "--nbd", &frontend]);
    let served = Served::start(command, folder.path().join("nbd"));
    let mut client = served.connect();
    for number in 0..FLUSHES {
        let offset = number * BLOCK;
        assert_eq!(client.call(&Request::new(WRITE, number, offset, BLOCK as u32)).unwrap().error, 0);
        assert_eq!(client.call(&Request::new(FLUSH, COOKIE + number, 0, 0)).unwrap().error, 0);
    }
    drop(client);
    served.interrupt();
    let text = whole_trace(&log);
    let calls: Vec<&str> = text.lines().collect();
    let mut after = 0;
    for number in 0..FLUSHES {
        let find = |what: &str, names: &[&str], from: usize| {
            let named = |line: &str| names.iter().any(|name| line.contains(&format!(" {name}")));
            calls[from..].iter().position(|line| named(line) && line.contains(what)).map(|at| at + from)
        };
        let (flush, reply) = (flush_of(COOKIE + number), reply_to(COOKIE + number));
        let came = find(&flush, &["read", "recv", "<... read", "<... recv"], after)
            .expect("the flush is in the trace");
        let left = find(&reply, &["write", "send"], came).expect("its reply is in the trace");
        // A call that is logged in two lines has returned with the second.
        let synced = calls[came..left].iter().any(|line| {
            (line.contains(" fdatasync(") || line.contains("<... fdatasync resumed")) && line.ends_with("= 0")
        });
        assert!(
            synced,
            "flush {number} was answered before an fdatasync:\n{}",
            calls[came..=left].join("\n")
        );
        after = left;
    }
}

/// The trace, once strace, which outlives the one that it traces, has written the end.
fn whole_trace(log: &Path) -> String {
    let mut text = String::new();
    until(|| {
        text = fs::read_to_string(log).map_err(|error| error.to_string())?;
        let ended = text.lines().last().is_some_and(|line| line.contains("+++ exited with "));
        if ended { Ok(()) } else { Err("strace does not end".to_owned()) }
    });
    text
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).status().is_ok_and(|status| status.success())
}
