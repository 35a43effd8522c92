//! The measuring client of a file that this very process serves.
//!
//! ```text
//! who measures ─ request ─▶ thread with descriptors of its own ─ pread, pwrite, fdatasync ─▶ kernel ─▶ FUSE
//! ```
//! # Scope and limits
//! The thread has a descriptor table of its own, without `/dev/fuse`: if the process is killed while a
//! request is under way, `/dev/fuse` goes with the other threads' table and the request fails, so that
//! nothing hangs (see [`fuse`](crate::frontend::fuse)). The next request of a stream begins when the thread
//! has woken, so a pause is longer by the time of waking. Stamps are taken around the call alone.

use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rustix::fs::{Mode, OFlags, openat};
use seeklab_core::{HostRequest, Operation};

use super::site::Host;
use crate::client::{ClientError, file};
use crate::clock::{Clock, wake_this_thread_exactly};
use crate::frontend::fuse::DetachedFile;
use crate::frontend::loop_device::{LoopDevice, own_descriptor_only};

/// A file, or the block device over it, used by a thread.
pub(super) struct FileHost {
    requests: Option<Sender<(Operation, usize)>>,
    replies: Receiver<io::Result<HostRequest>>,
    thread: Option<JoinHandle<()>>,
    device: Option<LoopDevice>,
}

impl FileHost {
    /// Opens `file`, or `device` over it.
    pub(super) fn start(
        file: DetachedFile,
        device: Option<LoopDevice>,
        clock: Clock,
    ) -> Result<Self, ClientError> {
        let (requests, asked) = channel();
        let (answer, replies) = channel();
        let path = device.as_ref().map(|device| device.path().to_owned());
        let (number, name) = (file.directory.as_raw_fd(), file.name.clone());
        let (ready, opened) = channel();
        let thread = std::thread::spawn(move || match open(number, &name, path, clock) {
            Ok(client) => {
                let _ = ready.send(Ok(()));
                work(client, &asked, &answer);
            }
            Err(error) => {
                let _ = ready.send(Err(error));
            }
        });
        let mut host = Self { requests: Some(requests), replies, thread: Some(thread), device };
        let result = opened.recv().unwrap_or_else(|_| Err(io::Error::other("the client's thread ended")));
        // Until here the number must be open.
        drop(file);
        result.map_err(|source| host.failed("open", source))?;
        Ok(host)
    }

    fn failed(&mut self, action: &'static str, source: io::Error) -> ClientError {
        let server = match &self.device {
            Some(device) => device.path().display().to_string(),
            None => "the file over FUSE".to_owned(),
        };
        ClientError::Io { action, server, source }
    }
}

impl Host for FileHost {
    fn request(&mut self, op: Operation, memory: &mut [u8]) -> Result<HostRequest, ClientError> {
        let asked = self.requests.as_ref().is_some_and(|requests| requests.send((op, memory.len())).is_ok());
        let reply = if asked { self.replies.recv().ok() } else { None };
        let reply = reply.unwrap_or_else(|| Err(io::Error::other("the client's thread ended")));
        reply.map_err(|source| self.failed("use", source))
    }
}

impl Drop for FileHost {
    /// Closes the file, then the device, while it is still being served.
    fn drop(&mut self) {
        drop(self.requests.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let Some(device) = self.device.take() {
            device.detach();
        }
    }
}

/// In the thread: opens what it is to use, by descriptors of its own.
fn open(directory: i32, name: &str, path: Option<PathBuf>, clock: Clock) -> io::Result<file::Client> {
    let directory = own_descriptor_only(directory)?;
    let _ = wake_this_thread_exactly();
    match path {
        Some(path) => file::Client::open(&path, clock),
        None => {
            let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::DIRECT;
            let descriptor = openat(&directory, name, flags, Mode::empty())?;
            Ok(file::Client::of(descriptor, Path::new(name), clock))
        }
    }
}

fn work(
    mut client: file::Client,
    asked: &Receiver<(Operation, usize)>,
    answer: &Sender<io::Result<HostRequest>>,
) {
    let mut memory = Vec::new();
    while let Ok((op, bytes)) = asked.recv() {
        memory.resize(bytes, 0x5A);
        let reply = match op {
            Operation::Read => client.read(0, &mut memory),
            Operation::Write => client.write(0, &memory),
            Operation::Flush => client.flush(),
            Operation::Discard | Operation::WriteZeroes => Err(io::ErrorKind::Unsupported.into()),
        };
        if answer.send(reply).is_err() {
            break;
        }
    }
}
