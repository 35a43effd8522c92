//! The targets of a measurement: resolved, made, claimed, and opened for each phase.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use seeklab_bench::target::{
    Opening, Polling, SharedEmulation, SharedModel, Target, TargetKind, TargetOptions,
};
use seeklab_bench::{Claim, ClaimOptions, DeviceIdentity, WriteData, claim};
use seeklab_core::names::near_matches;
use seeklab_core::statistics::Distribution;
use seeklab_core::{ByteSize, Coverage, Instant, Seed};
use seeklab_emulator::clock::{Clock, Pacing};

use super::answer::{self, Patience, Unanswered};
use super::load::Load;
use super::made::MadeFile;
use super::options::{BenchOptions, ExpectedDevice, StreamOptions, TargetChoice};
use super::page_cache::drop_pages;
use super::plan;
use crate::devices::{Resolved, Setup, resolve};
use crate::failure::Failure;
use crate::session::Session;
use crate::stop::Stop;

/// The targets of a measurement that is over. Their files are removed and their claims end when this is dropped.
#[derive(Debug)]
#[must_use = "the targets are closed when this is dropped"]
pub struct MeasuredTargets {
    _targets: Vec<ReadyTarget>,
}

impl MeasuredTargets {
    pub(super) fn new(targets: Vec<ReadyTarget>) -> Self {
        Self { _targets: targets }
    }

    /// Drops the targets, which a target that does not answer can delay without limit: at most for `patience`, then on a thread
    /// of its own. Returns true if they are closed.
    pub fn close(self, patience: Duration) -> bool {
        let patience = Patience { limit: patience, after_stop: patience };
        answer::within(patience, &Stop::new(), move || drop(self)).is_ok()
    }
}

/// A target that can be opened.
#[derive(Debug)]
pub(super) struct ReadyTarget {
    /// Its address, as the user wrote it.
    pub(super) address: String,
    /// Its kind.
    pub(super) kind: &'static TargetKind,
    /// The model, if it is one.
    pub(super) device: Option<Resolved>,
    /// Identity of the device, if it has one.
    pub(super) identity: Option<DeviceIdentity>,
    expected: ExpectedDevice,
    pub(super) inner: String,
    pub(super) buffered: bool,
    drops_pages: bool,
    polling: Polling,
    number: usize,
    /// The model of this repetition, in virtual time.
    model: Option<SharedModel>,
    /// The emulated device of this repetition, in real time.
    emulated: Option<SharedEmulation>,
    _claim: Option<Claim>,
    // Removed behind the claim.
    _made: Option<MadeFile>,
}

impl ReadyTarget {
    /// Makes the target ready: its model is resolved, its file is made, and leave to write is taken.
    ///
    /// # Errors
    /// A model that is none, a file that cannot be made, or a target that must not be overwritten.
    fn new(
        session: &Session,
        choice: &TargetChoice,
        number: usize,
        destroy: Option<&str>,
        is_written: bool,
    ) -> Result<Self, Failure> {
        let (kind, inner) = TargetKind::of(&choice.address);
        let device = device(choice, kind, inner)?;
        let identity = identify(session.stop(), kind, inner)?;
        check_serial(choice, identity.as_ref())?;
        if choice.polling.is_any() && !kind.can_poll() {
            let problem =
                format!("--poll: `{}` is no target of io_uring, so nothing is polled", choice.address);
            return Err(Failure::new(problem).hint("leave it out, or name a file or a block device"));
        }
        let made = match choice.create {
            Some(size) => Some(MadeFile::create(session, &choice.address, size)?),
            None => {
                check_existence(&choice.address, kind, inner)?;
                None
            }
        };
        let path = kind.holds_data.then(|| Path::new(inner)).filter(|path| path.exists());
        let claim = if kind.holds_data && is_written {
            let (address, path) = (choice.address.clone(), path.map(Path::to_owned));
            let (destroy, is_own) = (destroy.map(str::to_owned), made.is_some());
            let claimed = answered(session.stop(), &choice.address, move || {
                let (path, destroy) = (path.as_deref(), destroy.as_deref());
                let is_expendable = !is_own && destroy.is_none() && is_expendable(&address);
                claim(ClaimOptions { address: &address, path, destroy, is_own, is_expendable })
            });
            Some(claimed??)
        } else {
            None
        };
        Ok(Self {
            address: choice.address.clone(),
            kind,
            device,
            identity: if made.is_some() { identify(session.stop(), kind, inner)? } else { identity },
            expected: choice.expected.clone(),
            inner: inner.to_owned(),
            buffered: choice.buffered,
            drops_pages: choice.drops_pages,
            polling: choice.polling,
            number,
            model: None,
            emulated: None,
            _claim: claim,
            _made: made,
        })
    }

    /// Time of the model in this repetition.
    pub(super) fn model_time(&self) -> Instant {
        self.model.as_ref().map_or(Instant::ZERO, SharedModel::time)
    }

    /// Requests inside and outside of what the model was fitted to, in this repetition. `None` if it was not fitted.
    pub(super) fn coverage(&self) -> Option<Coverage> {
        match &self.emulated {
            Some(emulated) => emulated.coverage(),
            None => self.model.as_ref().and_then(SharedModel::coverage),
        }
    }

    /// Lateness of the completions of an emulated device since the last call.
    pub(super) fn take_lateness(&self) -> Option<Distribution> {
        self.emulated.as_ref().map(SharedEmulation::take_lateness)
    }

    /// Opens the target once for each thread of a stream.
    pub(super) fn open(
        &self,
        stream: &StreamOptions,
        load: &Load,
        seed: Seed,
        pacing: Pacing,
        stop: &Stop,
    ) -> Result<Vec<Box<dyn Target>>, Failure> {
        self.check_requests(stream)?;
        let room = plan::outstanding_max(stream, load).div_ceil(stream.threads);
        let options = TargetOptions {
            outstanding_max: room,
            direct: !self.buffered,
            polling: self.polling,
            prepared_bytes: load.prepared_bytes,
            reads: load.reads,
            writes: load.writes,
            data: stream.data.clone(),
            priority: stream.priority,
            seed: seed.0,
            pacing,
        };
        let (kind, inner, model, stopped) = (self.kind, self.inner.clone(), self.model.clone(), stop.clone());
        let emulated = self.emulated.clone();
        let threads = stream.threads;
        let open = move || {
            let model = |_: &str| Ok(model.clone().expect("a model is made for each repetition"));
            let emulated = |_: &str| Ok(emulated.clone().expect("a device is made for each repetition"));
            let is_stopped = || stopped.is_stopped();
            let opening = Opening {
                clock: Clock::start(),
                options: &options,
                model: &model,
                emulated: &emulated,
                is_stopped: &is_stopped,
            };
            (0..threads).map(|_| (kind.open)(&inner, &opening)).collect::<Result<Vec<_>, _>>()
        };
        if self.drops_pages && kind.is_of_kernel() {
            let path = PathBuf::from(&self.inner);
            let dropped = answered(stop, &self.address, move || drop_pages(&path))?;
            dropped.map_err(|error| {
                Failure::from(error).context(format!("`{}`: its pages cannot be dropped", self.address))
            })?;
        }
        // The others look at the stop themselves, and have a limit.
        let targets = if kind.is_of_kernel() { answered(stop, &self.address, open)?? } else { open()? };
        if let Some(target) = targets.first() {
            let space = &target.facts().space;
            let bytes = space.capacity_blocks.saturating_mul(space.block_size.as_bytes());
            check_capacity(&self.address, &self.expected, bytes)?;
            let identified = self.identity.as_ref().and_then(|identity| identity.serial.as_deref());
            if let (Some(identified), Some(opened)) = (identified, target.facts().serial.as_deref())
                && identified != opened
            {
                let problem = format!(
                    "`{}`: has the serial number `{opened}` now, and had `{identified}`",
                    self.address
                );
                return Err(Failure::new(problem).hint("another device has this address since the run began"));
            }
            load.check_limits(&self.address, target.facts())?;
        }
        Ok(targets)
    }

    /// Refuses contents and priorities that requests to the target do not have.
    fn check_requests(&self, stream: &StreamOptions) -> Result<(), Failure> {
        let Self { address, kind, .. } = self;
        if stream.data != WriteData::default() && !kind.holds_data {
            let problem =
                format!("`{address}`: carries no data, and those of writes are to be {}", stream.data);
            return Err(
                Failure::new(problem).hint("remove --data, or measure a block device, a file or an export")
            );
        }
        if let Some(priority) = stream.priority.filter(|_| !kind.has_priorities) {
            let problem = format!("`{address}`: requests have no priority there, and {priority} is wanted");
            return Err(Failure::new(problem).hint(
                "remove the priority, or name a block device or a file by its path, which io_uring reaches",
            ));
        }
        Ok(())
    }
}

/// Does what needs an answer of a target of the kernel.
///
/// # Errors
/// If there is none in time, or the caller stops the work.
pub(super) fn answered<T: Send + 'static>(
    stop: &Stop,
    address: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    answer::within(Patience::OPENING, stop, work).map_err(|unanswered| match unanswered {
        Unanswered::Stopped => Failure::interrupted(),
        Unanswered::Late => {
            let limit_s = Patience::OPENING.limit.as_secs();
            let problem = format!("`{address}`: does not answer, and was given {limit_s} s to be opened");
            Failure::new(problem).hint(format!(
                "the kernel may hold process {} until the target answers or goes",
                std::process::id()
            ))
        }
        Unanswered::NoThread(error) => Failure::from(error).context("no thread can be started"),
    })
}

/// Returns true of a device whose contents nobody loses. One that does not answer is none.
pub(super) fn is_expendable(address: &str) -> bool {
    let (kind, inner) = TargetKind::of(address);
    (kind.is_expendable)(inner, &|| false).unwrap_or(false)
}

/// The identity of the device behind an address of that kind.
///
/// # Errors
/// If its server cannot be reached, or refuses this client.
fn identify(stop: &Stop, kind: &TargetKind, inner: &str) -> Result<Option<DeviceIdentity>, Failure> {
    Ok((kind.identify)(inner, &|| stop.is_stopped())?)
}

/// Refuses a target without the serial number that is expected, and a file or block device of another size.
fn check_serial(choice: &TargetChoice, identity: Option<&DeviceIdentity>) -> Result<(), Failure> {
    let ExpectedDevice { serial, .. } = &choice.expected;
    if let Some(expected) = serial {
        let found = identity.and_then(|identity| identity.serial.as_deref());
        if found != Some(expected.as_str()) {
            let found = found.map_or_else(
                || "has no serial number".to_owned(),
                |serial| format!("has the serial number `{serial}`"),
            );
            let problem = format!("`{}`: {found}, and `{expected}` is expected", choice.address);
            return Err(Failure::new(problem)
                .hint("another device has this address now; name the expected one, or leave out `serial` (of a rerun: begin a new run)"));
        }
    }
    match identity {
        // A link of a new kernel may lead elsewhere: nothing is made, claimed or opened before.
        Some(identity) if choice.create.is_none() => {
            check_capacity(&choice.address, &choice.expected, identity.capacity_bytes)
        }
        _ => Ok(()),
    }
}

/// Refuses the path of no file.
fn check_existence(address: &str, kind: &TargetKind, path: &str) -> Result<(), Failure> {
    let is_absent = || {
        let found = std::fs::metadata(path).map_err(|error| error.kind());
        matches!(found, Err(ErrorKind::NotFound | ErrorKind::NotADirectory))
    };
    if !kind.is_of_kernel() || !is_absent() {
        return Ok(());
    }
    let near = near_matches(address, ["null"]);
    let hint = match seeklab_devices::catalog::find(path) {
        Ok(_) => format!(
            "the catalog has a device `{path}`: measure it in virtual time as model:{path}, in real time as emulate:{path}"
        ),
        Err(_) => "name a file or block device that is there, or make a file for the run with --create SIZE"
            .to_owned(),
    };
    Err(Failure::new(format!("`{address}`: there is no such file{near}")).hint(hint))
}

/// Refuses a target of another size than is expected.
fn check_capacity(address: &str, expected: &ExpectedDevice, bytes: u64) -> Result<(), Failure> {
    match expected.capacity {
        Some(expected) if expected.as_bytes() != bytes => {
            let found = ByteSize::from_bytes(bytes);
            Err(Failure::new(format!("`{address}`: has {found}, and {expected} is expected"))
                .hint("another target has this address now; name the expected one, or leave out `capacity` (of a rerun: begin a new run)"))
        }
        _ => Ok(()),
    }
}

/// A repetition begins: models are at their time zero, those in virtual time all on one clock.
pub(super) fn begin_repetition(targets: &mut [ReadyTarget], seed: Seed) -> Result<(), Failure> {
    let mut first: Option<SharedModel> = None;
    for target in targets {
        let Some(device) = &target.device else { continue };
        let device = device.build(seed, &format!("disk{}", target.number))?;
        let address = target.address.clone();
        if !target.kind.is_virtual {
            target.emulated = Some(SharedEmulation::new(address, device));
            continue;
        }
        let model = match &first {
            Some(first) => first.beside(address, device),
            None => SharedModel::new(address, device),
        };
        first.get_or_insert_with(|| model.clone());
        target.model = Some(model);
    }
    Ok(())
}

/// Files and devices among the targets.
pub(super) fn paths(options: &BenchOptions) -> impl Iterator<Item = PathBuf> {
    options.targets.iter().filter_map(|target| {
        let (kind, address) = TargetKind::of(&target.address);
        kind.holds_data.then(|| PathBuf::from(address))
    })
}

/// Refuses targets with times of different clocks.
///
/// # Errors
/// A target in virtual time beside one that is none.
pub(super) fn check_kinds(options: &BenchOptions) -> Result<(), Failure> {
    let kind_of = |target: &TargetChoice| TargetKind::of(&target.address).0;
    if let Some(other) = options
        .targets
        .iter()
        .find(|target| kind_of(target).is_virtual != kind_of(&options.targets[0]).is_virtual)
    {
        let problem = format!(
            "`{}` and `{}`: one of them is a model in virtual time, the other is none",
            options.targets[0].address, other.address
        );
        return Err(Failure::new(problem).hint("measure models and real targets in plans of their own"));
    }
    Ok(())
}

/// Refuses the page cache for targets that have none.
///
/// # Errors
/// A target that is buffered and no file or block device.
pub(super) fn check_buffering(options: &BenchOptions) -> Result<(), Failure> {
    let is_without =
        |target: &&TargetChoice| target.buffered && !TargetKind::of(&target.address).0.is_of_kernel();
    match options.targets.iter().find(is_without) {
        None => Ok(()),
        Some(target) => {
            let problem = format!("--buffered: `{}` is no file or block device", target.address);
            Err(Failure::new(problem)
                .hint("leave out --buffered: only files and block devices have a page cache"))
        }
    }
}

/// Makes all targets ready. `loads` are those of the streams of each phase.
///
/// # Errors
/// As those of a target, targets with times of different clocks, and names typed again of what is no target.
pub(super) fn ready(
    session: &Session,
    options: &BenchOptions,
    loads: &[Vec<Load>],
) -> Result<Vec<ReadyTarget>, Failure> {
    check_kinds(options)?;
    check_buffering(options)?;
    let mut is_used = vec![false; options.destroy.len()];
    let mut targets = Vec::new();
    for (number, choice) in options.targets.iter().enumerate() {
        let is_written = is_written(options, loads, number);
        let kind = TargetKind::of(&choice.address).0;
        let named = options.destroy.iter().position(|name| is_name_of(name, &choice.address));
        if let Some(named) = named.filter(|_| kind.holds_data && is_written && choice.create.is_none()) {
            is_used[named] = true;
        }
        // A single name that fits nothing is the target's own mistake.
        let is_only = options.targets.len() == 1 && options.destroy.len() == 1;
        let only = options.destroy.first().filter(|_| is_only && kind.holds_data && is_written);
        let destroy = named.map(|named| &options.destroy[named]).or(only);
        if only.is_some() {
            is_used[0] = true;
        }
        let destroy = destroy.map(String::as_str);
        targets.push(ReadyTarget::new(session, choice, number, destroy, is_written)?);
    }
    if let Some(name) =
        options.destroy.iter().zip(is_used).find_map(|(name, is_used)| (!is_used).then_some(name))
    {
        let failure = Failure::new(if options.targets.len() == 1 && options.destroy.len() == 1 {
            "--destroy: nothing would be overwritten".to_owned()
        } else {
            format!("--destroy {name}: no target of that name would be overwritten")
        });
        return Err(failure.hint("it goes with a workload that writes to a device, a file or an export"));
    }
    Ok(targets)
}

/// Returns true if a name that was typed again names the target at `address`.
pub(super) fn is_name_of(name: &str, address: &str) -> bool {
    name == address || Path::new(name) == Path::new(TargetKind::of(address).1)
}

/// Returns true if a stream writes to the target of that number. `loads` are those of the streams of each phase.
pub(super) fn is_written(options: &BenchOptions, loads: &[Vec<Load>], target: usize) -> bool {
    let mut streams =
        options.phases.iter().zip(loads).flat_map(|(phase, loads)| phase.streams.iter().zip(loads));
    streams.any(|(stream, load)| stream.target == target && load.writes)
}

/// The model, if the target is one.
fn device(choice: &TargetChoice, kind: &TargetKind, address: &str) -> Result<Option<Resolved>, Failure> {
    if kind.is_model {
        return resolve(address, &choice.setup).map(Some);
    }
    let Setup { bare, overrides, faults, queue } = &choice.setup;
    if *bare || !overrides.is_empty() || queue.is_some() || faults.is_some() {
        let problem = "--bare, --set, --fault, --faults and --scheduler set up a model";
        return Err(Failure::new(format!("{problem}, and `{}` is none", choice.address))
            .hint("write model:DEVICE to measure a model in virtual time, or emulate:DEVICE in real time"));
    }
    Ok(None)
}
