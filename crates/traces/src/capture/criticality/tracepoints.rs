//! Tracepoints from which classes of requests follow, and the decoding of their records.
//!
//! Offsets and sizes of the fields come from the `format` files of the running kernel.

use seeklab_core::Operation;

use super::ClassRule;
use super::classifier::{Flags, HostEvent, What};
use crate::capture::layout::{Field, find};
use crate::event::block_event::{Kind, operation};

/// Content of a tracepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Point {
    /// A bio or a request is submitted.
    Submitted(Kind),
    Completed,
    Slept,
    Buffer,
    Pages,
    Page,
    Written,
    Throttled,
    Extent,
    FoundExtent,
}

/// Filter of the events of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filter {
    /// By a field that holds the number of the device.
    Number(&'static str),
    /// By a field that holds the name of its backing device, with a further condition.
    Name(&'static str, &'static str),
    /// A condition that names no device.
    Any(&'static str),
}

/// A tracepoint that is followed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tracepoint {
    pub(super) point: Point,
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    pub(super) filter: Filter,
    /// False if the classes are only less exact without it.
    pub(super) is_needed: bool,
    fields: &'static [&'static str],
}

const fn row(
    point: Point,
    filter: Filter,
    group: &'static str,
    name: &'static str,
    fields: &'static [&'static str],
) -> Tracepoint {
    Tracepoint { point, group, name, filter, is_needed: false, fields }
}

const fn needed(
    point: Point,
    filter: Filter,
    group: &'static str,
    name: &'static str,
    fields: &'static [&'static str],
) -> Tracepoint {
    Tracepoint { is_needed: true, ..row(point, filter, group, name, fields) }
}

const BLOCK: &[&str] = &["sector", "nr_sector", "rwbs"];
const EXTENT: &[&str] = &["ino", "lblk", "pblk", "ret"];
const NUMBER: Filter = Filter::Number("dev");

const COMPLETE: Tracepoint = needed(Point::Completed, NUMBER, "block", "block_rq_complete", BLOCK);

/// Tracepoints of [`ClassRule::Flags`], in the order in which they are switched on.
const OF_FLAGS: &[Tracepoint] =
    &[COMPLETE, needed(Point::Submitted(Kind::Issue), NUMBER, "block", "block_rq_issue", BLOCK)];

/// Tracepoints of [`ClassRule::Waits`], in the order in which they are switched on.
const OF_WAITS: &[Tracepoint] = &[
    COMPLETE,
    needed(Point::Submitted(Kind::BioQueue), NUMBER, "block", "block_bio_queue", BLOCK),
    row(Point::Extent, NUMBER, "ext4", "ext4_ext_map_blocks_exit", EXTENT),
    row(Point::Extent, NUMBER, "ext4", "ext4_ind_map_blocks_exit", EXTENT),
    row(
        Point::FoundExtent,
        NUMBER,
        "ext4",
        "ext4_es_lookup_extent_exit",
        &["ino", "lblk", "pblk", "len", "status", "found"],
    ),
    row(Point::Buffer, NUMBER, "block", "block_touch_buffer", &["sector", "size"]),
    row(
        Point::Pages,
        Filter::Number("s_dev"),
        "filemap",
        "mm_filemap_get_pages",
        &["i_ino", "index", "last_index"],
    ),
    row(Point::Page, Filter::Number("s_dev"), "filemap", "mm_filemap_fault", &["i_ino", "index"]),
    row(Point::Written, Filter::Name("name", ""), "writeback", "folio_wait_writeback", &["ino", "index"]),
    row(
        Point::Throttled,
        Filter::Name("bdi", " && pause > 0"),
        "writeback",
        "balance_dirty_pages",
        &["pause"],
    ),
    // State 2 is an uninterruptible sleep, as that for a page, a buffer or a request.
    needed(Point::Slept, Filter::Any("prev_state & 2"), "sched", "sched_switch", &["prev_pid"]),
];

/// State of an extent: blocks are there, and their place is known.
const EXTENT_PLACED: u64 = 0b11;

impl Tracepoint {
    /// The tracepoints of a rule.
    pub(super) const fn of(rule: ClassRule) -> &'static [Self] {
        match rule {
            ClassRule::Flags => OF_FLAGS,
            ClassRule::Waits => OF_WAITS,
        }
    }

    /// The kernel's filter for a device with this number.
    pub(super) fn filter(&self, number: u32) -> String {
        match self.filter {
            Filter::Number(field) => format!("{field} == {number}"),
            Filter::Name(field, condition) => {
                format!("{field} == \"{}:{}\"{condition}", number >> 20, number & 0xf_ffff)
            }
            Filter::Any(condition) => condition.to_owned(),
        }
    }
}

/// Decoder of the records of one tracepoint.
#[derive(Debug, Clone)]
pub(super) struct Decoder {
    /// Number of the tracepoint in this kernel.
    pub(super) id: u16,
    point: Point,
    thread: Field,
    fields: Vec<Field>,
}

impl Decoder {
    /// Reads the `format` file of the tracepoint. The error says what is missing or wrong in it.
    pub(super) fn parse(tracepoint: &Tracepoint, text: &str) -> Result<Self, String> {
        let id = text
            .lines()
            .find_map(|line| line.strip_prefix("ID:"))
            .and_then(|id| id.trim().parse().ok())
            .ok_or("there is no line `ID:` with a number")?;
        let field = |name: &str| find(text, name)?.ok_or_else(|| format!("there is no field `{name}`"));
        Ok(Self {
            id,
            point: tracepoint.point,
            thread: field("common_pid")?,
            fields: tracepoint.fields.iter().map(|name| field(name)).collect::<Result<_, _>>()?,
        })
    }

    /// Decodes a record. `None` if it is too short, or says nothing about classes.
    pub(super) fn decode(&self, raw: &[u8], time_ns: u64) -> Option<HostEvent> {
        let field = |index: usize| number(raw, self.fields[index]);
        let mut thread = number(raw, self.thread)? as u32;
        let what = match self.point {
            Point::Submitted(kind) => {
                let (op, sector, sectors, flags) = self.block(raw, kind)?;
                What::Submitted { op, sector, sectors, flags }
            }
            Point::Completed => {
                let (op, sector, sectors, _) = self.block(raw, Kind::Complete)?;
                What::Completed { op, sector, sectors }
            }
            Point::Slept => {
                thread = field(0)? as u32;
                What::Slept
            }
            Point::Buffer => What::Buffer { sector: field(0)?, bytes: field(1)? },
            Point::Pages => What::Pages { inode: field(0)?, first: field(1)?, last: field(2)? },
            Point::Page => What::Page { inode: field(0)?, page: field(1)? },
            Point::Written => What::Written { inode: field(0)?, page: field(1)? },
            Point::Throttled => What::Throttled,
            Point::Extent => {
                // A negative result is an error, and 0 is a hole.
                let blocks = (field(3)? as u32).cast_signed();
                let blocks = u64::try_from(blocks).ok().filter(|blocks| *blocks > 0)?;
                What::Extent { inode: field(0)?, file_block: field(1)?, device_block: field(2)?, blocks }
            }
            Point::FoundExtent => {
                if field(5)? == 0 || field(4)? & EXTENT_PLACED == 0 {
                    return None;
                }
                What::Extent {
                    inode: field(0)?,
                    file_block: field(1)?,
                    device_block: field(2)?,
                    blocks: field(3)?,
                }
            }
        };
        Some(HostEvent { time_ns, thread, what })
    }

    fn block(&self, raw: &[u8], kind: Kind) -> Option<(Operation, u64, u64, Flags)> {
        let sectors = number(raw, self.fields[1])?;
        let letters = bytes(raw, self.fields[2])?;
        let (op, _) = operation(kind, letters, sectors as u32);
        Some((op?, number(raw, self.fields[0])?, sectors, Flags::of(letters)))
    }
}

fn bytes(raw: &[u8], field: Field) -> Option<&[u8]> {
    raw.get(field.offset..field.offset.checked_add(field.size)?)
}

/// The number in a field of 1 to 8 bytes, without its sign.
fn number(raw: &[u8], field: Field) -> Option<u64> {
    let bytes = bytes(raw, field)?;
    Some(match bytes.len() {
        1 => u64::from(bytes[0]),
        2 => u64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
        4 => u64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
        8 => u64::from_ne_bytes(bytes.try_into().ok()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COMMON: &str = "\
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;
";

    /// A description in which the fields follow each other, of 8 bytes each but for the flags.
    fn described(tracepoint: &Tracepoint) -> String {
        let mut text = format!("name: {}\nID: 7\nformat:\n{COMMON}", tracepoint.name);
        for (index, name) in tracepoint.fields.iter().enumerate() {
            let (kind, size) = if *name == "rwbs" { ("char", 10) } else { ("u64", 8) };
            let offset = 8 + index * 8;
            text += &format!("\tfield:{kind} {name};\toffset:{offset};\tsize:{size};\tsigned:0;\n");
        }
        text
    }

    fn record(thread: u32, numbers: &[u64], behind: &[u8]) -> Vec<u8> {
        let mut raw = vec![7, 0, 0, 0];
        raw.extend(thread.to_ne_bytes());
        numbers.iter().for_each(|number| raw.extend(number.to_ne_bytes()));
        raw.extend(behind);
        raw.resize(raw.len().max(34), 0);
        raw
    }

    fn decoded(rule: ClassRule, name: &str, raw: &[u8]) -> Option<HostEvent> {
        let tracepoint = Tracepoint::of(rule).iter().find(|one| one.name == name).unwrap();
        Decoder::parse(tracepoint, &described(tracepoint)).unwrap().decode(raw, 99)
    }

    #[test]
    fn records_are_decoded_by_the_kernels_description() {
        let event = |thread, what| Some(HostEvent { time_ns: 99, thread, what });
        let (flags, waits) = (ClassRule::Flags, ClassRule::Waits);
        let ahead = Flags { read_ahead: true, ..Flags::default() };
        let op = Operation::Read;
        let submitted = What::Submitted { op, sector: 800, sectors: 8, flags: ahead };
        assert_eq!(decoded(flags, "block_rq_issue", &record(5, &[800, 8], b"RA\0")), event(5, submitted));
        assert_eq!(decoded(waits, "block_bio_queue", &record(5, &[800, 8], b"RA\0")), event(5, submitted));
        let completed = What::Completed { op: Operation::Write, sector: 16, sectors: 8 };
        assert_eq!(decoded(waits, "block_rq_complete", &record(0, &[16, 8], b"WS\0")), event(0, completed));
        assert_eq!(decoded(waits, "block_rq_complete", &record(0, &[16, 8], b"?\0")), None);
        // The thread that leaves the processor, not the one that recorded the event.
        assert_eq!(decoded(waits, "sched_switch", &record(5, &[12], b"")), event(12, What::Slept));
        let extent = What::Extent { inode: 12, file_block: 3, device_block: 900, blocks: 2 };
        assert_eq!(
            decoded(waits, "ext4_ext_map_blocks_exit", &record(5, &[12, 3, 900, 2], b"")),
            event(5, extent)
        );
        for result in [0, u64::from((-28_i32).cast_unsigned())] {
            let raw = record(5, &[12, 3, 900, result], b"");
            assert_eq!(decoded(waits, "ext4_ext_map_blocks_exit", &raw), None, "{result:#x}");
        }
        let found = |found, status| record(5, &[12, 3, 900, 2, status, found], b"");
        assert_eq!(decoded(waits, "ext4_es_lookup_extent_exit", &found(1, 1)), event(5, extent));
        assert_eq!(decoded(waits, "ext4_es_lookup_extent_exit", &found(0, 1)), None);
        assert_eq!(decoded(waits, "ext4_es_lookup_extent_exit", &found(1, 8)), None, "a hole");
    }

    #[test]
    fn kernel_filters_the_events_of_the_device() {
        let number = 7 << 20 | 3;
        let filters: Vec<String> = OF_WAITS.iter().map(|one| one.filter(number)).collect();
        assert_eq!(filters[0], "dev == 7340035");
        assert!(filters.contains(&"s_dev == 7340035".to_owned()));
        assert!(filters.contains(&"bdi == \"7:3\" && pause > 0".to_owned()));
        assert!(filters.contains(&"prev_state & 2".to_owned()));
    }

    proptest! {
        #[test]
        fn arbitrary_records_yield_a_result(
            raw in prop::collection::vec(any::<u8>(), 0..80),
            index in 0..OF_WAITS.len(),
        ) {
            let decoder = Decoder::parse(&OF_WAITS[index], &described(&OF_WAITS[index])).unwrap();
            if let Some(event) = decoder.decode(&raw, 3) {
                prop_assert_eq!(event.time_ns, 3);
                prop_assert!(raw.len() >= 8);
            }
        }
    }
}
