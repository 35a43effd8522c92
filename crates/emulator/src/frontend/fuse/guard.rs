//! Unmounting however this process ends.
//!
//! ```text
//! we ── a pipe ─▶ sh: waits for its end, then unmounts
//! ```
//! The guard is a process that outlives us by as long as unmounting takes. It is in a process group of its
//! own, so that Ctrl-C does not end it.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Program that unmounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unmounter {
    /// Root.
    Umount,
    /// FUSE's helper with the privilege.
    Fusermount,
}

impl Unmounter {
    /// The command that takes a mount away at once, from whoever uses it.
    fn command(self) -> &'static [&'static str] {
        match self {
            Self::Umount => &["umount", "-l"],
            Self::Fusermount => &["fusermount3", "-u", "-z", "-q", "--"],
        }
    }
}

/// Unmounts when it is dropped or this process is no more. `/dev/fuse` should have been closed before.
#[derive(Debug)]
pub(super) struct Guard {
    process: Child,
}

impl Guard {
    pub(super) fn new(unmounter: Unmounter, path: &Path) -> io::Result<Self> {
        let process = Command::new("sh")
            .args(["-c", "read -r _; exec \"$@\"", "sh"])
            .args(unmounter.command())
            .arg(path)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("sh, to unmount at the end: {error}")))?;
        Ok(Self { process })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // If it was killed, there is nothing to wait for.
        let _ = self.process.wait();
    }
}
