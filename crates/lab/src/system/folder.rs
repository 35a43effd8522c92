//! The folder of a system-level trace.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use seeklab_columnar::{TypedTableReader, TypedTableWriter, row_count};
use seeklab_files::OutputFile;
use seeklab_traces::TraceError;
use seeklab_traces::system::Output;
use seeklab_traces::system::table::TableRow;
use seeklab_traces::system::tables::{
    CachedRow, CommitRow, CpuRow, ExtentRow, InitialRow, InterruptRow, LossRow, OccupiedRow, OpenFileRow,
    ProcessRow, StepRow, TABLES_VERSION, WaitRow, WritebackRow,
};

use super::metadata::{FILE, SystemMetadata, is_system_trace};
use crate::failure::Failure;

/// Name of the table of requests, which is a canonical trace.
pub(super) const REQUESTS: &str = "requests";

/// Path of the file of a table.
fn file(folder: &Path, table: &str) -> PathBuf {
    folder.join(format!("{table}.parquet"))
}

/// A system-level trace that can be read.
#[derive(Debug, Clone)]
pub struct SystemTrace {
    folder: PathBuf,
    metadata: SystemMetadata,
}

impl SystemTrace {
    /// Opens the folder.
    ///
    /// # Errors
    /// If there is no system-level trace, or one of another version.
    pub fn open(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join(FILE);
        let text = fs::read_to_string(&path)
            .map_err(|error| Failure::from(error).context(format!("{}: cannot be read", path.display())))?;
        let invalid = |problem: String| Failure::new(format!("{}: {problem}", path.display()));
        let value: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        let version = value.get("tables_version").and_then(serde_json::Value::as_u64);
        if version != Some(u64::from(TABLES_VERSION)) {
            let found = version.map_or_else(|| "absent".to_owned(), |version| format!("`{version}`"));
            return Err(invalid(format!("tables_version is {found}: this program reads {TABLES_VERSION}"))
                .hint("record the trace again"));
        }
        let metadata: SystemMetadata =
            serde_json::from_value(value).map_err(|error| invalid(error.to_string()))?;
        if metadata.device.size_bytes == 0 {
            return Err(invalid("device.size_bytes is 0: a device has at least one block".to_owned())
                .hint("record the trace again, or convert its text again with --fact size=SIZE"));
        }
        Ok(Self { folder: folder.to_owned(), metadata })
    }

    /// Folder of the trace.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Metadata of the trace.
    pub fn metadata(&self) -> &SystemMetadata {
        &self.metadata
    }

    /// Path of the requests, which are a canonical trace.
    pub fn requests(&self) -> PathBuf {
        file(&self.folder, REQUESTS)
    }

    /// Rows of a table.
    ///
    /// # Errors
    /// If the table cannot be read, or has another number of rows than the metadata state.
    pub fn rows<R: TableRow>(&self) -> Result<TypedTableReader<R>, Failure> {
        let path = file(&self.folder, R::TABLE);
        let rows = TypedTableReader::open(&path, TABLES_VERSION)?;
        match self.metadata.tables.get(R::TABLE) {
            Some(expected) if *expected != rows.row_count() => {
                Err(other_rows(&path, rows.row_count(), *expected))
            }
            _ => Ok(rows),
        }
    }

    /// Checks that the tables that the metadata state are there, with as many rows: also those that no prediction reads, for their
    /// absence shows that files were lost.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub(crate) fn check_tables(&self) -> Result<(), Failure> {
        for (table, expected) in &self.metadata.tables {
            let path = file(&self.folder, table);
            let found = row_count(&path)?;
            if found != *expected {
                return Err(other_rows(&path, found, *expected));
            }
        }
        Ok(())
    }

    /// All rows of a table.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub fn all<R: TableRow>(&self) -> Result<Vec<R>, Failure> {
        Ok(self.rows()?.collect::<Result<Vec<R>, TraceError>>()?)
    }
}

fn other_rows(path: &Path, found: u64, expected: u64) -> Failure {
    Failure::new(format!("{}: {found} rows, where {FILE} states {expected}", path.display()))
        .hint("the files of a system-level trace belong together")
}

/// Tables of a system-level trace that is written.
pub(super) struct Tables {
    processes: TypedTableWriter<ProcessRow>,
    steps: TypedTableWriter<StepRow>,
    waits: TypedTableWriter<WaitRow>,
    occupied: TypedTableWriter<OccupiedRow>,
    interrupts: TypedTableWriter<InterruptRow>,
    initial: TypedTableWriter<InitialRow>,
    extents: TypedTableWriter<ExtentRow>,
    commits: TypedTableWriter<CommitRow>,
    writeback: TypedTableWriter<WritebackRow>,
    cpus: TypedTableWriter<CpuRow>,
    losses: TypedTableWriter<LossRow>,
    open_files: TypedTableWriter<OpenFileRow>,
    cached: TypedTableWriter<CachedRow>,
    failed: Option<TraceError>,
}

fn create<R: TableRow>(folder: &Path) -> Result<TypedTableWriter<R>, TraceError> {
    TypedTableWriter::create(&file(folder, R::TABLE), TABLES_VERSION)
}

impl Tables {
    pub(super) fn create(folder: &Path) -> Result<Self, TraceError> {
        Ok(Self {
            processes: create(folder)?,
            steps: create(folder)?,
            waits: create(folder)?,
            occupied: create(folder)?,
            interrupts: create(folder)?,
            initial: create(folder)?,
            extents: create(folder)?,
            commits: create(folder)?,
            writeback: create(folder)?,
            cpus: create(folder)?,
            losses: create(folder)?,
            open_files: create(folder)?,
            cached: create(folder)?,
            failed: None,
        })
    }

    /// Writes a row to its table. Requests are written elsewhere.
    pub(super) fn write(&mut self, output: &Output) {
        if self.failed.is_some() {
            return;
        }
        let written = match output {
            Output::Process(row) => self.processes.write(row),
            Output::Step(row) => self.steps.write(row),
            Output::Wait(row) => self.waits.write(row),
            Output::Occupied(row) => self.occupied.write(row),
            Output::Interrupt(row) => self.interrupts.write(row),
            Output::Initial(row) => self.initial.write(row),
            Output::Extent(row) => self.extents.write(row),
            Output::Commit(row) => self.commits.write(row),
            Output::Writeback(row) => self.writeback.write(row),
            Output::Cpu(row) => self.cpus.write(row),
            Output::Loss(row) => self.losses.write(row),
            Output::OpenFile(row) => self.open_files.write(row),
            Output::Cached(row) => self.cached.write(row),
            Output::Request(_) => Ok(()),
        };
        self.failed = written.err();
    }

    /// Completes the tables. Returns the name and number of rows of each.
    pub(super) fn finish(self) -> Result<Vec<(&'static str, u64)>, TraceError> {
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        Ok(vec![
            (ProcessRow::TABLE, self.processes.finish()?),
            (StepRow::TABLE, self.steps.finish()?),
            (WaitRow::TABLE, self.waits.finish()?),
            (OccupiedRow::TABLE, self.occupied.finish()?),
            (InterruptRow::TABLE, self.interrupts.finish()?),
            (InitialRow::TABLE, self.initial.finish()?),
            (ExtentRow::TABLE, self.extents.finish()?),
            (CommitRow::TABLE, self.commits.finish()?),
            (WritebackRow::TABLE, self.writeback.finish()?),
            (CpuRow::TABLE, self.cpus.finish()?),
            (LossRow::TABLE, self.losses.finish()?),
            (OpenFileRow::TABLE, self.open_files.finish()?),
            (CachedRow::TABLE, self.cached.finish()?),
        ])
    }
}

/// Path of the requests within a folder.
pub(super) fn requests(folder: &Path) -> PathBuf {
    file(folder, REQUESTS)
}

/// Writes the metadata.
pub(super) fn write_metadata(folder: &Path, metadata: &SystemMetadata) -> Result<(), Failure> {
    let mut file = OutputFile::create(&folder.join(FILE))?;
    let text = serde_json::to_string_pretty(metadata).expect("metadata has text keys");
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    Ok(file.finish()?)
}

/// A folder that takes its name when the trace in it is complete.
pub(super) struct Draft {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Draft {
    /// Checks that a system-level trace may have the name `path`.
    ///
    /// # Errors
    /// If something other than a system-level trace has that name.
    pub(super) fn check(path: &Path) -> Result<(), Failure> {
        let refuse = |problem: &str| {
            Failure::new(format!("{}: {problem}", path.display()))
                .hint("choose another name: a system-level trace is a folder of its own")
        };
        if path.file_name().is_none() {
            return Err(refuse("is no name of a folder"));
        }
        if path.is_dir() {
            let is_empty = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
            if !is_empty && !is_system_trace(path) {
                return Err(refuse("the folder exists and is no system-level trace"));
            }
        } else if fs::symlink_metadata(path).is_ok() {
            return Err(refuse("exists and is no folder"));
        }
        Ok(())
    }

    /// Begins a folder beside `path`.
    ///
    /// # Errors
    /// As [`check`](Self::check), and if nothing can be written there.
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        Self::check(path)?;
        let name = path.file_name().unwrap_or_default();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let prefix = format!(".{}.", name.to_string_lossy());
        let folder = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent).map_err(|error| {
            Failure::from(error).context(format!("{}: cannot be written", path.display()))
        })?;
        Ok(Self { folder, path: path.to_owned() })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Gives the folder its name. A trace of that name is replaced.
    pub(super) fn finish(self) -> Result<(), Failure> {
        use std::os::unix::fs::PermissionsExt;
        let failed = |error: std::io::Error| {
            Failure::from(error).context(format!("{}: cannot be named", self.path.display()))
        };
        fs::set_permissions(self.folder.path(), fs::Permissions::from_mode(0o755)).map_err(failed)?;
        if self.path.is_dir() {
            // The former trace goes when this does.
            let parent = self.folder.path().parent().expect("the folder has one");
            let former = tempfile::tempdir_in(parent).map_err(failed)?;
            fs::rename(&self.path, former.path().join("former")).map_err(failed)?;
        }
        let draft = self.folder.keep();
        fs::rename(&draft, &self.path).map_err(failed)
    }
}
