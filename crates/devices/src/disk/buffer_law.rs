//! The law of a disk whose buffer takes writes before they are on the media: the times of its parts.
//!
//! The controller's rules say how many extents wait and what a read waits for. The times are integrals of the model over
//! uniform addresses and all angles of the platters, as those of the [service law](super::law):
//!
//! | time | commands |
//! | --- | --- |
//! | a read or write that waits for nothing | in the mix of the demand, each after an idle time in which all is written |
//! | a destage after another | two writes; the time from the end of the first on the media to that of the second |
//! | a destage, if only one extent fits | one write; the time from its completion until it is on the media |
//! | a read-ahead | a read; the time from its completion until the media is free |
//! | the lead of destages over reads | a read; the time from its end on the media until the next command can begin |
//!
//! # Scope and limits
//! Uniform addresses, and writes that the buffer takes.

use seeklab_core::{Duration, Instant, Operation, Request};

use super::device::DiskBlueprint;
use super::electronics::BufferRules;
use super::law::{Points, SHORT, WARM_UP, is_reordered};
use crate::service_law::{Demand, ServiceTimes, WriteBuffer};

/// Least share of each operation in the integral, so that there are times of both.
const SHARE_MIN: f64 = 0.1;

/// The time by which background work that begins at an instant has begun.
const MOMENT: Duration = Duration::from_ns(1);

/// The write buffer of a disk for a demand; `None` if it has none or does not take the writes.
pub(super) fn write_buffer(blueprint: &DiskBlueprint, demand: &Demand) -> Option<WriteBuffer> {
    let rules = blueprint.electronics_parameters().buffer_rules()?;
    let blocks_max = demand.sizes.iter().map(|size| size.blocks).max()?;
    if blocks_max > rules.blocks_max {
        return None;
    }
    let times = Times::of(blueprint, demand, rules)?;
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
    let overlap = |overlaps: bool, overheads_s: &[f64]| if overlaps { mean(overheads_s) } else { 0.0 };
    Some(WriteBuffer {
        is_reordered: is_reordered(blueprint, demand),
        extents: rules.extents,
        extents_beside_read: rules.extents_beside_read,
        reads_wait_for_all: rules.reads_wait_for_all,
        read_overlap_s: overlap(rules.read_overlaps, &times.read_overheads_s),
        destage_lead_s: overlap(rules.destages_at_first_block, &times.write_buses_s),
        write_overlap_s: overlap(rules.write_overlaps, &times.write_overheads_s),
        read_lead_s: mean(&times.read_leads_s),
        read: ServiceTimes::sample(times.reads_s),
        write: ServiceTimes::sample(times.writes_s),
        destage: ServiceTimes::sample(times.destages_s),
        read_ahead: rules.waits_for_read_ahead.then(|| ServiceTimes::sample(times.read_aheads_s)),
    })
}

/// Times of the points, in seconds.
#[derive(Default)]
struct Times {
    reads_s: Vec<f64>,
    read_overheads_s: Vec<f64>,
    read_aheads_s: Vec<f64>,
    read_leads_s: Vec<f64>,
    writes_s: Vec<f64>,
    write_overheads_s: Vec<f64>,
    write_buses_s: Vec<f64>,
    destages_s: Vec<f64>,
}

impl Times {
    fn of(blueprint: &DiskBlueprint, demand: &Demand, rules: BufferRules) -> Option<Self> {
        let addresses = demand.addresses?;
        let (mut electronics, mechanism) = blueprint.idle();
        let period = mechanism.spindle().period();
        // The media is free from then on, whatever the time of a command.
        let media_free = |electronics: &super::electronics::Electronics<_>| {
            electronics.arm_moves_at(Instant::ZERO, Operation::Read)
        };
        let anywhere = |_, next| next;
        let mut times = Self::default();
        // A drive that holds one command gets the next when this one has completed.
        let holds_several = !demand.one_at_a_time && blueprint.capabilities().queue_depth > 1;

        let mixed = Demand { reads: demand.reads.clamp(SHARE_MIN, 1.0 - SHARE_MIN), ..demand.clone() };
        let mut requests = Points::new(&mixed, addresses, SHORT);
        let mut now = Instant::ZERO;
        for number in 0..SHORT.points + WARM_UP {
            let request = requests.next(&anywhere);
            let served = electronics.serve(mechanism, now, &request);
            let service_s = (served.completed - now).as_s();
            let idle = requests.idle_time(period);
            if request.op == Operation::Read {
                let next = if holds_several { served.free } else { served.completed };
                let lead = next.saturating_since(media_free(&electronics));
                let ended = if rules.waits_for_read_ahead {
                    electronics.work_until(mechanism, served.completed + idle);
                    media_free(&electronics).saturating_since(served.completed)
                } else {
                    Duration::ZERO
                };
                if number >= WARM_UP {
                    times.reads_s.push(service_s);
                    times.read_overheads_s.push(served.breakdown.overhead.as_s());
                    times.read_aheads_s.push(ended.as_s());
                    times.read_leads_s.push(lead.as_s());
                }
            } else {
                electronics.work_until(mechanism, served.completed + MOMENT);
                let destage = media_free(&electronics).saturating_since(served.completed);
                if number >= WARM_UP {
                    times.writes_s.push(service_s);
                    times.write_overheads_s.push(served.breakdown.overhead.as_s());
                    // The media can begin with the first of the blocks that the bus brings.
                    times.write_buses_s.push((served.breakdown.bus + MOMENT).as_s());
                    if rules.extents == 1 {
                        let lead =
                            if rules.destages_at_first_block { served.breakdown.bus } else { Duration::ZERO };
                        times.destages_s.push((destage + lead).as_s());
                    }
                }
            }
            now = served.completed.max(served.free) + idle;
        }
        if rules.extents == 1 {
            return Some(times);
        }

        let writes = Demand { reads: 0.0, ..demand.clone() };
        let mut requests = Points::new(&writes, addresses, SHORT);
        for _ in 0..SHORT.points / 2 {
            let write = |electronics: &mut super::electronics::Electronics<_>, now, request: Request| {
                electronics.serve(mechanism, now, &request).completed
            };
            let first = write(&mut electronics, now, requests.next(&anywhere));
            let second = write(&mut electronics, first, requests.next(&anywhere));
            electronics.work_until(mechanism, second + MOMENT);
            let begun = media_free(&electronics).max(second);
            electronics.work_until(mechanism, begun + MOMENT);
            let ended = media_free(&electronics);
            // The first destage may end before the second write is in the buffer.
            if ended > begun {
                times.destages_s.push((ended - begun).as_s());
            }
            now = ended.max(second) + requests.idle_time(period);
        }
        if times.destages_s.is_empty() { None } else { Some(times) }
    }
}
