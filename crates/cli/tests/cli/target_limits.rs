//! `seeklab bench` on exports that cannot do everything, and on servers that do not answer.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::bench::{Bench, unfolded};

const SIZE_BYTES: u64 = 16 << 20;
/// Flags that an export sends, and the flush, force unit access, trim and write zeroes that it can do.
const FLAGS: u16 = 1;
const FLUSH: u16 = 1 << 2;
const FUA: u16 = 1 << 3;
const TRIM: u16 = 1 << 5;
const ZEROES: u16 = 1 << 6;

/// Serves an export with those flags and that block-size maximum, which does whatever it announces.
fn serve(bench: &Bench, flags: u16, block_bytes_max: u32) -> String {
    let path = bench.path("disk.sock");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || converse(stream, flags, block_bytes_max));
        }
    });
    format!("nbd+unix:///?socket={}", path.display())
}

fn converse(mut stream: UnixStream, flags: u16, block_bytes_max: u32) -> Option<()> {
    stream.write_all(b"NBDMAGICIHAVEOPT\0\x03").ok()?;
    stream.read_exact(&mut [0; 4]).ok()?;
    let answer = |stream: &mut UnixStream, option: u32, kind: u32, data: &[u8]| {
        let mut bytes = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        stream.write_all(&bytes).ok()
    };
    loop {
        let mut head = [0; 16];
        stream.read_exact(&mut head).ok()?;
        let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
        let (option, length) = (word(8), word(12));
        stream.read_exact(&mut vec![0; length as usize]).ok()?;
        if option != 7 {
            answer(&mut stream, option, 0x8000_0001, &[])?;
            continue;
        }
        let export = [&[0, 0][..], &SIZE_BYTES.to_be_bytes(), &(FLAGS | flags).to_be_bytes()].concat();
        answer(&mut stream, option, 3, &export)?;
        let sizes = [512_u32, 4096, block_bytes_max].map(u32::to_be_bytes).concat();
        answer(&mut stream, option, 3, &[&[0, 3][..], &sizes].concat())?;
        answer(&mut stream, option, 1, &[])?;
        break;
    }
    loop {
        let mut head = [0; 28];
        stream.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes(head[24..].try_into().unwrap()) as usize;
        let kind = u16::from_be_bytes([head[6], head[7]]);
        if kind == 1 {
            stream.read_exact(&mut vec![0; length]).ok()?;
        }
        if kind == 2 {
            return None;
        }
        let mut reply = 0x6744_6698_u32.to_be_bytes().to_vec();
        reply.extend([0; 4]);
        reply.extend(&head[8..16]);
        reply.resize(reply.len() + if kind == 0 { length } else { 0 }, 0);
        stream.write_all(&reply).ok()?;
    }
}

#[test]
fn export_that_cannot_do_an_operation_is_refused_before_the_run() {
    let loads = [
        ("size=4KiB,read=50%,write_zeroes=10%", "carries out no write_zeroes", ZEROES),
        ("size=4KiB,read=50%,discard=10%", "carries out no discard", TRIM),
        ("size=4KiB,read=50%,flush_every=4", "carries out no flush", FLUSH),
        ("size=4KiB,read=50%,fua=50%", "has no force unit access", FUA),
        ("size=128KiB,read=50%", "at most 64KiB, and the workload has some of 128KiB", 0),
        ("size=4KiB:9+128KiB:1,read=100%", "at most 64KiB, and the workload has some of 128KiB", 0),
    ];
    for (load, problem, flag) in loads {
        let load = format!("random,{load},closed=2,requests=200");
        let all = FLUSH | FUA | TRIM | ZEROES;
        let bench = Bench::new();
        let uri = serve(&bench, all & !flag, 64 << 10);
        let run_with = |bench: &Bench, uri: &str| {
            let mut arguments = vec!["bench", uri, "-w", &load, "--json"];
            if !load.contains("read=100%") {
                arguments.extend(["--destroy", uri]);
            }
            bench.run(&arguments)
        };
        let run = run_with(&bench, &uri);
        run.fails(&[problem, "hint: "]);
        assert!(run.stdout.is_empty());
        // With the operation, and a greater maximum, it runs.
        let bench = Bench::new();
        let uri = serve(&bench, all, 1 << 20);
        let figures: serde_json::Value = serde_json::from_str(&run_with(&bench, &uri).done()).unwrap();
        assert_eq!((&figures["requests"], &figures["errors"]), (&200.into(), &0.into()), "{load}");
    }
}

#[test]
fn requests_of_a_trace_that_an_export_refuses_are_named_in_a_note() {
    let bench = Bench::new();
    let uri = serve(&bench, FLUSH, 64 << 10);
    bench.write("t.csv", "arrival_ns,op,lbn,blocks\n0,read,0,8\n1000000,discard,8,8\n2000000,read,64,256\n");
    let run = bench.run(&["bench", &uri, "-w", "t.csv", "--destroy", &uri]);
    let text = unfolded(&run.stdout);
    assert!(
        text.contains("requests were not sent, because the target refuses them: the export of"),
        "{text}"
    );
    assert!(text.contains("has no discard"), "{text}");
}

#[test]
fn server_that_does_not_answer_the_handshake_is_left_at_an_interrupt() {
    let bench = Bench::new();
    let path = bench.path("mute.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let uri = format!("nbd+unix:///?socket={}", path.display());
    let child = Command::new(env!("CARGO_BIN_EXE_seeklab"))
        .args(["bench", &uri, "-w", "random,size=4KiB,read=100%,closed=1,requests=5"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _mute = listener.accept().unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let expected = "error: interrupted before anything was measured";
    assert_eq!((output.status.code(), stderr.trim()), (Some(1), expected));
}

#[test]
fn options_of_no_use_are_refused_with_what_is_allowed() {
    let bench = Bench::new();
    let load = |line: &str| format!("random,size=4KiB,read=100%,{line}");
    let (closed, replayed) = (load("closed=4294967295"), load("closed=2"));
    bench.write("t.csv", "arrival_ns,op,lbn,blocks\n0,read,0,8\n");
    for (arguments, parts) in [
        (&["-w", &closed, "--requests", "5"][..], &["1000000"][..]),
        (&["-w", "t.csv", "--closed", "4294967295"], &["1 to 1000000"]),
        (&["-w", &replayed, "--duration", "0s"], &["at least 1ms"]),
        (&["-w", &replayed, "--retries", "3", "--retry-after", "100000days"], &["at most 86400s"]),
        (&["-w", &replayed, "--think", "10ms"], &["hint: --think", "write think=10ms in the line of the"]),
    ] {
        bench.run(&[&["bench", "model:immediate"], arguments].concat()).fails(parts);
    }
    let plan = "target = 'null'\n[[phases]]\nrequests = 5\n[[phases.streams]]\nworkload = 'random,size=4KiB,closed=1'\n\
                retries = 2\nretry_after = '100000days'\n";
    bench.write("plan.toml", plan);
    bench.run(&["bench", "plan.toml"]).fails(&["plan.toml, line 7", "retry_after", "at most"]);
}

#[test]
fn polling_is_for_targets_of_io_uring() {
    let bench = Bench::new();
    let load = ["-w", "random,size=4KiB,read=100%,closed=1,requests=5"];
    for target in ["null", "model:immediate", "psync:disk.img"] {
        let run = bench.run(&[&["bench", target, "--poll", "submission"], &load[..]].concat());
        run.fails(&["--poll", "is no target of io_uring", "hint: "]);
    }
    bench.write("disk.img", vec![7; 1 << 20]);
    let buffered = ["bench", "disk.img", "--buffered", "--poll", "submission,completion"];
    bench.run(&[&buffered, &load[..]].concat()).fails(&["cannot be polled"]);
    // The plan of a run keeps it.
    let polled = ["bench", "disk.img", "--poll", "submission", "--folder", "run", "--json"];
    let run = bench.run(&[&polled, &load[..]].concat());
    if run.code != 0 {
        eprintln!("skipped: {}", run.stderr);
        return;
    }
    let kept: serde_json::Value = serde_json::from_slice(&bench.read("run/run.json")).unwrap();
    assert_eq!(kept["run"]["plan"]["targets"][0]["polls_submission"], true);
    let plan = "[targets.disk]\naddress = 'disk.img'\npoll = ['submission']\n[[phases]]\nrequests = 50\n\
                [[phases.streams]]\ntarget = 'disk'\nworkload = 'random,size=4KiB,read=100%,closed=1'\n";
    bench.write("plan.toml", plan);
    let figures = bench.json(&["bench", "plan.toml"]);
    let calls = figures["cost"]["system_calls_per_request"].as_f64().unwrap();
    assert!(calls < 0.2, "{calls}");
    bench.json(&["bench", "rerun", "run"]);
}

#[test]
fn sizes_that_are_rounded_to_blocks_are_noted() {
    let bench = Bench::new();
    let notes = |size: &str| {
        let load = format!("random,size={size},read=100%,closed=1,requests=5");
        bench.json(&["bench", "model:immediate", "-w", &load])["notes"].to_string()
    };
    let rounded = "sizes were rounded up to whole blocks of 512B";
    assert!(notes("1000B").contains(rounded) && !notes("1024B").contains(rounded));
}
