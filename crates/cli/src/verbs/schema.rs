//! `seeklab schema`: lists the JSON documents or prints the JSON schema of one.

use clap::Args;
use clap_complete::ArgValueCompleter;
use seeklab_lab::documents::{Document, SchemasDocument, reference_page};
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;

use crate::completion;
use crate::output::{print, print_json, print_schema};

const EXAMPLES: &str = "\
Examples:
  seeklab schema
  seeklab schema simulate > simulate.schema.json
  seeklab schema trace-info | jq .properties.traces.items.required

The schema of device descriptions: seeklab devices --schema KIND";

/// Lists the JSON documents that --json prints, or prints the JSON schema of one.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Document whose JSON schema to print [default: list the documents]
    #[arg(add = ArgValueCompleter::new(completion::document))]
    name: Option<String>,
    /// Print the keys of all documents as a page in Markdown
    #[arg(long, conflicts_with_all = ["name", "json"])]
    reference: bool,
    /// Print the list as one JSON document
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn run(self, _session: &Session) -> Result<(), Failure> {
        if self.reference {
            return print(&reference_page());
        }
        match &self.name {
            Some(name) => print_schema(&Document::find(name)?.schema()),
            None if self.json => print_json(&SchemasDocument::new()),
            None => print(&page(&SchemasDocument::new())),
        }
    }
}

fn page(list: &SchemasDocument) -> String {
    let width = list.documents.iter().map(|document| document.document.len()).max().unwrap_or(0);
    let lines = list.documents.iter().map(|info| format!("{:width$}  {}\n", info.document, info.command));
    format!("{}\nThe JSON schema of one: seeklab schema NAME\n", lines.collect::<String>())
}
