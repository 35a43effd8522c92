//! The caller's side: starts the process inside, sends its requests, and makes sure that it ends.

use std::ffi::OsString;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use nix::sched::{CloneFlags, unshare};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use seeklab_core::{ByteSize, Duration};

use crate::account::Account;
use crate::cpu_list::CpuList;
use crate::error::Error;
use crate::file_system::FileSystem;
use crate::memory_group::{MemoryFigures, MemoryGroup};
use crate::memory_watch::MemoryWatch;
use crate::mount_options::MountOptions;
use crate::phase::{Phase, PhaseResult};
use crate::place;
use crate::stop::{Control, Stop};
use crate::wire::{INSIDE, Lines, Reply, Request, Setting, send_descriptors};

/// Time that dropping a stage waits for its processes to end, before it leaves that to the kernel.
const END_WAIT: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// Destination of the standard output of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Output {
    /// To the caller's standard output.
    #[default]
    Stdout,
    /// To the caller's standard error, because the caller's output is for machines.
    Stderr,
}

/// Options of a stage.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StageOptions {
    /// The block device.
    pub device: PathBuf,
    /// File system that is on the device, or that will be made.
    pub file_system: FileSystem,
    /// Mount options.
    pub mount_options: MountOptions,
    /// User who runs the commands; the caller if none.
    pub account: Option<Account>,
    /// Drop the caches of the whole machine before each phase. The device's own caches are cold without this
    /// option.
    pub drop_caches: bool,
    /// Destination of the standard output of commands.
    pub output: Output,
    /// Value of `SEEKLAB_NBD` in the environment of commands.
    pub nbd: Option<OsString>,
    /// Time between SIGTERM and SIGKILL for processes to end.
    pub grace: Duration,
    /// Limit of the memory of commands, with the page cache that they fill. mkfs has no limit.
    pub memory: Option<ByteSize>,
    /// Processors of the commands; the caller's if none.
    pub cpus: Option<CpuList>,
}

impl StageOptions {
    /// Returns options for that device with ext4, mounted with the defaults of `mount`, commands run as the
    /// caller, and two seconds of grace.
    pub fn new(device: impl Into<PathBuf>) -> Self {
        Self {
            device: device.into(),
            file_system: FileSystem::default(),
            mount_options: MountOptions::none(),
            account: None,
            drop_caches: false,
            output: Output::default(),
            nbd: None,
            grace: Duration::from_s(2),
            memory: None,
            cpus: None,
        }
    }
}

/// A phase whose device is mounted and whose command has not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mounted {
    /// Number of the process that starts the command, in the pid namespace of the caller. Its mount namespace has the
    /// device.
    pub process: u32,
}

/// A block device in a mount namespace of its own, and the process that holds it.
///
/// All methods block until what they do is done. To be called from another thread than the one that serves
/// the device. Dropping it kills whatever runs.
#[derive(Debug)]
pub struct Stage {
    control: Arc<Control>,
    replies: Lines,
    stop: Stop,
    inside: OwnedFd,
    /// Number of the process inside, as the caller sees it.
    process: u32,
    keeper: Option<JoinHandle<io::Result<ExitStatus>>>,
    mount: Option<PathBuf>,
    /// Removed after the process inside and its commands have ended.
    memory: Option<(ByteSize, MemoryGroup)>,
}

impl Stage {
    /// Starts the process inside; nothing is mounted yet.
    ///
    /// `stop` stops this stage from now on, instead of the one that it stopped before.
    ///
    /// # Errors
    /// A stage that was stopped already; namespaces, private mounts or a memory cgroup that are refused.
    /// [`preflight`](crate::preflight()) knows before.
    pub fn open(options: &StageOptions, stop: &Stop) -> Result<Self, Error> {
        let start = |what| move |source| Error::Start { what, source };
        let place = place::find().ok_or_else(|| {
            let error = io::Error::other("no directory for a mount exists and is empty");
            start("find where to mount")(error)
        })?;
        let memory = options.memory.map(|limit| MemoryGroup::create(limit).map(|group| (limit, group)));
        let memory = memory.transpose()?;
        let (ours, theirs) = UnixStream::pair().map_err(start("make a control socket"))?;
        let writer = ours.try_clone().map_err(start("make a control socket"))?;
        let (inside, process, keeper) = keep(theirs)?;
        let mut stage = Self {
            control: Arc::new(Control(Mutex::new(writer))),
            replies: Lines::new(ours),
            stop: stop.clone(),
            inside,
            process,
            keeper: Some(keeper),
            mount: (options.file_system != FileSystem::None).then(|| place.join(place::NAME)),
            memory,
        };
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let output = match options.output {
            Output::Stdout => stdout.as_fd(),
            Output::Stderr => stderr.as_fd(),
        };
        if send_descriptors(stage.replies.stream(), [stdin.as_fd(), output, stderr.as_fd()]).is_err() {
            return Err(stage.died());
        }
        let setting = Setting {
            device: options.device.clone(),
            place: place.to_owned(),
            file_system: options.file_system,
            mount_options: options.mount_options.clone(),
            account: options.account.clone(),
            drop_caches: options.drop_caches,
            nbd: options.nbd.clone(),
            grace: options.grace,
            memory_group: stage.memory.as_ref().map(|(_, group)| group.entrance()),
            cpus: options.cpus.clone(),
        };
        stage.ask(&Request::Open(setting))?;
        stop.attach(&stage.control);
        Ok(stage)
    }

    /// Returns the directory where commands see the device mounted, or `None` without a file system.
    pub fn mount(&self) -> Option<&Path> {
        self.mount.as_deref()
    }

    /// Returns the memory of the commands so far, or `None` without a limit.
    ///
    /// # Errors
    /// Figures that cannot be read.
    pub fn memory(&self) -> Result<Option<MemoryFigures>, Error> {
        let read = |(limit, group): &(ByteSize, MemoryGroup)| {
            group.figures().map_err(|source| Error::Memory { limit: *limit, source })
        };
        self.memory.as_ref().map(read).transpose()
    }

    /// Begins to sample the memory of the commands. `None` without a limit.
    ///
    /// # Errors
    /// Figures that cannot be read.
    pub fn watch_memory(&self) -> Result<Option<MemoryWatch>, Error> {
        let watch = |(limit, group): &(ByteSize, MemoryGroup)| {
            group.watch().map_err(|source| Error::Memory { limit: *limit, source })
        };
        self.memory.as_ref().map(watch).transpose()
    }

    /// Makes the file system and gives its root directory to the user that commands run as. Without a file
    /// system nothing happens.
    ///
    /// # Errors
    /// If mkfs fails, with its output; if the result cannot be mounted, changed or unmounted; if stopped.
    pub fn make_file_system(&mut self) -> Result<(), Error> {
        self.ask(&Request::MakeFileSystem).map(drop)
    }

    /// Mounts the file system, gives its root directory to the user that commands run as, and unmounts it:
    /// for images, which [`make_file_system`](Self::make_file_system) has not made. Without such a user
    /// nothing happens.
    ///
    /// # Errors
    /// A file system that cannot be mounted, changed or unmounted.
    pub fn give_to_user(&mut self) -> Result<(), Error> {
        self.ask(&Request::GiveToUser).map(drop)
    }

    /// Mounts the device, runs the command, kills the processes that it left running, syncs and unmounts.
    ///
    /// A command that fails, is stopped, or whose data cannot be written is a result, not an error.
    ///
    /// # Errors
    /// If the device cannot be mounted or unmounted, if the command cannot be executed, or if [`Stop::stop`] was
    /// called before it began.
    pub fn run_phase(&mut self, phase: &Phase) -> Result<PhaseResult, Error> {
        match self.ask(&Request::Run(phase.clone()))? {
            Reply::PhaseResult(result) => Ok(result),
            _ => Err(self.died()),
        }
    }

    /// As [`run_phase`](Self::run_phase), and calls `ready` once the device is mounted, before the command starts.
    ///
    /// # Errors
    /// As [`run_phase`](Self::run_phase), and errors of `ready`, after which the device is unmounted.
    pub fn run_phase_when_ready<E: From<Error>>(
        &mut self,
        phase: &Phase,
        ready: impl FnOnce(Mounted) -> Result<(), E>,
    ) -> Result<PhaseResult, E> {
        match self.ask(&Request::RunOnStart(phase.clone()))? {
            Reply::Mounted => {}
            _ => return Err(self.died().into()),
        }
        if let Err(error) = ready(Mounted { process: self.process }) {
            // It answers that the command was stopped, or is gone.
            let _ = self.control.send(&Request::Cancel);
            let _ = self.replies.next::<Reply>();
            return Err(error);
        }
        // Sent even if a stop came meanwhile, which the process inside knows: it waits for one of two answers.
        if self.control.send(&Request::Start).is_err() {
            return Err(self.died().into());
        }
        match self.answer()? {
            Reply::PhaseResult(result) => Ok(result),
            _ => Err(self.died().into()),
        }
    }

    /// Ends the process inside and waits until it, and with it everything that it held, is gone.
    ///
    /// # Errors
    /// A child that does not end in order and is killed.
    pub fn end(mut self) -> Result<(), Error> {
        let asked = self.control.send(&Request::End);
        let ended = asked.is_ok() && matches!(self.replies.next(), Ok(Some(Reply::Done)));
        if ended { Ok(()) } else { Err(self.died()) }
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, Error> {
        if self.stop.is_asked() {
            return Err(Error::Stopped);
        }
        if self.control.send(request).is_err() {
            return Err(self.died());
        }
        self.answer()
    }

    fn answer(&mut self) -> Result<Reply, Error> {
        match self.replies.next() {
            Ok(Some(Reply::Failed(trouble))) => Err(trouble.into()),
            Ok(Some(Reply::Stopped)) => Err(Error::Stopped),
            Ok(Some(reply)) => Ok(reply),
            Ok(None) | Err(_) => Err(self.died()),
        }
    }

    /// Makes sure that the process inside is gone, and returns an error with its exit status.
    fn died(&mut self) -> Error {
        let how = match self.reap() {
            Some(Ok(status)) => status.to_string(),
            Some(Err(error)) => error.to_string(),
            None => "it does not end; the device does not answer".to_owned(),
        };
        Error::Died { how }
    }

    /// Closes the control socket, which ends the process inside if it listens, kills it if it does not,
    /// and waits. None if it took too long or was done before.
    fn reap(&mut self) -> Option<io::Result<ExitStatus>> {
        let keeper = self.keeper.take()?;
        let _ = self.replies.stream().shutdown(Shutdown::Both);
        let mut ended = [PollFd::new(&self.inside, PollFlags::IN)];
        let patience = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };
        let mut count = poll(&mut ended, Some(&patience)).unwrap_or(0);
        if count == 0 {
            // It can only fail because the process is gone already.
            let _ = pidfd_send_signal(&self.inside, Signal::KILL);
            count = poll(&mut ended, Some(&END_WAIT)).unwrap_or(0);
        }
        (count > 0).then(|| keeper.join().unwrap_or_else(|_| Err(io::Error::other("its keeper panicked"))))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.reap();
    }
}

/// Starts the process inside from a thread that lives as long as it does.
///
/// The thread, because children see a new pid namespace only after their parent has left its own for its
/// children, and because the parent-death signal comes when the *thread* that is the parent ends.
fn keep(control: UnixStream) -> Result<(OwnedFd, u32, JoinHandle<io::Result<ExitStatus>>), Error> {
    let (sender, receiver) = mpsc::channel();
    let keeper = std::thread::Builder::new()
        .name("stage keeper".to_owned())
        .spawn(move || {
            let spawned = unshare(CloneFlags::CLONE_NEWPID).map_err(io::Error::from).and_then(|()| {
                Command::new("/proc/self/exe")
                    .arg0("seeklab-stage")
                    .arg(INSIDE)
                    .stdin(OwnedFd::from(control))
                    .stdout(Stdio::null())
                    .spawn()
            });
            let mut child = match spawned {
                Ok(child) => child,
                Err(error) => {
                    let _ = sender.send(Err(error));
                    return Err(io::ErrorKind::NotFound.into());
                }
            };
            let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).map_err(io::Error::from);
            let _ = sender.send(pidfd.map(|pidfd| (pidfd, child.id())));
            child.wait()
        })
        .map_err(|source| Error::Start { what: "start a thread", source })?;
    let inside = receiver.recv().unwrap_or_else(|_| Err(io::Error::other("its keeper panicked")));
    let (inside, process) =
        inside.map_err(|source| Error::Start { what: "start a process in a new pid namespace", source })?;
    Ok((inside, process, keeper))
}
