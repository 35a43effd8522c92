//! Lists the trace formats.

use schemars::JsonSchema;
use seeklab_columnar::FORMATS;
use serde::Serialize;

/// The trace formats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Formats {
    /// Every format that can be read.
    pub formats: Vec<FormatInfo>,
}

/// A trace format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FormatInfo {
    /// Name of the format.
    pub format: &'static str,
    /// True if traces can be written in this format.
    pub writable: bool,
    /// Description of the format.
    pub description: &'static str,
    /// File suffixes without dot.
    pub suffixes: &'static [&'static str],
    /// Columns that the format does not contain.
    pub missing_columns: Vec<&'static str>,
    /// Options for reading the format.
    pub options: Vec<FormatOptionInfo>,
}

/// An option of a trace format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FormatOptionInfo {
    /// Name of the option.
    pub name: &'static str,
    /// Allowed values.
    pub allowed: String,
    /// Default value.
    pub default: &'static str,
    /// Meaning of the option.
    pub meaning: &'static str,
}

/// Returns the trace formats.
pub fn formats() -> Formats {
    let formats = FORMATS.iter().map(|format| FormatInfo {
        format: format.name(),
        writable: format.is_writable(),
        description: format.description(),
        suffixes: format.suffixes(),
        missing_columns: format.missing_columns().iter().map(|missing| missing.name()).collect(),
        options: format
            .options()
            .iter()
            .map(|option| FormatOptionInfo {
                name: option.name,
                allowed: option.allowed.to_string(),
                default: option.default,
                meaning: option.meaning,
            })
            .collect(),
    });
    Formats { formats: formats.collect() }
}
