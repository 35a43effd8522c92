//! Writes and reads a made-up trace in every format and prints rows per second, bytes per row and
//! the peak of resident memory so far.
//!
//! ```text
//! cargo run --release -p seeklab-columnar --example throughput -- 10000000 parquet csv
//! ```
//! The first argument is the number of rows, further ones name formats. Peak memory only grows, so name one
//! format to measure that format alone.

use std::error::Error;
use std::path::Path;
use std::time::Instant as WallClock;

use seeklab_columnar::{FORMATS, create, open};
use seeklab_core::{Breakdown, BufferOutcome, Duration, Instant, Operation, Seed, Stream, TraceRecord};
use seeklab_traces::{Metadata, ReadOptions};

/// A row as a simulated disk gives it: every column has a value, few repeat.
fn record(random: &mut Stream, arrival: &mut u64) -> TraceRecord {
    let queue = random.below(5_000_000);
    let breakdown = Breakdown {
        queue: Duration::from_ns(queue),
        overhead: Duration::from_us(300),
        seek: Duration::from_ns(random.below(10_000_000)),
        rotation: Duration::from_ns(random.below(6_000_000)),
        transfer: Duration::from_ns(100_000 + random.below(100) * 3_200),
        bus: Duration::from_us(random.below(20)),
        ..Breakdown::default()
    };
    let at = Instant::from_ns(*arrival);
    let op = if random.below(3) == 0 { Operation::Write } else { Operation::Read };
    let record = TraceRecord {
        issue: Some(at + Duration::from_ns(queue / 2)),
        start: Some(at + breakdown.queue),
        completion: Some(at + breakdown.total()),
        queue_length: Some(random.below(16) as u32),
        breakdown: Some(breakdown),
        seek_cylinders: Some(random.below(10_000) as u32),
        buffer: BufferOutcome::Miss,
        ..TraceRecord::new(at, op, random.below(17_783_240), 1 + random.below(64) as u32)
    };
    *arrival = record.completion.map_or(0, Instant::as_ns);
    record
}

fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()).unwrap_or(0) / 1024
}

#[expect(clippy::disallowed_methods, reason = "this program measures how fast it is itself")]
fn measure(path: &Path, format: &str, rows: u64, ring: &[TraceRecord]) -> Result<(), Box<dyn Error>> {
    let began = WallClock::now();
    let mut writer = create(path, Some(format), &Metadata::default())?;
    let mut shift = Duration::ZERO;
    let span = ring.last().and_then(|last| last.completion).unwrap_or_default() - Instant::ZERO;
    for row in 0..rows {
        let index = row as usize % ring.len();
        if row > 0 && index == 0 {
            shift += span;
        }
        let mut record = ring[index];
        record.arrival += shift;
        record.issue = record.issue.map(|time| time + shift);
        record.start = record.start.map(|time| time + shift);
        record.completion = record.completion.map(|time| time + shift);
        writer.write(&record)?;
    }
    writer.finish()?;
    let written = began.elapsed().as_secs_f64();
    let size = std::fs::metadata(path)?.len();
    let write_peak = peak_mib();
    let began = WallClock::now();
    let mut read_rows = 0_u64;
    let mut sum = 0_u64;
    for record in open(path, Some(format), &ReadOptions::default())? {
        let record = record?;
        read_rows += 1;
        sum = sum.wrapping_add(record.lbn);
    }
    let read = began.elapsed().as_secs_f64();
    assert_eq!(read_rows, rows, "every row comes back");
    println!(
        "{format:18} {:7.2} M rows/s written, {:7.2} M rows/s read, {:6.1} bytes/row, peak {write_peak} MiB written, {} MiB read ({sum:x})",
        rows as f64 / written / 1e6,
        rows as f64 / read / 1e6,
        size as f64 / rows as f64,
        peak_mib(),
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let rows: u64 = arguments.next().map_or(Ok(1_000_000), |rows| rows.parse())?;
    let names: Vec<String> = arguments.collect();
    let mut random = Seed(1).stream("throughput");
    let mut arrival = 0;
    let ring: Vec<_> = (0..20_000).map(|_| record(&mut random, &mut arrival)).collect();
    let folder = tempfile::tempdir()?;
    for format in FORMATS {
        if names.is_empty() || names.iter().any(|name| name == format.name()) {
            measure(&folder.path().join("trace"), format.name(), rows, &ring)?;
        }
    }
    Ok(())
}
