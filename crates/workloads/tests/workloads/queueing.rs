//! Tests that runs match queueing theory.

use seeklab_core::{Duration, Instant, Limits, Seed, simulate};

use crate::common::{Server, Service, with_seed};

/// Mean response time in milliseconds of 100 arrivals per second at a server.
fn response_ms(service: Service, requests: u64, seed: u64) -> f64 {
    let mut workload = with_seed(&format!("size=8KiB,read=1,poisson=100/s,requests={requests}"), seed);
    let mut sum = 0.0;
    // Little's law on every run: the integral of the number outstanding is the sum of response times.
    let mut events: Vec<(Instant, i64)> = Vec::new();
    let summary = simulate(&mut workload, &mut Server::new(service), Limits::default(), |completion| {
        sum += completion.response_time().as_ms();
        events.push((completion.submitted, 1));
        events.push((completion.completed, -1));
    })
    .unwrap();
    events.sort_unstable();
    let mut outstanding = 0;
    let mut integral = 0.0;
    for pair in events.windows(2) {
        outstanding += pair[0].1;
        integral += outstanding as f64 * (pair[1].0 - pair[0].0).as_ms();
    }
    let span = summary.end.as_ms();
    let (number, rate, response) = (integral / span, summary.requests as f64 / span, sum / requests as f64);
    assert!((number / (rate * response) - 1.0).abs() < 1e-6, "L = {number}, λW = {}", rate * response);
    response
}

#[test]
fn m_m_1_response_time_is_one_over_mu_minus_lambda() {
    for (service_ms, requests) in [(5.0, 400_000), (7.0, 800_000)] {
        let mean = Duration::from_ms_f64(service_ms);
        let seen = response_ms(Service::Exponential(mean, Seed(5).stream("service")), requests, 4);
        let theory = 1.0 / (1.0 / service_ms - 0.1);
        assert!((seen / theory - 1.0).abs() < 0.02, "{service_ms}ms: {seen}, theory {theory}");
    }
}

#[test]
fn m_d_1_response_time_matches_pollaczek_khinchine() {
    let seen = response_ms(Service::Constant(Duration::from_ms(6)), 400_000, 6);
    let theory = 6.0 + 0.6 * 6.0 / (2.0 * (1.0 - 0.6));
    assert!((seen / theory - 1.0).abs() < 0.02, "{seen}, theory {theory}");
}
