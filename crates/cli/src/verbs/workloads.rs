//! `seeklab workloads`: lists kinds and presets of workloads, and prints their keys.

use clap::Args;
use clap_complete::ArgValueCompleter;
use seeklab_lab::crates::report::folded;
use seeklab_lab::crates::workloads::reference;
use seeklab_lab::crates::workloads::registry::kind;
use seeklab_lab::descriptions::WorkloadsDocument;
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;

use crate::completion;
use crate::output::{print, print_json, print_schema};

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
    #[arg(long, value_name = "KIND", add = ArgValueCompleter::new(completion::workload_kind))]
    parameters: Option<String>,
    /// Print the JSON schema of descriptions of a kind, for editors
    #[arg(long, value_name = "KIND", conflicts_with = "parameters",
          add = ArgValueCompleter::new(completion::workload_kind))]
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
            return print_parameters(kind.name, kind.about, kind.parameters(), self.json);
        }
        if let Some(name) = &self.schema {
            return print_schema(&reference::document(kind(name)?));
        }
        if self.reference {
            return print(&reference::page());
        }
        list(self.json)
    }
}

fn list(json: bool) -> Result<(), Failure> {
    let workloads = WorkloadsDocument::new();
    if json {
        return print_json(&workloads);
    }
    let kinds = workloads.kinds.iter().map(|kind| kind.kind);
    let names = kinds.chain(workloads.presets.iter().map(|preset| preset.preset));
    let width = names.map(str::len).max().unwrap_or(0);
    let described =
        |name: &str, description: &str| folded(&format!("  {name:width$}  {description}"), width + 4) + "\n";
    let mut text = "Kinds:\n".to_owned();
    for kind in &workloads.kinds {
        text += &described(kind.kind, kind.description);
        text += &format!("  {:width$}  {}\n", "", kind.example);
    }
    text += "\nPresets of the kind synthetic:\n";
    for preset in &workloads.presets {
        text += &described(preset.preset, preset.description);
    }
    print(&format!("{text}\nThe keys of one kind: seeklab workloads --parameters KIND\n"))
}
