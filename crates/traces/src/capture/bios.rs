//! From events of bios to requests, for devices that make no requests of bios: device-mapper, md, zram, brd.
//!
//! ```text
//!   BioQueue 0+24                                  a bio is given to the device
//!   BioComplete 8+8, BioComplete 0+8               parts that were split off it
//!   BioComplete 16+8                               the bio itself: what reaches its end
//! ```
//! # Rules
//! - A request is a bio: from `BioQueue` to the `BioComplete` that reaches its end. The block layer splits
//!   parts off a bio's front and completes the bio only after all of them, so what does not reach the end is
//!   a part: counted, its error kept.
//! - A driver that moves a bio's start as it goes completes it with nothing left, at its end.
//! - Among equals, the bio given first completes first. A flush is an empty bio; flushes complete in order.
//! - One just like a bio that is outstanding although a later one has completed: as in `pairing.rs`.
//! - Where events were lost, no bio outstanding at that time is trusted: all are given up and counted.
//!
//! # Scope and limits
//! There is no queue time, for there is no queue: arrival and issue are the same. A driver that gives the bio
//! itself on to another device (NVMe multipath, md without I/O accounting) completes it there, so that here
//! it stays pending; capture the device beneath then.

use std::collections::{BTreeMap, BTreeSet};

use seeklab_core::{HostRequest, Instant, Operation};

use crate::event::block_event::{BlockEvent, Kind, Stamped, What};
use crate::event::pairing::{Captured, OUTSTANDING_MAX, SECTOR_BYTES};

/// Bios before a part in order of address that are looked at for the one that it was split off.
const LOOKED_AT: usize = 256;

/// An operation, a sector and the number of a bio.
type Place = (Operation, u64, u64);

#[derive(Debug)]
struct Open {
    request: HostRequest,
    sector: u64,
    end: u64,
}

/// Makes requests of bios in order of time.
#[derive(Debug)]
pub(super) struct BioPairing {
    origin_ns: u64,
    next: u64,
    /// The latest given that has completed.
    completed_latest: u64,
    /// By number, which is the order of arrival.
    open: BTreeMap<u64, Open>,
    starts: BTreeSet<Place>,
    ends: BTreeSet<Place>,
    counts: Captured,
}

impl BioPairing {
    /// Stamps are counted from `origin_ns` of CLOCK_MONOTONIC.
    pub(super) fn new(origin_ns: u64) -> Self {
        Self {
            origin_ns,
            next: 0,
            completed_latest: 0,
            open: BTreeMap::new(),
            starts: BTreeSet::new(),
            ends: BTreeSet::new(),
            counts: Captured::default(),
        }
    }

    /// Takes what happened next; gives the request that it completes.
    pub(super) fn push(&mut self, stamped: &Stamped) -> Option<HostRequest> {
        let event = match stamped.what {
            What::Lost(..) => {
                self.starts.clear();
                self.ends.clear();
                self.counts.given_up += std::mem::take(&mut self.open).len() as u64;
                return None;
            }
            What::Event(event) => event,
        };
        let Some(op) = event.op else {
            self.counts.other_commands += u64::from(event.kind == Kind::BioQueue);
            return None;
        };
        match event.kind {
            Kind::BioQueue => {
                self.queue(op, stamped.time_ns, &event);
                None
            }
            Kind::BioComplete => self.complete(op, stamped.time_ns, &event),
            _ => unreachable!("events of requests are not recorded beside those of bios"),
        }
    }

    /// Returns the arrival time of the oldest outstanding bio.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.open.first_key_value().map(|(_, open)| open.request.issue)
    }

    /// The counts at the end.
    pub(super) fn finish(mut self) -> Captured {
        self.counts.pending = self.open.len() as u64;
        self.counts
    }

    fn instant(&self, time_ns: u64) -> Instant {
        Instant::from_ns(time_ns.saturating_sub(self.origin_ns))
    }

    fn queue(&mut self, op: Operation, time_ns: u64, event: &BlockEvent) {
        let sectors = u64::from(event.sectors);
        if op != Operation::Flush && sectors == 0 {
            self.counts.other_commands += 1;
            return;
        }
        let (sector, end) = (event.sector, event.sector.saturating_add(sectors));
        let overtaken = self
            .starting(op, sector)
            .find(|number| *number < self.completed_latest && self.open[number].end == end);
        if let Some(number) = overtaken.filter(|_| op != Operation::Flush) {
            self.remove(number);
            self.counts.given_up += 1;
        }
        self.next += 1;
        let number = self.next;
        let request = HostRequest {
            fua: event.fua,
            process: event.process,
            command: event.command,
            ..HostRequest::new(
                self.instant(time_ns),
                Instant::ZERO,
                op,
                sector.saturating_mul(SECTOR_BYTES),
                sectors * SECTOR_BYTES,
            )
        };
        self.counts.issued += 1;
        self.open.insert(number, Open { request, sector, end });
        self.starts.insert((op, sector, number));
        self.ends.insert((op, end, number));
        if self.open.len() > OUTSTANDING_MAX
            && let Some(oldest) = self.open.first_key_value().map(|(number, _)| *number)
        {
            self.remove(oldest);
            self.counts.given_up += 1;
        }
    }

    fn complete(&mut self, op: Operation, time_ns: u64, event: &BlockEvent) -> Option<HostRequest> {
        let sectors = u64::from(event.sectors);
        let end = event.sector.saturating_add(sectors);
        let number = match op {
            // An empty write to flush before is a flush, or a used-up write that was to flush before.
            Operation::Flush => self
                .starts
                .range((op, 0, 0)..=(op, u64::MAX, u64::MAX))
                .map(|place| place.2)
                .min()
                .or_else(|| self.ending(Operation::Write, event.sector).next()),
            _ if sectors == 0 => self.ending(op, end).next(),
            _ => self
                .ending(op, end)
                .filter(|number| self.open[number].sector <= event.sector)
                .min_by_key(|number| (self.open[number].sector != event.sector, *number)),
        };
        if let Some(number) = number {
            let mut request = self.remove(number);
            if event.error != 0 {
                request.error.get_or_insert(event.error.unsigned_abs());
            }
            self.completed_latest = self.completed_latest.max(number);
            self.counts.completed += 1;
            return Some(HostRequest { completion: self.instant(time_ns), ..request });
        }
        self.part(op, event.sector, end, event.error);
        None
    }

    /// Takes note of what does not reach the end of any bio.
    fn part(&mut self, op: Operation, sector: u64, end: u64, error: i32) {
        let before = self.starts.range((op, 0, 0)..=(op, sector, u64::MAX)).rev().take(LOOKED_AT);
        let whole = before.map(|place| place.2).find(|number| self.open[number].end > end);
        match whole.and_then(|number| self.open.get_mut(&number)) {
            Some(open) => {
                if error != 0 {
                    open.request.error.get_or_insert(error.unsigned_abs());
                }
                self.counts.partial_completions += 1;
            }
            None => self.counts.unpaired_completions += 1,
        }
    }

    /// The bios that start there, in order of arrival.
    fn starting(&self, op: Operation, sector: u64) -> impl Iterator<Item = u64> {
        self.starts.range((op, sector, 0)..=(op, sector, u64::MAX)).map(|place| place.2)
    }

    /// The bios that end there, in order of arrival.
    fn ending(&self, op: Operation, sector: u64) -> impl Iterator<Item = u64> {
        self.ends.range((op, sector, 0)..=(op, sector, u64::MAX)).map(|place| place.2)
    }

    fn remove(&mut self, number: u64) -> HostRequest {
        let open = self.open.remove(&number).expect("it was found");
        self.starts.remove(&(open.request.op, open.sector, number));
        self.ends.remove(&(open.request.op, open.end, number));
        open.request
    }
}

#[cfg(test)]
mod tests {
    use seeklab_core::ProcessName;

    use super::*;

    struct Bios {
        pairing: BioPairing,
        now: u64,
    }

    impl Bios {
        fn new() -> Self {
            Self { pairing: BioPairing::new(0), now: 0 }
        }

        fn event(
            &mut self,
            kind: Kind,
            op: Operation,
            sector: u64,
            sectors: u32,
            error: i32,
        ) -> Option<HostRequest> {
            self.now += 1;
            let command = ProcessName::default();
            let event =
                BlockEvent { kind, op: Some(op), fua: false, sector, sectors, error, process: 7, command };
            self.pairing.push(&Stamped { time_ns: self.now, what: What::Event(event) })
        }

        fn queue(&mut self, op: Operation, sector: u64, sectors: u32) {
            assert_eq!(self.event(Kind::BioQueue, op, sector, sectors, 0), None);
        }

        fn complete(&mut self, op: Operation, sector: u64, sectors: u32) -> Option<HostRequest> {
            self.event(Kind::BioComplete, op, sector, sectors, 0)
        }
    }

    use Operation::{Flush, Read, Write};

    #[test]
    fn bio_completes_with_its_end() {
        let mut bios = Bios::new();
        bios.queue(Read, 0, 24);
        assert_eq!(bios.complete(Read, 8, 8), None);
        assert_eq!(bios.event(Kind::BioComplete, Read, 0, 8, -5), None);
        let read = bios.complete(Read, 16, 8).unwrap();
        assert_eq!((read.offset_bytes, read.length_bytes, read.error), (0, 24 * 512, Some(5)));
        assert_eq!((read.issue.as_ns(), read.completion.as_ns(), read.process), (1, 4, 7));
        let counts = bios.pairing.finish();
        assert_eq!((counts.issued, counts.completed, counts.partial_completions), (1, 1, 2));
        assert_eq!((counts.pending, counts.unpaired_completions), (0, 0));
    }

    #[test]
    fn bio_consumed_by_its_driver_is_found_by_its_end() {
        let mut bios = Bios::new();
        bios.queue(Write, 100, 8);
        bios.queue(Write, 92, 8);
        assert_eq!(bios.complete(Write, 108, 0).unwrap().offset_bytes, 100 * 512);
        // With its flag to flush before.
        assert_eq!(bios.complete(Flush, 100, 0).unwrap().offset_bytes, 92 * 512);
    }

    #[test]
    fn equal_bios_and_flushes_complete_in_order() {
        let mut bios = Bios::new();
        bios.queue(Read, 0, 8);
        bios.queue(Read, 0, 8);
        bios.queue(Flush, 0, 0);
        bios.queue(Flush, 0, 0);
        assert_eq!(bios.complete(Read, 0, 8).unwrap().issue.as_ns(), 1);
        assert_eq!(bios.complete(Flush, 0, 0).unwrap().issue.as_ns(), 3);
        assert_eq!(bios.complete(Flush, 0, 0).unwrap().issue.as_ns(), 4);
        assert_eq!(bios.pairing.oldest().unwrap().as_ns(), 2);
        assert_eq!(bios.complete(Read, 0, 8).unwrap().issue.as_ns(), 2);
        assert_eq!(bios.complete(Read, 0, 8), None);
        assert_eq!(bios.pairing.finish().unpaired_completions, 1);
    }

    #[test]
    fn completion_prefers_the_bio_with_its_start() {
        let mut bios = Bios::new();
        bios.queue(Read, 0, 16);
        bios.queue(Read, 8, 8);
        assert_eq!(bios.complete(Read, 8, 8).unwrap().issue.as_ns(), 2);
        assert_eq!(bios.complete(Read, 0, 16).unwrap().issue.as_ns(), 1);
    }

    #[test]
    fn bios_are_given_up_after_lost_events_or_if_too_many_are_outstanding() {
        let mut bios = Bios::new();
        bios.queue(Read, 0, 8);
        bios.pairing.push(&Stamped { time_ns: 2, what: What::Lost(Kind::BioComplete, 1) });
        assert_eq!(bios.complete(Read, 0, 8), None);
        for sector in 0..OUTSTANDING_MAX as u64 + 3 {
            bios.queue(Read, sector * 8, 8);
        }
        assert_eq!(bios.complete(Read, 16, 8), None);
        assert!(bios.complete(Read, 24, 8).is_some());
        assert_eq!(bios.pairing.starts.len(), bios.pairing.open.len());
        assert_eq!(bios.pairing.ends.len(), bios.pairing.open.len());
        let counts = bios.pairing.finish();
        assert_eq!((counts.given_up, counts.unpaired_completions), (4, 2));
    }
}
