//! The page: whole, safe, and the same for the same report.

use std::io::Write as _;
use std::process::{Command, Stdio};

use seeklab_analysis::{HostSummary, HostTimeline, MetricsSummary};
use seeklab_core::Seed;
use seeklab_report::{
    HostRow, Note, Page, PageSection, PlainTable, Plot, PlotAxis, PlotMark, PlotScale, PlotSeries, Report,
    render_html, render_page_html,
};

use crate::synthetic;

fn full() -> Report {
    Report {
        comparisons: vec![synthetic::comparison(500)],
        points: vec![synthetic::points(500)],
        experiment: Some(synthetic::experiment(200)),
        ..synthetic::report(600)
    }
}

#[test]
fn page_makes_no_network_requests() {
    let page = render_html(&full());
    let without_namespace = page.replace("http://www.w3.org/2000/svg", "");
    for forbidden in ["http://", "https://", "src=", "@import", "<link", "fetch(", "XMLHttpRequest", "href="]
    {
        assert!(!without_namespace.contains(forbidden), "the page contains {forbidden}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn page_contains_the_figures() {
    let report = full();
    let page = render_html(&report);
    for device in &report.devices {
        assert!(page.contains(&device.name));
        let mean = format!("{:.3}", device.summary.response.unwrap().mean_ms);
        assert!(page.contains(&mean), "{}: no {mean}", device.name);
    }
    for text in [
        "EA_rms",
        "seed 42",
        "--report four.html",
        "data sheet, page 12",
        "response_mean_ms",
        "<strong>warning</strong>",
        "<strong>trust</strong> This run can be trusted with care: ",
        "Arrival and completion apart",
        "Deadlines missed: 2 of 500",
    ] {
        assert!(page.contains(text), "the page lacks {text}");
    }
    assert_eq!(page.matches("<figure data-chart").count(), 6 + 4 + 5 + 5 + 2);
    for place in page.split("<figure data-chart=\"").skip(1) {
        let id = place.split('"').next().unwrap();
        assert!(page.contains(&format!("{{\"id\":\"{id}\",")), "no data for the chart {id}");
    }
}

#[test]
fn names_are_escaped() {
    let evil = "</script><script>alert('x')</script><img src=x onerror=alert(1)>\"'&";
    let mut report = full();
    report.title = evil.to_owned();
    report.subtitle = evil.to_owned();
    report.command = Some(evil.to_owned());
    report.generated_by = evil.to_owned();
    report.notes.push(Note::Remark(evil.to_owned()));
    report.parameters.push(synthetic::parameter(evil, evil, Some(evil)));
    for device in &mut report.devices {
        device.name = evil.to_owned();
        device.description = evil.to_owned();
        device.parameters.push(synthetic::parameter(evil, evil, Some(evil)));
    }
    report.comparisons[0].reference = evil.to_owned();
    report.comparisons[0].other = evil.to_owned();
    report.points[0].comparison.reference = evil.to_owned();
    report.points[0].trust.sentence = evil.to_owned();
    let experiment = report.experiment.as_mut().unwrap();
    experiment.dimensions[0] = evil.to_owned();
    experiment.figures[0] = evil.to_owned();
    experiment.parameter = Some(evil.to_owned());
    experiment.cells[0].values[0] = evil.to_owned();
    experiment.cells[0].series = evil.to_owned();
    let page = render_html(&report);
    assert!(!page.contains("<script>alert"));
    assert!(!page.contains("<img"));
    assert_eq!(page.matches("<script").count(), 2);
    assert_eq!(page.matches("</script>").count(), 2);
}

#[test]
fn equal_reports_give_equal_bytes() {
    assert_eq!(render_html(&full()), render_html(&full()));
}

#[test]
fn empty_report_gives_a_page() {
    let page = render_html(&Report { seed: Some(Seed(0)), ..Report::default() });
    assert!(page.contains("<title>seeklab report</title>"));
    assert!(page.contains("seed 0"));
    assert!(!page.contains("<figure data-chart"));
    let one = Report { devices: synthetic::report(1).devices, ..Report::default() };
    assert!(render_html(&one).contains("cheetah-36es"));
}

#[test]
fn page_is_small_for_a_long_run() {
    let page = render_html(&synthetic::report(50_000));
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
}

#[test]
fn outliers_are_kept_in_the_errors_of_a_long_run() {
    let section = synthetic::points(20_000);
    let largest = section.comparison.errors.iter().map(|(_, error)| *error).fold(0.0, f64::max);
    assert_eq!(largest, 7.031, "the reply that was 7 ms late");
    assert!(section.comparison.errors.len() <= 4_000);
    let page = render_html(&Report { points: vec![section], ..Report::default() });
    assert!(page.contains(",7.031]"), "it is in the plot");
    assert!(page.contains("every outlier is drawn") && page.contains("lie outside the axis"));
}

#[test]
fn page_of_plots_contains_its_tables_and_makes_no_network_requests() {
    let evil = "</script><b>alert</b>";
    let page = Page {
        title: evil.to_owned(),
        notes: vec!["the parts are alike".to_owned()],
        sections: vec![
            PageSection {
                title: "Tails".to_owned(),
                text: vec!["a paragraph".to_owned(), evil.to_owned()],
                command: Some("seeklab again".to_owned()),
                tables: vec![PlainTable {
                    columns: vec!["response time".to_owned(), "p99 ms".to_owned()],
                    rows: vec![vec!["measured".to_owned(), "12.345".to_owned()]],
                    caption: String::new(),
                }],
                plots: vec![
                    Plot {
                        title: "Over both logarithms".to_owned(),
                        x: PlotAxis::new("response time", "ms", PlotScale::Log),
                        y: PlotAxis::new("longer", "%", PlotScale::Log),
                        series: vec![PlotSeries::new(
                            evil,
                            PlotMark::Line,
                            [(0.0, 5.0), (1.0, 0.0), (2.0, 3.25)],
                        )],
                        ..Plot::default()
                    },
                    Plot { title: "of nothing".to_owned(), ..Plot::default() },
                ],
            },
            PageSection { title: "nothing here".to_owned(), ..PageSection::default() },
        ],
        ..Page::default()
    };
    let html = render_page_html(&page);
    for text in [
        "12.345",
        "the parts are alike",
        "a paragraph",
        "seeklab again",
        "[[2.0,3.25]]",
        "default-src 'none'",
    ] {
        assert!(html.contains(text), "the page lacks {text}");
    }
    for text in [evil, "of nothing", "nothing here", "src=", "<link"] {
        assert!(!html.contains(text), "the page contains {text}");
    }
    assert_eq!(html.matches("<figure data-chart").count(), 1);
}

#[test]
fn axis_of_stacked_bars_begins_at_zero() {
    let page = render_html(&synthetic::report(300));
    let begin = "<script type=\"application/json\" id=\"charts\">";
    let data = page.split(begin).nth(1).and_then(|rest| rest.split("</script>").next()).expect("charts");
    let charts: Vec<serde_json::Value> = serde_json::from_str(data).unwrap();
    let stacks: Vec<_> = charts.iter().filter(|chart| chart["kind"] == "stack").collect();
    assert!(!stacks.is_empty());
    for chart in stacks {
        assert_eq!(chart["x"]["min"], 0.0, "{}", chart["id"]);
        let bars = chart["categories"].as_array().unwrap().len();
        assert_eq!(chart["totals"].as_array().unwrap().len(), bars);
        assert!(
            chart["series"]
                .as_array()
                .unwrap()
                .iter()
                .all(|part| part["points"].as_array().unwrap().len() == bars)
        );
    }
}

/// Values that the page's script shows for each series of chart `id` at `x`, null where it shows none; `None` if
/// there is no interpreter for the script.
fn values_under_cursor(page: &str, id: &str, x: f64) -> Option<serde_json::Value> {
    const VALUES: &str = include_str!("../../src/html/values.js");
    assert!(page.contains(VALUES), "the page reads values with the script under test");
    let begin = "<script type=\"application/json\" id=\"charts\">";
    let data = page.split(begin).nth(1).and_then(|rest| rest.split("</script>").next()).expect("charts");
    let script = format!(
        "{VALUES}\nconst chart = {data}.find((chart) => chart.id === {id:?});\n\
         const at = (series) => pointAt(series, {x}, chart, (value) => value)?.[1] ?? null;\n\
         console.log(JSON.stringify(chart.series.map(at)));"
    );
    let node = Command::new("node").arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut node) = node else {
        eprintln!("skipped: `node` is not installed");
        return None;
    };
    node.stdin.take().expect("piped").write_all(script.as_bytes()).unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success(), "{script}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn tooltip_shows_no_rate_after_the_end_of_a_run() {
    let mut report = synthetic::report(600);
    let short: Vec<_> = synthetic::run(&synthetic::PROFILES[1], 300, 8.0, 42);
    let short = seeklab_report::DeviceSection::new("short", "", &synthetic::metrics(&short));
    let (end_s, last_s) = (short.summary.duration_s, report.devices[0].summary.duration_s);
    assert!(last_s > 3.0 * end_s, "{end_s} {last_s}");
    report.devices = vec![report.devices.remove(0), short];
    let page = render_html(&report);
    let Some(inside) = values_under_cursor(&page, "throughput", end_s / 2.0) else { return };
    assert!(inside.as_array().unwrap().iter().all(|value| value.as_f64().unwrap() > 0.0), "{inside}");
    let after = values_under_cursor(&page, "throughput", 2.0 * end_s).unwrap();
    assert!(after[0].as_f64().unwrap() > 0.0 && after[1].is_null(), "{after}");
}

#[test]
fn course_of_a_host_is_layers_that_hold_until_the_next() {
    let timeline = HostTimeline {
        stretch_s: 2.0,
        task_start_s: Some(0.0),
        task_end_s: Some(3.5),
        task_cpu_pct: vec![50.0, 10.0],
        other_cpu_pct: vec![20.0, 0.0],
        false_idle_pct: vec![30.0, 0.0],
        idle_pct: vec![0.0, 90.0],
        io_waiting_processes: vec![1.0, 0.25],
        outstanding_requests: vec![8.0, 2.0],
    };
    let summary = HostSummary { elapsed_s: 3.5, cpus: 1, ..HostSummary::default() };
    let requests = report_of_host_requests();
    let row = HostRow { device: "disk".to_owned(), summary, requests, timeline, processes: Vec::new() };
    let page = render_html(&Report { hosts: vec![row], ..Report::default() });
    let Some(early) = values_under_cursor(&page, "host-cpu0", 1.9) else { return };
    // The end of the task is a line, which is no value.
    assert_eq!(early.as_array().unwrap()[..4], [50, 20, 30, 0].map(serde_json::Value::from));
    let late = values_under_cursor(&page, "host-cpu0", 2.1).unwrap();
    assert_eq!(late.as_array().unwrap()[..4], [10, 0, 0, 90].map(serde_json::Value::from));
    assert!(values_under_cursor(&page, "host-cpu0", 4.1).unwrap()[0].is_null(), "the run has ended");
    let waits = values_under_cursor(&page, "host-waits0", 1.0).unwrap();
    assert_eq!(waits[0], 1);
    assert_eq!(values_under_cursor(&page, "host-queue0", 3.0).unwrap()[0], 2);
}

fn report_of_host_requests() -> MetricsSummary {
    synthetic::report(50).devices[0].summary.clone()
}

#[test]
fn tooltip_shows_no_figure_of_another_cell() {
    let mut experiment = synthetic::experiment(200);
    for cell in &mut experiment.cells {
        // The first device cannot sustain the highest rate.
        if cell.series == synthetic::PROFILES[0].name && cell.x == 80.0 {
            cell.figures.fill(None);
        }
    }
    let page = render_html(&Report { experiment: Some(experiment), ..Report::default() });
    let Some(values) = values_under_cursor(&page, "experiment0", 80.0) else { return };
    assert!(values[0].is_null() && values[1].as_f64().unwrap() > 0.0, "{values}");
    let values = values_under_cursor(&page, "experiment0", 60.0).unwrap();
    assert!(values[0].as_f64().unwrap() > 0.0, "{values}");
}

#[test]
fn tooltip_of_a_distribution_stays_whole_and_of_a_histogram_ends() {
    let plot = |max: Option<f64>| Plot {
        y: PlotAxis { max, ..PlotAxis::new("share", "%", PlotScale::Linear) },
        series: vec![
            PlotSeries::new("a", PlotMark::Step, [(1.0, 40.0), (2.0, 100.0)]),
            PlotSeries::new("b", PlotMark::Line, [(1.0, 40.0), (2.0, 100.0)]),
        ],
        ..Plot::default()
    };
    let section = PageSection { plots: vec![plot(Some(100.0)), plot(None)], ..PageSection::default() };
    let page = render_page_html(&Page { sections: vec![section], ..Page::default() });
    for (chart, x, expected) in [
        ("plot-0", 0.5, "[0,null]"),
        ("plot-0", 1.5, "[40,40]"),
        ("plot-0", 3.0, "[100,null]"),
        ("plot-1", 1.9, "[40,100]"),
        ("plot-1", 3.0, "[0,null]"),
    ] {
        let Some(values) = values_under_cursor(&page, chart, x) else { return };
        assert_eq!(values.to_string(), expected, "{chart} at {x}");
    }
}
