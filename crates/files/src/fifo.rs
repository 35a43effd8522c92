//! A FIFO as an output: the wait for its reader.
//!
//! Opening a FIFO for writing blocks until a reader has opened it, and a signal that the process handles does not end
//! that. So [`OutputFile`](crate::OutputFile) opens a FIFO without blocking and refuses one without a reader.
//! [`await_reader`] is the wait before, which the caller can end.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl, open};
use rustix::io::Errno;

use crate::error::FileError;
use crate::target::Target;

/// Time between two attempts to open a FIFO.
const PAUSE: Duration = Duration::from_millis(20);

/// Reader of a FIFO that has opened it. It sees no end of the file while this value exists.
#[derive(Debug)]
#[must_use = "the reader sees the end of the file when this is dropped"]
pub struct AwaitedReader {
    _writer: Option<File>,
}

/// Waits until a reader has opened the FIFO that `path` leads to. Any other output needs no wait.
///
/// `pause` waits for the time that it is given. It returns false to end the wait.
///
/// # Errors
/// If `pause` ended the wait, or the FIFO cannot be opened.
pub fn await_reader(
    path: &Path,
    mut pause: impl FnMut(Duration) -> bool,
) -> Result<AwaitedReader, FileError> {
    let failed = |error| FileError::io(path, "cannot be written", error);
    let Target::Fifo(fifo) = Target::of(path).map_err(failed)? else {
        return Ok(AwaitedReader { _writer: None });
    };
    loop {
        match open_fifo(&fifo, OFlags::empty()).map_err(failed)? {
            Some(writer) => return Ok(AwaitedReader { _writer: Some(writer) }),
            None if pause(PAUSE) => {}
            None => return Err(FileError::new(path, "no process has opened the FIFO for reading")),
        }
    }
}

/// Opens a FIFO for writing that blocks. `None` if it has no reader.
pub(crate) fn open_fifo(path: &Path, flags: OFlags) -> io::Result<Option<File>> {
    let flags = flags | OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match open(path, flags, Mode::empty()) {
        Ok(fifo) => {
            fcntl_setfl(&fifo, fcntl_getfl(&fifo)? - OFlags::NONBLOCK)?;
            Ok(Some(fifo.into()))
        }
        Err(Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{ErrorKind, Read};
    use std::os::unix::fs::{FileTypeExt, symlink};
    use std::path::PathBuf;
    use std::thread;

    use super::*;
    use crate::output::write;

    fn fifo(folder: &tempfile::TempDir) -> PathBuf {
        let path = folder.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        path
    }

    fn patient(pause: Duration) -> bool {
        thread::park_timeout(pause);
        true
    }

    #[test]
    fn fifo_without_a_reader_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let error = write(&fifo(&folder), b"for nobody").unwrap_err();
        assert_eq!(error.io_error().unwrap().kind(), ErrorKind::NotConnected);
    }

    #[test]
    fn caller_ends_the_wait_for_a_reader() {
        let folder = tempfile::tempdir().unwrap();
        let path = fifo(&folder);
        let mut pauses = 0;
        let error = await_reader(&path, |_| {
            pauses += 1;
            pauses < 3
        });
        let message = error.unwrap_err().to_string();
        assert_eq!(
            (pauses, message.ends_with("fifo: no process has opened the FIFO for reading")),
            (3, true)
        );
    }

    #[test]
    fn awaited_reader_reads_the_whole_content_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = fifo(&folder);
        let link = folder.path().join("link");
        symlink("fifo", &link).unwrap();
        // More than a pipe holds, so that the writer waits for the reader.
        let content = vec![b'x'; 1 << 20];
        for path in [&path, &link] {
            let reader = thread::spawn({
                let path = path.clone();
                move || {
                    let mut bytes = Vec::new();
                    File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
                    bytes
                }
            });
            let awaited = await_reader(path, patient).unwrap();
            write(path, &content).unwrap();
            drop(awaited);
            assert!(reader.join().unwrap() == content);
        }
        assert!(fs::metadata(&path).unwrap().file_type().is_fifo());
    }

    #[test]
    fn other_outputs_need_no_reader() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("absent");
        for path in [Path::new("/dev/null"), Path::new("/dev/stdout"), &absent] {
            let _ = await_reader(path, |_| panic!("{}: it is awaited", path.display())).unwrap();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is made");
    }
}
