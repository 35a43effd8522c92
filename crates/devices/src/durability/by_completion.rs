//! Durability of a device that knows no media: it follows from what completes.
//!
//! - Without a volatile cache, what a request wrote is durable when it completes.
//! - With one, what a write changed waits for the flush that comes after its completion, and is durable when that flush
//!   completes. A write with force unit access and a discard are durable when they complete. Beyond
//!   [`BUFFER`] of waiting data the oldest becomes durable: a buffer has an end. This is a rule, not a measurement: a
//!   trace does not show when a drive destages.

use seeklab_core::{ByteSize, Capabilities, Completion, Event, Instant, Operation, RequestId};

use super::{Noted, Waiting};

/// Data that a device with a volatile cache keeps at most. Assumed: the buffer of many drives.
const BUFFER: ByteSize = ByteSize::from_bytes(64 << 20);

/// Completed writes that are not durable, and the events.
#[derive(Debug)]
pub(crate) struct ByCompletion(Option<Box<Kept>>);

#[derive(Debug)]
struct Kept {
    volatile: bool,
    blocks_max: u64,
    /// By request and time of completion.
    waiting: Waiting<(RequestId, Instant)>,
    events: Noted,
}

impl ByCompletion {
    /// Notes nothing until it is [watched](Self::watch).
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    pub(crate) fn watch(&mut self, capabilities: &Capabilities) {
        self.0 = Some(Box::new(Kept {
            volatile: capabilities.volatile_write_cache,
            blocks_max: BUFFER.as_bytes() / capabilities.block_size.as_bytes(),
            waiting: Waiting::new(),
            events: Noted::new(),
        }));
    }

    /// Notes what `completions` made durable; they come in order of time.
    #[inline]
    pub(crate) fn note(&mut self, completions: &[Completion]) {
        if let Some(kept) = &mut self.0 {
            completions.iter().for_each(|completion| kept.note(completion));
        }
    }

    pub(crate) fn hand_out(&mut self, now: Instant, events: &mut Vec<Event>) {
        if let Some(kept) = &mut self.0 {
            kept.events.hand_out(now, events);
        }
    }
}

impl Kept {
    fn note(&mut self, completion: &Completion) {
        let Completion { request, submitted, completed, .. } = *completion;
        match request.op {
            Operation::Read => {}
            Operation::Flush => self.make_durable(completed, |since| since <= submitted),
            Operation::Write | Operation::WriteZeroes if self.volatile && !request.fua => {
                self.waiting.insert(request.lbn, request.end(), (request.id, completed));
                while self.waiting.blocks() > self.blocks_max {
                    let oldest = self.waiting.iter().map(|(.., (_, since))| since).min();
                    self.make_durable(completed, |since| Some(since) == oldest);
                }
            }
            Operation::Write | Operation::WriteZeroes | Operation::Discard => {
                self.waiting.remove(request.lbn, request.end(), |_, _, _| {});
                self.events.push(Event::durable(
                    request.id,
                    request.lbn,
                    request.blocks,
                    completed,
                    completed,
                ));
            }
        }
    }

    /// Makes durable at `now` what completed at a time of which `is_meant` is true.
    fn make_durable(&mut self, now: Instant, is_meant: impl Fn(Instant) -> bool) {
        let Self { waiting, events, .. } = self;
        waiting.retain(|start, end, (request, since)| {
            let meant = is_meant(since);
            if meant {
                events.push(Event::durable(request, start, (end - start) as u32, now, now));
            }
            !meant
        });
    }
}

impl Clone for Kept {
    fn clone(&self) -> Self {
        Self { waiting: self.waiting.clone(), events: self.events.clone(), ..*self }
    }

    fn clone_from(&mut self, source: &Self) {
        (self.volatile, self.blocks_max) = (source.volatile, source.blocks_max);
        self.waiting.clone_from(&source.waiting);
        self.events.clone_from(&source.events);
    }
}

impl Clone for ByCompletion {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }

    fn clone_from(&mut self, source: &Self) {
        self.0.clone_from(&source.0);
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Breakdown, BufferOutcome, FaultSet, Outcome, Request};

    use super::*;

    const fn us(us: u64) -> Instant {
        Instant::from_ns(us * 1_000)
    }

    fn completion(request: Request, submitted: u64, completed: u64) -> Completion {
        Completion {
            request,
            submitted: us(submitted),
            issued: us(submitted),
            started: us(submitted),
            completed: us(completed),
            breakdown: Breakdown::default(),
            outcome: Outcome::ok(&request),
            buffer: BufferOutcome::None,
            seek_cylinders: 0,
            queue_length: 0,
            faults: FaultSet::NONE,
        }
    }

    /// Request and time in microseconds of the events of a device with blocks of 1 MiB.
    fn events(volatile_write_cache: bool, completions: &[Completion]) -> Vec<(u64, u64)> {
        let mut durability = ByCompletion::new();
        durability.watch(&Capabilities {
            capacity_blocks: 1_000,
            block_size: ByteSize::from_bytes(1 << 20),
            queue_depth: 32,
            volatile_write_cache,
            rotational: false,
        });
        durability.note(completions);
        let mut events = Vec::new();
        durability.hand_out(us(1_000_000), &mut events);
        events.iter().map(|event| (event.request.unwrap().0, event.time.as_ns() / 1_000)).collect()
    }

    #[test]
    fn volatile_cache_keeps_writes_for_the_flush_behind_them() {
        let write = |id, lbn| Request::new(id, Operation::Write, lbn, 1);
        let completions = [
            completion(write(0, 0), 0, 10),
            completion(write(1, 1), 0, 30),
            completion(Request::new(2, Operation::Flush, 0, 0), 20, 40),
            completion(Request { fua: true, ..write(3, 2) }, 40, 50),
            completion(Request::new(4, Operation::Flush, 0, 0), 60, 70),
        ];
        assert_eq!(events(true, &completions), [(0, 40), (3, 50), (1, 70)]);
        assert_eq!(events(false, &completions), [(0, 10), (1, 30), (3, 50)]);
    }

    #[test]
    fn oldest_writes_give_way_in_a_full_buffer() {
        let write = |id: u64| {
            let request = Request::new(id, Operation::Write, id * 32, 32);
            completion(request, id * 10, id * 10 + 5)
        };
        assert_eq!(events(true, &[write(0), write(1)]), []);
        assert_eq!(events(true, &[write(0), write(1), write(2)]), [(0, 25)]);
    }
}
