//! The cross product of an experiment: cells, the runs of each, and what identifies a run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use seeklab_core::Seed;
use seeklab_devices::scheduler::SchedulerSpec;
use seeklab_files::check_rereadable;
use seeklab_workloads::replay::ReplaySpec;
use seeklab_workloads::{Retries, WorkloadSpec};
use toml::{Table, Value};

use super::arrivals::Mode;
use super::keys::WORKLOAD;
use super::measurement::Measurement;
use super::recorded::{FORMAT, Recordings};
use super::spec::{NamedDevice, NamedWorkload, Spec};
use super::targets::NamedPlan;
use super::values::{Parameter, text_of};
use crate::devices::{Resolved, Setup, customise};
use crate::failure::Failure;
use crate::journal::Key;
use crate::output::VERSION;
use crate::session::Session;
use crate::workload::{ResolvedWorkload, WorkloadOptions, from_spec};

/// Runs of an experiment at most.
const RUNS_MAX: u64 = 1_000_000;

/// The dimensions that every experiment has. Of one that measures, the first is [`TARGET`].
pub(super) const DIMENSIONS: [&str; 4] = ["device", "workload", "scheduler", "arrivals"];

/// The first dimension of an experiment that measures.
const TARGET: &str = "target";

/// Columns of the table of results behind the dimensions, before the figures.
pub(super) const COUNTS: [&str; 3] = ["n", "saturated", "failed"];

/// Work of a run.
#[derive(Debug)]
pub(super) enum Work {
    /// A workload on a device in virtual time.
    Simulation { device: Arc<Resolved>, workload: Arc<ResolvedWorkload> },
    /// A workload or a plan on targets.
    Measurement(Box<Measurement>),
}

impl Work {
    /// Files that it reads or writes and that are no results.
    pub(super) fn inputs(&self) -> Vec<PathBuf> {
        match self {
            Self::Simulation { workload, .. } => {
                let trace = workload.trace().map(PathBuf::from);
                trace.into_iter().chain(workload.shape.clone()).collect()
            }
            Self::Measurement(measurement) => measurement.inputs(),
        }
    }
}

/// One combination of everything that is varied.
#[derive(Debug)]
pub(super) struct Cell {
    /// Its value in each dimension: those of [`DIMENSIONS`], then the parameters.
    pub(super) values: Vec<String>,
    /// Index of the value of each parameter.
    pub(super) steps: Vec<usize>,
    pub(super) work: Work,
    /// Everything that determines its results but the seed.
    identity: String,
}

/// One run of a cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) cell: usize,
    pub(super) repetition: u64,
    pub(super) seed: Seed,
    pub(super) key: Key,
}

/// Number of values in each dimension.
fn sizes(spec: &Spec) -> impl Iterator<Item = usize> {
    let of_parameters = spec.parameters.iter().map(|parameter| parameter.values.len());
    spec.sizes().into_iter().chain(of_parameters)
}

/// Every combination in the order of the file, the last parameter fastest.
///
/// # Errors
/// Too many of them, or one that fits together nowhere.
pub(super) fn expand(
    session: &Session,
    spec: &Spec,
    recordings: &mut Recordings,
) -> Result<Vec<Cell>, Failure> {
    let sizes: Vec<usize> = sizes(spec).collect();
    let count = sizes.iter().try_fold(spec.repetitions, |product, size| product.checked_mul(*size as u64));
    if count.is_none_or(|count| count > RUNS_MAX) {
        let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
        return Err(Failure::new(format!(
            "{}: {} cells with {} repetitions each are too many",
            spec.label,
            sizes.join(" × "),
            spec.repetitions
        ))
        .hint(format!("an experiment has at most {RUNS_MAX} runs")));
    }
    let program = program();
    let (mut devices, mut workloads) = (BTreeMap::new(), BTreeMap::new());
    let mut place = vec![0; sizes.len()];
    let mut cells = Vec::new();
    loop {
        let known = (&mut devices, &mut workloads);
        let combination = Combination { spec, indices: &place };
        cells.push(cell(combination, &program, known, &mut |recording| {
            recordings.trace(
                session,
                &recording.identity,
                &recording.device,
                &recording.workload,
                (spec.seed, spec.limits),
            )
        })?);
        // The next combination, as an odometer turns.
        let Some(wheel) = (0..sizes.len()).rev().find(|wheel| place[*wheel] + 1 < sizes[*wheel]) else {
            return Ok(cells);
        };
        place[wheel] += 1;
        place[wheel + 1..].fill(0);
    }
}

/// A workload whose requests are recorded on a device.
struct Recording {
    /// Everything that determines the trace.
    identity: String,
    device: Arc<Resolved>,
    workload: ResolvedWorkload,
}

/// Makes the trace of a recording.
type Record<'a> = dyn FnMut(&Recording) -> Result<PathBuf, Failure> + 'a;

/// Resolved devices or workloads, by the values that determine them.
type Known<T> = BTreeMap<Vec<usize>, (Arc<T>, Arc<str>)>;

/// A combination of values, by the index of each.
#[derive(Clone, Copy)]
struct Combination<'a> {
    spec: &'a Spec,
    indices: &'a [usize],
}

impl<'a> Combination<'a> {
    /// Indices of the values of the parameters.
    fn steps(self) -> &'a [usize] {
        &self.indices[DIMENSIONS.len()..]
    }

    /// The parameters of devices or of workloads, each with the index of its value.
    fn parameters(self, of_workload: bool) -> impl Iterator<Item = (&'a Parameter, usize)> {
        let parameters = self.spec.parameters.iter().zip(self.steps().iter().copied());
        parameters.filter(move |(parameter, _)| parameter.name.starts_with(WORKLOAD) == of_workload)
    }

    /// The names and values of these parameters.
    fn given(self, of_workload: bool) -> Vec<(&'a str, &'a Value)> {
        self.parameters(of_workload)
            .map(|(parameter, step)| (parameter.name.as_str(), &parameter.values[step]))
            .collect()
    }

    /// Indices of all values that determine a device or a workload, of which `own` are in the dimensions.
    fn key(self, own: [usize; 2], of_workload: bool) -> Vec<usize> {
        own.into_iter().chain(self.parameters(of_workload).map(|(_, step)| step)).collect()
    }

    fn device(self, known: &mut Known<Resolved>) -> Result<(Arc<Resolved>, Arc<str>), Failure> {
        let (device, scheduler) = (self.indices[0], self.indices[2]);
        let key = self.key([device, scheduler], false);
        if let Some(known) = known.get(&key) {
            return Ok(known.clone());
        }
        let (named, scheduler) = (&self.spec.devices[device], self.spec.schedulers[scheduler]);
        let new = resolve(self.spec, named, scheduler, &self.given(false))?;
        known.insert(key, new.clone());
        Ok(new)
    }

    fn workload(
        self,
        named: &NamedWorkload,
        known: &mut Known<ResolvedWorkload>,
        record: &mut Record,
    ) -> Result<(Arc<ResolvedWorkload>, Arc<str>), Failure> {
        let key = self.key([self.indices[1], self.indices[3]], true);
        if let Some(known) = known.get(&key) {
            return Ok(known.clone());
        }
        let new = resolve_workload(self.spec, named, self.mode(), &self.given(true), record)?;
        known.insert(key, new.clone());
        Ok(new)
    }

    /// The arrivals, of which a recorded workload may have its own.
    fn mode(self) -> Mode {
        let workload = self.spec.workloads.get(self.indices[1]);
        let own = workload.and_then(|workload| workload.recorded_on).and_then(|on| on.arrivals);
        own.unwrap_or(self.spec.arrivals[self.indices[3]])
    }

    /// The measurement of the workload, or of a plan if that is `None`.
    fn measurement(self, workload: Option<&Arc<ResolvedWorkload>>) -> Measurement {
        let spec = self.spec;
        let choice = spec.targets.get(self.indices[0]).map(|target| {
            let mut choice = target.choice.clone();
            let given = self.given(false);
            let overrides = given.iter().map(|(name, value)| format!("{name}={}", text_of(value)));
            choice.setup.overrides.extend(overrides);
            // Keys of the experiment take the place of those of its targets.
            choice.setup.bare |= spec.bare;
            if spec.faults.is_some() {
                choice.setup.faults = spec.faults.clone();
            }
            let queue = spec.schedulers[self.indices[2]].map(|scheduler| (scheduler, spec.depth));
            choice.setup.queue = queue.or(choice.setup.queue);
            choice
        });
        match workload {
            Some(workload) => {
                Measurement::of_workload(spec, choice.expect("workloads have targets"), workload)
            }
            None => Measurement::of_plan(self.plan(), choice),
        }
    }

    /// The plan, in place of a workload.
    fn plan(self) -> &'a NamedPlan {
        &self.spec.plans[self.indices[1] - self.spec.workloads.len()]
    }
}

fn cell(
    combination: Combination,
    program: &str,
    (devices, workloads): (&mut Known<Resolved>, &mut Known<ResolvedWorkload>),
    record: &mut Record,
) -> Result<Cell, Failure> {
    let Combination { spec, indices } = combination;
    let named = spec.workloads.get(indices[1]);
    let workload = named.map(|named| combination.workload(named, workloads, record)).transpose()?;
    let load = match named {
        Some(named) => named.name.clone(),
        None => combination.plan().name.clone(),
    };
    let (place, work, identity) = match workload {
        Some((workload, of_workload)) if !spec.is_measured() => {
            let (device, of_device) = combination.device(devices)?;
            let outstanding_max = spec.limits.outstanding_max;
            let identity = format!("{program}\n{of_device}\n{of_workload}\noutstanding {outstanding_max}\n");
            (device.label(), Work::Simulation { device, workload }, identity)
        }
        workload => {
            let measurement = combination.measurement(workload.as_ref().map(|(workload, _)| workload));
            let place = match spec.targets.get(indices[0]) {
                Some(target) => target.name.clone(),
                None => measurement.addresses(),
            };
            let identity = measurement.identity().map_err(|failure| {
                let given = assignments(&combination.given(false));
                failure.context(format!("{}: target `{place}`{given}, `{load}`", spec.label))
            })?;
            (place, Work::Measurement(Box::new(measurement)), format!("{program}\n{identity}\n"))
        }
    };
    let values = [place, load, scheduler_name(spec, indices[2]), combination.mode().to_string()];
    let steps = combination.steps();
    let parameters =
        spec.parameters.iter().zip(steps).map(|(parameter, step)| text_of(&parameter.values[*step]));
    let values = values.into_iter().chain(parameters).collect();
    Ok(Cell { values, steps: steps.to_vec(), work, identity })
}

fn scheduler_name(spec: &Spec, scheduler: usize) -> String {
    spec.schedulers[scheduler].map_or_else(|| "none".to_owned(), |scheduler| scheduler.to_string())
}

fn assignments(given: &[(&str, &Value)]) -> String {
    given.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = write!(text, ", {name} = {value}");
        text
    })
}

fn resolve(
    spec: &Spec,
    named: &NamedDevice,
    scheduler: Option<SchedulerSpec>,
    given: &[(&str, &Value)],
) -> Result<(Arc<Resolved>, Arc<str>), Failure> {
    let queue = scheduler.map(|scheduler| (scheduler, spec.depth));
    let overrides = given.iter().map(|(name, value)| format!("{name}={}", text_of(value))).collect();
    let setup = Setup { bare: spec.bare, overrides, faults: spec.faults.clone(), queue };
    let resolved = customise(&named.name, named.description.clone(), &setup).map_err(|failure| {
        failure.context(format!("{}: device `{}`{}", spec.label, named.name, assignments(given)))
    })?;
    let queue = queue.map_or_else(String::new, |(scheduler, depth)| format!("{scheduler}, {depth}"));
    let identity = format!("device\n{}\nqueue {queue}", resolved.description.to_toml());
    Ok((Arc::new(resolved), identity.into()))
}

fn resolve_workload(
    spec: &Spec,
    named: &NamedWorkload,
    mode: Mode,
    given: &[(&str, &Value)],
    record: &mut Record,
) -> Result<(Arc<ResolvedWorkload>, Arc<str>), Failure> {
    let context = |failure: Failure| {
        failure.context(format!("{}: workload `{}`{}", spec.label, named.name, assignments(given)))
    };
    let mut workload = named.spec.clone();
    if !given.is_empty() {
        let mut table = Table::try_from(&workload).expect("a workload can be written");
        for (name, value) in given {
            let path = name.strip_prefix(WORKLOAD).unwrap_or(name);
            put(&mut table, path, (*value).clone()).map_err(context)?;
        }
        workload = WorkloadSpec::from_table(table).map_err(|error| context(error.into()))?;
    }
    let mut options = WorkloadOptions {
        format: named.format.clone(),
        block_size: named.block_size,
        settings: named.settings.clone(),
        shape: named.shape.clone(),
        retries: named.retries,
        ..WorkloadOptions::default()
    };
    let mut source = None;
    if let Some(on) = named.recorded_on {
        let (device, on_device) = resolve(spec, &spec.devices[on.device], on.scheduler, &[])?;
        let recorded = from_spec(&named.name, workload, &options).map_err(context)?;
        let identity = format!("{on_device}\n{}\nseed {}", workload_identity(&recorded, None)?, spec.seed);
        let recording = Recording { identity, device, workload: recorded };
        let trace = Some(record(&recording).map_err(context)?.to_string_lossy().into_owned());
        workload = WorkloadSpec::Replay(ReplaySpec { trace, ..ReplaySpec::default() });
        options = WorkloadOptions { format: Some(FORMAT.to_owned()), ..WorkloadOptions::default() };
        source = Some(recording.identity);
    }
    mode.check(&workload).map_err(context)?;
    options.arrivals = mode.0;
    let resolved = from_spec(&named.name, workload, &options).map_err(context)?;
    let identity = workload_identity(&resolved, source.as_deref()).map_err(context)?;
    Ok((Arc::new(resolved), identity.into()))
}

/// Puts a value under a dotted path, tables between made as needed.
fn put(table: &mut Table, path: &str, value: Value) -> Result<(), Failure> {
    match path.split_once('.') {
        None => {
            table.insert(path.to_owned(), value);
            Ok(())
        }
        Some((first, rest)) => match table.entry(first).or_insert_with(|| Value::Table(Table::new())) {
            Value::Table(inner) => put(inner, rest, value),
            other => Err(Failure::new(format!("`{first}` is {other}, which has no `{rest}`"))
                .hint(format!("vary `{WORKLOAD}{first}`, or write it as a table in the workload"))),
        },
    }
}

/// The workload as text; of its files not the name, which may be relative, but size and time. A trace that is recorded from
/// `source` depends on that alone.
pub(super) fn workload_identity(
    resolved: &ResolvedWorkload,
    source: Option<&str>,
) -> Result<String, Failure> {
    let mut spec = resolved.spec.clone();
    let trace = match &mut spec {
        WorkloadSpec::Replay(replay) => replay.trace.take(),
        // The metadata is written anew with each recording.
        WorkloadSpec::System(system) => system.trace.take().map(|folder| folder + "/system.json"),
        _ => None,
    };
    let text = toml::to_string(&spec).expect("a workload can be written");
    let options = (&resolved.format, resolved.options.block_size, resolved.options.sort_window);
    let mut identity = format!("workload\n{text}\n{options:?}");
    if resolved.retries != Retries::default() {
        let _ = write!(identity, "\n{:?}", resolved.retries);
    }
    for setting in &resolved.options.settings {
        identity += &format!("\n{}={}", setting.name, setting.value);
    }
    if let Some(source) = source {
        let _ = write!(identity, "\nrecorded\n{source}");
    }
    let trace = trace.filter(|_| source.is_none());
    for file in trace.iter().map(Path::new).chain(resolved.shape.as_deref()) {
        let unreadable = |error: std::io::Error| {
            Failure::from(error).context(format!("{}: cannot be read", file.display()))
        };
        check_rereadable(file)?;
        let metadata = fs::metadata(file).map_err(unreadable)?;
        let age = metadata.modified().map_err(unreadable)?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let _ = write!(identity, "\nfile {} {}", metadata.len(), age.as_nanos());
    }
    Ok(identity)
}

/// This program, every build of which is another one: a model may have changed without its version.
fn program() -> String {
    let build = std::env::current_exe().and_then(fs::read).map(|bytes| Key::of(&bytes)).ok();
    build.map_or_else(|| VERSION.to_owned(), |build| format!("{VERSION} {build}"))
}

/// Every run, cell by cell.
pub(super) fn runs(spec: &Spec, cells: &[Cell]) -> Vec<Run> {
    let of_cell = |(index, cell): (usize, &Cell)| {
        let identity = cell.identity.clone();
        (0..spec.repetitions).map(move |repetition| {
            let seed = spec.seed.repetition(repetition);
            Run { cell: index, repetition, seed, key: Key::of(format!("{identity}seed {seed}").as_bytes()) }
        })
    };
    cells.iter().enumerate().flat_map(of_cell).collect()
}

impl Cell {
    /// The cell in words, its values in the dimensions that vary.
    pub(super) fn describe(&self, shown: &[usize]) -> String {
        shown.iter().map(|dimension| self.values[*dimension].as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the names of all dimensions. Parameters with the name of another dimension are distinguished.
pub(super) fn dimensions(spec: &Spec) -> Vec<String> {
    let reserved = |name: &str| DIMENSIONS.contains(&name) || COUNTS.contains(&name) || name == TARGET;
    let parameters = spec.parameters.iter().map(|parameter| match reserved(&parameter.name) {
        true => format!("device.{}", parameter.name),
        false => parameter.name.clone(),
    });
    let of_all = DIMENSIONS.into_iter().map(|name| match name {
        "device" if spec.is_measured() => TARGET,
        name => name,
    });
    of_all.map(str::to_owned).chain(parameters).collect()
}

/// Returns the dimensions with more than one value, or the first two if there are none.
pub(super) fn varied(spec: &Spec) -> Vec<usize> {
    let varied: Vec<usize> =
        sizes(spec).enumerate().filter(|(_, size)| *size > 1).map(|(index, _)| index).collect();
    if varied.is_empty() { vec![0, 1] } else { varied }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> Spec {
        Spec::parse(Path::new("a.toml"), text.to_owned()).unwrap()
    }

    fn expanded(spec: &Spec) -> Result<Vec<Cell>, Failure> {
        expand(&Session::default(), spec, &mut Recordings::default())
    }

    const TWO_BY_TWO: &str = r#"
        devices = ["hp-c2247a", "atlas10k"]
        workloads = ["random,poisson=10/s,requests=10"]
        repetitions = 2
        [[parameters]]
        name = "workload.arrivals.rate"
        values = ["20/s", "40/s"]
    "#;

    #[test]
    fn cells_come_in_the_order_of_the_file() {
        let spec = spec(TWO_BY_TWO);
        let cells = expanded(&spec).unwrap();
        let seen: Vec<String> = cells.iter().map(|cell| cell.describe(&varied(&spec))).collect();
        assert_eq!(seen, ["hp-c2247a, 20/s", "hp-c2247a, 40/s", "atlas10k, 20/s", "atlas10k, 40/s"]);
        let runs = runs(&spec, &cells);
        assert_eq!(runs.iter().map(|run| run.cell).collect::<Vec<_>>(), [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(runs[1].seed, Seed(1).repetition(1));
    }

    #[test]
    fn every_input_changes_the_key() {
        let key = |text: &str| {
            let spec = spec(text);
            runs(&spec, &expanded(&spec).unwrap())[0].key
        };
        let base = "devices = ['atlas10k']\nworkloads = ['random,poisson=10/s']\nschedulers = ['fcfs']\n";
        // A device that takes more than one request at a time.
        let deep = base.replace("atlas10k", "nearline-7200");
        assert_ne!(key(&deep), key(&("depth = 2\n".to_owned() + &deep)), "depth");
        // Keys of a workload as a table.
        let table = |keys: &str| {
            key(&base.replace("'random,poisson=10/s'", &format!("{{ preset = 'random'{keys} }}")))
        };
        let retries = table(", retries = 2");
        assert!(table("") != retries && retries != table(", retries = 2, retry_after = '1s'"), "retries");
        let changes = [
            ("seed", "seed = 2\n".to_owned() + base),
            ("requests", "requests = 9\n".to_owned() + base),
            ("bare", "bare = true\n".to_owned() + base),
            ("limit", "max_outstanding = 9\n".to_owned() + base),
            ("scheduler", base.replace("fcfs", "sstf")),
            ("device", base.replace("atlas10k", "hp-c2247a")),
            ("workload", base.replace("10/s", "11/s")),
            ("arrivals", "arrivals = ['closed 3']\n".to_owned() + base),
            ("parameter", base.to_owned() + "[[parameters]]\nname = 'rpm'\nvalues = ['9999rpm']\n"),
        ];
        let same = ["title = 'b'\n", "repetitions = 4\n", "figures = ['requests']\n"];
        for (what, text) in changes {
            assert_ne!(key(base), key(&text), "{what}");
        }
        for more in same {
            assert_eq!(key(base), key(&(more.to_owned() + base)), "{more}");
        }
    }

    #[test]
    fn every_input_of_a_measurement_changes_the_key() {
        let key = |text: &str| {
            let spec = spec(text);
            runs(&spec, &expanded(&spec).unwrap())[0].key
        };
        let base = "targets = ['model:atlas10k']\nworkloads = ['random,read=100%,closed=2']\n";
        let target = |table: &str| base.replace("'model:atlas10k'", table);
        let changes = [
            ("seed", "seed = 2\n".to_owned() + base),
            ("requests", "requests = 9\n".to_owned() + base),
            ("duration", "duration = '1s'\n".to_owned() + base),
            ("ramp", "ramp = '1s'\n".to_owned() + base),
            ("bare", "bare = true\n".to_owned() + base),
            ("scheduler", "schedulers = ['sptf']\n".to_owned() + base),
            ("arrivals", "arrivals = ['closed 3']\n".to_owned() + base),
            ("workload", base.replace("closed=2", "closed=3")),
            ("address", target("'model:hp-c2247a'")),
            ("clock", target("'emulate:atlas10k'")),
            ("set", target("{ address = 'model:atlas10k', set = { rpm = '9999rpm' } }")),
            ("size", target("{ address = 'model:atlas10k', capacity = '9GB' }")),
            ("parameter", base.to_owned() + "[[parameters]]\nname = 'rpm'\nvalues = ['9999rpm']\n"),
        ];
        let mut keys: Vec<(&str, Key)> = vec![("base", key(base))];
        for (what, text) in changes {
            let changed = key(&text);
            // Both set the same parameter of the same target.
            let same = keys
                .iter()
                .find(|(other, known)| *known == changed && (*other, what) != ("set", "parameter"));
            assert!(same.is_none(), "{what}: {same:?}");
            keys.push((what, changed));
        }
        for same in [
            format!("title = 'b'\nrepetitions = 4\nfigures = ['requests']\n{base}"),
            target("{ name = 'b', address = 'model:atlas10k' }"),
        ] {
            assert_eq!(key(base), key(&same), "{same}");
        }
    }

    #[test]
    fn too_many_runs_are_refused() {
        let many = TWO_BY_TWO
            .replace("repetitions = 2", "repetitions = 100000")
            .replace("\"40/s\"", "\"40/s\", \"60/s\"");
        assert!(expanded(&spec(&many)).is_ok(), "600,000 runs");
        let more = many.replace("[[parameters]]", "schedulers = [\"fcfs\", \"sstf\"]\n[[parameters]]");
        let error = expanded(&spec(&more)).unwrap_err().to_string();
        assert_eq!(error, "a.toml: 2 × 1 × 2 × 1 × 3 cells with 100000 repetitions each are too many");
    }
}
