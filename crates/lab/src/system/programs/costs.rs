//! CPU costs of effects, from the trace: they belong to the machine, so a prediction with other requests needs them.
//!
//! ```text
//! completion │ softirq of the block layer │ wake-up │ ready │ the thread runs
//!             ◀──────── interrupt ───────▶           ◀─────▶ context switch
//!
//! round of writeback │ pages of files, one after the other │
//!                     ◀──── a page each: page submission ─▶
//! ```
//! # Scope and limits
//! - A cost is a median, so that bursts do not count.
//! - A thread that is ready for longer than 0.2 ms waits for another thread to leave the processor, which the model makes itself. Such
//!   times are left out: where several threads of a command compute, they are more than half of all.
//! - The lengths of waits, response times and requests are not used.

use seeklab_core::Duration;
use seeklab_traces::system::InterruptSource;
use seeklab_traces::system::Waker;
use seeklab_traces::system::WritebackReason;
use seeklab_traces::system::tables::{InterruptRow, WaitRow, WritebackRow};

/// Number of the softirq that completes requests: `BLOCK_SOFTIRQ` of the kernel.
const BLOCK_SOFTIRQ: u16 = 4;
/// Longest time from a wake-up until the thread runs on an idle CPU. A fraction of a time slice, and several times what a virtual
/// machine needs to wake up a processor.
const SWITCH_MAX_NS: u64 = 200_000;
/// Samples without which a cost keeps its default.
const SAMPLES_MIN: usize = 20;
/// Pages of a round of writeback from which on it is a sample: its beginning does not count then.
const ROUND_PAGES_MIN: u64 = 64;
/// Longest time of a page in a round that waited for nothing: several times what small files need.
const PAGE_MAX_NS: u64 = 5_000;

/// Samples of the costs.
#[derive(Debug, Default)]
pub(super) struct Costs {
    completions_ns: Vec<u64>,
    switches_ns: Vec<u64>,
    /// Of each round of writeback, the time of a page.
    pages_ns: Vec<u64>,
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

    /// Takes note of a round of writeback. Of those for a synchronisation, most wait.
    pub(super) fn writeback(&mut self, row: &WritebackRow) {
        let page_ns = row.write_ns / row.pages.max(1);
        if row.reason == WritebackReason::Background && row.pages >= ROUND_PAGES_MIN && page_ns <= PAGE_MAX_NS
        {
            self.pages_ns.push(page_ns);
        }
    }

    /// The CPU time of the interrupt that completes a request.
    pub(super) fn interrupt_time(&mut self) -> Option<Duration> {
        median(&mut self.completions_ns, SAMPLES_MIN)
    }

    /// The time from a wake-up until the thread runs on an idle CPU.
    pub(super) fn context_switch(&mut self) -> Option<Duration> {
        median(&mut self.switches_ns, SAMPLES_MIN)
    }

    /// The CPU time of the flusher for each page. One round is the mean of many pages.
    pub(super) fn page_submission(&mut self) -> Option<Duration> {
        median(&mut self.pages_ns, 1)
    }
}

fn median(samples_ns: &mut [u64], samples_min: usize) -> Option<Duration> {
    if samples_ns.len() < samples_min {
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
    fn page_submission_is_the_median_of_the_rounds_that_did_not_wait() {
        let round =
            |reason, pages, write_ns| WritebackRow { thread: 1, begin_ns: 0, write_ns, reason, pages };
        let mut costs = Costs::default();
        // Short rounds, rounds that waited for the device, and synchronisations.
        for row in [
            round(WritebackReason::Background, 10, 30_000),
            round(WritebackReason::Background, 100, 900_000),
            round(WritebackReason::Background, 0, 90_000),
            round(WritebackReason::Sync, 100, 200_000),
        ] {
            costs.writeback(&row);
        }
        assert_eq!(costs.page_submission(), None);
        for write_ns in [700_000, 720_000, 1_900_000] {
            costs.writeback(&round(WritebackReason::Background, 1_000, write_ns));
        }
        assert_eq!(costs.page_submission(), Some(Duration::from_ns(720)));
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
