//! Simulated hosts on the page: a bar for each device, the figures of tables 4 and 6 of Ganger and Patt (1998), the course of
//! each run, and the times of its processes.

use minijinja::{Value, context};
use seeklab_analysis::{HostProcess, HostTimeline};

use super::chart::{Axis, Chart, Mark, Series};
use crate::document::HostRow;
use crate::host::{Group, figures, incomplete, parts};
use crate::number::{TimeUnit, count, fixed};

/// Processes of a device that have a bar at most: those that lived longest.
const BARS_MAX: usize = 24;

pub(super) fn context(rows: &[HostRow], charts: &mut Vec<Chart>) -> Value {
    charts.push(chart(rows));
    let groups: Vec<Value> =
        figures(rows).into_iter().filter(|group| !group.rows.is_empty()).map(group).collect();
    let names: Vec<String> = rows.iter().map(|row| row.device.clone()).collect();
    let courses: Vec<Value> =
        rows.iter().enumerate().flat_map(|(device, row)| courses(device, row, charts)).collect();
    let processes: Vec<Value> =
        rows.iter().enumerate().filter_map(|(device, row)| processes(device, row, charts)).collect();
    context! { chart => "host", names, groups, courses, processes }
}

fn group(group: Group) -> Value {
    let rows: Vec<Value> = group
        .rows
        .into_iter()
        .map(|row| context! { name => row.name, unit => row.unit, values => row.values })
        .collect();
    context! { title => group.title, rows }
}

fn chart(rows: &[HostRow]) -> Chart {
    let names = rows.first().map(|row| row.summary.parts_s()).unwrap_or_default();
    let series = names.iter().enumerate().map(|(part, (name, _))| {
        let seconds_of =
            |row: &HostRow| if row.summary.is_complete() { row.summary.parts_s()[part].1 } else { 0.0 };
        let seconds = rows.iter().enumerate().map(|(bar, row)| (bar as f64, seconds_of(row)));
        Series::new(name, Mark::Part, part, seconds)
    });
    let bars = rows.iter().map(|row| {
        let elapsed = || format!("{} s", fixed(row.summary.elapsed_s, 2));
        let text = if row.summary.is_complete() { elapsed() } else { incomplete(row).to_owned() };
        (row.device.clone(), text)
    });
    Chart::stack("host", Axis::linear("time of all CPUs", "s"), bars, series.collect())
}

/// Charts of the course of a run: the use of the CPUs, the number of waiting processes, and that of requests.
fn courses(device: usize, row: &HostRow, charts: &mut Vec<Chart>) -> Vec<Value> {
    let timeline = &row.timeline;
    if timeline.task_cpu_pct.is_empty() {
        return Vec::new();
    }
    let end_s = timeline.stretch_s * timeline.task_cpu_pct.len() as f64;
    let clock = TimeUnit::of_s(end_s);
    let time = || Axis::linear("time", clock.name).starting_at(0.0).ending_at(clock.scale_s(end_s));
    let layers = [
        ("task CPU", &timeline.task_cpu_pct),
        ("other CPU", &timeline.other_cpu_pct),
        ("false idle", &timeline.false_idle_pct),
        ("idle", &timeline.idle_pct),
    ];
    let layers = layers
        .into_iter()
        .enumerate()
        .map(|(style, (name, shares))| Series::new(name, Mark::Layer, style, steps(timeline, shares, clock)));
    let share = Axis::linear("share of the CPU time", "%").starting_at(0.0).ending_at(100.0);
    let cpus =
        Chart::plot(&format!("host-cpu{device}"), time(), share, with_end(layers, timeline, clock, 100.0));
    let levels = |id: &str, name: &str, values: &[f64]| {
        let highest = values.iter().copied().fold(0.0, f64::max);
        let level = [Series::new(name, Mark::Area, 0, steps(timeline, values, clock))].into_iter();
        let number = Axis::linear("mean number", "").starting_at(0.0);
        let series = with_end(level, timeline, clock, highest);
        Chart::plot(&format!("{id}{device}"), time(), number, series)
    };
    let waits = levels("host-waits", "processes that wait for I/O", &timeline.io_waiting_processes);
    let queue = levels("host-queue", "requests outstanding", &timeline.outstanding_requests);
    let place = |chart: &Chart, what: &str, caption: &str| {
        context! { id => chart.id.as_str(), title => format!("{}: {what}", row.device), caption }
    };
    let places = vec![
        place(&cpus, "CPUs", "Use of the CPUs. The dashed line is the end of the task."),
        place(&waits, "processes that wait for I/O", "Means over each interval."),
        place(
            &queue,
            "requests outstanding",
            "Means over each interval, from issue to the handled completion.",
        ),
    ];
    charts.extend([cpus, waits, queue]);
    places
}

/// Values of a timeline, each from the start of its interval, with the last one repeated at the end.
fn steps(timeline: &HostTimeline, values: &[f64], clock: TimeUnit) -> Vec<(f64, f64)> {
    let values = values.iter().chain(values.last());
    values
        .enumerate()
        .map(|(index, value)| (clock.scale_s(index as f64 * timeline.stretch_s), *value))
        .collect()
}

/// The series, and a line at the end of the task.
fn with_end(
    series: impl Iterator<Item = Series>,
    timeline: &HostTimeline,
    clock: TimeUnit,
    highest: f64,
) -> Vec<Series> {
    let end = timeline.task_end_s.map(|end_s| {
        let end = clock.scale_s(end_s);
        Series::new("end of the task", Mark::Guide, 0, [(end, 0.0), (end, highest)])
    });
    series.chain(end).collect()
}

/// A chart and a table of the processes of a device. `None` if they are not reported.
fn processes(device: usize, row: &HostRow, charts: &mut Vec<Chart>) -> Option<Value> {
    if row.processes.is_empty() {
        return None;
    }
    let parts = parts(row.processes.iter());
    // The system's own process is the last. Its idle time would hide the others.
    let mut longest: Vec<&HostProcess> = row.processes[..row.processes.len() - 1].iter().collect();
    longest.sort_by(|a, b| b.elapsed_s.total_cmp(&a.elapsed_s));
    longest.truncate(BARS_MAX);
    let series = parts.iter().map(|(name, part)| {
        let seconds = longest.iter().enumerate().map(|(bar, one)| (bar as f64, one.parts_s()[*part].1));
        Series::new(name, Mark::Part, *part, seconds)
    });
    let bars = longest.iter().map(|one| (one.name.clone(), format!("{} s", fixed(one.elapsed_s, 2))));
    let id = format!("host-processes{device}");
    charts.push(Chart::stack(&id, Axis::linear("time", "s"), bars, series.collect()));
    let cells = |one: &HostProcess| {
        let all = one.parts_s();
        let times = [one.elapsed_s].into_iter().chain(parts.iter().map(|(_, part)| all[*part].1));
        let times: Vec<String> = times.map(|seconds| fixed(seconds, 3)).collect();
        context! { name => one.name.as_str(), count => count(one.processes), times }
    };
    Some(context! {
        chart => id,
        device => row.device.as_str(),
        parts => parts.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        rows => row.processes.iter().map(cells).collect::<Vec<_>>(),
        omitted => (row.processes.len() - 1).saturating_sub(BARS_MAX),
    })
}
