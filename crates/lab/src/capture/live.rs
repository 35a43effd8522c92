//! The line on stderr that shows what is captured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use seeklab_core::{Duration, HostRequest, Operation};

use crate::progress::Progress;

/// Counts of the requests captured so far.
#[derive(Debug, Default)]
pub(super) struct LiveCounts {
    reads: AtomicU64,
    writes: AtomicU64,
    others: AtomicU64,
    bytes: AtomicU64,
    response_ns: AtomicU64,
    lost: AtomicU64,
    over: AtomicBool,
}

impl LiveCounts {
    pub(super) fn saw(&self, request: &HostRequest) {
        let count = match request.op {
            Operation::Read => &self.reads,
            Operation::Write => &self.writes,
            _ => &self.others,
        };
        count.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(request.length_bytes, Ordering::Relaxed);
        self.response_ns.fetch_add(request.response_time().as_ns(), Ordering::Relaxed);
    }

    pub(super) fn lost(&self, lost: u64) {
        self.lost.store(lost, Ordering::Relaxed);
    }
}

/// A line, redrawn every second by a thread of its own; nothing where stderr is not a terminal.
pub(super) struct Live {
    seen: Arc<LiveCounts>,
    thread: Option<JoinHandle<()>>,
}

impl Live {
    pub(super) fn start(mut line: Progress, seen: Arc<LiveCounts>, duration: Option<Duration>) -> Self {
        let shown = Arc::clone(&seen);
        let thread = std::thread::spawn(move || {
            let of = duration.map_or_else(String::new, |duration| format!("of {duration}, "));
            let mut before = [0; 3];
            while !shown.over.load(Ordering::Acquire) {
                std::thread::park_timeout(std::time::Duration::from_secs(1));
                let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
                let requests = load(&shown.reads) + load(&shown.writes) + load(&shown.others);
                let now = [requests, load(&shown.bytes), load(&shown.response_ns)];
                let [rate, bytes, response_ns] = [0, 1, 2].map(|index| now[index] - before[index]);
                before = now;
                line.figures(&format!(
                    "{of}{requests} requests ({} reads, {} writes), {rate}/s, {:.1} MiB/s, mean {:.3} ms, {} lost",
                    load(&shown.reads),
                    load(&shown.writes),
                    bytes as f64 / f64::from(1 << 20),
                    response_ns as f64 / 1e6 / rate.max(1) as f64,
                    load(&shown.lost),
                ));
            }
        });
        Self { seen, thread: Some(thread) }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.seen.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
