//! Running the steps of a recording whose files, threads and actions are any bytes.
#![no_main]

use std::num::NonZeroU32;

use seeklab_core::{ByteSize, Duration, Seed};
use seeklab_fuzz::{TARGET, run_host};
use seeklab_workloads::Host;
use seeklab_workloads::host::{
    CachedPages, HostSettings, RecordedAction, RecordedAllocation, RecordedExtent, RecordedFile,
    RecordedPlace, RecordedPool, RecordedStep, RecordedThread, Recording, SyncEnd,
};

/// Numbers from the input, zero behind its end.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn below(&mut self, end: u32) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), 0, 0]) % end.max(1)
    }

    /// Any number, small ones more often.
    fn any(&mut self) -> u64 {
        let shift = u32::from(self.byte()) % 64;
        (u64::from(self.byte()) << 56 | u64::from(self.byte()) << 48) >> shift
    }
}

fn cached(numbers: &mut Numbers) -> CachedPages {
    let (first, pages) = (u64::from(numbers.below(5000)), u64::from(numbers.below(700)));
    CachedPages { first, pages, is_dirty: numbers.byte() % 2 == 1 }
}

/// A file. Some of its extents are new: their places go to one of the pools, which do not need to have enough.
fn file(numbers: &mut Numbers, pools: &mut [RecordedPool]) -> RecordedFile {
    let pages = u64::from(numbers.below(5000)) + 1;
    let mut extents = Vec::new();
    let mut allocations = Vec::new();
    let mut first = 0;
    while first < pages && extents.len() < 8 {
        let length = (u64::from(numbers.below(700)) + 1).min(pages - first);
        // Between the extents lie holes.
        let (address, gap) = (u64::from(numbers.below(60_000)) * 5, u64::from(numbers.byte() % 3));
        extents.push(RecordedExtent { first, address, pages: length });
        if numbers.byte() % 2 == 1 {
            let pool = numbers.below(pools.len() as u32);
            allocations.push(RecordedAllocation { first, pages: length, pool });
            let pages = length - u64::from(numbers.byte() % 2);
            if pages > 0 {
                pools[pool as usize].places.push(RecordedPlace { address, pages });
            }
        }
        first += length + gap;
    }
    let cached = vec![cached(numbers)];
    RecordedFile { pages, extents, is_cached: numbers.byte() % 2 == 1, cached, allocations }
}

fn action(numbers: &mut Numbers, files: &[RecordedFile], threads: u32) -> RecordedAction {
    let file = numbers.below(files.len() as u32);
    let all = files[file as usize].pages as u32;
    let first = numbers.below(all);
    let pages = numbers.below(all - first) + 1;
    let address = numbers.any();
    match numbers.byte() % 21 {
        0 => RecordedAction::Read { file, first, pages, requested: pages + numbers.below(9) },
        1 => RecordedAction::Fault { file, page: first },
        2 | 3 => {
            let (keeps_first, keeps_last) = (numbers.byte() % 2 == 1, numbers.byte() % 2 == 1);
            RecordedAction::Write { file, first, pages, keeps_first, keeps_last }
        }
        4 => RecordedAction::Metadata { address, dirties: true, is_present: numbers.byte() % 2 == 1 },
        5 => RecordedAction::Metadata { address, dirties: false, is_present: false },
        6 => RecordedAction::MetadataAhead { address, pages: numbers.below(64) },
        7 => {
            let end = [SyncEnd::Flush, SyncEnd::Commit, SyncEnd::Later][usize::from(numbers.byte() % 3)];
            RecordedAction::SyncFile { file, end }
        }
        8 => RecordedAction::SyncAll,
        9 => RecordedAction::Await { thread: numbers.below(threads), steps: numbers.below(40) },
        10 => RecordedAction::Lose { file, first, pages },
        11 => RecordedAction::Delete { file },
        12 => RecordedAction::Sequential { file },
        14 => {
            let queue = NonZeroU32::new(numbers.below(4));
            let (first, sectors) = (numbers.any() % 50_000, numbers.below(u32::MAX));
            RecordedAction::Direct { file, first, sectors, writes: numbers.byte() % 2 == 1, queue }
        }
        15 => {
            let queue = NonZeroU32::MIN.saturating_add(numbers.below(3));
            RecordedAction::Reap { queue, transfers: numbers.below(5) }
        }
        16 => RecordedAction::Change { blocks: numbers.any() as u32 },
        17 => RecordedAction::Commit,
        19 => RecordedAction::LookUp { address: numbers.any() % 100_000 },
        18 => RecordedAction::WriteMetadata { address: numbers.any() % 100_000, pages: numbers.below(64) },
        13 => RecordedAction::Sleep { time: Duration::from_ns(numbers.any()) },
        _ => RecordedAction::Start { thread: numbers.below(threads) },
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut numbers = Numbers(bytes);
    let mut pools = vec![RecordedPool::default(); usize::from(numbers.byte() % 3) + 1];
    let files: Vec<RecordedFile> = (0..=numbers.byte() % 4).map(|_| file(&mut numbers, &mut pools)).collect();
    let count = u32::from(numbers.byte() % 4) + 1;
    let threads = (0..count).map(|_| {
        let steps = (0..numbers.byte()).map(|_| RecordedStep {
            computing: Duration::from_ns(numbers.any()),
            action: action(&mut numbers, &files, count),
        });
        RecordedThread { start: Duration::ZERO, steps: steps.collect() }
    });
    let threads = threads.collect();
    let metadata = vec![cached(&mut numbers)];
    let settings = HostSettings {
        memory: Some(ByteSize::from_bytes((u64::from(numbers.byte()) + 64) * 4096)),
        tags: Some(u32::from(numbers.byte()) + 1),
        write_cache: Some(numbers.byte() % 2 == 1),
        fua: Some(numbers.byte() % 2 == 1),
        ..HostSettings::default()
    };
    let journal = (0..numbers.byte() % 3)
        .map(|_| RecordedPlace {
            address: u64::from(numbers.below(60_000)),
            pages: numbers.below(200).into(),
        })
        .collect();
    if let Ok(host) = Host::of_recording(
        Recording { files, threads, pools, metadata, journal, ..Recording::default() },
        &settings,
        TARGET,
        Seed(1),
    ) {
        run_host(host);
    }
});
