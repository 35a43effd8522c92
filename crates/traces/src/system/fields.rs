//! Meaning of the fields of tracepoints. Records and text have the same fields.

use seeklab_core::ProcessName;

use super::event::{EventKind, FileExtent, RunState};
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

/// A file that leaves the memory. With a name (`nlink`), it only does that.
pub(crate) fn file_delete(device: u32, inode: u64, nlink: u64) -> Option<EventKind> {
    (nlink == 0).then_some(EventKind::FileDelete { device, inode })
}

/// A submitted read. `None` for other operations, which the letters of the kernel's `rwbs` name.
pub(crate) fn device_read(device: u32, letters: &[u8], sector: u64, sectors: u64) -> Option<EventKind> {
    let bytes = sectors.saturating_mul(SECTOR_BYTES);
    (letters.first() == Some(&b'R')).then_some(EventKind::DeviceRead { device, sector, bytes })
}

/// An access to a block of metadata. The kernel's field `sector` is the number of the block, in blocks of the size.
pub(crate) fn buffer(device: u32, block: u64, bytes: u32, is_dirtied: bool) -> EventKind {
    let sector = block.saturating_mul(u64::from(bytes) / SECTOR_BYTES);
    EventKind::Buffer { device, sector, bytes, is_dirtied }
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
}
