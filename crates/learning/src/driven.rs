//! A device driven by the requests of a trace, one by one.

use seeklab_core::{Completion, Device, Instant, Limits, Simulation, TraceRecord};
use seeklab_workloads::replay::{Beyond, FedReplay, Mode, Settings};

use crate::error::{Error, ErrorKind};

/// A device and the replay that drives it through the event loop, as far as the requests that it got.
#[derive(Debug)]
pub(crate) struct Driven<D> {
    device: D,
    replay: FedReplay,
    simulation: Simulation,
}

impl<D: Device> Driven<D> {
    /// A device before its first request.
    pub(crate) fn new(device: D, mode: Mode) -> Self {
        let settings = Settings {
            mode,
            beyond: Beyond::Error,
            capacity_blocks: device.capabilities().capacity_blocks,
            address_range_blocks: 0,
            requests: None,
            device: None,
            from: Instant::ZERO,
            devices: None,
        };
        let simulation = Simulation::new(Limits { outstanding_max: usize::MAX });
        Self { device, replay: FedReplay::fed(settings), simulation }
    }

    /// The device.
    pub(crate) const fn device(&self) -> &D {
        &self.device
    }

    /// Submits one request more, in order of arrival, when what it had waited for has completed. Requests are numbered
    /// from zero.
    ///
    /// # Errors
    /// If the device refuses it.
    pub(crate) fn take(
        &mut self,
        record: &TraceRecord,
        observe: impl FnMut(&Completion),
    ) -> Result<(), Error> {
        let refused = |error: &dyn std::error::Error| {
            let message = format!("the fitted device refuses a request of its own trace: {error}");
            Error::new(ErrorKind::Device, message)
        };
        self.replay.push(record).map_err(|error| refused(&error))?;
        let run = self.simulation.run_until_finished(&mut self.replay, &mut self.device, observe);
        run.map_err(|error| refused(&error))
    }

    /// Completes what is outstanding.
    pub(crate) fn finish(&mut self, observe: impl FnMut(&Completion)) {
        self.replay.end();
        let run = self.simulation.run(&mut self.replay, &mut self.device, observe);
        run.expect("nothing arrives any more that could be refused");
    }
}
