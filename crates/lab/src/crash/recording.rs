//! Recording a run: the device is emulated, COMMAND or a built-in application runs on it, and every write and promise is
//! kept.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::fs::{FileType, Mode, OFlags, mknodat};
use seeklab_core::{Instant, TraceRecord};
use seeklab_emulator::client::{ClientError, Promises, RunnerOptions, run_builtin_with};
use seeklab_emulator::clock::Clock;
use seeklab_emulator::frontend::loop_device::QueueOptions;
use seeklab_emulator::frontend::nbd::Address;
use seeklab_emulator::frontend::{Action, Stop};
use seeklab_emulator::store::Store;
use seeklab_stage::{CommandLine, Phase, Stage, resolve};
use seeklab_workloads::application::Builtin;

use super::checksum::{self, Summing};
use super::record::{BASE, CONTENTS, Checksums, PROMISES, Promise, REQUESTS, Record, metadata};
use crate::emulate::{FrontendOptions, Running, StartOptions, capabilities_of, start};
use crate::failure::Failure;
use crate::series::{
    Commands, Interruption, Prepared, RECONNECT_WITHIN, Series, failure_of, how, stage_options,
};
use crate::session::Session;

/// Runs COMMAND on the emulated device of `series`, and leaves the record in `folder`.
///
/// # Errors
/// A device, a file system or a folder that cannot be used; a COMMAND that fails.
pub(super) fn record(
    session: &Session,
    series: &Series,
    commands: &Commands,
    interruption: &Interruption,
    folder: &Path,
) -> Result<Record, Failure> {
    let device = &series.devices[0];
    let store = Prepared::default().copy(session, series, commands, device, interruption)?;
    let queue = commands.queue.clone().or(QueueOptions::of_device(capabilities_of(device)?.rotational));
    let frontends = FrontendOptions { block: Some(queue), ..FrontendOptions::default() };
    let recording = Recording::begin(session, series, store, frontends, folder)?;
    let clock = recording.running.clock();
    let promises = AckPipe::listen(clock)?;
    let block = recording.running.block().expect("the emulation was started with it").path().to_owned();
    let working = session.working("recording");
    let ran = stage_options(series, commands, &block, None).and_then(|options| {
        let mut stage = Stage::open(&options, interruption.stage()).map_err(failure_of)?;
        let phase = Phase::new("command", CommandLine::Words(promises.words(&commands.command)?));
        let result = stage.run_phase(&phase).map_err(failure_of)?;
        stage.end().map_err(failure_of)?;
        if !result.is_success() {
            let hint = "a run that fails is not cut: mend COMMAND first";
            return Err(Failure::new(format!("COMMAND: {}", how(&result))).hint(hint));
        }
        Ok(Instant::from_ns(result.exec_ns.saturating_sub(clock.origin_ns())))
    });
    drop(working);
    let promises = promises.end();
    let ran = ran.and_then(|began| Ok((began, promises?)));
    recording.end(session, series, interruption, ran)
}

/// Runs a built-in application on the emulated device of `series` over NBD, and leaves the record in `folder`. Each of its
/// commits is a promise.
///
/// # Errors
/// A device or a folder that cannot be used; an application that does not fit.
pub(super) fn record_builtin(
    session: &Session,
    series: &Series,
    builtin: &Builtin,
    interruption: &Interruption,
    folder: &Path,
) -> Result<(Record, Promises), Failure> {
    let store = Store::in_ram(series.size, None)?;
    let sockets = tempfile::Builder::new().prefix("seeklab-").tempdir()?;
    let frontends = FrontendOptions::default().with(Address::Unix(sockets.path().join("nbd")));
    let recording = Recording::begin(session, series, store, frontends, folder)?;
    let clock = recording.running.clock();
    let uri = recording.running.endpoints().nbd().expect("the emulation was started with it");
    let options = RunnerOptions {
        clock: Some(clock),
        pacing: series.pace.pacing,
        promises: true,
        reconnect_within: RECONNECT_WITHIN,
        stop: Some(interruption.flag()),
        ..RunnerOptions::default()
    };
    let mut working = session.working("recording");
    let began = clock.now();
    let result = run_builtin_with(builtin, &uri, series.seed, &options, &mut |progress| {
        working.begin(progress.phase);
    });
    drop(working);
    let mut commits = None;
    let failed = |error: ClientError| match error {
        ClientError::Away { .. } => {
            Failure::chain(&error).hint("give the fault an end with `for` or `back_after`")
        }
        _ => Failure::chain(&error),
    };
    let ran = result.map_err(failed).and_then(|result| {
        if result.is_full {
            let what = format!("{}: the device is too small for all files", builtin.name());
            return Err(Failure::new(what).hint("choose a larger --size"));
        }
        let promised = result.promises.expect("the options say so");
        let numbered = promised.commits().zip(1_u64..);
        let lines = numbered.map(|(at, number)| Promise { at, line: format!("commit {number}") }).collect();
        commits = Some(promised);
        Ok((began, lines))
    });
    let record = recording.end(session, series, interruption, ran)?;
    Ok((record, commits.expect("the run succeeded")))
}

/// A run on an emulated device that is being recorded.
struct Recording<'a> {
    folder: &'a Path,
    running: Running,
    requests: Arc<Mutex<Vec<TraceRecord>>>,
    /// Writes the contents, and returns their checksum.
    writer: JoinHandle<std::io::Result<u32>>,
    /// Checksum of the device before the run.
    base: u32,
}

impl<'a> Recording<'a> {
    /// Starts the emulation with the contents of `store`, which the record begins with.
    fn begin(
        session: &Session,
        series: &Series,
        store: Store,
        frontends: FrontendOptions,
        folder: &'a Path,
    ) -> Result<Self, Failure> {
        store.save_image(&folder.join(BASE))?;
        let base = checksum::of_store(&store)?;
        let (tape, tapes) = channel::<Vec<u8>>();
        let contents = File::create(folder.join(CONTENTS))?;
        let writer = std::thread::spawn(move || write_contents(contents, &tapes));
        let requests: Arc<Mutex<Vec<TraceRecord>>> = Arc::default();
        let kept = Arc::clone(&requests);
        let options = StartOptions {
            frontends,
            drives: 1,
            read_only: false,
            pace: series.pace.clone(),
            seed: series.seed,
            observe: Some(Box::new(move |record| {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(*record);
            })),
            tape: Some(Box::new(move |_, command| {
                if let Action::Write(bytes) = command.action {
                    // The writer ends early only if its file cannot be written, which is reported at the end.
                    let _ = tape.send(bytes.to_vec());
                }
            })),
            take_events: None,
            pristine: false,
            feedback: None,
            live: false,
        };
        let running = start(session, &series.devices[0], store, options, &Stop::new()?)?;
        Ok(Self { folder, running, requests, writer, base })
    }

    /// Ends the emulation and completes the record with the time at which the application began, and its promises.
    fn end(
        self,
        session: &Session,
        series: &Series,
        interruption: &Interruption,
        ran: Result<(Instant, Vec<Promise>), Failure>,
    ) -> Result<Record, Failure> {
        let Self { folder, running, requests, writer, base } = self;
        let ended = running.end();
        let written = writer.join().expect("writing does not panic");
        if interruption.came() {
            return Err(Failure::check("interrupted"));
        }
        let (began, promises) = ran?;
        ended?.complete()?;
        let contents =
            written.map_err(|error| Failure::from(error).context(folder.join(CONTENTS).display()))?;
        let requests = std::mem::take(&mut *requests.lock().unwrap_or_else(PoisonError::into_inner));
        let device = &series.devices[0];
        let described = crate::run::metadata(device, &capabilities_of(device)?, series.seed);
        let checksums = Checksums { base, contents };
        let metadata = metadata(device, described, series.size, began, checksums);
        let mut trace = session.create_trace(&folder.join(REQUESTS), None, &metadata)?;
        requests.iter().try_for_each(|request| trace.write(request))?;
        trace.finish()?;
        let mut file = BufWriter::new(File::create(folder.join(PROMISES))?);
        for Promise { at, line } in promises {
            writeln!(file, "{} {line}", at.as_ns())?;
        }
        file.flush()?;
        Record::open(folder)
    }
}

fn write_contents(file: File, tapes: &Receiver<Vec<u8>>) -> std::io::Result<u32> {
    let mut file = Summing::new(BufWriter::new(file));
    tapes.iter().try_for_each(|bytes| file.write_all(&bytes))?;
    file.finish()
}

/// Ends the thread that listens: no line of a command holds this byte.
const END: &str = "\0end";

/// The pipe to which COMMAND writes its promises.
struct AckPipe {
    folder: tempfile::TempDir,
    thread: JoinHandle<std::io::Result<Vec<Promise>>>,
}

impl AckPipe {
    fn listen(clock: Clock) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("seeklab-").tempdir()?;
        // COMMAND may run as another user.
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o711))?;
        let path = folder.path().join("ack");
        mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o622), 0)
            .map_err(std::io::Error::from)?;
        std::fs::set_permissions(&path, Permissions::from_mode(0o622))?;
        // Open for writing, too, so that it does not end with each writer.
        let pipe =
            File::options().read(true).write(true).custom_flags(OFlags::CLOEXEC.bits() as i32).open(&path)?;
        let thread = std::thread::spawn(move || {
            let mut promises = Vec::new();
            for line in BufReader::new(pipe).split(b'\n') {
                let line = String::from_utf8_lossy(&line?).into_owned();
                if line == END {
                    break;
                }
                promises.push(Promise { at: clock.now(), line });
            }
            Ok(promises)
        });
        Ok(Self { folder, thread })
    }

    /// COMMAND with the pipe in its environment.
    fn words(&self, command: &[OsString]) -> Result<Vec<OsString>, Failure> {
        let words = resolve(command).map_err(|missing| Failure::new(missing.what).hint(missing.remedy))?;
        let mut variable = OsString::from("SEEKLAB_ACK=");
        variable.push(self.folder.path().join("ack"));
        let env = resolve(&["env".into(), variable]).map_err(|missing| Failure::new(missing.what))?;
        Ok(env.into_iter().chain(words).collect())
    }

    fn end(self) -> Result<Vec<Promise>, Failure> {
        let mut pipe = File::options().write(true).open(self.folder.path().join("ack"))?;
        // Behind whatever was written without an end of line.
        pipe.write_all(format!("\n{END}\n").as_bytes())?;
        let mut promises = self.thread.join().expect("listening does not panic")?;
        promises.pop_if(|promise| promise.line.is_empty());
        Ok(promises)
    }
}
