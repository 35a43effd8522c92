//! The figures of several devices: a table of the load and one of response times, a row for each device, and one of response
//! times by criticality where there is more than one class.

use seeklab_analysis::{CriticalitySummaries, CriticalitySummary};
use seeklab_core::Criticality;

use super::{shortened, table, wrapped};
use crate::document::DeviceSection;
use crate::number::{TimeUnit, column, count};

/// Characters of a device name at most.
const NAME_WIDTH: usize = 22;

/// Renders the tables, the last one unless the classes are shown elsewhere.
pub(super) fn render(devices: &[DeviceSection], with_classes: bool) -> String {
    let classes = if with_classes { criticalities(devices) } else { String::new() };
    format!("{}\n\n{}{}{classes}", load(devices), responses(devices), errors(devices))
}

fn names(devices: &[DeviceSection]) -> Vec<String> {
    devices.iter().map(|device| shortened(&device.name, NAME_WIDTH)).collect()
}

fn load(devices: &[DeviceSection]) -> String {
    let values = |value: fn(&DeviceSection) -> Option<f64>| devices.iter().map(value).collect::<Vec<_>>();
    of_columns(vec![
        ("device".to_owned(), names(devices)),
        ("n".to_owned(), devices.iter().map(|device| count(device.summary.requests)).collect()),
        ("IOPS".to_owned(), column(&values(|device| device.summary.requests_per_second))),
        ("busy %".to_owned(), percentages(&values(|device| device.summary.utilisation_pct))),
        ("hits %".to_owned(), percentages(&values(|device| device.summary.buffer_hits_pct))),
    ])
}

fn responses(devices: &[DeviceSection]) -> String {
    let response = |device: &DeviceSection| device.summary.response;
    let unit = TimeUnit::of_ms(devices.iter().filter_map(response).map(|response| response.mean_ms));
    let times = |value: fn(&seeklab_analysis::TimeSummary) -> f64| {
        let times = devices.iter().map(|device| response(device).map(|times| unit.scale_ms(value(&times))));
        column(&times.collect::<Vec<_>>())
    };
    let half_width =
        |device: &DeviceSection| device.summary.response_mean_half_width_95_ms.map(|ms| unit.scale_ms(ms));
    of_columns(vec![
        (format!("response {}", unit.name), names(devices)),
        ("mean".to_owned(), times(|time| time.mean_ms)),
        ("±95%".to_owned(), column(&devices.iter().map(half_width).collect::<Vec<_>>())),
        ("p50".to_owned(), times(|time| time.p50_ms)),
        ("p99".to_owned(), times(|time| time.p99_ms)),
        ("p99.9".to_owned(), times(|time| time.p999_ms)),
        ("max".to_owned(), times(|time| time.max_ms)),
    ])
}

/// A table of the classes that occur, a row for each class of each device; nothing if no device has more than one.
fn criticalities(devices: &[DeviceSection]) -> String {
    let names = names(devices);
    let classes = devices.iter().zip(&names).flat_map(|(device, name)| {
        let classes = device.summary.by_criticality.iter().flat_map(CriticalitySummaries::by_class);
        let classes = classes.filter(|(_, class)| class.requests > 0);
        classes.map(move |(criticality, class)| (name.clone(), criticality, *class))
    });
    let classes: Vec<_> = classes.collect();
    if classes.is_empty() {
        return String::new();
    }
    let means = classes.iter().filter_map(|(.., class)| class.response_mean_ms);
    let unit = TimeUnit::of_ms(means);
    let times = |value: fn(&CriticalitySummary) -> Option<f64>| {
        let times = classes.iter().map(|(.., class)| value(class).map(|ms| unit.scale_ms(ms)));
        column(&times.collect::<Vec<_>>())
    };
    let counts = |value: fn(&CriticalitySummary) -> u64| {
        classes.iter().map(|(.., class)| count(value(class))).collect::<Vec<_>>()
    };
    let words = |criticality: Criticality| criticality.name().replace('_', "-");
    let mut columns = vec![
        (format!("response {}", unit.name), classes.iter().map(|(name, ..)| name.clone()).collect()),
        ("class".to_owned(), classes.iter().map(|(_, criticality, _)| words(*criticality)).collect()),
        ("n".to_owned(), counts(|class| class.requests)),
        ("mean".to_owned(), times(|class| class.response_mean_ms)),
        ("p99".to_owned(), times(|class| class.response_p99_ms)),
    ];
    if classes.iter().any(|(.., class)| class.became_time_critical > 0) {
        columns.push(("became critical".to_owned(), counts(|class| class.became_time_critical)));
        columns.push(("wait".to_owned(), times(|class| class.wait_mean_ms)));
    }
    let table = of_columns_with_texts(columns, 2);
    format!("\n\n{table}")
}

/// A table of columns with titles, the first of which names the rows.
fn of_columns(columns: Vec<(String, Vec<String>)>) -> String {
    of_columns_with_texts(columns, 1)
}

/// A table of columns with titles, the first `texts` of which name the rows.
fn of_columns_with_texts(columns: Vec<(String, Vec<String>)>, texts: usize) -> String {
    let (header, columns): (Vec<String>, Vec<Vec<String>>) = columns.into_iter().unzip();
    let rows = (0..columns[0].len()).map(|row| columns.iter().map(|column| column[row].clone()).collect());
    table(&header, &rows.collect::<Vec<_>>(), texts)
}

/// A line about requests with a status other than `ok`, by device; nothing if there are none.
fn errors(devices: &[DeviceSection]) -> String {
    let of = |device: &DeviceSection| {
        let counts = device.summary.statuses.by_name();
        let counts = counts.iter().filter(|(_, requests)| *requests > 0);
        counts.map(|(name, requests)| format!("{} {name}", count(*requests))).collect::<Vec<_>>().join(", ")
    };
    let each =
        devices.iter().map(|device| (of(device), &device.name)).filter(|(counts, _)| !counts.is_empty());
    let each: Vec<String> = each.map(|(counts, name)| format!("{name}: {counts}")).collect();
    if each.is_empty() { String::new() } else { format!("\n{}", wrapped("errors", &each.join("; "))) }
}

/// Percentages with one decimal.
fn percentages(values: &[Option<f64>]) -> Vec<String> {
    values.iter().map(|value| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.1}"))).collect()
}
