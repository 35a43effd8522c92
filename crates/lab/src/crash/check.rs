//! One cut: the device as it comes back, mounted, with CHECK and fsck run on it.

use std::fmt::Write;
use std::fs::{File, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use seeklab_core::{Instant, Seed};
use seeklab_emulator::frontend::Stop;
use seeklab_emulator::frontend::loop_device::QueueOptions;
use seeklab_emulator::pacer::Mode;
use seeklab_emulator::store::Store;
use seeklab_stage::{CommandLine, FileSystem, Phase, Stage};

use super::record::Record;
use super::result::{Findings, Verdict};
use crate::emulate::{FrontendOptions, Pace, StartOptions, start, without_time};
use crate::failure::Failure;
use crate::series::{Commands, Interruption, Series, failure_of, stage_options};
use crate::session::Session;

/// Bytes of the output of CHECK that are kept.
const OUTPUT_MAX: u64 = 4096;

/// The way in which a cut is checked.
pub(super) struct Checking<'a> {
    pub(super) session: &'a Session,
    pub(super) series: &'a Series,
    pub(super) commands: &'a Commands,
    pub(super) check: &'a str,
}

impl Checking<'_> {
    /// Runs CHECK and fsck on `store`, the device after a cut at `cut`.
    pub(super) fn point(&self, record: &Record, cut: Instant, store: Store) -> Result<Findings, Failure> {
        let folder = tempfile::Builder::new().prefix("seeklab-").tempdir()?;
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o711))?;
        let (acked, output) = (folder.path().join("acked"), folder.path().join("output"));
        let mut lines = String::new();
        for promise in record.promises_before(cut) {
            let _ = writeln!(lines, "{}", promise.line);
        }
        std::fs::write(&acked, lines)?;
        std::fs::set_permissions(&acked, Permissions::from_mode(0o644))?;
        File::create(&output)?;
        std::fs::set_permissions(&output, Permissions::from_mode(0o666))?;
        let options = StartOptions {
            frontends: FrontendOptions {
                block: Some(QueueOptions::of_device(false)),
                ..FrontendOptions::default()
            },
            read_only: false,
            pace: Pace { mode: Mode::RunToCompletion, ..Pace::default() },
            seed: Seed(0),
            observe: None,
            tape: None,
            feedback: None,
            live: false,
        };
        let timeless = without_time(&record.device)?;
        let running = start(&self.session.unheard(), &timeless, store, options, &Stop::new()?)?;
        let block = running.block().expect("the emulation was started with it").path().to_owned();
        let findings = self.findings(&block, &acked, &output);
        let ended = running.end();
        let findings = findings?;
        ended?;
        let mut text = Vec::new();
        File::open(&output)?.take(OUTPUT_MAX).read_to_end(&mut text)?;
        Ok(Findings { output: String::from_utf8_lossy(&text).into_owned(), ..findings })
    }

    fn findings(&self, block: &Path, acked: &Path, output: &Path) -> Result<Findings, Failure> {
        let options = stage_options(self.series, self.commands, block, None)?;
        let interruption = Interruption::by(self.session.stop());
        let mut stage = Stage::open(&options, interruption.stage()).map_err(failure_of)?;
        let (acked, output) = (acked.display(), output.display());
        let line = format!("SEEKLAB_ACKED='{acked}'; export SEEKLAB_ACKED; {} >'{output}' 2>&1", self.check);
        let checked = stage.run_phase(&Phase::new("check", CommandLine::Shell(line)));
        let found = |verdict, exit_code, error| Findings { verdict, exit_code, error, output: String::new() };
        let exit_code = match checked {
            Ok(result) if result.stopped => return Err(Failure::interrupted()),
            Ok(result) => result.exit.code(),
            Err(seeklab_stage::Error::Inside { what, .. }) => {
                return Ok(found(Verdict::NotMounted, None, Some(what)));
            }
            Err(error) => return Err(failure_of(error)),
        };
        stage.end().map_err(failure_of)?;
        let verdict = match exit_code {
            0 => Verdict::Held,
            1 => Verdict::Broken,
            _ => Verdict::Unknown,
        };
        let error = fsck(self.commands.file_system, block)?;
        let verdict = if verdict == Verdict::Held && error.is_some() { Verdict::Damaged } else { verdict };
        Ok(found(verdict, Some(exit_code), error))
    }
}

/// Errors that the file system's own check finds, after the journal was replayed by a mount.
fn fsck(file_system: FileSystem, block: &Path) -> Result<Option<String>, Failure> {
    let (program, options): (&str, &[&str]) = match file_system {
        FileSystem::Ext2 | FileSystem::Ext4 => ("e2fsck", &["-fn"]),
        FileSystem::Xfs => ("xfs_repair", &["-n"]),
        FileSystem::Btrfs => ("btrfs", &["check", "--readonly"]),
        FileSystem::None => return Ok(None),
    };
    let ran = Command::new(program).args(options).arg(block).stdin(Stdio::null()).output();
    let output = match ran {
        Ok(output) => output,
        Err(error) => return Err(Failure::from(error).context(program)),
    };
    if output.status.success() {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with("Pass"));
    Ok(Some(format!("{program}: {}", first.unwrap_or("it found errors"))))
}
