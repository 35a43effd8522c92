//! The methods of queueing theory against the figures of octave-queueing, which `scripts/octave-queueing` made.

use std::collections::BTreeMap;

use seeklab_estimate::ServiceMoments;
use seeklab_estimate::queueing::{
    Population, Station, Steady, ThroughputBounds, asymptotic_bounds, balanced_bounds, finite_population,
    mean_value_analysis, mg1, mm1, mmc,
};

const REFERENCE: &str = include_str!("../../../../validation/queueing/octave.csv");

/// Parameters of a row.
struct Parameters<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Parameters<'a> {
    fn of(text: &'a str) -> Self {
        Self(text.split(' ').filter_map(|pair| pair.split_once('=')).collect())
    }

    fn number(&self, key: &str) -> f64 {
        self.0[key].parse().unwrap()
    }

    fn list(&self, key: &str) -> Vec<f64> {
        self.0[key].split(';').map(|number| number.parse().unwrap()).collect()
    }

    fn population(&self) -> Population {
        Population { members: self.number("members") as u32, think_mean_s: self.number("think_mean_s") }
    }
}

fn of_steady(steady: &Steady, figure: &str) -> f64 {
    match figure {
        "utilisation" => steady.utilisation,
        "response_mean_s" => steady.response_mean_s,
        "outstanding_mean" => steady.outstanding_mean,
        "throughput_per_s" => steady.throughput_per_s,
        other => panic!("{other}"),
    }
}

fn of_bounds(bounds: ThroughputBounds, figure: &str) -> f64 {
    match figure {
        "throughput_min_per_s" => bounds.throughput_min_per_s,
        "throughput_max_per_s" => bounds.throughput_max_per_s,
        "response_min_s" => bounds.response_min_s,
        "response_max_s" => bounds.response_max_s,
        other => panic!("{other}"),
    }
}

/// The figure of this crate for a row.
fn figure(method: &str, parameters: &Parameters, figure: &str) -> f64 {
    let steady = |steady: Steady| of_steady(&steady, figure);
    match method {
        "mm1" => {
            steady(mm1(parameters.number("arrivals_per_s"), parameters.number("service_mean_s")).unwrap())
        }
        "mmc" => {
            let servers = parameters.number("servers") as u32;
            let (arrivals, service) =
                (parameters.number("arrivals_per_s"), parameters.number("service_mean_s"));
            steady(mmc(arrivals, service, servers).unwrap())
        }
        "mg1" => {
            let (mean, deviation) = (parameters.number("service_mean_s"), parameters.number("service_sd_s"));
            let service = ServiceMoments::with_deviation(mean, deviation);
            steady(mg1(parameters.number("arrivals_per_s"), service).unwrap())
        }
        "finite_population" => {
            let service = parameters.number("service_mean_s");
            steady(finite_population(parameters.population(), |_| 1.0 / service).unwrap())
        }
        "mva" => {
            let stations: Vec<Station> = parameters
                .list("demands_s")
                .into_iter()
                .map(|demand_s| Station::Queueing { demand_s })
                .collect();
            let means = mean_value_analysis(parameters.population(), &stations).unwrap();
            let Some((station, figure)) =
                figure.strip_prefix("station").and_then(|rest| rest.split_once('_'))
            else {
                assert_eq!(figure, "throughput_per_s");
                return means.throughput_per_s;
            };
            let station = &means.stations[station.parse::<usize>().unwrap() - 1];
            match figure {
                "response_mean_s" => station.response_mean_s,
                "outstanding_mean" => station.outstanding_mean,
                "utilisation" => station.utilisation,
                other => panic!("{other}"),
            }
        }
        "asymptotic_bounds" => of_bounds(
            asymptotic_bounds(parameters.population(), &parameters.list("demands_s")).unwrap(),
            figure,
        ),
        "balanced_bounds" => of_bounds(
            balanced_bounds(parameters.population(), &parameters.list("demands_s")).unwrap(),
            figure,
        ),
        other => panic!("{other}"),
    }
}

#[test]
fn methods_equal_octave_queueing() {
    let mut rows: BTreeMap<&str, u32> = BTreeMap::new();
    for line in REFERENCE.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let [method, parameters, name, value] = cells[..] else { panic!("{line}") };
        let found = figure(method, &Parameters::of(parameters), name);
        let expected: f64 = value.parse().unwrap();
        assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{line}: {found}");
        *rows.entry(method).or_default() += 1;
    }
    assert_eq!(rows.len(), 7, "{rows:?}");
    assert!(rows.values().all(|count| *count >= 30), "{rows:?}");
}
