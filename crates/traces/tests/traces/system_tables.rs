//! The reference of the tables of a system-level trace agrees with the row types.

use std::path::Path;

use seeklab_traces::system::table::{CellContent, TableRow};
use seeklab_traces::system::tables::{
    CachedRow, CommitRow, CpuRow, ExtentRow, InitialRow, InterruptRow, LossRow, OccupiedRow, OpenFileRow,
    ProcessRow, StepRow, TABLES_VERSION, WaitRow, WritebackRow,
};
use seeklab_traces::system::{InterruptSource, Role, StepEvent, WaitCause, Waker, WritebackReason};

fn section<R: TableRow>() -> String {
    let mut text = format!("\n## {}\n{}\n\n", R::TABLE, R::MEANING.trim());
    text += "| column | type | meaning |\n| --- | --- | --- |\n";
    for column in R::COLUMNS {
        let content = match column.content {
            CellContent::Number => "unsigned",
            CellContent::Signed => "signed",
            CellContent::Text => "text",
        };
        let optional = if column.is_optional { ", may be null" } else { "" };
        text += &format!("| `{}` | {content}{optional} | {} |\n", column.name, column.meaning.trim());
    }
    text
}

fn values(title: &str, names: impl Iterator<Item = &'static str>) -> String {
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    format!("| {title} | {} |\n", names.join(", "))
}

fn page() -> String {
    let mut text = format!(
        "# Tables of a system-level trace\n\
         Generated from the row types: `SEEKLAB_WRITE_DOCS=1 cargo test -p seeklab-traces system_tables` writes this page. \
         [System-level traces](../system-traces.md) explains them.\n\n\
         Version {TABLES_VERSION}. Each table is a Parquet file `NAME.parquet` with the keys `seeklab.table` and \
         `seeklab.tables_version`. Numbers have 64 bits. Times are nanoseconds since the beginning of the trace. \
         `requests.parquet` is a [canonical trace](traces.md).\n\n\
         | column | values |\n| --- | --- |\n"
    );
    text += &values("`cause`", WaitCause::ALL.iter().map(|value| value.name()));
    text += &values("`event`", StepEvent::ALL.iter().map(|value| value.name()));
    text += &values("`reason`", WritebackReason::ALL.iter().map(|value| value.name()));
    text += &values("`role`", Role::ALL.iter().map(|value| value.name()));
    text += &values("`source`", InterruptSource::ALL.iter().map(|value| value.name()));
    text += &values("`waker`", Waker::ALL.iter().map(|value| value.name()));
    text += &section::<ProcessRow>();
    text += &section::<StepRow>();
    text += &section::<WaitRow>();
    text += &section::<InterruptRow>();
    text += &section::<InitialRow>();
    text += &section::<OpenFileRow>();
    text += &section::<CachedRow>();
    text += &section::<OccupiedRow>();
    text += &section::<ExtentRow>();
    text += &section::<CommitRow>();
    text += &section::<WritebackRow>();
    text += &section::<CpuRow>();
    text += &section::<LossRow>();
    text
}

#[test]
fn reference_of_the_system_tables_equals_the_row_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/system-tables.md");
    if std::env::var_os("SEEKLAB_WRITE_DOCS").is_some() {
        std::fs::write(&path, page()).unwrap();
        return;
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page(),
        "the page is out of date: run `SEEKLAB_WRITE_DOCS=1 cargo test -p seeklab-traces system_tables`"
    );
}
