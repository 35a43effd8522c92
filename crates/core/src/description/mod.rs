//! Descriptions that people write as TOML: of devices, workloads and experiments.
//!
//! ```text
//! text ──parse──▶ table ──read──▶ declared struct (serde, schemars)
//!                   │                    │
//!                   ▼                    ├─▶ check_ranges
//!          DescriptionError              └─▶ JSON schema ─▶ reference pages, editors
//!   (file, line, key, value, allowed)
//! ```
//! A struct declares its keys once: names, documentation, defaults, units and ranges. The reader, the checks, the JSON
//! schema and the reference pages follow from the declaration.
//!
//! # Scope and limits
//! Pure text: whoever calls opens the file. The line of a mistake is that of its key, or of the nearest table around a
//! key that is missing.

mod error;
mod position;
mod reader;
mod reference;
pub mod schema;
#[cfg(test)]
mod tests;

pub use error::{DescriptionError, Mistake};
pub use position::line_of;
pub use reader::{parse, read, read_beside};
pub use reference::{ParameterInfo, reference, reference_tables};
