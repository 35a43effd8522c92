//! A served device in a process of its own, so that it can be killed, and so that no test waits for itself:
//! the test program starts itself again, and an environment variable makes it serve.
//!
//! Everything that a test mounts or attaches goes with it, panics included: the child ends with its standard
//! input, or is killed, and the kernel then undoes mounts without a place and loop devices by itself.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};

use seeklab_core::{ByteSize, Duration};
use seeklab_devices::simple::{Server as Model, ServerParameters};
use seeklab_emulator::clock::{Clock, Pacing, Waiter};
use seeklab_emulator::emulation::Emulation;
use seeklab_emulator::frontend::fuse::{DetachedFile, FILE_NAME, Place, Server, unavailability};
use seeklab_emulator::frontend::loop_device::{self, LoopDevice, QueueOptions, Settings};
use seeklab_emulator::frontend::nbd::Export;
use seeklab_emulator::frontend::{Stop, serve};
use seeklab_emulator::pacer::{Options, Pacer};
use seeklab_emulator::store::{Access, Store};
use serde::{Deserialize, Serialize};

/// Device that the child serves.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Served {
    /// A directory to mount at; a loop device if absent.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) size_mib: u64,
    pub(crate) block_size: u32,
    /// Of the model.
    pub(crate) service_us: u64,
    /// Memory if absent.
    pub(crate) file: Option<PathBuf>,
    pub(crate) read_only: bool,
    pub(crate) rotational: bool,
}

impl Served {
    pub(crate) fn block_device(size_mib: u64) -> Self {
        Self {
            directory: None,
            size_mib,
            block_size: 512,
            service_us: 0,
            file: None,
            read_only: false,
            rotational: false,
        }
    }

    pub(crate) fn file_in(directory: &Path, size_mib: u64) -> Self {
        Self { directory: Some(directory.to_owned()), ..Self::block_device(size_mib) }
    }
}

/// Figures that the child prints at the end.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) requests: u64,
    pub(crate) refused: u64,
    pub(crate) outstanding_max: usize,
    pub(crate) malformed: u64,
    pub(crate) allocated_bytes: u64,
    pub(crate) flushes: u64,
    pub(crate) fua_writes: u64,
    /// True if the block device went with its last user.
    pub(crate) detached: Option<bool>,
}

const VARIABLE: &str = "SEEKLAB_TEST_SERVE";
const MARK: &str = "seeklab: ";

#[test]
fn serve_when_asked() {
    let Ok(asked) = std::env::var(VARIABLE) else { return };
    let served: Served = serde_json::from_str(&asked).expect("the parent wrote it");
    let stop = Stop::new().expect("a descriptor is left");
    let (sender, receiver) = mpsc::channel();
    let (seen, wanted) = (stop.clone(), served.clone());
    let thread = std::thread::spawn(move || serve_here(&wanted, &seen, &sender));
    let file = receiver.recv().expect("it is mounted");
    let device = served.directory.is_none().then(|| {
        let queue = QueueOptions::of_device(served.rotational);
        let (block_size_bytes, read_only) = (served.block_size, served.read_only);
        let settings = Settings { block_size_bytes, read_only, queue };
        let file = file.expect("a mount without a place has it");
        LoopDevice::attach(&file, &settings).expect("a loop device can be made")
    });
    let path = match (&device, &served.directory) {
        (Some(device), _) => {
            println!("{MARK}{:?}", device.queue());
            device.path().to_owned()
        }
        (None, Some(directory)) => directory.join(FILE_NAME),
        (None, None) => unreachable!("without a directory there is a device"),
    };
    println!("{MARK}{}", path.display());
    std::io::stdin().read_to_end(&mut Vec::new()).expect("a pipe can be read");
    let detached = device.map(LoopDevice::detach);
    stop.stop();
    let figures = Figures { detached, ..thread.join().expect("the server does not panic") };
    println!("{MARK}{}", serde_json::to_string(&figures).expect("it is plain"));
}

fn serve_here(served: &Served, stop: &Stop, ready: &mpsc::Sender<Option<DetachedFile>>) -> Figures {
    let size = ByteSize::from_bytes(served.size_mib << 20);
    let store = match &served.file {
        Some(path) => Store::in_file(path, size, Access::ReadWrite),
        None => Store::in_ram(size, None),
    };
    let block_size = ByteSize::from_bytes(served.block_size.into());
    let parameters = ServerParameters {
        capacity_blocks: size.as_bytes() / block_size.as_bytes(),
        block_size,
        service_time: Duration::from_us(served.service_us),
    };
    let model = Box::new(Model::constant(&parameters).expect("the parameters are right"));
    let clock = Clock::start();
    let export =
        Export { read_only: served.read_only, ..Export::new("", size.as_bytes(), served.block_size) };
    let place = served.directory.clone().map_or(Place::Detached, Place::At);
    let mut server = Server::mount(export, Box::new(move || clock.now()), &place).expect("it can be mounted");
    let counts = Arc::new(Mutex::new((0, 0)));
    let counting = counts.clone();
    let pacer = Pacer::new(model, Options::default());
    let emulation = Emulation::new(pacer, store.expect("there is room"), clock);
    let mut emulation = emulation.observed_by(Box::new(move |record| {
        let mut counts = counting.lock().expect("nobody panicked");
        counts.0 += u64::from(record.op == seeklab_core::Operation::Flush);
        counts.1 += u64::from(record.fua);
    }));
    ready.send(server.detached_file()).expect("the main thread waits for it");
    let mut waiter = Waiter::new(clock, Pacing::Balanced, Duration::from_us(50));
    serve(&mut server, &mut emulation, &mut waiter, stop).expect("serving ends when asked to");
    let served = server.statistics();
    let (statistics, store, _) = emulation.finish();
    store.flush().expect("the store takes it");
    let (flushes, fua_writes) = *counts.lock().expect("nobody panicked");
    Figures {
        requests: statistics.requests,
        refused: statistics.refused,
        outstanding_max: served.outstanding_max,
        malformed: served.oddities.malformed_count,
        allocated_bytes: store.allocated_bytes().expect("the store knows its allocation").as_bytes(),
        flushes,
        fua_writes,
        detached: None,
    }
}

/// A served device.
pub(crate) struct Serving {
    child: Child,
    output: BufReader<ChildStdout>,
    /// The file or the block device.
    pub(crate) path: PathBuf,
    /// Settings of the block device.
    pub(crate) queue: String,
}

impl Serving {
    pub(crate) fn start(served: &Served) -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .args(["--exact", "fuse::harness::serve_when_asked", "--nocapture"])
            .env(VARIABLE, serde_json::to_string(served).expect("it is plain"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started");
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut serving = Self { child, output, path: PathBuf::new(), queue: String::new() };
        if served.directory.is_none() {
            serving.queue = serving.line();
        }
        serving.path = PathBuf::from(serving.line());
        serving
    }

    pub(crate) fn device(&self) -> &str {
        self.path.to_str().expect("it is UTF-8")
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            let count = self.output.read_line(&mut line).expect("the child writes text");
            assert!(count > 0, "the child ended before it served");
            if let Some(marked) = line.trim_end().split_once(MARK) {
                return marked.1.to_owned();
            }
        }
    }

    /// Ends it in order.
    pub(crate) fn end(mut self) -> Figures {
        drop(self.child.stdin.take());
        let figures = serde_json::from_str(&self.line()).expect("the child writes figures");
        assert!(self.child.wait().expect("it ends").success());
        figures
    }

    /// Ends it as `kill -9` does.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        let status = self.child.wait().expect("it ends");
        assert_eq!(status.signal(), Some(9));
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A mounted file system, unmounted whatever happens.
pub(crate) struct Mounted {
    pub(crate) folder: tempfile::TempDir,
    mounted: bool,
}

impl Mounted {
    pub(crate) fn new(device: &str, options: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory can be made");
        let mut mounted = Self { folder, mounted: false };
        run("mount", ["-o", options, device, mounted.path()]);
        mounted.mounted = true;
        mounted
    }

    pub(crate) fn path(&self) -> &str {
        self.folder.path().to_str().expect("it is UTF-8")
    }

    pub(crate) fn unmount(mut self) {
        run("umount", [self.path()]);
        self.mounted = false;
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").args(["--lazy", self.path()]).status();
        }
    }
}

/// Returns true if a test with these needs can run. Otherwise prints the reason.
pub(crate) fn can(test: &str, block_device: bool, programs: &[&str]) -> bool {
    let mut missing = Vec::new();
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    let place = if block_device { Place::Detached } else { Place::At(folder.path().to_owned()) };
    missing.extend(unavailability(&place));
    if block_device {
        missing.extend(loop_device::unavailability());
    }
    let absent = programs.iter().filter(|program| {
        let mut found = Command::new(program);
        found.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        found.status().is_err()
    });
    missing.extend(absent.map(|program| format!("`{program}` is not installed")));
    for missing in &missing {
        eprintln!("skipped: {test}: {missing}");
    }
    missing.is_empty()
}

/// Runs a program that must succeed within two minutes; gives its output.
pub(crate) fn run<A: AsRef<OsStr>>(program: &str, arguments: impl IntoIterator<Item = A>) -> String {
    let (success, text) = attempt(program, arguments);
    assert!(success, "{program} failed:\n{text}");
    text
}

/// Runs a program for at most two minutes. Returns true if it succeeded, and its output.
pub(crate) fn attempt<A: AsRef<OsStr>>(
    program: &str,
    arguments: impl IntoIterator<Item = A>,
) -> (bool, String) {
    let output = Command::new("timeout")
        .args(["--kill-after=5", "120", program])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("`timeout` is part of every system");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(124), "{program} hangs:\n{text}");
    (output.status.success(), text.into_owned())
}

/// Bytes that differ everywhere, with holes.
pub(crate) fn pattern(size: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut bytes = Vec::with_capacity(size);
    while bytes.len() < size {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let hole = (bytes.len() >> 16) % 3 == 1;
        bytes.extend(if hole { [0; 8] } else { state.to_be_bytes() });
    }
    bytes
}
