//! Writing results on stdout, and the command line that they came from.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use crate::failure::Failure;

/// The program and its version, for everything that keeps its origin.
pub const VERSION: &str = concat!("seeklab ", env!("CARGO_PKG_VERSION"));

/// The version of the schema of JSON documents, which they name as `schema`.
pub const SCHEMA: u32 = 1;

/// Prints text on stdout.
///
/// # Errors
/// If stdout cannot be written.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// Prints one JSON document on stdout.
///
/// # Errors
/// If stdout cannot be written.
pub fn print_json(document: &impl Serialize) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Document<'a, D> {
        schema: u32,
        #[serde(flatten)]
        document: &'a D,
    }
    let value = serde_json::to_value(document).expect("documents have text keys");
    let text = if value.is_object() {
        serde_json::to_string_pretty(&Document { schema: SCHEMA, document })
    } else {
        serde_json::to_string_pretty(&value)
    }
    .expect("documents have text keys");
    print(&(text + "\n"))
}

/// The command line as it was typed, quoted for a shell.
pub fn command_line() -> String {
    let quote = |argument: String| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,%+@".contains(c);
        if !argument.is_empty() && argument.chars().all(plain) {
            argument
        } else {
            format!("'{}'", argument.replace('\'', "'\\''"))
        }
    };
    let mut arguments = std::env::args();
    let _ = arguments.next();
    std::iter::once("seeklab".to_owned()).chain(arguments.map(quote)).collect::<Vec<_>>().join(" ")
}

/// Serializes a path as text. Bytes that are not UTF-8 are replaced.
pub(crate) fn path_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// As [`path_text`].
pub(crate) fn optional_path_text<S: Serializer>(
    path: &Option<PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.display().to_string()).serialize(serializer)
}
