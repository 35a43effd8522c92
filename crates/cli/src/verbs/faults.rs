//! `seeklab faults`: lists kinds and presets of faults, or explains one.

use clap::Args;
use clap_complete::ArgValueCompleter;
use seeklab_lab::crates::core::description::ParameterInfo;
use seeklab_lab::crates::devices::fault::reference_page;
use seeklab_lab::crates::report::folded;
use seeklab_lab::descriptions::{FaultDocument, FaultKindDocument, FaultPresetDocument, FaultsDocument};
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;

use crate::completion;
use crate::output::{print, print_json};

use super::parameters::parameter_text;

const EXAMPLES: &str = "\
Examples:
  seeklab faults
  seeklab faults delay                             keys, defaults and an example
  seeklab faults tail-disk                         source of the values, and the faults in TOML
  seeklab simulate cheetah-36es -w random --fault tail-disk,for=10s,repeat='about 60s'";

/// Lists kinds and presets of faults, or explains one.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Kind or preset to explain [default: list all]
    #[arg(add = ArgValueCompleter::new(completion::fault))]
    name: Option<String>,
    /// Print all kinds, their keys and the presets as a page in Markdown
    #[arg(long, conflicts_with_all = ["name", "json"])]
    reference: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn run(self, _session: &Session) -> Result<(), Failure> {
        if self.reference {
            return print(&reference_page());
        }
        match &self.name {
            None if self.json => print_json(&FaultsDocument::new()),
            None => list(),
            Some(name) => {
                let document = FaultDocument::find(name)?;
                match (&document.kind, &document.preset) {
                    _ if self.json => print_json(&document),
                    (Some(kind), _) => explain_kind(name, kind),
                    (_, Some(preset)) => explain_preset(name, preset),
                    (None, None) => unreachable!("a fault is a kind or a preset"),
                }
            }
        }
    }
}

fn list() -> Result<(), Failure> {
    let faults = FaultsDocument::new();
    let names = faults.kinds.iter().map(|kind| kind.fault.len());
    let width = names.chain(faults.presets.iter().map(|preset| preset.fault.len())).max().unwrap_or(0);
    let line = |name: &str, text: &str| folded(&format!("  {name:width$}  {text}"), width + 4) + "\n";
    let mut text = "Kinds:\n".to_owned();
    faults.kinds.iter().for_each(|kind| text += &line(&kind.fault, &kind.description));
    text += "\nPresets:\n";
    faults.presets.iter().for_each(|preset| text += &line(&preset.fault, &preset.description));
    print(&format!("{text}\nKeys, source and an example of one: seeklab faults NAME\n"))
}

fn explain_kind(name: &str, kind: &FaultKindDocument) -> Result<(), Failure> {
    let mut text = folded(&format!("{name}: {}", kind.description), 2) + "\n";
    text += &format!("\n  --fault \"{}\"\n", kind.example);
    let keys = |title: &str, keys: &[ParameterInfo]| {
        let keys: String = keys.iter().map(parameter_text).collect();
        if keys.is_empty() { keys } else { format!("\n{title}:\n{keys}") }
    };
    text += &keys("keys of this kind", &kind.keys);
    text += &keys("keys in common with other kinds", &kind.common_keys);
    print(&text)
}

fn explain_preset(name: &str, preset: &FaultPresetDocument) -> Result<(), Failure> {
    let mut text = folded(&format!("{name}: {}", preset.description), 2) + "\n";
    text += &folded(&format!("source   {}", preset.source), 9);
    text.push('\n');
    if !preset.assumed.is_empty() {
        text += &folded(&format!("assumed  {}", preset.assumed), 9);
        text.push('\n');
    }
    print(&format!("{text}\n{}", preset.toml))
}
