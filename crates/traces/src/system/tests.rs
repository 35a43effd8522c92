//! Tests of the post-processor on events made by hand.

use proptest::prelude::*;
use seeklab_core::{Operation, ProcessName};

use super::table::process_name;
use super::tables::*;
use super::*;
use crate::event::block_event::{BlockEvent, Kind};

const DEVICE: TracedDevice = TracedDevice { requests: 7 << 20, file_system: 7 << 20, partition: None };

/// Events of a small host, and the rows made of them.
struct Host {
    processor: Processor,
    rows: Vec<Output>,
}

impl Host {
    /// The thread 10 is the task; 2 processors; the time begins at 1000.
    fn new() -> Self {
        Self { processor: Processor::new(1000, [0, 1], DEVICE, &[10], &[]), rows: Vec::new() }
    }

    fn at(&mut self, time_ns: u64, cpu: u16, thread: u32, kind: EventKind) -> &mut Self {
        self.within(time_ns, cpu, thread, Context::Process, kind)
    }

    fn within(
        &mut self,
        time_ns: u64,
        cpu: u16,
        thread: u32,
        context: Context,
        kind: EventKind,
    ) -> &mut Self {
        let event = SystemEvent { time_ns: 1000 + time_ns, cpu, thread, context, kind };
        self.processor.push(&event, &mut |row| self.rows.push(row));
        self
    }

    fn finish(self, end_ns: u64) -> (Vec<Output>, Processed) {
        let Self { processor, mut rows } = self;
        let counts = processor.finish(1000 + end_ns, &mut |row| rows.push(row));
        (rows, counts)
    }
}

fn switch(previous: u32, state: RunState, next: u32) -> EventKind {
    EventKind::Switch { previous, state, next, next_name: process_name("name") }
}

fn complete(device: u32, op: Operation, sector: u64) -> EventKind {
    let event = BlockEvent {
        kind: Kind::Complete,
        op: Some(op),
        fua: false,
        sector,
        sectors: 8,
        error: 0,
        process: 0,
        command: ProcessName::default(),
    };
    EventKind::Block(BlockStep { device, event })
}

fn softirq(number: u16) -> (EventKind, EventKind) {
    let source = InterruptSource::Softirq;
    (EventKind::InterruptEnter { source, number }, EventKind::InterruptExit { source, number })
}

fn processes(rows: &[Output]) -> Vec<ProcessRow> {
    rows.iter().filter_map(|row| if let Output::Process(row) = row { Some(*row) } else { None }).collect()
}

fn waits(rows: &[Output]) -> Vec<WaitRow> {
    rows.iter().filter_map(|row| if let Output::Wait(row) = row { Some(*row) } else { None }).collect()
}

fn step_of(row: &Output) -> Option<StepRow> {
    match row {
        Output::Step(row) => Some(*row),
        _ => None,
    }
}

fn cpus(rows: &[Output]) -> Vec<CpuRow> {
    rows.iter().filter_map(|row| if let Output::Cpu(row) = row { Some(*row) } else { None }).collect()
}

fn check_sums(rows: &[Output]) {
    for row in processes(rows) {
        assert_eq!(row.accounted_ns(), row.elapsed_ns, "{row:?}");
    }
    for row in cpus(rows) {
        assert_eq!(row.accounted_ns(), row.elapsed_ns, "{row:?}");
    }
}

#[test]
fn time_of_a_reading_process_is_divided_exactly() {
    let mut host = Host::new();
    let (enter, exit) = softirq(4);
    host.at(0, 0, 5, EventKind::Fork { child: 10, is_thread: false })
        .at(10, 0, 5, switch(5, RunState::Interruptible, 10))
        .at(15, 0, 10, EventKind::CallEnter { call: 0, arguments: [3, 4, 5, 6] })
        .at(40, 0, 10, switch(10, RunState::Uninterruptible, 0))
        .at(42, 0, 10, EventKind::Stack(StackCause::DataRead))
        .within(140, 0, 0, Context::Softirq, enter)
        .within(141, 0, 0, Context::Softirq, complete(7 << 20, Operation::Read, 64))
        .within(143, 0, 0, Context::Softirq, EventKind::Waking { thread: 10 })
        .within(144, 0, 0, Context::Softirq, EventKind::Wakeup { thread: 10 })
        .within(150, 0, 0, Context::Softirq, exit)
        .at(153, 0, 0, switch(0, RunState::Runnable, 10))
        .within(160, 0, 10, Context::Softirq, enter)
        .within(167, 0, 10, Context::Softirq, exit)
        .at(170, 0, 10, EventKind::CallExit { call: 0, result: 5 })
        .at(200, 0, 10, switch(10, RunState::Ended, 0));
    let (rows, counts) = host.finish(300);
    let [process] = processes(&rows)[..] else { panic!("{rows:?}") };
    assert_eq!((process.thread, process.process, process.parent), (10, 10, 5));
    assert_eq!((process.begin_ns, process.elapsed_ns, process.has_ended), (0, 200, true));
    assert_eq!(process.ready_ns, 10 + 10);
    assert_eq!(process.data_read_ns, 103);
    assert_eq!(process.interrupted_ns, 7);
    assert_eq!(process.computing_ns, 30 + 7 + 33);
    check_sums(&rows);
    let [wait] = waits(&rows)[..] else { panic!("{rows:?}") };
    assert_eq!((wait.begin_ns, wait.wait_ns, wait.ready_ns, wait.call), (40, 103, 10, Some(0)));
    assert_eq!((wait.cause, wait.waker), (WaitCause::DataRead, Waker::Completion));
    assert_eq!((wait.device, wait.sector), (Some(7 << 20), Some(64)));
    let steps: Vec<(StepEvent, u64, u64)> = rows
        .iter()
        .filter_map(|row| match row {
            Output::Step(row) => Some((row.event, row.time_ns, row.computing_ns)),
            _ => None,
        })
        .collect();
    // The wait is an effect: the sequence does not have it.
    assert_eq!(
        steps,
        [(StepEvent::CallEnter, 15, 5), (StepEvent::CallExit, 170, 25 + 7 + 3), (StepEvent::Exit, 200, 30)]
    );
    let interrupts: Vec<(u64, u64, u32)> = rows
        .iter()
        .filter_map(|row| match row {
            Output::Interrupt(row) => Some((row.begin_ns, row.computing_ns, row.interrupted)),
            _ => None,
        })
        .collect();
    assert_eq!(interrupts, [(140, 10, 0), (160, 7, 10)]);
    let [first, second] = cpus(&rows)[..] else { panic!("{rows:?}") };
    assert_eq!((first.task_ns, first.other_ns, first.interrupt_ns, first.idle_ns), (70, 10, 17, 203));
    assert_eq!((first.softirqs, first.interrupts, first.switches), (2, 0, 4));
    assert_eq!((second.unknown_ns, second.events), (300, 0));
    assert_eq!((counts.events, counts.repairs.total(), counts.lost_events), (15, 0, 0));
}

#[test]
fn causes_of_waits_follow_stack_waker_and_device() {
    let elsewhere = (8 << 20) | 1;
    let timer = softirq(1).0;
    let network = softirq(3).0;
    let block = softirq(4).0;
    let read = |device| complete(device, Operation::Read, 0);
    type Case<'a> = (RunState, Option<StackCause>, &'a [(u32, Context, EventKind)], WaitCause);
    let interruptible = RunState::Interruptible;
    let cases: [Case; 12] = [
        (RunState::Uninterruptible, Some(StackCause::Journal), &[], WaitCause::Journal),
        (
            RunState::Uninterruptible,
            Some(StackCause::Throttle),
            &[(0, Context::Softirq, timer)],
            WaitCause::Throttle,
        ),
        (
            RunState::Uninterruptible,
            Some(StackCause::DataRead),
            &[(0, Context::Softirq, block), (0, Context::Softirq, read(elsewhere))],
            WaitCause::OtherDevice,
        ),
        (
            RunState::Uninterruptible,
            Some(StackCause::Direct),
            &[(0, Context::Softirq, block), (0, Context::Softirq, complete(7 << 20, Operation::Write, 8))],
            WaitCause::Write,
        ),
        (interruptible, None, &[(0, Context::Softirq, timer)], WaitCause::Timer),
        (interruptible, None, &[(0, Context::Softirq, network)], WaitCause::Outside),
        (
            interruptible,
            Some(StackCause::Process),
            &[(77, Context::Process, EventKind::Throttle)],
            WaitCause::Outside,
        ),
        (
            interruptible,
            Some(StackCause::Process),
            &[(11, Context::Process, EventKind::Throttle)],
            WaitCause::Process,
        ),
        (interruptible, None, &[(11, Context::Process, EventKind::Throttle)], WaitCause::Process),
        (RunState::Uninterruptible, None, &[(77, Context::Process, EventKind::Throttle)], WaitCause::Process),
        (RunState::Stopped, None, &[(11, Context::Process, EventKind::Throttle)], WaitCause::Outside),
        (RunState::Uninterruptible, None, &[], WaitCause::Unknown),
    ];
    for (index, (state, stack, before, expected)) in cases.into_iter().enumerate() {
        let mut host = Host::new();
        host.at(0, 0, 5, EventKind::Fork { child: 10, is_thread: false })
            .at(1, 0, 5, switch(5, RunState::Interruptible, 10))
            .at(2, 0, 10, EventKind::Fork { child: 11, is_thread: false })
            .at(3, 0, 10, switch(10, state, 0));
        if let Some(stack) = stack {
            host.at(4, 0, 10, EventKind::Stack(stack));
        }
        let waker = before.last().map_or(0, |event| event.0);
        if waker != 0 {
            host.at(5, 0, 0, switch(0, RunState::Runnable, waker));
        }
        for (thread, context, kind) in before {
            host.within(6, 0, *thread, *context, *kind);
        }
        let context = before.last().map_or(Context::Process, |event| event.1);
        host.within(9, 0, waker, context, EventKind::Waking { thread: 10 });
        host.at(10, 1, 0, switch(0, RunState::Runnable, 10)).at(12, 1, 10, switch(10, RunState::Ended, 0));
        let (rows, _) = host.finish(20);
        let [wait] = waits(&rows)[..] else { panic!("case {index}: {rows:?}") };
        assert_eq!((wait.cause, wait.wait_ns, wait.ready_ns), (expected, 6, 1), "case {index}: {wait:?}");
        check_sums(&rows);
    }
}

#[test]
fn wait_for_a_transfer_past_the_page_cache_is_for_the_device_whoever_wakes() {
    let range = FileRange { device: 7 << 20, inode: 3, offset_bytes: 512, length_bytes: 1024 };
    for (writes, expected) in [(false, WaitCause::DataRead), (true, WaitCause::Write)] {
        let mut host = Host::new();
        host.at(0, 0, 5, EventKind::Fork { child: 10, is_thread: false })
            .at(1, 0, 5, switch(5, RunState::Interruptible, 10))
            .at(4, 0, 10, EventKind::Direct { range, file_bytes: 1 << 20, writes, is_async: true })
            .at(5, 0, 10, switch(10, RunState::Interruptible, 77))
            .at(5, 0, 10, EventKind::Stack(StackCause::Direct))
            // Thread 77 of the kernel completes the transfer.
            .at(9, 0, 77, EventKind::Waking { thread: 10 })
            .at(10, 0, 77, switch(77, RunState::Idle, 10))
            .at(12, 0, 10, switch(10, RunState::Ended, 0));
        let (rows, _) = host.finish(20);
        let [wait] = waits(&rows)[..] else { panic!("{rows:?}") };
        assert_eq!((wait.cause, wait.wait_ns), (expected, 4));
        let steps: Vec<StepRow> = rows.iter().filter_map(step_of).collect();
        // The wait is an effect, and no step.
        let events: Vec<StepEvent> = steps.iter().map(|step| step.event).collect();
        let direct = if writes { StepEvent::DirectWrite } else { StepEvent::DirectRead };
        assert_eq!(events, [direct, StepEvent::Exit]);
        let [step, ..] = steps[..] else { unreachable!("there are two") };
        assert_eq!((step.inode, step.offset_bytes, step.length_bytes), (Some(3), Some(512), Some(1024)));
        assert_eq!((step.is_async, step.computing_ns), (Some(true), 3));
        check_sums(&rows);
    }
}

#[test]
fn direct_write_without_a_mark_is_known_by_its_call() {
    let range = FileRange { device: 7 << 20, inode: 3, offset_bytes: 0, length_bytes: 4096 };
    let mut host = Host::new();
    host.at(0, 0, 5, EventKind::Fork { child: 10, is_thread: false }).at(
        1,
        0,
        5,
        switch(5, RunState::Interruptible, 10),
    );
    // pread64, then pwrite64.
    for call in [17, 18] {
        host.at(2, 0, 10, EventKind::CallEnter { call, arguments: [3, 0, 0, 0] })
            .at(3, 0, 10, EventKind::Direct { range, file_bytes: 1 << 20, writes: false, is_async: false })
            .at(4, 0, 10, EventKind::CallExit { call, result: 4096 });
    }
    let (rows, _) = host.finish(20);
    let events: Vec<StepEvent> = rows.iter().filter_map(step_of).map(|step| step.event).collect();
    assert_eq!((events[1], events[4]), (StepEvent::DirectRead, StepEvent::DirectWrite));
}

#[test]
fn synchronisation_is_for_the_device_whose_requests_complete_meanwhile() {
    let elsewhere = (8 << 20) | 1;
    let library = FileRange { device: elsewhere, inode: 3, offset_bytes: 0, length_bytes: 4096 };
    for (before, meanwhile, expected) in
        [(elsewhere, 7 << 20, WaitCause::Flush), (7 << 20, elsewhere, WaitCause::OtherDevice)]
    {
        let mut host = Host::new();
        // The program of the command is on another device, and a thread of the kernel ends its wait.
        host.at(0, 0, 5, EventKind::Fork { child: 10, is_thread: false })
            .at(1, 0, 5, switch(5, RunState::Interruptible, 10))
            .at(2, 0, 10, EventKind::FileFault(library))
            .at(3, 1, 0, complete(before, Operation::Write, 8))
            .at(5, 0, 10, switch(10, RunState::Uninterruptible, 0))
            .at(5, 0, 10, EventKind::Stack(StackCause::Flush))
            .at(7, 1, 0, complete(meanwhile, Operation::Write, 8))
            .at(8, 1, 0, switch(0, RunState::Runnable, 77))
            .at(9, 1, 77, EventKind::Waking { thread: 10 })
            .at(10, 0, 0, switch(0, RunState::Runnable, 10))
            .at(12, 0, 10, switch(10, RunState::Ended, 0));
        let (rows, _) = host.finish(20);
        let [wait] = waits(&rows)[..] else { panic!("{rows:?}") };
        assert_eq!((wait.cause, wait.wait_ns), (expected, 4));
        check_sums(&rows);
    }
}

#[test]
fn waking_before_the_processor_is_left_ends_the_wait_with_the_wakeup() {
    let mut host = Host::new();
    host.at(0, 0, 5, EventKind::Fork { child: 10, is_thread: false })
        .at(0, 0, 5, switch(5, RunState::Interruptible, 10))
        .at(8, 1, 6, EventKind::Waking { thread: 10 })
        .at(10, 0, 10, switch(10, RunState::Interruptible, 0))
        .at(13, 1, 6, EventKind::Wakeup { thread: 10 })
        .at(20, 0, 0, switch(0, RunState::Runnable, 10));
    let (rows, _) = host.finish(30);
    let [wait] = waits(&rows)[..] else { panic!("{rows:?}") };
    assert_eq!((wait.begin_ns, wait.wait_ns, wait.ready_ns, wait.waker_thread), (10, 3, 7, Some(6)));
    check_sums(&rows);
}

#[test]
fn call_stack_may_come_before_its_switch() {
    let mut host = Host::new();
    host.at(0, 0, 5, EventKind::Fork { child: 10, is_thread: false })
        .at(1, 0, 5, switch(5, RunState::Interruptible, 10))
        .at(4, 0, 10, EventKind::Stack(StackCause::Journal))
        .at(5, 0, 10, switch(10, RunState::Uninterruptible, 0))
        .at(9, 1, 6, EventKind::Waking { thread: 10 })
        .at(10, 0, 0, switch(0, RunState::Runnable, 10))
        // The next wait has no stack.
        .at(15, 0, 10, switch(10, RunState::Uninterruptible, 0))
        .at(19, 1, 6, EventKind::Waking { thread: 10 })
        .at(20, 0, 0, switch(0, RunState::Runnable, 10));
    let (rows, _) = host.finish(30);
    let causes: Vec<WaitCause> = waits(&rows).iter().map(|wait| wait.cause).collect();
    assert_eq!(causes, [WaitCause::Journal, WaitCause::Process]);
}

#[test]
fn unrecorded_switch_follows_the_last_event_of_its_processor() {
    let (enter, exit) = softirq(4);
    let mut host = Host::new();
    host.at(0, 0, 5, EventKind::Fork { child: 10, is_thread: false })
        .at(0, 0, 5, switch(5, RunState::Interruptible, 10))
        .at(10, 0, 10, switch(10, RunState::Uninterruptible, 0))
        .within(30, 0, 0, Context::Softirq, enter)
        .within(31, 0, 0, Context::Softirq, EventKind::Waking { thread: 10 })
        .within(33, 0, 0, Context::Softirq, exit)
        // The switch to the thread is missing.
        .at(50, 0, 10, switch(10, RunState::Uninterruptible, 0))
        .at(60, 1, 6, EventKind::Waking { thread: 10 })
        .at(70, 0, 10, EventKind::CallExit { call: 0, result: 0 });
    let (rows, counts) = host.finish(80);
    assert_eq!(counts.repairs, Repairs { unrecorded_switch: 2, ..Repairs::default() });
    let [process] = processes(&rows)[..] else { panic!("{rows:?}") };
    assert_eq!((process.computing_ns, process.ready_ns), (10 + 17 + 20, 2));
    check_sums(&rows);
}

#[test]
fn descendants_belong_to_the_task_and_threads_to_their_process() {
    let mut host = Host::new();
    host.at(0, 0, 5, EventKind::Fork { child: 10, is_thread: false })
        .at(1, 0, 5, EventKind::Fork { child: 20, is_thread: false })
        .at(2, 0, 5, switch(5, RunState::Interruptible, 10))
        .at(3, 0, 10, EventKind::Fork { child: 11, is_thread: true })
        .at(4, 0, 10, EventKind::Fork { child: 12, is_thread: false })
        .at(5, 0, 10, switch(10, RunState::Interruptible, 20))
        .at(9, 0, 20, switch(20, RunState::Runnable, 12));
    let (rows, _) = host.finish(10);
    let mut seen: Vec<(u32, u32, u32)> =
        processes(&rows).iter().map(|row| (row.thread, row.process, row.parent)).collect();
    seen.sort_unstable();
    assert_eq!(seen, [(10, 10, 5), (11, 10, 10), (12, 12, 10)]);
    let occupied: Vec<(u32, Role, u64)> = rows
        .iter()
        .filter_map(|row| match row {
            Output::Occupied(row) => Some((row.thread, row.role, row.computing_ns)),
            _ => None,
        })
        .collect();
    assert_eq!(occupied, [(5, Role::Other, 2), (20, Role::Other, 4)]);
    check_sums(&rows);
}

#[test]
fn lost_events_are_counted_and_located_and_sums_remain() {
    let mut host = Host::new();
    host.at(0, 0, 5, EventKind::Fork { child: 10, is_thread: false })
        .at(1, 0, 5, switch(5, RunState::Interruptible, 10))
        .at(50, 0, 0, EventKind::Lost { events: 7 })
        // It was switched out and in again on the other processor, unrecorded.
        .at(60, 0, 6, EventKind::CallEnter { call: 1, arguments: [0; 4] })
        .at(70, 1, 10, EventKind::CallEnter { call: 1, arguments: [0; 4] })
        .at(80, 1, 10, switch(10, RunState::Uninterruptible, 0))
        .at(90, 1, 0, switch(0, RunState::Runnable, 10));
    let (rows, counts) = host.finish(100);
    let losses: Vec<LossRow> =
        rows.iter().filter_map(|row| if let Output::Loss(row) = row { Some(*row) } else { None }).collect();
    assert_eq!(losses, [LossRow { cpu: 0, time_ns: 50, events: 7 }]);
    assert_eq!(counts.lost_events, 7);
    let repairs = Repairs { current_thread: 1, not_woken: 1, ..Repairs::default() };
    assert_eq!(counts.repairs, repairs);
    assert_eq!(cpus(&rows)[0].lost_events, 7);
    check_sums(&rows);
}

#[test]
fn work_of_the_loop_driver_is_separate_from_other_work_of_the_kernel() {
    let kernel = InitialThread {
        thread: 30,
        process: 30,
        parent: 2,
        name: process_name("kworker/u8:4"),
        role: Role::Kernel,
    };
    let mut host = Host { processor: Processor::new(1000, [0], DEVICE, &[10], &[kernel]), rows: Vec::new() };
    host.at(10, 0, 30, EventKind::WorkStart(Work::LoopDevice)).at(40, 0, 30, EventKind::WorkEnd).at(
        45,
        0,
        30,
        switch(30, RunState::Idle, 0),
    );
    let (rows, _) = host.finish(50);
    let cpu = cpus(&rows)[0];
    assert_eq!((cpu.kernel_ns, cpu.emulator_ns, cpu.idle_ns), (15, 30, 5));
    let Some(Output::Initial(initial)) = rows.iter().find(|row| matches!(row, Output::Initial(_))) else {
        panic!("{rows:?}")
    };
    assert_eq!((initial.thread, initial.cpu), (30, Some(0)));
    check_sums(&rows);
}

#[test]
fn children_of_a_starter_are_the_task_and_the_starter_is_not() {
    let recorder = InitialThread {
        thread: 30,
        process: 30,
        parent: 1,
        name: process_name("stage"),
        role: Role::Recorder,
    };
    let emulator = InitialThread { thread: 31, process: 31, role: Role::Emulator, ..recorder };
    let processor = Processor::new(1000, [0], DEVICE, &[], &[recorder, emulator]).with_starter(30);
    let mut host = Host { processor, rows: Vec::new() };
    host.at(10, 0, 30, EventKind::Fork { child: 40, is_thread: false })
        .at(20, 0, 30, switch(30, RunState::Interruptible, 40))
        .at(25, 0, 40, EventKind::Fork { child: 41, is_thread: false })
        .at(30, 0, 40, switch(40, RunState::Ended, 31))
        .at(37, 0, 31, EventKind::Fork { child: 50, is_thread: true })
        .at(40, 0, 31, switch(31, RunState::Interruptible, 41))
        .at(45, 0, 41, switch(41, RunState::Ended, 0));
    let (rows, counts) = host.finish(50);
    let threads: Vec<u32> = processes(&rows).iter().map(|row| row.thread).collect();
    assert_eq!((threads, counts.first_task), (vec![40, 41], Some(40)));
    let cpu = cpus(&rows)[0];
    assert_eq!((cpu.recorder_ns, cpu.task_ns, cpu.emulator_ns, cpu.other_ns), (20, 15, 10, 0));
    check_sums(&rows);
}

#[test]
fn cost_of_recording_is_no_computing_time() {
    let mut host = Host::new();
    host.processor = host.processor.with_cost(RecordingCost { call_ns: 10, access_ns: 30 });
    let buffer = EventKind::Buffer { device: 7 << 20, sector: 8, bytes: 4096, is_dirtied: false };
    let (enter, exit) = softirq(4);
    host.at(0, 0, 5, EventKind::Fork { child: 10, is_thread: false })
        .at(100, 0, 5, switch(5, RunState::Interruptible, 10))
        .at(200, 0, 10, EventKind::CallEnter { call: 0, arguments: [0; 4] })
        // Less time than an event costs: the rest is taken out later.
        .at(300, 0, 10, buffer)
        .at(310, 0, 10, buffer)
        // What is recorded within an interrupt costs the interrupt.
        .within(400, 0, 10, Context::Softirq, enter)
        .within(420, 0, 10, Context::Softirq, EventKind::Waking { thread: 5 })
        .within(440, 0, 10, Context::Softirq, exit)
        .at(500, 0, 10, EventKind::CallExit { call: 0, result: 0 })
        .at(600, 0, 10, switch(10, RunState::Ended, 0));
    let (rows, _) = host.finish(700);
    let process = processes(&rows)[0];
    assert_eq!((process.computing_ns, process.recording_ns), (460 - 80, Some(80)));
    assert_eq!(process.interrupted_ns, 40);
    let steps: Vec<u64> = rows
        .iter()
        .filter_map(|row| if let Output::Step(row) = row { Some(row.computing_ns) } else { None })
        .collect();
    // Call, two accesses, return and exit.
    assert_eq!(steps, [100, 90, 0, 150 - 50, 100 - 10]);
    let cpu = cpus(&rows)[0];
    assert_eq!((cpu.task_ns, cpu.recorder_ns), (380, 80));
    check_sums(&rows);
}

#[test]
fn rows_survive_their_cells() {
    use super::table::TableRow;
    let mut cells = Vec::new();
    let row = WaitRow {
        thread: 1,
        begin_ns: 2,
        wait_ns: u64::MAX,
        ready_ns: 3,
        cause: WaitCause::Journal,
        call: None,
        waker: Waker::Thread,
        waker_thread: Some(9),
        device: None,
        sector: Some(0),
    };
    row.put(&mut cells);
    assert_eq!(cells.len(), WaitRow::COLUMNS.len());
    assert_eq!(WaitRow::take(&cells), Ok(row));
    cells[4] = table::Cell::Text("nap".into());
    let problem = WaitRow::take(&cells).unwrap_err();
    assert!(problem.starts_with("`cause`: `nap` is none of data_read, "), "{problem}");
}

fn any_kind() -> impl Strategy<Value = EventKind> {
    let thread = 0_u32..14;
    let state = prop::sample::select(vec![
        RunState::Runnable,
        RunState::Interruptible,
        RunState::Uninterruptible,
        RunState::Stopped,
        RunState::Ended,
    ]);
    let source = prop::sample::select(InterruptSource::ALL);
    prop_oneof![
        (thread.clone(), state, thread.clone())
            .prop_map(|(previous, state, next)| switch(previous, state, next)),
        thread.clone().prop_map(|thread| EventKind::Waking { thread }),
        thread.clone().prop_map(|thread| EventKind::Wakeup { thread }),
        (thread, any::<bool>()).prop_map(|(child, is_thread)| EventKind::Fork { child, is_thread }),
        (source.clone(), 0_u16..3).prop_map(|(source, number)| EventKind::InterruptEnter { source, number }),
        (source, 0_u16..3).prop_map(|(source, number)| EventKind::InterruptExit { source, number }),
        prop::sample::select(StackCause::ALL).prop_map(EventKind::Stack),
        any::<(bool, bool)>().prop_map(|(writes, is_async)| EventKind::Direct {
            range: FileRange { device: 7 << 20, inode: 3, offset_bytes: 0, length_bytes: 4096 },
            file_bytes: 2048,
            writes,
            is_async,
        }),
        (0_u16..300).prop_map(|call| EventKind::CallEnter { call, arguments: [0; 4] }),
        (0_u16..300).prop_map(|call| EventKind::CallExit { call, result: 0 }),
        any::<bool>().prop_map(|loops| EventKind::WorkStart(if loops {
            Work::LoopDevice
        } else {
            Work::Other
        })),
        Just(EventKind::WorkEnd),
        Just(EventKind::Throttle),
        any::<u64>().prop_map(|events| EventKind::Lost { events }),
        (0_u64..64).prop_map(|sector| complete(7 << 20, Operation::Read, sector)),
    ]
}

proptest! {
    /// Whatever the events say, every thread and processor is accounted for to the nanosecond.
    #[test]
    fn sums_are_exact_for_arbitrary_events(
        events in prop::collection::vec((0_u64..5_000, 0_u16..3, 0_u32..14, any::<bool>(), any_kind()), 0..200),
        is_initial: bool,
        cost: Option<(u64, u64)>,
    ) {
        let initial = InitialThread {
            thread: 10, process: 10, parent: 1, name: ProcessName::default(), role: Role::Task,
        };
        let initial = [initial];
        let mut host = Host {
            processor: Processor::new(1000, [0, 1], DEVICE, &[10], if is_initial { &initial } else { &[] }),
            rows: Vec::new(),
        };
        if let Some((call_ns, access_ns)) = cost {
            let cost = RecordingCost { call_ns: call_ns % 1_000, access_ns: access_ns % 1_000 };
            host.processor = host.processor.with_cost(cost);
        }
        let mut now = 0;
        for (time, cpu, thread, is_sorted, kind) in events {
            // Mostly in order, sometimes with a step back.
            now = if is_sorted { now + time % 50 } else { time };
            host.at(now, cpu, thread, kind);
        }
        let (rows, _) = host.finish(now);
        for row in processes(&rows) {
            prop_assert_eq!(row.accounted_ns(), row.elapsed_ns, "{:?}", row);
        }
        for row in cpus(&rows) {
            prop_assert_eq!(row.accounted_ns(), row.elapsed_ns, "{:?}", row);
        }
        let waited: u64 = waits(&rows).iter().map(|row| row.wait_ns).sum();
        let total: u64 = processes(&rows)
            .iter()
            .flat_map(|row| WaitCause::ALL.iter().map(|cause| row.wait_ns(*cause)))
            .sum();
        prop_assert!(waited <= total, "waits that go on at the end have no row");
    }
}

#[test]
fn changes_of_the_journal_and_submitted_writes_are_steps_of_the_task() {
    let mut host = Host::new();
    let (device, other) = (7 << 20, 8 << 20);
    let change = |device, blocks| EventKind::Change { device, blocks };
    let write = |sector| EventKind::Submit { device, sector, bytes: 4096, writes: true };
    host.at(10, 0, 10, change(device, 2)).at(20, 0, 10, change(other, 5)).at(30, 0, 10, write(24)).at(
        40,
        1,
        99,
        write(48),
    );
    let (rows, _) = host.finish(100);
    let steps: Vec<_> = rows
        .iter()
        .filter_map(|row| match row {
            Output::Step(row) => Some((row.event, row.device, row.offset_bytes, row.length_bytes)),
            _ => None,
        })
        .collect();
    let here = Some(device);
    assert_eq!(
        steps,
        [
            (StepEvent::JournalChange, here, None, Some(8192)),
            (StepEvent::DeviceWrite, here, Some(24 * 512), Some(4096)),
        ]
    );
}
