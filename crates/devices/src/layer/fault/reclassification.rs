//! Changes of the class of requests that the layer holds.

use seeklab_core::{Criticality, Device, Instant, Reclassification, Request};

use super::Fault;

impl Fault {
    /// Makes a request more pressing wherever it is: in the device, without an answer, or with one that is held until its
    /// time. The device receives the change by its own clock. A device that was gone may still hold a request that has been
    /// answered here, and serves it by its new class.
    pub(super) fn reclassify_outstanding(
        &mut self,
        now: Instant,
        change: &Reclassification,
    ) -> Option<Criticality> {
        let apply = |request: &mut Request| request.reclassify(change.criticality);
        // Of a plain request, the device knows the class.
        let mut before = self.device.reclassify(self.clock.inside(now), change);
        if let Some((request, answered)) = self.inside.get_mut(change.id) {
            before = apply(request).filter(|_| !answered);
        }
        let hanging = self.hanging.iter_mut().map(|hanging| &mut hanging.taken.request);
        let held = self.held.iter_mut().map(|completion| &mut completion.request);
        let waiting = hanging.chain(held).find(|request| request.id == change.id);
        before.or(waiting.and_then(apply))
    }
}
