//! Documents, groups and jobs.

use std::collections::BTreeMap;

use seeklab_core::Operation;
use serde_json::{Map, Value};

use super::figures::{DIRECTIONS, MIXED, component, elapsed_s, flushes, merged};
use super::options::{Options, Pattern};
use super::{Component, Load, Loop, Sweep};
use crate::failure::Failure;

/// Reads what a file of fio's holds: one document or several, text before each passed over.
///
/// # Errors
/// If it is not JSON, not fio's, or fio's before version 3.
pub fn read(bytes: &[u8]) -> Result<Sweep, Failure> {
    let mut sweep = Sweep::default();
    let mut documents = 0;
    let mut begin = 0;
    while let Some(next) = bytes[begin..].iter().position(|byte| *byte == b'{') {
        begin += next;
        let mut stream = serde_json::Deserializer::from_slice(&bytes[begin..]).into_iter::<Value>();
        match stream.next() {
            Some(Ok(value)) => {
                documents += 1;
                document(&value, &mut sweep)?;
                begin += stream.byte_offset().max(1);
            }
            Some(Err(error)) => {
                let line = 1 + bytes[..begin].iter().filter(|byte| **byte == b'\n').count();
                return Err(Failure::new(format!(
                    "the document that begins in line {line} is not JSON: {error}"
                ))
                .hint(
                    "write it with `fio --output-format=json --output=FILE`, without other formats beside",
                ));
            }
            None => break,
        }
    }
    if documents == 0 {
        return Err(
            Failure::new("there is no JSON object in it").hint("write it with `fio --output-format=json`")
        );
    }
    Ok(sweep)
}

fn document(value: &Value, sweep: &mut Sweep) -> Result<(), Failure> {
    let version = value.get("fio version").and_then(Value::as_str).ok_or_else(|| {
        Failure::new("`fio version` is missing, so it is not fio's")
            .hint("write it with `fio --output-format=json`")
    })?;
    let major = version.strip_prefix("fio-").and_then(|text| text.split(['.', '-']).next());
    match major.and_then(|text| text.parse::<u32>().ok()) {
        Some(major) if major >= 3 => {}
        _ => {
            return Err(Failure::new(format!("`fio version` is `{version}`, allowed is fio-3 and later"))
                .hint("fio 2 writes times in microseconds; run it with fio 3"));
        }
    }
    let jobs = value.get("jobs").and_then(Value::as_array);
    let jobs = jobs.ok_or_else(|| Failure::new("`jobs` is missing or no list").hint("is the file whole?"))?;
    let global = value.get("global options").and_then(Value::as_object);
    let mut groups: BTreeMap<i64, Vec<&Map<String, Value>>> = BTreeMap::new();
    for (index, job) in jobs.iter().enumerate() {
        let job = job.as_object().ok_or_else(|| Failure::new(format!("`jobs[{index}]` is no object")))?;
        groups.entry(job.get("groupid").and_then(Value::as_i64).unwrap_or(0)).or_default().push(job);
    }
    for group in groups.values() {
        let mut names: Vec<&str> = group.iter().map(|job| name(job)).collect();
        names.dedup();
        let name = names.join("+");
        match load(&name, group, global, &mut sweep.notes) {
            Ok(Some(load)) => sweep.loads.push(load),
            Ok(None) => sweep.notes.push(format!("{name} was left out: no request was made")),
            Err(problem) => sweep.notes.push(format!("{name} was left out: {problem}")),
        }
    }
    Ok(())
}

fn name(job: &Map<String, Value>) -> &str {
    job.get("jobname").and_then(Value::as_str).unwrap_or("unnamed")
}

/// Returns the keys under which the requests of a job are reported, with their operations.
fn directions(
    job: &Map<String, Value>,
    options: &Options<'_>,
) -> Result<Vec<(&'static str, Operation)>, String> {
    let apart = DIRECTIONS.iter().any(|(key, _)| job.contains_key(*key));
    if apart || !job.contains_key(MIXED) {
        return Ok(DIRECTIONS.to_vec());
    }
    let only = options.only_direction().ok_or(
        "its directions were reported as one (`unified_rw_reporting=mixed`), so the times of neither are known; \
         run it with `both` or `none`",
    )?;
    Ok(vec![(MIXED, only)])
}

/// Returns the flushes of a job. If they cannot be used, adds a note with the reason.
fn flushes_of(
    name: &str,
    job: &Map<String, Value>,
    options: &Options<'_>,
    notes: &mut Vec<String>,
) -> Option<Component> {
    let sync = job.get("sync").and_then(Value::as_object)?;
    let found = match (flushes(sync, elapsed_s(job)), options.why_not_flushes()) {
        (Ok(Some(_)), Some(why)) => Err(why.to_owned()),
        (found, _) => found,
    };
    match found {
        Ok(found) => {
            let beside = options.beside_the_device().filter(|_| found.is_some());
            notes.extend(
                beside.map(|beside| format!("{name}: the times of its flushes are those of {beside} too")),
            );
            found
        }
        Err(problem) => {
            notes.push(format!("{name}: its flushes were left out: {problem}"));
            None
        }
    }
}

/// Adds what a job made to what others made, one kind to its like; its place and how many per second.
fn add(components: &mut Vec<Component>, found: Component) -> (usize, f64) {
    let iops = found.iops;
    let kind = |of: &Component| (of.op, of.bytes, of.is_sequential);
    match components.iter().position(|of| kind(of) == kind(&found)) {
        Some(place) => {
            components[place] = merged(&components[place], &found);
            (place, iops)
        }
        None => {
            components.push(found);
            (components.len() - 1, iops)
        }
    }
}

/// Returns the load of jobs that ran at the same time. `None` if they made no requests.
fn load(
    name: &str,
    jobs: &[&Map<String, Value>],
    global: Option<&Map<String, Value>>,
    notes: &mut Vec<String>,
) -> Result<Option<Load>, String> {
    let (mut components, mut loops): (Vec<Component>, Vec<Loop>) = (Vec::new(), Vec::new());
    let mut region_bytes = None;
    // With `group_reporting` the jobs that were made of one stand as one; else each stands alone.
    let mut unseen: BTreeMap<&str, u64> = BTreeMap::new();
    for job in jobs {
        *unseen.entry(self::name(job)).or_default() += 1;
    }
    for job in jobs {
        if let Some(error) = job.get("error").and_then(Value::as_i64).filter(|error| *error != 0) {
            return Err(format!("job `{}` ended with error {error}", self::name(job)));
        }
        let options = Options { own: job.get("job options").and_then(Value::as_object), global };
        let copies = options.jobs()?;
        let copies = if unseen[self::name(job)] == copies { 1 } else { copies };
        let pattern = options.pattern()?;
        let alone = copies == 1 && jobs.len() == 1;
        let mut made = Vec::new();
        for (key, op) in directions(job, &options)? {
            let Some(direction) = job.get(key).and_then(Value::as_object) else { continue };
            let found = component(direction, op, pattern).map_err(|problem| format!("{key}: {problem}"))?;
            if key == MIXED && found.is_some() {
                notes.push(format!(
                    "{name}: directions were reported as one (`unified_rw_reporting`); all are {}s, as `rw` says",
                    op.name()
                ));
            }
            if found.is_some() && pattern == Pattern::Sequential && !alone {
                return Err(
                    "sequential jobs beside others: what reaches the device is neither sequential nor \
                            random"
                        .to_owned(),
                );
            }
            made.extend(found);
        }
        made.extend(flushes_of(name, job, &options, notes));
        let makes: Vec<_> = made.into_iter().map(|found| add(&mut components, found)).collect();
        if makes.is_empty() {
            continue;
        }
        let depth = options.depth()?.saturating_mul(copies);
        let depth = u32::try_from(depth).ok().filter(|depth| *depth <= 1 << 16);
        loops.push(Loop { depth: depth.ok_or("more than 65536 requests would be outstanding")?, makes });
        region_bytes = region_bytes.max(options.region_bytes());
    }
    if loops.iter().fold(0_u32, |sum, of| sum.saturating_add(of.depth)) > 1 << 16 {
        return Err("more than 65536 requests would be outstanding".to_owned());
    }
    Ok((!loops.is_empty()).then(|| Load { name: name.to_owned(), components, loops, region_bytes }))
}
