//! Limits on commands: memory and processors.

use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::Trial;
use seeklab_core::ByteSize;
use seeklab_stage::{FileSystem, MemoryFigures, Needs, Stage, StageOptions, preflight};

use crate::fixture::{Loop, mark, options, shell, staged, succeed, until};
use crate::phases::test;

/// Limit of the tests.
const MEMORY: ByteSize = ByteSize::from_bytes(32 << 20);

pub(crate) fn tests() -> Vec<Trial> {
    let lack = preflight(&Needs { memory: Some(MEMORY), ..Needs::default() }).err();
    if let Some(missing) = &lack {
        eprintln!("skipped: tests of memory: {}", missing[0]);
    }
    let memory = [
        test(
            "page_cache_of_a_command_stays_within_its_memory",
            page_cache_of_a_command_stays_within_its_memory,
        ),
        test("memory_beyond_the_limit_ends_a_command", memory_beyond_the_limit_ends_a_command),
        test("group_goes_when_a_stage_is_dropped", group_goes_when_a_stage_is_dropped),
    ];
    let is_ignored = lack.is_some();
    let memory = memory.map(|trial| trial.with_ignored_flag(is_ignored));
    let processors = test("command_runs_on_its_processors_alone", command_runs_on_its_processors_alone);
    memory.into_iter().chain([processors]).collect()
}

fn limited(device: &Loop) -> StageOptions {
    let mut options = options(device, FileSystem::Ext4);
    options.memory = Some(MEMORY);
    options
}

/// The memory of the commands up to now.
fn memory(stage: &Stage) -> MemoryFigures {
    stage.memory().unwrap().unwrap()
}

/// Runs a line that prints to `$OUT`; what it printed.
fn output_of(stage: &mut Stage, line: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    succeed(stage, &format!("({line}) > {}", out.display()));
    fs::read_to_string(out).unwrap()
}

/// The groups of this process that are left.
fn groups() -> Vec<PathBuf> {
    fn search(folder: &Path, name: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with(name) {
                    found.push(entry.path());
                }
                search(&entry.path(), name, found);
            }
        }
    }
    let mut found = Vec::new();
    search(Path::new("/sys/fs/cgroup"), &format!("seeklab-{}-", std::process::id()), &mut found);
    found
}

fn page_cache_of_a_command_stays_within_its_memory() {
    let device = Loop::new(128, &mark("memory"));
    let mut stage = staged(&limited(&device));
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let inside = output_of(&mut stage, "cat /proc/self/cgroup");
    assert_ne!(inside, own);
    assert!(inside.contains(&format!("/seeklab-{}-", std::process::id())), "{inside}");
    let before = memory(&stage);
    assert_eq!((before.limit_bytes, before.oom_kills), (MEMORY.as_bytes(), 0), "{before:?}");
    // Three times as much as there is memory.
    succeed(&mut stage, "head -c 96M /dev/zero > data; cat data > /dev/null");
    let after = memory(&stage);
    assert_eq!(after.oom_kills, 0, "{after:?}");
    if let Some(peak) = after.peak_bytes {
        assert!((MEMORY.as_bytes() / 2..=MEMORY.as_bytes()).contains(&peak), "{after:?}");
    }
    stage.end().unwrap();
    let mut free = staged(&options(&device, FileSystem::Ext4));
    assert_eq!(output_of(&mut free, "cat /proc/self/cgroup"), own, "without a limit, there is no group");
    assert_eq!(free.memory().unwrap(), None);
}

fn memory_beyond_the_limit_ends_a_command() {
    let device = Loop::new(32, &mark("oom"));
    let mut stage = staged(&limited(&device));
    // It keeps all of a line.
    let result = stage
        .run_phase(&shell("head -c 64M /dev/zero | tail -n 1 | wc -c > data; test $(cat data) = 67108864"));
    let result = result.unwrap();
    assert!(!result.is_success(), "{result:?}");
    let memory = memory(&stage);
    assert!(memory.oom_kills > 0, "{memory:?}");
    succeed(&mut stage, "true");
    stage.end().unwrap();
}

fn group_goes_when_a_stage_is_dropped() {
    let device = Loop::new(32, &mark("group"));
    let mut stage = staged(&limited(&device));
    succeed(&mut stage, "sleep 1000 &");
    let group = output_of(&mut stage, "cat /proc/self/cgroup");
    let name = group.split('/').find(|part| part.starts_with("seeklab-")).unwrap();
    let name = name.lines().next().unwrap().to_owned();
    let is_there = || groups().iter().any(|path| path.ends_with(&name));
    assert!(is_there(), "{name}");
    drop(stage);
    until(|| if is_there() { Err(format!("{name} is left")) } else { Ok(()) });
}

fn command_runs_on_its_processors_alone() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let allowed = |status: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        line.trim().to_owned()
    };
    let own = allowed(&status);
    let last = own.rsplit(['-', ',']).next().unwrap();
    let device = Loop::new(32, &mark("cpus"));
    let mut options = options(&device, FileSystem::Ext4);
    options.cpus = Some(last.parse().unwrap());
    let mut stage = staged(&options);
    assert_eq!(allowed(&output_of(&mut stage, "cat /proc/self/status")), last);
    stage.end().unwrap();
    assert_eq!(allowed(&fs::read_to_string("/proc/self/status").unwrap()), own);
}
