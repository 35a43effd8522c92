//! Data of a chart, as the page's script reads it.

use serde::Serialize;

use crate::number::plotted;

/// A chart of the page.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Chart {
    pub(super) id: String,
    pub(super) kind: Kind,
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// Names of the bars, in a chart of stacked bars.
    pub(super) categories: Vec<String>,
    /// Text at the end of each bar.
    pub(super) totals: Vec<String>,
    pub(super) series: Vec<Series>,
    /// Spans of the horizontal axis that are shaded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) bands: Vec<Band>,
}

/// A shaded span of the horizontal axis.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Band {
    /// Meaning of the span.
    pub(super) name: String,
    pub(super) from: f64,
    pub(super) to: f64,
}

/// Layout of a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    /// Two axes.
    Plot,
    /// Horizontal bars, each a stack of the series.
    Stack,
}

/// An axis.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Axis {
    pub(super) label: String,
    pub(super) unit: String,
    pub(super) is_log: bool,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
    /// Ratio of the largest to the smallest value from which on the axis is logarithmic, if the values decide it. The script
    /// decides again when it adds points to a chart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) log_from_ratio: Option<f64>,
}

/// Ratio of the largest to the smallest value from which on an axis by values is logarithmic.
const LINEAR_RATIO_MAX: f64 = 30.0;

impl Axis {
    pub(super) fn linear(label: &str, unit: &str) -> Self {
        let (label, unit) = (label.to_owned(), unit.to_owned());
        Self { label, unit, is_log: false, min: None, max: None, log_from_ratio: None }
    }

    pub(super) fn log(label: &str, unit: &str) -> Self {
        Self { is_log: true, ..Self::linear(label, unit) }
    }

    /// Logarithmic where linear would lay the small values on the axis, else from zero.
    pub(super) fn of_values(label: &str, unit: &str, values: &[f64]) -> Self {
        let (low, high) = (
            values.iter().copied().fold(f64::INFINITY, f64::min),
            values.iter().copied().fold(0.0, f64::max),
        );
        if low > 0.0 && high > LINEAR_RATIO_MAX * low {
            Self::log(label, unit)
        } else {
            Self::linear(label, unit).starting_at(0.0)
        }
    }

    /// The same, decided again when points are added.
    pub(super) fn growing(self) -> Self {
        Self { log_from_ratio: Some(LINEAR_RATIO_MAX), ..self }
    }

    pub(super) fn starting_at(mut self, min: f64) -> Self {
        self.min = Some(plotted(min));
        self
    }

    pub(super) fn ending_at(mut self, max: f64) -> Self {
        self.max = Some(plotted(max));
        self
    }
}

/// Drawing style of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mark {
    /// A line through the points.
    Line,
    /// A line through the points, each marked, with whiskers where they have a half width.
    LineAndPoints,
    /// A level that holds from its point to the next.
    Step,
    /// As `Step`, with the area below it filled.
    Area,
    /// Points alone.
    Points,
    /// A thin grey line to compare with, without a value.
    Guide,
    /// Rectangles, the darker the fuller; a third number is the share of the fullest.
    Cells,
    /// A level that holds from its point to the next, filled from the level of the layers before it. All layers of a chart
    /// have points at the same places.
    Layer,
    /// A part of the stacked bars; the points are `(index of the bar, value)`.
    Part,
}

/// A series of a chart.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) mark: Mark,
    /// Index of the colour, dash and symbol in the palette.
    pub(super) style: usize,
    /// Points in order; a third number is the half width of the whisker.
    pub(super) points: Vec<Vec<f64>>,
    /// Width and height of each of the cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cell: Option<[f64; 2]>,
    /// Width of the interval that each point is the middle of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) interval: Option<f64>,
}

impl Series {
    pub(super) fn new(
        name: &str,
        mark: Mark,
        style: usize,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let points = points.into_iter().map(|(x, y)| vec![plotted(x), plotted(y)]).collect();
        Self { name: name.to_owned(), mark, style, points, cell: None, interval: None }
    }

    /// The same, each point the middle of an interval of that width.
    pub(super) fn in_intervals(mut self, width: f64) -> Self {
        self.interval = Some(plotted(width));
        self
    }
}

impl Chart {
    pub(super) fn plot(id: &str, x: Axis, y: Axis, series: Vec<Series>) -> Self {
        let (categories, totals, bands) = (Vec::new(), Vec::new(), Vec::new());
        Self { id: id.to_owned(), kind: Kind::Plot, x, y, categories, totals, series, bands }
    }

    /// Stacked bars, one for each category with its total beside it. A bar shows a length, so the axis begins at zero.
    pub(super) fn stack(
        id: &str,
        x: Axis,
        bars: impl IntoIterator<Item = (String, String)>,
        series: Vec<Series>,
    ) -> Self {
        let (categories, totals) = bars.into_iter().unzip();
        let chart = Self::plot(id, x.starting_at(0.0), Axis::linear("", ""), series);
        Self { kind: Kind::Stack, categories, totals, ..chart }
    }

    /// The same with shaded spans, each a name, a start and an end.
    pub(super) fn with_bands(mut self, bands: impl IntoIterator<Item = (String, f64, f64)>) -> Self {
        let band = |(name, from, to)| Band { name, from: plotted(from), to: plotted(to) };
        self.bands = bands.into_iter().map(band).collect();
        self
    }
}
