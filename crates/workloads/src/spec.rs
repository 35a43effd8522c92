//! A workload as it is described, of whatever kind.

use schemars::JsonSchema;
use seeklab_core::description::schema::{check_ranges, type_texts};
use seeklab_core::description::{self, DescriptionError, Mistake};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::application::{BuildSpec, Builtin, DatabaseSpec, PostmarkSpec};
use crate::host::{HostSpec, SystemSpec};
use crate::jobs::JobsSpec;
use crate::replay::ReplaySpec;
use crate::synthetic::SyntheticSpec;
use crate::text;
use crate::{presets, registry};

/// Description of a workload, read from a TOML file or from a line on the command line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WorkloadSpec {
    /// Requests drawn from distributions.
    Synthetic(SyntheticSpec),
    /// Requests of a trace.
    Replay(ReplaySpec),
    /// PostMark's transactions on small files.
    Postmark(PostmarkSpec),
    /// Unpacking, configuring and building a source package.
    Build(BuildSpec),
    /// Transactions of several clients of a database.
    Database(DatabaseSpec),
    /// Processes on a host.
    Host(Box<HostSpec>),
    /// Processes of a system-level trace on a host.
    System(Box<SystemSpec>),
    /// Jobs that compute while their buffers are written and read.
    Jobs(Box<JobsSpec>),
}

impl WorkloadSpec {
    /// Reads the one-line form, whose grammar is that of [`text`].
    ///
    /// # Errors
    /// [`DescriptionError`] names the key, the mistake and what would be right.
    pub fn parse(line: &str) -> Result<Self, DescriptionError> {
        let (kind, mut table) = text::parse(line)?;
        type_texts(&registry::kind(&kind)?.schema(), &mut table);
        Self::read(&kind, table)
    }

    /// Reads a TOML document with a `kind` or a `preset`, or both.
    ///
    /// # Errors
    /// [`DescriptionError`] names the key, the mistake and what would be right.
    pub fn from_toml(text: &str) -> Result<Self, DescriptionError> {
        let table = description::parse(text)?;
        Self::from_table(table).map_err(|error| error.located(text))
    }

    /// As [`from_toml`](Self::from_toml), from a table such as an experiment file holds.
    ///
    /// # Errors
    /// [`DescriptionError`] names the key, the mistake and what would be right.
    pub fn from_table(mut table: Table) -> Result<Self, DescriptionError> {
        let preset = take_text(&mut table, "preset")?;
        let kind = match take_text(&mut table, "kind")? {
            Some(kind) => kind,
            None if preset.is_some() => "synthetic".to_owned(),
            None => {
                return Err(DescriptionError::new(Mistake::Missing, "kind", "is missing").hint(
                    "write for example `kind = \"synthetic\"`, or name a preset: `preset = \"oltp\"`",
                ));
            }
        };
        if let Some(name) = preset {
            if kind != "synthetic" {
                return Err(DescriptionError::invalid(
                    "preset",
                    format!("a `{kind}` workload has no presets"),
                ));
            }
            let names = presets::PRESETS.iter().map(|preset| preset.name);
            let preset = presets::find(&name).ok_or_else(|| {
                DescriptionError::unknown(Mistake::UnknownName, "preset", &name, names).under("preset")
            })?;
            let mut base = preset.table();
            text::merge(&mut base, table);
            table = base;
        }
        Self::read(&kind, table)
    }

    /// Sets how many requests there are at most, as `--requests` does. Applications, hosts and jobs do their work whole.
    pub const fn limit_requests(&mut self, requests: u64) {
        match self {
            Self::Synthetic(spec) => spec.requests = requests,
            Self::Replay(spec) => spec.requests = Some(requests),
            Self::Postmark(_)
            | Self::Build(_)
            | Self::Database(_)
            | Self::Host(_)
            | Self::System(_)
            | Self::Jobs(_) => {}
        }
    }

    /// The application, if it is one.
    pub fn builtin(&self) -> Option<Builtin> {
        match self {
            Self::Synthetic(_) | Self::Replay(_) | Self::Host(_) | Self::System(_) | Self::Jobs(_) => None,
            Self::Postmark(spec) => Some(Builtin::Postmark(spec.clone())),
            Self::Build(spec) => Some(Builtin::Build(spec.clone())),
            Self::Database(spec) => Some(Builtin::Database(spec.clone())),
        }
    }

    fn read(kind: &str, mut table: Table) -> Result<Self, DescriptionError> {
        if let Some(Value::Table(address)) = table.get_mut("address") {
            address.entry("distribution").or_insert_with(|| "uniform".into());
        }
        match registry::kind(kind).map_err(|error| error.under("kind"))?.name {
            "synthetic" => read(&table).map(Self::Synthetic),
            "replay" => read(&table).map(Self::Replay),
            "postmark" => read(&table).map(Self::Postmark),
            "build" => read(&table).map(Self::Build),
            "database" => read(&table).map(Self::Database),
            "host" => read(&table).map(Box::new).map(Self::Host),
            "system" => read(&table).map(Box::new).map(Self::System),
            "jobs" => read(&table).map(Box::new).map(Self::Jobs),
            other => unreachable!("the registry has no reader of `{other}`"),
        }
    }
}

/// The declared struct of a table, every value in its range.
fn read<T: DeserializeOwned + Serialize + JsonSchema>(table: &Table) -> Result<T, DescriptionError> {
    let spec: T = description::read_beside(table, &["kind", "preset"])?;
    check_ranges(&spec)?;
    Ok(spec)
}

fn take_text(table: &mut Table, key: &str) -> Result<Option<String>, DescriptionError> {
    match table.remove(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(DescriptionError::invalid(key, format!("`{other}` is not a name")).hint(format!(
            "write for example `{key} = \"{}\"`",
            if key == "kind" { "replay" } else { "oltp" }
        ))),
    }
}
