//! Streams that are fitted to the programs of a stream, and to transfers written by hand.

use seeklab_core::Seed;
use seeklab_workloads::WorkloadSpec;
use seeklab_workloads::jobs::RateState;

use super::*;

fn spec(line: &str) -> JobsSpec {
    match WorkloadSpec::parse(line) {
        Ok(WorkloadSpec::Jobs(spec)) => *spec,
        other => panic!("{line}: {other:?}"),
    }
}

/// The transfers that a program of a stream makes, sector by sector.
fn program(spec: &JobsSpec, seed: Seed, number: u32) -> RecordedJob {
    let (mut input, mut output) = spec.sector_times(seed, number);
    let mut transfers = Vec::new();
    let (mut read, mut written) = (Duration::ZERO, Duration::ZERO);
    let bytes = spec.sector.as_bytes();
    for _ in 0..spec.file_sectors(Direction::Input) {
        transfers.push(Transfer { direction: Direction::Input, bytes, processor: read });
        read += input.next_time();
    }
    for _ in 0..spec.file_sectors(Direction::Output) {
        written += output.next_time();
        transfers.push(Transfer { direction: Direction::Output, bytes, processor: written });
    }
    transfers.sort_by_key(|transfer| transfer.processor);
    let processor = read.max(written);
    RecordedJob { begin: Instant::ZERO, end: Instant::ZERO + processor, processor, transfers }
}

fn programs(spec: &JobsSpec) -> Vec<RecordedJob> {
    (0..spec.jobs).map(|number| program(spec, Seed(1), number)).collect()
}

/// Mean sectors for which each of the states lasts: one that is drawn again goes on.
fn runs(states: &[RateState]) -> Vec<f64> {
    let draws: Vec<f64> = states.iter().map(|state| state.share.as_f64() / state.residence).collect();
    let total: f64 = draws.iter().sum();
    states.iter().zip(&draws).map(|(state, draw)| state.residence / (1.0 - draw / total)).collect()
}

const OPTIONS: JobsFitOptions = JobsFitOptions { sector: ByteSize::from_bytes(512), states: 8 };

#[test]
fn stream_is_fitted_to_its_own_programs() {
    let given = spec(
        "jobs,jobs=20,cycles=1000,output_cycles=700,buffer=8,input=5000/s:50%:45+38.76/s:50%:45,\
         output=100/s:20%:10+3000/s:80%:30",
    );
    let fitted = fit(&programs(&given), OPTIONS).unwrap().spec;
    assert_eq!((fitted.jobs, fitted.cycles, fitted.output_cycles), (20, 1000, Some(700)));
    for (found, given) in [(&fitted.input, &given.input), (&fitted.output, &given.output)] {
        let mut given = given.0.clone();
        given.sort_by(|a, b| a.rate.as_per_s().total_cmp(&b.rate.as_per_s()));
        assert_eq!(found.0.len(), 2, "{found}");
        for (found, given) in found.0.iter().zip(&given) {
            let ratio = found.rate.as_per_s() / given.rate.as_per_s();
            assert!((ratio - 1.0).abs() < 1e-4, "{found:?} {given:?}");
            assert!((found.share.as_f64() - given.share.as_f64()).abs() < 0.05, "{found:?} {given:?}");
        }
        for (found, given) in runs(&found.0).into_iter().zip(runs(&given)) {
            assert!((found / given - 1.0).abs() < 0.2, "{found} {given}");
        }
    }
    // The stream of the fit takes as much processor time as the programs.
    let (one, other) = (given.processor_time(Seed(1)).as_s(), fitted.processor_time(Seed(2)).as_s());
    assert!((one / other - 1.0).abs() < 0.1, "{one} {other}");
}

#[test]
fn rates_follow_from_the_time_before_an_output_and_after_an_input() {
    let ms = Duration::from_ms;
    let transfer =
        |direction, sectors: u64, at| Transfer { direction, bytes: 512 * sectors, processor: ms(at) };
    let job = RecordedJob {
        processor: ms(100),
        transfers: vec![
            transfer(Direction::Input, 8, 10),
            transfer(Direction::Output, 4, 30),
            transfer(Direction::Input, 8, 50),
            transfer(Direction::Output, 2, 70),
        ],
        ..RecordedJob::default()
    };
    let of = |direction| -> Vec<(f64, Duration)> {
        intervals(&job, direction, 512)
            .iter()
            .map(|interval| (interval.sectors, interval.processor))
            .collect()
    };
    assert_eq!(of(Direction::Input), [(8.0, ms(40)), (8.0, ms(50))]);
    assert_eq!(of(Direction::Output), [(4.0, ms(30)), (2.0, ms(40))]);
}

#[test]
fn joined_classes_keep_the_processor_time() {
    let rates: String = (1..=40).map(|index| format!("{}/s:2.5%:3+", 10 * index * index)).collect();
    let given = spec(&format!("jobs,cycles=2000,buffer=8,input={},output=10/s", rates.trim_end_matches('+')));
    let programs = programs(&given);
    for states in [1, 3, 8] {
        let fitted = fit(&programs, JobsFitOptions { states, ..OPTIONS }).unwrap();
        assert_eq!(fitted.spec.input.0.len(), states);
        let time: f64 = fitted.input.iter().map(|interval| interval.processor.as_s()).sum();
        let sectors: f64 = fitted.input.iter().map(|interval| interval.sectors).sum();
        let mean_s = fitted.spec.input.sector_time_mean_s();
        assert!((mean_s * sectors / time - 1.0).abs() < 1e-6, "{states}: {mean_s} {time} {sectors}");
    }
}

#[test]
fn distance_is_zero_of_equal_rates_and_one_of_different_ones() {
    let interval = |rate: f64, sectors| Interval {
        sectors,
        processor: Duration::from_ns((1e9 * sectors / rate) as u64),
    };
    let one = [interval(100.0, 1.0), interval(1000.0, 3.0)];
    let other = [interval(100.0, 2.0), interval(1000.0, 2.0)];
    assert_eq!(kolmogorov_distance(&one, &one, 1.0), Some(0.0));
    assert_eq!(kolmogorov_distance(&one, &other, 1.0), Some(0.25));
    assert_eq!(kolmogorov_distance(&one, &[interval(5000.0, 1.0)], 1.0), Some(1.0));
    assert_eq!(kolmogorov_distance(&one, &[], 1.0), None);
    // The same program on a processor that is twice as fast.
    let fast = [interval(200.0, 1.0), interval(2000.0, 3.0)];
    assert_eq!(kolmogorov_distance(&one, &fast, 1.0), Some(0.75));
    assert_eq!(kolmogorov_distance(&one, &fast, 2.0), Some(0.0));
}

#[test]
fn median_rate_is_that_of_half_of_the_sectors() {
    let interval = |rate: f64, sectors| Interval {
        sectors,
        processor: Duration::from_ns((1e9 * sectors / rate) as u64),
    };
    let rates = [interval(1000.0, 3.0), interval(100.0, 4.0), interval(500.0, 2.0)];
    assert_eq!(median_rate_per_s(&rates), Some(500.0));
    assert_eq!(median_rate_per_s(&rates[..1]), Some(1000.0));
    assert_eq!(median_rate_per_s(&[]), None);
}

#[test]
fn programs_without_transfers_are_no_jobs() {
    let given = spec("jobs,jobs=2,cycles=0,output_cycles=100,buffer=8,input=1/s,output=50/s");
    let mut programs = programs(&given);
    programs.push(RecordedJob { processor: Duration::from_ms(5), ..RecordedJob::default() });
    let fitted = fit(&programs, OPTIONS).unwrap();
    assert_eq!((fitted.spec.jobs, fitted.spec.cycles, fitted.idle_programs), (2, 0, 1));
    assert_eq!(fitted.spec.multiprogramming, 2);
    let error = fit(&programs[2..], OPTIONS).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NothingToFit);
}
