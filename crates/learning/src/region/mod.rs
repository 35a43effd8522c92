//! The region of the loads that a model is fitted to: bounds of single requests and of windows of requests.
//!
//! # Bounds
//! - **Single requests**: bounds leave out the 16 most extreme requests of an operation on either side but one, or one in 64
//!   of fewer than 1,024. A value that few requests had is not known.
//! - **Windows**: a bound is the quantile that one in [`ONE_IN`] windows of the same load exceeds. A trace has few windows,
//!   so the quantile is extrapolated by an exponential tail of their greatest values: with the *k*-th greatest value *u* of
//!   *n* windows, and *b*, the mean excess of those above it, the bound is *u + b ln(k ONE_IN / n)*. The fewer windows, the
//!   wider the margin.
//! - Queue lengths and times of windows follow from the device, and in a simulation from the clone, whose times may err.
//!   Their bounds have a margin of one in [`RESULT_MARGIN`].
//! - A clone draws times independently. Where the device balances a slow request by a fast one, its windows vary less than
//!   those of the clone. So the least time of a window is at most the quantile of as many independent interarrival times,
//!   approximated by a gamma distribution. In all but the longest windows of which there are enough, interarrival times count up to the longest response
//!   time, which is what a client that waits for the device can cause; over the longest ones, a rate that lasts can reach a
//!   limit however fast the responses are. For the same reason the longest one is the sum of the 16th longest interarrival time
//!   and the 16th longest response time.
//!
//! # Calm loads
//! A device that is less busy is in states that it passed through in the calm stretches of a busier load. So short windows
//! alone have a least queue length, and a low rate shows in the single interarrival time. What accumulates, such as a queue or a
//! buffer, grows with a load that lasts: windows of all lengths bound the most. A model without queues does not know calm
//! stretches from others, so its windows of all lengths bound the least, too.
//!
//! # References
//! Exponential tail: J. Pickands, Statistical inference using extreme order statistics, Annals of Statistics 3(1), 1975,
//! with shape 0. Mean excess: B. M. Hill, Annals of Statistics 3(5), 1975, for logarithms. Quantile of a gamma distribution:
//! E. B. Wilson, M. M. Hilferty, The distribution of chi-square, PNAS 17(12), 1931.

mod extremes;

use seeklab_core::{Duration, Operation, TraceRecord};
use seeklab_devices::region::{
    Arrived, LoadMeter, LoadRequest, OperationBounds, RegionParameters, WINDOWS, Window, WindowBounds,
};

use extremes::{Extremes, Greatest};

/// One in so many windows of the fitted load exceeds a bound.
const ONE_IN: u64 = 1_000;

/// The quantile of a standard normal distribution that one in [`ONE_IN`] exceeds.
const NORMAL_QUANTILE: f64 = 3.090_232;

/// Fewest windows from which bounds are estimated.
const WINDOWS_LEAST: u64 = 32;

/// Reciprocal of the margin of bounds that depend on the times of the device.
const RESULT_MARGIN: u64 = 16;

/// Extreme requests that are kept.
const REQUESTS: usize = 16;

/// Extreme windows that are kept.
const KEPT: usize = 64;

/// The region of the requests so far; memory has a bound.
#[derive(Debug, Clone, Default)]
pub(crate) struct RegionFit {
    meter: LoadMeter,
    gaps: Greatest<REQUESTS>,
    responses: Greatest<REQUESTS>,
    /// Interarrival times as far as a client can cause them that waits for the device, and whole.
    caused: GapSums,
    whole: GapSums,
    operations: [OperationExtremes; Operation::ALL.len()],
    windows: Box<[WindowExtremes; WINDOWS.len()]>,
}

#[derive(Debug, Clone, Default)]
struct OperationExtremes {
    blocks: Extremes<REQUESTS>,
    queue: Extremes<REQUESTS>,
    sequential: u64,
    fua: u64,
}

#[derive(Debug, Clone, Default)]
struct WindowExtremes {
    time: Extremes<KEPT>,
    queue: Extremes<KEPT>,
    blocks: Extremes<KEPT>,
    sequential: Extremes<KEPT>,
    sequential_reads: Extremes<KEPT>,
    sequential_writes: Extremes<KEPT>,
    fua: Extremes<KEPT>,
    operations: [Greatest<KEPT>; Operation::ALL.len()],
}

impl RegionFit {
    /// Takes one request in, in order of arrival, with its response time if that is fitted. Otherwise the request is part of
    /// the load alone.
    pub(crate) fn record(&mut self, record: &TraceRecord, queue_length: u32, response: Option<Duration>) {
        let TraceRecord { op, lbn, blocks, fua, .. } = *record;
        let request = LoadRequest { op, lbn, blocks, fua, queue_length };
        let Arrived { gap, is_sequential } = self.meter.arrive(record.arrival, &request);
        if let Some(response) = response {
            self.gaps.record(gap.as_ns());
            self.responses.record(response.as_ns());
            self.caused.record(gap.as_ns().min(self.responses.rank(1).unwrap_or_default()));
            self.whole.record(gap.as_ns());
            let of = &mut self.operations[op as usize];
            of.blocks.record(u64::from(blocks));
            of.queue.record(u64::from(queue_length));
            of.sequential += u64::from(is_sequential);
            of.fua += u64::from(fua);
        }
        let windows = &mut self.windows;
        self.meter.close(|index, window| windows[index].record(window));
    }

    /// Requests that follow are no continuation of those before.
    pub(crate) fn interrupt(&mut self) {
        self.meter.interrupt();
    }

    /// The region of the requests so far. `None` if there are none that count.
    pub(crate) fn parameters(&self) -> Option<RegionParameters> {
        self.bounded(false)
    }

    /// The same for a model whose times do not depend on the load: windows of all lengths have a least queue length and a longest
    /// time, too.
    pub(crate) fn parameters_of_one_load(&self) -> Option<RegionParameters> {
        self.bounded(true)
    }

    fn bounded(&self, knows_calm: bool) -> Option<RegionParameters> {
        let gaps = Gaps { caused: self.caused, whole: self.whole, knows_calm };
        let operations = Operation::ALL.into_iter().zip(&self.operations);
        let operations: Vec<OperationBounds> =
            operations.filter_map(|(op, extremes)| extremes.bounds(op)).collect();
        let has_enough = |(extremes, _): &(&WindowExtremes, u32)| extremes.queue.count() >= WINDOWS_LEAST;
        let windows: Vec<_> = self.windows.iter().zip(WINDOWS).filter(has_enough).collect();
        let longest = windows.last().map(|(_, length)| *length);
        let bounds = |(extremes, length): &(&WindowExtremes, u32)| {
            extremes.bounds(*length, &gaps, Some(*length) == longest)
        };
        (!operations.is_empty()).then(|| RegionParameters {
            gap_max: self.gap_max(),
            operations,
            windows: windows.iter().map(bounds).collect(),
        })
    }
}

impl RegionFit {
    /// The longest interarrival time that is known. A client that waits for the device thinks as long, and waits for a response
    /// of the clone instead of one of the device.
    fn gap_max(&self) -> Option<Duration> {
        let longest = [&self.gaps, &self.responses].map(|of| of.rank(known(of.count())));
        longest.into_iter().flatten().reduce(u64::saturating_add).map(Duration::from_ns)
    }
}

/// Sums over interarrival times.
#[derive(Debug, Clone, Copy, Default)]
struct GapSums {
    count: u64,
    sum_ns: f64,
    squares: f64,
}

impl GapSums {
    fn record(&mut self, gap_ns: u64) {
        self.count += 1;
        self.sum_ns += gap_ns as f64;
        self.squares += (gap_ns as f64).powi(2);
    }

    /// The quantile of the sum of `gaps` independent ones, in nanoseconds, from that of a standard normal distribution.
    fn quantile_ns(&self, gaps: u32, normal: f64) -> u64 {
        let mean = self.sum_ns / self.count.max(1) as f64;
        let variance = self.squares / self.count.max(1) as f64 - mean * mean;
        if mean <= 0.0 || variance <= 0.0 {
            return (mean * f64::from(gaps)) as u64;
        }
        let shape = f64::from(gaps) * mean * mean / variance;
        let cube_root = 1.0 - 1.0 / (9.0 * shape) + normal / (3.0 * shape.sqrt());
        (mean * f64::from(gaps) * cube_root.max(0.0).powi(3)) as u64
    }
}

/// Interarrival times as windows need them.
struct Gaps {
    caused: GapSums,
    whole: GapSums,
    /// True if bounds leave out calmer loads.
    knows_calm: bool,
}

/// Rank of the most extreme value that is known, of so many requests.
fn known(requests: u64) -> usize {
    (requests / 64).clamp(1, REQUESTS as u64) as usize
}

impl OperationExtremes {
    fn bounds(&self, op: Operation) -> Option<OperationBounds> {
        let requests = self.queue.count();
        let rank = known(requests);
        let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Some(OperationBounds {
            op,
            requests,
            blocks_min: number(self.blocks.least(rank)?),
            blocks_max: number(self.blocks.greatest(rank)?),
            queue_min: number(self.queue.least(rank)?),
            queue_max: number(self.queue.greatest(rank)?),
            sequential: op.addresses_blocks().then_some(self.sequential),
            fua: op.addresses_blocks().then_some(self.fua),
        })
    }
}

impl WindowExtremes {
    fn record(&mut self, window: &Window) {
        self.time.record(window.time.as_ns());
        self.queue.record(window.queue);
        self.blocks.record(window.blocks);
        self.sequential.record(u64::from(window.sequential.iter().sum::<u32>()));
        self.sequential_reads.record(u64::from(window.sequential[Operation::Read as usize]));
        self.sequential_writes.record(u64::from(window.sequential[Operation::Write as usize]));
        self.fua.record(u64::from(window.fua));
        for (extremes, count) in self.operations.iter_mut().zip(window.operations) {
            extremes.record(u64::from(count));
        }
    }

    /// The bounds of windows of that length. Over the longest ones, a rate lasts.
    fn bounds(&self, length: u32, gaps: &Gaps, is_longest: bool) -> WindowBounds {
        let windows = self.queue.count();
        let wider = |value: u64| value.saturating_add(value.div_ceil(RESULT_MARGIN));
        let narrower = |value: u64| value - value.div_ceil(RESULT_MARGIN);
        let count = |value: u64| u32::try_from(value).unwrap_or(u32::MAX).min(length);
        let of_gaps = if is_longest { gaps.whole } else { gaps.caused };
        let time_min = self.time.low_quantile(ONE_IN).min(of_gaps.quantile_ns(length - 1, -NORMAL_QUANTILE));
        let time_max = gaps.knows_calm.then(|| {
            let time =
                self.time.high_quantile(ONE_IN).max(gaps.whole.quantile_ns(length - 1, NORMAL_QUANTILE));
            Duration::from_ns(wider(time))
        });
        let has_least_queue = length == WINDOWS[0] || gaps.knows_calm;
        let [reads_max, writes_max, flushes_max, discards_max, write_zeroes_max] =
            self.operations.each_ref().map(|extremes| count(extremes.quantile(ONE_IN)));
        WindowBounds {
            requests: length,
            windows,
            time_min: Duration::from_ns(narrower(time_min)),
            time_max,
            queue_min: if has_least_queue { narrower(self.queue.low_quantile(ONE_IN)) } else { 0 },
            queue_max: wider(self.queue.high_quantile(ONE_IN)),
            blocks_min: self.blocks.low_quantile(ONE_IN),
            blocks_max: self.blocks.high_quantile(ONE_IN),
            sequential_min: count(self.sequential.low_quantile(ONE_IN)),
            sequential_max: count(self.sequential.high_quantile(ONE_IN)),
            sequential_reads_min: Some(count(self.sequential_reads.low_quantile(ONE_IN))),
            sequential_reads_max: Some(count(self.sequential_reads.high_quantile(ONE_IN))),
            sequential_writes_min: Some(count(self.sequential_writes.low_quantile(ONE_IN))),
            sequential_writes_max: Some(count(self.sequential_writes.high_quantile(ONE_IN))),
            fua_min: Some(count(self.fua.low_quantile(ONE_IN))),
            fua_max: Some(count(self.fua.high_quantile(ONE_IN))),
            reads_max,
            writes_max,
            flushes_max,
            discards_max,
            write_zeroes_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Instant, Seed};

    use super::*;

    /// Poisson arrivals of 8 KiB reads and writes at random places.
    fn region(requests: u64, writes_pct: u64) -> RegionParameters {
        let mut stream = Seed(3).stream("load");
        let (mut fit, mut now) = (RegionFit::default(), Instant::ZERO);
        for _ in 0..requests {
            now += stream.exponential(Duration::from_ms(10));
            let op = if stream.below(100) < writes_pct { Operation::Write } else { Operation::Read };
            let record = TraceRecord::new(now, op, stream.below(1 << 30), 16);
            fit.record(&record, stream.below(4) as u32, Some(Duration::from_s(1)));
        }
        fit.parameters().unwrap()
    }

    #[test]
    fn bounds_of_windows_are_wider_for_shorter_windows_and_shorter_traces() {
        let long = region(200_000, 30);
        assert_eq!(long.windows.iter().map(|of| of.requests).collect::<Vec<_>>(), WINDOWS);
        assert_eq!(long.windows.iter().map(|of| of.windows).collect::<Vec<_>>(), [25_000, 3_125, 390]);
        // One in a thousand windows of 512: 3.09 standard deviations of 10.4 above 153.6.
        let writes = |region: &RegionParameters, index: usize| f64::from(region.windows[index].writes_max);
        assert!((182.0..197.0).contains(&writes(&long, 2)), "{long:?}");
        assert_eq!(writes(&long, 0), 7.0, "{long:?}");
        let short = region(20_000, 30);
        assert!(writes(&short, 2) > writes(&long, 2) - 3.0, "{short:?} {long:?}");
        // 512 arrivals take 5.11 s with a standard deviation of 0.226 s.
        let time = long.windows[2].time_min.as_s() * 16.0 / 15.0;
        assert!((4.2..4.55).contains(&time), "{time}");
        assert_eq!((long.windows[2].queue_min, long.windows[2].blocks_min), (0, 8_192));
        assert!(long.windows[0].queue_min > 0, "{long:?}");
    }

    /// The windows of requests at so many per second, with a response time of 0.1 ms.
    fn fast_device(per_second: f64, fua_pct: u64) -> RegionFit {
        fast_requests(50_000, per_second, fua_pct)
    }

    fn fast_requests(count: u64, per_second: f64, fua_pct: u64) -> RegionFit {
        let mut stream = Seed(5).stream("load");
        let (mut fit, mut now) = (RegionFit::default(), Instant::ZERO);
        for _ in 0..count {
            now += stream.exponential(Duration::from_ms_f64(1_000.0 / per_second));
            let fua = stream.below(100) < fua_pct;
            let record =
                TraceRecord { fua, ..TraceRecord::new(now, Operation::Write, stream.below(1 << 30), 8) };
            fit.record(&record, 0, Some(Duration::from_us(100)));
        }
        fit
    }

    #[test]
    fn rate_that_lasts_is_known_however_fast_the_responses_are() {
        let longest = fast_device(480.0, 0).parameters().unwrap().windows[2];
        // 511 gaps of 2.08 ms, 3.09 standard deviations of 47 ms less, and a sixteenth.
        let seconds = longest.time_min.as_s();
        assert!((0.82..0.90).contains(&seconds), "{seconds}");
    }

    #[test]
    fn short_trace_bounds_its_rate_by_the_longest_windows_that_it_has() {
        // The least time of one in a thousand windows: 63 gaps of 2.08 ms, and 7, take 88 and 2.1 ms, less a margin.
        for (requests, windows, least_s) in [(16_000, 2, 0.070), (2_000, 1, 0.0014)] {
            let region = fast_requests(requests, 480.0, 0).parameters().unwrap();
            assert_eq!(region.windows.len(), windows);
            let seconds = region.windows[windows - 1].time_min.as_s();
            assert!(seconds > least_s, "{requests}: {seconds}");
        }
    }

    #[test]
    fn model_without_queues_knows_no_calmer_load() {
        let fit = fast_device(480.0, 0);
        assert!(fit.parameters().unwrap().windows.iter().all(|of| of.time_max.is_none()));
        let windows = fit.parameters_of_one_load().unwrap().windows;
        let seconds = windows[2].time_max.unwrap().as_s();
        assert!((1.2..1.35).contains(&seconds), "511 gaps of 2.08 ms, and more: {seconds}");
        let load = region_of_one_load(4);
        assert!(load.windows[2].queue_min > 512, "{load:?}");
    }

    /// Every request finds as many others.
    fn region_of_one_load(queue_length: u32) -> RegionParameters {
        let mut fit = RegionFit::default();
        for index in 0..50_000_u64 {
            let arrival = Instant::ZERO + Duration::from_ms(index);
            let record = TraceRecord::new(arrival, Operation::Read, 8 * index, 8);
            fit.record(&record, queue_length, Some(Duration::from_ms(4)));
        }
        fit.parameters_of_one_load().unwrap()
    }

    #[test]
    fn sequential_shares_of_reads_and_of_writes_are_bounded_apart() {
        // Half reads; four of five requests of the sequential operation go on where the last of them ended.
        let load = |sequential: Operation| {
            let mut stream = Seed(5).stream("load");
            let (mut fit, mut now, mut end) = (RegionFit::default(), Instant::ZERO, 0);
            for _ in 0..50_000 {
                now += stream.exponential(Duration::from_ms(2));
                let op = if stream.below(2) == 0 { Operation::Read } else { Operation::Write };
                let goes_on = op == sequential && stream.below(5) > 0;
                let lbn = if goes_on { end } else { stream.below(1 << 30) };
                if op == sequential {
                    end = lbn + 8;
                }
                fit.record(&TraceRecord::new(now, op, lbn, 8), 0, Some(Duration::from_ms(1)));
            }
            fit.parameters().unwrap().windows[2]
        };
        let [reads, writes] = [Operation::Read, Operation::Write].map(load);
        // Of 512, 205 are expected, with a standard deviation of 11.
        assert!((160..180).contains(&reads.sequential_min) && (230..250).contains(&reads.sequential_max));
        assert_eq!(reads.sequential_min.abs_diff(writes.sequential_min) / 10, 0, "together they look alike");
        assert!(reads.sequential_reads_min > Some(160) && reads.sequential_writes_max < Some(5), "{reads:?}");
        assert!(
            writes.sequential_writes_min > Some(160) && writes.sequential_reads_max < Some(5),
            "{writes:?}"
        );
    }

    #[test]
    fn share_of_force_unit_access_is_bounded_on_either_side() {
        let of = |fua_pct| {
            let region = fast_device(480.0, fua_pct).parameters().unwrap();
            let longest = region.windows[2];
            (region.operations[0].fua.unwrap(), longest.fua_min.unwrap(), longest.fua_max.unwrap())
        };
        assert_eq!(of(0), (0, 0, 0));
        assert_eq!(of(100), (50_000, 512, 512));
        let (_, least, most) = of(50);
        assert!((190..235).contains(&least) && (277..320).contains(&most), "{least} to {most} of 512");
    }

    #[test]
    fn bounds_hold_for_a_clone_that_draws_independently() {
        // One at a time: a request of 1 ms is followed by one of 9 ms. Windows of the device always take as long.
        let (mut fit, mut now) = (RegionFit::default(), Instant::ZERO);
        for index in 0..20_000_u64 {
            let response = Duration::from_ms(if index % 2 == 0 { 1 } else { 9 });
            fit.record(&TraceRecord::new(now, Operation::Read, 8 * index, 8), 0, Some(response));
            now += response;
        }
        let region = fit.parameters().unwrap();
        let mut stream = Seed(1).stream("clone");
        let mut draw = || if stream.below(2) == 0 { 1 } else { 9 };
        for bounds in &region.windows[1..] {
            let sums = (0..1_000).map(|_| (1..bounds.requests).map(|_| draw()).sum::<u64>());
            let outside = sums.filter(|ms| Duration::from_ms(*ms) < bounds.time_min).count();
            assert!(outside <= 3, "{outside} of 1,000: {bounds:?}");
            let mean = Duration::from_ms(5 * u64::from(bounds.requests));
            assert!(bounds.time_min.as_s() > 0.55 * mean.as_s(), "{bounds:?}");
        }
    }

    #[test]
    fn few_windows_have_no_bounds() {
        let of = |requests| region(requests, 50).windows.iter().map(|of| of.requests).collect::<Vec<_>>();
        assert!(of(200).is_empty());
        assert_eq!(of(300), [8]);
        assert_eq!(of(64 * 32), [8, 64]);
    }

    #[test]
    fn value_that_few_requests_had_is_not_known() {
        let mut fit = RegionFit::default();
        for index in 0..10_000_u64 {
            let blocks = if index % 1_000 == 0 { 64 } else { 8 };
            let queue = if index < 20 { 0 } else { 3 };
            let arrival = Instant::ZERO + Duration::from_ms(index);
            let record = TraceRecord::new(arrival, Operation::Read, 8 * index, blocks);
            fit.record(&record, queue, Some(Duration::from_ms(4)));
        }
        let bounds = fit.parameters().unwrap().operations[0];
        assert_eq!((bounds.blocks_min, bounds.blocks_max), (8, 8), "ten requests were longer");
        assert_eq!((bounds.queue_min, bounds.queue_max), (0, 3), "twenty found the device idle");
    }
}
