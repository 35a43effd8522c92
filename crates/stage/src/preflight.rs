//! Tests what a run needs before anything is created, and names everything that is missing at once.
//!
//! Rights are tried rather than inferred where trying leaves nothing behind: namespaces and mounts in a
//! thread that leaves the process's mount namespace and ends.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{CapabilitySet, capabilities};
use seeklab_core::ByteSize;

use crate::account::Account;
use crate::command::{SHELL, find_program, resolve};
use crate::cpu_list::CpuList;
use crate::error::Missing;
use crate::file_system::FileSystem;
use crate::memory_group::MemoryGroup;
use crate::place;

/// The ways that need nothing of this.
const BUILTIN: &str = "`seeklab run DEVICE --builtin WORKLOAD`, which needs no privilege, or, where FUSE may be used, \
                       `examples/without-root.sh DEVICE COMMAND`";

/// Requirements of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs<'a> {
    /// A block device that is a loop device over FUSE.
    pub block_over_fuse: bool,
    /// The file system that will be mounted.
    pub file_system: FileSystem,
    /// True if the mkfs of that file system is needed. Images need none.
    pub mkfs: bool,
    /// The command that will run, as it was given; empty for none.
    pub command: &'a [OsString],
    /// `/bin/sh`, for setup and phases.
    pub shell: bool,
    /// The user that was named.
    pub user: Option<&'a str>,
    /// Limit of the memory of commands.
    pub memory: Option<ByteSize>,
    /// Processors of the commands.
    pub cpus: Option<&'a CpuList>,
}

/// Tests all of it; nothing is created.
///
/// # Errors
/// Everything that is missing, each with its remedy, rights first.
pub fn preflight(needs: &Needs<'_>) -> Result<(), Vec<Missing>> {
    let mut missing = rights(needs);
    if needs.block_over_fuse {
        missing.extend(openable("/dev/fuse", "fuse"));
        missing.extend(supported("fuse", "fuse"));
        missing.extend(openable("/dev/loop-control", "loop"));
    }
    if needs.file_system != FileSystem::None {
        missing.extend(supported(needs.file_system.name(), needs.file_system.name()));
    }
    if needs.mkfs {
        missing.extend(mkfs(needs.file_system));
    }
    if place::find().is_none() {
        let names = seeklab_core::names::quoted(place::candidates());
        let what = format!("there is no empty directory to mount on; looked at {names}");
        missing.push(Missing::new(what, "`mkdir -p /mnt`, or empty one of them"));
    }
    if !needs.command.is_empty() {
        missing.extend(resolve(needs.command).err());
    }
    if needs.shell && !Path::new(SHELL).exists() {
        missing.push(Missing::new(format!("there is no `{SHELL}`"), "install a shell (`sh`)"));
    }
    missing.extend(needs.memory.and_then(MemoryGroup::missing));
    missing.extend(needs.cpus.and_then(CpuList::missing));
    if missing.is_empty() { Ok(()) } else { Err(missing) }
}

/// Capabilities, users, and whether namespaces and mounts work.
fn rights(needs: &Needs<'_>) -> Vec<Missing> {
    let mut missing = Vec::new();
    let account = Account::for_command(needs.user).unwrap_or_else(|no_user| {
        missing.push(no_user);
        None
    });
    let has = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    let mut wanted = vec![("CAP_SYS_ADMIN", CapabilitySet::SYS_ADMIN, "to mount")];
    if account.is_some() {
        let change = "to run the command as another user";
        wanted.push(("CAP_SETUID", CapabilitySet::SETUID, change));
        wanted.push(("CAP_SETGID", CapabilitySet::SETGID, change));
        wanted.push(("CAP_CHOWN", CapabilitySet::CHOWN, change));
    }
    wanted.retain(|(_, capability, _)| !has.contains(*capability));
    for (name, _, what_for) in &wanted {
        let remedy = format!("run it with `sudo` (in a container: add the capability), or use {BUILTIN}");
        missing.push(Missing::new(format!("the capability {name} is missing, {what_for}"), remedy));
    }
    if wanted.is_empty() {
        missing.extend(try_namespaces());
    }
    missing
}

/// Leaves namespaces and mounts, in a thread that then ends and takes all of it along.
fn try_namespaces() -> Option<Missing> {
    let tried = std::thread::Builder::new().name("preflight".to_owned()).spawn(|| {
        let step = |what: &'static str| move |error: io::Error| (what, error);
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        unshare(CloneFlags::CLONE_NEWNS).map_err(io::Error::from).map_err(step("a new mount namespace"))?;
        mount_change("/", private).map_err(io::Error::from).map_err(step("private mounts"))?;
        if let Some(place) = place::find() {
            mount("seeklab", place, "tmpfs", MountFlags::NOSUID, c"size=64k")
                .map_err(io::Error::from)
                .map_err(step("a mount"))?;
        }
        unshare(CloneFlags::CLONE_NEWPID).map_err(io::Error::from).map_err(step("a new pid namespace"))
    });
    let (what, error) = match tried.map(std::thread::JoinHandle::join) {
        Ok(Ok(Ok(()))) => return None,
        Ok(Ok(Err(refused))) => refused,
        Ok(Err(_)) => ("the test of namespaces", io::Error::other("it panicked")),
        Err(error) => ("a thread", error),
    };
    let remedy = if error.raw_os_error() == Some(rustix::io::Errno::NOSPC.raw_os_error()) {
        "raise /proc/sys/user/max_pid_namespaces and max_mnt_namespaces".to_owned()
    } else {
        format!("a security policy forbids it (seccomp, AppArmor, SELinux): relax it, or use {BUILTIN}")
    };
    Some(Missing::new(format!("{what} is refused: {error}"), remedy))
}

fn openable(path: &str, module: &str) -> Option<Missing> {
    let error = OpenOptions::new().read(true).write(true).open(path).err()?;
    let what = format!("{path} cannot be opened: {error}");
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => {
            format!("`modprobe {module}`; in a container: pass it in (`--device {path}`), or use {BUILTIN}")
        }
        _ => format!(
            "run it with `sudo`; in a container: allow the device (`--device {path}`), or use {BUILTIN}"
        ),
    };
    Some(Missing::new(what, remedy))
}

/// Returns the missing support, unless the kernel has the file system or a module that mounting would load.
fn supported(name: &str, module: &str) -> Option<Missing> {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if lists_file_system(&known, name) || has_module(module) {
        return None;
    }
    let others: Vec<&str> = FileSystem::ALL
        .into_iter()
        .map(FileSystem::name)
        .filter(|other| *other == "none" || lists_file_system(&known, other))
        .collect();
    let remedy = match FileSystem::ALL.iter().any(|file_system| file_system.name() == name) {
        true => format!("choose one that it has: {}", seeklab_core::names::quoted(others)),
        false => format!("`modprobe {module}`, a kernel with it, or use {BUILTIN}"),
    };
    Some(Missing::new(format!("the kernel does not know the file system {name}"), remedy))
}

fn lists_file_system(table: &str, name: &str) -> bool {
    table.lines().any(|line| line.rsplit('\t').next() == Some(name))
}

fn has_module(module: &str) -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let folder = Path::new("/lib/modules").join(release);
    ["modules.dep", "modules.builtin"]
        .iter()
        .any(|list| fs::read_to_string(folder.join(list)).is_ok_and(|modules| lists_module(&modules, module)))
}

fn lists_module(modules: &str, module: &str) -> bool {
    let file = format!("/{module}.ko");
    modules.lines().filter_map(|line| line.split(':').next()).any(|path| {
        path.rfind(&file)
            .is_some_and(|at| path[at + file.len()..].chars().all(|c| c == '.' || c.is_alphanumeric()))
    })
}

fn mkfs(file_system: FileSystem) -> Option<Missing> {
    let program = file_system.mkfs()?;
    if find_program(program).is_some() {
        return None;
    }
    let package = file_system.package();
    Some(Missing::new(format!("there is no program `{program}`"), format!("install the package `{package}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_missing_requirements_are_reported_together() {
        let command = [OsString::from("no-such-program-here")];
        let needs = Needs { command: &command, user: Some("no-such-user"), ..Needs::default() };
        let missing = preflight(&needs).unwrap_err();
        let what: Vec<&str> = missing.iter().map(|missing| missing.what.as_str()).collect();
        assert!(what.contains(&"there is no user `no-such-user`"), "{what:?}");
        assert!(what.contains(&"there is no program `no-such-program-here` in PATH"), "{what:?}");
        assert!(missing.iter().all(|missing| !missing.remedy.is_empty()));
    }

    #[test]
    fn file_system_is_found_in_the_kernels_table() {
        let table = "nodev\ttmpfs\n\text4\n\tfuseblk\nnodev\tfuse\n";
        for (name, known) in [("ext4", true), ("fuse", true), ("ext", false), ("nodev", false)] {
            assert_eq!(lists_file_system(table, name), known, "{name}");
        }
        let modules = "kernel/fs/xfs/xfs.ko.zst: kernel/lib/libcrc32c.ko\nkernel/fs/btrfs/btrfs.ko:\n";
        for (module, known) in [("xfs", true), ("btrfs", true), ("libcrc32c", false), ("fs", false)] {
            assert_eq!(lists_module(modules, module), known, "{module}");
        }
    }

    #[test]
    fn unopenable_device_is_reported_with_a_remedy() {
        assert_eq!(openable("/dev/null", "null"), None);
        let missing = openable("/dev/no-such-device", "fuse").unwrap();
        assert!(missing.what.starts_with("/dev/no-such-device cannot be opened: "), "{missing}");
        assert!(missing.remedy.contains("modprobe fuse") && missing.remedy.contains("--builtin"));
        let missing = supported("no-such-fs", "no-such-module").unwrap();
        assert_eq!(missing.what, "the kernel does not know the file system no-such-fs");
    }
}
