//! Counters at one time, and the difference of two such times.

use std::collections::BTreeMap;
use std::path::Path;

use seeklab_core::Duration;

use super::{CounterSeries, Watch, machine, process};

/// Kind of a thing that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CounterScope {
    /// The whole machine.
    Machine,
    /// This process.
    Own,
    /// A watched process.
    Process,
    /// An interface of the network.
    Interface,
    /// A disk.
    Disk,
}

impl CounterScope {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Machine => "machine",
            Self::Own => "self",
            Self::Process => "process",
            Self::Interface => "interface",
            Self::Disk => "disk",
        }
    }
}

/// Kind of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterKind {
    /// A level at the end of the sample.
    Level,
    /// An amount per second of the sample.
    Rate,
    /// A share of the time of the sample in percent.
    Share,
    /// A share of the time that the kernel counted for all processors in the sample, in percent.
    ProcessorShare,
}

/// A counter: scopes that have it, name and meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterMeaning {
    /// Things that have it.
    pub scopes: &'static [CounterScope],
    /// Name, with the unit.
    pub name: &'static str,
    /// Kind.
    pub kind: CounterKind,
    /// Meaning in a sentence.
    pub meaning: &'static str,
}

macro_rules! counters {
    ($([$scopes:ident] $($name:ident: $kind:ident, $meaning:literal;)+)+) => {
        /// All counters.
        pub const COUNTERS: &[CounterMeaning] = &[$($(
            CounterMeaning { scopes: $scopes, name: stringify!($name), kind: CounterKind::$kind, meaning: $meaning },
        )+)+];
    };
}

const MACHINE: &[CounterScope] = &[CounterScope::Machine];
const PROCESSES: &[CounterScope] = &[CounterScope::Own, CounterScope::Process];
const INTERFACE: &[CounterScope] = &[CounterScope::Interface];
const DISK: &[CounterScope] = &[CounterScope::Disk];

counters! {
    [MACHINE]
        cpu_utilisation_pct: ProcessorShare, "Time of all processors that is neither idle nor waits for I/O.";
        cpu_user_pct: ProcessorShare, "Time of all processors in user space.";
        cpu_system_pct: ProcessorShare, "Time of all processors in the kernel, without interrupts.";
        cpu_irq_pct: ProcessorShare, "Time of all processors in interrupts.";
        cpu_softirq_pct: ProcessorShare, "Time of all processors in soft interrupts.";
        cpu_iowait_pct: ProcessorShare, "Time of all processors that are idle while a task waits for I/O.";
        cpu_steal_pct: ProcessorShare, "Time that the hypervisor gave to other machines.";
        interrupts_per_second: Rate, "Interrupts.";
        context_switches_per_second: Rate, "Context switches.";
        forks_per_second: Rate, "Processes and threads that began.";
        runnable_threads: Level, "Threads that run or could run.";
        blocked_threads: Level, "Threads that wait for I/O.";
        memory_free_bytes: Level, "Memory that nobody uses.";
        memory_available_bytes: Level, "Memory that programs could have without swapping.";
        memory_buffers_bytes: Level, "Page cache of block devices.";
        memory_cached_bytes: Level, "Page cache of files.";
        memory_shared_bytes: Level, "Shared memory and tmpfs.";
        memory_dirty_bytes: Level, "Page cache that waits to be written back.";
        memory_writeback_bytes: Level, "Page cache that is being written back.";
        swap_used_bytes: Level, "Swap in use.";
        swap_in_bytes_per_second: Rate, "Memory read from swap.";
        swap_out_bytes_per_second: Rate, "Memory written to swap.";
        page_in_bytes_per_second: Rate, "Bytes read from block devices.";
        page_out_bytes_per_second: Rate, "Bytes written to block devices.";
        major_faults_per_second: Rate, "Page faults that needed I/O.";
        cpu_pressure_some_pct: Share, "Time in which some task waited for a processor.";
        memory_pressure_some_pct: Share, "Time in which some task waited for memory.";
        memory_pressure_full_pct: Share, "Time in which all tasks waited for memory.";
        io_pressure_some_pct: Share, "Time in which some task waited for I/O.";
        io_pressure_full_pct: Share, "Time in which all tasks waited for I/O.";
    [PROCESSES]
        user_processors: Rate, "Processors used in user space.";
        system_processors: Rate, "Processors used in the kernel.";
        waits_per_second: Rate, "Context switches because a thread waited.";
        preemptions_per_second: Rate, "Context switches because the kernel took the processor away.";
        resident_bytes: Level, "Memory in use.";
        threads: Level, "Threads.";
        process_major_faults_per_second: Rate, "Page faults that needed I/O.";
        device_read_bytes_per_second: Rate, "Bytes that the process caused to be read from devices.";
        device_written_bytes_per_second: Rate, "Bytes that the process caused to be written to devices.";
    [INTERFACE]
        received_packets_per_second: Rate, "Packets received.";
        received_bytes_per_second: Rate, "Bytes received.";
        sent_packets_per_second: Rate, "Packets sent.";
        sent_bytes_per_second: Rate, "Bytes sent.";
    [DISK]
        reads_per_second: Rate, "Reads that the disk completed.";
        writes_per_second: Rate, "Writes that the disk completed.";
        read_bytes_per_second: Rate, "Bytes read from the disk.";
        written_bytes_per_second: Rate, "Bytes written to the disk.";
        busy_pct: Share, "Time in which the disk had requests.";
        outstanding_requests: Rate, "Requests that the disk had, mean over time.";
}

/// Amounts so far, or levels, of one thing.
pub(super) type Amounts = Vec<(&'static str, f64)>;

/// A thing that is counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Thing {
    pub(super) scope: CounterScope,
    pub(super) name: String,
    /// Time at which a process began, so that another one of its number is another thing.
    pub(super) generation: u64,
}

/// Counters at one time.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) things: BTreeMap<Thing, Amounts>,
    /// Time that the kernel has counted for a processor so far, in seconds, the mean over all.
    pub(super) processor_s: f64,
    /// Context switches of each thread of a process: waits and preemptions.
    pub(super) threads: BTreeMap<Thing, BTreeMap<u32, [u64; 2]>>,
}

impl Snapshot {
    /// Reads all counters.
    pub(super) fn read(root: &Path, watch: &[Watch], missing: &mut Vec<String>) -> Self {
        let mut snapshot = Self::default();
        machine::read(root, &mut snapshot, missing);
        process::read(root, watch, &mut snapshot, missing);
        snapshot
    }

    pub(super) fn add(&mut self, scope: CounterScope, name: &str, generation: u64, amounts: Amounts) {
        let thing = Thing { scope, name: name.to_owned(), generation };
        self.things.entry(thing).or_default().extend(amounts);
    }

    /// The values of the time since `before`, which is so long. Series that are new are appended.
    pub(super) fn since(
        &self,
        before: &Self,
        length: Duration,
        series: &mut Vec<CounterSeries>,
    ) -> Vec<(usize, f64)> {
        let mut values = Vec::new();
        let length_s = length.as_s().max(1e-9);
        // Another time than that of the sample: the kernel counts in ticks, and is read a moment after the clock.
        let processor_s = Some(self.processor_s - before.processor_s).filter(|length_s| *length_s > 0.0);
        for (thing, amounts) in &self.things {
            // Amounts of something that came up since then are not known.
            let Some(of_before) = before.things.get(thing) else { continue };
            let amount_before =
                |name: &str| of_before.iter().find(|(other, _)| *other == name).map(|(_, amount)| *amount);
            for (name, amount) in amounts {
                let kind = COUNTERS.iter().find(|counter| counter.name == *name).map(|counter| counter.kind);
                let grown = || amount_before(name).map(|before| (amount - before).max(0.0));
                let change = || grown().map(|amount| amount / length_s);
                let value = match kind {
                    Some(CounterKind::Level) => Some(*amount),
                    Some(CounterKind::Rate) => change(),
                    Some(CounterKind::Share) => change().map(|share| 100.0 * share),
                    Some(CounterKind::ProcessorShare) => {
                        grown().zip(processor_s).map(|(amount, length_s)| 100.0 * amount / length_s)
                    }
                    None => None,
                };
                if let Some(value) = value {
                    values.push((place(series, thing, name), value));
                }
            }
        }
        for (thing, threads) in &self.threads {
            let Some(of_before) = before.threads.get(thing) else { continue };
            for (index, name) in ["waits_per_second", "preemptions_per_second"].into_iter().enumerate() {
                let change = |(thread, switches): (&u32, &[u64; 2])| {
                    of_before.get(thread).map_or(0, |before| switches[index].saturating_sub(before[index]))
                };
                let all: u64 = threads.iter().map(change).sum();
                values.push((place(series, thing, name), all as f64 / length_s));
            }
        }
        values
    }
}

/// Place of a series, which is appended if it is new.
fn place(series: &mut Vec<CounterSeries>, thing: &Thing, counter: &'static str) -> usize {
    let is_it = |known: &CounterSeries| {
        known.counter == counter && known.scope == thing.scope && known.name == thing.name
    };
    series.iter().position(is_it).unwrap_or_else(|| {
        series.push(CounterSeries { scope: thing.scope, name: thing.name.clone(), counter });
        series.len() - 1
    })
}
