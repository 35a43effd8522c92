//! Passes metadata that a reader finds only while it reads rows to the writer: names of devices
//! and initiators, and values such as counts at the end.
//!
//! # Scope and limits
//! Names are passed on before the row that uses them, so a format that names the device in every row has them
//! in time. Changes of the seed, the device model, the version or the clock after the first row are not
//! passed on.

use crate::error::TraceError;
use crate::metadata::Metadata;
use crate::trace_format::TraceWriter;

/// Metadata that a writer has received so far.
#[derive(Debug, Clone)]
pub struct NameTable(Metadata);

impl NameTable {
    /// The writer was created with `metadata`.
    pub fn of(metadata: &Metadata) -> Self {
        Self(metadata.clone())
    }

    /// Passes the names of new devices to the writer. Must be called before every row.
    ///
    /// # Errors
    /// If the file cannot be written.
    #[inline]
    pub fn pass_labels(
        &mut self,
        metadata: &Metadata,
        writer: &mut dyn TraceWriter,
    ) -> Result<(), TraceError> {
        if metadata.labels.len() == self.0.labels.len() { Ok(()) } else { self.pass_new(metadata, writer) }
    }

    /// Passes all new metadata to the writer. Must be called after the last row.
    ///
    /// # Errors
    /// If a key is not allowed, or the file cannot be written.
    pub fn pass_all(&mut self, metadata: &Metadata, writer: &mut dyn TraceWriter) -> Result<(), TraceError> {
        self.pass_new(metadata, writer)?;
        for (key, value) in &metadata.other {
            if self.0.other.get(key) != Some(value) {
                writer.annotate(key, value)?;
                self.0.other.insert(key.clone(), value.clone());
            }
        }
        Ok(())
    }

    #[cold]
    fn pass_new(&mut self, metadata: &Metadata, writer: &mut dyn TraceWriter) -> Result<(), TraceError> {
        for (device, label) in (0..=u16::MAX).zip(&metadata.labels) {
            if self.0.labels.get(usize::from(device)).map_or("", String::as_str) != label {
                writer.label(device, label)?;
            }
        }
        self.0.labels.clone_from(&metadata.labels);
        Ok(())
    }
}
