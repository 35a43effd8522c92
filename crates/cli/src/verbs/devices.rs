//! `seeklab devices`: lists the catalog or shows one device.

use std::path::PathBuf;

use clap::Args;
use clap_complete::ArgValueCompleter;
use seeklab_lab::crates::devices::registry::{KINDS, kind};
use seeklab_lab::crates::devices::{Description, schema};
use seeklab_lab::crates::files::check_distinct;
use seeklab_lab::crates::report::{Page, PageSection, PlainTable, WIDTH, folded, render_page_html};
use seeklab_lab::descriptions::{CatalogDocument, DeviceDocument, DeviceSummary, KindsDocument};
use seeklab_lab::devices::{Setup, resolve};
use seeklab_lab::failure::Failure;
use seeklab_lab::fitted;
use seeklab_lab::output::VERSION;
use seeklab_lab::session::Session;

use crate::completion;
use crate::delivery::Delivery;
use crate::output::{command_line, print, print_json, print_schema};

use super::parameters::print_parameters;

const EXAMPLES: &str = "\
Examples:
  seeklab devices
  seeklab devices hp-c2247a
  seeklab devices prod.toml --report prod.html         fitted model of a clone
  seeklab devices cheetah-36es --set rpm=15000rpm --toml > my-disk.toml
  seeklab devices --parameters disk                    which keys a description may have";

/// Lists the catalog or shows one device.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Catalog name or TOML file [default: list the catalog]
    #[arg(add = ArgValueCompleter::new(completion::device))]
    name: Option<String>,
    /// Set a parameter of the device, by its name or path
    #[arg(long = "set", value_name = "KEY=VALUE", requires = "name",
          add = ArgValueCompleter::new(completion::override_key))]
    overrides: Vec<String>,
    /// Print the complete description as TOML. It can be saved, edited and used as a device
    #[arg(long, requires = "name", conflicts_with = "json")]
    toml: bool,
    /// Write a page with plots of the fitted model of a cloned device
    #[arg(long, value_name = "FILE.html", requires = "name")]
    report: Option<PathBuf>,
    /// List the kinds of devices and layers
    #[arg(long, conflicts_with = "name")]
    kinds: bool,
    /// Print the parameters of a kind: values, ranges, defaults
    #[arg(long, value_name = "KIND", conflicts_with_all = ["name", "kinds"],
          add = ArgValueCompleter::new(completion::kind))]
    parameters: Option<String>,
    /// Print the JSON schema of descriptions of a kind, for editors
    #[arg(long, value_name = "KIND", conflicts_with_all = ["name", "kinds", "parameters"],
          add = ArgValueCompleter::new(completion::kind))]
    schema: Option<String>,
    /// Print the parameters of all kinds as a page in Markdown
    #[arg(long, conflicts_with_all = ["name", "kinds", "parameters", "schema", "json"])]
    reference: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        if self.kinds {
            return list_kinds(self.json);
        }
        if let Some(name) = &self.parameters {
            let kind = kind(name)?;
            return print_parameters(kind.name, kind.description, kind.parameters(), self.json);
        }
        if let Some(name) = &self.schema {
            return print_schema(&schema::document(kind(name)?));
        }
        if self.reference {
            return print(&schema::reference_page(KINDS));
        }
        match &self.name {
            None => list(self.json),
            Some(name) => {
                let setup = Setup { overrides: self.overrides.clone(), ..Setup::default() };
                if let Some(path) = &self.report {
                    check_distinct(path, [name])?;
                }
                let description = resolve(name, &setup)?.description;
                let report = self.report.as_ref().map(|_| plotted(&description)).transpose()?;
                let printed = if self.toml {
                    print(&description.to_toml())
                } else if self.json {
                    print_json(&DeviceDocument::new(&description)?)
                } else {
                    print(&page(&description)?)
                };
                let html = || report.as_ref().map(render_page_html).unwrap_or_default();
                Delivery::of(session, printed).file(self.report.as_deref(), html).finish()
            }
        }
    }
}

fn list(json: bool) -> Result<(), Failure> {
    let catalog = CatalogDocument::new()?;
    if json {
        return print_json(&catalog);
    }
    let rows: Vec<(DeviceSummary, String)> = catalog
        .devices
        .into_iter()
        .map(|device| {
            let capacity = capacity(&device);
            (device, capacity)
        })
        .collect();
    let names = rows.iter().map(|(device, _)| device.device.len()).max().unwrap_or(0);
    let capacities = rows.iter().map(|(_, capacity)| capacity.len()).max().unwrap_or(0);
    let mut text =
        format!("{:names$}  {:>capacities$}  what it is; validated against\n", "device", "capacity");
    for (device, capacity) in &rows {
        let line = format!(
            "{:names$}  {capacity:>capacities$}  {}; {}",
            device.device, device.title, device.validated
        );
        text += &format!("{}\n", folded(&line, names + capacities + 4));
    }
    print(&format!("{text}\nOne device with its parameters and sources: seeklab devices NAME\n"))
}

fn capacity(device: &DeviceSummary) -> String {
    let bytes = human_bytes(device.capacity_bytes);
    if device.capacity_is_lower_bound { format!("at least {bytes}") } else { bytes }
}

fn human_bytes(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1000.0 && unit < units.len() - 1 {
        value /= 1000.0;
        unit += 1;
    }
    if value < 10.0 { format!("{value:.2} {}", units[unit]) } else { format!("{value:.1} {}", units[unit]) }
}

fn page(description: &Description) -> Result<String, Failure> {
    let heading = format!("{}: {}", description.name, description.header.title);
    let mut text = folded(&heading, 2) + "\n";
    for (name, value) in [
        ("kind", format!("{}, {}", description.kind().name, description.kind().description)),
        ("capacity", capacity(&DeviceSummary::new(description)?)),
        ("validated", description.validated().to_owned()),
    ] {
        text += &format!("{}\n", folded(&format!("{name:9}  {value}"), 11));
    }
    text.push('\n');
    let parameters = description.parameters();
    let name_width = parameters.iter().map(|(name, ..)| name.len()).max().unwrap_or(0);
    let default = description.header.sources.get("default").map_or("", String::as_str);
    for (name, value, source) in &parameters {
        let line = format!("{name:name_width$}  {value}").trim_end().to_owned();
        let source = if source == default { String::new() } else { format!("   [{source}]") };
        // A source that does not fit stands in the next line.
        if line.chars().count() + source.chars().count() <= WIDTH {
            text += &format!("{line}{source}\n");
        } else {
            text += &format!("{}\n", folded(&line, 4));
            if !source.is_empty() {
                text += &format!("{}\n", folded(&format!("    {}", source.trim_start()), 5));
            }
        }
    }
    if !default.is_empty() {
        text += &format!("\n{}\n", folded(&format!("source of all other values: {default}"), 2));
    }
    if let Some(fitted) = description.fitted_model()? {
        text += &format!("\n{}", fitted::text(&fitted));
    }
    Ok(text)
}

/// Returns the page with the fitted model of a cloned device.
fn plotted(description: &Description) -> Result<Page, Failure> {
    let fitted = description.fitted_model()?.ok_or_else(|| {
        Failure::new(format!("--report: `{}` was not fitted to a trace", description.name))
            .hint("name a device that `seeklab fit` has written")
    })?;
    let parameters = description.parameters().into_iter().map(|(name, value, _)| vec![name, value]);
    let parameters = PlainTable {
        columns: vec!["parameter".to_owned(), "value".to_owned()],
        rows: parameters.collect(),
        caption: String::new(),
    };
    Ok(Page {
        title: format!("{}: {}", description.name, description.header.title),
        subtitle: description.validated().to_owned(),
        generated_by: VERSION.to_owned(),
        command: Some(command_line()),
        notes: Vec::new(),
        sections: vec![
            fitted::section(&fitted),
            PageSection {
                title: "Parameters".to_owned(),
                tables: vec![parameters],
                ..PageSection::default()
            },
        ],
    })
}

fn list_kinds(json: bool) -> Result<(), Failure> {
    if json {
        return print_json(&KindsDocument::new());
    }
    let width = KINDS.iter().map(|kind| kind.name.len()).max().unwrap_or(0);
    let lines = KINDS
        .iter()
        .map(|kind| folded(&format!("{:width$}  {}", kind.name, kind.description), width + 2) + "\n");
    print(&format!(
        "{}\nThe parameters of one kind: seeklab devices --parameters KIND\n",
        lines.collect::<String>()
    ))
}
