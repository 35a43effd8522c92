//! Fits a model to a trace, serves the clone over NBD, runs PostMark on it and stops it.
//!
//! `cargo run -p seeklab-lab --example clone_and_serve -- TRACE`

use std::path::Path;
use std::sync::Arc;

use seeklab_lab::drive::drive;
use seeklab_lab::emulate::{EmulationOptions, EmulationResult, serve};
use seeklab_lab::failure::Failure;
use seeklab_lab::fit::{FitOptions, fit_trace};
use seeklab_lab::listener::{Listener, Task, TaskListener, Unheard};
use seeklab_lab::session::Session;
use seeklab_lab::stop::Stop;

/// Prints the name of every task that begins.
struct Names;

impl Listener for Names {
    fn begin(&self, task: &Task) -> Box<dyn TaskListener> {
        eprintln!("begins: {}", task.name);
        Box::new(Unheard)
    }
}

/// Fits the trace, serves the clone, runs the application of `line` on it and stops.
pub(crate) fn clone_and_serve(trace: &Path, line: &str) -> Result<EmulationResult, Failure> {
    let stop = Stop::new();
    let session = Session::new(Arc::new(Names), stop.clone());
    let clone = fit_trace(&session, trace, &FitOptions::default())?.device("clone")?;
    let options = EmulationOptions::new(clone);
    serve(&session, &options, |endpoints| {
        let uri = endpoints.nbd().expect("NBD is the default frontend");
        let driven = drive(&session, &uri, line, options.seed)?;
        println!("{} requests in {:.1} s", driven.requests, driven.elapsed_s);
        stop.stop();
        Ok(())
    })
}

fn main() -> Result<(), Failure> {
    let trace = std::env::args().nth(1).ok_or_else(|| Failure::new("usage: clone_and_serve TRACE"))?;
    let result = clone_and_serve(Path::new(&trace), "postmark,transactions=500")?;
    println!("mean response time {:.3} ms", result.response_mean_ms.unwrap_or_default());
    Ok(())
}
