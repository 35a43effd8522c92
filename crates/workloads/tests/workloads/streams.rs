//! Same seed, same requests; one aspect changed, the others unchanged?

use seeklab_core::{Arrival, Criticality, Instant, Operation, Request, Workload};

use crate::common::{arrivals, with_seed, workload};

const LINE: &str = "size=4KiB:3+64KiB:1,align=4KiB,read=66%,poisson=100/s,requests=2000";

#[test]
fn equal_seeds_give_equal_requests() {
    assert_eq!(arrivals(&mut with_seed(LINE, 7)), arrivals(&mut with_seed(LINE, 7)));
    assert_ne!(arrivals(&mut with_seed(LINE, 7)), arrivals(&mut with_seed(LINE, 8)));
}

#[test]
fn clone_continues_identically() {
    let mut original = workload(LINE);
    let mut now = Instant::ZERO;
    for _ in 0..1_000 {
        if let Arrival::At(time) = original.next_arrival(now) {
            now = time;
        }
    }
    let mut copy = original.clone();
    for _ in 0..1_000 {
        let next = original.next_arrival(now);
        assert_eq!(next, copy.next_arrival(now));
        if let Arrival::At(time) = next {
            now = time;
        }
    }
}

#[test]
fn changing_one_aspect_leaves_the_others_unchanged() {
    let base = arrivals(&mut workload(LINE));
    let times = |drawn: &[(Instant, Request)]| drawn.iter().map(|(time, _)| *time).collect::<Vec<_>>();
    let ops = |drawn: &[(Instant, Request)]| {
        drawn.iter().map(|(_, request)| request.op == Operation::Read).collect::<Vec<_>>()
    };
    let sizes =
        |drawn: &[(Instant, Request)]| drawn.iter().map(|(_, request)| request.blocks).collect::<Vec<_>>();
    let places =
        |drawn: &[(Instant, Request)]| drawn.iter().map(|(_, request)| request.lbn).collect::<Vec<_>>();
    let with = |change: (&str, &str)| arrivals(&mut workload(&LINE.replace(change.0, change.1)));

    let other = with(("read=66%", "read=10%"));
    assert_eq!((times(&base), sizes(&base), places(&base)), (times(&other), sizes(&other), places(&other)));
    assert_ne!(ops(&base), ops(&other));

    let other = with(("poisson=100/s", "constant=7/s"));
    assert_eq!((ops(&base), sizes(&base), places(&base)), (ops(&other), sizes(&other), places(&other)));
    assert_ne!(times(&base), times(&other));

    let other = with(("align=4KiB", "align=4KiB,zipf=1.1"));
    assert_eq!((times(&base), ops(&base), sizes(&base)), (times(&other), ops(&other), sizes(&other)));
    assert_ne!(places(&base), places(&other));

    let other = with(("64KiB:1", "64KiB:9"));
    assert_eq!((times(&base), ops(&base)), (times(&other), ops(&other)));
    assert_ne!(sizes(&base), sizes(&other));
}

#[test]
fn classes_are_drawn_in_their_share_and_leave_all_else_unchanged() {
    let base = arrivals(&mut workload(LINE));
    assert!(base.iter().all(|(_, request)| request.criticality == Criticality::TimeCritical));
    let classed = arrivals(&mut workload(&format!("{LINE},noncritical=30%")));
    let noncritical =
        classed.iter().filter(|(_, request)| request.criticality == Criticality::TimeNoncritical).count();
    // Five standard deviations of 2,000 draws.
    assert!((noncritical as f64 - 600.0).abs() < 103.0, "{noncritical}");
    let without: Vec<_> = classed
        .into_iter()
        .map(|(time, request)| (time, Request { criticality: Criticality::TimeCritical, ..request }))
        .collect();
    assert_eq!(base, without);
}
