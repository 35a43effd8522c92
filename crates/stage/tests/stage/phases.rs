//! A phase: its steps and measurements.

use std::fs;

use libtest_mimic::Trial;
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use seeklab_stage::{Account, CommandLine, Error, Exit, FileSystem, Needs, Phase, Stage, Stop, preflight};

use crate::fixture::{
    Loop, check, has_program, mark, monotonic_ns, nothing_has, options, run, shell, stage_mounts, staged,
    succeed,
};

pub(crate) fn tests() -> Vec<Trial> {
    let mut tests = vec![
        test("stamps_and_usage_are_plausible", stamps_and_usage_are_plausible),
        test("usage_of_orphans_is_counted", usage_of_orphans_is_counted),
        test("exit_of_the_command_is_returned", exit_of_the_command_is_returned),
        test("command_that_cannot_be_run_is_an_error", command_that_cannot_be_run_is_an_error),
        test("command_finds_the_mount_and_its_environment", command_finds_the_mount_and_its_environment),
        test("command_gets_the_raw_device", command_gets_the_raw_device),
        test(
            "command_runs_as_another_user_and_owns_its_files",
            command_runs_as_another_user_and_owns_its_files,
        ),
        test("background_processes_are_killed", background_processes_are_killed),
        test("mounts_of_the_command_are_undone", mounts_of_the_command_are_undone),
        test("shared_memory_ends_with_the_stage", shared_memory_ends_with_the_stage),
        test("mount_options_take_effect", mount_options_take_effect),
        test("errors_quote_the_kernel_and_mkfs", errors_quote_the_kernel_and_mkfs),
        test("ext4_has_the_same_layout_each_time", ext4_has_the_same_layout_each_time),
        test("missing_rights_are_reported_together", missing_rights_are_reported_together),
        test("command_starts_when_the_caller_is_ready", command_starts_when_the_caller_is_ready),
        test("phase_that_the_caller_refuses_does_not_start", phase_that_the_caller_refuses_does_not_start),
    ];
    for file_system in [FileSystem::Ext2, FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs] {
        let needs = Needs { file_system, mkfs: true, ..Needs::default() };
        let missing = preflight(&needs).err();
        if let Some(missing) = &missing {
            eprintln!("skipped: {file_system}: {}", missing[0]);
        }
        let trial = Trial::test(format!("is_{file_system}_whole_and_cold_after_each_phase"), move || {
            file_system_is_whole_and_cold_after_each_phase(file_system);
            Ok(())
        });
        tests.push(if missing.is_some() { trial.with_ignored_flag(true) } else { trial });
    }
    tests
}

pub(crate) fn test(name: &str, run: fn()) -> Trial {
    Trial::test(name, move || {
        run();
        Ok(())
    })
}

const BUSY: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";

fn stamps_and_usage_are_plausible() {
    let device = Loop::new(128, &mark("stamps"));
    let mut stage = staged(&options(&device, FileSystem::Ext4));
    let before_ns = monotonic_ns();
    let result = succeed(&mut stage, &format!("dd if=/dev/zero of=f bs=64M count=1 2>/dev/null; {BUSY}"));
    let after_ns = monotonic_ns();
    let stamps = [
        before_ns,
        result.mount_start_ns,
        result.start_ns,
        result.exec_ns,
        result.end_ns,
        result.flush_start_ns,
        result.flush_end_ns,
        after_ns,
    ];
    assert!(stamps.is_sorted(), "{stamps:?}");
    let processors = std::thread::available_parallelism().unwrap().get() as u64;
    let used_ns = (result.user + result.system).as_ns();
    // The kernel counts in units of up to 10 ms.
    assert!(
        used_ns > 0 && used_ns <= (result.flush_start_ns - result.start_ns) * processors + 20_000_000,
        "{result:?}"
    );
    assert!((64 << 20..1 << 30).contains(&result.max_rss_bytes), "{result:?}");
    assert_eq!(result.elapsed().as_ns(), result.end_ns - result.exec_ns);
    // Each phase on its own.
    assert!(succeed(&mut stage, "true").max_rss_bytes < 64 << 20);
    stage.end().unwrap();
}

fn usage_of_orphans_is_counted() {
    let device = Loop::new(32, &mark("orphans"));
    let mut stage = staged(&options(&device, FileSystem::Ext4));
    let result = succeed(&mut stage, &format!("mkfifo p; ( ( {BUSY}; echo > p ) & ); read x < p || true"));
    assert!((result.user + result.system).as_ns() >= 10_000_000, "{result:?}");
    stage.end().unwrap();
}

fn exit_of_the_command_is_returned() {
    let device = Loop::new(32, &mark("ended"));
    let mut stage = staged(&options(&device, FileSystem::Ext4));
    for (line, exit) in [
        ("exit 0", Exit::Code(0)),
        ("exit 7", Exit::Code(7)),
        ("kill -KILL $$", Exit::Signal(9)),
        ("kill -SEGV $$", Exit::Signal(11)),
        // Kills everything that it can see, which is neither us nor the process that holds the mount.
        ("sleep 1000 & kill -KILL -1; exit 3", Exit::Code(3)),
    ] {
        let result = stage.run_phase(&shell(line)).unwrap();
        assert_eq!(result.exit, exit, "{line}");
        assert_eq!(result.is_success(), exit == Exit::Code(0));
        assert!(!result.stopped);
    }
    stage.end().unwrap();
}

fn command_that_cannot_be_run_is_an_error() {
    let device = Loop::new(32, &mark("cannot"));
    let mut stage = staged(&options(&device, FileSystem::Ext4));
    let phase = Phase::new("test", CommandLine::Words(vec!["/no/such/program".into()]));
    let error = stage.run_phase(&phase).unwrap_err();
    assert!(error.to_string().starts_with("cannot run \"/no/such/program\": "), "{error}");
    // The device was unmounted all the same.
    succeed(&mut stage, "true");
    stage.end().unwrap();
}

fn command_finds_the_mount_and_its_environment() {
    let device = Loop::new(32, &mark("finds"));
    let mut options = options(&device, FileSystem::Ext4);
    options.nbd = Some("nbd+unix:///?socket=x".into());
    let mut stage = staged(&options);
    let mount = stage.mount().unwrap().display().to_string();
    let path = device.path.display();
    let mut phase = shell(format!(
        "test $PWD = {mount} && test $(pwd -P) = {mount} && test $SEEKLAB_MOUNT = {mount} && \
         test $SEEKLAB_DEVICE = {path} && test $SEEKLAB_NBD = 'nbd+unix:///?socket=x' && \
         test $MORE = less && \
         grep -q '^{path} {mount} ext4 ' /proc/mounts && test -d lost+found"
    ));
    phase.environment.push(("MORE".into(), "less".into()));
    let result = stage.run_phase(&phase).unwrap();
    assert!(result.is_success(), "{result:?}");
    assert_eq!(stage_mounts(), Vec::<String>::new());
    assert!(!std::path::Path::new(&mount).exists());
    stage.end().unwrap();
}

fn command_gets_the_raw_device() {
    let device = Loop::new(4, &mark("raw"));
    let mut options = options(&device, FileSystem::None);
    let folder = std::env::current_dir().unwrap();
    for account in [None, Some(Account::find("nobody").unwrap())] {
        options.account = account;
        let mut stage = staged(&options);
        assert_eq!(stage.mount(), None);
        let line = format!(
            "test -z \"$SEEKLAB_MOUNT\" && test \"$(pwd -P)\" = {} && \
             dd if=/dev/zero of=$SEEKLAB_DEVICE bs=1M count=4 conv=notrunc 2>/dev/null && \
             printf %s here | dd of=$SEEKLAB_DEVICE conv=notrunc 2>/dev/null",
            fs::canonicalize(&folder).unwrap().display()
        );
        succeed(&mut stage, &line);
        stage.end().unwrap();
        assert!(fs::read(&device.path).unwrap().starts_with(b"here\0"));
    }
}

fn command_runs_as_another_user_and_owns_its_files() {
    let device = Loop::new(32, &mark("user"));
    let mut options = options(&device, FileSystem::Ext4);
    let nobody = Account::find("nobody").unwrap();
    options.account = Some(nobody.clone());
    let mut stage = staged(&options);
    let groups: Vec<String> = nobody.groups.iter().map(u32::to_string).collect();
    let line = format!(
        "test $(id -u) = {} && test $(id -g) = {} && test \"$(id -G)\" = '{}' && test $USER = nobody && \
         test $HOME = {} && touch mine && test $(stat -c %U mine) = nobody && \
         ! cat /proc/1/environ 2>/dev/null",
        nobody.uid,
        nobody.gid,
        groups.join(" "),
        nobody.home.display()
    );
    succeed(&mut stage, &line);
    stage.end().unwrap();
    assert!(check(&device.path, FileSystem::Ext4).is_ok());
}

fn background_processes_are_killed() {
    let mark = mark("background");
    let device = Loop::new(32, &mark);
    let mut options = options(&device, FileSystem::Ext4);
    options.grace = seeklab_core::Duration::from_ms(100);
    let mut stage = staged(&options);
    // One that TERM ends, one that ignores it in a session of its own with a file open, and one stopped.
    let mut phase = shell(
        "sleep 1000 & setsid sh -c 'trap \"\" TERM HUP; exec sleep 1001 > open' & \
         sleep 1002 & kill -STOP $!; until test -e open; do :; done",
    );
    phase.environment.push(("MARK".into(), mark.clone().into()));
    let result = stage.run_phase(&phase).unwrap();
    assert!(result.is_success(), "{result:?}");
    assert_eq!(result.left_running.len(), 3, "{result:?}");
    stage.end().unwrap();
    assert!(check(&device.path, FileSystem::Ext4).is_ok());
    drop(device);
    crate::fixture::until(|| nothing_has(&mark));
}

fn mounts_of_the_command_are_undone() {
    let device = Loop::new(32, &mark("mounts"));
    let mut stage = staged(&options(&device, FileSystem::Ext4));
    succeed(&mut stage, "mkdir a && mount -t tmpfs none a && mkdir a/b && mount -t tmpfs none a/b");
    succeed(&mut stage, "test -d a && ! test -e a/b");
    succeed(&mut stage, "cd / && umount \"$SEEKLAB_MOUNT\"");
    succeed(&mut stage, "test -d a");
    stage.end().unwrap();
    assert!(check(&device.path, FileSystem::Ext4).is_ok());
}

fn shared_memory_ends_with_the_stage() {
    if !has_program("ipcmk") {
        return eprintln!("skipped: there is no ipcmk");
    }
    let device = Loop::new(32, &mark("ipc"));
    let mut stage = staged(&options(&device, FileSystem::Ext4));
    let segments = || {
        fs::read_to_string("/proc/sysvipc/shm").unwrap().lines().filter(|l| l.contains(" 7654321 ")).count()
    };
    succeed(&mut stage, "ipcmk -M 7654321 >&2 && grep -q ' 7654321 ' /proc/sysvipc/shm");
    assert_eq!(segments(), 0);
    stage.end().unwrap();
}

fn mount_options_take_effect() {
    let device = Loop::new(32, &mark("options"));
    let mut options = options(&device, FileSystem::Ext4);
    options.mount_options = "sync,noatime,data=journal".parse().unwrap();
    options.drop_caches = true;
    let mut stage = staged(&options);
    succeed(
        &mut stage,
        "grep \" $SEEKLAB_MOUNT ext4 \" /proc/mounts | grep sync | grep noatime | grep -q data=journal",
    );
    stage.end().unwrap();
}

fn errors_quote_the_kernel_and_mkfs() {
    let device = Loop::new(32, &mark("refused"));
    let mut options = options(&device, FileSystem::Ext4);
    options.mount_options = "no_such_option".parse().unwrap();
    let mut stage = staged(&options);
    let error = stage.run_phase(&shell("true")).unwrap_err();
    assert!(error.to_string().contains("no_such_option") && error.hint().is_some(), "{error}");
    drop(stage);

    if has_program("mkfs.xfs") {
        options.file_system = FileSystem::Xfs;
        let mut stage = Stage::open(&options, &Stop::new()).unwrap();
        let error = stage.make_file_system().unwrap_err();
        let text = error.to_string();
        // It needs 300 MB, and says so.
        assert!(text.starts_with("`mkfs.xfs` on /dev/loop") && text.contains("300"), "{text}");
        assert!(matches!(error, Error::Inside { .. }));
    }
}

fn ext4_has_the_same_layout_each_time() {
    if !has_program("dumpe2fs") {
        return eprintln!("skipped: there is no dumpe2fs");
    }
    let described = || {
        let device = Loop::new(64, &mark("layout"));
        let mut stage = staged(&options(&device, FileSystem::Ext4));
        let groups = run("dumpe2fs", [&device.path]).unwrap();
        let groups: Vec<&str> = groups.lines().filter(|line| line.contains(": (Blocks")).collect();
        assert!(
            !groups.is_empty() && groups.iter().all(|group| group.contains("ITABLE_ZEROED")),
            "{groups:?}"
        );
        // Where files are, and in which order a directory gives them.
        let line = "for i in 1 2 3 4 5 6 7 8 9; do head -c 50000 /dev/zero > $i; sync; done; \
                    ls -Ui > list";
        succeed(&mut stage, line);
        stage.end().unwrap();
        let ask = |what: &str| {
            run("debugfs", ["-R".as_ref(), std::ffi::OsStr::new(what), device.path.as_os_str()]).unwrap()
        };
        let files: Vec<String> = (1..=9).map(|i| ask(&format!("blocks /{i}"))).collect();
        let superblock = run("dumpe2fs", ["-h".as_ref(), device.path.as_os_str()]).unwrap();
        let fixed = ["Filesystem UUID", "Directory Hash Seed"];
        let fixed: Vec<String> = superblock
            .lines()
            .filter(|line| fixed.iter().any(|word| line.starts_with(word)))
            .map(str::to_owned)
            .collect();
        assert_eq!(fixed.len(), 2, "{superblock}");
        (ask("cat /list"), files, fixed)
    };
    assert_eq!(described(), described());
}

fn file_system_is_whole_and_cold_after_each_phase(file_system: FileSystem) {
    let device = Loop::new(if file_system == FileSystem::Xfs { 320 } else { 128 }, &mark("whole"));
    let mut options = options(&device, file_system);
    options.account = Some(Account::find("nobody").unwrap());
    let mut stage = staged(&options);
    succeed(
        &mut stage,
        "i=0; while [ $i -lt 50 ]; do head -c 100000 /dev/urandom > $i; i=$((i+1)); done; \
         cat [0-9]* | sha256sum > digest",
    );
    let before = device.sectors_read();
    succeed(&mut stage, "cat [0-9]* | sha256sum | cmp - digest");
    let read_bytes = (device.sectors_read() - before) * 512;
    assert!(read_bytes >= 5_000_000, "{file_system} has read {read_bytes} bytes, the rest from memory");
    stage.end().unwrap();
    let checked = check(&device.path, file_system);
    assert!(checked.is_ok(), "{checked:?}");
    assert_eq!(stage_mounts(), Vec::<String>::new());
}

fn missing_rights_are_reported_together() {
    let command = ["sh".into()];
    let needs = Needs {
        block_over_fuse: fs::exists("/dev/fuse").unwrap(),
        mkfs: true,
        command: &command,
        shell: true,
        user: Some("nobody"),
        ..Needs::default()
    };
    assert_eq!(preflight(&needs), Ok(()));
    // Capabilities are a thread's own.
    let missing = std::thread::scope(|scope| {
        let without = || {
            let mut sets = capabilities(None).unwrap();
            sets.effective.remove(CapabilitySet::SYS_ADMIN | CapabilitySet::SETUID);
            set_capabilities(None, sets).unwrap();
            preflight(&needs).unwrap_err()
        };
        scope.spawn(without).join().unwrap()
    });
    let what: Vec<&str> = missing.iter().map(|missing| missing.what.as_str()).collect();
    assert_eq!(
        what,
        [
            "the capability CAP_SYS_ADMIN is missing, to mount",
            "the capability CAP_SETUID is missing, to run the command as another user"
        ]
    );
    assert!(missing[0].remedy.contains("sudo") && missing[0].remedy.contains("--builtin"), "{missing:?}");
}

fn command_starts_when_the_caller_is_ready() {
    let device = Loop::new(32, &mark("ready"));
    let mut stage = staged(&options(&device, FileSystem::Ext4));
    let folder = tempfile::tempdir().unwrap();
    let began = folder.path().join("began");
    let phase = shell(format!("echo x > file; touch {}", began.display()));
    let result = stage.run_phase_when_ready(&phase, |mounted| {
        assert!(!began.exists());
        let mounts = fs::read_to_string(format!("/proc/{}/mountinfo", mounted.process)).unwrap();
        let source = format!(" {} ", device.path.display());
        assert!(mounts.lines().any(|line| line.contains(&source)), "{mounts}");
        Ok::<(), Error>(())
    });
    let result = result.unwrap();
    assert!(result.is_success() && began.exists(), "{result:?}");
    let stamps = [result.start_ns, result.exec_ns, result.end_ns, result.flush_start_ns, result.synced_ns];
    assert!(stamps.is_sorted() && result.synced_ns <= result.flush_end_ns, "{result:?}");
    succeed(&mut stage, "test $(cat file) = x");
    stage.end().unwrap();
}

fn phase_that_the_caller_refuses_does_not_start() {
    let device = Loop::new(32, &mark("refused"));
    let stop = Stop::new();
    let mut stage = Stage::open(&options(&device, FileSystem::Ext4), &stop).unwrap();
    stage.make_file_system().unwrap();
    let refused = stage.run_phase_when_ready(&shell("touch file"), |_| Err(Error::Stopped));
    assert!(matches!(refused, Err(Error::Stopped)));
    // The stage goes on, and a stop before the command keeps it from starting too.
    succeed(&mut stage, "! test -e file");
    let stopped = stage.run_phase_when_ready(&shell("touch file"), |_| {
        stop.stop();
        Ok::<(), Error>(())
    });
    assert!(matches!(stopped, Err(Error::Stopped)));
    stage.end().unwrap();
    let mut stage = Stage::open(&options(&device, FileSystem::Ext4), &Stop::new()).unwrap();
    succeed(&mut stage, "! test -e file");
}
