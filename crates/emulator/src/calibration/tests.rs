//! Calibrations made up, and a real short one.

use super::*;
use crate::clock::{Clock, KeptAwake};

/// Route of the synthetic calibration.
pub(super) const NBD: Route = Route { frontend: FrontendKind::NbdUnix, processors: Processors::Asleep };

/// A calibration of this machine with round figures.
pub(super) fn synthetic() -> Calibration {
    let us = Duration::from_us;
    let row = |op, bytes: u32, floor| Row {
        processors: Processors::Asleep,
        op,
        bytes,
        requests: 60,
        arrival: us(10),
        lateness: us(1),
        completion: us(20 + u64::from(bytes) * 16 / (64 << 10)),
        spread: us(2),
        floor: us(floor),
        floor_p99: us(200),
    };
    let rows = vec![
        row(Operation::Read, 4 << 10, 40),
        row(Operation::Read, 64 << 10, 80),
        row(Operation::Write, 4 << 10, 50),
        row(Operation::Write, 64 << 10, 90),
        row(Operation::Flush, 0, 30),
    ];
    Calibration {
        version: VERSION,
        machine: Machine::this(),
        measured_at_s: 1_800_000_000,
        wakeups: Wakeups { sleeps: 100, p50: us(36), p90: us(60), p99: us(80), max: us(900) },
        frontends: BTreeMap::from([(FrontendKind::NbdUnix, rows)]),
    }
}

#[test]
fn measured_times_become_the_compensation() {
    let calibration = synthetic();
    assert_eq!(calibration.margin(), Duration::from_us(80));
    let compensation = |pacing| calibration.compensation(NBD, 512, pacing).unwrap();
    let balanced = compensation(Pacing::Balanced);
    assert_eq!(balanced.arrival.of(Operation::Read).of(8), Duration::from_us(10));
    assert_eq!(balanced.early.of(Operation::Flush).of(0), Duration::from_us(21));
    for (blocks, us) in [(8, 22), (128, 37)] {
        let early = balanced.early.of(Operation::Write).of(blocks);
        assert!(early.as_ns().abs_diff(us * 1_000) < 200, "{blocks} blocks: {early}");
    }
    let frugal = compensation(Pacing::Frugal);
    assert_eq!(frugal.arrival, balanced.arrival);
    let waking =
        frugal.early.of(Operation::Read).fixed.as_ns() - balanced.early.of(Operation::Read).fixed.as_ns();
    assert_eq!(waking, 36_000);
    assert_eq!(balanced.lookahead, Duration::from_us(5));
    for unknown in
        [Route { frontend: FrontendKind::NbdTcp, ..NBD }, Route { processors: Processors::Awake, ..NBD }]
    {
        assert!(!calibration.knows(unknown));
        assert_eq!(calibration.compensation(unknown, 512, Pacing::Exact), None);
        assert_eq!(calibration.least_floor(unknown), None);
    }
}

#[test]
fn real_calibration_has_plausible_figures() {
    let clock = Clock::start();
    let effort = Effort { sleeps: 40, requests: 12, repetitions: 2, sizes: &[4 << 10, 64 << 10] };
    let mut calibration = Calibration::begin(&effort, clock).unwrap();
    let mut last = (0, 0);
    let tcp = Route { frontend: FrontendKind::NbdTcp, ..NBD };
    let awake = Route { processors: Processors::Awake, ..NBD };
    let can_be_awake = KeptAwake::hold().is_ok();
    for route in [NBD, tcp].into_iter().chain(can_be_awake.then_some(awake)) {
        let frontend = route.frontend;
        let mut progress = |done, total| last = (done, total);
        calibration.measure(route, &effort, clock, &mut progress).unwrap();
        assert_eq!(last, (20, 20));
        let rows: Vec<Row> = calibration.rows(route).copied().collect();
        assert_eq!(rows.len(), 5, "{rows:?}");
        // A busy machine takes its time; but nothing travels in less than a system call, and nothing that is
        // a thousandfold off is a median.
        for row in rows {
            let way = row.arrival + row.completion;
            assert!(way > Duration::from_ns(500) && way < Duration::from_ms(50), "{frontend} {row:?}");
            assert!(row.floor > Duration::from_us(1) && row.floor <= row.floor_p99, "{frontend} {row:?}");
            assert!(row.floor < Duration::from_ms(50) && row.lateness < Duration::from_ms(50), "{row:?}");
        }
        let compensation = calibration.compensation(route, 512, Pacing::Balanced).unwrap();
        let early = compensation.early.of(Operation::Read).of(8);
        assert!(early > Duration::ZERO && early < Duration::from_ms(100), "{compensation:?}");
    }
    assert!(MARGIN_BOUNDS.0 <= calibration.margin() && calibration.margin() <= MARGIN_BOUNDS.1);
    assert_eq!(calibration.check(), Ok(()));
    let recheck = calibration.recheck_by(NBD, clock, Duration::from_ms(60)).unwrap().unwrap();
    assert_eq!(recheck.moved.len(), 2, "{recheck}");
    let ours = format!("seeklab-calibrate-{}-", std::process::id());
    for entry in std::fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert!(!name.starts_with(&ours), "{name} is left");
    }
}

#[test]
fn compensation_moves_the_completion_ahead() {
    let clock = Clock::start();
    let ahead = Duration::from_us(400);
    let setting = Setting {
        frontend: FrontendKind::NbdUnix,
        service_time: Duration::from_ms(2),
        pacing: Pacing::Balanced,
        margin: Duration::from_us(100),
        compensation: Compensation::default(),
    };
    let stream = Stream { op: Operation::Read, bytes: 512, requests: 10, pause: Duration::ZERO };
    let fastest = |compensation| {
        let mut served = Served::start(Setting { compensation, ..setting }, clock).unwrap();
        let samples = served.run(stream).unwrap();
        let waited = served.finish().unwrap();
        assert!(waited.sleeps > 0 && waited.slept > Duration::ZERO, "{waited:?}");
        samples.iter().map(|sample| sample.response).min().unwrap()
    };
    // No reply leaves before it is due, however busy the machine.
    assert!(fastest(Compensation::default()) >= Duration::from_ms(2));
    let compensated = fastest(Compensation::skew(ahead));
    assert!(compensated >= Duration::from_us(1_200), "{compensated}");
}

#[test]
fn names_of_frontends_are_parsed() {
    for frontend in FrontendKind::ALL {
        assert_eq!(frontend.name().parse(), Ok(frontend));
        let text = serde_json::to_string(&frontend).unwrap();
        assert_eq!(text, format!("\"{frontend}\""));
    }
    assert_eq!("nbd".parse(), Ok(FrontendKind::NbdUnix));
    assert!("scsi".parse::<FrontendKind>().unwrap_err().contains("nbd-tcp"));
}
