//! Block devices and files by pread and pwrite: one request at a time, as most programs do.

use std::os::fd::AsFd;

use rustix::fs::{FallocateFlags, fallocate, fdatasync};
use rustix::io::{Errno, ReadWriteFlags, pread, pwrite, pwritev2};
use seeklab_core::{Instant, Operation};
use seeklab_emulator::clock::{Clock, Wait};

use super::buffers::Buffers;
use super::idle::idle;
use super::io_uring::outcome;
use crate::verify::Checker;

use super::{Ended, OpenFile, Opening, Target, TargetError, TargetFacts, TargetKind, Transfer, byte_range};

/// Its line in the list of targets.
pub(super) const KIND: TargetKind = TargetKind {
    name: "psync",
    form: "psync:PATH",
    meaning: "A block device or file, one request at a time by pread and pwrite",
    matches: |address| address.strip_prefix("psync:"),
    holds_data: true,
    is_model: false,
    has_priorities: false,
    is_virtual: false,
    identify: super::file::identify,
    is_expendable: super::file::is_expendable,
    open,
};

fn open(path: &str, opening: &Opening<'_>) -> Result<Box<dyn Target>, TargetError> {
    let options = opening.options;
    let opened = OpenFile::open(path, options)?;
    let buffers = Buffers::new(1, options);
    let facts = TargetFacts::new(opened.space, 1);
    Ok(Box::new(Psync { facts, clock: opening.clock, file: opened.file, buffers, ended: None, calls: 0 }))
}

#[derive(Debug)]
struct Psync {
    facts: TargetFacts,
    clock: Clock,
    file: std::fs::File,
    buffers: Buffers,
    ended: Option<Ended>,
    calls: u64,
}

impl Psync {
    fn carry_out(&mut self, transfer: &Transfer) -> Result<usize, Errno> {
        let Transfer { tag, request } = *transfer;
        let (offset, length) = byte_range(&request, self.facts.space.block_size.as_bytes());
        let file = self.file.as_fd();
        match request.op {
            Operation::Read => pread(file, self.buffers.for_read(tag, length).bytes, offset),
            Operation::Write => {
                let data = &*self.buffers.for_write(tag, length, transfer).bytes;
                match request.fua {
                    false => pwrite(file, data, offset),
                    true => pwritev2(file, &[std::io::IoSlice::new(data)], offset, ReadWriteFlags::DSYNC),
                }
            }
            Operation::Flush => fdatasync(file).map(|()| 0),
            Operation::Discard => {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                fallocate(file, mode, offset, length as u64).map(|()| 0)
            }
            Operation::WriteZeroes => {
                let mode = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
                fallocate(file, mode, offset, length as u64).map(|()| 0)
            }
        }
    }
}

impl Target for Psync {
    fn facts(&self) -> &TargetFacts {
        &self.facts
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    fn submit(&mut self, transfers: &[Transfer]) -> Result<(), TargetError> {
        for transfer in transfers {
            let Transfer { tag, request } = transfer;
            let result = self.carry_out(transfer);
            let completed = self.clock.now();
            self.calls += 1;
            let result = result.map_err(|error| error.raw_os_error().unsigned_abs());
            let (status, good_blocks) = outcome(result, request, self.facts.space.block_size.as_bytes());
            if request.op == Operation::Read && status.is_success() {
                let (_, length) = byte_range(request, self.facts.space.block_size.as_bytes());
                self.buffers.was_read(*tag, length, completed);
            }
            let before = self.ended.replace(Ended { tag: *tag, completed, status, good_blocks });
            assert!(before.is_none(), "one request is under way at a time");
        }
        Ok(())
    }

    fn poll(&mut self, wait: Wait, _: u32, ended: &mut Vec<Ended>) -> Result<(), TargetError> {
        match self.ended.take() {
            Some(end) => ended.push(end),
            None => self.calls += idle(self.clock, wait),
        }
        Ok(())
    }

    fn checker(&mut self) -> Option<&mut Option<Box<Checker>>> {
        Some(&mut self.buffers.checker)
    }

    fn system_calls(&self) -> u64 {
        self.calls
    }
}
