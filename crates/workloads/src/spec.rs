//! A workload as it is described, of whatever kind.

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::application::{BuildSpec, Builtin, DatabaseSpec, PostmarkSpec};
use crate::error::{Error, ErrorKind};
use crate::replay::ReplaySpec;
use crate::synthetic::SyntheticSpec;
use crate::text::{self, Reader};
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
}

impl WorkloadSpec {
    /// Reads the one-line form, whose grammar is that of [`text`].
    ///
    /// # Errors
    /// [`Error`] names the key, the mistake and what would be right.
    pub fn parse(line: &str) -> Result<Self, Error> {
        let (kind, table) = text::parse(line)?;
        Self::read(&kind, Reader::line(&Value::Table(table)))
    }

    /// Reads a TOML document with a `kind` or a `preset`, or both.
    ///
    /// # Errors
    /// [`Error`] names the key, the mistake and what would be right.
    pub fn from_toml(text: &str) -> Result<Self, Error> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = format!("line {}", before.matches('\n').count() + 1);
            Error::new(ErrorKind::Syntax, &line, error.message().trim().replace('\n', ", "))
        })?;
        Self::from_table(table)
    }

    /// As [`from_toml`](Self::from_toml), from a table such as an experiment file holds.
    ///
    /// # Errors
    /// [`Error`] names the key, the mistake and what would be right.
    pub fn from_table(mut table: Table) -> Result<Self, Error> {
        let preset = take_text(&mut table, "preset")?;
        let kind = match take_text(&mut table, "kind")? {
            Some(kind) => kind,
            None if preset.is_some() => "synthetic".to_owned(),
            None => {
                return Err(Error::new(ErrorKind::Missing, "kind", "is missing").with_hint(
                    "write for example `kind = \"synthetic\"`, or name a preset: `preset = \"oltp\"`",
                ));
            }
        };
        if let Some(name) = preset {
            if kind != "synthetic" {
                return Err(Error::invalid("preset", format!("a `{kind}` workload has no presets")));
            }
            let names = presets::PRESETS.iter().map(|preset| preset.name);
            let preset = presets::find(&name).ok_or_else(|| {
                Error::unknown(ErrorKind::UnknownName, "preset", &name, names).under("preset")
            })?;
            let mut base = preset.table();
            text::merge(&mut base, table);
            table = base;
        }
        Self::read(&kind, Reader::toml(&Value::Table(table)))
    }

    /// Sets how many requests there are at most, as `--requests` does. Applications do their work whole.
    pub const fn limit_requests(&mut self, requests: u64) {
        match self {
            Self::Synthetic(spec) => spec.requests = requests,
            Self::Replay(spec) => spec.requests = Some(requests),
            Self::Postmark(_) | Self::Build(_) | Self::Database(_) => {}
        }
    }

    /// The application, if it is one.
    pub fn builtin(&self) -> Option<Builtin> {
        match self {
            Self::Synthetic(_) | Self::Replay(_) => None,
            Self::Postmark(spec) => Some(Builtin::Postmark(spec.clone())),
            Self::Build(spec) => Some(Builtin::Build(spec.clone())),
            Self::Database(spec) => Some(Builtin::Database(spec.clone())),
        }
    }

    fn read(kind: &str, reader: Reader) -> Result<Self, Error> {
        match kind {
            "synthetic" => SyntheticSpec::deserialize(reader).map(Self::Synthetic),
            "replay" => ReplaySpec::deserialize(reader).map(Self::Replay),
            "postmark" => PostmarkSpec::deserialize(reader).map(Self::Postmark),
            "build" => BuildSpec::deserialize(reader).map(Self::Build),
            "database" => DatabaseSpec::deserialize(reader).map(Self::Database),
            _ => Err(Error::unknown(
                ErrorKind::UnknownName,
                "kind",
                kind,
                registry::KINDS.iter().map(|kind| kind.name),
            )
            .under("kind")),
        }
    }
}

fn take_text(table: &mut Table, key: &str) -> Result<Option<String>, Error> {
    match table.remove(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(Error::invalid(key, format!("`{other}` is not a name")).with_hint(format!(
            "write for example `{key} = \"{}\"`",
            if key == "kind" { "replay" } else { "oltp" }
        ))),
    }
}
