//! The doors by which clients come in: NBD, a file, a block device.

use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use seeklab_core::Capabilities;
use seeklab_emulator::clock::Clock;
use seeklab_emulator::frontend::fuse::{self, DetachedFile, FILE_NAME, Place};
use seeklab_emulator::frontend::loop_device::{LoopDevice, QueueWishes, Settings};
use seeklab_emulator::frontend::nbd::{Export, Server, ServerOptions, Uri};
use seeklab_emulator::frontend::{Frontend, Frontends, Stop};

use super::Wishes;
use crate::failure::Failure;

/// What clients reach the device by.
#[derive(Debug, Default)]
pub(super) struct Doors {
    pub(super) uri: Option<Uri>,
    pub(super) file: Option<PathBuf>,
    /// What a block device is made of.
    pub(super) detached: Option<DetachedFile>,
}

/// Doors and who stands in them.
pub(super) struct Opened {
    pub(super) frontends: Frontends,
    pub(super) doors: Doors,
}

/// Opens what is wished for.
pub(super) fn open(wishes: &Wishes, export: Export, clock: Clock) -> Result<Opened, Failure> {
    let mut frontends: Vec<Box<dyn Frontend>> = Vec::new();
    let mut doors = Doors::default();
    let now = || Box::new(move || clock.now());
    if let Some(address) = &wishes.nbd {
        let server = Server::bind(address, export.clone(), ServerOptions::default(), now())
            .map_err(|error| Failure::from(error).context(format!("--nbd {address}")))?;
        doors.uri = Some(server.uri());
        frontends.push(Box::new(server));
    }
    if let Some(directory) = &wishes.fuse {
        let server = fuse::Server::mount(export.clone(), now(), &Place::At(directory.clone()))
            .map_err(|error| Failure::from(error).context("--fuse"))?;
        doors.file = Some(directory.join(FILE_NAME));
        frontends.push(Box::new(server));
    }
    if wishes.block.is_some() {
        let server = fuse::Server::mount(export, now(), &Place::Detached)
            .map_err(|error| Failure::from(error).context("--block"))?;
        doors.detached = server.detached_file();
        frontends.push(Box::new(server));
    }
    Ok(Opened { frontends: Frontends::new(frontends)?, doors })
}

/// How the block device is to be: as wished for, else as the device is.
pub(super) fn settings(
    capabilities: &Capabilities,
    read_only: bool,
    wishes: QueueWishes,
) -> Result<Settings, Failure> {
    let own = QueueWishes::of_device(wishes.rotational.unwrap_or(capabilities.rotational));
    let queue = QueueWishes {
        rotational: wishes.rotational.or(own.rotational),
        scheduler: wishes.scheduler.or(own.scheduler),
        read_ahead_kib: wishes.read_ahead_kib.or(own.read_ahead_kib),
        request_count: wishes.request_count.or(own.request_count),
    };
    let block_size = capabilities.block_size;
    match u32::try_from(block_size.as_bytes()) {
        Ok(block_size_bytes) if (512..=4096).contains(&block_size_bytes) => {
            Ok(Settings { block_size_bytes, read_only, queue })
        }
        _ => Err(Failure::new(format!("--block: blocks of {block_size} are beyond Linux's loop driver"))
            .hint("it has 512B to 4KiB; --nbd and --fuse serve this device")),
    }
}

/// Makes the block device, now that its mount is served.
pub(super) fn attach(
    file: Option<DetachedFile>,
    settings: Option<Settings>,
) -> Result<Option<LoopDevice>, Failure> {
    let (Some(file), Some(settings)) = (file, settings) else { return Ok(None) };
    let device = LoopDevice::attach(&file, &settings);
    device.map(Some).map_err(|error| Failure::from(error).context("--block"))
}

/// Gives the block device up while it is still served; its path if somebody else still uses it.
pub(super) fn close(device: LoopDevice) -> Option<PathBuf> {
    let path = device.path().to_owned();
    (!device.detach()).then_some(path)
}

pub(super) fn wait_for(stop: &Stop) -> Result<(), Failure> {
    while !stop.is_asked() {
        retry_on_intr(|| poll(&mut [PollFd::from_borrowed_fd(stop.descriptor(), PollFlags::IN)], None))
            .map_err(std::io::Error::from)?;
    }
    Ok(())
}
