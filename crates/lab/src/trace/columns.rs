//! Lists the columns of the canonical trace.

use schemars::JsonSchema;
use seeklab_traces::schema::Column;
use serde::Serialize;

/// The columns of the canonical trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Columns {
    /// Every column, in the order of the trace.
    pub columns: Vec<ColumnInfo>,
}

/// A column of the canonical trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ColumnInfo {
    /// Name of the column.
    pub column: &'static str,
    /// Unit of its values; empty if they have none.
    pub unit: &'static str,
    /// True if a trace cannot be read without the column.
    pub required: bool,
    /// True if a row may lack the value.
    pub nullable: bool,
    /// Version of the schema of traces that introduced the column.
    pub since_schema: u32,
    /// Meaning of its values.
    pub description: &'static str,
}

/// Returns the columns of the canonical trace.
pub fn columns() -> Columns {
    let columns = Column::ALL.into_iter().map(|column| ColumnInfo {
        column: column.name(),
        unit: column.unit(),
        required: Column::REQUIRED.contains(&column),
        nullable: column.is_nullable(),
        since_schema: column.since(),
        description: column.meaning(),
    });
    Columns { columns: columns.collect() }
}
