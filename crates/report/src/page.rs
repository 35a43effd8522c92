//! A page of plain tables and plots: what a report holds that has no section of its own.

/// Tables and plots about one thing, ready to be drawn.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The title.
    pub title: String,
    /// One line below it.
    pub subtitle: String,
    /// The program and its version.
    pub generated_by: String,
    /// The command line that makes it again.
    pub command: Option<String>,
    /// Notes that a reader should know before the figures.
    pub notes: Vec<String>,
    /// Sections in order; those without tables and plots are left out.
    pub sections: Vec<PageSection>,
}

/// A section of a page: its text stands before its tables, and these before its plots.
#[derive(Debug, Clone, Default)]
pub struct PageSection {
    /// The title.
    pub title: String,
    /// Paragraphs.
    pub text: Vec<String>,
    /// Command line about the subject of the section.
    pub command: Option<String>,
    /// Tables.
    pub tables: Vec<PlainTable>,
    /// Plots; those without points are left out.
    pub plots: Vec<Plot>,
}

/// A table of text.
#[derive(Debug, Clone, Default)]
pub struct PlainTable {
    /// Headings of the columns. The first column names the rows.
    pub columns: Vec<String>,
    /// Rows, each with one cell per column.
    pub rows: Vec<Vec<String>>,
    /// Explanation of the table.
    pub caption: String,
}

/// Series over two axes.
#[derive(Debug, Clone, Default)]
pub struct Plot {
    /// The title.
    pub title: String,
    /// Explanation of the table.
    pub caption: String,
    /// The horizontal axis.
    pub x: PlotAxis,
    /// The vertical axis.
    pub y: PlotAxis,
    /// Series drawn over the axes.
    pub series: Vec<PlotSeries>,
}

/// An axis of a plot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlotAxis {
    /// Quantity on the axis.
    pub label: String,
    /// The unit of its values; empty of a number.
    pub unit: String,
    /// Scale of the axis.
    pub scale: PlotScale,
    /// Start of the axis [default: from the values].
    pub min: Option<f64>,
    /// End of the axis [default: from the values].
    pub max: Option<f64>,
}

/// Scale of an axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlotScale {
    /// At equal distances.
    #[default]
    Linear,
    /// By their logarithm; values that have none are left out.
    Log,
    /// By their logarithm if that is linear from zero otherwise would lay the small ones on its begin.
    ByValues,
}

impl PlotAxis {
    /// An axis of a quantity with its unit.
    pub fn new(label: impl Into<String>, unit: impl Into<String>, scale: PlotScale) -> Self {
        Self { label: label.into(), unit: unit.into(), scale, min: None, max: None }
    }

    /// The same, between ends.
    #[must_use]
    pub fn between(self, min: f64, max: f64) -> Self {
        Self { min: Some(min), max: Some(max), ..self }
    }

    /// The same, from zero.
    #[must_use]
    pub fn from_zero(self) -> Self {
        Self { min: Some(0.0), ..self }
    }

    /// Label and unit.
    pub(crate) fn title(&self) -> String {
        if self.unit.is_empty() { self.label.clone() } else { format!("{} [{}]", self.label, self.unit) }
    }
}

/// A series of a plot.
#[derive(Debug, Clone, Default)]
pub struct PlotSeries {
    /// Its name.
    pub name: String,
    /// Drawing style of the series.
    pub mark: PlotMark,
    /// Points in order of the horizontal axis.
    pub points: Vec<(f64, f64)>,
}

/// Drawing style of a series.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PlotMark {
    /// A line through the points.
    #[default]
    Line,
    /// A line through the points, each marked.
    LineAndPoints,
    /// A level that holds from its point to the next.
    Step,
    /// As `Step`, with the area below it filled.
    Area,
    /// Points alone.
    Points,
    /// A thin line to compare with.
    Guide,
}

impl PlotSeries {
    /// A series of points in order.
    pub fn new(
        name: impl Into<String>,
        mark: PlotMark,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        Self { name: name.into(), mark, points: points.into_iter().collect() }
    }
}

impl Plot {
    /// Returns true if there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.is_empty())
    }

    /// The values along one axis.
    pub(crate) fn values(&self, of: fn(&(f64, f64)) -> f64) -> Vec<f64> {
        self.series.iter().flat_map(|series| series.points.iter().map(of)).collect()
    }
}
