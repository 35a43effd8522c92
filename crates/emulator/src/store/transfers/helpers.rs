//! Threads that do what waits for the medium or has no place in the ring: flushes, durable writes, discards, zeroes.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::fd::OwnedFd;

use super::super::{FileStore, StoreError};
use super::Work;

/// Job of a helper thread.
pub(super) struct Job {
    pub(super) slot: u32,
    pub(super) work: Work,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) buffer: Vec<u8>,
}

/// Result of a job.
pub(super) struct Finished {
    pub(super) slot: u32,
    pub(super) buffer: Vec<u8>,
    pub(super) result: Result<(), StoreError>,
}

/// The threads.
#[derive(Debug)]
pub(super) struct Helpers {
    jobs: Option<Sender<Job>>,
    finished: Receiver<Finished>,
    threads: Vec<JoinHandle<()>>,
}

/// Number of helper threads, which each wait for the medium.
const THREADS: usize = 4;

impl Helpers {
    /// Threads that work on `file` and write to `event` when something is done.
    pub(super) fn start(file: &Arc<FileStore>, event: &Arc<OwnedFd>) -> Self {
        let (jobs, receiver) = channel::<Job>();
        let (done, finished) = channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let threads = (0..THREADS).map(|_| {
            let (file, event) = (Arc::clone(file), Arc::clone(event));
            let (receiver, done) = (Arc::clone(&receiver), done.clone());
            std::thread::spawn(move || {
                loop {
                    let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(Job { slot, work, offset, length, buffer }) = job else { return };
                    let result = match work {
                        Work::Read => unreachable!("the ring reads"),
                        Work::Write { .. } => file.write_fua(offset, &buffer),
                        Work::Flush => Ok(()),
                        Work::Discard { .. } => file.discard(offset, length),
                        Work::Zero { .. } => file.zero(offset, length),
                    };
                    let result = if work.flushes() { result.and_then(|()| file.flush()) } else { result };
                    // Nobody waits any more once all is over.
                    if done.send(Finished { slot, buffer, result }).is_ok() {
                        let _ = rustix::io::write(&event, &1_u64.to_ne_bytes());
                    }
                }
            })
        });
        Self { jobs: Some(jobs), finished, threads: threads.collect() }
    }

    /// Gives a job to the threads.
    pub(super) fn give(&self, job: Job) {
        let jobs = self.jobs.as_ref().expect("they work until they are dropped");
        jobs.send(job).expect("they wait for jobs until there are no more");
    }

    /// Takes something that was done, if there is anything.
    pub(super) fn take(&self) -> Option<Finished> {
        self.finished.try_recv().ok()
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        drop(self.jobs.take());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
