//! Counters of this process and of watched processes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use procfs_core::prelude::FromRead;
use procfs_core::process::{Io, Stat, Status};

use super::Watch;
use super::machine::system;
use super::snapshot::{CounterScope, Snapshot, Thing};

/// Reads the counters of this process and of those that are watched.
pub(super) fn read(root: &Path, watch: &[Watch], snapshot: &mut Snapshot, missing: &mut Vec<String>) {
    of_process(root, "self", CounterScope::Own, snapshot, missing);
    let names: Vec<&str> = watch
        .iter()
        .filter_map(|watch| match watch {
            Watch::Name(name) => Some(name.as_str()),
            Watch::Process(_) => None,
        })
        .collect();
    let mut numbers: Vec<u32> = watch
        .iter()
        .filter_map(|watch| match watch {
            Watch::Process(number) => Some(*number),
            Watch::Name(_) => None,
        })
        .collect();
    if !names.is_empty() {
        let named = named(root, &names).into_iter().filter(|number| !numbers.contains(number));
        numbers.extend(named.collect::<Vec<u32>>());
    }
    for number in numbers {
        of_process(root, &number.to_string(), CounterScope::Process, snapshot, missing);
    }
}

/// Numbers of the other processes that have one of these names.
pub(super) fn named(root: &Path, names: &[&str]) -> Vec<u32> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let own = std::process::id();
    let is_named = |number: &u32| {
        // The kernel keeps 15 bytes of a name.
        let comm = fs::read_to_string(root.join(number.to_string()).join("comm")).unwrap_or_default();
        let is_it = |name: &&str| name.as_bytes()[..name.len().min(15)] == *comm.trim_end().as_bytes();
        *number != own && names.iter().any(is_it)
    };
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter(is_named).collect()
}

/// Reads the counters of a process. One that has ended has none.
fn of_process(
    root: &Path,
    number: &str,
    scope: CounterScope,
    snapshot: &mut Snapshot,
    missing: &mut Vec<String>,
) {
    let folder = root.join(number);
    let Ok(stat) = Stat::from_file(folder.join("stat")) else { return };
    let system = system();
    let seconds = |ticks: u64| ticks as f64 / system.ticks_per_second as f64;
    let mut amounts = vec![
        ("user_processors", seconds(stat.utime)),
        ("system_processors", seconds(stat.stime)),
        ("resident_bytes", (stat.rss * system.page_size) as f64),
        ("threads", stat.num_threads as f64),
        ("process_major_faults_per_second", stat.majflt as f64),
    ];
    match Io::from_file(folder.join("io")) {
        Ok(io) => amounts.extend([
            ("device_read_bytes_per_second", io.read_bytes as f64),
            ("device_written_bytes_per_second", io.write_bytes as f64),
        ]),
        Err(error) => {
            let text = format!("{error}");
            if folder.exists() && !missing.contains(&text) {
                missing.push(text);
            }
        }
    }
    let name = match scope {
        CounterScope::Own => String::new(),
        _ => format!("{} ({})", stat.comm, stat.pid),
    };
    snapshot.add(scope, &name, stat.starttime, amounts);
    let mut threads = BTreeMap::new();
    for entry in fs::read_dir(folder.join("task")).into_iter().flatten().flatten() {
        let Some(thread) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(status) = Status::from_file(entry.path().join("status")) else { continue };
        let switches = [status.voluntary_ctxt_switches, status.nonvoluntary_ctxt_switches];
        threads.insert(thread, switches.map(Option::unwrap_or_default));
    }
    let thing = Thing { scope, name, generation: stat.starttime };
    snapshot.threads.insert(thing, threads);
}
