//! Cutting the power of an emulated device: one run is recorded, and the device is looked at as it would come back after
//! a cut at many of its moments.
//!
//! ```text
//! COMMAND on the emulated device ─▶ Record: image before, requests, their bytes, promises
//!                                     │
//!                            replay in the model, watched ─▶ when which blocks were durable
//!                                     │
//!           a cut at each moment ─▶ Media: what was durable then ─▶ mount, CHECK, fsck ─▶ Verdict
//! ```
//! A built-in application runs over NBD instead, and is its own check: the promises are its commits, and every block that
//! they rely on is read back from the image.
//!
//! A promise is a line that COMMAND writes to `$SEEKLAB_ACK`. CHECK finds the lines written before the cut in the file
//! `$SEEKLAB_ACKED` and ends with 0 if they hold, with 1 if one is broken, and otherwise if it cannot say.
//!
//! # Scope and limits
//! The contents of the unit under the head at the cut are a parameter of the device (`power_loss.torn_sector`). A promise counts from the time at which its line was
//! read, which is a little later than it was written, never earlier.

mod builtin;
mod check;
mod checksum;
mod cuts;
mod lost;
mod media;
mod record;
mod recording;
mod report;
mod result;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use seeklab_core::{ByteSize, Duration, Instant, Seed};
use seeklab_emulator::client::Promises;
use seeklab_emulator::clock::monotonic_ns;
use seeklab_files::check_distinct;
use seeklab_stage::resolve;
use seeklab_workloads::application::Builtin;

use crate::devices::Resolved;
use crate::emulate::Pace;
use crate::failure::Failure;
use crate::series::{Application, Commands, Interruption, Persistence, Series};
use crate::session::Session;
use check::{Checking, Fsck};
use media::{Media, Survived};
use record::Record;

pub use cuts::Cuts;
pub use result::{CrashResult, Findings, LostWrite, Point, Totals, Verdict};
pub use seeklab_devices::torn::TornUnit;

/// Options of a series of cuts.
#[derive(Debug, Clone)]
pub struct CrashOptions {
    /// Device to emulate.
    pub device: Resolved,
    /// Bytes of it.
    pub size: ByteSize,
    /// Application whose promises are checked.
    pub subject: Subject,
    /// Moments of the cuts.
    pub cuts: Cuts,
    /// States besides the device's own at each moment, of those that any device with a volatile cache may leave.
    pub legal: u32,
    /// Folder for the record, which must not exist [default: a temporary one, removed at the end].
    pub keep: Option<PathBuf>,
    /// Seed of all random draws.
    pub seed: Seed,
    /// Accuracy of the emulation.
    pub pace: Pace,
}

/// Application whose promises are checked after each cut.
#[derive(Debug, Clone)]
pub enum Subject {
    /// A program on a file system, and one that checks what it promised.
    Commands {
        /// COMMAND, and the file system that it runs on.
        commands: Box<Commands>,
        /// CHECK: a program and its arguments, as a line for the shell.
        check: String,
        /// Time after which CHECK is ended; it could not say then.
        check_limit: Duration,
    },
    /// A built-in application over NBD, whose commits are promises. It needs no privileges.
    Builtin {
        /// Built-in application.
        builtin: Box<Builtin>,
        /// Application as requested by the user.
        line: String,
    },
}

/// The way in which a cut is checked.
enum Check<'a> {
    Commands { commands: &'a Commands, check: String, limit: Duration, fsck: Option<Fsck> },
    Commits(Promises),
}

impl CrashOptions {
    /// The run as a series of one.
    fn series(&self) -> Series {
        let application = match &self.subject {
            Subject::Commands { commands, .. } => Application::Commands(commands.as_ref().clone()),
            Subject::Builtin { builtin, line } => Application::Builtin {
                builtin: builtin.clone(),
                line: line.clone(),
                persistence: Persistence::default(),
            },
        };
        Series {
            devices: vec![self.device.clone()],
            size: self.size,
            application,
            repetitions: 1,
            seed: self.seed,
            pace: self.pace.clone(),
            record: None,
            events: None,
            system: None,
            journal: None,
            fresh: false,
            output_to_stderr: true,
        }
    }
}

/// Checks what can be wrong before the run, and finds the programs of a check.
fn prepare<'a>(subject: &'a Subject, series: &Series) -> Result<Option<Check<'a>>, Failure> {
    match subject {
        Subject::Commands { commands, check, check_limit } => {
            let check = command_line(check)?;
            if check_limit.is_zero() {
                let what = "--check-timeout: 0s would end every CHECK";
                return Err(Failure::new(what).hint("allowed: above 0s"));
            }
            crate::series::check(series)?;
            let fsck = Fsck::find(commands.file_system)?;
            Ok(Some(Check::Commands { commands, check, limit: *check_limit, fsck }))
        }
        Subject::Builtin { builtin, .. } if builtin.commits() => Ok(None),
        Subject::Builtin { builtin, .. } => {
            let what = format!("--builtin {}: commits nothing, so it promises nothing", builtin.name());
            Err(Failure::new(what).hint("allowed: database, with parameters"))
        }
    }
}

/// Runs COMMAND once, cuts the power at each moment and runs CHECK on what survives.
///
/// # Errors
/// Missing requirements; a device with a fault that loses its power; a COMMAND that fails; a device or a file system that cannot be used. A broken promise is a
/// result.
pub fn run(session: &Session, options: &CrashOptions) -> Result<CrashResult, Failure> {
    if options.device.build(options.seed, "disk0")?.hazards().loses_power {
        let what =
            format!("{}: a fault `power_loss`, and `crash` cuts the power itself", options.device.label());
        return Err(Failure::new(what)
            .hint("leave the fault out: --points and --at say when the power is cut; `serve` and `run` take the fault"));
    }
    let series = options.series();
    let prepared = prepare(&options.subject, &series)?;
    let _held = session.hold();
    let temporary;
    let folder = match &options.keep {
        Some(folder) => {
            std::fs::create_dir(folder).map_err(|error| {
                let hint = "name a folder that is not there yet, in one that is";
                Failure::from(error).context(format!("--keep {}", folder.display())).hint(hint)
            })?;
            folder.as_path()
        }
        None => {
            temporary = tempfile::Builder::new().prefix("seeklab-crash-").tempdir()?;
            temporary.path()
        }
    };
    let interruption = Interruption::by(session.stop());
    let recorded = match (&options.subject, prepared) {
        (Subject::Commands { commands, .. }, Some(check)) => {
            recording::record(session, &series, commands, &interruption, folder).map(|record| (record, check))
        }
        (Subject::Builtin { builtin, .. }, _) => {
            let recorded = recording::record_builtin(session, &series, builtin, &interruption, folder);
            recorded.map(|(record, promises)| (record, Check::Commits(promises)))
        }
        (Subject::Commands { .. }, None) => unreachable!("the check of a command was prepared"),
    };
    let (record, check) = recorded.inspect_err(|_| {
        // Half a record is of no use, and would be in the way of the next run.
        let _ = std::fs::remove_dir_all(folder);
    })?;
    let replaying = session.working("replaying the record");
    let durability = record.replay()?;
    drop(replaying);
    let cuts = options.cuts.choose(&record, &durability, options.seed)?;
    let began_ns = monotonic_ns();
    let states = 1 + options.legal as usize;
    let mut progress = session.steps("cuts", (cuts.len() * states) as u64);
    let points = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    let threads =
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(cuts.len().max(1));
    let done = AtomicUsize::new(0);
    let failed: Mutex<Option<Failure>> = Mutex::new(None);
    let work = || -> Result<(), Failure> {
        let mut media = Media::new(&record, &durability)?;
        let interruption = Interruption::by(session.stop());
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(cut) = cuts.get(index).copied() else { return Ok(()) };
            for state in 0..states {
                if session.stop().is_stopped() {
                    return Err(Failure::interrupted());
                }
                let Survived { store, torn, unreadable } = match state {
                    0 => media.at(cut)?,
                    state => Survived::of(media.legal_at(cut, options.seed, state as u64)?),
                };
                let findings = match &check {
                    Check::Commits(promises) => builtin::point(promises, &record, cut, &store, &unreadable)?,
                    Check::Commands { commands, check, limit, fsck } => {
                        let checking = Checking {
                            session,
                            series: &series,
                            commands,
                            check,
                            limit: *limit,
                            fsck: fsck.as_ref(),
                            interruption: &interruption,
                        };
                        checking.point(&record, cut, store, &unreadable)?
                    }
                };
                let lost = if state == 0 { media.lost_at(cut) } else { Vec::new() };
                let promises = record.promises_before(cut).len() as u64;
                let point = Point { index, state, at: cut, findings, promises, lost, torn };
                points.lock().unwrap_or_else(PoisonError::into_inner).push(point);
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                let (work, failed, next, cuts) = (&work, &failed, &next, &cuts);
                scope.spawn(move || {
                    if let Err(failure) = work() {
                        next.store(cuts.len(), Ordering::Relaxed);
                        failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
                    }
                })
            })
            .collect();
        let mut shown = 0;
        while workers.iter().any(|worker| !worker.is_finished()) {
            std::thread::park_timeout(std::time::Duration::from_millis(100));
            while shown < done.load(Ordering::Relaxed) {
                shown += 1;
                let _ = progress.big_step();
            }
        }
    });
    drop(progress);
    if let Some(failure) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(if interruption.came() { Failure::check("interrupted") } else { failure });
    }
    let mut points = points.into_inner().unwrap_or_else(PoisonError::into_inner);
    points.sort_by_key(|point| (point.at, point.index, point.state));
    let elapsed = Duration::from_ns(monotonic_ns() - began_ns);
    Ok(CrashResult::new(options, &record, &durability, points, elapsed))
}

/// Writes the device as it would have come back after a cut at `at`, from the record in `folder`, to `image`. Blocks that
/// could not be read are zero there, and returned.
///
/// # Errors
/// A folder that holds no record of this version or a damaged one; an image that cannot be written, or that is a file of
/// the record.
pub fn image(folder: &Path, at: Duration, image: &Path) -> Result<Vec<TornUnit>, Failure> {
    check_distinct(image, Record::files(folder))?;
    let record = Record::open(folder)?;
    let durability = record.replay()?;
    let survived = Media::new(&record, &durability)?.at(Instant::ZERO + at)?;
    survived.store.save_image(image)?;
    Ok(survived.unreadable)
}

/// The line with its program found, so that it can be run from another directory.
fn command_line(line: &str) -> Result<String, Failure> {
    let line = line.trim_start();
    let (program, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let found = resolve(&[OsString::from(program)])
        .map_err(|missing| Failure::new(missing.what).context("--check").hint(missing.remedy))?;
    let found = found[0].to_string_lossy().replace('\'', "'\\''");
    Ok(format!("'{found}' {rest}"))
}
