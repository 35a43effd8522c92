//! A closed replay of recorded requests: one run of the device that keeps a number of them outstanding.
//!
//! A law of independent requests does not have the response times of a trace. Its lengths and places change from its beginning to
//! its end, a buffer that is empty at the beginning is full later, and slow services come one after another, so the times of the
//! members of a population add up to more than those of as many independent services. The run has all of that.
//!
//! # Scope and limits
//! All requests count: those at the beginning, which find an empty buffer, and those at the end, when fewer are outstanding. An
//! estimate takes as long as a simulation.

use std::sync::Arc;

use seeklab_core::{Completion, Device, Instant, Limits, Request, simulate};

use crate::error::{EstimateError, check_positive};
use crate::method::{Estimate, Method};
use crate::moments::ServiceMoments;
use crate::quantiles::{SHARES, by_operation, quantiles_s};
use crate::queueing::Steady;
use crate::sampling::Members;

/// Estimate of a population that sends these requests in their order, on the device that `build` makes.
///
/// # Errors
/// No members, requests that the device refuses, or a device that answers at once.
pub fn closed_replay(
    build: &dyn Fn() -> Box<dyn Device>,
    requests: &Arc<[Request]>,
    members: u32,
) -> Result<Estimate, EstimateError> {
    check_positive("members", f64::from(members))?;
    // More members than requests have nothing to send.
    let members = members.min(u32::try_from(requests.len()).unwrap_or(u32::MAX));
    let mut workload = Members::new(requests, members, |_, free| free);
    let mut device = build();
    let mut before = Instant::ZERO;
    let (mut responses_s, mut between_s) = (Vec::new(), Vec::new());
    let observe = |completion: &Completion| {
        let response = completion.completed - completion.submitted;
        responses_s.push((completion.request.op, response.as_s()));
        between_s.push(completion.completed.saturating_since(before).as_s());
        before = completion.completed;
    };
    let run = simulate(&mut workload, &mut *device, Limits { outstanding_max: usize::MAX }, observe);
    run.map_err(|error| EstimateError::Refused(error.to_string()))?;
    let elapsed_s = before.as_s();
    if elapsed_s <= 0.0 {
        return Err(EstimateError::WithoutService);
    }
    let count = responses_s.len() as f64;
    let throughput_per_s = count / elapsed_s;
    let (reads, writes) = by_operation(responses_s.iter().copied());
    let mut responses_s: Vec<f64> = responses_s.into_iter().map(|(_, response_s)| response_s).collect();
    let response_mean_s = responses_s.iter().sum::<f64>() / count;
    let service = ServiceMoments::of(between_s);
    let steady = Steady {
        throughput_per_s,
        // A request is outstanding from the beginning to the end.
        utilisation: 1.0,
        queue_time_mean_s: (response_mean_s - service.mean_s).max(0.0),
        response_mean_s,
        outstanding_mean: throughput_per_s * response_mean_s,
    };
    Ok(Estimate {
        quantiles_s: Some(quantiles_s(&mut responses_s, SHARES)),
        reads,
        writes,
        ..Estimate::of_means(Method::ClosedReplay, service, steady)
    })
}

#[cfg(test)]
mod tests {
    use seeklab_core::{Operation, Seed};
    use seeklab_devices::Description;

    use super::*;

    /// A device of the catalog behind a queue in order of arrival, as simulations build it.
    fn queued(base: &str) -> Box<dyn Device> {
        let text = format!("kind = 'queue'\n[device]\nbase = '{base}'\n");
        Description::parse("queued", "queued.toml", &text).unwrap().build(Seed(1), "disk0").unwrap()
    }

    #[test]
    fn slow_services_that_follow_each_other_make_long_response_times() {
        // Short requests, then as many long ones: the members meet others like themselves.
        let request =
            |id: u64| Request::new(id, Operation::Read, 4_096 * (id % 200), if id < 500 { 8 } else { 1_024 });
        let requests: Arc<[Request]> = (0..1_000).map(request).collect();
        let build = || queued("hp-c2247a");
        let alone = closed_replay(&build, &requests, 1).unwrap();
        let found = closed_replay(&build, &requests, 4).unwrap();
        let variation = |estimate: &Estimate| {
            let [median_s, .., last_s, _] = estimate.quantiles_s.unwrap();
            last_s / median_s
        };
        assert_eq!((found.method, found.steady.utilisation), (Method::ClosedReplay, 1.0));
        assert!(
            (found.steady.throughput_per_s / alone.steady.throughput_per_s - 1.0).abs() < 0.05,
            "{found:?}"
        );
        // Sums of independent services would vary half as much as each.
        assert!(variation(&found) > 0.9 * variation(&alone), "{found:?} {alone:?}");
        assert!((found.steady.outstanding_mean - 4.0).abs() < 0.05, "{found:?}");
    }

    #[test]
    fn percentile_is_the_first_time_that_reaches_its_share() {
        let requests: Arc<[Request]> =
            (0..100).map(|id| Request::new(id, Operation::Read, id * 79_193 % 1_000_000, 8)).collect();
        let found = closed_replay(&|| queued("hp-c2247a"), &requests, 1).unwrap();
        let [median_s, .., p99_s, last_s] = found.quantiles_s.unwrap();
        let mut device = queued("hp-c2247a");
        let mut times_s = Vec::new();
        let mut members = Members::new(&requests, 1, |_, free| free);
        let observe = |completion: &Completion| {
            times_s.push((completion.completed - completion.submitted).as_s());
        };
        simulate(&mut members, &mut *device, Limits { outstanding_max: 1 }, observe).unwrap();
        times_s.sort_unstable_by(f64::total_cmp);
        assert_eq!((median_s, p99_s, last_s), (times_s[49], times_s[98], times_s[99]));
    }

    #[test]
    fn more_members_than_requests_are_as_many_as_those() {
        let requests: Arc<[Request]> =
            (0..10).map(|id| Request::new(id, Operation::Read, id * 8, 8)).collect();
        let of = |members| closed_replay(&|| queued("constant"), &requests, members);
        assert_eq!(of(10).unwrap(), of(1_000_000).unwrap());
        assert!((of(10).unwrap().steady.response_mean_s - 0.055).abs() < 1e-9);
        assert_eq!(closed_replay(&|| queued("immediate"), &requests, 2), Err(EstimateError::WithoutService));
        assert!(of(0).is_err());
    }
}
