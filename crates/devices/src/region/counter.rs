//! Counter of the requests outside of a region.

use seeklab_core::{Coverage, Instant, RegionBound, RegionBounds};

use super::meter::{LoadMeter, LoadRequest, WINDOWS};
use super::parameters::Region;

/// Place of the count of requests beyond any bound.
const ANY: usize = RegionBound::COUNT;

/// Counter of the requests of a device outside of its region.
///
/// A window that lies outside takes with it all of its requests that were not counted before.
#[derive(Debug, Clone, Copy, Default)]
pub struct RegionCounter {
    meter: LoadMeter,
    coverage: Coverage,
    /// Requests of the windows under way that are counted, by bound.
    counted: [[u32; RegionBound::COUNT + 1]; WINDOWS.len()],
}

impl RegionCounter {
    /// Counts of the requests so far. Windows that are under way are not judged yet.
    pub const fn coverage(&self) -> Coverage {
        self.coverage
    }

    /// Counts a request that arrives at `now`. `own` are bounds that the model itself finds it beyond. They count if the
    /// request lies within all those of the region.
    pub fn arrive(
        &mut self,
        region: Option<&Region>,
        now: Instant,
        request: &LoadRequest,
        own: RegionBounds,
    ) {
        self.coverage.requests += 1;
        let Some(region) = region else {
            self.coverage.outside += u64::from(!own.is_empty());
            own.iter().for_each(|bound| self.coverage.beyond[bound as usize] += 1);
            return;
        };
        let arrived = self.meter.arrive(now, request);
        let mut beyond = region.beyond(request, arrived);
        if beyond.is_empty() {
            beyond = own;
        }
        if !beyond.is_empty() {
            self.coverage.outside += 1;
            self.counted[0][ANY] += 1;
            for bound in beyond.iter() {
                self.coverage.beyond[bound as usize] += 1;
                self.counted[0][bound as usize] += 1;
            }
        }
        let Self { meter, coverage, counted } = self;
        meter.close(|index, window| {
            let beyond = region.beyond_windows(index, window);
            if !beyond.is_empty() {
                let length = WINDOWS[index];
                let mut rest = |place: usize| {
                    let before = std::mem::replace(&mut counted[index][place], length);
                    u64::from(length.saturating_sub(before))
                };
                coverage.outside += rest(ANY);
                beyond.iter().for_each(|bound| coverage.beyond[bound as usize] += rest(bound as usize));
            }
            let counts = std::mem::take(&mut counted[index]);
            if let Some(longer) = counted.get_mut(index + 1) {
                longer.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Duration, Operation};

    use super::super::parameters::{OperationBounds, RegionParameters, WindowBounds};
    use super::*;

    fn region() -> Region {
        let operation = |op| OperationBounds {
            op,
            requests: 10_000,
            blocks_min: 8,
            blocks_max: 8,
            queue_min: 0,
            queue_max: 4,
            sequential: None,
            fua: None,
        };
        let window = |requests: u32, writes_max: u32| WindowBounds {
            requests,
            windows: 1_000,
            time_min: Duration::ZERO,
            time_max: None,
            queue_min: 0,
            queue_max: u64::MAX,
            blocks_min: 0,
            blocks_max: u64::MAX,
            sequential_min: 0,
            sequential_max: requests,
            sequential_reads_min: None,
            sequential_reads_max: None,
            sequential_writes_min: None,
            sequential_writes_max: None,
            fua_min: None,
            fua_max: None,
            reads_max: requests,
            writes_max,
            flushes_max: 0,
            discards_max: 0,
            write_zeroes_max: 0,
        };
        let parameters = RegionParameters {
            gap_max: None,
            operations: [Operation::Read, Operation::Write].map(operation).to_vec(),
            windows: vec![window(8, 4), window(64, 20)],
        };
        parameters.read().unwrap()
    }

    /// The counts of so many requests; of each eight so many are writes, and so many find a queue of 9.
    fn counts(requests: u64, writes: u64, behind: u64) -> Coverage {
        let (region, mut counter) = (region(), RegionCounter::default());
        for index in 0..requests {
            let op = if index % 8 < writes { Operation::Write } else { Operation::Read };
            let queue_length = if index % 8 < behind { 9 } else { 1 };
            let request = LoadRequest { op, lbn: 1_000 * index, blocks: 8, fua: false, queue_length };
            counter.arrive(Some(&region), Instant::from_ns(index), &request, RegionBounds::NONE);
        }
        counter.coverage()
    }

    #[test]
    fn window_outside_takes_all_of_its_requests_with_it_once() {
        let of = |coverage: &Coverage, bound| coverage.beyond[bound as usize];
        let calm = counts(640, 2, 0);
        assert_eq!((calm.requests, calm.outside), (640, 0));
        // Five writes in eight: each short window lies outside, three in eight: the longer windows alone.
        for writes in [5, 3] {
            let seen = counts(640, writes, 0);
            assert_eq!((seen.outside, of(&seen, RegionBound::Writes)), (640, 640), "{writes}");
        }
        assert_eq!(counts(60, 5, 0).outside, 56, "a window under way is not judged");
        assert_eq!(counts(60, 3, 0).outside, 0);
        // Single requests of windows that lie outside as well.
        let both = counts(640, 3, 2);
        assert_eq!((both.outside, of(&both, RegionBound::QueueAbove)), (640, 160));
        assert_eq!(of(&both, RegionBound::Writes), 640);
    }

    #[test]
    fn own_bounds_of_the_model_count_for_requests_within_the_region() {
        let own = RegionBounds::NONE.with(RegionBound::Combination, true);
        let mut counter = RegionCounter::default();
        let request = LoadRequest { op: Operation::Read, lbn: 0, blocks: 8, fua: false, queue_length: 0 };
        counter.arrive(Some(&region()), Instant::ZERO, &request, own);
        let longer = LoadRequest { blocks: 9, ..request };
        counter.arrive(Some(&region()), Instant::ZERO, &longer, own);
        counter.arrive(None, Instant::ZERO, &longer, own);
        let coverage = counter.coverage();
        assert_eq!(coverage.outside, 3);
        assert_eq!(coverage.by_bound(), [(RegionBound::Combination, 2), (RegionBound::LengthAbove, 1)]);
    }
}
