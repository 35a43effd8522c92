//! The command that repeats the prediction of a fit.

use std::path::Path;

use seeklab_core::{Instant, Seed};
use seeklab_learning::evaluation::{Measured, PredictedPart};

use super::{FitReport, TimesFrom};
use crate::output::shell_text;
use crate::trace::{STANDARD_INPUT, TraceOptions};

/// Returns the command that repeats the prediction of the saved model by the device in the file `evaluated`; `None` if nothing
/// was predicted.
pub(super) fn command(
    trace: &Path,
    reading: &TraceOptions,
    evaluated: &Path,
    fit: &FitReport,
    seed: Seed,
) -> Option<String> {
    let rest = fit.rest.as_ref()?;
    let device = ["--replay-device".to_owned(), fit.device.to_string()];
    Some(repeating(trace, reading, evaluated, fit, seed, (rest, &device)))
}

/// Returns the commands that repeat the predictions of several devices in one file: one for all if their arrivals are those of
/// the whole trace, otherwise one for each.
pub(super) fn commands(
    trace: &Path,
    reading: &TraceOptions,
    evaluated: &Path,
    fits: &[FitReport],
    seed: Seed,
) -> Vec<String> {
    let is_whole = |fit: &FitReport| {
        let rest = fit.rest.as_ref();
        fit.predicted_part == PredictedPart::All && rest.is_some_and(|rest| rest.is_open)
    };
    let alike = fits.windows(2).all(|pair| pair[0].times_from == pair[1].times_from);
    let first = fits.iter().min_by_key(|fit| fit.rest.as_ref().map(|rest| rest.from));
    match first.and_then(|fit| Some((fit, fit.rest.as_ref()?))) {
        Some((fit, rest)) if alike && fits.iter().all(is_whole) => {
            vec![repeating(trace, reading, evaluated, fit, seed, (rest, &[]))]
        }
        _ => fits.iter().filter_map(|fit| command(trace, reading, evaluated, fit, seed)).collect(),
    }
}

/// The command for the requests of that prediction, with the option that chooses a device.
fn repeating(
    trace: &Path,
    reading: &TraceOptions,
    evaluated: &Path,
    fit: &FitReport,
    seed: Seed,
    (rest, device): (&Measured, &[String]),
) -> String {
    let trace = if trace == Path::new(STANDARD_INPUT) { Path::new("-") } else { trace };
    let mut words = vec![
        "seeklab".to_owned(),
        "simulate".to_owned(),
        path(evaluated),
        "--workload".to_owned(),
        path(trace),
    ];
    words.push(arrivals(rest));
    words.extend(device.iter().cloned());
    words.extend(["--replay-from".to_owned(), (rest.from - Instant::ZERO).to_string()]);
    words.push("--fitted-requests".to_owned());
    if fit.times_from == TimesFrom::Issue {
        words.extend(["--times-from", "issue"].map(str::to_owned));
    }
    if let Some(format) = &reading.format {
        words.extend(["--format".to_owned(), format.clone()]);
    }
    if let Some(size) = reading.block_size {
        words.extend(["--block-size".to_owned(), size.to_string()]);
    }
    for setting in &reading.settings {
        words.extend(["--format-option".to_owned(), format!("{}={}", setting.name, setting.value)]);
    }
    words.extend(["--seed".to_owned(), seed.to_string()]);
    shell_text(words)
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

/// The arrivals of the prediction.
fn arrivals(rest: &Measured) -> String {
    match (rest.is_open, rest.follows_within) {
        (true, _) => "--open".to_owned(),
        (false, Some(within)) => format!("--follow={within}"),
        (false, None) => "--follow=idle".to_owned(),
    }
}
