//! Standard input as a file: a pipe can be read once, and some verbs read their input twice.
//!
//! ```text
//! producer ─▶ pipe ─▶ unnamed temporary file ─▶ takes the place of standard input
//! ```
//! The copy lies in the temporary folder (`TMPDIR`) and goes with the process, however that ends.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::stdio::dup2_stdin;
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;
use seeklab_lab::trace::STANDARD_INPUT;

/// Replaces standard input by a copy in a temporary file if one of the inputs is standard input and it is a pipe.
///
/// # Errors
/// If standard input cannot be read, or the copy cannot be written.
pub(crate) fn make_rereadable<'a>(
    session: &Session,
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<(), Failure> {
    if !inputs.into_iter().any(|input| input == Path::new(STANDARD_INPUT)) {
        return Ok(());
    }
    let input = File::open(STANDARD_INPUT)
        .map_err(|error| Failure::from(error).context("standard input cannot be opened"))?;
    if input.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Ok(());
    }
    let copied = {
        let _copying = session.working("copying standard input");
        copy(input)
    };
    let (copy, bytes) = copied.map_err(|error| {
        let folder = std::env::temp_dir();
        Failure::from(error)
            .context(format!("standard input cannot be copied to the temporary folder {}", folder.display()))
            .hint("name a folder with room for it by TMPDIR, or write the input to a file first")
    })?;
    session.check()?;
    dup2_stdin(&copy).map_err(|error| Failure::from(io::Error::from(error)).context("standard input"))?;
    session.remark(format!(
        "note: standard input is read more than once: {bytes} bytes were copied to a temporary file"
    ));
    Ok(())
}

/// Copies a stream to an unnamed temporary file. Returns the file and its size.
fn copy(mut stream: File) -> io::Result<(File, u64)> {
    let mut copy = tempfile::tempfile()?;
    let bytes = io::copy(&mut stream, &mut copy)?;
    Ok((copy, bytes))
}
