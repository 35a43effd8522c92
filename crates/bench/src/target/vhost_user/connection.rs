//! A connection to a vhost-user server of a disk: negotiation of features, shared memory and queue.
//!
//! # Scope and limits
//! One queue. The negotiation runs on a thread of its own, because a server that stands still answers nothing and takes no
//! connection. A thread that waits for such a server ends with the process, if nothing else ends it.
//!
//! # References
//! The vhost-user protocol, <https://qemu.readthedocs.io/en/latest/interop/vhost-user.html>; Virtual I/O Device (VIRTIO) 1.2, section 5.2.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration as StdDuration;

use memmap2::MmapMut;
use seeklab_core::{Duration, Instant};
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserHeaderFlag};
use vhost::vhost_user::{Frontend, VhostUserFrontend, VhostUserProtocolFeatures};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vmm_sys_util::eventfd::{EFD_CLOEXEC, EFD_NONBLOCK, EventFd};

use super::ring::{BASE, Layout, Ring};

/// Time after which a server that does not answer is given up.
const PATIENCE: Duration = Duration::from_s(10);

/// Features of virtio devices, by bit.
mod feature {
    pub(super) const SIZE_MAX: u64 = 1 << 1;
    pub(super) const READ_ONLY: u64 = 1 << 5;
    pub(super) const BLOCK_SIZE: u64 = 1 << 6;
    pub(super) const FLUSH: u64 = 1 << 9;
    pub(super) const DISCARD: u64 = 1 << 13;
    pub(super) const WRITE_ZEROES: u64 = 1 << 14;
    pub(super) const PROTOCOL: u64 = 1 << 30;
    pub(super) const VERSION_1: u64 = 1 << 32;
    pub(super) const WANTED: u64 =
        SIZE_MAX | READ_ONLY | BLOCK_SIZE | FLUSH | DISCARD | WRITE_ZEROES | PROTOCOL | VERSION_1;
}

/// Bytes of the configuration of a disk, up to the limits of writes of zeroes.
const CONFIG_BYTES: usize = 60;

/// Properties of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Disk {
    /// Its size in sectors of 512 bytes.
    pub(super) sectors: u64,
    /// Bytes of a block.
    pub(super) block_bytes: u32,
    /// It refuses writes.
    pub(super) is_read_only: bool,
    /// It has flushes.
    pub(super) flushes: bool,
    /// Longest discard in sectors; `None` without discards.
    pub(super) discard_sectors_max: Option<u32>,
    /// Longest write of zeroes in sectors; `None` without them.
    pub(super) zeroes_sectors_max: Option<u32>,
    /// Longest read or write.
    pub(super) request_bytes_max: u64,
}

impl Disk {
    /// The disk of these features and this configuration.
    fn of(features: u64, config: &[u8; CONFIG_BYTES]) -> Result<Self, String> {
        let word =
            |at: usize| u32::from_le_bytes([config[at], config[at + 1], config[at + 2], config[at + 3]]);
        let has = |feature: u64| features & feature != 0;
        let block_bytes = if has(feature::BLOCK_SIZE) { word(20) } else { 512 };
        if !block_bytes.is_power_of_two() || block_bytes < 512 {
            return Err(format!(
                "it states blocks of {block_bytes} bytes, which is no power of two of at least 512"
            ));
        }
        Ok(Self {
            sectors: u64::from(word(0)) | u64::from(word(4)) << 32,
            block_bytes,
            is_read_only: has(feature::READ_ONLY),
            flushes: has(feature::FLUSH),
            discard_sectors_max: has(feature::DISCARD).then(|| word(36)),
            zeroes_sectors_max: has(feature::WRITE_ZEROES).then(|| word(48)),
            // qemu offers the feature, and states zero.
            request_bytes_max: if has(feature::SIZE_MAX) && word(8) > 0 { word(8).into() } else { u64::MAX },
        })
    }
}

/// A connection that can be used.
pub(super) struct Connection {
    /// Readable if the server has ended the connection.
    pub(super) stream: UnixStream,
    /// Tells the server of requests.
    pub(super) kick: EventFd,
    /// Tells of requests that have ended.
    pub(super) call: EventFd,
    /// The queue.
    pub(super) ring: Ring,
    /// The disk.
    pub(super) disk: Disk,
    _frontend: Frontend,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Connection").field("disk", &self.disk).finish_non_exhaustive()
    }
}

/// A connection and the memory of its buffers.
pub(super) type Connected = (Connection, MmapMut);

/// An attempt to connect.
#[derive(Debug)]
pub(super) struct Attempt {
    result: Receiver<Result<Connected, String>>,
    /// Of the other thread, to end its wait.
    stream: Arc<Mutex<Option<UnixStream>>>,
    deadline: Instant,
}

impl Attempt {
    /// Begins to connect.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(super) fn begin(path: &Path, layout: Layout, now: Instant) -> Result<Self, String> {
        let stream = Arc::new(Mutex::new(None));
        let (sender, result) = mpsc::sync_channel(1);
        let (path, of_thread) = (PathBuf::from(path), Arc::clone(&stream));
        let connect = move || {
            // Nobody listens any more if the attempt was given up.
            let _ = sender.send(connect(&path, layout, &of_thread));
        };
        let spawned = thread::Builder::new().name("vhost-user".to_owned()).spawn(connect);
        spawned.map_err(|error| format!("a thread cannot be started: {error}"))?;
        Ok(Self { result, stream, deadline: now + PATIENCE })
    }

    /// Waits at most so long for the end of the attempt.
    ///
    /// # Errors
    /// The reason of its failure.
    pub(super) fn wait(&self, limit: StdDuration, now: Instant) -> Result<Option<Connected>, String> {
        match self.result.recv_timeout(limit) {
            Ok(result) => result.map(Some),
            Err(RecvTimeoutError::Disconnected) => Err("its thread has ended".to_owned()),
            Err(RecvTimeoutError::Timeout) if now >= self.deadline => {
                Err(format!("the server has not answered for {} s", PATIENCE.as_ns() / 1_000_000_000))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Ok(Some(stream)) = self.stream.lock().as_deref() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn connect(path: &Path, layout: Layout, kept: &Mutex<Option<UnixStream>>) -> Result<Connected, String> {
    let stream = UnixStream::connect(path).map_err(|error| format!("cannot connect: {error}"))?;
    let clone = || stream.try_clone().map_err(|error| error.to_string());
    *kept.lock().map_err(|_| "the attempt was given up".to_owned())? = Some(clone()?);
    let connected = negotiate(Frontend::from_stream(clone()?, 1), stream, layout);
    // The connection lives on: its end is not the attempt's any more.
    *kept.lock().map_err(|_| "the attempt was given up".to_owned())? = None;
    connected
}

fn negotiate(mut frontend: Frontend, stream: UnixStream, layout: Layout) -> Result<Connected, String> {
    let failed = |error: vhost::Error| format!("the negotiation failed: {error}");
    frontend.set_owner().map_err(failed)?;
    let offered = frontend.get_features().map_err(failed)?;
    for (feature, name) in [(feature::PROTOCOL, "protocol features"), (feature::VERSION_1, "virtio 1.0")] {
        if offered & feature == 0 {
            return Err(format!("the server has no {name}"));
        }
    }
    let features = offered & feature::WANTED;
    let protocol = frontend.get_protocol_features().map_err(failed)?;
    if !protocol.contains(VhostUserProtocolFeatures::CONFIG) {
        return Err("the server gives no configuration, and a disk has one".to_owned());
    }
    let wanted = VhostUserProtocolFeatures::CONFIG | VhostUserProtocolFeatures::REPLY_ACK;
    frontend.set_protocol_features(protocol & wanted).map_err(failed)?;
    if protocol.contains(VhostUserProtocolFeatures::REPLY_ACK) {
        frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
    }
    frontend.set_features(features).map_err(failed)?;
    let (_, config) = frontend
        .get_config(0, CONFIG_BYTES as u32, VhostUserConfigFlags::empty(), &[0; CONFIG_BYTES])
        .map_err(failed)?;
    let config = config.try_into().map_err(|_| "the configuration has another length".to_owned())?;
    let disk = Disk::of(features, &config)?;
    let system = |error: std::io::Error| format!("shared memory: {error}");
    let (ring, buffers) = Ring::new(layout).map_err(system)?;
    let event = || EventFd::new(EFD_CLOEXEC | EFD_NONBLOCK).map_err(system);
    let (kick, call) = (event()?, event()?);
    let region = VhostUserMemoryRegionInfo {
        guest_phys_addr: BASE,
        memory_size: layout.total_bytes as u64,
        userspace_addr: BASE,
        mmap_offset: 0,
        mmap_handle: ring.file().as_raw_fd(),
    };
    frontend.set_mem_table(&[region]).map_err(failed)?;
    let [descriptors, available, used] = layout.addresses();
    let addresses = VringConfigData {
        queue_max_size: layout.queue_size,
        queue_size: layout.queue_size,
        flags: 0,
        desc_table_addr: descriptors,
        used_ring_addr: used,
        avail_ring_addr: available,
        log_addr: None,
    };
    frontend.set_vring_num(0, layout.queue_size).map_err(failed)?;
    frontend.set_vring_base(0, 0).map_err(failed)?;
    frontend.set_vring_addr(0, &addresses).map_err(failed)?;
    frontend.set_vring_call(0, &call).map_err(failed)?;
    frontend.set_vring_kick(0, &kick).map_err(failed)?;
    frontend.set_vring_enable(0, true).map_err(failed)?;
    Ok((Connection { stream, kick, call, ring, disk, _frontend: frontend }, buffers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_come_from_features_and_configuration() {
        let mut config = [0; CONFIG_BYTES];
        config[..8].copy_from_slice(&(1_u64 << 33).to_le_bytes());
        for (at, value) in [(8, 65_536), (20, 4096), (36, 8192), (48, 1024_u32)] {
            config[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        let plain = Disk::of(0, &config).unwrap();
        assert_eq!((plain.sectors, plain.block_bytes, plain.request_bytes_max), (1 << 33, 512, u64::MAX));
        assert_eq!((plain.is_read_only, plain.flushes), (false, false));
        assert_eq!((plain.discard_sectors_max, plain.zeroes_sectors_max), (None, None));
        let all = Disk::of(u64::MAX, &config).unwrap();
        assert_eq!(
            (all.block_bytes, all.request_bytes_max, all.is_read_only, all.flushes),
            (4096, 65_536, true, true)
        );
        assert_eq!((all.discard_sectors_max, all.zeroes_sectors_max), (Some(8192), Some(1024)));
        config[8..12].fill(0);
        assert_eq!(Disk::of(u64::MAX, &config).unwrap().request_bytes_max, u64::MAX);
        config[20..24].copy_from_slice(&520_u32.to_le_bytes());
        assert!(Disk::of(u64::MAX, &config).unwrap_err().contains("blocks of 520 bytes"));
    }
}
