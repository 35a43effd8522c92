//! Two buffers between who observes and who writes: the one never waits for the other.
//!
//! ```text
//!  observer ─ push ─▶ front ─┐ swap, when half full or every 200 ms
//!                            └─▶ back ─▶ writer: a thread that may wait for its file
//! ```
//! # Scope and limits
//! Each buffer holds a number of entries that is fixed at the start. What does not fit, since the writer has
//! not come back for a whole buffer's worth of time, is dropped and counted; nobody waits. A push takes a
//! lock that the writer holds for as long as a swap of two pointers takes.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Longest time that an entry waits before the writer takes it.
const SWAP_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug)]
struct Front<T, M> {
    entries: Vec<T>,
    mark: M,
    dropped: u64,
    over: bool,
    /// True if the writer has gone, so entries are no longer kept.
    gone: bool,
}

#[derive(Debug)]
struct Shared<T, M> {
    front: Mutex<Front<T, M>>,
    ready: Condvar,
    capacity: usize,
}

/// The end at which entries come in. When it is dropped, the other end sees the end.
#[derive(Debug)]
pub struct Input<T, M>(Arc<Shared<T, M>>);

/// The end at which buffers go out.
#[derive(Debug)]
pub struct Output<T, M> {
    shared: Arc<Shared<T, M>>,
    back: Vec<T>,
}

/// Entries that the writer receives together.
#[derive(Debug)]
pub struct Batch<'a, T, M> {
    /// Entries in the order in which they were put in.
    pub entries: std::vec::Drain<'a, T>,
    /// The last mark.
    pub mark: M,
    /// Entries that were dropped so far.
    pub dropped: u64,
}

/// A pair of buffers of up to `capacity` entries each, with a mark that goes with the entries.
///
/// # Panics
/// If `capacity` is zero.
pub fn pair<T, M: Copy>(capacity: usize, mark: M) -> (Input<T, M>, Output<T, M>) {
    assert!(capacity > 0, "a buffer has room");
    let front = Front { entries: Vec::new(), mark, dropped: 0, over: false, gone: false };
    let shared = Arc::new(Shared { front: Mutex::new(front), ready: Condvar::new(), capacity });
    (Input(Arc::clone(&shared)), Output { shared, back: Vec::new() })
}

impl<T, M: Copy> Input<T, M> {
    /// Puts an entry in, or drops and counts it where there is no room. Never waits for the writer.
    pub fn push(&self, entry: T) {
        let mut front = self.0.front.lock().unwrap_or_else(PoisonError::into_inner);
        if front.entries.len() < self.0.capacity && !front.gone {
            front.entries.push(entry);
            if front.entries.len() == self.0.capacity.div_ceil(2) {
                self.0.ready.notify_one();
            }
        } else {
            front.dropped += 1;
        }
    }

    /// Sets the mark that goes with what has been put in.
    pub fn mark(&self, mark: M) {
        self.0.front.lock().unwrap_or_else(PoisonError::into_inner).mark = mark;
    }
}

impl<T, M> Drop for Input<T, M> {
    fn drop(&mut self) {
        self.0.front.lock().unwrap_or_else(PoisonError::into_inner).over = true;
        self.0.ready.notify_one();
    }
}

impl<T, M: Copy> Output<T, M> {
    /// Waits for the next entries and their mark; `None` at the end.
    pub fn take(&mut self) -> Option<Batch<'_, T, M>> {
        let half = self.shared.capacity.div_ceil(2);
        let front = self.shared.front.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |front: &mut Front<T, M>| !front.over && front.entries.len() < half;
        let waited = self.shared.ready.wait_timeout_while(front, SWAP_INTERVAL, waits);
        let (mut front, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if front.over && front.entries.is_empty() {
            return None;
        }
        std::mem::swap(&mut front.entries, &mut self.back);
        let (mark, dropped) = (front.mark, front.dropped);
        drop(front);
        Some(Batch { entries: self.back.drain(..), mark, dropped })
    }

    /// Entries that were dropped so far.
    pub fn dropped(&self) -> u64 {
        self.shared.front.lock().unwrap_or_else(PoisonError::into_inner).dropped
    }
}

impl<T, M> Drop for Output<T, M> {
    fn drop(&mut self) {
        self.shared.front.lock().unwrap_or_else(PoisonError::into_inner).gone = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_arrive_complete_and_in_order_with_their_mark() {
        let (input, mut output) = pair(1000, 0_u64);
        let writer = std::thread::spawn(move || {
            let (mut seen, mut marks) = (Vec::new(), Vec::new());
            while let Some(Batch { entries, mark, .. }) = output.take() {
                seen.extend(entries);
                marks.push((seen.len(), mark));
            }
            (seen, marks, output.dropped())
        });
        for number in 0..400_u64 {
            input.push(number);
            input.mark(number);
        }
        drop(input);
        let (seen, marks, dropped) = writer.join().unwrap();
        assert!(seen.iter().copied().eq(0..400));
        assert_eq!(dropped, 0);
        for (length, mark) in marks {
            assert!(length as u64 >= mark.min(399), "what the mark says was there");
        }
    }

    #[test]
    fn excess_entries_are_dropped_and_counted_without_blocking() {
        let (input, mut output) = pair(8, ());
        (0..20).for_each(|number| input.push(number));
        let Batch { entries, dropped, .. } = output.take().unwrap();
        assert!(entries.eq(0..8));
        assert_eq!(dropped, 12);
        // While the writer holds the back buffer, the front one takes as many again.
        (20..40).for_each(|number| input.push(number));
        drop(input);
        assert!(output.take().unwrap().entries.eq(20..28));
        assert!(output.take().is_none());
        assert_eq!(output.dropped(), 24);
    }

    #[test]
    fn no_entries_are_kept_after_the_writer_has_gone() {
        let (input, output) = pair(8, ());
        drop(output);
        input.push(1);
        assert_eq!(input.0.front.lock().unwrap().dropped, 1);
    }
}
