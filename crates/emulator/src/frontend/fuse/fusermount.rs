//! Mounting through `fusermount3`, the helper with the privilege to mount that FUSE brings.
//!
//! ```text
//! we ── spawn ─▶ fusermount3 ── mounts, sends /dev/fuse over a socket, waits for its end, unmounts
//! ```
//! The helper outlives us by as long as unmounting takes, however we end.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg,
    socketpair,
};

use super::connection::TRANSFER_BYTES_MAX;

const PROGRAM: &str = "fusermount3";

/// What a helper has mounted.
#[derive(Debug)]
pub(super) struct Fusermount {
    /// Whose end tells the helper to unmount.
    socket: Option<OwnedFd>,
    helper: Child,
}

impl Fusermount {
    pub(super) fn mount(path: &Path, read_only: bool) -> io::Result<(OwnedFd, Self)> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let mut options =
            format!("fsname=seeklab,subtype=seeklab,nosuid,nodev,auto_unmount,max_read={TRANSFER_BYTES_MAX}");
        options.push_str(if read_only { ",ro" } else { ",rw" });
        if rustix::process::geteuid().is_root() {
            options.push_str(",allow_other,default_permissions");
        }
        let helper = Command::new(PROGRAM)
            .args(["-o", &options, "--"])
            .arg(path)
            // The socket is its standard input: of all descriptors, only these three pass to a child.
            .env("_FUSE_COMMFD", "0")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut helper = helper.map_err(|error| {
            let remedy = "install FUSE 3 (Debian: `apt install fuse3`)";
            io::Error::new(error.kind(), format!("{PROGRAM}: {error}; {remedy}"))
        })?;
        match receive(&ours) {
            Ok(Some(device)) => {
                fcntl_setfl(&device, fcntl_getfl(&device)? | OFlags::NONBLOCK)?;
                // It keeps the other end open; nobody reads it any more.
                drop(helper.stderr.take());
                Ok((device, Self { socket: Some(ours), helper }))
            }
            Ok(None) => {
                drop(ours);
                let output = helper.wait_with_output()?;
                let said = String::from_utf8_lossy(&output.stderr);
                let said = said.trim().trim_start_matches("fusermount3: ");
                Err(io::Error::other(format!("{PROGRAM} refused: {said}")))
            }
            Err(error) => {
                drop(ours);
                let _ = helper.wait();
                Err(error)
            }
        }
    }

    /// Lets the helper unmount, and waits until it has. `/dev/fuse` must have been closed.
    pub(super) fn unmount(&mut self) {
        drop(self.socket.take());
        // If it was killed there is nothing to wait for.
        let _ = self.helper.wait();
    }
}

/// The descriptor that the helper sends, or nothing if it ends instead.
fn receive(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    if received.bytes > 0 && descriptor.is_none() {
        return Err(io::Error::other(format!("{PROGRAM} sent no descriptor")));
    }
    Ok(descriptor)
}
