//! Tests that the models of the Cheetah 9LP and the Barracuda 4LP match the real drives.
//!
//! Reference: response times measured per request, `../shared/reference/measured/` (published with
//! DiskSim, 10,000 requests for each drive); DiskSim's own answers to the same requests stand in the
//! column `disksim_response_ms`. The constants were re-identified from the first half of each trace; the
//! rules were found on the whole of it, so the second half is unseen for the numbers only.
//!
//! A request is issued at the model's completion of the one before plus the think time on that one's line, as
//! the trace is published, unless a test states otherwise.

use crate::shared::measured::{Measured, buffered, replay, replay_thinking};
use seeklab_core::{Completion, Duration, Operation, Seed};

/// One drive and what is expected of its model.
struct Drive {
    name: &'static str,
    turn: Duration,
    demerit_pct_max: f64,
    /// DiskSim's, as published with the trace.
    disksim_demerit_pct: f64,
}

const DRIVES: [Drive; 2] = [
    Drive {
        name: "cheetah9LP",
        turn: Duration::from_us(5_973),
        demerit_pct_max: 2.2,
        disksim_demerit_pct: 2.52,
    },
    Drive {
        name: "barracuda",
        turn: Duration::from_us(8_333),
        demerit_pct_max: 2.6,
        disksim_demerit_pct: 5.26,
    },
];

#[test]
#[cfg_attr(not(shared_reference), ignore = "needs ../shared/reference")]
fn models_match_better_than_disksim() {
    for drive in DRIVES {
        let measured = Measured::of(drive.name);
        let model = replay(&measured);
        let [all, first, second] = measured.parts();
        for part in [&all, &first, &second] {
            println!("{} {}: {}", drive.name, part.name, measured.compare(&model, part));
            let answered = measured.compare_where(&model, part, buffered);
            println!("{} {}, buffered: {answered}", drive.name, part.name);
        }
        let whole = measured.compare(&model, &all);
        assert!((whole.disksim_demerit_pct - drive.disksim_demerit_pct).abs() < 0.01, "{whole}");
        assert!(whole.demerit_pct <= drive.demerit_pct_max, "{}: {whole}", drive.name);
        assert!(whole.demerit_pct <= whole.disksim_demerit_pct, "{}: {whole}", drive.name);
        assert!(whole.within_5pct > whole.disksim_within_5pct, "{}: {whole}", drive.name);
        let unseen = measured.compare(&model, &second);
        assert!(unseen.demerit_pct <= unseen.disksim_demerit_pct, "{}: {unseen}", drive.name);
        assert!(unseen.within_5pct > unseen.disksim_within_5pct, "{}: {unseen}", drive.name);
        for (kind, reads) in [("hits", true), ("buffered writes", false)] {
            let keep = |completion: &Completion| {
                buffered(completion) && (completion.request.op == Operation::Read) == reads
            };
            let of_kind = measured.compare_where(&model, &second, keep);
            println!("{} second half, {kind}: {of_kind}", drive.name);
            assert!(of_kind.within_5pct > of_kind.disksim_within_5pct, "{} {kind}: {of_kind}", drive.name);
        }
    }
}

/// One replay is one draw of the rotational phases; think times jittered by up to a turn give others.
#[test]
#[cfg_attr(not(shared_reference), ignore = "needs ../shared/reference")]
fn expected_demerit_is_below_that_of_disksim() {
    for drive in DRIVES {
        let measured = Measured::of(drive.name);
        let whole = &measured.parts()[0];
        let mut jitter = Seed(1).stream("think.jitter");
        let demerits: Vec<f64> = (0..8)
            .map(|_| {
                let jitters: Vec<Duration> = (0..measured.requests.len())
                    .map(|_| Duration::from_ns(jitter.below(drive.turn.as_ns())))
                    .collect();
                let model = replay_thinking(&measured, |index| measured.think[index] + jitters[index]);
                measured.compare(&model, whole).demerit_pct
            })
            .collect();
        let mean = demerits.iter().sum::<f64>() / demerits.len() as f64;
        println!("{}: demerits with jittered think times {demerits:.2?}, mean {mean:.2} %", drive.name);
        assert!(mean <= drive.demerit_pct_max, "{}: {demerits:.2?}", drive.name);
    }
}

/// The think times of these traces stand one line early: replayed as the time before the request of
/// their own line, read hits find the state of the electronics in which they were measured.
#[test]
#[cfg_attr(not(shared_reference), ignore = "needs ../shared/reference")]
fn read_hits_match_once_think_times_stand_on_their_line() {
    // Read hits by measurement: what lies beyond the bus time of 0.1024 ms a block is short.
    let measured = Measured::of("cheetah9LP");
    let measured_hit = |completion: &Completion| {
        let response_ms = measured.response_ms[completion.request.id.0 as usize];
        completion.request.op == Operation::Read
            && response_ms - 0.1024 * f64::from(completion.request.blocks) < 0.36
    };
    let second = &measured.parts()[2];
    let after = measured.compare_where(&replay(&measured), second, measured_hit);
    let last = measured.requests.len() - 1;
    let model = replay_thinking(&measured, |index| measured.think[(index + 1).min(last)]);
    let before = measured.compare_where(&model, second, measured_hit);
    println!("cheetah9LP second half, read hits, think time after the request: {after}");
    println!("cheetah9LP second half, read hits, think time before the request: {before}");
    assert!(before.within_5pct > 95.0, "{before}");
    assert!(after.within_5pct < 80.0, "{after}");
    assert!(before.within_5pct > before.disksim_within_5pct + 40.0, "{before}");
}
