//! Threads that each wait for one command of the backing.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};
use seeklab_core::Instant;

use super::backing::{Aligned, Backing};
use crate::clock::Clock;
use crate::frontend::ErrorCode;

/// Operation of a command.
#[derive(Debug)]
pub(super) enum Work {
    Read,
    Write { bytes: Aligned, durably: bool },
    Flush,
    Discard,
    WriteZeroes { may_discard: bool, durably: bool },
}

/// A command.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) number: u64,
    pub(super) work: Work,
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// A command that the backing has done or refused.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) number: u64,
    /// Time of the issue to the backing.
    pub(super) issued: Instant,
    /// Time of the completion by the backing.
    pub(super) completed: Instant,
    /// The bytes of a read.
    pub(super) result: Result<Option<Aligned>, ErrorCode>,
}

/// The threads.
pub(super) struct Workers {
    jobs: Option<Sender<Job>>,
    done: Receiver<Done>,
    /// Readable when a command is done.
    ready: Arc<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub(super) fn start(backing: Arc<Backing>, count: usize, clock: Clock) -> io::Result<Self> {
        assert!(count > 0, "somebody has to work");
        let ready = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let ((jobs, waiting), (sender, done)) = (channel::<Job>(), channel());
        let waiting = Arc::new(Mutex::new(waiting));
        let mut threads = Vec::with_capacity(count);
        for number in 0..count {
            let (waiting, sender) = (Arc::clone(&waiting), sender.clone());
            let (backing, ready) = (Arc::clone(&backing), Arc::clone(&ready));
            let thread = std::thread::Builder::new().name(format!("backing {number}")).spawn(move || {
                loop {
                    let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(Job { number, work, offset, length }) = next else { return };
                    let issued = clock.now();
                    let result = match work {
                        Work::Read => backing.read(offset, length).map(Some),
                        Work::Write { bytes, durably } => {
                            backing.write(offset, &bytes, durably).map(|()| None)
                        }
                        Work::Flush => backing.flush().map(|()| None),
                        Work::Discard => backing.discard(offset, length).map(|()| None),
                        Work::WriteZeroes { may_discard, durably } => {
                            backing.write_zeroes(offset, length, may_discard, durably).map(|()| None)
                        }
                    };
                    let completed = clock.now();
                    if sender.send(Done { number, issued, completed, result }).is_err() {
                        return;
                    }
                    // Fails only where the counter is full, when it is readable anyhow.
                    let _ = rustix::io::write(&*ready, &1_u64.to_ne_bytes());
                }
            })?;
            threads.push(thread);
        }
        Ok(Self { jobs: Some(jobs), done, ready, threads })
    }

    pub(super) fn give(&self, job: Job) {
        let jobs = self.jobs.as_ref().expect("they have not ended");
        // Workers end only when there is nothing more to be given.
        let _ = jobs.send(job);
    }

    /// Returns the commands completed since the last call.
    pub(super) fn take(&self) -> Vec<Done> {
        // Before the look, so that what comes after it makes it readable again.
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.ready, &mut count);
        self.done.try_iter().collect()
    }

    /// Lets everything that was given be done; gives what had not been taken.
    pub(super) fn end(&mut self) -> Vec<Done> {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.done.try_iter().collect()
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}
