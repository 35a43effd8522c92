//! A heat map: requests over time and place.

use seeklab_core::Instant;

/// Cells over time and over place.
const TIMES: usize = 120;
const PLACES: usize = 64;

/// Counts requests in cells that double their width as the trace goes on.
#[derive(Debug, Clone)]
pub struct HeatMap {
    first: Option<Instant>,
    time_ns: u64,
    place_bytes: u64,
    cells: Vec<u32>,
}

impl Default for HeatMap {
    fn default() -> Self {
        Self { first: None, time_ns: 1_000_000, place_bytes: 1 << 16, cells: vec![0; TIMES * PLACES] }
    }
}

impl HeatMap {
    /// Takes a request that starts at that byte.
    pub(super) fn record(&mut self, arrival: Instant, offset_bytes: u64) {
        let first = *self.first.get_or_insert(arrival);
        let since_ns = arrival.saturating_since(first).as_ns();
        while since_ns / self.time_ns >= TIMES as u64 {
            self.fold(|time, place| (time / 2, place));
            self.time_ns *= 2;
        }
        while offset_bytes / self.place_bytes >= PLACES as u64 {
            self.fold(|time, place| (time, place / 2));
            self.place_bytes *= 2;
        }
        let (time, place) = (since_ns / self.time_ns, offset_bytes / self.place_bytes);
        let cell = &mut self.cells[time as usize * PLACES + place as usize];
        *cell = cell.saturating_add(1);
    }

    fn fold(&mut self, to: impl Fn(usize, usize) -> (usize, usize)) {
        let mut folded = vec![0_u32; TIMES * PLACES];
        for (index, count) in self.cells.iter().enumerate() {
            let (time, place) = to(index / PLACES, index % PLACES);
            let cell = &mut folded[time * PLACES + place];
            *cell = cell.saturating_add(*count);
        }
        self.cells = folded;
    }

    /// Seconds and bytes of a cell.
    pub fn cell(&self) -> (f64, f64) {
        (self.time_ns as f64 / 1e9, self.place_bytes as f64)
    }

    /// Cells that are not empty: start in seconds since the first request and in bytes, requests.
    pub fn cells(&self) -> Vec<(f64, f64, u32)> {
        let (seconds, bytes) = self.cell();
        let filled = self.cells.iter().enumerate().filter(|(_, count)| **count > 0);
        filled
            .map(|(index, count)| {
                ((index / PLACES) as f64 * seconds, (index % PLACES) as f64 * bytes, *count)
            })
            .collect()
    }
}
