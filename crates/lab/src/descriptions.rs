//! Documents about descriptions: the catalog, one device, the kinds of devices, workloads and faults, and their
//! parameters.

use schemars::JsonSchema;
use seeklab_core::description::ParameterInfo;
use seeklab_core::{DescriptionError, Mistake};
use seeklab_devices::fault::{self, KindInfo, Preset};
use seeklab_devices::registry::KINDS;
use seeklab_devices::{Description, Kind, catalog};
use seeklab_workloads::presets::PRESETS;
use seeklab_workloads::registry;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::devices::describe;
use crate::documents::ByName;
use crate::failure::Failure;
use crate::fit::AT_LEAST;
use crate::fitted;

/// The devices of the catalog. Its serialized form is the JSON document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CatalogDocument {
    /// The devices, by name.
    pub devices: Vec<DeviceSummary>,
}

/// A device in a few words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DeviceSummary {
    /// Name of the device.
    pub device: String,
    /// Kind of the device or of its outermost layer.
    pub kind: &'static str,
    /// Title of the description.
    pub title: String,
    /// Capacity.
    pub capacity_bytes: u64,
    /// True if the capacity is a lower bound: the device was fitted to a trace that does not state its size.
    pub capacity_is_lower_bound: bool,
    /// Measurements that the model was compared with.
    pub validated: String,
}

/// A device with its parameters. Its serialized form is the JSON document.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DeviceDocument {
    /// The device in a few words.
    #[serde(flatten)]
    pub summary: DeviceSummary,
    /// Every parameter by its path, in the order of the description.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "ByName<ParameterValue>")]
    pub parameters: Vec<(String, ParameterValue)>,
    /// Tables and curves of the fitted model by name, of a device that was fitted to a trace.
    #[schemars(with = "Option<ByName<Vec<ByName<Value>>>>")]
    pub fitted_model: Option<Value>,
}

/// A parameter of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ParameterValue {
    /// Value with its unit. A long value is cut.
    pub value: String,
    /// Source of the value; empty if the description names none.
    pub source: String,
}

/// The kinds of devices and layers. Its serialized form is the JSON document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KindsDocument {
    /// The kinds.
    pub kinds: Vec<KindSummary>,
}

/// A kind of device or layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct KindSummary {
    /// Name of the kind.
    pub kind: &'static str,
    /// Description of the kind.
    pub description: &'static str,
}

/// The kinds and presets of workloads. Its serialized form is the JSON document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkloadsDocument {
    /// The kinds.
    pub kinds: Vec<WorkloadKindSummary>,
    /// The presets of the kind `synthetic`.
    pub presets: Vec<PresetSummary>,
}

/// A kind of workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WorkloadKindSummary {
    /// Name of the kind.
    pub kind: &'static str,
    /// Description of the kind.
    pub description: &'static str,
    /// A workload of the kind, on one line.
    pub example: &'static str,
}

/// A preset of workloads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PresetSummary {
    /// Name of the preset.
    pub preset: &'static str,
    /// Description of the preset.
    pub description: &'static str,
    /// Source of its numbers.
    pub source: &'static str,
}

/// The parameters of a kind of device or workload. Its serialized form is the JSON document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ParametersDocument {
    /// Name of the kind.
    pub kind: &'static str,
    /// Its parameters.
    pub parameters: Vec<ParameterInfo>,
}

impl CatalogDocument {
    /// Returns the devices of the catalog.
    ///
    /// # Errors
    /// If a description is wrong.
    pub fn new() -> Result<Self, Failure> {
        let summary = |name| DeviceSummary::new(&describe(name)?);
        Ok(Self { devices: catalog::names().map(summary).collect::<Result<_, _>>()? })
    }
}

impl DeviceSummary {
    /// Returns the summary of a description.
    ///
    /// # Errors
    /// If no device can have its parameters.
    pub fn new(description: &Description) -> Result<Self, Failure> {
        Ok(Self {
            device: description.name.clone(),
            kind: description.kind().name,
            title: description.header.title.clone(),
            capacity_bytes: description.capabilities()?.capacity().as_bytes(),
            capacity_is_lower_bound: capacity_is_lower_bound(description),
            validated: description.validated().to_string(),
        })
    }
}

/// Returns true for a fitted device whose trace did not state its size.
fn capacity_is_lower_bound(description: &Description) -> bool {
    description.parameters().iter().any(|(name, value, _)| {
        // A long value is cut.
        name.rsplit('.').take(2).eq(["capacity", "fit"]) && AT_LEAST.starts_with(value.trim_end_matches('…'))
    })
}

impl DeviceDocument {
    /// Returns a device with its parameters.
    ///
    /// # Errors
    /// If no device can have its parameters.
    pub fn new(description: &Description) -> Result<Self, Failure> {
        let parameters = description.parameters().into_iter();
        Ok(Self {
            summary: DeviceSummary::new(description)?,
            parameters: parameters
                .map(|(name, value, source)| (name, ParameterValue { value, source }))
                .collect(),
            fitted_model: description.fitted_model()?.as_ref().map(fitted::document),
        })
    }
}

impl KindsDocument {
    /// Returns the registered kinds.
    pub fn new() -> Self {
        let summary = |kind: &Kind| KindSummary { kind: kind.name, description: kind.description };
        Self { kinds: KINDS.iter().map(summary).collect() }
    }
}

impl Default for KindsDocument {
    fn default() -> Self {
        Self::new()
    }
}

impl WorkloadsDocument {
    /// Returns the registered kinds and the presets.
    pub fn new() -> Self {
        let kind = |kind: &registry::Kind| WorkloadKindSummary {
            kind: kind.name,
            description: kind.about,
            example: kind.example,
        };
        let presets = PRESETS.iter().map(|preset| PresetSummary {
            preset: preset.name,
            description: preset.about,
            source: preset.source,
        });
        Self { kinds: registry::KINDS.iter().map(kind).collect(), presets: presets.collect() }
    }
}

impl Default for WorkloadsDocument {
    fn default() -> Self {
        Self::new()
    }
}

/// The kinds and presets of faults. Its serialized form is the JSON document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FaultsDocument {
    /// The kinds.
    pub kinds: Vec<FaultSummary>,
    /// The presets.
    pub presets: Vec<FaultSummary>,
}

/// A kind or preset of faults in a few words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FaultSummary {
    /// Name of the kind or preset.
    pub fault: String,
    /// Effect of the fault.
    pub description: String,
}

/// A kind or preset of faults. Its serialized form is the JSON document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FaultDocument {
    /// Name of the kind or preset.
    pub fault: String,
    /// The kind, if it is one.
    pub kind: Option<FaultKindDocument>,
    /// The preset, if it is one.
    pub preset: Option<FaultPresetDocument>,
}

/// A kind of fault with its keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FaultKindDocument {
    /// Effect of the fault.
    pub description: String,
    /// A fault of the kind, on one line for `--fault`.
    pub example: &'static str,
    /// Keys of this kind.
    pub keys: Vec<ParameterInfo>,
    /// Keys that it has in common with other kinds: those that select requests, and times.
    pub common_keys: Vec<ParameterInfo>,
}

/// A preset of faults with its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FaultPresetDocument {
    /// Effect of the faults.
    pub description: &'static str,
    /// Source of the values.
    pub source: &'static str,
    /// Values that the source does not give, and their choice; empty if there are none.
    pub assumed: &'static str,
    /// The faults in TOML.
    pub toml: String,
}

impl FaultsDocument {
    /// Returns all kinds and presets.
    pub fn new() -> Self {
        let preset =
            |preset: &Preset| FaultSummary { fault: preset.name.into(), description: preset.about.into() };
        let kind = |kind: KindInfo| FaultSummary { fault: kind.kind, description: kind.description };
        Self {
            kinds: fault::kinds().into_iter().map(kind).collect(),
            presets: fault::PRESETS.iter().map(preset).collect(),
        }
    }
}

impl Default for FaultsDocument {
    fn default() -> Self {
        Self::new()
    }
}

impl FaultDocument {
    /// Returns the kind or preset of that name.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(name: &str) -> Result<Self, Failure> {
        let fault = name.to_owned();
        if let Some(preset) = Preset::find(name) {
            let Preset { about: description, source, assumed, .. } = *preset;
            let preset = FaultPresetDocument { description, source, assumed, toml: preset.text() };
            return Ok(Self { fault, kind: None, preset: Some(preset) });
        }
        let kinds = fault::kinds();
        let Some(kind) = kinds.iter().find(|kind| kind.kind == name) else {
            let names = kinds.iter().map(|kind| kind.kind.as_str());
            let names = names.chain(fault::PRESETS.iter().map(|preset| preset.name));
            return Err(DescriptionError::unknown(Mistake::UnknownName, "kind or preset", name, names).into());
        };
        let kind = FaultKindDocument {
            description: kind.description.clone(),
            example: kind.example,
            keys: kind.keys.clone(),
            common_keys: fault::common_keys(kind),
        };
        Ok(Self { fault, kind: Some(kind), preset: None })
    }
}

/// Serializes pairs as an object, in their order.
fn by_name<S: Serializer, V: Serialize>(pairs: &[(String, V)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}
