//! Measured drives: their traces, the closed replay with think times, and the figures of a comparison.

use std::fmt;
use std::ops::Range;

use seeklab_core::{BufferOutcome, Completion, Duration, Instant, Operation, Request, Seed};
use seeklab_devices::{Description, catalog};

use super::{reference, rows};

/// Side of a request on which the think time of its line lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Think {
    After,
    Before,
}

/// Event that the last block of a read from the media follows on its way to the host.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// The slower of bus and media carries block after block from the first on.
    Slower,
    /// The bus begins when this share of the blocks is in the buffer.
    BusBehind(f64),
    /// The last block leaves the media.
    LastBlock,
}

/// A measured drive.
#[derive(Debug)]
pub(crate) struct Drive {
    /// Name of the file in `reference/measured`.
    pub(crate) file: &'static str,
    /// Name in the catalog.
    pub(crate) device: &'static str,
    pub(crate) title: &'static str,
    pub(crate) think: Think,
    /// Time of a block on the bus, from the catalog.
    pub(crate) bus_ms: f64,
    /// Shortest response time, without the bus, of a read from the media. On `dec-rz26` reads that wait for the
    /// read-ahead under way lie on both sides of it.
    pub(crate) media_ms_min: f64,
    pub(crate) pace: Pace,
    /// Blocks behind a read from the media in which a read-ahead can be expected.
    pub(crate) read_ahead: u64,
}

/// The six measured drives, oldest first.
pub(crate) static DRIVES: [Drive; 6] = [
    Drive {
        file: "hp_c2247a",
        device: "hp-c2247a",
        title: "HP C2247A",
        think: Think::After,
        bus_ms: 0.1701,
        media_ms_min: 3.0,
        pace: Pace::BusBehind(0.75),
        read_ahead: 128,
    },
    Drive {
        file: "hp_c2490a",
        device: "hp-c2490a",
        title: "HP C2490A",
        think: Think::After,
        bus_ms: 0.155,
        media_ms_min: 3.0,
        pace: Pace::Slower,
        read_ahead: 128,
    },
    Drive {
        file: "dec_rz26",
        device: "dec-rz26",
        title: "DEC RZ26",
        think: Think::After,
        bus_ms: 0.065,
        media_ms_min: 2.0,
        pace: Pace::LastBlock,
        read_ahead: 57,
    },
    Drive {
        file: "barracuda",
        device: "barracuda",
        title: "Barracuda 4LP",
        think: Think::Before,
        bus_ms: 0.1024,
        media_ms_min: 0.62,
        pace: Pace::Slower,
        read_ahead: 281,
    },
    Drive {
        file: "cheetah9LP",
        device: "cheetah9lp",
        title: "Cheetah 9LP",
        think: Think::Before,
        bus_ms: 0.1024,
        media_ms_min: 0.62,
        pace: Pace::Slower,
        read_ahead: 561,
    },
    Drive {
        file: "atlas10k",
        device: "atlas10k",
        title: "Atlas 10K",
        think: Think::Before,
        bus_ms: 0.1027,
        media_ms_min: 0.62,
        pace: Pace::Slower,
        read_ahead: 334,
    },
];

/// A measured trace.
pub(crate) struct Measured {
    pub(crate) drive: &'static Drive,
    pub(crate) requests: Vec<Request>,
    /// The think time on the line of each request.
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
    pub(crate) requests: usize,
    pub(crate) measured_mean_ms: f64,
    /// Error of the mean of the model.
    pub(crate) mean_error_pct: f64,
    /// Mean of the absolute errors of the single requests.
    pub(crate) absolute_error_pct: f64,
    pub(crate) demerit_pct: f64,
    pub(crate) disksim_demerit_pct: f64,
    pub(crate) within_5pct: f64,
    pub(crate) disksim_within_5pct: f64,
}

impl Measured {
    /// The measured trace of a drive.
    pub(crate) fn of(drive: &'static Drive) -> Self {
        let rows = rows(&reference(&format!("measured/{}.csv.gz", drive.file)));
        let number = |row: &[String], index: usize| row[index].parse::<f64>().unwrap();
        Self {
            drive,
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

    /// The description of the drive in the catalog.
    pub(crate) fn description(&self) -> Description {
        catalog::find(self.drive.device).unwrap()
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

    /// Returns true if the measured response of a read is too short for an access to the media.
    pub(crate) fn is_hit(&self, index: usize) -> bool {
        let request = &self.requests[index];
        let bus_ms = self.drive.bus_ms * f64::from(request.blocks);
        request.op == Operation::Read && self.response_ms[index] - bus_ms < self.drive.media_ms_min
    }

    /// Returns the time that the host thought before a request. `None` before the first if that is unknown.
    pub(crate) fn think_before(&self, index: usize) -> Option<Duration> {
        match self.drive.think {
            Think::Before => Some(self.think[index]),
            Think::After => index.checked_sub(1).map(|before| self.think[before]),
        }
    }

    /// Completions in milliseconds, with the think times on one side or the other.
    pub(crate) fn completions_ms(&self, think: Think) -> Vec<f64> {
        let mut now_ms = 0.0;
        self.response_ms
            .iter()
            .zip(&self.think)
            .map(|(response_ms, thought)| {
                let (before_ms, after_ms) = match think {
                    Think::Before => (thought.as_ms(), 0.0),
                    Think::After => (0.0, thought.as_ms()),
                };
                let completed_ms = now_ms + before_ms + response_ms;
                now_ms = completed_ms + after_ms;
                completed_ms
            })
            .collect()
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
        self.compare_rows(model, &rows)
    }

    /// Model and DiskSim against the measurement on those requests.
    pub(crate) fn compare_rows(&self, model: &[Completion], rows: &[usize]) -> Comparison {
        let measured: Vec<f64> = rows.iter().map(|index| self.response_ms[*index]).collect();
        let modelled: Vec<f64> = rows.iter().map(|index| model[*index].response_time().as_ms()).collect();
        let disksim: Vec<f64> = rows.iter().map(|index| self.disksim_ms[*index]).collect();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let errors: Vec<f64> = measured.iter().zip(&modelled).map(|(a, b)| (b / a - 1.0).abs()).collect();
        Comparison {
            requests: rows.len(),
            measured_mean_ms: mean(&measured),
            mean_error_pct: 100.0 * (mean(&modelled) / mean(&measured) - 1.0),
            absolute_error_pct: 100.0 * mean(&errors),
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
    replay_on(&measured.description(), measured, |_| Duration::ZERO)
}

/// As [`replay`], on the device of `description` and with `delay` before each request.
pub(crate) fn replay_on(
    description: &Description,
    measured: &Measured,
    mut delay: impl FnMut(usize) -> Duration,
) -> Vec<Completion> {
    let mut device = description.build(Seed(1), "disk0").unwrap();
    let mut now = Instant::ZERO;
    let mut completions: Vec<Completion> = Vec::new();
    for (index, request) in measured.requests.iter().enumerate() {
        now += measured.think_before(index).unwrap_or_default() + delay(index);
        device.submit(now, *request).unwrap();
        while completions.len() <= index {
            let event = device.next_event().expect("a request is outstanding");
            device.poll(event, &mut completions);
        }
        now = completions[index].completed;
    }
    completions
}

/// Demerits of the replay with eight angles of the platters at its start.
pub(crate) fn demerits_of_start_phases(measured: &Measured) -> [f64; 8] {
    std::array::from_fn(|eighth| {
        let mut description = measured.description();
        description.set("start_phase", &format!("{eighth}/8")).unwrap();
        let model = replay_on(&description, measured, |_| Duration::ZERO);
        measured.compare(&model, &measured.parts()[0]).demerit_pct
    })
}

/// Demerits of eight replays in which every request comes up to a turn later, seeded.
pub(crate) fn demerits_of_jittered_requests(measured: &Measured) -> [f64; 8] {
    let description = measured.description();
    let turn = crate::drives::disk(&description).mechanism().spindle().period();
    let mut jitter = Seed(1).stream("think.jitter");
    std::array::from_fn(|_| {
        let model = replay_on(&description, measured, |_| Duration::from_ns(jitter.below(turn.as_ns())));
        measured.compare(&model, &measured.parts()[0]).demerit_pct
    })
}

/// Mean, least and greatest of those figures.
pub(crate) fn spread(figures: &[f64]) -> (f64, f64, f64) {
    let mean = figures.iter().sum::<f64>() / figures.len() as f64;
    let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
    (mean, least, figures.iter().copied().fold(0.0, f64::max))
}
