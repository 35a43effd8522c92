//! The journal of an experiment or series: a line of JSON for each run, written as soon as it is finished.
//!
//! An interrupted run leaves whole lines and perhaps a torn one at the end, which is cut off. Lines whose
//! key no run has are kept: they belong to an earlier form of the experiment, which may come back.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Hash of everything that determines a result: FNV-1a of 128 bits, which is the same in every version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u128);

impl Key {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
        const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        Self(bytes.iter().fold(BASIS, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME)))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The version of the lines' schema. A line without one has version 1.
const SCHEMA: u32 = 1;

const fn first_schema() -> u32 {
    1
}

/// The version of a line alone, which every version can read.
#[derive(Deserialize)]
struct Versioned {
    #[serde(default = "first_schema")]
    schema: u32,
}

#[derive(Serialize, Deserialize)]
struct Line<R> {
    #[serde(default = "first_schema")]
    schema: u32,
    key: String,
    /// For people who look into the file.
    cell: String,
    repetition: u64,
    seed: u64,
    result: R,
}

/// Fields of a line beside the result.
pub(crate) struct Entry<'a> {
    pub(crate) key: Key,
    pub(crate) cell: &'a str,
    pub(crate) repetition: u64,
    pub(crate) seed: u64,
}

/// An open journal, which no other process can open.
#[derive(Debug)]
pub(crate) struct Journal<R> {
    path: PathBuf,
    file: File,
    known: BTreeMap<String, R>,
    damaged: usize,
}

impl<R: Serialize + DeserializeOwned> Journal<R> {
    /// Opens the journal at `path` and reads what is there; forgets it if `fresh`.
    pub(crate) fn open(path: &Path, fresh: bool) -> Result<Self, Failure> {
        let unusable = |error: std::io::Error| {
            Failure::from(error).context(format!("{}: cannot be used", path.display()))
        };
        // Reading a FIFO would wait for a writer.
        if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(Failure::new(format!("{}: is no regular file", path.display()))
                .hint("name a file: an interrupted run is resumed from it"));
        }
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).open(path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::new(format!("{}: another run is writing it", path.display()))
                    .hint("wait for it, or give this one another --output"));
            }
            Err(TryLockError::Error(error)) => return Err(unusable(error)),
        }
        let mut bytes = Vec::new();
        if !fresh {
            file.read_to_end(&mut bytes).map_err(unusable)?;
        }
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let newer = bytes[..whole]
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice::<Versioned>(line).ok())
            .find(|line| line.schema > SCHEMA);
        if let Some(Versioned { schema }) = newer {
            return Err(Failure::new(format!(
                "{}: has lines of schema {schema}, and this program reads {SCHEMA}",
                path.display()
            ))
            .hint("update seeklab, name another file, or add --fresh to forget these results"));
        }
        file.set_len(whole as u64).map_err(unusable)?;
        let mut journal = Self { path: path.to_owned(), file, known: BTreeMap::new(), damaged: 0 };
        for line in bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<Line<R>>(line) {
                Ok(line) => {
                    journal.known.insert(line.key, line.result);
                }
                Err(_) => journal.damaged += 1,
            }
        }
        Ok(journal)
    }

    /// The result of the run with that key, if the journal holds it.
    pub(crate) fn get(&self, key: Key) -> Option<&R> {
        self.known.get(&key.to_string())
    }

    /// Lines in the middle that could not be read.
    pub(crate) const fn damaged(&self) -> usize {
        self.damaged
    }

    /// Appends a result.
    pub(crate) fn append(&mut self, entry: &Entry, result: &R) -> Result<(), Failure> {
        let line = Line {
            schema: SCHEMA,
            key: entry.key.to_string(),
            cell: entry.cell.to_owned(),
            repetition: entry.repetition,
            seed: entry.seed,
            result,
        };
        let mut text = serde_json::to_string(&line).expect("a line has text keys");
        text.push('\n');
        // In one piece, so that an interruption tears the last line at most.
        self.file.write_all(text.as_bytes()).map_err(|error| {
            Failure::from(error).context(format!("{}: cannot be written", self.path.display()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> Entry<'_> {
        Entry { key: Key::of(text.as_bytes()), cell: text, repetition: 0, seed: 7 }
    }

    type Result = BTreeMap<String, f64>;

    fn result(value: f64) -> Result {
        Result::from([("a".to_owned(), value)])
    }

    #[test]
    fn hash_follows_its_definition() {
        // Test vectors of the reference implementation.
        assert_eq!(Key::of(b"").to_string(), "6c62272e07bb014262b821756295c58d");
        assert_eq!(Key::of(b"a").to_string(), "d228cb696f1a8caf78912b704e4a8964");
    }

    #[test]
    fn results_round_trip_to_the_last_bit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j.jsonl");
        let values = [0.1 + 0.2, 1.0 / 3.0, 123_456_789.012_345_67, 5e-324, 0.000_001];
        let mut journal = Journal::<Result>::open(&path, false).unwrap();
        for value in values {
            journal.append(&entry(&value.to_string()), &result(value)).unwrap();
        }
        drop(journal);
        let journal = Journal::<Result>::open(&path, false).unwrap();
        for value in values {
            assert_eq!(journal.get(entry(&value.to_string()).key), Some(&result(value)));
        }
    }

    #[test]
    fn torn_line_is_cut_off_and_damaged_line_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j.jsonl");
        let mut journal = Journal::<Result>::open(&path, false).unwrap();
        journal.append(&entry("a"), &result(1.0)).unwrap();
        drop(journal);
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("nonsense\n{whole}{}", &whole[..whole.len() / 2])).unwrap();
        let mut journal = Journal::<Result>::open(&path, false).unwrap();
        assert_eq!((journal.damaged(), journal.get(entry("a").key)), (1, Some(&result(1.0))));
        journal.append(&entry("b"), &result(2.0)).unwrap();
        drop(journal);
        let journal = Journal::<Result>::open(&path, false).unwrap();
        assert_eq!(journal.get(entry("b").key), Some(&result(2.0)));
        drop(journal);
        assert!(Journal::<Result>::open(&path, true).unwrap().get(entry("a").key).is_none(), "fresh forgets");
    }

    #[test]
    fn only_one_run_at_a_time_can_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j.jsonl");
        let first = Journal::<Result>::open(&path, false).unwrap();
        assert!(Journal::<Result>::open(&path, false).unwrap_err().to_string().contains("another run"));
        drop(first);
        assert!(Journal::<Result>::open(&path, false).is_ok());
    }

    #[test]
    fn device_is_no_journal() {
        let failure = Journal::<Result>::open(Path::new("/dev/null"), false).unwrap_err();
        assert_eq!(failure.to_string(), "/dev/null: is no regular file");
    }

    #[test]
    fn journal_of_a_newer_schema_is_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j.jsonl");
        let mut journal = Journal::<Result>::open(&path, false).unwrap();
        journal.append(&entry("a"), &result(1.0)).unwrap();
        drop(journal);
        let newer = std::fs::read_to_string(&path).unwrap().replace("\"schema\":1", "\"schema\":2");
        std::fs::write(&path, format!("{newer}torn")).unwrap();
        let failure = Journal::<Result>::open(&path, false).unwrap_err();
        assert!(failure.to_string().contains("schema 2") && failure.advice().unwrap().contains("update"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{newer}torn"));
    }
}
