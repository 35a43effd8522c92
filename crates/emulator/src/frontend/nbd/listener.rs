//! Listening sockets: unix (private to the user, unlinked at the end) and TCP.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with, sockopt,
};

use super::address::Address;

const BACKLOG: i32 = 128;

#[derive(Debug)]
pub(super) struct Listener {
    socket: OwnedFd,
    address: Address,
    file: Option<SocketFile>,
}

/// A socket in the file system; it goes when this does.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    device_and_inode: (u64, u64),
}

impl Listener {
    pub(super) fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Unix(path) => Self::bind_unix(path),
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                let address = Address::Tcp(listener.local_addr()?);
                Ok(Self { socket: listener.into(), address, file: None })
            }
        }
    }

    /// The socket is bound, made private, and only then listens: nobody connects in between.
    fn bind_unix(path: &Path) -> io::Result<Self> {
        remove_stale(path)?;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        // Absolute, so that the file is found at the end wherever the process has gone.
        let path = std::path::absolute(path)?;
        let metadata = fs::symlink_metadata(&path)?;
        let file = SocketFile { device_and_inode: (metadata.dev(), metadata.ino()), path: path.clone() };
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        listen(&socket, BACKLOG)?;
        Ok(Self { socket, address: Address::Unix(path), file: Some(file) })
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// The next client, or `WouldBlock`.
    pub(super) fn accept(&self) -> rustix::io::Result<OwnedFd> {
        let stream = accept_with(&self.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
        if self.file.is_none() {
            // A connection that died meanwhile says so at its first use.
            let _ = sockopt::set_tcp_nodelay(&stream, true).and_then(|()| keep_alive(&stream));
        }
        Ok(stream)
    }
}

/// Time without a segment from the peer until the kernel asks whether it lives.
const PROBE_AFTER: Duration = Duration::from_secs(60);
/// Time between such questions.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
/// Questions without an answer after which the connection is dead.
const PROBE_COUNT: u32 = 3;

/// Lets the kernel end a connection whose peer has vanished, 90 s after its last sign of life.
fn keep_alive(stream: &OwnedFd) -> rustix::io::Result<()> {
    sockopt::set_tcp_keepidle(stream, PROBE_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, PROBE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, PROBE_COUNT)?;
    sockopt::set_socket_keepalive(stream, true)
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for SocketFile {
    /// Removes the file if it is still ours.
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.device_and_inode);
        if ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes way at `path`: a socket that nobody listens on is removed, anything else is an error.
fn remove_stale(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let in_the_way =
        |what: &str| io::Error::new(io::ErrorKind::AddrInUse, format!("`{}` {what}", path.display()));
    if !metadata.file_type().is_socket() {
        return Err(in_the_way("exists and is not a socket"));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(in_the_way("is in use: something listens there")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn vanished_tcp_clients_are_found_by_keepalive() {
        let listener = Listener::bind(&"tcp:127.0.0.1:0".parse().unwrap()).unwrap();
        let Address::Tcp(address) = listener.address() else { panic!("{:?}", listener.address()) };
        let _client = TcpStream::connect(address).unwrap();
        let stream = loop {
            match listener.accept() {
                Err(rustix::io::Errno::WOULDBLOCK) => std::thread::yield_now(),
                stream => break stream.unwrap(),
            }
        };
        assert_eq!(sockopt::socket_keepalive(&stream), Ok(true));
        assert_eq!(sockopt::tcp_keepidle(&stream), Ok(PROBE_AFTER));
        assert_eq!(sockopt::tcp_keepintvl(&stream), Ok(PROBE_INTERVAL));
        assert_eq!(sockopt::tcp_keepcnt(&stream), Ok(PROBE_COUNT));
    }
}
