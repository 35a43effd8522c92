//! System-level traces of the commands of a series.

use std::path::{Path, PathBuf};

use seeklab_core::number_words::numbered;
use seeklab_stage::{CommandLine, CpuList, FileSystem, MemoryWatch, Mounted, Phase, PhaseResult, Stage};
use seeklab_traces::capture::system::{KnownThreads, RecordedTask, Root};

use super::host;
use super::{Commands, Series};
use crate::capture::own_number;
use crate::emulate::Running;
use crate::failure::Failure;
use crate::session::Session;
use crate::system::{Recording, Surroundings, Traced};

/// Checks that the commands can be traced.
pub(super) fn check(series: &Series, commands: &Commands) -> Result<(), Failure> {
    let has_events = matches!(commands.file_system, FileSystem::Ext2 | FileSystem::Ext4);
    if series.system.is_some() && !has_events {
        let what = format!(
            "--system: a system-level trace of the file system {} cannot be made",
            commands.file_system
        );
        return Err(Failure::new(what).hint("add `--fs ext4` or `--fs ext2`"));
    }
    Ok(())
}

/// Runs a phase and writes its system-level trace to `output`. The trace begins before the command and ends when the file
/// system is synced.
///
/// `is_first` if nothing was written to the device before, since it was made. The stage's process that starts the command belongs to the recorder, and the thread that serves the device to its
/// emulator.
pub(super) fn traced(
    session: &Session,
    stage: &mut Stage,
    phase: &Phase,
    running: &Running,
    is_first: bool,
    cpus: Option<&CpuList>,
    output: &Path,
) -> Result<PhaseResult, Failure> {
    let device = running.block().expect("commands run on a block device").path();
    let mut begun = None;
    let cpus = cpus.cloned().or_else(CpuList::permitted);
    let device_made_ns = is_first.then(|| running.clock().origin_ns());
    let memory = stage.watch_memory().map_err(host::failure)?;
    let ran = stage.run_phase_when_ready(phase, |Mounted { process }| {
        let surroundings = Surroundings {
            mounts: Some(PathBuf::from(format!("/proc/{process}/mountinfo"))),
            known: KnownThreads { emulators: vec![running.thread_number()], recorders: vec![process] },
        };
        let recording = Recording::begin(device, output, None, surroundings).map_err(Begin::Recording)?;
        let task = RecordedTask {
            root: Root::ChildrenOf(process),
            command: words(&phase.command),
            cpus: cpus.as_ref().map(ToString::to_string),
            memory_limit_bytes: memory.as_ref().map(MemoryWatch::limit_bytes),
            device_made_ns,
        };
        let follow =
            || recording.capture.set_task(&task).and_then(|()| recording.capture.follow_thread(process));
        follow().map_err(|error| Begin::Recording(error.into()))?;
        begun = Some((recording, process));
        Ok(())
    });
    let result = ran.map_err(|begin| match begin {
        Begin::Stage(error) => host::failure(error),
        Begin::Recording(failure) => failure.context("--system"),
    })?;
    let (recording, process) = begun.expect("it was begun before the command");
    let traced = Traced {
        command: words(&phase.command),
        exit_code: Some(result.exit.code()),
        cpus,
        root: Root::ChildrenOf(process),
        end_ns: Some(result.synced_ns),
        memory: memory.map(MemoryWatch::finish),
        device_made_ns,
        recorder: own_number(),
    };
    let size = recording.finish(&traced).map_err(|failure| failure.context("--system"))?;
    if size.lost_events > 0 {
        session.remark(format!(
            "{}: {}",
            output.display(),
            numbered(size.lost_events, "event[|s] [was|were] lost")
        ));
    }
    Ok(result)
}

/// A phase that did not begin.
enum Begin {
    Stage(seeklab_stage::Error),
    Recording(Failure),
}

impl From<seeklab_stage::Error> for Begin {
    fn from(error: seeklab_stage::Error) -> Self {
        Self::Stage(error)
    }
}

fn words(command: &CommandLine) -> Vec<String> {
    match command {
        CommandLine::Words(words) => words.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        CommandLine::Shell(line) => vec!["sh".to_owned(), "-c".to_owned(), line.clone()],
    }
}
