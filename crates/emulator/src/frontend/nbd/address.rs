//! Addresses at which a server listens: `unix:PATH` or `tcp:ADDR`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// The port registered for NBD.
pub const DEFAULT_PORT: u16 = 10809;

/// Address at which a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A unix socket at that path.
    Unix(PathBuf),
    /// A TCP address; port 0 lets the system choose.
    Tcp(SocketAddr),
}

/// An address that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`: {reason}")]
pub struct AddressError {
    /// Text that was given.
    pub text: String,
    /// Mistake in the text, and a correct example.
    pub reason: &'static str,
}

/// The longest path of a unix socket: `sun_path` less its final zero.
const UNIX_PATH_BYTES_MAX: usize = 107;

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = |reason| AddressError { text: text.to_owned(), reason };
        match text.split_once(':') {
            Some(("unix", "")) => Err(error("the path is missing; write for example `unix:/tmp/disk.sock`")),
            Some(("unix", path)) if path.contains('\0') => Err(error("a path has no zero byte")),
            Some(("unix", path)) if path.len() > UNIX_PATH_BYTES_MAX => {
                Err(error("the path of a unix socket has at most 107 bytes"))
            }
            Some(("unix", path)) => Ok(Self::Unix(path.into())),
            Some(("tcp", address)) => tcp(address).map(Self::Tcp).ok_or_else(|| {
                error("no TCP address; write for example `tcp:127.0.0.1:10809`, `tcp:[::1]:10809` or `tcp:10809`")
            }),
            _ => Err(error("no address; write `unix:PATH` or `tcp:ADDR`")),
        }
    }
}

/// An address and port, an address, a port, or nothing; loopback and the registered port by default.
fn tcp(text: &str) -> Option<SocketAddr> {
    let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
    let local = |address: IpAddr| SocketAddr::new(address, DEFAULT_PORT);
    if text.is_empty() {
        return Some(local(loopback));
    }
    if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse::<u16>() {
        return Some(SocketAddr::new(loopback, port));
    }
    if let Some(port) = text.strip_prefix("localhost") {
        return match port.strip_prefix(':') {
            Some(port) => Some(SocketAddr::new(loopback, port.parse().ok()?)),
            None => port.is_empty().then(|| local(loopback)),
        };
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    text.parse().ok().or_else(|| bare.parse().ok().map(local))
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(formatter, "unix:{}", path.display()),
            Self::Tcp(address) => write!(formatter, "tcp:{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for (text, written) in [
            ("unix:/tmp/a b:c", "unix:/tmp/a b:c"),
            ("unix:relative", "unix:relative"),
            ("tcp:", "tcp:127.0.0.1:10809"),
            ("tcp:1234", "tcp:127.0.0.1:1234"),
            ("tcp::1234", "tcp:127.0.0.1:1234"),
            ("tcp:localhost", "tcp:127.0.0.1:10809"),
            ("tcp:localhost:0", "tcp:127.0.0.1:0"),
            ("tcp:0.0.0.0", "tcp:0.0.0.0:10809"),
            ("tcp:[::1]:99", "tcp:[::1]:99"),
            ("tcp:[::1]", "tcp:[::1]:10809"),
            ("tcp:::1", "tcp:[::1]:10809"),
        ] {
            assert_eq!(text.parse::<Address>().map(|address| address.to_string()), Ok(written.to_owned()));
        }
    }

    #[test]
    fn other_addresses_say_what_would_be_right() {
        let long = format!("unix:{}", "x".repeat(108));
        for (text, part) in [
            ("", "`unix:PATH` or `tcp:ADDR`"),
            ("/tmp/socket", "`unix:PATH` or `tcp:ADDR`"),
            ("udp:1", "`unix:PATH` or `tcp:ADDR`"),
            ("unix:", "the path is missing"),
            ("unix:a\0b", "zero byte"),
            (&long, "at most 107 bytes"),
            ("tcp:70000", "no TCP address"),
            ("tcp:example.org:1", "no TCP address"),
            ("tcp:localhostess", "no TCP address"),
            ("tcp:localhost:x", "no TCP address"),
        ] {
            let error = text.parse::<Address>().expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
