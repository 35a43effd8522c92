//! One mount, driven by whoever drives frontends.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{DupFlags, Errno, dup3};
use seeklab_core::Instant;

use super::connection::{Connection, FILE_NAME, MESSAGE_BYTES_MAX, Oddities};
use super::mount::{Mount, Place, owner};
use crate::clock::monotonic_ns;
use crate::frontend::nbd::Export;
use crate::frontend::{Command, Departure, Frontend, Reply, Tag};

/// Statistics of a [`Server`] so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Messages of the kernel.
    pub message_count: u64,
    /// Answers that nobody waited for any more.
    pub orphan_count: u64,
    /// Most commands outstanding at a time.
    pub outstanding_max: usize,
    /// Protocol errors.
    pub oddities: Oddities,
}

/// The file of a mount without a place. The mount lasts as long as this, or the file itself, is open.
#[derive(Debug, Clone)]
pub struct DetachedFile {
    /// The root directory of the mount.
    pub directory: Arc<OwnedFd>,
    /// The file's name in it, unlike that of any other mount.
    pub name: String,
}

/// A device as a file.
#[derive(Debug)]
pub struct Server {
    connection: Connection,
    mount: Mount,
    name: String,
    input: Vec<u8>,
    clock: Clock,
    over: bool,
    statistics: Statistics,
}

struct Clock(Box<dyn Fn() -> Instant>);

impl std::fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Clock")
    }
}

/// Beginning of the name of a file without a place whose bytes are in memory. No file system has it at such a place.
pub const IN_MEMORY_PREFIX: &str = "seeklab-memory-";

/// Messages taken at a time, so that replies that fall due meanwhile do not wait for many.
const BATCH: usize = 16;

/// Bytes of messages from which on no other one is taken before replies that fell due have left.
const BATCH_BYTES: usize = 256 << 10;

impl Server {
    /// Mounts a directory with the file at `place`. It answers from when it is driven: until then, whoever
    /// looks at it waits. Arrival times are those of `clock`.
    ///
    /// # Errors
    /// A missing program or permission, with its remedy.
    pub fn mount(export: Export, clock: Box<dyn Fn() -> Instant>, place: &Place) -> io::Result<Self> {
        let mount = Mount::new(place, export.read_only)?;
        let name = match place {
            // Tools compare the names of the files behind loop devices to see what is mounted.
            Place::Detached if export.is_in_memory => format!("{IN_MEMORY_PREFIX}{:x}", monotonic_ns()),
            Place::Detached => format!("seeklab-{:x}", monotonic_ns()),
            Place::At(_) => FILE_NAME.to_owned(),
        };
        let connection = Connection::new(export, owner()).named(name.clone());
        let connection = match place {
            // It is there for a loop device.
            Place::Detached => connection.for_block_layer(),
            Place::At(_) => connection,
        };
        Ok(Self {
            connection,
            name,
            mount,
            input: vec![0; MESSAGE_BYTES_MAX],
            clock: Clock(clock),
            over: false,
            statistics: Statistics::default(),
        })
    }

    /// Returns the place of the file of a mount without a place; `None` if the mount has a place.
    pub fn detached_file(&self) -> Option<DetachedFile> {
        self.mount.directory().map(|directory| DetachedFile { directory, name: self.name.clone() })
    }

    /// Returns true if the mount has been undone, by another program or by force.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Returns the statistics so far.
    pub fn statistics(&self) -> Statistics {
        Statistics { oddities: self.connection.oddities(), ..self.statistics }
    }

    /// Nothing comes from the kernel any more. What takes the place of its descriptor is never readable, so
    /// that nobody who waits for it is woken for ever.
    fn end(&mut self) -> io::Result<()> {
        self.over = true;
        self.connection.shut_down();
        let silent = eventfd(0, EventfdFlags::CLOEXEC)?;
        dup3(&silent, self.mount.device_mut(), DupFlags::CLOEXEC)?;
        Ok(())
    }

    /// Takes one message. Returns its length, or nothing if there is none.
    fn take_message(&mut self, commands: &mut dyn FnMut(Command<'_>)) -> io::Result<Option<usize>> {
        let length = match rustix::io::read(self.mount.device(), &mut self.input[..]) {
            Ok(length) => length,
            Err(Errno::AGAIN) => return Ok(None),
            // A request that was withdrawn while it was fetched.
            Err(Errno::NOENT | Errno::INTR) => return Ok(Some(0)),
            Err(Errno::NODEV | Errno::CONNABORTED) => {
                self.end()?;
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let arrived = (self.clock.0)();
        self.statistics.message_count += 1;
        if let Some(command) = self.connection.receive(&self.input[..length], arrived) {
            commands(command);
        }
        Ok(Some(length))
    }

    fn hand_out_pieces(&mut self, commands: &mut dyn FnMut(Command<'_>)) {
        if self.connection.has_piece() {
            let now = (self.clock.0)();
            while let Some(command) = self.connection.next_piece(now) {
                commands(command);
            }
        }
    }
}

impl Frontend for Server {
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.mount.device().as_fd()
    }

    fn is_busy(&self) -> bool {
        self.connection.has_piece() || self.connection.has_output()
    }

    fn receive(&mut self, commands: &mut dyn FnMut(Command<'_>)) -> io::Result<()> {
        self.hand_out_pieces(commands);
        let mut bytes = 0;
        for _ in 0..BATCH {
            if self.over || bytes >= BATCH_BYTES || !self.connection.wants_input() {
                break;
            }
            let Some(length) = self.take_message(commands)? else { break };
            bytes += length;
        }
        self.hand_out_pieces(commands);
        let outstanding = self.connection.outstanding();
        self.statistics.outstanding_max = self.statistics.outstanding_max.max(outstanding);
        Ok(())
    }

    fn reply(&mut self, tag: Tag, reply: Reply<'_>) {
        self.connection.reply(tag.command, reply);
    }

    /// The kernel takes each answer whole, within the write.
    fn send(&mut self, left: &mut dyn FnMut(Tag, Departure)) -> io::Result<()> {
        for (tag, message) in self.connection.messages() {
            let now = (self.clock.0)();
            let written = if message.is_empty() {
                Ok(0)
            } else if self.over {
                Err(Errno::NODEV)
            } else {
                rustix::io::retry_on_intr(|| rustix::io::write(self.mount.device(), message))
            };
            let departure = match written {
                Ok(_) => Departure::Taken(now),
                // Nobody waits for it, or the mount is gone: the next read says so.
                Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => {
                    self.statistics.orphan_count += 1;
                    Departure::Dropped
                }
                Err(error) => return Err(error.into()),
            };
            if let Some(tag) = tag {
                left(tag, departure);
            }
        }
        self.connection.clear();
        Ok(())
    }

    fn shut_down(&mut self) {
        self.connection.shut_down();
    }

    fn is_drained(&self) -> bool {
        self.connection.outstanding() == 0 && !self.connection.has_output()
    }
}
