//! Where a trace is written to: a file that appears whole or not at all.

pub(crate) mod device_names;
pub(crate) mod losses;
pub(crate) mod rows;

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};

use crate::error::TraceError;
use crate::metadata::Metadata;
use crate::source::compression::{Compression, Compressor};

/// A file written under a temporary name beside its target and renamed when it is complete, so that
/// a crash never leaves half a file that looks whole. Dropping it unfinished removes it.
///
/// A target that exists and is no regular file, such as `/dev/stdout` or a pipe, is written directly.
pub struct OutputFile {
    target: PathBuf,
    file: File,
    temporary: Option<TempPath>,
    own: Option<OwnWriteBack>,
}

/// Makes what is written to a file go to its device at once, by whoever writes it: else the kernel does that
/// later in a thread of its own, and a capture cannot tell who asked for it.
#[derive(Debug, Default)]
struct OwnWriteBack {
    written: u64,
    begun: u64,
}

impl OwnWriteBack {
    /// How much is written back together.
    const STRIDE_BYTES: u64 = 1 << 20;

    fn wrote(&mut self, file: &File, bytes: usize) {
        self.written += bytes as u64;
        if self.written - self.begun >= Self::STRIDE_BYTES {
            self.begin(file);
        }
    }

    #[cfg(target_os = "linux")]
    fn begin(&mut self, file: &File) {
        use rustix::fs::{Advice, fadvise};
        let length = std::num::NonZeroU64::new(self.written - self.begun);
        // Advice: where it cannot be taken, the kernel writes back later.
        let _ = fadvise(file, self.begun, length, Advice::DontNeed);
        self.begun = self.written;
    }

    #[cfg(not(target_os = "linux"))]
    fn begin(&mut self, _: &File) {
        self.begun = self.written;
    }
}

impl OutputFile {
    /// Begins to write the file at `path`.
    ///
    /// # Errors
    /// If nothing can be written there.
    pub fn create(path: &Path) -> Result<Self, TraceError> {
        Self::begin(path).map_err(|error| TraceError::io("cannot create the file", error).in_file(path))
    }

    fn begin(path: &Path) -> io::Result<Self> {
        // A link keeps pointing at the file that is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match fs::metadata(&target) {
            Ok(metadata) if metadata.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(metadata) if !metadata.is_file() => {
                let file = File::options().write(true).open(&target)?;
                return Ok(Self { target, file, temporary: None, own: None });
            }
            _ => {}
        }
        let name = target.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_string_lossy();
        let prefix = format!(".{name}.");
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(".part");
        if let Some(permissions) = permissions() {
            builder.permissions(permissions);
        }
        let folder = target.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        // Says what is wrong with the folder, where the builder would name its own file.
        fs::metadata(folder)?;
        let temporary: NamedTempFile = builder.tempfile_in(folder)?;
        let (file, temporary) = temporary.into_parts();
        Ok(Self { target, file, temporary: Some(temporary), own: None })
    }

    /// The file of a trace with this metadata: a recorder's own file goes to its device as it is written, by
    /// the process that writes it, so that a capture of that device can tell.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn create_for(path: &Path, metadata: &Metadata) -> Result<Self, TraceError> {
        let mut this = Self::create(path)?;
        this.own = metadata.recorder().is_known().then(OwnWriteBack::default);
        Ok(this)
    }

    /// Gives the complete file its name.
    ///
    /// # Errors
    /// If the last bytes cannot be written or the file cannot be renamed.
    pub fn finish(mut self) -> Result<(), TraceError> {
        let finish = |this: &mut Self| -> io::Result<()> {
            this.file.flush()?;
            match this.temporary.take() {
                Some(temporary) => temporary.persist(&this.target).map_err(|error| error.error),
                None => Ok(()),
            }
        };
        finish(&mut self)
            .map_err(|error| TraceError::io("cannot finish the file", error).in_file(&self.target))
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        if let Some(own) = &mut self.own {
            own.wrote(&self.file, written);
        }
        Ok(written)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Those of any new file; the temporary one alone would be the owner's only.
#[cfg(unix)]
fn permissions() -> Option<Permissions> {
    use std::os::unix::fs::PermissionsExt;
    Some(Permissions::from_mode(0o666))
}

#[cfg(not(unix))]
fn permissions() -> Option<Permissions> {
    None
}

/// Text of a trace, compressed as the suffix of its file says.
pub(crate) struct TextOutput {
    path: PathBuf,
    compressor: Compressor<BufWriter<OutputFile>>,
}

impl TextOutput {
    pub(crate) fn create(path: &Path) -> Result<Self, TraceError> {
        Self::create_for(path, &Metadata::default())
    }

    pub(crate) fn create_for(path: &Path, metadata: &Metadata) -> Result<Self, TraceError> {
        let (compression, _) = Compression::of_path(path);
        let file = BufWriter::with_capacity(64 * 1024, OutputFile::create_for(path, metadata)?);
        let compressor = Compressor::new(compression, file)
            .map_err(|error| TraceError::io("cannot create the file", error).in_file(path))?;
        Ok(Self { path: path.to_owned(), compressor })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    #[inline]
    pub(crate) fn write(&mut self, text: &[u8]) -> Result<(), TraceError> {
        self.compressor
            .write_all(text)
            .map_err(|error| TraceError::io("cannot write the file", error).in_file(&self.path))
    }

    pub(crate) fn finish(self) -> Result<(), TraceError> {
        let path = self.path;
        let file = self
            .compressor
            .finish()
            .and_then(|buffer| buffer.into_inner().map_err(io::IntoInnerError::into_error))
            .map_err(|error| TraceError::io("cannot write the file", error).in_file(&path))?;
        file.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn does_an_unfinished_file_leave_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        fs::write(&path, "old").unwrap();
        let mut output = TextOutput::create(&path).unwrap();
        output.write(b"new").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        drop(output);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    }

    #[test]
    fn does_a_finished_file_replace_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        fs::write(&path, "old").unwrap();
        let mut output = TextOutput::create(&path).unwrap();
        output.write(b"new").unwrap();
        output.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn is_a_folder_that_is_not_there_named() {
        let error = TextOutput::create(Path::new("/no/such/folder/t.csv")).err().unwrap();
        assert_eq!(error.to_string(), "/no/such/folder/t.csv: cannot create the file");
        let error = OutputFile::create(Path::new("/")).err().unwrap();
        assert_eq!(error.to_string(), "/: cannot create the file");
    }

    #[cfg(unix)]
    #[test]
    fn is_what_is_no_regular_file_written_directly_and_a_link_kept() {
        OutputFile::create(Path::new("/dev/null")).unwrap().finish().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        OutputFile::create(&link).unwrap().finish().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "");
    }
}
