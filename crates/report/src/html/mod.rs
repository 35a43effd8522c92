//! The report as one HTML page that needs nothing else.
//!
//! Rust decides what is drawn: tables are in the page as text, charts as data in one JSON document
//! that the page's own script draws as SVG (`chart.js`) and reads values from (`values.js`). Text enters the page through the template's
//! escaping or as JSON whose `<`, `>` and `&` are escaped, so no name can break out of its place; the
//! content policy in the page forbids any request.

mod application;
mod chart;
mod comparison;
mod devices;
mod experiment;
mod host;
mod json;
mod live;
mod page;
mod points;
mod table;
mod trace;

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, context};

use crate::document::Report;
use chart::Chart;

pub use live::{CHART_SCRIPT, PAGE_STYLE, chart_data};
pub use page::render_page_html;
pub use trace::render_trace_html;

const TRACE_TEMPLATE: &str = include_str!("trace.html");
const PAGE_TEMPLATE: &str = include_str!("page.html");
const TEMPLATE: &str = include_str!("report.html");
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = concat!(include_str!("values.js"), include_str!("chart.js"));

/// The report as one self-contained HTML page; the same report gives the same bytes.
pub fn render_html(report: &Report) -> String {
    let mut charts: Vec<Chart> = Vec::new();
    let application = report.application.as_ref().map(|section| application::context(section, &mut charts));
    let host = (!report.hosts.is_empty()).then(|| host::context(&report.hosts, &mut charts));
    let overview = devices::charts(&report.devices, &mut charts);
    let maps = devices::maps(&report.devices, &mut charts);
    let points = report.points.iter().map(|section| (&section.comparison, Some(points::context(section))));
    let plain = report.comparisons.iter().map(|section| (section, None));
    let comparisons: Vec<_> = points
        .chain(plain)
        .enumerate()
        .map(|(index, (section, points))| comparison::context(index, section, points, &mut charts))
        .collect();
    let experiment = report.experiment.as_ref().map(|section| experiment::context(section, &mut charts));
    let notes: Vec<_> =
        report.ordered_notes().map(|note| context! { kind => note.kind(), text => note.text() }).collect();
    let device_parameters: Vec<_> = report
        .devices
        .iter()
        .filter(|device| !device.parameters.is_empty())
        .map(|device| {
            let table = table::parameters(&device.parameters);
            context! { name => device.name.as_str(), description => device.description.as_str(), table }
        })
        .collect();

    let environment = environment();
    let template = environment.get_template("report.html").expect("the template was just added");
    template
        .render(context! {
            title => report.title.as_str(),
            subtitle => report.subtitle.as_str(),
            generated_by => report.generated_by.as_str(),
            command => report.command.as_deref(),
            seed => report.seed.map(|seed| seed.to_string()),
            notes,
            figures => (!report.devices.is_empty()).then(|| table::figures(&report.devices)),
            devices => report.devices.iter().map(|device| {
                context! { name => device.name.as_str(), description => device.description.as_str() }
            }).collect::<Vec<_>>(),
            application,
            host,
            overview,
            maps,
            comparisons,
            experiment,
            parameters => (!report.parameters.is_empty()).then(|| table::parameters(&report.parameters)),
            device_parameters,
            style => STYLE,
            script => SCRIPT,
            data => json::embedded(&charts),
        })
        .expect("every value of the template is given")
}

/// The templates of the program.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("only the handling of blanks is changed"));
    // A name that ends in .html switches the escaping on.
    for (name, template) in
        [("report.html", TEMPLATE), ("trace.html", TRACE_TEMPLATE), ("page.html", PAGE_TEMPLATE)]
    {
        environment.add_template(name, template).expect("the template is part of the program");
    }
    environment
}
