//! NBD URIs: what a client is given to connect with.
//!
//! # Scope and limits
//! TLS with certificates; no pre-shared keys and so no user names, no vsock, no ssh.
//!
//! # References
//! The NBD URI specification, <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/uri.md>; `tls-certificates` is
//! libnbd's, `nbd_connect_uri(3)`.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;

use super::address::{Address, DEFAULT_PORT};
use super::tls_parameters::{TlsParameters, write_query};

/// An NBD URI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Uri {
    /// `nbd+unix:///EXPORT?socket=PATH`, or `nbds+unix` with TLS
    Unix {
        /// The socket.
        path: PathBuf,
        /// The export's name.
        export: String,
        /// TLS, if the connection has it.
        tls: Option<TlsParameters>,
    },
    /// `nbd://HOST:PORT/EXPORT`, or `nbds` with TLS
    Tcp {
        /// A name or address; an IPv6 address without brackets.
        host: String,
        /// The port.
        port: u16,
        /// The export's name.
        export: String,
        /// TLS, if the connection has it.
        tls: Option<TlsParameters>,
    },
}

/// A URI that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`: {reason}")]
pub struct UriError {
    /// Text that was given.
    pub text: String,
    /// Mistake in the text, and a correct example.
    pub reason: String,
}

impl Uri {
    /// Begins of all addresses that are NBD URIs.
    pub const SCHEMES: [&'static str; 4] = ["nbd://", "nbds://", "nbd+unix://", "nbds+unix://"];

    /// Returns the URI with which a client on this machine reaches a server at `address`.
    pub fn of(address: &Address, export: &str) -> Self {
        let (export, tls) = (export.to_owned(), None);
        match address {
            Address::Unix(path) => Self::Unix { path: path.clone(), export, tls },
            Address::Tcp(address) => {
                let host = match address.ip() {
                    ip if !ip.is_unspecified() => ip.to_string(),
                    ip if ip.is_ipv6() => "::1".to_owned(),
                    _ => "127.0.0.1".to_owned(),
                };
                Self::Tcp { host, port: address.port(), export, tls }
            }
        }
    }

    /// Returns the export's name.
    pub fn export(&self) -> &str {
        let (Self::Unix { export, .. } | Self::Tcp { export, .. }) = self;
        export
    }

    /// Returns the parameters of TLS, if the connection has it.
    pub const fn tls(&self) -> Option<&TlsParameters> {
        let (Self::Unix { tls, .. } | Self::Tcp { tls, .. }) = self;
        tls.as_ref()
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.tls().is_some() { "s" } else { "" };
        let export = encode(self.export().as_bytes());
        let of_tls = self.tls().map(TlsParameters::pairs).unwrap_or_default();
        match self {
            Self::Unix { path, .. } => {
                write!(formatter, "nbd{s}+unix:///{export}")?;
                let socket = ("socket", encode(path.as_os_str().as_bytes()));
                write_query(formatter, &[vec![socket], of_tls].concat())
            }
            Self::Tcp { host, port, .. } => {
                match host.contains(':') {
                    true => write!(formatter, "nbd{s}://[{host}]:{port}/{export}")?,
                    false => write!(formatter, "nbd{s}://{host}:{port}/{export}")?,
                }
                write_query(formatter, &of_tls)
            }
        }
    }
}

/// The parameters of a URI.
#[derive(Default)]
struct Query {
    socket: Option<Vec<u8>>,
    tls: TlsParameters,
    /// Names of the parameters that are there.
    names: Vec<String>,
}

impl Query {
    fn parse(text: &str) -> Result<Self, String> {
        let mut query = Self::default();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let Some((name, value)) = pair.split_once('=') else {
                return Err(format!("the parameter `{pair}` has no value"));
            };
            let value = decode(value).ok_or(ESCAPES)?;
            if query.names.iter().any(|other| other == name) {
                return Err(format!("the parameter {name} is there twice"));
            }
            query.names.push(name.to_owned());
            match name {
                "socket" => query.socket = Some(value),
                name if name.starts_with(TlsParameters::PREFIX) => query.tls.set(name, value)?,
                _ => return Err(format!("there is no parameter `{name}`; write socket=PATH")),
            }
        }
        Ok(query)
    }

    /// The parameters of TLS, if the scheme has it.
    fn tls(&mut self, is_secure: bool, scheme: &str) -> Result<Option<TlsParameters>, String> {
        if is_secure {
            return Ok(Some(std::mem::take(&mut self.tls)));
        }
        match self.names.iter().find(|name| name.starts_with(TlsParameters::PREFIX)) {
            Some(name) => {
                let secure = scheme.replacen("nbd", "nbds", 1);
                Err(format!("{name} goes with TLS only; write {secure}:// in place of {scheme}://"))
            }
            None => Ok(None),
        }
    }
}

const ESCAPES: &str = "a `%` is not followed by two hexadecimal digits";

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        parse(text).map_err(|reason| UriError { text: text.to_owned(), reason })
    }
}

fn parse(text: &str) -> Result<Uri, String> {
    let utf8 = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| "a name is not UTF-8".to_owned());
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err("no URI; write `nbd+unix:///?socket=PATH` or `nbd://HOST:PORT/`".to_owned());
    };
    let (is_unix, is_secure) = match scheme {
        "nbd" => (false, false),
        "nbds" => (false, true),
        "nbd+unix" => (true, false),
        "nbds+unix" => (true, true),
        _ => {
            let known =
                "write `nbd+unix:///?socket=PATH` or `nbd://HOST:PORT/`, with TLS `nbds+unix` or `nbds`";
            return Err(format!("not an NBD URI; {known}"));
        }
    };
    let (hierarchy, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, export) = hierarchy.split_once('/').unwrap_or((hierarchy, ""));
    let export = utf8(decode(export).ok_or(ESCAPES)?)?;
    let mut query = Query::parse(query)?;
    let tls = query.tls(is_secure, scheme)?;
    if authority.contains('@') {
        return Err("a user name is for pre-shared keys; TLS is with certificates only".to_owned());
    }
    if is_unix {
        if !authority.is_empty() {
            return Err(format!("a unix URI names no host; write `{scheme}:///?socket=PATH`"));
        }
        return match query.socket {
            Some(path) if !path.is_empty() => {
                Ok(Uri::Unix { path: OsString::from_vec(path).into(), export, tls })
            }
            _ => Err(format!("the socket is missing; write `{scheme}:///?socket=PATH`")),
        };
    }
    if query.socket.is_some() {
        return Err(format!("a host has no socket; write `{scheme}+unix:///?socket=PATH`"));
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(authority) => authority.split_once(']').ok_or("a `[` is not closed")?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    if host.is_empty() {
        return Err(format!("the host is missing; write `{scheme}://HOST:PORT/`"));
    }
    let port = match port.strip_prefix(':') {
        Some(port) => port.parse().ok(),
        None => port.is_empty().then_some(DEFAULT_PORT),
    };
    let port = port.ok_or("a port is a number up to 65535")?;
    Ok(Uri::Tcp { host: utf8(decode(host).ok_or(ESCAPES)?)?, port, export, tls })
}

pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                text.push(byte.into());
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, tail @ ..] = tail else { return None };
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        bytes.push((digit(high)? * 16 + digit(low)?) as u8);
        rest = tail;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn uris_are_those_of_the_specification() {
        let unix = Uri::of(&"unix:/tmp/a b?.sock".parse().expect("it is an address"), "");
        assert_eq!(unix.to_string(), "nbd+unix:///?socket=/tmp/a%20b%3F.sock");
        let any = Uri::of(&"tcp:0.0.0.0".parse().expect("it is an address"), "disk 1");
        assert_eq!(any.to_string(), "nbd://127.0.0.1:10809/disk%201");
        let v6 = Uri::of(&"tcp:[::1]:7".parse().expect("it is an address"), "");
        assert_eq!(v6.to_string(), "nbd://[::1]:7/");
        assert_eq!(
            "nbd://host".parse(),
            Ok(Uri::Tcp { host: "host".into(), port: 10809, export: "".into(), tls: None })
        );
    }

    #[test]
    fn tls_has_the_parameters_of_libnbd() {
        let text = "nbds+unix:///a?socket=/s&tls-certificates=/pki/a%20b&tls-hostname=disk&tls-verify-peer=0";
        let uri: Uri = text.parse().expect("it is a URI");
        let tls = uri.tls().expect("it has TLS");
        assert_eq!(
            (tls.certificates.as_deref(), tls.hostname.as_deref()),
            (Some("/pki/a b".as_ref()), Some("disk"))
        );
        assert!(tls.accepts_any_server);
        assert_eq!(uri.to_string(), text);
        let tcp: Uri = "nbds://h/e?tls-verify-peer=1&tls-type=x509".parse().expect("it is a URI");
        assert_eq!(tcp.tls(), Some(&TlsParameters::default()));
        assert_eq!(tcp.to_string(), "nbds://h:10809/e");
    }

    #[test]
    fn malformed_uris_say_what_would_be_right() {
        for (text, part) in [
            ("unix:/a", "no URI"),
            ("http://a/", "not an NBD URI"),
            ("nbds:///", "host is missing; write `nbds://"),
            ("nbds+unix:///", "write `nbds+unix:///"),
            ("nbds://u@a/", "a user name is for pre-shared keys"),
            ("nbds://a/?tls-psk-file=a", "no parameter `tls-psk-file`; write tls-certificates=FOLDER"),
            ("nbds://a/?tls-type=psk", "it can be x509"),
            ("nbds://a/?tls-verify-peer=no", "can be 0 or 1"),
            ("nbds://a/?tls-hostname=", "value of tls-hostname is empty"),
            ("nbds://a/?tls-hostname=a&tls-hostname=b", "tls-hostname is there twice"),
            ("nbds://a/?tls-certificates=%0", "two hexadecimal"),
            ("nbds://a/?tls-certificates", "`tls-certificates` has no value"),
            ("nbd://a/?tls-certificates=a", "goes with TLS only; write nbds:// in place of nbd://"),
            ("nbd+unix:///?socket=/a&tls-hostname=a", "write nbds+unix:// in place of nbd+unix://"),
            ("nbd://a/?socket=/a", "a host has no socket; write `nbd+unix:///"),
            ("nbd://a/?cache=none", "no parameter `cache`"),
            ("nbd+unix:///", "socket is missing"),
            ("nbd+unix:///?socket=", "socket is missing"),
            ("nbd+unix://host/?socket=/a", "names no host"),
            ("nbd+unix:///?socket=%2", "two hexadecimal"),
            ("nbd:///", "host is missing"),
            ("nbd://[::1/", "not closed"),
            ("nbd://a:b/", "a port is a number"),
            ("nbd://a/%FF", "not UTF-8"),
        ] {
            let error = text.parse::<Uri>().expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    proptest! {
        #[test]
        fn every_uri_can_be_read_back(
            path in "[^\0]{1,40}",
            export in ".{0,20}",
            port: u16,
            tls in proptest::option::of(("[^\0]{1,20}", proptest::option::of("[a-z0-9.&=%]{1,20}"), any::<bool>())),
        ) {
            let tls = tls.map(|(certificates, hostname, accepts_any_server)| TlsParameters {
                certificates: Some(certificates.into()),
                hostname,
                accepts_any_server,
            });
            let unix = Uri::Unix { path: path.into(), export: export.clone(), tls: tls.clone() };
            prop_assert_eq!(unix.to_string().parse(), Ok(unix));
            let tcp = Uri::Tcp { host: "::1".into(), port, export, tls };
            prop_assert_eq!(tcp.to_string().parse(), Ok(tcp));
        }

        #[test]
        fn no_text_panics(text in ".{0,60}") {
            let _ = text.parse::<Uri>();
            let _ = text.parse::<Address>();
        }
    }
}
