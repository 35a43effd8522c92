//! Declared parameters, printed.

use seeklab_lab::crates::core::description::ParameterInfo;
use seeklab_lab::failure::Failure;
use serde_json::json;

use crate::output::{print, print_json};

/// Prints the parameters of a kind of device or workload, for people or as one JSON document.
pub(super) fn print_parameters(
    kind: &str,
    description: &str,
    parameters: &[ParameterInfo],
    json: bool,
) -> Result<(), Failure> {
    if json {
        return print_json(&json!({ "kind": kind, "parameters": parameters }));
    }
    let mut text = format!("{kind}: {description}\n");
    let mut only_if = String::new();
    for parameter in parameters {
        if parameter.only_if != only_if {
            only_if.clone_from(&parameter.only_if);
            text += &if only_if.is_empty() { "\n".to_owned() } else { format!("\nif {only_if}:\n") };
        }
        let default = match &parameter.default {
            None => " (required)".to_owned(),
            Some(default) if default.is_empty() => String::new(),
            Some(default) => format!(" [default: {default}]"),
        };
        let range = if parameter.range.is_empty() { String::new() } else { format!(", {}", parameter.range) };
        text += &format!(
            "{}: {}{range}{default}\n    {}\n",
            parameter.path, parameter.value, parameter.description
        );
    }
    print(&text)
}
