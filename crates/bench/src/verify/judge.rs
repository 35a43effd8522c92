//! Judgment of a block that was read.

use super::finding::{FoundStamp, Kind};
use super::stamp::{SECTOR_BYTES, Sector, Stamp};
use super::word::Word;

/// Contents of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contents {
    /// All sectors are of one write, in their order.
    Whole(Stamp),
    /// All sectors are of one write, and belong elsewhere in the block.
    Displaced(Stamp),
    /// Sectors of several writes.
    Torn,
    /// A stamp that the checksum does not confirm.
    Corrupt,
    /// The same byte throughout.
    Constant(u8),
    /// No stamp.
    Foreign,
}

impl Contents {
    /// Reads block `lbn` in a run that has issued writes up to `newest`.
    pub(super) fn read(block: &[u8], run: u64, lbn: u64, newest: u64) -> Self {
        let mut sectors =
            block.chunks_exact(SECTOR_BYTES).map(|sector| Sector::read(sector, run, lbn, newest)).enumerate();
        let Some((_, first)) = sectors.next() else { return Self::Foreign };
        let mut is_displaced = matches!(first, Sector::Whole(stamp) if stamp.sector != 0);
        let mut is_torn = first == Sector::Torn;
        let mut is_corrupt = first == Sector::Corrupt;
        for (number, sector) in sectors {
            is_corrupt |= sector == Sector::Corrupt;
            is_torn |= match (first, sector) {
                (Sector::Whole(one), Sector::Whole(other)) => {
                    is_displaced |= usize::from(other.sector) != number;
                    (one.run, one.lbn, one.sequence) != (other.run, other.lbn, other.sequence)
                }
                (one, other) => one != other,
            };
        }
        match first {
            _ if is_corrupt => Self::Corrupt,
            _ if is_torn => Self::Torn,
            Sector::Whole(stamp) if is_displaced => Self::Displaced(stamp),
            Sector::Whole(stamp) => Self::Whole(stamp),
            Sector::Constant(byte) => Self::Constant(byte),
            Sector::Foreign => Self::Foreign,
            Sector::Torn | Sector::Corrupt => unreachable!("both were looked for"),
        }
    }

    /// The stamp of a run, if there is a whole one.
    pub(super) fn stamp(&self, run: u64) -> Option<FoundStamp> {
        match self {
            Self::Whole(stamp) | Self::Displaced(stamp) => Some(FoundStamp {
                is_of_run: stamp.run == run,
                lbn: stamp.lbn,
                sequence: stamp.sequence,
                stream: stamp.stream,
            }),
            _ => None,
        }
    }
}

/// Judgment of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// As it should be; with the number of the write, if one is there.
    Right(Option<u64>),
    /// The run has not written it, so anything may be there.
    Unwritten,
    /// A write was under way that may have made it so.
    Undecided,
    /// Something else.
    Wrong(Kind),
}

/// Changes of a block since the read of it was issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meanwhile {
    /// None was under way.
    Nothing,
    /// A write was.
    Written,
    /// A write was, or a write of zeroes or a discard, which leave no stamp.
    Cleared,
}

/// Judges block `lbn` with `contents`, of which `word` was known when the read was issued.
pub(super) fn judge(contents: &Contents, run: u64, lbn: u64, word: Word, meanwhile: Meanwhile) -> Verdict {
    let is_written = word.sequence() > 0;
    let is_contended = meanwhile != Meanwhile::Nothing;
    if word.has(Word::ANY) {
        return match contents {
            Contents::Whole(stamp) if (stamp.run, stamp.lbn) == (run, lbn) => Verdict::Right(None),
            _ => Verdict::Unwritten,
        };
    }
    match contents {
        Contents::Whole(stamp) | Contents::Displaced(stamp) if stamp.run != run => match is_written {
            true => Verdict::Wrong(Kind::Stale),
            false => Verdict::Unwritten,
        },
        Contents::Displaced(_) => Verdict::Wrong(Kind::Misdirected),
        Contents::Whole(stamp) if stamp.lbn != lbn => Verdict::Wrong(Kind::Misdirected),
        Contents::Whole(stamp) if stamp.sequence < word.sequence() => Verdict::Wrong(Kind::Stale),
        Contents::Whole(stamp) => Verdict::Right(Some(stamp.sequence)),
        Contents::Constant(0) if word.has(Word::ZEROES) => Verdict::Right(None),
        _ if !is_written => Verdict::Unwritten,
        Contents::Torn if is_contended || word.has(Word::BUSY | Word::DOUBT) => Verdict::Undecided,
        Contents::Torn => Verdict::Wrong(Kind::Torn),
        Contents::Corrupt if is_contended || word.has(Word::BUSY) => Verdict::Undecided,
        Contents::Corrupt => Verdict::Wrong(Kind::Corrupt),
        Contents::Constant(_) | Contents::Foreign if meanwhile == Meanwhile::Cleared => Verdict::Undecided,
        Contents::Constant(_) => Verdict::Wrong(Kind::Blank),
        Contents::Foreign if word.has(Word::SEEN) => Verdict::Wrong(Kind::Corrupt),
        Contents::Foreign => Verdict::Wrong(Kind::Blank),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: u64 = 5;
    const LBN: u64 = 40;
    const BLOCK_BYTES: usize = 4096;

    /// A block of a write.
    fn block(run: u64, lbn: u64, sequence: u64) -> Vec<u8> {
        let mut bytes = vec![sequence as u8; BLOCK_BYTES];
        for (sector, part) in bytes.chunks_exact_mut(SECTOR_BYTES).enumerate() {
            Stamp { run, lbn, sequence, stream: 0, sector: sector as u16 }.write(part);
        }
        bytes
    }

    fn verdict(bytes: &[u8], word: Word) -> Verdict {
        let contents = Contents::read(bytes, RUN, LBN, 100);
        judge(&contents, RUN, LBN, word, Meanwhile::Nothing)
    }

    const LAST: Word = Word::new(20, 0, Word::ACKNOWLEDGED);

    #[test]
    fn last_acknowledged_write_and_later_ones_are_right() {
        assert_eq!(verdict(&block(RUN, LBN, 20), LAST), Verdict::Right(Some(20)));
        assert_eq!(verdict(&block(RUN, LBN, 21), LAST), Verdict::Right(Some(21)));
        assert_eq!(verdict(&[0; BLOCK_BYTES], Word::new(20, 0, Word::ZEROES)), Verdict::Right(None));
    }

    #[test]
    fn every_other_content_is_named() {
        let wrong = |bytes: &[u8]| match verdict(bytes, LAST) {
            Verdict::Wrong(kind) => kind,
            other => panic!("{other:?}"),
        };
        assert_eq!(wrong(&block(RUN, LBN, 19)), Kind::Stale);
        assert_eq!(wrong(&block(RUN + 1, LBN, 20)), Kind::Stale);
        assert_eq!(wrong(&block(RUN, LBN + 1, 20)), Kind::Misdirected);
        assert_eq!(wrong(&[0; BLOCK_BYTES]), Kind::Blank);
        assert_eq!(wrong(&[255; BLOCK_BYTES]), Kind::Blank);
        let (old, new) = (block(RUN, LBN, 19), block(RUN, LBN, 20));
        for sectors in 1..8 {
            let cut = sectors * SECTOR_BYTES;
            assert_eq!(wrong(&[&new[..cut], &old[cut..]].concat()), Kind::Torn);
            assert_eq!(wrong(&[&new[..cut], &vec![0; BLOCK_BYTES - cut]].concat()), Kind::Torn);
        }
        let mut displaced = new.clone();
        displaced.rotate_left(SECTOR_BYTES);
        assert_eq!(wrong(&displaced), Kind::Misdirected);
        let mut corrupt = new;
        corrupt[3000] ^= 4;
        assert_eq!(wrong(&corrupt), Kind::Corrupt);
    }

    #[test]
    fn data_of_nobody_is_blank_until_a_stamp_was_read_there() {
        let foreign: Vec<u8> = (0..BLOCK_BYTES).map(|at| (at * 31 % 251) as u8).collect();
        assert_eq!(verdict(&foreign, LAST), Verdict::Wrong(Kind::Blank));
        let seen = Word(LAST.0 | Word::SEEN);
        assert_eq!(verdict(&foreign, seen), Verdict::Wrong(Kind::Corrupt));
        assert_eq!(verdict(&foreign, Word::default()), Verdict::Unwritten);
    }

    #[test]
    fn block_that_a_write_may_have_torn_is_undecided() {
        let (old, new) = (block(RUN, LBN, 20), block(RUN, LBN, 21));
        let torn = [&new[..1024], &old[1024..]].concat();
        for flag in [Word::BUSY, Word::DOUBT] {
            assert_eq!(verdict(&torn, Word(LAST.0 | flag)), Verdict::Undecided);
        }
        assert_eq!(verdict(&torn, LAST), Verdict::Wrong(Kind::Torn));
    }

    #[test]
    fn block_that_may_have_been_cleared_during_the_read_is_undecided() {
        let foreign: Vec<u8> = (0..BLOCK_BYTES).map(|at| (at * 31 % 251) as u8).collect();
        for bytes in [vec![0; BLOCK_BYTES], vec![255; BLOCK_BYTES], foreign] {
            let contents = Contents::read(&bytes, RUN, LBN, 100);
            let of = |meanwhile| judge(&contents, RUN, LBN, LAST, meanwhile);
            assert_eq!(of(Meanwhile::Cleared), Verdict::Undecided);
            assert_eq!(of(Meanwhile::Written), Verdict::Wrong(Kind::Blank), "a write leaves a stamp");
            assert_eq!(of(Meanwhile::Nothing), Verdict::Wrong(Kind::Blank));
        }
        let contents = Contents::read(&block(RUN, LBN, 19), RUN, LBN, 100);
        assert_eq!(judge(&contents, RUN, LBN, LAST, Meanwhile::Cleared), Verdict::Wrong(Kind::Stale));
    }
}
