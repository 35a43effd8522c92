//! Streams of jobs keep their laws: sectors, order, processor time, and the drive held by one call.

use seeklab_core::{Completion, Device, Duration, Instant, Limits, Operation, Seed, simulate};
use seeklab_workloads::{JobStream, JobsSpec, WorkloadSpec};

use crate::common::{Server, Service, TARGET};

fn spec(items: &str) -> JobsSpec {
    let line = format!(
        "jobs,jobs=3,cycles=200,buffer=8,input=5000/s:50%:45+38.76/s:50%:45,output=5000/s:50%:45+38.76/s:50%:45{items}"
    );
    match WorkloadSpec::parse(&line) {
        Ok(WorkloadSpec::Jobs(spec)) => *spec,
        other => panic!("{line}: {other:?}"),
    }
}

fn run(spec: &JobsSpec, service: Duration) -> (JobStream, Vec<Completion>) {
    let mut stream = JobStream::new(spec, TARGET, Seed(1)).unwrap();
    let mut device: Box<dyn Device> = Box::new(Server::new(Service::Constant(service)));
    let mut completions = Vec::new();
    simulate(&mut stream, &mut device, Limits::default(), |completion| completions.push(*completion))
        .unwrap();
    (stream, completions)
}

#[test]
fn every_sector_of_every_job_is_transferred_once() {
    for transfers in ["chained", "sized_at_start"] {
        for reactivation in ["end", "sector"] {
            for threshold in [1, 4, 8] {
                let items =
                    format!(",transfers={transfers},reactivation={reactivation},threshold={threshold}");
                let (stream, completions) = run(&spec(&items), Duration::from_ms(5));
                let figures = stream.figures();
                assert!(figures.is_finished && figures.jobs == 3, "{items}: {figures:?}");
                assert_eq!(figures.sectors, 3 * 200 * 2, "{items}");
                let of = |op| {
                    completions
                        .iter()
                        .filter(|c| c.request.op == op)
                        .map(|c| u64::from(c.request.blocks))
                        .sum::<u64>()
                };
                assert_eq!((of(Operation::Read), of(Operation::Write)), (600, 600), "{items}");
                let outstanding = completions.windows(2).all(|pair| pair[1].submitted >= pair[0].completed);
                assert!(outstanding, "{items}: one call holds the drive");
            }
        }
    }
}

#[test]
fn processor_time_follows_from_the_seed_alone() {
    let (one, two) =
        (spec(",multiprogramming=1"), spec(",multiprogramming=3,reactivation=sector,threshold=8"));
    let (slow, _) = run(&one, Duration::from_ms(20));
    let (fast, _) = run(&two, Duration::from_us(1));
    let expected = one.processor_time(Seed(1));
    for figures in [slow.figures(), fast.figures()] {
        let error = figures.job_processor.as_s() / expected.as_s() - 1.0;
        assert!(error.abs() < 1e-5, "{figures:?} {expected}");
    }
    // Without a drive to wait for, the stream takes its processor time.
    assert!((fast.figures().elapsed.as_s() / expected.as_s() - 1.0).abs() < 2e-3, "{:?}", fast.figures());
}

#[test]
fn system_takes_the_processor_first() {
    let with_system = spec(",call_time=7ms,sector_time=1ms,multiprogramming=3,reactivation=sector");
    let (stream, _) = run(&with_system, Duration::from_us(1));
    let figures = stream.figures();
    let calls: u64 = figures.calls.iter().sum();
    let system = Duration::from_ms(7) * calls + Duration::from_ms(1) * 1200;
    assert_eq!(figures.system_processor, system);
    let processor = (figures.job_processor + figures.system_processor).as_s();
    assert!((figures.elapsed.as_s() / processor - 1.0).abs() < 0.01, "{figures:?}");
}

#[test]
fn one_job_with_buffers_of_one_sector_alternates() {
    // Output alone decides: its sector takes 10 ms of the processor, the input's next to nothing.
    let line = "jobs,jobs=1,cycles=50,multiprogramming=1,buffer=1,input=1000000/s,output=100/s";
    let Ok(WorkloadSpec::Jobs(spec)) = WorkloadSpec::parse(line) else { panic!("{line}") };
    let (stream, completions) = run(&spec, Duration::from_ms(4));
    // Fifty outputs of 10 ms each, during which the drive reads what is next, and the last is written behind.
    let writes: Vec<Instant> =
        completions.iter().filter(|c| c.request.op == Operation::Write).map(|c| c.submitted).collect();
    assert_eq!(writes.len(), 50);
    let elapsed = stream.figures().elapsed.as_ms();
    assert!((504.0..50.0 * 18.0).contains(&elapsed), "{elapsed}");
    let calls = &stream.figures().calls;
    assert_eq!(calls.as_slice(), [100]);
}

#[test]
fn calls_of_a_drive_never_continue_the_call_before() {
    let (_, completions) = run(&spec(",threshold=8,multiprogramming=2"), Duration::from_ms(1));
    let (mut continued, mut broken) = (0, 0);
    for pair in completions.windows(2) {
        let is_next = pair[0].request.lbn + 1 == pair[1].request.lbn;
        continued += u32::from(is_next);
        broken += u32::from(!is_next);
        if is_next {
            assert_eq!(pair[0].request.op, pair[1].request.op, "a call has one direction");
        }
    }
    assert!(continued > 500 && broken > 50, "{continued} {broken}");
}

#[test]
fn mistakes_name_the_key() {
    let invalid = |items: &str, part: &str| {
        let error = JobStream::new(&spec(items), TARGET, Seed(1)).expect_err(items).to_string();
        assert!(error.contains(part), "{items}: {error}");
    };
    invalid(",threshold=9", "threshold: 9 sectors are more than the buffer has");
    invalid(",sector=500B", "sector");
    let refused = |line: &str, part: &str| {
        let error = WorkloadSpec::parse(line).expect_err(line).to_string();
        assert!(error.contains(part), "{line}: {error}");
    };
    refused("jobs,buffer=0,input=1/s,output=1/s", "buffer");
    refused("jobs,buffer=8,input=1/s", "output");
    refused("jobs,buffer=8,input=0/s,output=1/s", "0/s");
    refused("jobs,buffer=8,drives=3,input=1/s,output=1/s", "drives");
    let mut wrong = spec("");
    wrong.cycles = 1 << 24;
    let error = JobStream::new(&wrong, TARGET, Seed(1)).unwrap_err().to_string();
    assert!(error.contains("cycles"), "{error}");
    wrong = spec("");
    wrong.input = "5000/s:50%+40/s:40%".parse().unwrap();
    let error = JobStream::new(&wrong, TARGET, Seed(1)).unwrap_err().to_string();
    assert!(error.contains("sum to 90.000000 %"), "{error}");
}
