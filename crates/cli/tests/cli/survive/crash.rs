//! `seeklab crash`: what survives a cut of the power, on an honest device and on one that lies.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::Signal;
use seeklab_core::{Operation, TraceRecord};
use seeklab_traces::ReadOptions;
use serde_json::Value;
use tempfile::TempDir;

use crate::survive::harness::{Guarded, Held, SEEKLAB, Scene, can_mount, output, succeed, until};

/// Writes files, each promised once it is synced.
const LOAD: &str = r#"#!/bin/sh
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
    dd if=/dev/urandom of=file$i bs=4k count=$i conv=fsync 2>/dev/null || exit 1
    sha256sum file$i >"$SEEKLAB_ACK"
done
"#;

/// Every promised file is there, as it was promised.
const CHECK: &str = r#"#!/bin/sh
sha256sum --status --check "$SEEKLAB_ACKED" && exit 0
[ -s "$SEEKLAB_ACKED" ] || exit 0
echo "a promised file is not as it was"
exit 1
"#;

struct Programs {
    folder: TempDir,
}

impl Programs {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("load.sh", LOAD), ("check.sh", CHECK)] {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Exit code and document of a series of cuts.
    fn crash(&self, options: &[&str]) -> (i32, Value) {
        let (load, check) = (self.path("load.sh"), self.path("check.sh"));
        let before = ["crash", "cheetah-36es", "--size", "64MiB", "--json", "--check"];
        let arguments: Vec<&str> = before
            .into_iter()
            .chain([check.to_str().unwrap()])
            .chain(options.iter().copied())
            .chain(["--", load.to_str().unwrap()])
            .collect();
        let output = output(SEEKLAB, &arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{errors}"));
        (output.status.code().unwrap(), document)
    }
}

fn count(document: &Value, which: &str, verdict: &str) -> u64 {
    document[which][verdict].as_u64().unwrap()
}

#[test]
fn synced_files_survive_every_cut_of_an_honest_disk_and_not_of_one_that_loses_flushes() {
    if !can_mount("cuts of the power", &["mkfs.ext4", "e2fsck", "dd"]) {
        return;
    }
    let programs = Programs::new();
    let (code, honest) = programs.crash(&["--points", "24", "--legal", "1"]);
    assert_eq!((code, count(&honest, "own", "held")), (0, 24), "{honest:#}");
    assert_eq!(count(&honest, "legal", "broken"), 0, "no drive may lose what was flushed: {honest:#}");
    assert_eq!(honest["promises"], 12);
    let promises = |point: &Value| point["promises"].as_u64().unwrap();
    let points = honest["points"].as_array().unwrap();
    assert!(points.iter().any(|point| (1..12).contains(&promises(point))), "some cuts are amid the run");
    let lost = points.iter().flat_map(|point| point["lost"].as_array().unwrap());
    assert!(lost.clone().all(|write| write["is_flushed"] == false), "{honest:#}");

    // A slow disk has not destaged what was promised when the cut comes, however late a busy machine makes the promise.
    let faults = ["--points", "24", "--fault", "lost_flush", "--fault", "slow,factor=20"];
    let (code, lying) = programs.crash(&faults);
    assert!(code == 1 && count(&lying, "own", "broken") > 0, "{lying:#}");
}

#[test]
fn image_of_a_moment_holds_what_was_promised_before_it() {
    if !can_mount("images of moments", &["mkfs.ext4", "debugfs", "e2fsck"]) {
        return;
    }
    let programs = Programs::new();
    let record = programs.path("record");
    let record = record.to_str().unwrap();
    let report = programs.path("report.html");
    let (code, document) =
        programs.crash(&["--points", "3", "--keep", record, "--report", report.to_str().unwrap()]);
    assert_eq!(code, 0, "{document:#}");
    let page = fs::read_to_string(report).unwrap();
    assert!(
        page.contains("Promises and flushes") && page.contains("3 cuts in one run, 3 survived"),
        "{page}"
    );
    assert_eq!(document["record"], record);
    let image = |at: &str, name: &str| -> Vec<u8> {
        let path = programs.path(name);
        succeed(SEEKLAB, &["crash", "--from", record, "--at", at, "--image", path.to_str().unwrap()]);
        fs::read(path).unwrap()
    };
    assert_eq!(image("1000s", "end.img"), image("1000s", "again.img"));
    // Long after the end everything is on the media.
    let listed = succeed("debugfs", &["-R", "ls", programs.path("end.img").to_str().unwrap()]);
    assert!(listed.contains("file12"), "{listed}");
    let before = image("0s", "before.img");
    assert!(before == fs::read(Path::new(record).join("base.img")).unwrap(), "nothing was written yet");

    let refused = |arguments: &[&str], message: &str| {
        let output = output(SEEKLAB, arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && errors.contains(message), "{errors}");
    };
    let path = programs.path("none.img");
    let path = path.to_str().unwrap();
    refused(&["crash", "--from", "/no/such/record", "--at", "1s", "--image", path], "no record");
    fs::write(Path::new(record).join("contents.bin"), "short").unwrap();
    refused(&["crash", "--from", record, "--at", "1s", "--image", path], "contents.bin does not hold");
    refused(
        &["crash", "cheetah-36es", "--check", "./no-such-check", "--", "true"],
        "there is no program `./no-such-check`",
    );
    let check = programs.path("check.sh");
    let check = check.to_str().unwrap();
    refused(&["crash", "cheetah-36es", "--check", check, "--keep", record, "--", "true"], "--keep");
    let nowhere =
        ["crash", "cheetah-36es", "--check", check, "--report", "/no/such/folder/x.html", "--", "true"];
    refused(&nowhere, "/no/such/folder");
    refused(&["crash", "cheetah-36es", "--check", check, "--report", check, "--", "true"], "it is an input");
    let failed = programs.path("failed");
    let failed = failed.to_str().unwrap();
    let small =
        ["crash", "cheetah-36es", "--size", "64MiB", "--check", check, "--keep", failed, "--", "false"];
    refused(&small, "COMMAND: exit code 1");
    assert!(!Path::new(failed).exists(), "half a record is not kept");
}

/// Files are read from the device after each cut, so that a block that cannot be read is found.
#[test]
fn unit_under_the_head_cannot_be_read_after_the_cut() {
    if !can_mount("cuts within media writes", &["dd"]) {
        return;
    }
    let programs = Programs::new();
    let load = "#!/bin/sh\nexec dd if=/dev/zero of=\"$SEEKLAB_DEVICE\" bs=256k count=8 oflag=direct conv=fsync 2>/dev/null\n";
    let check = "#!/bin/sh\ndd if=\"$SEEKLAB_DEVICE\" of=/dev/null bs=1M count=2 iflag=direct 2>/dev/null || exit 1\n";
    fs::write(programs.path("load.sh"), load).unwrap();
    fs::write(programs.path("check.sh"), check).unwrap();
    let unreadable = ["--set", "power_loss.torn_sector=unreadable", "--set", "power_loss.atomic_unit=4KiB"];
    let (code, document) = programs.crash(&[&["--points", "12", "--fs", "none"][..], &unreadable].concat());
    let points = document["points"].as_array().unwrap();
    let torn = |point: &&Value| !point["torn"].as_array().unwrap().is_empty();
    assert!(code == 1 && points.iter().any(|point| torn(&point)), "{document:#}");
    for point in points {
        assert_eq!(point["verdict"] == "broken", torn(&point), "{point:#}");
        for unit in point["torn"].as_array().unwrap() {
            assert_eq!(
                (unit["blocks"].as_u64(), unit["lbn"].as_u64().unwrap() % 8),
                (Some(8), 0),
                "{point:#}"
            );
        }
    }
}

#[test]
fn commits_of_the_built_in_database_survive_on_an_honest_disk_and_not_on_one_that_loses_flushes() {
    let database = ["--builtin", "database,transactions=40,table=1MiB,clients=2"];
    let device = ["crash", "cheetah-36es", "--size", "64MiB", "--points", "20", "--json"];
    let crash = |options: &[&str]| -> (i32, Value) {
        let output = output(SEEKLAB, &[&device[..], &database, options].concat());
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{errors}"));
        (output.status.code().unwrap(), document)
    };
    let (code, honest) = crash(&["--legal", "1"]);
    assert_eq!(
        (code, count(&honest, "own", "held"), count(&honest, "legal", "held")),
        (0, 20, 20),
        "{honest:#}"
    );
    assert_eq!(honest["promises"], 40);
    let (code, lying) = crash(&["--fault", "lost_flush", "--fault", "slow,factor=20"]);
    assert!(code == 1 && count(&lying, "own", "broken") > 0, "{lying:#}");
    let broken =
        lying["points"].as_array().unwrap().iter().find(|point| point["verdict"] == "broken").unwrap();
    assert!(broken["output"].as_str().unwrap().contains("promised are not as they were"), "{broken:#}");
    let (code, protected) = crash(&["--set", "power_loss.cache=protected", "--fault", "lost_flush"]);
    assert_eq!((code, count(&protected, "own", "held")), (0, 20), "{protected:#}");

    let refused = output(SEEKLAB, &["crash", "cheetah-36es", "--builtin", "postmark"]);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && errors.contains("commits nothing"), "{errors}");
}

/// Runs the built-in database on a small disk and cuts it amid the run and long after it; its output and exit code.
fn database(options: &[&str]) -> std::process::Output {
    let device = ["crash", "cheetah-36es", "--size", "24MiB", "--at", "500ms", "--at", "1000s", "--json"];
    let database = ["--builtin", "database,transactions=20,table=1MiB,clients=2"];
    output(SEEKLAB, &[&device[..], &database, options].concat())
}

#[test]
fn damaged_record_gives_no_image_and_no_image_replaces_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let record = path("record");
    assert_eq!(database(&["--keep", record.to_str().unwrap()]).status.code(), Some(0));
    let image = |record: &Path, image: &Path| {
        let arguments = ["--at", "1000s", "--image", image.to_str().unwrap()];
        let output =
            output(SEEKLAB, &[&["crash", "--from", record.to_str().unwrap()], &arguments[..]].concat());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(image(&record, &path("whole.img")), (Some(0), String::new()));
    // Files of the record are no place for an image.
    for name in ["base.img", "contents.bin"] {
        let before = fs::read(record.join(name)).unwrap();
        let (code, errors) = image(&record, &record.join(name));
        assert!(code == Some(2) && errors.contains("it is an input"), "{errors}");
        assert!(fs::read(record.join(name)).unwrap() == before, "{name}");
    }
    let flip = |path: &Path| {
        let mut bytes = fs::read(path).unwrap();
        bytes[5000] ^= 4;
        fs::write(path, bytes).unwrap();
    };
    let cut = |path: &Path| fs::File::options().write(true).open(path).unwrap().set_len(4096).unwrap();
    let remove = |path: &Path| fs::remove_file(path).unwrap();
    let damages: [(&str, &dyn Fn(&Path), &str); 6] = [
        ("base.img", &flip, "base.img is damaged"),
        ("base.img", &cut, "base.img has a size of 4KiB, and the device has 24MiB"),
        ("base.img", &remove, "base.img: "),
        ("contents.bin", &flip, "contents.bin is damaged"),
        ("contents.bin", &cut, "contents.bin does not hold the"),
        ("contents.bin", &remove, "contents.bin: "),
    ];
    for (name, damage, message) in damages {
        let damaged = path("damaged");
        fs::create_dir(&damaged).unwrap();
        for file in fs::read_dir(&record).unwrap().map(Result::unwrap) {
            fs::copy(file.path(), damaged.join(file.file_name())).unwrap();
        }
        damage(&damaged.join(name));
        let (code, errors) = image(&damaged, &path("none.img"));
        assert!(code == Some(2) && errors.contains(message) && errors.contains("hint: "), "{errors}");
        assert!(!path("none.img").exists(), "{message}");
        fs::remove_dir_all(damaged).unwrap();
    }
}

#[test]
fn bit_that_a_read_rotted_is_in_the_images_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    // The pool holds fewer pages than the table has, so the database reads.
    let device = ["crash", "cheetah-36es", "--size", "24MiB", "--at", "1s", "--fault", "bit_rot", "--keep"];
    let load = ["--builtin", "database,transactions=20,table=4MiB,clients=1,pool=128KiB"];
    let recorded = output(SEEKLAB, &[&device[..], &[record.to_str().unwrap()], &load[..]].concat());
    // A row that rotted may be one that the database checks.
    assert!(matches!(recorded.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&recorded.stderr));
    let image = |at: u64| {
        let (at, image) = (format!("{at}ns"), folder.path().join(format!("{at}.img")));
        let moment = ["--at", &at, "--image", image.to_str().unwrap()];
        succeed(SEEKLAB, &[&["crash", "--from", record.to_str().unwrap()], &moment[..]].concat());
        fs::read(image).unwrap()
    };
    let requests = seeklab_columnar::open(&record.join("requests.parquet"), None, &ReadOptions::default());
    let requests: Vec<TraceRecord> = requests.unwrap().map(Result::unwrap).collect();
    let reads: Vec<&TraceRecord> =
        requests.iter().filter(|request| request.op == Operation::Read).step_by(15).take(3).collect();
    assert_eq!(reads.len(), 3, "{} requests", requests.len());
    for read in reads {
        // No sector of this drive passes under the head in a nanosecond.
        let rotted = read.completion.unwrap().as_ns();
        let (before, after) = (image(rotted - 1), image(rotted));
        let changed: Vec<(usize, u8)> =
            (0..before.len()).map(|at| (at, before[at] ^ after[at])).filter(|(_, bits)| *bits != 0).collect();
        assert!(matches!(&changed[..], [(_, bits)] if bits.is_power_of_two()), "{changed:?}");
        let block = changed[0].0 as u64 / 512;
        assert!((read.lbn..read.lbn + u64::from(read.blocks)).contains(&block), "{block} after {read:?}");
    }
}

#[test]
fn device_that_goes_is_recorded_and_one_that_loses_its_power_is_refused() {
    let gone = ["--fault", "gone,at=300ms,for=50ms", "--fault", "gone,name=again,at=500ms,for=50ms"];
    let gone = database(&gone);
    let errors = String::from_utf8_lossy(&gone.stderr);
    assert_eq!(gone.status.code(), Some(0), "{errors}");
    let lost = database(&["--fault", "power_loss,at=300ms,back_after=50ms"]);
    let errors = String::from_utf8_lossy(&lost.stderr);
    assert_eq!(lost.status.code(), Some(2), "{errors}");
    assert!(errors.contains("`crash` cuts the power itself") && errors.contains("hint: "), "{errors}");
}

#[test]
fn check_that_does_not_end_is_ended() {
    if !can_mount("a check that hangs", &["mkfs.ext4", "e2fsck"]) {
        return;
    }
    let programs = Programs::new();
    fs::write(programs.path("check.sh"), "#!/bin/sh\nexec sleep 1000\n").unwrap();
    let (code, document) = programs.crash(&["--points", "1", "--check-timeout", "200ms"]);
    assert_eq!((code, count(&document, "own", "unknown")), (1, 1), "{document:#}");
    assert_eq!(document["points"][0]["exit_code"], 124);
}

#[test]
fn interrupted_series_of_cuts_leaves_nothing() {
    if !can_mount("an interrupted series of cuts", &["mkfs.ext4", "e2fsck"]) {
        return;
    }
    // The program during which the signal comes, the signal, and the two programs.
    let stays = |notice: &Path| format!("#!/bin/sh\ntouch {}\nexec sleep 1000\n", notice.display());
    for (is_check, signal) in [(false, Signal::INT), (true, Signal::INT), (true, Signal::TERM)] {
        let scene = Scene::new("cuts");
        let programs = Programs::new();
        let notice = programs.path("notice");
        fs::write(programs.path(if is_check { "check.sh" } else { "load.sh" }), stays(&notice)).unwrap();
        let record = programs.path("record");
        let mut command = scene.seeklab();
        command.args(["crash", "cheetah-36es", "--size", "64MiB", "--points", "4", "--json", "--keep"]);
        command.arg(&record).arg("--check").arg(programs.path("check.sh"));
        command.arg("--").arg(programs.path("load.sh"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut crash = Guarded(command.spawn().unwrap());
        let pid = crash.0.id();
        let is_there = || notice.exists().then_some(()).ok_or_else(|| "it does not run".to_owned());
        until(is_there);
        let mut held = Held::default();
        held.look(pid);
        assert!(held.is_bound, "{held:?}");
        crash.signal(signal);
        let mut code = None;
        until(|| {
            code = crash.0.try_wait().unwrap();
            code.map(drop).ok_or_else(|| "it does not end".to_owned())
        });
        assert_eq!(code.unwrap().code(), Some(1), "{is_check} {signal:?}");
        until(|| scene.left(pid, &held));
        // A record that is complete stays where the user named it.
        assert_eq!(record.exists(), is_check, "{signal:?}");
    }
}

/// Runs an example that cuts the power, at so many points. Returns how many of them each run survived, and what it printed.
fn held(example: &str, points: u32, settings: &[(&str, &str)]) -> (Vec<u32>, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(example).join("run.sh");
    let output = std::process::Command::new("timeout")
        .args(["-k", "5", "240"])
        .arg(script)
        .args([&points.to_string(), SEEKLAB])
        .envs(settings.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let counts = text.lines().filter_map(|line| line.strip_prefix("this device")?.split_whitespace().next());
    let held = counts.map(|count| count.parse().unwrap()).collect();
    (held, text + &String::from_utf8_lossy(&output.stderr))
}

#[test]
fn settings_of_sqlite_keep_on_an_honest_disk_what_their_manual_says() {
    if !can_mount("the example of SQLite", &["mkfs.ext4", "e2fsck", "python3"]) {
        return;
    }
    let imported = std::process::Command::new("python3").args(["-c", "import sqlite3"]).status();
    if !imported.is_ok_and(|status| status.success()) {
        eprintln!("skipped: the example of SQLite: Python has no module sqlite3");
        return;
    }
    let (held, text) = held("sqlite-crash", 4, &[("ROWS", "6")]);
    assert_eq!(held.len(), 8, "{text}");
    assert_eq!(held[..3], [4; 3], "extra, truncate and the log with full synchronisation: {text}");
}

#[test]
fn postgresql_as_packaged_keeps_every_promise_on_an_honest_disk() {
    let name = "the example of PostgreSQL";
    if !can_mount(name, &["mkfs.ext4", "e2fsck"]) {
        return;
    }
    if !Path::new("/usr/lib/postgresql").is_dir() {
        eprintln!("skipped: {name}: PostgreSQL is not installed");
        return;
    }
    let (held, text) = held("postgresql-crash", 3, &[("TRANSACTIONS", "12")]);
    assert_eq!((held.len(), held.first()), (4, Some(&3)), "{text}");
}

#[test]
fn ext4_under_postmark_survives_every_cut_of_an_honest_disk_that_writes_4_kib_as_a_whole() {
    if !can_mount("the example of file systems", &["mkfs.ext4", "e2fsck", "postmark"]) {
        return;
    }
    let (held, text) = held("file-systems-crash", 3, &[("FILE_SYSTEMS", "ext4"), ("ROUNDS", "1")]);
    assert_eq!((held.len(), held.first()), (3, Some(&3)), "{text}");
}
