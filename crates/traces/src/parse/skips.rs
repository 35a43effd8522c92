//! Counts what was passed over while reading, with the first place of each kind.

use std::borrow::Cow;

use crate::error::Place;
use crate::trace_format::Note;

/// Lines or records that were passed over because the format's own tools pass over them too: counted by
/// what they were, never silently. Memory grows with the kinds, of which a format has a few.
#[derive(Debug, Clone, Default)]
pub(crate) struct Skips(Vec<Skip>);

#[derive(Debug, Clone)]
struct Skip {
    what: &'static str,
    why: &'static str,
    count: u64,
    first: Place,
}

impl Skips {
    /// One more of `what` (such as `line[|s] of the summary`) was skipped, for `why`, both [for one and for many](seeklab_core::number_words::numbered).
    #[cold]
    pub(crate) fn add(&mut self, what: &'static str, why: &'static str, place: Place) {
        match self.0.iter_mut().find(|skip| skip.what == what && skip.why == why) {
            Some(skip) => skip.count += 1,
            None => self.0.push(Skip { what, why, count: 1, first: place }),
        }
    }

    /// Appends a note for each kind.
    pub(crate) fn notes(&self, notes: &mut Vec<Note>) {
        notes.extend(self.0.iter().map(|skip| Note::Skipped {
            what: Cow::Borrowed(skip.what),
            why: Cow::Borrowed(skip.why),
            count: skip.count,
            first: skip.first,
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_counted_separately_with_their_first_place() {
        let mut skips = Skips::default();
        skips.add("line[|s] of the summary", "[it is no event|they are no events]", Place::Line(9));
        skips.add("event[|s] of other kinds", "[it begins|they begin] no request", Place::Line(10));
        skips.add("line[|s] of the summary", "[it is no event|they are no events]", Place::Line(11));
        let mut notes = Vec::new();
        skips.notes(&mut notes);
        let notes: Vec<_> = notes.iter().map(ToString::to_string).collect();
        assert_eq!(
            notes,
            [
                "skipped 2 lines of the summary, the first at line 9: they are no events",
                "skipped 1 event of other kinds, the first at line 10: it begins no request",
            ]
        );
    }
}
