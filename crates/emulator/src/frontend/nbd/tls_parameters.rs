//! The part of an NBD URI that is about TLS.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::uri::encode;

/// Query parameters of a URI with TLS, `nbds://` or `nbds+unix://`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsParameters {
    /// `tls-certificates`: folder with `ca-cert.pem`, the authorities that may have signed the certificate of the server, and
    /// optionally `client-cert.pem` and `client-key.pem`, the certificate of the client and its key. `None`: the authorities
    /// that the system trusts, and no certificate of the client.
    pub certificates: Option<PathBuf>,
    /// `tls-hostname`: name or address that the certificate of the server is for. `None`: the host of the URI, or `localhost`
    /// of a unix socket.
    pub hostname: Option<String>,
    /// `tls-verify-peer=0`: any certificate of the server is accepted.
    pub accepts_any_server: bool,
}

impl TlsParameters {
    /// Begin of the names of all parameters about TLS.
    pub(super) const PREFIX: &'static str = "tls-";

    /// Takes a parameter.
    ///
    /// # Errors
    /// The mistake, if there is no such parameter or value.
    pub(super) fn set(&mut self, name: &str, value: Vec<u8>) -> Result<(), String> {
        if value.is_empty() || value.contains(&0) {
            return Err(format!("the value of {name} is empty, or has a zero byte"));
        }
        let text = String::from_utf8_lossy(&value).into_owned();
        match (name, text.as_str()) {
            ("tls-certificates", _) => self.certificates = Some(OsString::from_vec(value).into()),
            ("tls-hostname", _) => self.hostname = Some(text),
            ("tls-verify-peer", "0" | "false") => self.accepts_any_server = true,
            ("tls-verify-peer", "1" | "true") => self.accepts_any_server = false,
            ("tls-verify-peer", _) => return Err(format!("tls-verify-peer is `{text}`; it can be 0 or 1")),
            ("tls-type", "x509") => {}
            ("tls-type", _) => {
                return Err(format!("tls-type is `{text}`; it can be x509: TLS is with certificates only"));
            }
            _ => {
                return Err(format!(
                    "there is no parameter `{name}`; write tls-certificates=FOLDER, tls-hostname=NAME or tls-verify-peer=0"
                ));
            }
        }
        Ok(())
    }

    /// The parameters in the form of a URI.
    pub(super) fn pairs(&self) -> Vec<(&'static str, String)> {
        let certificates = self.certificates.as_ref().map(|path| encode(path.as_os_str().as_bytes()));
        let hostname = self.hostname.as_ref().map(|name| encode(name.as_bytes()));
        let verify_peer = self.accepts_any_server.then(|| "0".to_owned());
        let pairs = [
            ("tls-certificates", certificates),
            ("tls-hostname", hostname),
            ("tls-verify-peer", verify_peer),
        ];
        pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// Writes `?`, and then the pairs with `&` between them; nothing if there are none.
pub(super) fn write_query(
    formatter: &mut fmt::Formatter<'_>,
    pairs: &[(&'static str, String)],
) -> fmt::Result {
    for (index, (name, value)) in pairs.iter().enumerate() {
        write!(formatter, "{}{name}={value}", if index == 0 { '?' } else { '&' })?;
    }
    Ok(())
}
