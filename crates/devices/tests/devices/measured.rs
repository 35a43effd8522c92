//! Tests that the models match real drives.
//!
//! Reference: response times measured per request on real drives, `../shared/reference/measured/`
//! (published with DiskSim by the universities of Michigan and Carnegie Mellon). Each request is issued the
//! measured think time after the model's completion of the one before. DiskSim's own answers to the same
//! requests stand in the column `disksim_response_ms`; they follow the published reading of the think times.

use std::f64::consts::TAU;

use crate::drives::disk;
use crate::shared::measured::{
    DRIVES, Measured, Pace, Think, demerits_of_jittered_requests, demerits_of_start_phases, replay, spread,
};
use seeklab_core::Operation;

/// Least share within 5 % and greatest demerit, on the whole trace, in percent. The demerit of the newer three is the
/// mean over eight angles of the platters at the start.
const LIMITS: [(&str, f64, f64); 6] = [
    ("hp-c2247a", 93.2, 0.605),
    ("hp-c2490a", 93.2, 0.505),
    ("dec-rz26", 75.9, 1.775),
    ("barracuda", 63.65, 1.1),
    ("cheetah9lp", 62.7, 1.6),
    ("atlas10k", 63.9, 1.6),
];

#[test]
#[cfg_attr(not(shared_reference), ignore = "needs ../shared/reference")]
fn six_drives_match_their_measurements() {
    for (drive, (device, within_5pct_min, demerit_pct_max)) in DRIVES.iter().zip(LIMITS) {
        assert_eq!(drive.device, device);
        let measured = Measured::of(drive);
        let model = replay(&measured);
        for part in measured.parts() {
            let comparison = measured.compare(&model, &part);
            println!("{device} {}: {comparison}", part.name);
            // The constants of hp-c2247a are DiskSim's; its halves differ from DiskSim by chance.
            if device != "hp-c2247a" || part.name == "all" {
                assert!(comparison.demerit_pct <= comparison.disksim_demerit_pct, "{device}: {comparison}");
                assert!(comparison.within_5pct >= comparison.disksim_within_5pct, "{device}: {comparison}");
            }
        }
        let whole = measured.compare(&model, &measured.parts()[0]);
        assert!(whole.within_5pct >= within_5pct_min, "{device}: {whole}");
        let demerits = demerits_of_start_phases(&measured);
        let (mean, least, most) = spread(&demerits);
        println!("{device}: demerit over eight start phases {mean:.2} ({least:.2} to {most:.2}) %");
        assert!(mean <= demerit_pct_max, "{device}: {demerits:.3?}");
        let (mean, least, most) = spread(&demerits_of_jittered_requests(&measured));
        println!("{device}: demerit with jittered requests {mean:.2} ({least:.2} to {most:.2}) %");
        if drive.think == Think::Before {
            assert!(mean <= whole.disksim_demerit_pct, "{device}: {mean} %");
        }
    }
}

/// Phase coherence of consecutive reads from the media in one zone, and the number of pairs: the length of the mean
/// of unit vectors, each turned by what the platters turned beyond the published angle between two reads.
pub(crate) fn coherence(measured: &Measured, think: Think) -> (f64, usize) {
    let disk = disk(&measured.description());
    let (layout, spindle) = (disk.mechanism().layout(), disk.mechanism().spindle());
    let turn_ms = spindle.period().as_ms();
    let completions_ms = measured.completions_ms(think);
    let (mut x, mut y, mut pairs): (f64, f64, usize) = (0.0, 0.0, 0);
    let mut before: Option<(u32, f64)> = None;
    for (index, request) in measured.requests.iter().enumerate() {
        if request.op != Operation::Read || measured.is_hit(index) {
            before = None;
            continue;
        }
        let first = layout.extent(request.lbn, 1);
        let sector_ms = turn_ms / f64::from(layout.sectors_per_track(first.zone));
        let (angle, block_ms) = match measured.drive.pace {
            Pace::Slower => (first.angle, sector_ms.max(measured.drive.bus_ms)),
            Pace::BusBehind(share) => (first.angle, share * sector_ms + measured.drive.bus_ms),
            Pace::LastBlock => (layout.extent(request.end() - 1, 1).angle, 0.0),
        };
        let begun_ms = completions_ms[index] - block_ms * f64::from(request.blocks);
        let phase = begun_ms / turn_ms - angle.as_turns();
        if let Some((zone, before)) = before
            && zone == first.zone
        {
            let (sin, cos) = (TAU * (phase - before)).sin_cos();
            (x, y, pairs) = (x + cos, y + sin, pairs + 1);
        }
        before = Some((first.zone, phase));
    }
    (x.hypot(y) / pairs as f64, pairs)
}

/// Source: the drives of 1992-94 state the think time behind a request, those of 1997-99 before it
/// (`../shared/research/identification.md`, section 2).
#[test]
#[cfg_attr(not(shared_reference), ignore = "needs ../shared/reference")]
fn phase_coherence_decides_the_side_of_think_times() {
    for drive in &DRIVES {
        let measured = Measured::of(drive);
        let (after, pairs) = coherence(&measured, Think::After);
        let (before, _) = coherence(&measured, Think::Before);
        println!("{}: {pairs} pairs, think times after {after:.2}, before {before:.2}", drive.title);
        let (right, wrong) = match drive.think {
            Think::After => (after, before),
            Think::Before => (before, after),
        };
        assert!(pairs >= 250, "{}: {pairs} pairs", drive.title);
        assert!((0.51..=0.97).contains(&right), "{}: {right} read rightly", drive.title);
        assert!(wrong <= 0.07, "{}: {wrong} read wrongly", drive.title);
    }
}
