//! Division of a command's service time into its parts.

use seeklab_core::{Breakdown, BufferOutcome, Duration, Instant};

use super::Served;
use crate::disk::mechanism::AccessParts;

/// Parts of a service time as they are found; the bus gets what nothing else explains.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::disk) struct Account {
    /// Command processing that nothing hides.
    pub(in crate::disk) overhead: Duration,
    /// Waiting for background work of the drive.
    pub(in crate::disk) internal: Duration,
    /// The media access that the command waited for.
    pub(in crate::disk) parts: AccessParts,
    /// Cylinders to the first track accessed.
    pub(in crate::disk) seek_cylinders: u32,
}

impl Account {
    /// Closes the account of a command that ran from `started` to `completed`.
    ///
    /// Bus time is the rest beside the other parts. Where parts ran beside each other, the overhead and
    /// then the later parts of the access give way, so that the sum is exact.
    pub(in crate::disk) fn close(
        self,
        started: Instant,
        completed: Instant,
        free: Instant,
        buffer: BufferOutcome,
    ) -> Served {
        let mut left = completed - started;
        let mut take = |part: Duration| {
            let taken = part.min(left);
            left -= taken;
            taken
        };
        let parts = self.parts;
        let breakdown = Breakdown {
            queue: Duration::ZERO,
            internal: take(self.internal),
            seek: take(parts.seek),
            settle: take(parts.settle),
            head_switch: take(parts.head_switch),
            rotation: take(parts.rotation),
            transfer: take(parts.transfer),
            overhead: take(self.overhead),
            bus: Duration::ZERO,
        };
        let breakdown = Breakdown { bus: left, ..breakdown };
        Served { completed, free, breakdown, buffer, seek_cylinders: self.seek_cylinders }
    }
}
