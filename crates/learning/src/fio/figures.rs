//! Figures that fio reports for one direction of a job: number, rate and times of requests.

use seeklab_core::Operation;
use serde_json::{Map, Value};

use super::Component;
use super::options::Pattern;
use crate::table::sweep::Quantiles;

/// Key of the directions that fio reports together.
pub(super) const MIXED: &str = "mixed";

/// Minimum size of a block. Lengths are multiples of this size.
pub(super) const BLOCK_BYTES: u64 = 512;

/// The directions and where fio writes them.
pub(super) const DIRECTIONS: [(&str, Operation); 3] =
    [("read", Operation::Read), ("write", Operation::Write), ("trim", Operation::Discard)];

/// A number that is there.
fn number(map: &Map<String, Value>, key: &str) -> Result<f64, String> {
    let value = map.get(key).ok_or_else(|| format!("`{key}` is missing"))?;
    value
        .as_f64()
        .filter(|number| number.is_finite() && *number >= 0.0 && *number < 1e18)
        .ok_or_else(|| format!("`{key}` is `{value}`, allowed is a number from 0 to 1e18"))
}

/// Returns the measured figures of one direction, or `Ok(None)` if it has no requests.
pub(super) fn component(
    direction: &Map<String, Value>,
    op: Operation,
    pattern: Pattern,
) -> Result<Option<Component>, String> {
    let requests = number(direction, "total_ios")?;
    if requests < 1.0 {
        return Ok(None);
    }
    let iops = number(direction, "iops")?;
    if iops <= 0.0 {
        return Err(format!("`iops` is 0, but `total_ios` is {requests}"));
    }
    let bytes = number(direction, "io_bytes")? / requests;
    // What is cut short at the end of a file counts as whole.
    let blocks = (bytes / BLOCK_BYTES as f64 - 0.01).ceil().max(1.0);
    if blocks > f64::from(u32::MAX) {
        return Err(format!("`io_bytes` by `total_ios` is {bytes:.0}, allowed are requests below 2 TiB"));
    }
    let (times, mean_ns, p99_ns) = times(direction)?;
    let whole =
        direction.get("lat_ns").and_then(Value::as_object).map(|map| number(map, "mean")).transpose()?;
    Ok(Some(Component {
        op,
        bytes: blocks as u64 * BLOCK_BYTES,
        is_sequential: pattern == Pattern::Sequential,
        requests: requests as u64,
        iops,
        mean_ns,
        whole_mean_ns: whole.unwrap_or(mean_ns).max(mean_ns),
        p99_ns,
        times,
    }))
}

/// Returns the measured figures of flushes in a job that ran for `elapsed_s`, or `Ok(None)` if there were
/// none.
pub(super) fn flushes(sync: &Map<String, Value>, elapsed_s: f64) -> Result<Option<Component>, String> {
    // fio leaves `total_ios` at 0 with engines that wait for a flush.
    let Some(of) = sync.get("lat_ns").and_then(Value::as_object).filter(|of| of.contains_key("N")) else {
        return Ok(None);
    };
    let requests = number(of, "N")?;
    if requests < 1.0 {
        return Ok(None);
    }
    let iops = requests / elapsed_s;
    if !(iops.is_finite() && iops > 0.0) {
        return Err(format!("there were {requests}, but in {elapsed_s} s"));
    }
    let (times, mean_ns, p99_ns) = times(sync)?;
    Ok(Some(Component {
        op: Operation::Flush,
        bytes: 0,
        is_sequential: false,
        requests: requests as u64,
        iops,
        mean_ns,
        whole_mean_ns: mean_ns,
        p99_ns,
        times,
    }))
}

/// Returns the time for which a job made requests, in seconds: computed from the requests of its directions,
/// otherwise the runtime that the job reports.
pub(super) fn elapsed_s(job: &Map<String, Value>) -> f64 {
    let of = |map: &Map<String, Value>| Some(map.get("total_ios")?.as_f64()? / map.get("iops")?.as_f64()?);
    let directions = DIRECTIONS.iter().map(|(key, _)| *key).chain([MIXED]);
    let longest = directions.filter_map(|key| of(job.get(key)?.as_object()?)).fold(0.0, f64::max);
    let stated = || job.get("job_runtime").and_then(Value::as_f64).map_or(0.0, |ms| ms / 1e3);
    if longest > 0.0 { longest } else { stated() }
}

/// Response times, their mean and 99th percentile in nanoseconds.
fn times(direction: &Map<String, Value>) -> Result<(Quantiles, f64, f64), String> {
    let mut maps = Vec::new();
    for key in ["clat_ns", "lat_ns"] {
        let Some(map) = direction.get(key).and_then(Value::as_object) else { continue };
        maps.push(map);
        let found = match (
            map.get("bins").and_then(Value::as_object),
            map.get("percentile").and_then(Value::as_object),
        ) {
            (Some(bins), _) if !bins.is_empty() => Quantiles::from_counts(&of_bins(bins, key)?),
            (_, Some(percentiles)) if !percentiles.is_empty() => {
                Quantiles::from_percentiles(&of_percentiles(map, percentiles, key)?)
            }
            _ => None,
        };
        let Some(shape) = found else { continue };
        let mean_ns = number(map, "mean").map_err(|problem| format!("`{key}`: {problem}"))?;
        if mean_ns < 1.0 {
            continue;
        }
        return Ok((shape.with_mean(mean_ns), mean_ns, shape.at_ns(0.99)));
    }
    if maps.is_empty() && ["clat", "lat"].iter().any(|key| direction.contains_key(*key)) {
        return Err("times are in microseconds (`clat`), as fio 2 writes them; allowed is fio 3".to_owned());
    }
    Err("there are no percentiles and no bins of `clat_ns` or `lat_ns`, so only the mean is known; \
         run fio without `disable_clat` and `clat_percentiles=0`"
        .to_owned())
}

/// Returns times with the number of their occurrences.
fn of_bins(bins: &Map<String, Value>, key: &str) -> Result<Vec<(f64, u64)>, String> {
    let mut counts = Vec::with_capacity(bins.len());
    for (ns, count) in bins {
        let read = ns.parse::<u64>().ok().zip(count.as_u64()).filter(|(_, count)| *count < 1 << 53);
        let (ns, count) = read
            .ok_or_else(|| format!("`{key}.bins` has `{ns}`: {count}, allowed are nanoseconds and counts"))?;
        counts.push((ns as f64, count));
    }
    Ok(counts)
}

/// Shares and times, ascending, from the least to the longest.
fn of_percentiles(
    map: &Map<String, Value>,
    percentiles: &Map<String, Value>,
    key: &str,
) -> Result<Vec<(f64, f64)>, String> {
    let mut points = Vec::with_capacity(percentiles.len() + 2);
    for (share, ns) in percentiles {
        let read = share.parse::<f64>().ok().zip(ns.as_f64());
        let (share, ns) =
            read.filter(|(share, ns)| (0.0..=100.0).contains(share) && (0.0..1e18).contains(ns)).ok_or_else(
                || format!("`{key}.percentile` has `{share}`: {ns}, allowed are percent and nanoseconds"),
            )?;
        // fio writes 0 for percentiles outside of its list.
        if share > 0.0 {
            points.push((share / 100.0, ns));
        }
    }
    for (name, share) in [("min", 0.0), ("max", 1.0)] {
        if map.contains_key(name) {
            points.push((share, number(map, name).map_err(|problem| format!("`{key}`: {problem}"))?));
        }
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Percentiles are upper edges of fio's bins, so the last may lie beyond the longest.
    for index in 1..points.len() {
        points[index].1 = points[index].1.max(points[index - 1].1);
    }
    Ok(points)
}

/// Both as one.
pub(super) fn merged(one: &Component, other: &Component) -> Component {
    let (a, b) = (one.requests as f64, other.requests as f64);
    let mean = |of: fn(&Component) -> f64| (of(one) * a + of(other) * b) / (a + b);
    let mean_ns = mean(|of| of.mean_ns);
    let times = one.times.mixed(a, &other.times, b);
    Component {
        requests: one.requests.saturating_add(other.requests),
        iops: one.iops + other.iops,
        mean_ns,
        whole_mean_ns: mean(|of| of.whole_mean_ns),
        p99_ns: times.at_ns(0.99),
        times: times.with_mean(mean_ns),
        ..one.clone()
    }
}
