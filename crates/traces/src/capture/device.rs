//! Which device, and where the kernel describes its events.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::error::CaptureError;
use super::event::Kind;
use super::layout::Layout;

/// Where tracefs is mounted, by the kernel's documentation: on its own or within debugfs.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The number that the block layer's events call `dev`: the major number above 20 bits of minor.
pub(super) fn kernel_number(path: &Path) -> Result<u32, CaptureError> {
    let failed = |source| CaptureError::Device { path: path.to_owned(), source };
    let metadata = fs::metadata(path).map_err(failed)?;
    if !metadata.file_type().is_block_device() {
        return Err(CaptureError::NotABlockDevice { path: path.to_owned() });
    }
    let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
    let described = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let described = described.canonicalize().map_err(failed)?;
    if described.join("partition").exists() {
        let whole = described.parent().and_then(Path::file_name).unwrap_or_default();
        return Err(CaptureError::Partition {
            path: path.to_owned(),
            whole: whole.to_string_lossy().into_owned(),
        });
    }
    if !described.join("mq").is_dir() {
        return Err(CaptureError::NoRequests { path: path.to_owned() });
    }
    Ok((major << 20) | minor)
}

/// How this kernel lays out the records of a tracepoint.
pub(super) fn layout(kind: Kind) -> Result<Layout, CaptureError> {
    for tracefs in TRACEFS {
        let path = Path::new(tracefs).join("events/block").join(kind.tracepoint()).join("format");
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(CaptureError::Tracefs { path, source }),
            Ok(text) => text,
        };
        return Layout::parse(kind, &text).map_err(|problem| CaptureError::Description { path, problem });
    }
    Err(CaptureError::NoTracefs { searched: TRACEFS.map(str::to_owned).to_vec() })
}

/// Numbers of the processors that are online.
pub(super) fn processors() -> Result<Vec<u32>, CaptureError> {
    let path = Path::new("/sys/devices/system/cpu/online");
    let failed = |source| CaptureError::Kernel { action: "list the processors", source };
    let text = fs::read_to_string(path).map_err(failed)?;
    parse_list(text.trim()).ok_or_else(|| failed(io::Error::other(format!("`{}` is no list", text.trim()))))
}

/// A list of numbers as the kernel writes it, such as `0-3,7`.
fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last - first > 65_536 {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_lists_of_processors_read() {
        assert_eq!(parse_list("0"), Some(vec![0]));
        assert_eq!(parse_list("0-2,5,8-9"), Some(vec![0, 1, 2, 5, 8, 9]));
        for wrong in ["", "3-1", "a", "0-", "0-4294967295"] {
            assert_eq!(parse_list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn is_what_is_no_block_device_refused() {
        assert!(matches!(kernel_number(Path::new("/dev/null")), Err(CaptureError::NotABlockDevice { .. })));
        assert!(matches!(kernel_number(Path::new("/no/such")), Err(CaptureError::Device { .. })));
    }
}
