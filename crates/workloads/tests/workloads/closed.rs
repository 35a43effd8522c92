//! Tests that a closed population stays constant.

use seeklab_core::{Arrival, Duration, Instant, Limits, Seed, Workload, simulate};

use crate::common::{Server, Service, workload};

#[test]
fn population_is_always_outstanding_without_think_time() {
    for population in [1_usize, 2, 8] {
        let mut workload = workload(&format!("size=8KiB,read=1,closed={population},requests=1000"));
        let mut server = Server::new(Service::Exponential(Duration::from_ms(5), Seed(2).stream("service")));
        let mut outstanding = 0_usize;
        let mut busy_until = Instant::ZERO;
        let summary = simulate(&mut workload, &mut server, Limits::default(), |completion| {
            outstanding += 1;
            // A server that always has work begins each request when the last one ends.
            assert_eq!(completion.started, busy_until);
            busy_until = completion.completed;
        })
        .unwrap();
        assert_eq!((summary.requests, outstanding), (1_000, 1_000));
        assert_eq!(server.outstanding_max, population);
    }
}

#[test]
fn each_member_thinks_between_its_requests() {
    let think = Duration::from_ms(10);
    let mut workload = workload("size=8KiB,read=1,closed=3,think=10ms,requests=300");
    let mut server = Server::new(Service::Constant(Duration::from_ms(2)));
    let mut last = [None; 3];
    simulate(&mut workload, &mut server, Limits::default(), |completion| {
        let member = completion.request.initiator as usize;
        if let Some(last) = last[member].replace(completion.completed) {
            assert_eq!(completion.submitted, last + think);
        } else {
            assert_eq!(completion.submitted, Instant::ZERO);
        }
    })
    .unwrap();
    assert!(server.outstanding_max <= 3);
}

#[test]
fn throughput_follows_the_interactive_response_time_law() {
    // N = X (R + Z) [Denning & Buzen 1978]: an identity but for the edges of the run.
    let mut workload = workload(
        "size=8KiB,read=1,closed=20,think=100ms,arrivals.think_distribution=exponential,requests=200000",
    );
    let mut server = Server::new(Service::Exponential(Duration::from_ms(4), Seed(3).stream("service")));
    let mut response_s = 0.0;
    let summary = simulate(&mut workload, &mut server, Limits::default(), |completion| {
        response_s += completion.response_time().as_s();
    })
    .unwrap();
    let count = summary.requests as f64;
    let population = count / summary.end.as_s() * (response_s / count + 0.1);
    assert!((population / 20.0 - 1.0).abs() < 0.01, "population {population}");
}

#[test]
fn closed_workload_waits_when_all_are_outstanding() {
    let mut workload = workload("size=8KiB,read=1,closed=2,requests=10");
    for _ in 0..2 {
        assert!(matches!(workload.next_arrival(Instant::ZERO), Arrival::Request(_)));
    }
    assert_eq!(workload.next_arrival(Instant::ZERO), Arrival::WaitForCompletion);
}
