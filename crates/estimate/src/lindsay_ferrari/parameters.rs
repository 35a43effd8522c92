//! Parameters of the equations.

use super::request::{Request, request};
use crate::error::{EstimateError, check_not_negative, check_positive};

/// A stream of jobs, its machine and its policies. Comments give the symbol of the paper.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// `A`: access of a request in seconds: processor delay, seek and rotational latency, without queue and transfer.
    pub access_s: f64,
    /// `C_j`: processor time of all jobs, in seconds.
    pub job_processor_s: f64,
    /// Processor time of the system, `C_s`.
    pub system: SystemTime,
    /// `M`: jobs that are active at a time, at least 1. Need not be whole.
    pub multiprogramming: f64,
    /// `D`: drives, all used equally. Need not be whole: the busier of two drives with traffic of 5:3 is one of 1.6.
    pub drives: f64,
    /// `F`: active files of one drive, at least 1.
    pub files_per_drive: f64,
    /// `NSECT`: sectors of all jobs, input and output.
    pub sectors: f64,
    /// `r_d`: transfer rate of a drive, in sectors per second.
    pub drive_rate_per_s: f64,
    /// `B`: size of a buffer, in sectors.
    pub buffer_sectors: f64,
    /// `C`: sectors filled (output) or free (input) at which the disk is called, above 0 and at most `B`.
    pub threshold_sectors: f64,
    /// Moment at which a blocked job may run again.
    pub reactivation: Reactivation,
    /// Extent of a request.
    pub transfers: Transfers,
    /// Rate states, shares of the sectors that sum to 1.
    pub states: Vec<RateState>,
}

/// Processor time of the system, equation (A.1): `C_s = base + per_call × calls`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SystemTime {
    /// Constant part, in seconds. 33.6 in (A.1).
    pub base_s: f64,
    /// Time of each call, in seconds. 0.007 in (A.1).
    pub per_call_s: f64,
    /// Calls that count.
    pub calls: SystemCalls,
}

/// Calls that count in equation (A.1). The paper leaves it open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SystemCalls {
    /// `X` by its definition: the calls of one drive.
    OfOneDrive,
    /// Calls of all drives, as the text of the appendix has it.
    OfAllDrives,
}

/// Moment at which a job that found no room in its buffer may run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reactivation {
    /// At the end of the transfer: "without reactivation", figure 3.
    AtEnd,
    /// After each sector: "with reactivation", figure 4.
    PerSector,
}

/// Extent of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfers {
    /// The drive is held while the buffer has data, as in the paper.
    Chained,
    /// One request of what the buffer holds when the drive is free. Not in the paper.
    SizedAtStart,
}

/// A state of the input or output rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateState {
    /// `r_k`: sectors per second of processor time.
    pub rate_per_s: f64,
    /// `f_k`: share of the sectors.
    pub share: f64,
    /// Sectors for which the state lasts, at least 1. No request has more, except for what its buffer holds at the
    /// start. `N_MAX` of the fast state: 1/0.011.
    pub residence_sectors: f64,
}

impl Parameters {
    /// `T`: transfer time of one drive, in seconds: `NSECT / (D r_d)`.
    pub fn transfer_s(&self) -> f64 {
        self.sectors / (self.drives * self.drive_rate_per_s)
    }

    /// `C_s` by (A.1), in seconds, for `X` requests of one drive.
    pub fn system_processor_s(&self, requests_per_drive: f64) -> f64 {
        let calls = match self.system.calls {
            SystemCalls::OfOneDrive => requests_per_drive,
            SystemCalls::OfAllDrives => requests_per_drive * self.drives,
        };
        self.system.base_s + self.system.per_call_s * calls
    }

    /// `N` and `u` of a request in `state`, for a processor share `r_e` above 0 and a wait `d` in seconds: figure 3 or
    /// figure 4, by the policy.
    pub fn request(&self, state: &RateState, processor_share: f64, wait_s: f64) -> Request {
        request(self, state, processor_share, wait_s)
    }

    /// Checks every parameter.
    ///
    /// # Errors
    /// The first parameter that is out of range.
    pub fn check(&self) -> Result<(), EstimateError> {
        check_positive("access_s", self.access_s)?;
        check_positive("job_processor_s", self.job_processor_s)?;
        check_not_negative("system.base_s", self.system.base_s)?;
        check_not_negative("system.per_call_s", self.system.per_call_s)?;
        at_least_one("multiprogramming", self.multiprogramming)?;
        check_positive("drives", self.drives)?;
        at_least_one("files_per_drive", self.files_per_drive)?;
        check_positive("sectors", self.sectors)?;
        check_positive("drive_rate_per_s", self.drive_rate_per_s)?;
        check_positive("buffer_sectors", self.buffer_sectors)?;
        check_positive("threshold_sectors", self.threshold_sectors)?;
        if self.threshold_sectors > self.buffer_sectors {
            return Err(EstimateError::Parameter {
                parameter: "threshold_sectors",
                value: self.threshold_sectors,
                allowed: "at most the size of the buffer",
            });
        }
        for state in &self.states {
            check_positive("rate_per_s", state.rate_per_s)?;
            check_not_negative("share", state.share)?;
            at_least_one("residence_sectors", state.residence_sectors)?;
        }
        let total: f64 = self.states.iter().map(|state| state.share).sum();
        if (total - 1.0).abs() > SHARE_TOLERANCE {
            return Err(EstimateError::Parameter {
                parameter: "share",
                value: total,
                allowed: "shares of the states that sum to 1",
            });
        }
        Ok(())
    }
}

/// Deviation of a sum of shares from 1 that rounding explains.
const SHARE_TOLERANCE: f64 = 1e-6;

fn at_least_one(parameter: &'static str, value: f64) -> Result<(), EstimateError> {
    if value.is_finite() && value >= 1.0 {
        Ok(())
    } else {
        Err(EstimateError::Parameter { parameter, value, allowed: "a finite number of at least 1" })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The parameters of figure 7 with half of the sectors at 5000/s and half at 1/0.0258 s, (A.1) per drive.
    pub(in super::super) fn figure_7(multiprogramming: f64, buffer: f64) -> Parameters {
        let state = |rate_per_s| RateState { rate_per_s, share: 0.5, residence_sectors: 90.0 };
        Parameters {
            access_s: 62e-3,
            job_processor_s: 260.0,
            system: SystemTime { base_s: 33.6, per_call_s: 7e-3, calls: SystemCalls::OfOneDrive },
            multiprogramming,
            drives: 1.6,
            files_per_drive: 4.0,
            sectors: 40_300.0,
            drive_rate_per_s: 1000.0,
            buffer_sectors: buffer,
            threshold_sectors: buffer / 2.0,
            reactivation: Reactivation::AtEnd,
            transfers: Transfers::Chained,
            states: vec![state(5000.0), state(1.0 / 0.0258)],
        }
    }

    #[test]
    fn parameters_out_of_range_are_named_with_their_value() {
        let refused = |change: fn(&mut Parameters), parameter: &str| {
            let mut parameters = figure_7(3.0, 8.0);
            change(&mut parameters);
            let error = parameters.check().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{parameter}` is ")), "{error}");
        };
        figure_7(3.0, 8.0).check().unwrap();
        refused(|p| p.threshold_sectors = 8.5, "threshold_sectors");
        refused(|p| p.threshold_sectors = 0.0, "threshold_sectors");
        refused(|p| p.states[0].rate_per_s = 0.0, "rate_per_s");
        refused(|p| p.states[0].share = 0.4, "share");
        refused(|p| p.states.clear(), "share");
        refused(|p| p.states[1].residence_sectors = 0.5, "residence_sectors");
        refused(|p| p.multiprogramming = 0.9, "multiprogramming");
        refused(|p| p.files_per_drive = f64::NAN, "files_per_drive");
        refused(|p| p.access_s = 0.0, "access_s");
        refused(|p| p.system.per_call_s = -1.0, "system.per_call_s");
    }

    #[test]
    fn system_time_counts_the_calls_of_one_drive_or_of_all() {
        let mut parameters = figure_7(3.0, 8.0);
        assert!((parameters.system_processor_s(2000.0) - 47.6).abs() < 1e-12);
        parameters.system.calls = SystemCalls::OfAllDrives;
        assert!((parameters.system_processor_s(2000.0) - 56.0).abs() < 1e-12);
        assert_eq!(parameters.transfer_s(), 25.1875);
    }
}
