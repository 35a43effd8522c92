//! Response curves of a measurement: response times over the rate at which requests arrive.
//!
//! ```text
//! phases with one stream at several rates ─▶ a curve: points in order of rate, means over the repetitions
//! ```
//! A curve has the phases that `rates` made of one phase, or phases whose streams differ in their rate alone. Streams that
//! run at the same time have curves of their own.

use seeklab_report::{Plot, PlotAxis, PlotMark, PlotScale, PlotSeries};

use super::figures::LoadFigures;
use super::options::{BenchOptions, StreamLoad, StreamOptions};
use super::phase::PhaseRun;
use super::phases::PhaseFigures;
use super::rates::{OfferedRate, offered_per_s, set_rate};

/// Response times of a curve.
const FIGURES: [(&str, fn(&LoadFigures) -> Option<f64>); 3] = [
    ("mean", |load| load.response.response_mean_ms),
    ("p50", |load| load.response.response_p50_ms),
    ("p99", |load| load.response.response_p99_ms),
];

/// One load at several rates.
struct Curve<'a> {
    /// Name of the phase without the rate.
    phase: &'a str,
    stream: &'a str,
    target: usize,
    /// Its load, at a rate that is the same for all.
    load: String,
    /// Rates with the figures of each repetition.
    points: Vec<(f64, Vec<&'a LoadFigures>)>,
}

/// The plots of all response curves. One curve has its figures in one plot; several have a plot for each figure.
pub(super) fn plots(options: &BenchOptions, phases: &[PhaseFigures], runs: &[PhaseRun]) -> Vec<Plot> {
    let curves = curves(options, phases, runs);
    let line = |name: String, curve: &Curve, pick: fn(&LoadFigures) -> Option<f64>| {
        let mean = |loads: &[&LoadFigures]| {
            let values: Vec<f64> = loads.iter().filter_map(|load| pick(load)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let points = curve.points.iter().filter_map(|(rate, loads)| Some((*rate, mean(loads)?)));
        PlotSeries::new(name, PlotMark::LineAndPoints, points.collect::<Vec<_>>())
    };
    let plot = |title: String, caption: &str, series: Vec<PlotSeries>| Plot {
        title,
        caption: caption.to_owned(),
        x: PlotAxis::new("arrivals", "1/s", PlotScale::Linear).from_zero(),
        y: PlotAxis::new("response time", "ms", PlotScale::ByValues),
        series,
    };
    match curves.as_slice() {
        [] => Vec::new(),
        [curve] => {
            let series = FIGURES.map(|(name, pick)| line(name.to_owned(), curve, pick));
            let caption = "Response times over the rate at which requests arrive.";
            vec![plot("response curve".to_owned(), caption, series.into())]
        }
        curves => {
            let of_figure = |(name, pick): (&str, fn(&LoadFigures) -> Option<f64>)| {
                let series = curves.iter().map(|curve| line(curve.name(curves), curve, pick)).collect();
                let caption =
                    "Response times of each phase and stream over the rate at which its requests arrive.";
                plot(format!("response curves, {name}"), caption, series)
            };
            FIGURES.map(of_figure).into()
        }
    }
}

fn curves<'a>(options: &'a BenchOptions, phases: &'a [PhaseFigures], runs: &[PhaseRun]) -> Vec<Curve<'a>> {
    let mut curves: Vec<Curve> = Vec::new();
    for (figures, run) in phases.iter().zip(runs) {
        let phase = run.options(options);
        for (stream, of_stream) in phase.streams.iter().zip(&figures.streams) {
            let Some((rate, load)) = offered_per_s(stream).zip(load_without_rate(stream)) else { continue };
            let (name, target) = (without_rate(&phase.name), stream.target);
            let wanted = (name, stream.name.as_str(), target, &load);
            let of = |curve: &Curve| (curve.phase, curve.stream, curve.target, &curve.load) == wanted;
            let place = curves.iter().position(of);
            let curve = match place {
                Some(place) => &mut curves[place],
                None => {
                    curves.push(Curve {
                        phase: name,
                        stream: &stream.name,
                        target,
                        load,
                        points: Vec::new(),
                    });
                    curves.last_mut().expect("it was pushed")
                }
            };
            match curve.points.iter_mut().find(|(known, _)| *known == rate) {
                Some((_, loads)) => loads.push(&of_stream.load),
                None => curve.points.push((rate, vec![&of_stream.load])),
            }
        }
    }
    curves.retain(|curve| curve.points.len() > 1);
    curves.iter_mut().for_each(|curve| curve.points.sort_by(|one, other| one.0.total_cmp(&other.0)));
    curves
}

impl Curve<'_> {
    /// Its phase and stream, as far as they tell it apart from the other curves.
    fn name(&self, curves: &[Self]) -> String {
        let has_phase = curves.iter().any(|other| other.phase != self.phase);
        let has_stream = curves.iter().any(|other| other.phase == self.phase && other.stream != self.stream);
        match (has_phase && !self.phase.is_empty(), has_stream) {
            (true, true) => format!("{}, {}", self.phase, self.stream),
            (false, true) => self.stream.to_owned(),
            (true, false) => self.phase.to_owned(),
            (false, false) => {
                let number =
                    curves.iter().position(|other| std::ptr::eq(other, self)).map_or(1, |place| place + 1);
                format!("load {number}")
            }
        }
    }
}

/// Name of a phase without the rate that `rates` put behind it.
fn without_rate(name: &str) -> &str {
    let (rest, last) = name.rsplit_once(' ').unwrap_or(("", name));
    match last.parse::<OfferedRate>() {
        Ok(_) => rest,
        // Phases of the plan itself: what tells them apart is their load.
        Err(_) => "",
    }
}

/// The workload of a stream at a rate that is the same for all; `None` without a rate.
fn load_without_rate(stream: &StreamOptions) -> Option<String> {
    let mut load = stream.workload.clone();
    set_rate(&mut load, 1.0)?;
    Some(match load {
        StreamLoad::Workload(workload) => format!("{:?}", workload.spec),
        StreamLoad::Job(job, _) => format!("{job:?}"),
    })
}
