//! The parts of a page that others serve and that grows while it is shown: style, script and data of charts.
//!
//! The script offers `seeklabCharts.View` to other scripts of the page:
//!
//! ```text
//! view = new seeklabCharts.View(figure, chart)    draws a chart of chart_data() in a <figure>
//! view.append([[x, y], null, …])                  adds a point to each series
//! ```

use serde_json::{Value, json};

use super::page::growing_chart;
use super::{SCRIPT, STYLE};
use crate::page::Plot;

/// Style sheet of every page, light and dark.
pub const PAGE_STYLE: &str = STYLE;

/// Script that draws the charts of every page.
pub const CHART_SCRIPT: &str = SCRIPT;

/// The data of plots, as the script reads them: a list of objects with `title`, `caption` and `chart`. Series without points
/// are kept, so that points can be added.
pub fn chart_data(plots: &[Plot]) -> Value {
    let data = plots.iter().enumerate().map(|(index, plot)| {
        let chart = growing_chart(&format!("plot-{index}"), plot);
        json!({ "title": plot.title, "caption": plot.caption, "chart": chart })
    });
    data.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{PlotAxis, PlotMark, PlotScale, PlotSeries};

    #[test]
    fn growing_chart_keeps_series_without_points_and_the_rule_of_its_axis() {
        let plot = |points: Vec<(f64, f64)>| Plot {
            title: "response time".to_owned(),
            x: PlotAxis::new("time", "s", PlotScale::Linear),
            y: PlotAxis::new("response time", "ms", PlotScale::ByValues),
            series: vec![
                PlotSeries::new("p50", PlotMark::LineAndPoints, []),
                PlotSeries::new("p99", PlotMark::LineAndPoints, points),
            ],
            ..Plot::default()
        };
        let data = chart_data(&[plot(vec![])]);
        assert_eq!(data[0]["title"], "response time");
        let names: Vec<&Value> =
            data[0]["chart"]["series"].as_array().unwrap().iter().map(|series| &series["name"]).collect();
        assert_eq!(names, ["p50", "p99"]);
        assert_eq!(data[0]["chart"]["y"]["log_from_ratio"], 30.0);
        assert!(data[0]["chart"]["x"].get("log_from_ratio").is_none());
        // A point without a place on a logarithmic axis stays, for the axis may become linear.
        let data = chart_data(&[plot(vec![(0.0, 0.1), (1.0, 0.0), (2.0, 9.0)])]);
        assert_eq!(data[0]["chart"]["series"][1]["points"].as_array().unwrap().len(), 3);
    }
}
