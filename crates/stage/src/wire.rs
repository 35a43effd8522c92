//! Messages between the caller and the process inside: one JSON value per line over a stream socket.
//!
//! The first byte is an empty line that carries the descriptors which are standard input, output and error
//! of commands; the socket itself is standard input of the process inside.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use seeklab_core::Duration;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::cpu_list::CpuList;
use crate::error::Trouble;
use crate::file_system::FileSystem;
use crate::mount_options::MountOptions;
use crate::phase::{Phase, PhaseResult};

/// The argument that makes a process the inside of a stage.
pub(crate) const INSIDE: &str = "__seeklab-stage-inside";

/// Settings for the process inside.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Setting {
    pub(crate) device: PathBuf,
    pub(crate) place: PathBuf,
    pub(crate) file_system: FileSystem,
    pub(crate) mount_options: MountOptions,
    pub(crate) account: Option<Account>,
    pub(crate) drop_caches: bool,
    pub(crate) nbd: Option<OsString>,
    pub(crate) grace: Duration,
    /// File through which commands enter a memory cgroup.
    pub(crate) memory_group: Option<PathBuf>,
    pub(crate) cpus: Option<CpuList>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Request {
    Open(Setting),
    MakeFileSystem,
    GiveToUser,
    Run(Phase),
    /// As `Run`, but the command waits for `Start` or `Cancel` once the device is mounted.
    RunOnStart(Phase),
    Start,
    Cancel,
    Stop,
    End,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Reply {
    Done,
    Mounted,
    PhaseResult(PhaseResult),
    Stopped,
    Failed(Trouble),
}

pub(crate) fn send(mut stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Lines out of a stream.
#[derive(Debug)]
pub(crate) struct Lines {
    stream: UnixStream,
    buffer: Vec<u8>,
}

impl Lines {
    pub(crate) const fn new(stream: UnixStream) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    pub(crate) const fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// The next message that has arrived whole.
    pub(crate) fn arrived<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            if line.len() > 1 {
                return Ok(Some(serde_json::from_slice(&line)?));
            }
        }
        Ok(None)
    }

    /// Waits for more; false when the other side is gone.
    pub(crate) fn fill(&mut self) -> io::Result<bool> {
        let mut chunk = [0; 4096];
        let count = loop {
            match (&self.stream).read(&mut chunk) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        self.buffer.extend_from_slice(&chunk[..count]);
        Ok(count > 0)
    }

    /// Waits for the next message; none when the other side is gone.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some(message) = self.arrived()? {
                return Ok(Some(message));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }
}

/// Standard input, output and error.
const STANDARD_COUNT: usize = 3;

pub(crate) fn send_descriptors(
    stream: &UnixStream,
    descriptors: [BorrowedFd<'_>; STANDARD_COUNT],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STANDARD_COUNT))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)), "the space is made for them");
    sendmsg(stream, &[IoSlice::new(b"\n")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

pub(crate) fn receive_descriptors(stream: &UnixStream) -> io::Result<[OwnedFd; STANDARD_COUNT]> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STANDARD_COUNT))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(stream.as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let received: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    received.try_into().map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_whole_and_in_order_after_the_descriptors() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let file = tempfile::tempfile().unwrap();
        send_descriptors(&ours, [file.as_fd(); 3]).unwrap();
        let phase = Phase::new("é\n", crate::command::CommandLine::Shell("x".repeat(10_000)));
        send(&ours, &Request::Run(phase.clone())).unwrap();
        send(&ours, &Request::Stop).unwrap();
        drop(ours);

        assert_eq!(receive_descriptors(&theirs).unwrap().len(), 3);
        let mut lines = Lines::new(theirs);
        assert!(matches!(lines.next().unwrap(), Some(Request::Run(received)) if received == phase));
        assert!(matches!(lines.next().unwrap(), Some(Request::Stop)));
        assert!(lines.next::<Request>().unwrap().is_none());
    }
}
