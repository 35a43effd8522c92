//! Headers of formats whose columns stand in one order: the line with their names, which not every copy of a trace has.
//!
//! Publications, scripts and the traces themselves spell the names differently, so each column has several names. Capital
//! and small letters, `_`, `-`, blanks and quotation marks make no difference. The order must be that of the format: a
//! header with other names or another order is refused as a row.

/// Names of the columns of a format, for each column in its order those in use: small letters and digits only.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header(pub(crate) &'static [&'static [&'static str]]);

impl Header {
    /// A format whose traces have no header.
    pub(crate) const NONE: Self = Self(&[]);

    /// Returns true if `line` has a name of each column, in order, and nothing else.
    #[cold]
    pub(crate) fn matches(&self, line: &[u8]) -> bool {
        let mut fields = line.split(|byte| *byte == b',');
        !self.0.is_empty()
            && self.0.iter().all(|names| {
                fields.next().is_some_and(|field| {
                    let name = plain(field);
                    names.iter().any(|known| known.as_bytes() == name)
                })
            })
            && fields.next().is_none()
    }
}

/// The letters and digits of `field` in small letters. Signs other than those between words are kept.
fn plain(field: &[u8]) -> Vec<u8> {
    let counts = |byte: &&u8| !matches!(byte, b'_' | b'-' | b' ' | b'\t' | b'\r' | b'"');
    field.iter().filter(counts).map(u8::to_ascii_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header(&[&["timestamp", "time"], &["volumeid", "volume"]]);

    #[test]
    fn names_match_in_every_spelling_and_in_the_order_of_the_format() {
        for line in ["Timestamp,VolumeID", "time, volume", "\"TIME\",\"volume_id\"", "timestamp\t,Volume ID"]
        {
            assert!(HEADER.matches(line.as_bytes()), "{line}");
        }
        for line in ["volume,time", "time", "time,volume,x", "time,volume#", "1,2", ""] {
            assert!(!HEADER.matches(line.as_bytes()), "{line}");
        }
        assert!(!Header::NONE.matches(b""));
    }
}
