//! Options of a fio job on the content of its writes and on its I/O priority.

use seeklab_bench::{IoPriority, WriteData};
use seeklab_core::Ratio;

/// Options of the content of writes.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) is_zero: bool,
    pub(super) pattern: Option<Vec<u8>>,
    pub(super) compressible: f64,
    pub(super) duplicates: f64,
}

impl Contents {
    /// The content, or the reason for which the options contradict each other.
    pub(super) fn data(self) -> Result<WriteData, String> {
        let ratio = |share| Ratio::new(share).unwrap_or_default();
        let shares = self.compressible + self.duplicates;
        match (self.is_zero, self.pattern) {
            (false, None) => Ok(WriteData::Random {
                compressible: ratio(self.compressible),
                duplicates: ratio(self.duplicates),
            }),
            (true, None) if shares == 0.0 => Ok(WriteData::Pattern(vec![0])),
            (false, Some(pattern)) if shares == 0.0 => Ok(WriteData::Pattern(pattern)),
            _ => Err("one of zero_buffers, buffer_pattern, and the percentages of the buffers is allowed"
                .to_owned()),
        }
    }
}

/// The bytes of `buffer_pattern`: hexadecimal digits behind `0x`, or a text between quotes.
pub(super) fn pattern(value: &str) -> Result<Vec<u8>, String> {
    if let Some(text) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'))
        && !text.is_empty()
        && !text.contains(['"', '\\'])
    {
        return Ok(text.as_bytes().to_vec());
    }
    let digits = value.strip_prefix("0x").filter(|digits| !digits.is_empty());
    let digits = digits
        .ok_or_else(|| "hexadecimal digits behind 0x, or a text between quotes are allowed".to_owned())?;
    let even = if digits.len() % 2 == 0 { digits.to_owned() } else { format!("0{digits}") };
    match format!("pattern={even}").parse() {
        Ok(WriteData::Pattern(bytes)) => Ok(bytes),
        Ok(WriteData::Random { .. }) => Err("is no pattern".to_owned()),
        Err(problem) => Err(problem),
    }
}

/// A whole number up to `most`.
pub(super) fn level(value: &str, most: u8) -> Result<u8, String> {
    value.parse().ok().filter(|level| *level <= most).ok_or_else(|| format!("0 to {most} are allowed"))
}

/// Priority of `prio` and `prioclass`: the class is best effort unless chosen.
pub(super) fn priority(level: Option<u8>, class: Option<u8>) -> Option<IoPriority> {
    let level = level.or(class.map(|_| 0))?;
    match class {
        Some(1) => Some(IoPriority::RealTime(level)),
        None | Some(2) => Some(IoPriority::BestEffort(level)),
        Some(3) => Some(IoPriority::Idle),
        // None of them: that of the process.
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(contents: Contents) -> Result<String, String> {
        contents.data().map(|data| data.to_string())
    }

    #[test]
    fn contents_are_those_of_fio() {
        assert_eq!(data(Contents::default()), Ok("random".to_owned()));
        let zero = || Contents { is_zero: true, ..Contents::default() };
        assert_eq!(data(zero()), Ok("zeroes".to_owned()));
        let bytes = |value: &str| pattern(value).unwrap();
        // 0xdeadface of fio's documentation: the bytes in the order in which they are written.
        assert_eq!(bytes("0xdeadface"), [0xde, 0xad, 0xfa, 0xce]);
        assert_eq!(bytes("0xabc"), [0x0a, 0xbc]);
        assert_eq!(bytes("\"abcd\""), b"abcd");
        for value in ["", "0x", "0xzz", "-12", "'file'", "\"\"", "\"abcd\"-12"] {
            assert!(pattern(value).is_err(), "{value}");
        }
        let shares = Contents { compressible: 0.5, duplicates: 0.25, ..Contents::default() };
        assert_eq!(data(shares), Ok("compressible=0.5,duplicates=0.25".to_owned()));
        assert!(data(Contents { compressible: 0.5, ..zero() }).is_err());
        assert!(data(Contents { pattern: Some(vec![1]), ..zero() }).is_err());
    }

    #[test]
    fn priorities_are_those_of_fio() {
        let text = |level, class| priority(level, class).map(|priority| priority.to_string());
        assert_eq!(text(None, None), None);
        assert_eq!(text(Some(3), None), Some("best-effort:3".to_owned()));
        assert_eq!(text(None, Some(1)), Some("realtime:0".to_owned()));
        assert_eq!(text(Some(7), Some(3)), Some("idle".to_owned()));
        assert_eq!(text(Some(7), Some(0)), None);
        assert_eq!(level("8", 7), Err("0 to 7 are allowed".to_owned()));
    }
}
