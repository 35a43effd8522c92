//! Looking at completed requests beside the loop that answers them, which never waits for a disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration as Pause;

use seeklab_core::TraceRecord;
use seeklab_emulator::emulation::Observe;
use seeklab_traces::{TraceError, TraceWriter};

/// Takes requests in, in order of arrival, on a thread of its own.
pub trait Sink: Send + 'static {
    /// Result of the sink.
    type Output: Send + 'static;

    /// One request more.
    fn take(&mut self, record: &TraceRecord);

    /// Saves what must outlive the process. Called several times per second.
    fn save(&mut self) {}

    /// There are no more.
    fn finish(self) -> Self::Output;
}

/// Requests without a pause after which the sink saves.
const SAVE_EVERY: u64 = 1 << 12;

/// Requests that may wait to be looked at.
const WAITING_MAX: usize = 1 << 16;

/// Interval at which the thread looks for requests. A blocking wait would wake the thread for every request,
/// at the cost of the emulating thread.
const LOOK: Pause = Pause::from_millis(5);

/// A sink with its thread.
#[derive(Debug)]
pub struct Observer<S: Sink> {
    sender: SyncSender<TraceRecord>,
    lost: Arc<AtomicU64>,
    thread: JoinHandle<S::Output>,
}

impl<S: Sink> Observer<S> {
    /// Begins to observe.
    pub fn start(sink: S) -> Self {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let thread = std::thread::spawn(move || feed(sink, &receiver));
        Self { sender, lost: Arc::default(), thread }
    }

    /// Returns the callback that receives the emulation's requests.
    pub fn observe(&self) -> Observe {
        let (sender, lost) = (self.sender.clone(), Arc::clone(&self.lost));
        Box::new(move |record| {
            if sender.try_send(*record).is_err() {
                lost.fetch_add(1, Ordering::Relaxed);
            }
        })
    }

    /// Ends when the emulation has; returns what the sink amounts to, and how many requests it missed,
    /// since they came faster than it took them.
    pub fn finish(self) -> (S::Output, u64) {
        drop(self.sender);
        let output = self.thread.join().expect("a sink does not panic");
        (output, self.lost.load(Ordering::Relaxed))
    }
}

fn feed<S: Sink>(mut sink: S, receiver: &Receiver<TraceRecord>) -> S::Output {
    let mut taken = 0_u64;
    loop {
        match receiver.try_recv() {
            Ok(record) => {
                sink.take(&record);
                taken += 1;
                if taken.is_multiple_of(SAVE_EVERY) {
                    sink.save();
                }
            }
            Err(TryRecvError::Empty) => {
                sink.save();
                std::thread::park_timeout(LOOK);
            }
            Err(TryRecvError::Disconnected) => return sink.finish(),
        }
    }
}

/// Writes a trace. The first error is reported at the end.
pub struct Recorder {
    writer: Box<dyn TraceWriter + Send>,
    failed: Option<TraceError>,
}

impl Recorder {
    /// A trace into `writer`.
    pub const fn new(writer: Box<dyn TraceWriter + Send>) -> Self {
        Self { writer, failed: None }
    }
}

impl Sink for Recorder {
    type Output = Result<(), TraceError>;

    fn take(&mut self, record: &TraceRecord) {
        if self.failed.is_none() {
            self.failed = self.writer.write(record).err();
        }
    }

    fn save(&mut self) {
        if self.failed.is_none() {
            self.failed = self.writer.save().err();
        }
    }

    fn finish(self) -> Self::Output {
        match self.failed {
            Some(error) => Err(error),
            None => self.writer.finish(),
        }
    }
}
