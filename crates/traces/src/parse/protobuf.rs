//! The wire form of protocol buffers, as far as telemetry needs it.
//!
//! # References
//! Protocol Buffers, encoding: base-128 numbers, keys of `field << 3 | type`.

/// A number of up to 64 bits, seven bits a byte, lowest first, and what is behind it; `None` where the bytes
/// end or the number does not fit.
pub(crate) fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0_u64;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        if index == 9 && bits > 1 {
            return None;
        }
        number |= bits << (7 * index);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[index + 1..]));
        }
    }
    None
}

/// The fields of a message: their numbers and values.
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// Of type 0, 1 or 5.
    Number(u64),
    /// Of type 2: text, bytes or a message.
    Bytes(&'a [u8]),
}

impl<'a> Fields<'a> {
    pub(crate) const fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn take(&mut self) -> Result<(u64, Value<'a>), &'static str> {
        const CUT: &str = "a message ends within a field";
        let (key, rest) = varint(self.rest).ok_or(CUT)?;
        let (value, rest) = match key & 7 {
            0 => {
                let (number, rest) = varint(rest).ok_or(CUT)?;
                (Value::Number(number), rest)
            }
            1 => {
                let (bytes, rest) = rest.split_first_chunk::<8>().ok_or(CUT)?;
                (Value::Number(u64::from_le_bytes(*bytes)), rest)
            }
            2 => {
                let (length, rest) = varint(rest).ok_or(CUT)?;
                let length = usize::try_from(length).map_err(|_| CUT)?;
                let (bytes, rest) = rest.split_at_checked(length).ok_or(CUT)?;
                (Value::Bytes(bytes), rest)
            }
            5 => {
                let (bytes, rest) = rest.split_first_chunk::<4>().ok_or(CUT)?;
                (Value::Number(u64::from(u32::from_le_bytes(*bytes))), rest)
            }
            _ => return Err("a field has a type that protobuf does not have"),
        };
        self.rest = rest;
        match key >> 3 {
            0 => Err("a field has the number zero"),
            field => Ok((field, value)),
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.take();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_of_any_length_are_read_and_overlong_numbers_refused() {
        assert_eq!(varint(&[0x96, 0x01, 9]), Some((150, &[9][..])));
        let mut longest = [0xff; 10];
        longest[9] = 1;
        assert_eq!(varint(&longest), Some((u64::MAX, &[][..])));
        longest[9] = 2;
        assert_eq!(varint(&longest), None);
        assert_eq!(varint(&[0x80; 20]), None);
        assert_eq!(varint(&[]), None);
    }

    #[test]
    fn fields_of_every_type_are_read() {
        let bytes = [0x08, 7, 0x12, 2, b'a', b'b', 0x1d, 1, 0, 0, 0, 0x21, 2, 0, 0, 0, 0, 0, 0, 0];
        let fields: Vec<_> = Fields::of(&bytes).collect::<Result<_, _>>().unwrap();
        assert_eq!(
            fields,
            [(1, Value::Number(7)), (2, Value::Bytes(b"ab")), (3, Value::Number(1)), (4, Value::Number(2))]
        );
        assert!(Fields::of(&[0x12, 200, 1]).next().unwrap().is_err());
        assert!(Fields::of(&[0x0b]).next().unwrap().is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_yield_a_result(bytes: Vec<u8>) {
            prop_assert!(Fields::of(&bytes).count() <= bytes.len());
        }
    }
}
