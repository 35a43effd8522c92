//! `seeklab run`: runs unmodified programs on emulated devices.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use clap_complete::ArgValueCompleter;
use seeklab_lab::crates::core::{ByteSize, Duration, Seed};
use seeklab_lab::crates::files::{check_apart, check_distinct};
use seeklab_lab::crates::report::{render_html, render_terminal};
use seeklab_lab::crates::stage::{CpuList, FileSystem, MountOptions};
use seeklab_lab::crates::traces::capture::criticality::ClassRule;
use seeklab_lab::crates::workloads::WorkloadSpec;
use seeklab_lab::crates::workloads::application::Builtin;
use seeklab_lab::devices::{Resolved, resolve};
use seeklab_lab::failure::Failure;
use seeklab_lab::series::{
    Application, CommandLimits, Commands, Jobs, Persistence, RECONNECT_WITHIN, Series, run,
};
use seeklab_lab::session::Session;
use seeklab_lab::workload::describe;

use super::criticality::rule;
use super::pace::PaceFlags;
use super::queue::QueueFlags;
use super::retries::RetryFlags;
use super::setup::SetupFlags;
use crate::completion;
use crate::delivery::Delivery;
use crate::output::{print, print_json};

const EXAMPLES: &str = "\
Examples:
  seeklab run cheetah-36es --compare cheetah-36es-50krpm,immediate --builtin postmark
  seeklab run cheetah-36es --compare cheetah-36es-50krpm,immediate -- tar xf ~/linux.tar
  seeklab run cheetah-36es --setup 'cp ~/big.tar .' --phase unpack='tar xf big.tar' --phase read='cat */*.c' \
--repeat 5 --report run.html
  seeklab run berkeley-1975 --builtin examples/job-streams/mix.toml
  seeklab run hp-c2247a --fs none -- sh -c 'dd if=$SEEKLAB_DEVICE of=/dev/null bs=1M count=64 iflag=direct'

Commands find SEEKLAB_DEVICE and SEEKLAB_MOUNT, and start in the mount. They need root, FUSE and loop devices;
--builtin needs nothing.";

/// Runs programs on emulated devices: makes a device and a file system, mounts, runs, unmounts and reports.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Catalog name or TOML file
    #[arg(add = ArgValueCompleter::new(completion::device))]
    device: String,
    /// Run on these devices too. An uncounted pass on a device that takes no time comes first; each repetition
    /// begins with the next device
    #[arg(long, value_name = "DEVICES", value_delimiter = ',', add = ArgValueCompleter::new(completion::device))]
    compare: Vec<String>,
    /// Repetitions on each device [default: 3 with --compare, otherwise 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    repeat: Option<u64>,
    /// Run a built-in application over NBD instead of COMMAND. Needs no privileges. Applications: postmark, build
    /// or database, with parameters, for example postmark,transactions=500, or a file that describes one. A stream of jobs
    /// (kind jobs) burns the processor time of its jobs
    #[arg(long, value_name = "WORKLOAD", conflicts_with_all = ["command", "phases", "setup", "image", "user"])]
    builtin: Option<String>,
    /// Let the jobs of --builtin use a block device past its page cache, instead of NBD
    #[arg(long, requires = "builtin")]
    block: bool,
    /// File system to make on the device: ext2, ext4, xfs, btrfs, or none
    #[arg(long, value_name = "FS", default_value = "ext4")]
    fs: FileSystem,
    /// Size of each device [default: the capacity of the smallest]
    #[arg(long, value_name = "SIZE")]
    size: Option<ByteSize>,
    /// Initial contents of the device, a raw image, instead of a new file system
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,
    /// Run COMMAND once in the new file system, before the measurement and without emulated times
    #[arg(long, value_name = "COMMAND")]
    setup: Option<String>,
    /// Time a command separately, on a cold mount, before COMMAND. May be given several times
    #[arg(long = "phase", value_name = "NAME=COMMAND", value_parser = parse_phase)]
    phases: Vec<(String, String)>,
    /// Mount options, for example sync
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    mount_options: MountOptions,
    /// Drop the caches of the whole machine before each phase
    #[arg(long)]
    drop_caches: bool,
    /// User who runs the commands [default: the user who called sudo, or root]
    #[arg(long, value_name = "U")]
    user: Option<String>,
    /// Memory of the commands, with the page cache that they fill. Needs memory cgroups [default: no limit]
    #[arg(long, value_name = "SIZE", conflicts_with = "builtin")]
    memory: Option<ByteSize>,
    /// Processors of the commands, for example 0 or 0,2-3. The emulator runs on the others [default: all]
    #[arg(long, value_name = "LIST", conflicts_with = "builtin")]
    cpus: Option<CpuList>,
    #[command(flatten)]
    queue: QueueFlags,
    /// Class requests, and reclass pending ones, by the flags that the kernel gives them or by the threads that sleep on
    /// them. A scheduler such as criticality-c-look prefers those that a process waits for
    #[arg(long, value_name = "RULE", conflicts_with = "builtin", value_parser = rule())]
    criticality: Option<ClassRule>,
    #[command(flatten)]
    pace: PaceFlags,
    #[command(flatten)]
    retries: RetryFlags,
    /// Time within which the built-in application must be connected again after the device has closed a connection,
    /// because it had gone or lost its power. 0s ends the run at once [default: 60s]
    #[arg(long, value_name = "TIME", requires = "builtin")]
    reconnect: Option<Duration>,
    #[command(flatten)]
    setup_flags: SetupFlags,
    /// Seed of all random draws
    #[arg(long, value_name = "N", default_value = "1")]
    seed: Seed,
    /// Write a trace of each repetition to this folder, with the times at every measurement point
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    /// Write the events inside the device in each repetition to this folder, such as written blocks that became durable
    /// and faults that struck
    #[arg(long, value_name = "FOLDER")]
    events: Option<PathBuf>,
    /// Write a system-level trace of each command in each repetition to this folder. Needs ext4 or ext2, and tracefs
    #[arg(long, value_name = "FOLDER", conflicts_with = "builtin")]
    system: Option<PathBuf>,
    /// Save each result to this file, so that an interrupted series can be resumed
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Discard the results saved by --results
    #[arg(long, requires = "results")]
    fresh: bool,
    /// Write a report as one HTML page
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print one JSON document. The output of commands goes to stderr
    #[arg(long)]
    json: bool,
    /// Command to run, after `--`
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

fn parse_phase(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, command)) if !name.is_empty() && !command.is_empty() => {
            Ok((name.to_owned(), command.to_owned()))
        }
        _ => Err("NAME=COMMAND is allowed, for example build='make -j2'".to_owned()),
    }
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        let series = self.series(session)?;
        let read =
            std::iter::once(&self.device).chain(&self.compare).map(PathBuf::from).chain(self.image.clone());
        self.report.as_deref().map_or(Ok(()), |path| check_distinct(path, read))?;
        check_apart([&self.report, &self.record, &self.events].into_iter().flatten())?;
        let result = run(session, &series)?;
        let printed = if self.json { print_json(&result) } else { print(&render_terminal(&result.report)) };
        let ended =
            if result.succeeded { Ok(()) } else { Err(Failure::check("a command failed; see above")) };
        let html = || render_html(&result.report);
        Delivery::of(session, printed).file(self.report.as_deref(), html).and(ended).finish()
    }

    fn series(&self, session: &Session) -> Result<Series, Failure> {
        if self.command.is_empty() && self.phases.is_empty() && self.builtin.is_none() {
            return Err(Failure::new("there is nothing to run")
                .hint("write a command after `--`, or `--phase NAME=COMMAND`, or `--builtin WORKLOAD`"));
        }
        let setup = self.setup_flags.setup();
        let devices = std::iter::once(&self.device)
            .chain(&self.compare)
            .map(|name| resolve(name, &setup))
            .collect::<Result<Vec<Resolved>, Failure>>()?;
        let size = Series::common_size(&devices, self.size)?;
        let application = self.application()?;
        Ok(Series {
            devices,
            size,
            repetitions: self.repeat.unwrap_or(if self.compare.is_empty() { 1 } else { 3 }),
            seed: self.seed,
            pace: self.pace.options().load(session, application.frontend())?,
            application,
            record: self.record.clone(),
            events: self.events.clone(),
            system: self.system.clone(),
            journal: self.results.clone(),
            fresh: self.fresh,
            output_to_stderr: self.json,
        })
    }

    /// Returns the built-in application, or the stream of jobs, that a file or a line describes.
    fn builtin_application(&self, line: &str) -> Result<Application, Failure> {
        let is_file =
            Path::new(line).is_file() || Path::new(line).extension().is_some_and(|end| end == "toml");
        let spec =
            if is_file { describe(line, Path::new(""), "--builtin")? } else { WorkloadSpec::parse(line)? };
        if let WorkloadSpec::Jobs(spec) = spec {
            let unusable =
                [("--retries", self.retries.is_given()), ("--reconnect", self.reconnect.is_some())];
            if let Some((option, _)) = unusable.into_iter().find(|(_, is_given)| *is_given) {
                return Err(Failure::new(format!(
                    "{option}: `{line}` is a stream of jobs, which sends nothing again"
                ))
                .hint("a request of a job that fails counts as done; leave the option out"));
            }
            let block = self.block.then(|| self.queue.options());
            return Ok(Application::Jobs(Jobs { spec, line: line.to_owned(), block }));
        }
        if self.block {
            return Err(Failure::new(format!("--block: `{line}` is no stream of jobs, and runs over NBD"))
                .hint("leave the option out, or name a workload of kind `jobs`"));
        }
        let builtin = match spec.builtin() {
            Some(builtin) => builtin,
            None => Builtin::parse(line)?,
        };
        let persistence = Persistence {
            retries: self.retries.retries(),
            reconnect_within: self.reconnect.unwrap_or(RECONNECT_WITHIN),
        };
        Ok(Application::Builtin { builtin: Box::new(builtin), line: line.to_owned(), persistence })
    }

    fn application(&self) -> Result<Application, Failure> {
        if let Some(line) = &self.builtin {
            self.queue.check_without_block("a built-in application has no page cache of the host")?;
            return self.builtin_application(line);
        }
        if self.retries.is_given() {
            return Err(Failure::new("--retries: applies to --builtin")
                .hint("a command, and the kernel beneath it, decide themselves about errors"));
        }
        Ok(Application::Commands(Commands {
            file_system: self.fs,
            mount_options: self.mount_options.clone(),
            queue: self.queue.options(),
            criticality: self.criticality,
            image: self.image.clone(),
            setup: self.setup.clone(),
            phases: self.phases.clone(),
            command: self.command.clone(),
            drop_caches: self.drop_caches,
            user: self.user.clone(),
            limits: CommandLimits { memory: self.memory, cpus: self.cpus.clone() },
        }))
    }
}
