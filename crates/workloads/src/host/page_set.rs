//! A set of blocks, as bits: the next member is found without a look at each block.
//!
//! ```text
//! summary   one bit for each 64 leaves that have members
//! used      one bit for each leaf that has members
//! leaf      4,096 blocks: a bit for each block, and a bit for each word of them
//! ```
//! A leaf exists from the first block in it on, so changes of a set allocate nothing once its leaves exist.

/// Blocks in a leaf.
const LEAF_PAGES: u64 = 4096;

/// Bits in a word.
const WORD: u64 = 64;

#[derive(Debug, Clone)]
struct Leaf {
    words: [u64; (LEAF_PAGES / WORD) as usize],
    /// Words that are not zero.
    used: u64,
}

/// A set of blocks.
#[derive(Debug, Clone, Default)]
pub(super) struct PageSet {
    leaves: Vec<Option<Box<Leaf>>>,
    /// Leaves that are not empty.
    used: Vec<u64>,
    /// Words of `used` that are not zero.
    summary: Vec<u64>,
}

impl PageSet {
    /// Adds a block.
    pub(super) fn insert(&mut self, page: u64) {
        let leaf = page / LEAF_PAGES;
        if leaf >= self.leaves.len() as u64 {
            self.leaves.resize(leaf as usize + 1, None);
            self.used.resize((leaf / WORD) as usize + 1, 0);
            self.summary.resize((leaf / (WORD * WORD)) as usize + 1, 0);
        }
        let empty = || Box::new(Leaf { words: [0; (LEAF_PAGES / WORD) as usize], used: 0 });
        let held = self.leaves[leaf as usize].get_or_insert_with(empty);
        let word = page % LEAF_PAGES / WORD;
        held.words[word as usize] |= bit(page);
        held.used |= bit(word);
        self.used[(leaf / WORD) as usize] |= bit(leaf);
        self.summary[(leaf / (WORD * WORD)) as usize] |= bit(leaf / WORD);
    }

    /// Takes a block out.
    pub(super) fn remove(&mut self, page: u64) {
        let leaf = page / LEAF_PAGES;
        let Some(Some(held)) = self.leaves.get_mut(leaf as usize) else { return };
        let word = page % LEAF_PAGES / WORD;
        held.words[word as usize] &= !bit(page);
        if held.words[word as usize] != 0 {
            return;
        }
        held.used &= !bit(word);
        if held.used != 0 {
            return;
        }
        let used = &mut self.used[(leaf / WORD) as usize];
        *used &= !bit(leaf);
        if *used == 0 {
            self.summary[(leaf / (WORD * WORD)) as usize] &= !bit(leaf / WORD);
        }
    }

    /// The first member from `start` on that lies before `end`.
    pub(super) fn next(&self, start: u64, end: u64) -> Option<u64> {
        if start >= end {
            return None;
        }
        let leaf = start / LEAF_PAGES;
        let in_leaf = self.in_leaf(leaf, start % LEAF_PAGES);
        let found = in_leaf.or_else(|| {
            let leaf = next_in(&self.used, Some(&self.summary), leaf + 1)?;
            self.in_leaf(leaf, 0)
        });
        found.filter(|page| *page < end)
    }

    /// The first member of a leaf from its block `from` on.
    fn in_leaf(&self, leaf: u64, from: u64) -> Option<u64> {
        let held = self.leaves.get(usize::try_from(leaf).ok()?)?.as_ref()?;
        let word = from / WORD;
        let rest = held.words[word as usize] & at_least(from);
        if rest != 0 {
            return Some(leaf * LEAF_PAGES + word * WORD + u64::from(rest.trailing_zeros()));
        }
        let later = held.used & after(word);
        let word = (later != 0).then(|| u64::from(later.trailing_zeros()))?;
        let first = held.words[word as usize].trailing_zeros();
        Some(leaf * LEAF_PAGES + word * WORD + u64::from(first))
    }
}

/// The first bit from `from` on. `summary` has a bit for each word that is not zero.
fn next_in(words: &[u64], summary: Option<&[u64]>, from: u64) -> Option<u64> {
    let index = from / WORD;
    let rest = words.get(usize::try_from(index).ok()?)? & at_least(from);
    if rest != 0 {
        return Some(index * WORD + u64::from(rest.trailing_zeros()));
    }
    let next = match summary {
        Some(summary) => next_in(summary, None, index + 1)?,
        None => (index + 1..words.len() as u64).find(|index| words[*index as usize] != 0)?,
    };
    Some(next * WORD + u64::from(words[next as usize].trailing_zeros()))
}

/// The bit of a number in its word.
const fn bit(number: u64) -> u64 {
    1 << (number % WORD)
}

/// The bits of a word from that of a number on.
const fn at_least(number: u64) -> u64 {
    u64::MAX << (number % WORD)
}

/// The bits of a word behind that of a number below 64.
const fn after(number: u64) -> u64 {
    if number + 1 < WORD { u64::MAX << (number + 1) } else { 0 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn members_are_those_of_an_ordered_set(
            changes in prop::collection::vec((any::<bool>(), 0_u64..1 << 27, 0_u32..28, 0_u64..1 << 27), 1..200),
        ) {
            let (mut set, mut expected) = (PageSet::default(), BTreeSet::new());
            for (is_added, page, shift, length) in changes {
                // Pages near each other as well as far apart.
                let page = page >> shift;
                if is_added {
                    set.insert(page);
                    expected.insert(page);
                } else {
                    set.remove(page);
                    expected.remove(&page);
                }
                for start in [0, page.saturating_sub(3), page, page + 1, page + 5000] {
                    for end in [start + length, u64::MAX] {
                        prop_assert_eq!(set.next(start, end), expected.range(start..end).next().copied());
                    }
                }
            }
            let mut start = 0;
            let mut all = Vec::new();
            while let Some(page) = set.next(start, u64::MAX) {
                all.push(page);
                start = page + 1;
            }
            prop_assert_eq!(all, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
