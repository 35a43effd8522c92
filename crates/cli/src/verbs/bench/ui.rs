//! `seeklab bench ui`: the page on which measurements are composed, started, watched and compared.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;
use seeklab_ui::{UiOptions, serve};

use super::super::reading::input_path;
use crate::output::{print, print_json};

const EXAMPLES: &str = "\
Examples:
  seeklab bench ui
  seeklab bench ui plan.toml --runs results
  seeklab bench ui --port 0 --json

The URL has a token. Who knows it can start measurements as you, and overwrite what you can overwrite.
The page of a server elsewhere is reached through ssh -L 8437:127.0.0.1:8437 SERVER.";

/// Serves a page on which measurements are composed, started, watched and compared, until interrupted.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Plan to begin with, in TOML. Files that plans name are looked for beside it [default: in the current directory]
    #[arg(value_name = "PLAN", value_parser = input_path())]
    plan: Option<PathBuf>,
    /// Folder with a folder for each run
    #[arg(long, value_name = "FOLDER", default_value = "bench-runs")]
    runs: PathBuf,
    /// Port to listen on. 0: any free one
    #[arg(long, value_name = "N", default_value_t = 8437)]
    port: u16,
    /// Address to listen on. Any other than this machine's own lets others reach the page, without encryption
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// Print one JSON document with the URL
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn run(self, session: &Session) -> Result<(), Failure> {
        let options =
            UiOptions { address: SocketAddr::new(self.address, self.port), runs: self.runs, plan: self.plan };
        serve(session, &options, |page| {
            if !self.address.is_loopback() {
                session.warn(format!(
                    "the page is served on {} without encryption: who reads the URL on the way can overwrite targets",
                    self.address
                ));
            }
            match self.json {
                true => print_json(page)?,
                false => print(&format!("{}\n", page.url))?,
            }
            session.remark("open the URL in a browser; Ctrl-C ends the server, and a run in order");
            Ok(())
        })
    }
}
