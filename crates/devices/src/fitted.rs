//! Contents of a fitted model, for people and machines: figures and curves, independent of how they are
//! drawn.

/// Tables and curves of one model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FittedModel {
    /// Figures.
    pub tables: Vec<FittedTable>,
    /// Curves; each of them has a series with points.
    pub curves: Vec<FittedCurves>,
}

/// Named rows of figures.
#[derive(Debug, Clone, PartialEq)]
pub struct FittedTable {
    /// Its name in documents for machines, such as `operations`.
    pub key: &'static str,
    /// Meaning of the rows, such as `operation`.
    pub rows_are: &'static str,
    /// Names of the figures, with the unit, such as `mean_ms`.
    pub columns: Vec<&'static str>,
    /// A figure for each column.
    pub rows: Vec<(String, Vec<f64>)>,
}

/// Curves over one pair of axes.
#[derive(Debug, Clone, PartialEq)]
pub struct FittedCurves {
    /// Their name in documents for machines, such as `by_queue_length`.
    pub key: &'static str,
    /// Title of the curves.
    pub title: &'static str,
    /// Explanation of the curves, in a sentence; may be empty.
    pub caption: String,
    /// Horizontal axis.
    pub x: FittedAxis,
    /// Vertical axis.
    pub y: FittedAxis,
    /// The curves.
    pub series: Vec<FittedSeries>,
}

/// A quantity of curves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FittedAxis {
    /// Its name in documents for machines, with the unit: such as `seek_distance_mib`.
    pub key: &'static str,
    /// Its name for people.
    pub label: &'static str,
    /// Its unit for people; empty of a number.
    pub unit: &'static str,
    /// True if values span orders of magnitude, so that their logarithm is drawn.
    pub is_log: bool,
}

/// One curve.
#[derive(Debug, Clone, PartialEq)]
pub struct FittedSeries {
    /// Its name.
    pub name: String,
    /// Its points, by `x`.
    pub points: Vec<FittedPoint>,
}

/// A point of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FittedPoint {
    /// Along the curve.
    pub x: f64,
    /// The value there.
    pub y: f64,
    /// Number of requests that the point was fitted to; zero if it follows from other points.
    pub requests: u64,
}
