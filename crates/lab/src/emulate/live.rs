//! The line on stderr that shows what an emulation does.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use seeklab_core::{Duration, Instant};
use seeklab_emulator::clock::Clock;
use seeklab_emulator::emulation::Emulation;
use seeklab_emulator::frontend::{Backend, Command, Departure, Frontend, Next, Tag};

use super::feedback::Feedback;
use crate::progress::Progress;

/// An emulation with its line on stderr.
pub(super) struct Watched {
    pub(super) emulation: Emulation,
    pub(super) live: Live,
    pub(super) feedback: Option<Feedback>,
    pub(super) clock: Clock,
}

impl Backend for Watched {
    fn take(&mut self, command: Command<'_>) {
        if let Some(feedback) = &self.feedback {
            feedback.apply(&mut self.emulation);
        }
        self.emulation.take(command);
    }

    fn reply(&mut self, now: Instant, frontend: &mut dyn Frontend) -> io::Result<Next> {
        let next = self.emulation.reply(now, frontend)?;
        if let Next::WaitUntil(deadline) = next {
            self.live.show(self.clock.now(), deadline, &self.emulation);
        }
        Ok(next)
    }

    fn left(&mut self, tag: Tag, departure: Departure) {
        self.emulation.left(tag, departure);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.emulation.descriptor()
    }

    fn interval(&self) -> Option<Duration> {
        self.emulation.interval()
    }
}

/// A line on stderr, redrawn every second by a thread of its own; nothing where stderr is not a terminal.
pub(super) struct Live {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    requests: AtomicU64,
    outstanding: AtomicU64,
    response_p50_ns: AtomicU64,
    lateness_p99_ns: AtomicU64,
    looked_at_ns: AtomicU64,
    over: AtomicBool,
}

/// Time to the next deadline from which there is time to look at the figures.
const LEISURE: Duration = Duration::from_ms(2);

impl Live {
    /// Begins to show figures on `shown`, if there is such a line.
    pub(super) fn start(shown: Option<Progress>) -> Self {
        let shared = Arc::<Shared>::default();
        let Some(mut line) = shown else {
            return Self { shared, thread: None };
        };
        let seen = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let mut before = 0;
            while !seen.over.load(Ordering::Acquire) {
                std::thread::park_timeout(std::time::Duration::from_secs(1));
                let requests = seen.requests.load(Ordering::Relaxed);
                let ms = |ns: &AtomicU64| ns.load(Ordering::Relaxed) as f64 / 1e6;
                line.figures(&format!(
                    "{} requests/s, response p50 {:.3} ms, lateness p99 {:.1} us, {} outstanding",
                    requests - before,
                    ms(&seen.response_p50_ns),
                    ms(&seen.lateness_p99_ns) * 1e3,
                    seen.outstanding.load(Ordering::Relaxed),
                ));
                before = requests;
            }
        });
        Self { shared, thread: Some(thread) }
    }

    fn show(&self, now: Instant, deadline: Option<Instant>, emulation: &Emulation) {
        self.shared.requests.store(emulation.statistics().requests, Ordering::Relaxed);
        self.shared.outstanding.store(emulation.outstanding() as u64, Ordering::Relaxed);
        let looked = self.shared.looked_at_ns.load(Ordering::Relaxed);
        let leisure = deadline.is_none_or(|deadline| deadline.saturating_since(now) > LEISURE);
        if leisure && now.as_ns() - looked > 1_000_000_000 {
            let statistics = emulation.statistics();
            let ns = |duration: Option<Duration>| duration.unwrap_or_default().as_ns();
            self.shared.response_p50_ns.store(ns(statistics.response.quantile(0.5)), Ordering::Relaxed);
            let lateness = statistics.deadlines.lateness();
            self.shared.lateness_p99_ns.store(ns(lateness.quantile(0.99)), Ordering::Relaxed);
            self.shared.looked_at_ns.store(now.as_ns(), Ordering::Relaxed);
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
