//! Facts and forms that every result shares.

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// The program and its version, for everything that keeps its origin.
pub const VERSION: &str = concat!("seeklab ", env!("CARGO_PKG_VERSION"));

/// The version of the schema of JSON documents, which they name as `schema`.
pub const SCHEMA: u32 = 1;

/// Returns a JSON document as a verb prints it: an object with the version of the schema first.
///
/// # Panics
/// If the document has keys that are no text, which none of ours has.
pub fn document_value(document: &impl Serialize) -> Value {
    let value = serde_json::to_value(document).expect("documents have text keys");
    match value {
        Value::Object(keys) => {
            let version = [("schema".to_owned(), SCHEMA.into())];
            Value::Object(version.into_iter().chain(keys).collect::<Map<_, _>>())
        }
        value => value,
    }
}

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
