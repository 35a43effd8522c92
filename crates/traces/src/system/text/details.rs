//! Fields behind the name of an event, as the kernel and the plugins of trace-cmd print them.

use std::str;

use seeklab_core::{Operation, ProcessName};

use super::super::event::{BlockStep, EventKind, FileExtent, FileRange, InterruptSource, Work};
use super::super::fields::{self, DirectTransfer, PAGE_BYTES, is_loop_work};
use super::line::Stamped;
use crate::event::block_event::{BlockEvent, Kind, operation};
use crate::event::details::Details as BlockDetails;
use crate::event::text::error_number;
use crate::parse::number::{hexadecimal, unsigned};

/// Letters of the states of a thread, by the bits of `prev_state`. Older plugins call an idle thread `W`.
const STATE_LETTERS: [(u8, u64); 9] = [
    (b'S', 0x01),
    (b'D', 0x02),
    (b'T', 0x04),
    (b't', 0x08),
    (b'X', 0x10),
    (b'Z', 0x20),
    (b'P', 0x40),
    (b'I', 0x80),
    (b'W', 0x80),
];

/// Content of an event.
#[derive(Debug)]
pub(super) enum Details {
    /// An event of a system-level trace.
    Event(EventKind),
    /// A call stack follows.
    Stack,
    /// So many events were lost.
    Lost(u64),
    /// An event that says nothing.
    Nothing,
    /// An event of another kind, by its name.
    Other(String),
    /// The fields are not those of the event.
    Malformed,
}

/// The text behind the first `mark`.
fn after<'a>(text: &'a [u8], mark: &str) -> Option<&'a [u8]> {
    let at = text.windows(mark.len()).position(|window| window == mark.as_bytes())?;
    Some(&text[at + mark.len()..])
}

/// The text before and behind the last `mark`. Names of threads may contain anything, and stand before.
fn around<'a>(text: &'a [u8], mark: &str) -> Option<(&'a [u8], &'a [u8])> {
    let at = text.windows(mark.len()).rposition(|window| window == mark.as_bytes())?;
    Some((&text[..at], &text[at + mark.len()..]))
}

/// The decimal number that the text begins with.
fn number(text: &[u8]) -> Option<u64> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    unsigned(&text[..end]).ok()
}

fn signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => 0_i64.checked_sub_unsigned(number(digits)?),
        None => i64::try_from(number(text)?).ok(),
    }
}

fn hex(text: &[u8]) -> Option<u64> {
    let text = text.strip_prefix(b"0x").unwrap_or(text);
    let end = text.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(text.len());
    hexadecimal(&text[..end]).ok()
}

fn small(number: u64) -> Option<u32> {
    u32::try_from(number).ok()
}

/// The major number above 20 bits of minor.
fn device_number(major: u64, minor: u64) -> Option<u32> {
    (major < 1 << 12 && minor < 1 << 20).then_some((major << 20 | minor) as u32)
}

/// The device in `7,2 …` or `7:2 …`.
fn device(text: &[u8]) -> Option<u32> {
    let at = text.iter().position(|byte| matches!(byte, b',' | b':'))?;
    device_number(unsigned(&text[..at]).ok()?, number(&text[at + 1..])?)
}

fn process_name(name: &[u8]) -> ProcessName {
    let mut bytes = [0; 16];
    let length = name.len().min(15);
    bytes[..length].copy_from_slice(&name[..length]);
    ProcessName(bytes)
}

/// Name and number of a thread in `name:number [priority] rest` of the plugins, and the rest.
fn plugin_thread(text: &[u8]) -> Option<(&[u8], u32, &[u8])> {
    let (thread, rest) = around(text, " [")?;
    let (name, thread) = around(thread, ":")?;
    Some((name, small(unsigned(thread).ok()?)?, after(rest, "]")?.trim_ascii()))
}

impl Details {
    /// Parses the fields of an event.
    pub(super) fn parse(stamped: &Stamped<'_>) -> Self {
        let text = stamped.details;
        let name = str::from_utf8(stamped.name).unwrap_or_default();
        let kind =
            match name {
                "sched_switch" => switch(text),
                "sched_waking" => woken(text).map(|thread| EventKind::Waking { thread }),
                "sched_wakeup" => woken(text).map(|thread| EventKind::Wakeup { thread }),
                "task_newtask" => new_task(text),
                "sched_process_exec" => executed(text),
                "irq_handler_entry" | "irq_handler_exit" => after(text, "irq=")
                    .and_then(|text| interrupt(name, InterruptSource::Device, number(text)?)),
                "softirq_entry" | "softirq_exit" => after(text, "vec=")
                    .and_then(|text| interrupt(name, InterruptSource::Softirq, number(text)?)),
                "local_timer_entry" | "local_timer_exit" => interrupt(name, InterruptSource::LocalTimer, 0),
                "reschedule_entry" | "reschedule_exit" => interrupt(name, InterruptSource::Reschedule, 0),
                "call_function_entry"
                | "call_function_exit"
                | "call_function_single_entry"
                | "call_function_single_exit" => interrupt(name, InterruptSource::CallFunction, 0),
                "irq_work_entry" | "irq_work_exit" => interrupt(name, InterruptSource::IrqWork, 0),
                "workqueue_execute_start" => work(text),
                "workqueue_execute_end" => Some(EventKind::WorkEnd),
                "block_rq_complete" => block(Kind::Complete, stamped),
                "block_rq_requeue" => block(Kind::Requeue, stamped),
                "block_rq_issue" => block(Kind::Issue, stamped),
                "block_getrq" => block(Kind::Queue, stamped),
                "jbd2_start_commit" | "jbd2_end_commit" => commit(text, name == "jbd2_start_commit"),
                "writeback_start" | "writeback_written" => {
                    return optional(writeback(text, name == "writeback_start"));
                }
                "ext4_ext_map_blocks_exit" | "ext4_ind_map_blocks_exit" => return optional(mapped(text)),
                "ext4_es_lookup_extent_exit" => return optional(looked_up(text)),
                "sys_enter" => call(text),
                "sys_exit" => call_end(text),
                "mm_filemap_get_pages" => file_read(text),
                "mm_filemap_fault" => file_fault(text),
                "ext4_da_write_begin" | "ext4_write_begin" => file_write(text),
                "iomap_dio_rw_begin" => return optional(direct(text)),
                "ext4_evict_inode" => return optional(evicted(text)),
                "ext4_sync_file_enter" => file_sync(text),
                "block_bio_queue" => return optional(submission(text)),
                "jbd2_handle_stats" => return optional(change(text)),
                "block_touch_buffer" | "block_dirty_buffer" => buffer(text, name == "block_dirty_buffer"),
                "balance_dirty_pages" => Some(EventKind::Throttle),
                "kernel_stack" | "<stack" => return Self::Stack,
                "user_stack" => return Self::Nothing,
                "PERF_RECORD_LOST" | "PERF_RECORD_LOST_SAMPLES" => {
                    return after(text, "lost ").and_then(number).map_or(Self::Malformed, Self::Lost);
                }
                _ if name.starts_with("PERF_RECORD_") => return Self::Nothing,
                "" => return Self::Malformed,
                _ => return Self::Other(name.to_owned()),
            };
        kind.map_or(Self::Malformed, Self::Event)
    }
}

/// `None` is malformed, and no kind says nothing.
fn optional(kind: Option<Option<EventKind>>) -> Details {
    match kind {
        Some(Some(kind)) => Details::Event(kind),
        Some(None) => Details::Nothing,
        None => Details::Malformed,
    }
}

/// `prev_comm=a prev_pid=1 … prev_state=R+ ==> next_comm=b next_pid=2 …`, or `a:1 [120] R ==> b:2 [120]`.
fn switch(text: &[u8]) -> Option<EventKind> {
    let (left, right) = around(text, " ==> ")?;
    let (previous, state, next, name) = if right.starts_with(b"next_comm=") && left.starts_with(b"prev_comm=")
    {
        let (_, previous) = around(left, " prev_pid=")?;
        let (_, state) = around(left, " prev_state=")?;
        let (name, next) = around(right, " next_pid=")?;
        (small(number(previous)?)?, state, small(number(next)?)?, name.strip_prefix(b"next_comm=")?)
    } else {
        let (_, previous, state) = plugin_thread(left)?;
        let (name, next, _) = plugin_thread(right)?;
        (previous, state, next, name)
    };
    let bits = state.iter().filter_map(|letter| STATE_LETTERS.iter().find(|(known, _)| known == letter));
    let state = fields::run_state(bits.fold(0, |state, (_, bits)| state | bits));
    Some(EventKind::Switch { previous, state, next, next_name: process_name(name) })
}

/// `comm=a pid=1 prio=120 …`, or `a:1 [120] CPU:000`.
fn woken(text: &[u8]) -> Option<u32> {
    match around(text, " pid=") {
        Some((_, thread)) => small(number(thread)?),
        None => Some(plugin_thread(text)?.1),
    }
}

/// `pid=1 comm=a clone_flags=4100 …`.
fn new_task(text: &[u8]) -> Option<EventKind> {
    let child = small(number(text.strip_prefix(b"pid=")?)?)?;
    Some(fields::fork(child, hex(around(text, " clone_flags=")?.1)?))
}

/// `filename=/usr/bin/a pid=1 old_pid=1`.
fn executed(text: &[u8]) -> Option<EventKind> {
    let path = around(text.strip_prefix(b"filename=")?, " pid=")?.0;
    Some(EventKind::Exec { name: fields::program_name(path) })
}

fn interrupt(name: &str, source: InterruptSource, number: u64) -> Option<EventKind> {
    let number = u16::try_from(number).ok()?;
    Some(match name.ends_with("_entry") {
        true => EventKind::InterruptEnter { source, number },
        false => EventKind::InterruptExit { source, number },
    })
}

/// `work struct 0xffff8881024bd490: function loop_workfn`.
fn work(text: &[u8]) -> Option<EventKind> {
    let function = str::from_utf8(after(text, " function ")?).ok()?;
    let function = function.split([' ', '.', '+']).next()?;
    Some(EventKind::WorkStart(if is_loop_work(function) { Work::LoopDevice } else { Work::Other }))
}

fn block(kind: Kind, stamped: &Stamped<'_>) -> Option<EventKind> {
    let details = BlockDetails::parse(stamped.details)?;
    let (op, fua) = operation(kind, details.letters, details.sectors);
    let has_error = kind == Kind::Complete;
    let event = BlockEvent {
        kind,
        op,
        fua,
        // A flush has no address.
        sector: if op == Some(Operation::Flush) { 0 } else { details.sector },
        sectors: details.sectors,
        error: if has_error { error_number(details.last)? } else { 0 },
        process: stamped.thread,
        command: match kind {
            Kind::Issue | Kind::Queue => process_name(details.last),
            _ => ProcessName::default(),
        },
    };
    let (major, minor) = details.device;
    Some(EventKind::Block(BlockStep { device: device_number(major.into(), minor.into())?, event }))
}

/// `dev 7,0 transaction 9 …`.
fn commit(text: &[u8], begins: bool) -> Option<EventKind> {
    let transaction = number(after(text, " transaction ")?)? as u32;
    Some(EventKind::Commit { device: device(text.strip_prefix(b"dev ")?)?, transaction, begins })
}

/// `bdi 7:2: sb_dev 0:0 nr_pages=1024 … reason=periodic cgroup_ino=1`.
fn writeback(text: &[u8], begins: bool) -> Option<Option<EventKind>> {
    let name = text.strip_prefix(b"bdi ")?.split(|byte| *byte == b' ').next()?.strip_suffix(b":")?;
    let pages = signed(after(text, " nr_pages=")?)?;
    let reason = after(text, " reason=")?.split(|byte| *byte == b' ').next()?;
    let reason = fields::writeback_reason_named(reason);
    Some(fields::named_device(name).map(|device| EventKind::Writeback { device, reason, pages, begins }))
}

/// `dev 7,0 tid 9 … dirtied_blocks 3`.
fn change(text: &[u8]) -> Option<Option<EventKind>> {
    let blocks = number(after(text, " dirtied_blocks ")?)?;
    Some(fields::change(device(text.strip_prefix(b"dev ")?)?, blocks))
}

/// `dev 7,1 ino 12 flags  lblk 1248 pblk 3296 len 32 mflags M ret 32`.
fn mapped(text: &[u8]) -> Option<Option<EventKind>> {
    let extent = FileExtent {
        device: device(text.strip_prefix(b"dev ")?)?,
        inode: number(after(text, " ino ")?)?,
        file_block: number(after(text, " lblk ")?)?,
        device_block: number(after(text, " pblk ")?)?,
        blocks: 0,
    };
    Some(fields::mapped_extent(extent, signed(after(text, " ret ")?)?))
}

/// `dev 7,1 ino 12 found 1 [20/8) 3296 W`: block, length, place and state.
fn looked_up(text: &[u8]) -> Option<Option<EventKind>> {
    let range = after(text, " [")?;
    let place = after(range, ") ")?;
    let (blocks, state) = (number(after(range, "/")?)?, after(place, " ").unwrap_or_default());
    let letters = [(b'W', 1), (b'U', 2), (b'D', 4), (b'H', 8), (b'R', 16)];
    let bits = |letter: &u8| letters.iter().find(|(known, _)| known == letter).map_or(0, |(_, bit)| *bit);
    let extent = FileExtent {
        device: device(text.strip_prefix(b"dev ")?)?,
        inode: number(after(text, " ino ")?)?,
        file_block: number(range)?,
        device_block: number(place)?,
        blocks: small(blocks)?,
    };
    let is_found = number(after(text, " found ")?)? != 0;
    let status = state.iter().take_while(|letter| letter.is_ascii_uppercase()).map(bits).sum();
    Some(fields::found_extent(extent, is_found, status))
}

/// `NR 16 (41, 2400, 0, 7fdf5f62b5e0, 1, 0)`, the arguments in hexadecimal digits.
fn call(text: &[u8]) -> Option<EventKind> {
    let call = signed(text.strip_prefix(b"NR ")?)? as u16;
    let list = after(text, "(")?;
    let end = list.iter().position(|byte| *byte == b')')?;
    let mut numbers = list[..end].split(|byte| *byte == b',').map(|part| hex(part.trim_ascii()));
    let mut next = || numbers.next().flatten();
    Some(EventKind::CallEnter { call, arguments: [next()?, next()?, next()?, next()?] })
}

/// `NR 1 = -2`.
fn call_end(text: &[u8]) -> Option<EventKind> {
    let call = signed(text.strip_prefix(b"NR ")?)? as u16;
    Some(EventKind::CallExit { call, result: signed(after(text, " = ")?)? })
}

/// Device and inode of `dev=254:0 ino=3c520 …`, the inode in hexadecimal digits.
fn file(text: &[u8]) -> Option<(u32, u64)> {
    Some((device(after(text, "dev=")?)?, hex(after(text, " ino=")?)?))
}

/// `dev=254:0 ino=3c520 ofs=0-4095`.
fn file_read(text: &[u8]) -> Option<EventKind> {
    let (device, inode) = file(text)?;
    let range = after(text, " ofs=")?;
    let (offset_bytes, last) = (number(range)?, number(after(range, "-")?)?);
    let length_bytes = last.saturating_sub(offset_bytes).saturating_add(1);
    Some(EventKind::FileRead(FileRange { device, inode, offset_bytes, length_bytes }))
}

fn file_fault(text: &[u8]) -> Option<EventKind> {
    let (device, inode) = file(text)?;
    let offset_bytes = number(after(text, " ofs=")?)?;
    Some(EventKind::FileFault(FileRange { device, inode, offset_bytes, length_bytes: PAGE_BYTES }))
}

/// `dev 7,1 ino 13 pos 3670016 len 262144`.
fn file_write(text: &[u8]) -> Option<EventKind> {
    Some(EventKind::FileWrite(FileRange {
        device: device(text.strip_prefix(b"dev ")?)?,
        inode: number(after(text, " ino ")?)?,
        offset_bytes: number(after(text, " pos ")?)?,
        length_bytes: number(after(text, " len ")?)?,
    }))
}

/// `dev 7:1 ino 0xd size 0x100000 offset 0x0 length 0x1000 done_before 0x0 flags DIRECT|WRITE dio_flags  aio 0`.
fn direct(text: &[u8]) -> Option<Option<EventKind>> {
    let flags = after(text, " flags ")?;
    let behind = after(flags, " dio_flags ")?;
    let has = |text: &[u8], name: &str| {
        let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
        text[..end].split(|byte| *byte == b'|').any(|flag| flag == name.as_bytes())
    };
    Some(fields::direct(DirectTransfer {
        range: FileRange {
            device: device(text.strip_prefix(b"dev ")?)?,
            inode: hex(after(text, " ino ")?)?,
            offset_bytes: hex(after(text, " offset ")?)?,
            length_bytes: hex(after(text, " length ")?)?,
        },
        file_bytes: hex(after(text, " size ")?)?,
        writes: has(flags, "WRITE"),
        is_async: number(around(text, " aio ")?.1)? != 0,
        is_awaited: has(behind, "DIO_FORCE_WAIT"),
    }))
}

/// `dev 7,1 ino 13 nlink 0`.
fn evicted(text: &[u8]) -> Option<Option<EventKind>> {
    let (inode, nlink) = (number(after(text, " ino ")?)?, number(after(text, " nlink ")?)?);
    Some(fields::file_delete(device(text.strip_prefix(b"dev ")?)?, inode, nlink))
}

/// `dev 7,1 ino 13 parent 2 datasync 0`.
fn file_sync(text: &[u8]) -> Option<EventKind> {
    let inode = number(after(text, " ino ")?)?;
    Some(EventKind::FileSync { device: device(text.strip_prefix(b"dev ")?)?, inode })
}

/// `7,1 RA 1594472 + 16 [cp]`.
fn submission(text: &[u8]) -> Option<Option<EventKind>> {
    let details = BlockDetails::parse(text)?;
    let device = device_number(details.device.0.into(), details.device.1.into())?;
    Some(fields::submission(device, details.letters, details.sector, details.sectors.into()))
}

/// `7,1 sector=163907 size=4096`.
fn buffer(text: &[u8], is_dirtied: bool) -> Option<EventKind> {
    let (block, bytes) = (number(after(text, " sector=")?)?, number(after(text, " size=")?)?);
    Some(fields::buffer(device(text)?, block, small(bytes)?, is_dirtied))
}
