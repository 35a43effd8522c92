//! Plain requests that are outstanding when the device goes. The layer only counts them: a copy of the device that runs to
//! its end says which they are.

use std::sync::{Mutex, PoisonError};

use seeklab_core::{Completion, Device};

use super::fate::Taken;
use super::{Fault, ROOM};

/// A copy of the device, and what it completes. Forks of a layer share it, so that only the first one allocates.
pub(super) struct Copied(Mutex<(Option<Box<dyn Device>>, Vec<Completion>)>);

impl Copied {
    pub(super) const fn new() -> Self {
        Self(Mutex::new((None, Vec::new())))
    }
}

impl Fault {
    /// Keeps the plain requests in the device by number from now on.
    pub(super) fn keep_plain(&mut self) {
        if !self.inside.has_plain() {
            return;
        }
        let mut copied = self.copied.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (copy, completions) = &mut *copied;
        let copy = match copy {
            Some(copy) => {
                self.device.fork_into(copy);
                copy
            }
            None => copy.insert(self.device.fork()),
        };
        completions.clear();
        completions.reserve(self.inside.len().max(ROOM));
        while completions.len() < self.inside.len()
            && let Some(event) = copy.next_event()
        {
            copy.poll(event, completions);
        }
        self.inside.keep_plain(completions.iter().map(Taken::plain));
    }
}
