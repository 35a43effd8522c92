//! Positions of the heads of the disk beneath, by the time outside.

use seeklab_core::{Device, Duration, Instant, Location, Operation, Positioning, Request};

use super::Fault;

impl Fault {
    /// The device's knowledge of where its heads are.
    fn heads(&self) -> &dyn Positioning {
        self.device.positioning().expect("the caller has checked that there is one")
    }
}

/// The device's own answers, at the time by its clock.
impl Positioning for Fault {
    fn locate(&self, request: &Request) -> Location {
        self.heads().locate(request)
    }

    fn positioning_time(&self, now: Instant, op: Operation, location: &Location) -> Duration {
        self.heads().positioning_time(self.clock.inside(now), op, location)
    }

    fn buffer_holds(&self, request: &Request) -> bool {
        self.heads().buffer_holds(request)
    }

    fn buffer_lacks_room(&self, now: Instant, request: &Request) -> Option<Location> {
        self.heads().buffer_lacks_room(self.clock.inside(now), request)
    }

    fn positioning_min(&self, cylinders: u32) -> Duration {
        self.heads().positioning_min(cylinders)
    }

    fn cylinders(&self) -> u32 {
        self.heads().cylinders()
    }

    fn cylinder(&self) -> u32 {
        self.heads().cylinder()
    }

    fn turn(&self) -> Option<Duration> {
        self.heads().turn()
    }
}
