//! Output files that appear whole or not at all.
//!
//! ```text
//!              ┌─ regular file, or nothing there yet ─▶ Draft ─▶ finish() gives it the name
//! OutputFile ──┤
//!              └─ device, FIFO, terminal ─────────────▶ written through; await_reader() waits for a FIFO's reader
//! ```
//! A [`PartFile`] beside an output holds what a killed process had written.
//!
//! A link stays a link: the file that it leads to is the one that is replaced or created. A path such as
//! `/dev/stdout` means the stream itself, so a file to which the shell appends keeps its contents.
//!
//! # Scope and limits
//! Unix. Where the file system has unnamed files (`O_TMPFILE`), a draft vanishes with the process, however
//! that ends. Elsewhere it has a hidden name, which is removed when the [`OutputFile`] is dropped.

mod check;
mod draft;
mod error;
mod fifo;
mod output;
mod part;
mod target;

pub use check::{check_apart, check_distinct, check_folder, check_rereadable, check_writable};
pub use error::FileError;
pub use fifo::{AwaitedReader, await_reader};
pub use output::{OutputFile, write};
pub use part::{ExistingPart, PartFile};
