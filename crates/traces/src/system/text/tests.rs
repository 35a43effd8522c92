//! Texts of perf and trace-cmd: single lines, recordings, and arbitrary ones.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use seeklab_core::Operation;

use super::super::event::{EventKind, FileExtent, FileRange, Work};
use super::super::processor::{Output, Processor, TracedDevice};
use super::super::tables::Role;
use super::*;
use crate::event::block_event::Kind;
use crate::system::WaitCause;

/// A loop device.
const DEVICE: u32 = 7 << 20 | 2;
/// Loop device of the recordings.
const RECORDED: u32 = 7 << 20;
/// Texts that the programs printed of `cp -r` of three files and a `sync`, on ext2. Events of other processes are left out.
const RECORDINGS: [&str; 2] = ["perf-script.txt.gz", "trace-cmd.txt.gz"];

fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/system-text").join(name)
}

fn read(text: &[u8]) -> (Vec<SystemEvent>, TextCounts) {
    if text.is_empty() {
        return (Vec::new(), TextCounts::default());
    }
    let source = Source::from_stream("text", Box::new(Cursor::new(text.to_vec()))).unwrap();
    let mut text = SystemText::new(source);
    let mut events = Vec::new();
    while let Some(event) = text.next_event().unwrap_or_default() {
        events.push(event);
    }
    (events, text.counts().clone())
}

/// The only event of a line behind the place of perf or trace-cmd.
fn kind(details: &str) -> EventKind {
    let lines = [
        format!(
            "   cp 4711 [001] 9.000000005: group:{details} ffffffff81b057cf f+0x1df ([kernel.kallsyms])\n"
        ),
        format!("   cp-4711  [001] 9.000000005: {details}\n"),
        format!("   cp-4711  (4700) [001] ..... 9.000000005: {details}\n"),
    ];
    let all = lines.map(|line| {
        let (events, counts) = read(line.as_bytes());
        assert_eq!((events.len(), counts.malformed_lines), (1, 0), "{line}");
        assert_eq!((events[0].time_ns, events[0].cpu, events[0].thread), (9_000_000_005, 1, 4711), "{line}");
        events[0].kind
    });
    assert_eq!(all[0], all[1]);
    assert_eq!(all[0], all[2]);
    all[0]
}

#[test]
fn fields_are_those_of_the_kernel() {
    let extent = FileExtent { device: DEVICE, inode: 12, file_block: 3, device_block: 3296, blocks: 5 };
    let range = FileRange { device: DEVICE, inode: 0x1f, offset_bytes: 4096, length_bytes: 8192 };
    let cases = [
        ("sched_waking: comm=a pid=9 b pid=77 prio=120 target_cpu=000", EventKind::Waking { thread: 77 }),
        ("sched_wakeup: kworker/u8:2:7316 [120] CPU:000", EventKind::Wakeup { thread: 7316 }),
        (
            "task_newtask: pid=5 comm=sh clone_flags=3d0f00 oom_score_adj=0",
            EventKind::Fork { child: 5, is_thread: true },
        ),
        ("sys_enter: NR 16 (41, 2400, 0, ff, 1, 0)", {
            EventKind::CallEnter { call: 16, arguments: [0x41, 0x2400, 0, 0xff] }
        }),
        ("sys_exit: NR 59 = -2", EventKind::CallExit { call: 59, result: -2 }),
        ("irq_handler_entry: irq=36 name=virtio1", {
            EventKind::InterruptEnter { source: InterruptSource::Device, number: 36 }
        }),
        ("softirq_exit: vec=4 [action=BLOCK]", {
            EventKind::InterruptExit { source: InterruptSource::Softirq, number: 4 }
        }),
        ("local_timer_entry: vector=236", {
            EventKind::InterruptEnter { source: InterruptSource::LocalTimer, number: 0 }
        }),
        ("workqueue_execute_start: work struct 0xff: function loop_workfn", {
            EventKind::WorkStart(Work::LoopDevice)
        }),
        ("workqueue_execute_end: work struct 0xff: function loop_workfn", EventKind::WorkEnd),
        ("mm_filemap_get_pages: dev=7:2 ino=1f ofs=4096-12287", EventKind::FileRead(range)),
        ("mm_filemap_fault: dev=7:2 ino=1f ofs=4096", {
            EventKind::FileFault(FileRange { length_bytes: 4096, ..range })
        }),
        ("ext4_write_begin: dev 7,2 ino 31 pos 4096 len 8192", EventKind::FileWrite(range)),
        ("ext4_evict_inode: dev 7,2 ino 31 nlink 0", EventKind::FileDelete { device: DEVICE, inode: 31 }),
        ("ext4_sync_file_enter: dev 7,2 ino 31 parent 2 datasync 1 ", {
            EventKind::FileSync { device: DEVICE, inode: 31 }
        }),
        (
            "iomap_dio_rw_begin: dev 7:2 ino 0x1f size 0x4000 offset 0x1000 length 0x2000 done_before 0x0 \
             flags DIRECT|WRITE dio_flags DIO_OVERWRITE_ONLY aio 1",
            EventKind::Direct { range, file_bytes: 0x4000, writes: true, is_async: true },
        ),
        (
            "iomap_dio_rw_begin: dev 7:2 ino 0x1f size 0x3000 offset 0x1000 length 0x2000 done_before 0x0 \
             flags DIRECT dio_flags  aio 0",
            EventKind::Direct { range, file_bytes: 0x3000, writes: false, is_async: false },
        ),
        ("block_bio_queue: 7,2 RA 24 + 16 [cp]", {
            EventKind::Submit { device: DEVICE, sector: 24, bytes: 8192, writes: false }
        }),
        ("block_bio_queue: 7,2 WS 24 + 8 [rm]", {
            EventKind::Submit { device: DEVICE, sector: 24, bytes: 4096, writes: true }
        }),
        (
            "jbd2_handle_stats: dev 7,2 tid 8 type 2 line_no 9 interval 0 sync 0 requested_blocks 8 dirtied_blocks 3",
            { EventKind::Change { device: DEVICE, blocks: 3 } },
        ),
        ("block_dirty_buffer: 7,2 sector=3 size=4096", {
            EventKind::Buffer { device: DEVICE, sector: 24, bytes: 4096, is_dirtied: true }
        }),
        ("jbd2_start_commit: dev 7,2 transaction 8 sync 0", {
            EventKind::Commit { device: DEVICE, transaction: 8, begins: true }
        }),
        (
            "ext4_ind_map_blocks_exit: dev 7,2 ino 12 flags  lblk 3 pblk 3296 len 32 mflags M ret 5",
            EventKind::Extent(extent),
        ),
        ("ext4_es_lookup_extent_exit: dev 7,2 ino 12 found 1 [3/5) 3296 WR", EventKind::Extent(extent)),
        ("balance_dirty_pages: bdi 7:2: limit=1 setpoint=2", EventKind::Throttle),
    ];
    for (details, expected) in cases {
        assert_eq!(kind(details), expected, "{details}");
    }
}

#[test]
fn switches_of_both_programs_are_the_same() {
    let kernel = kind(
        "sched_switch: prev_comm=a prev_pid=9 prev_pid=1 prev_prio=120 prev_state=D ==> next_comm=x y next_pid=2 next_prio=0",
    );
    let plugin = kind("sched_switch: a prev_pid=9:1 [120] D ==> x y:2 [0]");
    assert_eq!(kernel, plugin);
    let EventKind::Switch { previous, state, next, next_name } = kernel else { panic!("{kernel:?}") };
    assert_eq!((previous, state, next), (1, RunState::Uninterruptible, 2));
    assert_eq!(next_name.to_string(), "x y");
    let state = |letters: &str| match kind(&format!("sched_switch: a:1 [120] {letters} ==> b:2 [0]")) {
        EventKind::Switch { state, .. } => state,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        ["R", "R+", "S", "I", "W", "X", "Z", "t"].map(state),
        [
            RunState::Runnable,
            RunState::Runnable,
            RunState::Interruptible,
            RunState::Idle,
            RunState::Idle,
            RunState::Ended,
            RunState::Ended,
            RunState::Stopped,
        ]
    );
}

#[test]
fn requests_have_their_operation_and_place() {
    let event = |details: &str| match kind(details) {
        EventKind::Block(step) => (step.device, step.event),
        other => panic!("{other:?}"),
    };
    let (device, issue) = event("block_rq_issue: 7,2 WFS 4096 () 24 + 8 0x2,0,4 [kworker/u8:0]");
    assert_eq!(
        (device, issue.kind, issue.op, issue.fua),
        (DEVICE, Kind::Issue, Some(Operation::Write), true)
    );
    assert_eq!((issue.sector, issue.sectors, issue.process), (24, 8, 4711));
    assert_eq!(issue.command.to_string(), "kworker/u8:0");
    let (_, end) = event("block_rq_complete: 7,2 FF () 18446744073709551615 + 0 0x0,0,4 [-5]");
    assert_eq!((end.op, end.sector, end.error), (Some(Operation::Flush), 0, -5));
}

#[test]
fn place_of_perf_may_have_the_process_and_a_count() {
    let (events, counts) = read(b"a b 4700/4711 [001] 9.5:   1 sched:sched_waking: comm=c pid=7 prio=1\n");
    assert_eq!((events.len(), counts.malformed_lines), (1, 0));
    assert_eq!((events[0].thread, events[0].time_ns), (4711, 9_500_000_000));
}

#[test]
fn call_stack_of_a_wait_follows_its_switch() {
    let perf = b"cp 7 [000] 1.000000001: sched:sched_switch: prev_comm=cp prev_pid=7 prev_prio=1 prev_state=D ==> next_comm=b next_pid=2 next_prio=0\n\
        \tffffffff821facd8 __schedule+0x618 ([kernel.kallsyms])\n\tffffffff81593259 filemap_fault+0x739 ([kernel.kallsyms])\n\
        \t           e2b1 do_wait+0x1 (/usr/bin/a)\n\n\
        b 2 [000] 2.0: sched:sched_switch: prev_comm=b prev_pid=2 prev_prio=1 prev_state=R ==> next_comm=c next_pid=7 next_prio=0\n\
        \tffffffff81360643 do_wait+0x53 ([kernel.kallsyms])\n\n";
    let ftrace = b"cp-7 [000] d..2. 1.000000001: sched_switch: cp:7 [1] D ==> b:2 [0]\n\
        cp-7 [000] d..2. 1.000000001: <stack trace>\n => __schedule\n => filemap_fault\n\
        b-2 [000] d..2. 2.0: sched_switch: b:2 [1] R ==> c:7 [0]\n";
    let [(one, counts), (other, _)] = [&perf[..], ftrace].map(read);
    assert_eq!(one, other);
    assert_eq!((counts.stacks, counts.malformed_lines), (1, 0));
    assert_eq!((one[1].thread, one[1].kind), (7, EventKind::Stack(StackCause::DataRead)));
}

#[test]
fn context_follows_from_interrupts_or_flags() {
    let text = b"a 1 [000] 1.0: irq:softirq_entry: vec=4 [action=BLOCK]\n\
        a 1 [000] 1.1: irq:irq_handler_entry: irq=3 name=x\n\
        a 1 [000] 1.2: sched:sched_waking: comm=c pid=7 prio=1\n\
        a 1 [000] 1.3: irq:irq_handler_exit: irq=3 ret=handled\n\
        a 1 [000] 1.4: sched:sched_waking: comm=c pid=7 prio=1\n\
        a 1 [001] 1.4: sched:sched_waking: comm=c pid=7 prio=1\n\
        a 1 [000] 1.5: irq:softirq_exit: vec=4 [action=BLOCK]\n\
        a 1 [000] 1.6: sched:sched_waking: comm=c pid=7 prio=1\n\
        a-1 [000] d.h1. 1.7: sched_waking: comm=c pid=7 prio=1\n";
    use Context::{Interrupt, Process, Softirq};
    let contexts: Vec<Context> = read(text).0.iter().map(|event| event.context).collect();
    assert_eq!(
        contexts,
        [Softirq, Interrupt, Interrupt, Interrupt, Softirq, Process, Softirq, Process, Interrupt]
    );
}

#[test]
fn losses_are_events_of_their_processor() {
    let text = b"a 1 [003] 1.0: sched:sched_waking: comm=c pid=7 prio=1\nCPU:1 [LOST 34 EVENTS]\nCPU:2 [5 EVENTS DROPPED]\n\
        CPU:0 [EVENTS DROPPED]\nLOST 7 events!\na 1 [001] 1.5: PERF_RECORD_LOST lost 9\n";
    let lost: Vec<(u16, u64)> = read(text)
        .0
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::Lost { events } => Some((event.cpu, events)),
            _ => None,
        })
        .collect();
    assert_eq!(lost, [(1, 34), (2, 5), (0, 1), (3, 7), (1, 9)]);
}

#[test]
fn lines_that_are_skipped_are_counted_and_named() {
    let text = b"# nrcpus online : 2\nversion = 7\ncpus=2\n\na 1 [003] 1.0: sched:sched_waking: comm=c pid= prio=1\n\
        a 1 [003] 1.0: net:netif_rx: dev=lo\nsomething else\na 1 [003] 1.0: PERF_RECORD_COMM: a:1/1\n\
        a 1 [003] 99999999999999.0: sched:sched_waking: comm=c pid=7 prio=1";
    let (events, counts) = read(text);
    assert_eq!(events, []);
    assert_eq!((counts.malformed_lines, &counts.malformed[..]), (3, &[5, 7, 9][..]));
    assert_eq!(counts.other_events, BTreeMap::from([("netif_rx".to_owned(), 1)]));
    assert!(counts.is_cut);
}

#[test]
fn recordings_are_read_whole() {
    for name in RECORDINGS {
        let path = recording(name);
        let survey = survey(&path).unwrap();
        let counts = &survey.counts;
        assert_eq!((counts.malformed_lines, &counts.other_events), (0, &BTreeMap::new()), "{name}");
        assert!(counts.has_nanoseconds && counts.events > 1000 && counts.stacks > 10, "{name}: {counts:?}");
        let task = survey.started.unwrap_or_else(|| panic!("{name}: no task"));
        assert_eq!(survey.threads[&task].program.as_deref(), Some("sh"), "{name}");
        assert_eq!(survey.threads[&task].exit_status, Some(0), "{name}");
        let initial = survey.initial(task);
        assert!(initial.iter().any(|thread| thread.role == Role::Recorder), "{name}");
        assert!(initial.iter().any(|thread| thread.role == Role::Kernel), "{name}");
        let outputs = process(&path, &survey, task);
        let requests = outputs.iter().filter(|output| matches!(output, Output::Request(_))).count();
        // The flush of `sync` ends twice: as a request of its own, and with the empty write that asked for it.
        assert_eq!(requests as u64 + 1, survey.requests[&RECORDED], "{name}");
        let programs: Vec<String> = outputs
            .iter()
            .filter_map(|output| match output {
                Output::Process(row) => Some(row.name.to_string()),
                _ => None,
            })
            .collect();
        assert_eq!(programs.len(), 3, "{name}: {programs:?}");
        for program in ["sh", "cp", "sync"] {
            assert!(programs.iter().any(|name| name == program), "{name}: {programs:?}");
        }
        for cause in [WaitCause::DataRead, WaitCause::MetadataRead, WaitCause::Process] {
            let is_there = |output: &Output| matches!(output, Output::Wait(row) if row.cause == cause);
            assert!(outputs.iter().any(is_there), "{name}: no wait for {cause:?}");
        }
    }
}

fn process(path: &Path, survey: &Survey, task: u32) -> Vec<Output> {
    let device = TracedDevice { requests: RECORDED, file_system: RECORDED, partition: None };
    let cpus = survey.cpus.iter().copied();
    let mut processor = Processor::new(survey.begin_ns, cpus, device, &[task], &survey.initial(task));
    let mut text = SystemText::open(path).unwrap();
    let mut outputs = Vec::new();
    while let Some(event) = text.next_event().unwrap() {
        processor.push(&event, &mut |output| outputs.push(output));
    }
    processor.finish(survey.end_ns, &mut |output| outputs.push(output));
    outputs
}

/// Lines of a recording, as bytes.
fn lines() -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    for name in RECORDINGS {
        let mut source = Lines::new(Source::open(&recording(name)).unwrap().into_stream());
        while let Ok(Some(line)) = source.next() {
            lines.push(line.to_vec());
        }
    }
    lines
}

proptest! {
    #[test]
    fn no_text_panics(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        read(&bytes);
    }

    #[test]
    fn no_changed_recording_panics(
        start in 0_usize..5000,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..4), 0..60),
    ) {
        let lines = lines();
        let excerpt = &lines[start.min(lines.len() - 100)..];
        let mut text = excerpt[..100].join(&b'\n');
        for (at, byte, change) in changes {
            let at = at.index(text.len());
            match change {
                0 => text[at] = byte,
                1 => text.insert(at, b"0123456789[]:,. -=>()"[usize::from(byte) % 21]),
                2 => drop(text.remove(at)),
                _ => text[at] = b'9',
            }
        }
        let (events, counts) = read(&text);
        let device = TracedDevice { requests: DEVICE, file_system: DEVICE, partition: None };
        let begin_ns = events.iter().map(|event| event.time_ns).min().unwrap_or(0);
        let mut processor = Processor::new(begin_ns, [0], device, &[1], &[]);
        for event in &events {
            processor.push(event, &mut |_| ());
        }
        let processed = processor.finish(begin_ns, &mut |_| ());
        prop_assert_eq!(processed.events + counts.losses, counts.events);
    }
}
