//! Writing results: stdout for data, files that are whole or not there.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use crate::failure::Failure;

/// The program and its version, for everything that keeps its origin.
pub const VERSION: &str = concat!("seeklab ", env!("CARGO_PKG_VERSION"));

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
    let text = serde_json::to_string_pretty(document).expect("documents have text keys");
    print(&(text + "\n"))
}

/// Checks that a file could be written there, before the work whose result it is to hold.
///
/// # Errors
/// If the folder is not there, or `path` is one.
pub fn check_place(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        return Err(Failure::new(format!("{}: cannot be written, it is a folder", path.display())));
    }
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => Err(Failure::new(format!(
            "{}: cannot be written, there is no folder `{}`",
            path.display(),
            folder.display()
        ))
        .hint("make the folder first, or name another place")),
        _ => Ok(()),
    }
}

/// Writes a whole file: beside it first, then in its place.
///
/// # Errors
/// If the file cannot be written; what was there before stays.
pub fn write_file(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let told =
        |error: io::Error| Failure::from(error).context(format!("{}: cannot be written", path.display()));
    let name =
        path.file_name().ok_or_else(|| Failure::new(format!("{}: is not a file name", path.display())))?;
    let mut temporary = name.to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(temporary);
    fs::write(&temporary, content).map_err(told)?;
    fs::rename(&temporary, path).map_err(|error| {
        let _ = fs::remove_file(&temporary);
        told(error)
    })
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
