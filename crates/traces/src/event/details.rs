//! Fields of an event of the block layer, as the kernel prints them.

use crate::event::text::device;
use crate::parse::number::unsigned;

/// Fields behind the name of an event.
pub(crate) struct Details<'a> {
    /// Major and minor number.
    pub(crate) device: (u32, u32),
    /// Operation and flags.
    pub(crate) letters: &'a [u8],
    pub(crate) sector: u64,
    pub(crate) sectors: u32,
    /// Process or error, in brackets.
    pub(crate) last: &'a [u8],
}

impl<'a> Details<'a> {
    pub(crate) fn parse(text: &'a [u8]) -> Option<Self> {
        let mut fields = text.splitn(3, |byte| *byte == b' ');
        let device = device(fields.next()?)?;
        let letters = fields.next()?;
        let rest = fields.next()?.trim_ascii();
        if letters.len() > 8 || !letters.iter().all(u8::is_ascii_uppercase) {
            return None;
        }
        // Bytes of an issue, then a command in parentheses.
        let rest = match rest.iter().position(|byte| *byte == b'(') {
            Some(open) if !rest[..open].contains(&b'+') => {
                let bytes = rest[..open].trim_ascii();
                let close = rest[open..].iter().position(|byte| *byte == b')')?;
                if !bytes.is_empty() {
                    unsigned(bytes).ok()?;
                }
                rest[open + close + 1..].trim_ascii_start()
            }
            _ => rest,
        };
        let mut fields = rest.splitn(4, |byte| *byte == b' ');
        let sector = unsigned(fields.next()?).ok()?;
        if fields.next()? != b"+" {
            return None;
        }
        let sectors = u32::try_from(unsigned(fields.next()?).ok()?).ok()?;
        // Newer kernels print the priority before the brackets.
        let last = fields.next()?;
        let last = last[last.iter().position(|byte| *byte == b'[')? + 1..].strip_suffix(b"]")?;
        Some(Self { device, letters, sector, sectors, last })
    }
}
