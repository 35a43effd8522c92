//! Runs mkfs and phases.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::command::{CommandLine, SHELL, find_program};
use crate::cpu_list::CpuList;
use crate::error::Trouble;
use crate::os::{Limits, monotonic_ns, spawn};
use crate::phase::{Phase, PhaseResult};
use crate::wire::{Reply, Setting};

use super::attend::{Ended, attend};
use super::{Control, Inside, duplicate};

/// Maximum number of bytes quoted from the output of a failed mkfs.
const OUTPUT_BYTES_MAX: usize = 4096;

/// Makes the file system, if there is to be one; false if it was stopped.
pub(super) fn make_file_system(setting: &Setting, control: &mut Control) -> Result<bool, Trouble> {
    let Some(name) = setting.file_system.mkfs() else { return Ok(true) };
    let package = setting.file_system.package();
    let program = find_program(name).ok_or_else(|| {
        Trouble::new(format!("there is no `{name}`")).hint(format!("install the package `{package}`"))
    })?;
    let failed = |error: std::io::Error| Trouble::io(format!("run {}", program.display()), error);
    // In memory rather than a pipe, which would fill up while nobody reads.
    let output = memfd_create("mkfs", MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    let mut output = File::from(output);
    let both = || output.try_clone().map_err(failed);
    let mut command = Command::new(&program);
    command
        .args(setting.file_system.mkfs_arguments())
        .arg(&setting.device)
        // The times in the superblock, where mke2fs knows it: the same each time.
        .env("SOURCE_DATE_EPOCH", "1")
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(both()?)
        .stderr(both()?);
    let (child, _) = spawn(command, None, Limits::default()).map_err(failed)?;
    let Ended { status, stopped, .. } = attend(&child, control, setting.grace)?;
    if stopped {
        return Ok(false);
    }
    if !status.success() {
        let mut text = Vec::new();
        output.rewind().and_then(|()| output.read_to_end(&mut text)).map_err(failed)?;
        text.truncate(OUTPUT_BYTES_MAX);
        let text = String::from_utf8_lossy(&text);
        let device = setting.device.display();
        return Err(Trouble::new(format!("`{name}` on {device} failed ({status}): {}", text.trim())));
    }
    Ok(true)
}

impl Inside {
    /// Runs a phase from mount to unmount. With `on_start`, the command waits for the caller once the device is mounted,
    /// and the result is `Stopped` if the caller stops or cancels it there.
    pub(super) fn run(&mut self, phase: &Phase, on_start: bool) -> Result<Reply, Trouble> {
        let command = self.command(phase)?;
        let program = command.get_program().to_owned();
        if self.setting.drop_caches {
            rustix::fs::sync();
            std::fs::write("/proc/sys/vm/drop_caches", "3")
                .map_err(|error| Trouble::io("drop caches", error))?;
        }
        let limits = self.limits()?;
        let mount_start_ns = monotonic_ns();
        self.mounts.mount(&self.setting)?;
        let start_ns = monotonic_ns();
        if on_start && !self.control.is_started() {
            self.mounts.sync_and_unmount()?;
            return Ok(Reply::Stopped);
        }
        let ran = spawn(command, self.setting.account.as_ref(), limits)
            .map_err(|error| Trouble::io(format!("run {program:?}"), error))
            .and_then(|(child, exec_ns)| {
                Ok((attend(&child, &mut self.control, self.setting.grace)?, exec_ns))
            });
        let flush_start_ns = monotonic_ns();
        let flushed = self.mounts.sync_and_unmount();
        let flush_end_ns = monotonic_ns();
        let (ended, exec_ns) = ran?;
        let flushed = flushed?;
        Ok(Reply::PhaseResult(PhaseResult {
            name: phase.name.clone(),
            exit: ended.status.into(),
            stopped: ended.stopped,
            mount_start_ns,
            start_ns,
            exec_ns,
            end_ns: ended.end_ns,
            flush_start_ns,
            synced_ns: flushed.synced_ns,
            flush_end_ns,
            user: ended.usage.user,
            system: ended.usage.system,
            max_rss_bytes: ended.usage.max_rss_bytes,
            left_running: ended.left_running,
            flush_error: flushed.error,
        }))
    }

    /// The limits of the next command.
    fn limits(&self) -> Result<Limits, Trouble> {
        let open = |path: &PathBuf| {
            let file = File::options().write(true).open(path);
            file.map_err(|error| Trouble::io(format!("open {}", path.display()), error))
        };
        let Setting { memory_group, cpus, .. } = &self.setting;
        Ok(Limits {
            memory_group: memory_group.as_ref().map(open).transpose()?,
            cpus: cpus.as_ref().map(CpuList::set),
        })
    }

    fn command(&self, phase: &Phase) -> Result<Command, Trouble> {
        let mut command = match &phase.command {
            CommandLine::Shell(line) => {
                let mut shell = Command::new(SHELL);
                shell.arg("-c").arg(line);
                shell
            }
            CommandLine::Words(words) => {
                let (program, arguments) = words
                    .split_first()
                    .ok_or_else(|| Trouble::new(format!("phase `{}` has no command", phase.name)))?;
                let mut command = Command::new(program);
                command.args(arguments);
                command
            }
        };
        let [stdin, stdout, stderr] = &self.standard;
        command.stdin(duplicate(stdin)?).stdout(duplicate(stdout)?).stderr(duplicate(stderr)?);
        command.env("SEEKLAB_DEVICE", self.mounts.device());
        match &self.setting.nbd {
            Some(uri) => command.env("SEEKLAB_NBD", uri),
            None => command.env_remove("SEEKLAB_NBD"),
        };
        match self.mounts.target() {
            Some(target) => command.env("SEEKLAB_MOUNT", target).env("PWD", target).current_dir(target),
            None => command.env_remove("SEEKLAB_MOUNT"),
        };
        if let Some(account) = &self.setting.account {
            command.env("HOME", &account.home).env("SHELL", &account.shell);
            command.env("USER", &account.name).env("LOGNAME", &account.name);
        }
        command.envs(phase.environment.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }
}
