//! Measurements as functions: what was measured before a target goes away is the result.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use seeklab_lab::bench::{BenchListener, IntervalFigures, bench_with, read_plan};
use seeklab_lab::listener::Unheard;
use seeklab_lab::session::Session;
use seeklab_lab::stop::Stop;

/// Removes a file when the first interval is over.
struct Remover(PathBuf);

impl BenchListener for Remover {
    fn interval(&mut self, _: &IntervalFigures, _: u64) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn phase_that_cannot_begin_ends_a_run_whose_results_stay() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["stays.img", "goes.img"] {
        fs::write(at(name), vec![0; 1 << 20]).unwrap();
    }
    let phase = |name: &str, target: &str| {
        format!(
            "[[phases]]\nname = \"{name}\"\nrequests = 200\n[[phases.streams]]\n\
             target = \"{target}\"\nworkload = \"random,size=4KiB,read=100%,closed=1\"\n"
        )
    };
    let target = |name: &str| {
        format!(
            "[targets.{name}]\naddress = \"psync:{}\"\nbuffered = true\n",
            at(name).with_extension("img").display()
        )
    };
    // The repetition that follows finds no file either.
    for (plan, repetitions, phases, reason) in [
        (
            target("stays") + &target("goes") + &phase("one", "stays") + &phase("two", "goes"),
            1,
            1,
            "phase `two`",
        ),
        (target("goes") + &phase("one", "goes"), 3, 1, "repetition 2"),
    ] {
        fs::write(at("goes.img"), vec![0; 1 << 20]).unwrap();
        fs::write(at("plan.toml"), plan).unwrap();
        let mut options = read_plan(&at("plan.toml"), &Default::default()).unwrap();
        (options.repetitions, options.record) = (repetitions, Some(at("trace.csv")));
        let session = Session::new(Arc::new(Unheard), Stop::new());
        let result = bench_with(&session, &options, &mut Remover(at("goes.img"))).unwrap();
        let failure = result.failure.unwrap();
        assert_eq!(failure.exit_code(), 1, "{failure}");
        assert!(
            failure.to_string().contains(reason) && failure.to_string().contains("goes.img"),
            "{failure}"
        );
        assert_eq!((result.figures.load.requests, result.figures.phases.len()), (200, phases));
        let rows = fs::read_to_string(at("trace.csv"))
            .unwrap()
            .lines()
            .filter(|line| line.contains(",read,"))
            .count();
        assert_eq!(rows, 200);
    }
}

/// Stops the run when the first interval is over.
struct Stopper(Stop);

impl BenchListener for Stopper {
    fn interval(&mut self, _: &IntervalFigures, _: u64) {
        self.0.stop();
    }
}

#[test]
fn results_of_a_stopped_run_name_what_was_not_measured() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    let stream = "[[phases.streams]]\ntarget = \"model:constant\"\nworkload = \"random,size=4KiB,read=100%,closed=1\"\n";
    let phases = ["one", "two", "three"];
    let text = phases.map(|name| format!("[[phases]]\nname = \"{name}\"\nrequests = 200\n{stream}"));
    fs::write(&plan, text.concat()).unwrap();
    let mut options = read_plan(&plan, &Default::default()).unwrap();
    options.repetitions = 2;
    let stop = Stop::new();
    let session = Session::new(Arc::new(Unheard), stop.clone());
    let result = bench_with(&session, &options, &mut Stopper(stop)).unwrap();
    assert_eq!(result.failure.unwrap().to_string(), "interrupted");
    assert!(result.figures.stopped);
    let note = result.figures.notes.iter().find(|note| note.contains("the run was stopped")).unwrap();
    assert!(note.starts_with("phase `one`") && note.ends_with("and 5 phases were not measured"), "{note}");
}
