//! Streams of jobs that ran for real, beside their simulations and estimates.
//!
//! `scripts/job-streams.py` makes the table. The processor time of the system is the only fitted quantity.

use seeklab_core::{Limits, Seed, simulate};
use seeklab_devices::catalog;
use seeklab_estimate::lindsay_ferrari::DriveTimes;
use seeklab_workloads::jobs::JobsFigures;
use seeklab_workloads::{AddressSpace, JobStream, JobsSpec, WorkloadSpec};

use crate::job_slot::estimate;

const TABLE: &str = include_str!("../../../../validation/estimate/jobs-measured.csv");

/// A configuration of the group `main`.
struct Row {
    spec: JobsSpec,
    access_s: f64,
    elapsed_s: f64,
    calls: f64,
}

fn rows() -> Vec<Row> {
    let mut lines = TABLE.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let of_line = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let text = |name: &str| cells[names.iter().position(|found| *found == name).unwrap()];
        let number = |name: &str| text(name).parse::<f64>().unwrap();
        if text("group") != "main" {
            return None;
        }
        let states = format!("50000/s:50%:{0}+387.5968992/s:50%:{0}", text("residence"));
        let line = format!(
            "jobs,jobs=20,cycles=200,multiprogramming={},buffer={},threshold={},reactivation={},transfers={},\
             call_time={}us,sector_time={}us,input={states},output={states}",
            text("multiprogramming"),
            text("buffer"),
            text("threshold"),
            text("reactivation"),
            text("transfers"),
            text("call_us"),
            text("sector_us")
        );
        let spec = match WorkloadSpec::parse(&line) {
            Ok(WorkloadSpec::Jobs(spec)) => *spec,
            other => panic!("{line}: {other:?}"),
        };
        Some(Row {
            spec,
            access_s: number("access_ms") / 1e3,
            elapsed_s: number("measured_s"),
            calls: number("measured_calls"),
        })
    };
    lines.filter_map(of_line).collect()
}

fn simulated(row: &Row) -> JobsFigures {
    let mut description = catalog::find("berkeley-1975").unwrap();
    description.set("access_time", &format!("{}us", (row.access_s * 1e6).round())).unwrap();
    description.set("block_time", "100us").unwrap();
    let mut device = description.build(Seed(1), "disk0").unwrap();
    let mut stream = JobStream::new(&row.spec, AddressSpace::from(device.capabilities()), Seed(1)).unwrap();
    simulate(&mut stream, &mut device, Limits::default(), |_| ()).unwrap();
    stream.figures()
}

fn mean(errors: &[f64]) -> f64 {
    errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64
}

#[test]
fn simulated_streams_take_as_long_as_real_ones() {
    let rows = rows();
    assert!(rows.len() >= 40, "{} configurations", rows.len());
    let (mut elapsed, mut calls) = (Vec::new(), Vec::new());
    for row in &rows {
        let figures = simulated(row);
        elapsed.push(100.0 * (figures.elapsed.as_s() / row.elapsed_s - 1.0));
        calls.push(100.0 * (figures.calls.iter().sum::<u64>() as f64 / row.calls - 1.0));
    }
    println!("elapsed {:.2} %, calls {:.2} %: {elapsed:.2?}", mean(&elapsed), mean(&calls));
    let worst = |errors: &[f64]| errors.iter().fold(0.0, |worst: f64, error| worst.max(error.abs()));
    assert!(worst(&elapsed) <= 2.0 && worst(&calls) <= 3.0, "{elapsed:.2?} {calls:.2?}");
}

#[test]
fn job_slot_estimates_real_streams() {
    let errors: Vec<f64> = rows()
        .iter()
        .step_by(4)
        .map(|row| {
            let drive = DriveTimes { access_s: row.access_s, sector_s: 1e-4 };
            let estimate = estimate(&row.spec, drive, Seed(1));
            100.0 * (estimate.elapsed_s / row.elapsed_s - 1.0)
        })
        .collect();
    println!("elapsed {:.2} %: {errors:.2?}", mean(&errors));
    assert!(mean(&errors) <= 4.0, "{errors:.2?}");
}
