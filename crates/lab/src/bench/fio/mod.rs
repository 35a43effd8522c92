//! fio job files: jobs become streams, and `stonewall` begins a phase.
//!
//! ```text
//! job.fio ─▶ sections ─▶ Job (options that apply) ─▶ FioLoad, target ─▶ BenchOptions
//!                          └─▶ refused by name and line, or left out with --skip-unknown
//! ```
//! # Scope and limits
//! Meanings are those of fio 3.33. An option either has its effect, or has none on the requests and their times here (such as
//! `group_reporting`), or is refused. Engines that reach other things than files, block devices and NBD exports are refused
//! always.

mod contents;
mod distribution;
mod file;
mod job;
mod load;
mod log_writer;
mod logs;
mod names;
mod rate;
mod reasons;
mod requests;
#[cfg(test)]
mod tests;
mod verify;
mod zones;

use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};

use seeklab_bench::target::{Polling, TargetKind};
use seeklab_bench::{Late, Ramp};
use seeklab_core::{ByteSize, Duration, Seed};
use seeklab_emulator::clock::Pacing;
use seeklab_workloads::Retries;

use super::options::{BenchOptions, ExpectedDevice, PhaseOptions, StreamLoad, StreamOptions, TargetChoice};
use super::plan_file::PlanOverrides;
use super::verification::VerificationOptions;
use crate::devices::Setup;
use crate::failure::Failure;

pub use load::{FioArrivals, FioLoad, FioSize, FioWorkload};
pub(in crate::bench) use log_writer::FioLogWriter;
pub use logs::{FioLog, FioLogFigure};
pub use zones::FioZones;

use job::Job;
use verify::VerifyOptions;

/// Options for reading a job file.
#[derive(Debug, Clone, Copy, Default)]
pub struct FioOptions<'a> {
    /// Leave out options that cannot be honoured, and list them in the notes.
    pub skip_unknown: bool,
    /// Send all requests to this target in place of the files of the jobs.
    pub target: Option<&'a str>,
}

/// Reads a job file.
///
/// # Errors
/// A file that cannot be read, and every option that cannot be honoured: file, line, option, reason.
pub fn read(
    path: &Path,
    options: FioOptions<'_>,
    overrides: &PlanOverrides,
) -> Result<BenchOptions, Failure> {
    let label = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::from(error).context(format!("{label}: cannot be read")))?;
    let sections = file::sections(&label, &text)?;
    let mut skipped = Vec::new();
    let mut refused = Vec::new();
    let mut jobs = Vec::new();
    for section in &sections {
        let (job, refusals) = Job::read(section);
        for refusal in refusals {
            let text = format!("line {}: {}", refusal.line, refusal.text);
            let list = if refusal.is_final || !options.skip_unknown { &mut refused } else { &mut skipped };
            if !list.contains(&text) {
                list.push(text);
            }
        }
        jobs.push(job);
    }
    if !refused.is_empty() {
        let failure = Failure::new(format!("{label}, {}", refused.join("\n  ")));
        return Err(failure
            .hint("--skip-unknown leaves out options that only change details; engines cannot be left out"));
    }
    let mut verifies = jobs.iter().any(|job| job.verify.check.is_some());
    if verifies && let Some((line, check, address)) = dataless(&jobs, options.target) {
        let problem = format!("line {line}: verify={check}: `{address}` carries no data");
        if !options.skip_unknown {
            return Err(Failure::new(format!("{label}, {problem}"))
                .hint("name a block device, a file or an export, or leave verify out with --skip-unknown"));
        }
        skipped.push(problem);
        jobs.iter_mut().for_each(|job| job.verify = VerifyOptions::default());
        verifies = false;
    }
    let mut building =
        Building { label: &label, targets: Vec::new(), only: options.target, jobs: 0, logs: Vec::new() };
    let phases = building.phases(&jobs, overrides.interval.unwrap_or(Duration::from_s(1)))?;
    let mut notes: Vec<String> =
        skipped.into_iter().map(|text| format!("left out by --skip-unknown: {text}")).collect();
    let repetitions = overrides.repetitions.unwrap_or(1);
    if let Some(log) = building.logs.first().filter(|_| repetitions > 1) {
        let problem =
            format!("--repeat {repetitions}: each run would overwrite the log {}", log.path.display());
        return Err(Failure::new(problem).hint("leave out the options write_…_log, or --repeat"));
    }
    building.check_readers(&phases, &jobs)?;
    let mut of_verify: Vec<&str> = Vec::new();
    for note in jobs.iter().flat_map(|job| job.verify.notes()) {
        if !of_verify.contains(&note) {
            of_verify.push(note);
        }
    }
    notes.extend(of_verify.into_iter().map(str::to_owned));
    let has_empty_log = building.logs.iter().any(|log| log.figure == FioLogFigure::Submission);
    notes.extend(has_empty_log.then(|| {
        "the logs `slat` are empty: the time of a submission is not measured for each request".to_owned()
    }));
    Ok(BenchOptions {
        title: None,
        targets: building.targets,
        phases,
        repetitions,
        fio_logs: building.logs,
        verification: verifies.then(VerificationOptions::default),
        find_rate: None,
        seed: overrides.seed.unwrap_or(Seed(1)),
        pacing: overrides.pacing.unwrap_or(Pacing::Balanced),
        inputs: vec![path.to_owned()],
        notes,
        ..BenchOptions::default()
    })
}

struct Building<'a> {
    label: &'a str,
    targets: Vec<TargetChoice>,
    only: Option<&'a str>,
    /// Clones of jobs so far.
    jobs: usize,
    logs: Vec<FioLog>,
}

impl Building<'_> {
    fn phases(&mut self, jobs: &[Job], interval: Duration) -> Result<Vec<PhaseOptions>, Failure> {
        let mut groups: Vec<Vec<&Job>> = Vec::new();
        for job in jobs {
            match groups.last_mut() {
                Some(group) if !job.begins_group => group.push(job),
                _ => groups.push(vec![job]),
            }
        }
        let mut phases = Vec::new();
        for (index, group) in groups.iter().enumerate() {
            let ramp = group[0].ramp;
            if let Some(other) = group.iter().find(|job| job.ramp != ramp) {
                let problem = format!(
                    "{}, line {}: job `{}` and job `{}` run together with a `ramp_time` of their own",
                    self.label, other.line, group[0].name, other.name
                );
                return Err(Failure::new(problem).hint("give both the same, or begin a group with stonewall"));
            }
            let mut streams: Vec<StreamOptions> = Vec::new();
            for job in group {
                for clone in 0..job.clones {
                    let mut stream = self.stream(job, clone)?;
                    self.jobs += 1;
                    self.logs.extend(job.logs.logs(job, self.jobs, (index, streams.len())));
                    let count = streams
                        .iter()
                        .filter(|other| other.name.split('#').next() == Some(&job.name))
                        .count();
                    if count > 0 {
                        stream.name = format!("{}#{}", job.name, count + 1);
                    }
                    streams.push(stream);
                }
            }
            // Jobs end by themselves; this bounds the run if a target does not answer.
            let ends: Option<Vec<Duration>> =
                group.iter().map(|job| Some(job.load.start + job.load.runtime?)).collect();
            let names: Vec<&str> = group.iter().map(|job| job.name.as_str()).collect();
            let name = match names.as_slice() {
                [name] if !phases.iter().any(|phase: &PhaseOptions| phase.name == **name) => {
                    (*name).to_owned()
                }
                _ => (index + 1).to_string(),
            };
            phases.push(PhaseOptions {
                name,
                duration: ends.and_then(|ends| ends.into_iter().max()),
                steady: None,
                ramp: if ramp.is_zero() { Ramp::None } else { Ramp::Time(ramp) },
                interval,
                streams,
            });
        }
        Ok(phases)
    }

    fn stream(&mut self, job: &Job, clone: u64) -> Result<StreamOptions, Failure> {
        let mut load = job.load.clone();
        let path = Self::path(job, clone);
        self.resolve_shares(job, &path, &mut load)?;
        load.offset += clone * job.offset_increment;
        if !job.ramp.is_zero() {
            // The ramp-up comes before the time.
            load.runtime = load.runtime.map(|runtime| runtime + job.ramp);
        }
        load.file_bytes = match (&job.address, path.exists()) {
            (Some(address), _) if address != "null" => None,
            // With --on, the file is not the target.
            (None, true) => self.only.and_then(|_| std::fs::metadata(&path).ok()).map(|file| file.len()),
            _ => job.file_bytes.or_else(|| Some(load.offset + load.size?)),
        }
        .filter(|bytes| *bytes > 0);
        let target = self.target(job, &load, &path)?;
        let writes = load.read < 1.0;
        Ok(StreamOptions {
            name: job.name.clone(),
            target,
            workload: StreamLoad::Job(Box::new(load), Retries::default()),
            is_counted: true,
            outstanding_max: job.outstanding_max,
            late: Late::Queue,
            timeout: None,
            batch: job.batch,
            threads: 1,
            data: job.data.clone(),
            priority: job.priority,
            read_back: job.verify.reads_back() && writes,
        })
    }

    /// Refuses a job with `verify` that only reads what no job up to its group writes.
    fn check_readers(&self, phases: &[PhaseOptions], jobs: &[Job]) -> Result<(), Failure> {
        let writes =
            |stream: &StreamOptions| matches!(&stream.workload, StreamLoad::Job(load, _) if load.read < 1.0);
        for (number, phase) in phases.iter().enumerate() {
            for stream in phase.streams.iter().filter(|stream| !writes(stream)) {
                let name = stream.workload.name();
                let job = jobs.iter().find(|job| job.name == name);
                let Some((check, line)) = job.and_then(|job| job.verify.check.as_ref()) else { continue };
                let before = phases[..=number].iter().flat_map(|phase| &phase.streams);
                if before.filter(|other| writes(other)).any(|other| other.target == stream.target) {
                    continue;
                }
                let address = &self.targets[stream.target].address;
                let problem = format!(
                    "{}, line {line}: verify={check}: job `{name}` reads `{address}`, which no job up to its group writes",
                    self.label
                );
                return Err(Failure::new(problem).hint(
                    "blocks of an earlier fio have no stamps of seeklab: let a job above write them, or leave verify out of this one",
                ));
            }
        }
        Ok(())
    }

    /// Resolves the size and offset that are shares of the file, as fio rounds them.
    fn resolve_shares(&self, job: &Job, path: &Path, load: &mut FioLoad) -> Result<(), Failure> {
        if job.size_share.is_none() && job.offset_share.is_none() {
            return Ok(());
        }
        let of_file = || std::fs::File::open(path).and_then(|mut file| file.seek(SeekFrom::End(0))).ok();
        let known = if job.address.is_some() { None } else { of_file().or(job.file_bytes) };
        let Some(bytes) = known.filter(|bytes| *bytes > 0) else {
            let problem = format!(
                "{}, line {}: job `{}` has a share of a file as `size` or `offset`, and {} has no size",
                self.label,
                job.line,
                job.name,
                path.display()
            );
            return Err(Failure::new(problem).hint("name a file that is there, or write filesize or bytes"));
        };
        let unit = load.sizes.iter().flatten().map(|size| size.bytes).min().unwrap_or(1);
        let share = |share: f64| (bytes as f64 * share) as u64;
        if let Some(size) = job.size_share {
            load.size = Some(share(size) / unit * unit);
        }
        if let Some(offset) = job.offset_share {
            load.offset = share(offset).next_multiple_of(unit);
        }
        Ok(())
    }

    /// File of a clone of a job.
    fn path(job: &Job, clone: u64) -> PathBuf {
        let file = job.file.clone().unwrap_or_else(|| format!("{}.{clone}.0", job.name));
        job.directory.as_ref().map_or_else(|| PathBuf::from(&file), |folder| folder.join(&file))
    }

    /// Place of the target of a clone of a job. A file that is not there is made, and removed at the end.
    fn target(&mut self, job: &Job, load: &FioLoad, path: &Path) -> Result<usize, Failure> {
        let (address, create) = match (self.only, &job.address) {
            (Some(only), _) => (only.to_owned(), None),
            (None, Some(address)) => (address.clone(), None),
            (None, None) => {
                let create = match job.file_bytes.or_else(|| Some(load.offset + load.size?)) {
                    _ if path.exists() => None,
                    Some(bytes) => Some(ByteSize::from_bytes(bytes)),
                    None => {
                        let problem =
                            format!("{}, line {}: job `{}` has no `size`", self.label, job.line, job.name);
                        return Err(Failure::new(problem)
                            .hint("write for example size=1g, or name a file that is there"));
                    }
                };
                let path = path.to_string_lossy();
                (if job.is_one_at_a_time { format!("psync:{path}") } else { path.into_owned() }, create)
            }
        };
        // Only files have a page cache.
        let buffered = !job.is_direct && TargetKind::of(&address).0.is_of_kernel();
        let drops_pages = buffered && job.drops_pages;
        // With --on, the target may be one without a ring.
        let polling = if TargetKind::of(&address).0.can_poll() { job.polling } else { Polling::default() };
        if let Some(place) = self.targets.iter().position(|target| target.address == address) {
            let target = &mut self.targets[place];
            target.create = target.create.max(create);
            let is_of_job = job.address.is_none() && self.only.is_none();
            let apart = [
                ("direct", target.buffered != buffered),
                ("invalidate", target.drops_pages != drops_pages),
                ("sqthread_poll", target.polling.submission != polling.submission),
                ("hipri", target.polling.completion != polling.completion),
            ];
            if let Some((option, _)) = apart.into_iter().find(|(_, is_apart)| is_of_job && *is_apart) {
                let problem = format!(
                    "{}, line {}: `{address}` is used with `{option}=0` and `{option}=1`",
                    self.label, job.line
                );
                return Err(Failure::new(problem).hint("choose one for all jobs"));
            }
            return Ok(place);
        }
        self.targets.push(TargetChoice {
            address,
            setup: Setup::default(),
            buffered,
            drops_pages,
            polling,
            create,
            expected: ExpectedDevice::default(),
        });
        Ok(self.targets.len() - 1)
    }
}

/// The first job with `verify` whose target carries no data: line and value of the option, and the address.
fn dataless<'a>(jobs: &'a [Job], only: Option<&'a str>) -> Option<(usize, &'a str, &'a str)> {
    jobs.iter().find_map(|job| {
        let (check, line) = job.verify.check.as_ref()?;
        let address = only.or(job.address.as_deref())?;
        (!TargetKind::of(address).0.holds_data).then_some((*line, check.as_str(), address))
    })
}
