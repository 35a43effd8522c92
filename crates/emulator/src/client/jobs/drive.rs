//! The client of a drive: an NBD connection, or a block device past the page cache.

use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{Shutdown, shutdown};
use seeklab_core::{HostRequest, Operation, Request};

use crate::client::{ClientError, Command, Patience, file, nbd};

/// Client of a drive, which is a part of an export or of a file.
#[derive(Debug)]
pub struct DriveClient {
    client: Client,
    /// First byte of the drive.
    offset_bytes: u64,
    buffer: Vec<u8>,
}

#[derive(Debug)]
enum Client {
    Nbd(Box<nbd::Client>),
    File(file::Client),
}

/// Ends the connection of a drive from another thread.
#[derive(Debug)]
pub(super) struct Handle(OwnedFd);

impl Handle {
    pub(super) fn shut_down(&self) {
        // It may have ended by itself.
        let _ = shutdown(&self.0, Shutdown::Both);
    }
}

impl DriveClient {
    /// The drive that begins at that byte of an export.
    pub fn over_nbd(client: nbd::Client, offset_bytes: u64) -> Self {
        Self { client: Client::Nbd(Box::new(client)), offset_bytes, buffer: Vec::new() }
    }

    /// The drive that begins at that byte of a file or block device.
    pub const fn over_file(client: file::Client, offset_bytes: u64) -> Self {
        Self { client: Client::File(client), offset_bytes, buffer: Vec::new() }
    }

    /// A handle that ends a wait for a reply. A file has none: its replies come, or errors do.
    pub(super) fn handle(&self) -> Option<Handle> {
        match &self.client {
            Client::Nbd(client) => client.as_fd().try_clone_to_owned().ok().map(Handle),
            Client::File(_) => None,
        }
    }

    /// Sends a request and sleeps until it is complete. Calls `sent` when it is sent, if that is known. Returns the
    /// request, with an error number if it failed.
    pub(super) fn carry_out(
        &mut self,
        request: &Request,
        block_bytes: u64,
        sent: impl FnOnce(),
    ) -> Result<HostRequest, ClientError> {
        let offset = self.offset_bytes + request.lbn * block_bytes;
        let length = u64::from(request.blocks) * block_bytes;
        self.buffer.resize(length as usize, 0);
        if request.op == Operation::Write {
            self.buffer[..8].copy_from_slice(&request.id.0.to_le_bytes());
        }
        let done = match &mut self.client {
            Client::Nbd(client) => {
                let command = match request.op {
                    Operation::Write => Command::write(0, offset, &self.buffer),
                    _ => Command::read(0, offset, length as u32),
                };
                client.submit(command)?;
                sent();
                let reply = client.collect(Patience::Unlimited)?.expect("one request is outstanding");
                HostRequest { error: reply.failure.map(|failure| failure.code), ..reply.request }
            }
            Client::File(client) => {
                let issue = client.clock().now();
                let done = match request.op {
                    Operation::Write => client.write(offset, &self.buffer),
                    _ => client.read(offset, &mut self.buffer),
                };
                done.unwrap_or_else(|error| {
                    const INPUT_OUTPUT_ERROR: i32 = 5;
                    let code = error.raw_os_error().unwrap_or(INPUT_OUTPUT_ERROR).unsigned_abs();
                    let now = client.clock().now();
                    HostRequest {
                        error: Some(code),
                        ..HostRequest::new(issue, now, request.op, offset, length)
                    }
                })
            }
        };
        Ok(HostRequest { offset_bytes: done.offset_bytes - self.offset_bytes, ..done })
    }
}
