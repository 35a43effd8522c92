//! Loop devices that the kernel frees by itself, and looks at what is left of a run.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::time::{ClockId, clock_gettime};
use seeklab_stage::{CommandLine, FileSystem, Output, Phase, PhaseResult, Stage, StageOptions, Stop};

/// Returns the reason why these tests cannot run here, if any.
pub(crate) fn reason_to_skip() -> Option<String> {
    let needs = seeklab_stage::Needs { file_system: FileSystem::Ext4, mkfs: true, ..Default::default() };
    if let Err(missing) = seeklab_stage::preflight(&needs) {
        return Some(missing[0].what.clone());
    }
    for program in ["losetup", "setsid", "mkfifo"] {
        if let Err(missing) = seeklab_stage::resolve(&[program.into()]) {
            return Some(missing.what);
        }
    }
    File::open("/dev/loop-control").err().map(|error| format!("/dev/loop-control cannot be opened: {error}"))
}

pub(crate) fn has_program(name: &str) -> bool {
    run("sh", ["-c", &format!("command -v {name}")]).is_ok()
}

/// Runs a program; what it printed, or what went wrong.
pub(crate) fn run<S: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = S>,
) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| error.to_string())?;
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        Ok(text.trim().to_owned())
    } else {
        Err(format!("{}: {text}", output.status))
    }
}

/// A loop device over a sparse file that has no name any more. Both live as long as the device is open:
/// nothing has to clean up, even after SIGKILL.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) path: PathBuf,
    _open: File,
}

impl Loop {
    /// A device of `size_mib` over a file with `mark` in its name.
    pub(crate) fn new(size_mib: u64, mark: &str) -> Self {
        let file = tempfile::Builder::new().prefix(&format!("stage-{mark}-")).tempfile().unwrap();
        file.as_file().set_len(size_mib << 20).unwrap();
        let path = run("losetup", ["--find".as_ref(), "--show".as_ref(), file.path()]).unwrap();
        let open = File::open(&path).unwrap();
        // Open, so it is not detached now, but with its last close.
        run("losetup", ["--detach", &path]).unwrap();
        Self { path: path.into(), _open: open }
    }

    /// Sectors read from the device so far.
    pub(crate) fn sectors_read(&self) -> u64 {
        let name = self.path.file_name().unwrap().to_str().unwrap();
        let stat = fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
        stat.split_whitespace().nth(2).unwrap().parse().unwrap()
    }
}

pub(crate) fn options(device: &Loop, file_system: FileSystem) -> StageOptions {
    let mut options = StageOptions::new(&device.path);
    options.file_system = file_system;
    options.output = Output::Stderr;
    options
}

pub(crate) fn shell(line: impl Into<String>) -> Phase {
    Phase::new("test", CommandLine::Shell(line.into()))
}

/// A stage with a file system made.
pub(crate) fn staged(options: &StageOptions) -> Stage {
    let mut stage = Stage::open(options, &Stop::new()).unwrap();
    stage.make_file_system().unwrap();
    stage
}

/// Runs a line that has to succeed.
pub(crate) fn succeed(stage: &mut Stage, line: &str) -> PhaseResult {
    let result = stage.run_phase(&shell(line)).unwrap();
    assert!(result.is_success(), "{line}: {result:?}");
    result
}

/// Checks the file system on an unmounted device.
pub(crate) fn check(device: &Path, file_system: FileSystem) -> Result<String, String> {
    let device = device.to_str().unwrap();
    match file_system {
        FileSystem::Ext2 | FileSystem::Ext4 => run("fsck.ext4", ["-f", "-n", device]),
        FileSystem::Xfs => run("xfs_repair", ["-n", device]),
        FileSystem::Btrfs => run("btrfs", ["check", "--readonly", device]),
        FileSystem::None => Ok(String::new()),
    }
}

pub(crate) fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Calls `done` until it succeeds, for at most half a minute.
pub(crate) fn until(mut done: impl FnMut() -> Result<(), String>) {
    let begin_ns = monotonic_ns();
    while let Err(in_the_way) = done() {
        assert!(monotonic_ns() - begin_ns < 30_000_000_000, "{in_the_way}");
        pause_ms(5);
    }
}

pub(crate) fn pause_ms(ms: u64) {
    let pause = rustix::event::Timespec { tv_sec: 0, tv_nsec: (ms * 1_000_000) as _ };
    let _ = rustix::event::poll(&mut [], Some(&pause));
}

/// Whatever processes, loop devices, mounts or files have `mark` in them.
pub(crate) fn nothing_has(mark: &str) -> Result<(), String> {
    let own = std::process::id().to_string();
    for entry in fs::read_dir("/proc").unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name == own || !name.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        for file in ["environ", "cmdline"] {
            // The process may have ended since.
            let text = fs::read(path.join(file)).unwrap_or_default();
            if String::from_utf8_lossy(&text).contains(mark) {
                let command = fs::read_to_string(path.join("cmdline")).unwrap_or_default();
                return Err(format!("process {name} is left: {}", command.replace('\0', " ")));
            }
        }
    }
    for entry in fs::read_dir("/sys/block").unwrap() {
        let path = entry.unwrap().path();
        if fs::read_to_string(path.join("loop/backing_file")).is_ok_and(|file| file.contains(mark)) {
            return Err(format!("{} is left", path.display()));
        }
    }
    for entry in fs::read_dir(std::env::temp_dir()).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().contains(mark) {
            return Err(format!("{} is left", path.display()));
        }
    }
    Ok(())
}

/// Mounts of stages that everybody sees.
pub(crate) fn stage_mounts() -> Vec<String> {
    let table = fs::read_to_string("/proc/mounts").unwrap();
    let ours = |line: &&str| {
        let mut fields = line.split(' ');
        let (source, point, kind) = (fields.next().unwrap(), fields.next().unwrap(), fields.next().unwrap());
        point.ends_with("/seeklab") || (source, kind) == ("seeklab", "tmpfs")
    };
    table.lines().filter(ours).map(str::to_owned).collect()
}

/// A word that is in no other test.
pub(crate) fn mark(name: &str) -> String {
    format!("{name}{}t{}", std::process::id(), monotonic_ns())
}
