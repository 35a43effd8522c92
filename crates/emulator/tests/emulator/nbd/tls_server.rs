//! An NBD server of the tests with rustls' other end, which can be made to break off, to stall and to change keys.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, Stream, SupportedProtocolVersion};

/// Size of the export.
pub(crate) const SIZE: usize = 1 << 20;

/// The answer to an option.
pub(crate) fn option_reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

pub(crate) const START_TLS: u32 = 5;
pub(crate) const ACK: u32 = 1;

/// A server for one connection, on loopback, with what its thread returns.
pub(crate) struct Once<T> {
    pub(crate) address: SocketAddr,
    thread: JoinHandle<T>,
}

impl<T: Send + 'static> Once<T> {
    /// Takes one connection, greets it, and does `then`.
    pub(crate) fn start(then: impl FnOnce(TcpStream) -> T + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"NBDMAGICIHAVEOPT\0\x03").unwrap();
            then(stream)
        });
        Self { address, thread }
    }

    /// The address of the server with TLS and these parameters.
    pub(crate) fn uri(&self, parameters: &str) -> String {
        format!("nbds://{}/?{parameters}", self.address)
    }

    /// Waits for its end.
    pub(crate) fn end(self) -> T {
        self.thread.join().unwrap()
    }
}

/// Takes the client's flags and its choice of TLS; all plain bytes of the client.
pub(crate) fn take_choice_of_tls(stream: &mut TcpStream) -> [u8; 20] {
    let mut bytes = [0; 20];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// The server's side of TLS, with the certificate in a folder.
pub(crate) fn server_config(folder: &Path, versions: &[&'static SupportedProtocolVersion]) -> ServerConfig {
    let pem = |name: &str| fs::read(folder.join(name)).unwrap();
    let chain = CertificateDer::pem_slice_iter(&pem("server-cert.pem")).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(&pem("server-key.pem")).unwrap();
    ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap()
}

/// Reads and writes in memory until the client disconnects or goes. `between` is called before every reply with the number
/// of replies so far; the connection ends if it returns false. Returns the name of the chosen export.
pub(crate) fn serve(
    mut connection: ServerConnection,
    mut stream: TcpStream,
    mut between: impl FnMut(&mut ServerConnection, u64) -> bool,
) -> Option<String> {
    let mut disk = vec![0; SIZE];
    let mut name = None;
    while name.is_none() {
        let mut tls = Stream::new(&mut connection, &mut stream);
        let mut head = [0; 16];
        tls.read_exact(&mut head).ok()?;
        let option = u32::from_be_bytes(head[8..12].try_into().unwrap());
        let mut data = vec![0; u32::from_be_bytes(head[12..].try_into().unwrap()) as usize];
        tls.read_exact(&mut data).ok()?;
        if option == 7 {
            let length = u32::from_be_bytes(data[..4].try_into().unwrap()) as usize;
            name = Some(String::from_utf8(data[4..4 + length].to_vec()).unwrap());
            let export = [&[0; 2][..], &(SIZE as u64).to_be_bytes(), &5_u16.to_be_bytes()].concat();
            tls.write_all(&option_reply(option, 3, &export)).ok()?;
            tls.write_all(&option_reply(option, ACK, &[])).ok()?;
        } else {
            tls.write_all(&option_reply(option, 0x8000_0001, &[])).ok()?;
        }
    }
    for replies in 0.. {
        let mut tls = Stream::new(&mut connection, &mut stream);
        let mut head = [0; 28];
        match tls.read_exact(&mut head) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            result => result.ok()?,
        }
        let at = u64::from_be_bytes(head[16..24].try_into().unwrap()) as usize;
        let place = at..at + u32::from_be_bytes(head[24..].try_into().unwrap()) as usize;
        let mut reply = [&0x6744_6698_u32.to_be_bytes()[..], &[0; 4], &head[8..16]].concat();
        match head[7] {
            0 => reply.extend(&disk[place]),
            1 => tls.read_exact(&mut disk[place]).ok()?,
            2 => break,
            _ => {}
        }
        if !between(&mut connection, replies) {
            break;
        }
        Stream::new(&mut connection, &mut stream).write_all(&reply).ok()?;
    }
    name
}
