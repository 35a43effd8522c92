//! A page cache: least recently used, with dirty pages that wait to be written.

use std::collections::{BTreeMap, BTreeSet};

use seeklab_core::Instant;

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Time of the last use, counted in uses.
    tick: u64,
    dirty_since: Option<Instant>,
}

/// Pages in memory, with those that differ from the device.
#[derive(Debug, Clone)]
pub(super) struct PageCache {
    capacity: usize,
    pages: BTreeMap<u64, Entry>,
    /// Pages from least to most recently used.
    order: BTreeMap<u64, u64>,
    dirty: BTreeSet<u64>,
    tick: u64,
    hits: u64,
    misses: u64,
}

impl PageCache {
    /// An empty cache of `capacity` pages.
    pub(super) fn new(capacity: usize) -> Self {
        assert!(capacity > 0, "a cache has at least one page");
        let (pages, order, dirty) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { capacity, pages, order, dirty, tick: 0, hits: 0, misses: 0 }
    }

    pub(super) const fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn dirty_count(&self) -> usize {
        self.dirty.len()
    }

    /// Lookups that found their page, and those that did not.
    pub(super) const fn lookups(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    /// Returns true if the page is in the cache, and marks it as just used.
    pub(super) fn lookup(&mut self, page: u64) -> bool {
        let is_there = self.pages.contains_key(&page);
        if is_there {
            self.hits += 1;
            self.touch(page, None);
        } else {
            self.misses += 1;
        }
        is_there
    }

    pub(super) fn contains(&self, page: u64) -> bool {
        self.pages.contains_key(&page)
    }

    /// Adds a page, dirty since `dirty` if that is given. Returns the evicted page if it was dirty and
    /// must be written.
    #[must_use]
    pub(super) fn insert(&mut self, page: u64, dirty: Option<Instant>) -> Option<u64> {
        self.touch(page, dirty);
        if self.pages.len() <= self.capacity {
            return None;
        }
        let (_, oldest) = self.order.pop_first().expect("a full cache has a page");
        self.pages.remove(&oldest);
        self.dirty.remove(&oldest).then_some(oldest)
    }

    /// The page is as on the device.
    pub(super) fn clean(&mut self, page: u64) {
        self.dirty.remove(&page);
        if let Some(entry) = self.pages.get_mut(&page) {
            entry.dirty_since = None;
        }
    }

    /// The page means nothing any more.
    pub(super) fn forget(&mut self, page: u64) {
        self.dirty.remove(&page);
        if let Some(entry) = self.pages.remove(&page) {
            self.order.remove(&entry.tick);
        }
    }

    /// Takes dirty pages to write, in order of address: those dirty since before `before`, or all.
    pub(super) fn take_dirty(&mut self, before: Option<Instant>) -> Vec<u64> {
        let is_due = |page: &u64| before.is_none_or(|before| self.pages[page].dirty_since < Some(before));
        let due: Vec<u64> = self.dirty.iter().copied().filter(is_due).collect();
        due.iter().for_each(|page| self.clean(*page));
        due
    }

    /// Takes the `count` dirty pages at the lowest addresses.
    pub(super) fn take_some_dirty(&mut self, count: usize) -> Vec<u64> {
        let due: Vec<u64> = self.dirty.iter().copied().take(count).collect();
        due.iter().for_each(|page| self.clean(*page));
        due
    }

    pub(super) fn is_dirty(&self, page: u64) -> bool {
        self.dirty.contains(&page)
    }

    /// Empties the cache.
    ///
    /// # Panics
    /// If a page is dirty.
    pub(super) fn drop_clean(&mut self) {
        assert!(self.dirty.is_empty(), "dirty pages are written before they are dropped");
        self.pages.clear();
        self.order.clear();
    }

    fn touch(&mut self, page: u64, dirty: Option<Instant>) {
        self.tick += 1;
        let tick = self.tick;
        let entry = self.pages.entry(page).or_insert(Entry { tick, dirty_since: None });
        self.order.remove(&entry.tick);
        entry.tick = tick;
        if dirty.is_some() && entry.dirty_since.is_none() {
            entry.dirty_since = dirty;
            self.dirty.insert(page);
        }
        self.order.insert(tick, page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_page_is_evicted() {
        let mut cache = PageCache::new(2);
        assert_eq!((cache.insert(1, None), cache.insert(2, None)), (None, None));
        assert!(cache.lookup(1));
        assert_eq!(cache.insert(3, None), None);
        assert!(cache.contains(1) && cache.contains(3) && !cache.lookup(2));
        assert_eq!(cache.lookups(), (1, 1));
    }

    #[test]
    fn dirty_pages_are_never_lost() {
        let at = |ns| Some(Instant::from_ns(ns));
        let mut cache = PageCache::new(2);
        assert_eq!(cache.insert(9, at(1)), None);
        assert_eq!(cache.insert(9, at(5)), None, "it stays dirty since it first was");
        assert_eq!(cache.insert(4, at(3)), None);
        assert_eq!(cache.insert(6, None), Some(9), "a dirty page that goes is handed out");
        assert!(cache.take_dirty(at(3)).is_empty(), "younger pages wait");
        assert_eq!(cache.take_dirty(None), [4]);
        assert_eq!((cache.dirty_count(), cache.is_dirty(4)), (0, false));
        assert_eq!(cache.insert(4, at(7)), None);
        cache.forget(4);
        assert!(cache.take_dirty(None).is_empty());
        cache.drop_clean();
        assert!(!cache.contains(6));
    }
}
