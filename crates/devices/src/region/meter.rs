//! Measurement of a load as its requests arrive: properties of each request, and sums over windows of requests.

use seeklab_core::{Duration, Instant, Operation, Request};

/// Requests of a window, ascending. Each window consists of whole windows of the length before.
pub const WINDOWS: [u32; 3] = [8, 64, 512];

/// Ends of requests that are remembered, so that interleaved streams count as sequential.
const STREAMS: usize = 16;

/// A request that arrives, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadRequest {
    /// Operation of the request.
    pub op: Operation,
    /// Its first block.
    pub lbn: u64,
    /// Its blocks.
    pub blocks: u32,
    /// Force unit access: it completes when its data are on the media.
    pub fua: bool,
    /// Other requests in the device at its arrival.
    pub queue_length: u32,
}

impl LoadRequest {
    /// A request that finds so many others in the device.
    pub(crate) const fn of(request: &Request, queue_length: u32) -> Self {
        let Request { op, lbn, blocks, fua, .. } = *request;
        Self { op, lbn, blocks, fua, queue_length }
    }
}

/// Properties of a request that depend on those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Time since the arrival before; zero of the first request.
    pub gap: Duration,
    /// True if the request begins where one of the last 16 ended.
    pub is_sequential: bool,
}

/// Sums over the requests of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// From the first arrival to the last.
    pub time: Duration,
    /// Sum of the other requests in the device, over the arrivals.
    pub queue: u64,
    /// Blocks of all requests.
    pub blocks: u64,
    /// Sequential requests of each operation.
    pub sequential: [u32; Operation::ALL.len()],
    /// Requests with force unit access.
    pub fua: u32,
    /// Requests of each operation.
    pub operations: [u32; Operation::ALL.len()],
}

impl Window {
    fn add(&mut self, other: &Self) {
        self.queue += other.queue;
        self.blocks += other.blocks;
        self.fua += other.fua;
        self.sequential.iter_mut().zip(other.sequential).for_each(|(sum, more)| *sum += more);
        self.operations.iter_mut().zip(other.operations).for_each(|(sum, more)| *sum += more);
    }
}

/// Meter of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadMeter {
    last: Option<Instant>,
    ends: [u64; STREAMS],
    next_end: u8,
    /// Requests in the longest window so far.
    count: u32,
    begins: [Instant; WINDOWS.len()],
    sums: [Window; WINDOWS.len()],
}

impl Default for LoadMeter {
    fn default() -> Self {
        Self {
            last: None,
            // No request begins there.
            ends: [u64::MAX; STREAMS],
            next_end: 0,
            count: 0,
            begins: [Instant::ZERO; WINDOWS.len()],
            sums: [Window::default(); WINDOWS.len()],
        }
    }
}

impl LoadMeter {
    /// Takes a request that arrives at `now`. [`close`](Self::close) follows.
    pub fn arrive(&mut self, now: Instant, request: &LoadRequest) -> Arrived {
        let gap = self.last.map_or(Duration::ZERO, |last| now.saturating_since(last));
        self.last = Some(now);
        for (begin, length) in self.begins.iter_mut().zip(WINDOWS) {
            if !self.count.is_multiple_of(length) {
                break;
            }
            *begin = now;
        }
        let sums = &mut self.sums[0];
        let mut is_sequential = false;
        if request.op.addresses_blocks() {
            is_sequential = self.ends.contains(&request.lbn);
            self.ends[usize::from(self.next_end)] = request.lbn.saturating_add(u64::from(request.blocks));
            self.next_end = (self.next_end + 1) % STREAMS as u8;
            sums.blocks += u64::from(request.blocks);
            sums.sequential[request.op as usize] += u32::from(is_sequential);
        }
        sums.queue += u64::from(request.queue_length);
        sums.fua += u32::from(request.fua);
        sums.operations[request.op as usize] += 1;
        self.count += 1;
        Arrived { gap, is_sequential }
    }

    /// Calls `closed` with the index and the sums of each window that the last request completed, the shortest first.
    pub fn close(&mut self, mut closed: impl FnMut(usize, &Window)) {
        if !self.count.is_multiple_of(WINDOWS[0]) {
            return;
        }
        for (index, length) in WINDOWS.into_iter().enumerate() {
            if !self.count.is_multiple_of(length) {
                return;
            }
            let mut window = std::mem::take(&mut self.sums[index]);
            if let Some(longer) = self.sums.get_mut(index + 1) {
                longer.add(&window);
            }
            window.time = self.last.unwrap_or_default().saturating_since(self.begins[index]);
            closed(index, &window);
        }
        self.count = 0;
    }

    /// Forgets the windows that are under way and the arrival before. The next request begins a stretch of its own.
    pub fn interrupt(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_sum_what_arrived_in_them() {
        let mut meter = LoadMeter::default();
        let mut closed: Vec<(usize, Window)> = Vec::new();
        for index in 0..1_024_u64 {
            let op = if index % 4 == 3 { Operation::Write } else { Operation::Read };
            // Two interleaved streams, and every eighth request elsewhere.
            let lbn = if index % 8 == 7 {
                (1 << 30) | (index << 10)
            } else {
                ((index % 2) << 20) | (index / 2 * 8)
            };
            let request = LoadRequest { op, lbn, blocks: 8, fua: false, queue_length: (index % 2) as u32 };
            let arrived = meter.arrive(Instant::from_ns(100 * index), &request);
            assert_eq!(arrived.gap.as_ns(), if index == 0 { 0 } else { 100 });
            meter.close(|window, sums| closed.push((window, *sums)));
        }
        for (index, length) in WINDOWS.into_iter().enumerate() {
            let of: Vec<&Window> =
                closed.iter().filter(|(window, _)| *window == index).map(|(_, sums)| sums).collect();
            assert_eq!(of.len() as u32, 1_024 / length);
            for sums in of {
                assert_eq!(sums.time.as_ns(), 100 * u64::from(length - 1));
                assert_eq!(sums.queue, u64::from(length / 2));
                assert_eq!(sums.blocks, u64::from(8 * length));
                assert_eq!(sums.operations[Operation::Write as usize], length / 4);
            }
        }
        // Of the second stream every fourth request is elsewhere, and the request behind it begins anew.
        let last = closed.iter().rev().find(|(window, _)| *window == 0).unwrap().1;
        assert_eq!(last.sequential, [5, 1, 0, 0, 0], "{last:?}");
    }
}
