//! The examples that need a host: run as a user would, at their smallest, and their output looked at.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::survive::harness::{Guarded, SEEKLAB, can_mount, has};

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn postmark_reproduces_the_dissertation_for_three_disks() {
    let needs = ["postmark", "mkfs.ext2", "python3", "timeout"];
    if !can_mount("postmark_reproduces_the_dissertation_for_three_disks", &needs) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/paper/postmark.sh");
    let output = Command::new("timeout")
        .args(["-k", "5", "240"])
        .arg(script)
        .arg("--tiny")
        .current_dir(folder.path())
        .env("SEEKLAB", SEEKLAB)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    // Row by row beside the dissertation's tables 6.1 and 6.2.
    let row = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("| {name}")));
        let cells = line.unwrap_or_else(|| panic!("{name} is not in\n{text}")).split('|');
        cells.map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
    };
    let rows = [
        ("Run time [s]", "45.990", "15.850", "3.380"),
        ("Total requests", "10422", "10421", "10421"),
        ("mean response time in host [ms]", "4.456", "1.530", "0.313"),
        ("EI_avg [ms]", "0.075", "0.059", "–"),
        ("EI_rms [ms]", "0.991", "0.888", "–"),
        ("EA_rms [ms]", "0.860", "0.838", "–"),
    ];
    for (name, cheetah, fast, immediate) in rows {
        let cells = row(name);
        assert_eq!([&cells[3], &cells[5], &cells[7]], [cheetah, fast, immediate], "{name}");
    }
    let document: Value =
        serde_json::from_slice(&fs::read(folder.path().join("postmark.json")).unwrap()).unwrap();
    let figure = |device: usize, name: &str| {
        let figure = &document["devices"][device]["repetitions"][0][name];
        figure.as_f64().unwrap_or_else(|| panic!("{name}: {figure}"))
    };
    for device in 0..3 {
        assert_eq!(figure(device, "exit_code"), 0.0);
        assert!(figure(device, "requests") > 100.0);
    }
    // The same requests on each, and the faster disk is faster, whatever the machine does meanwhile.
    let requests = [0, 1, 2].map(|device| figure(device, "requests"));
    assert!(requests.iter().all(|count| (count / requests[0] - 1.0).abs() < 0.1), "{requests:?}");
    let model = [0, 1].map(|device| figure(device, "mp3_mean_ms"));
    assert!(model[1] < 0.7 * model[0] && model[0] > 1.0 && model[0] < 10.0, "{model:?}");
    for device in 0..2 {
        let (host, model) = (figure(device, "mp1_mean_ms"), figure(device, "mp3_mean_ms"));
        // Replies leave late on a busy machine, so its host sees longer times, never much shorter ones.
        assert!(host / model > 0.5, "{host} ms in the host, {model} in the model");
        let misses = &document["devices"][device]["repetitions"][0]["deadline_misses"];
        let missed: f64 = misses.as_object().unwrap().values().map(|count| count.as_f64().unwrap()).sum();
        if missed > 0.05 * requests[device] {
            eprintln!("skipped: times in the host: the machine is busy, {missed} deadlines were missed");
            continue;
        }
        assert!(host / model < 1.5, "{host} ms in the host, {model} in the model");
    }
    let page = fs::read_to_string(folder.path().join("postmark.html")).unwrap();
    assert!(page.contains("cheetah-36es-50krpm"), "the report is of the three devices");
}

#[test]
#[cfg_attr(not(fuse), ignore = "needs /dev/fuse")]
fn program_runs_on_a_mount_without_root() {
    let name = "program_runs_on_a_mount_without_root";
    if !has(name, &["fusermount3", "fuse2fs", "mkfs.ext4", "setpriv", "timeout"]) {
        return;
    }
    if fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_err() {
        eprintln!("skipped: {name}: /dev/fuse cannot be opened");
        return;
    }
    let mode = fs::metadata("/dev/fuse").unwrap().permissions().mode();
    if rustix::process::geteuid().is_root() && mode & 0o006 != 0o006 {
        eprintln!("skipped: {name}: /dev/fuse is closed to other users than root (mode {:o})", mode & 0o777);
        return;
    }
    // Where an ordinary user can read them.
    let folder = tempfile::tempdir().unwrap();
    let copied = |from: &Path, name: &str| {
        let to = folder.path().join(name);
        fs::copy(from, &to).unwrap();
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).unwrap();
        to
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/without-root.sh");
    let (script, seeklab) = (copied(&script, "without-root.sh"), copied(Path::new(SEEKLAB), "seeklab"));
    let work = folder.path().join("work");
    fs::create_dir(&work).unwrap();
    fs::set_permissions(&work, fs::Permissions::from_mode(0o1777)).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let line =
        "[ $(id -u) != 0 ] && mkdir d && echo written > d/f && sync && cat d/f && df . | tail -n 1; exit 3";
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "60"]);
    if rustix::process::geteuid().is_root() {
        command.args(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    }
    let output = command
        .arg(&script)
        .args(["cheetah-36es", "sh", "-c", line])
        .envs([("SIZE", "32M".as_ref()), ("SEEKLAB", seeklab.as_os_str())])
        .envs([("HOME", &work), ("TMPDIR", &work)])
        .output()
        .unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(3), "the command's own: {text}{errors}");
    assert!(text.contains("written\n") && text.contains("run time  "), "{text}{errors}");
    let requests = text.lines().find_map(|line| line.split_once(" requests in ")?.0.parse::<u64>().ok());
    assert!(requests > Some(10), "{text}{errors}");
    assert_eq!(fs::read_dir(&work).unwrap().count(), 0, "its files are gone");
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(work.to_str().unwrap()), "{mounts}");
}

/// Block devices, mounts, files and processes that the experiment could leave.
fn left_behind(out: &Path) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let mut left: Vec<String> =
        mounts.lines().filter(|line| line.contains("clone-stands-in")).map(str::to_owned).collect();
    let name =
        |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().contains("clone-stands-in"));
    for folder in [Path::new("/dev/shm"), &std::env::temp_dir(), out] {
        let files = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
        left.extend(files.filter(|path| name(path)).map(|path| path.display().to_string()));
    }
    let out = out.to_str().unwrap();
    for process in fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path()) {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(out) && !line.contains("/survive-") {
            left.push(line);
        }
    }
    left
}

#[test]
#[cfg_attr(not(block_devices), ignore = "needs root, /dev/fuse and loop devices")]
fn clone_experiment_runs_and_leaves_nothing() {
    let needs =
        ["postmark", "mkfs.ext4", "python3", "timeout", "make", "cc", "setpriv", "unshare", "losetup", "dd"];
    if !can_mount("clone_experiment_runs_and_leaves_nothing", &needs) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/clone-stands-in.py");
    let start = || {
        let mut command = Command::new("timeout");
        command.args(["--foreground", "-k", "5", "240"]).arg(&script).args(["--quick", "--out"]).arg(&out);
        command.env("SEEKLAB", SEEKLAB).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    // Broken off, as Ctrl-C does, as soon as the first run is there.
    let mut broken = Guarded(start().spawn().unwrap());
    let results =
        || -> Option<Value> { serde_json::from_slice(&fs::read(out.join("results.json")).ok()?).ok() };
    let runs = |document: &Value| document["runs"].as_array().map_or(0, Vec::len);
    while broken.0.try_wait().unwrap().is_none() && results().is_none_or(|document| runs(&document) == 0) {
        std::thread::park_timeout(Duration::from_millis(20));
    }
    broken.signal(Signal::INT);
    let status = broken.0.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{status}");
    assert_eq!(left_behind(&out), Vec::<String>::new());
    let before = results().unwrap();
    assert!((1..18).contains(&runs(&before)), "{before}");
    // It goes on where it was.
    let output = start().output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(left_behind(&out), Vec::<String>::new());
    let document = results().unwrap();
    let kept = runs(&before);
    assert_eq!(document["runs"].as_array().unwrap()[..kept], before["runs"].as_array().unwrap()[..kept]);
    assert_eq!(runs(&document), 18, "three applications on three devices, twice");
    for application in ["postmark", "build", "sqlite"] {
        let line = text.lines().find(|line| line.starts_with(&format!("| {application}")));
        let cells: Vec<&str> = line.unwrap_or_else(|| panic!("{application}: {text}")).split('|').collect();
        assert_eq!(cells.len(), 11, "{text}");
        assert!(cells[2..7].iter().all(|cell| cell.contains('±')), "{text}");
        let was_captured = application != "sqlite";
        assert_eq!(cells[9].contains('%'), was_captured, "beside the captured runs: {text}");
        let rows: Vec<&Value> = document["runs"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| row["application"] == application)
            .collect();
        assert!(rows.iter().all(|row| row["seconds"].as_f64() > Some(0.0)), "{rows:?}");
        // The same work on each: the same requests, but for what the host wrote back when.
        let requests = rows.iter().map(|row| row["requests"].as_f64().unwrap());
        let (least, most) = requests.fold((f64::MAX, 0.0_f64), |(a, b), of| (a.min(of), b.max(of)));
        assert!(least > 50.0 && most < 1.3 * least, "{application}: {least} to {most} requests");
    }
    assert!(text.contains("clone: ") && document["fit"]["requests"].as_u64() > Some(500), "{text}");
    assert!(out.join("clone.toml").exists() && out.join("trace.parquet").exists());
}
