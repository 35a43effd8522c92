//! The figures of several devices, a row each.

use super::{WIDTH, shortened, table, wrapped};
use crate::document::DeviceSection;
use crate::number::{TimeUnit, column, count};

/// Characters of a device name at most, and where the table would be too wide.
const NAME_WIDTHS: [usize; 2] = [22, 14];
/// Column that is omitted if the table would otherwise be too wide.
const SPARE: &str = "±95%";

/// The table as wide as it fits.
pub(super) fn render(devices: &[DeviceSection]) -> String {
    let [long, short] = NAME_WIDTHS;
    [(long, true), (short, true)]
        .into_iter()
        .map(|(name_width, has_spare)| figures(devices, name_width, has_spare))
        .find(|text| text.lines().all(|line| line.chars().count() <= WIDTH))
        .unwrap_or_else(|| figures(devices, short, false))
        + &errors(devices)
}

fn figures(devices: &[DeviceSection], name_width: usize, has_spare: bool) -> String {
    let response = |device: &DeviceSection| device.summary.response;
    let unit = TimeUnit::of_ms(devices.iter().filter_map(response).map(|response| response.mean_ms));
    let times = |value: fn(&seeklab_analysis::TimeSummary) -> f64| {
        devices
            .iter()
            .map(|device| response(device).map(|response| unit.scale_ms(value(&response))))
            .collect::<Vec<_>>()
    };
    let values = |value: fn(&DeviceSection) -> Option<f64>| devices.iter().map(value).collect::<Vec<_>>();
    let half_width =
        |device: &DeviceSection| device.summary.response_mean_half_width_95_ms.map(|ms| unit.scale_ms(ms));
    let in_unit = |title: &str| format!("{title} {}", unit.name);
    let columns: Vec<(String, Vec<String>)> = vec![
        ("device".to_owned(), devices.iter().map(|device| shortened(&device.name, name_width)).collect()),
        ("n".to_owned(), devices.iter().map(|device| count(device.summary.requests)).collect()),
        ("IOPS".to_owned(), column(&values(|device| device.summary.requests_per_second))),
        (in_unit("mean"), column(&times(|time| time.mean_ms))),
        (SPARE.to_owned(), column(&devices.iter().map(half_width).collect::<Vec<_>>())),
        ("p50".to_owned(), column(&times(|time| time.p50_ms))),
        ("p99".to_owned(), column(&times(|time| time.p99_ms))),
        ("p99.9".to_owned(), column(&times(|time| time.p999_ms))),
        ("max".to_owned(), column(&times(|time| time.max_ms))),
        ("busy %".to_owned(), percentages(&values(|device| device.summary.utilisation_pct))),
        ("hits %".to_owned(), percentages(&values(|device| device.summary.buffer_hits_pct))),
    ];
    let (header, columns): (Vec<String>, Vec<Vec<String>>) =
        columns.into_iter().filter(|(title, _)| has_spare || title != SPARE).unzip();
    let rows: Vec<Vec<String>> =
        (0..devices.len()).map(|row| columns.iter().map(|column| column[row].clone()).collect()).collect();
    table(&header, &rows, 1)
}

/// A line about requests that ended in an error; nothing if there are none.
fn errors(devices: &[DeviceSection]) -> String {
    let each = devices.iter().filter(|device| device.summary.errors > 0);
    let each: Vec<String> =
        each.map(|device| format!("{} {}", count(device.summary.errors), device.name)).collect();
    if each.is_empty() { String::new() } else { format!("\n{}", wrapped("errors", &each.join(", "))) }
}

/// Percentages with one decimal.
fn percentages(values: &[Option<f64>]) -> Vec<String> {
    values.iter().map(|value| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.1}"))).collect()
}
