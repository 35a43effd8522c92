//! SCSI commands of requests, and of the questions about a unit.
//!
//! # References
//! SBC-4 (T10 BSR INCITS 506) for reads, writes, SYNCHRONIZE CACHE, UNMAP and WRITE SAME; SPC-5 (INCITS 502) for the others.

use seeklab_core::{Operation, Request};

use super::unit::Unit;

/// Bytes of a parameter list of UNMAP with one range.
pub(super) const UNMAP_LIST_BYTES: usize = 24;

/// Data that go with a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Data {
    /// None.
    None,
    /// So many bytes are read into the buffer of the slot.
    Read(usize),
    /// So many bytes are written from the buffer of the slot.
    Write(usize),
    /// The parameter list of UNMAP.
    UnmapList([u8; UNMAP_LIST_BYTES]),
    /// So many zeroes.
    Zeroes(usize),
}

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Command {
    /// Command descriptor block, followed by zeroes.
    pub(super) block: [u8; 16],
    /// Length of the block: 6, 10, 12 or 16.
    pub(super) block_bytes: usize,
    /// Its data.
    pub(super) data: Data,
}

/// A flush by SYNCHRONIZE CACHE in its short or long form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlushForm {
    Short,
    Long,
}

const READ: [u8; 2] = [0x28, 0x88];
const WRITE: [u8; 2] = [0x2a, 0x8a];
const UNMAP: u8 = 0x42;
const WRITE_SAME: u8 = 0x93;
const SYNCHRONIZE_CACHE: [u8; 2] = [0x35, 0x91];
/// Force unit access, of reads and writes.
const FUA: u8 = 1 << 3;

impl Command {
    fn new(bytes: &[u8], data: Data) -> Self {
        let mut block = [0; 16];
        block[..bytes.len()].copy_from_slice(bytes);
        Self { block, block_bytes: bytes.len(), data }
    }

    /// The command of a request.
    ///
    /// # Errors
    /// The reason, if the unit does not carry it out.
    pub(super) fn of(request: &Request, unit: &Unit) -> Result<Self, String> {
        let (lbn, blocks) = (request.lbn, request.blocks);
        let bytes = blocks as usize * unit.block_bytes as usize;
        let most = |most: Option<u64>, form: &str| match most {
            Some(most) if u64::from(blocks) > most => {
                Err(format!("a {form} of {blocks} blocks: the unit takes at most {most} in one command"))
            }
            _ => Ok(()),
        };
        let none = |form: &str| Err(format!("the unit carries out no {form}"));
        if request.fua && !unit.fua {
            return none("write with force unit access");
        }
        match request.op {
            Operation::Read => {
                most(Some(unit.transfer_blocks_max), "read")?;
                Ok(transfer(READ, 0, lbn, blocks, Data::Read(bytes)))
            }
            Operation::Write => {
                most(Some(unit.transfer_blocks_max), "write")?;
                let flags = if request.fua { FUA } else { 0 };
                Ok(transfer(WRITE, flags, lbn, blocks, Data::Write(bytes)))
            }
            // No address and no length: all blocks.
            Operation::Flush => match unit.flush {
                Some(FlushForm::Short) => {
                    Ok(Self::new(&[SYNCHRONIZE_CACHE[0], 0, 0, 0, 0, 0, 0, 0, 0, 0], Data::None))
                }
                Some(FlushForm::Long) => {
                    let mut block = [0; 16];
                    block[0] = SYNCHRONIZE_CACHE[1];
                    Ok(Self::new(&block, Data::None))
                }
                None => none("flush"),
            },
            Operation::Discard if unit.discards => {
                most(unit.discard_blocks_max, "discard")?;
                let mut list = [0; UNMAP_LIST_BYTES];
                // Bytes that follow, and bytes of the only range.
                list[..2].copy_from_slice(&(UNMAP_LIST_BYTES as u16 - 2).to_be_bytes());
                list[2..4].copy_from_slice(&16_u16.to_be_bytes());
                list[8..16].copy_from_slice(&lbn.to_be_bytes());
                list[16..20].copy_from_slice(&blocks.to_be_bytes());
                let block = [UNMAP, 0, 0, 0, 0, 0, 0, 0, UNMAP_LIST_BYTES as u8, 0];
                Ok(Self::new(&block, Data::UnmapList(list)))
            }
            Operation::Discard => none("discard"),
            Operation::WriteZeroes if unit.writes_same => {
                most(unit.write_same_blocks_max, "write of zeroes")?;
                let zeroes = Data::Zeroes(unit.block_bytes as usize);
                Ok(long(WRITE_SAME, 0, lbn, blocks, zeroes))
            }
            Operation::WriteZeroes => none("write of zeroes"),
        }
    }

    /// INQUIRY: the standard data, or a page of vital product data.
    pub(super) fn inquiry(page: Option<u8>, bytes: u8) -> Self {
        let block = [0x12, u8::from(page.is_some()), page.unwrap_or(0), 0, bytes, 0];
        Self::new(&block, Data::Read(bytes.into()))
    }

    /// MODE SENSE: the header, and the page about the cache, without block descriptors.
    pub(super) fn mode_sense(bytes: u8) -> Self {
        Self::new(&[0x1a, 1 << 3, 0x08, 0, bytes, 0], Data::Read(bytes.into()))
    }

    /// READ CAPACITY in its long form.
    pub(super) fn read_capacity_long() -> Self {
        let block = [0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0];
        Self::new(&block, Data::Read(32))
    }

    /// READ CAPACITY in its short form.
    pub(super) fn read_capacity_short() -> Self {
        Self::new(&[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], Data::Read(8))
    }

    /// REPORT SUPPORTED OPERATION CODES, of one code.
    pub(super) fn report_support(code: u8) -> Self {
        Self::new(&[0xa3, 0x0c, 1, code, 0, 0, 0, 0, 0, 4, 0, 0], Data::Read(4))
    }
}

/// A read or write: in the short form if address and length fit into it, as older units have that only.
fn transfer([short, long_code]: [u8; 2], flags: u8, lbn: u64, blocks: u32, data: Data) -> Command {
    match (u32::try_from(lbn), u16::try_from(blocks)) {
        (Ok(lbn), Ok(blocks)) => {
            let mut block = [0; 10];
            (block[0], block[1]) = (short, flags);
            block[2..6].copy_from_slice(&lbn.to_be_bytes());
            block[7..9].copy_from_slice(&blocks.to_be_bytes());
            Command::new(&block, data)
        }
        _ => long(long_code, flags, lbn, blocks, data),
    }
}

/// A command of 16 bytes with address and length.
fn long(code: u8, flags: u8, lbn: u64, blocks: u32, data: Data) -> Command {
    let mut block = [0; 16];
    (block[0], block[1]) = (code, flags);
    block[2..10].copy_from_slice(&lbn.to_be_bytes());
    block[10..14].copy_from_slice(&blocks.to_be_bytes());
    Command::new(&block, data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit() -> Unit {
        Unit {
            block_bytes: 512,
            fua: true,
            flush: Some(FlushForm::Short),
            discards: true,
            discard_blocks_max: Some(1 << 20),
            writes_same: true,
            write_same_blocks_max: Some(1 << 16),
            transfer_blocks_max: 1 << 16,
            ..Unit::default()
        }
    }

    fn command(op: Operation, lbn: u64, blocks: u32, unit: &Unit) -> Result<Command, String> {
        Command::of(&Request::new(0, op, lbn, blocks), unit)
    }

    #[test]
    fn blocks_are_those_of_the_tables_of_sbc() {
        let short = command(Operation::Read, 0x1234_5678, 8, &unit()).unwrap();
        assert_eq!(short.block[..10], [0x28, 0, 0x12, 0x34, 0x56, 0x78, 0, 0, 8, 0]);
        assert_eq!((short.block_bytes, short.data), (10, Data::Read(4096)));
        let long = command(Operation::Write, 1 << 32, 8, &unit()).unwrap();
        assert_eq!(long.block, [0x8a, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0]);
        let longer = command(Operation::Read, 0, 65_536, &unit()).unwrap();
        assert_eq!(longer.block, [0x88, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
        let through = Request { fua: true, ..Request::new(0, Operation::Write, 1, 1) };
        assert_eq!(Command::of(&through, &unit()).unwrap().block[..2], [0x2a, 8]);
        let flush = command(Operation::Flush, 0, 0, &unit()).unwrap();
        assert_eq!((flush.block[0], flush.block_bytes, flush.data), (0x35, 10, Data::None));
        let same = command(Operation::WriteZeroes, 2, 3, &unit()).unwrap();
        assert_eq!(same.block, [0x93, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0]);
        assert_eq!(same.data, Data::Zeroes(512));
        let unmap = command(Operation::Discard, 2, 3, &unit()).unwrap();
        assert_eq!(unmap.block[..10], [0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0]);
        let list = [0, 22, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0];
        assert_eq!(unmap.data, Data::UnmapList(list));
    }

    #[test]
    fn requests_beyond_the_unit_are_refused_with_the_reason() {
        let bare = Unit { fua: false, flush: None, discards: false, writes_same: false, ..unit() };
        for (op, blocks, unit, part) in [
            (Operation::Read, 65_537, &unit(), "a read of 65537 blocks: the unit takes at most 65536"),
            (Operation::Write, 65_537, &unit(), "a write of 65537 blocks"),
            (Operation::Discard, 1_048_577, &unit(), "a discard of 1048577 blocks"),
            (Operation::WriteZeroes, 65_537, &unit(), "a write of zeroes of 65537 blocks"),
            (Operation::Flush, 0, &bare, "no flush"),
            (Operation::Discard, 1, &bare, "no discard"),
            (Operation::WriteZeroes, 1, &bare, "no write of zeroes"),
        ] {
            let error = command(op, 0, blocks, unit).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
        let through = Request { fua: true, ..Request::new(0, Operation::Write, 1, 1) };
        assert!(Command::of(&through, &bare).expect_err("no fua").contains("force unit access"));
    }
}
