//! Accuracy of an emulated run: from its trace to a section of the report and one JSON document.

use schemars::JsonSchema;
use seeklab_analysis::points::DEADLINE_LIMIT;
use seeklab_analysis::{
    Between, BetweenSummary, Evidence, LatenessSummary, MissCounts, Point, PointsError, Stamps, Trust,
};
use seeklab_core::Duration;
use seeklab_traces::Metadata;
use serde::Serialize;

use crate::failure::Failure;

/// The key of a trace's metadata for the shortest response time that could be emulated, such as `120us`.
pub const FLOOR: &str = "floor";

/// The key for the lateness beyond which a deadline counts as missed, such as `20us`.
pub const LIMIT: &str = "deadline_limit";

/// An emulated run between two of its measurement points, as written by `--json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PointsDocument {
    #[serde(flatten)]
    between: BetweenSummary,
    /// Requests of the trace.
    trace_requests: u64,
    /// Requests without stamps of the host, if MP1 was measured.
    unmatched: Option<u64>,
    /// Flushes of the host's driver, which have no stamps.
    driver_flushes: u64,
    #[serde(flatten)]
    lateness: Option<LatenessSummary>,
    /// Missed deadlines by cause.
    deadline_misses: MissCounts,
    #[serde(flatten)]
    trust: Trust,
}

impl PointsDocument {
    /// The figures of the run with these stamps.
    pub fn new(stamps: &Stamps, between: &Between, evidence: &Evidence) -> Self {
        Self {
            between: between.summary(),
            trace_requests: stamps.requests(),
            unmatched: stamps.unmatched(),
            driver_flushes: stamps.driver_flushes(),
            lateness: stamps.lateness(evidence.limit),
            deadline_misses: stamps.misses(),
            trust: evidence.trust(),
        }
    }
}

/// Computes the evidence of `stamps` about the run, with the limit and the floor from the metadata of its
/// trace.
///
/// # Errors
/// If the limit or the floor in the metadata is no time.
pub fn evidence(stamps: &Stamps, metadata: &Metadata) -> Result<Evidence, Failure> {
    let duration = |key: &str| {
        let parse = |text: &String| {
            text.parse::<Duration>().map_err(|error| {
                Failure::chain(&error).context(format!("`{key}` in the metadata of the trace"))
            })
        };
        metadata.other.get(key).map(parse).transpose()
    };
    Ok(stamps.evidence(duration(LIMIT)?.unwrap_or(DEADLINE_LIMIT), duration(FLOOR)?))
}

/// Two points as they are named on the command line, such as `mp1,mp3`.
///
/// # Errors
/// If there are not two, or one is unknown: then with what was probably meant.
pub fn parse_pair(text: &str) -> Result<(Point, Point), String> {
    let names = || Point::ALL.map(Point::name);
    let all = names().join(", ");
    let (one, other) = text
        .split_once(',')
        .ok_or_else(|| format!("two of the measurement points {all} are allowed, such as `mp1,mp3`"))?;
    let point = |name: &str| {
        let name = name.trim();
        Point::from_name(&name.to_lowercase()).ok_or_else(|| {
            let near = seeklab_core::names::near(name, names());
            let advice = match near.first() {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("{all} are allowed"),
            };
            format!("`{name}` is no measurement point; {advice}")
        })
    };
    let pair = (point(one)?, point(other)?);
    if pair.0 == pair.1 {
        return Err(PointsError::SamePoint(pair.0).to_string());
    }
    Ok(pair)
}

/// Returns the failure that a trace could not be compared between its points, with advice on recording the
/// missing times.
pub fn not_measured(error: &PointsError) -> Failure {
    let failure = Failure::chain(error);
    match error {
        PointsError::NotMeasured(Point::Mp1) => failure.hint(
            "MP1 is measured in the host by `seeklab run DEVICE --record FOLDER -- COMMAND`; \
             without it, compare `--between mp2,mp3`",
        ),
        PointsError::NotMeasured(Point::Mp2 | Point::Due) => {
            failure.hint("record the requests of an emulated device: seeklab serve DEVICE --record TRACE")
        }
        PointsError::NotMeasured(Point::Mp3) => {
            failure.hint("the trace has arrivals alone; record it with completions")
        }
        _ => failure,
    }
}
