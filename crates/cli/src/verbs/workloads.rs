//! `seeklab workloads`: lists kinds and presets of workloads, and prints their keys.

use clap::Args;
use seeklab_lab::crates::workloads::presets::PRESETS;
use seeklab_lab::crates::workloads::reference;
use seeklab_lab::crates::workloads::registry::{KINDS, kind};
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;
use serde_json::{Value, json};

use crate::output::{print, print_json};

use super::parameters::print_parameters;

const EXAMPLES: &str = "\
Examples:
  seeklab workloads
  seeklab workloads --parameters synthetic             which keys a description may have
  seeklab workloads --schema synthetic > synthetic.schema.json";

/// Lists the kinds and presets of workloads.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Print the keys of a kind: values, ranges, defaults
    #[arg(long, value_name = "KIND")]
    parameters: Option<String>,
    /// Print the JSON schema of descriptions of a kind, for editors
    #[arg(long, value_name = "KIND", conflicts_with = "parameters")]
    schema: Option<String>,
    /// Print the grammar, the presets and the keys of all kinds as a page in Markdown
    #[arg(long, conflicts_with_all = ["parameters", "schema", "json"])]
    reference: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn run(self, _session: &Session) -> Result<(), Failure> {
        if let Some(name) = &self.parameters {
            let kind = kind(name)?;
            return print_parameters(kind.name, kind.about, &kind.parameters(), self.json);
        }
        if let Some(name) = &self.schema {
            return print_json(&reference::document(kind(name)?));
        }
        if self.reference {
            return print(&reference::page());
        }
        list(self.json)
    }
}

fn list(json: bool) -> Result<(), Failure> {
    if json {
        let kinds: Vec<Value> = KINDS
            .iter()
            .map(|kind| json!({ "kind": kind.name, "description": kind.about, "example": kind.example }))
            .collect();
        let presets: Vec<Value> = PRESETS
            .iter()
            .map(|preset| {
                json!({ "preset": preset.name, "description": preset.about, "source": preset.source })
            })
            .collect();
        return print_json(&json!({ "kinds": kinds, "presets": presets }));
    }
    let names = KINDS.iter().map(|kind| kind.name).chain(PRESETS.iter().map(|preset| preset.name));
    let width = names.map(str::len).max().unwrap_or(0);
    let mut text = "Kinds:\n".to_owned();
    for kind in KINDS {
        text += &format!("  {:width$}  {}\n  {:width$}  {}\n", kind.name, kind.about, "", kind.example);
    }
    text += "\nPresets of the kind synthetic:\n";
    for preset in PRESETS {
        text += &format!("  {:width$}  {}\n", preset.name, preset.about);
    }
    print(&format!("{text}\nThe keys of one kind: seeklab workloads --parameters KIND\n"))
}
