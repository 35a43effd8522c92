//! Errors of estimates against simulations, from the tables of the validation.
//!
//! `validation/estimate/errors.csv` has a row for each method, origin of the law and range of utilisation;
//! `scripts/estimate-validation.py` makes it. `jobs.csv` has a row for each method for streams of jobs; a test of
//! `seeklab-estimate` compares it with simulations. `coverage.csv` has a row for each synthetic load and figure;
//! `cargo bench -p seeklab-estimate --bench growth_coverage` prints it.

use super::figures::ErrorFigures;
use seeklab_estimate::Method;

/// The table: method, origin, greatest utilisation, errors of mean and 99th percentile, in percent.
const TABLE: &str = include_str!("../../../../validation/estimate/errors.csv");

/// The table of streams of jobs: method, mean and greatest error of the elapsed time, and of the calls, in percent.
const JOBS: &str = include_str!("../../../../validation/estimate/jobs.csv");

/// The table of the intervals of growths: load, figure, dependence of its requests, requests, samples, percent of the intervals
/// that have the true growth.
const COVERAGE: &str = include_str!("../../../../validation/estimate/coverage.csv");

/// Returns the least share of the intervals, in percent, that had the true growth, of loads whose requests are independent, or
/// depend on those before. Percentiles that were not compared have the figure of the next compared one that is higher.
pub(super) fn coverage_pct(figure: &str, is_dependent: bool) -> Option<f64> {
    let figure = match figure {
        "response_p90_ms" | "response_p95_ms" => "response_p99_ms",
        other => other,
    };
    let rows = COVERAGE.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let of = rows.filter(|cells| cells[1] == figure && cells[2] == is_dependent.to_string());
    of.map(|cells| cells[5].parse::<f64>().expect("shares are numbers")).reduce(f64::min)
}

/// Errors of estimates of streams of jobs in the validation, in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct JobsErrors {
    pub elapsed_mean_pct: f64,
    pub elapsed_max_pct: f64,
    pub calls_mean_pct: f64,
    pub calls_max_pct: f64,
}

/// Returns the errors of a method for streams of jobs.
///
/// # Panics
/// If the table has no such method.
pub(super) fn jobs_errors(method: &str) -> JobsErrors {
    let row = JOBS.lines().skip(1).find_map(|line| line.strip_prefix(method)?.strip_prefix(','));
    let cells: Vec<&str> = row.expect("the table has every method").split(',').collect();
    let number = |place: usize| cells[place].parse().expect("errors are numbers");
    JobsErrors {
        elapsed_mean_pct: number(0),
        elapsed_max_pct: number(1),
        calls_mean_pct: number(2),
        calls_max_pct: number(3),
    }
}

/// Returns the errors of the first row that fits. If the method was never compared with a law of that origin, nothing is known. Laws
/// of clones, and of devices with faults, are origins of their own.
pub(super) fn errors(method: Method, origin: &str, utilisation: f64) -> ErrorFigures {
    errors_in(TABLE, method.name(), origin, utilisation * 100.0)
}

/// As [`errors`], but if the method was never compared with a law of that origin, the largest errors of its rows with other
/// origins.
pub(super) fn errors_with_any_law(method: Method, origin: &str, utilisation: f64) -> ErrorFigures {
    match errors(method, origin, utilisation) {
        ErrorFigures { response_mean_pct: None, .. } => largest_in(TABLE, method.name(), utilisation * 100.0),
        known => known,
    }
}

fn largest_in(table: &str, method: &str, utilisation_pct: f64) -> ErrorFigures {
    let rows = table.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let fits = |cells: &Vec<&str>| {
        cells[0] == method && cells[2].parse::<f64>().is_ok_and(|greatest| utilisation_pct <= greatest)
    };
    let rows: Vec<Vec<&str>> = rows.filter(fits).collect();
    let largest = |place: usize| rows.iter().filter_map(|cells| cells[place].parse().ok()).reduce(f64::max);
    ErrorFigures { response_mean_pct: largest(3), response_p99_pct: largest(4) }
}

fn errors_in(table: &str, method: &str, origin: &str, utilisation_pct: f64) -> ErrorFigures {
    let rows = table.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let rows: Vec<Vec<&str>> = rows.filter(|cells| cells[0] == method).collect();
    let fits = |cells: &&Vec<&str>| cells[2].parse::<f64>().is_ok_and(|greatest| utilisation_pct <= greatest);
    let number = |cells: &Vec<&str>, place: usize| cells[place].parse::<f64>().ok();
    if let Some(row) = rows.iter().filter(|cells| cells[1] == origin).find(fits) {
        return ErrorFigures { response_mean_pct: number(row, 3), response_p99_pct: number(row, 4) };
    }
    ErrorFigures::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "method,origin,utilisation_pct_max,response_mean_pct,response_p99_pct\n\
                        mg1,exact,80,1.5,2.5\nmg1,exact,100,4,\nlindley,sampled,100,9,12\n";

    #[test]
    fn errors_are_those_of_the_first_row_that_fits() {
        let of = |method, origin, utilisation_pct| errors_in(ROWS, method, origin, utilisation_pct);
        let errors = |mean, p99| ErrorFigures { response_mean_pct: mean, response_p99_pct: p99 };
        assert_eq!(of("mg1", "exact", 80.0), errors(Some(1.5), Some(2.5)));
        assert_eq!(of("mg1", "exact", 81.0), errors(Some(4.0), None));
        assert_eq!(of("lindley", "sampled", 10.0), errors(Some(9.0), Some(12.0)));
        // Of another origin, or another method, nothing is known.
        assert_eq!(of("mg1", "sampled", 10.0), errors(None, None));
        assert_eq!(of("closed", "sampled", 10.0), errors(None, None));
        let largest = |method| largest_in(ROWS, method, 10.0);
        assert_eq!((largest("mg1"), largest("closed")), (errors(Some(4.0), Some(2.5)), errors(None, None)));
    }

    #[test]
    fn table_of_jobs_has_four_errors_for_each_method() {
        for method in ["job_slot", "lindsay_ferrari", "processor_alone"] {
            let errors = jobs_errors(method);
            assert!(
                0.0 < errors.elapsed_mean_pct && errors.elapsed_mean_pct < errors.elapsed_max_pct,
                "{errors:?}"
            );
            assert!(
                0.0 < errors.calls_mean_pct && errors.calls_mean_pct < errors.calls_max_pct,
                "{errors:?}"
            );
        }
    }

    #[test]
    fn table_of_the_validation_has_five_columns_of_numbers() {
        for line in TABLE.lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            assert_eq!(cells.len(), 5, "{line}");
            assert!(cells[2..4].iter().all(|cell| cell.parse::<f64>().is_ok()), "{line}");
        }
    }

    /// Tables of comparisons whose largest errors make up the table of errors.
    const COMPARISONS: [(&str, Option<&str>); 7] = [
        (include_str!("../../../../validation/estimate/loads.csv"), None),
        (include_str!("../../../../validation/estimate/writes.csv"), None),
        (include_str!("../../../../validation/estimate/mixes.csv"), None),
        (include_str!("../../../../validation/estimate/traces.csv"), None),
        (include_str!("../../../../validation/estimate/thinking.csv"), None),
        (include_str!("../../../../validation/estimate/closed.csv"), None),
        (include_str!("../../../../validation/estimate/laws.csv"), Some("closed")),
    ];

    #[test]
    fn errors_are_the_largest_of_the_tables_of_comparisons() {
        let mut largest = std::collections::BTreeMap::<String, [f64; 2]>::new();
        for (table, method) in COMPARISONS {
            let mut lines = table.lines();
            let names: Vec<&str> = lines.next().unwrap().split(',').collect();
            for line in lines {
                // The only quoted cells are names of loads with a comma.
                let line = line.split('"').enumerate().map(|(place, part)| match place % 2 {
                    0 => part.to_owned(),
                    _ => part.replace(',', ";"),
                });
                let line = line.collect::<String>();
                let cells: Vec<&str> = line.split(',').collect();
                let text = |name: &str| {
                    let place = names.iter().position(|found| *found == name);
                    place.map_or("", |place| cells[place])
                };
                let method = method.unwrap_or_else(|| text("method"));
                let is_low = text("utilisation_pct").parse::<f64>().is_ok_and(|pct| pct <= 80.0);
                let key = format!("{method},{},{}", text("origin"), if is_low { 80 } else { 100 });
                let errors = largest.entry(key).or_insert([f64::NAN; 2]);
                for (error, name) in errors.iter_mut().zip(["error_mean_pct", "error_p99_pct"]) {
                    *error = error.max(text(name).parse::<f64>().map_or(f64::NAN, f64::abs));
                }
            }
        }
        let rows: Vec<&str> = TABLE.lines().skip(1).collect();
        assert_eq!(rows.len(), largest.len(), "{largest:?}");
        for row in rows {
            let cells: Vec<&str> = row.split(',').collect();
            let found = largest[&cells[..3].join(",")];
            for (stated, found) in cells[3..].iter().zip(found) {
                // Half of the last digit.
                let stated: f64 = stated.parse().unwrap_or(f64::NAN);
                assert!(
                    (stated - found).abs() <= 0.005_1 || stated.is_nan() && found.is_nan(),
                    "{row}: {found}"
                );
            }
        }
    }

    #[test]
    fn coverage_is_that_of_the_least_covered_load_of_the_table() {
        let independent = coverage_pct("response_p99_ms", false).unwrap();
        let rows = COVERAGE.lines().filter(|line| line.contains(",response_p99_ms,false,"));
        let shares: Vec<f64> = rows.map(|row| row.split(',').nth(5).unwrap().parse().unwrap()).collect();
        assert!(shares.len() >= 4 && shares.contains(&independent), "{shares:?}");
        assert!(shares.iter().all(|share| *share >= independent));
        assert_eq!(coverage_pct("response_p95_ms", false), Some(independent));
        assert_eq!(coverage_pct("response_p999_ms", false), None);
        // Nine times in ten of Poisson arrivals and bursts.
        for figure in ["response_mean_ms", "response_p50_ms", "response_p99_ms"] {
            assert!(coverage_pct(figure, false).unwrap() >= 85.0, "{figure}");
        }
    }
}
