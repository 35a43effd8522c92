//! Pages of the documents with tables that tests compute.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "documents are read and written")]

use std::path::PathBuf;

/// A page under `docs/`.
pub(crate) struct Page {
    path: PathBuf,
    /// Text of the file.
    pub(crate) text: String,
}

impl Page {
    /// Reads the page of that name.
    pub(crate) fn read(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { path, text }
    }

    /// Asserts that the page has this text, or writes it if `SEEKLAB_WRITE_DOCS` is set.
    #[track_caller]
    pub(crate) fn has(&self, current: &str) {
        if std::env::var_os("SEEKLAB_WRITE_DOCS").is_some() {
            std::fs::write(&self.path, current).unwrap();
            return;
        }
        assert!(
            self.text == current,
            "{}: the tables are out of date: run `SEEKLAB_WRITE_DOCS=1 cargo test -p seeklab-devices --test devices`",
            self.path.display()
        );
    }
}
