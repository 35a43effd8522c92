//! Files: their blocks, and the addresses of the blocks on the device.
//!
//! ```text
//! device   |……|extent 0|……|extent 1|……|extent 2|
//!             ↑ at        ↑ at + distance
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use seeklab_core::{ByteSize, DescriptionError, Mistake};

use super::PAGE_BYTES;
use super::linux::LinuxFileSource;
use super::recorded::{RecordedExtent, RecordedFile};
use super::spec::FileSpec;

/// A file, in blocks of [`PAGE_BYTES`].
#[derive(Debug, Clone)]
pub(super) struct File {
    pub(super) size_bytes: u64,
    /// Bytes from the start on that the file holds: a write beyond them reads nothing.
    pub(super) held_bytes: u64,
    /// Number of its first block among the blocks of all files.
    pub(super) first_page: u64,
    pub(super) pages: u64,
    /// Blocks of each file, if it stands for several.
    each_pages: u64,
    at: u64,
    extent_pages: u64,
    distance_pages: u64,
    pub(super) is_cached: bool,
}

impl File {
    /// Address of block `index` on the device, in blocks of [`PAGE_BYTES`].
    pub(super) const fn address(&self, index: u64) -> u64 {
        self.at + index / self.extent_pages * self.distance_pages + index % self.extent_pages
    }

    /// Number of blocks from `index` on that follow each other on the device.
    pub(super) const fn contiguous(&self, index: u64) -> u64 {
        let in_extent = self.extent_pages - index % self.extent_pages;
        let in_file = self.pages - index;
        if in_extent < in_file { in_extent } else { in_file }
    }

    /// The same blocks as Linux has them: extents.
    pub(super) fn source(&self) -> LinuxFileSource {
        let extents = (0..self.pages).step_by(self.extent_pages as usize);
        let extents = extents.map(|first| RecordedExtent {
            first,
            address: self.address(first),
            pages: self.extent_pages.min(self.pages - first),
        });
        let recorded = RecordedFile {
            pages: self.pages,
            extents: extents.collect(),
            is_cached: self.is_cached,
            cached: Vec::new(),
            allocations: Vec::new(),
        };
        LinuxFileSource { recorded: Arc::new(recorded), each_pages: self.each_pages }
    }

    /// The block after the last of the file that holds block `index`.
    pub(super) const fn end_of_file(&self, index: u64) -> u64 {
        let end = (index / self.each_pages + 1) * self.each_pages;
        if end < self.pages { end } else { self.pages }
    }
}

/// Lays files out on a device of `device_pages`.
///
/// # Errors
/// A size that is no whole number of blocks, or a file that does not fit.
pub(super) fn lay_out(
    files: &BTreeMap<String, FileSpec>,
    device_pages: u64,
) -> Result<Vec<File>, DescriptionError> {
    let mut laid = Vec::with_capacity(files.len());
    let (mut first_page, mut next) = (0, 0);
    for (name, spec) in files {
        let file = lay_out_file(spec, first_page, next, device_pages)
            .map_err(|error| error.under(name).under("files"))?;
        first_page += file.pages;
        next = file.address(file.pages - 1) + 1;
        laid.push(file);
    }
    Ok(laid)
}

fn lay_out_file(
    spec: &FileSpec,
    first_page: u64,
    next: u64,
    device_pages: u64,
) -> Result<File, DescriptionError> {
    let pages = spec.size.as_bytes().div_ceil(PAGE_BYTES);
    let whole = |key: &str, size: Option<ByteSize>, default: u64| match size.map(ByteSize::as_bytes) {
        None => Ok(default),
        Some(bytes) if bytes.is_multiple_of(PAGE_BYTES) => Ok(bytes / PAGE_BYTES),
        Some(bytes) => Err(DescriptionError::invalid(
            key,
            format!("{} is not a whole number of blocks", ByteSize::from_bytes(bytes)),
        )
        .hint("write a multiple of 4KiB")),
    };
    let at = whole("at", spec.at, next)?;
    let each_pages = whole("each", spec.each, pages)?;
    let extent_pages = whole("extent", spec.extent, each_pages)?;
    let distance_pages = whole("distance", spec.distance, extent_pages)?;
    if distance_pages < extent_pages {
        return Err(DescriptionError::invalid("distance", "is less than the size of a contiguous part")
            .hint("the distance counts from the start of a part to the start of the next"));
    }
    let file = File {
        size_bytes: spec.size.as_bytes(),
        held_bytes: if spec.new { 0 } else { spec.size.as_bytes() },
        first_page,
        pages,
        each_pages,
        at,
        extent_pages,
        distance_pages,
        is_cached: spec.cached,
    };
    let extents = u128::from((pages - 1) / extent_pages);
    let end =
        u128::from(at) + extents * u128::from(distance_pages) + u128::from((pages - 1) % extent_pages) + 1;
    if end > u128::from(device_pages) {
        let device = ByteSize::from_bytes(device_pages * PAGE_BYTES);
        return Err(DescriptionError::new(
            Mistake::DoesNotFit,
            "",
            format!("ends at {} MiB, beyond the device of {device}", end * 4 / 1024),
        )
        .hint("choose another `at`, a smaller `distance` or a larger device"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> FileSpec {
        toml::from_str(text).expect(text)
    }

    #[test]
    fn parts_lie_at_their_distance_and_files_follow_each_other() {
        let files = BTreeMap::from([
            ("a".to_owned(), spec("size = '37KiB'\nat = '4MiB'\nextent = '16KiB'\ndistance = '1MiB'")),
            ("b".to_owned(), spec("size = '1B'")),
        ]);
        let laid = lay_out(&files, 1 << 20).unwrap();
        let addresses: Vec<u64> = (0..10).map(|index| laid[0].address(index)).collect();
        assert_eq!(addresses, [1024, 1025, 1026, 1027, 1280, 1281, 1282, 1283, 1536, 1537]);
        assert_eq!([0, 3, 8, 9].map(|index| laid[0].contiguous(index)), [4, 1, 2, 1]);
        assert_eq!((laid[1].address(0), laid[1].first_page, laid[1].pages), (1538, 10, 1));
    }

    #[test]
    fn several_files_end_where_each_ends() {
        let files = BTreeMap::from([("tree".to_owned(), spec("size = '80KiB'\neach = '28KiB'"))]);
        let laid = lay_out(&files, 1 << 20).unwrap();
        assert_eq!([0, 6, 7, 13, 14, 19].map(|index| laid[0].end_of_file(index)), [7, 7, 14, 14, 20, 20]);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("size = '4KiB'\nat = '1KiB'", "files.a.at: 1KiB is not a whole number of blocks"),
            ("size = '64KiB'\nextent = '16KiB'\ndistance = '8KiB'", "files.a.distance: is less"),
            ("size = '5MiB'", "beyond the device of 4MiB"),
            ("size = '5KiB'\nextent = '4KiB'\ndistance = '4MiB'", "beyond the device"),
        ] {
            let files = BTreeMap::from([("a".to_owned(), spec(text))]);
            let error = lay_out(&files, 1024).expect_err(text);
            assert!(error.to_string().contains(part) && error.advice().is_some(), "{text}: {error}");
        }
    }
}
