//! One repetition: one device from its initial state, the application, and the measurements.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};

use rustix::fs::{Mode, OFlags, open};
use seeklab_core::ByteSize;
use seeklab_emulator::frontend::Stop;
use seeklab_emulator::frontend::loop_device::QueueOptions;
use seeklab_emulator::frontend::nbd::{Address, Uri};
use seeklab_emulator::store::Store;
use seeklab_stage::{CommandLine, MemoryFigures, Phase, Stage, resolve};
use seeklab_traces::TraceWriter;

use super::figures::{Figures, Observation, PhaseFigures};
use super::host::{self, Interruption};
use super::jobs::{self, JobsRunFigures};
use super::join::Join;
use super::prepare::Prepared;
use super::{Application, Commands, Series, builtin, limits, system};
use crate::devices::Resolved;
use crate::emulate::{
    FrontendOptions, HostMessage, Observer, Running, StartOptions, capabilities_of, feedback, start, watch,
};
use crate::events::{EventFile, EventWriter};
use crate::failure::Failure;
use crate::retries::RetryFigures;
use crate::run::metadata;
use crate::session::Session;

/// Result of an application.
#[derive(Default)]
pub(super) struct Ran {
    pub(super) phases: Vec<PhaseFigures>,
    /// Memory of the commands, if it was limited.
    pub(super) memory: Option<MemoryFigures>,
    /// Requests of the host that were not recorded.
    pub(super) lost: u64,
    /// Failed requests that a built-in application sent again.
    pub(super) retries: Option<RetryFigures>,
    /// Connections that a built-in application opened again.
    pub(super) reconnections: Option<u64>,
    /// Figures of a stream of jobs.
    pub(super) jobs: Option<JobsRunFigures>,
}

/// Inputs of a repetition.
pub(super) struct Repetition<'a> {
    pub(super) session: &'a Session,
    pub(super) series: &'a Series,
    pub(super) device: &'a Resolved,
    pub(super) number: u64,
    pub(super) interruption: &'a Interruption,
}

impl Repetition<'_> {
    /// Runs it. Once it was interrupted, that alone is the failure: the signal of a terminal also reaches mkfs
    /// and the commands, which then fail by themselves.
    pub(super) fn run(&self, prepared: &mut Prepared) -> Result<Figures, Failure> {
        self.run_through(prepared).map_err(|failure| {
            let failure = if self.interruption.came() { Failure::check("interrupted") } else { failure };
            failure.context(self.device.label())
        })
    }

    fn run_through(&self, prepared: &mut Prepared) -> Result<Figures, Failure> {
        let capabilities = capabilities_of(self.device)?;
        match &self.series.application {
            Application::Commands(commands) => {
                let store =
                    prepared.copy(self.session, self.series, commands, self.device, self.interruption)?;
                let queue = commands.queue.clone().or(QueueOptions::of_device(capabilities.rotational));
                let criticality = commands.criticality;
                let frontends =
                    FrontendOptions { block: Some(queue), criticality, ..FrontendOptions::default() };
                self.emulated(store, frontends, |running, host| self.phases(commands, running, host))
            }
            Application::Builtin { builtin, persistence, .. } => self.over_nbd(|at, host, connected| {
                builtin::run(self, builtin, *persistence, at, host, connected)
            }),
            Application::Jobs(stream) => match &stream.block {
                None => {
                    self.over_nbd(|at, host, connected| jobs::run_over_nbd(self, stream, at, host, connected))
                }
                Some(queue) => {
                    let queue = queue.clone().or(QueueOptions::of_device(capabilities.rotational));
                    let frontends = FrontendOptions { block: Some(queue), ..FrontendOptions::default() };
                    self.emulated(self.empty_store()?, frontends, |running, host| {
                        jobs::run_on_block(self, stream, running, &host)
                    })
                }
            },
        }
    }

    /// A store of zeroes for all drives.
    fn empty_store(&self) -> Result<Store, Failure> {
        let bytes = self.series.size.as_bytes() * u64::from(self.series.application.drives());
        Ok(Store::in_ram(ByteSize::from_bytes(bytes), None)?.with_pages_ready())
    }

    /// Runs an application over NBD. It gets the emulation with the place of its server, and a function to call once its
    /// clients have connected.
    fn over_nbd(
        &self,
        application: impl FnOnce((&Running, &Uri), &Sender<HostMessage>, &mut dyn FnMut()) -> Result<Ran, Failure>,
    ) -> Result<Figures, Failure> {
        // Gone as soon as its client has connected, so that nothing stays if this process is killed.
        let mut folder = Some(tempfile::Builder::new().prefix("seeklab-").tempdir()?);
        let socket = folder.as_ref().expect("it was made").path().join("nbd");
        let frontends = FrontendOptions::default().with(Address::Unix(socket.clone()));
        self.emulated(self.empty_store()?, frontends, |running, host| {
            // The client finds the socket by this descriptor when its name has gone.
            let held = open(&socket, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
                .map_err(|error| Failure::from(std::io::Error::from(error)))?;
            let path = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
            let uri = Uri::Unix { path, export: String::new(), tls: None };
            application((running, &uri), &host, &mut || drop(folder.take()))
        })
    }

    /// Runs `application` while the device is emulated, and joins the records of both sides.
    fn emulated(
        &self,
        store: Store,
        frontends: FrontendOptions,
        application: impl FnOnce(&Running, Sender<HostMessage>) -> Result<Ran, Failure>,
    ) -> Result<Figures, Failure> {
        let capabilities = capabilities_of(self.device)?;
        let (host, messages) = channel();
        let block_bytes = capabilities.block_size.as_bytes() as u32;
        let (follower, feedback) = feedback();
        let observer = Observer::start(Join::new(block_bytes, messages, follower, self.writer()?));
        let events = self.event_writer()?;
        let options = StartOptions {
            frontends,
            drives: self.series.application.drives(),
            read_only: false,
            pace: self.series.pace.clone(),
            seed: self.series.seed,
            observe: Some(observer.observe()),
            tape: None,
            take_events: events.as_ref().map(EventWriter::take),
            pristine: false,
            feedback: self.series.pace.calibrated.compensates().then_some(feedback),
            live: false,
        };
        let running = start(self.session, self.device, store, options, &Stop::new()?)?;
        let host_queue = running.block().map(|block| block.queue().clone());
        let ran = application(&running, host);
        let result = running.end();
        let (joined, not_seen) = observer.finish();
        let written = events.map_or(Ok(()), EventWriter::finish);
        let ran = ran?;
        let result = result?.complete()?;
        joined.written?;
        written?;
        if self.interruption.came() {
            return Err(Failure::check("interrupted"));
        }
        let seen = Observation {
            label: &self.label(),
            host_queue,
            result: &result,
            stamps: &joined.stamps,
            matched: Some(&joined.matched),
            lost: ran.lost + not_seen,
            floor: result.floor,
            device: self.device,
            transfers: joined.transfers,
        };
        let Ran { phases, memory, retries, reconnections, jobs, .. } = ran;
        Ok(Figures { memory, retries, reconnections, jobs, ..Figures::of(phases, &seen) })
    }

    /// Returns the name of the device, with the number of the repetition if there are several.
    fn label(&self) -> String {
        match self.series.repetitions {
            1 => self.device.label(),
            _ => format!("{}, repetition {}", self.device.label(), self.number + 1),
        }
    }

    /// Runs every phase while the host's block layer is watched.
    fn phases(
        &self,
        commands: &Commands,
        running: &Running,
        host: Sender<HostMessage>,
    ) -> Result<Ran, Failure> {
        let block = running.block().expect("the emulation was started with it").path();
        let mut options = host::options(self.series, commands, block, None)?;
        options.memory = commands.limits.memory;
        options.cpus = commands.limits.cpus.clone();
        let mut stage = Stage::open(&options, self.interruption.stage()).map_err(host::failure)?;
        let capture = watch(block, running.clock().origin_ns(), host)?;
        let mut figures = Vec::new();
        let phases = plan(commands)?;
        for (number, phase) in phases.iter().enumerate() {
            let (result, system_trace) = match &self.series.system {
                None => (stage.run_phase(phase).map_err(host::failure)?, None),
                Some(_) => {
                    let suffix = if phases.len() == 1 { String::new() } else { format!("-{}", number + 1) };
                    let path = self.output_path(
                        self.series.system.as_deref(),
                        "--system",
                        &format!("{suffix}.sys"),
                    )?;
                    let path = path.expect("the folder was named");
                    let result = system::traced(
                        self.session,
                        &mut stage,
                        phase,
                        running,
                        number == 0,
                        commands.limits.cpus.as_ref(),
                        &path,
                    )?;
                    (result, Some(path.display().to_string()))
                }
            };
            if !result.is_success() {
                let memory = stage.memory().map_err(host::failure)?;
                self.session.remark(format!(
                    "{}: phase `{}`: {}{}",
                    self.device.label(),
                    phase.name,
                    host::how(&result),
                    limits::kills_in_words(memory)
                ));
            }
            let code = if result.is_success() { 0 } else { result.exit.code().max(1) };
            figures.push(PhaseFigures {
                name: phase.name.clone(),
                elapsed_s: result.elapsed().as_s(),
                flush_s: result.flush().as_s(),
                user_s: result.user.as_s(),
                system_s: result.system.as_s(),
                exit_code: code,
                system_trace,
            });
            if code != 0 {
                break;
            }
        }
        let memory = stage.memory().map_err(host::failure)?;
        stage.end().map_err(host::failure)?;
        let captured = capture.finish().map_err(|error| Failure::chain(&error))?;
        Ok(Ran { phases: figures, memory, lost: captured.lost_events + captured.given_up, ..Ran::default() })
    }

    /// The trace of this repetition, if there is to be one.
    fn writer(&self) -> Result<Option<Box<dyn TraceWriter>>, Failure> {
        let Some(path) = self.output_path(self.series.record.as_deref(), "--record", ".parquet")? else {
            return Ok(None);
        };
        let mut metadata = metadata(self.device, &capabilities_of(self.device)?, self.series.seed);
        self.series.pace.describe(&mut metadata);
        self.session.create_trace(&path, None, &metadata).map(Some)
    }

    fn event_writer(&self) -> Result<Option<EventWriter>, Failure> {
        let path = self.output_path(self.series.events.as_deref(), "--events", ".events.csv")?;
        path.map(|path| EventFile::create(self.session, &path).map(EventFile::beside)).transpose()
    }

    /// The path of an output of this repetition in `folder`, which is made if it is not there.
    fn output_path(
        &self,
        folder: Option<&Path>,
        option: &str,
        ending: &str,
    ) -> Result<Option<PathBuf>, Failure> {
        let Some(folder) = folder else { return Ok(None) };
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::from(error).context(format!("{option} {}", folder.display())))?;
        let name = format!("{}-{}{ending}", file_name(&self.device.label()), self.number + 1);
        Ok(Some(folder.join(name)))
    }
}

/// The label of a device as part of a file's name.
fn file_name(label: &str) -> String {
    label.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect()
}

/// Returns the phases to run, in order.
fn plan(commands: &Commands) -> Result<Vec<Phase>, Failure> {
    let named = |(name, line): &(String, String)| Phase::new(name.clone(), CommandLine::Shell(line.clone()));
    let mut phases: Vec<Phase> = commands.phases.iter().map(named).collect();
    if !commands.command.is_empty() {
        let words =
            resolve(&commands.command).map_err(|missing| Failure::new(missing.what).hint(missing.remedy))?;
        let name = Path::new(&commands.command[0]).file_name().unwrap_or_default();
        phases.push(Phase::new(name.to_string_lossy(), CommandLine::Words(words)));
    }
    Ok(phases)
}
