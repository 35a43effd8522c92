//! Started programs that end with the test, and looks at what is left of them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

use crate::survive::client::Client;

pub(crate) const SEEKLAB: &str = env!("CARGO_BIN_EXE_seeklab");

/// A child that is killed with the test.
#[derive(Debug)]
pub(crate) struct Guarded(pub(crate) Child);

impl Guarded {
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.0), signal);
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `seeklab serve --json`, possibly under another program.
pub(crate) struct Served {
    pub(crate) child: Guarded,
    /// Place where the device is served: an NBD URI or a block device.
    pub(crate) place: String,
    pub(crate) socket: PathBuf,
}

impl Served {
    /// Serves over NBD in `folder`.
    pub(crate) fn nbd(folder: &Path, arguments: &[&str]) -> Self {
        let socket = folder.join("nbd");
        let frontend = format!("unix:{}", socket.display());
        let mut command = Command::new(SEEKLAB);
        command.arg("serve").args(arguments).args(["--json", "--nbd", &frontend]);
        Self::start(command, socket)
    }

    /// Serves a block device.
    pub(crate) fn block(arguments: &[&str]) -> Self {
        let mut command = Command::new(SEEKLAB);
        command.arg("serve").args(arguments).args(["--json", "--block"]);
        Self::start(command, PathBuf::new())
    }

    pub(crate) fn start(mut command: Command, socket: PathBuf) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut child = Guarded(child);
        let mut errors = BufReader::new(child.0.stderr.as_mut().unwrap());
        let (mut printed, mut line) = (String::new(), String::new());
        while !line.contains(" is ready: ") {
            printed += &line;
            line.clear();
            assert!(
                errors.read_line(&mut line).unwrap() > 0,
                "the emulation ended before it was ready: {printed}"
            );
        }
        let place = line.split(" is ready: ").nth(1).unwrap().trim().to_owned();
        Self { child, place, socket }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    pub(crate) fn connect(&self) -> Client<UnixStream> {
        let stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Client::connect(stream, "", false).unwrap()
    }

    /// As [`connect`](Self::connect), `None` if it is refused.
    pub(crate) fn try_connect(&self) -> Option<Client<UnixStream>> {
        let stream = UnixStream::connect(&self.socket).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        Client::connect(stream, "", false).ok()
    }

    /// Sends a signal and waits for the end; exit code, document (null if there is none), and what went to stderr since it
    /// was ready.
    pub(crate) fn end(mut self, signal: Signal) -> (Option<i32>, serde_json::Value, String) {
        self.child.signal(signal);
        let mut status = None;
        until(|| {
            status = self.child.0.try_wait().unwrap();
            status.map(drop).ok_or_else(|| format!("it does not end after {signal:?}"))
        });
        let document = serde_json::from_reader(self.child.0.stdout.take().unwrap()).unwrap_or_default();
        let mut errors = String::new();
        self.child.0.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (status.unwrap().code(), document, errors)
    }

    /// Interrupts it; its document.
    pub(crate) fn interrupt(mut self) -> serde_json::Value {
        self.child.signal(Signal::INT);
        let document = serde_json::from_reader(self.child.0.stdout.take().unwrap());
        assert!(self.child.0.wait().unwrap().success());
        document.unwrap()
    }
}

/// Returns true if all these programs are installed. Otherwise prints the missing program.
pub(crate) fn has(test: &str, programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let missing =
        programs.iter().find(|name| !std::env::split_paths(&path).any(|dir| dir.join(name).exists()));
    if let Some(missing) = missing {
        eprintln!("skipped: {test}: `{missing}` is not installed");
    }
    missing.is_none()
}

/// Returns true if block devices can be made here. Otherwise prints the reason.
pub(crate) fn can_mount(test: &str, programs: &[&str]) -> bool {
    let reason = if !rustix::process::geteuid().is_root() {
        Some("it needs root".to_owned())
    } else {
        let open = |path: &str| fs::OpenOptions::new().read(true).write(true).open(path);
        ["/dev/fuse", "/dev/loop-control"]
            .iter()
            .find_map(|path| open(path).err().map(|error| format!("{path}: {error}")))
    };
    if let Some(reason) = &reason {
        eprintln!("skipped: {test}: {reason}");
    }
    reason.is_none() && has(test, programs)
}

/// Runs a program for two minutes at most.
pub(crate) fn output(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new("timeout").args(["-k", "5", "120", program]).args(arguments).output().unwrap();
    assert_ne!(output.status.code(), Some(124), "{program} {arguments:?} hangs");
    output
}

/// Runs a program that has to succeed; what it printed.
pub(crate) fn succeed(program: &str, arguments: &[&str]) -> String {
    let output = output(program, arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{text}{errors}", output.status);
    text
}

pub(crate) fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Looks again until nothing is in the way any more, for at most half a minute.
pub(crate) fn until(mut done: impl FnMut() -> Result<(), String>) {
    let begin_ns = now_ns();
    while let Err(in_the_way) = done() {
        assert!(now_ns() - begin_ns < 30_000_000_000, "{in_the_way}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Numbers that differ, from a seed.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// The variable by which the processes of a test are known.
pub(crate) const MARK: &str = "SEEKLAB_TEST_MARK";

/// Host resources that a running `seeklab` holds, observed from outside.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) loops: BTreeSet<String>,
    /// True if a loop device was observed bound, so that the check for leftovers would have failed at that time.
    pub(crate) is_bound: bool,
    connections: BTreeSet<String>,
}

impl Held {
    /// Looks at every thread's descriptors.
    pub(crate) fn look(&mut self, pid: u32) {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return };
        for task in tasks.flatten() {
            let Ok(descriptors) = fs::read_dir(task.path().join("fd")) else { continue };
            for descriptor in descriptors.flatten() {
                let target = fs::read_link(descriptor.path()).unwrap_or_default();
                if let Some(number) = target.to_str().and_then(|path| path.strip_prefix("/dev/loop"))
                    && number.parse::<u32>().is_ok()
                {
                    let name = format!("loop{number}");
                    self.is_bound |= is_bound(&name);
                    self.loops.insert(name);
                }
                if target == Path::new("/dev/fuse") {
                    let about = task.path().join("fdinfo").join(descriptor.file_name());
                    let about = fs::read_to_string(about).unwrap_or_default();
                    let number = about.lines().find_map(|line| line.strip_prefix("fuse_connection:"));
                    self.connections.extend(number.map(|number| number.trim().to_owned()));
                }
            }
        }
    }
}

/// Returns true if a loop device is bound to the file of an emulator.
fn is_bound(name: &str) -> bool {
    let backing = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
    backing.is_ok_and(|file| file.starts_with("/seeklab-"))
}

/// A folder for the temporary files of one `seeklab`, and the mark of its processes.
pub(crate) struct Scene {
    pub(crate) folder: TempDir,
    pub(crate) mark: String,
}

impl Scene {
    pub(crate) fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tmp")).unwrap();
        Self { folder, mark: format!("{name}{}t{}", std::process::id(), now_ns()) }
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn seeklab(&self) -> Command {
        let mut command = Command::new(SEEKLAB);
        command.env(MARK, &self.mark).env("TMPDIR", self.path("tmp"));
        command
    }

    /// Fails with the first leftover of the process: a process, file, mount, bound loop device or FUSE
    /// connection.
    pub(crate) fn left(&self, pid: u32, held: &Held) -> Result<(), String> {
        let mark = format!("{MARK}={}", self.mark);
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
                let line = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
                return Err(format!("process {}: {}", entry.path().display(), line.replace('\0', " ")));
            }
        }
        let own = |name: &str| name.contains("seeklab") && name.contains(&pid.to_string());
        let anybodys = fs::read_dir("/tmp").unwrap().flatten();
        let of_ours = fs::read_dir(self.path("tmp")).unwrap().flatten();
        let files = of_ours.chain(anybodys.filter(|entry| own(&entry.file_name().to_string_lossy())));
        if let Some(file) = files.into_iter().next() {
            return Err(format!("file {}", file.path().display()));
        }
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        for name in &held.loops {
            if mounts.lines().any(|line| line.starts_with(&format!("/dev/{name} "))) {
                return Err(format!("/dev/{name} is mounted"));
            }
            // Over what an emulator has served; another test may have the number by now, but not for long.
            if is_bound(name) {
                return Err(format!("/dev/{name} is bound"));
            }
        }
        if mounts.lines().any(|line| line.starts_with("seeklab ") && line.contains(" tmpfs ")) {
            return Err("the place of a stage is mounted for everybody".to_owned());
        }
        let control = Path::new("/sys/fs/fuse/connections");
        match held.connections.iter().find(|number| control.join(number).exists()) {
            Some(number) => Err(format!("FUSE connection {number}")),
            None => Ok(()),
        }
    }
}
