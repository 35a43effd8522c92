//! Measures speed and memory of converting, fitting and simulating traces of millions of requests.
//!
//! `cargo bench -p seeklab-lab --bench scale` generates a trace of 24 million requests in a temporary folder,
//! the size of the paper's CSL-29 \[Thornock97, 4\]. For each step it prints requests per CPU-second of one
//! thread and the peak of the resident memory, beside the required speed. `-- 2000000` sets another number of
//! requests. `cargo test --benches` runs every step with few requests, so that none breaks unnoticed. The
//! figures in docs/scale.md are from this program.
//!
//! The file is read from the page cache: the time of the storage device is not measured.

#[path = "scale/generator.rs"]
mod generator;
#[path = "scale/measure.rs"]
mod measure;

use std::collections::BTreeMap;
use std::path::Path;

use seeklab_core::{
    Arrival, Completion, Device, Duration, Instant, Limits, Ratio, Request, Seed, Workload, simulate,
};
use seeklab_devices::Description;
use seeklab_devices::table::Classes;
use seeklab_lab::devices::Setup;
use seeklab_lab::devices::customise;
use seeklab_lab::failure::Failure;
use seeklab_lab::fit::{FitOptions, Fitted, PredictedPart, Split, WarmUpChoice, fit};
use seeklab_lab::run::{Outputs, run};
use seeklab_lab::session::Session;
use seeklab_lab::workload::{WorkloadOptions, resolve_workload};
use seeklab_learning::MODELS;
use seeklab_learning::fit::{LeftOut, Model};
use seeklab_traces::{Metadata, OpenTrace, ReadOptions};

use measure::Report;

/// Requests of the trace.
const REQUESTS: u64 = 24_000_000;

/// Requests that are held in memory for the simulation from decoded requests, over and over.
const DECODED: usize = 1_000_000;

/// Share of the requests that the text of the conversion holds.
const TEXT: u64 = 12;

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let requested = std::env::args().find_map(|argument| argument.parse().ok());
    let requests = requested.unwrap_or(if full { REQUESTS } else { 3_000 });
    let rounds = if full { 3 } else { 1 };
    if let Err(error) = measure_all(requests, rounds) {
        panic!("{error}");
    }
}

fn measure_all(requests: u64, rounds: usize) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let trace = folder.path().join("scale.parquet");
    println!(
        "{requests} requests; million requests per CPU-second of one thread, best and median of {rounds}"
    );
    println!("{:<58} {:>6} {:>6} {:>8}", "", "best", "median", "peak MiB");
    let mut report = Report::new(rounds);
    let write = |path: &Path, count: u64| -> Result<(), Failure> {
        let mut writer = seeklab_columnar::create(path, None, &Metadata::default())?;
        for record in generator::Generator::new(Seed(1)).take(count as usize) {
            writer.write(&record)?;
        }
        Ok(writer.finish()?)
    };
    report.once("generate and write Parquet", requests, || write(&trace, requests))?;
    let size = std::fs::metadata(&trace)?.len();
    println!("    {:.1} bytes for each request", size as f64 / requests as f64);
    let text = folder.path().join("scale.csv.zst");
    let converted = folder.path().join("converted.parquet");
    let some = requests / TEXT;
    report.once(&format!("generate and write csv.zst, {some} of them"), some, || write(&text, some))?;
    report.row("convert csv.zst to Parquet, those", some, None, || convert(&text, &converted))?;
    report.row("convert Parquet to Parquet", requests, None, || convert(&trace, &converted))?;
    std::fs::remove_file(&converted)?;
    for model in MODELS {
        measure_model(&mut report, model, &trace, requests)?;
    }
    Ok(())
}

fn open(path: &Path, options: &ReadOptions) -> Result<OpenTrace, Failure> {
    Ok(seeklab_columnar::open(path, None, options)?)
}

/// As `seeklab trace convert`.
fn convert(from: &Path, to: &Path) -> Result<(), Failure> {
    let mut trace = open(from, &ReadOptions::default())?;
    let mut writer = seeklab_columnar::create(to, None, trace.metadata())?;
    for record in trace.by_ref() {
        writer.write(&record?)?;
    }
    Ok(writer.finish()?)
}

/// Returns the required speeds of a model, in requests per second: fitted, simulated from Parquet, simulated
/// from decoded requests.
fn targets(model: &Model) -> [Option<f64>; 3] {
    match model.name {
        "plain" => [Some(5e6), Some(4e6), Some(10e6)],
        "station" => [Some(2.5e6), Some(4e6), None],
        _ => [Some(1e6), None, None],
    }
}

fn measure_model(
    report: &mut Report,
    model: &'static Model,
    trace: &Path,
    requests: u64,
) -> Result<(), Failure> {
    let name = model.name;
    let [fitted, simulated, decoded] = targets(model);
    let fit_to = |split: Ratio| {
        let options = FitOptions {
            models: vec![model],
            device: None,
            capacity: None,
            split: Split::Share(split),
            predicted: PredictedPart::Rest,
            is_open: false,
            allow_gaps: false,
            warm_up: WarmUpChoice::default(),
            times_from: None,
            classes: Classes::default(),
            left_out: LeftOut::default(),
            seed: Seed(1),
        };
        fit(
            &Session::default(),
            &|columns| open(trace, &ReadOptions { columns, ..ReadOptions::default() }),
            &options,
            BTreeMap::new(),
        )
    };
    let mut clone = None;
    report.row(&format!("{name}: fit from Parquet"), requests, fitted, || {
        clone = Some(fit_to(Ratio::ONE)?);
        Ok(())
    })?;
    report.row(&format!("{name}: fit from Parquet, and predict the second half"), requests, None, || {
        fit_to("50%".parse().expect("it is a ratio")).map(drop)
    })?;
    let Fitted { description, .. } = clone.expect("it was fitted");
    let description = Description::parse(name, name, &description.to_string())?;
    let setup = Setup::default();
    let device = customise(name, description, &setup)?;
    let workload = resolve_workload(&trace.to_string_lossy(), &WorkloadOptions::default())?;
    report.row(&format!("{name}: simulate from Parquet, all figures"), requests, simulated, || {
        let result =
            run(&device, &workload, Seed(1), Limits::default(), Outputs::default(), &Session::default())?;
        assert_eq!(result.metrics.summary().requests, requests, "every request completes");
        Ok(())
    })?;
    let held: Vec<(Instant, Request)> = generator::Generator::new(Seed(1))
        .take(DECODED.min(requests as usize))
        .enumerate()
        .map(|(index, record)| (record.arrival, record.request(index as u64)))
        .collect();
    report.row(&format!("{name}: simulate from decoded requests"), requests, decoded, || {
        let mut device = device.build(Seed(1), "disk0")?;
        simulate_held(&held, requests, device.as_mut())
    })?;
    Ok(())
}

fn simulate_held(held: &[(Instant, Request)], requests: u64, device: &mut dyn Device) -> Result<(), Failure> {
    let mut workload = Held { held, next: 0, base: Duration::ZERO, left: requests };
    let (mut completed, mut sum_ns) = (0_u64, 0_u64);
    simulate(&mut workload, device, Limits::default(), |completion| {
        completed += 1;
        sum_ns += completion.response_time().as_ns();
    })
    .map_err(|error| Failure::new(error.to_string()))?;
    assert!(completed == requests && sum_ns > 0, "every request completes");
    Ok(())
}

/// Requests in memory, open, over and over.
struct Held<'a> {
    held: &'a [(Instant, Request)],
    next: usize,
    base: Duration,
    left: u64,
}

impl Workload for Held<'_> {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        if self.left == 0 {
            return Arrival::Finished;
        }
        let (arrival, request) = self.held[self.next];
        let arrival = arrival + self.base;
        if arrival > now {
            return Arrival::At(arrival);
        }
        self.left -= 1;
        self.next += 1;
        if self.next == self.held.len() {
            self.next = 0;
            self.base = arrival - Instant::ZERO;
        }
        Arrival::Request(request)
    }

    fn completed(&mut self, _: &Completion) {}
}
