//! Progress on stderr, for whatever takes longer than a moment.

use std::fmt::Write;

use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};
use seeklab_traces::{OpenTrace, Position};

/// Steps between two looks at the clock.
const STRIDE: u64 = 1 << 16;

/// A line on stderr for a few steps that take long each.
#[derive(Debug)]
pub struct Steps(ProgressBar);

impl Steps {
    /// So many are to come.
    pub fn new(total: u64) -> Self {
        let bar = ProgressBar::new(total);
        let template = "{pos} of {len} done, {elapsed} so far: {msg}";
        bar.set_style(ProgressStyle::with_template(template).expect("the template is right"));
        Self(bar)
    }

    /// One that need not be made again.
    pub fn skip(&mut self) {
        self.0.inc(1);
    }

    /// One begins; it is `what`.
    pub fn begin(&mut self, what: &str) {
        self.0.set_message(what.to_owned());
        self.0.tick();
    }

    /// It is done.
    pub fn done(&mut self) {
        self.0.inc(1);
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A line on stderr that tells how far a run is; nothing where stderr is not a terminal.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    done: u64,
    /// How far the trace was read of which the steps are rows.
    position: Option<Position>,
}

/// The length of the bar of a trace of which the steps are rows.
const PARTS: f64 = 10_000.0;

impl Progress {
    /// Progress of `what` over `total` steps, if their number is known.
    pub fn new(what: &str, total: Option<u64>) -> Self {
        let (bar, template) = match total {
            Some(total) => (
                ProgressBar::new(total),
                "{msg} {wide_bar} {human_pos} of {human_len} ({per_sec}, {eta} left)",
            ),
            None => (ProgressBar::no_length(), "{msg} {spinner} {human_pos} ({per_sec})"),
        };
        bar.set_style(ProgressStyle::with_template(template).expect("the template is right"));
        bar.set_message(what.to_owned());
        Self { bar, done: 0, position: None }
    }

    /// Progress of `what` over the rows of `trace`: in percent of its bytes or rows, where their number is known.
    pub fn of_trace(what: &str, trace: &OpenTrace) -> Self {
        let position = trace.position();
        if position.share().is_none() {
            return Self::new(what, None);
        }
        let bar = ProgressBar::new(PARTS as u64);
        let template = "{msg} {wide_bar} {percent} % ({prefix} requests, {eta} left)";
        bar.set_style(ProgressStyle::with_template(template).expect("the template is right"));
        bar.set_message(what.to_owned());
        bar.set_prefix("0");
        Self { bar, done: 0, position: Some(position) }
    }

    /// A line that says that it is busy with `what`, for as long as it lives.
    pub fn working(what: &str) -> Self {
        let bar = ProgressBar::new_spinner();
        bar.set_style(
            ProgressStyle::with_template("{msg} {spinner} {elapsed}").expect("the template is right"),
        );
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(std::time::Duration::from_millis(200));
        Self { bar, done: 0, position: None }
    }

    /// A line that says what is being done with the file that `position` is in, and how far that is, for as long as it lives.
    pub fn of_position(what: &str, position: Position) -> Self {
        let share = move |_: &ProgressState, text: &mut dyn Write| {
            // A line that cannot be written is none.
            let _ = position.share().map(|share| write!(text, "{:.0} %", 100.0 * share));
        };
        let template = "{msg} {spinner} {share}";
        let style = ProgressStyle::with_template(template).expect("the template is right");
        let bar = ProgressBar::new_spinner().with_style(style.with_key("share", share));
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(std::time::Duration::from_millis(200));
        Self { bar, done: 0, position: None }
    }

    /// Progress that nobody sees, of a run beside others.
    pub fn hidden() -> Self {
        Self { bar: ProgressBar::hidden(), done: 0, position: None }
    }

    /// One step more.
    pub fn step(&mut self) {
        self.done += 1;
        if self.done.is_multiple_of(STRIDE) {
            self.show();
        }
    }

    /// So many steps more.
    pub fn steps(&mut self, count: u64) {
        let strides = self.done / STRIDE;
        self.done += count;
        if self.done / STRIDE > strides {
            self.show();
        }
    }

    fn show(&self) {
        match self.position.as_ref().map(Position::share) {
            None => self.bar.set_position(self.done),
            Some(share) => {
                self.bar.set_prefix(HumanCount(self.done).to_string());
                self.bar.set_position((share.unwrap_or(0.0) * PARTS) as u64);
            }
        }
    }

    /// As [`step`](Self::step), shown at once: for steps that take long.
    pub fn big_step(&mut self) {
        self.done += 1;
        self.show();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
