//! Names and passwords with which both sides of an iSCSI login prove who they are (CHAP).
//!
//! # Scope and limits
//! From a file that the address names, otherwise from the variables of the environment that libiscsi and qemu know. Nothing
//! of them is printed.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::Path;

/// Variables of the environment: user and password of this client, then those of the target.
const VARIABLES: [[&str; 2]; 2] = [
    ["LIBISCSI_CHAP_USERNAME", "LIBISCSI_CHAP_PASSWORD"],
    ["LIBISCSI_CHAP_TARGET_USERNAME", "LIBISCSI_CHAP_TARGET_PASSWORD"],
];
/// Longest name or password that libiscsi takes.
const BYTES_MAX: usize = 255;

/// A name and its password.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: String,
}

/// Names and passwords of both sides.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Credentials {
    /// Name and password of this client.
    pub(super) own: Option<Login>,
    /// Name and password that the target has to prove.
    pub(super) of_target: Option<Login>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (own, of_target) = (self.own.is_some(), self.of_target.is_some());
        formatter.debug_struct("Credentials").field("own", &own).field("of_target", &of_target).finish()
    }
}

impl Credentials {
    /// Reads the file, if there is one, otherwise the variables of the environment, which `variable` returns.
    ///
    /// # Errors
    /// The mistake, without any name or password.
    pub(super) fn find(
        file: Option<&Path>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, String> {
        let logins = match file {
            Some(path) => {
                let text = fs::read_to_string(path).map_err(|error| {
                    format!("the file `{}` of chap= cannot be read: {error}", path.display())
                })?;
                Self::of_lines(&text)
                    .map_err(|problem| format!("the file `{}` of chap= {problem}", path.display()))?
            }
            None => Self::of_variables(variable)?,
        };
        if logins.own.is_none() && logins.of_target.is_some() {
            return Err("the target proves who it is only to a client that does: \
                        LIBISCSI_CHAP_USERNAME and LIBISCSI_CHAP_PASSWORD are missing"
                .to_owned());
        }
        let logins_of = [&logins.own, &logins.of_target];
        let texts = logins_of.into_iter().flatten().flat_map(|login| [&login.user, &login.password]);
        for text in texts {
            if text.len() > BYTES_MAX || text.contains('\0') {
                return Err(format!(
                    "a user name or password for CHAP is longer than {BYTES_MAX} bytes, or has a zero byte"
                ));
            }
        }
        Ok(logins)
    }

    /// Two lines, or four with those of the target.
    fn of_lines(text: &str) -> Result<Self, &'static str> {
        let lines: Vec<&str> = text.lines().collect();
        let login =
            |user: &str, password: &str| Login { user: user.to_owned(), password: password.to_owned() };
        if lines.iter().any(|line| line.is_empty()) {
            return Err("has an empty line");
        }
        match lines[..] {
            [user, password] => Ok(Self { own: Some(login(user, password)), of_target: None }),
            [user, password, name, secret] => {
                Ok(Self { own: Some(login(user, password)), of_target: Some(login(name, secret)) })
            }
            _ => Err("has neither two lines (user name, password) nor four (and those of the target)"),
        }
    }

    fn of_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, String> {
        let text = |name: &str| match variable(name).filter(|value| !value.is_empty()) {
            Some(value) => value.into_string().map(Some).map_err(|_| format!("{name} is not UTF-8")),
            None => Ok(None),
        };
        let mut logins = [None, None];
        for (login, [user, password]) in logins.iter_mut().zip(VARIABLES) {
            *login = match (text(user)?, text(password)?) {
                (Some(user), Some(password)) => Some(Login { user, password }),
                (None, None) => None,
                (Some(_), None) => return Err(format!("{user} is set, and {password} is not")),
                (None, Some(_)) => return Err(format!("{password} is set, and {user} is not")),
            };
        }
        let [own, of_target] = logins;
        Ok(Self { own, of_target })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn found(variables: &[(&str, &str)]) -> Result<Credentials, String> {
        let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
        Credentials::find(None, |name| variables.get(name).map(OsString::from))
    }

    fn login(user: &str, password: &str) -> Option<Login> {
        Some(Login { user: user.to_owned(), password: password.to_owned() })
    }

    #[test]
    fn variables_and_lines_give_the_same() {
        assert_eq!(found(&[]), Ok(Credentials::default()));
        let own = [("LIBISCSI_CHAP_USERNAME", "anna"), ("LIBISCSI_CHAP_PASSWORD", "red")];
        let both = [
            own[0],
            own[1],
            ("LIBISCSI_CHAP_TARGET_USERNAME", "disk"),
            ("LIBISCSI_CHAP_TARGET_PASSWORD", "blue"),
        ];
        assert_eq!(found(&own), Ok(Credentials { own: login("anna", "red"), of_target: None }));
        assert_eq!(
            found(&both).as_ref(),
            Credentials::of_lines("anna\nred\ndisk\nblue\n").as_ref().map_err(|_| unreachable!())
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "anna\nred\n").unwrap();
        assert_eq!(Credentials::find(Some(file.path()), |_| None), found(&own));
    }

    #[test]
    fn mistakes_and_debug_output_have_no_password() {
        let user = ("LIBISCSI_CHAP_USERNAME", "anna");
        let password = ("LIBISCSI_CHAP_PASSWORD", "secret");
        let target = [("LIBISCSI_CHAP_TARGET_USERNAME", "disk"), ("LIBISCSI_CHAP_TARGET_PASSWORD", "secret")];
        let long = "secret".repeat(60);
        for (variables, part) in [
            (&[user][..], "LIBISCSI_CHAP_PASSWORD is not"),
            (&[password], "LIBISCSI_CHAP_USERNAME is not"),
            (&target, "only to a client that does"),
            (&[user, ("LIBISCSI_CHAP_PASSWORD", &long)], "longer than 255 bytes"),
        ] {
            let error = found(variables).expect_err("a mistake");
            assert!(error.contains(part) && !error.contains("secret") && !error.contains("anna"), "{error}");
        }
        for (lines, part) in [("", "neither two"), ("anna\n", "neither two"), ("anna\n\n", "empty line")] {
            assert!(Credentials::of_lines(lines).expect_err(lines).contains(part), "{lines}");
        }
        let shown = format!("{:?}", found(&[user, password]).unwrap());
        assert!(!shown.contains("anna") && !shown.contains("secret"), "{shown}");
    }
}
