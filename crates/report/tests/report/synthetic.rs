//! Plausible runs of devices that do not exist, for tests and the example of a page.

use seeklab_analysis::{Comparison, Metrics, Point, Stamps, interval};
use seeklab_core::{
    Breakdown, BufferOutcome, ByteSize, Duration, Instant, MeasurementPoints, MissCause, Operation, Seed,
    TraceRecord,
};
use seeklab_report::{
    ComparisonSection, DeviceSection, ExperimentCell, ExperimentSection, Note, Parameter, PointsSection,
    Report,
};

/// A device as a few figures.
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) seek_ms: f64,
    pub(crate) revolution_ms: f64,
    pub(crate) overhead_ms: f64,
    pub(crate) hit_share: f64,
    pub(crate) cylinders: u64,
}

pub(crate) const PROFILES: [Profile; 4] = [
    Profile {
        name: "cheetah-36es",
        description: "Seagate Cheetah 36ES, 36 GB, 10,000 rpm, 2001",
        seek_ms: 5.2,
        revolution_ms: 6.0,
        overhead_ms: 0.2,
        hit_share: 0.12,
        cylinders: 26_302,
    },
    Profile {
        name: "atlas-10k",
        description: "Quantum Atlas 10K, 9 GB, 10,025 rpm, 1999",
        seek_ms: 5.7,
        revolution_ms: 5.985,
        overhead_ms: 0.15,
        hit_share: 0.15,
        cylinders: 10_042,
    },
    Profile {
        name: "barracuda-4lp",
        description: "Seagate Barracuda 4LP, 2 GB, 7,200 rpm, 1997",
        seek_ms: 8.0,
        revolution_ms: 8.33,
        overhead_ms: 0.4,
        hit_share: 0.1,
        cylinders: 5_172,
    },
    Profile {
        name: "mems-g2",
        description: "MEMS storage, second generation of the CMU parameters",
        seek_ms: 0.45,
        revolution_ms: 0.2,
        overhead_ms: 0.05,
        hit_share: 0.1,
        cylinders: 2_500,
    },
];

/// The requests of a run: one server, first come first served.
pub(crate) fn run(
    profile: &Profile,
    requests: u64,
    mean_interarrival_ms: f64,
    seed: u64,
) -> Vec<TraceRecord> {
    let mut addresses = Seed(seed).stream("addresses");
    let mut device = Seed(seed).stream(profile.name);
    let ms = Duration::from_ms_f64;
    let capacity = 17_000_000;
    let (mut arrival, mut free, mut lbn, mut cylinder) = (Instant::ZERO, Instant::ZERO, 0_u64, 0_u64);
    let mut completions: Vec<Instant> = Vec::new();
    (0..requests)
        .map(|index| {
            // A burst in the middle of the run, to have something to see over time.
            let is_burst = (requests * 2 / 5..requests * 3 / 5).contains(&index);
            let pace = if is_burst { 0.6 } else { 1.1 };
            arrival += addresses.exponential(ms(mean_interarrival_ms * pace));
            let blocks = 8 * (1 + addresses.below(8)) as u32;
            let is_sequential = addresses.chance(0.3);
            lbn = match addresses.below(10) {
                _ if is_sequential => (lbn + 64) % (capacity - 1_000),
                0..4 => (lbn + addresses.below(40_000)) % (capacity - 1_000),
                _ => addresses.below(capacity - 1_000),
            };
            let op = if addresses.chance(0.67) { Operation::Read } else { Operation::Write };
            let target = lbn * profile.cylinders / capacity;
            let distance = target.abs_diff(cylinder);
            let is_hit = op == Operation::Read && device.chance(profile.hit_share);
            let overhead = ms(profile.overhead_ms * (0.8 + 0.4 * device.unit()));
            let transfer = ms(f64::from(blocks) * profile.revolution_ms / 400.0);
            let mut breakdown =
                Breakdown { overhead, bus: ms(0.02 * f64::from(blocks) / 8.0), ..Breakdown::default() };
            if !is_hit {
                let share = distance as f64 / profile.cylinders as f64;
                breakdown.seek = if distance == 0 {
                    Duration::ZERO
                } else {
                    ms(profile.seek_ms * (0.15 + 1.5 * share.sqrt()))
                };
                breakdown.settle =
                    if op == Operation::Write { ms(profile.seek_ms * 0.08) } else { Duration::ZERO };
                breakdown.rotation = ms(profile.revolution_ms * device.unit());
                breakdown.head_switch =
                    if device.chance(0.1) { ms(profile.seek_ms * 0.1) } else { Duration::ZERO };
                breakdown.transfer = transfer;
                cylinder = target;
            }
            let start = arrival.max(free);
            breakdown.queue = start - arrival;
            free = start + breakdown.service();
            let ahead = completions.iter().rev().take_while(|completion| **completion > arrival).count();
            completions.push(free);
            TraceRecord {
                issue: Some(arrival),
                start: Some(start),
                completion: Some(free),
                queue_length: Some(ahead as u32),
                breakdown: Some(breakdown),
                seek_cylinders: Some(if is_hit { 0 } else { distance as u32 }),
                buffer: match op {
                    _ if is_hit => BufferOutcome::Hit,
                    Operation::Read => BufferOutcome::Miss,
                    _ => BufferOutcome::None,
                },
                ..TraceRecord::new(arrival, op, lbn, blocks)
            }
        })
        .collect()
}

pub(crate) fn metrics(records: &[TraceRecord]) -> Metrics {
    let mut metrics = Metrics::new(ByteSize::from_bytes(512));
    records.iter().for_each(|record| metrics.record(record));
    metrics
}

pub(crate) fn parameter(name: &str, value: &str, source: Option<&str>) -> Parameter {
    Parameter { name: name.to_owned(), value: value.to_owned(), source: source.map(str::to_owned) }
}

/// A run over all four devices.
pub(crate) fn report(requests: u64) -> Report {
    let devices = PROFILES
        .iter()
        .map(|profile| {
            let metrics = metrics(&run(profile, requests, 16.0, 42));
            DeviceSection::new(profile.name, profile.description, &metrics).with_parameters(vec![
                parameter("disk.seek_mean", &format!("{}ms", profile.seek_ms), Some("data sheet, page 12")),
                parameter(
                    "disk.revolution",
                    &format!("{}ms", profile.revolution_ms),
                    Some("data sheet, page 3"),
                ),
                parameter(
                    "disk.overhead",
                    &format!("{}ms", profile.overhead_ms),
                    Some("measured by probe, 2004"),
                ),
                parameter("disk.cylinders", &profile.cylinders.to_string(), None),
            ])
        })
        .collect();
    Report {
        title: "Four devices under the same random load".to_owned(),
        subtitle: format!("{requests} requests, 67 % reads, 30 % sequential, Poisson arrivals with one burst"),
        command: Some(
            "seeklab simulate cheetah-36es atlas-10k barracuda-4lp mems-g2 --requests 20000 --interarrival 16ms \
             --seed 42 --report four.html"
                .to_owned(),
        ),
        seed: Some(Seed(42)),
        generated_by: "seeklab 0.1.0".to_owned(),
        parameters: vec![
            parameter("requests", &requests.to_string(), None),
            parameter("interarrival_time", "16ms, exponential", None),
            parameter("size", "8 to 64 blocks of 512B", None),
        ],
        devices,
        notes: vec![
            Note::Warning(
                "barracuda-4lp: the load exceeds what the device can serve during the burst; its response \
                 times depend on how long the burst lasts"
                    .to_owned(),
            ),
            Note::Remark("mems-g2: validated against its published parameters only".to_owned()),
        ],
        ..Report::default()
    }
}

/// Two devices that differ a little, request by request.
pub(crate) fn comparison(requests: u64) -> ComparisonSection {
    let reference = run(&PROFILES[0], requests, 40.0, 7);
    let mut noise = Seed(7).stream("noise");
    let pairs = reference.iter().map(|record| {
        let response = record.response_time().expect("a run completes its requests");
        let factor = 0.985 + 0.03 * noise.unit();
        let missed = if noise.chance(0.08) { Duration::from_ms(6) } else { Duration::ZERO };
        (response, Duration::from_ms_f64(response.as_ms() * factor) + missed)
    });
    let comparison = Comparison::from_pairs(pairs).expect("there are requests");
    ComparisonSection::new("measured", "simulated", &comparison)
}

/// Mean response time and utilisation over the arrival rate, three repetitions each.
pub(crate) fn experiment(requests: u64) -> ExperimentSection {
    let rates = [10.0, 20.0, 40.0, 60.0, 80.0];
    let cells = PROFILES.iter().flat_map(|profile| {
        rates.map(|rate| {
            let summaries: Vec<_> = (0..3)
                .map(|repetition| metrics(&run(profile, requests, 1e3 / rate, 100 + repetition)).summary())
                .collect();
            let of = |value: fn(&seeklab_analysis::MetricsSummary) -> Option<f64>| {
                interval(&summaries.iter().filter_map(value).collect::<Vec<_>>())
            };
            ExperimentCell {
                values: vec![profile.name.to_owned(), format!("{rate}/s")],
                series: profile.name.to_owned(),
                x: rate,
                figures: vec![
                    of(|summary| summary.response.map(|response| response.mean_ms)),
                    of(|summary| summary.utilisation_pct),
                ],
            }
        })
    });
    ExperimentSection {
        dimensions: vec!["device".to_owned(), "arrival rate".to_owned()],
        figures: vec!["response_mean_ms".to_owned(), "utilisation_pct".to_owned()],
        parameter: Some("arrival rate [1/s]".to_owned()),
        cells: cells.collect(),
    }
}

/// A device of 5 ms, emulated 31 us too long; every 250th reply is 7 ms late.
pub(crate) fn points(requests: u64) -> PointsSection {
    let us = |us: u64| Some(Instant::ZERO + Duration::from_us(us));
    let records: Vec<TraceRecord> = (0..requests)
        .map(|index| {
            let (at, late) = (20_000 * index + 100, index % 250 == 50);
            let left = at + 5_001 + if late { 7_000 } else { 0 };
            let points = MeasurementPoints {
                mp1_arrival: us(at - 10),
                mp1_completion: us(left + 20),
                mp2_arrival: us(at),
                mp2_due: us(at + 5_000),
                mp2_completion: us(left),
                miss_cause: late.then_some(MissCause::KernelScheduling),
            };
            let op = if index % 3 == 0 { Operation::Write } else { Operation::Read };
            let record = TraceRecord::new(Instant::ZERO + Duration::from_us(at), op, index, 8);
            TraceRecord { completion: us(at + 5_000), points, ..record }
        })
        .collect();
    let stamps: Stamps = records.iter().collect();
    let between = stamps.between(Point::Mp1, Point::Mp3).expect("both are measured");
    let evidence = stamps.evidence(Duration::from_us(20), None);
    PointsSection::new("emulated", &stamps, &between, &evidence)
}
