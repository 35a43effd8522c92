//! Tracepoints of a system-level capture, and the decoding of their records.
//!
//! A tracepoint is one row of [`TRACEPOINTS`]: its fields by name, and the scope in which it is recorded. Offsets and
//! sizes of the fields come from the `format` file of the running kernel.

use seeklab_core::ProcessName;

use super::symbols::Symbols;
use crate::capture::layout::{Field, Layout, find};
use crate::event::block_event::Kind;
use crate::system::fields::{self, DirectTransfer, PAGE_BYTES};
use crate::system::{
    BlockStep, Context, EventKind, FileExtent, FileRange, InterruptSource, SystemEvent, Work,
};

/// Scope in which events are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Events of the whole host.
    Host,
    /// Events of the whole host that belong to the file system of the device.
    FileSystem,
    /// Events of the threads of the task.
    Task,
}

/// Content of a tracepoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Point {
    Switch,
    Waking,
    Wakeup,
    NewTask,
    Exec,
    Stack,
    CallEnter,
    CallExit,
    Enter(InterruptSource),
    Exit(InterruptSource),
    FileRead,
    FileFault,
    FileWrite,
    Direct,
    FileDelete,
    FileSync,
    Submit,
    BufferRead,
    BufferWrite,
    Throttle,
    CommitBegin,
    CommitEnd,
    WritebackBegin,
    WritebackEnd,
    Change,
    Extent,
    /// An extent that was looked up, if it was found.
    FoundExtent,
    WorkStart,
    WorkEnd,
    Block(Kind),
}

/// A tracepoint that is recorded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tracepoint {
    pub(super) point: Point,
    pub(super) group: &'static str,
    pub(super) name: &'static str,
    pub(super) scope: Scope,
    /// True if there is no capture without it.
    pub(super) is_needed: bool,
    fields: &'static [&'static str],
}

const fn row(
    point: Point,
    scope: Scope,
    group: &'static str,
    name: &'static str,
    fields: &'static [&'static str],
) -> Tracepoint {
    Tracepoint { point, group, name, scope, is_needed: false, fields }
}

const fn needed(
    point: Point,
    scope: Scope,
    group: &'static str,
    name: &'static str,
    fields: &'static [&'static str],
) -> Tracepoint {
    Tracepoint { is_needed: true, ..row(point, scope, group, name, fields) }
}

use InterruptSource as Source;
use Scope::{FileSystem, Host, Task};

/// The tracepoints, in the order in which they are switched on.
pub(super) const TRACEPOINTS: &[Tracepoint] = &[
    needed(
        Point::Switch,
        Host,
        "sched",
        "sched_switch",
        &["prev_pid", "prev_state", "next_pid", "next_comm"],
    ),
    needed(Point::Waking, Host, "sched", "sched_waking", &["pid"]),
    needed(Point::Wakeup, Host, "sched", "sched_wakeup", &["pid"]),
    needed(Point::NewTask, Host, "task", "task_newtask", &["pid", "clone_flags"]),
    row(Point::Exec, Host, "sched", "sched_process_exec", &["filename"]),
    row(Point::Enter(Source::Device), Host, "irq", "irq_handler_entry", &["irq"]),
    row(Point::Exit(Source::Device), Host, "irq", "irq_handler_exit", &["irq"]),
    needed(Point::Enter(Source::Softirq), Host, "irq", "softirq_entry", &["vec"]),
    needed(Point::Exit(Source::Softirq), Host, "irq", "softirq_exit", &["vec"]),
    row(Point::Enter(Source::LocalTimer), Host, "irq_vectors", "local_timer_entry", &[]),
    row(Point::Exit(Source::LocalTimer), Host, "irq_vectors", "local_timer_exit", &[]),
    row(Point::Enter(Source::Reschedule), Host, "irq_vectors", "reschedule_entry", &[]),
    row(Point::Exit(Source::Reschedule), Host, "irq_vectors", "reschedule_exit", &[]),
    row(Point::Enter(Source::CallFunction), Host, "irq_vectors", "call_function_entry", &[]),
    row(Point::Exit(Source::CallFunction), Host, "irq_vectors", "call_function_exit", &[]),
    row(Point::Enter(Source::CallFunction), Host, "irq_vectors", "call_function_single_entry", &[]),
    row(Point::Exit(Source::CallFunction), Host, "irq_vectors", "call_function_single_exit", &[]),
    row(Point::Enter(Source::IrqWork), Host, "irq_vectors", "irq_work_entry", &[]),
    row(Point::Exit(Source::IrqWork), Host, "irq_vectors", "irq_work_exit", &[]),
    row(Point::WorkStart, Host, "workqueue", "workqueue_execute_start", &["function"]),
    row(Point::WorkEnd, Host, "workqueue", "workqueue_execute_end", &[]),
    needed(Point::Block(Kind::Complete), Host, "block", "block_rq_complete", &["dev"]),
    row(Point::Block(Kind::Requeue), Host, "block", "block_rq_requeue", &["dev"]),
    needed(Point::Block(Kind::Issue), Host, "block", "block_rq_issue", &["dev"]),
    row(Point::Block(Kind::Queue), Host, "block", "block_getrq", &["dev"]),
    row(Point::CommitBegin, FileSystem, "jbd2", "jbd2_start_commit", &["dev", "transaction"]),
    row(Point::CommitEnd, FileSystem, "jbd2", "jbd2_end_commit", &["dev", "transaction"]),
    row(Point::WritebackBegin, Host, "writeback", "writeback_start", &WRITEBACK),
    row(Point::WritebackEnd, Host, "writeback", "writeback_written", &WRITEBACK),
    row(Point::Extent, FileSystem, "ext4", "ext4_ext_map_blocks_exit", &EXTENT),
    row(Point::Extent, FileSystem, "ext4", "ext4_ind_map_blocks_exit", &EXTENT),
    row(
        Point::FoundExtent,
        FileSystem,
        "ext4",
        "ext4_es_lookup_extent_exit",
        &["dev", "ino", "lblk", "pblk", "len", "status", "found"],
    ),
    row(Point::CallEnter, Task, "raw_syscalls", "sys_enter", &["id", "args"]),
    row(Point::CallExit, Task, "raw_syscalls", "sys_exit", &["id", "ret"]),
    row(Point::FileRead, Task, "filemap", "mm_filemap_get_pages", &["s_dev", "i_ino", "index", "last_index"]),
    row(Point::FileFault, Task, "filemap", "mm_filemap_fault", &["s_dev", "i_ino", "index"]),
    row(Point::FileWrite, Task, "ext4", "ext4_da_write_begin", &["dev", "ino", "pos", "len"]),
    row(Point::FileWrite, Task, "ext4", "ext4_write_begin", &["dev", "ino", "pos", "len"]),
    row(
        Point::Direct,
        Task,
        "iomap",
        "iomap_dio_rw_begin",
        &["dev", "ino", "isize", "pos", "count", "ki_flags", "dio_flags", "aio"],
    ),
    row(Point::FileDelete, Task, "ext4", "ext4_evict_inode", &["dev", "ino", "nlink"]),
    row(Point::FileSync, Task, "ext4", "ext4_sync_file_enter", &["dev", "ino"]),
    row(Point::Submit, Task, "block", "block_bio_queue", &["dev", "sector", "nr_sector", "rwbs"]),
    row(Point::Change, Task, "jbd2", "jbd2_handle_stats", &["dev", "dirtied_blocks"]),
    row(Point::BufferRead, Task, "block", "block_touch_buffer", &["dev", "sector", "size"]),
    row(Point::BufferWrite, Task, "block", "block_dirty_buffer", &["dev", "sector", "size"]),
    row(Point::Throttle, Task, "writeback", "balance_dirty_pages", &[]),
    // Its trigger records the call stacks of waits. The switches themselves are recorded for the whole host.
    row(Point::Switch, Task, "sched", "sched_switch", &["prev_pid", "prev_state", "next_pid", "next_comm"]),
];

const EXTENT: [&str; 6] = ["dev", "ino", "lblk", "pblk", "len", "ret"];

const WRITEBACK: [&str; 3] = ["name", "reason", "nr_pages"];

/// The call stack of a thread, which the trigger of `sched_switch` records.
pub(super) const STACK: Tracepoint = row(Point::Stack, Task, "ftrace", "kernel_stack", &["caller"]);

/// Bits of `common_flags`.
const IN_INTERRUPT: u8 = 0x08;
const IN_SOFTIRQ: u8 = 0x10;

/// Decoder of the records of one tracepoint.
#[derive(Debug, Clone)]
pub(super) struct Decoder {
    pub(super) tracepoint: Tracepoint,
    /// Number of the tracepoint in this kernel.
    pub(super) id: u16,
    flags: Field,
    thread: Field,
    fields: Vec<Field>,
    block: Option<Layout>,
}

impl Decoder {
    /// Reads the `format` file of the tracepoint. The error says what is missing or wrong in it.
    pub(super) fn parse(tracepoint: Tracepoint, text: &str) -> Result<Self, String> {
        let id = text
            .lines()
            .find_map(|line| line.strip_prefix("ID:"))
            .and_then(|id| id.trim().parse().ok())
            .ok_or("there is no line `ID:` with a number")?;
        let field = |name: &str| find_any(text, name)?.ok_or_else(|| format!("there is no field `{name}`"));
        Ok(Self {
            tracepoint,
            id,
            flags: field("common_flags")?,
            thread: field("common_pid")?,
            fields: tracepoint.fields.iter().map(|name| field(name)).collect::<Result<_, _>>()?,
            block: match tracepoint.point {
                Point::Block(kind) => Some(Layout::parse(kind, text)?),
                _ => None,
            },
        })
    }

    /// Decodes a record. `None` if it is too short; an event that says nothing has no kind.
    pub(super) fn decode(
        &self,
        raw: &[u8],
        time_ns: u64,
        cpu: u16,
        symbols: &Symbols,
    ) -> Option<Option<SystemEvent>> {
        let flags = *raw.get(self.flags.offset)?;
        let context = match flags {
            flags if flags & IN_INTERRUPT != 0 => Context::Interrupt,
            flags if flags & IN_SOFTIRQ != 0 => Context::Softirq,
            _ => Context::Process,
        };
        let thread = number(raw, self.thread)? as u32;
        let kind = self.kind(raw, symbols)?;
        Some(kind.map(|kind| SystemEvent { time_ns, cpu, thread, context, kind }))
    }

    fn kind(&self, raw: &[u8], symbols: &Symbols) -> Option<Option<EventKind>> {
        let field = |index: usize| number(raw, self.fields[index]);
        let kind = match self.tracepoint.point {
            Point::Switch => EventKind::Switch {
                previous: field(0)? as u32,
                state: fields::run_state(field(1)?),
                next: field(2)? as u32,
                next_name: ProcessName(bytes(raw, self.fields[3])?.try_into().ok()?),
            },
            Point::Waking => EventKind::Waking { thread: field(0)? as u32 },
            Point::Wakeup => EventKind::Wakeup { thread: field(0)? as u32 },
            Point::NewTask => fields::fork(field(0)? as u32, field(1)?),
            Point::Exec => EventKind::Exec { name: file_name(raw, field(0)? as u32)? },
            Point::Stack => EventKind::Stack(symbols.cause(raw.get(self.fields[0].offset..)?)),
            Point::CallEnter => {
                let arguments = self.fields[1];
                let argument = |index: usize| {
                    let size = arguments.size / 6;
                    number(raw, Field { offset: arguments.offset + index * size, size })
                };
                let arguments = [argument(0)?, argument(1)?, argument(2)?, argument(3)?];
                EventKind::CallEnter { call: field(0)? as u16, arguments }
            }
            Point::CallExit => {
                EventKind::CallExit { call: field(0)? as u16, result: field(1)?.cast_signed() }
            }
            Point::Enter(source) => EventKind::InterruptEnter { source, number: self.first(raw)? },
            Point::Exit(source) => EventKind::InterruptExit { source, number: self.first(raw)? },
            Point::FileRead => {
                let (first, last) = (field(2)?, field(3)?);
                EventKind::FileRead(FileRange {
                    device: field(0)? as u32,
                    inode: field(1)?,
                    offset_bytes: first.saturating_mul(PAGE_BYTES),
                    length_bytes: last.saturating_sub(first).saturating_add(1).saturating_mul(PAGE_BYTES),
                })
            }
            Point::FileFault => EventKind::FileFault(FileRange {
                device: field(0)? as u32,
                inode: field(1)?,
                offset_bytes: field(2)?.saturating_mul(PAGE_BYTES),
                length_bytes: PAGE_BYTES,
            }),
            Point::FileWrite => EventKind::FileWrite(FileRange {
                device: field(0)? as u32,
                inode: field(1)?,
                offset_bytes: field(2)?,
                length_bytes: field(3)?,
            }),
            Point::Direct => {
                return Some(fields::direct(DirectTransfer {
                    range: FileRange {
                        device: field(0)? as u32,
                        inode: field(1)?,
                        offset_bytes: field(3)?,
                        length_bytes: field(4)?,
                    },
                    file_bytes: field(2)?,
                    writes: field(5)? & fields::OPERATION_WRITES != 0,
                    is_async: field(7)? != 0,
                    is_awaited: field(6)? & fields::DIRECT_AWAITED != 0,
                }));
            }
            Point::FileDelete => return Some(fields::file_delete(field(0)? as u32, field(1)?, field(2)?)),
            Point::FileSync => EventKind::FileSync { device: field(0)? as u32, inode: field(1)? },
            Point::Submit => {
                let letters = bytes(raw, self.fields[3])?;
                return Some(fields::submission(field(0)? as u32, letters, field(1)?, field(2)?));
            }
            Point::BufferRead | Point::BufferWrite => {
                let is_dirtied = self.tracepoint.point == Point::BufferWrite;
                fields::buffer(field(0)? as u32, field(1)?, field(2)? as u32, is_dirtied)
            }
            Point::Throttle => EventKind::Throttle,
            Point::CommitBegin | Point::CommitEnd => EventKind::Commit {
                device: field(0)? as u32,
                transaction: field(1)? as u32,
                begins: self.tracepoint.point == Point::CommitBegin,
            },
            Point::WritebackBegin | Point::WritebackEnd => {
                let name = bytes(raw, self.fields[0])?.split(|byte| *byte == 0).next()?;
                // What is dirty of another device than a disk has another name.
                let Some(device) = fields::named_device(name) else { return Some(None) };
                EventKind::Writeback {
                    device,
                    reason: fields::writeback_reason(field(1)?),
                    pages: field(2)?.cast_signed(),
                    begins: self.tracepoint.point == Point::WritebackBegin,
                }
            }
            Point::Change => return Some(fields::change(field(0)? as u32, field(1)?)),
            Point::Extent => {
                let extent = self.extent(raw, 0)?;
                return Some(fields::mapped_extent(extent, (field(5)? as u32).cast_signed().into()));
            }
            Point::FoundExtent => {
                let extent = self.extent(raw, field(4)? as u32)?;
                return Some(fields::found_extent(extent, field(6)? != 0, field(5)?));
            }
            Point::WorkStart => {
                let is_loop = symbols.is_loop_work(field(0)?);
                EventKind::WorkStart(if is_loop { Work::LoopDevice } else { Work::Other })
            }
            Point::WorkEnd => EventKind::WorkEnd,
            Point::Block(_) => EventKind::Block(BlockStep {
                device: field(0)? as u32,
                event: self.block.as_ref()?.decode(raw, number(raw, self.thread)? as u32)?,
            }),
        };
        Some(Some(kind))
    }

    /// The number of an interrupt, 0 where it has none.
    fn first(&self, raw: &[u8]) -> Option<u16> {
        match self.fields.first() {
            Some(field) => number(raw, *field).map(|number| number as u16),
            None => Some(0),
        }
    }

    fn extent(&self, raw: &[u8], blocks: u32) -> Option<FileExtent> {
        let field = |index: usize| number(raw, self.fields[index]);
        Some(FileExtent {
            device: field(0)? as u32,
            inode: field(1)?,
            file_block: field(2)?,
            device_block: field(3)?,
            blocks,
        })
    }
}

/// The field, also if its data lie elsewhere in the record.
fn find_any(text: &str, name: &str) -> Result<Option<Field>, String> {
    match find(text, name)? {
        Some(field) => Ok(Some(field)),
        None => find(&text.replace("__data_loc char[] ", "u32 "), name),
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

/// The file name of a path in a record, whose place says offset and length.
fn file_name(raw: &[u8], place: u32) -> Option<ProcessName> {
    let (offset, length) = ((place & 0xffff) as usize, (place >> 16) as usize);
    let path = raw.get(offset..)?.get(..length)?;
    let path = path.split(|byte| *byte == 0).next()?;
    Some(fields::program_name(path))
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::system::RunState;

    /// As Linux 6.18 describes its `sched_switch`.
    pub(in crate::capture::system) const SWITCH: &str = "\
name: sched_switch
ID: 372
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:int prev_prio;\toffset:28;\tsize:4;\tsigned:1;
\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;
\tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;
\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;
\tfield:int next_prio;\toffset:60;\tsize:4;\tsigned:1;
";

    fn switch() -> Decoder {
        Decoder::parse(TRACEPOINTS[0], SWITCH).unwrap()
    }

    #[test]
    fn switch_is_decoded_with_the_kernels_description() {
        let mut raw = [0; 64];
        raw[2] = 0x10;
        raw[4..8].copy_from_slice(&26_136_u32.to_ne_bytes());
        raw[24..28].copy_from_slice(&26_136_u32.to_ne_bytes());
        raw[32] = 2;
        raw[40..42].copy_from_slice(b"cp");
        raw[56..60].copy_from_slice(&7_u32.to_ne_bytes());
        let decoder = switch();
        assert_eq!(decoder.id, 372);
        let event = decoder.decode(&raw, 99, 1, &Symbols::default()).unwrap().unwrap();
        assert_eq!(
            (event.time_ns, event.cpu, event.thread, event.context),
            (99, 1, 26_136, Context::Softirq)
        );
        let EventKind::Switch { previous, state, next, next_name } = event.kind else { panic!("{event:?}") };
        assert_eq!((previous, state, next), (26_136, RunState::Uninterruptible, 7));
        assert_eq!(next_name.to_string(), "cp");
        for length in 0..60 {
            assert_eq!(decoder.decode(&raw[..length], 0, 0, &Symbols::default()), None, "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_records_yield_a_result(
            raw in prop::collection::vec(any::<u8>(), 0..120),
            index in 0..TRACEPOINTS.len(),
            offsets in prop::collection::vec((0_usize..130, prop::sample::select(vec![1_usize, 2, 4, 8, 16, 48])), 8),
        ) {
            let tracepoint = TRACEPOINTS[index];
            let mut text = SWITCH.to_owned();
            for (name, (offset, size)) in tracepoint.fields.iter().zip(offsets) {
                text += &format!("\tfield:u64 {name};\toffset:{offset};\tsize:{size};\tsigned:0;\n");
            }
            if let Ok(decoder) = Decoder::parse(tracepoint, &text) {
                let decoded = decoder.decode(&raw, 7, 3, &Symbols::default());
                if let Some(Some(event)) = decoded {
                    prop_assert_eq!((event.time_ns, event.cpu), (7, 3));
                    prop_assert!(raw.len() >= 8, "an event has the number of its thread");
                }
            }
        }
    }

    #[test]
    fn buffer_is_named_by_the_number_of_its_block() {
        let tracepoint = TRACEPOINTS.iter().find(|row| row.point == Point::BufferWrite).unwrap();
        let fields = "\tfield:dev_t dev;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:sector_t sector;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:size_t size;\toffset:24;\tsize:8;\tsigned:0;\n";
        let decoder = Decoder::parse(*tracepoint, &format!("{SWITCH}{fields}")).unwrap();
        let mut raw = [0; 32];
        raw[8..12].copy_from_slice(&(7_u32 << 20).to_ne_bytes());
        raw[16..24].copy_from_slice(&65_538_u64.to_ne_bytes());
        raw[24..32].copy_from_slice(&4096_u64.to_ne_bytes());
        let event = decoder.decode(&raw, 1, 0, &Symbols::default()).unwrap().unwrap();
        let buffer = EventKind::Buffer { device: 7 << 20, sector: 65_538 * 8, bytes: 4096, is_dirtied: true };
        assert_eq!(event.kind, buffer);
    }

    #[test]
    fn place_of_text_is_a_field() {
        let text = "\tfield:__data_loc char[] filename;\toffset:8;\tsize:4;\tsigned:0;";
        assert_eq!(find_any(text, "filename"), Ok(Some(Field { offset: 8, size: 4 })));
        assert_eq!(find_any(text, "char"), Ok(None));
    }

    /// A record with these fields, and its decoder.
    fn record(name: &str, fields: &[(&str, Vec<u8>)]) -> Option<EventKind> {
        let tracepoint = TRACEPOINTS.iter().find(|row| row.name == name).expect("it is listed");
        let (mut text, mut raw) =
            (SWITCH.split("\tfield:char prev_comm").next().unwrap().to_owned(), vec![0; 8]);
        for (field, bytes) in fields {
            let (offset, size) = (raw.len(), bytes.len());
            text += &format!("\tfield:u64 {field};\toffset:{offset};\tsize:{size};\tsigned:0;\n");
            raw.extend(bytes);
        }
        let decoder = Decoder::parse(*tracepoint, &text).unwrap();
        decoder.decode(&raw, 1, 0, &Symbols::default()).expect("it is whole").map(|event| event.kind)
    }

    #[test]
    fn record_and_its_text_are_the_same_event() {
        let device = || (7_u32 << 20 | 2).to_ne_bytes().to_vec();
        let four = |number: i32| number.to_ne_bytes().to_vec();
        let eight = |number: u64| number.to_ne_bytes().to_vec();
        let name = |name: &[u8]| [name, &[0; 16][name.len()..]].concat();
        let cases = [
            (
                "sched_switch",
                vec![
                    ("prev_pid", four(5)),
                    ("prev_state", eight(2)),
                    ("next_comm", name(b"cp")),
                    ("next_pid", four(6)),
                ],
                "prev_comm=a prev_pid=5 prev_prio=120 prev_state=D ==> next_comm=cp next_pid=6 next_prio=120",
            ),
            ("task_newtask", vec![("pid", four(5)), ("clone_flags", eight(0x3d_0f00))], {
                "pid=5 comm=a clone_flags=3d0f00 oom_score_adj=0"
            }),
            (
                "ext4_ind_map_blocks_exit",
                vec![
                    ("dev", device()),
                    ("ino", eight(12)),
                    ("pblk", eight(3296)),
                    ("lblk", four(3)),
                    ("len", four(32)),
                    ("ret", four(5)),
                ],
                "dev 7,2 ino 12 flags  lblk 3 pblk 3296 len 32 mflags M ret 5",
            ),
            (
                "ext4_ext_map_blocks_exit",
                vec![
                    ("dev", device()),
                    ("ino", eight(12)),
                    ("pblk", eight(0)),
                    ("lblk", four(3)),
                    ("len", four(32)),
                    ("ret", four(-5)),
                ],
                "dev 7,2 ino 12 flags CREATE lblk 3 pblk 0 len 32 mflags  ret -5",
            ),
            (
                "ext4_es_lookup_extent_exit",
                vec![
                    ("dev", device()),
                    ("ino", eight(12)),
                    ("lblk", four(20)),
                    ("len", four(8)),
                    ("pblk", eight(3296)),
                    ("status", vec![0x11]),
                    ("found", four(1)),
                ],
                "dev 7,2 ino 12 found 1 [20/8) 3296 WR",
            ),
            (
                "mm_filemap_get_pages",
                vec![
                    ("s_dev", device()),
                    ("i_ino", eight(0x1f)),
                    ("index", eight(1)),
                    ("last_index", eight(2)),
                ],
                "dev=7:2 ino=1f ofs=4096-12287",
            ),
            (
                "block_dirty_buffer",
                vec![("dev", device()), ("sector", eight(163_907)), ("size", eight(4096))],
                "7,2 sector=163907 size=4096",
            ),
            ("ext4_evict_inode", vec![("dev", device()), ("ino", eight(31)), ("nlink", four(1))], {
                "dev 7,2 ino 31 nlink 1"
            }),
            ("ext4_sync_file_enter", vec![("dev", device()), ("ino", eight(31))], {
                "dev 7,2 ino 31 parent 2 datasync 1 "
            }),
            (
                "iomap_dio_rw_begin",
                vec![
                    ("dev", device()),
                    ("ino", eight(0x1f)),
                    ("isize", eight(5000)),
                    ("pos", eight(4096)),
                    ("count", eight(65_536)),
                    ("ki_flags", four(0x2_0000)),
                    ("dio_flags", four(0)),
                    ("aio", vec![1]),
                ],
                "dev 7:2 ino 0x1f size 0x1388 offset 0x1000 length 0x10000 done_before 0x0 flags DIRECT dio_flags  aio 1",
            ),
            (
                "iomap_dio_rw_begin",
                vec![
                    ("dev", device()),
                    ("ino", eight(0x1f)),
                    ("isize", eight(0)),
                    ("pos", eight(0)),
                    ("count", eight(512)),
                    ("ki_flags", four(0x6_0000)),
                    ("dio_flags", four(1)),
                    ("aio", vec![1]),
                ],
                "dev 7:2 ino 0x1f size 0x0 offset 0x0 length 0x200 done_before 0x0 flags DIRECT|WRITE dio_flags \
                 DIO_FORCE_WAIT aio 1",
            ),
            (
                "block_bio_queue",
                vec![
                    ("dev", device()),
                    ("sector", eight(24)),
                    ("nr_sector", four(16)),
                    ("rwbs", name(b"WS")),
                ],
                "7,2 WS 24 + 16 [cp]",
            ),
            (
                "block_bio_queue",
                vec![("dev", device()), ("sector", eight(24)), ("nr_sector", four(8)), ("rwbs", name(b"D"))],
                "7,2 D 24 + 8 [rm]",
            ),
            ("jbd2_handle_stats", vec![("dev", device()), ("dirtied_blocks", four(3))], {
                "dev 7,2 tid 12 type 2 line_no 3211 interval 0 sync 0 requested_blocks 8 dirtied_blocks 3"
            }),
            ("jbd2_handle_stats", vec![("dev", device()), ("dirtied_blocks", four(0))], {
                "dev 7,2 tid 12 type 2 line_no 3211 interval 0 sync 0 requested_blocks 8 dirtied_blocks 0"
            }),
            (
                "writeback_written",
                vec![("name", name(b"7:2")), ("nr_pages", eight(1024)), ("reason", four(3))],
                "bdi 7:2: sb_dev 7:2 nr_pages=1024 sync_mode=0 kupdate=1 range_cyclic=1 background=0 reason=periodic cgroup_ino=1",
            ),
            (
                "writeback_start",
                vec![("name", name(b"fuseblk")), ("nr_pages", eight(1)), ("reason", four(0))],
                "bdi fuseblk: sb_dev 0:0 nr_pages=1 sync_mode=0 kupdate=1 range_cyclic=1 background=1 reason=background cgroup_ino=1",
            ),
            (
                "block_rq_complete",
                vec![
                    ("dev", device()),
                    ("sector", eight(u64::MAX)),
                    ("nr_sector", four(0)),
                    ("rwbs", name(b"FF")),
                    ("error", four(-5)),
                ],
                "7,2 FF () 18446744073709551615 + 0 none,0,0 [-5]",
            ),
        ];
        for (name, fields, details) in cases {
            let line = format!("<idle>-0 [000] ..... 0.000000001: {name}: {details}\n");
            let source =
                crate::Source::from_stream("text", Box::new(std::io::Cursor::new(line.clone()))).unwrap();
            let mut text = crate::system::text::SystemText::new(source);
            let event = text.next_event().unwrap().map(|event| event.kind);
            assert_eq!(text.counts().malformed_lines, 0, "{line}");
            assert_eq!(event, record(name, &fields), "{line}");
        }
    }

    #[test]
    fn description_without_a_field_is_refused() {
        let problem = Decoder::parse(TRACEPOINTS[0], &SWITCH.replace("prev_state", "state")).unwrap_err();
        assert_eq!(problem, "there is no field `prev_state`");
        assert_eq!(Decoder::parse(TRACEPOINTS[0], "").unwrap_err(), "there is no line `ID:` with a number");
    }

    #[test]
    fn name_of_a_program_is_the_last_part_of_its_path() {
        let mut raw = vec![0; 8];
        raw.extend(b"/usr/bin/cp\0");
        let name = |place: u32| file_name(&raw, place).map(|name| name.to_string());
        assert_eq!(name(8 | 12 << 16), Some("cp".to_owned()));
        assert_eq!(name(8 | 13 << 16), None);
    }
}
