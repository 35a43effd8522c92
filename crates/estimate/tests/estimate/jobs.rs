//! Simulated streams of jobs against published figures and against the equations.

use seeklab_core::{Limits, Seed, simulate};
use seeklab_devices::catalog;
use seeklab_devices::layer::Bank;
use seeklab_estimate::lindsay_ferrari::{DriveTimes, Parameters, solve};
use seeklab_workloads::jobs::JobsFigures;
use seeklab_workloads::{AddressSpace, JobStream, JobsSpec, WorkloadSpec};

/// The catalog's `berkeley-1975`.
pub(crate) const DRIVE: DriveTimes = DriveTimes { access_s: 0.062, sector_s: 0.001 };

/// A configuration of the two-state workload of the notes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mix {
    pub(crate) drives: u16,
    pub(crate) residence: u32,
    pub(crate) multiprogramming: u32,
    pub(crate) buffer: u32,
    pub(crate) threshold: u32,
    pub(crate) reactivation: &'static str,
    pub(crate) access: &'static str,
}

impl Mix {
    pub(crate) fn spec(&self) -> JobsSpec {
        let Self { drives, residence, multiprogramming, buffer, threshold, reactivation, .. } = *self;
        // 1/0.0258 s = 38.759690/s.
        let states = format!("5000/s:50%:{residence}+38.75968992/s:50%:{residence}");
        let line = format!(
            "jobs,jobs=20,cycles=1000,drives={drives},multiprogramming={multiprogramming},buffer={buffer},\
             threshold={threshold},reactivation={reactivation},call_time=7ms,input={states},output={states}"
        );
        match WorkloadSpec::parse(&line) {
            Ok(WorkloadSpec::Jobs(spec)) => *spec,
            other => panic!("{line}: {other:?}"),
        }
    }

    pub(crate) fn drive(&self) -> DriveTimes {
        let access_s = match self.access {
            "62ms" => 0.062,
            "150ms" => 0.150,
            other => panic!("{other}"),
        };
        DriveTimes { access_s, ..DRIVE }
    }

    /// Simulates the stream that `seed` draws.
    pub(crate) fn simulate(&self, seed: Seed) -> JobsFigures {
        self.simulate_as(&self.spec(), seed)
    }

    /// Simulates a stream of another description on the drives of this one.
    pub(crate) fn simulate_as(&self, spec: &JobsSpec, seed: Seed) -> JobsFigures {
        let mut description = catalog::find("berkeley-1975").unwrap();
        description.set("access_time", self.access).unwrap();
        let build = move |number: u16| description.build(seed, &format!("disk{number}")).unwrap();
        let first = build(0);
        let space = AddressSpace::from(first.capabilities());
        let mut bank = Bank::growing(first, build);
        let mut stream = JobStream::new(spec, space, seed).unwrap();
        simulate(&mut stream, &mut bank, Limits::default(), |_| ()).unwrap();
        stream.figures()
    }
}

/// Asserts that `found` lies within `tolerance` of `expected`, a share.
#[track_caller]
pub(crate) fn close(what: &str, found: f64, expected: f64, tolerance: f64) {
    let error = found / expected - 1.0;
    assert!(error.abs() <= tolerance, "{what}: {found}, expected {expected} ({:+.2} %)", error * 100.0);
}

#[test]
fn simulated_streams_have_the_discrete_event_figures_of_the_notes() {
    // D, residence, M, B, C, policy, R/C_j, requests, seeds: "lindsay-ferrari-1975-notes". Those are of 20 seeds,
    // with a standard deviation of 0.04 in R/C_j at residence 45.
    let table = [
        (1, 1, 2, 8, 4, "end", 1.383, 5234.0, 3),
        (1, 1, 2, 8, 4, "sector", 1.231, 4579.0, 3),
        (1, 1, 4, 8, 8, "end", 1.332, 5000.0, 3),
        (2, 1, 3, 16, 8, "sector", 1.110, 4160.0, 3),
        (1, 45, 2, 8, 4, "end", 1.452, 5801.0, 60),
        (2, 45, 2, 8, 8, "end", 1.356, 4969.0, 60),
    ];
    for (drives, residence, multiprogramming, buffer, threshold, reactivation, ratio, requests, seeds) in
        table
    {
        let mix =
            Mix { drives, residence, multiprogramming, buffer, threshold, reactivation, access: "62ms" };
        let (mut ratios, mut calls) = (0.0, 0.0);
        for seed in 1..=seeds {
            let figures = mix.simulate(Seed(seed));
            ratios += figures.elapsed.as_s() / figures.job_processor.as_s() / seeds as f64;
            calls += figures.calls.iter().sum::<u64>() as f64 / seeds as f64;
        }
        println!("{mix:?}: R/C_j {ratios:.4} ({ratio}), requests {calls:.0} ({requests})");
        close(&format!("{mix:?}: R/C_j"), ratios, ratio, 0.02);
        close(&format!("{mix:?}: requests"), calls, requests, 0.02);
    }
}

#[test]
fn equations_hold_where_the_processor_is_the_bottleneck() {
    let mix = Mix {
        drives: 2,
        residence: 1,
        multiprogramming: 4,
        buffer: 16,
        threshold: 8,
        reactivation: "sector",
        access: "62ms",
    };
    let figures = mix.simulate(Seed(1));
    let parameters = Parameters::of_jobs(&mix.spec(), mix.drive(), figures.job_processor.as_s());
    let point = solve(&parameters).unwrap().point;
    close("R", point.elapsed_s, figures.elapsed.as_s(), 0.035);
}
