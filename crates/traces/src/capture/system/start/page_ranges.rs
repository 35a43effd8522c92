//! Pages of a file that are in memory, from counts of parts of it.

use std::io;

use super::os::PageCounts;

/// Pages that follow each other in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PageRange {
    pub(super) first: u64,
    pub(super) pages: u64,
    pub(super) is_dirty: bool,
}

/// The pages from `first` on that are in memory, by halving the parts whose pages differ. `limit` counts down with each range;
/// an error of the kind `OutOfMemory` if it is over.
pub(super) fn page_ranges(
    count: &mut impl FnMut(u64, u64) -> io::Result<PageCounts>,
    first: u64,
    pages: u64,
    limit: &mut usize,
) -> io::Result<Vec<PageRange>> {
    let mut found: Vec<PageRange> = Vec::new();
    // Parts that have to be looked at, the first one last.
    let mut open = vec![(first, pages)];
    while let Some((first, pages)) = open.pop() {
        if pages == 0 {
            continue;
        }
        let PageCounts { cached, dirty } = count(first, pages)?;
        if cached == 0 {
            continue;
        }
        if pages > 1 && (cached < pages || (dirty > 0 && dirty < cached)) {
            // Halves end at multiples of a power of two, as the kernel's tree does.
            let half = (pages.next_power_of_two() / 2).max(1);
            open.push((first + half, pages - half));
            open.push((first, half));
            continue;
        }
        let is_dirty = dirty > 0;
        match found.last_mut() {
            Some(last) if last.first + last.pages == first && last.is_dirty == is_dirty => {
                last.pages += pages
            }
            _ if *limit == 0 => return Err(io::ErrorKind::OutOfMemory.into()),
            _ => {
                *limit -= 1;
                found.push(PageRange { first, pages, is_dirty });
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_are_the_pages_in_memory(states in prop::collection::vec(0_u8..3, 0..300), first in 0_u64..9) {
            // 0 is absent, 1 clean, 2 dirty.
            let mut calls = 0_u64;
            let mut count = |from: u64, pages: u64| {
                calls += 1;
                let part = &states[(from - first) as usize..][..pages as usize];
                let of = |least: u8| part.iter().filter(|state| **state >= least).count() as u64;
                Ok(PageCounts { cached: of(1), dirty: of(2) })
            };
            let mut limit = 1000;
            let found = page_ranges(&mut count, first, states.len() as u64, &mut limit).unwrap();
            let mut listed = vec![0_u8; states.len()];
            for range in &found {
                for page in range.first..range.first + range.pages {
                    listed[(page - first) as usize] = if range.is_dirty { 2 } else { 1 };
                }
            }
            prop_assert_eq!(&listed, &states);
            prop_assert_eq!(limit, 1000 - found.len());
            prop_assert!(calls <= 1 + 2 * states.len() as u64);
        }
    }

    #[test]
    fn ranges_beyond_the_limit_are_an_error() {
        let mut odd = |first: u64, pages: u64| {
            let cached = (first..first + pages).filter(|page| page % 2 == 1).count() as u64;
            Ok(PageCounts { cached, dirty: 0 })
        };
        assert_eq!(page_ranges(&mut odd, 0, 64, &mut 32).unwrap().len(), 32);
        let error = page_ranges(&mut odd, 0, 64, &mut 31).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    }
}
