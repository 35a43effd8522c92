//! Limits of volumes under mixed loads whose demand wanders, without phases or pauses.

use seeklab_core::{Completion, Device, Duration, Instant, Operation, Request, Seed, TraceRecord};
use seeklab_devices::layer::Limit;
use seeklab_devices::limit::{Buckets, LimitParameters, Limited, TokenBucket};

use super::{VARIED, device, fast, found, of_bytes, of_requests};

/// Requests that are outstanding at most.
const OUTSTANDING_MAX: usize = 64;

/// Median of the demand, by the rate of the limit.
const DEMAND: f64 = 0.8;

/// Random arrivals whose rate wanders, and whose sizes are short or long for a while.
struct Load {
    /// Rate of a limit. That of the arrivals has a median of [`DEMAND`] times this.
    per_s: f64,
    /// Deviation of the logarithm of the rate.
    deviation: f64,
    /// Time in which rate and sizes forget their past.
    memory: Duration,
    length: Duration,
}

impl Load {
    /// Drives a device; its answers in order of arrival.
    fn records(&self, device: &mut dyn Device, seed: u64) -> Vec<TraceRecord> {
        let mut stream = Seed(seed).stream("wandering");
        let capacity_blocks = device.capabilities().capacity_blocks;
        let (mut now, mut next, mut id, mut outstanding) = (Instant::ZERO, Instant::ZERO, 0, 0_usize);
        let mut completions: Vec<Completion> = Vec::new();
        // Ornstein-Uhlenbeck processes of the demand and of the sizes; the sum of twelve uniform numbers is nearly normal.
        let (mut level, mut sizes) = (0.0_f64, 0.0_f64);
        let end = Instant::ZERO + self.length;
        while next < end || outstanding > 0 {
            let event = device.next_event().unwrap_or(Instant::MAX);
            now = now.max(if next < end { event.min(next) } else { event });
            let before = completions.len();
            device.poll(now, &mut completions);
            outstanding -= completions.len() - before;
            while next <= now && next < end {
                if outstanding < OUTSTANDING_MAX {
                    let op = if stream.chance(VARIED.reads) { Operation::Read } else { Operation::Write };
                    let sizes = if sizes > 0.0 { &VARIED.blocks[2..] } else { &VARIED.blocks[..2] };
                    let blocks = sizes[stream.below(sizes.len() as u64) as usize];
                    id += 1;
                    device
                        .submit(now, Request::new(id, op, stream.below(capacity_blocks - 256), blocks))
                        .unwrap();
                    outstanding += 1;
                }
                let rate = self.per_s * DEMAND * (self.deviation * level).exp();
                let wait = stream.exponential(Duration::from_ns((1e9 / rate) as u64));
                let kept = (-(wait.as_s() / self.memory.as_s())).exp();
                for level in [&mut level, &mut sizes] {
                    let uniform = (0..12).map(|_| stream.below(1 << 32) as f64 / (1_u64 << 32) as f64);
                    let normal = uniform.sum::<f64>() - 6.0;
                    *level = *level * kept + (1.0 - kept * kept).sqrt() * normal;
                }
                next += wait;
            }
        }
        let mut records: Vec<TraceRecord> = completions.iter().map(TraceRecord::from).collect();
        records.sort_by_key(|record| record.arrival);
        records
    }
}

/// A limited volume: its buckets, requests per second that it bears, and seconds that its burst lasts at that rate.
struct Volume {
    requests: Vec<(f64, u64)>,
    bytes: Vec<(&'static str, u64)>,
    per_s: f64,
    burst_s: u64,
    /// Length of the trace, by the seconds of the burst.
    bursts: u64,
    /// Deviation of the logarithm of the demand.
    deviation: f64,
}

/// Mean bytes of the requests of the load.
const BYTES_MEAN: f64 = 44_032.0;

fn requests(rate: f64, burst_s: u64) -> Volume {
    let requests = vec![(rate, (rate * burst_s as f64) as u64)];
    Volume { requests, bytes: Vec::new(), per_s: rate, burst_s, bursts: 60, deviation: 0.8 }
}

fn bytes(text: &'static str, rate: f64, burst_s: u64) -> Volume {
    let bytes = vec![(text, (rate * burst_s as f64) as u64)];
    Volume { requests: Vec::new(), bytes, per_s: rate / BYTES_MEAN, burst_s, bursts: 60, deviation: 0.8 }
}

fn volumes() -> Vec<Volume> {
    vec![
        requests(1_000.0, 1),
        requests(500.0, 5),
        requests(200.0, 30),
        requests(100.0, 120),
        requests(20.0, 600),
        bytes("40MB/s", 40e6, 1),
        bytes("20MB/s", 20e6, 10),
        bytes("5MB/s", 5e6, 60),
        bytes("1MB/s", 1e6, 600),
        // Both: long requests meet the one, short ones the other.
        Volume {
            requests: vec![(450.0, 2_250)],
            bytes: vec![("20MB/s", 100_000_000)],
            per_s: 450.0,
            burst_s: 5,
            bursts: 180,
            deviation: 0.8,
        },
        Volume {
            requests: vec![(100.0, 3_000)],
            bytes: vec![("5MB/s", 50_000_000)],
            per_s: 100.0,
            burst_s: 30,
            bursts: 180,
            deviation: 0.8,
        },
        // A lasting rate, and one of the burst, which only high demand meets.
        Volume {
            requests: vec![(1_200.0, 11_200), (4_000.0, 400)],
            bytes: Vec::new(),
            per_s: 1_200.0,
            burst_s: 10,
            bursts: 60,
            deviation: 1.3,
        },
    ]
}

impl Volume {
    fn records(&self, seed: u64) -> Vec<TraceRecord> {
        let requests = self
            .requests
            .iter()
            .map(|(rate, burst)| of_requests(*rate, *burst))
            .collect::<Vec<TokenBucket>>();
        let bytes = self.bytes.iter().map(|(rate, burst)| of_bytes(rate, *burst)).collect();
        let mut limit = Limit::new(fast(), Limited::All, Buckets { requests, bytes });
        let length = Duration::from_s((self.bursts * self.burst_s).max(600));
        let load = Load {
            per_s: self.per_s,
            deviation: self.deviation,
            memory: Duration::from_s(3 * self.burst_s),
            length,
        };
        load.records(&mut limit, seed)
    }

    /// Returns true if the layers are the buckets of the volume: rates within 2 % and bursts within 10 %.
    fn is_in(&self, layers: &[LimitParameters]) -> bool {
        let [layer] = layers else { return false };
        let near = |value: f64, expected: f64, share: f64| (value / expected - 1.0).abs() <= share;
        let of_requests = self.requests.iter().all(|(rate, burst)| {
            let found = layer.requests.iter().filter(|bucket| near(bucket.rate.as_per_s(), *rate, 0.02));
            found.filter(|bucket| near(bucket.burst as f64, *burst as f64, 0.1)).count() == 1
        });
        let of_bytes = self.bytes.iter().all(|(rate, burst)| {
            let rate = of_bytes(rate, 1).units_per_s();
            let found =
                layer.bytes.iter().filter(|bucket| near(bucket.rate.as_bytes_per_s() as f64, rate, 0.02));
            found.filter(|bucket| near(bucket.burst.as_bytes() as f64, *burst as f64, 0.1)).count() == 1
        });
        layer.of == Limited::All
            && of_requests
            && of_bytes
            && (layer.requests.len(), layer.bytes.len()) == (self.requests.len(), self.bytes.len())
    }
}

#[test]
fn limits_of_volumes_under_mixed_loads_are_found() {
    let mut right = 0;
    for volume in volumes() {
        println!("{:?} {:?}", volume.requests, volume.bytes);
        let is_right = volume.is_in(&found(&volume.records(1)));
        println!("  {}", if is_right { "right" } else { "wrong" });
        right += usize::from(is_right);
    }
    assert!(right >= 10, "{right} of 12");
}

#[test]
fn mixed_loads_show_no_limits_where_there_are_none() {
    let behind =
        |device: &str| format!("kind = \"queue\"\nscheduler = \"fcfs\"\ndepth = 1\n[device]\n{device}");
    let servers = |kind: &str| {
        format!(
            "kind = \"{kind}\"\ncapacity_blocks = 10000000\nblock_size = \"512B\"\nservice_time = \"5ms\"\n"
        )
    };
    let texts = [
        behind("base = \"atlas10k\""),
        behind("base = \"cheetah9lp\""),
        behind("base = \"barracuda\""),
        behind("base = \"nearline-7200\""),
        servers("constant"),
        servers("exponential"),
    ];
    for text in texts {
        for per_s in [60.0, 120.0] {
            let (memory, length) = (Duration::from_s(30), Duration::from_s(1_800));
            let load = Load { per_s, deviation: 0.8, memory, length };
            let records = load.records(device(&text).as_mut(), 5);
            println!("{text} {per_s}");
            assert!(found(&records).is_empty(), "{text} {per_s}");
        }
    }
}
