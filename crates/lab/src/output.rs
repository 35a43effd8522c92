//! Writing results: stdout for data, files that are whole or not there.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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

/// The same, and that the file is none of `inputs`, which would be gone: not by another name either.
///
/// An input may be a folder of numbered files, or the base of such; then it is none of these.
///
/// # Errors
/// As [`check_place`]; if it is an input.
pub fn check_apart<P: AsRef<Path>>(path: &Path, inputs: impl IntoIterator<Item = P>) -> Result<(), Failure> {
    check_place(path)?;
    let Some(output) = identity(path) else { return Ok(()) };
    for input in inputs {
        let input = input.as_ref();
        if files_of(input).iter().any(|file| identity(file) == Some(output)) {
            return Err(Failure::new(format!(
                "{}: cannot be written, it is what is read: {}",
                path.display(),
                input.display()
            ))
            .hint("name another file for the result"));
        }
    }
    Ok(())
}

/// Device and inode of a file.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some((metadata.dev(), metadata.ino()))
}

/// The files that are read where `path` is named: it, or the numbered ones in it or whose names begin with it.
fn files_of(path: &Path) -> Vec<PathBuf> {
    let (folder, base) = match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => (path, String::new()),
        Ok(_) => return vec![path.to_owned()],
        Err(_) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            (path.parent().unwrap_or(Path::new("")), format!("{name}."))
        }
    };
    let is_part = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let number = file.extension().unwrap_or_default().to_string_lossy();
        name.starts_with(&base) && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(is_part).collect()
}

/// Checks that an input can be read from its start more than once.
///
/// # Errors
/// If it is a pipe or the like.
pub fn check_twice(path: &Path) -> Result<(), Failure> {
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => Err(Failure::new(format!(
            "{}: is no file but a pipe or a device, and it is read more than once",
            path.display()
        ))
        .hint("write it to a file first")),
        _ => Ok(()), // Whoever opens it says what else is wrong.
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
