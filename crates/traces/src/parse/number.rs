//! Numbers in traces: unsigned integers and decimals, read with integer arithmetic alone.

use crate::error::Problem;

/// Reason why a text is not a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotNumber {
    Malformed,
    TooLarge,
}

/// Reads decimal digits, nothing else.
#[inline]
pub(crate) fn unsigned(text: &[u8]) -> Result<u64, NotNumber> {
    if text.is_empty() {
        return Err(NotNumber::Malformed);
    }
    let mut value: u64 = 0;
    // Nineteen digits always fit.
    let (safe, rest) = text.split_at(text.len().min(19));
    for byte in safe {
        value = value * 10 + digit(*byte)?;
    }
    for byte in rest {
        let digit = digit(*byte)?;
        value = value.checked_mul(10).and_then(|v| v.checked_add(digit)).ok_or(NotNumber::TooLarge)?;
    }
    Ok(value)
}

/// Returns how many digits `text` begins with, and their value. Reads at most nineteen digits, which always
/// fit.
#[inline]
pub(crate) fn leading_number(text: &[u8]) -> (usize, u64) {
    let mut value: u64 = 0;
    for (index, byte) in text.iter().enumerate().take(19) {
        match digit(*byte) {
            Ok(digit) => value = value * 10 + digit,
            Err(_) => return (index, value),
        }
    }
    (text.len().min(19), value)
}

/// Reads hexadecimal digits, with or without `0x`.
pub(crate) fn hexadecimal(text: &[u8]) -> Result<u64, NotNumber> {
    let digits = text.strip_prefix(b"0x").unwrap_or(text);
    if digits.is_empty() {
        return Err(NotNumber::Malformed);
    }
    let mut value: u64 = 0;
    for byte in digits {
        let digit = (*byte as char).to_digit(16).ok_or(NotNumber::Malformed)?;
        if value >> 60 != 0 {
            return Err(NotNumber::TooLarge);
        }
        value = value << 4 | u64::from(digit);
    }
    Ok(value)
}

/// Reads a decimal such as `12.345` in units of 10^-`scale`: milliseconds with scale 6 give
/// nanoseconds. Digits beyond the scale round half up; sign and exponent are not allowed.
#[inline]
pub(crate) fn decimal(text: &[u8], scale: u32) -> Result<u64, NotNumber> {
    let point = text.iter().position(|byte| *byte == b'.');
    let (whole, fraction) = match point {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (text, &[][..]),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(NotNumber::Malformed);
    }
    let mut value = if whole.is_empty() { 0 } else { unsigned(whole)? };
    let (kept, dropped) = fraction.split_at(fraction.len().min(scale as usize));
    let mut part: u64 = 0;
    for byte in kept {
        part = part * 10 + digit(*byte)?;
    }
    part *= 10_u64.pow(scale - kept.len() as u32);
    if let Some(first) = dropped.first() {
        part += u64::from(*first >= b'5');
        for byte in dropped {
            digit(*byte)?;
        }
    }
    value = value.checked_mul(10_u64.pow(scale)).ok_or(NotNumber::TooLarge)?;
    value.checked_add(part).ok_or(NotNumber::TooLarge)
}

#[inline]
fn digit(byte: u8) -> Result<u64, NotNumber> {
    let digit = byte.wrapping_sub(b'0');
    if digit < 10 { Ok(u64::from(digit)) } else { Err(NotNumber::Malformed) }
}

/// The unsigned integer in `field`, at most `max`.
#[inline]
pub(crate) fn integer(field: &'static str, text: &[u8], max: u64) -> Result<u64, Box<Problem>> {
    match unsigned(text) {
        Ok(value) if value <= max => Ok(value),
        _ => Err(Problem::new(field, text, format!("a whole number from 0 to {max} is allowed"))),
    }
}

/// The decimal number of `unit` in `field`, in units of 10^-`scale`.
#[inline]
pub(crate) fn time(field: &'static str, text: &[u8], scale: u32, unit: &str) -> Result<u64, Box<Problem>> {
    decimal(text, scale).map_err(|error| match error {
        NotNumber::TooLarge => {
            Problem::new(field, text, format!("{unit} are too many, the clock ends after 584 years"))
        }
        NotNumber::Malformed => Problem::new(
            field,
            text,
            format!("a decimal number of {unit} without sign or exponent is allowed"),
        ),
    })
}

/// The digits of 0 to 99.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[b'0'; 2]; 100];
    let mut value = 0;
    while value < pairs.len() {
        pairs[value] = [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8];
        value += 1;
    }
    pairs
};

/// Appends `value` to `line`.
#[inline]
pub(crate) fn push_unsigned(line: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    while value >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(value % 100) as usize]);
        value /= 100;
    }
    // A single digit is left, unless the pairs took them all.
    if value > 0 || at == digits.len() {
        at -= 1;
        digits[at] = b'0' + value as u8;
    }
    line.extend_from_slice(&digits[at..]);
}

/// Appends `value`, in units of 10^-`scale`, as a decimal with all its digits.
pub(crate) fn push_decimal(line: &mut Vec<u8>, value: u64, scale: u32) {
    let one = 10_u64.pow(scale);
    push_unsigned(line, value / one);
    let point = line.len();
    // A leading one keeps the zeroes of the fraction; it becomes the point.
    push_unsigned(line, one + value % one);
    line[point] = b'.';
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimals_are_exact_to_the_nanosecond() {
        assert_eq!(decimal(b"12.345", 6), Ok(12_345_000));
        assert_eq!(decimal(b"0.0000005", 6), Ok(1));
        assert_eq!(decimal(b"0.00000049999", 6), Ok(0));
        assert_eq!(decimal(b"0.9999999", 6), Ok(1_000_000));
        assert_eq!(decimal(b".5", 3), Ok(500));
        assert_eq!(decimal(b"5.", 3), Ok(5_000));
        assert_eq!(decimal(b"18446744073.709551615", 9), Ok(u64::MAX));
    }

    #[test]
    fn numbers_too_large_are_refused() {
        assert_eq!(decimal(b"18446744073.709551616", 9), Err(NotNumber::TooLarge));
        assert_eq!(decimal(b"18446744073.7095516155", 9), Err(NotNumber::TooLarge));
        assert_eq!(unsigned(b"18446744073709551615"), Ok(u64::MAX));
        assert_eq!(unsigned(b"18446744073709551616"), Err(NotNumber::TooLarge));
        assert_eq!(unsigned(b"00000000000000000000000000000007"), Ok(7));
        assert_eq!(hexadecimal(b"ffffffffffffffff"), Ok(u64::MAX));
        assert_eq!(hexadecimal(b"10000000000000000"), Err(NotNumber::TooLarge));
    }

    #[test]
    fn text_that_is_no_number_is_refused() {
        for text in
            [&b""[..], b".", b"-1", b"+1", b"1e3", b"1.2.3", b"1 ", b"1.00000000000x", b"nan", b"\xb2"]
        {
            assert_eq!(decimal(text, 9), Err(NotNumber::Malformed), "{text:?}");
        }
        assert_eq!(hexadecimal(b"0x"), Err(NotNumber::Malformed));
        assert_eq!(hexadecimal(b"g"), Err(NotNumber::Malformed));
    }

    proptest! {
        #[test]
        fn printing_round_trips(value: u64, scale in 1_u32..=9) {
            let mut line = Vec::new();
            push_decimal(&mut line, value, scale);
            prop_assert_eq!(decimal(&line, scale), Ok(value));
            line.clear();
            push_unsigned(&mut line, value);
            prop_assert_eq!(unsigned(&line), Ok(value));
        }
    }
}
