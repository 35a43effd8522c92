//! Figures of simulated hosts as rows, a column for each device: those of tables 4 and 6 of Ganger and Patt (1998).

use seeklab_analysis::{
    BreakdownSummary, ClassSummary, CriticalitySummaries, CriticalitySummary, HostProcess,
};
use seeklab_core::Criticality;

use crate::document::HostRow;
use crate::number::{column, count, fixed};

/// Rows under a heading.
pub(crate) struct Group {
    pub(crate) title: &'static str,
    pub(crate) rows: Vec<FigureRow>,
}

/// A figure of each device.
pub(crate) struct FigureRow {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) values: Vec<String>,
}

/// Format of the values of a row.
#[derive(Clone, Copy)]
enum Format {
    /// As many decimals as the values need.
    Fitting,
    /// A fixed number of decimals.
    Decimals(usize),
    Count,
}

use Format::{Count, Decimals, Fitting};

/// All figures of these hosts. Rows that no host has a value for are left out.
pub(crate) fn figures(hosts: &[HostRow]) -> Vec<Group> {
    let group =
        |title, rows: Vec<Option<FigureRow>>| Group { title, rows: rows.into_iter().flatten().collect() };
    let mut groups = vec![group("Task", task(hosts))];
    for (index, title) in ["Time-critical requests", "Time-limited requests", "Time-noncritical requests"]
        .into_iter()
        .enumerate()
    {
        groups.push(group(title, class(hosts, index)));
    }
    groups.push(group("All requests", requests(hosts)));
    groups
}

/// Reason why a host has no elapsed time, if it is incomplete.
pub(crate) const fn incomplete(host: &HostRow) -> &'static str {
    if host.summary.finished { "a process ended early" } else { "the task did not end" }
}

fn row(
    hosts: &[HostRow],
    name: &'static str,
    unit: &'static str,
    format: Format,
    value: impl Fn(&HostRow) -> Option<f64>,
) -> Option<FigureRow> {
    let values: Vec<Option<f64>> = hosts.iter().map(value).collect();
    if values.iter().all(Option::is_none) {
        return None;
    }
    let text = |format: fn(f64, usize) -> String, decimals: usize| {
        let cell =
            |value: &Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format(value, decimals));
        values.iter().map(cell).collect()
    };
    let values = match format {
        Fitting => column(&values),
        Decimals(decimals) => text(fixed, decimals),
        Count => text(|value, _| count(value as u64), 0),
    };
    Some(FigureRow { name, unit, values })
}

fn task(hosts: &[HostRow]) -> Vec<Option<FigureRow>> {
    let row = |name, unit, format, value: fn(&HostRow) -> Option<f64>| row(hosts, name, unit, format, value);
    vec![
        row("elapsed time", "s", Decimals(3), |host| {
            host.summary.is_complete().then_some(host.summary.elapsed_s)
        }),
        row("task CPU time", "s", Decimals(3), |host| Some(host.summary.task_cpu_s)),
        row("other CPU time", "s", Decimals(3), |host| Some(host.summary.other_cpu_s)),
        row("false idle time", "s", Decimals(3), |host| Some(host.summary.false_idle_s)),
        row("idle time", "s", Decimals(3), |host| Some(host.summary.idle_s)),
        row("CPU utilisation", "%", Decimals(1), |host| host.summary.cpu_utilisation_pct),
        row("I/O wait time", "s", Decimals(3), |host| Some(host.summary.io_wait_s)),
        row("I/O waits", "", Count, |host| Some(host.summary.io_waits as f64)),
        row("I/O wait, mean", "ms", Fitting, |host| host.summary.io_wait_mean_ms),
        row("interrupts", "", Count, |host| Some(host.summary.interrupts as f64)),
        row("context switches", "", Count, |host| Some(host.summary.context_switches as f64)),
    ]
}

/// Rows of the requests of a class, by its place in [`Criticality::ALL`].
fn class(hosts: &[HostRow], index: usize) -> Vec<Option<FigureRow>> {
    let of = |value: fn(&ClassSummary) -> Option<f64>| {
        move |host: &HostRow| value(host.summary.classes()[index].1)
    };
    // Not known if all requests have the same class.
    let more = |value: fn(&CriticalitySummary) -> Option<f64>| {
        move |host: &HostRow| {
            let classes: &CriticalitySummaries = host.requests.by_criticality.as_ref()?;
            value(classes.by_class()[index].1)
        }
    };
    let is_limited = Criticality::ALL[index] == Criticality::TimeLimited;
    let is_noncritical = Criticality::ALL[index] == Criticality::TimeNoncritical;
    vec![
        row(hosts, "requests", "", Count, of(|class| Some(class.requests as f64))),
        row(hosts, "response time, mean", "ms", Fitting, of(|class| class.response_mean_ms)),
        row(hosts, "response time, p99", "ms", Fitting, more(|class| class.response_p99_ms)),
        row(hosts, "response time, longest", "ms", Fitting, of(|class| class.response_max_ms)),
        row(hosts, "time limit, mean", "ms", Fitting, of(|class| class.limit_mean_ms)),
        row(hosts, "limits met", "%", Decimals(1), of(|class| class.met_pct)),
        row(hosts, "blocks never needed", "", Count, |host| {
            is_limited.then_some(host.summary.unneeded_read_ahead_blocks as f64)
        }),
        row(hosts, "that a process waited for", "", Count, |host| {
            is_noncritical.then_some(host.summary.turned_critical_requests as f64)
        }),
        row(
            hosts,
            "became time-critical",
            "",
            Count,
            more(|class| (class.became_time_critical > 0).then_some(class.became_time_critical as f64)),
        ),
        row(hosts, "wait since then, mean", "ms", Fitting, more(|class| class.wait_mean_ms)),
    ]
}

fn requests(hosts: &[HostRow]) -> Vec<Option<FigureRow>> {
    let row = |name, unit, format, value: fn(&HostRow) -> Option<f64>| row(hosts, name, unit, format, value);
    vec![
        row("requests", "", Count, |host| Some(host.requests.requests as f64)),
        row("response time, mean", "ms", Fitting, |host| Some(host.requests.response?.mean_ms)),
        row("service time, mean", "ms", Fitting, |host| Some(host.requests.service?.mean_ms)),
        row("access time, mean", "ms", Fitting, |host| host.requests.breakdown.as_ref().map(access_mean_ms)),
        row("seek time, mean", "ms", Fitting, |host| Some(host.requests.breakdown?.seek_mean_ms)),
        row("seek distance, mean", "cylinders", Decimals(1), |host| host.requests.seek_cylinders_mean),
        row("buffer hits", "%", Decimals(1), |host| host.requests.buffer_hits_pct),
    ]
}

/// Mean of positioning and transfer.
fn access_mean_ms(breakdown: &BreakdownSummary) -> f64 {
    breakdown.seek_mean_ms
        + breakdown.settle_mean_ms
        + breakdown.head_switch_mean_ms
        + breakdown.rotation_mean_ms
        + breakdown.transfer_mean_ms
}

/// Parts of the elapsed time of processes that are not zero for all of these: name and place among the parts.
pub(crate) fn parts<'a>(
    processes: impl Iterator<Item = &'a HostProcess> + Clone,
) -> Vec<(&'static str, usize)> {
    let names = HostProcess::default().parts_s().map(|(name, _)| name);
    let places = names.into_iter().enumerate();
    let is_used = |place: usize| processes.clone().any(|process| process.parts_s()[place].1 > 0.0);
    places.filter(|(place, _)| is_used(*place)).map(|(place, name)| (name, place)).collect()
}
