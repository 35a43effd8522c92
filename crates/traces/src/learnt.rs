//! Hands a writer what a reader learns only with its rows: names of devices and initiators, counts at the end.
//!
//! # Scope and limits
//! Names are handed on before the row that uses them, so a format that names the device in every row has it in time.
//! What a reader learns of the seed, the device model, the version or the clock behind its rows is not handed on.

use crate::error::TraceError;
use crate::metadata::Metadata;
use crate::trace_format::TraceWriter;

/// What a writer was told about a trace.
#[derive(Debug, Clone)]
pub struct Learnt(Metadata);

impl Learnt {
    /// The writer was created with `metadata`.
    pub fn of(metadata: &Metadata) -> Self {
        Self(metadata.clone())
    }

    /// Tells the names of devices that are new; to be called before every row.
    ///
    /// # Errors
    /// If the file cannot be written.
    #[inline]
    pub fn tell_labels(
        &mut self,
        metadata: &Metadata,
        writer: &mut dyn TraceWriter,
    ) -> Result<(), TraceError> {
        if metadata.labels.len() == self.0.labels.len() { Ok(()) } else { self.tell_new(metadata, writer) }
    }

    /// Tells everything that is new; to be called behind the last row.
    ///
    /// # Errors
    /// If a key is not allowed, or the file cannot be written.
    pub fn tell_all(&mut self, metadata: &Metadata, writer: &mut dyn TraceWriter) -> Result<(), TraceError> {
        self.tell_new(metadata, writer)?;
        for (key, value) in &metadata.other {
            if self.0.other.get(key) != Some(value) {
                writer.annotate(key, value)?;
                self.0.other.insert(key.clone(), value.clone());
            }
        }
        Ok(())
    }

    #[cold]
    fn tell_new(&mut self, metadata: &Metadata, writer: &mut dyn TraceWriter) -> Result<(), TraceError> {
        for (device, label) in (0..=u16::MAX).zip(&metadata.labels) {
            if self.0.labels.get(usize::from(device)).map_or("", String::as_str) != label {
                writer.label(device, label)?;
            }
        }
        self.0.labels.clone_from(&metadata.labels);
        Ok(())
    }
}
