//! Files of fio's results.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use seeklab_learning::fio::{Sweep, looks_like_fio, read};

use crate::failure::Failure;

/// Number of bytes that are examined to recognise a file.
const LOOK_BYTES: u64 = 64 * 1024;

/// The largest file that is read.
const BYTES_MAX: u64 = 1 << 30;

/// Returns true if the file holds fio's JSON.
///
/// # Errors
/// If it cannot be read.
pub fn is_fio(path: &Path) -> Result<bool, Failure> {
    if !path.is_file() {
        return Ok(false); // Readers of traces say what is wrong.
    }
    let mut bytes = Vec::new();
    open(path)?
        .take(LOOK_BYTES)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::from(error).context(path.display()))?;
    let named = path.extension().is_some_and(|suffix| suffix.eq_ignore_ascii_case("json"));
    Ok(named || looks_like_fio(&bytes))
}

fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|error| Failure::from(error).context(path.display()))
}

/// Reads a file.
///
/// # Errors
/// If it cannot be read or is not fio's.
pub fn read_file(path: &Path) -> Result<Sweep, Failure> {
    let mut bytes = Vec::new();
    open(path)?
        .take(BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::from(error).context(path.display()))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(Failure::new(format!("{}: is larger than 1 GiB", path.display()))
            .hint("fio's results are some 10 KiB for each job; is it a log?"));
    }
    Ok(read(&bytes).map_err(|error| error.context(path.display()))?)
}
