//! A system-level trace in characters: where the time of each process went.

use seeklab_lab::crates::core::number_words::numbered;
use seeklab_lab::crates::report::{TextTable, folded};
use seeklab_lab::system::{CpuTimes, ProcessTimes, SystemInfo};

/// Maximum number of processes on a page: those with the longest elapsed times.
const PROCESSES_SHOWN: usize = 16;

/// Kinds of events on a page: the most frequent ones.
const KINDS_SHOWN: usize = 5;

/// Describes a trace in lines.
pub(super) fn system_page(info: &SystemInfo) -> String {
    let mut text = format!("{}\n", info.file);
    let mut line = |name: &str, value: String| {
        text += &format!("{}\n", folded(&format!("  {name:<16} {value}"), 19));
    };
    line("command", info.command.join(" "));
    line("device", format!("{} ({}), Linux {}", info.device, info.file_system, info.kernel));
    line(
        "duration",
        format!("{:.3} s, of which the command {:.3} s", info.elapsed_s, info.command_elapsed_s),
    );
    line("requests", info.requests.to_string());
    line("events", format!("{} ({} lost, {} repaired)", info.events, info.lost_events, info.repairs));
    line(
        "waits",
        format!("{}; {:.2} % of the time without a known cause", info.task.wait_count, info.unknown_pct),
    );
    line("recording", recording(info));
    text += &format!("\n{}\n\n{}\n", processes(info), cpus(&info.cpus));
    let hidden = info.processes.len().saturating_sub(PROCESSES_SHOWN);
    if hidden > 0 {
        text += &format!("\n{}\n", numbered(hidden, "more thread[|s] [is|are] part of the sum"));
    }
    for note in &info.notes {
        text += &format!("{}\n", folded(&format!("warning: {note}"), 2));
    }
    text
}

/// The cost of the recording, and the kinds of events that came most often.
fn recording(info: &SystemInfo) -> String {
    let cost = match (info.recording_cost, info.recording_pct) {
        (Some(cost), Some(share)) => format!(
            "{share:.2} % of the elapsed time, at {} ns for an event of a system call and {} ns for another; taken out of \
             the computing time",
            cost.call_event_ns, cost.other_event_ns
        ),
        _ => "not calibrated; it is part of the computing time".to_owned(),
    };
    let mut kinds: Vec<(&str, u64)> =
        info.events_by_kind.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let kinds: Vec<String> =
        kinds.iter().take(KINDS_SHOWN).map(|(kind, count)| format!("{count} {kind}")).collect();
    if kinds.is_empty() { cost } else { format!("{cost}. Most events: {}", kinds.join(", ")) }
}

/// Times of a process in a fixed order.
fn times(process: &ProcessTimes) -> Vec<(&'static str, f64)> {
    let running = [
        ("computing", process.computing_s),
        ("recording", process.recording_s.unwrap_or(0.0)),
        ("interrupted", process.interrupted_s),
        ("ready", process.ready_s),
    ];
    running.into_iter().chain(process.waits.by_name()).collect()
}

/// A column for each process, and a row for each part of its time that is not zero everywhere.
fn processes(info: &SystemInfo) -> String {
    let mut shown: Vec<&ProcessTimes> = info.processes.iter().collect();
    if shown.len() > PROCESSES_SHOWN {
        shown.sort_by(|one, other| other.elapsed_s.total_cmp(&one.elapsed_s));
        shown.truncate(PROCESSES_SHOWN);
        shown.sort_by(|one, other| one.begin_s.total_cmp(&other.begin_s));
    }
    let all = times(&info.task);
    let parts: Vec<usize> = (0..all.len()).filter(|index| all[*index].1 > 0.0).collect();
    let header = ["thread", "name", "elapsed s"].into_iter().map(str::to_owned);
    let header = header.chain(parts.iter().map(|index| format!("{} s", all[*index].0)));
    let mut table = TextTable::new(header).with_keys(2).with_texts(2).with_rule();
    for process in shown {
        let times = times(process);
        let row = [process.thread.to_string(), process.name.clone(), format!("{:.6}", process.elapsed_s)];
        table.push(row.into_iter().chain(parts.iter().map(|index| format!("{:.6}", times[*index].1))));
    }
    if info.processes.len() > 1 {
        let row = [String::new(), "sum".to_owned(), format!("{:.6}", info.task.elapsed_s)];
        table.push(row.into_iter().chain(parts.iter().map(|index| format!("{:.6}", all[*index].1))));
    }
    let share = |seconds: f64| format!("{:.2}", 100.0 * seconds / info.task.elapsed_s.max(1e-9));
    let row = [String::new(), "% of elapsed".to_owned(), share(info.task.elapsed_s)];
    table.push(row.into_iter().chain(parts.iter().map(|index| share(all[*index].1))));
    table.render()
}

fn cpus(cpus: &[CpuTimes]) -> String {
    let mut table = TextTable::new([
        "cpu",
        "task s",
        "kernel s",
        "emulator s",
        "recorder s",
        "other s",
        "interrupts s",
        "idle s",
        "unrecorded s",
        "interrupts",
        "softirqs",
        "switches",
    ])
    .with_rule();
    for cpu in cpus {
        let times = [
            cpu.task_s,
            cpu.kernel_s,
            cpu.emulator_s,
            cpu.recorder_s,
            cpu.other_s,
            cpu.interrupt_s,
            cpu.idle_s,
            cpu.unknown_s,
        ];
        let counts = [cpu.interrupts, cpu.softirqs, cpu.switches];
        let times = times.iter().map(|seconds| format!("{seconds:.3}"));
        let counts = counts.iter().map(u64::to_string);
        table.push([cpu.cpu.to_string()].into_iter().chain(times).chain(counts));
    }
    table.render()
}
