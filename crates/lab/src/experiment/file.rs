//! The keys of an experiment file, as they are declared.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use seeklab_core::{ByteSize, Duration};
use serde::{Deserialize, Deserializer, Serialize, de};
use toml::Value;

use crate::entry::Entry;

/// An experiment file: `devices` and `workloads`, or `targets` with `workloads`, `plans` or both, or `plans` alone.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExperimentFile {
    /// Title of the report [default: name of the file, or `experiment`
    /// for standard input].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<String>,
    /// Devices, which are simulated: names of the catalog, TOML files, or descriptions as tables with a `name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), extend("x-unit" = "devices"), example = vec!["hp-c2247a"])]
    pub(super) devices: Option<Vec<Entry>>,
    /// Targets, which are measured in place of devices: addresses, or tables with the keys below `targets[]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), extend("x-unit" = "targets"), example = vec!["/dev/nvme0n1", "model:cheetah-36es"])]
    pub(super) targets: Option<Vec<Entry>>,
    /// Workloads: lines, traces, TOML files, or descriptions as tables, which may have the keys below `workloads[]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), extend("x-unit" = "workloads"), example = vec!["random,poisson=60/s"])]
    pub(super) workloads: Option<Vec<Entry>>,
    /// Plans of measurements, beside or in place of workloads: TOML files as for `seeklab bench`. All their streams go to each
    /// of the targets. Without `targets`, they go to the targets of the plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), extend("x-unit" = "plans"), example = vec!["plan.toml"])]
    pub(super) plans: Option<Vec<String>>,
    /// Schedulers of a queue in the host. `none` is no queue [default: none].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), extend("x-unit" = "schedulers"))]
    pub(super) schedulers: Option<Vec<String>>,
    /// Requests that the device holds at a time behind a queue of the host [default: 1].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_294_967_295_u64), extend("x-unit" = "requests"))]
    pub(super) depth: Option<u64>,
    /// Arrival modes: those of a replay, or `workload` for the arrivals of the workload [default: workload].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), extend("x-unit" = "arrival modes"))]
    pub(super) arrivals: Option<Vec<String>>,
    /// Figures of the table and the charts: keys of `seeklab simulate --json`, of measurements those of `seeklab bench --json`
    /// [default: mean and 99th percentile of the response time, rate, and utilisation or throughput].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), extend("x-unit" = "figures"))]
    pub(super) figures: Option<Vec<String>>,
    /// Parameters that are varied, as tables.
    #[serde(default)]
    pub(super) parameters: Vec<ParameterTable>,
    /// Seed of the random draws. Each repetition has a seed that follows from it.
    #[serde(default = "one")]
    pub(super) seed: u64,
    /// Runs of each cell.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100_000), extend("x-unit" = "runs"))]
    pub(super) repetitions: u64,
    /// Maximum number of requests of every run [default: as the workload defines].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1), extend("x-unit" = "requests"))]
    pub(super) requests: Option<u64>,
    /// Time that counts of each measurement [default: until the workload ends].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1ms"))]
    pub(super) duration: Option<Duration>,
    /// Time before it that does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ramp: Option<Duration>,
    /// Simulate only the mechanics, without overheads, buffer and bus.
    #[serde(default)]
    pub(super) bare: bool,
    /// Requests outstanding at which a run stops, because the device cannot sustain the load [default: 100000].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_294_967_295_u64), extend("x-unit" = "requests"))]
    pub(super) max_outstanding: Option<u64>,
    /// Parameter on the axis of the charts [default: the last parameter with numbers].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) x: Option<String>,
    /// Path of the result files without suffix, beside the experiment file [default: name of the file, or `experiment`
    /// for standard input].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output: Option<String>,
}

const fn one() -> u64 {
    1
}

/// A parameter that is varied: a list of values, or a range.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a table; write [[parameters]] above its keys")]
pub(super) struct ParameterTable {
    /// Parameter of the devices or models, by name or path; or of the workloads, by its path after `workload.`.
    #[schemars(example = &"rpm")]
    pub(super) name: String,
    /// The values. Either `values` or a range is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), extend("x-unit" = "values"))]
    pub(super) values: Option<Vec<Scalar>>,
    /// First value of a range: a quantity with its unit, or a count.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"20/s")]
    pub(super) from: Option<Scalar>,
    /// Last value of a range, in the unit of the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"80/s")]
    pub(super) to: Option<Scalar>,
    /// Number of values of a range, both ends included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 10_000), extend("x-unit" = "values"), example = 5)]
    pub(super) steps: Option<u64>,
    /// Distances between the values of a range: equal differences, or equal ratios [default: linear].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scale: Option<Scale>,
}

/// Distances between the values of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Scale {
    Linear,
    Logarithmic,
}

/// Keys of a workload's table beside its description.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkloadOptionsTable {
    /// Name in the table of results [default: preset or kind, with its number].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    /// File or line that describes the workload, in place of the keys of a description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) workload: Option<String>,
    /// Device and scheduler on which the workload runs first. Its requests there are then replayed everywhere in place of the
    /// workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) recorded_on: Option<RecordedOnTable>,
    /// Format of the trace [default: guessed].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) format: Option<String>,
    /// Block size of a trace that does not state its own [default: 512B].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) block_size: Option<ByteSize>,
    /// Options of the format of the trace, such as `{ byte-order = "big" }`.
    #[serde(default)]
    pub(super) format_options: BTreeMap<String, String>,
    /// Trace whose interarrival times a synthetic workload with `process = "shaped"` takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shape: Option<String>,
    /// Times that a request is sent again when it fails, as with `--retries`.
    #[serde(default)]
    #[schemars(extend("x-unit" = "attempts"))]
    pub(super) retries: u32,
    /// Time from a failure to the next attempt, as with `--retry-after`.
    #[serde(default)]
    pub(super) retry_after: Duration,
}

/// The configuration on which requests are recorded.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordedOnTable {
    /// Name of one of the devices.
    #[schemars(example = &"hp-c2247a")]
    pub(super) device: String,
    /// Scheduler of a queue in the host. `none` is no queue [default: none].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scheduler: Option<String>,
    /// Arrival mode of the replay [default: those of the experiment].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) arrivals: Option<String>,
}

/// Keys of [`WorkloadOptionsTable`].
pub(super) const WORKLOAD_OPTIONS: [&str; 9] = [
    "name",
    "workload",
    "recorded_on",
    "format",
    "block_size",
    "format_options",
    "shape",
    "retries",
    "retry_after",
];

/// One value of a parameter: text, a number, true or false.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub(super) struct Scalar(pub(super) Value);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct One;
        impl de::Visitor<'_> for One {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("one value: text with its unit, a number, true or false")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar(Value::String(text.to_owned())))
            }
            fn visit_bool<E: de::Error>(self, truth: bool) -> Result<Scalar, E> {
                Ok(Scalar(Value::Boolean(truth)))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar(Value::Integer(number)))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Scalar, E> {
                i64::try_from(number).map(|number| Scalar(Value::Integer(number))).map_err(E::custom)
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Scalar, E> {
                Ok(Scalar(Value::Float(number)))
            }
        }
        deserializer.deserialize_any(One)
    }
}

impl JsonSchema for Scalar {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Scalar".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"], "x-quantity": "text, number, true or false" })
    }
}
