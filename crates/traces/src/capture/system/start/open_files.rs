//! Files of the traced file system that are open at the beginning.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::OpenFile;

/// Files of the file system `device` that processes have open. Processes that end meanwhile are left out.
pub(super) fn open_files(device: u64) -> Vec<OpenFile> {
    let mut found = Vec::new();
    for process in numbers(Path::new("/proc")) {
        let folder = PathBuf::from(format!("/proc/{process}"));
        for descriptor in numbers(&folder.join("fd")) {
            // The kernel has the file in memory, so this reads nothing.
            let Ok(metadata) = fs::metadata(folder.join(format!("fd/{descriptor}"))) else { continue };
            if metadata.dev() != device || !metadata.is_file() {
                continue;
            }
            let state = fs::read_to_string(folder.join(format!("fdinfo/{descriptor}"))).unwrap_or_default();
            found.push(OpenFile {
                process,
                descriptor,
                inode: metadata.ino(),
                flags: field(&state, "flags:", 8).unwrap_or(0),
                offset_bytes: field(&state, "pos:", 10).unwrap_or(0),
            });
        }
    }
    found
}

/// Names of a folder that are numbers.
fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A number in the text of `fdinfo`: lines such as `flags: 0100002`.
fn field(text: &str, name: &str, radix: u32) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    u64::from_str_radix(value.trim(), radix).ok()
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

    use super::*;

    #[test]
    fn open_file_is_found_with_its_flags_and_position() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 4096]).unwrap();
        file.seek(SeekFrom::Start(1234)).unwrap();
        let metadata = file.metadata().unwrap();
        let found = open_files(metadata.dev());
        let ours: Vec<_> = found
            .iter()
            .filter(|open| (open.process, open.inode) == (std::process::id(), metadata.ino()))
            .collect();
        let [open] = ours[..] else { panic!("{ours:?}") };
        // O_RDWR, and O_LARGEFILE on some architectures.
        assert_eq!((open.offset_bytes, open.flags & 3), (1234, 2));
        assert!(!open_files(u64::MAX).iter().any(|open| open.inode == metadata.ino()));
    }
}
