//! `seeklab record`: the real file holds the data that clients wrote, and the trace holds every request.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::survive::client::{Client, READ, Request};
use crate::survive::harness::until;

/// A recording that runs in the background.
struct Recorded {
    child: Child,
    place: String,
}

impl Recorded {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_seeklab"))
            .args(["record", "--json"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let place = loop {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended before it was ready");
            if let Some((_, place)) = line.split_once(" is ready: ") {
                break place.trim().to_owned();
            }
        };
        // What it says further on is not to fill the pipe.
        std::thread::spawn(move || stderr.read_to_end(&mut Vec::new()));
        Self { child, place }
    }

    /// Interrupts it and returns its document.
    fn interrupt(self) -> serde_json::Value {
        let (code, document) = self.end();
        assert_eq!(code, Some(0), "{document}");
        document
    }

    /// Interrupts it and returns its exit code and its document.
    fn end(mut self) -> (Option<i32>, serde_json::Value) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        let document = serde_json::from_reader(self.child.stdout.take().unwrap());
        (status.code(), document.unwrap())
    }
}

/// Runs a program; `None` with a line where it is not installed.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let Ok(output) = Command::new(program).args(arguments).output() else {
        println!("skipped: {program} is not installed");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{program}: {text}{}", String::from_utf8_lossy(&output.stderr));
    Some(text)
}

/// Returns the named columns of the rows of a canonical CSV.
fn rows(path: &Path, columns: &[&str]) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let places: Vec<usize> =
        columns.iter().map(|column| header.iter().position(|name| name == column).unwrap()).collect();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        places.iter().map(|place| fields[*place].to_owned()).collect()
    };
    lines.map(row).collect()
}

#[test]
fn every_request_is_recorded_and_its_data_is_in_the_backing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (backing, trace, socket) = (at("disk"), at("seen.csv"), format!("unix:{}", at("nbd")));
    std::fs::write(&backing, vec![0x11; 4 << 20]).unwrap();
    let recorded = Recorded::start(&["--backing", &backing, "-o", &trace, "--nbd", &socket]);
    let uri = recorded.place.clone();
    let commands = [
        "read -P 0x11 0 4k",
        "write -P 0xab 1M 64k",
        "write -f -P 0xcd 2M 8k",
        "flush",
        "read -P 0xab 1M 64k",
        "discard 3M 64k",
        "write -z 3M 4k",
    ];
    // Else every write comes as one that forces the medium.
    let mut arguments = vec!["-f", "raw", "-t", "writeback"];
    commands.iter().for_each(|command| arguments.extend(["-c", command]));
    arguments.push(&uri);
    let printed = run("qemu-io", &arguments);
    let document = recorded.interrupt();
    let Some(printed) = printed else { return };
    assert!(!printed.contains("verification failed"), "{printed}");
    let rows =
        rows(Path::new(&trace), &["op", "fua", "lbn", "blocks", "arrival_ns", "issue_ns", "completion_ns"]);
    assert_eq!(document["rows"].as_u64(), Some(rows.len() as u64), "{document}");
    assert_eq!(
        (document["lost_requests"].as_u64(), document["failed_requests"].as_u64()),
        (Some(0), Some(0))
    );
    let block = document["block_size_bytes"].as_u64().unwrap();
    let asked = |op: &str, fua: &str, offset: u64, length: u64| {
        let (lbn, blocks) = ((offset / block).to_string(), (length / block).to_string());
        let found = rows.iter().filter(|row| row[..4] == [op, fua, lbn.as_str(), blocks.as_str()]);
        assert_eq!(found.count(), 1, "{op} {offset} {length}: {rows:?}");
    };
    asked("read", "false", 0, 4096);
    asked("write", "false", 1 << 20, 65536);
    asked("write", "true", 2 << 20, 8192);
    asked("read", "false", 1 << 20, 65536);
    asked("discard", "false", 3 << 20, 65536);
    asked("write_zeroes", "false", 3 << 20, 4096);
    assert!(rows.iter().any(|row| row[0] == "flush"));
    for row in &rows {
        let [arrival, issue, completion] = [4, 5, 6].map(|at: usize| row[at].parse::<u64>().unwrap());
        assert!(arrival <= issue && issue <= completion, "{row:?}");
    }
    let arrivals = rows.iter().map(|row| row[4].parse::<u64>().unwrap());
    assert!(arrivals.is_sorted());
    let mut expected = vec![0x11; 4 << 20];
    expected[1 << 20..(1 << 20) + 65536].fill(0xab);
    expected[2 << 20..(2 << 20) + 8192].fill(0xcd);
    expected[3 << 20..(3 << 20) + 65536].fill(0);
    assert!(std::fs::read(&backing).unwrap() == expected, "the backing holds something else");
}

#[test]
fn copy_over_many_connections_is_whole_and_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (backing, source, trace) = (at("disk"), at("source"), at("seen.csv"));
    let bytes: Vec<u8> =
        (0..8_u32 << 20).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8 | 1).collect();
    std::fs::write(&source, &bytes).unwrap();
    std::fs::write(&backing, vec![0; 8 << 20]).unwrap();
    let socket = format!("unix:{}", at("nbd"));
    let recorded = Recorded::start(&["--backing", &backing, "-o", &trace, "--nbd", &socket]);
    let uri = recorded.place.clone();
    let copied = run("nbdcopy", &["--request-size=65536", "--connections=4", &source, &uri]);
    let document = recorded.interrupt();
    if copied.is_none() {
        return;
    }
    assert!(std::fs::read(&backing).unwrap() == bytes, "the copy differs");
    let rows = rows(Path::new(&trace), &["op", "lbn", "blocks"]);
    let block = document["block_size_bytes"].as_u64().unwrap();
    let mut written: Vec<(u64, u64)> = rows
        .iter()
        .filter(|row| row[0] == "write")
        .map(|row| (row[1].parse::<u64>().unwrap() * block, row[2].parse::<u64>().unwrap() * block))
        .collect();
    written.sort_unstable();
    let expected: Vec<(u64, u64)> = (0..128).map(|index| (index * 65536, 65536)).collect();
    assert_eq!(written, expected);
    assert_eq!(document["requests"].as_u64(), Some(rows.len() as u64));
}

#[test]
fn read_only_backing_stays_unchanged_and_refuses_writes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (backing, trace, socket) = (at("disk"), at("seen.csv"), format!("unix:{}", at("nbd")));
    std::fs::write(&backing, vec![7; 1 << 20]).unwrap();
    let recorded = Recorded::start(&["--backing", &backing, "-o", &trace, "--nbd", &socket, "--read-only"]);
    let uri = recorded.place.clone();
    let printed = run("nbdinfo", &[&uri]);
    recorded.interrupt();
    let Some(printed) = printed else { return };
    assert!(printed.contains("is_read_only: true"), "{printed}");
    assert_eq!(std::fs::read(&backing).unwrap(), vec![7; 1 << 20]);
}

#[test]
fn figures_are_printed_although_the_trace_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (backing, trace, socket) = (at("disk"), at("full.csv"), at("nbd"));
    std::fs::write(&backing, vec![7; 1 << 20]).unwrap();
    std::os::unix::fs::symlink("/dev/full", &trace).unwrap();
    let address = format!("unix:{socket}");
    let recorded = Recorded::start(&["--backing", &backing, "-o", &trace, "--nbd", &address]);
    let mut client = Client::connect(UnixStream::connect(&socket).unwrap(), "", false).unwrap();
    for number in 0..3 {
        assert_eq!(client.call(&Request::new(READ, number, number << 12, 1 << 12)).unwrap().error, 0);
    }
    drop(client);
    let (code, document) = recorded.end();
    assert_eq!(code, Some(2), "{document}");
    assert_eq!((document["rows"].as_u64(), document["reads"].as_u64()), (Some(3), Some(3)), "{document}");
    assert!(document["response_mean_ms"].as_f64() > Some(0.0), "{document}");
}

/// Runs seeklab; its exit code, standard output and standard error.
fn seeklab(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_seeklab")).args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn killed_recording_leaves_its_rows_marked_as_cut() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (backing, trace, part) = (at("disk"), at("seen.parquet"), at("seen.parquet.part"));
    std::fs::write(&backing, vec![7; 1 << 20]).unwrap();
    let address = format!("unix:{}", at("nbd"));
    let mut recorded = Recorded::start(&["--backing", &backing, "-o", &trace, "--nbd", &address]);
    let mut client = Client::connect(UnixStream::connect(at("nbd")).unwrap(), "", false).unwrap();
    for number in 0..200 {
        assert_eq!(client.call(&Request::new(READ, number, number << 12, 1 << 12)).unwrap().error, 0);
    }
    // The rows are saved about a second later, but for the last, which waits for the next one.
    let requests = |path: &str| {
        let (code, document, problem) = seeklab(&["trace", "info", path, "--json"]);
        assert_eq!(code, Some(0), "{problem}");
        let document: serde_json::Value = serde_json::from_str(&document).unwrap();
        let info = &document["traces"][0];
        assert!(info["notes"].to_string().contains("the trace is cut"), "{info}");
        info["requests"].as_u64().unwrap()
    };
    until(|| if requests(&part) < 199 { Err("rows are missing".to_owned()) } else { Ok(()) });
    let other = at("other");
    std::fs::write(&other, vec![7; 1 << 20]).unwrap();
    let (code, _, problem) = seeklab(&["record", "--backing", &other, "-o", &trace]);
    assert!(code == Some(2) && problem.contains("another process is recording into it"), "{problem}");
    recorded.child.kill().unwrap();
    recorded.child.wait().unwrap();
    assert!(!Path::new(&trace).exists());
    assert_eq!(requests(&part), 199);
    let (code, _, problem) = seeklab(&["record", "--backing", &other, "-o", &trace]);
    let advice = format!("`seeklab trace convert {part} {trace}`");
    assert!(code == Some(2) && problem.contains(&advice), "{problem}");
    let (code, _, problem) = seeklab(&["trace", "convert", &part, &trace]);
    assert!(code == Some(0) && problem.contains("the trace is cut"), "{problem}");
    assert_eq!(requests(&trace), 199);
    let csv = at("seen.csv");
    assert_eq!(seeklab(&["trace", "convert", &trace, &csv]).0, Some(0));
    let places: Vec<u64> =
        rows(Path::new(&csv), &["lbn"]).iter().map(|row| row[0].parse().unwrap()).collect();
    let block = places[1] - places[0];
    assert!(places.iter().copied().eq((0..199).map(|number| number * block)), "{places:?}");
}

#[test]
fn missing_backing_is_named_and_no_trace_is_begun() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("seen.parquet");
    let output = Command::new(env!("CARGO_BIN_EXE_seeklab"))
        .args(["record", "--backing", "/no/such/disk", "-o"])
        .arg(&trace)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("`/no/such/disk` cannot be opened"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
