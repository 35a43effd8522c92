//! A fitted device predicts the measured loads, and loads that it was not fitted to.

use serde_json::{Value, json};

use super::*;
use crate::fio::read;

/// A device whose mean time is linear in the depth and in the length, by fio's format.
fn measured(bytes: u64, depth: u64, iops_scale: f64) -> Value {
    let mean_us = 50.0 + 25.0 * depth as f64 + bytes as f64 / 1e3;
    let iops = iops_scale * depth as f64 / mean_us * 1e6;
    // A tail as of real ones: times of a log-normal distribution, by its quantiles.
    let points = [
        (1.0, -2.326),
        (10.0, -1.282),
        (50.0, 0.0),
        (90.0, 1.282),
        (99.0, 2.326),
        (99.9, 3.09),
        (99.99, 3.719),
    ];
    let ns = |z: f64| mean_us * 1e3 * (0.4 * z - 0.08_f64).exp();
    let percentile: BTreeMap<String, u64> =
        points.iter().map(|(at, z)| (format!("{at:.6}"), ns(*z) as u64)).collect();
    let requests = (iops * 60.0) as u64;
    json!({
        "jobname": format!("{bytes}x{depth}"), "groupid": 100 * depth + bytes / 4096, "error": 0,
        "job options": {"rw": "randread", "iodepth": depth.to_string(), "ioengine": "io_uring", "size": "64g"},
        "read": {
            "total_ios": requests, "io_bytes": requests * bytes, "iops": iops,
            "clat_ns": {"min": ns(-4.0) as u64, "max": ns(4.5) as u64, "mean": mean_us * 1e3, "percentile": percentile},
        },
    })
}

fn fitted(jobs: &[Value]) -> FittedSweep {
    let text = json!({"fio version": "fio-3.36", "jobs": jobs}).to_string();
    fit_loads(read(text.as_bytes()).unwrap(), Seed(1), BTreeMap::new(), || Ok::<_, Error>(())).unwrap()
}

#[test]
fn fitted_sweep_predicts_measured_points_and_those_between() {
    let jobs: Vec<Value> = [1, 3, 5, 7].map(|depth| measured(4096, depth, 1.0)).to_vec();
    let report = fitted(&jobs).report;
    assert_eq!(report.points.len(), 4);
    for point in &report.points {
        let errors = point.in_sample.unwrap();
        // 200,000 draws, and buckets of 1.6 %.
        assert!(point.fits && errors.iops_pct.abs() < 1.0 && errors.mean_pct.abs() < 1.0, "{point:?}");
        assert!(errors.p99_pct.abs() < 3.0, "{point:?}");
    }
    // Times are linear in the depth, as the rule between two depths has it.
    for point in &report.points[1..3] {
        let left_out = point.left_out.unwrap();
        assert!(!left_out.is_beyond && left_out.errors.iops_pct.abs() < 1.5, "{point:?}");
    }
    // Beyond the deepest, at 7: throughput as at 5, less than it is.
    let beyond = report.points[3].left_out.unwrap();
    let expected = 100.0 * ((5.0 / 179.096) / (7.0 / 229.096) - 1.0);
    assert!(beyond.is_beyond && (beyond.errors.iops_pct - expected).abs() < 1.5, "{beyond:?}, {expected}");
    assert_eq!((report.left_out.points, report.left_out_between.points), (4, 2));
    assert!(report.left_out_between.iops_pct.unwrap() < 1.5);
}

#[test]
fn load_that_was_held_up_keeps_its_pauses() {
    // A fifth of what the device could do: pauses between; its depth was not kept.
    let jobs = [measured(4096, 1, 1.0), measured(4096, 8, 0.2), measured(4096, 8, 1.0)];
    let mut jobs = jobs.to_vec();
    jobs[1]["groupid"] = json!(99_999);
    let report = fitted(&jobs).report;
    let held_up = report.points.iter().find(|point| !point.fits).unwrap();
    assert!((held_up.outstanding - 1.6).abs() < 0.01 && held_up.queue_length == 1, "{held_up:?}");
    assert_eq!(report.in_sample.points, 2, "medians leave it out");
    assert!(
        report
            .points
            .iter()
            .filter(|point| point.fits)
            .all(|point| point.in_sample.unwrap().iops_pct.abs() < 1.0)
    );
    // Alone it is what there is. Its requests met queues of many lengths, and its time is their average: beyond what
    // was measured times grow, so it comes out slower; its pauses are kept, so the rate hardly changes.
    let mut alone = measured(4096, 8, 0.2);
    alone["groupid"] = json!(0);
    let report = fitted(&[alone]).report;
    let errors = report.points[0].in_sample.unwrap();
    assert!(errors.iops_pct.abs() < 15.0 && report.points[0].left_out.is_none(), "{errors:?}");
    assert!(errors.mean_pct > 0.0, "{errors:?}");
}

#[test]
fn results_without_jobs_are_refused() {
    let text = json!({"fio version": "fio-3.36", "jobs": []}).to_string();
    let error = fit_loads(read(text.as_bytes()).unwrap(), Seed(1), BTreeMap::new(), || Ok::<_, Error>(()))
        .unwrap_err();
    assert!(error.to_string().contains("no model can be fitted: there are no jobs"), "{error}");
}

#[test]
fn rate_counts_the_requests_of_the_span_that_it_is_taken_over() {
    let text =
        "kind = \"constant\"\nservice_time = \"100us\"\nblock_size = \"512B\"\ncapacity_blocks = 134217728\n";
    let description = seeklab_devices::Description::parse("constant", "constant.toml", text).unwrap();
    let document = json!({"fio version": "fio-3.36", "jobs": [measured(4096, 4, 1.0)]}).to_string();
    let loads = read(document.as_bytes()).unwrap().loads;
    let mut device = description.build(Seed(1), "constant").unwrap();
    let figures = closed::run(device.as_mut(), &loads[0], Seed(1)).unwrap().remove(0).unwrap();
    // One request at a time, four outstanding: both by arithmetic, to the width of a bucket.
    assert!((figures.iops / 10_000.0 - 1.0).abs() < 1e-4, "{figures:?}");
    assert!((figures.mean_ns / 400_000.0 - 1.0).abs() < 1e-4, "{figures:?}");
}
