//! Addresses of iSCSI units.
//!
//! # References
//! RFC 7143, section 4.2.7 for names; `iscsi://HOST:PORT/IQN/LUN` is the form of libiscsi, qemu and libvirt.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Begin of every address.
pub(super) const SCHEME: &str = "iscsi://";
/// Port of a portal without one.
const DEFAULT_PORT: u16 = 3260;
/// The greatest number of a unit in the addressing that every server has.
const LUN_MAX: u8 = u8::MAX;

/// The address of a unit behind a portal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// Host and port of the portal.
    pub(super) portal: String,
    /// Name of the target.
    pub(super) target: String,
    /// Number of the unit.
    pub(super) lun: u8,
    /// Name with which this client introduces itself, if the address has one.
    pub(super) initiator: Option<String>,
    /// File with the user name and password for CHAP, if the address has one.
    pub(super) chap: Option<PathBuf>,
}

/// Reason for which a text is no address. It repeats nothing that may be a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AddressError {
    /// Address without the user.
    pub(super) address: String,
    /// Reason.
    pub(super) problem: String,
    /// Advice.
    pub(super) hint: &'static str,
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{SCHEME}{}/{}/{}", self.portal, self.target, self.lun)
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let rest = text.strip_prefix(SCHEME).unwrap_or(text);
        let at = rest.rfind('@');
        let shown = format!("{SCHEME}{}", at.map_or(rest, |at| &rest[at + 1..]));
        let refused = |problem: String, hint| AddressError { address: shown.clone(), problem, hint };
        if at.is_some() {
            return Err(refused(
                "an address names no user, as results repeat it".to_owned(),
                "set LIBISCSI_CHAP_USERNAME and LIBISCSI_CHAP_PASSWORD, or add ?chap=FILE with the user name and the password on two lines",
            ));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let form =
            "write iscsi://HOST[:PORT]/IQN/LUN, such as iscsi://10.0.0.5/iqn.2026-11.org.example:disk/1";
        let parts: Vec<&str> = rest.split('/').collect();
        let [portal, target, lun] = parts[..] else {
            return Err(refused(
                format!("it has {} parts, and an address has three: portal, target and unit", parts.len()),
                form,
            ));
        };
        let portal = portal_of(portal).map_err(|problem| refused(problem, form))?;
        if !["iqn.", "eui.", "naa."].iter().any(|kind| target.starts_with(kind)) {
            return Err(refused(format!("`{target}` is no name of a target"), form));
        }
        let lun = lun
            .parse()
            .map_err(|_| refused(format!("`{lun}` is no number of a unit, which is 0 to {LUN_MAX}"), form))?;
        let mut address = Self { portal, target: target.to_owned(), lun, initiator: None, chap: None };
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("initiator", name)) if !name.is_empty() => address.initiator = Some(name.to_owned()),
                Some(("chap", path)) if !path.is_empty() => address.chap = Some(path.into()),
                _ => {
                    let name = parameter.split('=').next().unwrap_or_default();
                    let problem = format!("no parameter `{name}` with a value");
                    return Err(refused(problem, "there are initiator=NAME and chap=FILE"));
                }
            }
        }
        let texts = [Some(&address.portal), Some(&address.target), address.initiator.as_ref()];
        if texts.into_iter().flatten().any(|text| text.len() > 223 || text.contains('\0')) {
            let problem = "a name is longer than 223 bytes, or has a zero byte".to_owned();
            return Err(refused(problem, form));
        }
        Ok(address)
    }
}

/// Host and port of a portal.
fn portal_of(text: &str) -> Result<String, String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let Some((host, port)) = rest.split_once(']') else {
                return Err(format!("the bracket of `{text}` is not closed"));
            };
            (&text[..host.len() + 2], port.strip_prefix(':').or(port.is_empty().then_some("")))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, Some("")),
        },
    };
    let port = match port {
        Some("") => Some(DEFAULT_PORT),
        Some(port) => port.parse().ok().filter(|port| *port > 0),
        None => None,
    };
    let Some(port) = port else {
        return Err(format!("`{text}` has no port, which is a number from 1 to 65535"));
    };
    if host.is_empty() {
        return Err("the host is missing".to_owned());
    }
    Ok(format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_portal_target_and_unit() {
        for (text, portal, target, lun) in [
            ("iscsi://disk/iqn.2026-11.org.example:a.b-c/1", "disk:3260", "iqn.2026-11.org.example:a.b-c", 1),
            ("iscsi://10.0.0.5:3261/eui.02004567A425678D/0", "10.0.0.5:3261", "eui.02004567A425678D", 0),
            ("iscsi://[fe80::1]/naa.52004567BA64678D/255", "[fe80::1]:3260", "naa.52004567BA64678D", 255),
            ("iscsi://[::1]:860/iqn.x/9", "[::1]:860", "iqn.x", 9),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(
                (address.portal.as_str(), address.target.as_str(), address.lun),
                (portal, target, lun)
            );
            assert_eq!((&address.initiator, &address.chap), (&None, &None));
            assert_eq!(address.to_string().parse(), Ok(address));
        }
        let address: Address = "iscsi://a/iqn.x/1?chap=/etc/chap&initiator=iqn.y".parse().unwrap();
        assert_eq!((address.initiator.as_deref(), address.chap), (Some("iqn.y"), Some("/etc/chap".into())));
    }

    #[test]
    fn other_texts_are_refused_with_the_reason() {
        for (text, part) in [
            ("iscsi://disk", "it has 1 parts"),
            ("iscsi://disk/iqn.x", "it has 2 parts"),
            ("iscsi://disk/iqn.x/1/2", "it has 4 parts"),
            ("iscsi:///iqn.x/1", "the host is missing"),
            ("iscsi://disk/x/1", "`x` is no name of a target"),
            ("iscsi://disk/iqn.x/256", "`256` is no number of a unit"),
            ("iscsi://disk/iqn.x/", "`` is no number of a unit"),
            ("iscsi://disk:0/iqn.x/1", "has no port"),
            ("iscsi://disk:x/iqn.x/1", "has no port"),
            ("iscsi://[::1/iqn.x/1", "is not closed"),
            ("iscsi://[::1]9/iqn.x/1", "has no port"),
            ("iscsi://disk/iqn.x/1?user=a", "no parameter `user`"),
            ("iscsi://disk/iqn.x/1?chap=", "no parameter `chap`"),
            ("iscsi://disk/iqn.x/1?chap", "no parameter `chap`"),
        ] {
            let error = text.parse::<Address>().expect_err(text);
            assert!(error.problem.contains(part), "{text}: {}", error.problem);
        }
    }

    #[test]
    fn refusal_of_a_user_repeats_neither_user_nor_password() {
        for text in [
            "iscsi://ronnie%secret@disk/iqn.x/1",
            "iscsi://ronnie:secret@disk",
            "iscsi://a@ronnie%sec@ret@disk/1",
        ] {
            let error = text.parse::<Address>().expect_err(text);
            let shown = format!("{error:?}");
            assert!(!shown.contains("ronnie") && !shown.contains("sec"), "{shown}");
            assert!(error.hint.contains("LIBISCSI_CHAP_PASSWORD"));
        }
    }
}
