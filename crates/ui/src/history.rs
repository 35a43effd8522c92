//! The events of a run, for clients that come and go while it lasts.
//!
//! ```text
//! run ─▶ push ─▶ [begin] [ … the last EVENTS_MAX … ] ─▶ one cursor for each client
//! ```
//! A client has a place in the history, and nothing is kept for it. So a client that does not read costs the run nothing: it
//! hears how many events it has missed when it goes on.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;

/// Events of a run that are kept: an hour of intervals of a second.
pub const EVENTS_MAX: usize = 3600;

/// Something that a client hears of.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) name: &'static str,
    /// JSON on one line.
    pub(crate) data: Arc<str>,
}

/// The events of the run under way, or of the last one.
#[derive(Debug)]
pub(crate) struct History {
    inner: Mutex<Inner>,
    /// Wakes clients that have read everything.
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Number of the run, from 1.
    run: u64,
    begin: Option<Event>,
    events: VecDeque<Event>,
    /// Number of the first event that is kept.
    first: u64,
    is_closed: bool,
}

/// The place of a client.
#[derive(Debug)]
pub(crate) struct Cursor {
    history: Arc<History>,
    changed: watch::Receiver<()>,
    run: u64,
    next: u64,
}

/// The next thing for a client.
#[derive(Debug)]
pub(crate) enum Next {
    /// An event, and the identifier of its place.
    Event(String, Event),
    /// So many events are no longer kept.
    Skipped(u64),
    /// Nothing yet.
    Nothing,
    /// Nothing any more.
    Closed,
}

impl History {
    pub(crate) fn new() -> Self {
        Self { inner: Mutex::default(), changed: watch::Sender::new(()) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no holder panics")
    }

    /// A run begins. Everything of the one before is forgotten.
    pub(crate) fn begin(&self, event: Event) {
        let mut inner = self.lock();
        *inner =
            Inner { run: inner.run + 1, begin: Some(event), is_closed: inner.is_closed, ..Inner::default() };
        drop(inner);
        self.changed.send_replace(());
    }

    /// Adds an event.
    pub(crate) fn push(&self, event: Event) {
        let mut inner = self.lock();
        inner.events.push_back(event);
        if inner.events.len() > EVENTS_MAX {
            inner.events.pop_front();
            inner.first += 1;
        }
        drop(inner);
        self.changed.send_replace(());
    }

    /// Ends the streams of all clients, once they have read everything.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.send_replace(());
    }

    /// A new client, which goes on behind the event of that identifier.
    pub(crate) fn cursor(self: &Arc<Self>, last: Option<&str>) -> Cursor {
        let place = last.and_then(|last| {
            let (run, number) = last.split_once('-')?;
            Some((run.parse().ok()?, number.parse::<u64>().ok()?.checked_add(1)?))
        });
        let (run, next) = place.unwrap_or((0, 0));
        Cursor { history: Arc::clone(self), changed: self.changed.subscribe(), run, next }
    }
}

impl Cursor {
    /// Takes the next event.
    pub(crate) fn take(&mut self) -> Next {
        let inner = self.history.lock();
        if self.run != inner.run || self.next > inner.first + inner.events.len() as u64 {
            self.run = inner.run;
            self.next = 0;
            if let Some(begin) = &inner.begin {
                // Who reconnects behind this one has the begin.
                return Next::Event(format!("{}-begin", inner.run), begin.clone());
            }
        }
        if self.next < inner.first {
            let skipped = inner.first - self.next;
            self.next = inner.first;
            return Next::Skipped(skipped);
        }
        match inner.events.get((self.next - inner.first) as usize) {
            Some(event) => {
                let id = format!("{}-{}", inner.run, self.next);
                self.next += 1;
                Next::Event(id, event.clone())
            }
            None if inner.is_closed => Next::Closed,
            None => Next::Nothing,
        }
    }

    /// Waits for another event.
    pub(crate) async fn wait(&mut self) {
        // The sender lives as long as the history, which this holds.
        let _ = self.changed.changed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: usize) -> Event {
        Event { name: "interval", data: number.to_string().into() }
    }

    /// Everything that a client hears now.
    fn heard(cursor: &mut Cursor) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            match cursor.take() {
                Next::Event(_, event) => all.push(event.data.to_string()),
                Next::Skipped(count) => all.push(format!("skipped {count}")),
                Next::Nothing | Next::Closed => return all,
            }
        }
    }

    #[test]
    fn late_client_hears_all_that_was_before() {
        let history = Arc::new(History::new());
        assert!(matches!(history.cursor(None).take(), Next::Nothing));
        history.begin(event(100));
        (0..3).for_each(|number| history.push(event(number)));
        let mut early = history.cursor(None);
        assert_eq!(heard(&mut early), ["100", "0", "1", "2"]);
        history.push(event(3));
        assert_eq!(heard(&mut early), ["3"]);
        assert_eq!(heard(&mut history.cursor(None)), ["100", "0", "1", "2", "3"]);
        history.begin(event(200));
        assert_eq!(heard(&mut early), ["200"], "another run begins");
    }

    #[test]
    fn client_that_did_not_read_hears_how_much_it_missed_and_keeps_nothing_back() {
        let history = Arc::new(History::new());
        history.begin(event(0));
        let mut slow = history.cursor(None);
        assert_eq!(heard(&mut slow), ["0"]);
        (0..EVENTS_MAX + 5).for_each(|number| history.push(event(number)));
        assert_eq!(history.lock().events.len(), EVENTS_MAX);
        let heard = heard(&mut slow);
        assert_eq!(heard[..2], ["skipped 5", "5"]);
        assert_eq!(heard.len(), EVENTS_MAX + 1);
    }

    #[test]
    fn client_goes_on_where_its_connection_broke() {
        let history = Arc::new(History::new());
        history.begin(event(0));
        (0..3).for_each(|number| history.push(event(number)));
        assert_eq!(heard(&mut history.cursor(Some("1-1"))), ["2"]);
        assert_eq!(heard(&mut history.cursor(Some("1-2"))), [""; 0]);
        for unknown in ["0-7", "1-begin", "1-99", "x", "1-18446744073709551615"] {
            assert_eq!(heard(&mut history.cursor(Some(unknown))), ["0", "0", "1", "2"], "{unknown}");
        }
        history.close();
        let mut cursor = history.cursor(Some("1-1"));
        assert!(matches!(cursor.take(), Next::Event(..)) && matches!(cursor.take(), Next::Closed));
    }
}
