//! Measured response times, the closed replay with think times, and the figures of a comparison.

use std::fmt;
use std::ops::Range;

use seeklab_core::{BufferOutcome, Completion, Duration, Instant, Operation, Request, Seed};
use seeklab_devices::catalog;

use super::{reference, rows};

/// A measured trace.
pub(crate) struct Measured {
    disk: String,
    pub(crate) requests: Vec<Request>,
    pub(crate) think: Vec<Duration>,
    pub(crate) response_ms: Vec<f64>,
    pub(crate) disksim_ms: Vec<f64>,
}

/// A part of a trace.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) rows: Range<usize>,
}

/// Figures of a comparison.
pub(crate) struct Comparison {
    pub(crate) demerit_pct: f64,
    pub(crate) disksim_demerit_pct: f64,
    pub(crate) within_5pct: f64,
    pub(crate) disksim_within_5pct: f64,
}

impl Measured {
    /// The measured trace of a drive.
    pub(crate) fn of(disk: &str) -> Self {
        let rows = rows(&reference(&format!("measured/{disk}.csv.gz")));
        let number = |row: &[String], index: usize| row[index].parse::<f64>().unwrap();
        Self {
            disk: disk.to_owned(),
            requests: rows
                .iter()
                .enumerate()
                .map(|(id, row)| {
                    let op = if row[3] == "R" { Operation::Read } else { Operation::Write };
                    Request::new(id as u64, op, row[1].parse().unwrap(), row[2].parse().unwrap())
                })
                .collect(),
            think: rows.iter().map(|row| Duration::from_ms_f64(number(row, 5))).collect(),
            response_ms: rows.iter().map(|row| number(row, 4)).collect(),
            disksim_ms: rows.iter().map(|row| number(row, 7)).collect(),
        }
    }

    /// The catalog's name of the drive.
    pub(crate) fn device(&self) -> String {
        self.disk.to_lowercase().replace('_', "-")
    }

    /// All, the first half, the second half.
    pub(crate) fn parts(&self) -> [Part; 3] {
        let n = self.requests.len();
        [
            Part { name: "all", rows: 0..n },
            Part { name: "first half", rows: 0..n / 2 },
            Part { name: "second half", rows: n / 2..n },
        ]
    }

    /// Model and DiskSim against the measurement on a part.
    pub(crate) fn compare(&self, model: &[Completion], part: &Part) -> Comparison {
        self.compare_where(model, part, |_| true)
    }

    /// As [`compare`](Self::compare), on the requests of the part for which `keep` holds.
    pub(crate) fn compare_where(
        &self,
        model: &[Completion],
        part: &Part,
        keep: impl Fn(&Completion) -> bool,
    ) -> Comparison {
        let rows: Vec<usize> = part.rows.clone().filter(|index| keep(&model[*index])).collect();
        let measured: Vec<f64> = rows.iter().map(|index| self.response_ms[*index]).collect();
        let modelled: Vec<f64> = rows.iter().map(|index| model[*index].response_time().as_ms()).collect();
        let disksim: Vec<f64> = rows.iter().map(|index| self.disksim_ms[*index]).collect();
        Comparison {
            demerit_pct: demerit_pct(&measured, &modelled),
            disksim_demerit_pct: demerit_pct(&measured, &disksim),
            within_5pct: within_5pct(&measured, &modelled),
            disksim_within_5pct: within_5pct(&measured, &disksim),
        }
    }
}

/// Buffer hits and buffered writes, by the model's decision.
pub(crate) fn buffered(completion: &Completion) -> bool {
    completion.buffer == BufferOutcome::Hit
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(
            f,
            "demerit {:.2} % (DiskSim {:.2} %), within 5 % {:.2} % (DiskSim {:.2} %)",
            self.demerit_pct, self.disksim_demerit_pct, self.within_5pct, self.disksim_within_5pct
        )
    }
}

/// Root-mean-square distance of the sorted response times, in percent of the measured mean.
fn demerit_pct(measured: &[f64], other: &[f64]) -> f64 {
    let sorted = |values: &[f64]| {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values
    };
    let mean = measured.iter().sum::<f64>() / measured.len() as f64;
    let squares: f64 =
        sorted(measured).iter().zip(sorted(other)).map(|(a, b)| (a - b) * (a - b)).sum::<f64>();
    100.0 * (squares / measured.len() as f64).sqrt() / mean
}

fn within_5pct(measured: &[f64], other: &[f64]) -> f64 {
    let within = measured.iter().zip(other).filter(|(a, b)| (*a - *b).abs() <= 0.05 * *a).count();
    100.0 * within as f64 / measured.len() as f64
}

/// The closed replay with think times on the catalog's model of the drive.
pub(crate) fn replay(measured: &Measured) -> Vec<Completion> {
    replay_thinking(measured, |index| measured.think[index])
}

/// As [`replay`], with the think time after each request given by `think`.
pub(crate) fn replay_thinking(measured: &Measured, think: impl Fn(usize) -> Duration) -> Vec<Completion> {
    let mut device = catalog::find(&measured.device()).unwrap().build(Seed(1), "disk0").unwrap();
    let mut now = Instant::ZERO;
    let mut completions = Vec::new();
    for (index, request) in measured.requests.iter().enumerate() {
        device.submit(now, *request).unwrap();
        while completions.len() <= index {
            let event = device.next_event().expect("a request is outstanding");
            device.poll(event, &mut completions);
        }
        now = completions[index].completed + think(index);
    }
    completions
}
