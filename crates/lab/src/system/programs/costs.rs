//! CPU costs of effects, from the trace: they belong to the machine, so a prediction with other requests needs them.
//!
//! ```text
//! completion │ softirq of the block layer │ wake-up │ ready │ the thread runs
//!             ◀──────── interrupt ───────▶           ◀─────▶ context switch
//! ```
//! # Scope and limits
//! - A cost is a median, so that bursts do not count.
//! - A thread that is ready for longer than 0.2 ms waits for another thread to leave the processor, which the model makes itself. Such
//!   times are left out: where several threads of a command compute, they are more than half of all.
//! - The lengths of waits, response times and requests are not used.

use seeklab_core::Duration;
use seeklab_traces::system::InterruptSource;
use seeklab_traces::system::Waker;
use seeklab_traces::system::tables::{InterruptRow, WaitRow};

/// Number of the softirq that completes requests: `BLOCK_SOFTIRQ` of the kernel.
const BLOCK_SOFTIRQ: u16 = 4;
/// Longest time from a wake-up until the thread runs on an idle CPU. A fraction of a time slice, and several times what a virtual
/// machine needs to wake up a processor.
const SWITCH_MAX_NS: u64 = 200_000;
/// Samples without which a cost keeps its default.
const SAMPLES_MIN: usize = 20;

/// Samples of the costs.
#[derive(Debug, Default)]
pub(super) struct Costs {
    completions_ns: Vec<u64>,
    switches_ns: Vec<u64>,
}

impl Costs {
    /// Takes note of an interrupt.
    pub(super) fn interrupt(&mut self, row: &InterruptRow) {
        if row.source == InterruptSource::Softirq && row.number == BLOCK_SOFTIRQ {
            self.completions_ns.push(row.computing_ns);
        }
    }

    /// Takes note of a wait: the time after a completion until the thread ran.
    pub(super) fn wait(&mut self, row: &WaitRow) {
        if row.cause.is_io() && row.waker == Waker::Completion && row.ready_ns <= SWITCH_MAX_NS {
            self.switches_ns.push(row.ready_ns);
        }
    }

    /// The CPU time of the interrupt that completes a request.
    pub(super) fn interrupt_time(&mut self) -> Option<Duration> {
        median(&mut self.completions_ns)
    }

    /// The time from a wake-up until the thread runs on an idle CPU.
    pub(super) fn context_switch(&mut self) -> Option<Duration> {
        median(&mut self.switches_ns)
    }
}

fn median(samples_ns: &mut [u64]) -> Option<Duration> {
    if samples_ns.len() < SAMPLES_MIN {
        return None;
    }
    let middle = samples_ns.len() / 2;
    Some(Duration::from_ns(*samples_ns.select_nth_unstable(middle).1))
}

#[cfg(test)]
mod tests {
    use seeklab_traces::system::WaitCause;

    use super::*;

    fn interrupt(number: u16, computing_ns: u64) -> InterruptRow {
        InterruptRow {
            cpu: 0,
            begin_ns: 0,
            source: InterruptSource::Softirq,
            number,
            computing_ns,
            interrupted: 0,
        }
    }

    fn wait(cause: WaitCause, waker: Waker, ready_ns: u64) -> WaitRow {
        WaitRow {
            thread: 1,
            begin_ns: 0,
            wait_ns: 1_000_000,
            ready_ns,
            cause,
            call: None,
            waker,
            waker_thread: None,
            device: None,
            sector: None,
        }
    }

    #[test]
    fn costs_are_medians_of_completions_and_of_the_switches_after_them() {
        let mut costs = Costs::default();
        for sample in 0..21 {
            costs.interrupt(&interrupt(4, 3_000 + sample));
            costs.interrupt(&interrupt(1, 90_000));
            costs.wait(&wait(WaitCause::DataRead, Waker::Completion, 40 + sample));
            // Most threads wait for the processor that another one has.
            (0..3)
                .for_each(|_| costs.wait(&wait(WaitCause::DataRead, Waker::Completion, 1_500_000 + sample)));
            costs.wait(&wait(WaitCause::DataRead, Waker::Thread, 1));
            costs.wait(&wait(WaitCause::Process, Waker::Completion, 1));
        }
        assert_eq!(costs.interrupt_time(), Some(Duration::from_ns(3_010)));
        assert_eq!(costs.context_switch(), Some(Duration::from_ns(50)));
    }

    #[test]
    fn few_samples_are_no_cost() {
        let mut costs = Costs::default();
        for _ in 1..SAMPLES_MIN {
            costs.interrupt(&interrupt(4, 3_000));
        }
        assert_eq!((costs.interrupt_time(), costs.context_switch()), (None, None));
    }
}
