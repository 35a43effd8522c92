//! The pacer against the wall clock: what must hold on any machine, however loaded.

use seeklab_core::{Duration, Instant, Operation, Request};
use seeklab_devices::simple::{Server, ServerParameters};
use seeklab_emulator::clock::{Clock, DEFAULT_MARGIN, Pacing, Waiter, wake_this_thread_exactly};
use seeklab_emulator::pacer::{Compensation, Deadlines, MissCause, Mode, Options, Pacer, Steps};

const REQUESTS: u64 = 200;

fn run(mode: Mode, pacing: Pacing) -> Deadlines {
    let parameters = ServerParameters {
        capacity_blocks: 1 << 20,
        block_size: "512B".parse().unwrap(),
        service_time: Duration::from_ms(1),
    };
    let device = Box::new(Server::constant(&parameters).unwrap());
    let compensation = Compensation::default().with_lookahead(Duration::from_us(50));
    let mut pacer = Pacer::new(device, Options { mode, compensation, ..Options::default() });
    let clock = Clock::start();
    let mut waiter = Waiter::new(clock, pacing, DEFAULT_MARGIN);
    let mut deadlines = Deadlines::default();
    let mut due = Vec::new();
    for id in 0..REQUESTS {
        let arrived = clock.now();
        pacer.arrive(arrived, Request::new(id, Operation::Read, id * 8, 8)).unwrap();
        let mut free = arrived;
        while let Some(deadline) = pacer.next_deadline() {
            free = clock.now();
            pacer.model_ended(free);
            let mut woken = free;
            loop {
                pacer.due(woken, Duration::ZERO, &mut due);
                if !due.is_empty() || woken >= deadline {
                    break;
                }
                woken = waiter.step(woken, deadline);
            }
            for due in due.drain(..) {
                let left = clock.now();
                assert!(left >= due.due, "request {id} left before it was due");
                assert!(due.completion.completed >= arrived + Duration::from_ms(1));
                let steps = Steps {
                    arrived,
                    known: due.known,
                    data: arrived,
                    free,
                    woken,
                    ready: left,
                    offered: left,
                    left,
                };
                deadlines.record(&due, &steps, None);
            }
        }
        assert_eq!(pacer.outstanding(), 0);
        assert!(free >= arrived);
    }
    let waited = waiter.waited();
    assert!(clock.now() >= Instant::ZERO + Duration::from_ms(REQUESTS));
    assert!(pacing != Pacing::Frugal || waited.spun.is_zero());
    let quantile = |quantile| deadlines.lateness().quantile(quantile).unwrap().as_us();
    println!(
        "{mode:?} {pacing:?}: lateness p50 {:.2} us, p99 {:.1} us; slept {}, spun {}; missed: {}",
        quantile(0.5),
        quantile(0.99),
        waited.slept,
        waited.spun,
        MissCause::ALL.map(|cause| format!("{} {}", cause.name(), deadlines.missed(cause))).join(", ")
    );
    deadlines
}

#[test]
fn nothing_is_released_before_it_is_due() {
    assert!(wake_this_thread_exactly() || cfg!(not(target_os = "linux")));
    for mode in Mode::ALL {
        for pacing in [Pacing::Exact, Pacing::Balanced, Pacing::Frugal] {
            let deadlines = run(mode, pacing);
            assert_eq!(deadlines.lateness().moments().count(), REQUESTS);
            assert_eq!(deadlines.early().moments().count(), 0);
        }
    }
}
