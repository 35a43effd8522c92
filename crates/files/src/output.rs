//! A file that is written.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::draft::Draft;
use crate::error::FileError;
use crate::target::Target;

/// A file that takes its name when it is complete. Dropping it unfinished leaves what was there before.
///
/// A device, a pipe or an open stream is written through: what was written before a failure has gone there.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    sink: Sink,
    own: Option<OwnWriteBack>,
}

#[derive(Debug)]
enum Sink {
    Draft(Draft),
    Through(File),
}

impl OutputFile {
    /// Begins to write the file at `path`.
    ///
    /// # Errors
    /// If nothing can be written there, or a FIFO has no reader ([`await_reader`](crate::await_reader)).
    pub fn create(path: &Path) -> Result<Self, FileError> {
        let begin = || -> io::Result<Sink> {
            match Target::of(path)? {
                Target::File(target) => Draft::new(&target).map(Sink::Draft),
                through => through.open_through().map(Sink::Through),
            }
        };
        let sink = begin().map_err(|error| FileError::io(path, "cannot be written", error))?;
        Ok(Self { path: path.to_owned(), sink, own: None })
    }

    /// Sends what is written to the device at once, from the thread that writes it. By default the kernel does
    /// so later in a thread of its own, and a capture of that device cannot tell who caused it.
    #[must_use]
    pub fn written_back_at_once(self) -> Self {
        Self { own: Some(OwnWriteBack::default()), ..self }
    }

    /// The path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file, for writing at offsets.
    pub const fn file(&self) -> &File {
        match &self.sink {
            Sink::Draft(draft) => draft.file(),
            Sink::Through(file) => file,
        }
    }

    /// Gives the complete file its name.
    ///
    /// # Errors
    /// If the last bytes cannot be written or the file cannot be named.
    pub fn finish(self) -> Result<(), FileError> {
        self.finish_by(Draft::publish, |_| Ok(()))
    }

    /// As [`finish`](Self::finish), and brings the file and its name to the medium first.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn finish_durably(self) -> Result<(), FileError> {
        self.finish_by(Draft::publish_durably, |file| match file.sync_all() {
            // Pipes and terminals have no medium.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            result => result,
        })
    }

    fn finish_by(
        self,
        draft: fn(Draft) -> io::Result<()>,
        through: fn(&File) -> io::Result<()>,
    ) -> Result<(), FileError> {
        let Self { path, sink, .. } = self;
        match sink {
            Sink::Draft(file) => draft(file),
            Sink::Through(file) => through(&file),
        }
        .map_err(|error| FileError::io(&path, "cannot be written", error))
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut file = self.file();
        let written = file.write(bytes)?;
        if let Some(mut own) = self.own.take() {
            own.wrote(self.file(), written);
            self.own = Some(own);
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

/// Writes a whole file.
///
/// # Errors
/// If it cannot be written; a regular file that was there before stays.
pub fn write(path: &Path, content: &[u8]) -> Result<(), FileError> {
    let mut output = OutputFile::create(path)?;
    output.write_all(content).map_err(|error| FileError::io(path, "cannot be written", error))?;
    output.finish()
}

/// Makes what is written to a file go to its device at once.
#[derive(Debug, Default)]
pub(crate) struct OwnWriteBack {
    written: u64,
    begun: u64,
}

impl OwnWriteBack {
    /// Bytes that are written back together.
    const STRIDE_BYTES: u64 = 1 << 20;

    pub(crate) fn wrote(&mut self, file: &File, bytes: usize) {
        self.written += bytes as u64;
        if self.written - self.begun >= Self::STRIDE_BYTES {
            self.begin(file);
        }
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn begin(&mut self, file: &File) {
        use rustix::fs::{Advice, fadvise};
        let length = std::num::NonZeroU64::new(self.written - self.begun);
        // Advice: where it cannot be taken, the kernel writes back later.
        let _ = fadvise(file, self.begun, length, Advice::DontNeed);
        self.begun = self.written;
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn begin(&mut self, _: &File) {
        self.begun = self.written;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

    use super::*;

    fn names_in(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn unfinished_file_leaves_the_old_one_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        fs::write(&path, "old").unwrap();
        let mut output = OutputFile::create(&path).unwrap();
        output.write_all(b"new").unwrap();
        drop(output);
        assert_eq!(names_in(folder.path()), ["t.csv"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    }

    #[test]
    fn finished_file_replaces_the_old_one_and_keeps_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(names_in(folder.path()), ["t.csv"]);
    }

    #[test]
    fn device_is_written_through_and_stays_a_device() {
        write(Path::new("/dev/null"), b"gone").unwrap();
        let error = write(Path::new("/dev/full"), b"too much").unwrap_err();
        assert_eq!(error.to_string(), "/dev/full: cannot be written");
        assert_eq!(error.io_error().unwrap().kind(), io::ErrorKind::StorageFull);
        assert!(fs::metadata("/dev/full").unwrap().file_type().is_char_device());
    }

    #[test]
    fn link_stays_and_leads_to_the_new_contents_also_where_it_led_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        symlink("target", &link).unwrap();
        for text in ["first", "second"] {
            write(&link, text.as_bytes()).unwrap();
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            assert_eq!(fs::read_to_string(&target).unwrap(), text);
        }
    }

    #[test]
    fn loop_of_links_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("loop");
        symlink("loop", &path).unwrap();
        assert!(write(&path, b"x").is_err());
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    }

    #[test]
    fn open_stream_is_appended_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "before\n").unwrap();
        let log = File::options().append(true).open(&path).unwrap();
        use std::os::fd::AsRawFd;
        write(Path::new(&format!("/proc/self/fd/{}", log.as_raw_fd())), b"after\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "before\nafter\n");
    }

    #[test]
    fn pipe_without_a_reader_is_broken() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        use std::os::fd::AsRawFd;
        let error = write(Path::new(&format!("/dev/fd/{}", writer.as_raw_fd())), b"for nobody").unwrap_err();
        assert_eq!(error.io_error().unwrap().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn folder_that_is_not_there_is_named() {
        let error = OutputFile::create(Path::new("/no/such/folder/t.csv")).unwrap_err();
        assert_eq!(error.to_string(), "/no/such/folder/t.csv: cannot be written");
        assert_eq!(error.io_error().unwrap().kind(), io::ErrorKind::NotFound);
        assert_eq!(OutputFile::create(Path::new("/")).unwrap_err().to_string(), "/: cannot be written");
    }
}
