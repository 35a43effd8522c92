//! The arrow types of the trace's columns, and how each is encoded.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use seeklab_traces::schema::{Column, Content};

/// Rows of a row group. The footer has an entry for each column of each group, which writer and
/// reader hold in memory (15 MiB for 100 million rows), and the writer holds one group compressed (10
/// MiB): smaller groups would save of the second and cost of the first.
const GROUP_ROWS: usize = 262_144;

/// Rows of a page: readers hold one page of each column.
const PAGE_ROWS: usize = 8_192;

/// The arrow type that `column` is written with.
pub(crate) fn data_type(column: Column) -> DataType {
    match column.content() {
        Content::Number(max) if max > u64::from(u32::MAX) => DataType::UInt64,
        Content::Number(max) if max > u64::from(u16::MAX) => DataType::UInt32,
        Content::Number(max) if max > u64::from(u8::MAX) => DataType::UInt16,
        Content::Number(_) => DataType::UInt8,
        Content::Name(_) => DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)),
        Content::Flag => DataType::Boolean,
        Content::Faults => DataType::Utf8,
    }
}

/// The schema of a file with those columns.
pub(crate) fn schema(columns: &[Column]) -> Arc<Schema> {
    let field = |column: &Column| Field::new(column.name(), data_type(*column), column.is_nullable());
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// Returns the properties for writing files: numbers as differences, names from a dictionary, zstd over both.
/// Statistics and indexes are omitted, since they would grow the footer and a trace has no use for them.
pub(crate) fn properties(key_values: Vec<KeyValue>) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("seeklab ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(key_values))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_dictionary_enabled(false);
    for column in Column::ALL {
        let path = ColumnPath::from(column.name());
        properties = match column.content() {
            Content::Number(_) => properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED),
            Content::Name(_) | Content::Faults => properties.set_column_dictionary_enabled(path, true),
            Content::Flag => properties,
        };
    }
    properties.build()
}
