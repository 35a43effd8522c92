//! What a trace holds, by one pass over it.

use std::collections::BTreeMap;

use seeklab_core::{Instant, TraceRecord};
use seeklab_traces::OpenTrace;

use crate::failure::Failure;
use crate::progress::Progress;

/// What one pass tells.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Requests of each device.
    pub(super) devices: BTreeMap<u16, u64>,
    /// First and last arrival of each device.
    pub(super) span: BTreeMap<u16, (Instant, Instant)>,
    /// First block of each device that no request went beyond.
    pub(super) end: BTreeMap<u16, u64>,
    /// Requests that the recorder itself made.
    pub(super) recorders_own: u64,
}

impl Survey {
    pub(super) fn of(trace: OpenTrace) -> Result<Self, Failure> {
        let mut survey = Self::default();
        each(trace, "looking at the trace", |record, is_own| {
            if is_own {
                survey.recorders_own += 1;
                return Ok(());
            }
            *survey.devices.entry(record.device).or_default() += 1;
            let span = survey.span.entry(record.device).or_insert((record.arrival, record.arrival));
            span.1 = span.1.max(record.arrival);
            let end = survey.end.entry(record.device).or_default();
            *end = (*end).max(record.lbn.saturating_add(u64::from(record.blocks)));
            Ok(())
        })?;
        Ok(survey)
    }

    pub(super) fn device(&self, wanted: Option<u16>) -> Result<u16, Failure> {
        let names = || self.devices.keys().map(u16::to_string).collect::<Vec<_>>().join(", ");
        match (wanted, self.devices.len()) {
            (_, 0) => Err(Failure::new("the trace has no requests")),
            (Some(device), _) if self.devices.contains_key(&device) => Ok(device),
            (Some(device), _) => Err(Failure::new(format!("--device {device}: there is no such device"))
                .hint(format!("the trace has {}", names()))),
            (None, 1) => Ok(*self.devices.keys().next().expect("there is one")),
            (None, count) => {
                Err(Failure::new(format!("the trace has {count} devices, and a model is of one"))
                    .hint(format!("choose with --device: {}", names())))
            }
        }
    }
}

/// Shows every row to `take`, and whether the recorder made it.
pub(super) fn each(
    mut trace: OpenTrace,
    what: &str,
    mut take: impl FnMut(&TraceRecord, bool) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut progress = Progress::new(what, None);
    while let Some(record) = trace.next().transpose()? {
        let recorder = trace.metadata().recorder();
        take(&record, recorder.is_recorders_own(&record))?;
        progress.step();
    }
    Ok(())
}
