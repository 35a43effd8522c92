//! Facts and forms that every result shares.

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

/// The program and its version, for everything that keeps its origin.
pub const VERSION: &str = concat!("seeklab ", env!("CARGO_PKG_VERSION"));

/// The version of the schema of JSON documents, which they name as `schema`.
pub const SCHEMA: u32 = 1;

/// Returns words as one command line, quoted for a shell.
pub fn shell_text(words: impl IntoIterator<Item = String>) -> String {
    let quote = |word: String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,%+@".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    words.into_iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// Returns a number of things in words: `1 request`, `2 requests`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Serializes a path as text. Bytes that are not UTF-8 are replaced.
pub(crate) fn path_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// As [`path_text`].
pub(crate) fn path_texts<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.display().to_string()))
}

/// As [`path_text`].
pub(crate) fn optional_path_text<S: Serializer>(
    path: &Option<PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.display().to_string()).serialize(serializer)
}
