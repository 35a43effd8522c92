//! Parameters of the equations from the description of a stream of jobs.

use seeklab_workloads::jobs::{Direction, JobsSpec, RateStates, Reactivation as Policy, Transfers as Extent};

use super::parameters::{Parameters, RateState, Reactivation, SystemCalls, SystemTime, Transfers};

/// Times of a drive, for sectors of a stream of jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DriveTimes {
    /// `A`: time before the first sector of a call, in seconds.
    pub access_s: f64,
    /// `1/r_d`: transfer time of a sector, in seconds.
    pub sector_s: f64,
}

impl Parameters {
    /// The parameters of a stream of jobs whose processor time is known, on drives with these times.
    ///
    /// - Each of the `M` jobs has one input and one output file, so a drive has `2 M / D` active files, or half of them if the
    ///   jobs only read or only write.
    /// - The sectors of the input have its rates, those of the output have its rates.
    /// - A state lasts until another one is drawn: `residence / (1 − w)` sectors on average, where `w` is its own share
    ///   of the draws. States that are drawn anew for every sector are one state of the mean rate.
    /// - `C_s` counts the calls of all drives, and the time of each sector as its constant part.
    pub fn of_jobs(spec: &JobsSpec, drive: DriveTimes, job_processor_s: f64) -> Self {
        let (multiprogramming, drives) = (f64::from(spec.multiprogramming), f64::from(spec.drives));
        let sectors = spec.sectors() as f64;
        let directions = [(&spec.input, Direction::Input), (&spec.output, Direction::Output)];
        let files: Vec<(&RateStates, f64)> = directions
            .map(|(states, direction)| (states, spec.file_sectors(direction) as f64))
            .into_iter()
            .filter(|(_, cycles)| *cycles > 0.0)
            .collect();
        let cycles_sum: f64 = files.iter().map(|(_, cycles)| cycles).sum();
        let states = files
            .iter()
            .flat_map(|(states, cycles)| file_states(states, *cycles, cycles / cycles_sum))
            .collect();
        Self {
            access_s: drive.access_s,
            job_processor_s,
            system: SystemTime {
                base_s: spec.sector_time.as_s() * sectors,
                per_call_s: spec.call_time.as_s(),
                calls: SystemCalls::OfAllDrives,
            },
            multiprogramming,
            drives,
            files_per_drive: files.len() as f64 * multiprogramming / drives,
            sectors,
            drive_rate_per_s: 1.0 / drive.sector_s,
            buffer_sectors: f64::from(spec.buffer),
            threshold_sectors: f64::from(spec.threshold()),
            reactivation: match spec.reactivation {
                Policy::End => Reactivation::AtEnd,
                Policy::Sector => Reactivation::PerSector,
            },
            transfers: match spec.transfers {
                Extent::Chained => Transfers::Chained,
                Extent::SizedAtStart => Transfers::SizedAtStart,
            },
            states,
        }
    }
}

/// The states of a file, which has `part` of all sectors.
fn file_states(states: &RateStates, cycles: f64, part: f64) -> Vec<RateState> {
    if states.0.iter().all(|state| state.residence <= 1.0) {
        let rate_per_s = 1.0 / states.sector_time_mean_s();
        return vec![RateState { rate_per_s, share: part, residence_sectors: cycles }];
    }
    let draws: f64 = states.0.iter().map(|state| state.share.as_f64() / state.residence).sum();
    let of = |state: &seeklab_workloads::jobs::RateState| {
        let drawn = state.share.as_f64() / state.residence / draws;
        let residence = if drawn < 1.0 { state.residence / (1.0 - drawn) } else { cycles };
        RateState {
            rate_per_s: state.rate.as_per_s(),
            share: state.share.as_f64() * part,
            residence_sectors: residence.clamp(1.0, cycles.max(1.0)),
        }
    };
    states.0.iter().filter(|state| state.share.as_f64() > 0.0).map(of).collect()
}

#[cfg(test)]
mod tests {
    use seeklab_workloads::WorkloadSpec;

    use super::*;

    fn spec(line: &str) -> JobsSpec {
        match WorkloadSpec::parse(line) {
            Ok(WorkloadSpec::Jobs(spec)) => *spec,
            other => panic!("{line}: {other:?}"),
        }
    }

    const DRIVE: DriveTimes = DriveTimes { access_s: 0.062, sector_s: 0.001 };

    #[test]
    fn drawn_states_last_until_another_is_drawn() {
        let spec = spec(
            "jobs,multiprogramming=3,drives=2,buffer=8,threshold=2,call_time=7ms,sector_time=1ms,\
             input=5000/s:50%:45+40/s:50%:45,output=200/s",
        );
        let parameters = Parameters::of_jobs(&spec, DRIVE, 260.0);
        parameters.check().unwrap();
        assert_eq!(parameters.sectors, 40_000.0);
        assert_eq!(parameters.files_per_drive, 3.0);
        assert_eq!(parameters.threshold_sectors, 2.0);
        let of = |rate: f64| *parameters.states.iter().find(|state| state.rate_per_s == rate).unwrap();
        assert_eq!(of(5000.0), RateState { rate_per_s: 5000.0, share: 0.25, residence_sectors: 90.0 });
        assert_eq!(of(200.0), RateState { rate_per_s: 200.0, share: 0.5, residence_sectors: 1000.0 });
        assert!((parameters.system_processor_s(100.0) - 41.4).abs() < 1e-9);
    }

    #[test]
    fn states_of_single_sectors_are_one_of_the_mean_rate() {
        let spec = spec("jobs,buffer=8,input=5000/s:50%+38.76/s:50%,output=5000/s:50%+38.76/s:50%");
        let parameters = Parameters::of_jobs(&spec, DRIVE, 260.0);
        assert_eq!(parameters.states.len(), 2, "input and output");
        let mean_s = (0.0002 + 1.0 / 38.76) / 2.0;
        assert!((parameters.states[0].rate_per_s * mean_s - 1.0).abs() < 1e-12);
    }
}
