//! `seeklab run`: its output, resumption of a series, and no leftovers however the run ends.

use std::fs;
use std::process::{Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::survive::harness::{Draw, Guarded, Held, SEEKLAB, Scene, can_mount, now_ns, succeed, until};

const NEEDS: [&str; 3] = ["mkfs.ext4", "setsid", "timeout"];

fn run(scene: &Scene, arguments: &[&str]) -> Output {
    scene.seeklab().arg("run").args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn document(output: &Output) -> Value {
    // One document and nothing else, or this fails.
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn document_has_every_key() {
    const KEYS: [&str; 21] = [
        "elapsed_s",
        "flush_s",
        "user_s",
        "system_s",
        "emulator_cpu_s",
        "requests",
        "compared_requests",
        "mp1_mean_ms",
        "mp3_mean_ms",
        "ei_avg_ms",
        "ei_avg_pct",
        "ei_rms_ms",
        "ei_rms_pct",
        "ea_rms_ms",
        "ea_rms_pct",
        "lateness_p50_us",
        "lateness_p99_us",
        "deadline_misses",
        "stall_pct",
        "out_of_validated_range",
        "exit_code",
    ];
    if !can_mount("document_has_every_key", &NEEDS) {
        return;
    }
    let scene = Scene::new("document");
    let line = "echo out; dd if=/dev/zero of=f bs=64k count=4 oflag=direct 2>/dev/null; sync";
    let arguments = ["hp-c2247a", "--compare", "immediate", "--repeat", "2", "--size", "32MiB", "--json"];
    let queue = ["--host-scheduler", "none", "--host-requests", "32", "--host-rotational", "false"];
    let exactness = ["--mode", "synchronous", "--lookahead", "30us", "--deadline-limit", "1ms"];
    let command = ["--", "sh", "-c", line];
    let output = run(&scene, &[&arguments[..], &queue, &exactness, &command].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("out\n"), "commands write to stderr");
    let document = document(&output);
    assert_eq!(document["lookahead_us"].as_f64(), Some(30.0));
    assert_eq!(document["deadline_limit_us"].as_f64(), Some(1_000.0));
    let devices = document["devices"].as_array().unwrap();
    assert_eq!(devices.len(), 2);
    for device in devices {
        let repetitions = device["repetitions"].as_array().unwrap();
        assert_eq!(repetitions.len(), 2);
        let queue = &repetitions[0]["host_queue"];
        assert_eq!(queue["scheduler"], "none", "{queue}");
        assert_eq!(queue["request_count"].as_u64(), Some(32), "{queue}");
        assert_eq!(queue["rotational"], false, "{queue}");
        assert_eq!(
            queue["read_ahead_kib"].as_u64(),
            Some(128),
            "an option that is not given keeps the value of the device: {queue}"
        );
        for repetition in repetitions {
            for key in KEYS {
                assert!(repetition.get(key).is_some(), "{key} is missing in {repetition}");
            }
            assert!(repetition["requests"].as_u64() > Some(0), "{repetition}");
            assert_eq!(repetition["exit_code"].as_i64(), Some(0));
            let [host, model, error] =
                ["mp1_mean_ms", "mp3_mean_ms", "ei_avg_ms"].map(|key| repetition[key].as_f64().unwrap());
            // Each is rounded to a nanosecond.
            assert!((host - model - error).abs() < 2e-6, "{repetition}");
            let causes = repetition["deadline_misses"].as_object().unwrap();
            assert_eq!(causes.len(), 5, "{causes:?}");
        }
        for figure in ["mean", "sd", "min", "max"] {
            assert!(device["statistics"]["elapsed_s"][figure].is_number(), "{device}");
        }
    }
}

/// Most requests that the device had at a time, while twelve processes write to it past the page cache.
fn outstanding_max(scene: &Scene, options: &[&str]) -> u64 {
    let traces = tempfile::tempdir().unwrap();
    let traces = traces.path().to_str().unwrap();
    let line = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do dd if=/dev/zero of=f$i bs=4k count=1 oflag=direct conv=notrunc & done; wait";
    let arguments =
        ["constant", "--set", "service_time=100ms", "--size", "32MiB", "--host-scheduler", "none"];
    let setup = ["--setup", "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do head -c 4096 /dev/zero > f$i; done"];
    let command = ["--record", traces, "--json", "--", "sh", "-c", line];
    let output = run(scene, &[&arguments[..], &setup, options, &command].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let recorded = fs::read_dir(traces).unwrap().next().unwrap().unwrap().path();
    let csv = format!("{traces}/t.csv");
    succeed(SEEKLAB, &["trace", "convert", recorded.to_str().unwrap(), &csv]);
    let text = fs::read_to_string(csv).unwrap();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let column = lines.next().unwrap().split(',').position(|name| name == "queue_length").unwrap();
    lines.map(|line| line.split(',').nth(column).unwrap().parse::<u64>().unwrap() + 1).max().unwrap()
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn limit_of_requests_ends_with_its_run() {
    if !can_mount("limit_of_requests_ends_with_its_run", &NEEDS) {
        return;
    }
    let scene = Scene::new("requests");
    assert!(outstanding_max(&scene, &["--host-requests", "4"]) <= 4);
    // The next run usually has the same loop device.
    let after = outstanding_max(&scene, &[]);
    assert!(after > 4, "{after}");
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn exit_codes_distinguish_failed_commands_from_wrong_usage() {
    if !can_mount("exit_codes_distinguish_failed_commands_from_wrong_usage", &NEEDS) {
        return;
    }
    let scene = Scene::new("codes");
    let small = ["immediate", "--size", "32MiB", "--json"];
    let failed = run(&scene, &[&small[..], &["--", "sh", "-c", "exit 7"]].concat());
    assert_eq!(failed.status.code(), Some(1), "{failed:?}");
    assert_eq!(document(&failed)["devices"][0]["repetitions"][0]["exit_code"].as_i64(), Some(7));
    let wrong: [&[&str]; 6] = [
        &["immediate", "--size", "32MiB"],
        &["no-such-device", "--", "true"],
        &["immediate", "--fs", "fat", "--", "true"],
        &["immediate", "--", "no-such-program-at-all"],
        &["immediate", "--user", "no-such-user-at-all", "--", "true"],
        &["immediate", "--phase", "nameless", "--", "true"],
    ];
    for arguments in wrong {
        let output = run(&scene, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}: {output:?}");
    }
    until(|| scene.left(u32::MAX, &Held::default()));
}

/// The devices and repetitions of a journal, in the order in which they were run.
fn cells(journal: &str) -> Vec<(String, u64)> {
    let lines = fs::read_to_string(journal).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let lines = lines.filter(|line| line.get("cell").is_some());
    lines
        .map(|line| (line["cell"].as_str().unwrap().to_owned(), line["repetition"].as_u64().unwrap()))
        .collect()
}

#[test]
fn comparison_rotates_the_devices_over_three_repetitions() {
    let scene = Scene::new("rotates");
    let results = scene.path("results");
    let compared = ["immediate", "--compare", "constant,exponential", "--size", "64MiB", "--json"];
    let rest = ["--results", &results, "--builtin", "postmark,transactions=5,files=5"];
    let output = run(&scene, &[&compared[..], &rest].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(document(&output)["uncounted_passes"].as_u64(), Some(1));
    let order = [
        "immediate",
        "constant",
        "exponential",
        "constant",
        "exponential",
        "immediate",
        "exponential",
        "immediate",
        "constant",
    ];
    let expected: Vec<(String, u64)> =
        order.iter().enumerate().map(|(place, device)| ((*device).to_owned(), place as u64 / 3)).collect();
    assert_eq!(cells(&results), expected);
    // One device alone is run once, and a time with cold caches is none to compare with.
    let alone = ["immediate", "--size", "64MiB", "--json"];
    let output = run(&scene, &[&alone[..], &rest].concat());
    assert_eq!(document(&output)["uncounted_passes"].as_u64(), Some(0));
    assert_eq!(document(&output)["devices"][0]["repetitions"].as_array().unwrap().len(), 1);
    assert_eq!(cells(&results).len(), 10);
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn comparison_begins_with_one_uncounted_pass() {
    if !can_mount("comparison_begins_with_one_uncounted_pass", &NEEDS) {
        return;
    }
    let scene = Scene::new("uncounted");
    let (results, count) = (scene.path("results"), scene.path("count"));
    let line = format!("echo $SEEKLAB_DEVICE >> {count}");
    let runs = || fs::read_to_string(&count).unwrap().lines().count();
    let arguments = |repeat| {
        let compared =
            ["immediate", "--compare", "constant", "--size", "32MiB", "--json", "--repeat", repeat];
        [&compared[..], &["--results", &results, "--", "sh", "-c", &line]].concat()
    };
    let output = run(&scene, &arguments("1"));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(runs(), 3, "two counted, one not");
    // All is known.
    let again = run(&scene, &arguments("1"));
    assert_eq!(runs(), 3, "{again:?}");
    assert_eq!(document(&again)["devices"], document(&output)["devices"]);
    // The caches may be cold by now.
    let more = run(&scene, &arguments("2"));
    assert_eq!(runs(), 6, "{more:?}");
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn finished_repetitions_are_not_run_again() {
    if !can_mount("finished_repetitions_are_not_run_again", &NEEDS) {
        return;
    }
    let scene = Scene::new("resumes");
    let (results, count) = (scene.path("results"), scene.path("count"));
    // The third one waits to be killed, the first time.
    let line = format!(
        "echo x >> {count}; if test $(wc -l < {count}) = 3 && ! test -e {count}.again; \
         then touch {count}.waits; exec sleep 1000; fi"
    );
    let arguments = ["immediate", "--size", "32MiB", "--repeat", "4", "--json", "--results", &results];
    let arguments = [&arguments[..], &["--", "sh", "-c", &line]].concat();
    let mut held = Held::default();
    for signal in [Signal::INT, Signal::KILL] {
        let mut first = scene.seeklab();
        let first = first
            .arg("run")
            .args(&arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut first = Guarded(first.spawn().unwrap());
        let waits = std::path::PathBuf::from(format!("{count}.waits"));
        until(|| waits.exists().then_some(()).ok_or_else(|| "the third does not begin".to_owned()));
        held.look(first.0.id());
        first.signal(signal);
        let status = first.0.wait().unwrap();
        assert!(signal == Signal::KILL || status.code() == Some(1), "{status}");
        until(|| scene.left(first.0.id(), &held));
        assert_eq!(fs::read_to_string(&results).unwrap().lines().count(), 2);
        fs::remove_file(&waits).unwrap();
        fs::write(&count, "x\nx\n").unwrap();
    }
    fs::write(format!("{count}.again"), "").unwrap();
    let output = run(&scene, &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(document(&output)["devices"][0]["repetitions"].as_array().unwrap().len(), 4);
    assert_eq!(fs::read_to_string(&count).unwrap().lines().count(), 4, "two were run, two were not");
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn files_are_whole_on_every_file_system() {
    std::thread::scope(|scope| {
        for (fs, size) in [("ext4", "64MiB"), ("ext2", "64MiB"), ("xfs", "320MiB"), ("btrfs", "128MiB")] {
            scope.spawn(move || {
                let mkfs = format!("mkfs.{fs}");
                if !can_mount("files_are_whole_on_every_file_system", &[&mkfs]) {
                    return;
                }
                let scene = Scene::new(fs);
                let write = "write=i=0; while [ $i -lt 20 ]; do head -c 60000 /dev/urandom > $i; i=$((i+1)); \
                             done; sha256sum [0-9]* > digests";
                let verify = "sha256sum --quiet -c digests && test $(wc -l < digests) = 20";
                let arguments = ["immediate", "--fs", fs, "--size", size, "--json", "--phase", write];
                let output = run(&scene, &[&arguments[..], &["--", "sh", "-c", verify]].concat());
                let errors = String::from_utf8_lossy(&output.stderr);
                if errors.contains("nothing was started") {
                    return eprintln!("skipped: {fs}: {errors}");
                }
                assert_eq!(output.status.code(), Some(0), "{fs}: {output:?}");
            });
        }
    });
}

/// Everything that outlives its parent, if one lets it.
const STUBBORN: &str = "trap '' TERM HUP INT; \
    (setsid sh -c 'trap \"\" TERM HUP INT; while :; do cat /dev/zero > daemon; done' >/dev/null 2>&1 &); \
    ( ( (sleep 1000 &) & ) & ); \
    i=0; while [ $i -lt 40 ]; do echo $i > f$i; sync f$i; i=$((i+1)); done";

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn nothing_is_left_however_a_run_is_ended() {
    if !can_mount("nothing_is_left_however_a_run_is_ended", &NEEDS) {
        return;
    }
    let _control = crate::survive::served::FuseControl::mount();
    let rounds: u64 = std::env::var("SEEKLAB_KILLS").map_or(32, |kills| kills.parse().unwrap());
    let seed = now_ns();
    let mut draw = Draw(seed);
    let mut was_bound = false;
    let mut ended = [0; 4];
    for round in 0..rounds {
        let scene = Scene::new("ended");
        let which = (round % 4) as usize;
        let signal = [Signal::KILL, Signal::INT, Signal::TERM, Signal::HUP][which];
        let mut command = scene.seeklab();
        command.args(["run", "constant", "--set", "service_time=300us", "--size", "32MiB", "--json"]);
        command.args(["--setup", STUBBORN, "--phase", &format!("first={STUBBORN}")]);
        command
            .args(["--", "sh", "-c", STUBBORN])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut run = Guarded(command.spawn().unwrap());
        let pid = run.0.id();
        // From the first instructions to the second phase, and more often early.
        let mut held = Held::default();
        let begin_ns = now_ns();
        let random = draw.below(1000);
        let end_ns = random * random * 2_500;
        while now_ns() - begin_ns < end_ns {
            held.look(pid);
            std::thread::park_timeout(Duration::from_millis(3));
        }
        let context =
            |what: String| format!("seed {seed}, round {round}, {signal:?} after {end_ns} ns: {what}");
        // Stopped, it holds what it is seen to hold.
        run.signal(Signal::STOP);
        held.look(pid);
        run.signal(signal);
        run.signal(Signal::CONT);
        let _ = kill_process(Pid::from_child(&run.0), Signal::CONT);
        let mut status = None;
        until(|| {
            status = run.0.try_wait().unwrap();
            status.map(drop).ok_or_else(|| context("it does not end".to_owned()))
        });
        until(|| scene.left(pid, &held).map_err(context));
        let status = status.unwrap();
        // Before it catches signals, they end it as they end anything.
        let by_signal = std::os::unix::process::ExitStatusExt::signal(&status);
        assert!(
            status.code() == Some(1) || by_signal == Some(signal.as_raw()),
            "{}",
            context(status.to_string())
        );
        ended[which] += 1;
        was_bound |= held.is_bound;
    }
    assert!(was_bound, "no round saw a block device bound, so none could see one that stays");
    assert!(ended.iter().all(|count| *count > 0), "{ended:?}");
}
