//! Mounting through `fusermount3`, the helper with the privilege to mount that FUSE brings.
//!
//! ```text
//! we ── spawn ─▶ fusermount3: mounts, sends the descriptor of /dev/fuse over a socket, ends
//! ```
//! Its option `auto_unmount` is of no use: for users without privilege it finds that it may not look at the
//! mount, and leaves it.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg,
    socketpair,
};

use super::connection::TRANSFER_BYTES_MAX;

const PROGRAM: &str = "fusermount3";

/// Mounts at `path`; gives what serves the mount.
pub(super) fn mount(path: &Path, read_only: bool) -> io::Result<OwnedFd> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let access = if read_only { "ro" } else { "rw" };
    let helper = Command::new(PROGRAM)
        .arg("-o")
        .arg(format!("fsname=seeklab,subtype=seeklab,nosuid,nodev,{access},max_read={TRANSFER_BYTES_MAX}"))
        .arg("--")
        .arg(path)
        // The socket is its standard input: of all descriptors, only the first three pass to a child.
        .env("_FUSE_COMMFD", "0")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let helper = helper.map_err(|error| {
        let remedy = "install FUSE 3 (Debian: `apt install fuse3`)";
        io::Error::new(error.kind(), format!("{PROGRAM}: {error}; {remedy}"))
    })?;
    let received = receive(&ours);
    drop(ours);
    let output = helper.wait_with_output()?;
    let Some(device) = received? else {
        let message = String::from_utf8_lossy(&output.stderr);
        let message = message.trim().trim_start_matches("fusermount3: ");
        return Err(io::Error::other(format!("{PROGRAM} refused: {message}")));
    };
    fcntl_setfl(&device, fcntl_getfl(&device)? | OFlags::NONBLOCK)?;
    Ok(device)
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
