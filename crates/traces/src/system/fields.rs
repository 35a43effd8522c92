//! Meaning of the fields of tracepoints. Records and text have the same fields.

use seeklab_core::ProcessName;

use super::event::{EventKind, FileExtent, FileRange, RunState, WritebackReason};
use crate::event::pairing::SECTOR_BYTES;

/// Flag of clone(2) that makes a thread of the same process.
const CLONE_THREAD: u64 = 0x0001_0000;
/// States of `prev_state`.
const STATES: [(u64, RunState); 6] = [
    (0x10 | 0x20, RunState::Ended),
    (0x40 | 0x80, RunState::Idle),
    (0x04 | 0x08, RunState::Stopped),
    (0x02, RunState::Uninterruptible),
    (0x01, RunState::Interruptible),
    (0, RunState::Runnable),
];
/// States that threads report; flags above them say how a thread was preempted.
const STATES_MASK: u64 = 0xff;
/// Size of the pages that file offsets are counted in.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// State of an extent: blocks are there, and their place is known.
pub(crate) const EXTENT_PLACED: u64 = 0b11;
/// Flag of an operation of the kernel (`ki_flags`) that writes: `IOCB_WRITE`.
pub(crate) const OPERATION_WRITES: u64 = 1 << 18;
/// Flag of a transfer past the page cache that the kernel waits for: `IOMAP_DIO_FORCE_WAIT`.
pub(crate) const DIRECT_AWAITED: u64 = 1;
/// Functions that do the work of the loop driver.
const LOOP_WORK: [&str; 2] = ["loop_rootcg_workfn", "loop_workfn"];

/// Returns true if the function does the work of the loop driver.
pub(crate) fn is_loop_work(function: &str) -> bool {
    LOOP_WORK.contains(&function)
}

/// State in which a thread leaves its processor, from the bits of `prev_state`.
pub(crate) fn run_state(state: u64) -> RunState {
    let state = state & STATES_MASK;
    let found = STATES.iter().find(|(bits, _)| state & bits != 0 || (*bits == 0 && state == 0));
    found.map_or(RunState::Runnable, |(_, found)| *found)
}

/// A new thread, from the flags of clone(2).
pub(crate) fn fork(child: u32, clone_flags: u64) -> EventKind {
    EventKind::Fork { child, is_thread: clone_flags & CLONE_THREAD != 0 }
}

/// The name that a thread has when it executes the program at `path`.
pub(crate) fn program_name(path: &[u8]) -> ProcessName {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let mut bytes = [0; 16];
    let length = name.len().min(15);
    bytes[..length].copy_from_slice(&name[..length]);
    ProcessName(bytes)
}

/// A transfer past the page cache, as the kernel begins it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DirectTransfer {
    pub(crate) range: FileRange,
    /// Size of the file.
    pub(crate) file_bytes: u64,
    pub(crate) writes: bool,
    /// True if the call returns before the transfer ends, unless the kernel waits for it.
    pub(crate) is_async: bool,
    /// True if the kernel waits for it anyway: it prolongs the file, or does not keep to blocks.
    pub(crate) is_awaited: bool,
}

/// A transfer past the page cache.
pub(crate) fn direct(transfer: DirectTransfer) -> Option<EventKind> {
    let DirectTransfer { range, file_bytes, writes, is_async, is_awaited } = transfer;
    let is_async = is_async && !is_awaited;
    (range.length_bytes > 0).then_some(EventKind::Direct { range, file_bytes, writes, is_async })
}

/// The part that a read transfers of a file of that size: up to the end of its last block.
pub(crate) fn readable(range: FileRange, file_bytes: u64) -> Option<FileRange> {
    let end = file_bytes.checked_next_multiple_of(PAGE_BYTES).unwrap_or(u64::MAX);
    let length_bytes = range.length_bytes.min(end.saturating_sub(range.offset_bytes));
    (length_bytes > 0).then_some(FileRange { length_bytes, ..range })
}

/// A file that leaves the memory. With a name (`nlink`), it only does that.
pub(crate) fn file_delete(device: u32, inode: u64, nlink: u64) -> Option<EventKind> {
    (nlink == 0).then_some(EventKind::FileDelete { device, inode })
}

/// Blocks that one change adds to a transaction at most, in the kernel a quarter of the largest journal.
const CHANGED_BLOCKS_MAX: u32 = 1 << 24;

/// A submitted read or write. `None` for other operations, which the letters of the kernel's `rwbs` name.
pub(crate) fn submission(device: u32, letters: &[u8], sector: u64, sectors: u64) -> Option<EventKind> {
    let bytes = sectors.saturating_mul(SECTOR_BYTES);
    // A flush before or after a write has a letter of its own before or behind the `W`.
    let is_flush = letters.first() == Some(&b'F');
    let letter = letters.get(usize::from(is_flush))?;
    let writes = match letter {
        b'R' => false,
        b'W' if bytes > 0 => true,
        _ => return None,
    };
    Some(EventKind::Submit { device, sector, bytes, writes })
}

/// A change of metadata within a transaction, which says nothing if the transaction had all its blocks.
pub(crate) fn change(device: u32, blocks: u64) -> Option<EventKind> {
    let blocks = u32::try_from(blocks).ok().filter(|blocks| (1..=CHANGED_BLOCKS_MAX).contains(blocks))?;
    Some(EventKind::Change { device, blocks })
}

/// An access to a block of metadata. The kernel's field `sector` is the number of the block, in blocks of the size.
pub(crate) fn buffer(device: u32, block: u64, bytes: u32, is_dirtied: bool) -> EventKind {
    let sector = block.saturating_mul(u64::from(bytes) / SECTOR_BYTES);
    EventKind::Buffer { device, sector, bytes, is_dirtied }
}

/// Reason of writeback, by the kernel's number and name.
const REASONS: [(u64, &[u8], WritebackReason); 4] = [
    (0, b"background", WritebackReason::Background),
    (1, b"vmscan", WritebackReason::Memory),
    (2, b"sync", WritebackReason::Sync),
    (3, b"periodic", WritebackReason::Periodic),
];

/// The reason with a number of the kernel.
pub(crate) fn writeback_reason(number: u64) -> WritebackReason {
    let found = REASONS.iter().find(|(known, ..)| *known == number);
    found.map_or(WritebackReason::Other, |(.., reason)| *reason)
}

/// The reason with a name of the kernel.
pub(crate) fn writeback_reason_named(name: &[u8]) -> WritebackReason {
    let found = REASONS.iter().find(|(_, known, _)| *known == name);
    found.map_or(WritebackReason::Other, |(.., reason)| *reason)
}

/// Number of the device `7:2`, as whose name the kernel has what is dirty of it.
pub(crate) fn named_device(name: &[u8]) -> Option<u32> {
    let (major, minor) = std::str::from_utf8(name).ok()?.split_once(':')?;
    let (major, minor) = (major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}

/// The place of a part of a file, of as many blocks as the result of the look-up. A negative result is an error, and 0 is a
/// hole.
pub(crate) fn mapped_extent(extent: FileExtent, result: i64) -> Option<EventKind> {
    let blocks = u32::try_from(result).ok().filter(|blocks| *blocks > 0)?;
    Some(EventKind::Extent(FileExtent { blocks, ..extent }))
}

/// The place of a part of a file that the kernel remembered, if it has blocks there.
pub(crate) fn found_extent(extent: FileExtent, is_found: bool, status: u64) -> Option<EventKind> {
    (is_found && status & EXTENT_PLACED != 0).then_some(EventKind::Extent(extent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_those_of_the_kernel() {
        assert_eq!(run_state(0), RunState::Runnable);
        assert_eq!(run_state(0x100), RunState::Runnable, "preempted");
        assert_eq!(run_state(1), RunState::Interruptible);
        assert_eq!(run_state(2), RunState::Uninterruptible);
        assert_eq!(run_state(0x80), RunState::Idle);
        assert_eq!(run_state(0x20), RunState::Ended);
        assert_eq!(run_state(4), RunState::Stopped);
    }

    #[test]
    fn direct_read_ends_with_the_last_block_of_the_file() {
        let part = |offset_bytes, length_bytes| {
            let range = FileRange { device: 1, inode: 2, offset_bytes, length_bytes };
            readable(range, 5000).map(|range| (range.offset_bytes, range.length_bytes))
        };
        assert_eq!(part(4096, 65_536), Some((4096, 4096)));
        assert_eq!(part(4096, 512), Some((4096, 512)));
        assert_eq!(part(8192, 512), None);
    }
}
