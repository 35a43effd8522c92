//! The state of a verification in a file, which outlives a process that is killed.
//!
//! ```text
//! head: magic, version, words of the head, targets, streams
//!       for each target: run, blocks, block size, last sequence number, flushed below
//!       texts: address of each target, name of each stream; each a length in bytes and whole words
//! then for each target: word of block 0, 1, …   durable word of block 0, 1, …
//! ```
//! All numbers are words of 8 bytes, little-endian.
//!
//! # Scope and limits
//! The file has its full length from the begin, 16 bytes for each block. It is in the page cache of this machine: a crash of the machine itself
//! may lose the last seconds of it, which makes the later check miss writes, not blame the target.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::ledger::Shape;
use super::memory::Words;
use super::word::STREAMS_MAX;

const MAGIC: u64 = u64::from_le_bytes(*b"slverify");
const VERSION: u64 = 2;
/// Words before those of the targets.
const FIXED_WORDS: usize = 5;
/// Words for each target.
const TARGET_WORDS: usize = 5;
/// Place of the last sequence number among the words of a target.
const SEQUENCE: usize = 3;
/// Place of the number that a completed flush covers all writes below.
const FLUSHED_BELOW: usize = 4;
/// Words of a page: the words of the blocks begin at one.
const PAGE_WORDS: usize = 512;
/// Targets at most, so that a damaged file takes no memory.
const TARGETS_MAX: u64 = 1 << 16;
/// Bytes of an address or a name at most.
const TEXT_BYTES_MAX: usize = 4096;

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
    /// An address or a name is too long.
    #[error("`{text}…`: has {bytes} bytes, at most {TEXT_BYTES_MAX} are allowed with --state")]
    Text {
        /// Its begin.
        text: String,
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

/// Facts that a state file has about a target of its run.
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

/// The part of a state file about one target. The file is open and locked.
#[derive(Debug, Clone)]
pub(super) struct StatePart {
    words: Arc<Words>,
    shape: Shape,
    address: String,
    /// Place of the first word about the target in the head.
    head: usize,
    /// Place of the word of block 0.
    first: usize,
    /// The lock lasts as long as this.
    _file: Arc<File>,
}

/// Makes a state file for these targets, each with its address, and streams. Returns its parts in the order of the targets.
///
/// # Errors
/// If it is there already, or cannot be made.
pub(super) fn create(
    path: &Path,
    targets: &[(Shape, &str)],
    streams: &[String],
) -> Result<Vec<StatePart>, StateError> {
    let texts = targets.iter().map(|(_, address)| *address).chain(streams.iter().map(String::as_str));
    let mut head = vec![0, VERSION, 0, targets.len() as u64, streams.len() as u64];
    for (shape, _) in targets {
        head.extend([shape.run, shape.blocks, shape.block_bytes, 0, 0]);
    }
    for text in texts {
        if text.len() > TEXT_BYTES_MAX {
            let begin = text.chars().take(40).collect();
            return Err(StateError::Text { text: begin, bytes: text.len() });
        }
        push_text(&mut head, text);
    }
    head.resize(head.len().next_multiple_of(PAGE_WORDS), 0);
    head[2] = head.len() as u64;
    let opened = OpenOptions::new().read(true).write(true).create_new(true).open(path);
    let file = opened.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => StateError::Exists { path: path.to_owned() },
        _ => StateError::Io { path: path.to_owned(), action: "make the state", source },
    })?;
    let count = words_of(head.len(), targets.iter().map(|(shape, _)| shape.blocks));
    let mapped = lock(&file, path).and_then(|()| map(&file, path, count));
    // Nothing is in it yet: a file that is left would stand in the way of the next run.
    let words = mapped.inspect_err(|_| drop(std::fs::remove_file(path)))?;
    for (place, value) in words.words().iter().zip(&head) {
        place.store(*value, Ordering::Relaxed);
    }
    // Last: without it, the file is no state.
    words.words()[0].store(MAGIC, Ordering::Release);
    let addresses = targets.iter().map(|(_, address)| (*address).to_owned()).collect();
    Ok(parts(file, words, head.len(), addresses))
}

/// Opens a state file. Returns its parts, and the names of the streams.
///
/// # Errors
/// If it is no state, or in use.
pub(super) fn open(path: &Path) -> Result<(Vec<StatePart>, Vec<String>), StateError> {
    let io = |action| move |source| StateError::Io { path: path.to_owned(), action, source };
    let malformed = |reason: String| StateError::Malformed { path: path.to_owned(), reason };
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(io("open the state"))?;
    lock(&file, path)?;
    let length = file.metadata().map_err(io("examine the state"))?.len();
    if length < 8 * PAGE_WORDS as u64 {
        return Err(malformed("it is too short".to_owned()));
    }
    let count = (length / 8) as usize;
    let words = Words::in_file(&file, count).map_err(io("map the state"))?;
    let word = |at: usize| words.words()[at].load(Ordering::Acquire);
    if word(0) != MAGIC {
        return Err(malformed("its first bytes are others".to_owned()));
    }
    if word(1) != VERSION {
        return Err(malformed(format!("its version is {}, and {VERSION} is known", word(1))));
    }
    let [head_words, targets, streams] = [word(2), word(3), word(4)];
    let is_sane = targets <= TARGETS_MAX && streams <= STREAMS_MAX as u64 && head_words <= count as u64;
    let (targets, streams, head_words) = (targets as usize, streams as usize, head_words as usize);
    let mut at = FIXED_WORDS + TARGET_WORDS * targets.min(TARGETS_MAX as usize);
    if !is_sane || at > head_words {
        return Err(malformed("its head is damaged".to_owned()));
    }
    let place = |target: usize| FIXED_WORDS + TARGET_WORDS * target;
    let blocks = (0..targets).map(|target| word(place(target) + 1));
    let is_sector = |bytes: u64| bytes.is_power_of_two() && bytes >= 512;
    let has_sectors = (0..targets).all(|target| is_sector(word(place(target) + 2)));
    if !has_sectors || words_of(head_words, blocks) != Some(count) {
        return Err(malformed("its length is not that of its blocks".to_owned()));
    }
    let mut texts = Vec::new();
    for _ in 0..targets + streams {
        let text = text_at(&words.words()[..head_words], &mut at);
        texts.push(text.ok_or_else(|| malformed("a name in its head is damaged".to_owned()))?);
    }
    let streams = texts.split_off(targets);
    Ok((parts(file, words, head_words, texts), streams))
}

/// The parts of a file, one for each address. The head says the rest.
fn parts(file: File, words: Words, head_words: usize, addresses: Vec<String>) -> Vec<StatePart> {
    let (words, file) = (Arc::new(words), Arc::new(file));
    let mut first = head_words;
    let part = |(target, address): (usize, String)| {
        let head = FIXED_WORDS + TARGET_WORDS * target;
        let word = |at: usize| words.words()[head + at].load(Ordering::Acquire);
        let shape = Shape { run: word(0), blocks: word(1), block_bytes: word(2) };
        let part =
            StatePart { words: Arc::clone(&words), shape, address, head, first, _file: Arc::clone(&file) };
        first += 2 * shape.blocks as usize;
        part
    };
    addresses.into_iter().enumerate().map(part).collect()
}

impl StatePart {
    pub(super) const fn words(&self) -> &Arc<Words> {
        &self.words
    }

    pub(super) const fn shape(&self) -> Shape {
        self.shape
    }

    /// Place of the word of block 0. The durable words follow those of all blocks.
    pub(super) const fn first_word(&self) -> usize {
        self.first
    }

    fn place(&self, at: usize) -> &AtomicU64 {
        &self.words.words()[self.head + at]
    }

    pub(super) fn sequence(&self) -> u64 {
        self.place(SEQUENCE).load(Ordering::Acquire)
    }

    pub(super) fn flushed_below(&self) -> u64 {
        self.place(FLUSHED_BELOW).load(Ordering::Acquire)
    }

    pub(super) fn facts(&self) -> StateFacts {
        StateFacts {
            address: self.address.clone(),
            blocks: self.shape.blocks,
            block_bytes: self.shape.block_bytes,
            writes: self.sequence(),
            has_flushed: self.flushed_below() > 0,
        }
    }

    /// Notes that a sequence number was given away.
    pub(super) fn note_sequence(&self, sequence: u64) {
        self.place(SEQUENCE).fetch_max(sequence, Ordering::Relaxed);
    }

    /// Notes that a flush completed.
    pub(super) fn note_flushed(&self, below: u64) {
        self.place(FLUSHED_BELOW).fetch_max(below, Ordering::AcqRel);
    }
}

/// Adds the length of a text in bytes, and its bytes in whole words.
fn push_text(words: &mut Vec<u64>, text: &str) {
    words.push(text.len() as u64);
    words.extend(text.as_bytes().chunks(8).map(|bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }));
}

/// The text at that place, which moves behind it. `None` if there is none.
fn text_at(words: &[AtomicU64], at: &mut usize) -> Option<String> {
    let length = usize::try_from(words.get(*at)?.load(Ordering::Acquire)).ok()?;
    if length > TEXT_BYTES_MAX {
        return None;
    }
    let first = *at + 1;
    *at = first + length.div_ceil(8);
    let words = words.get(first..*at)?.iter();
    let bytes: Vec<u8> = words.flat_map(|word| word.load(Ordering::Acquire).to_le_bytes()).collect();
    String::from_utf8(bytes[..length].to_vec()).ok()
}

fn lock(file: &File, path: &Path) -> Result<(), StateError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => StateError::InUse { path: path.to_owned() },
        TryLockError::Error(source) => {
            StateError::Io { path: path.to_owned(), action: "lock the state", source }
        }
    })
}

/// Words of a state with such a head and targets of so many blocks.
fn words_of(head_words: usize, blocks: impl Iterator<Item = u64>) -> Option<usize> {
    let mut words = head_words;
    for blocks in blocks {
        words = words.checked_add(usize::try_from(blocks).ok()?.checked_mul(2)?)?;
    }
    Some(words)
}

fn map(file: &File, path: &Path, count: Option<usize>) -> Result<Words, StateError> {
    let io = |source| StateError::Io { path: path.to_owned(), action: "make the state long enough", source };
    let count = count.ok_or_else(|| io(io::ErrorKind::FileTooLarge.into()))?;
    Words::in_file(file, count).map_err(io)
}
