//! The page of `seeklab bench ui`: a measurement is composed, started, watched and compared in a browser.
//!
//! ```text
//! browser ─▶ connections ─▶ guard (Host, Origin, token) ─▶ routes ─┬─▶ plans: TOML ◀▶ form, errors with their line
//!                                                                 ├─▶ runner ─▶ seeklab_lab::bench, on a thread
//!    server-sent events ◀─ history ◀─ figures of each interval ───┘        └─▶ archive: a folder for each run
//!    Prometheus ◀─ metrics ◀────────────────────────────────────────────────┘
//! ```
//! The crate exists for the weight of its dependencies: an HTTP server and its runtime.
//!
//! # Scope and limits
//! One run at a time. The server has one thread beside that of the run, so that it costs the measurement little. It speaks
//! HTTP without encryption, and is meant for the loopback interface. Everything that a client can make it keep is bounded:
//! connections, bodies, times, and the events of a run (the last [`EVENTS_MAX`]).

mod archive;
mod connections;
mod events;
mod guard;
mod history;
mod metrics;
mod overlay;
mod plans;
mod routes;
mod runner;
mod token;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seeklab_lab::bench::BenchPage;
use seeklab_lab::crates::files::check_folder;
use seeklab_lab::failure::Failure;
use seeklab_lab::session::Session;

use archive::Archive;
use history::History;
use metrics::Metrics;
use plans::PlanSource;
use routes::App;
use runner::Runner;
use token::Token;

pub use connections::{BODY_BYTES_MAX, CONNECTIONS_MAX};
pub use history::EVENTS_MAX;

/// Options of the page.
#[derive(Debug, Clone)]
pub struct UiOptions {
    /// Address and port to listen on. Port 0 is any free one.
    pub address: SocketAddr,
    /// Folder with a folder for each run. It is made with the first run.
    pub runs: PathBuf,
    /// Plan to begin with.
    pub plan: Option<PathBuf>,
}

/// The plan of a page that begins with none.
const FIRST_PLAN: &str = "\
target = \"model:cheetah-36es\"

[[phases]]
name = \"reads\"
duration = \"60s\"

[[phases.streams]]
workload = \"random,size=4KiB,read=100%,poisson=60/s\"
";

/// Serves the page until the session is stopped. `ready` is called once, when clients can connect. A run that is under way
/// then ends in order, and its results are saved.
///
/// # Errors
/// If the folder of the runs cannot be one, the address cannot be listened on, the plan cannot be read, or the operating system refuses threads or sockets.
pub fn serve(
    session: &Session,
    options: &UiOptions,
    ready: impl FnOnce(&BenchPage) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let (text, source) = match &options.plan {
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| {
                Failure::from(error).context(format!("{}: cannot be read", path.display()))
            })?;
            let folder = path.parent().unwrap_or(Path::new("")).to_owned();
            (text, PlanSource { folder })
        }
        None => (FIRST_PLAN.to_owned(), PlanSource { folder: PathBuf::new() }),
    };
    check_folder(&options.runs)?;
    let listener = listen(options.address)?;
    let bound = listener.local_addr()?;
    let token = Token::random()?;
    let history = Arc::new(History::new());
    let metrics = Arc::new(Metrics::new());
    let archive = Arc::new(Archive::new(options.runs.clone()));
    let source = Arc::new(source);
    let runner = Runner::new(
        session.clone(),
        Arc::clone(&archive),
        Arc::clone(&history),
        Arc::clone(&metrics),
        Arc::clone(&source),
    );
    let page = BenchPage {
        url: format!("http://{bound}/{}/", token.text()),
        metrics_url: format!("http://{bound}/metrics"),
        address: bound.ip().to_string(),
        port: bound.port(),
        runs: options.runs.display().to_string(),
    };
    let app = Arc::new(App { runner: Arc::new(runner), history, metrics, archive, source, first_plan: text });
    let router = routes::router(app.clone(), token, bound);
    ready(&page)?;
    connections::serve(session, listener, router, &app)
}

/// Listens on an address.
fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let refused = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AddrInUse => Failure::new(format!("{address}: another program listens there"))
            .hint("end it, choose another port with --port, or any free one with --port 0"),
        std::io::ErrorKind::AddrNotAvailable => {
            Failure::new(format!("{address}: is no address of this machine"))
                .hint("leave out --address to listen on 127.0.0.1")
        }
        _ => Failure::from(error).context(format!("{address}: cannot be listened on")),
    };
    let listener = TcpListener::bind(address).map_err(refused)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
