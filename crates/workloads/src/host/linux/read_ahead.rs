//! Read-ahead of a file: sizes of its windows, and the page whose access begins the next one.
//!
//! ```text
//!  |← start                size              →|
//!  |------------------------------------------|
//!            |← marker     async_size        →|
//! ```
//! The first window of a sequential file is two to four times the request, the next ones double up to the limit. A
//! process that accesses the marked page begins the next window before it needs it.
//!
//! Windows after the first consist of folios that are four times as large as those before them, up to the limit. From Linux 6.17 on, a
//! window ends where such a folio does (`page_cache_async_ra` in `mm/readahead.c`):
//!
//! ```text
//! folios of 1     4         16        64 pages
//!     [0, 8)    [8, 24)   [24, 48)   [48, 64)   [64, 96)   [96, 128)   [128, 192) …    limit of 64 pages
//! ```

/// Read-ahead state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ReadAhead {
    /// First page of the current window.
    pub(super) start: u64,
    pub(super) size: u64,
    /// Pages at the end of the window that are read before they are requested.
    pub(super) async_size: u64,
    /// Logarithm of the size of the folios of the current window, in pages.
    order: u32,
    /// Page after the last one that was read. `None` before the first access.
    pub(super) next: Option<u64>,
    /// Process that the state belongs to.
    pub(super) owner: u32,
}

/// Size of the first window for a request of that many pages.
pub(super) const fn initial(requested: u64, limit: u64) -> u64 {
    let rounded = requested.next_power_of_two();
    if rounded <= limit / 32 {
        rounded * 4
    } else if rounded <= limit / 4 {
        rounded * 2
    } else {
        limit
    }
}

/// Size of the window after one of that size.
pub(super) const fn next(size: u64, limit: u64) -> u64 {
    if size < limit / 16 {
        size * 4
    } else if size <= limit / 2 {
        size * 2
    } else {
        limit
    }
}

impl ReadAhead {
    /// A page that is not in memory is requested. `contiguous` is the number of pages before it that are. Returns the
    /// number of pages to read; the window follows unless the access is random.
    pub(super) fn miss(
        &mut self,
        index: u64,
        requested: u64,
        limit: u64,
        contiguous: impl Fn() -> u64,
    ) -> Window {
        // A large request is read as a whole.
        let limit = limit.max(1);
        let is_sequential = self.next.is_some_and(|next| next == index || next == index + 1);
        if index == 0 || requested > limit || is_sequential {
            self.start = index;
            self.size = initial(requested, limit);
            self.async_size = if self.size > requested { self.size - requested } else { self.size / 2 };
            self.order = 0;
            return self.window();
        }
        let contiguous = contiguous();
        if contiguous <= requested {
            return Window { start: index, size: requested, marker: None };
        }
        let history = if contiguous >= index { contiguous * 2 } else { contiguous };
        (self.start, self.size, self.async_size) = (index, (history + requested).min(limit), 1);
        self.order = 0;
        self.window()
    }

    /// A page around an access to a mapped file is not in memory: the window has pages on both sides of it.
    pub(super) fn around(&mut self, index: u64, limit: u64) -> Window {
        let start = index.saturating_sub(limit / 2);
        (self.start, self.size, self.async_size, self.order) = (start, limit, limit / 4, 0);
        self.window()
    }

    /// The marked page at `index` is accessed. `next_missing` is the first page behind it that is not in memory. `is_aligned` if
    /// windows end where their folios do.
    pub(super) fn marked(
        &mut self,
        index: u64,
        requested: u64,
        limit: u64,
        is_aligned: bool,
        next_missing: impl Fn() -> Option<u64>,
    ) -> Option<Window> {
        if limit == 0 {
            return None;
        }
        if index == self.start + self.size - self.async_size.min(self.size) {
            self.start += self.size;
            self.size = self.size.max(next(self.size, limit));
        } else {
            let start = next_missing().filter(|start| start - index <= limit)?;
            self.start = start;
            self.size = next(start - index + requested, limit);
        }
        self.order = (self.order + 2).min(limit.trailing_zeros());
        let end = self.start + self.size;
        let aligned_end = end >> self.order << self.order;
        if is_aligned && aligned_end > self.start {
            self.size = aligned_end - self.start;
        }
        self.async_size = self.size;
        Some(self.window())
    }

    const fn window(&self) -> Window {
        let marker = if self.async_size > 0 { Some(self.start + self.size - self.async_size) } else { None };
        Window { start: self.start, size: self.size, marker }
    }
}

/// Pages to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) start: u64,
    pub(super) size: u64,
    /// Page whose access begins the next window.
    pub(super) marker: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_double_up_to_the_limit() {
        let mut state = ReadAhead::default();
        let first = state.miss(0, 1, 32, || 0);
        assert_eq!(first, Window { start: 0, size: 4, marker: Some(1) });
        let mut window = first;
        let mut sizes = Vec::new();
        for _ in 0..5 {
            let marker = window.marker.expect("it goes on");
            window = state.marked(marker, 1, 32, false, || None).expect("it goes on");
            sizes.push((window.start, window.size, window.marker));
        }
        assert_eq!(
            sizes,
            [(4, 8, Some(4)), (12, 16, Some(12)), (28, 32, Some(28)), (60, 32, Some(60)), (92, 32, Some(92))]
        );
    }

    /// Requests of `unxz` that reads a file for which it announced sequential reads, on Linux 6.18 with a `read_ahead_kb` of 128: recorded on
    /// 2026-11-26, in pages of the file.
    #[test]
    fn windows_end_with_their_folios_as_recorded() {
        let mut state = ReadAhead::default();
        let mut window = state.miss(0, 4, 64, || 0);
        let mut windows = vec![(window.start, window.start + window.size)];
        for _ in 0..8 {
            let marker = window.marker.expect("it goes on");
            window = state.marked(marker, 4, 64, true, || None).expect("it goes on");
            windows.push((window.start, window.start + window.size));
        }
        let recorded =
            [(0, 8), (8, 24), (24, 48), (48, 64), (64, 96), (96, 128), (128, 192), (192, 256), (256, 320)];
        assert_eq!(windows, recorded);
    }

    #[test]
    fn requests_set_the_first_window() {
        let size = |requested| ReadAhead::default().miss(0, requested, 32, || 0);
        assert_eq!([1, 2, 3, 8, 9, 32].map(|requested| size(requested).size), [4, 4, 8, 16, 32, 32]);
        assert_eq!(size(32).marker, Some(16));
        assert_eq!(size(100), Window { start: 0, size: 32, marker: Some(16) });
    }

    #[test]
    fn random_access_reads_what_is_requested() {
        let mut state = ReadAhead { next: Some(5), ..ReadAhead::default() };
        assert_eq!(state.miss(100, 2, 32, || 1), Window { start: 100, size: 2, marker: None });
        // A stretch of pages before it shows that the file is read in order.
        assert_eq!(state.miss(100, 2, 32, || 6), Window { start: 100, size: 8, marker: Some(107) });
        assert_eq!(state.miss(5, 1, 32, || 0).size, 4);
    }
}
