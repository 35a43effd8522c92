//! Requests that a layer has handed to the device beneath, as they were submitted to the layer.

use seeklab_core::{Completion, Instant, RequestId};

/// Requests that the device beneath holds; there are few, so they are searched one by one.
#[derive(Debug, Clone, Default)]
pub(super) struct Issued(Vec<AsSubmitted>);

/// A request as it was submitted to the layer.
#[derive(Debug, Clone, Copy)]
struct AsSubmitted {
    id: RequestId,
    submitted: Instant,
    queue_length: u32,
}

impl Issued {
    /// Returns the number of issued requests.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The request of that number, which came to the layer then, with so many others there.
    pub(super) fn push(&mut self, id: RequestId, submitted: Instant, queue_length: u32) {
        self.0.push(AsSubmitted { id, submitted, queue_length });
    }

    /// Turns a completion of the device into one of the layer, if its request is one of these: what it waited for
    /// before is in its queue time. Returns whether it is.
    pub(super) fn complete(&mut self, completion: &mut Completion) -> bool {
        let Some(place) = self.0.iter().position(|issued| issued.id == completion.request.id) else {
            return false;
        };
        let issued = self.0.swap_remove(place);
        completion.breakdown.queue += completion.submitted - issued.submitted;
        completion.submitted = issued.submitted;
        completion.queue_length = issued.queue_length;
        true
    }

    /// Becomes as `other`; allocates only where that holds more than this ever did.
    pub(super) fn copy_from(&mut self, other: &Self) {
        self.0.clone_from(&other.0);
    }
}
