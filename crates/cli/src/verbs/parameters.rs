//! Declared parameters, printed.

use seeklab_lab::crates::core::description::ParameterInfo;
use seeklab_lab::crates::report::folded;
use seeklab_lab::descriptions::ParametersDocument;
use seeklab_lab::failure::Failure;

use crate::output::{print, print_json};

/// Prints the parameters of a kind of device or workload, for people or as one JSON document.
pub(super) fn print_parameters(
    kind: &'static str,
    description: &str,
    parameters: Vec<ParameterInfo>,
    json: bool,
) -> Result<(), Failure> {
    if json {
        return print_json(&ParametersDocument { kind, parameters });
    }
    let mut text = folded(&format!("{kind}: {description}"), 2) + "\n";
    let mut only_if = String::new();
    for parameter in &parameters {
        if parameter.only_if != only_if {
            only_if.clone_from(&parameter.only_if);
            let condition = folded(&format!("if {only_if}:"), 2);
            text += &if only_if.is_empty() { "\n".to_owned() } else { format!("\n{condition}\n") };
        }
        text += &parameter_text(parameter);
    }
    print(&text)
}

/// A parameter in two paragraphs: its path, value, range and default, and its description.
pub(super) fn parameter_text(parameter: &ParameterInfo) -> String {
    let default = match &parameter.default {
        None => " (required)".to_owned(),
        Some(default) if default.is_empty() => String::new(),
        Some(default) => format!(" [default: {default}]"),
    };
    let range = if parameter.range.is_empty() { String::new() } else { format!(", {}", parameter.range) };
    let heading = format!("{}: {}{range}{default}", parameter.path, parameter.value);
    let description = format!("    {}", parameter.description);
    format!("{}\n{}\n", folded(&heading, 2), folded(&description, 4))
}
