//! Mount options as `mount -o` takes them, sorted by who understands them.
//!
//! # References
//! `mount(8)`, file-system-independent mount options; `fsconfig(2)`, `fsmount(2)`.

use std::fmt;
use std::str::FromStr;

use rustix::mount::MountAttrFlags;
use serde::{Deserialize, Serialize};

/// Options of a mount, such as `sync,noatime,data=journal`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MountOptions(Vec<String>);

/// Options that cannot be ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("mount option `{option}`: {reason}")]
pub struct MountOptionsError {
    /// The option.
    pub option: String,
    /// Reason why the option is refused.
    pub reason: &'static str,
}

/// An option, by who understands it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MountOption<'a> {
    /// The mount itself.
    Attribute(MountAttrFlags),
    /// The file system, or what the kernel does for all of them.
    Flag(&'a str),
    /// The file system.
    Value(&'a str, &'a str),
}

impl MountOptions {
    /// Returns no options. `mount` then uses `relatime`.
    pub const fn none() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn sorted(&self) -> impl Iterator<Item = MountOption<'_>> {
        self.0.iter().map(|option| sort(option))
    }
}

fn sort(option: &str) -> MountOption<'_> {
    let attribute = match option {
        "nosuid" => MountAttrFlags::MOUNT_ATTR_NOSUID,
        "nodev" => MountAttrFlags::MOUNT_ATTR_NODEV,
        "noexec" => MountAttrFlags::MOUNT_ATTR_NOEXEC,
        "noatime" => MountAttrFlags::MOUNT_ATTR_NOATIME,
        "nodiratime" => MountAttrFlags::MOUNT_ATTR_NODIRATIME,
        "strictatime" => MountAttrFlags::MOUNT_ATTR_STRICTATIME,
        "relatime" => MountAttrFlags::MOUNT_ATTR_RELATIME,
        _ => match option.split_once('=') {
            Some((key, value)) => return MountOption::Value(key, value),
            None => return MountOption::Flag(option),
        },
    };
    MountOption::Attribute(attribute)
}

impl FromStr for MountOptions {
    type Err = MountOptionsError;

    fn from_str(text: &str) -> Result<Self, MountOptionsError> {
        let error = |option: &str, reason| MountOptionsError { option: option.to_owned(), reason };
        let mut options = Vec::new();
        for option in text.split(',').filter(|option| !matches!(*option, "" | "defaults" | "rw")) {
            match option {
                "loop" | "bind" | "remount" | "move" => {
                    return Err(error(option, "seeklab sets the device and the type of the mount"));
                }
                _ if option.contains('\0') => return Err(error(option, "an option has no zero byte")),
                _ => options.push(option.to_owned()),
            }
        }
        Ok(Self(options))
    }
}

impl fmt::Display for MountOptions {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(&self.0.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_divided_into_flags_and_file_system_options() {
        let options: MountOptions = "defaults,sync,,noatime,data=journal".parse().unwrap();
        assert_eq!(options.to_string(), "sync,noatime,data=journal");
        let sorted: Vec<_> = options.sorted().collect();
        let noatime = MountOption::Attribute(MountAttrFlags::MOUNT_ATTR_NOATIME);
        assert_eq!(sorted, [MountOption::Flag("sync"), noatime, MountOption::Value("data", "journal")]);
    }

    #[test]
    fn options_that_would_mount_something_else_are_refused() {
        assert!(
            "sync,loop".parse::<MountOptions>().unwrap_err().to_string().starts_with("mount option `loop`")
        );
        assert_eq!("".parse(), Ok(MountOptions::none()));
    }
}
