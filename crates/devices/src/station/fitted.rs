//! Contents of a fitted station: the order in which it takes waiting requests, and the service times that its
//! questions lead to.
//!
//! # Scope and limits
//! A distribution is named by its questions and answers; the largest are drawn, all are in the table.

use seeklab_core::Operation;

use super::feature::Feature;
use super::parameters::StationParameters;
use super::picks::PickCounts;
use super::tree::{Node, Tree};
use crate::error::DescriptionError;
use crate::fitted::{FittedAxis, FittedCurves, FittedModel, FittedPoint, FittedSeries, FittedTable};
use crate::table::ClassTimes;

/// Distributions that are drawn.
const DRAWN: usize = 6;

/// Points of a cumulative distribution.
const POINTS: usize = 50;

/// Returns the contents of the station of a device.
///
/// # Errors
/// Parameters that no device can have.
pub(crate) fn fitted_model(parameters: &StationParameters) -> Result<FittedModel, DescriptionError> {
    parameters.read()?;
    let leaves = leaves(parameters);
    let total: u64 = leaves.iter().map(|(_, times)| times.count()).sum();
    let operations = parameters.operations.iter().map(|seen| {
        let figures = [
            seen.requests as f64,
            seen.typical.as_ms(),
            f64::from(seen.blocks_min),
            f64::from(seen.blocks_max),
            f64::from(seen.queue_max),
        ];
        (seen.op.name().to_owned(), figures.to_vec())
    });
    let services = leaves.iter().enumerate().map(|(number, (name, times))| {
        let share = 100.0 * times.count() as f64 / total.max(1) as f64;
        (
            format!("{}. {name}", number + 1),
            vec![share, times.mean_ms(), times.quantile_ms(0.5), times.quantile_ms(0.99)],
        )
    });
    let servers = f64::from(parameters.servers);
    let station = match parameters.servers {
        0 => ("as many servers as requests".to_owned(), vec![0.0, 0.0]),
        _ => (
            format!("takes what waits {}", parameters.line().describe()),
            vec![servers, overtaken(parameters)],
        ),
    };
    let mut largest: Vec<(usize, &ClassTimes)> =
        leaves.iter().enumerate().map(|(number, (_, times))| (number + 1, times)).collect();
    largest.sort_by_key(|(_, times)| std::cmp::Reverse(times.count()));
    let series = largest.into_iter().take(DRAWN).map(|(number, times)| FittedSeries {
        name: format!("{number}."),
        points: (0..=POINTS)
            .map(|point| {
                let share = (point as f64 / POINTS as f64).clamp(0.001, 0.999);
                FittedPoint { x: times.quantile_ms(share), y: 100.0 * share, requests: times.count() }
            })
            .collect(),
    });
    Ok(FittedModel {
        tables: vec![
            FittedTable {
                key: "station",
                rows_are: "station",
                columns: vec!["servers", "out_of_order_pct"],
                rows: vec![station],
            },
            FittedTable {
                key: "operations",
                rows_are: "operation",
                columns: vec!["requests", "typical_service_ms", "blocks_min", "blocks_max", "queue_max"],
                rows: operations.collect(),
            },
            FittedTable {
                key: "services",
                rows_are: "service time when",
                columns: vec!["requests_pct", "mean_ms", "p50_ms", "p99_ms"],
                rows: services.collect(),
            },
        ],
        curves: vec![FittedCurves {
            key: "service_times",
            title: "Service times, the most frequent kinds",
            caption: "Share of the services of a kind, by its number in the table, that took no longer."
                .to_owned(),
            x: FittedAxis { key: "service_ms", label: "service time", unit: "ms", is_log: true },
            y: FittedAxis { key: "services_pct", label: "services", unit: "%", is_log: false },
            series: series.collect(),
        }],
    })
}

/// Share of the picks that did not fall on the first in line.
fn overtaken(parameters: &StationParameters) -> f64 {
    PickCounts::read(&parameters.picks).map_or(0.0, |picks| 100.0 * picks.out_of_order())
}

/// The distributions with the answers that lead to them; the tree was read before.
fn leaves(parameters: &StationParameters) -> Vec<(String, ClassTimes)> {
    let Ok(tree) = Tree::read(&parameters.tree) else { return Vec::new() };
    let texts =
        parameters.tree.iter().filter_map(|line| line.trim_start_matches(['.', ' ']).strip_prefix('='));
    let mut texts = texts.map(ClassTimes::read);
    let seen: Vec<Operation> = parameters.operations.iter().map(|seen| seen.op).collect();
    // What was answered on the way, and whether the answer was yes.
    let mut leaves = Vec::new();
    let mut path: Vec<(Feature, u8, bool)> = Vec::new();
    for node in &tree.nodes {
        match node {
            Node::Split { feature, class, .. } => {
                path.push((Feature::ALL[usize::from(*feature)], *class, true))
            }
            Node::Leaf(_) => {
                leaves.push((name(&path, &seen), texts.next().unwrap_or_default()));
                while path.pop_if(|(.., is_yes)| !*is_yes).is_some() {}
                if let Some((.., is_yes)) = path.last_mut() {
                    *is_yes = false;
                }
            }
        }
    }
    leaves
}

/// Describes the answers in words, once for each feature on the path.
fn name(path: &[(Feature, u8, bool)], seen: &[Operation]) -> String {
    let words = Feature::ALL.into_iter().filter_map(|feature| {
        let of = || path.iter().filter(|(of, ..)| *of == feature);
        let from = of().filter(|(.., is_yes)| !is_yes).map(|(_, class, _)| *class).max();
        let until = of().filter(|(.., is_yes)| *is_yes).map(|(_, class, _)| *class).min();
        (from.is_some() || until.is_some()).then(|| feature.describe(from, until, seen))
    });
    let words: Vec<String> = words.collect();
    if words.is_empty() { "always".to_owned() } else { words.join(", ") }
}
