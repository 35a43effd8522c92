//! Meta's Tectonic block traces as CacheLib's benchmark replays them.
//!
//! ```text
//! op_time,block_id,block_id_size,io_size,io_offset,user_name,…,op_name,op_count,host_name,rs_shard_id
//! 1702511878,12ce23eaa5534a38-9e05ce05bc10d4d0,40,8388608,0,4235083322,…,getChunkData.NotInitialized,1,…,4
//! ```
//! Columns go by the names in the header. Times count **whole seconds** since 1970; arrivals count from the
//! earliest row of the first window. Operations whose name begins with `get` are reads, with `put` are
//! writes; others are counted and omitted, and so are requests of no bytes. The user becomes the initiator,
//! numbered in order of appearance.
//!
//! A block is an object named by its hash. Blocks are laid side by side in order of appearance, one slot each
//! [default: 9 MiB]. A chunk has 8 MiB of data and, in the published requests, up to 65 KiB in addition. A
//! request takes every block of the device that it touches.
//!
//! # Scope and limits
//! The location of the objects on the medium is unknown. `op_count`, the number of requests that a row stands
//! for, is ignored: a row is one request. There are no times within a second and no response times.
//!
//! # References
//! CacheLib, `cachelib/cachebench/test_configs/trace_replay/block_chunk`; S. Pan et al.: Tectonic, FAST 2021.

use seeklab_core::{ByteSize, Instant, Operation, TraceRecord};

use crate::error::{Problem, TraceError};
use crate::metadata::Metadata;
use crate::options::{Allowed, FormatOption, MissingColumn};
use crate::parse::columns::Columns;
use crate::parse::extent::checked_block_size;
use crate::parse::names::Names;
use crate::parse::number::integer;
use crate::parse::objects::Objects;
use crate::parse::text::{LineParser, Order, Parsed, TextReader, sniff_header};
use crate::row::check_extent;
use crate::source::{Head, Source};
use crate::trace_format::{Note, ReadOptions, Sniff, TraceFormat, TraceReader};

/// CacheLib block chunks.
pub(super) struct CacheLib;

const FIELDS: [&str; 6] = ["op_time", "block_id", "io_size", "io_offset", "op_name", "user_name"];
const REQUIRED: usize = 5;
const NS_PER_S: u64 = 1_000_000_000;
/// Bytes of a slot.
const SLOT: FormatOption = FormatOption {
    name: "slot",
    allowed: Allowed::Size,
    default: "9MiB",
    meaning: "room for each chunk on the device, in order of appearance",
};

struct Parser {
    columns: Option<Columns<6>>,
    objects: Objects,
    users: Names,
}

fn columns(header: &[u8]) -> Result<Columns<6>, Box<Problem>> {
    Columns::find(header, b',', &FIELDS, REQUIRED)
}

impl LineParser for Parser {
    #[inline]
    fn parse(&mut self, line: &[u8], metadata: &mut Metadata) -> Result<Parsed, Box<Problem>> {
        let Some(columns) = &self.columns else {
            self.columns = Some(columns(line)?);
            return Ok(Parsed::Nothing);
        };
        let [time, block, size, offset, name, user] = columns.split(line)?;
        let arrival = Instant::from_ns(integer(FIELDS[0], time, u64::MAX / NS_PER_S)? * NS_PER_S);
        let size = integer(FIELDS[2], size, u64::MAX)?;
        let offset = integer(FIELDS[3], offset, u64::MAX)?;
        let op = match name {
            [b'g', b'e', b't', ..] => Operation::Read,
            [b'p', b'u', b't', ..] => Operation::Write,
            [b'a'..=b'z' | b'A'..=b'Z', ..] => {
                return Ok(Parsed::Skipped {
                    what: "other operation[|s]",
                    why: "[it neither gets nor puts|they neither get nor put]",
                });
            }
            _ => return Err(Problem::new(FIELDS[4], name, "the name of an operation is allowed")),
        };
        if size == 0 {
            return Ok(Parsed::Skipped {
                what: "request[|s] of no bytes",
                why: "[it moves|they move] nothing",
            });
        }
        let (lbn, blocks) = self.objects.extent([FIELDS[1], FIELDS[3]], block, offset, size)?;
        check_extent(op, lbn, blocks)?;
        let initiator = match columns.has(5) && !user.is_empty() {
            true => self.users.initiator(FIELDS[5], user, metadata)?,
            false => 0,
        };
        Ok(Parsed::Row(TraceRecord { initiator, ..TraceRecord::new(arrival, op, lbn, blocks) }))
    }

    fn notes(&self, notes: &mut Vec<Note>) {
        self.objects.notes(notes);
    }
}

impl TraceFormat for CacheLib {
    fn name(&self) -> &'static str {
        "cachelib"
    }

    fn description(&self) -> &'static str {
        "CacheLib block chunks (Meta's Tectonic): s since 1970, chunk, bytes, offset, operation"
    }

    fn suffixes(&self) -> &'static [&'static str] {
        &[]
    }

    fn options(&self) -> &'static [FormatOption] {
        &[SLOT]
    }

    fn missing_columns(&self) -> &'static [MissingColumn] {
        &[MissingColumn::FineTimes, MissingColumn::ResponseTimes, MissingColumn::Devices]
    }

    fn sniff(&self, head: Head<'_>) -> Sniff {
        sniff_header(head, |line| columns(line).is_ok())
    }

    fn open(&self, source: Source, options: &ReadOptions) -> Result<Box<dyn TraceReader>, TraceError> {
        let block_size = checked_block_size(options.block_size_or_default())?;
        let slot_bytes = SLOT.size(options)?.map_or(0, ByteSize::as_bytes);
        let parser =
            Parser { columns: None, objects: Objects::new(slot_bytes, block_size), users: Names::default() };
        Ok(Box::new(TextReader::new(source, parser, Order::RoughAbsolute, options)))
    }
}
