//! The page: whole, safe, and the same for the same report.

mod synthetic;

use seeklab_core::Seed;
use seeklab_report::{
    Note, Page, PageSection, PlainTable, Plot, PlotAxis, PlotMark, PlotScale, PlotSeries, Report,
    render_html, render_page_html,
};

fn full() -> Report {
    Report {
        comparisons: vec![synthetic::comparison(500)],
        points: vec![synthetic::points(500)],
        experiment: Some(synthetic::experiment(200)),
        ..synthetic::report(600)
    }
}

#[test]
fn does_the_page_ask_nothing_of_any_network() {
    let page = render_html(&full());
    let without_namespace = page.replace("http://www.w3.org/2000/svg", "");
    for forbidden in ["http://", "https://", "src=", "@import", "<link", "fetch(", "XMLHttpRequest", "href="]
    {
        assert!(!without_namespace.contains(forbidden), "the page contains {forbidden}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn does_the_page_hold_the_figures() {
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
fn can_no_name_break_out_of_its_place() {
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
fn do_the_same_reports_give_the_same_bytes() {
    assert_eq!(render_html(&full()), render_html(&full()));
}

#[test]
fn is_an_empty_report_a_page_too() {
    let page = render_html(&Report { seed: Some(Seed(0)), ..Report::default() });
    assert!(page.contains("<title>seeklab report</title>"));
    assert!(page.contains("seed 0"));
    assert!(!page.contains("<figure data-chart"));
    let one = Report { devices: synthetic::report(1).devices, ..Report::default() };
    assert!(render_html(&one).contains("cheetah-36es"));
}

#[test]
fn is_the_page_small_whatever_the_run() {
    let page = render_html(&synthetic::report(50_000));
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
}

#[test]
fn is_no_outlier_cut_from_the_errors_of_a_long_run() {
    let section = synthetic::points(20_000);
    let largest = section.comparison.errors.iter().map(|(_, error)| *error).fold(0.0, f64::max);
    assert_eq!(largest, 7.031, "the reply that was 7 ms late");
    assert!(section.comparison.errors.len() <= 4_000);
    let page = render_html(&Report { points: vec![section], ..Report::default() });
    assert!(page.contains(",7.031]"), "it is in the plot");
    assert!(page.contains("no outlier is left out") && page.contains("lie outside the axis"));
}

#[test]
fn does_a_page_of_plots_hold_its_tables_and_ask_nothing_of_any_network() {
    let evil = "</script><b>alert</b>";
    let page = Page {
        title: evil.to_owned(),
        notes: vec!["the parts are alike".to_owned()],
        sections: vec![
            PageSection {
                title: "Tails".to_owned(),
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
    for text in
        ["12.345", "the parts are alike", "Over both logarithms", "[[2.0,3.25]]", "default-src 'none'"]
    {
        assert!(html.contains(text), "the page lacks {text}");
    }
    for text in [evil, "of nothing", "nothing here", "src=", "<link"] {
        assert!(!html.contains(text), "the page contains {text}");
    }
    assert_eq!(html.matches("<figure data-chart").count(), 1);
}
