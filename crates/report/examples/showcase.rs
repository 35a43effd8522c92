//! Writes a page with everything that a report can hold, made of synthetic runs:
//! `cargo run --example showcase -- FILE.html`.

#[path = "../tests/report/synthetic.rs"]
mod synthetic;

use seeklab_report::{Report, render_html, render_terminal};

fn main() -> std::io::Result<()> {
    let report = Report {
        comparisons: vec![synthetic::comparison(10_000)],
        points: vec![synthetic::points(10_000)],
        experiment: Some(synthetic::experiment(2_000)),
        ..synthetic::report(20_000)
    };
    print!("{}", render_terminal(&report));
    match std::env::args_os().nth(1) {
        Some(path) => std::fs::write(path, render_html(&report)),
        None => Ok(()),
    }
}
