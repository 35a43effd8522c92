//! Counters of the machine, of this process and of watched processes, read from `/proc` at an interval of their own.
//!
//! ```text
//! /proc ─▶ Snapshot ─┬─▶ CounterSample: rates over the time between two snapshots, and levels at its end
//! /proc ─▶ Snapshot ─┘
//! ```
//! # Scope and limits
//! Linux, without privilege. Files that are not there, such as those of pressure in an older kernel, are listed and leave their
//! counters out. The context switches of a process are those of its threads that live throughout a sample. A sample costs
//! processor time of this process, which the cost of measuring includes.
//!
//! # References
//! X. He, M. Zhang and Q. Yang, SPEK: A Storage Performance Evaluation Kernel module, IEEE TDSC 2(2), 2005, section 2.2. Linux,
//! `Documentation/filesystems/proc.rst`, `Documentation/admin-guide/iostats.rst` and `Documentation/accounting/psi.rst`.

mod machine;
mod process;
mod snapshot;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};

use seeklab_core::{Duration, Instant};
use seeklab_emulator::clock::Clock;

use crate::error::BenchError;
use snapshot::Snapshot;

pub use snapshot::{COUNTERS, CounterKind, CounterScope};

/// Shortest sample at the end: ten ticks of the clock by which Linux counts processor time.
const SAMPLE_MIN: Duration = Duration::from_ms(100);

/// Options of the counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterOptions {
    /// Length of a sample.
    pub interval: Duration,
    /// Processes beside this one.
    pub watch: Vec<Watch>,
}

/// Processes that are watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watch {
    /// The process of this number.
    Process(u32),
    /// All processes of this name, also those that begin later.
    Name(String),
}

impl FromStr for Watch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "" => Err("write the name or the number of a process".to_owned()),
            text => Ok(text.parse().map_or_else(|_| Self::Name(text.to_owned()), Self::Process)),
        }
    }
}

impl std::fmt::Display for Watch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Process(number) => write!(formatter, "{number}"),
            Self::Name(name) => formatter.write_str(name),
        }
    }
}

/// A counter of something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CounterSeries {
    /// Kind of the thing that is counted.
    pub scope: CounterScope,
    /// Name of the interface, disk or process; empty of the machine and of this process.
    pub name: String,
    /// Name of the counter, with its unit.
    pub counter: &'static str,
}

/// Values of a sample.
#[derive(Debug, Clone, PartialEq)]
pub struct CounterSample {
    /// End of the sample, from the begin of the counters.
    pub at: Duration,
    /// Its length.
    pub length: Duration,
    /// The values, each with the place of its series.
    pub values: Vec<(usize, f64)>,
}

/// All samples.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counters {
    /// The series, in the order in which they came up.
    pub series: Vec<CounterSeries>,
    /// The samples, in order.
    pub samples: Vec<CounterSample>,
    /// Files that could not be read, and watched processes that were not there.
    pub missing: Vec<String>,
}

impl Counters {
    /// The value of a series in each sample that has one: end of the sample and value.
    pub fn values(&self, series: usize) -> impl Iterator<Item = (&CounterSample, f64)> {
        self.samples.iter().filter_map(move |sample| {
            sample.values.iter().find(|(place, _)| *place == series).map(|(_, value)| (sample, *value))
        })
    }
}

/// Takes each sample as it is made, with all series so far.
pub type TakeSample = Box<dyn FnMut(&CounterSample, &[CounterSeries]) + Send>;

/// Counters that are being read.
#[derive(Debug)]
pub struct CounterThread {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Counters>>,
}

impl CounterThread {
    /// Begins to read counters.
    ///
    /// # Errors
    /// A watched number that is no process, or no thread.
    pub fn begin(options: CounterOptions, take: TakeSample) -> Result<Self, BenchError> {
        Self::begin_in(PathBuf::from("/proc"), options, take)
    }

    fn begin_in(root: PathBuf, options: CounterOptions, mut take: TakeSample) -> Result<Self, BenchError> {
        check(&root, &options.watch)?;
        let (stop, stopped) = channel();
        let work = move || sample(&root, &options, &stopped, &mut take);
        let thread = thread::Builder::new().name("counters".to_owned()).spawn(work);
        let thread = thread.map_err(|source| BenchError::Thread { source })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Takes the last sample and ends.
    pub fn finish(mut self) -> Counters {
        drop(self.stop.take());
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

/// Names of `watch` that no process has now.
pub fn absent_names(watch: &[Watch]) -> Vec<&str> {
    let root = Path::new("/proc");
    let names = watch.iter().filter_map(|watch| match watch {
        Watch::Name(name) => Some(name.as_str()),
        Watch::Process(_) => None,
    });
    names.filter(|name| process::named(root, &[name]).is_empty()).collect()
}

/// Checks that the watched numbers are processes.
fn check(root: &Path, watch: &[Watch]) -> Result<(), BenchError> {
    for watch in watch {
        if let Watch::Process(number) = watch
            && !root.join(number.to_string()).join("stat").exists()
        {
            return Err(BenchError::NoProcess { number: *number });
        }
    }
    Ok(())
}

/// Reads counters until the other end of `stopped` is gone.
fn sample(root: &Path, options: &CounterOptions, stopped: &Receiver<()>, take: &mut TakeSample) -> Counters {
    let clock = Clock::start();
    let since_begin = || clock.now().saturating_since(Instant::ZERO);
    let mut counters = Counters::default();
    let mut before = (Snapshot::read(root, &options.watch, &mut counters.missing), Duration::ZERO);
    let mut due = options.interval;
    loop {
        let wait = std::time::Duration::from_nanos(due.saturating_sub(since_begin()).as_ns());
        let is_last = match stopped.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) => false,
            Ok(()) | Err(RecvTimeoutError::Disconnected) => true,
        };
        let at = since_begin();
        let length = at.saturating_sub(before.1);
        if !is_last || length >= SAMPLE_MIN {
            let after = Snapshot::read(root, &options.watch, &mut counters.missing);
            let values = after.since(&before.0, length, &mut counters.series);
            let sample = CounterSample { at, length, values };
            take(&sample, &counters.series);
            counters.samples.push(sample);
            before = (after, at);
        }
        if is_last {
            break;
        }
        // A sample that was late moves no other, and none is made up for.
        while due <= at {
            due += options.interval;
        }
    }
    for watch in &options.watch {
        if let Watch::Name(name) = watch {
            let is_found = counters.series.iter().any(|series| {
                series.scope == CounterScope::Process
                    && series.name.rsplit_once(" (").is_some_and(|(of, _)| of == name)
            });
            if !is_found {
                counters.missing.push(format!("no process was named `{name}`"));
            }
        }
    }
    counters.missing.sort();
    counters.missing.dedup();
    counters
}

#[cfg(test)]
mod tests;
