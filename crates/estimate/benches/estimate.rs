//! Cost of an estimate: a law, M/G/1, percentiles, the chain and the recursion. `cargo bench -p seeklab-estimate` prints
//! the medians; `cargo test` runs each once.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a benchmark reads the clock and its arguments"
)]

use std::hint::black_box;
use std::time::Instant;

use seeklab_core::Seed;
use seeklab_devices::catalog;
use seeklab_devices::service_law::{Demand, LawOrigin, LawPoint, ServiceLaw, ServiceTimes};
use seeklab_estimate::queueing::{
    Lindley, QueueDependentService, ServedArrival, departure_chain, mg1, mg1_response_times,
};
use seeklab_estimate::{ServiceMoments, open_poisson};

/// Prints the median time of a call in microseconds.
fn measure(name: &str, rounds: usize, mut call: impl FnMut()) {
    let mut times_us: Vec<f64> = (0..rounds)
        .map(|_| {
            let begin = Instant::now();
            call();
            begin.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times_us.sort_by(f64::total_cmp);
    println!("{name}: {:.3} us", times_us[rounds / 2]);
}

/// A server that is faster with a queue.
struct Faster;

impl QueueDependentService for Faster {
    fn after_idle(&self) -> ServiceMoments {
        ServiceMoments::with_deviation(0.01, 0.003)
    }
    fn with_outstanding(&self, outstanding: usize) -> ServiceMoments {
        ServiceMoments::with_deviation(0.01 / (1.0 + (outstanding as f64).ln() / 4.0), 0.003)
    }
    fn constant_from(&self) -> usize {
        64
    }
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let rounds = if is_bench { 51 } else { 1 };
    let disk = catalog::find("cheetah-36es").expect("the catalog has it");
    let demand = Demand::random_reads(&disk.capabilities().expect("it has parameters"), 16);
    let law = || disk.service_law(&demand, &|_| None).expect("disks have a law");
    measure("law of cheetah-36es, reads of 8 KiB", rounds, || drop(black_box(law())));
    let clook = Demand { order: "c-look".parse().ok(), ..demand.clone() };
    measure("law of cheetah-36es with C-LOOK", rounds, || {
        drop(black_box(disk.service_law(&clook, &|_| None)));
    });
    let service = ServiceMoments::with_deviation(0.0085, 0.0026);
    let thousand = if is_bench { 1_000 } else { 1 };
    measure("M/G/1, a thousand times", rounds, || {
        for number in 0..thousand {
            drop(black_box(mg1(black_box(60.0 + f64::from(number) / 100.0), service)));
        }
    });
    measure("chain at 80 % load", rounds, || drop(black_box(departure_chain(black_box(160.0), &Faster))));
    let law = law();
    let times = law.points[law.points.len() - 1].service.clone();
    for load in [0.6, 0.9] {
        let arrivals_per_s = load / times.mean_s();
        measure(&format!("percentiles of M/G/1 at {load} load"), rounds, || {
            drop(black_box(mg1_response_times(arrivals_per_s, &times)));
        });
    }
    let single = ServiceLaw {
        points: vec![LawPoint { outstanding: 1, service: times, response: None }],
        ..ServiceLaw::of_server(LawOrigin::Exact, ServiceTimes::constant(0.0))
    };
    measure("estimate of an open load", rounds, || drop(black_box(open_poisson(60.0, &single))));
    let count = if is_bench { 1_000_000 } else { 1_000 };
    let mut stream = Seed(1).stream("bench");
    let requests: Vec<ServedArrival> = (0..count)
        .map(|number| ServedArrival { arrival_s: f64::from(number) * 0.01, service_s: stream.unit() * 0.018 })
        .collect();
    measure(&format!("recursion over {count} arrivals"), rounds, || {
        let mut queue = Lindley::new();
        requests.iter().for_each(|request| _ = black_box(queue.push(*request)));
    });
}
