//! Results on stdout, and the command line that they came from.

use std::io::{self, Write};

use seeklab_lab::failure::Failure;
use seeklab_lab::output::{document_value, shell_text};
use serde::Serialize;
use serde_json::Value;

/// Prints text on stdout.
///
/// # Errors
/// If stdout cannot be written.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| Failure::from(error).context("standard output: cannot be written"))
}

/// Prints one JSON document on stdout.
///
/// # Errors
/// If stdout cannot be written.
pub(crate) fn print_json(document: &impl Serialize) -> Result<(), Failure> {
    print(&json_text(document))
}

/// Returns one JSON document, as it is printed.
pub(crate) fn json_text(document: &impl Serialize) -> String {
    format!("{:#}\n", document_value(document))
}

/// Prints a JSON schema on stdout. It is no document itself and names no version of them.
///
/// # Errors
/// If stdout cannot be written.
pub(crate) fn print_schema(schema: &Value) -> Result<(), Failure> {
    print(&format!("{schema:#}\n"))
}

/// The command line as it was typed, quoted for a shell.
pub(crate) fn command_line() -> String {
    let arguments = crate::supervisor::arguments().map(|word| word.to_string_lossy().into_owned());
    shell_text(std::iter::once("seeklab".to_owned()).chain(arguments))
}
