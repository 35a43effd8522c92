//! `seeklab crash`: cuts the power at many moments of one run.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap_complete::ArgValueCompleter;
use seeklab_lab::crash::{CrashOptions, Cuts, Subject, image, run};
use seeklab_lab::crates::core::{ByteSize, Duration, Seed};
use seeklab_lab::crates::emulator::calibration::FrontendKind;
use seeklab_lab::crates::files::check_distinct;
use seeklab_lab::crates::report::render_page_html;
use seeklab_lab::crates::stage::{FileSystem, MountOptions};
use seeklab_lab::crates::workloads::application::Builtin;
use seeklab_lab::devices::resolve;
use seeklab_lab::emulate::{PaceOptions, exported_size};
use seeklab_lab::failure::Failure;
use seeklab_lab::series::{CommandLimits, Commands};
use seeklab_lab::session::Session;

use super::queue::QueueFlags;
use super::setup::SetupFlags;
use crate::completion;
use crate::delivery::Delivery;
use crate::output::{print, print_json};

const EXAMPLES: &str = "\
Examples:
  seeklab crash cheetah-36es --size 1GiB --points 100 --check ./check.sh -- ./load.sh
  seeklab crash cheetah-36es --points 100 --fault lost_flush --keep cuts --check ./check.sh -- ./load.sh
  seeklab crash cheetah-36es --size 1GiB --points 500 --builtin database,transactions=500
  seeklab crash --from cuts --at 12.345678901s --image crash.img

COMMAND writes a line to $SEEKLAB_ACK for everything that it promises, when the promise counts. CHECK runs in the mounted
file system after each cut, finds in the file $SEEKLAB_ACKED the lines promised before it, and ends with 0 if they hold,
1 if one is broken, and otherwise if it cannot say. Both need root, FUSE and loop devices; --builtin needs nothing.";

/// Cuts the power of an emulated device: records one run of a program, and checks what survives a cut at many of its
/// moments.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Catalog name or TOML file
    #[arg(required_unless_present = "from", conflicts_with = "from",
          add = ArgValueCompleter::new(completion::device))]
    device: Option<String>,
    /// Number of cuts: a third anywhere in the run of COMMAND, a third beside the completions of flushes, a third within
    /// media writes
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    points: u32,
    /// Cut at this time of the record instead, as a result names it. May be given several times
    #[arg(long, value_name = "TIME", conflicts_with = "points")]
    at: Vec<Duration>,
    /// Check this many states besides at each cut, of those that any device with a volatile cache may leave
    #[arg(long, value_name = "K", default_value = "0", value_parser = clap::value_parser!(u32).range(0..=1_000))]
    legal: u32,
    /// Run a built-in application over NBD instead of COMMAND, and read back what its commits promised: database, with
    /// parameters, for example database,transactions=500. Needs no privileges
    #[arg(long, value_name = "WORKLOAD", conflicts_with_all = ["from", "check", "setup", "user", "command"])]
    builtin: Option<String>,
    /// Program that checks what survived, with its arguments
    #[arg(long, value_name = "CHECK", required_unless_present_any = ["from", "builtin"])]
    check: Option<String>,
    /// End CHECK after this time: it could not say then
    #[arg(long, value_name = "TIME", default_value = "60s")]
    check_timeout: Duration,
    /// Keep the record in this new folder
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Take the record in this folder, instead of running anything
    #[arg(long, value_name = "FOLDER", requires_all = ["at", "image"])]
    from: Option<PathBuf>,
    /// Write the device as it would come back after the cut to this file
    #[arg(long, value_name = "FILE", requires = "from")]
    image: Option<PathBuf>,
    /// File system to make on the device: ext2, ext4, xfs, btrfs, or none
    #[arg(long, value_name = "FS", default_value = "ext4")]
    fs: FileSystem,
    /// Mount options, for example barrier=0
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    mount_options: MountOptions,
    /// Size of the device [default: its capacity]
    #[arg(long, value_name = "SIZE")]
    size: Option<ByteSize>,
    /// Run COMMAND once in the new file system, before the run and without emulated times
    #[arg(long, value_name = "COMMAND")]
    setup: Option<String>,
    /// User who runs the commands [default: the user who called sudo, or root]
    #[arg(long, value_name = "U")]
    user: Option<String>,
    #[command(flatten)]
    queue: QueueFlags,
    #[command(flatten)]
    setup_flags: SetupFlags,
    /// Seed of all random draws
    #[arg(long, value_name = "N", default_value = "1")]
    seed: Seed,
    /// Write a report as one HTML page
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Command to run, after `--`
    #[arg(last = true, value_name = "COMMAND", required_unless_present_any = ["from", "builtin"])]
    command: Vec<OsString>,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        if let (Some(folder), Some(path)) = (&self.from, &self.image) {
            let [at] = self.at[..] else {
                return Err(Failure::new("--at: an image is of one moment").hint("name one time"));
            };
            for unit in image(folder, at, path)? {
                session.warn(format!(
                    "blocks {}+{} cannot be read after this cut; they are zero in the image",
                    unit.lbn, unit.blocks
                ));
            }
            return Ok(());
        }
        let Some(name) = self.device else {
            return Err(Failure::new("a device is required"));
        };
        if let Some(path) = self.report.as_deref() {
            let check = self.check.as_deref().and_then(|check| check.split_whitespace().next());
            let check = check.map(PathBuf::from);
            check_distinct(path, [PathBuf::from(&name)].into_iter().chain(check))?;
        }
        let device = resolve(&name, &self.setup_flags.setup())?;
        let size = exported_size(&device, self.size)?;
        let pace = PaceOptions { is_calibrated: false, ..PaceOptions::default() };
        let (subject, frontend) = match (self.builtin, self.check) {
            (Some(line), _) => {
                (Subject::Builtin { builtin: Box::new(Builtin::parse(&line)?), line }, FrontendKind::NbdUnix)
            }
            (None, Some(check)) => {
                let commands = Commands {
                    criticality: None,
                    file_system: self.fs,
                    mount_options: self.mount_options,
                    queue: self.queue.options(),
                    image: None,
                    setup: self.setup,
                    phases: Vec::new(),
                    command: self.command,
                    drop_caches: false,
                    user: self.user,
                    limits: CommandLimits::default(),
                };
                (
                    Subject::Commands {
                        commands: Box::new(commands),
                        check,
                        check_limit: self.check_timeout,
                    },
                    FrontendKind::Block,
                )
            }
            (None, None) => return Err(Failure::new("--check or --builtin is required")),
        };
        let options = CrashOptions {
            size: ByteSize::from_bytes(size.as_bytes() / 4096 * 4096),
            subject,
            cuts: if self.at.is_empty() { Cuts::Count(self.points) } else { Cuts::At(self.at) },
            legal: self.legal,
            keep: self.keep,
            seed: self.seed,
            pace: pace.load(session, frontend)?,
            device,
        };
        let result = run(session, &options)?;
        let printed = if self.json { print_json(&result) } else { print(&result.to_text()) };
        let ended = if result.is_clean() {
            Ok(())
        } else {
            Err(Failure::check("not every cut was survived; see above"))
        };
        let html = || render_page_html(&result.to_page(session));
        Delivery::of(session, printed).file(self.report.as_deref(), html).and(ended).finish()
    }
}
