//! Workloads whose requests are recorded on one configuration, and replayed on all.
//!
//! A host sends its requests as the device lets it. What a replay of them says of another device or scheduler,
//! and what the host itself says, are rows of one table: figure 1 of Ganger and Patt.
//!
//! # References
//! G. R. Ganger and Y. N. Patt, Using System-Level Models to Evaluate I/O Subsystem Designs, IEEE Transactions on
//! Computers 47(6), 1998, section 6.

use std::collections::BTreeMap;
use std::path::PathBuf;

use seeklab_core::{Limits, Seed};
use tempfile::TempDir;

use crate::devices::Resolved;
use crate::failure::Failure;
use crate::run::{Outputs, metadata, run};
use crate::session::Session;
use crate::workload::ResolvedWorkload;

/// Format of the traces.
pub(super) const FORMAT: &str = "parquet";

/// Traces of recorded workloads, by what determines them. They are removed with this value.
#[derive(Debug, Default)]
pub(super) struct Recordings {
    folder: Option<TempDir>,
    traces: BTreeMap<String, PathBuf>,
}

impl Recordings {
    /// Returns the trace of a workload on a device, which is recorded once for each `identity`.
    ///
    /// # Errors
    /// If the workload cannot be run, the device cannot sustain it, or the trace cannot be written.
    pub(super) fn trace(
        &mut self,
        session: &Session,
        identity: &str,
        device: &Resolved,
        workload: &ResolvedWorkload,
        (seed, limits): (Seed, Limits),
    ) -> Result<PathBuf, Failure> {
        if let Some(known) = self.traces.get(identity) {
            return Ok(known.clone());
        }
        let folder = match self.folder.take() {
            Some(folder) => folder,
            None => TempDir::with_prefix("seeklab-recorded-")?,
        };
        let path = self.folder.insert(folder).path().join(format!("{}.{FORMAT}", self.traces.len()));
        let metadata = metadata(device, device.build(seed, "disk0")?.capabilities(), seed);
        let mut trace = session.create_trace(&path, None, &metadata)?;
        let outputs = Outputs { trace: Some(trace.as_mut()), events: None };
        let result = run(device, workload, seed, limits, outputs, session)?;
        if let Some(why) = result.saturated {
            return Err(Failure::check(why).hint("record a load that the device can sustain"));
        }
        if let Some(failure) = result.write_error {
            return Err(failure);
        }
        trace.finish()?;
        self.traces.insert(identity.to_owned(), path.clone());
        Ok(path)
    }
}
