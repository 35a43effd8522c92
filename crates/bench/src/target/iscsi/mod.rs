//! Units of iSCSI targets, over libiscsi: one session for each thread, many commands outstanding.
//!
//! ```text
//! submit ─▶ Command ─▶ Session (libiscsi) ─▶ portal ─▶ Reply ─▶ status, sense data ─▶ Ended
//! ```
//! # Scope and limits
//! With the Cargo feature `iscsi`, which links libiscsi dynamically. Disks; no MultiPath, no iSER, no digests. When the server
//! closes the connection, or a request exceeds its time limit, the outstanding requests fail with the status `gone` and the
//! connection is remade: at once, then after waits that double up to a second. Nothing is sent again unless the run retries.
//!
//! # References
//! RFC 7143; the documents in the modules; libiscsi, <https://github.com/sahlberg/libiscsi>.

#[cfg(feature = "iscsi")]
mod address;
#[cfg(feature = "iscsi")]
mod command;
#[cfg(feature = "iscsi")]
mod credentials;
#[cfg(feature = "iscsi")]
mod library;
#[cfg(feature = "iscsi")]
mod login;
#[cfg(feature = "iscsi")]
mod outcome;
#[cfg(feature = "iscsi")]
mod portal;
#[cfg(feature = "iscsi")]
mod session;
#[cfg(feature = "iscsi")]
mod target;
#[cfg(feature = "iscsi")]
mod unit;

use super::TargetKind;
#[cfg(not(feature = "iscsi"))]
use super::{DeviceIdentity, Opening, Target, TargetError};

#[cfg(feature = "iscsi")]
use target::{identify, open};

/// Its line in the list of targets.
pub(super) const KIND: TargetKind = TargetKind {
    name: "iscsi",
    form: "iscsi://HOST[:PORT]/IQN/LUN",
    meaning: "A unit of an iSCSI target",
    matches: |address| address.starts_with("iscsi://").then_some(address),
    holds_data: true,
    is_model: false,
    has_priorities: false,
    is_virtual: false,
    identify,
    is_expendable: super::never_expendable,
    open,
};

/// Refuses the address: this build has no libiscsi.
#[cfg(not(feature = "iscsi"))]
fn open(address: &str, _: &Opening<'_>) -> Result<Box<dyn Target>, TargetError> {
    Err(absent(address))
}

#[cfg(not(feature = "iscsi"))]
fn identify(address: &str, _: &dyn Fn() -> bool) -> Result<Option<DeviceIdentity>, TargetError> {
    Err(absent(address))
}

#[cfg(not(feature = "iscsi"))]
fn absent(address: &str) -> TargetError {
    // A user before the host may have a password.
    let shown = address.rsplit_once('@').map_or(address.to_owned(), |(_, rest)| format!("iscsi://{rest}"));
    let hint =
        "build it with `cargo build --release --features iscsi`, which needs libiscsi (Debian: libiscsi-dev)";
    TargetError::unusable(&shown, "this build of seeklab has no iSCSI", hint)
}

#[cfg(all(test, not(feature = "iscsi")))]
mod tests {
    use super::*;

    #[test]
    fn build_without_the_feature_names_it_and_no_password() {
        for address in ["iscsi://disk/iqn.x/1", "iscsi://anna%secret@disk/iqn.x/1"] {
            let error = identify(address, &|| false).expect_err("no libiscsi");
            let (text, hint) = (error.to_string(), error.hint().unwrap_or_default());
            assert!(text.contains("`iscsi://disk/iqn.x/1`: this build of seeklab has no iSCSI"), "{text}");
            assert!(hint.contains("--features iscsi"), "{hint}");
        }
    }
}
