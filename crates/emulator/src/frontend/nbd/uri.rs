//! NBD URIs: what a client is given to connect with.
//!
//! # References
//! The NBD URI specification, <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/uri.md>.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;

use super::address::{Address, DEFAULT_PORT};

/// An NBD URI without TLS or user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Uri {
    /// `nbd+unix:///EXPORT?socket=PATH`
    Unix {
        /// The socket.
        path: PathBuf,
        /// The export's name.
        export: String,
    },
    /// `nbd://HOST:PORT/EXPORT`
    Tcp {
        /// A name or address; an IPv6 address without brackets.
        host: String,
        /// The port.
        port: u16,
        /// The export's name.
        export: String,
    },
}

/// A URI that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`: {reason}")]
pub struct UriError {
    /// Text that was given.
    pub text: String,
    /// Mistake in the text, and a correct example.
    pub reason: &'static str,
}

impl Uri {
    /// Returns the URI with which a client on this machine reaches a server at `address`.
    pub fn of(address: &Address, export: &str) -> Self {
        let export = export.to_owned();
        match address {
            Address::Unix(path) => Self::Unix { path: path.clone(), export },
            Address::Tcp(address) => {
                let host = match address.ip() {
                    ip if !ip.is_unspecified() => ip.to_string(),
                    ip if ip.is_ipv6() => "::1".to_owned(),
                    _ => "127.0.0.1".to_owned(),
                };
                Self::Tcp { host, port: address.port(), export }
            }
        }
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix { path, export } => {
                let (export, path) = (encode(export.as_bytes()), encode(path.as_os_str().as_bytes()));
                write!(formatter, "nbd+unix:///{export}?socket={path}")
            }
            Self::Tcp { host, port, export } => {
                let export = encode(export.as_bytes());
                match host.contains(':') {
                    true => write!(formatter, "nbd://[{host}]:{port}/{export}"),
                    false => write!(formatter, "nbd://{host}:{port}/{export}"),
                }
            }
        }
    }
}

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let error = |reason| UriError { text: text.to_owned(), reason };
        let escapes = || error("a `%` is not followed by two hexadecimal digits");
        let utf8 = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| error("a name is not UTF-8"));
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(error("no URI; write `nbd+unix:///?socket=PATH` or `nbd://HOST:PORT/`"));
        };
        let (hierarchy, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, export) = hierarchy.split_once('/').unwrap_or((hierarchy, ""));
        let export = utf8(decode(export).ok_or_else(escapes)?)?;
        match scheme {
            "nbd+unix" => {
                if !authority.is_empty() {
                    return Err(error("a unix URI names no host; write `nbd+unix:///?socket=PATH`"));
                }
                let socket = query.split('&').find_map(|pair| pair.strip_prefix("socket="));
                match socket.map(decode) {
                    Some(Some(path)) if !path.is_empty() => {
                        Ok(Self::Unix { path: OsString::from_vec(path).into(), export })
                    }
                    Some(None) => Err(escapes()),
                    _ => Err(error("the socket is missing; write `nbd+unix:///?socket=PATH`")),
                }
            }
            "nbd" => {
                let (host, port) = match authority.strip_prefix('[') {
                    Some(authority) => {
                        authority.split_once(']').ok_or_else(|| error("a `[` is not closed"))?
                    }
                    None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
                };
                if host.is_empty() {
                    return Err(error("the host is missing; write `nbd://HOST:PORT/`"));
                }
                let port = match port.strip_prefix(':') {
                    Some(port) => port.parse().ok(),
                    None => port.is_empty().then_some(DEFAULT_PORT),
                };
                let port = port.ok_or_else(|| error("a port is a number up to 65535"))?;
                Ok(Self::Tcp { host: utf8(decode(host).ok_or_else(escapes)?)?, port, export })
            }
            "nbds" | "nbds+unix" => Err(error("TLS is not supported")),
            _ => Err(error("not an NBD URI; write `nbd+unix:///?socket=PATH` or `nbd://HOST:PORT/`")),
        }
    }
}

fn encode(bytes: &[u8]) -> String {
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
            Ok(Uri::Tcp { host: "host".into(), port: 10809, export: "".into() })
        );
    }

    #[test]
    fn malformed_uris_say_what_would_be_right() {
        for (text, part) in [
            ("unix:/a", "no URI"),
            ("http://a/", "not an NBD URI"),
            ("nbds://a/", "TLS"),
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
        fn every_uri_can_be_read_back(path in "[^\0]{1,40}", export in ".{0,20}", port: u16) {
            let unix = Uri::Unix { path: path.into(), export: export.clone() };
            prop_assert_eq!(unix.to_string().parse(), Ok(unix));
            let tcp = Uri::Tcp { host: "::1".into(), port, export };
            prop_assert_eq!(tcp.to_string().parse(), Ok(tcp));
        }

        #[test]
        fn no_text_panics(text in ".{0,60}") {
            let _ = text.parse::<Uri>();
            let _ = text.parse::<Address>();
        }
    }
}
