//! What a run looks like: a summary for the terminal and one HTML file to keep or send.
//!
//! ```text
//!   Metrics, Comparison, experiment cells ─▶ Report ─▶ render_terminal() ─▶ text, 100 columns
//!                                                   └▶ render_html()     ─▶ one self-contained page
//! ```
//! Both are functions of the [`Report`] alone: the same report gives the same bytes.
//!
//! # Scope and limits
//! No I/O and no clock. The page asks nothing of any network (its content policy forbids it) and
//! holds at most 400 points of a curve and 4,000 of a scatter, whatever the length of the run.

mod document;
mod html;
mod number;
mod points;
mod terminal;
mod trace;

pub use document::{
    ApplicationRow, ApplicationSection, ComparisonSection, DeviceSection, ErrorsOver, ExperimentCell,
    ExperimentSection, Note, Parameter, PointsSection, Report,
};
pub use html::{render_html, render_trace_html};
pub use terminal::render_terminal;
pub use trace::TraceReport;
