//! The command that repeats the prediction of a fit.

use std::path::Path;

use seeklab_core::{Instant, Seed};
use seeklab_learning::evaluation::Measured;

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
    let trace = if trace == Path::new(STANDARD_INPUT) { Path::new("-") } else { trace };
    let mut words = vec![
        "seeklab".to_owned(),
        "simulate".to_owned(),
        path(evaluated),
        "--workload".to_owned(),
        path(trace),
    ];
    words.push(arrivals(rest));
    words.extend(["--replay-device".to_owned(), fit.device.to_string()]);
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
    Some(shell_text(words))
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
