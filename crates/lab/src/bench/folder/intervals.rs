//! The figures over time: a row for each interval, stream and operation, and one for all operations of a stream.
//!
//! ```text
//! interval ─▶ rows ─▶ intervals.parquet.part, CSV, as they come; intervals.parquet at the end
//! ```
//! # Scope and limits
//! The rows of the end may differ from those that came: a thread that its target held hands over its figures late.

use seeklab_bench::{Direction, Part};
use seeklab_columnar::{ColumnValues, TableColumn};
use seeklab_core::{Duration, Operation};

use super::super::figures::{ResponseTimes, ServiceTimes, six_decimals};

/// Name of the table.
pub(super) const TABLE: &str = "intervals";
/// Version of its columns. A column may be added without another version.
pub(super) const VERSION: u32 = 1;
/// Name of the sum over all operations.
pub(super) const ALL: &str = "all";

/// Place of a row: everything but the figures.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowPlace<'a> {
    pub(super) phase: &'a str,
    /// The first is 1.
    pub(super) repetition: u64,
    pub(super) stream: &'a str,
    /// Number in the phase, the first is 1.
    pub(super) interval: u64,
    /// Begin from the begin of the run.
    pub(super) from: Duration,
}

/// A row.
#[derive(Debug)]
pub(super) struct IntervalRow<'a> {
    place: RowPlace<'a>,
    operation: &'static str,
    length_s: f64,
    requests: u64,
    bytes: u64,
    response: ResponseTimes,
    service: ServiceTimes,
    /// The part, if the row is that of all operations.
    all: Option<&'a Part>,
}

impl<'a> IntervalRow<'a> {
    /// The rows of a stream in an interval.
    pub(super) fn of(place: RowPlace<'a>, part: &'a Part) -> Vec<Self> {
        let length_s = six_decimals(part.until.saturating_since(part.from).as_s());
        let mut rows = vec![Self {
            place,
            operation: ALL,
            length_s,
            requests: part.requests(),
            bytes: part.bytes(),
            response: ResponseTimes::from(&part.response()),
            service: ServiceTimes::from(&part.service()),
            all: Some(part),
        }];
        let row = |(op, direction): (Operation, &Direction)| Self {
            place,
            operation: op.name(),
            length_s,
            requests: direction.requests,
            bytes: direction.bytes,
            response: ResponseTimes::from(&direction.response),
            service: ServiceTimes::from(&direction.service),
            all: None,
        };
        let operations = Operation::ALL.into_iter().zip(&part.operations);
        rows.extend(operations.filter(|(_, direction)| direction.requests > 0).map(row));
        rows
    }

    fn rate(&self, amount: f64) -> Option<f64> {
        (self.length_s > 0.0).then(|| six_decimals(amount / self.length_s))
    }

    /// A count that belongs to no operation.
    fn count(&self, count: fn(&Part) -> u64) -> Option<u64> {
        self.all.map(count)
    }
}

/// A column: its name, its meaning, and its value of a row.
pub(super) struct IntervalColumn {
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
    value: fn(&IntervalRow<'_>) -> Value,
}

/// A value of a row.
enum Value {
    Text(String),
    Count(u64),
    OptionalCount(Option<u64>),
    Number(Option<f64>),
}

use Value::{Count, Number, OptionalCount, Text};

macro_rules! columns {
    ($($name:literal, $meaning:literal, $value:expr;)+) => {
        /// The columns, in order.
        pub(super) const COLUMNS: &[IntervalColumn] =
            &[$(IntervalColumn { name: $name, meaning: $meaning, value: $value }),+];
    };
}

columns! {
    "phase", "Name of the phase.", |row| Text(row.place.phase.to_owned());
    "repetition", "Number of the repetition, the first is 1.", |row| Count(row.place.repetition);
    "stream", "Name of the stream.", |row| Text(row.place.stream.to_owned());
    "operation", "Operation, or `all`: the sum, with the figures that belong to no operation.",
        |row| Text(row.operation.to_owned());
    "interval", "Number of the interval in its phase, the first is 1.", |row| Count(row.place.interval);
    "from_s", "Begin of the interval, from the begin of the run.",
        |row| Number(Some(six_decimals(row.place.from.as_s())));
    "length_s", "Length of the interval.", |row| Number(Some(row.length_s));
    "requests", "Requests that were carried out.", |row| Count(row.requests);
    "bytes", "Bytes that they transferred.", |row| Count(row.bytes);
    "requests_per_second", "Requests per second.", |row| Number(row.rate(row.requests as f64));
    "mib_per_second", "MiB per second.", |row| Number(row.rate(row.bytes as f64 / f64::from(1 << 20)));
    "response_min_ms", "Shortest response time.", |row| Number(row.response.response_min_ms);
    "response_mean_ms", "Mean response time.", |row| Number(row.response.response_mean_ms);
    "response_sd_ms", "Standard deviation of the response times.", |row| Number(row.response.response_sd_ms);
    "response_p50_ms", "Median of the response times.", |row| Number(row.response.response_p50_ms);
    "response_p90_ms", "90th percentile.", |row| Number(row.response.response_p90_ms);
    "response_p95_ms", "95th percentile.", |row| Number(row.response.response_p95_ms);
    "response_p99_ms", "99th percentile.", |row| Number(row.response.response_p99_ms);
    "response_p999_ms", "99.9th percentile.", |row| Number(row.response.response_p999_ms);
    "response_p9999_ms", "99.99th percentile.", |row| Number(row.response.response_p9999_ms);
    "response_max_ms", "Longest response time.", |row| Number(row.response.response_max_ms);
    "service_min_ms", "Shortest service time.", |row| Number(row.service.service_min_ms);
    "service_mean_ms", "Mean service time.", |row| Number(row.service.service_mean_ms);
    "service_sd_ms", "Standard deviation of the service times.", |row| Number(row.service.service_sd_ms);
    "service_p50_ms", "Median of the service times.", |row| Number(row.service.service_p50_ms);
    "service_p90_ms", "90th percentile.", |row| Number(row.service.service_p90_ms);
    "service_p95_ms", "95th percentile.", |row| Number(row.service.service_p95_ms);
    "service_p99_ms", "99th percentile.", |row| Number(row.service.service_p99_ms);
    "service_p999_ms", "99.9th percentile.", |row| Number(row.service.service_p999_ms);
    "service_p9999_ms", "99.99th percentile.", |row| Number(row.service.service_p9999_ms);
    "service_max_ms", "Longest service time.", |row| Number(row.service.service_max_ms);
    "attempts", "Attempts at requests that were issued. This and all that follow: of `all` only.",
        |row| OptionalCount(row.count(|part| part.attempts));
    "errors", "Attempts that failed.", |row| OptionalCount(row.count(Part::errors));
    "failed_requests", "Requests that were not carried out by any attempt.",
        |row| OptionalCount(row.count(|part| part.failed));
    "retries", "Attempts after the first of a request.", |row| OptionalCount(row.count(|part| part.retries));
    "delayed_requests", "Arrivals that found no room and waited.",
        |row| OptionalCount(row.count(|part| part.delayed));
    "dropped_requests", "Arrivals that found no room and were left out.",
        |row| OptionalCount(row.count(|part| part.dropped));
    "outstanding", "Attempts that the target has at the end of the interval.",
        |row| OptionalCount(row.count(|part| part.outstanding));
    "queued_requests", "Arrivals that wait at the end of the interval.",
        |row| OptionalCount(row.count(|part| part.queued));
    "hung_requests", "Attempts of at least a second of age at the end of the interval.",
        |row| OptionalCount(row.count(|part| part.hung));
    "oldest_ms", "Age of the oldest attempt that the target has at the end of the interval.",
        |row| Number(row.all.and_then(|part| part.oldest).map(|age| six_decimals(age.as_ms())));
    "longest_pause_ms", "Longest time without a completion while requests were under way, on a thread.",
        |row| Number(row.all.map(|part| six_decimals(part.pause.as_ms())));
    "lateness_p50_us", "Median of the lateness of issue.", |row| Number(lateness_us(row, 0.5));
    "lateness_p99_us", "99th percentile of the lateness of issue.", |row| Number(lateness_us(row, 0.99));
}

fn lateness_us(row: &IntervalRow<'_>, quantile: f64) -> Option<f64> {
    row.all?.lateness.quantile(quantile).map(Duration::as_us)
}

/// The heading of the rows as CSV.
pub(super) fn csv_heading() -> String {
    csv_line(COLUMNS.iter().map(|column| column.name))
}

/// A row as CSV.
pub(super) fn csv_row(row: &IntervalRow<'_>) -> String {
    csv_line(COLUMNS.iter().map(|column| match (column.value)(row) {
        Text(text) => text,
        Count(count) => count.to_string(),
        OptionalCount(count) => count.map_or_else(String::new, |count| count.to_string()),
        Number(number) => number.map_or_else(String::new, |number| number.to_string()),
    }))
}

fn csv_line(cells: impl Iterator<Item: AsRef<[u8]>>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Writing to memory does not fail.
    let _ = writer.write_record(cells);
    String::from_utf8(writer.into_inner().unwrap_or_default()).unwrap_or_default()
}

/// The rows as columns.
pub(super) fn table<'a>(rows: impl Iterator<Item = IntervalRow<'a>>) -> Vec<TableColumn> {
    let mut columns: Vec<Option<ColumnValues>> = COLUMNS.iter().map(|_| None).collect();
    for row in rows {
        for (column, values) in COLUMNS.iter().zip(&mut columns) {
            push(values, (column.value)(&row));
        }
    }
    COLUMNS
        .iter()
        .zip(columns)
        .map(|(column, values)| TableColumn {
            name: column.name.to_owned(),
            values: values.unwrap_or_else(|| ColumnValues::Numbers(Vec::new())),
        })
        .collect()
}

fn push(values: &mut Option<ColumnValues>, value: Value) {
    match (values, value) {
        (Some(ColumnValues::Text(all)), Text(text)) => all.push(text),
        (Some(ColumnValues::Counts(all)), Count(count)) => all.push(count),
        (Some(ColumnValues::OptionalCounts(all)), OptionalCount(count)) => all.push(count),
        (Some(ColumnValues::Numbers(all)), Number(number)) => all.push(number),
        (empty, value) => {
            *empty = Some(match value {
                Text(text) => ColumnValues::Text(vec![text]),
                Count(count) => ColumnValues::Counts(vec![count]),
                OptionalCount(count) => ColumnValues::OptionalCounts(vec![count]),
                Number(number) => ColumnValues::Numbers(vec![number]),
            });
        }
    }
}
