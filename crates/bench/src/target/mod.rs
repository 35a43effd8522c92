//! Targets: what requests are sent to. One file each, listed in [`TARGETS`].
//!
//! ```text
//! submit([transfer, …]) ─▶ kernel, server or model ─▶ poll() ─▶ [ended, …]
//! ```
//! # Scope and limits
//! A target belongs to one thread. Transfers are handed over many at a time, and so are those that have ended, so that a
//! target in the kernel costs less than one system call per request. Reads leave their data in buffers that a
//! [`Checker`] looks at, if there is one. Writes send data that no compression makes smaller.

mod attempt;
mod away;
mod buffers;
mod file;
mod idle;
mod polled_queue;
mod ring;

use seeklab_core::{Instant, Operation, Reclassification, Request, Status};
use seeklab_emulator::clock::{Clock, Pacing, Wait};
use seeklab_workloads::AddressSpace;

pub use crate::error::TargetError;
use crate::identity::DeviceIdentity;
use crate::priority::IoPriority;
use crate::verify::Checker;
use crate::write_data::WriteData;
pub use emulate::SharedEmulation;
pub(crate) use file::OpenFile;
pub use model::SharedModel;

/// Declares the module of each target. Each has a `KIND`.
macro_rules! targets {
    ($($module:ident,)+) => {
        $(mod $module;)+

        /// THE list of targets. The last one takes every address that no other takes.
        pub static TARGETS: &[TargetKind] = &[$($module::KIND),+];
    };
}

targets! {
    null,
    model,
    emulate,
    nbd,
    iscsi,
    vhost_user,
    psync,
    io_uring,
}

/// A kind of target.
#[derive(Debug, Clone, Copy)]
pub struct TargetKind {
    /// Its name.
    pub name: &'static str,
    /// Form of its addresses.
    pub form: &'static str,
    /// Description in a sentence.
    pub meaning: &'static str,
    /// Returns the part of an address that [`open`](Self::open) takes, if the address is of this kind.
    pub matches: fn(&str) -> Option<&str>,
    /// True if writes to it change data that somebody may need.
    pub holds_data: bool,
    /// True if it is a device of the catalog or of a file.
    pub is_model: bool,
    /// True if requests can have an I/O priority.
    pub has_priorities: bool,
    /// True if its times are those of a model, so that no thread waits.
    pub is_virtual: bool,
    /// Returns the identity of the device behind an address, if targets of this kind have one and it is there.
    /// The function is looked at as [`Opening::is_stopped`].
    pub identify: fn(&str, &dyn Fn() -> bool) -> Result<Option<DeviceIdentity>, TargetError>,
    /// Returns true of a device that `seeklab serve` keeps in memory and that holds nothing recognised: nobody loses contents to
    /// a measurement. The function is looked at as [`Opening::is_stopped`].
    pub is_expendable: fn(&str, &dyn Fn() -> bool) -> Result<bool, TargetError>,
    /// Opens a target of this kind.
    pub open: fn(&str, &Opening<'_>) -> Result<Box<dyn Target>, TargetError>,
}

impl TargetKind {
    /// The kind of an address, and the address without the prefix of the kind.
    pub fn of(address: &str) -> (&'static Self, &str) {
        let found = TARGETS.iter().find_map(|kind| Some((kind, (kind.matches)(address)?)));
        found.expect("the last kind takes every address")
    }

    /// Returns true if it can poll for submissions and completions.
    pub fn can_poll(&self) -> bool {
        self.name == io_uring::KIND.name
    }

    /// Returns true of a file or block device of this machine: its requests are system calls that no signal ends.
    pub fn is_of_kernel(&self) -> bool {
        [psync::KIND.name, io_uring::KIND.name].contains(&self.name)
    }
}

/// Polling in place of system calls and interrupts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Polling {
    /// A thread of the kernel looks for submissions (SQPOLL), so that none needs a system call. It takes a processor while
    /// requests come, and sleeps a second behind the last one.
    pub submission: bool,
    /// Completions are looked for in the queue of the device (IOPOLL), which sends no interrupts.
    pub completion: bool,
}

impl Polling {
    /// Returns true if anything is polled.
    pub const fn is_any(self) -> bool {
        self.submission || self.completion
    }
}

/// Options of a target that is opened.
#[derive(Debug, Clone)]
pub struct TargetOptions {
    /// Requests that it takes at a time.
    pub outstanding_max: u32,
    /// Bypass the page cache.
    pub direct: bool,
    /// Polling, of a target that can.
    pub polling: Polling,
    /// Length of most requests at most, for which buffers are prepared.
    pub prepared_bytes: usize,
    /// The workload reads.
    pub reads: bool,
    /// The workload writes, discards or writes zeroes.
    pub writes: bool,
    /// Content of the data of writes.
    pub data: WriteData,
    /// I/O priority of the requests [default: that of this process]. Targets without priorities refuse it.
    pub priority: Option<IoPriority>,
    /// Seed of the data of writes.
    pub seed: u64,
    /// Trade-off between processor time and accurate waits, for targets that wait for deadlines of their own.
    pub pacing: Pacing,
}

/// Inputs of a target that is opened.
pub struct Opening<'a> {
    /// Clock of its stamps before a run begins.
    pub clock: Clock,
    /// Options.
    pub options: &'a TargetOptions,
    /// The model of that name, which all threads share.
    pub model: &'a dyn Fn(&str) -> Result<SharedModel, String>,
    /// The emulated device of that name, which all threads share.
    pub emulated: &'a dyn Fn(&str) -> Result<SharedEmulation, String>,
    /// True as soon as the caller wants an end. What waits for a server looks at it several times per second.
    pub is_stopped: &'a dyn Fn() -> bool,
}

impl std::fmt::Debug for Opening<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Opening").field("options", self.options).finish_non_exhaustive()
    }
}

/// Limits that a target states when it is opened. It refuses requests beyond them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetLimits {
    /// Operations that it does not carry out.
    pub refused: Vec<Operation>,
    /// It carries out no writes with force unit access.
    pub refuses_fua: bool,
    /// Longest read or write, in bytes [default: any].
    pub request_bytes_max: Option<u64>,
}

/// Properties of an open target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetFacts {
    /// Its addresses.
    pub space: AddressSpace,
    /// Requests that it takes at a time.
    pub outstanding_max: u32,
    /// Serial number of the device that was opened, if its server states it.
    pub serial: Option<String>,
    /// Limits that it states.
    pub limits: TargetLimits,
    /// Remarks on the way in which it was opened, such as a fallback.
    pub notes: Vec<String>,
}

impl TargetFacts {
    /// Facts without limits and remarks.
    pub fn new(space: AddressSpace, outstanding_max: u32) -> Self {
        Self { space, outstanding_max, serial: None, limits: TargetLimits::default(), notes: Vec::new() }
    }
}

/// A request that is handed to a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Number of its slot, below the number of requests that the target takes at a time.
    pub tag: u32,
    /// The request.
    pub request: Request,
}

/// A transfer that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Number of its slot.
    pub tag: u32,
    /// Time at which it ended, on the clock of the target.
    pub completed: Instant,
    /// Status of the request.
    pub status: Status,
    /// Blocks before the first bad one, if the request failed and the number is known.
    pub good_blocks: Option<u32>,
}

/// Something real, or a model, that requests are sent to.
pub trait Target: Send {
    /// Returns the properties of the target.
    fn facts(&self) -> &TargetFacts;

    /// Returns the time on the clock of the target.
    fn now(&self) -> Instant;

    /// The run begins: stamps are on this clock from now on. A model keeps its virtual time.
    fn set_clock(&mut self, clock: Clock);

    /// Hands transfers over. No more are under way at a time than the target takes, and no two have the same tag.
    ///
    /// # Errors
    /// A failure after which the target cannot go on. A request that fails is no such failure.
    fn submit(&mut self, transfers: &[Transfer]) -> Result<(), TargetError>;

    /// Appends the transfers that have ended. Waits as `wait` says until at least `at_least` have ended.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    fn poll(&mut self, wait: Wait, at_least: u32, ended: &mut Vec<Ended>) -> Result<(), TargetError>;

    /// Returns true if the target takes transfers now. A connection that is being remade takes none.
    fn is_ready(&self) -> bool {
        true
    }

    /// The transfer has exceeded its time limit. It is still under way, unless the target can end it.
    fn timed_out(&mut self, _tag: u32) {}

    /// Returns the place for the checker of its data, if the target carries data. A checker that is there stamps the data of
    /// every write, and is given the data of every read that succeeds.
    fn checker(&mut self) -> Option<&mut Option<Box<Checker>>> {
        None
    }

    /// Returns true if a flush makes the writes durable that other targets on the same device have completed.
    fn flush_covers_all(&self) -> bool {
        true
    }

    /// A request that is under way is more pressing from now on. Only models know classes.
    fn reclassify(&mut self, _change: &Reclassification) {}

    /// Returns true if [`poll`](Self::poll) looks for completions on the processor in place of a wait in the kernel.
    fn spins(&self) -> bool {
        false
    }

    /// Returns the number of system calls made so far.
    fn system_calls(&self) -> u64 {
        0
    }

    /// Returns the reason for which requests were refused without being sent, the first one.
    fn refusal(&self) -> Option<&str> {
        None
    }

    /// Returns the number of connections that were remade.
    fn reconnections(&self) -> u64 {
        0
    }
}

/// No device stands behind the address, or none that states who it is.
fn unidentified(_: &str, _: &dyn Fn() -> bool) -> Result<Option<DeviceIdentity>, TargetError> {
    Ok(None)
}

/// Contents behind such addresses are somebody's, or there are none.
fn never_expendable(_: &str, _: &dyn Fn() -> bool) -> Result<bool, TargetError> {
    Ok(false)
}

/// First byte and length of a request on a target with blocks of that size.
pub(crate) fn byte_range(request: &Request, block_bytes: u64) -> (u64, usize) {
    if request.op == Operation::Flush {
        return (0, 0);
    }
    (request.lbn * block_bytes, request.blocks as usize * block_bytes as usize)
}
