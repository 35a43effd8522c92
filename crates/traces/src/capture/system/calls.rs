//! System calls that are recorded: those that do I/O, name files, or wait.
//!
//! The kernel drops the others (`stat`, `mmap`, `brk`, …) before it records them. In a copy of many small files, they are half of
//! all events.

use std::fmt::Write;
use std::ops::RangeInclusive;

/// System calls of x86_64.
const X86_64: &[RangeInclusive<u16>] = &[
    // Frequent ones first: the kernel tries one range after the other.
    0..=3,     // read, write, open, close
    257..=258, // openat, mkdirat
    326..=328, // copy_file_range, preadv2, pwritev2
    17..=20,   // pread64 to writev
    74..=77,   // fsync, fdatasync, truncate, ftruncate
    82..=88,   // rename to symlink
    263..=266, // unlinkat to symlinkat
    217..=217, // getdents64
    221..=221, // fadvise64
    40..=47,   // sendfile, and sockets
    26..=26,   // msync
    202..=202, // futex
    208..=209, // io_getevents, io_submit
    61..=61,   // wait4
    7..=7,     // poll
    23..=23,   // select
    35..=35,   // nanosleep
    162..=162, // sync
    187..=187, // readahead
    230..=232, // clock_nanosleep, exit_group, epoll_wait
    247..=247, // waitid
    270..=316, // pselect6 to renameat2, with splice, fallocate, preadv and syncfs
    333..=333, // io_pgetevents
    426..=437, // io_uring_enter to openat2
];

/// System calls of the generic table, which aarch64 and riscv64 have.
const GENERIC: &[RangeInclusive<u16>] = &[
    56..=73,   // openat to ppoll, with close, read, write and sendfile
    285..=287, // copy_file_range, preadv2, pwritev2
    33..=38,   // mknodat to renameat
    76..=76,   // splice
    81..=84,   // sync to sync_file_range
    45..=47,   // truncate, ftruncate, fallocate
    98..=98,   // futex
    2..=4,     // io_submit to io_getevents
    292..=292, // io_pgetevents
    260..=260, // wait4
    22..=22,   // epoll_pwait
    95..=95,   // waitid
    101..=101, // nanosleep
    115..=115, // clock_nanosleep
    198..=213, // sockets, readahead
    223..=223, // fadvise64
    227..=227, // msync
    267..=267, // syncfs
    276..=276, // renameat2
    426..=437, // io_uring_enter to openat2
];

/// The filter of `sys_enter` and `sys_exit` on a machine.
pub(super) fn filter(machine: &str) -> String {
    let ranges = if machine == "x86_64" { X86_64 } else { GENERIC };
    let mut text = String::new();
    for range in ranges {
        let or = if text.is_empty() { "" } else { " || " };
        let (first, last) = (range.start(), range.end());
        let written = match first == last {
            true => write!(text, "{or}id == {first}"),
            false => write!(text, "{or}(id >= {first} && id <= {last})"),
        };
        written.expect("text takes what is written");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_recorded(ranges: &[RangeInclusive<u16>], call: u16) -> bool {
        ranges.iter().any(|range| range.contains(&call))
    }

    #[test]
    fn calls_that_transfer_or_wait_are_recorded_and_frequent_others_are_not() {
        // read, fsync, openat, close, copy_file_range, syncfs, futex; then fstat, newfstatat, mmap, ioctl.
        // Then io_submit, io_getevents, io_uring_enter.
        for call in [0, 74, 257, 3, 326, 306, 202, 209, 208, 426] {
            assert!(is_recorded(X86_64, call), "{call}");
        }
        for call in [5, 262, 9, 16] {
            assert!(!is_recorded(X86_64, call), "{call}");
        }
        // The same on other machines.
        for call in [63, 82, 56, 57, 285, 267, 98, 2, 4, 426] {
            assert!(is_recorded(GENERIC, call), "{call}");
        }
        for call in [80, 79, 222, 29] {
            assert!(!is_recorded(GENERIC, call), "{call}");
        }
    }

    #[test]
    fn filter_is_in_the_language_of_the_kernel() {
        let text = filter("x86_64");
        assert!(text.starts_with("(id >= 0 && id <= 3) || (id >= 257 && id <= 258) || "), "{text}");
        assert!(text.contains(" || id == 217 || "), "{text}");
        assert!(filter("aarch64").starts_with("(id >= 56 && id <= 73) || "));
        // The kernel takes a page at most.
        assert!(text.len() < 4096);
    }
}
