//! Interrupts of each processor, which may interrupt each other.

use super::super::cpu::{FRAMES_MAX, Frame};
use super::super::event::InterruptSource;
use super::super::tables::InterruptRow;
use super::{Output, Processor};

impl Processor {
    pub(super) fn enter_interrupt(
        &mut self,
        cpu: u16,
        source: InterruptSource,
        number: u16,
        sink: &mut impl FnMut(Output),
    ) {
        let begin_ns = self.now_ns;
        if self.cpu(cpu).frames.len() >= FRAMES_MAX {
            self.counts.repairs.interrupts += 1;
            self.pop_frame(cpu, sink);
        }
        let this = self.cpu(cpu);
        if this.frames.is_empty() {
            this.completion = None;
        }
        this.frames.push(Frame { source, number, begin_ns, computing_ns: 0 });
        match source {
            InterruptSource::Softirq => this.row.softirqs += 1,
            _ => this.row.interrupts += 1,
        }
    }

    pub(super) fn exit_interrupt(
        &mut self,
        cpu: u16,
        source: InterruptSource,
        number: u16,
        sink: &mut impl FnMut(Output),
    ) {
        let same = |frame: &Frame| frame.source == source && frame.number == number;
        let Some(place) = self.cpu(cpu).frames.iter().rposition(same) else {
            self.counts.repairs.interrupts += 1;
            return;
        };
        // Interrupts within it whose ends were not recorded.
        while self.cpu(cpu).frames.len() > place + 1 {
            self.counts.repairs.interrupts += 1;
            self.pop_frame(cpu, sink);
        }
        self.pop_frame(cpu, sink);
        let this = self.cpu(cpu);
        if this.frames.is_empty() {
            this.completion = None;
        }
    }

    pub(super) fn pop_frame(&mut self, cpu: u16, sink: &mut impl FnMut(Output)) {
        let begin_ns = self.begin_ns;
        let this = self.cpu(cpu);
        let Some(frame) = this.frames.pop() else { return };
        sink(Output::Interrupt(InterruptRow {
            cpu,
            begin_ns: frame.begin_ns - begin_ns,
            source: frame.source,
            number: frame.number,
            computing_ns: frame.computing_ns,
            interrupted: this.current.unwrap_or(0),
        }));
    }
}
