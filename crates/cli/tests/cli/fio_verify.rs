//! `verify` in fio job files, and reading back what a workload wrote.

use serde_json::Value;

use super::bench::{Bench, unfolded};
use super::verification::{Served, uri};

/// Runs a job file on a served device and returns the exit code and the verification.
fn verified(bench: &Bench, job: &str) -> (i32, Value, String) {
    let uri = uri(bench);
    bench.write("job.fio", job.replace("URI", &uri));
    let run = bench.run(&["bench", "job.fio", "--destroy", &uri, "--json"]);
    let document: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{}", run.stderr));
    (run.code, document, run.stderr)
}

const WRITER: &str =
    "[global]\nioengine=nbd\nuri=URI\nbs=4k\niodepth=4\nsize=2m\n[w]\nrw=randwrite\nverify=crc32c\n";

#[test]
fn blocks_that_a_job_wrote_are_read_back_and_checked() {
    let bench = Bench::new();
    let _served = Served::start(&bench, &[]);
    for check in [
        "crc32c",
        "md5",
        "xxhash",
        "sha3-256",
        "meta",
        "pattern\nverify_pattern=0xaa%o",
        "crc32c-intel\nverify_async=4",
    ] {
        let (code, document, stderr) = verified(&bench, &WRITER.replace("crc32c", check));
        let found = &document["verification"];
        assert_eq!(code, 0, "{check}: {stderr}");
        assert_eq!(found["read_back"]["blocks"], 4096, "{check}: {found:#}");
        assert_eq!(
            (&found["checked_blocks"], &found["finding_blocks"]),
            (&4096.into(), &0.into()),
            "{check}"
        );
        assert_eq!(document["requests"], 512, "reading back is no part of the figures");
    }
    let (_, document, _) = verified(&bench, &format!("{WRITER}verify_backlog=8\nverify_fatal=1\n"));
    let notes = document["notes"].to_string();
    for part in [
        "stamps of seeklab",
        "verify_backlog: blocks are read back behind",
        "verify_fatal: a finding ends no job",
    ] {
        assert!(notes.contains(part), "no `{part}` in {notes}");
    }
    let (code, document, _) = verified(&bench, &format!("{WRITER}do_verify=0\n"));
    let found = &document["verification"];
    assert_eq!((code, &found["read_back"], &found["checked_blocks"]), (0, &Value::Null, &0.into()));
}

#[test]
fn lies_of_a_target_are_found_by_a_job_file() {
    for (fault, kinds) in [
        ("lost_write,probability=5%", &["stale", "blank"][..]),
        ("misdirected_write,probability=5%,by=8KiB", &["misdirected", "stale", "blank"]),
        ("bit_rot,probability=100%", &["corrupt"]),
    ] {
        let bench = Bench::new();
        let _served = Served::start(&bench, &[fault]);
        let (code, document, stderr) = verified(&bench, WRITER);
        let found = &document["verification"];
        assert_eq!(code, 1, "{fault}: {stderr}");
        assert!(stderr.contains("read other than written"), "{fault}: {stderr}");
        let of = |kind: &&str| found[format!("{kind}_blocks")].as_u64().unwrap();
        assert!(kinds.iter().map(of).sum::<u64>() > 10, "{fault}: {found:#}");
        assert_eq!(found["finding_blocks"].as_u64().unwrap(), kinds.iter().map(of).sum::<u64>(), "{fault}");
    }
    // A job that only reads checks what the jobs above it wrote.
    let bench = Bench::new();
    let _served = Served::start(&bench, &["lost_write,probability=5%"]);
    let reader = format!("{WRITER}do_verify=0\n[r]\nstonewall\nrw=read\nverify=crc32c\n");
    let (code, document, _) = verified(&bench, &reader);
    let found = &document["verification"];
    assert_eq!((code, &found["read_back"]), (1, &Value::Null));
    assert!(found["finding_blocks"].as_u64() > Some(20), "{found:#}");
}

#[test]
fn verification_that_cannot_be_honoured_is_refused_by_name_and_line() {
    let bench = Bench::new();
    bench.write("there.img", vec![7; 1 << 20]);
    let base = "[a]\nsize=1m\nrw=write\n";
    for (text, part) in [
        ("verify=null\n", "line 4: verify=null: fio only pretends to check then"),
        ("verify=crc8\n", "line 4: verify=crc8: md5, crc64,"),
        ("verify_only\n", "line 4: verify_only: nothing is written then"),
        ("verify_state_load=1\n", "line 4: verify_state_load=1: states of fio are not read"),
        ("verifysort=0\n", "line 4: verifysort=0: blocks are read back in the order"),
        ("verify_pattern=\n", "line 4: verify_pattern: has no pattern"),
        ("verify=md5\nzero_buffers\n", "line 4: verify=md5: writes have stamps in place of the content"),
        ("rw=trim\nverify=md5\n", "line 5: verify=md5: a job that trims leaves nothing to check"),
        ("ioengine=null\nverify=md5\n", "line 5: verify=md5: `null` carries no data"),
        (
            "rw=read\nverify=md5\nfilename=there.img\n",
            "line 5: verify=md5: job `a` reads `psync:there.img`, which no job up to its group writes",
        ),
    ] {
        bench.write("job.fio", format!("{base}{text}"));
        let run = bench.run(&["bench", "job.fio"]);
        run.fails(&[]);
        assert!(unfolded(&run.stderr).contains(part), "{text}: no `{part}` in: {}", run.stderr);
    }
    bench.write("job.fio", format!("{base}verify=md5\n"));
    let figures = bench.json(&["bench", "job.fio", "--on", "model:constant", "--skip-unknown"]);
    assert_eq!((&figures["requests"], &figures["verification"]), (&256.into(), &Value::Null));
    assert!(figures["notes"].to_string().contains("left out by --skip-unknown: line 4: verify=md5"));
}

#[test]
fn plans_and_options_say_what_is_read_back() {
    let bench = Bench::new();
    let plan = "verify = true\n[targets.t]\naddress = \"disk.img\"\ncreate = \"4MiB\"\n[[phases]]\n[[phases.streams]]\nname = \"a\"\n\
                target = \"t\"\nworkload = \"sequential,size=4KiB,read=0%,closed=1,requests=100\"\nread_back = true\n[[phases.streams]]\n\
                name = \"b\"\ntarget = \"t\"\nworkload = \"sequential,size=4KiB,read=0%,closed=1,requests=50\"\n";
    bench.write("plan.toml", plan);
    let figures = bench.json(&["bench", "plan.toml", "--folder", "run"]);
    let found = &figures["verification"];
    let blocks = |requests: u64| {
        let block = figures["phases"][0]["streams"][0]["block_size_bytes"].as_u64().unwrap();
        requests * 4096 / block
    };
    assert_eq!(found["read_back"]["blocks"], blocks(100), "stream `b` is not read back: {found:#}");
    assert_eq!(found["checked_blocks"], blocks(100));
    let again = bench.run(&["bench", "rerun", "run"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    let again: Value = serde_json::from_slice(&bench.read("run-rerun-1/run.json")).unwrap();
    assert_eq!(again["verification"]["read_back"]["blocks"], blocks(100), "a rerun reads back, too");
    let line =
        ["bench", "disk.img", "--create", "4MiB", "-w", "random,size=4KiB,read=0%,closed=4,requests=64"];
    let figures = bench.json(&[&line[..], &["--verify", "--read-back"]].concat());
    assert!(figures["verification"]["read_back"]["blocks"].as_u64() > Some(0), "{figures:#}");
    bench.run(&[&line[..], &["--read-back"]].concat()).fails(&["--verify"]);
    let reads =
        ["bench", "disk.img", "--create", "4MiB", "-w", "random,size=4KiB,read=100%,closed=4,requests=64"];
    bench.run(&[&reads[..], &["--verify", "--read-back"]].concat()).fails(&["writes nothing"]);
    bench.write("plan.toml", plan.replace("verify = true\n", ""));
    bench.run(&["bench", "plan.toml"]).fails(&["phases[0].streams[0].read_back: goes with `verify`"]);
}
