//! A unit and the credentials for it, as a client needs them to log in.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::address::Address;
use super::credentials::Credentials;
use crate::target::TargetError;

/// File in which Linux keeps the name of this machine as a client.
const INITIATOR_FILE: &str = "/etc/iscsi/initiatorname.iscsi";
/// Name of a client on a machine without one.
const INITIATOR: &str = "iqn.2026-11.dev.seeklab:bench";

/// Inputs of a login.
#[derive(Debug, Clone)]
pub(super) struct Portal {
    /// The unit.
    pub(super) address: Address,
    /// Names and passwords.
    pub(super) credentials: Credentials,
    /// Name of this client.
    pub(super) initiator: String,
}

impl Portal {
    /// The portal of an address. `variable` returns variables of the environment.
    ///
    /// # Errors
    /// If the address or the credentials are wrong.
    pub(super) fn of(text: &str, variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, TargetError> {
        let address: Address = text.parse().map_err(|error: super::address::AddressError| {
            TargetError::unusable(&error.address, error.problem, error.hint)
        })?;
        let credentials = Credentials::find(address.chap.as_deref(), variable)
            .map_err(|problem| TargetError::unusable(text, problem, ""))?;
        let initiator = address.initiator.clone().or_else(|| initiator_in(Path::new(INITIATOR_FILE)));
        let initiator = initiator.unwrap_or_else(|| INITIATOR.to_owned());
        Ok(Self { address, credentials, initiator })
    }
}

/// The name in a file of Linux's initiator.
fn initiator_in(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let name = text.lines().find_map(|line| line.trim().strip_prefix("InitiatorName=")).map(str::trim);
    name.filter(|name| name.starts_with("iqn.") && name.len() <= 223).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_the_machine_is_used_if_it_has_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "## a comment\nInitiatorName=iqn.1993-08.org.debian:01:abc\n").unwrap();
        assert_eq!(initiator_in(file.path()).as_deref(), Some("iqn.1993-08.org.debian:01:abc"));
        fs::write(file.path(), "GenerateName=yes\n").unwrap();
        assert_eq!(initiator_in(file.path()), None);
        let portal = Portal::of("iscsi://disk/iqn.x/1?initiator=iqn.y", |_| None).unwrap();
        assert_eq!(portal.initiator, "iqn.y");
    }
}
