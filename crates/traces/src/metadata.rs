//! Metadata of a trace as a whole.

use std::collections::BTreeMap;

use seeklab_core::{ByteSize, QuantityError, Seed};

use crate::error::Problem;
use crate::fault_names::FaultNames;

/// Metadata of a trace as a whole. Canonical traces carry all of it. Other formats carry none, and the block
/// size then comes from the options of the reader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// Bytes in a logical block.
    pub block_size: ByteSize,
    /// The root seed of the run.
    pub seed: Option<Seed>,
    /// The device, usually its description in TOML.
    pub device: Option<String>,
    /// The program that made the trace, with its version.
    pub version: Option<String>,
    /// Source of the times, such as `simulated`.
    pub clock: Option<String>,
    /// Names of the devices 0, 1, 2 and so on in the trace's origin.
    pub labels: Vec<String>,
    /// Names of the faults in the column `fault`.
    pub faults: FaultNames,
    /// Further values by key. A key has lower-case letters, digits, `_`, `-` and `.`.
    pub other: BTreeMap<String, String>,
}

/// The version of the canonical schema that this crate writes.
const SCHEMA: &str = "3";

/// The versions that this crate reads.
const READ: [&str; 3] = ["1", "2", SCHEMA];

/// Every key with a meaning of its own: key, value, meaning.
pub(crate) const KEYS: [(&str, &str, &str); 9] = [
    ("schema", "whole number", "Version of the schema. A trace without the key has version 1."),
    ("block_size", "size", "Bytes in a logical block."),
    ("seed", "whole number", "Root seed of the run."),
    ("device", "text", "The device, usually its description in TOML."),
    ("version", "text", "Program that made the trace, with its version."),
    ("clock", "text", "Source of the times, such as `simulated`."),
    ("label.N", "text", "Name of device N in the origin of the trace."),
    ("fault.N", "text", "Name of fault N of the device, for the column `fault`."),
    ("capacity.N", "size", "Size of device N."),
];

impl Default for Metadata {
    fn default() -> Self {
        Self {
            block_size: Self::DEFAULT_BLOCK_SIZE,
            seed: None,
            device: None,
            version: None,
            clock: None,
            labels: Vec::new(),
            faults: FaultNames::default(),
            other: BTreeMap::new(),
        }
    }
}

impl Metadata {
    /// Block size of traces that do not state theirs.
    pub const DEFAULT_BLOCK_SIZE: ByteSize = ByteSize::from_bytes(512);

    /// Everything as keys and values, in a fixed order.
    ///
    /// # Errors
    /// If a key of [`other`](Self::other) is not allowed or means something else.
    pub fn to_pairs(&self) -> Result<Vec<(String, String)>, Box<Problem>> {
        let mut pairs = vec![
            ("schema".to_owned(), SCHEMA.to_owned()),
            ("block_size".to_owned(), self.block_size.to_string()),
        ];
        let mut push = |key: &str, value: Option<String>| {
            pairs.extend(value.map(|value| (key.to_owned(), value)));
        };
        push("seed", self.seed.map(|seed| seed.to_string()));
        push("device", self.device.clone());
        push("version", self.version.clone());
        push("clock", self.clock.clone());
        for (index, label) in self.labels.iter().enumerate() {
            push(&format!("label.{index}"), Some(label.clone()));
        }
        for (number, name) in self.faults.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            push(&format!("{FAULT}{number}"), Some(name.to_owned()));
        }
        for (key, value) in &self.other {
            check_key(key)?;
            push(key, Some(value.clone()));
        }
        Ok(pairs)
    }

    /// Returns the size of a device; of a trace that seeklab captured before it wrote `capacity.N`, that of its only
    /// device.
    pub fn capacity(&self, device: u16) -> Option<ByteSize> {
        let text = self.other.get(&capacity_key(device)).or_else(|| self.other.get(CAPTURED_SIZE))?;
        text.parse().ok()
    }

    /// Returns true if the recording of the trace did not end in order: later requests are missing.
    pub fn is_unfinished(&self) -> bool {
        self.other.contains_key(UNFINISHED)
    }

    /// States the size of a device.
    pub fn set_capacity(&mut self, device: u16, capacity: ByteSize) {
        self.other.insert(capacity_key(device), capacity.to_string());
    }

    /// Takes over one key and its value.
    ///
    /// # Errors
    /// If the value is not what the key demands.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Box<Problem>> {
        match key {
            "schema" if READ.contains(&value) => {}
            "schema" => {
                return Err(Problem::new("schema", value, "this program reads the schemas 1 to 3")
                    .hint("read the trace with the version of seeklab that wrote it, or a newer one"));
            }
            "block_size" => {
                self.block_size = size(key, value, "a size such as `512B` is allowed")?;
                if self.block_size.as_bytes() == 0 {
                    return Err(Problem::new("block_size", value, "a size above 0 is allowed"));
                }
            }
            "seed" => {
                let seed = value
                    .parse()
                    .map_err(|_| Problem::new("seed", value, "a whole number of 64 bits is allowed"))?;
                self.seed = Some(Seed(seed));
            }
            "device" => self.device = Some(value.to_owned()),
            "version" => self.version = Some(value.to_owned()),
            "clock" => self.clock = Some(value.to_owned()),
            _ => match key.strip_prefix("label.") {
                Some(index) => self.set_label(index, value)?,
                None if key.starts_with(FAULT) => self.faults.set(&key[FAULT.len()..], value)?,
                None => {
                    if key.starts_with(CAPACITY) {
                        size(key, value, "a size such as `500GB` is allowed")?;
                    }
                    self.other.insert(key.to_owned(), value.to_owned());
                }
            },
        }
        Ok(())
    }

    fn set_label(&mut self, index: &str, value: &str) -> Result<(), Box<Problem>> {
        let index: u16 = index
            .parse()
            .map_err(|_| Problem::new("label", index, "a device number from 0 to 65535 is allowed"))?;
        let index = usize::from(index);
        if self.labels.len() <= index {
            self.labels.resize(index + 1, String::new());
        }
        value.clone_into(&mut self.labels[index]);
        Ok(())
    }
}

fn size(key: &str, value: &str, allowed: &'static str) -> Result<ByteSize, Box<Problem>> {
    value
        .parse()
        .map_err(|error: QuantityError| Problem::new(key.to_owned(), value, allowed).hint(error.hint))
}

/// The key of the name of a fault begins so; its number follows.
const FAULT: &str = "fault.";

/// The key of the size of a device begins so; its number follows.
const CAPACITY: &str = "capacity.";

/// Key of traces whose recording did not end in order.
pub(crate) const UNFINISHED: &str = "unfinished";

/// The size of the only device, in traces of seeklab 0.1 that were captured or recorded.
const CAPTURED_SIZE: &str = "capture.size";

/// Returns the key of the size of a device.
pub fn capacity_key(device: u16) -> String {
    format!("{CAPACITY}{device}")
}

/// Checks that `key` may stand in [`Metadata::other`].
///
/// # Errors
/// If it cannot be written, or means something of its own.
pub fn check_key(key: &str) -> Result<(), Box<Problem>> {
    if !is_key(key) || is_own_key(key) {
        return Err(Problem::new(
            "metadata key",
            key,
            "lower-case letters, digits, `_`, `-` and `.` are allowed, and no name that means something",
        ));
    }
    Ok(())
}

/// Returns true if `key` can be written in every canonical form.
pub(crate) fn is_key(key: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.".contains(&byte);
    !key.is_empty() && key.bytes().all(allowed)
}

fn is_own_key(key: &str) -> bool {
    matches!(key, "schema" | "block_size" | "seed" | "device" | "version" | "clock")
        || key.starts_with("label.")
        || key.starts_with(FAULT)
}

/// `value` on one line: `\` and line ends escaped.
pub(crate) fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r")
}

/// The value that [`escape`] wrote.
pub(crate) fn unescape(text: &str) -> String {
    let mut value = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, letter == '\\') {
            (_, true) => match letters.next() {
                Some('n') => value.push('\n'),
                Some('r') => value.push('\r'),
                Some(other) => value.push(other),
                None => value.push('\\'),
            },
            (letter, false) => value.push(letter),
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn all_keys_round_trip() {
        let metadata = Metadata {
            block_size: ByteSize::from_bytes(4096),
            seed: Some(Seed(u64::MAX)),
            device: Some("[disk]\nrpm = \"7200rpm\"\n".to_owned()),
            version: Some("seeklab 0.1.0".to_owned()),
            clock: Some("simulated".to_owned()),
            labels: vec!["web.0".to_owned(), "web.1".to_owned()],
            faults: FaultNames::new(["slow seek", "gone"]),
            other: BTreeMap::from([("host".to_owned(), "a: b".to_owned())]),
        };
        let mut read = Metadata::default();
        for (key, value) in metadata.to_pairs().unwrap() {
            read.set(&key, &value).unwrap();
        }
        assert_eq!(read, metadata);
    }

    #[test]
    fn wrong_values_and_keys_are_refused() {
        let mut metadata = Metadata::default();
        for (key, value) in [
            ("schema", "4"),
            ("block_size", "512"),
            ("block_size", "0B"),
            ("seed", "-1"),
            ("fault.0", "two+names"),
        ] {
            let problem = metadata.set(key, value).unwrap_err();
            assert_eq!((&*problem.field, &*problem.value), (key, value));
        }
        assert!(metadata.set("label.65536", "x").is_err());
        assert!(metadata.set("fault.32", "x").is_err());
        for key in ["", "A b", "seed", "label.0", "fault.0"] {
            let other = BTreeMap::from([(key.to_owned(), String::new())]);
            assert!(Metadata { other, ..Metadata::default() }.to_pairs().is_err(), "{key}");
        }
    }

    #[test]
    fn capacity_is_that_of_the_device_or_of_an_older_capture() {
        let mut metadata = Metadata::default();
        assert_eq!(metadata.capacity(0), None);
        metadata.set("capture.size", "500000000B").unwrap();
        assert_eq!(metadata.capacity(0), Some(ByteSize::from_bytes(500_000_000)));
        metadata.set("capacity.3", "9GB").unwrap();
        metadata.set_capacity(0, ByteSize::from_bytes(1 << 30));
        let mut read = Metadata::default();
        for (key, value) in metadata.to_pairs().unwrap() {
            read.set(&key, &value).unwrap();
        }
        assert_eq!(read.capacity(0), Some(ByteSize::from_bytes(1 << 30)));
        assert_eq!(read.capacity(3), Some(ByteSize::from_bytes(9_000_000_000)));
        let problem = metadata.set("capacity.1", "9").unwrap_err();
        assert_eq!((&*problem.field, &*problem.value), ("capacity.1", "9"));
    }

    proptest! {
        #[test]
        fn escaping_round_trips(value: String) {
            prop_assert_eq!(unescape(&escape(&value)), value.clone());
            prop_assert!(!escape(&value).contains(['\n', '\r']));
        }
    }
}
