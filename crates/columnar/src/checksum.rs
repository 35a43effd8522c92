//! Checksums of the values of each column, for Parquet libraries write none of the pages.
//!
//! The key `seeklab.checksum` of the footer has `rows=N`, and for each column a checksum of every [`SPAN_ROWS`] rows:
//! `rows=300000;lbn=1f00a2b3,99c0ffee;…`. The key `seeklab.checksum.metadata` has that of the other keys of seeklab. A reader compares
//! those of the columns that it reads, as it reads them.
//!
//! # Scope and limits
//! The checksum finds damage by accident, not by intent. Files without the keys, of other programs, are not checked.

use seeklab_traces::schema::Column;
use seeklab_traces::{Problem, TraceError};

/// Rows of a column that have a checksum together.
const SPAN_ROWS: u64 = 1 << 18;
/// Value that stands for null.
const NULL: u64 = 0x9e37_79b9_7f4a_7c15;
/// An odd factor, so that two different values make different products: that of the 64-bit hash FNV.
const FACTOR: u64 = 0x0000_0100_0000_01b3;
/// Parts that are computed independently, so that the processor works on all at once.
const LANES: usize = 4;
/// Keys of the footer, behind the prefix of all keys.
pub(crate) const KEY: &str = "checksum";
pub(crate) const METADATA_KEY: &str = "checksum.metadata";

/// Checksums of a column, span by span.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    lanes: [u64; LANES],
    /// Rows so far.
    rows: u64,
    /// Checksums of the spans that are complete.
    complete: Vec<u32>,
}

impl Spans {
    /// Adds `rows` values: those of `values` that are `valid`, where no `valid` means all, and no `values` means none.
    pub(crate) fn add(&mut self, values: &[u64], valid: &[bool], rows: usize) {
        let mut from = 0;
        while from < rows {
            let room = SPAN_ROWS - self.rows % SPAN_ROWS;
            let to = rows.min(from + usize::try_from(room).unwrap_or(usize::MAX));
            let part = |all: usize| if all == 0 { 0..0 } else { from..to };
            self.add_within(&values[part(values.len())], &valid[part(valid.len())], to - from);
            from = to;
            if self.rows.is_multiple_of(SPAN_ROWS) {
                self.complete.push(folded(self.lanes));
                self.lanes = [0; LANES];
            }
        }
    }

    /// Adds values of one span.
    fn add_within(&mut self, values: &[u64], valid: &[bool], rows: usize) {
        let first = (self.rows % LANES as u64) as usize;
        self.rows += rows as u64;
        if first == 0 && values.len() == rows && valid.is_empty() {
            let whole = values.chunks_exact(LANES);
            let rest = whole.remainder();
            for four in whole {
                for (lane, value) in self.lanes.iter_mut().zip(four) {
                    *lane = step(*lane, *value);
                }
            }
            for (lane, value) in self.lanes.iter_mut().zip(rest) {
                *lane = step(*lane, *value);
            }
            return;
        }
        for row in 0..rows {
            let is_valid = valid.get(row).copied().unwrap_or(true);
            let value = values.get(row).copied().filter(|_| is_valid).unwrap_or(NULL);
            let lane = &mut self.lanes[(first + row) % LANES];
            *lane = step(*lane, value);
        }
    }

    /// The checksums of all spans; the last may be short.
    fn all(&self) -> Vec<u32> {
        let mut all = self.complete.clone();
        if !self.rows.is_multiple_of(SPAN_ROWS) {
            all.push(folded(self.lanes));
        }
        all
    }
}

const fn step(lane: u64, value: u64) -> u64 {
    // The rotation brings the high bits down, which the product alone never does.
    (lane ^ value).wrapping_mul(FACTOR).rotate_left(29)
}

fn folded(lanes: [u64; LANES]) -> u32 {
    let all = lanes.into_iter().fold(0, step);
    (all ^ (all >> 32)) as u32
}

/// The value of the key for columns of `rows` rows.
pub(crate) fn text<'a>(rows: u64, columns: impl Iterator<Item = (&'a str, &'a Spans)>) -> String {
    let mut text = format!("rows={rows}");
    for (column, spans) in columns {
        let all: Vec<String> = spans.all().iter().map(|span| format!("{span:08x}")).collect();
        text.push_str(&format!(";{column}={}", all.join(",")));
    }
    text
}

/// A number that stands for a text.
pub(crate) fn of_text(text: &str) -> u64 {
    text.bytes().fold(step(0, text.len() as u64), |sum, byte| step(sum, u64::from(byte)))
}

/// Checksum of keys and their values.
#[derive(Debug, Default)]
pub(crate) struct Pairs([u64; LANES]);

impl Pairs {
    /// Adds a key and its value.
    pub(crate) fn add(&mut self, key: &str, value: &str) {
        for part in [key, value] {
            self.0[0] = step(self.0[0], part.len() as u64);
            for byte in part.bytes() {
                self.0[0] = step(self.0[0], u64::from(byte));
            }
        }
    }

    /// The value of the key.
    pub(crate) fn text(&self) -> String {
        format!("{:08x}", folded(self.0))
    }
}

/// The checksums that a file states, and those of what was read of it.
#[derive(Debug)]
pub(crate) struct Check {
    rows: u64,
    /// For each column that is read: what the file states, and what was read.
    columns: Vec<(Column, Vec<u32>, Spans)>,
}

impl Check {
    /// Begins to compare these columns with the text of the key.
    ///
    /// # Errors
    /// If the text is not what [`text`] writes of these columns.
    pub(crate) fn new(text: &str, columns: &[Column]) -> Result<Self, Box<Problem>> {
        let wrong = || Problem::new(KEY, text, "`rows=N;COLUMN=CHECKSUMS;…` is allowed");
        let mut parts = text.split(';').map(|part| part.split_once('='));
        let rows = match parts.next() {
            Some(Some(("rows", rows))) => rows.parse().map_err(|_| wrong())?,
            _ => return Err(wrong()),
        };
        let stated: Vec<(&str, &str)> = parts.collect::<Option<_>>().ok_or_else(wrong)?;
        let checked = columns.iter().map(|column| {
            let (_, spans) = stated.iter().find(|(name, _)| *name == column.name()).ok_or_else(wrong)?;
            let spans: Result<Vec<u32>, _> = spans
                .split(',')
                .filter(|span| !span.is_empty())
                .map(|span| u32::from_str_radix(span, 16).map_err(|_| wrong()))
                .collect();
            Ok((*column, spans?, Spans::default()))
        });
        Ok(Self { rows, columns: checked.collect::<Result<_, Box<Problem>>>()? })
    }

    /// Takes the next `rows` values of the column with that number among those that are read.
    ///
    /// # Errors
    /// If a span that these complete is not what the file states.
    pub(crate) fn add(
        &mut self,
        column: usize,
        values: &[u64],
        valid: &[bool],
        rows: usize,
    ) -> Result<(), TraceError> {
        let (column, stated, read) = &mut self.columns[column];
        let before = read.complete.len();
        read.add(values, valid, rows);
        compare(*column, stated, &read.complete, before)
    }

    /// Compares the last span, and the number of rows.
    ///
    /// # Errors
    /// If they are not what the file states.
    pub(crate) fn end(&self) -> Result<(), TraceError> {
        for (column, stated, read) in &self.columns {
            if read.rows != self.rows {
                let what = format!(
                    "the Parquet file is damaged: it has {} rows, where it states {}",
                    read.rows, self.rows
                );
                return Err(TraceError::malformed(what));
            }
            compare(*column, stated, &read.all(), read.complete.len())?;
        }
        Ok(())
    }
}

/// Compares the spans from `first` on.
fn compare(column: Column, stated: &[u32], read: &[u32], first: usize) -> Result<(), TraceError> {
    let differs = (first..read.len()).find(|span| stated.get(*span) != Some(&read[*span]));
    differs.map_or(Ok(()), |span| {
        let (from, name) = (span as u64 * SPAN_ROWS + 1, column.name());
        let what = format!(
            "the Parquet file is damaged: `{name}` of the rows from {from} on differs from its checksum"
        );
        Err(TraceError::malformed(what)
            .with_hint("copy or download the file again, or record the trace again"))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spans(values: &[Option<u64>], pieces: &[usize]) -> Vec<u32> {
        let (mut spans, mut from) = (Spans::default(), 0_usize);
        for piece in pieces.iter().copied().chain([usize::MAX]) {
            let part = &values[from..values.len().min(from.saturating_add(piece))];
            from += part.len();
            let numbers: Vec<u64> = part.iter().map(|value| value.unwrap_or(7)).collect();
            let valid: Vec<bool> = part.iter().map(Option::is_some).collect();
            if valid.iter().all(|valid| *valid) {
                spans.add(&numbers, &[], part.len());
            } else if valid.iter().any(|valid| *valid) {
                spans.add(&numbers, &valid, part.len());
            } else {
                spans.add(&[], &[], part.len());
            }
        }
        spans.all()
    }

    proptest! {
        #[test]
        fn checksum_depends_on_every_value_and_not_on_the_pieces(
            mut values in proptest::collection::vec(proptest::option::weighted(0.8, any::<u64>()), 1..300),
            pieces in proptest::collection::vec(0_usize..60, 0..8),
            place: prop::sample::Index,
            bit in 0_u32..64,
        ) {
            let whole = spans(&values, &[]);
            prop_assert_eq!(&whole, &spans(&values, &pieces));
            let place = place.index(values.len());
            values[place] = Some(values[place].map_or(0, |value| value ^ (1 << bit)));
            prop_assert_ne!(&whole, &spans(&values, &[]));
            values.remove(place);
            prop_assert_ne!(&whole, &spans(&values, &[]));
        }
    }

    #[test]
    fn spans_end_at_their_number_of_rows() {
        let values: Vec<u64> = (0..SPAN_ROWS + 3).collect();
        let mut spans = Spans::default();
        for piece in values.chunks(4_099) {
            spans.add(piece, &[], piece.len());
        }
        assert_eq!((spans.complete.len(), spans.all().len()), (1, 2));
        let mut first = Spans::default();
        first.add(&values[..SPAN_ROWS as usize], &[], SPAN_ROWS as usize);
        assert_eq!(first.all(), spans.complete);
    }
}
