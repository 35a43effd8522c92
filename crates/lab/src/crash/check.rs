//! One cut: the device as it comes back, mounted, with CHECK and fsck run on it.

use std::fmt::Write;
use std::fs::{File, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use seeklab_core::{Duration, Instant};
use seeklab_devices::torn::TornUnit;
use seeklab_emulator::store::Store;
use seeklab_stage::{CommandLine, FileSystem, Phase, Stage, find_program};

use super::record::Record;
use super::result::{Findings, Verdict};
use crate::devices::Faults;
use crate::emulate::start_with_faults;
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
    /// Time after which CHECK is ended.
    pub(super) limit: Duration,
    /// The file system's own check.
    pub(super) fsck: Option<&'a Fsck>,
    /// Ends what runs; each thread has its own.
    pub(super) interruption: &'a Interruption,
}

impl Checking<'_> {
    /// Runs CHECK and fsck on `store`, the device after a cut at `cut`, of which some blocks cannot be read.
    pub(super) fn point(
        &self,
        record: &Record,
        cut: Instant,
        store: Store,
        unreadable: &[TornUnit],
    ) -> Result<Findings, Failure> {
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
        let faults = unreadable.iter().map(|unit| {
            let [start, end] = [unit.lbn, unit.lbn + unit.blocks].map(|lbn| lbn * record.block_bytes);
            format!("medium_error,lasting=until_rewritten,blocks={start}B..{end}B")
        });
        let faults = Faults { file: None, lines: faults.collect() };
        let running = start_with_faults(&self.session.unheard(), &record.device, faults, store)?;
        let block = running.block().expect("the emulation was started with it").path().to_owned();
        let findings = self.findings(&block, &acked, &output);
        let ended = running.end();
        let findings = findings?;
        ended?.complete()?;
        let mut text = Vec::new();
        File::open(&output)?.take(OUTPUT_MAX).read_to_end(&mut text)?;
        Ok(Findings { output: String::from_utf8_lossy(&text).into_owned(), ..findings })
    }

    fn findings(&self, block: &Path, acked: &Path, output: &Path) -> Result<Findings, Failure> {
        let options = stage_options(self.series, self.commands, block, None)?;
        let mut stage = Stage::open(&options, self.interruption.stage()).map_err(failure_of)?;
        let (acked, output) = (acked.display(), output.display());
        // A program that recovers from what a cut left may wait for ever.
        let limit = format!("timeout -k 5 {}", self.limit.as_s());
        let line =
            format!("SEEKLAB_ACKED='{acked}'; export SEEKLAB_ACKED; {limit} {} >'{output}' 2>&1", self.check);
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
        let error = self.fsck.map_or(Ok(None), |fsck| fsck.run(block))?;
        let verdict = if verdict == Verdict::Held && error.is_some() { Verdict::Damaged } else { verdict };
        Ok(found(verdict, Some(exit_code), error))
    }
}

/// The file system's own check.
#[derive(Debug)]
pub(super) struct Fsck {
    program: PathBuf,
    options: &'static [&'static str],
}

impl Fsck {
    /// Returns the check of that file system; `None` without one.
    ///
    /// # Errors
    /// If it is not installed.
    pub(super) fn find(file_system: FileSystem) -> Result<Option<Self>, Failure> {
        let (name, package, options): (_, _, &[&str]) = match file_system {
            FileSystem::Ext2 | FileSystem::Ext4 => ("e2fsck", "e2fsprogs", &["-fn"]),
            FileSystem::Xfs => ("xfs_repair", "xfsprogs", &["-n"]),
            FileSystem::Btrfs => ("btrfs", "btrfs-progs", &["check", "--readonly"]),
            FileSystem::None => return Ok(None),
        };
        let missing = || {
            Failure::new(format!("there is no program `{name}`, which checks {file_system} after each cut"))
                .hint(format!("install {package}, or use another --fs"))
        };
        Ok(Some(Self { program: find_program(name).ok_or_else(missing)?, options }))
    }

    /// Checks the device; the first line of what is wrong. The journal was replayed by a mount before.
    fn run(&self, block: &Path) -> Result<Option<String>, Failure> {
        let output = Command::new(&self.program)
            .args(self.options)
            .arg(block)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| Failure::from(error).context(self.program.display()))?;
        if output.status.success() {
            return Ok(None);
        }
        let (text, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let mut lines = text.lines().chain(errors.lines());
        let first = lines.find(|line| !line.trim().is_empty() && !line.starts_with("Pass"));
        Ok(Some(format!("{}: {}", self.program.display(), first.unwrap_or("it found errors"))))
    }
}
