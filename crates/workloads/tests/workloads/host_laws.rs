//! Laws of the host model: what must hold for every program and every device.

use std::collections::VecDeque;

use proptest::prelude::*;
use seeklab_core::{
    Arrival, Completion, Device, Duration, Instant, Limits, Operation, Request, Seed, Workload, simulate,
};
use seeklab_workloads::host::{Host, HostInterval, ProcessTimes};

use crate::common::{Server, Service};
use crate::host::{FREE, Run, host, host_with_seed, run, run_host};

/// A server whose service times are drawn from a seed.
fn server(seed: u64) -> Server {
    Server::new(Service::Exponential(Duration::from_ms(7), Seed(seed).stream("test.service")))
}

/// Operation, address, length, submission and completion of each request.
fn history(completions: &[Completion]) -> Vec<(Operation, u64, u32, Instant, Instant)> {
    let row = |one: &Completion| {
        (one.request.op, one.request.lbn, one.request.blocks, one.submitted, one.completed)
    };
    completions.iter().map(row).collect()
}

fn drive(workload: &mut dyn Workload, mut device: Server) -> Vec<Completion> {
    let mut completions = Vec::new();
    simulate(workload, &mut device, Limits::default(), |one| completions.push(*one)).expect("it is taken");
    completions
}

/// Requests at given times.
struct Open(VecDeque<(Instant, Request)>);

impl Workload for Open {
    fn next_arrival(&mut self, now: Instant) -> Arrival {
        match self.0.front() {
            None => Arrival::Finished,
            Some((time, _)) if *time > now => Arrival::At(*time),
            Some((_, request)) => {
                let request = *request;
                self.0.pop_front();
                Arrival::Request(request)
            }
        }
    }
    fn completed(&mut self, _: &Completion) {}
    fn heeds_completions(&self) -> bool {
        false
    }
}

/// A population whose members issue their next request when the last is complete.
struct Closed {
    members: Vec<VecDeque<u64>>,
    ready: VecDeque<usize>,
    owners: Vec<usize>,
}

impl Workload for Closed {
    fn next_arrival(&mut self, _: Instant) -> Arrival {
        while let Some(member) = self.ready.pop_front() {
            if let Some(lbn) = self.members[member].pop_front() {
                self.owners.push(member);
                return Arrival::Request(Request::new(self.owners.len() as u64 - 1, Operation::Read, lbn, 8));
            }
        }
        if self.members.iter().all(VecDeque::is_empty) {
            Arrival::Finished
        } else {
            Arrival::WaitForCompletion
        }
    }
    fn completed(&mut self, completion: &Completion) {
        self.ready.push_back(self.owners[completion.request.id.0 as usize]);
    }
}

/// Blocks that each of a few processes reads, one after the other.
fn members() -> impl Strategy<Value = Vec<Vec<u64>>> {
    prop::collection::vec(prop::collection::vec(0_u64..1000, 1..30), 1..9)
}

/// Runs processes that only read on a host, and the same requests as a closed population.
fn closed(members: &[Vec<u64>], settings: &str, device: &Server) -> (Run, Vec<Completion>) {
    let mut line = format!("{FREE},{settings},files.data.size=4000KiB");
    for (index, blocks) in members.iter().enumerate() {
        let reads: Vec<String> =
            blocks.iter().map(|block| format!("read data 4KiB at {}KiB direct", block * 4)).collect();
        line += &format!(",processes.p{index}.program={}", reads.join("; "));
    }
    let ready = (0..members.len()).collect();
    let members = members.iter().map(|blocks| blocks.iter().map(|block| block * 8).collect()).collect();
    let mut closed = Closed { members, ready, owners: Vec::new() };
    (run_host(host(&line), device.clone()), drive(&mut closed, device.clone()))
}

/// A statement of a random program.
fn statement() -> impl Strategy<Value = String> {
    prop_oneof![
        (0_u64..40_000).prop_map(|us| format!("compute {us}us")),
        (1_u64..20_000).prop_map(|bytes| format!("read data {bytes}B")),
        (1_u64..20_000).prop_map(|bytes| format!("write data {bytes}B")),
        (1_u64..9_000).prop_map(|bytes| format!("write log {bytes}B sync")),
        (1_u64..9_000).prop_map(|bytes| format!("write log {bytes}B async")),
        (1_u64..20_000).prop_map(|bytes| format!("read data {bytes}B random")),
        (1_u64..20_000).prop_map(|bytes| format!("read data {bytes}B direct")),
        (0_u64..30_000).prop_map(|us| format!("sleep {us}us")),
        Just("sync".to_owned()),
        Just("sync log".to_owned()),
        Just("fork child".to_owned()),
        Just("wait".to_owned()),
    ]
}

fn program() -> impl Strategy<Value = String> {
    (prop::collection::vec(statement(), 1..12), 1_u32..8)
        .prop_map(|(statements, times)| format!("repeat {times} {{ {} }}", statements.join("; ")))
}

/// Two processes that run random programs and start children.
fn random_processes() -> impl Strategy<Value = String> {
    (program(), program()).prop_map(|(first, second)| {
        format!(
            "files.data.size=3MiB,files.data.extent=64KiB,files.data.distance=1MiB,files.log.size=200KiB,\
             files.log.at=1GiB,files.log.new=true,\
             processes.child.program=compute 3ms; read data 8KiB random; write log 100B,\
             processes.p.program={first},processes.q.program={second},processes.q.start=5ms"
        )
    })
}

/// Settings of a host: CPUs, memory, limits.
fn random_settings() -> impl Strategy<Value = String> {
    let memory = prop_oneof![Just("256KiB"), Just("1MiB"), Just("40MiB")];
    (1_u32..4, memory, 1_u32..100, 0_u32..3).prop_map(|(cpus, memory, dirty, ahead)| {
        let ahead = ahead * 4;
        format!("host.cpus={cpus},host.memory={memory},host.dirty_limit={dirty}%,host.read_ahead={ahead}KiB")
    })
}

/// A host with two processes that run random programs and start children.
fn random_host() -> impl Strategy<Value = String> {
    (random_settings(), random_processes())
        .prop_map(|(settings, processes)| format!("{settings},{processes}"))
}

/// The profile of a host, as the beginning of a line.
fn profile() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just(""), Just("host.profile=linux,")]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn processes_that_do_not_wait_are_an_open_workload(
        steps in prop::collection::vec((0_u64..20_000, 0_u64..1000, any::<bool>(), any::<bool>()), 1..60),
        profile in profile(),
        seed in 0_u64..1000,
    ) {
        let (mut time, mut program, mut open) = (Instant::ZERO, String::new(), VecDeque::new());
        for (index, (us, block, writes, computes)) in steps.iter().enumerate() {
            time += Duration::from_us(*us);
            let pause = if *computes { "compute" } else { "sleep" };
            let op = if *writes { "write" } else { "read" };
            program += &format!("{pause} {us}us; {op} data 4KiB at {}KiB direct async;", block * 4);
            let op = if *writes { Operation::Write } else { Operation::Read };
            open.push_back((time, Request::new(index as u64, op, block * 8, 8)));
        }
        let line = format!("{FREE},{profile}files.data.size=4000KiB,processes.p.program={program}");
        let ours = run_host(host(&line), server(seed));
        prop_assert_eq!(history(&ours.completions), history(&drive(&mut Open(open), server(seed))));
        prop_assert_eq!(ours.figures.io_waits, 0);
        prop_assert_eq!(ours.figures.elapsed, time - Instant::ZERO);
    }

    #[test]
    fn processes_that_only_wait_are_a_closed_workload(
        members in members(), profile in profile(), seed in 0_u64..1000, cpus in 1_u32..4,
    ) {
        let (ours, closed) = closed(&members, &format!("{profile}host.cpus={cpus}"), &server(seed));
        prop_assert_eq!(history(&ours.completions), history(&closed));
        prop_assert_eq!(ours.figures.io_waits as usize, ours.completions.len());
    }

    #[test]
    fn processes_whose_requests_complete_at_one_time_go_on_in_the_order_of_completion(
        members in members(), profile in profile(),
    ) {
        let pairs = Server::new(Service::Pairs(Duration::from_ms(7), false));
        let (ours, closed) = closed(&members, &format!("{profile}host.cpus=1"), &pairs);
        prop_assert_eq!(history(&ours.completions), history(&closed));
    }

    #[test]
    fn on_an_immediate_device_elapsed_is_cpu_time(line in random_host(), seed in 0_u64..1000) {
        // Without sleeps, one CPU is busy until the last process ends.
        let line = line.replace("sleep", "compute").replace("processes.q.start=5ms", "processes.q.start=0s");
        let line = format!("{line},task=p").replace("host.cpus=2", "host.cpus=1").replace("host.cpus=3", "host.cpus=1");
        let host = host_with_seed(&line, seed);
        let run = run_host(host, Server::new(Service::Constant(Duration::ZERO)));
        prop_assert_eq!(run.figures.elapsed, run.figures.task_cpu + run.figures.other_cpu);
        prop_assert_eq!((run.figures.false_idle, run.figures.idle), (Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn on_an_immediate_device_a_process_computes_or_is_ready(
        line in random_host(), profile in profile(), seed in 0_u64..1000,
    ) {
        // Processes wait for what the plug of the flusher holds while it computes for further pages.
        let flusher = if profile.is_empty() { "" } else { "host.page_submission=0s," };
        let host = host_with_seed(&format!("{FREE},{flusher}{profile}{line}"), seed);
        let run = run_host(host, Server::new(Service::Constant(Duration::ZERO)));
        for times in run.host.process_times() {
            // Linux slows writers down before it knows how fast the device is.
            let pauses = if profile.is_empty() { Duration::ZERO } else { times.waits.dirty_limit };
            let waits = times.waits.children + times.waits.timer + pauses;
            prop_assert_eq!(times.computing + times.ready + waits, times.elapsed);
            prop_assert_eq!(times.waits.io(), pauses);
        }
    }

    #[test]
    fn cpu_time_of_a_process_depends_on_neither_device_nor_host(
        processes in random_processes(), settings in random_settings(), profile in profile(),
        slice_us in 100_u64..50_000, seed in 0_u64..1000,
    ) {
        // Times of the system depend on the number of requests, which depends on the device.
        let computing = |settings: &str, device: Server| {
            let run = run_host(host_with_seed(&format!("{FREE},{settings},{processes}"), seed), device);
            run.host.process_times().iter().map(|times| (times.processes, times.computing)).collect::<Vec<_>>()
        };
        let expected = computing("host.cpus=1", Server::new(Service::Constant(Duration::ZERO)));
        let other = format!("{profile}host.time_slice={slice_us}us,{settings}");
        prop_assert_eq!(computing(&other, server(seed)), expected);
    }

    #[test]
    fn every_cpu_is_busy_or_idle_all_the_time(
        line in random_host(), profile in profile(), seed in 0_u64..1000,
    ) {
        let run = run_host(host_with_seed(&format!("{profile}{line}"), seed), server(seed));
        let times = run.host.cpu_times();
        prop_assert_eq!(times.len() as u32, run.figures.cpus);
        for cpu in &times {
            prop_assert_eq!(cpu.task + cpu.other + cpu.false_idle + cpu.idle, run.figures.elapsed);
        }
        let figures = run.figures;
        let sum = figures.task_cpu + figures.other_cpu + figures.false_idle + figures.idle;
        prop_assert_eq!(sum, figures.elapsed * u64::from(figures.cpus));
        let classes = [figures.time_critical, figures.time_limited, figures.time_noncritical];
        prop_assert_eq!(classes.iter().map(|class| class.requests).sum::<u64>(), run.completions.len() as u64);
    }

    #[test]
    fn times_of_processes_and_of_the_course_are_those_of_the_run(
        line in random_host(), profile in profile(), free in any::<bool>(), seed in 0_u64..1000,
    ) {
        let costs = if free { format!("{FREE},") } else { String::new() };
        let run = run_host(host_with_seed(&format!("{costs}{profile}{line}"), seed), server(seed));
        let (figures, processes, system) = (run.figures, run.host.process_times(), run.host.system_times());
        for times in processes.iter().chain([&system]) {
            prop_assert_eq!(times.computing + times.ready + times.waits.sum(), times.elapsed);
        }
        let sum = |of: fn(&ProcessTimes) -> Duration| {
            processes.iter().fold(Duration::ZERO, |sum, times| sum + of(times))
        };
        // All processes are the task.
        prop_assert_eq!(sum(|times| times.computing), figures.task_cpu);
        prop_assert_eq!(sum(|times| times.waits.io()), figures.io_wait);
        let course = run.host.timeline();
        prop_assert!(course.len() <= 240);
        let total = |of: fn(&HostInterval) -> f64| {
            course.iter().map(|one| of(one) * one.width.as_s()).sum::<f64>()
        };
        let end = course.last().map_or(0.0, |last| (last.start + last.width).as_s());
        let cpus = total(|one| one.task_cpus + one.other_cpus + one.false_idle_cpus + one.idle_cpus);
        prop_assert!((cpus - end * f64::from(figures.cpus)).abs() < 1e-6, "{} {}", cpus, end);
        prop_assert!((total(|one| one.task_cpus) - figures.task_cpu.as_s()).abs() < 1e-6);
        let waits = figures.io_wait + system.waits.io();
        prop_assert!((total(|one| one.io_waiting_processes) - waits.as_s()).abs() < 1e-6);
        if free && profile.is_empty() {
            // Without a cost of interrupts, a completion is handled at once.
            let responses = run.completions.iter().map(|one| one.response_time().as_s()).sum::<f64>();
            prop_assert!((total(|one| one.outstanding_requests) - responses).abs() < 1e-6);
        }
    }

    #[test]
    fn copy_of_a_host_goes_on_as_the_host_does(
        line in random_host(), profile in profile(), seed in 0_u64..1000, after in 0_usize..200,
    ) {
        let line = format!("{profile}{line}");
        let whole = run_host(host_with_seed(&line, seed), server(seed));
        let (mut host, mut device) = (host_with_seed(&line, seed), server(seed));
        let mut first = Vec::new();
        let now = go(&mut host, &mut device, Instant::ZERO, &mut first, after);
        let (mut copied_host, mut copied_device) = (host.clone(), device.clone());
        // The original goes on first: it must not change the copy.
        go(&mut host, &mut device, now, &mut first.clone(), usize::MAX);
        go(&mut copied_host, &mut copied_device, now, &mut first, usize::MAX);
        prop_assert_eq!(history(&first), history(&whole.completions));
        prop_assert_eq!(copied_host.figures(), whole.figures);
    }
}

/// Drives the host until it has finished or so many requests are complete; the time then.
pub(crate) fn go(
    host: &mut Host,
    device: &mut Server,
    mut now: Instant,
    completions: &mut Vec<Completion>,
    most: usize,
) -> Instant {
    let mut ready = Vec::new();
    while completions.len() < most {
        let at = match host.next_arrival(now) {
            Arrival::Request(request) => {
                device.submit(now, request).expect("it is taken");
                continue;
            }
            Arrival::Reclassification(change) => {
                let before = device.reclassify(now, &change);
                assert!(
                    before.is_some(),
                    "{change:?} at {now} is of no pending request that is less pressing"
                );
                continue;
            }
            Arrival::At(time) => device.next_event().map_or(time, |event| event.min(time)),
            Arrival::WaitForCompletion => device.next_event().expect("something is outstanding"),
            Arrival::Finished => break,
        };
        now = at;
        device.poll(now, &mut ready);
        for completion in ready.drain(..) {
            host.completed(&completion);
            completions.push(completion);
        }
    }
    now
}

#[test]
fn cpu_time_of_a_task_is_that_of_its_program() {
    let line = |cpus, slice, memory| {
        format!(
            "host.cpus={cpus},host.time_slice={slice},host.memory={memory},files.data.size=800KiB,\
             files.log.size=400KiB,files.log.new=true,task=p,\
             processes.p.program=repeat 200 {{ read data 4KiB; compute 7ms; write log 2KiB }},\
             processes.other.program=compute 3s"
        )
    };
    // 200 computing times, 400 calls, and a submission for each of the 200 blocks that are read.
    let expected = Duration::from_ms(7) * 200 + Duration::from_us(100) * 400 + Duration::from_us(500) * 200;
    for (cpus, slice, memory) in [(1, "100ms", "40MiB"), (1, "3ms", "40MiB"), (3, "1ms", "40MiB")] {
        for service in [Duration::ZERO, Duration::from_ms(1), Duration::from_ms(15)] {
            let figures = run(&line(cpus, slice, memory), service).figures;
            assert_eq!(figures.task_cpu, expected, "{cpus} CPUs, {slice}, {service}");
        }
    }
}

#[test]
fn processes_share_cpus_without_loss() {
    for (processes, cpus, seconds) in [(4, 2, 2), (1, 4, 1), (6, 3, 2), (7, 1, 7)] {
        let line =
            format!("{FREE},host.cpus={cpus},processes.p.count={processes},processes.p.program=compute 1s");
        let figures = run(&line, Duration::from_ms(1)).figures;
        assert_eq!(figures.elapsed, Duration::from_s(seconds), "{processes} on {cpus}");
        assert_eq!(figures.task_cpu, Duration::from_s(processes));
    }
}
