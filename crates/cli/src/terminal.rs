//! Progress and notes on the terminal: one line on stderr for each task, nothing where stderr is no terminal.

use std::fmt::Write;
use std::io::{Write as _, stderr};
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};
use seeklab_lab::listener::{Listener, Measure, Notice, Task, TaskListener};

/// Shows progress on stderr and prints notes there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terminal {
    /// Neither progress nor remarks are shown, warnings are.
    pub(crate) is_quiet: bool,
}

/// Prints text on stderr. What nobody reads there, as behind `2>&1 | head`, ends nothing.
pub(crate) fn tell(text: &str) {
    let _ = stderr().write_all(text.as_bytes());
}

/// The length of a bar that shows a share.
const PARTS: f64 = 10_000.0;

/// The time between two redraws of a line that moves by itself.
const TICK: Duration = Duration::from_millis(200);

impl Listener for Terminal {
    fn begin(&self, task: &Task) -> Box<dyn TaskListener> {
        let bar = if self.is_quiet { ProgressBar::hidden() } else { bar(&task.measure) };
        bar.set_message(task.name.clone());
        if matches!(task.measure, Measure::Time | Measure::Trace(_)) {
            bar.enable_steady_tick(TICK);
        }
        Box::new(Line { bar, measure: task.measure.clone() })
    }

    fn note(&self, note: &Notice) {
        match note {
            Notice { is_warning: true, text } => tell(&format!("warning: {text}\n")),
            Notice { text, .. } if !self.is_quiet => tell(&format!("{text}\n")),
            Notice { .. } => {}
        }
    }
}

fn bar(measure: &Measure) -> ProgressBar {
    let style = |template| ProgressStyle::with_template(template).expect("the template is right");
    let (bar, style) = match measure {
        Measure::Requests(Some(total)) => (
            ProgressBar::new(*total),
            style("{msg} {wide_bar} {human_pos} of {human_len} ({per_sec}, {eta} left)"),
        ),
        Measure::Requests(None) => {
            (ProgressBar::no_length(), style("{msg} {spinner} {human_pos} ({per_sec})"))
        }
        Measure::Trace(position) => {
            let position = position.clone();
            let share = move |_: &ProgressState, text: &mut dyn Write| {
                // A line that cannot be written is none.
                let _ = position.share().map(|share| write!(text, "{:.0} %", 100.0 * share));
            };
            let style = style("{msg} {wide_bar} {share} ({prefix}{eta} left)").with_key("share", share);
            (ProgressBar::new(PARTS as u64), style)
        }
        Measure::Steps(total) => {
            (ProgressBar::new(*total), style("{msg}: {pos} of {len} done, {elapsed} so far: {prefix}"))
        }
        Measure::Time => (ProgressBar::new_spinner(), style("{msg} {spinner} {elapsed}")),
        Measure::Figures => (ProgressBar::new_spinner(), style("{elapsed} {msg}")),
    };
    bar.with_style(style)
}

/// The line of one task.
struct Line {
    bar: ProgressBar,
    measure: Measure,
}

impl TaskListener for Line {
    fn advance(&mut self, steps: u64) {
        match &self.measure {
            Measure::Trace(position) => {
                self.bar.set_prefix(format!("{} requests, ", HumanCount(steps)));
                self.bar.set_position((position.share().unwrap_or_default() * PARTS) as u64);
            }
            _ => self.bar.set_position(steps),
        }
    }

    fn step(&mut self, name: &str) {
        self.bar.set_prefix(name.to_owned());
        self.bar.tick();
    }

    fn figures(&mut self, text: &str) {
        self.bar.set_message(text.to_owned());
        self.bar.tick();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
