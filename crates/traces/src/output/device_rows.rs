//! Writer of a text with one row per line, in which a row names its device.

use std::path::Path;

use seeklab_core::TraceRecord;

use super::device_names::{DevicesOut, numbers};
use super::rows::RowsOut;
use crate::error::TraceError;
use crate::metadata::Metadata;
use crate::parse::extent::checked_block_size;
use crate::trace_format::TraceWriter;

/// Function that appends the row of a record to [`RowsOut::line`]. It gets the block size in bytes.
type PushRow = fn(&mut RowsOut, &mut DevicesOut, &TraceRecord, u64) -> Result<(), TraceError>;

/// The writer.
struct DeviceRows {
    rows: RowsOut,
    devices: DevicesOut,
    block_size: u64,
    push_row: PushRow,
}

/// Begins to write `path` in the format of that name.
///
/// # Errors
/// If the block size is not allowed, or nothing can be written there.
pub(crate) fn create(
    format: &'static str,
    path: &Path,
    metadata: &Metadata,
    push_row: PushRow,
) -> Result<Box<dyn TraceWriter>, TraceError> {
    let block_size = checked_block_size(metadata.block_size)?;
    let rows = RowsOut::create(format, path)?;
    Ok(Box::new(DeviceRows { rows, devices: numbers(&metadata.labels), block_size, push_row }))
}

impl TraceWriter for DeviceRows {
    fn write(&mut self, record: &TraceRecord) -> Result<(), TraceError> {
        self.rows.begin();
        (self.push_row)(&mut self.rows, &mut self.devices, record, self.block_size)?;
        self.rows.end()
    }

    fn label(&mut self, device: u16, name: &str) -> Result<(), TraceError> {
        self.devices.label(device, name);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<(), TraceError> {
        self.rows.finish()
    }
}
