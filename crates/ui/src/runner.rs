//! The run that the page started: one at a time, on a thread of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use seeklab_lab::bench::{
    BenchListener, BenchOptions, BenchResult, Counters, DrainingFigures, IntervalFigures, PhaseStart,
    TRACE_FILE, bench_with, counter_plots, interval_plots,
};
use seeklab_lab::crates::report::chart_data;
use seeklab_lab::failure::Failure;
use seeklab_lab::listener::{Listener, Notice};
use seeklab_lab::output::shell_text;
use seeklab_lab::session::Session;
use seeklab_lab::stop::Stop;
use serde_json::{Value, json};

use crate::archive::{Archive, RunFolder};
use crate::history::{Event, History};
use crate::metrics::{Metrics, RunEnd};
use crate::plans::{Overwritten, PlanSource, Problem};

/// Time for the targets of a run to be closed.
const CLOSING_MAX: Duration = Duration::from_secs(5);

/// Starts and stops runs.
#[derive(Debug)]
pub(crate) struct Runner {
    session: Session,
    archive: Arc<Archive>,
    history: Arc<History>,
    metrics: Arc<Metrics>,
    source: Arc<PlanSource>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    run: Option<CurrentRun>,
    /// The server ends, so no run begins.
    is_ending: bool,
}

#[derive(Debug)]
struct CurrentRun {
    stop: Stop,
    /// False as soon as clients hear of the end.
    is_under_way: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl CurrentRun {
    fn is_under_way(&self) -> bool {
        self.is_under_way.load(Ordering::Acquire)
    }
}

/// Refusal of a run.
#[derive(Debug)]
pub(crate) enum StartError {
    /// Another one is under way, or the server ends.
    Busy(&'static str),
    /// The plan is wrong, or the folder cannot be made.
    Failed(Failure),
    /// Targets would be overwritten whose names were not typed again.
    Unnamed(Vec<Overwritten>),
}

impl Runner {
    pub(crate) fn new(
        session: Session,
        archive: Arc<Archive>,
        history: Arc<History>,
        metrics: Arc<Metrics>,
        source: Arc<PlanSource>,
    ) -> Self {
        Self { session, archive, history, metrics, source, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// Starts a run and returns its name. `destroy` are the names of targets, typed again.
    ///
    /// # Errors
    /// If another run is under way, the plan is wrong, a name is missing, or the folder of the run cannot be made.
    pub(crate) fn start(&self, plan: String, destroy: Vec<String>) -> Result<String, StartError> {
        let options = self.source.read(&plan).map_err(StartError::Failed)?;
        self.check_names(&options, &destroy)?;
        self.begin(options, Some(&plan), destroy, |folder| {
            ["seeklab".to_owned(), "bench".to_owned(), folder.plan_file().display().to_string()].to_vec()
        })
    }

    /// Starts the saved run of that name again and returns the name of the new one: the same plan, seed and targets.
    ///
    /// # Errors
    /// As those of [`start`](Self::start), and if there is no such run, or a target is another one now.
    pub(crate) fn rerun(&self, id: &str, destroy: Vec<String>) -> Result<String, StartError> {
        let saved = self.archive.open(id).map_err(StartError::Failed)?;
        let options = self.archive.rerun(id).map_err(StartError::Failed)?;
        self.check_names(&options, &destroy)?;
        let first = self.archive.path(id);
        self.begin(options, saved.plan.as_deref(), destroy, |_| {
            let words = ["seeklab", "bench", "rerun"].map(str::to_owned);
            words.into_iter().chain([first.display().to_string()]).collect()
        })
    }

    /// Refuses a run that would overwrite a target whose name is not among those that were typed again.
    fn check_names(&self, options: &BenchOptions, typed: &[String]) -> Result<(), StartError> {
        let overwritten = self.source.overwritten(options).map_err(StartError::Failed)?;
        match overwritten.iter().all(|target| target.is_named_by(typed)) {
            true => Ok(()),
            false => Err(StartError::Unnamed(overwritten)),
        }
    }

    /// Starts a run with options whose folder and names are not set, and returns its name. `words` are those of its command,
    /// without the names of targets.
    fn begin(
        &self,
        options: BenchOptions,
        plan: Option<&str>,
        destroy: Vec<String>,
        words: impl FnOnce(&RunFolder) -> Vec<String>,
    ) -> Result<String, StartError> {
        let mut state = self.lock();
        if state.is_ending {
            return Err(StartError::Busy("the server ends"));
        }
        if state.run.as_ref().is_some_and(CurrentRun::is_under_way) {
            return Err(StartError::Busy("a run is under way: stop it first"));
        }
        let folder = self.archive.begin(plan).map_err(StartError::Failed)?;
        let id = folder.id.clone();
        let stop = Stop::new();
        let words = words(&folder);
        let again = destroy.iter().flat_map(|name| ["--destroy".to_owned(), name.clone()]);
        let command = shell_text(words.into_iter().chain(again));
        let notes = Arc::new(Notes(Arc::clone(&self.history)));
        let session = self.session.beside(notes, stop.clone()).with_command(command);
        let run = Run {
            session,
            options: BenchOptions {
                destroy,
                record: options.record.as_ref().map(|_| folder.path.join(TRACE_FILE)),
                folder: Some(folder.path.clone()),
                inputs: if plan.is_some() { vec![folder.plan_file()] } else { options.inputs.clone() },
                ..options
            },
            folder,
            archive: Arc::clone(&self.archive),
            history: Arc::clone(&self.history),
            metrics: Arc::clone(&self.metrics),
            is_under_way: Arc::new(AtomicBool::new(true)),
        };
        let is_under_way = Arc::clone(&run.is_under_way);
        self.metrics.begin();
        self.history.begin(Event::of("run", &run.begin()));
        let thread = std::thread::Builder::new().name("bench".to_owned()).spawn(move || run.measure());
        let thread = thread.map_err(|error| {
            let failure = Failure::from(error).context("no thread can be started");
            self.metrics.end(RunEnd::Failed, None);
            self.archive.ended();
            self.history.push(Event::of("end", &end(&id, RunEnd::Failed, Some(&failure), false)));
            StartError::Failed(failure)
        })?;
        state.run = Some(CurrentRun { stop, is_under_way, thread });
        Ok(id)
    }

    /// Ends the run in order. Returns false if none is under way.
    pub(crate) fn stop(&self) -> bool {
        let state = self.lock();
        let under_way = state.run.as_ref().filter(|run| run.is_under_way());
        under_way.inspect(|run| run.stop.stop()).is_some()
    }

    /// Ends the run in order and waits until its results are saved. No other one begins.
    pub(crate) fn end(&self) {
        self.stop();
        let run = {
            let mut state = self.lock();
            state.is_ending = true;
            state.run.take()
        };
        if let Some(run) = run {
            run.stop.stop();
            // The clients have heard of its end.
            let _ = run.thread.join();
        }
    }
}

/// A run on its way through its thread.
struct Run {
    session: Session,
    options: BenchOptions,
    folder: RunFolder,
    archive: Arc<Archive>,
    history: Arc<History>,
    metrics: Arc<Metrics>,
    is_under_way: Arc<AtomicBool>,
}

impl Run {
    /// The event of its begin: the charts, without points yet.
    fn begin(&self) -> Value {
        let phases: Vec<&str> = self.options.phases.iter().map(|phase| phase.name.as_str()).collect();
        let targets: Vec<&str> = self.options.targets.iter().map(|target| target.address.as_str()).collect();
        json!({
            "id": self.folder.id,
            "title": self.options.title,
            "phases": phases,
            "targets": targets,
            "repetitions": self.options.repetitions,
            "charts": chart_data(&interval_plots(&[])),
        })
    }

    /// Measures, saves, and tells the clients of the end.
    fn measure(self) {
        let mut watcher =
            Watcher { history: &self.history, metrics: &self.metrics, phase: Value::Null, repetition: 0 };
        let measured =
            catch_unwind(AssertUnwindSafe(|| bench_with(&self.session, &self.options, &mut watcher)));
        let measured = measured.unwrap_or_else(|_| {
            Err(Failure::new("an internal error ended the run").hint("the terminal of the server shows it"))
        });
        let (figures, is_saved, failure) = match measured {
            Ok(result) => {
                let reported = self.folder.save_report(&result);
                let BenchResult { figures, failure, write_failure, targets, .. } = result;
                // A target that does not answer holds nobody up.
                targets.close(CLOSING_MAX);
                let is_saved = write_failure.is_none() && reported.is_ok();
                (Some(figures), is_saved, failure.or(write_failure).or(reported.err()))
            }
            Err(failure) => {
                self.folder.discard();
                (None, false, Some(failure))
            }
        };
        let how = match (&figures, &failure) {
            (_, None) => RunEnd::Done,
            (Some(figures), Some(_)) if figures.stopped => RunEnd::Stopped,
            (None, Some(_)) if self.session.stop().is_stopped() => RunEnd::Stopped,
            _ => RunEnd::Failed,
        };
        let failure = failure.filter(|_| how == RunEnd::Failed);
        self.metrics.end(how, figures.as_ref());
        self.archive.ended();
        // Who hears of the end may start another run.
        self.is_under_way.store(false, Ordering::Release);
        self.history.push(Event::of("end", &end(&self.folder.id, how, failure.as_ref(), is_saved)));
    }
}

/// The event of the end of a run.
fn end(id: &str, how: RunEnd, failure: Option<&Failure>, is_saved: bool) -> Value {
    json!({ "id": id, "end": how.name(), "problem": failure.map(Problem::from), "saved": is_saved })
}

impl Event {
    /// An event of that name.
    fn of(name: &'static str, data: &Value) -> Self {
        Self { name, data: data.to_string().into() }
    }
}

/// Passes the figures of a run on to its clients.
struct Watcher<'a> {
    history: &'a History,
    metrics: &'a Metrics,
    phase: Value,
    repetition: u64,
}

impl BenchListener for Watcher<'_> {
    fn phase(&mut self, phase: &PhaseStart<'_>) {
        self.phase = phase.name.into();
        self.repetition = phase.repetition;
        self.metrics.phase();
    }

    fn interval(&mut self, figures: &IntervalFigures, bytes: u64) {
        self.metrics.interval(figures, bytes);
        // The points of the saved report's curves, one for each series.
        let plots = interval_plots(std::slice::from_ref(figures));
        let points: Vec<Vec<Option<(f64, f64)>>> = plots
            .iter()
            .map(|plot| plot.series.iter().map(|series| series.points.first().copied()).collect())
            .collect();
        let data = json!({
            "phase": self.phase,
            "repetition": self.repetition,
            "figures": figures,
            "points": points,
        });
        self.history.push(Event::of("interval", &data));
    }

    fn draining(&mut self, figures: &DrainingFigures) {
        self.metrics.draining(figures);
        let data = json!({ "phase": self.phase, "figures": figures });
        self.history.push(Event::of("draining", &data));
    }

    fn counters(&mut self, sample: &Counters) {
        // Series come and go with processes, so each event has its charts.
        let mut plots = counter_plots(sample);
        for plot in &mut plots {
            plot.series.retain(|series| !series.points.is_empty());
        }
        plots.retain(|plot| !plot.series.is_empty());
        self.history.push(Event::of("counters", &json!({ "charts": chart_data(&plots) })));
    }
}

/// Passes the remarks and warnings of a run on to its clients.
struct Notes(Arc<History>);

impl Listener for Notes {
    fn note(&self, note: &Notice) {
        let data = json!({ "warning": note.is_warning, "text": note.text });
        self.0.push(Event::of("note", &data));
    }
}
