//! A series for people: the report.

use seeklab_analysis::interval;
use seeklab_core::Coverage;
use seeklab_core::number_words::{counted, in_number, numbered};
use seeklab_report::{ApplicationRow, ApplicationSection, Note, Parameter, PointsSection, Report};

use super::figures::Figures;
use super::trust::{least_accurate, trust};
use super::{Application, Series};
use crate::devices::Resolved;
use crate::fitted_range::FittedRangeFigures;
use crate::output::VERSION;
use crate::session::Session;

/// Returns the report of the series.
pub(super) fn report(session: &Session, series: &Series, results: &[Vec<Figures>]) -> Report {
    let rows = series
        .devices
        .iter()
        .zip(results)
        .filter(|(_, repetitions)| !repetitions.is_empty())
        .map(|(device, repetitions)| row(device, repetitions))
        .collect();
    let first = results.iter().flatten().next();
    let phases = first.map(|first| first.phases.iter().map(|phase| phase.name.clone()).collect());
    let names: Vec<String> = series.devices.iter().map(Resolved::label).collect();
    Report {
        title: format!("{} on {}", title(&series.application), names.join(", ")),
        subtitle: subtitle(series),
        command: session.command(),
        seed: Some(series.seed),
        generated_by: VERSION.to_owned(),
        parameters: parameters(series),
        application: Some(ApplicationSection { phases: phases.unwrap_or_default(), rows }),
        points: results.iter().filter_map(|repetitions| points(repetitions)).collect(),
        notes: notes(series, results),
        ..Report::default()
    }
}

fn title(application: &Application) -> String {
    match application {
        Application::Commands(commands) if !commands.command.is_empty() => {
            let words: Vec<_> = commands.command.iter().map(|word| word.to_string_lossy()).collect();
            words.join(" ")
        }
        Application::Commands(commands) => {
            commands.phases.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
        }
        Application::Builtin { line, .. } => line.clone(),
        Application::Jobs(jobs) => jobs.line.clone(),
    }
}

fn subtitle(series: &Series) -> String {
    let on = match &series.application {
        Application::Commands(commands) => match commands.mount_options.to_string() {
            options if options.is_empty() => format!("{} on a block device", commands.file_system),
            options => format!("{} ({options}) on a block device", commands.file_system),
        },
        Application::Jobs(jobs) if jobs.block.is_some() => "past the page cache of a block device".to_owned(),
        Application::Builtin { .. } | Application::Jobs(_) => "over NBD".to_owned(),
    };
    let repetitions = counted(series.repetitions, "repetition");
    let pass = if series.has_uncounted_pass() { " after an uncounted pass" } else { "" };
    format!("{on} of {}, {repetitions}{pass}", series.size)
}

fn parameters(series: &Series) -> Vec<Parameter> {
    let plain = |name: &str, value: String| Parameter { name: name.to_owned(), value, source: None };
    let mut parameters = vec![
        plain("size", series.size.to_string()),
        plain("pacing", format!("{:?}", series.pace.pacing).to_lowercase()),
        plain("mode", format!("{:?}", series.pace.mode).to_lowercase()),
    ];
    match &series.application {
        Application::Commands(commands) => {
            parameters.push(plain("file system", commands.file_system.to_string()));
            parameters.extend(super::limits::parameters(commands));
            parameters.extend(commands.setup.iter().map(|setup| plain("setup", setup.clone())));
            let phases = commands.phases.iter();
            parameters.extend(phases.map(|(name, line)| plain(&format!("phase {name}"), line.clone())));
        }
        Application::Builtin { line, .. } => parameters.push(plain("application", line.clone())),
        Application::Jobs(jobs) => parameters.push(plain("jobs", jobs.line.clone())),
    }
    parameters
}

fn row(device: &Resolved, repetitions: &[Figures]) -> ApplicationRow {
    let mean = |value: &dyn Fn(&Figures) -> Option<f64>| {
        let values: Vec<f64> = repetitions.iter().filter_map(value).collect();
        interval(&values).map(|interval| interval.mean)
    };
    let elapsed: Vec<f64> = repetitions.iter().map(|figures| figures.elapsed_s).collect();
    let count = repetitions.iter().map(|figures| figures.phases.len()).max().unwrap_or(0);
    let missed = |figures: &Figures| {
        let misses: u64 = figures.deadline_misses.values().sum();
        100.0 * misses as f64 / figures.requests.max(1) as f64
    };
    ApplicationRow {
        device: device.label(),
        elapsed_s: interval(&elapsed).expect("there is a repetition"),
        range_s: [
            elapsed.iter().copied().fold(f64::INFINITY, f64::min),
            elapsed.iter().copied().fold(0.0, f64::max),
        ],
        phases_s: (0..count)
            .map(|phase| mean(&|figures| Some(figures.phases.get(phase)?.elapsed_s)).unwrap_or(0.0))
            .collect(),
        flush_s: mean(&|figures| Some(figures.flush_s)).unwrap_or(0.0),
        requests: mean(&|figures| Some(figures.requests as f64)).unwrap_or(0.0),
        mp3_mean_ms: mean(&|figures| figures.exactness.mp3_mean_ms),
        mp1_mean_ms: mean(&|figures| figures.exactness.mp1_mean_ms),
        ei_avg_ms: mean(&|figures| figures.exactness.ei_avg_ms),
        lateness_p99_us: mean(&|figures| Some(figures.lateness_p99_us)).unwrap_or(0.0),
        missed_pct: mean(&|figures| Some(missed(figures))).unwrap_or(0.0),
        trust: trust(repetitions).expect("there is a repetition").sentence,
    }
}

/// Returns the points of the least accurate repetition, or of the last one if that came from the journal.
fn points(repetitions: &[Figures]) -> Option<PointsSection> {
    let worst = repetitions[least_accurate(repetitions)?].points.as_deref();
    worst.or_else(|| repetitions.iter().rev().find_map(|figures| figures.points.as_deref())).cloned()
}

fn notes(series: &Series, results: &[Vec<Figures>]) -> Vec<Note> {
    let mut notes = series.pace.calibrated.notes().to_vec();
    for (device, repetitions) in series.devices.iter().zip(results) {
        let failed = repetitions.iter().filter(|figures| !figures.succeeded()).count();
        if failed > 0 {
            notes.push(Note::Warning(format!(
                "{}: a command failed in {failed} of {}; {} times cover the part that ran",
                device.label(),
                counted(repetitions.len(), "repetition"),
                in_number(failed as u64, "[its|their]")
            )));
        }
        for criticality in repetitions.iter().filter_map(|figures| figures.criticality.as_ref()) {
            notes.push(Note::Remark(format!("{}: classes {}", device.label(), criticality.sentence())));
        }
        for jobs in repetitions.iter().filter_map(|figures| figures.jobs.as_ref()) {
            notes.push(Note::Remark(format!("{}: {}", device.label(), jobs.summary)));
            notes.extend(jobs.notes.iter().map(|note| Note::Warning(format!("{}: {note}", device.label()))));
        }
        for figures in repetitions.iter().filter(|figures| figures.failed_requests > 0) {
            let retries = figures.retries.and_then(|retries| retries.sentence());
            let reconnections = figures.reconnections.filter(|count| *count > 0);
            let reconnections = reconnections.map(|count| format!("connections opened again: {count}"));
            let more: Vec<String> = retries.into_iter().chain(reconnections).collect();
            notes.push(Note::Warning(format!(
                "{}: {} of {} failed{}{}",
                device.label(),
                figures.failed_requests,
                counted(figures.requests, "request"),
                if more.is_empty() { "" } else { ": " },
                more.join("; ")
            )));
        }
        notes.extend(super::limits::note(&device.label(), repetitions));
        let lost: u64 = repetitions.iter().map(|figures| figures.lost).sum();
        if lost > 0 {
            notes.push(Note::Warning(format!(
                "{}: {}",
                device.label(),
                numbered(lost, "event[|s] [was|were] lost")
            )));
        }
        let model = device.build(series.seed, "disk0").ok();
        let below = model.as_deref().and_then(|model| series.pace.calibrated.below_floor(model));
        notes.extend(below.map(|below| Note::Warning(format!("{}: {below}", device.label()))));
        if model.is_some_and(|model| model.coverage().is_some()) {
            let mut coverage = Coverage::default();
            for figures in repetitions {
                // Journals of earlier versions have the number alone.
                let of_earlier = || Coverage {
                    requests: figures.requests,
                    outside: figures.out_of_validated_range,
                    ..Coverage::default()
                };
                coverage +=
                    figures.fitted_range.as_ref().map_or_else(of_earlier, FittedRangeFigures::coverage);
            }
            notes.extend(device.outside_note(Some(coverage)).map(Note::Warning));
            let how = device.description.validated();
            notes.push(Note::Remark(format!("{}: a clone, {how}", device.label())));
        } else if !device.is_measured() {
            notes.push(Note::Remark(format!(
                "{}: the model was never compared with a measurement ({})",
                device.label(),
                device.description.validated()
            )));
        }
    }
    notes
}
