//! The file beside an output that holds what was written so far, in case the process is killed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::FileError;
use crate::output::OwnWriteBack;
use crate::target::Target;

/// End of the name of a part file.
const SUFFIX: &str = ".part";

/// The file `OUTPUT.part`. It exists from the beginning of the work until [`remove`](Self::remove), however the process ends.
///
/// The process that writes it holds a lock on it, so that others can tell a part file that grows from one that was left behind.
#[derive(Debug)]
pub struct PartFile {
    path: PathBuf,
    file: File,
    own: Option<OwnWriteBack>,
}

/// A part file that exists already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExistingPart {
    /// Its path.
    pub path: PathBuf,
    /// True if a process writes it.
    pub is_written: bool,
}

impl PartFile {
    /// Returns the path of the part file of `output`, which may be a folder. `None` if `output` is a device, a FIFO or a stream, which is written
    /// through and has none.
    ///
    /// # Errors
    /// If the system cannot look at `output`.
    pub fn path_of(output: &Path) -> Result<Option<PathBuf>, FileError> {
        // Two names of one output have one part file.
        let replaced = match Target::of(output) {
            Ok(Target::File(target)) => target,
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == ErrorKind::IsADirectory => output.to_owned(),
            Err(error) => return Err(FileError::io(output, "cannot be written", error)),
        };
        let mut name = replaced.file_name().unwrap_or_default().to_owned();
        name.push(SUFFIX);
        Ok(Some(replaced.with_file_name(name)))
    }

    /// Returns the part file of `output` that exists already.
    ///
    /// # Errors
    /// As [`path_of`](Self::path_of).
    pub fn existing(output: &Path) -> Result<Option<ExistingPart>, FileError> {
        let Some(path) = Self::path_of(output)? else { return Ok(None) };
        if fs::symlink_metadata(&path).is_err() {
            return Ok(None);
        }
        let is_free = |file: File| flock(&file, FlockOperation::NonBlockingLockShared).is_ok();
        let is_written = File::open(&path).is_ok_and(|file| !is_free(file));
        Ok(Some(ExistingPart { path, is_written }))
    }

    /// Creates the part file of `output`; `None` as in [`path_of`](Self::path_of).
    ///
    /// # Errors
    /// If it exists already or cannot be created.
    pub fn create(output: &Path) -> Result<Option<Self>, FileError> {
        let Some(path) = Self::path_of(output)? else { return Ok(None) };
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::AlreadyExists => FileError::new(&path, "exists already"),
            _ => FileError::io(&path, "cannot be written", error),
        };
        let file = OpenOptions::new().append(true).create_new(true).open(&path).map_err(failed)?;
        // A file system without locks leaves a part file that seems to be left behind.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        Ok(Some(Self { path, file, own: None }))
    }

    /// Sends what is appended to the device at once, as
    /// [`OutputFile::written_back_at_once`](crate::OutputFile::written_back_at_once).
    #[must_use]
    pub fn written_back_at_once(self) -> Self {
        Self { own: Some(OwnWriteBack::default()), ..self }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends bytes, which outlive this process. They outlive the machine when the file system has written them back.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.file.write_all(bytes).map_err(|error| FileError::io(&self.path, "cannot be written", error))?;
        if let Some(own) = &mut self.own {
            own.wrote(&self.file, bytes.len());
            own.begin(&self.file);
        }
        Ok(())
    }

    /// Removes the file, whose contents are safe elsewhere or not wanted.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn remove(self) -> Result<(), FileError> {
        fs::remove_file(&self.path).map_err(|error| FileError::io(&self.path, "cannot be removed", error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_file_is_found_and_known_to_be_written_until_its_process_lets_go() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("t.parquet");
        assert_eq!(PartFile::existing(&output).unwrap(), None);
        let mut part = PartFile::create(&output).unwrap().unwrap();
        part.append(b"some").unwrap();
        let existing =
            |is_written| Some(ExistingPart { path: folder.path().join("t.parquet.part"), is_written });
        assert_eq!(PartFile::existing(&output).unwrap(), existing(true));
        assert!(
            PartFile::create(&output).unwrap_err().to_string().ends_with("t.parquet.part: exists already")
        );
        drop(part);
        assert_eq!(PartFile::existing(&output).unwrap(), existing(false));
        assert_eq!(fs::read(folder.path().join("t.parquet.part")).unwrap(), b"some");
    }

    #[test]
    fn output_has_one_part_file_whatever_its_name_and_a_folder_has_one_too() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::os::unix::fs::symlink(at("t.csv"), at("link.csv")).unwrap();
        fs::create_dir(at("t.sys")).unwrap();
        for (output, part) in [("link.csv", "t.csv.part"), ("t.csv", "t.csv.part"), ("t.sys", "t.sys.part")] {
            assert_eq!(PartFile::path_of(&at(output)).unwrap(), Some(at(part)));
        }
    }

    #[test]
    fn finished_work_leaves_no_part_file_and_streams_have_none() {
        let folder = tempfile::tempdir().unwrap();
        let part = PartFile::create(&folder.path().join("t")).unwrap().unwrap();
        part.remove().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(PartFile::create(Path::new("/dev/null")).unwrap().is_none());
    }
}
