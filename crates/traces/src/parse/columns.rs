//! Columns of a text with a header, found by their names in whatever order they stand.

use crate::error::Problem;
use seeklab_core::number_words::counted;

/// Columns that a header may have.
const COLUMNS_MAX: usize = 64;

/// Value in `places` for a column that is not needed.
const UNWANTED: u8 = u8::MAX;

/// Positions of `N` columns in the rows of a trace.
#[derive(Debug, Clone)]
pub(crate) struct Columns<const N: usize> {
    separator: u8,
    /// Index into the wanted columns for each column of the trace.
    places: [u8; COLUMNS_MAX],
    count: usize,
    present: [bool; N],
}

impl<const N: usize> Columns<N> {
    /// Finds the wanted columns in `header`, of which the first `required` must be there.
    pub(crate) fn find(
        header: &[u8],
        separator: u8,
        wanted: &[&'static str; N],
        required: usize,
    ) -> Result<Self, Box<Problem>> {
        let mut columns = Self { separator, places: [UNWANTED; COLUMNS_MAX], count: 0, present: [false; N] };
        for name in fields_of(header, separator).map(plain) {
            if columns.count == COLUMNS_MAX {
                return Err(Problem::new("header", header, "more than 64 columns are too many"));
            }
            if let Some(place) = wanted.iter().position(|wanted| wanted.as_bytes() == name) {
                if columns.present[place] {
                    return Err(Problem::new("column", name, "it occurs twice"));
                }
                columns.present[place] = true;
                columns.places[columns.count] = place as u8;
            }
            columns.count += 1;
        }
        match wanted[..required].iter().zip(&columns.present).find(|(_, present)| !**present) {
            Some((name, _)) => Err(Problem::new("header", header, format!("the column `{name}` is missing"))),
            None => Ok(columns),
        }
    }

    /// Returns true if the trace has the wanted column with that index.
    #[inline]
    pub(crate) fn has(&self, index: usize) -> bool {
        self.present[index]
    }

    /// The wanted fields of a row, blanks and quotation marks around them taken off; one that is not
    /// there is empty.
    #[inline]
    pub(crate) fn split<'a>(&self, line: &'a [u8]) -> Result<[&'a [u8]; N], Box<Problem>> {
        let mut fields = [&b""[..]; N];
        let mut count = 0;
        for field in fields_of(line, self.separator) {
            if count == self.count {
                return Err(self.wrong_count(line));
            }
            if let Some(slot) = fields.get_mut(usize::from(self.places[count])) {
                *slot = plain(field);
            }
            count += 1;
        }
        if count != self.count {
            return Err(self.wrong_count(line));
        }
        Ok(fields)
    }

    #[cold]
    fn wrong_count(&self, line: &[u8]) -> Box<Problem> {
        let count = fields_of(line, self.separator).count();
        Problem::new("line", line, format!("{} where the header has {}", counted(count, "field"), self.count))
    }
}

/// The fields of a line, split at separators that stand outside of quotation marks.
#[inline]
fn fields_of(line: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut is_quoted = false;
    line.split(move |byte| {
        is_quoted ^= *byte == b'"';
        *byte == separator && !is_quoted
    })
}

#[inline]
fn plain(field: &[u8]) -> &[u8] {
    let field = field.trim_ascii();
    match field {
        [b'"', inner @ .., b'"'] => inner,
        field => field,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_in_any_order_and_others_passed_over() {
        let columns = Columns::find(b"b, \"x\" ,a", b',', &["a", "b", "c"], 2).unwrap();
        assert_eq!(columns.split(b" 1 ,2,\"3\"").unwrap(), [&b"3"[..], b"1", b""]);
        assert!(columns.has(1) && !columns.has(2));
        for line in [&b"1,2"[..], b"1,2,3,4"] {
            let problem = columns.split(line).unwrap_err();
            assert!(problem.to_string().contains("where the header has 3"), "{problem}");
        }
    }

    #[test]
    fn separators_within_quotation_marks_split_nothing() {
        let columns = Columns::find(b"a,\"b, c\"", b',', &["a", "b, c"], 2).unwrap();
        assert_eq!(columns.split(b"\"16,384\",x").unwrap(), [&b"16,384"[..], b"x"]);
    }

    #[test]
    fn headers_with_missing_or_repeated_columns_are_refused() {
        let find = |header: &[u8]| Columns::find(header, b';', &["a", "b"], 2).unwrap_err().to_string();
        assert!(find(b"a;c").contains("the column `b` is missing"));
        assert!(find(b"a;b;a").contains("column is `a`: it occurs twice"));
        assert!(find(&b";".repeat(64)).contains("too many"));
    }
}
