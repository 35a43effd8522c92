//! The way from a URI to a connected socket, within limits: a server may take no connection, and a name server may not answer.
//!
//! # Scope and limits
//! A name is looked up on a thread of its own, which ends with the answer of the name server if nobody waits for it any more.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::sockopt::{set_tcp_nodelay, socket_error};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::time::Timespec;

use super::limits::{Expired, Limits};
use crate::client::ClientError;
use crate::frontend::nbd::Uri;

/// Longest wait before the next attempt if the queue of a unix socket is full.
const FULL: std::time::Duration = std::time::Duration::from_millis(10);

/// Reason for which there is no connection.
#[derive(Debug)]
enum Unconnected {
    Stopped,
    Failed(io::Error),
}

impl From<Expired> for Unconnected {
    fn from(expired: Expired) -> Self {
        match expired {
            Expired::Stopped => Self::Stopped,
            Expired::Late => Self::Failed(io::ErrorKind::TimedOut.into()),
        }
    }
}

impl From<io::Error> for Unconnected {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Errno> for Unconnected {
    fn from(error: Errno) -> Self {
        Self::Failed(error.into())
    }
}

/// A connected socket that blocks.
pub(super) fn connected(uri: &Uri, limits: &Limits<'_>) -> Result<OwnedFd, ClientError> {
    let socket = match uri {
        Uri::Unix { path, .. } => unix(path, limits),
        Uri::Tcp { host, port, .. } => tcp(host, *port, limits),
    };
    socket.map_err(|reason| match reason {
        Unconnected::Stopped => ClientError::Stopped { outstanding: 0 },
        Unconnected::Failed(source) => ClientError::Connect { server: uri.to_string(), source },
    })
}

fn unix(path: &Path, limits: &Limits<'_>) -> Result<OwnedFd, Unconnected> {
    let address = SocketAddrUnix::new(path)?;
    loop {
        let socket = open(AddressFamily::UNIX)?;
        match connect(&socket, &address) {
            Ok(()) => {
                ioctl_fionbio(&socket, false)?;
                return Ok(socket);
            }
            // The server takes no connection from its queue, which is full. Nothing tells when there is room.
            Err(Errno::AGAIN) => match poll(&mut [], Some(&timespec(limits.wait()?.min(FULL)))) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            },
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A connection to the first address of a host that takes one.
fn tcp(host: &str, port: u16, limits: &Limits<'_>) -> Result<OwnedFd, Unconnected> {
    let addresses = resolved(host, port, limits)?;
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (number, address) in addresses.iter().enumerate() {
        let left = (addresses.len() - number) as u64;
        match tcp_to(address, &limits.first_of(left)) {
            Ok(socket) => return Ok(socket),
            Err(Unconnected::Stopped) => return Err(Unconnected::Stopped),
            Err(Unconnected::Failed(error)) => failure = error,
        }
    }
    Err(failure.into())
}

fn tcp_to(address: &SocketAddr, limits: &Limits<'_>) -> Result<OwnedFd, Unconnected> {
    let socket = open(if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 })?;
    match connect(&socket, address) {
        Ok(()) => {}
        Err(Errno::INPROGRESS | Errno::INTR) => loop {
            match poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&timespec(limits.wait()?))) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => {
                    socket_error(&socket)??;
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        },
        Err(error) => return Err(error.into()),
    }
    set_tcp_nodelay(&socket, true)?;
    ioctl_fionbio(&socket, false)?;
    Ok(socket)
}

fn timespec(time: std::time::Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() }
}

/// A socket that does not block.
fn open(family: AddressFamily) -> Result<OwnedFd, Errno> {
    socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// The addresses of a host.
fn resolved(host: &str, port: u16, limits: &Limits<'_>) -> Result<Vec<SocketAddr>, Unconnected> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (sender, answer) = sync_channel(1);
    let place = (host.to_owned(), port);
    let look_up = move || {
        // Nobody listens any more if the attempt has ended.
        let _ = sender.send(place.to_socket_addrs().map(Iterator::collect::<Vec<SocketAddr>>));
    };
    thread::Builder::new().name("name lookup".to_owned()).spawn(look_up)?;
    loop {
        match answer.recv_timeout(limits.wait()?) {
            Ok(addresses) => return Ok(addresses?),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("the look-up of the name has ended").into());
            }
        }
    }
}
