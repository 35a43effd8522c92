//! The file systems, and the options of mkfs that make runs comparable.
//!
//! All work in the background after mkfs, and all differences from one mkfs to the next, are switched off:
//! - **ext2, ext4**: inode tables and journal are written now rather than by a kernel thread during the
//!   measurement (`lazy_itable_init=0`, `lazy_journal_init=0`); the UUID and the seed of the directory
//!   hash are fixed, so that the order of a directory's entries, and with it the order of reads, is the
//!   same each time.
//! - **xfs**: a fixed UUID; mounted `nouuid`, so that two of them can be mounted at once.
//! - **btrfs**: metadata twice and data once, whether or not the device is rotational (older mkfs chose by
//!   rotation). Its UUID is left random: the kernel identifies btrfs devices by UUID, even unmounted ones,
//!   and refuses or confuses a second device with the same UUID. Its layout does not depend on the UUID.
//!
//! Nothing is discarded first (`nodiscard`, `-K`): the device is empty, and a discard of all of it takes
//! long. Times in the superblock are those of SOURCE_DATE_EPOCH where mke2fs is 1.47.1 or later.
//!
//! # References
//! `mke2fs(8)`, `mkfs.xfs(8)`, `mkfs.btrfs(8)`.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use seeklab_core::names::{near, quoted};
use serde::{Deserialize, Serialize};

/// The UUID of ext2, ext4 and xfs, and the seed of ext's directory hash: "seeklab" in ASCII, and nines.
const UUID: &str = "7365656b-6c61-4b99-9999-999999999999";

/// File system on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// The second extended file system, as in the dissertation.
    Ext2,
    /// The fourth extended file system.
    #[default]
    Ext4,
    /// XFS; needs 300 MiB.
    Xfs,
    /// btrfs; needs 109 MiB.
    Btrfs,
    /// No file system: commands get the raw device, and nothing is mounted.
    None,
}

/// A name that is no file system's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a known file system; there are {}", quoted(FileSystem::ALL.map(FileSystem::name)))]
pub struct FileSystemError {
    /// Name that was given.
    pub name: String,
    /// The name that was probably meant.
    pub near: Option<&'static str>,
}

impl FileSystem {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Ext2, Self::Ext4, Self::Xfs, Self::Btrfs, Self::None];

    /// As it is written on the command line and in `/proc/filesystems`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ext2 => "ext2",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
            Self::None => "none",
        }
    }

    /// The program that makes it.
    pub(crate) const fn mkfs(self) -> Option<&'static str> {
        match self {
            Self::Ext2 => Some("mkfs.ext2"),
            Self::Ext4 => Some("mkfs.ext4"),
            Self::Xfs => Some("mkfs.xfs"),
            Self::Btrfs => Some("mkfs.btrfs"),
            Self::None => None,
        }
    }

    /// The package that has that program, in Debian and most others.
    pub(crate) const fn package(self) -> &'static str {
        match self {
            Self::Ext2 | Self::Ext4 | Self::None => "e2fsprogs",
            Self::Xfs => "xfsprogs",
            Self::Btrfs => "btrfs-progs",
        }
    }

    /// The arguments of that program, less the device.
    pub(crate) fn mkfs_arguments(self) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Ext2 => &["-q", "-F", "-U", UUID, "-E"],
            Self::Ext4 => &["-q", "-F", "-U", UUID, "-E", "lazy_itable_init=0,lazy_journal_init=0,"],
            Self::Xfs => &["-q", "-f", "-K"],
            Self::Btrfs => &["-q", "-f", "-K", "-m", "dup", "-d", "single"],
            Self::None => &[],
        };
        let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let extended = format!("nodiscard,hash_seed={UUID}");
        match self {
            Self::Ext2 => words.push(extended),
            Self::Ext4 => words.last_mut().expect("it has arguments").push_str(&extended),
            Self::Xfs => words.extend(["-m".to_owned(), format!("uuid={UUID}")]),
            Self::Btrfs | Self::None => {}
        }
        words
    }

    /// Mount options that it always has.
    pub(crate) const fn mount_options(self) -> &'static [&'static str] {
        match self {
            Self::Xfs => &["nouuid"],
            _ => &[],
        }
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for FileSystem {
    type Err = FileSystemError;

    fn from_str(name: &str) -> Result<Self, FileSystemError> {
        Self::ALL.into_iter().find(|known| known.name() == name).ok_or_else(|| FileSystemError {
            name: name.to_owned(),
            near: near(name, Self::ALL.map(Self::name)).first().copied(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_parsed_and_others_are_refused() {
        for file_system in FileSystem::ALL {
            assert_eq!(file_system.to_string().parse(), Ok(file_system));
        }
        let error = "xfz".parse::<FileSystem>().unwrap_err();
        assert_eq!(error.near, Some("xfs"));
        assert!(error.to_string().ends_with("there are `ext2`, `ext4`, `xfs`, `btrfs`, `none`"), "{error}");
    }

    #[test]
    fn lazy_initialisation_is_off() {
        let arguments = FileSystem::Ext4.mkfs_arguments().join(" ");
        for wanted in ["lazy_itable_init=0,", "lazy_journal_init=0,", "nodiscard,", "hash_seed=", "-U "] {
            assert!(arguments.contains(wanted), "{arguments}");
        }
    }
}
