//! Lindley's recursion with a write buffer, over drawn Poisson arrivals.
//!
//! One server takes commands one at a time. A write is complete when the buffer has it, and its extent waits for the media.
//! The media writes extents in their order whenever no read has it, and a destage that has begun is finished: a vacation
//! that arrivals interrupt only at its end. A read waits for the destage at work, or for all extents if the buffer's rules
//! say so. Where the media is free of a read before the next command can begin, a destage begins between them, so reads
//! that wait alternate with the extents that wait. A write that finds the buffer full waits for the oldest extent, and all
//! commands behind it wait with it.
//!
//! ```text
//! commands  W ▪  R ┄┄┄┄┄┄▪▪▪▪▪▪▪  W ▪ W ▪  R ┄┄┄┄┄┄▪▪▪▪▪▪▪           ▪ served   ┄ waits for the media
//! media        ├destage─┤├ read ┤  ├destage──┤├ read ┤├destage──┤
//! ```
//! Every request advances the recursion by its service time and the destages that begin before it, so the steady state
//! follows from [`ARRIVALS`] requests whose operations and times are drawn from the law. The mean of M/G/1 that serves the
//! same draws is known exactly; the difference of the drawn mean from it corrects the means (a control variate
//! [Law & Kelton 2000, section 11.4]). The draws are the same at every rate, so figures change with the rate alone.
//!
//! # Scope and limits
//! Addresses of consecutive requests are independent, so no read hits the buffer and no two writes share an extent.
//! Commands are served in order of arrival.
//!
//! # References
//! - [Law & Kelton 2000] A. M. Law, W. D. Kelton, *Simulation Modeling and Analysis*, 3rd edition, McGraw-Hill, 2000.
//! - [Doshi 1986] B. T. Doshi, *Queueing systems with vacations: a survey*, Queueing Systems 1, 1986.

use std::collections::VecDeque;

use seeklab_core::{Seed, Stream};
use seeklab_devices::service_law::{BufferedWrites, ServiceTimes, WriteBuffer};

use crate::error::{EstimateError, check_positive};
use crate::moments::ServiceMoments;
use crate::quantiles::{OperationTimes, Quantiles, SHARES, quantiles_s};
use crate::queueing::control::slope;
use crate::queueing::{Lindley, ServedArrival, Steady, mg1};

/// Requests of the recursion.
pub(super) const ARRIVALS: usize = 1 << 19;

/// Requests at the begin that are left out: a sixteenth.
const WARM_UP: usize = ARRIVALS / 16;

/// Batches for the control variate.
const BATCHES: usize = 32;

/// Requests with which the highest rate is found.
const SATURATED: usize = 1 << 15;

/// Steady state of reads and writes.
#[derive(Debug, Clone, PartialEq)]
pub struct BufferedSteady {
    /// Means over all requests. The device is utilised while its media works.
    pub steady: Steady,
    /// Service times of reads that find the media free and writes that find room.
    pub service: ServiceMoments,
    /// Response times that shares of all requests do not exceed, in seconds.
    pub quantiles_s: Quantiles,
    /// Figures of the reads; `None` without reads.
    pub reads: Option<OperationTimes>,
    /// Figures of the writes; `None` without writes.
    pub writes: Option<OperationTimes>,
}

/// Steady state of Poisson arrivals at a device with a write buffer. Arrivals above the rate with a full buffer have none;
/// [`buffered_saturation_per_s`] gives that rate.
///
/// # Errors
/// No arrivals.
pub fn buffered_writes(
    arrivals_per_s: f64,
    writes: &BufferedWrites,
) -> Result<BufferedSteady, EstimateError> {
    check_positive("arrivals_per_s", arrivals_per_s)?;
    let mut server = Server::new(writes);
    let mut draws = Draws::new(writes);
    let mut sums = Sums::new(arrivals_per_s, writes);
    let factors = read_factors(writes);
    let mut waiting: VecDeque<Drawn> = VecDeque::new();
    let mut next = draws.next(1.0 / arrivals_per_s);
    for _ in 0..ARRIVALS {
        let is_idle = waiting.is_empty();
        let start_s = if is_idle { server.free_s.max(next.arrival_s) } else { server.free_s };
        while next.arrival_s <= start_s {
            sums.arrives(&next);
            waiting.push_back(next);
            next = draws.next(1.0 / arrivals_per_s);
        }
        let number = waiting.len();
        let request = waiting.pop_front().expect("a request has arrived");
        // Requests that arrive at an idle device choose nothing.
        let number = if is_idle && request.arrival_s >= start_s { 0 } else { number };
        let completed_s = server.serve(start_s, &request, factors[number.min(factors.len() - 1)]);
        sums.completes(&request, completed_s);
    }
    Ok(sums.steady(&server))
}

/// Highest rate of completions: with a full buffer, and as many commands waiting as the law of the reads knows.
pub fn buffered_saturation_per_s(writes: &BufferedWrites) -> f64 {
    let mut server = Server::new(writes);
    let mut draws = Draws::new(writes);
    let factor = *read_factors(writes).last().expect("there is a factor");
    let mut begun_s = 0.0;
    for number in 0..WARM_UP + SATURATED {
        if number == WARM_UP {
            begun_s = server.free_s;
        }
        let request = draws.next(0.0);
        server.serve(server.free_s, &request, factor);
    }
    SATURATED as f64 / (server.free_s - begun_s)
}

/// Factors of the service time of a read that was chosen among 0 (it arrived at an idle device), 1, … requests.
fn read_factors(writes: &BufferedWrites) -> Vec<f64> {
    let law = &writes.read_law;
    let idle_s = law.after_idle.as_ref().map_or_else(|| law.mean_s(1.0), ServiceTimes::mean_s);
    // A closed run chooses among one less than it keeps outstanding.
    let chosen_among =
        |number: u32| if number == 0 { 1.0 } else { law.mean_s(f64::from(number) + 1.0) / idle_s };
    (0..=law.constant_from()).map(chosen_among).collect()
}

/// A request with the times that were drawn for it.
#[derive(Debug, Clone, Copy)]
struct Drawn {
    number: usize,
    arrival_s: f64,
    is_read: bool,
    service_s: f64,
    /// Of a read, the read-ahead after it; of a write, the destage of its extent.
    after_s: f64,
}

/// Requests in their order, the same at every rate.
struct Draws<'a> {
    writes: &'a BufferedWrites,
    stream: Stream,
    arrival_s: f64,
    number: usize,
}

impl<'a> Draws<'a> {
    fn new(writes: &'a BufferedWrites) -> Self {
        Self { writes, stream: Seed(0).stream("estimate.buffered_writes"), arrival_s: 0.0, number: 0 }
    }

    fn next(&mut self, interarrival_mean_s: f64) -> Drawn {
        let [interarrival, op, service, after] = std::array::from_fn(|_| self.stream.unit());
        self.arrival_s -= (1.0 - interarrival).ln() * interarrival_mean_s;
        let WriteBuffer { read, write, destage, read_ahead, .. } = &self.writes.buffer;
        let is_read = op < self.writes.reads;
        let (service_s, after_s) = if is_read {
            (read.quantile_s(service), read_ahead.as_ref().map_or(0.0, |times| times.quantile_s(after)))
        } else {
            (write.quantile_s(service), destage.quantile_s(after))
        };
        let number = self.number;
        self.number += 1;
        Drawn { number, arrival_s: self.arrival_s, is_read, service_s, after_s }
    }
}

/// An extent that waits for the media.
#[derive(Debug, Clone, Copy)]
struct Extent {
    /// Time from which it can be written.
    ready_s: f64,
    destage_s: f64,
}

/// The server and the media behind its buffer.
struct Server<'a> {
    buffer: &'a WriteBuffer,
    /// Time from which the server takes the next command.
    free_s: f64,
    /// Time from which the media is free of what has begun.
    media_free_s: f64,
    /// True if that is a destage.
    destages: bool,
    /// Time until which the media reads ahead.
    reads_ahead_until_s: f64,
    extents: VecDeque<Extent>,
    /// Time for which the media has worked.
    media_busy_s: f64,
}

impl<'a> Server<'a> {
    fn new(writes: &'a BufferedWrites) -> Self {
        Self {
            buffer: &writes.buffer,
            free_s: 0.0,
            media_free_s: 0.0,
            destages: false,
            reads_ahead_until_s: 0.0,
            extents: VecDeque::new(),
            media_busy_s: 0.0,
        }
    }

    /// Serves a request from `start_s` on, not before the server is free. Returns its completion.
    fn serve(&mut self, start_s: f64, request: &Drawn, read_factor: f64) -> f64 {
        self.destage_until(start_s);
        self.free_s = if request.is_read {
            self.read(start_s, request, request.service_s * read_factor)
        } else {
            self.write(start_s, request)
        };
        self.free_s
    }

    fn read(&mut self, start_s: f64, request: &Drawn, service_s: f64) -> f64 {
        let kept = if self.buffer.reads_wait_for_all { 0 } else { self.buffer.extents_beside_read as usize };
        while self.extents.len() > kept {
            self.destage_next(start_s);
        }
        let begin_s = start_s.max(self.media_free_s - self.buffer.read_overlap_s);
        let completed_s = begin_s + service_s;
        self.media_free_s = completed_s - self.buffer.read_lead_s;
        self.media_busy_s += service_s;
        self.destages = false;
        self.reads_ahead_until_s = self.media_free_s + request.after_s;
        completed_s
    }

    fn write(&mut self, start_s: f64, request: &Drawn) -> f64 {
        let mut room_s = start_s;
        while self.unwritten(room_s) >= self.buffer.extents as usize {
            if !(self.destages && self.media_free_s > room_s) {
                self.destage_next(room_s);
            }
            room_s = self.media_free_s;
        }
        let overlap_s = self.buffer.write_overlap_s.min(request.service_s);
        let completed_s = (start_s + overlap_s).max(room_s) + request.service_s - overlap_s;
        if self.reads_ahead_until_s > start_s {
            // The write ends a read-ahead; until then the media was reading.
            self.media_free_s = self.media_free_s.max(completed_s);
            self.reads_ahead_until_s = completed_s;
        }
        let ready_s = completed_s - self.buffer.destage_lead_s;
        self.extents.push_back(Extent { ready_s, destage_s: request.after_s });
        completed_s
    }

    /// Extents that are not on the media at a time.
    fn unwritten(&self, now_s: f64) -> usize {
        self.extents.len() + usize::from(self.destages && self.media_free_s > now_s)
    }

    /// Begins the destages that the media begins before `now_s`.
    fn destage_until(&mut self, now_s: f64) {
        while let Some(oldest) = self.extents.front() {
            let begin_s = oldest.ready_s.max(self.media_free_s).max(self.reads_ahead_until_s);
            if begin_s >= now_s {
                return;
            }
            self.destage_next(begin_s);
        }
    }

    /// Begins to write the oldest extent at `now_s`, or when the media is free.
    fn destage_next(&mut self, now_s: f64) {
        if let Some(oldest) = self.extents.pop_front() {
            self.media_free_s = self.media_free_s.max(now_s).max(oldest.ready_s) + oldest.destage_s;
            self.media_busy_s += oldest.destage_s;
            self.destages = true;
        }
    }
}

/// Sums of a batch.
#[derive(Debug, Clone, Copy, Default)]
struct Batch {
    /// Response times of M/G/1 with the same draws, and their number.
    control: (f64, f64),
    /// Response times of reads and of writes, and their numbers.
    operations: [(f64, f64); 2],
}

/// Statistics of a run.
struct Sums {
    arrivals_per_s: f64,
    /// M/G/1 with the media times of the same draws.
    control: Lindley,
    control_mean_s: Option<f64>,
    service: ServiceMoments,
    batches: Vec<Batch>,
    /// Response times of reads and of writes.
    responses_s: [Vec<f64>; 2],
}

impl Sums {
    fn new(arrivals_per_s: f64, writes: &BufferedWrites) -> Self {
        let WriteBuffer { read, write, destage, .. } = &writes.buffer;
        let mixed = |one: &ServiceTimes, other: &ServiceTimes| {
            let mean_s = writes.reads * one.mean_s() + (1.0 - writes.reads) * other.mean_s();
            let square = |times: &ServiceTimes| times.variance_s2() + times.mean_s().powi(2);
            let square_s2 = writes.reads * square(one) + (1.0 - writes.reads) * square(other);
            ServiceMoments { mean_s, variance_s2: (square_s2 - mean_s * mean_s).max(0.0) }
        };
        let control = mg1(arrivals_per_s, mixed(read, destage)).ok().map(|steady| steady.response_mean_s);
        Self {
            arrivals_per_s,
            control: Lindley::new(),
            control_mean_s: control,
            service: mixed(read, write),
            batches: vec![Batch::default(); BATCHES],
            responses_s: [Vec::with_capacity(ARRIVALS), Vec::with_capacity(ARRIVALS)],
        }
    }

    /// The batch of a request; `None` while the buffer and the queue fill, and of requests behind the last.
    fn batch(&mut self, number: usize) -> Option<&mut Batch> {
        let index = number.checked_sub(WARM_UP)? * BATCHES / (ARRIVALS - WARM_UP);
        self.batches.get_mut(index)
    }

    fn arrives(&mut self, request: &Drawn) {
        let service_s = if request.is_read { request.service_s } else { request.after_s };
        let response_s = self.control.push(ServedArrival { arrival_s: request.arrival_s, service_s });
        if let Some(Batch { control: (sum, count), .. }) = self.batch(request.number) {
            *sum += response_s;
            *count += 1.0;
        }
    }

    fn completes(&mut self, request: &Drawn, completed_s: f64) {
        let operation = usize::from(!request.is_read);
        let response_s = completed_s - request.arrival_s;
        if let Some(batch) = self.batch(request.number) {
            let (sum, count) = &mut batch.operations[operation];
            *sum += response_s;
            *count += 1.0;
            self.responses_s[operation].push(response_s);
        }
    }

    /// Mean of sums over counts, corrected by the control.
    fn mean_s(&self, of: impl Fn(&Batch) -> (f64, f64)) -> f64 {
        let totals = |of: &dyn Fn(&Batch) -> (f64, f64)| {
            let (sum, count) =
                self.batches.iter().map(of).fold((0.0, 0.0), |sums, one| (sums.0 + one.0, sums.1 + one.1));
            sum / count
        };
        let mean_s = totals(&of);
        let Some(exact_s) = self.control_mean_s else { return mean_s };
        let control_s = totals(&|batch| batch.control);
        let batches = self.batches.iter().filter_map(|batch| {
            let ((sum, count), (control_sum, control_count)) = (of(batch), batch.control);
            (count > 0.0 && control_count > 0.0).then(|| (sum / count, control_sum / control_count))
        });
        let slope = slope(batches, (mean_s, control_s));
        (mean_s - slope * (control_s - exact_s)).max(0.0)
    }

    fn steady(mut self, server: &Server) -> BufferedSteady {
        let all_s = self.mean_s(|batch| {
            let [reads, writes] = batch.operations;
            (reads.0 + writes.0, reads.1 + writes.1)
        });
        let means_s = [0, 1].map(|operation| self.mean_s(|batch| batch.operations[operation]));
        let mut together: Vec<f64> = self.responses_s.iter().flatten().copied().collect();
        let [mut reads_s, mut writes_s] = std::mem::take(&mut self.responses_s);
        let times = |times_s: &mut [f64], mean_s| {
            (!times_s.is_empty())
                .then(|| OperationTimes { mean_s, quantiles_s: quantiles_s(times_s, SHARES) })
        };
        BufferedSteady {
            steady: Steady {
                throughput_per_s: self.arrivals_per_s,
                utilisation: (server.media_busy_s / server.media_free_s.max(server.free_s)).min(1.0),
                queue_time_mean_s: (all_s - self.service.mean_s).max(0.0),
                response_mean_s: all_s,
                outstanding_mean: self.arrivals_per_s * all_s,
            },
            service: self.service,
            quantiles_s: quantiles_s(&mut together, SHARES),
            reads: times(&mut reads_s, means_s[0]),
            writes: times(&mut writes_s, means_s[1]),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use seeklab_devices::service_law::{LawOrigin, ServiceLaw};

    use super::*;
    use crate::queueing::mg1_response_times;

    fn near(found: f64, expected: f64, tolerance: f64) {
        assert!((found / expected - 1.0).abs() < tolerance, "{found} {expected}");
    }

    /// Reads of 10 ms, writes of 1 ms into the buffer, destages of 8 ms.
    fn mix(reads: f64, extents: u32) -> BufferedWrites {
        let read = ServiceTimes::constant(0.010);
        BufferedWrites {
            buffer: WriteBuffer {
                is_reordered: false,
                extents,
                extents_beside_read: extents,
                reads_wait_for_all: false,
                read: read.clone(),
                read_overlap_s: 0.0,
                read_lead_s: 0.0,
                write: ServiceTimes::constant(0.001),
                write_overlap_s: 0.0,
                destage_lead_s: 0.0,
                destage: ServiceTimes::constant(0.008),
                read_ahead: None,
            },
            reads,
            read_law: Arc::new(ServiceLaw::of_server(LawOrigin::Exact, read)),
        }
    }

    #[test]
    fn reads_alone_are_mg1() {
        let found = buffered_writes(80.0, &mix(1.0, 4)).unwrap();
        let (exact, times) = mg1_response_times(80.0, &ServiceTimes::constant(0.010)).unwrap();
        // The control variate is the model itself, so nothing is left to chance.
        near(found.steady.response_mean_s, exact.response_mean_s, 1e-9);
        near(found.quantiles_s[3], times.quantile_s(0.99), 0.03);
        near(found.steady.utilisation, 0.8, 0.01);
        assert_eq!(found.writes, None);
    }

    #[test]
    fn rare_requests_wait_for_the_rest_of_a_destage() {
        // At 1 per second reads find a destage at work for 4 ms on average in 0.5 * 8 ms of a second.
        let found = buffered_writes(1.0, &mix(0.5, 4)).unwrap();
        // They find a read at work for 5 ms in 0.5 * 10 ms.
        let wait_s = 0.5 * 0.008 * 0.004 + 0.5 * 0.010 * 0.005;
        near(found.reads.unwrap().mean_s, 0.010 + wait_s, 0.002);
        near(found.writes.unwrap().mean_s, 0.001, 0.05);
    }

    #[test]
    fn reads_that_wait_for_all_wait_longer() {
        let all = BufferedWrites {
            buffer: WriteBuffer { reads_wait_for_all: true, ..mix(0.5, 16).buffer },
            ..mix(0.5, 16)
        };
        let mean_s = |writes: &BufferedWrites| buffered_writes(80.0, writes).unwrap().reads.unwrap().mean_s;
        assert!(mean_s(&all) > 1.2 * mean_s(&mix(0.5, 16)));
    }

    #[test]
    fn reads_behind_a_write_wait_for_a_destage_that_begins_before() {
        let early = BufferedWrites {
            buffer: WriteBuffer { destage_lead_s: 1e-6, ..mix(0.67, 16).buffer },
            ..mix(0.67, 16)
        };
        let mean_s = |writes: &BufferedWrites| buffered_writes(70.0, writes).unwrap().reads.unwrap().mean_s;
        assert!(mean_s(&early) > 1.05 * mean_s(&mix(0.67, 16)));
    }

    #[test]
    fn reads_that_wait_alternate_with_destages_where_the_media_is_free_before() {
        let early = BufferedWrites {
            buffer: WriteBuffer { read_lead_s: 1e-6, ..mix(0.5, 16).buffer },
            ..mix(0.5, 16)
        };
        let found = |writes: &BufferedWrites| buffered_writes(90.0, writes).unwrap();
        let (first, behind) = (found(&mix(0.5, 16)), found(&early));
        // The media has as much to do, in another order.
        near(behind.steady.utilisation, first.steady.utilisation, 0.001);
        assert!(behind.reads.unwrap().mean_s > 1.15 * first.reads.unwrap().mean_s, "{behind:?} {first:?}");
        near(buffered_saturation_per_s(&early), 1.0 / 0.009, 0.03);
    }

    #[test]
    fn full_buffer_completes_what_the_media_does() {
        // Every command costs the media 10 or 8 ms in the end; writes overlap destages.
        near(buffered_saturation_per_s(&mix(0.5, 8)), 1.0 / 0.009, 0.03);
        near(buffered_saturation_per_s(&mix(0.0, 8)), 1.0 / 0.008, 1e-6);
        // With room for one extent a write waits until the one before it is on the media, then takes 1 ms.
        near(buffered_saturation_per_s(&mix(0.0, 1)), 1.0 / 0.009, 1e-6);
    }

    #[test]
    fn smaller_buffers_hold_more_requests_up() {
        let mean_s = |extents| buffered_writes(95.0, &mix(0.5, extents)).unwrap().steady.response_mean_s;
        let times = [1, 2, 4, 16].map(mean_s);
        assert!(times.windows(2).all(|pair| pair[0] > pair[1]), "{times:?}");
    }
}
