//! Contents of the report on one trace.

use std::collections::BTreeMap;

use seeklab_analysis::{Character, Metrics};

/// A trace, ready to be drawn.
#[derive(Debug, Clone)]
pub struct TraceReport {
    /// The title of the page.
    pub title: String,
    /// One line below it.
    pub subtitle: String,
    /// The program and its version.
    pub generated_by: String,
    /// The command line that makes it again.
    pub command: Option<String>,
    /// Notes that a reader should know before the figures, such as how much of the trace is missing.
    pub notes: Vec<String>,
    /// Figures.
    pub metrics: Metrics,
    /// Everything else.
    pub character: Character,
    /// Names of the devices 0, 1, 2 and so on.
    pub labels: Vec<String>,
    /// Names of initiators, such as those of processes by their numbers.
    pub names: BTreeMap<u32, String>,
}
