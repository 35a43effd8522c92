//! Exact text of the terminal output.

use seeklab_analysis::{Comparison, Metrics, Point, Stamps, interval};
use seeklab_core::{
    Breakdown, BufferOutcome, ByteSize, Duration, Instant, MeasurementPoints, MissCause, Operation, Seed,
    TraceRecord,
};
use seeklab_report::{
    ComparisonSection, DeviceSection, ExperimentCell, ExperimentSection, Note, PointsSection, Report,
    render_terminal,
};

/// A thousand requests, one every 20 ms, whose times grow from `base_us` in steps of `step_us`.
fn device(name: &str, base_us: u64, step_us: u64) -> DeviceSection {
    let mut metrics = Metrics::new(ByteSize::from_bytes(512));
    for index in 0..1_000_u64 {
        let arrival = Instant::ZERO + Duration::from_ms(20 * index);
        let service = Duration::from_us(base_us + (index * 37 % 100) * step_us);
        let breakdown = Breakdown {
            overhead: service / 10,
            seek: service / 2,
            rotation: service - service / 10 - service / 2,
            ..Breakdown::default()
        };
        metrics.record(&TraceRecord {
            start: Some(arrival),
            completion: Some(arrival + service),
            breakdown: Some(breakdown),
            buffer: if index % 8 == 0 { BufferOutcome::Hit } else { BufferOutcome::Miss },
            ..TraceRecord::new(arrival, Operation::Read, index, 8)
        });
    }
    DeviceSection::new(name, "", &metrics)
}

fn check(report: &Report, expected: &str) {
    let seen = render_terminal(report);
    assert!(seen.lines().all(|line| line.chars().count() <= 80 || line.starts_with("repeat: ")), "{seen}");
    assert!(!seen.contains('\u{1b}'), "no colour, whatever NO_COLOR says");
    assert_eq!(seen.trim(), expected.trim(), "\n{seen}");
}

#[test]
fn run_of_two_devices_is_one_table_with_one_unit() {
    let report = Report {
        title: "random reads".to_owned(),
        command: Some("seeklab simulate a b --seed 7".to_owned()),
        seed: Some(Seed(7)),
        devices: vec![
            device("cheetah-36es", 2_000, 100),
            device("a-device-with-a-name-that-is-far-too-long", 500, 3),
        ],
        notes: vec![
            Note::Remark("buffer was cold".to_owned()),
            Note::Warning("the queue never filled".to_owned()),
        ],
        ..Report::default()
    };
    check(
        &report,
        "
random reads

device                      n   IOPS  busy %  hits %
──────────────────────  ─────  ─────  ──────  ──────
cheetah-36es            1,000  50.03    34.8    12.5
a-device-wi…r-too-long  1,000  50.05     3.2    12.5

response ms              mean   ±95%    p50     p99   p99.9     max
──────────────────────  ─────  ─────  ─────  ──────  ──────  ──────
cheetah-36es            6.950  0.058  6.902  11.805  11.900  11.900
a-device-wi…r-too-long  0.648  0.002  0.647   0.794   0.797   0.797

where the time goes (share of the mean response time)
cheetah-36es            ▁▁▁▁█████████████████████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒  6.950 ms
                        seek 50 %  rotation 40 %  overhead 10 %
a-device-wi…r-too-long  ▁▁▁▁█████████████████████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒  0.648 ms
                        seek 50 %  rotation 40 %  overhead 10 %
                        ▁ overhead  █ seek  ▒ rotation

warning: the queue never filled
note: buffer was cold

seed: 7
repeat: seeklab simulate a b --seed 7
",
    );
}

#[test]
fn comparison_shows_absolute_and_relative_errors() {
    let pairs = (1..=100).map(|ms| (Duration::from_ms(ms), Duration::from_ms(ms) + Duration::from_us(500)));
    let comparison = Comparison::from_pairs(pairs).unwrap();
    let report = Report {
        title: "comparison".to_owned(),
        comparisons: vec![ComparisonSection::new("measured", "simulated", &comparison)],
        ..Report::default()
    };
    check(
        &report,
        "
comparison

simulated against measured (reference), 100 requests
response time                                        ms  % of reference
───────────────────────────────────────────────  ──────  ──────────────
mean of measured                                 50.500
mean of simulated                                51.000
EI_avg, mean error per request                    0.500            0.99
EI_rms, rms error per request                     0.500            0.99
EA_rms, distance of the distributions (demerit)   0.500            0.99
91.00 % of the requests are within 5 % of the reference
",
    );
}

#[test]
fn experiment_shows_every_figure_within_the_width() {
    let figures: Vec<String> = (0..9).map(|index| format!("a_long_figure_{index}_ms")).collect();
    let cell = |rate: f64| ExperimentCell {
        values: vec!["cheetah-36es".to_owned(), format!("{rate}/s")],
        series: "cheetah-36es".to_owned(),
        x: rate,
        figures: figures.iter().map(|_| interval(&[rate, rate + 1.0, rate + 2.0])).collect(),
    };
    let section = ExperimentSection {
        dimensions: vec!["device".to_owned(), "arrival rate".to_owned()],
        cells: [10.0, 100.0].map(cell).to_vec(),
        figures: figures.clone(),
        parameter: None,
    };
    check(
        &Report { experiment: Some(section), ..Report::default() },
        "
device        arrival rate  a_long_figure_0_ms  a_long_figure_1_ms
────────────  ────────────  ──────────────────  ──────────────────
cheetah-36es  10/s                11.00 ±2.484        11.00 ±2.484
cheetah-36es  100/s              101.00 ±2.484       101.00 ±2.484

device        arrival rate  a_long_figure_2_ms  a_long_figure_3_ms
────────────  ────────────  ──────────────────  ──────────────────
cheetah-36es  10/s                11.00 ±2.484        11.00 ±2.484
cheetah-36es  100/s              101.00 ±2.484       101.00 ±2.484

device        arrival rate  a_long_figure_4_ms  a_long_figure_5_ms
────────────  ────────────  ──────────────────  ──────────────────
cheetah-36es  10/s                11.00 ±2.484        11.00 ±2.484
cheetah-36es  100/s              101.00 ±2.484       101.00 ±2.484

device        arrival rate  a_long_figure_6_ms  a_long_figure_7_ms
────────────  ────────────  ──────────────────  ──────────────────
cheetah-36es  10/s                11.00 ±2.484        11.00 ±2.484
cheetah-36es  100/s              101.00 ±2.484       101.00 ±2.484

device        arrival rate  a_long_figure_8_ms
────────────  ────────────  ──────────────────
cheetah-36es  10/s                11.00 ±2.484
cheetah-36es  100/s              101.00 ±2.484
",
    );
}

#[test]
fn table_of_large_numbers_keeps_to_the_width() {
    let mut device = device("barracuda-4lp-with-a-long-name", 2_000, 100);
    device.summary.requests = 123_456_789;
    device.summary.requests_per_second = Some(45_678.9);
    let response = device.summary.response.as_mut().unwrap();
    (response.mean_ms, response.p99_ms, response.p999_ms, response.max_ms) =
        (1_234.0, 5_678.0, 6_789.0, 9_876.0);
    device.summary.response_mean_half_width_95_ms = Some(1_021.0);
    device.summary.errors = 12;
    device.summary.statuses.timeout = 2;
    device.summary.statuses.medium_error = 10;
    check(
        &Report { devices: vec![device], ..Report::default() },
        "
device                            n    IOPS  busy %  hits %
──────────────────────  ───────────  ──────  ──────  ──────
barracuda-4…-long-name  123,456,789  45,679    34.8    12.5

response ms              mean   ±95%    p50    p99  p99.9    max
──────────────────────  ─────  ─────  ─────  ─────  ─────  ─────
barracuda-4…-long-name  1,234  1,021  6.902  5,678  6,789  9,876
errors: barracuda-4lp-with-a-long-name: 10 medium_error, 2 timeout

where the time goes (share of the mean response time)
barracuda-4…-long-name  ▁▁▁▁█████████████████████▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒  6.950 ms
                        seek 50 %  rotation 40 %  overhead 10 %
                        ▁ overhead  █ seek  ▒ rotation
",
    );
}

#[test]
fn emulated_run_shows_errors_lateness_and_trust() {
    let us = |us: u64| Some(Instant::ZERO + Duration::from_us(us));
    let record = |index: u64| {
        let (at, late) = (20_000 * index + 100, index == 7);
        let left = at + 5_001 + if late { 900 } else { 0 };
        let points = MeasurementPoints {
            mp1_arrival: us(at - 10).filter(|_| index > 0),
            mp1_completion: us(left + 9),
            mp2_arrival: us(at),
            mp2_due: us(at + 5_000),
            mp2_completion: us(left),
            miss_cause: late.then_some(MissCause::DataNotThere),
        };
        let record = TraceRecord::new(Instant::ZERO + Duration::from_us(at), Operation::Read, index, 8);
        TraceRecord { completion: us(at + 5_000), points, ..record }
    };
    let stamps: Stamps = (0..50).map(record).collect::<Vec<_>>().iter().collect();
    let between = stamps.between(Point::Mp3, Point::Mp1).unwrap();
    let evidence = stamps.evidence(Duration::from_us(20), None);
    let section = PointsSection::new("", &stamps, &between, &evidence);
    check(
        &Report { title: "seen.csv".to_owned(), points: vec![section], ..Report::default() },
        "
seen.csv

mp1 against mp3 (reference), 49 requests
response time                                       ms  % of reference
───────────────────────────────────────────────  ─────  ──────────────
mean of mp3                                      5.000
mean of mp1                                      5.038
EI_avg, mean error per request                   0.038            0.77
EI_rms, rms error per request                    0.133            2.66
EA_rms, distance of the distributions (demerit)  0.133            2.66
97.96 % of the requests are within 5 % of the reference

error [us]  requests  arrival p50   p99  completion p50    p99
──────────  ────────  ───────────  ────  ──────────────  ─────
all               49         10.0  10.0            10.0  910.0
read              49         10.0  10.0            10.0  910.0

lateness     p50     p90       p99       max  mean of the lowest 99 %
────────  ──────  ──────  ────────  ────────  ───────────────────────
at MP2    1.0 us  1.0 us  901.0 us  901.0 us                  19.0 us

lateness  beyond 20 us  early
────────  ────────────  ─────
at MP2          2.00 %      0

deadlines missed: 1 of 50 (by more than 20 us): data not there 1
requests: 50 in the trace; 1 without stamps of the host (MP1)

trust: This run can be trusted with care: on average response times in the host
  were 0.0384 ms (0.77 %) longer than the model's, 2.0 % of the replies left
  more than 20 us late (data not there) and 2.0 % of the requests have no stamps
  of the host.
",
    );
}
