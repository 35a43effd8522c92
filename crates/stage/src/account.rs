//! The user that commands run as: the caller of sudo, or a named user.
//!
//! # Scope and limits
//! Users and groups are looked up by the C library (`getpwnam_r`, `getgrouplist`), so directories such as
//! LDAP count where it is linked dynamically.

use std::env;
use std::ffi::CString;
use std::fs;
use std::path::PathBuf;

use nix::unistd::{Gid, Uid, User, getgrouplist};
use seeklab_core::names::near;
use serde::{Deserialize, Serialize};

use crate::error::{Missing, did_you_mean};

/// A user with all its groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// Its primary group.
    pub gid: u32,
    /// All its groups, the primary one among them.
    pub groups: Vec<u32>,
    /// Its home directory.
    pub home: PathBuf,
    /// Its shell.
    pub shell: PathBuf,
}

impl Account {
    /// Returns the user of that name or number.
    ///
    /// # Errors
    /// If there is no such user, or the user database cannot be read.
    pub fn find(user: &str) -> Result<Self, Missing> {
        let found = match User::from_name(user) {
            Ok(None) => user.parse().map_or(Ok(None), |uid| User::from_uid(Uid::from_raw(uid))),
            other => other,
        };
        match found {
            Ok(Some(user)) => Self::of(user),
            Ok(None) => Err(Missing::new(format!("there is no user `{user}`"), suggestion(user))),
            Err(error) => {
                let what = format!("the user `{user}` cannot be looked up: {}", error.desc());
                Err(Missing::new(what, "name a user that `getent passwd` shows"))
            }
        }
    }

    /// The user who called sudo, if one did and is not root.
    ///
    /// # Errors
    /// A user who no longer exists.
    pub fn of_sudo() -> Result<Option<Self>, Missing> {
        let uid = env::var("SUDO_UID").ok().filter(|_| Uid::effective().is_root());
        match uid.as_deref() {
            None | Some("0") => Ok(None),
            Some(uid) => Self::find(uid).map(Some),
        }
    }

    /// The user that a command runs as: `user` if one is named, else who called sudo, else nobody else than
    /// the caller.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn for_command(user: Option<&str>) -> Result<Option<Self>, Missing> {
        match user {
            Some(user) => Self::find(user).map(Some),
            None => Self::of_sudo(),
        }
    }

    fn of(user: User) -> Result<Self, Missing> {
        let User { name, uid, gid, dir: home, shell, .. } = user;
        let groups = CString::new(name.clone())
            .map_err(|_| nix::Error::EINVAL)
            .and_then(|name| getgrouplist(&name, gid))
            .map_err(|error| {
                let what = format!("the groups of `{name}` cannot be looked up: {}", error.desc());
                Missing::new(what, format!("see what `id {name}` says"))
            })?;
        let groups = groups.into_iter().map(Gid::as_raw).collect();
        Ok(Self { name, uid: uid.as_raw(), gid: gid.as_raw(), groups, home, shell })
    }
}

fn suggestion(user: &str) -> String {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let near = near(user, users.lines().filter_map(|line| line.split(':').next()));
    did_you_mean(&near).unwrap_or_else(|| "name a user that `getent passwd` shows".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_is_found_by_name_and_by_number() {
        let root = Account::find("root").unwrap();
        assert_eq!((root.uid, root.gid), (0, 0));
        assert!(root.groups.contains(&0));
        assert_eq!(Account::find("0").unwrap(), root);
    }

    #[test]
    fn unknown_user_is_refused_with_similar_names() {
        let missing = Account::find("rooot").unwrap_err();
        assert_eq!(missing.what, "there is no user `rooot`");
        assert!(missing.remedy.contains("`root`"), "{missing:?}");
        assert!(Account::find("4294967294").is_err());
    }
}
