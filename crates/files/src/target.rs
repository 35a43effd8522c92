//! The file that a path leads to, and the way in which it has to be written.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::fifo::open_fifo;

/// Links that are followed before a path counts as a loop, as in Linux.
const LINKS_MAX: usize = 40;

/// The thing that a path leads to.
#[derive(Debug)]
pub(crate) enum Target {
    /// A regular file, or no file yet: replaced as a whole.
    File(PathBuf),
    /// A FIFO: written through. Its reader is awaited before.
    Fifo(PathBuf),
    /// A device or socket: written through.
    Special(PathBuf),
    /// An open stream of this process, by its number: written through.
    Stream(u32),
}

impl Target {
    /// Follows links, also one that leads to no file yet.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let mut path = path.to_owned();
        for _ in 0..LINKS_MAX {
            if let Some(number) = stream_number(&path) {
                return Ok(Self::Stream(number));
            }
            match fs::symlink_metadata(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::File(path)),
                Err(error) => return Err(error),
                Ok(metadata) if metadata.is_symlink() => {
                    let link = fs::read_link(&path)?;
                    path = folder_of(&path).join(link);
                }
                Ok(metadata) if metadata.is_dir() => return Err(ErrorKind::IsADirectory.into()),
                Ok(metadata) if metadata.is_file() => return Ok(Self::File(path)),
                Ok(metadata) if metadata.file_type().is_fifo() => return Ok(Self::Fifo(path)),
                Ok(_) => return Ok(Self::Special(path)),
            }
        }
        Err(io::Error::from_raw_os_error(rustix::io::Errno::LOOP.raw_os_error()))
    }

    /// Opens a target that is written through.
    pub(crate) fn open_through(&self) -> io::Result<File> {
        match self {
            Self::Stream(1) => Ok(io::stdout().as_fd().try_clone_to_owned()?.into()),
            Self::Stream(2) => Ok(io::stderr().as_fd().try_clone_to_owned()?.into()),
            // A stream may be a pipe whose reader has gone. A blocking open would wait for ever.
            Self::Stream(number) => {
                let path = format!("/proc/self/fd/{number}");
                open_fifo(Path::new(&path), OFlags::APPEND)?.ok_or_else(|| ErrorKind::BrokenPipe.into())
            }
            Self::Fifo(path) => open_fifo(path, OFlags::empty())?.ok_or_else(|| {
                io::Error::new(ErrorKind::NotConnected, "no process has opened the FIFO for reading")
            }),
            Self::File(path) | Self::Special(path) => File::options().write(true).open(path),
        }
    }
}

/// The number of the open stream that `path` names.
fn stream_number(path: &Path) -> Option<u32> {
    let folder = path.parent()?;
    let is_ours = [Path::new("/proc/self/fd"), Path::new("/proc/thread-self/fd"), Path::new("/dev/fd")];
    let own = format!("/proc/{}/fd", std::process::id());
    if is_ours.contains(&folder) || folder == Path::new(&own) {
        return path.file_name()?.to_str()?.parse().ok();
    }
    None
}

/// The folder in which the file at `path` is.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
