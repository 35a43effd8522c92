//! A split virtqueue in memory that a server shares, with the requests of a disk in it.
//!
//! ```text
//! memfd: | descriptors | available | used | head and status of each slot | buffers … |
//! slot s: descriptor 3s (head) ─▶ 3s+1 (data, if there are some) ─▶ 3s+2 (status)
//! ```
//! # Scope and limits
//! One queue without indirect descriptors and event indices. Each slot has its three descriptors for good. The memory is
//! never given to another server: a new connection has a new ring, as a server that hangs may still write to the old one. All
//! `unsafe` code of the target is here.
//!
//! # References
//! Virtual I/O Device (VIRTIO) 1.2, sections 2.7 and 5.2.6.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU16, Ordering, fence};

use memmap2::{MmapMut, MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, memfd_create};
use vmm_sys_util::eventfd::EventFd;

/// Address at which the memory begins for the server.
pub(super) const BASE: u64 = 1 << 32;
/// Slots of the longest queue that servers take, of 1,024 descriptors.
pub(super) const SLOTS_MAX: u32 = 341;

const PAGE_BYTES: usize = 4096;
const DESCRIPTOR_BYTES: usize = 16;
const HEAD_BYTES: usize = 64;
/// Offsets in the head of a slot.
const RANGE_AT: usize = 16;
const STATUS_AT: usize = 32;
/// Flags of descriptors.
const NEXT: u16 = 1;
const WRITE: u16 = 2;
/// The server needs no notification.
const NO_NOTIFY: u16 = 1;
/// Status of a request that the server has not ended.
const UNANSWERED: u8 = 0xff;

/// The descriptor of an event, to wait for.
#[expect(unsafe_code, reason = "vmm-sys-util lends its descriptor as a number alone")]
pub(super) fn descriptor_of(event: &EventFd) -> BorrowedFd<'_> {
    // SAFETY: the descriptor is open as long as the event is borrowed.
    unsafe { BorrowedFd::borrow_raw(event.as_raw_fd()) }
}

/// Data of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data {
    None,
    /// The server writes so many bytes at that offset of the buffers.
    FromServer(usize, u32),
    /// The server reads so many bytes at that offset of the buffers.
    ToServer(usize, u32),
    /// A range of sectors: the first one, their number, and flags.
    Range(u64, u32, u32),
}

/// Places of the parts of the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Descriptors.
    pub(super) queue_size: u16,
    slots: usize,
    available: usize,
    used: usize,
    heads: usize,
    /// Begin of the buffers.
    pub(super) buffers: usize,
    /// All bytes.
    pub(super) total_bytes: usize,
}

impl Layout {
    /// The layout for so many slots and bytes of buffers.
    pub(super) fn new(slots: u32, buffer_bytes: usize) -> Self {
        let slots = slots.clamp(1, SLOTS_MAX) as usize;
        let queue_size = (3 * slots).next_power_of_two();
        let available = queue_size * DESCRIPTOR_BYTES;
        let used = (available + 6 + 2 * queue_size).next_multiple_of(64);
        let heads = (used + 6 + 8 * queue_size).next_multiple_of(64);
        let buffers = (heads + slots * HEAD_BYTES).next_multiple_of(PAGE_BYTES);
        let total_bytes = (buffers + buffer_bytes).next_multiple_of(PAGE_BYTES);
        Self { queue_size: queue_size as u16, slots, available, used, heads, buffers, total_bytes }
    }

    /// Addresses of descriptors, available ring and used ring.
    pub(super) fn addresses(&self) -> [u64; 3] {
        [0, self.available, self.used].map(|offset| BASE + offset as u64)
    }
}

/// The ring of a connection.
#[derive(Debug)]
pub(super) struct Ring {
    layout: Layout,
    memory: MmapRaw,
    /// Shared with the server.
    file: File,
    available: u16,
    taken: u16,
    is_under_way: Vec<bool>,
    count: usize,
}

impl Ring {
    /// A ring, and the memory of its buffers.
    ///
    /// # Errors
    /// If the system has no memory for it.
    #[expect(unsafe_code, reason = "shared memory is mapped")]
    pub(super) fn new(layout: Layout) -> io::Result<(Self, MmapMut)> {
        let file = File::from(memfd_create("seeklab-vhost-user", MemfdFlags::CLOEXEC)?);
        file.set_len(layout.total_bytes as u64)?;
        let memory = MmapOptions::new().len(layout.buffers).map_raw(&file)?;
        let length = layout.total_bytes - layout.buffers;
        // SAFETY: nobody shortens the file. The server writes to a buffer only while its slot is under way, and nobody looks at it
        // meanwhile; what a server writes against the rules are bytes, which have no wrong value.
        let buffers = unsafe { MmapOptions::new().offset(layout.buffers as u64).len(length).map_mut(&file)? };
        let is_under_way = vec![false; layout.slots];
        Ok((Self { layout, memory, file, available: 0, taken: 0, is_under_way, count: 0 }, buffers))
    }

    /// The shared memory.
    pub(super) const fn file(&self) -> &File {
        &self.file
    }

    /// Requests under way.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// Copies bytes to an offset below the buffers.
    #[expect(unsafe_code, reason = "memory that another process reads")]
    fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.layout.buffers, "{offset} lies in the buffers");
        // SAFETY: the range is mapped. The server reads it only after the index of the available ring names it.
        unsafe { self.memory.as_mut_ptr().add(offset).copy_from(bytes.as_ptr(), bytes.len()) };
    }

    #[expect(unsafe_code, reason = "memory that another process writes")]
    fn read<const BYTES: usize>(&self, offset: usize) -> [u8; BYTES] {
        assert!(offset + BYTES <= self.layout.buffers, "{offset} lies in the buffers");
        // SAFETY: the range is mapped. The server has written it before it advanced the index of the used ring.
        unsafe { self.memory.as_ptr().add(offset).cast::<[u8; BYTES]>().read_unaligned() }
    }

    /// A number of 16 bits that both sides use at a time.
    #[expect(unsafe_code, reason = "memory that another process reads and writes")]
    fn shared(&self, offset: usize) -> &AtomicU16 {
        assert!(
            offset.is_multiple_of(2) && offset + 2 <= self.layout.buffers,
            "{offset} is no place of a number"
        );
        // SAFETY: the place is mapped and aligned for as long as the ring lives, and only used as an atomic number.
        unsafe { AtomicU16::from_ptr(self.memory.as_mut_ptr().add(offset).cast()) }
    }

    fn descriptor(&self, number: usize, address: u64, bytes: u32, flags: u16, next: usize) {
        let mut descriptor = [0; DESCRIPTOR_BYTES];
        descriptor[..8].copy_from_slice(&address.to_le_bytes());
        descriptor[8..12].copy_from_slice(&bytes.to_le_bytes());
        descriptor[12..14].copy_from_slice(&flags.to_le_bytes());
        descriptor[14..].copy_from_slice(&(next as u16).to_le_bytes());
        self.write(number * DESCRIPTOR_BYTES, &descriptor);
    }

    /// Puts a request of that type into a slot that is free. The server may need a notification.
    ///
    /// # Panics
    /// If the slot is under way.
    pub(super) fn push(&mut self, slot: u32, kind: u32, sector: u64, data: Data) {
        let slot = slot as usize;
        assert!(!std::mem::replace(&mut self.is_under_way[slot], true), "slot {slot} is under way");
        let head = self.layout.heads + slot * HEAD_BYTES;
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[8..16].copy_from_slice(&sector.to_le_bytes());
        bytes[STATUS_AT] = UNANSWERED;
        if let Data::Range(first, sectors, flags) = data {
            bytes[RANGE_AT..RANGE_AT + 8].copy_from_slice(&first.to_le_bytes());
            bytes[RANGE_AT + 8..RANGE_AT + 12].copy_from_slice(&sectors.to_le_bytes());
            bytes[RANGE_AT + 12..RANGE_AT + 16].copy_from_slice(&flags.to_le_bytes());
        }
        self.write(head, &bytes);
        let address = |offset: usize| BASE + offset as u64;
        let [first, second, third] = [3 * slot, 3 * slot + 1, 3 * slot + 2];
        let buffers = self.layout.buffers;
        let middle = match data {
            Data::None => None,
            Data::FromServer(at, bytes) => Some((address(buffers + at), bytes, NEXT | WRITE)),
            Data::ToServer(at, bytes) => Some((address(buffers + at), bytes, NEXT)),
            Data::Range(..) => Some((address(head + RANGE_AT), 16, NEXT)),
        };
        self.descriptor(first, address(head), 16, NEXT, if middle.is_some() { second } else { third });
        if let Some((address, bytes, flags)) = middle {
            self.descriptor(second, address, bytes, flags, third);
        }
        self.descriptor(third, address(head + STATUS_AT), 1, WRITE, 0);
        let place = usize::from(self.available % self.layout.queue_size);
        self.write(self.layout.available + 4 + 2 * place, &(first as u16).to_le_bytes());
        self.available = self.available.wrapping_add(1);
        self.shared(self.layout.available + 2).store(self.available.to_le(), Ordering::Release);
        self.count += 1;
    }

    /// Returns true if the server needs a notification of requests that were pushed.
    pub(super) fn needs_kick(&self) -> bool {
        // What was pushed is visible before the flags are looked at.
        fence(Ordering::SeqCst);
        u16::from_le(self.shared(self.layout.used).load(Ordering::Relaxed)) & NO_NOTIFY == 0
    }

    /// Takes a request that has ended, if there is one: its slot and status.
    ///
    /// # Errors
    /// If the server names a request that is not under way.
    pub(super) fn take(&mut self) -> Result<Option<(u32, u8)>, String> {
        let used = u16::from_le(self.shared(self.layout.used + 2).load(Ordering::Acquire));
        if used == self.taken {
            return Ok(None);
        }
        let place = usize::from(self.taken % self.layout.queue_size);
        let number = u32::from_le_bytes(self.read(self.layout.used + 4 + 8 * place)) as usize;
        let slot = number / 3;
        if !number.is_multiple_of(3) || !self.is_under_way.get(slot).copied().unwrap_or(false) {
            return Err(format!(
                "the server ended the request of descriptor {number}, which is not under way"
            ));
        }
        self.taken = self.taken.wrapping_add(1);
        self.is_under_way[slot] = false;
        self.count -= 1;
        let [status] = self.read(self.layout.heads + slot * HEAD_BYTES + STATUS_AT);
        Ok(Some((slot as u32, status)))
    }
}
