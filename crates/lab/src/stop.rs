//! The token by which a caller stops work in progress.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A request to stop, which any thread can make. Clones share it.
///
/// The first request ends the work in order. A second one, where a function says so, no longer waits for others, such as
/// for programs that still use a block device.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    requests: Mutex<u32>,
    changed: Condvar,
    callbacks: Mutex<Vec<Box<dyn Fn() + Send>>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.debug_struct("Shared").field("requests", &self.requests).finish_non_exhaustive()
    }
}

impl Stop {
    /// A token without a request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a request.
    pub fn stop(&self) {
        *self.lock() += 1;
        self.shared.changed.notify_all();
        for callback in self.shared.callbacks.lock().expect("no callback panics").iter() {
            callback();
        }
    }

    /// The number of requests so far.
    pub fn requests(&self) -> u32 {
        *self.lock()
    }

    /// True after the first request.
    pub fn is_stopped(&self) -> bool {
        self.requests() > 0
    }

    /// Waits until more than `known` requests were made, at most for `patience`. Returns true if they were.
    pub fn wait(&self, known: u32, patience: Duration) -> bool {
        let requests = self.lock();
        let waited =
            self.shared.changed.wait_timeout_while(requests, patience, |requests| *requests <= known);
        *waited.expect("no holder panics").0 > known
    }

    /// Watches for requests, one by one, those made before included.
    pub fn watch(&self) -> StopWatch {
        StopWatch { stop: self.clone(), taken: 0 }
    }

    /// Calls `callback` at every request from now on, and at once if one was made before.
    pub fn on_stop(&self, callback: impl Fn() + Send + 'static) {
        let mut callbacks = self.shared.callbacks.lock().expect("no callback panics");
        if self.is_stopped() {
            callback();
        }
        callbacks.push(Box::new(callback));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, u32> {
        self.shared.requests.lock().expect("no holder panics")
    }
}

/// Takes requests to stop one by one.
#[derive(Debug)]
pub struct StopWatch {
    stop: Stop,
    taken: u32,
}

impl StopWatch {
    /// Waits for the next request, at most for `patience`. Returns true if one came.
    pub fn next(&mut self, patience: Duration) -> bool {
        let came = self.stop.wait(self.taken, patience);
        self.taken += u32::from(came);
        came
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn request_wakes_whoever_waits_and_calls_back() {
        let (stop, calls) = (Stop::new(), Arc::new(AtomicU32::new(0)));
        let counted = Arc::clone(&calls);
        stop.on_stop(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        assert!(!stop.wait(0, Duration::ZERO) && !stop.is_stopped());
        let other = stop.clone();
        let thread = std::thread::spawn(move || other.stop());
        assert!(stop.wait(0, Duration::from_secs(60)));
        thread.join().unwrap();
        assert!(!stop.wait(1, Duration::ZERO), "a second request has not been made");
        let counted = Arc::clone(&calls);
        stop.on_stop(move || {
            counted.fetch_add(10, Ordering::Relaxed);
        });
        assert_eq!(calls.load(Ordering::Relaxed), 11, "a late callback is called at once");
    }
}
