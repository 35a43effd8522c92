//! Files through io_uring and pread: what is written where, and the system calls for it.

use std::fs::File;
use std::os::unix::fs::FileExt;

use seeklab_bench::target::{Polling, Target, TargetError, TargetOptions};
use seeklab_bench::{Plan, StreamPlan};
use seeklab_core::{Operation, Status};
use seeklab_emulator::clock::Clock;

use crate::harness::{at_most, open, options, run};

const SIZE_BYTES: u64 = 8 << 20;

/// A file in the temporary folder, and its path.
fn file() -> (tempfile::NamedTempFile, String) {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(SIZE_BYTES).unwrap();
    file.as_file().sync_all().unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    (file, path)
}

/// Opens a target; `None`, with the reason on stderr, if this machine has no direct access or no io_uring.
fn opened(address: &str, options: &TargetOptions) -> Option<Box<dyn Target>> {
    match open(address, Clock::start(), options) {
        Ok(target) => Some(target),
        Err(error @ TargetError::Unusable { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The words with which a block begins: address and number of its write.
fn head(file: &File, lbn: u64) -> (u64, u64) {
    let mut bytes = [0; 16];
    file.read_exact_at(&mut bytes, lbn * 512).unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    (word(0), word(8))
}

#[test]
fn every_write_lands_at_its_address_and_reads_are_whole() {
    for kind in ["io_uring:", "psync:"] {
        // Within the prepared buffers, and beyond them.
        for (size, outstanding) in [("4KiB", 16), ("64KiB", 4)] {
            let (file, path) = file();
            let Some(target) = opened(&format!("{kind}{path}"), &options(outstanding)) else { return };
            let requests = SIZE_BYTES / if size == "4KiB" { 4_096 } else { 65_536 };
            let line = format!(
                "sequential,size={size},align={size},read=0%,closed={outstanding},requests={requests}"
            );
            let (plan, stream) = (Plan { record: true, ..Plan::default() }, at_most(outstanding));
            let (measurement, heard) = run((&plan, &stream), target, &line, 1);
            let part = &measurement.totals.part;
            assert_eq!(
                (part.requests(), part.errors(), part.bytes()),
                (requests, 0, SIZE_BYTES),
                "{kind} {size}"
            );
            for (number, row) in heard.rows.iter().enumerate() {
                assert_eq!(head(file.as_file(), row.lbn), (row.lbn, number as u64), "{kind} {size}");
            }
            let target = opened(&format!("{kind}{path}"), &options(outstanding)).unwrap();
            let line = format!("random,size={size},read=100%,closed={outstanding},requests=300");
            let (measurement, _) = run((&plan, &stream), target, &line, 1);
            assert_eq!((measurement.totals.part.requests(), measurement.totals.part.errors()), (300, 0));
        }
    }
}

#[test]
fn batches_of_io_uring_cost_a_fraction_of_a_system_call() {
    let (_file, path) = file();
    let calls_per_request = |address: &str, population: u32, batch| {
        let target = opened(address, &options(population))?;
        let (plan, stream) = (Plan::default(), StreamPlan { batch, ..at_most(population) });
        let line = format!("random,size=4KiB,read=100%,closed={population},requests=2000");
        let (measurement, _) = run((&plan, &stream), target, &line, 1);
        let totals = measurement.totals;
        assert_eq!(totals.part.requests(), 2_000);
        Some(totals.cost.unwrap().system_calls as f64 / 2_000.0)
    };
    let null = calls_per_request("null", 32, 1).unwrap();
    assert!(null < 0.01, "{null}");
    let Some(psync) = calls_per_request(&format!("psync:{path}"), 1, 1) else { return };
    assert!((1.0..1.05).contains(&psync), "{psync}");
    let Some(one) = calls_per_request(&path, 1, 1) else { return };
    assert!((1.0..1.3).contains(&one), "submission and wait in one: {one}");
    let batched = calls_per_request(&path, 32, 8).unwrap();
    assert!(batched < 0.2, "{batched}");
}

#[test]
fn polled_submission_needs_no_system_calls_in_the_steady_state() {
    let (file, path) = file();
    let polled = TargetOptions { polling: Polling { submission: true, completion: false }, ..options(16) };
    let Some(target) = opened(&path, &polled) else { return };
    let requests = SIZE_BYTES / 4_096;
    let line = format!("sequential,size=4KiB,align=4KiB,read=0%,closed=16,requests={requests}");
    let (plan, stream) = (Plan { record: true, ..Plan::default() }, at_most(16));
    let (measurement, heard) = run((&plan, &stream), target, &line, 1);
    let totals = measurement.totals;
    assert_eq!((totals.part.requests(), totals.part.errors()), (requests, 0));
    for (number, row) in heard.rows.iter().enumerate() {
        assert_eq!(head(file.as_file(), row.lbn), (row.lbn, number as u64));
    }
    // The thread of the kernel is woken at the begin, and again if it slept for a second without a processor.
    let calls = totals.cost.unwrap().system_calls;
    assert!(calls < requests / 50, "{calls} system calls for {requests} requests");
    // Reads, one at a time.
    let Some(target) = opened(&path, &polled) else { return };
    let line = "random,size=4KiB,read=100%,closed=1,requests=500";
    let (measurement, _) = run((&Plan::default(), &at_most(1)), target, line, 1);
    assert_eq!((measurement.totals.part.requests(), measurement.totals.part.errors()), (500, 0));
    let calls = measurement.totals.cost.unwrap().system_calls;
    assert!(calls < 50, "{calls} system calls for 500 requests");
}

#[test]
fn polled_completion_is_refused_where_no_queue_can_be_polled() {
    let (file, path) = file();
    let polled = |direct| TargetOptions {
        polling: Polling { submission: false, completion: true },
        direct,
        ..options(4)
    };
    let refusal = |path: &str, direct| match open(path, Clock::start(), &polled(direct)).err() {
        Some(TargetError::Unusable { problem, hint, .. }) => format!("{problem}; {hint}"),
        other => panic!("{other:?}"),
    };
    assert!(refusal(&path, false).contains("page cache cannot be polled; leave out --buffered"));
    let shared = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    shared.as_file().set_len(SIZE_BYTES).unwrap();
    // Before Linux 6.6, tmpfs has no direct access.
    let problem = refusal(shared.path().to_str().unwrap(), true);
    assert!(problem.contains("lies on no block device") || problem.contains("direct access"), "{problem}");
    // Where a queue can be polled, requests are carried out.
    match open(&path, Clock::start(), &polled(true)) {
        Err(TargetError::Unusable { problem, .. }) => {
            assert!(
                problem.contains("no queue that can be polled") || problem.contains("lies on no"),
                "{problem}"
            );
        }
        Ok(target) => {
            assert!(target.facts().limits.refused.contains(&Operation::Flush));
            let line = "random,size=4KiB,read=50%,closed=4,requests=500";
            let (measurement, _) = run((&Plan::default(), &at_most(4)), target, line, 1);
            assert_eq!((measurement.totals.part.requests(), measurement.totals.part.errors()), (500, 0));
        }
        Err(error) => panic!("{error}"),
    }
    drop(file);
}

#[test]
fn other_operations_are_carried_out_by_both() {
    for kind in ["io_uring:", "psync:"] {
        let (file, path) = file();
        let Some(mut target) = opened(&format!("{kind}{path}"), &options(1)) else { return };
        let clock = Clock::start();
        file.as_file().write_all_at(&[7; 16 << 10], 0).unwrap();
        let mut ended = Vec::new();
        let request = |op, lbn, blocks| seeklab_core::Request::new(0, op, lbn, blocks);
        let write = request(Operation::Write, 64, 8);
        for request in [
            request(Operation::Flush, 0, 0),
            seeklab_core::Request { fua: true, ..write },
            request(Operation::Discard, 8, 8),
            request(Operation::WriteZeroes, 24, 8),
        ] {
            target.submit(&[seeklab_bench::target::Transfer { tag: 0, request }]).unwrap();
            while ended.is_empty() {
                let until = clock.now() + seeklab_core::Duration::from_ms(100);
                target.poll(seeklab_emulator::clock::Wait::Until(until), 1, &mut ended).unwrap();
            }
            let status = ended.pop().unwrap().status;
            assert_eq!(status, Status::Ok, "{kind} {:?}", request.op);
        }
        let mut bytes = vec![0; 16 << 10];
        file.as_file().read_exact_at(&mut bytes, 0).unwrap();
        let zeroes: Vec<usize> = (0..32).filter(|block| bytes[block * 512] == 0).collect();
        assert_eq!(zeroes, (8..16).chain(24..32).collect::<Vec<_>>(), "{kind}");
    }
}

#[test]
fn file_that_becomes_shorter_fails_the_reads_behind_its_end() {
    for kind in ["io_uring:", "psync:"] {
        let (file, path) = file();
        let Some(target) = opened(&format!("{kind}{path}"), &options(4)) else { return };
        file.as_file().set_len(SIZE_BYTES / 2).unwrap();
        let (measurement, _) = run(
            (&Plan::default(), &at_most(4)),
            target,
            "random,size=4KiB,read=100%,closed=4,requests=1000",
            1,
        );
        let part = &measurement.totals.part;
        assert_eq!(part.requests() + part.failed, 1_000);
        assert!((400..600).contains(&part.failed), "{kind} {}", part.failed);
        assert_eq!(part.statuses[Status::Aborted as usize], part.failed);
    }
}

#[test]
fn unusable_files_are_refused_with_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().join("empty");
    File::create(&empty).unwrap();
    let short = directory.path().join("short");
    std::fs::write(&short, [7; 100]).unwrap();
    let refused = |address: &str| open(address, Clock::start(), &options(1)).err().unwrap();
    for kind in ["", "psync:"] {
        let error = refused(&format!("{kind}{}", empty.display()));
        assert!(
            error.to_string().contains("is empty") && error.hint().unwrap().contains("--create"),
            "{error}"
        );
        let error = refused(&format!("{kind}{}", short.display()));
        assert!(error.to_string().contains("has 100 B, less than a block of"), "{error}");
        let error = refused(&format!("{kind}/dev/zero"));
        assert!(error.to_string().contains("neither a file nor a block device"), "{error}");
        let error = refused(&format!("{kind}{}/absent", directory.path().display()));
        assert!(error.to_string().contains("cannot open"), "{error}");
    }
}

#[test]
fn data_of_writes_are_as_chosen() {
    for kind in ["io_uring:", "psync:"] {
        for (data, priority, of_a_block) in [
            (
                "pattern=0a0b0c",
                None,
                (|at: usize| Some([0x0a, 0x0b, 0x0c][at % 3])) as fn(usize) -> Option<u8>,
            ),
            ("zeroes", Some("best-effort:7"), |_| Some(0)),
            ("compressible=50%", None, |at| (at % 512 >= 256).then_some(0)),
        ] {
            let (file, path) = file();
            let priority = priority.filter(|_| kind == "io_uring:").map(|text| text.parse().unwrap());
            let options = TargetOptions { data: data.parse().unwrap(), priority, ..options(4) };
            // What is written beyond the prepared 8 KiB has memory of its own.
            for size in ["8KiB", "24KiB"] {
                let line = format!("sequential,size={size},align={size},read=0%,closed=2,requests=40");
                let Some(target) = opened(&format!("{kind}{path}"), &options) else { return };
                let plan = Plan { record: true, ..Plan::default() };
                let (measurement, heard) = run((&plan, &at_most(4)), target, &line, 1);
                assert_eq!((measurement.totals.part.requests(), heard.rows.len()), (40, 40), "{data}");
                for row in &heard.rows {
                    let mut bytes = vec![0xff; row.blocks as usize * 512];
                    file.as_file().read_exact_at(&mut bytes, row.lbn * 512).unwrap();
                    // Patterns begin anew with each write.
                    for (at, byte) in bytes.iter().enumerate() {
                        if let Some(expected) = of_a_block(at) {
                            assert_eq!(*byte, expected, "{kind} {data} {size}: byte {at}");
                        }
                    }
                    assert!(data != "compressible=50%" || bytes[16..256].iter().any(|byte| *byte != 0));
                }
            }
        }
    }
}
