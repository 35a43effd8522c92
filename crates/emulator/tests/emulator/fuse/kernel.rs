//! The kernel's side of the protocol, written apart from the server's: bytes of requests, meaning of answers.

use seeklab_core::Instant;
use seeklab_emulator::frontend::fuse::{Connection, Owner};
use seeklab_emulator::frontend::nbd::Export;
use seeklab_emulator::frontend::{Command, Reply};

pub(crate) const LOOKUP: u32 = 1;
pub(crate) const GETATTR: u32 = 3;
pub(crate) const SETATTR: u32 = 4;
pub(crate) const OPEN: u32 = 14;
pub(crate) const READ: u32 = 15;
pub(crate) const WRITE: u32 = 16;
pub(crate) const STATFS: u32 = 17;
pub(crate) const FSYNC: u32 = 20;
pub(crate) const FLUSH: u32 = 25;
pub(crate) const INIT: u32 = 26;
pub(crate) const READDIR: u32 = 28;
pub(crate) const CREATE: u32 = 35;
pub(crate) const INTERRUPT: u32 = 36;
pub(crate) const FALLOCATE: u32 = 43;
pub(crate) const LSEEK: u32 = 46;

pub(crate) const ROOT: u64 = 1;
pub(crate) const FILE: u64 = 2;

pub(crate) fn message(opcode: u32, unique: u64, node: u64, arguments: &[u8]) -> Vec<u8> {
    let mut bytes = (40 + arguments.len() as u32).to_ne_bytes().to_vec();
    bytes.extend(opcode.to_ne_bytes());
    bytes.extend(unique.to_ne_bytes());
    bytes.extend(node.to_ne_bytes());
    bytes.extend([0; 16]);
    bytes.extend(arguments);
    bytes
}

pub(crate) fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Arguments of READ, and of WRITE before its data.
pub(crate) fn transfer(offset: u64, size: u32, flags: u32) -> Vec<u8> {
    let mut bytes = words(&[7, offset]);
    bytes.extend(size.to_ne_bytes());
    bytes.extend([0; 4 + 8]);
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes
}

pub(crate) fn write(unique: u64, offset: u64, data: &[u8], flags: u32) -> Vec<u8> {
    let mut arguments = transfer(offset, data.len() as u32, flags);
    arguments.extend(data);
    message(WRITE, unique, FILE, &arguments)
}

pub(crate) fn fallocate(unique: u64, offset: u64, length: u64, mode: u32) -> Vec<u8> {
    let mut arguments = words(&[7, offset, length]);
    arguments.extend(mode.to_ne_bytes());
    arguments.extend([0; 4]);
    message(FALLOCATE, unique, FILE, &arguments)
}

pub(crate) fn lseek(unique: u64, offset: u64, whence: u32) -> Vec<u8> {
    let mut arguments = words(&[7, offset]);
    arguments.extend(whence.to_ne_bytes());
    arguments.extend([0; 4]);
    message(LSEEK, unique, FILE, &arguments)
}

pub(crate) fn init(major: u32, minor: u32) -> Vec<u8> {
    let mut arguments = Vec::new();
    for number in [major, minor, 131_072, u32::MAX] {
        arguments.extend(number.to_ne_bytes());
    }
    arguments.extend([0; 48]);
    message(INIT, 1, 0, &arguments)
}

/// An answer as the kernel takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) unique: u64,
    /// As the kernel shows it to applications: 0 or a positive number.
    pub(crate) errno: i32,
    pub(crate) result: Vec<u8>,
}

impl Answer {
    /// The number at that byte of the result.
    pub(crate) fn u32_at(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.result[at..at + 4].try_into().expect("four bytes"))
    }

    pub(crate) fn u64_at(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.result[at..at + 8].try_into().expect("eight bytes"))
    }
}

/// Returns the answers that the connection has prepared, and clears them.
pub(crate) fn answers(connection: &mut Connection) -> Vec<Answer> {
    let answers = connection.messages().filter(|(_, bytes)| !bytes.is_empty()).map(|(_, bytes)| {
        let number = |at: usize| i32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        assert_eq!(number(0) as usize, bytes.len(), "the kernel refuses an answer of another length");
        let errno = -number(4);
        assert!((0..1000).contains(&errno), "the kernel refuses {errno}");
        assert!(errno == 0 || bytes.len() == 16, "the kernel refuses a failure with a result");
        let unique = u64::from_ne_bytes(bytes[8..16].try_into().expect("eight bytes"));
        Answer { unique, errno, result: bytes[16..].to_vec() }
    });
    let answers = answers.collect();
    connection.clear();
    answers
}

pub(crate) fn connection(export: Export) -> Connection {
    let mut connection = Connection::new(export, Owner { uid: 5, gid: 6 });
    assert!(connection.receive(&init(7, 40), Instant::ZERO).is_none());
    assert_eq!(answers(&mut connection).len(), 1);
    assert!(connection.is_negotiated());
    connection
}

/// The only answer to a message that needs no device.
pub(crate) fn ask(connection: &mut Connection, message: &[u8]) -> Answer {
    let command = connection.receive(message, Instant::ZERO);
    assert!(command.is_none(), "{command:?}");
    let mut answers = answers(connection);
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers.pop().expect("there is one")
}

/// The only command of a message.
pub(crate) fn command<'a>(connection: &mut Connection, message: &'a [u8]) -> Command<'a> {
    connection.receive(message, Instant::from_ns(9)).expect("it asks the device")
}

/// The only answer once the command is replied to.
pub(crate) fn reply(connection: &mut Connection, command: u32, reply: Reply<'_>) -> Answer {
    connection.reply(command, reply);
    let mut answers = answers(connection);
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers.pop().expect("there is one")
}
