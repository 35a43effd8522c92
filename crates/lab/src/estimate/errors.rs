//! Errors of estimates against simulations, from the tables of the validation.
//!
//! `validation/estimate/errors.csv` has a row for each method, origin of the law and range of utilisation;
//! `scripts/estimate-validation.py` makes it. `jobs.csv` has a row for each method for streams of jobs; a test of
//! `seeklab-estimate` compares it with simulations.

use super::figures::{ErrorFigures, origin};
use seeklab_devices::service_law::LawOrigin;
use seeklab_estimate::Method;

/// The table: method, origin, greatest utilisation, errors of mean and 99th percentile, in percent.
const TABLE: &str = include_str!("../../../../validation/estimate/errors.csv");

/// The table of streams of jobs: method, mean and greatest error of the elapsed time, in percent.
const JOBS: &str = include_str!("../../../../validation/estimate/jobs.csv");

/// Returns the mean and the greatest error of the elapsed time of a stream of jobs, in percent.
///
/// # Panics
/// If the table has no such method.
pub(super) fn jobs_errors(method: &str) -> (f64, f64) {
    let row = JOBS.lines().skip(1).find_map(|line| line.strip_prefix(method)?.strip_prefix(','));
    let numbers = row.and_then(|row| row.split_once(',')).expect("the table has every method");
    let number = |cell: &str| cell.parse().expect("errors are numbers");
    (number(numbers.0), number(numbers.1))
}

/// Returns the errors of the first row that fits. If the method was never compared with a law of that origin, the largest
/// errors of its rows with other origins. Without any, nothing is known.
pub(super) fn errors(method: Method, law: LawOrigin, utilisation: f64) -> ErrorFigures {
    errors_in(TABLE, method.name(), origin(law), utilisation * 100.0)
}

fn errors_in(table: &str, method: &str, origin: &str, utilisation_pct: f64) -> ErrorFigures {
    let rows = table.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let rows: Vec<Vec<&str>> = rows.filter(|cells| cells[0] == method).collect();
    let fits = |cells: &&Vec<&str>| cells[2].parse::<f64>().is_ok_and(|greatest| utilisation_pct <= greatest);
    let number = |cells: &Vec<&str>, place: usize| cells[place].parse::<f64>().ok();
    if let Some(row) = rows.iter().filter(|cells| cells[1] == origin).find(fits) {
        return ErrorFigures { response_mean_pct: number(row, 3), response_p99_pct: number(row, 4) };
    }
    let largest = |place: usize| {
        let errors = rows.iter().filter(fits).filter_map(|cells| number(cells, place));
        errors.reduce(f64::max)
    };
    ErrorFigures { response_mean_pct: largest(3), response_p99_pct: largest(4) }
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
        // Of another origin, the largest of the method; of another method, nothing is known.
        assert_eq!(of("mg1", "sampled", 10.0), errors(Some(4.0), Some(2.5)));
        assert_eq!(of("closed", "sampled", 10.0), errors(None, None));
    }

    #[test]
    fn table_of_jobs_has_two_errors_for_each_method() {
        for method in ["job_slot", "lindsay_ferrari", "processor_alone"] {
            let (mean, greatest) = jobs_errors(method);
            assert!(0.0 < mean && mean < greatest, "{method}");
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
}
