//! The folder of runs: each run is a folder with its plan, its results and its report.
//!
//! ```text
//! RUNS/run-20261123-174501/  plan.toml  report.html  and what `seeklab bench --folder` writes: run.json, intervals.parquet, …
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seeklab_lab::bench::{BenchOptions, BenchResult, is_run_under_way, rerun, unfinished_run};
use seeklab_lab::crates::core::number_words::counted;
use seeklab_lab::crates::files::write;
use seeklab_lab::crates::report::render_page_html;
use seeklab_lab::failure::Failure;
use serde::Serialize;
use serde_json::Value;

/// File with the plan of a run.
const PLAN_FILE: &str = "plan.toml";
/// File with the results of a run.
const RUN_FILE: &str = "run.json";
/// File with the report of a run.
const REPORT_FILE: &str = "report.html";
/// Runs that are listed.
const LISTED_MAX: usize = 500;
/// Runs that begin in the same second.
const SAME_SECOND_MAX: u32 = 1000;

/// The runs in a folder.
#[derive(Debug)]
pub(crate) struct Archive {
    folder: PathBuf,
    /// Name of the run of this server that is under way.
    under_way: Mutex<Option<String>>,
    /// Rows of the list by the file that they were read from, and its time.
    known: Mutex<BTreeMap<PathBuf, (SystemTime, Arc<RunRow>)>>,
}

/// The folder of a run under way.
#[derive(Debug)]
pub(crate) struct RunFolder {
    /// Name of the folder, which is that of the run.
    pub(crate) id: String,
    pub(crate) path: PathBuf,
}

/// A run in the list.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct RunRow {
    id: String,
    started_at: Option<String>,
    title: String,
    requests_per_second: Option<f64>,
    mib_per_second: Option<f64>,
    response_mean_ms: Option<f64>,
    response_p99_ms: Option<f64>,
    errors: Option<u64>,
    /// State in its document, or `killed` if its process has ended without a word.
    state: String,
    stopped: bool,
    trusted: bool,
    has_report: bool,
}

/// A run that was opened.
#[derive(Debug)]
pub(crate) struct SavedRun {
    pub(crate) id: String,
    /// The plan in TOML, if it is known.
    pub(crate) plan: Option<String>,
    /// The document of `seeklab bench --json`.
    pub(crate) results: Value,
}

impl Archive {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, under_way: Mutex::default(), known: Mutex::default() }
    }

    /// Makes the folder of a run that begins, with its plan if that is known.
    ///
    /// # Errors
    /// If it cannot be made.
    #[expect(clippy::disallowed_methods, reason = "a run is filed under its time of day")]
    pub(crate) fn begin(&self, plan: Option<&str>) -> Result<RunFolder, Failure> {
        let shown = self.folder.display();
        let refused = |error: io::Error| Failure::from(error).context(format!("{shown}: cannot be written"));
        fs::create_dir_all(&self.folder).map_err(refused)?;
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let digits: String = now.chars().filter(char::is_ascii_digit).collect();
        let (day, time) = digits.split_at(8);
        for number in 1..SAME_SECOND_MAX {
            let id = match number {
                1 => format!("run-{day}-{time}"),
                _ => format!("run-{day}-{time}-{number}"),
            };
            let path = self.folder.join(&id);
            match fs::create_dir(&path) {
                Ok(()) => {
                    if let Some(plan) = plan {
                        write(&path.join(PLAN_FILE), plan.as_bytes())?;
                    }
                    *self.under_way.lock().expect("no holder panics") = Some(id.clone());
                    return Ok(RunFolder { id, path });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(refused(error)),
            }
        }
        Err(Failure::new(format!("{shown}: has {SAME_SECOND_MAX} runs of this second")))
    }

    /// The run that was begun last is over.
    pub(crate) fn ended(&self) {
        *self.under_way.lock().expect("no holder panics") = None;
    }

    /// Path of the folder of a run.
    pub(crate) fn path(&self, id: &str) -> PathBuf {
        self.folder.join(id)
    }

    /// The options of a run that repeats the one of that name. Folder and trace are to be set.
    ///
    /// # Errors
    /// If there is none of that name, or a target is another one now.
    pub(crate) fn rerun(&self, id: &str) -> Result<BenchOptions, Failure> {
        let folder = self.folder_of(id)?;
        rerun(&folder, Some(&folder))
    }

    /// State of a run whose document says that it goes on.
    fn state_of(&self, id: &str) -> &'static str {
        let own = self.under_way.lock().expect("no holder panics");
        match own.as_deref() == Some(id) || is_run_under_way(&self.folder.join(id)) {
            true => "running",
            false => "killed",
        }
    }

    /// Returns the runs, the newest first.
    ///
    /// # Errors
    /// If the folder cannot be read. One that does not exist has no runs.
    pub(crate) fn list(&self) -> Result<Vec<Arc<RunRow>>, Failure> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => {
                return Err(
                    Failure::from(error).context(format!("{}: cannot be read", self.folder.display()))
                );
            }
        };
        let mut found: Vec<(SystemTime, String, PathBuf)> = entries
            .flatten()
            .filter_map(|entry| {
                let id = entry.file_name().into_string().ok().filter(|id| is_id(id))?;
                let file = entry.path().join(RUN_FILE);
                let time = fs::metadata(&file).and_then(|metadata| metadata.modified()).ok()?;
                Some((time, id, file))
            })
            .collect();
        found.sort_by(|one, other| (other.0, &other.1).cmp(&(one.0, &one.1)));
        found.truncate(LISTED_MAX);
        let mut known = self.known.lock().expect("no holder panics");
        let mut rows = Vec::new();
        for (time, id, file) in found {
            if let Some((_, row)) = known.get(&file).filter(|(at, _)| *at == time) {
                rows.push(Arc::clone(row));
                continue;
            }
            // Another file of that name is no run.
            let Ok(document) = read_document(&file) else { continue };
            let goes_on = document["run"]["state"] == "running";
            let state = if goes_on { self.state_of(&id) } else { "" };
            let row = Arc::new(RunRow::of(&id, &file, &document, state));
            // A process may be killed without a trace in its document.
            if !goes_on {
                known.insert(file, (time, Arc::clone(&row)));
            }
            rows.push(row);
        }
        Ok(rows)
    }

    /// Opens a run.
    ///
    /// # Errors
    /// If there is none of that name, or it cannot be read.
    pub(crate) fn open(&self, id: &str) -> Result<SavedRun, Failure> {
        let folder = self.folder_of(id)?;
        let results = read_document(&folder.join(RUN_FILE))?;
        let results = match results["intervals"].is_array() {
            true => results,
            false => unfinished_run(&folder, &results)?,
        };
        let plan = fs::read_to_string(folder.join(PLAN_FILE)).ok();
        Ok(SavedRun { id: id.to_owned(), plan, results })
    }

    /// Returns the report of a run, a page.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn report(&self, id: &str) -> Result<String, Failure> {
        let path = self.folder_of(id)?.join(REPORT_FILE);
        fs::read_to_string(&path)
            .map_err(|error| Failure::from(error).context(format!("{}: cannot be read", path.display())))
    }

    /// The folder of a run, below that of all runs.
    fn folder_of(&self, id: &str) -> Result<PathBuf, Failure> {
        let folder = self.folder.join(id);
        if !is_id(id) || !folder.is_dir() {
            return Err(Failure::new(format!("there is no run `{id}`")));
        }
        Ok(folder)
    }
}

/// Returns true if a text is the name of a folder that is not hidden, and no path.
fn is_id(text: &str) -> bool {
    let mut components = Path::new(text).components();
    matches!((components.next(), components.next()), (Some(Component::Normal(name)), None) if name == text)
        && !text.starts_with('.')
}

fn read_document(file: &Path) -> Result<Value, Failure> {
    let shown = file.display();
    let text = fs::read_to_string(file)
        .map_err(|error| Failure::from(error).context(format!("{shown}: cannot be read")))?;
    let document: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::new(format!("{shown}: is no JSON document: {error}")))?;
    if document["intervals"].is_array() || document["run"]["state"].is_string() {
        return Ok(document);
    }
    Err(Failure::new(format!("{shown}: holds no results of `seeklab bench`")))
}

impl RunRow {
    /// The row of a run with that document. `state` is its state if the document says that it goes on.
    fn of(id: &str, file: &Path, results: &Value, state: &'static str) -> Self {
        let text = |key: &str| results[key].as_str();
        let of_plan = || results["run"]["plan"]["title"].as_str();
        let state = match (state, &results["run"]["state"]) {
            ("", Value::String(state)) => state.clone(),
            (state, _) => state.to_owned(),
        };
        let title = match (text("title").or_else(of_plan), text("workload"), text("target")) {
            (Some(title), ..) => title.to_owned(),
            (None, Some(workload), Some(target)) => format!("{workload} on {target}"),
            (None, _, target) => {
                let of = |phases: &Value| phases.as_array().map(Vec::len);
                let phases = of(&results["phases"]).or_else(|| of(&results["run"]["plan"]["phases"]));
                let phases = phases.unwrap_or(0);
                let only = |targets: &Vec<Value>| match targets.as_slice() {
                    [only] => only["target"].as_str().map(str::to_owned),
                    _ => None,
                };
                let target = target.map(str::to_owned);
                let target = target.or_else(|| results["run"]["targets"].as_array().and_then(only));
                format!("{} on {}", counted(phases, "phase"), target.as_deref().unwrap_or("several targets"))
            }
        };
        Self {
            id: id.to_owned(),
            started_at: results["run"]["begun_unix_s"].as_f64().and_then(begun_at),
            title,
            requests_per_second: results["requests_per_second"].as_f64(),
            mib_per_second: results["mib_per_second"].as_f64(),
            response_mean_ms: results["response_mean_ms"].as_f64(),
            response_p99_ms: results["response_p99_ms"].as_f64(),
            errors: results["errors"].as_u64(),
            state,
            stopped: results["stopped"] == true || results["run"]["state"] == "stopped",
            trusted: results["trusted"] == true,
            has_report: file.with_file_name(REPORT_FILE).exists(),
        }
    }
}

impl RunFolder {
    /// Path of its plan.
    pub(crate) fn plan_file(&self) -> PathBuf {
        self.path.join(PLAN_FILE)
    }

    /// Saves the report of the run, beside its results.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn save_report(&self, result: &BenchResult) -> Result<(), Failure> {
        let page = render_page_html(&result.page);
        Ok(write(&self.path.join(REPORT_FILE), page.as_bytes())?)
    }

    /// Removes the folder of a run that was refused before it began.
    pub(crate) fn discard(&self) {
        if !self.path.join(RUN_FILE).exists() {
            // What else is in it stays.
            let _ = fs::remove_file(self.path.join(PLAN_FILE));
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// Begin of a run in RFC 3339, from seconds since 1970.
fn begun_at(unix_s: f64) -> Option<String> {
    let since = Duration::try_from_secs_f64(unix_s).ok()?;
    let time = UNIX_EPOCH.checked_add(since)?;
    Some(humantime::format_rfc3339_seconds(time).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_run_is_no_path() {
        for id in ["run-20261123-174501", "after", "1"] {
            assert!(is_id(id), "{id}");
        }
        for other in ["", ".", "..", "../x", "a/b", "/etc", "a/", "./a", ".hidden", "a/.."] {
            assert!(!is_id(other), "{other}");
        }
    }

    #[test]
    fn runs_are_listed_the_newest_first_and_other_folders_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::new(folder.path().join("runs"));
        assert!(archive.list().unwrap().is_empty(), "there is no folder yet");
        let run = archive.begin(Some("plan")).unwrap();
        let again = archive.begin(Some("plan")).unwrap();
        assert_ne!(run.id, again.id, "two runs of a second");
        assert!(archive.list().unwrap().is_empty(), "they have no results yet");
        let results = r#"{ "run": { "begun_unix_s": 1e9 }, "intervals": [], "title": "one", "requests_per_second": 5.5 }"#;
        for one in [&run, &again] {
            fs::write(one.path.join(RUN_FILE), results).unwrap();
        }
        let other = archive.folder.join("other");
        fs::create_dir(&other).unwrap();
        fs::write(other.join(RUN_FILE), "{}").unwrap();
        let times: Vec<SystemTime> = [&again, &run]
            .iter()
            .zip(1..)
            .map(|(run, second)| {
                let time = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
                fs::File::options()
                    .write(true)
                    .open(run.path.join(RUN_FILE))
                    .and_then(|file| file.set_modified(time))
                    .unwrap();
                time
            })
            .collect();
        assert!(times[0] < times[1]);
        let rows = archive.list().unwrap();
        assert_eq!(rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), [&run.id, &again.id]);
        assert_eq!((rows[0].title.as_str(), rows[0].requests_per_second), ("one", Some(5.5)));
        assert_eq!(rows[0].started_at.as_deref(), Some("2001-09-09T01:46:40Z"));
        assert_eq!(archive.open(&run.id).unwrap().plan.as_deref(), Some("plan"));
        for id in ["..", "nothing", "../runs"] {
            assert_eq!(archive.open(id).unwrap_err().to_string(), format!("there is no run `{id}`"));
        }
        run.discard();
        assert!(run.path.exists(), "its results stay");
    }
}
