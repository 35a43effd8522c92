//! The caller's side of a function of the laboratory: a listener, a stop token, and the origin of results.

use std::any::Any;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use seeklab_files::{AwaitedReader, await_reader};
use seeklab_traces::{Metadata, OpenTrace, Position, TraceWriter, check_no_part, saving};

use crate::failure::Failure;
use crate::listener::{Listener, Measure, Notice, Task, Unheard};
use crate::progress::Progress;
use crate::stop::Stop;

/// The caller's side, handed to every function. Clones share listener and stop token.
#[derive(Clone)]
pub struct Session {
    listener: Arc<dyn Listener>,
    stop: Stop,
    command: Option<String>,
    held: Arc<AtomicUsize>,
    kept: Arc<Mutex<Vec<Box<dyn Any + Send>>>>,
}

/// Bytes that only this process has, or changes of the machine that it will undo. They exist as long as this value.
#[derive(Debug)]
#[must_use = "it is held until this is dropped"]
pub struct Held(Arc<AtomicUsize>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("stop", &self.stop)
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}

impl Default for Session {
    /// A session that nobody listens to and nobody stops.
    fn default() -> Self {
        Self::new(Arc::new(Unheard), Stop::new())
    }
}

impl Session {
    /// A session with that listener and stop token.
    pub fn new(listener: Arc<dyn Listener>, stop: Stop) -> Self {
        Self { listener, stop, command: None, held: Arc::default(), kept: Arc::default() }
    }

    /// Names the command that makes the results, for reports and traces.
    #[must_use]
    pub fn with_command(self, command: String) -> Self {
        Self { command: Some(command), ..self }
    }

    /// The command that makes the results.
    pub fn command(&self) -> Option<String> {
        self.command.clone()
    }

    /// The stop token.
    pub const fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Something is held that an abrupt end of the process would lose or leave behind: the bytes of a device, mounts,
    /// processes.
    pub fn hold(&self) -> Held {
        self.held.fetch_add(1, Ordering::AcqRel);
        Held(Arc::clone(&self.held))
    }

    /// Returns true if nothing is held: the process may end at any moment.
    pub fn holds_nothing(&self) -> bool {
        self.held.load(Ordering::Acquire) == 0
    }

    /// Keeps something whose drop may wait for a target, until the results are out ([`let_go`](Self::let_go)).
    pub fn keep_to_end(&self, value: impl Any + Send) {
        self.kept.lock().expect("no holder panics").push(Box::new(value));
    }

    /// Drops what was kept to the end. To be called when the results are out, because it may never return.
    pub fn let_go(&self) {
        let kept = std::mem::take(&mut *self.kept.lock().expect("no holder panics"));
        drop(kept);
    }

    /// The same session, unheard: for work beside other work that is shown.
    #[must_use]
    pub fn unheard(&self) -> Self {
        Self { listener: Arc::new(Unheard), ..self.clone() }
    }

    /// A session for work beside this one's, with a listener and a stop token of its own. Both hold the process until the
    /// last of them holds nothing.
    #[must_use]
    pub fn beside(&self, listener: Arc<dyn Listener>, stop: Stop) -> Self {
        Self { listener, stop, ..self.clone() }
    }

    /// Fails if the caller stopped the work.
    ///
    /// # Errors
    /// [`Failure::interrupted`] after a request to stop.
    pub fn check(&self) -> Result<(), Failure> {
        if self.stop.is_stopped() { Err(Failure::interrupted()) } else { Ok(()) }
    }

    /// Waits until a reader has opened the output at `path` if it is a FIFO, or until the caller stops the work.
    ///
    /// # Errors
    /// [`Failure::interrupted`] after a request to stop, or a FIFO that cannot be opened.
    pub fn await_reader(&self, path: &Path) -> Result<AwaitedReader, Failure> {
        let mut is_announced = false;
        let awaited = await_reader(path, |pause| {
            if !is_announced && !self.stop.is_stopped() {
                self.remark(format!("note: waiting for a reader of the FIFO {}", path.display()));
                is_announced = true;
            }
            !self.stop.wait(0, pause)
        });
        awaited.map_err(|error| match error.io_error() {
            Some(_) => Failure::from(error),
            None => Failure::interrupted().context(error),
        })
    }

    /// Creates a trace at `path` once a FIFO has its reader, see [`await_reader`](Self::await_reader).
    ///
    /// # Errors
    /// As [`await_reader`](Self::await_reader), and a trace that cannot be created.
    pub(crate) fn create_trace(
        &self,
        path: &Path,
        format: Option<&str>,
        metadata: &Metadata,
    ) -> Result<Box<dyn TraceWriter>, Failure> {
        let _awaited = self.await_reader(path)?;
        Ok(seeklab_columnar::create(path, format, metadata)?)
    }

    /// Creates a trace as [`create_trace`](Self::create_trace), whose rows can be read if this process is killed.
    ///
    /// # Errors
    /// As [`create_trace`](Self::create_trace), and if a recording to this output was killed or is under way.
    pub(crate) fn create_saved_trace(
        &self,
        path: &Path,
        metadata: &Metadata,
    ) -> Result<Box<dyn TraceWriter>, Failure> {
        check_no_part(path)?;
        Ok(saving(self.create_trace(path, None, metadata)?, path, metadata)?)
    }

    /// Sends a remark to the listener.
    pub fn remark(&self, text: impl Into<String>) {
        self.listener.note(&Notice { is_warning: false, text: text.into() });
    }

    /// Sends a warning to the listener.
    pub fn warn(&self, text: impl Into<String>) {
        self.listener.note(&Notice { is_warning: true, text: text.into() });
    }

    /// Progress of `name` over requests or rows, of so many if the number is known.
    pub fn progress(&self, name: &str, requests: Option<u64>) -> Progress {
        self.begin(name, Measure::Requests(requests))
    }

    /// Progress of `name` over the rows of `trace`, in percent where its size is known.
    pub fn progress_of(&self, name: &str, trace: &OpenTrace) -> Progress {
        let position = trace.position();
        let measure = match position.share() {
            Some(_) => Measure::Trace(position),
            None => Measure::Requests(None),
        };
        self.begin(name, measure)
    }

    /// Progress of `name` through the file that `position` is in.
    pub fn progress_through(&self, name: &str, position: Position) -> Progress {
        self.begin(name, Measure::Trace(position))
    }

    /// Progress of `name` over a few steps that take long each.
    pub fn steps(&self, name: &str, steps: u64) -> Progress {
        self.begin(name, Measure::Steps(steps))
    }

    /// Progress of `name`, which shows nothing but time.
    pub fn working(&self, name: &str) -> Progress {
        self.begin(name, Measure::Time)
    }

    /// Figures of `name`, which goes on until it is stopped.
    pub fn figures(&self, name: &str) -> Progress {
        self.begin(name, Measure::Figures)
    }

    fn begin(&self, name: &str, measure: Measure) -> Progress {
        Progress::new(self.listener.begin(&Task { name: name.to_owned(), measure }), self.stop.clone())
    }
}
