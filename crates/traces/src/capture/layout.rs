//! Positions of the fields in a tracepoint's record, read from the kernel's own description.
//!
//! The layout differs between kernels (`rwbs` grew from 8 to 10 bytes, `ioprio` moved everything behind it),
//! so seeklab reads it from the `format` file that tracefs provides for every tracepoint.

use seeklab_core::{Operation, ProcessName};

use super::event::{BlockEvent, Kind, operation};

/// Bytes of the longest record that a description may claim; the block layer's are below 100.
const RECORD_BYTES_MAX: usize = 4096;

/// Position of a field in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) offset: usize,
    pub(super) size: usize,
}

/// Positions of the fields of one tracepoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    kind: Kind,
    /// Number of the tracepoint in this kernel since it was started.
    pub(super) id: u64,
    sector: Field,
    sectors: Field,
    rwbs: Field,
    /// Absent where a tracepoint has none.
    command: Option<Field>,
    error: Option<Field>,
}

impl Layout {
    /// Reads a `format` file. The error describes what is missing or wrong in the file.
    pub(super) fn parse(kind: Kind, text: &str) -> Result<Self, String> {
        let id = text
            .lines()
            .find_map(|line| line.strip_prefix("ID:"))
            .and_then(|id| id.trim().parse().ok())
            .ok_or("there is no line `ID:` with a number")?;
        let field = |name: &str, sizes: &[usize]| match find(text, name)? {
            Some(field) if !sizes.is_empty() && !sizes.contains(&field.size) => {
                Err(format!("field `{name}` has {} bytes, where {sizes:?} are known", field.size))
            }
            found => Ok(found),
        };
        let needed = |name: &str, sizes: &[usize]| {
            field(name, sizes)?.ok_or_else(|| format!("there is no field `{name}`"))
        };
        Ok(Self {
            kind,
            id,
            sector: needed("sector", &[8])?,
            sectors: needed("nr_sector", &[4])?,
            rwbs: needed("rwbs", &[])?,
            command: field("comm", &[16])?,
            error: match (kind, field("error", &[4])?) {
                (kind, None) if kind.is_completion() => Some(needed("errors", &[4])?),
                (_, found) => found,
            },
        })
    }

    /// The event in a record's bytes, made by process `process`; `None` if they are too few.
    pub(super) fn decode(&self, raw: &[u8], process: u32) -> Option<BlockEvent> {
        let bytes = |field: Field| raw.get(field.offset..field.offset + field.size);
        let four = |field: Field| bytes(field)?.try_into().ok().map(u32::from_ne_bytes);
        let sectors = four(self.sectors)?;
        let (op, fua) = operation(self.kind, bytes(self.rwbs)?, sectors);
        let sector = u64::from_ne_bytes(bytes(self.sector)?.try_into().ok()?);
        Some(BlockEvent {
            kind: self.kind,
            op,
            fua,
            // A flush has no address: zero when issued, all ones when complete. An empty bio may be the end
            // of one that its driver has used up.
            sector: if op == Some(Operation::Flush) && self.kind != Kind::BioComplete { 0 } else { sector },
            sectors,
            error: match self.error {
                Some(field) => four(field)?.cast_signed(),
                None => 0,
            },
            process,
            command: match self.command {
                Some(field) => ProcessName(bytes(field)?.try_into().ok()?),
                None => ProcessName::default(),
            },
        })
    }
}

/// The field of that name in lines such as `field:sector_t sector; offset:16; size:8; signed:0;` (between
/// the parts are tabs).
pub(super) fn find(text: &str, name: &str) -> Result<Option<Field>, String> {
    for line in text.lines() {
        let Some(line) = line.trim().strip_prefix("field:") else { continue };
        let mut parts = line.split(';').map(str::trim);
        let declaration = parts.next().unwrap_or_default();
        let declared = declaration.split('[').next().and_then(|words| words.split_whitespace().last());
        if declared != Some(name) || declaration.starts_with("__data_loc") {
            continue;
        }
        let mut number = |label: &str| {
            parts
                .next()
                .and_then(|part| part.strip_prefix(label)?.parse().ok())
                .filter(|number| *number <= RECORD_BYTES_MAX)
                .ok_or_else(|| format!("field `{name}` has no `{label}` up to {RECORD_BYTES_MAX}"))
        };
        return Ok(Some(Field { offset: number("offset:")?, size: number("size:")? }));
    }
    Ok(None)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// As Linux 6.18 describes its `block_rq_issue`.
    pub(in super::super) const ISSUE: &str = "\
name: block_rq_issue
ID: 2104
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:dev_t dev;	offset:8;	size:4;	signed:0;
	field:sector_t sector;	offset:16;	size:8;	signed:0;
	field:unsigned int nr_sector;	offset:24;	size:4;	signed:0;
	field:unsigned int bytes;	offset:28;	size:4;	signed:0;
	field:unsigned short ioprio;	offset:32;	size:2;	signed:0;
	field:char rwbs[10];	offset:34;	size:10;	signed:0;
	field:char comm[16];	offset:44;	size:16;	signed:0;
	field:__data_loc char[] cmd;	offset:60;	size:4;	signed:0;

print fmt: \"%d,%d\"
";

    /// As Linux 4.9 described its `block_rq_complete`.
    const COMPLETE_OLD: &str = "\
name: block_rq_complete
ID: 731
format:
	field:dev_t dev;	offset:8;	size:4;	signed:0;
	field:sector_t sector;	offset:16;	size:8;	signed:0;
	field:unsigned int nr_sector;	offset:24;	size:4;	signed:0;
	field:int errors;	offset:28;	size:4;	signed:1;
	field:char rwbs[8];	offset:32;	size:8;	signed:0;
	field:__data_loc char[] cmd;	offset:40;	size:4;	signed:0;
";

    #[test]
    fn recorded_bytes_are_decoded() {
        // What Linux 6.18 recorded for `WS 4096 () 40 + 8 0x2,0,4 [dd]`.
        let mut raw = [0; 64];
        raw[..8].copy_from_slice(&[0x38, 0x08, 0x01, 0x00, 0xad, 0x7a, 0x00, 0x00]);
        raw[8..12].copy_from_slice(&(7_u32 << 20).to_ne_bytes());
        raw[16..24].copy_from_slice(&40_u64.to_ne_bytes());
        raw[24..28].copy_from_slice(&8_u32.to_ne_bytes());
        raw[28..32].copy_from_slice(&4096_u32.to_ne_bytes());
        raw[34..37].copy_from_slice(b"WS\0");
        raw[44..47].copy_from_slice(b"dd\0");
        let layout = Layout::parse(Kind::Issue, ISSUE).unwrap();
        assert_eq!(layout.id, 2104);
        let event = layout.decode(&raw, 31405).unwrap();
        assert_eq!((event.op, event.fua), (Some(Operation::Write), false));
        assert_eq!((event.sector, event.sectors, event.error), (40, 8, 0));
        assert_eq!((event.process, event.command.to_string().as_str()), (31405, "dd"));
        for length in 0..60 {
            assert_eq!(layout.decode(&raw[..length], 1), None, "{length} bytes are too few");
        }
    }

    #[test]
    fn completion_of_an_older_kernel_is_decoded() {
        let mut raw = [0; 44];
        raw[16..24].copy_from_slice(&u64::MAX.to_ne_bytes());
        raw[28..32].copy_from_slice(&(-5_i32).to_ne_bytes());
        raw[32..35].copy_from_slice(b"FF\0");
        let event = Layout::parse(Kind::Complete, COMPLETE_OLD).unwrap().decode(&raw, 0).unwrap();
        assert_eq!((event.op, event.sector, event.error), (Some(Operation::Flush), 0, -5));
    }

    #[test]
    fn invalid_description_is_refused() {
        let refused = |kind, text: &str| Layout::parse(kind, text).unwrap_err();
        assert_eq!(refused(Kind::Issue, ""), "there is no line `ID:` with a number");
        assert_eq!(refused(Kind::Issue, &ISSUE.replace(" sector;", " s;")), "there is no field `sector`");
        assert_eq!(
            refused(Kind::Issue, &ISSUE.replace("offset:16;	size:8", "offset:16;	size:6")),
            "field `sector` has 6 bytes, where [8] are known"
        );
        assert_eq!(
            refused(Kind::Issue, &ISSUE.replace("offset:24", "offset:99999999999999999999")),
            "field `nr_sector` has no `offset:` up to 4096"
        );
        assert_eq!(refused(Kind::Complete, ISSUE), "there is no field `errors`");
    }
}
