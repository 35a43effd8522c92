//! Sizes in bytes, and rates in bytes per second.

use std::fmt;
use std::str::FromStr;

use super::{Duration, QuantityError, is_bare_number, serde_as_text, split_unit};

/// A size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteSize(u64);

/// A rate in bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataRate(u64);

impl ByteSize {
    /// A size of `bytes` bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Bytes.
    pub const fn as_bytes(self) -> u64 {
        self.0
    }
}

impl DataRate {
    /// A rate of `bytes` bytes per second.
    pub const fn from_bytes_per_s(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Bytes per second.
    pub const fn as_bytes_per_s(self) -> u64 {
        self.0
    }

    /// Returns the time that `size` takes at this rate, rounded up to the next nanosecond.
    ///
    /// # Panics
    /// If the rate is zero.
    pub fn time_for(self, size: ByteSize) -> Duration {
        let ns = (u128::from(size.0) * 1_000_000_000).div_ceil(u128::from(self.0));
        Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

impl FromStr for ByteSize {
    type Err = QuantityError;

    /// Reads `"64KiB"`, `"1.5 GiB"`, `"512B"`; `k`, `m` and `g` alone are refused, because programs
    /// disagree about them. The hint spells out both meanings.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let trimmed = text.trim();
        if trimmed == "0" {
            return Ok(Self(0));
        }
        if is_bare_number(trimmed) {
            return Err(QuantityError::new(
                text,
                "has no unit",
                format!("write a size, for example \"{trimmed}B\" or \"{trimmed}KiB\""),
            ));
        }
        if !trimmed.ends_with(['B', 'b']) {
            return Err(QuantityError::new(text, "has an ambiguous unit", spelt_out(trimmed, "")));
        }
        trimmed.parse::<bytesize::ByteSize>().map(|size| Self(size.0)).map_err(|_| {
            QuantityError::new(text, "is not a size", "write for example \"64KiB\" or \"1.5GB\"")
        })
    }
}

impl FromStr for DataRate {
    type Err = QuantityError;

    /// Reads `"160MB/s"`.
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let hint = "write a rate, for example \"160MB/s\"";
        if is_bare_number(text) {
            return Err(QuantityError::new(text, "has no unit", hint));
        }
        let amount = text.trim().strip_suffix("/s");
        let amount = amount.ok_or_else(|| QuantityError::new(text, "is not a rate", hint))?;
        let size = amount.parse::<ByteSize>().map_err(|error| {
            let is_ambiguous = !is_bare_number(amount) && !amount.ends_with(['B', 'b']);
            let hint = if is_ambiguous { spelt_out(amount.trim(), "/s") } else { hint.to_owned() };
            QuantityError::new(text, error.problem, hint)
        })?;
        if size.0 == 0 {
            return Err(QuantityError::new(text, "is out of range", "a rate lies above 0B/s"));
        }
        Ok(Self(size.0))
    }
}

impl fmt::Display for ByteSize {
    /// The shortest exact form, in binary units where they divide, else decimal ones.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(&exact(self.0))
    }
}

impl fmt::Display for DataRate {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(&format!("{}/s", exact(self.0)))
    }
}

/// Advice on a size whose unit is only a letter, such as `8k`, with both sizes that it can mean.
fn spelt_out(text: &str, behind: &str) -> String {
    const PREFIXES: [(&str, &str, &str); 5] =
        [("k", "Ki", "k"), ("m", "Mi", "M"), ("g", "Gi", "G"), ("t", "Ti", "T"), ("p", "Pi", "P")];
    let known = split_unit(text).and_then(|(_, unit)| {
        let letter = unit.to_ascii_lowercase();
        let letter = letter.strip_suffix('i').unwrap_or(&letter);
        let (_, binary, decimal) = PREFIXES.into_iter().find(|(prefix, ..)| *prefix == letter)?;
        let number = text[..text.len() - unit.len()].trim().replace('_', "");
        Some(format!(
            "write {number}{binary}B{behind} (powers of 1024) or {number}{decimal}B{behind} (powers of 1000)"
        ))
    });
    known.unwrap_or_else(|| {
        format!(
            "write KiB{behind}, MiB{behind}, GiB{behind} (powers of 1024) or kB{behind}, MB{behind}, GB{behind} \
             (powers of 1000)"
        )
    })
}

fn exact(bytes: u64) -> String {
    const UNITS: [(u64, &str); 8] = [
        (1 << 40, "TiB"),
        (1_000_000_000_000, "TB"),
        (1 << 30, "GiB"),
        (1_000_000_000, "GB"),
        (1 << 20, "MiB"),
        (1_000_000, "MB"),
        (1 << 10, "KiB"),
        (1_000, "kB"),
    ];
    UNITS
        .iter()
        .find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit))
        .map_or_else(|| format!("{bytes}B"), |(unit, name)| format!("{}{name}", bytes / unit))
}

serde_as_text!(ByteSize, "a size", "\"64KiB\"");
serde_as_text!(DataRate, "a rate", "\"160MB/s\"");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_unit() {
        assert_eq!("64KiB".parse(), Ok(ByteSize(65_536)));
        assert_eq!("64kB".parse(), Ok(ByteSize(64_000)));
        assert_eq!("1.5 GiB".parse(), Ok(ByteSize(1_610_612_736)));
        assert_eq!("512B".parse(), Ok(ByteSize(512)));
        assert_eq!("64k".parse::<ByteSize>().unwrap_err().problem, "has an ambiguous unit");
        assert_eq!("64".parse::<ByteSize>().unwrap_err().problem, "has no unit");
        assert!("xB".parse::<ByteSize>().is_err());
    }

    #[test]
    fn letter_alone_is_refused_with_both_sizes_that_it_can_mean() {
        for (text, binary, decimal) in [
            ("8k", "8KiB", "8kB"),
            ("8K", "8KiB", "8kB"),
            ("1.5 m", "1.5MiB", "1.5MB"),
            ("4M", "4MiB", "4MB"),
            ("2Gi", "2GiB", "2GB"),
            ("1_000t", "1000TiB", "1000TB"),
        ] {
            let error = text.parse::<ByteSize>().unwrap_err();
            assert_eq!(error.problem, "has an ambiguous unit");
            assert_eq!(
                error.hint,
                format!("write {binary} (powers of 1024) or {decimal} (powers of 1000)"),
                "{text}"
            );
            assert!(binary.parse::<ByteSize>().is_ok() && decimal.parse::<ByteSize>().is_ok(), "{text}");
            let rate = format!("{text}/s").parse::<DataRate>().unwrap_err();
            assert!(rate.hint.contains(&format!("{binary}/s")), "{rate}");
        }
        assert!("8x".parse::<ByteSize>().unwrap_err().hint.starts_with("write KiB, MiB, GiB"));
        assert_eq!("8KiB/m".parse::<DataRate>().unwrap_err().problem, "is not a rate");
    }

    #[test]
    fn rates_are_read_with_their_unit() {
        assert_eq!("160MB/s".parse(), Ok(DataRate(160_000_000)));
        assert_eq!("160MB".parse::<DataRate>().unwrap_err().problem, "is not a rate");
        assert_eq!("0B/s".parse::<DataRate>().unwrap_err().problem, "is out of range");
        assert_eq!(DataRate(160_000_000).time_for(ByteSize(512)), Duration::from_ns(3_200));
    }

    #[test]
    fn printed_sizes_round_trip() {
        for bytes in [0, 512, 1_000, 1_024, 65_536, 1_500_000, 1 << 40, 999_999_999_999] {
            assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }
    }
}
