//! The pass before a comparison: the application once on a device that takes no time, its figures dropped.

use seeklab_emulator::pacer::Mode;

use super::Series;
use super::host::Interruption;
use super::prepare::Prepared;
use super::repetition::Repetition;
use crate::devices::Faults;
use crate::emulate::{Pace, without_time};
use crate::failure::Failure;
use crate::session::Session;

/// The name of the device in messages.
const NAME: &str = "uncounted pass";

/// Runs the application of `series` once and keeps nothing of it but what was prepared. A command that fails is
/// no error here: it fails in the repetitions, which count.
pub(super) fn pass(
    session: &Session,
    series: &Series,
    interruption: &Interruption,
    prepared: &mut Prepared,
) -> Result<(), Failure> {
    let mut device = without_time(&series.devices[0], Faults::default())?;
    NAME.clone_into(&mut device.name);
    let series = Series {
        devices: vec![device],
        pace: Pace { mode: Mode::RunToCompletion, ..Pace::default() },
        record: None,
        events: None,
        system: None,
        journal: None,
        ..series.clone()
    };
    let what = Repetition { session, series: &series, device: &series.devices[0], number: 0, interruption };
    what.run(prepared).map(drop)
}
