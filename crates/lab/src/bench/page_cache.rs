//! The pages of a target in the page cache of this machine.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::fs::{Advice, fadvise};

/// Drops the clean pages of a file or block device. Those of a block device are written back first.
///
/// # Errors
/// A file that cannot be opened, or a write-back that fails.
pub(super) fn drop_pages(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    if file.metadata()?.file_type().is_block_device() {
        file.sync_all()?;
    }
    Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
}

#[cfg(test)]
mod tests {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};

    use super::*;

    #[test]
    fn pages_of_a_file_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("there.img");
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        // A read that may not wait for the device.
        let at_once = || {
            let mut bytes = [0; 4096];
            preadv2(&file, &mut [io::IoSliceMut::new(&mut bytes)], 0, ReadWriteFlags::NOWAIT)
        };
        if at_once() != Ok(4096) {
            eprintln!("skipped: a file system without reads that do not wait");
            return;
        }
        drop_pages(&path).unwrap();
        match at_once() {
            Ok(_) if rustix::fs::statfs(&path).unwrap().f_type == 0x0102_1994 => {
                eprintln!("skipped: tmpfs is its own page cache");
            }
            read => assert_eq!(read, Err(Errno::AGAIN)),
        }
        assert!(drop_pages(&folder.path().join("absent")).is_err());
    }
}
