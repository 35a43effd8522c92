//! From nothing to a unit that can be used: connection, login, and the questions about the unit.

use rustix::time::Timespec;
use seeklab_core::{Duration, Instant};

use super::portal::Portal;
use super::session::Session;
use super::unit::{Probe, Unit};

/// Time after which a portal that does not answer is given up.
const PATIENCE: Duration = Duration::from_s(10);

/// Reason for which a login failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LoginError {
    /// The reason.
    pub(super) problem: String,
    /// Advice, or nothing.
    pub(super) hint: String,
    /// Another attempt would end in the same way.
    pub(super) is_permanent: bool,
}

impl LoginError {
    fn new(problem: impl Into<String>) -> Self {
        Self { problem: problem.into(), hint: String::new(), is_permanent: false }
    }
}

/// A login under way.
#[derive(Debug)]
pub(super) struct Login {
    deadline: Instant,
    probe: Probe,
    is_asked: bool,
}

impl Login {
    /// Begins to log in.
    ///
    /// # Errors
    /// If there is no way to.
    pub(super) fn begin(session: &mut Session, portal: &Portal, now: Instant) -> Result<Self, LoginError> {
        session.connect(portal).map_err(|reason| explain(&reason, portal))?;
        Ok(Self { deadline: now + PATIENCE, probe: Probe::default(), is_asked: false })
    }

    /// Goes on, and waits at most for `limit`. Returns the unit when everything is done.
    ///
    /// # Errors
    /// If the login is refused, the target has no such unit, or the time is over.
    pub(super) fn advance(
        &mut self,
        session: &mut Session,
        portal: &Portal,
        now: Instant,
        limit: Timespec,
    ) -> Result<Option<Unit>, LoginError> {
        if now >= self.deadline {
            let seconds = PATIENCE.as_ns() / 1_000_000_000;
            return Err(LoginError::new(format!("the portal has not answered for {seconds} s")));
        }
        session.work(limit).map_err(|reason| explain(&reason, portal))?;
        match session.login() {
            None => return Ok(None),
            Some(Err(reason)) => return Err(explain(&reason, portal)),
            Some(Ok(())) => {}
        }
        if self.is_asked {
            let Some(reply) = session.take() else { return Ok(None) };
            self.probe.take(&reply, session.answer()).map_err(LoginError::new)?;
            self.is_asked = false;
        }
        let Some(command) = self.probe.command() else { return Ok(Some(self.probe.unit())) };
        session.ask(&command).and_then(|()| session.flush_out()).map_err(LoginError::new)?;
        self.is_asked = true;
        Ok(None)
    }
}

/// A reason of libiscsi with what it means here. Its numbers are statuses of a login (RFC 7143, section 11.13.5).
fn explain(reason: &str, portal: &Portal) -> LoginError {
    let address = &portal.address;
    let has_own = portal.credentials.own.is_some();
    let status = |number: u16| reason.contains(&format!("({number})"));
    let (problem, hint) = if status(0x0201) || reason.contains("Authentication") {
        match has_own {
            true => (
                "it accepts this user name or password (CHAP) not".to_owned(),
                "check the user name and the password",
            ),
            false => (
                "it demands a user name and a password (CHAP)".to_owned(),
                "set LIBISCSI_CHAP_USERNAME and LIBISCSI_CHAP_PASSWORD, or add ?chap=FILE with both on two lines",
            ),
        }
    } else if status(0x0202) {
        let problem = format!("it does not admit this client, which is `{}`", portal.initiator);
        (
            problem,
            "admit this name or its address at the target, or add ?initiator=NAME with a name that it admits",
        )
    } else if status(0x0203) || status(0x0204) {
        (
            format!("it has no target `{}`, or none for this client", address.target),
            "check the name of the target",
        )
    } else if reason.contains("LOGICAL_UNIT_NOT_SUPPORTED") {
        (format!("the target has no unit {}", address.lun), "check the number of the unit")
    } else if let Some((_, cause)) = reason.split_once("socket error ") {
        (format!("cannot connect: {cause}"), "")
    } else {
        (reason.to_owned(), "")
    };
    let is_permanent = status(0x0201);
    LoginError { problem, hint: hint.to_owned(), is_permanent }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_explained() {
        let portal = Portal::of("iscsi://a/iqn.x/7?initiator=iqn.me", |_| None).unwrap();
        for (reason, part, is_permanent) in [
            ("Failed to log in to target. Status: Authentication failure(513)", "demands a user name", true),
            (
                "Failed to log in to target. Status: Authorization failure(514)",
                "does not admit this client, which is `iqn.me`",
                false,
            ),
            ("Failed to log in to target. Status: Target not found(515)", "no target `iqn.x`", false),
            ("SENSE KEY:ILLEGAL_REQUEST(5) ASCQ:LOGICAL_UNIT_NOT_SUPPORTED(0x2500)", "no unit 7", false),
            (
                "iscsi_service: socket error Connection refused(111) while connecting",
                "cannot connect: Connection refused",
                false,
            ),
            ("something else", "something else", false),
        ] {
            let error = explain(reason, &portal);
            assert!(error.problem.contains(part), "{reason}: {}", error.problem);
            assert_eq!(error.is_permanent, is_permanent, "{reason}");
        }
    }
}
