//! Runs unmodified programs on a mounted block device and leaves nothing behind, however it ends.
//!
//! ```text
//! caller (serves the device)            inside: PID 1 of its own pid and mount namespaces
//! ┌──────────────────────┐   requests   ┌──────────────────────────────────────────────┐
//! │ Stage ── control ────┼─────────────▶│ mkfs │ mount, run, sweep, sync, unmount      │
//! │  └ keeper thread     │◀─────────────┼─────   └ command ─ its children ─ its daemons │
//! └──────────────────────┘   results    └──────────────────────────────────────────────┘
//! ```
//! The caller executes itself again as the first process of a new pid namespace ([`run_if_inside`] takes over
//! there). That process mounts the device where only it and its children see it, and is their reaper. So
//! nothing that happens inside outlives it: the kernel kills every process of a pid namespace with its first
//! one, and unmounts everything in a mount namespace with its last process. It dies with the caller, by the
//! parent-death signal and by the closed control socket, even if SIGKILL ends the caller.
//!
//! A phase is one command on a freshly mounted file system. The stage mounts it, runs the command, ends the
//! processes that the command left running, syncs and unmounts. Its caches are therefore cold. Stamps are
//! CLOCK_MONOTONIC, like those of the emulator.
//!
//! # Scope and limits
//! - Linux 5.3 or later, and CAP_SYS_ADMIN. [`preflight`](preflight()) reports all missing requirements
//!   before anything is created.
//! - The device must answer or fail: a device that is served by the caller has to fail its requests when the
//!   caller dies (an aborted FUSE connection does). Otherwise processes that wait for it cannot be killed.
//! - Files that a command writes elsewhere than under the mount stay. So do the effects of its requests to a
//!   service manager, a container engine, or this kernel (for example a loop device of its own).
//! - The network, users and /dev/shm are the host's; System V IPC is private, where the kernel can.
//! - Interactive shells warn of job control, for the terminal's session is not in their pid namespace.
//! - A child that its parent does not wait for (SIGCHLD ignored) is missing from the processor times, and the
//!   largest resident set is at least that of this process when it forks, a few MiB.
//!
//! # References
//! `pid_namespaces(7)`, `mount_namespaces(7)`, `prctl(2)` PR_SET_PDEATHSIG.

#[cfg(target_os = "linux")]
mod account;
#[cfg(target_os = "linux")]
mod command;
#[cfg(target_os = "linux")]
mod cpu_list;
#[cfg(target_os = "linux")]
mod error;
#[cfg(target_os = "linux")]
mod file_system;
#[cfg(target_os = "linux")]
mod inside;
#[cfg(target_os = "linux")]
mod memory_group;
mod memory_watch;
#[cfg(target_os = "linux")]
mod mount_options;
#[cfg(target_os = "linux")]
mod os;
#[cfg(target_os = "linux")]
mod phase;
#[cfg(target_os = "linux")]
mod place;
#[cfg(target_os = "linux")]
mod preflight;
#[cfg(target_os = "linux")]
mod stage;
#[cfg(target_os = "linux")]
mod stop;
#[cfg(target_os = "linux")]
mod wire;

#[cfg(target_os = "linux")]
pub use self::{
    account::Account,
    command::{CommandLine, find_program, resolve},
    cpu_list::{CpuList, CpuListError, KeptOff},
    error::{Error, Missing},
    file_system::{FileSystem, FileSystemError},
    memory_group::MemoryFigures,
    memory_watch::{MemoryUse, MemoryWatch},
    mount_options::{MountOptions, MountOptionsError},
    phase::{Exit, Phase, PhaseResult},
    preflight::{Needs, preflight},
    stage::{Mounted, Output, Stage, StageOptions},
    stop::Stop,
};

/// Becomes the inside of a stage, and never returns, if that is what this process was started as.
///
/// To be called first in `main` of every program that opens a [`Stage`]: before arguments are parsed,
/// threads started or anything is printed.
pub fn run_if_inside() {
    #[cfg(target_os = "linux")]
    if std::env::args_os().nth(1).is_some_and(|argument| argument == wire::INSIDE) {
        std::process::exit(inside::main());
    }
}
