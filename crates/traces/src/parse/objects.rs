//! Objects (files, chunks) that have a name instead of an address, laid side by side.
//!
//! Each object gets a slot of one size in order of appearance: object 0 begins at byte 0, object 1 at one
//! slot, and so on. Where in its object a request lies is kept, where the object lies on the medium is not
//! known to the trace: distances within an object are real, those between objects are not.
//!
//! # Scope and limits
//! A request takes every block that it touches; a note says how many bytes that adds.
//!
//! A request beyond the end of its slot is an error, not an overlap. 2,097,152 objects are the most, so
//! that memory stays bounded.

use std::collections::BTreeMap;

use crate::error::Problem;
use crate::parse::extent::covering;
use crate::parse::rounding::Rounding;
use crate::trace_format::Note;

/// Maximum number of different objects.
const OBJECTS_MAX: usize = 1 << 21;

/// Lays out objects.
#[derive(Debug)]
pub(crate) struct Objects {
    slot_bytes: u64,
    block_size: u64,
    places: BTreeMap<Box<[u8]>, u32>,
    rounding: Rounding,
}

/// Bytes that a name may have.
const NAME_BYTES_MAX: usize = 256;

impl Objects {
    /// Slots of `slot_bytes`, blocks of `block_size` bytes.
    pub(crate) fn new(slot_bytes: u64, block_size: u64) -> Self {
        Self { slot_bytes, block_size, places: BTreeMap::new(), rounding: Rounding::NONE }
    }

    /// First block and number of blocks that `size` bytes at `offset` of the object touch; the fields have
    /// these names.
    pub(crate) fn extent(
        &mut self,
        fields: [&'static str; 2],
        object: &[u8],
        offset: u64,
        size: u64,
    ) -> Result<(u64, u32), Box<Problem>> {
        if offset.checked_add(size).is_none_or(|end| end > self.slot_bytes) {
            let end = u128::from(offset) + u128::from(size);
            let problem = format!("the request ends {end} bytes into it, its slot has {}", self.slot_bytes);
            return Err(Problem::new(fields[0], object, problem).hint(
                "set a larger slot with `--format-option slot=SIZE`, for example `--format-option slot=1GiB`",
            ));
        }
        let known = self.places.len();
        if !(1..=NAME_BYTES_MAX).contains(&object.len()) {
            return Err(Problem::new(fields[0], object, "a name of 1 to 256 bytes is allowed"));
        }
        let place = match self.places.get(object) {
            Some(place) => *place,
            None if known == OBJECTS_MAX => {
                let problem = format!("more than {OBJECTS_MAX} of them are too many");
                return Err(Problem::new(fields[0], object, problem));
            }
            None => {
                self.places.insert(object.into(), known as u32);
                known as u32
            }
        };
        let extent = u64::from(place)
            .checked_mul(self.slot_bytes)
            .and_then(|start| covering(start.checked_add(offset)?, size, self.block_size))
            .ok_or_else(|| {
                Problem::new(fields[1], size.to_string(), "it lies beyond what can be addressed")
            })?;
        self.rounding.count(size, extent.1, self.block_size);
        Ok(extent)
    }

    /// Appends a note of the requests that were rounded to whole blocks.
    pub(crate) fn notes(&self, notes: &mut Vec<Note>) {
        self.rounding.notes(self.block_size, notes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: [&str; 2] = ["object", "offset"];

    #[test]
    fn every_object_has_its_own_slot() {
        let mut objects = Objects::new(4096, 512);
        let hash = "d206e7d484caba36fa936dffa618118382e36e0a616a4117f4d13d06b7dc7fe6";
        assert_eq!(objects.extent(FIELDS, b"a", 512, 100), Ok((1, 1)));
        assert_eq!(objects.extent(FIELDS, hash.as_bytes(), 0, 4096), Ok((8, 8)));
        assert_eq!(objects.extent(FIELDS, b"a", 500, 100), Ok((0, 2)));
        assert_eq!(objects.extent(FIELDS, hash.as_bytes(), 4095, 1), Ok((15, 1)));
        let problem = objects.extent(FIELDS, b"a", 4000, 97).unwrap_err();
        assert!(problem.to_string().contains("ends 4097 bytes into it"), "{problem}");
        assert!(objects.extent(FIELDS, b"a", u64::MAX, 1).is_err());
        assert!(objects.extent(FIELDS, b"", 0, 1).is_err());
        assert!(objects.extent(FIELDS, &[b'0'; 257], 0, 1).is_err());
    }
}
