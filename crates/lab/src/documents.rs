//! The JSON documents of the laboratory and their schemas.
//!
//! ```text
//! result struct (serde, schemars) ─▶ JSON schema ─┬─▶ seeklab schema NAME
//!                                                 └─▶ keys: a row of docs/reference/json.md for each
//! ```
//! Every document is an object that names the version of its schema as `schema`. A new document is one line in
//! [`DOCUMENTS`].

mod keys;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use seeklab_analysis::ComparisonSummary;
use seeklab_core::names::near;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::bench::{BenchFigures, BenchPage, RunComparisonFigures, StateCheckFigures};
use crate::calibrate::CalibrationResult;
use crate::capture::CaptureResult;
use crate::crash::CrashResult;
use crate::descriptions::{
    CatalogDocument, DeviceDocument, FaultDocument, FaultsDocument, KindsDocument, ParametersDocument,
    WorkloadsDocument,
};
use crate::emulate::EmulationResult;
use crate::estimate::{EstimateFigures, JobsEstimateFigures, TraceEstimateFigures};
use crate::experiment::ExperimentFigures;
use crate::failure::Failure;
use crate::fit::{FitResult, JobsFitResult, SeveralFitResult, SweepResult};
use crate::output::SCHEMA;
use crate::points::PointsDocument;
use crate::record::RecordResult;
use crate::series::SeriesResult;
use crate::simulate::SimulateFigures;
use crate::system::{SystemCaptureResult, SystemInfo};
use crate::trace::Traces;
use crate::trace::columns::Columns;
use crate::trace::convert::ConvertResult;
use crate::trace::formats::Formats;
use crate::trace::head::TraceHead;
use crate::trace::info::TraceInfo;
use crate::trace::remap::RemapResult;
use crate::trace::report::TraceFigures;
use crate::trace::slice::SliceResult;

pub use keys::{DocumentKey, reference_page};

/// A JSON document that a verb prints.
#[derive(Debug, Clone, Copy)]
pub struct Document {
    /// Its name, such as `trace-info`.
    pub name: &'static str,
    /// The command that prints it.
    pub command: &'static str,
    generate: fn() -> Value,
}

/// The JSON documents, in the order of the verbs.
pub const DOCUMENTS: &[Document] = &[
    document::<CatalogDocument>("devices", "devices"),
    document::<DeviceDocument>("devices-name", "devices NAME"),
    document::<KindsDocument>("devices-kinds", "devices --kinds"),
    document::<ParametersDocument>("devices-parameters", "devices --parameters KIND"),
    document::<WorkloadsDocument>("workloads", "workloads"),
    document::<ParametersDocument>("workloads-parameters", "workloads --parameters KIND"),
    document::<FaultsDocument>("faults", "faults"),
    document::<FaultDocument>("faults-name", "faults NAME"),
    document::<SimulateFigures>("simulate", "simulate"),
    document::<EstimateFigures>("estimate", "estimate"),
    document::<JobsEstimateFigures>("estimate-jobs", "estimate -w JOBS"),
    document::<TraceEstimateFigures>("estimate-trace", "estimate -w TRACE, without a device"),
    document::<ExperimentFigures>("experiment", "experiment"),
    document::<SeriesResult>("run", "run"),
    document::<CrashResult>("crash", "crash"),
    document::<EmulationResult>("serve", "serve"),
    document::<BenchFigures>("bench", "bench"),
    document::<RunComparisonFigures>("bench-compare", "bench compare"),
    document::<StateCheckFigures>("bench-verify", "bench verify"),
    document::<BenchPage>("bench-ui", "bench ui"),
    document::<CalibrationResult>("calibrate", "calibrate"),
    document::<CaptureResult>("capture", "capture"),
    document::<SystemCaptureResult>("capture-system", "capture --system"),
    document::<RecordResult>("record", "record"),
    document::<FitResult>("fit", "fit"),
    document::<SeveralFitResult>("fit-devices", "fit --device all"),
    document::<SweepResult>("fit-sweep", "fit FIO.json"),
    document::<JobsFitResult>("fit-jobs", "fit TRACE.sys --as jobs"),
    document::<ComparisonSummary>("compare", "compare"),
    document::<PointsDocument>("compare-between", "compare --between"),
    document::<Traces<TraceInfo>>("trace-info", "trace info"),
    document::<Traces<SystemInfo>>("trace-info-system", "trace info TRACE.sys"),
    document::<ConvertResult>("trace-convert", "trace convert"),
    document::<Traces<TraceHead>>("trace-head", "trace head"),
    document::<TraceFigures>("trace-report", "trace report"),
    document::<RemapResult>("trace-remap", "trace remap"),
    document::<SliceResult>("trace-slice", "trace slice"),
    document::<Columns>("trace-columns", "trace columns"),
    document::<Formats>("trace-formats", "trace formats"),
    document::<SchemasDocument>("schema", "schema"),
];

const fn document<D: JsonSchema>(name: &'static str, command: &'static str) -> Document {
    Document { name, command, generate: schema_of::<D> }
}

/// The JSON schema of a serialized struct, without references.
fn schema_of<D: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let settings = settings.with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<D>().to_value()
}

/// The keys of a document that no verb prints.
#[cfg(test)]
pub(crate) fn keys_of<D: JsonSchema>() -> Vec<DocumentKey> {
    Document { name: "", command: "", generate: schema_of::<D> }.keys()
}

impl Document {
    /// Returns the document of that name.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(name: &str) -> Result<&'static Self, Failure> {
        DOCUMENTS.iter().find(|document| document.name == name).ok_or_else(|| {
            let names = || DOCUMENTS.iter().map(|document| document.name);
            let failure = Failure::new(format!("there is no JSON document `{name}`"));
            match near(name, names()).first() {
                Some(near) => failure.hint(format!("did you mean `{near}`?")),
                None => failure.hint(format!("there are {}", names().collect::<Vec<_>>().join(", "))),
            }
        })
    }

    /// Returns its JSON schema.
    pub fn schema(&self) -> Value {
        let mut schema = (self.generate)();
        let object = schema.as_object_mut().expect("the schema of a struct is an object");
        let mut take = |key: &str| object.remove(key);
        let (properties, required) = (take("properties"), take("required"));
        let version = json!({ "const": SCHEMA, "description": "Version of the schema of JSON documents." });
        let mut keys = Map::from_iter([("schema".to_owned(), version)]);
        keys.extend(properties.as_ref().and_then(Value::as_object).cloned().unwrap_or_default());
        let others = required.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
        object.insert("title".to_owned(), format!("seeklab {} --json", self.command).into());
        object.insert("properties".to_owned(), keys.into());
        object.insert("required".to_owned(), [json!("schema")].into_iter().chain(others).collect());
        schema
    }

    /// Returns its description in a sentence.
    pub fn description(&self) -> String {
        keys::first_sentence(&self.schema())
    }
}

/// List of the JSON documents. Its serialized form is the JSON document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SchemasDocument {
    /// The documents, in the order of the verbs.
    pub documents: Vec<DocumentInfo>,
}

/// A JSON document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DocumentInfo {
    /// Its name, such as `trace-info`.
    pub document: &'static str,
    /// The command that prints it.
    pub command: String,
    /// Its description.
    pub description: String,
}

impl SchemasDocument {
    /// Returns the list of all documents.
    pub fn new() -> Self {
        let info = |document: &Document| DocumentInfo {
            document: document.name,
            command: format!("seeklab {} --json", document.command),
            description: document.description(),
        };
        Self { documents: DOCUMENTS.iter().map(info).collect() }
    }
}

impl Default for SchemasDocument {
    fn default() -> Self {
        Self::new()
    }
}

/// The schema of an object whose keys are names, with values of one type.
pub(crate) type ByName<V> = BTreeMap<String, V>;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_key_of_every_document_has_a_meaning() {
        for document in DOCUMENTS {
            let keys = document.keys();
            assert!(keys.len() > 1, "{}", document.name);
            for key in keys {
                assert!(!key.description.is_empty(), "{}: {} has no documentation", document.name, key.path);
            }
        }
    }

    #[test]
    fn names_of_documents_are_unique_and_found() {
        let names: BTreeSet<&str> = DOCUMENTS.iter().map(|document| document.name).collect();
        assert_eq!(names.len(), DOCUMENTS.len());
        assert_eq!(Document::find("trace-info").unwrap().command, "trace info");
        let failure = Document::find("trace-infos").unwrap_err();
        assert_eq!(failure.to_string(), "there is no JSON document `trace-infos`");
        assert_eq!(failure.advice(), Some("did you mean `trace-info`?"));
    }

    #[test]
    fn schema_requires_its_version_and_the_keys_that_are_always_there() {
        let schema = Document::find("simulate").unwrap().schema();
        assert_eq!(schema["properties"]["schema"]["const"], SCHEMA);
        let device = &schema["properties"]["devices"]["items"];
        let required = |key: &str| device["required"].as_array().unwrap().contains(&json!(key));
        assert!(required("response_mean_ms") && required("utilisation_pct") && !required("followed"));
        assert_eq!(device["properties"]["response_p99_ms"]["type"], json!(["number", "null"]));
        assert!(device["properties"].get("response").is_none());
    }

    #[test]
    fn reference_of_json_documents_is_current() {
        let kept = include_str!("../../../docs/reference/json.md");
        let page = reference_page();
        assert!(kept == page, "write `seeklab schema --reference` to docs/reference/json.md:\n{page}");
    }
}
