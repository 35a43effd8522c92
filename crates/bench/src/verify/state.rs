//! The state of a verification in a file, which outlives a process that is killed.
//!
//! ```text
//! page 0: magic, version, run, blocks, block size, last sequence number, flushed below, length of the address, address
//! page 1…: word of block 0, 1, …   then: durable word of block 0, 1, …
//! ```
//! # Scope and limits
//! The file has its full length from the begin, 16 bytes for each block. It is in the page cache of this machine: a crash of the machine itself
//! may lose the last seconds of it, which makes the later check miss writes, not blame the target.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use super::ledger::Shape;
use super::memory::Words;

const MAGIC: u64 = u64::from_le_bytes(*b"slverify");
const VERSION: u64 = 1;
/// Words before those of the blocks.
const HEAD_WORDS: usize = 512;
const SEQUENCE: usize = 5;
const FLUSHED_BELOW: usize = 6;
const ADDRESS_BYTES: usize = 7;
const ADDRESS: usize = 8;
const ADDRESS_BYTES_MAX: usize = 8 * (HEAD_WORDS - ADDRESS);

/// Failure with a state file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The operating system refused an action.
    #[error("{path}: cannot {action}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Action that was refused.
        action: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file exists.
    #[error("{path}: is there already")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A run or a check uses the file.
    #[error("{path}: is in use by another run")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file is no state of a verification.
    #[error("{path}: is no state of a verification: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
    /// The address of the target is too long.
    #[error(
        "the address of the target has {bytes} bytes, at most {ADDRESS_BYTES_MAX} are allowed with --state"
    )]
    Address {
        /// Its length.
        bytes: usize,
    },
}

impl StateError {
    /// Advice, if there is any.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Exists { path } => {
                Some(format!("check it with `seeklab bench verify {}`, or name another file", path.display()))
            }
            Self::InUse { .. } => Some("wait until that has ended".to_owned()),
            _ => None,
        }
    }
}

/// Facts that a state file has about its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFacts {
    /// Address of the target.
    pub address: String,
    /// Blocks of the target.
    pub blocks: u64,
    /// Size of a block in bytes.
    pub block_bytes: u64,
    /// Writes that were issued.
    pub writes: u64,
    /// True if a flush completed.
    pub has_flushed: bool,
}

/// Places in a state file that is open and locked.
#[derive(Debug)]
pub(super) struct StateFile {
    shape: Shape,
    sequence: u64,
    flushed_below: u64,
    address: String,
    /// The lock lasts as long as this.
    _file: File,
}

impl StateFile {
    /// Makes a state file.
    ///
    /// # Errors
    /// If it is there already, or cannot be made.
    pub(super) fn create(path: &Path, shape: Shape, address: &str) -> Result<(Self, Words), StateError> {
        if address.len() > ADDRESS_BYTES_MAX {
            return Err(StateError::Address { bytes: address.len() });
        }
        let opened = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = opened.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => StateError::Exists { path: path.to_owned() },
            _ => StateError::Io { path: path.to_owned(), action: "make the state", source },
        })?;
        let mapped = lock(&file, path).and_then(|()| map(&file, path, shape.blocks));
        // Nothing is in it yet: a file that is left would stand in the way of the next run.
        let words = mapped.inspect_err(|_| drop(std::fs::remove_file(path)))?;
        let head = words.words();
        let fields = [VERSION, shape.run, shape.blocks, shape.block_bytes];
        for (place, value) in head[1..].iter().zip(fields) {
            place.store(value, Ordering::Relaxed);
        }
        head[ADDRESS_BYTES].store(address.len() as u64, Ordering::Relaxed);
        for (place, bytes) in head[ADDRESS..].iter().zip(address.as_bytes().chunks(8)) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            place.store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
        // Last: without it, the file is no state.
        head[0].store(MAGIC, Ordering::Release);
        Ok((Self { shape, sequence: 0, flushed_below: 0, address: address.to_owned(), _file: file }, words))
    }

    /// Opens a state file.
    ///
    /// # Errors
    /// If it is no state, or in use.
    pub(super) fn open(path: &Path) -> Result<(Self, Words), StateError> {
        let io = |action| move |source| StateError::Io { path: path.to_owned(), action, source };
        let malformed =
            |reason: &str| StateError::Malformed { path: path.to_owned(), reason: reason.to_owned() };
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(io("open the state"))?;
        lock(&file, path)?;
        let length = file.metadata().map_err(io("examine the state"))?.len();
        if length < 8 * HEAD_WORDS as u64 {
            return Err(malformed("it is too short"));
        }
        let words = Words::in_file(&file, (length / 8) as usize).map_err(io("map the state"))?;
        let word = |at: usize| words.words()[at].load(Ordering::Acquire);
        if word(0) != MAGIC {
            return Err(malformed("its first bytes are others"));
        }
        if word(1) != VERSION {
            return Err(malformed(&format!("its version is {}, and {VERSION} is known", word(1))));
        }
        let shape = Shape { run: word(2), blocks: word(3), block_bytes: word(4), lanes: 1 };
        let is_sector = shape.block_bytes.is_power_of_two() && shape.block_bytes >= 512;
        if !is_sector || words_of(shape.blocks) != Some((length / 8) as usize) {
            return Err(malformed("its length is not that of its blocks"));
        }
        let bytes = word(ADDRESS_BYTES) as usize;
        if bytes > ADDRESS_BYTES_MAX {
            return Err(malformed("the address of its target is too long"));
        }
        let address: Vec<u8> =
            (0..bytes.div_ceil(8)).flat_map(|at| word(ADDRESS + at).to_le_bytes()).collect();
        let address = String::from_utf8_lossy(&address[..bytes]).into_owned();
        let (sequence, flushed_below) = (word(SEQUENCE), word(FLUSHED_BELOW));
        Ok((Self { shape, sequence, flushed_below, address, _file: file }, words))
    }

    pub(super) const fn shape(&self) -> Shape {
        self.shape
    }

    pub(super) const fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(super) const fn flushed_below(&self) -> u64 {
        self.flushed_below
    }

    pub(super) fn facts(&self) -> StateFacts {
        StateFacts {
            address: self.address.clone(),
            blocks: self.shape.blocks,
            block_bytes: self.shape.block_bytes,
            writes: self.sequence,
            has_flushed: self.flushed_below > 0,
        }
    }

    /// Place of the word of a block.
    pub(super) const fn word(&self, lbn: u64) -> usize {
        HEAD_WORDS + lbn as usize
    }

    /// Place of the durable word of a block.
    pub(super) const fn durable_word(&self, lbn: u64) -> usize {
        HEAD_WORDS + self.shape.blocks as usize + lbn as usize
    }

    /// Notes that a sequence number was given away.
    pub(super) fn note_sequence(&self, words: &Words, sequence: u64) {
        words.words()[SEQUENCE].fetch_max(sequence, Ordering::Relaxed);
    }

    /// Notes that a flush completed.
    pub(super) fn note_flushed(&self, words: &Words, below: u64) {
        words.words()[FLUSHED_BELOW].fetch_max(below, Ordering::AcqRel);
    }
}

fn lock(file: &File, path: &Path) -> Result<(), StateError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => StateError::InUse { path: path.to_owned() },
        TryLockError::Error(source) => {
            StateError::Io { path: path.to_owned(), action: "lock the state", source }
        }
    })
}

fn words_of(blocks: u64) -> Option<usize> {
    usize::try_from(blocks).ok()?.checked_mul(2)?.checked_add(HEAD_WORDS)
}

fn map(file: &File, path: &Path, blocks: u64) -> Result<Words, StateError> {
    let io = |source| StateError::Io { path: path.to_owned(), action: "make the state long enough", source };
    let count = words_of(blocks).ok_or_else(|| io(io::ErrorKind::FileTooLarge.into()))?;
    Words::in_file(file, count).map_err(io)
}
