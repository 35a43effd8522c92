//! Causes of waits, and their recognition in call stacks.
//!
//! A thread that leaves its processor in the kernel has a call stack, innermost function first. The innermost
//! function of [`MARKERS`] decides:
//!
//! ```text
//! schedule ◀ io_schedule ◀ folio_wait_bit_common ◀ filemap_get_pages ◀ filemap_splice_read ◀ …    data read
//! schedule ◀ io_schedule ◀ bit_wait_io ◀ … ◀ ext4_read_bh ◀ ext4_bread ◀ …                    metadata read
//! schedule ◀ jbd2_log_wait_commit ◀ ext4_sync_file ◀ …                                              journal
//! ```
//! # Scope and limits
//! The functions are those of Linux 4.19 to 6.18 with ext4. A stack without any of them has no known cause, and its
//! wait is counted as such.

use super::names::names;

names! {
    /// Kind of a wait.
    pub enum WaitCause {
        /// Data of a file on the traced device.
        DataRead = "data_read",
        /// Metadata of the file system on the traced device.
        MetadataRead = "metadata_read",
        /// End of a write to the traced device, for example of a page that is to change.
        Write = "write",
        /// A synchronisation requested by the process: its data, or the flush of the device.
        Flush = "flush",
        /// The journal: a commit, or room for changes.
        Journal = "journal",
        /// Too many dirty pages.
        Throttle = "throttle",
        /// A place in the request queue of the device.
        Queue = "queue",
        /// Memory that is to be freed.
        Memory = "memory",
        /// A lock, a pipe, the end or any other progress of another process or kernel thread.
        Process = "process",
        /// A time.
        Timer = "timer",
        /// Data on another device.
        OtherDevice = "other_device",
        /// Something outside the traced processes: network, terminal, other processes, signals.
        Outside = "outside",
        /// Not known.
        Unknown = "unknown",
    }
}

names! {
    /// Cause of a wait according to a call stack.
    pub enum StackCause {
        /// Data of a file.
        DataRead = "data_read",
        /// Metadata of a file system.
        MetadataRead = "metadata_read",
        /// A transfer past the page cache. Its operation is that of the request, else of the last such transfer of the thread.
        Direct = "direct",
        /// End of a write.
        Write = "write",
        /// A synchronisation.
        Flush = "flush",
        /// A journal.
        Journal = "journal",
        /// Too many dirty pages.
        Throttle = "throttle",
        /// A place in a request queue.
        Queue = "queue",
        /// Memory.
        Memory = "memory",
        /// Another thread.
        Process = "process",
        /// A time.
        Timer = "timer",
        /// No function of the stack is known.
        Unknown = "unknown",
    }
}

/// Functions of the kernel and the cause of a wait in them or in what they call.
const MARKERS: [(&str, StackCause); 75] = [
    ("__bh_read", StackCause::MetadataRead),
    ("__bh_read_batch", StackCause::MetadataRead),
    ("__blkdev_direct_IO", StackCause::Direct),
    ("__blkdev_direct_IO_simple", StackCause::Direct),
    ("__bread_gfp", StackCause::MetadataRead),
    ("__ext4_get_inode_loc", StackCause::MetadataRead),
    ("__ext4_sb_bread_gfp", StackCause::MetadataRead),
    ("__filemap_fdatawait_range", StackCause::Write),
    ("__filemap_get_folio", StackCause::Write),
    ("__folio_lock_or_retry", StackCause::DataRead),
    ("__iomap_dio_rw", StackCause::Direct),
    ("__jbd2_log_wait_for_space", StackCause::Journal),
    ("__mutex_lock", StackCause::Process),
    ("__rwbase_read_lock", StackCause::Process),
    ("__synchronize_srcu", StackCause::Process),
    ("add_transaction_credits", StackCause::Journal),
    ("anon_pipe_read", StackCause::Process),
    ("anon_pipe_write", StackCause::Process),
    ("balance_dirty_pages", StackCause::Throttle),
    ("blk_mq_get_tag", StackCause::Queue),
    ("blkdev_issue_flush", StackCause::Flush),
    ("do_get_write_access", StackCause::Journal),
    ("do_nanosleep", StackCause::Timer),
    ("do_wait", StackCause::Process),
    ("ext4_bread", StackCause::MetadataRead),
    ("ext4_read_bh", StackCause::MetadataRead),
    ("ext4_read_bh_lock", StackCause::MetadataRead),
    ("ext4_sb_bread", StackCause::MetadataRead),
    ("ext4_sync_file", StackCause::Flush),
    ("ext4_sync_fs", StackCause::Flush),
    ("ext4_wait_block_bitmap", StackCause::MetadataRead),
    ("ext4_wait_inode_bitmap", StackCause::MetadataRead),
    ("file_write_and_wait_range", StackCause::Flush),
    ("filemap_fault", StackCause::DataRead),
    ("filemap_get_pages", StackCause::DataRead),
    ("filemap_read", StackCause::DataRead),
    ("filemap_read_folio", StackCause::DataRead),
    ("filemap_update_page", StackCause::DataRead),
    ("flush_work", StackCause::Process),
    ("folio_wait_stable", StackCause::Write),
    ("folio_wait_writeback", StackCause::Write),
    ("futex_do_wait", StackCause::Process),
    ("futex_wait", StackCause::Process),
    ("futex_wait_queue", StackCause::Process),
    ("hrtimer_nanosleep", StackCause::Timer),
    ("io_cqring_wait", StackCause::Direct),
    ("iomap_dio_complete", StackCause::Direct),
    ("jbd2_journal_lock_updates", StackCause::Journal),
    ("jbd2_log_wait_commit", StackCause::Journal),
    ("kernel_wait4", StackCause::Process),
    ("pipe_read", StackCause::Process),
    ("pipe_wait_readable", StackCause::Process),
    ("pipe_wait_writable", StackCause::Process),
    ("pipe_write", StackCause::Process),
    ("rcu_barrier", StackCause::Process),
    ("read_cache_folio", StackCause::DataRead),
    ("read_events", StackCause::Direct),
    ("reclaim_throttle", StackCause::Memory),
    ("rq_qos_wait", StackCause::Queue),
    ("rwsem_down_read_slowpath", StackCause::Process),
    ("rwsem_down_write_slowpath", StackCause::Process),
    ("start_this_handle", StackCause::Journal),
    ("synchronize_rcu", StackCause::Process),
    ("synchronize_rcu_expedited", StackCause::Process),
    ("synchronize_rcu_normal", StackCause::Process),
    ("sync_inodes_sb", StackCause::Flush),
    ("truncate_inode_pages_range", StackCause::Write),
    ("try_to_free_pages", StackCause::Memory),
    ("wait_for_vfork_done", StackCause::Process),
    ("wait_on_commit", StackCause::Journal),
    ("wait_on_page_writeback", StackCause::Write),
    ("wait_transaction_locked", StackCause::Journal),
    ("wait_transaction_switching", StackCause::Journal),
    ("wb_wait_for_completion", StackCause::Flush),
    ("wbt_wait", StackCause::Queue),
];

/// Functions that make waits for writes in them a synchronisation.
const SYNCHRONISING: [&str; 6] = [
    "ext4_sync_file",
    "ext4_sync_fs",
    "file_write_and_wait_range",
    "filemap_write_and_wait_range",
    "sync_inodes_sb",
    "vfs_fsync_range",
];

impl WaitCause {
    /// Returns true if the wait is for the traced device or for memory: it is an effect of causes, and no cause itself.
    pub const fn is_io(self) -> bool {
        !matches!(self, Self::Process | Self::Timer | Self::OtherDevice | Self::Outside | Self::Unknown)
    }
}

impl StackCause {
    /// Returns the cause of a wait from the names of the functions of its call stack, innermost first.
    pub fn of_stack<'a>(functions: impl IntoIterator<Item = &'a str>) -> Self {
        let mut found = None;
        for function in functions {
            // The compiler appends suffixes to parts of functions: `__mutex_lock.constprop.0`.
            let function = function.split(['.', '+']).next().unwrap_or(function);
            match found {
                None => found = marker(function),
                Some(Self::Write) if SYNCHRONISING.contains(&function) => return Self::Flush,
                Some(_) => {}
            }
        }
        found.unwrap_or(Self::Unknown)
    }
}

fn marker(function: &str) -> Option<StackCause> {
    MARKERS.iter().find(|(name, _)| *name == function).map(|(_, cause)| *cause)
}

/// Returns true if the function takes part in the recognition of causes.
pub(crate) fn is_known(function: &str) -> bool {
    marker(function).is_some() || SYNCHRONISING.contains(&function)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn innermost_known_function_decides() {
        let cause = |text: &str| StackCause::of_stack(text.split_whitespace());
        assert_eq!(
            cause("schedule io_schedule folio_wait_bit_common filemap_get_pages filemap_splice_read"),
            StackCause::DataRead
        );
        assert_eq!(
            cause("schedule io_schedule bit_wait_io ext4_read_bh ext4_bread"),
            StackCause::MetadataRead
        );
        assert_eq!(
            cause("schedule jbd2_log_wait_commit ext4_sync_file vfs_fsync_range"),
            StackCause::Journal
        );
        assert_eq!(cause("schedule __mutex_lock.constprop.0 ext4_sync_file"), StackCause::Process);
        assert_eq!(cause("schedule do_idle"), StackCause::Unknown);
        assert_eq!(cause(""), StackCause::Unknown);
    }

    #[test]
    fn wait_for_a_write_within_a_synchronisation_belongs_to_it() {
        let cause = |text: &str| StackCause::of_stack(text.split_whitespace());
        let write = "schedule io_schedule folio_wait_bit_common folio_wait_writeback";
        assert_eq!(cause(write), StackCause::Write);
        assert_eq!(cause(&format!("{write} truncate_inode_pages_range")), StackCause::Write);
        assert_eq!(cause(&format!("{write} file_write_and_wait_range ext4_sync_file")), StackCause::Flush);
    }

    #[test]
    fn functions_are_listed_once() {
        for (index, (name, _)) in MARKERS.iter().enumerate() {
            assert!(MARKERS[index + 1..].iter().all(|(other, _)| other != name), "{name}");
        }
    }
}
