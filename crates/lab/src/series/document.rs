//! A series for machines: one JSON document.

use std::collections::BTreeMap;

use seeklab_analysis::interval;
use seeklab_core::Duration;
use serde::Serialize;
use serde_json::{Value, json};

use super::figures::Figures;
use super::{Application, Series};
use crate::output::{VERSION, command_line};

/// A figure over the repetitions.
#[derive(Debug, Clone, Copy, Serialize)]
struct Statistics {
    mean: f64,
    /// Standard deviation of the sample, zero of one repetition.
    sd: f64,
    min: f64,
    max: f64,
}

impl Statistics {
    fn of(values: &[f64]) -> Option<Self> {
        let interval = interval(values)?;
        let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sd = if values.len() > 1 { interval.sd } else { 0.0 };
        Some(Self { mean: interval.mean, sd, min: least(values), max: most(values) })
    }
}

/// Returns the results of the series.
pub(super) fn document(series: &Series, results: &[Vec<Figures>]) -> Value {
    let devices: Vec<Value> = series
        .devices
        .iter()
        .zip(results)
        .map(|(device, repetitions)| {
            json!({
                "device": device.label(),
                "validated": device.description.validated(),
                "statistics": statistics(repetitions),
                "repetitions": repetitions,
            })
        })
        .collect();
    json!({
        "version": VERSION,
        "command": command_line(),
        "seed": series.seed.0,
        "size_bytes": series.size.as_bytes(),
        "uncounted_passes": u64::from(series.has_uncounted_pass()),
        "application": application(&series.application),
        "pacing": series.pace.pacing,
        "mode": series.pace.mode,
        "lookahead_us": series.pace.lookahead.map(Duration::as_us),
        "deadline_limit_us": series.pace.deadline_limit.as_us(),
        "devices": devices,
    })
}

/// Mean, standard deviation, minimum and maximum of every figure that is a number.
fn statistics(repetitions: &[Figures]) -> BTreeMap<String, Statistics> {
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for repetition in repetitions {
        let Ok(Value::Object(figures)) = serde_json::to_value(repetition) else { continue };
        for (name, value) in figures.iter().filter(|(name, _)| *name != "exit_code") {
            if let Some(value) = value.as_f64() {
                values.entry(name.clone()).or_default().push(value);
            }
        }
    }
    values.into_iter().filter_map(|(name, values)| Some((name, Statistics::of(&values)?))).collect()
}

fn application(application: &Application) -> Value {
    match application {
        Application::Commands(commands) => json!({
            "file_system": commands.file_system,
            "mount_options": commands.mount_options.to_string(),
            "image": commands.image,
            "setup": commands.setup,
            "phases": commands.phases,
            "command": commands.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>(),
            "drop_caches": commands.drop_caches,
            "user": commands.user,
        }),
        Application::Builtin { line, .. } => json!({ "builtin": line }),
    }
}
