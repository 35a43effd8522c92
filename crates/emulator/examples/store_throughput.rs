//! Throughput of the store: nanoseconds per operation and gigabytes per second, for memory and for a file in
//! the page cache.
//!
//! ```text
//! cargo run --release -p seeklab-emulator --example store_throughput [FOLDER]
//! ```
//! Each line is the best of five rounds over 64 MiB, at offsets in a scattered order, and beside it over 512
//! KiB, which the processor's caches hold. "array" is a plain copy to and from an array at the same places:
//! the limit of this machine. "first write" allocates; "overwrite" and "read" find the pages there.

#![allow(clippy::disallowed_methods, reason = "this program measures time")]

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use seeklab_core::units::ByteSize;
use seeklab_emulator::store::{Access, Store, StoreError};

const DEVICE_BYTES: u64 = 1 << 40;
const SPANS_BYTES: [u64; 2] = [64 << 20, 512 << 10];
const SIZES: [usize; 3] = [512, 4096, 65_536];
const ROUND_COUNT: usize = 5;

fn main() -> Result<(), StoreError> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| std::env::temp_dir().display().to_string());
    let path = Path::new(&folder).join(format!("seeklab-store-throughput-{}", std::process::id()));
    println!("{:<22} {:^20}    {:^20}", "", "64 MiB", "512 KiB");
    println!(
        "{:<5} {:>5}  {:<11} {:>10} {:>9} {:>12} {:>9}",
        "store", "size", "operation", "ns/op", "GB/s", "ns/op", "GB/s"
    );
    for size in SIZES {
        let columns = SPANS_BYTES.map(|span| array_ns(size, span));
        print("array", size, &["overwrite", "read"], columns);
    }
    measure("ram", &Store::in_ram(ByteSize::from_bytes(DEVICE_BYTES), None)?)?;
    let store = Store::in_file(&path, ByteSize::from_bytes(DEVICE_BYTES), Access::ReadWrite)?;
    let measured = measure("file", &store);
    std::fs::remove_file(&path).expect("the file was made above");
    measured
}

fn measure(name: &str, store: &Store) -> Result<(), StoreError> {
    for size in SIZES {
        let columns = [best_ns(store, size, SPANS_BYTES[0])?, best_ns(store, size, SPANS_BYTES[1])?];
        print(name, size, &["read hole", "first write", "overwrite", "read"], columns);
    }
    Ok(())
}

fn print<const N: usize>(name: &str, size: usize, operations: &[&str; N], columns: [[f64; N]; 2]) {
    for (index, operation) in operations.iter().enumerate() {
        let [large, small] = columns.map(|column| column[index]);
        let rate = |ns| size as f64 / ns;
        print!("{name:<5} {:>5}  {operation:<11}", ByteSize::from_bytes(size as u64));
        println!(" {large:>10.1} {:>9.2} {small:>12.1} {:>9.2}", rate(large), rate(small));
    }
}

/// Nanoseconds per copy of `size` bytes to and from an array of `span` bytes.
fn array_ns(size: usize, span: u64) -> [f64; 2] {
    let mut array = vec![1_u8; span as usize];
    let mut buffer = vec![0x5a; size];
    let mut best = [f64::MAX; 2];
    for _ in 0..ROUND_COUNT {
        let write = round(size, span, |offset| {
            array[offset as usize..][..size].copy_from_slice(black_box(&buffer));
            Ok(())
        });
        let read = round(size, span, |offset| {
            black_box(&mut buffer).copy_from_slice(&array[offset as usize..][..size]);
            Ok(())
        });
        for (best, time) in best.iter_mut().zip([write, read]) {
            let time = time.expect("copying does not fail").as_secs_f64();
            *best = best.min(time * 1e9 / (span / size as u64) as f64);
        }
    }
    best
}

/// Nanoseconds per operation of `size` bytes over a span: read hole, first write, overwrite, read.
fn best_ns(store: &Store, size: usize, span: u64) -> Result<[f64; 4], StoreError> {
    let data = vec![0x5a; size];
    let mut buffer = vec![0; size];
    let mut best = [Duration::MAX; 4];
    for _ in 0..ROUND_COUNT {
        store.discard(0, DEVICE_BYTES)?;
        let hole = round(size, span, |offset| store.read(offset, &mut buffer))?;
        let first = round(size, span, |offset| store.write(offset, &data))?;
        let again = round(size, span, |offset| store.write(offset, &data))?;
        let read = round(size, span, |offset| store.read(offset, &mut buffer))?;
        assert_eq!(buffer, data);
        for (best, time) in best.iter_mut().zip([hole, first, again, read]) {
            *best = time.min(*best);
        }
    }
    Ok(best.map(|time| time.as_secs_f64() * 1e9 / (span / size as u64) as f64))
}

/// The time of one operation at each place in the span.
fn round(
    size: usize,
    span: u64,
    mut act: impl FnMut(u64) -> Result<(), StoreError>,
) -> Result<Duration, StoreError> {
    let place_count = span / size as u64;
    // Odd, so that it visits every one of a power of two of places once.
    let stride = (place_count * 5 / 8) | 1;
    let start = Instant::now();
    for index in 0..place_count {
        act(index * stride % place_count * size as u64)?;
    }
    Ok(start.elapsed())
}
