//! Calibration of this machine for an emulation: loads it, checks it again, reports it.

use std::sync::Arc;

use seeklab_core::{Device, Duration};
use seeklab_emulator::calibration::{Calibration, FrontendKind, NoCalibration, Recheck, Route, SendCost};
use seeklab_emulator::clock::{Clock, DEFAULT_MARGIN, KeptAwake, Pacing};
use seeklab_emulator::pacer::Compensation;
use seeklab_report::Note;

use crate::failure::Failure;
use crate::session::Session;

/// Calibration of a frontend, if there is one. By default transit times are not compensated.
#[derive(Debug, Clone, Default)]
pub struct Calibrated {
    compensates: bool,
    known: Option<Arc<Known>>,
    notes: Vec<Note>,
}

#[derive(Debug)]
struct Known {
    route: Route,
    calibration: Calibration,
    recheck: Option<Recheck>,
}

/// Compensation and waiting parameters of an emulation.
pub(super) struct Correction {
    pub(super) compensation: Compensation,
    pub(super) margin: Duration,
    pub(super) floor: Option<Duration>,
    pub(super) send_cost: Option<SendCost>,
}

impl Calibrated {
    /// Loads the calibration saved for this frontend and pacing on this machine, and checks for one second that
    /// it still holds. If there is none, adds a note with advice.
    ///
    /// # Errors
    /// If the frontend cannot be served here.
    pub fn load(session: &Session, kind: FrontendKind, pacing: Pacing) -> Result<Self, Failure> {
        let held = KeptAwake::under(pacing);
        let route = Route { frontend: kind, processors: KeptAwake::processors(held.as_ref()) };
        let calibration = match Calibration::load() {
            Ok(calibration) => calibration,
            Err(error) => return Ok(Self::absent(&error)),
        };
        if !calibration.knows(route) {
            let text = format!(
                "{route} was not calibrated on this machine, so transit times are not compensated: run \
                 `seeklab calibrate`"
            );
            return Ok(Self { compensates: true, known: None, notes: vec![Note::Warning(text)] });
        }
        let working = session.working("checking that the calibration still holds");
        let recheck = calibration
            .recheck(route, Clock::start())
            .map_err(|error| Failure::chain(&error).context("the calibration cannot be checked"))?;
        drop(working);
        let moved = recheck.as_ref().filter(|recheck| !recheck.holds());
        let notes = moved.map(|recheck| Note::Warning(format!("{recheck}; it was adjusted"))).into_iter();
        let notes = notes.collect();
        Ok(Self { compensates: true, known: Some(Arc::new(Known { route, calibration, recheck })), notes })
    }

    fn absent(error: &NoCalibration) -> Self {
        let text = format!("{error}, so transit times are not compensated: {}", error.hint());
        Self { compensates: true, known: None, notes: vec![Note::Warning(text)] }
    }

    /// Returns true if compensation is enabled.
    pub const fn compensates(&self) -> bool {
        self.compensates
    }

    /// Returns notes for the reader about the calibration.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// The shortest response time that can be emulated here, if it is known.
    pub fn floor(&self) -> Option<Duration> {
        self.known.as_ref().and_then(|known| known.calibration.least_floor(known.route))
    }

    /// Returns the reason if `device` is too fast to be emulated at its real speed, otherwise `None`.
    pub fn below_floor(&self, device: &dyn Device) -> Option<String> {
        let known = self.known.as_ref()?;
        known.calibration.below_floor(known.route, device).map(|below| below.to_string())
    }

    /// Returns the compensation and waiting parameters for a device with such blocks.
    pub(super) fn correction(&self, block_bytes: u32, pacing: Pacing) -> Correction {
        let Some(known) = &self.known else {
            return Correction {
                compensation: Compensation::default(),
                margin: DEFAULT_MARGIN,
                floor: None,
                send_cost: None,
            };
        };
        let saved = known.calibration.compensation(known.route, block_bytes, pacing).unwrap_or_default();
        let compensation = known.recheck.as_ref().map_or(saved, |recheck| recheck.adjust(saved));
        let rows = known.calibration.rows(known.route);
        let lateness = rows.map(|row| row.lateness).min().unwrap_or_default();
        Correction {
            compensation,
            margin: known.calibration.margin(),
            floor: self.floor(),
            send_cost: (pacing != Pacing::Frugal).then(|| SendCost::expecting(lateness)),
        }
    }
}
