//! Locks and pipes between processes of a host.

use proptest::prelude::*;
use seeklab_core::{Duration, Limits, Seed, simulate};

use crate::common::{Server, Service};
use crate::host::{FREE, host, host_with_seed, run, run_host};

const SERVICE: Duration = Duration::from_ms(10);

const fn ms(ms: u64) -> Duration {
    Duration::from_ms(ms)
}

#[test]
fn processes_hold_a_lock_one_after_another() {
    let line = format!(
        "{FREE},host.cpus=4,processes.p.count=3,\
         processes.p.program=lock table; compute 10ms; unlock table; compute 5ms"
    );
    let run = run(&line, SERVICE);
    let times = run.host.process_times()[0];
    assert_eq!(run.figures.elapsed, ms(35), "three times 10 ms, and 5 ms of the last");
    assert_eq!((times.waits.process, times.computing, times.ready), (ms(30), ms(45), ms(0)));
    assert_eq!(run.figures.false_idle, Duration::ZERO, "nobody waits for I/O");
    let free = run_host(host(&line.replace("unlock table; ", "").replace("lock table; ", "")), server());
    assert_eq!(free.figures.elapsed, ms(15));
}

fn server() -> Server {
    Server::new(Service::Constant(SERVICE))
}

#[test]
fn lock_is_given_back_at_the_end_and_held_during_io() {
    let line = format!(
        "{FREE},files.data.size=40KiB,processes.a.program=lock x; read data 4KiB direct; exit; unlock x,\
         processes.b.program=compute 1ms; lock x; lock x; compute 2ms; unlock x; unlock x"
    );
    let run = run(&line, SERVICE);
    let [a, b] = run.host.process_times().try_into().expect("two definitions");
    assert_eq!((a.elapsed, a.waits.read), (SERVICE, SERVICE));
    assert_eq!((b.elapsed, b.waits.process), (ms(12), ms(9)));
}

#[test]
fn pipe_lets_its_ends_run_at_the_pace_of_the_slower_one() {
    let line = |sender: &str, receiver: &str| {
        format!(
            "{FREE},host.cpus=2,host.pipe=8KiB,processes.a.program=repeat 10 {{ compute {sender}; send rows 4KiB }},\
             processes.b.program=repeat 10 {{ receive rows 4KiB; compute {receiver} }}"
        )
    };
    let slow_sender = run(&line("10ms", "1ms"), SERVICE);
    let [a, b] = slow_sender.host.process_times().try_into().expect("two definitions");
    assert_eq!((a.elapsed, a.waits.process), (ms(100), ms(0)));
    assert_eq!((b.elapsed, b.waits.process), (ms(101), ms(91)));
    let slow_receiver = run(&line("1ms", "10ms"), SERVICE);
    let [a, b] = slow_receiver.host.process_times().try_into().expect("two definitions");
    // One part is with the receiver and two are in the pipe.
    assert_eq!((b.elapsed, b.waits.process), (ms(101), ms(1)));
    assert_eq!(a.elapsed, ms(71), "the eighth part that the receiver takes makes room for the last");
}

#[test]
fn large_transfer_passes_a_small_pipe_in_pieces_and_ends_with_the_senders() {
    let line = format!(
        "{FREE},host.cpus=2,host.pipe=4KiB,processes.child.program=send rows 100KiB; compute 5ms,\
         processes.p.program=fork child; compute 1ms; receive rows 1GiB; compute 2ms; wait"
    );
    let run = run(&line, SERVICE);
    let [child, p] = run.host.process_times().try_into().expect("two definitions");
    assert_eq!((child.computing, p.computing), (ms(5), ms(3)));
    assert_eq!(p.waits.process, ms(5), "the pipe ends when the child does");
    assert!(run.figures.is_finished);
}

#[test]
fn processes_that_wait_for_each_other_end_the_run() {
    let line = format!(
        "{FREE},processes.a.program=lock x; sleep 1ms; lock y; unlock x; unlock y,\
         processes.b.program=lock y; sleep 1ms; lock x; unlock y; unlock x"
    );
    let mut host = host(&line);
    simulate(&mut host, &mut server(), Limits::default(), |_| {}).expect("nothing is submitted");
    assert!(!host.figures().is_finished);
    assert_eq!(host.figures().elapsed, ms(1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn work_under_one_lock_is_never_done_at_once(
        parts in prop::collection::vec((0_u64..5, 1_u64..20, 0_u64..5), 1..6), cpus in 1_u32..5, seed in 0_u64..100,
    ) {
        // The lock protects a device that serves at once, so that requests would overlap if the lock did not.
        let mut line = format!("{FREE},host.cpus={cpus},files.data.size=4MiB");
        for (number, (before, within, after)) in parts.iter().enumerate() {
            line += &format!(
                ",processes.p{number}.program=repeat 4 {{ compute {before}ms; lock x; read data 4KiB random direct; \
                 compute {within}ms; read data 4KiB random direct; unlock x; compute {after}ms }}"
            );
        }
        let run = run_host(host_with_seed(&line, seed), Server::new(Service::Exponential(ms(3), Seed(seed).stream("s"))));
        prop_assert!(run.figures.is_finished);
        prop_assert_eq!(run.completions.len(), parts.len() * 8);
        for pair in run.completions.windows(2) {
            prop_assert!(pair[0].completed <= pair[1].submitted, "{:?}", pair);
        }
    }
}
