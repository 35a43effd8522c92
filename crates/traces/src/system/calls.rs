//! System calls that write a file.
//!
//! The kernel marks asynchronous writes (`IOCB_WRITE`), but not those of write(2) and its relatives.

/// write, pwrite64, writev, pwritev, pwritev2 of x86_64, and of the generic table.
const X86_64: [u16; 5] = [1, 18, 20, 296, 328];
const GENERIC: [u16; 5] = [64, 68, 66, 70, 287];

/// Numbers of the calls that write one file, on a machine.
pub(super) fn writes_of(machine: &str) -> [u16; 5] {
    if machine == "x86_64" { X86_64 } else { GENERIC }
}
