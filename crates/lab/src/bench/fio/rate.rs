//! Rates of a fio job: each direction has one of its own.
//!
//! ```text
//! rate=1m,512k ─▶ bytes per second of reads, of the others      rate_iops=100,50 ─▶ the same, times the shortest request
//! ```
//! # Scope and limits
//! fio counts bytes: a request that is longer than the shortest one is followed by a longer gap, also with `rate_iops`. Only
//! `rate_process=poisson` counts requests.
//!
//! # References
//! fio 3.33. backend.c: setup_rate, usec_for_io. io_u.c: rate_ddir. options.c, `rate` and `rate_iops`.

use seeklab_core::{Duration, Stream};

use super::load::{FioArrivals, FioLoad, FioSize};

/// The options `rate` and `rate_iops`: of reads, writes and trims.
#[derive(Debug, Default)]
pub(super) struct Rates {
    pub(super) iops: [f64; 3],
    pub(super) bytes: [f64; 3],
    pub(super) is_poisson: bool,
}

impl Rates {
    /// The arrivals of a job with these sizes; `None` without a rate. The place of the others is 1, or 2 of a job that trims.
    ///
    /// # Errors
    /// Name of the option and reason.
    pub(super) fn arrivals(
        &self,
        load: &FioLoad,
        others: usize,
    ) -> Result<Option<FioArrivals>, (&'static str, &'static str)> {
        if self.iops.iter().zip(self.bytes).any(|(iops, bytes)| *iops > 0.0 && bytes > 0.0) {
            return Err(("rate_iops", "stands beside `rate`; one of them is allowed, as in fio"));
        }
        let of = |direction: usize, place: usize| match self.bytes[place] > 0.0 {
            true => self.bytes[place],
            false => self.iops[place] * shortest(&load.sizes[direction]),
        };
        let occurs = load.occurring_directions();
        let all = [of(0, 0), of(1, others)];
        let bytes_per_s = [0, 1].map(|direction| if occurs[direction] { all[direction] } else { 0.0 });
        let rated = [0, 1].map(|direction| bytes_per_s[direction] > 0.0);
        match rated {
            [false, false] => Ok(None),
            rated if rated == occurs => {
                Ok(Some(FioArrivals::Open { bytes_per_s, is_poisson: self.is_poisson }))
            }
            _ => {
                let name = if self.bytes.iter().any(|bytes| *bytes > 0.0) { "rate" } else { "rate_iops" };
                Err((name, "one direction of a mixed job has a rate and the other has none; give both one"))
            }
        }
    }
}

impl FioLoad {
    /// Reads occur, and the others do.
    pub(super) fn occurring_directions(&self) -> [bool; 2] {
        [self.read > 0.0, self.other.is_some() && self.read < 1.0]
    }

    /// Mean rate of the requests of an open job per second; `None` of a closed one.
    pub(in crate::bench) fn rate_per_s(&self) -> Option<f64> {
        let FioArrivals::Open { bytes_per_s, is_poisson } = self.arrivals else { return None };
        let of = |(rate, sizes): (f64, &Vec<FioSize>)| {
            rate / if is_poisson { shortest(sizes) } else { mean(sizes) }
        };
        Some(bytes_per_s.into_iter().zip(&self.sizes).map(of).sum())
    }

    /// Changes the rate of an open job to so many requests per second. Returns false of a closed one.
    pub(in crate::bench) fn set_rate(&mut self, per_s: f64) -> bool {
        let Some(of_job) = self.rate_per_s() else { return false };
        if let FioArrivals::Open { bytes_per_s, .. } = &mut self.arrivals {
            bytes_per_s.iter_mut().for_each(|rate| *rate *= per_s / of_job);
        }
        true
    }

    /// Time from a request of so many bytes of a direction to the next one.
    pub(super) fn gap(&self, direction: usize, bytes: u64, stream: &mut Stream) -> Duration {
        let FioArrivals::Open { bytes_per_s, is_poisson } = self.arrivals else { return Duration::ZERO };
        let time = |bytes: f64| Duration::from_ns_f64(1e9 * bytes / bytes_per_s[direction]);
        match is_poisson {
            true => stream.exponential(time(shortest(&self.sizes[direction]))),
            false => time(bytes as f64),
        }
    }
}

fn shortest(sizes: &[FioSize]) -> f64 {
    sizes.iter().map(|size| size.bytes).min().unwrap_or(1) as f64
}

fn mean(sizes: &[FioSize]) -> f64 {
    sizes.iter().map(|size| size.bytes as f64 * size.share).sum()
}
