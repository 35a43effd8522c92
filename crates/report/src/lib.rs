//! Presentation of a run: a summary for the terminal and one HTML file to keep or send.
//!
//! ```text
//!   Metrics, Comparison, experiment cells ─▶ Report ─▶ render_terminal() ─▶ text, 80 columns
//!                                                   └▶ render_html()     ─▶ one self-contained page
//!   Page (plain tables and plots) ─▶ render_plot() ─▶ a picture in characters, 80 columns
//!                                 ├▶ render_page_html()
//!                                 └▶ chart_data() ─▶ a page that grows, drawn by the same script
//! ```
//! All outputs depend on the [`Report`] or [`Page`] alone: the same input gives the same bytes.
//!
//! # Scope and limits
//! No I/O and no clock. The page makes no network requests (its content policy forbids them) and holds at
//! most 400 points of a curve and 4,000 of a scatter, whatever the length of the run.

mod document;
mod host;
mod html;
mod number;
mod page;
mod points;
mod terminal;
mod text;
mod trace;

pub use document::{
    ApplicationRow, ApplicationSection, ComparisonSection, DeviceSection, ErrorsOver, ExperimentCell,
    ExperimentSection, FaultBand, HostRow, Note, Parameter, PointsSection, Report,
};
pub use html::{CHART_SCRIPT, PAGE_STYLE, chart_data, render_html, render_page_html, render_trace_html};
pub use page::{Page, PageSection, PlainTable, Plot, PlotAxis, PlotMark, PlotScale, PlotSeries};
pub use terminal::{PLOT_COLUMNS, render_plot, render_terminal};
pub use text::{TextTable, WIDTH, folded};
pub use trace::TraceReport;
