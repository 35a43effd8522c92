//! A processor: what it runs, and the stack of its interrupts.

use super::event::InterruptSource;
use super::tables::CpuRow;
use super::thread::Completion;

/// An interrupt that has begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) source: InterruptSource,
    pub(super) number: u16,
    pub(super) begin_ns: u64,
    pub(super) computing_ns: u64,
}

/// Time of a thread that does not belong to the task, since it got the processor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub(super) begin_ns: u64,
    pub(super) computing_ns: u64,
}

/// A processor.
#[derive(Debug)]
pub(super) struct Cpu {
    /// The current thread, 0 for the idle thread; `None` before the first event.
    pub(super) current: Option<u32>,
    /// Time until which the processor is accounted for.
    pub(super) since_ns: u64,
    pub(super) frames: Vec<Frame>,
    pub(super) segment: Segment,
    /// Last request that was completed since the thread or the outermost interrupt changed.
    pub(super) completion: Option<Completion>,
    pub(super) row: CpuRow,
}

/// Deepest nesting of interrupts. What exceeds it is taken for lost ends.
pub(super) const FRAMES_MAX: usize = 16;

impl Cpu {
    pub(super) fn new(cpu: u16, begin_ns: u64) -> Self {
        Self {
            current: None,
            since_ns: begin_ns,
            frames: Vec::new(),
            segment: Segment { begin_ns, computing_ns: 0 },
            completion: None,
            row: CpuRow {
                cpu,
                elapsed_ns: 0,
                task_ns: 0,
                kernel_ns: 0,
                emulator_ns: 0,
                recorder_ns: 0,
                other_ns: 0,
                interrupt_ns: 0,
                idle_ns: 0,
                unknown_ns: 0,
                interrupts: 0,
                softirqs: 0,
                switches: 0,
                events: 0,
                lost_events: 0,
            },
        }
    }
}

impl CpuRow {
    /// Returns the sum of all parts. It equals the elapsed time.
    pub fn accounted_ns(&self) -> u64 {
        let threads = self.task_ns + self.kernel_ns + self.emulator_ns + self.recorder_ns + self.other_ns;
        threads + self.interrupt_ns + self.idle_ns + self.unknown_ns
    }
}
