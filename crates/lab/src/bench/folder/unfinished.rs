//! The figures of a run whose process was killed, from what its folder has.
//!
//! ```text
//! run.json (running) + intervals.parquet.part (CSV) ─▶ a document with the keys of `seeklab bench --json` that are known
//! ```
//! # Scope and limits
//! The intervals of several streams are joined: rates and counts are sums, the mean response time is weighted, and percentiles,
//! which cannot be joined, are left out. An interval that was being written is left out, too.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use seeklab_analysis::StatusCounts;
use seeklab_files::PartFile;
use serde_json::{Map, Value, json};

use super::INTERVALS;
use super::intervals::ALL;
use crate::failure::Failure;

/// Keys whose values add up over streams and intervals.
const SUMS: [&str; 8] = [
    "requests",
    "bytes",
    "errors",
    "failed_requests",
    "retries",
    "delayed_requests",
    "dropped_requests",
    "attempts",
];
/// Keys whose values add up over streams.
const LEVELS: [&str; 3] = ["outstanding", "queued_requests", "hung_requests"];
/// Keys of which the greatest value counts.
const GREATEST: [&str; 4] = ["response_max_ms", "service_max_ms", "oldest_ms", "longest_pause_ms"];

/// A row of the table of intervals: of each column, the text.
type Cells = BTreeMap<String, String>;

/// Returns true if a process writes the folder of a run.
pub fn is_run_under_way(folder: &Path) -> bool {
    PartFile::existing(&folder.join(INTERVALS)).is_ok_and(|part| part.is_some_and(|part| part.is_written))
}

/// The figures of a run without results, whose document `run.json` is `document`: its intervals, and what follows from them.
///
/// # Errors
/// Intervals that cannot be read. Those that are missing are no error: the run may have ended before the first.
pub fn unfinished_run(folder: &Path, document: &Value) -> Result<Value, Failure> {
    let path = folder.join(format!("{INTERVALS}.part"));
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => {
            return Err(Failure::from(error).context(format!("{}: cannot be read", path.display())));
        }
    };
    let intervals = intervals(&text);
    let number = |interval: &Value, key: &str| interval[key].as_f64();
    let sum = |key: &str| intervals.iter().filter_map(|interval| number(interval, key)).sum::<f64>();
    let duration_s = sum("length_s");
    let per_second = |amount: f64| (duration_s > 0.0).then(|| amount / duration_s);
    let requests = sum("requests");
    let weighted =
        |interval: &Value| Some(number(interval, "response_mean_ms")? * number(interval, "requests")?);
    let mean = intervals.iter().filter_map(weighted).sum::<f64>() / requests;
    let greatest = |key: &str| {
        intervals
            .iter()
            .filter_map(|interval| number(interval, key))
            .fold(None, |most: Option<f64>, value| Some(most.map_or(value, |most| most.max(value))))
    };
    let run = &document["run"];
    let mut figures = Map::new();
    if let Value::Object(known) = document {
        figures.extend(known.clone());
    }
    let count = intervals.len();
    let targets: Vec<&Value> =
        run["targets"].as_array().into_iter().flatten().map(|of| &of["target"]).collect();
    let target = if let [only] = targets[..] { only.clone() } else { Value::Null };
    let found = json!({
        "title": run["plan"]["title"],
        "target": target,
        "command": run["command"],
        "duration_s": duration_s,
        "requests": requests as u64,
        "requests_per_second": per_second(requests),
        "mib_per_second": per_second(sum("bytes") / f64::from(1 << 20)),
        "response_mean_ms": (requests > 0.0).then_some(mean),
        "response_max_ms": greatest("response_max_ms"),
        "longest_pause_ms": greatest("longest_pause_ms"),
        "errors": sum("errors") as u64,
        "failed_requests": sum("failed_requests") as u64,
        "dropped_requests": sum("dropped_requests") as u64,
        "trusted": false,
        "notes": [format!(
            "the run has no results, and these figures are those of the {} that it wrote before it ended",
            seeklab_core::number_words::counted(count, "interval")
        )],
        "intervals": intervals,
    });
    if let Value::Object(found) = found {
        figures.extend(found);
    }
    Ok(Value::Object(figures))
}

/// The intervals of the table, each joined over its streams, in order.
fn intervals(text: &str) -> Vec<Value> {
    // The last line may be cut.
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    // A row that is cut within a quoted cell has fewer cells than the heading, which is an error.
    let mut reader = csv::Reader::from_reader(whole.as_bytes());
    let mut joined: Vec<(Vec<String>, Vec<Cells>)> = Vec::new();
    for row in reader.deserialize::<Cells>().map_while(Result::ok).filter(|row| row["operation"] == ALL) {
        let place = ["repetition", "phase", "interval"].map(|key| row[key].clone()).to_vec();
        match joined.last_mut().filter(|(last, _)| *last == place) {
            Some((_, rows)) => rows.push(row),
            None => joined.push((place, vec![row])),
        }
    }
    joined.iter().map(|(_, rows)| join(rows)).collect()
}

/// One interval of all streams.
fn join(rows: &[Cells]) -> Value {
    let number = |row: &Cells, key: &str| row.get(key).and_then(|text| text.parse::<f64>().ok());
    let all = |key: &str| rows.iter().filter_map(|row| number(row, key)).collect::<Vec<f64>>();
    let sum = |key: &str| all(key).iter().sum::<f64>();
    let most = |key: &str| all(key).into_iter().reduce(f64::max);
    let mut interval = Map::new();
    if let [row] = rows {
        let times = row.iter().filter(|(key, _)| key.starts_with("response_") || key.starts_with("service_"));
        interval.extend(times.map(|(key, _)| (key.clone(), json!(number(row, key)))));
    } else {
        for time in ["response", "service"] {
            let key = format!("{time}_mean_ms");
            let weighted = |row| Some(number(row, &key)? * number(row, "requests")?);
            let total: f64 = rows.iter().filter_map(weighted).sum();
            let requests = sum("requests");
            interval.insert(key.clone(), json!((requests > 0.0).then(|| total / requests)));
        }
    }
    for key in SUMS.into_iter().chain(LEVELS) {
        interval.insert(key.to_owned(), json!(sum(key) as u64));
    }
    for key in GREATEST {
        interval.insert(key.to_owned(), json!(most(key)));
    }
    for key in ["requests_per_second", "mib_per_second"] {
        interval.insert(key.to_owned(), json!((!all(key).is_empty()).then(|| sum(key))));
    }
    interval.insert("from_s".to_owned(), json!(all("from_s").into_iter().reduce(f64::min).unwrap_or(0.0)));
    interval.insert("length_s".to_owned(), json!(most("length_s").unwrap_or(0.0)));
    interval.insert("longest_pause_ms".to_owned(), json!(most("longest_pause_ms").unwrap_or(0.0)));
    // The table does not have them.
    interval.insert("statuses".to_owned(), json!(StatusCounts::default()));
    interval.insert("silent_threads".to_owned(), json!(0));
    Value::Object(interval)
}

#[cfg(test)]
mod tests {
    use super::super::super::figures::IntervalFigures;
    use super::*;

    const TABLE: &str = "phase,repetition,stream,operation,interval,from_s,length_s,requests,bytes,requests_per_second,\
                         mib_per_second,response_mean_ms,response_p50_ms,response_max_ms,errors,outstanding,longest_pause_ms\n\
                         \"a,b\",1,one,all,1,0,1,10,40960,10,0.04,2,1.5,4,1,3,8\n\
                         \"a,b\",1,one,read,1,0,1,10,40960,10,0.04,2,1.5,4,,,\n\
                         \"a,b\",1,two,all,1,0,1,30,40960,30,0.04,6,5.5,9,0,2,7\n\
                         \"a,b\",1,one,all,2,1,1,20,40960,20,0.04,3,2.5,5,0,1,6\n\
                         \"a,b\",1,one,all,3,2,1,2";

    #[test]
    fn intervals_are_joined_over_streams_and_a_cut_line_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("intervals.parquet.part"), TABLE).unwrap();
        let document = json!({ "run": { "state": "running", "plan": { "title": "t" }, "command": "c" } });
        let found = unfinished_run(folder.path(), &document).unwrap();
        let intervals: Vec<IntervalFigures> = serde_json::from_value(found["intervals"].clone()).unwrap();
        let rates: Vec<_> = intervals.iter().map(|one| one.requests_per_second).collect();
        assert_eq!(rates, [Some(40.0), Some(20.0)]);
        let first = &intervals[0];
        assert_eq!((first.errors, first.outstanding, first.longest_pause_ms), (1, 5, 8.0));
        assert_eq!(first.response.response_mean_ms, Some(5.0), "weighted by requests");
        assert_eq!(first.response.response_max_ms, Some(9.0));
        assert_eq!(first.response.response_p50_ms, None, "percentiles of two streams cannot be joined");
        assert_eq!(intervals[1].response.response_p50_ms, Some(2.5));
        assert_eq!((&found["requests"], &found["duration_s"]), (&json!(60), &json!(2.0)));
        assert_eq!(found["response_mean_ms"], json!((10.0 * 2.0 + 30.0 * 6.0 + 20.0 * 3.0) / 60.0));
        assert_eq!((&found["title"], &found["command"]), (&json!("t"), &json!("c")));
    }

    #[test]
    fn run_that_was_killed_before_its_first_interval_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let found = unfinished_run(folder.path(), &json!({ "run": {} })).unwrap();
        assert_eq!((&found["intervals"], &found["requests_per_second"]), (&json!([]), &Value::Null));
        assert!(!is_run_under_way(folder.path()));
    }
}
