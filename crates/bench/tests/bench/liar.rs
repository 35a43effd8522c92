//! An NBD server of the tests that lies as it is ordered to: another codec than the client's, thread per connection.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use seeklab_core::Seed;

/// Ways to carry out a request wrongly. Each is given to the request that begins at its byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lie {
    /// The write is acknowledged, and nothing is written.
    Lose,
    /// The write is acknowledged, and its first bytes are written.
    Tear(usize),
    /// The data goes to another place.
    Misdirect(u64),
    /// The read brings the data of another place.
    ReadFrom(u64),
    /// A bit of the data that is read is another.
    Flip(usize),
}

/// Shares of the requests that meet with an accident, in millionths. None of these is a lie.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Accidents {
    /// The request fails, and is not carried out.
    pub(crate) refused: u64,
    /// A write fails, though it was carried out.
    pub(crate) failed_after: u64,
    /// No reply comes.
    pub(crate) silent: u64,
    /// The connection ends in place of a reply.
    pub(crate) cut: u64,
}

/// State of the server.
pub(crate) struct Liar {
    pub(crate) lies: Mutex<BTreeMap<u64, Lie>>,
    pub(crate) planted: Mutex<u64>,
    disk: File,
    size_bytes: u64,
    block_bytes: u32,
    accidents: Accidents,
    /// Requests that it reads of a connection. Then it reads no more, and the connection stays.
    reads_max: u64,
}

/// A running server; its threads end with the process.
pub(crate) struct Served {
    pub(crate) liar: Arc<Liar>,
    pub(crate) uri: String,
    _directory: tempfile::TempDir,
}

impl Liar {
    pub(crate) fn new(disk: File, size_bytes: u64, block_bytes: u32, accidents: Accidents) -> Self {
        disk.set_len(size_bytes).unwrap();
        let (lies, planted) = (Mutex::default(), Mutex::default());
        Self { lies, planted, disk, size_bytes, block_bytes, accidents, reads_max: u64::MAX }
    }

    /// It reads no more than that many requests of a connection.
    pub(crate) fn reading(self, reads_max: u64) -> Self {
        Self { reads_max, ..self }
    }

    /// Serves over a socket in this process.
    pub(crate) fn serve(self) -> Served {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("liar.sock");
        let liar = Arc::new(self);
        let (of_thread, listener) = (Arc::clone(&liar), UnixListener::bind(&socket).unwrap());
        thread::spawn(move || of_thread.accept(&listener));
        Served { liar, uri: uri(&socket), _directory: directory }
    }

    /// Takes connections for ever.
    pub(crate) fn accept(self: &Arc<Self>, listener: &UnixListener) {
        for (number, stream) in listener.incoming().enumerate() {
            let (liar, stream) = (Arc::clone(self), stream.unwrap());
            thread::spawn(move || liar.converse(stream, number as u64));
        }
    }

    /// Lies about these requests.
    pub(crate) fn order(&self, lies: impl IntoIterator<Item = (u64, Lie)>) {
        self.lies.lock().unwrap().extend(lies);
    }

    /// Serves a connection until it ends.
    pub(crate) fn converse(&self, mut stream: UnixStream, number: u64) -> Option<()> {
        self.handshake(&mut stream)?;
        let mut draws = Seed(number).stream("liar.accidents");
        let mut output = Vec::new();
        for request in 0.. {
            if request == self.reads_max {
                loop {
                    thread::park();
                }
            }
            let mut head = [0; 28];
            stream.read_exact(&mut head).ok()?;
            let word = |at: usize| u64::from_be_bytes(head[at..at + 8].try_into().unwrap());
            assert_eq!(head[..4], 0x2560_9513_u32.to_be_bytes());
            let (kind, cookie, offset) = (u16::from_be_bytes([head[6], head[7]]), word(8), word(16));
            let length = u32::from_be_bytes(head[24..].try_into().unwrap()) as usize;
            let mut data = vec![0; if kind <= 1 { length } else { 0 }];
            if kind == 1 {
                stream.read_exact(&mut data).ok()?;
            }
            if kind == 2 {
                return None;
            }
            let draw = draws.bits() % 1_000_000;
            let Accidents { refused, failed_after, silent, cut } = self.accidents;
            let mut error = 0_u32;
            if draw < refused {
                error = 5;
            } else if draw < refused + silent {
                // Carried out or not, nobody knows.
                if draw.is_multiple_of(2) {
                    self.carry_out(kind, offset, &mut data);
                }
                continue;
            } else if draw < refused + silent + cut {
                if draw.is_multiple_of(2) {
                    self.carry_out(kind, offset, &mut data);
                }
                return None;
            } else {
                self.carry_out(kind, offset, &mut data);
                if kind == 1 && draw < refused + silent + cut + failed_after {
                    error = 5;
                }
            }
            output.clear();
            output.extend(0x6744_6698_u32.to_be_bytes());
            output.extend(error.to_be_bytes());
            output.extend(cookie.to_be_bytes());
            if kind == 0 && error == 0 {
                output.extend(&data);
            }
            stream.write_all(&output).ok()?;
        }
        None
    }

    fn carry_out(&self, kind: u16, offset: u64, data: &mut [u8]) {
        let lie = match self.lies.lock().unwrap().remove(&(offset << 1 | u64::from(kind & 1))) {
            Some(lie) if kind <= 1 => Some(lie),
            _ => None,
        };
        *self.planted.lock().unwrap() += u64::from(lie.is_some());
        match (kind, lie) {
            (0, Some(Lie::ReadFrom(place))) => self.disk.read_exact_at(data, place).unwrap(),
            (0, Some(Lie::Flip(bit))) => {
                self.disk.read_exact_at(data, offset).unwrap();
                let bit = bit % (8 * data.len());
                data[bit / 8] ^= 1 << (bit % 8);
            }
            (0, _) => self.disk.read_exact_at(data, offset).unwrap(),
            (1, Some(Lie::Lose)) => {}
            (1, Some(Lie::Tear(bytes))) => self.disk.write_all_at(&data[..bytes], offset).unwrap(),
            (1, Some(Lie::Misdirect(place))) => self.disk.write_all_at(data, place).unwrap(),
            (1, _) => self.disk.write_all_at(data, offset).unwrap(),
            _ => {}
        }
    }

    /// Fixed newstyle: refuses every option but GO, which it answers with size and block size.
    fn handshake(&self, stream: &mut UnixStream) -> Option<()> {
        stream.write_all(b"NBDMAGICIHAVEOPT\x00\x01").ok()?;
        let mut flags = [0; 4];
        stream.read_exact(&mut flags).ok()?;
        loop {
            let mut head = [0; 16];
            stream.read_exact(&mut head).ok()?;
            assert_eq!(&head[..8], b"IHAVEOPT");
            let option = u32::from_be_bytes(head[8..12].try_into().unwrap());
            let mut data = vec![0; u32::from_be_bytes(head[12..].try_into().unwrap()) as usize];
            stream.read_exact(&mut data).ok()?;
            let mut reply = |kind: u32, content: &[u8]| {
                let mut bytes = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
                bytes.extend(option.to_be_bytes());
                bytes.extend(kind.to_be_bytes());
                bytes.extend((content.len() as u32).to_be_bytes());
                bytes.extend(content);
                stream.write_all(&bytes).ok()
            };
            if option != 7 {
                reply(0x8000_0001, &[])?;
                continue;
            }
            // Flags, FLUSH and FUA, TRIM and WRITE_ZEROES not, several connections.
            let flags: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 8;
            let export =
                [&0_u16.to_be_bytes()[..], &self.size_bytes.to_be_bytes(), &flags.to_be_bytes()].concat();
            reply(3, &export)?;
            let sizes =
                [self.block_bytes, self.block_bytes.max(4096), 1 << 20].map(u32::to_be_bytes).concat();
            reply(3, &[&3_u16.to_be_bytes()[..], &sizes].concat())?;
            reply(1, &[])?;
            return Some(());
        }
    }
}

/// Key of a lie about a read that begins there.
pub(crate) const fn on_read(byte: u64) -> u64 {
    byte << 1
}

/// Key of a lie about a write that begins there.
pub(crate) const fn on_write(byte: u64) -> u64 {
    byte << 1 | 1
}

/// The address of a socket.
pub(crate) fn uri(socket: &Path) -> String {
    format!("nbd+unix:///?socket={}", socket.display())
}

/// So many different numbers below `bound`.
pub(crate) fn chosen(count: usize, bound: u64, seed: u64) -> Vec<u64> {
    let mut draws = Seed(seed).stream("liar.chosen");
    let mut chosen = BTreeSet::new();
    while chosen.len() < count {
        chosen.insert(draws.bits() % bound);
    }
    chosen.into_iter().collect()
}

/// Serves the image `$LIAR_IMAGE` over the socket `$LIAR_SOCKET` until it is killed; not a test.
#[test]
#[ignore = "a process of other tests"]
fn serve_until_killed() {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let (Some(socket), Some(image)) = (variable("LIAR_SOCKET"), variable("LIAR_IMAGE")) else { return };
    let disk = File::options().read(true).write(true).open(image).unwrap();
    let size_bytes = disk.metadata().unwrap().len();
    let accidents = Accidents { refused: 1_000, failed_after: 1_000, silent: 0, cut: 0 };
    let _ = std::fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).unwrap();
    Arc::new(Liar::new(disk, size_bytes, 512, accidents)).accept(&listener);
}
