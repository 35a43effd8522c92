//! Coverage of the intervals of growths: prints `validation/estimate/coverage.csv`.
//!
//! `cargo bench -p seeklab-estimate --bench growth_coverage` counts over 200 samples of each load, or over the loads named in
//! `SEEKLAB_LOADS`; `cargo test` over one of Poisson arrivals.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads its arguments")]

#[path = "../tests/estimate/growth.rs"]
mod growth;

use growth::{FIGURES, LOADS, coverage};

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (requests, samples) = if is_bench { (10_000, 200) } else { (1_000, 1) };
    let wanted = std::env::var("SEEKLAB_LOADS").ok();
    println!("load,figure,dependent,requests,samples,inside_pct,above,below");
    for (load, name, at, is_dependent) in LOADS {
        let is_wanted = match &wanted {
            Some(names) => names.split(',').any(|wanted| wanted == name),
            None => is_bench || name == "poisson",
        };
        if !is_wanted {
            continue;
        }
        for ((figure, _), found) in FIGURES.iter().zip(coverage(load, at, requests, samples)) {
            let inside_pct = 100.0 * f64::from(found.inside) / samples as f64;
            println!(
                "{name},{figure},{is_dependent},{requests},{samples},{inside_pct:.1},{},{}",
                found.above, found.below
            );
        }
    }
}
