//! Content of the data that writes send.
//!
//! ```text
//! 4 KiB of a write:  | address, number | random … zeroes | random … zeroes | …   each 512 B as compressible as was chosen
//! ```
//! # Scope and limits
//! Data that a device could store for less than their length falsify a measurement of devices that compress or
//! deduplicate, so that neither is possible by default. Reads are not compared with it; that is what verification is for.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use seeklab_core::{Ratio, Request};
use serde::{Deserialize, Serialize};

/// Bytes that begin with the address and number of their write.
const BLOCK_BYTES: usize = 4096;
/// Bytes of which the end is zero in compressible data, as by default in fio (`buffer_compress_chunk`).
const CHUNK_BYTES: usize = 512;
/// Blocks of which all duplicates are copies.
const ORIGINALS: usize = 64;
/// Bits of an address below the place of a block in its write.
const PLACE_SHIFT: u32 = 48;
/// Bytes of a pattern at most.
const PATTERN_MAX: usize = 512;

/// Content of the data that writes send, as text: `random`, `zeroes`, `pattern=HEX`, `compressible=50%`, `duplicates=20%`, or
/// the last two with a comma between.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum WriteData {
    /// Random bytes.
    Random {
        /// Share of every 512 B that is zero, in `[0, 1]`.
        compressible: Ratio,
        /// Share of the blocks of 4 KiB that are copies of one of 64 blocks, in `[0, 1]`.
        duplicates: Ratio,
    },
    /// These bytes, again and again from the begin of every write. Never empty.
    Pattern(Vec<u8>),
}

impl Default for WriteData {
    fn default() -> Self {
        Self::Random { compressible: Ratio::ZERO, duplicates: Ratio::ZERO }
    }
}

impl FromStr for WriteData {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |part: &str, problem: &str| {
            format!(
                "`{part}`: {problem}; write random, zeroes, pattern=HEX such as pattern=deadbeef, or \
                 compressible=50%,duplicates=20%"
            )
        };
        match text.trim() {
            "random" => return Ok(Self::default()),
            "zeroes" => return Ok(Self::Pattern(vec![0])),
            text => {
                if let Some(digits) = text.strip_prefix("pattern=") {
                    return pattern(digits).map(Self::Pattern).map_err(|problem| wrong(text, problem));
                }
            }
        }
        let (mut compressible, mut duplicates) = (None, None);
        for part in text.split(',').map(str::trim) {
            let (name, share) = part.split_once('=').ok_or_else(|| wrong(part, "is not known"))?;
            let place = match name.trim() {
                "compressible" => &mut compressible,
                "duplicates" => &mut duplicates,
                _ => return Err(wrong(part, "is not known")),
            };
            let share: Ratio = share.parse().map_err(|_| wrong(part, "has no share"))?;
            if share > Ratio::ONE {
                return Err(wrong(part, "is more than 100%"));
            }
            if place.replace(share).is_some() {
                return Err(wrong(part, "stands there twice"));
            }
        }
        let (compressible, duplicates) =
            (compressible.unwrap_or(Ratio::ZERO), duplicates.unwrap_or(Ratio::ZERO));
        Ok(Self::Random { compressible, duplicates })
    }
}

fn pattern(digits: &str) -> Result<Vec<u8>, &'static str> {
    let digits = digits.strip_prefix("0x").unwrap_or(digits).as_bytes();
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return Err("needs two hexadecimal digits for each byte");
    }
    if digits.len() > 2 * PATTERN_MAX {
        return Err("has more than 512 bytes");
    }
    let digit = |digit: u8| (digit as char).to_digit(16).map(|value| value as u8);
    let byte = |pair: &[u8]| Some(16 * digit(pair[0])? + digit(pair[1])?);
    digits.chunks(2).map(byte).collect::<Option<_>>().ok_or("has other characters than hexadecimal digits")
}

impl fmt::Display for WriteData {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random { .. } if *self == Self::default() => formatter.write_str("random"),
            Self::Random { compressible, duplicates } if *duplicates == Ratio::ZERO => {
                write!(formatter, "compressible={compressible}")
            }
            Self::Random { compressible, duplicates } if *compressible == Ratio::ZERO => {
                write!(formatter, "duplicates={duplicates}")
            }
            Self::Random { compressible, duplicates } => {
                write!(formatter, "compressible={compressible},duplicates={duplicates}")
            }
            Self::Pattern(bytes) if bytes == &[0] => formatter.write_str("zeroes"),
            Self::Pattern(bytes) => {
                formatter.write_str("pattern=")?;
                bytes.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
            }
        }
    }
}

impl TryFrom<String> for WriteData {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<WriteData> for String {
    fn from(data: WriteData) -> Self {
        data.to_string()
    }
}

/// Makes the data of writes.
#[derive(Debug)]
pub(crate) struct Filler {
    data: WriteData,
    seed: u64,
    /// The blocks of which duplicates are copies, one after the other.
    originals: Vec<u8>,
}

impl Filler {
    pub(crate) fn new(data: &WriteData, seed: u64) -> Self {
        let mut this = Self { data: data.clone(), seed, originals: Vec::new() };
        if let WriteData::Random { duplicates, .. } = data
            && *duplicates > Ratio::ZERO
        {
            let mut originals = vec![0; ORIGINALS * BLOCK_BYTES];
            this.fill(&mut originals, 0);
            this.originals = originals;
        }
        this
    }

    /// Fills the memory of a buffer, once, before it is used. Memory of another number differs.
    pub(crate) fn fill(&self, memory: &mut [u8], number: u64) {
        match &self.data {
            WriteData::Pattern(pattern) => {
                for piece in memory.chunks_mut(pattern.len()) {
                    piece.copy_from_slice(&pattern[..piece.len()]);
                }
            }
            WriteData::Random { compressible, .. } => {
                random(memory, self.seed ^ number);
                let zeroes = (compressible.as_f64() * CHUNK_BYTES as f64).round() as usize;
                for chunk in memory.chunks_mut(CHUNK_BYTES) {
                    let from = chunk.len() - zeroes.min(chunk.len());
                    chunk[from..].fill(0);
                }
            }
        }
    }

    /// Makes the filled memory the data of this write.
    pub(crate) fn make(&self, bytes: &mut [u8], request: &Request) {
        let WriteData::Random { duplicates, .. } = &self.data else { return };
        for (index, block) in bytes.chunks_mut(BLOCK_BYTES).enumerate() {
            if !self.originals.is_empty() {
                let draw = mixed(self.seed ^ mixed(request.id.0 ^ mixed(request.lbn ^ index as u64)));
                // The upper 53 bits as a number in [0, 1).
                if ((draw >> 11) as f64) < duplicates.as_f64() * (1_u64 << 53) as f64 {
                    let original = (draw as usize % ORIGINALS) * BLOCK_BYTES;
                    block.copy_from_slice(&self.originals[original..original + block.len()]);
                    continue;
                }
            }
            if let Some(head) = block.get_mut(..16) {
                // Blocks of one write can lie over copies of one original.
                let place = request.lbn ^ ((index as u64) << PLACE_SHIFT);
                head[..8].copy_from_slice(&place.to_le_bytes());
                head[8..].copy_from_slice(&request.id.0.to_le_bytes());
            }
        }
    }
}

/// Fills memory with the output of SplitMix64.
fn random(memory: &mut [u8], seed: u64) {
    let mut state = seed;
    for chunk in memory.chunks_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        chunk.copy_from_slice(&mixed(state).to_le_bytes()[..chunk.len()]);
    }
}

/// The output function of SplitMix64.
const fn mixed(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use seeklab_core::Operation;

    use super::*;

    fn written(text: &str, writes: u64, length: usize) -> Vec<u8> {
        let filler = Filler::new(&text.parse().unwrap(), 7);
        let mut memory = vec![0; length];
        filler.fill(&mut memory, 3);
        let write = |number| {
            filler
                .make(&mut memory, &Request::new(number, Operation::Write, 8 * number, length as u32 / 512));
            memory.clone()
        };
        (0..writes).flat_map(write).collect()
    }

    #[test]
    fn contents_are_read_and_shown() {
        for text in ["random", "zeroes", "pattern=00ff10", "compressible=0.5", "duplicates=0.2"] {
            assert_eq!(text.parse::<WriteData>().unwrap().to_string(), text);
        }
        let both: WriteData = " duplicates=0.25 , compressible=75%".parse().unwrap();
        assert_eq!(both.to_string(), "compressible=0.75,duplicates=0.25");
        assert_eq!("pattern=0xAB".parse(), Ok(WriteData::Pattern(vec![0xab])));
        assert_eq!("compressible=0%".parse(), Ok(WriteData::default()));
        for (text, problem) in [
            ("", "is not known"),
            ("noise", "is not known"),
            ("pattern=", "two hexadecimal digits"),
            ("pattern=abc", "two hexadecimal digits"),
            ("pattern=zz", "other characters"),
            ("pattern=+1", "other characters"),
            ("compressible=101%", "more than 100%"),
            ("compressible=-1%", "has no share"),
            ("compressible=1%,compressible=2%", "twice"),
            ("duplicates=half", "has no share"),
        ] {
            let error = text.parse::<WriteData>().unwrap_err();
            assert!(error.contains(problem) && error.contains("pattern=deadbeef"), "{text}: {error}");
        }
        assert!(
            format!("pattern={}", "00".repeat(513))
                .parse::<WriteData>()
                .unwrap_err()
                .contains("more than 512")
        );
    }

    #[test]
    fn random_data_have_no_block_twice_and_do_not_shrink() {
        let bytes = written("random", 200, 8192);
        let blocks: BTreeMap<&[u8], u64> = count(&bytes);
        assert_eq!(blocks.len(), 400);
        assert!(shrunk(&bytes) > 0.995, "{}", shrunk(&bytes));
    }

    #[test]
    fn compressible_share_is_what_a_compressor_saves() {
        for (text, left) in [("compressible=50%", 0.5), ("compressible=90%", 0.1)] {
            let bytes = written(text, 50, 65_536);
            let found = shrunk(&bytes);
            // The signature of each 4 KiB and the codes of the runs of zeroes come on top.
            assert!((left..left + 0.03).contains(&found), "{text}: {found}");
            assert_eq!(count(&bytes).len(), 50 * 16, "no block twice");
        }
    }

    #[test]
    fn duplicate_share_is_what_deduplication_saves() {
        for share in [0.2, 0.8] {
            let bytes = written(&format!("duplicates={share}"), 1000, 16_384);
            let blocks = count(&bytes);
            let copies: u64 = blocks.values().filter(|count| **count > 1).sum();
            let found = copies as f64 / 4000.0;
            assert!((found - share).abs() < 0.03, "{share}: {found}");
            assert!(blocks.values().filter(|count| **count > 1).count() <= ORIGINALS);
        }
    }

    #[test]
    fn patterns_repeat_from_the_begin_of_each_write() {
        let bytes = written("pattern=010203", 3, 1024);
        for write in bytes.chunks(1024) {
            assert!(write.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 3 + 1));
        }
        assert!(written("zeroes", 2, 512).iter().all(|byte| *byte == 0));
    }

    fn count(bytes: &[u8]) -> BTreeMap<&[u8], u64> {
        let mut blocks = BTreeMap::new();
        bytes.chunks(BLOCK_BYTES).for_each(|block| *blocks.entry(block).or_default() += 1);
        blocks
    }

    /// Part that is left by an ideal compressor of bytes and runs of zeroes.
    fn shrunk(bytes: &[u8]) -> f64 {
        let mut left = 0;
        for chunk in bytes.chunk_by(|one, other| (*one == 0) == (*other == 0)) {
            left += if chunk[0] == 0 { 2.min(chunk.len()) } else { chunk.len() };
        }
        left as f64 / bytes.len() as f64
    }
}
