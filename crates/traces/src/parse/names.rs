//! Names in a trace, of devices or processes, as numbers in order of appearance.

use std::collections::BTreeMap;

use crate::error::Problem;
use crate::metadata::Metadata;

/// Maximum number of different names. More are an error, so memory stays bounded.
const NAMES_MAX: usize = 1 << 16;

/// Numbers names 0, 1, 2 and so on as they appear.
#[derive(Debug, Default)]
pub(crate) struct Names {
    numbers: BTreeMap<Box<[u8]>, u16>,
    /// Name of the previous lookup. Rows of one device often follow each other.
    last: Vec<u8>,
    last_number: u16,
}

impl Names {
    /// The number of `name`, and whether it is new.
    #[inline]
    pub(crate) fn number(&mut self, field: &'static str, name: &[u8]) -> Result<(u16, bool), Box<Problem>> {
        if *name == *self.last && !self.numbers.is_empty() {
            return Ok((self.last_number, false));
        }
        let known = self.numbers.get(name).copied();
        let number = match known {
            Some(number) => number,
            None => self.add(field, name)?,
        };
        self.last.clear();
        self.last.extend_from_slice(name);
        self.last_number = number;
        Ok((number, known.is_none()))
    }

    /// The number of `name` if it appeared before.
    #[inline]
    pub(crate) fn find(&self, name: &[u8]) -> Option<u16> {
        if *name == *self.last && !self.numbers.is_empty() {
            return Some(self.last_number);
        }
        self.numbers.get(name).copied()
    }

    #[cold]
    fn add(&mut self, field: &'static str, name: &[u8]) -> Result<u16, Box<Problem>> {
        if self.numbers.len() == NAMES_MAX {
            return Err(Problem::new(field, name, format!("more than {NAMES_MAX} of them are too many")));
        }
        if name.is_empty() || std::str::from_utf8(name).is_ok_and(|name| name.contains(char::is_control)) {
            return Err(Problem::new(field, name, "a name is allowed"));
        }
        let number = self.numbers.len() as u16;
        self.numbers.insert(name.into(), number);
        Ok(number)
    }

    /// The number of the device of that name; a new one is labelled.
    #[inline]
    pub(crate) fn device(
        &mut self,
        field: &'static str,
        name: &[u8],
        metadata: &mut Metadata,
    ) -> Result<u16, Box<Problem>> {
        let (number, new) = self.number(field, name)?;
        if new {
            metadata.labels.push(String::from_utf8_lossy(name).into_owned());
        }
        Ok(number)
    }

    /// The number of the initiator of that name; a new one is noted in the metadata.
    #[inline]
    pub(crate) fn initiator(
        &mut self,
        field: &'static str,
        name: &[u8],
        metadata: &mut Metadata,
    ) -> Result<u32, Box<Problem>> {
        let (number, new) = self.number(field, name)?;
        if new {
            let label = String::from_utf8_lossy(name).into_owned();
            metadata.other.insert(format!("initiator.{number}"), label);
        }
        Ok(u32::from(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbered_in_order_of_appearance() {
        let (mut names, mut metadata) = (Names::default(), Metadata::default());
        let numbers: Vec<_> =
            [&b"b"[..], b"a", b"b", b"a"].map(|name| names.device("DISK", name, &mut metadata)).into();
        assert_eq!(numbers, [Ok(0), Ok(1), Ok(0), Ok(1)]);
        assert_eq!(metadata.labels, ["b", "a"]);
        assert!(names.device("DISK", b"", &mut metadata).is_err());
        assert!(names.device("DISK", b"a\0", &mut metadata).is_err());
    }

    #[test]
    fn number_of_names_is_bounded() {
        let mut names = Names::default();
        for number in 0..NAMES_MAX {
            names.number("DISK", number.to_string().as_bytes()).unwrap();
        }
        assert!(names.number("DISK", b"one more").unwrap_err().to_string().contains("65536"));
        assert_eq!(names.number("DISK", b"65535"), Ok((65_535, false)));
    }
}
