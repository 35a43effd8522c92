//! Tests of the choices of the schedulers.
//!
//! Schedules worked by hand, schedules compared with exhaustive search, and schedules of the reference
//! simulator (`../shared/reference/disksim/`, whose README states how far they are trusted), followed
//! dispatch by dispatch.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "reference data is read from files")]

use crate::drives::{bare, closed, device};
use crate::shared::{ns, reference, request, rows, serve};
use proptest::prelude::*;
use seeklab_core::{
    BufferOutcome, Completion, Criticality, Device, Duration, Instant, Location, Operation, Pending, Request,
    Scheduler, Seed,
};
use seeklab_devices::layer::queue_before;
use seeklab_devices::scheduler::SchedulerSpec;

// ---- Worked by hand.

const BLOCKS: u64 = 1_000;

fn scheduler(text: &str) -> Box<dyn Scheduler> {
    text.parse::<SchedulerSpec>().unwrap().build(BLOCKS, 100)
}

fn push(scheduler: &mut dyn Scheduler, lbns: &[u64]) {
    for lbn in lbns {
        push_as(scheduler, *lbn, Criticality::TimeCritical);
    }
}

fn push_as(scheduler: &mut dyn Scheduler, lbn: u64, criticality: Criticality) {
    let request = Request { criticality, ..Request::new(lbn, Operation::Read, lbn, 1) };
    scheduler.push(Pending {
        request,
        submitted: Instant::ZERO,
        queue_length: 0,
        location: Location::default(),
    });
}

/// Chooses so many requests, or all that are pending and then finds that none is.
fn choose(scheduler: &mut dyn Scheduler, count: usize) -> Vec<u64> {
    let mut chosen = Vec::new();
    while chosen.len() < count {
        let Some(pending) = scheduler.choose(Instant::ZERO, None) else { break };
        chosen.push(pending.request.lbn);
    }
    chosen
}

#[test]
fn scan_sweeps_from_edge_to_edge() {
    let mut scan = scheduler("scan");
    push(&mut *scan, &[500, 100, 900]);
    // The sweep begins upwards from block 0 and serves what it meets …
    assert_eq!(choose(&mut *scan, 2), [100, 500]);
    // … including what arrives ahead of it; 200 lies behind and waits for the way back.
    push(&mut *scan, &[600, 200]);
    assert_eq!(choose(&mut *scan, 2), [600, 900]);
    // Nothing above 900 is pending: it turns, and on the way down meets 800 before 200.
    push(&mut *scan, &[800]);
    assert_eq!(choose(&mut *scan, 2), [800, 200]);
    // Asked again it finds nothing, goes on down to block 0 and turns there. What arrives next is met from
    // that edge upwards, although 150 lies nearer and in the direction of the last service.
    assert!(choose(&mut *scan, 1).is_empty());
    push(&mut *scan, &[150, 50, 300]);
    assert_eq!(choose(&mut *scan, 9), [50, 150, 300]);
    // LOOK, which turns at the last request, would have gone on down from 200: 150, 50, then up to 300.
    let mut look = scheduler("look");
    push(&mut *look, &[500, 200]);
    assert_eq!(choose(&mut *look, 2), [200, 500]);
    push(&mut *look, &[300]);
    assert_eq!(choose(&mut *look, 2), [300]);
    push(&mut *look, &[150, 50, 400]);
    assert_eq!(choose(&mut *look, 9), [150, 50, 400]);
}

#[test]
fn c_scan_begins_again_at_the_edge() {
    let mut c_scan = scheduler("c-scan");
    push(&mut *c_scan, &[500, 100]);
    assert_eq!(choose(&mut *c_scan, 2), [100, 500]);
    // 300 lies behind: the sweep first goes on to 800, then begins again at the bottom.
    push(&mut *c_scan, &[300, 800]);
    assert_eq!(choose(&mut *c_scan, 2), [800, 300]);
    // Found empty, it goes on to the upper edge and begins again at block 0: 200 comes before 400.
    assert!(choose(&mut *c_scan, 1).is_empty());
    push(&mut *c_scan, &[400, 200]);
    assert_eq!(choose(&mut *c_scan, 2), [200, 400]);
    // C-LOOK stays at 300 when found empty, so there 400 comes before 200.
    let mut c_look = scheduler("c-look");
    push(&mut *c_look, &[300]);
    assert_eq!(choose(&mut *c_look, 2), [300]);
    push(&mut *c_look, &[400, 200]);
    assert_eq!(choose(&mut *c_look, 2), [400, 200]);
}

#[test]
fn criticality_c_look_leaves_noncritical_requests_for_last() {
    use Criticality::{TimeCritical, TimeLimited, TimeNoncritical};
    let mut lists = scheduler("criticality-c-look");
    for (lbn, criticality) in [
        (100, TimeNoncritical),
        (700, TimeCritical),
        (300, TimeLimited),
        (200, TimeNoncritical),
        (800, TimeNoncritical),
    ] {
        push_as(&mut *lists, lbn, criticality);
    }
    // Time-critical and time-limited requests share a list, swept upwards from block 0, although 100 and
    // 200 lie on the way.
    assert_eq!(choose(&mut *lists, 2), [300, 700]);
    // With that list empty the others follow, upwards from 700: 800, and then from the bottom: 100.
    assert_eq!(choose(&mut *lists, 2), [800, 100]);
    // A time-critical request goes before 200, and the sweep over the rest goes on from there: 600 and
    // 900 lie above 500, 200 below.
    push_as(&mut *lists, 500, TimeCritical);
    push_as(&mut *lists, 600, TimeNoncritical);
    push_as(&mut *lists, 900, TimeNoncritical);
    assert_eq!(choose(&mut *lists, 9), [500, 600, 900, 200]);
}

/// The order in which requests complete that arrive together, 100 ms after a first one.
fn order(name: &str, scheduler: &str, first: Request, requests: &[Request]) -> Vec<(u64, BufferOutcome)> {
    let device = device(name, &[]).build(Seed(1), "disk0").unwrap();
    let mut queue = queue_before(device, &scheduler.parse().unwrap(), 1).unwrap();
    let mut arrivals = vec![(Instant::ZERO, first)];
    arrivals.extend(requests.iter().map(|request| (Instant::from_ns(100_000_000), *request)));
    let completions = serve(&mut queue, &arrivals);
    completions.iter().skip(1).map(|completion| (completion.request.lbn, completion.buffer)).collect()
}

/// Shortest positioning (cache) time first \[Ganger & Patt 1998, section 6.3\].
#[test]
fn spctf_serves_buffered_requests_first() {
    use BufferOutcome::{Hit, Miss};
    let read = |lbn| Request::new(lbn, Operation::Read, lbn, 16);
    // The HP C2247A reads 128 blocks on after a request (read_ahead_blocks = 128, a segment of 256): after
    // 1,000,000..1,000,016 its buffer holds 1,000,016..1,000,144, and the arm is where that ended.
    //
    // The first of the three is served at once, for the drive is idle when it arrives, whatever it is. So
    // it is made to be one that the buffer holds, 1,000,016. Of the other two 1,000,064 is a hit and costs
    // nothing under SPCTF; 1,000,160 lies just ahead of the heads and has a shorter way from them than
    // 1,000,064, which on the media would come by a turn later.
    let requests = [read(1_000_016), read(1_000_160), read(1_000_064)];
    let spctf = order("hp-c2247a", "spctf", read(1_000_000), &requests);
    assert_eq!(spctf, [(1_000_016, Hit), (1_000_064, Hit), (1_000_160, Miss)]);
    // Of two that the buffer holds, the first that came, whatever the place.
    let requests = [read(1_000_016), read(1_000_096), read(1_000_048), read(1_000_064)];
    let hits: Vec<u64> =
        order("hp-c2247a", "spctf", read(1_000_000), &requests).into_iter().map(|(lbn, _)| lbn).collect();
    assert_eq!(hits, [1_000_016, 1_000_096, 1_000_048, 1_000_064]);
    // The Atlas III takes writes into its buffer at once (write_back = "all"): a write at the other end of
    // the disk goes before a read on the next track.
    let far = Request::new(9, Operation::Write, 10, 16);
    let last = order("atlas-iii", "spctf", read(1_000_000), &[read(5_000_000), read(5_001_000), far]);
    assert_eq!(last.iter().map(|(lbn, _)| *lbn).collect::<Vec<_>>(), [5_000_000, 10, 5_001_000]);
}

/// Writes that wait for room in the buffer do not hold reads up for longer than a destage or two.
#[test]
fn full_buffer_leaves_the_media_to_reads() {
    let drive = device("nearline-7200", &[]);
    let mut stream = Seed(1).stream("test");
    let capacity = drive.build(Seed(1), "disk0").unwrap().capabilities().capacity_blocks;
    let requests = (0..20_000).map(|id| {
        let op = if stream.unit() < 0.1 { Operation::Read } else { Operation::Write };
        Request::new(id, op, stream.below(capacity / 2) * 2, 2)
    });
    let requests: Vec<Request> = requests.collect();
    let completions = closed(&mut *drive.build(Seed(1), "disk0").unwrap(), 32, requests);
    let times_ms = |op: Operation| {
        let of = completions.iter().filter(|completion| completion.request.op == op);
        of.map(|completion| completion.response_time().as_ms()).collect::<Vec<_>>()
    };
    let (reads, writes) = (times_ms(Operation::Read), times_ms(Operation::Write));
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
    // One after the other for each operation: a read waits for few writes, a write for those that came before it.
    assert!(mean(&reads) < mean(&writes) / 4.0, "{} ms, {} ms", mean(&reads), mean(&writes));
    assert!(reads.iter().all(|time| *time < 1_000.0), "{:?}", reads.iter().copied().fold(0.0, f64::max));
    assert!(writes.iter().all(|time| *time < 1_500.0), "{:?}", writes.iter().copied().fold(0.0, f64::max));
}

// ---- Against exhaustive search.

/// Returns the choice of a search over all pending requests: the least positioning time, of equal
/// ones the first that came.
fn exhaustive(device: &dyn Device, now: Instant, pending: &[Request]) -> usize {
    let positioning = |request: &Request| device.estimate(now, request).unwrap().positioning;
    let times: Vec<Duration> = pending.iter().map(positioning).collect();
    let shortest = times.iter().min().unwrap();
    times.iter().position(|time| time == shortest).unwrap()
}

/// Serves one request on an idle device; when it was complete.
fn serve_alone(device: &mut dyn Device, now: Instant, request: Request) -> Instant {
    let mut completions: Vec<Completion> = Vec::new();
    device.submit(now, request).unwrap();
    while let Some(event) = device.next_event() {
        device.poll(event, &mut completions);
    }
    completions[0].completed
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sptf_chooses_like_exhaustive_search(
        name in prop::sample::select(vec!["atlas10k", "hp-c2247a"]),
        // Places over the whole disk and crowded into a thousandth of it, some of them twice.
        places in prop::collection::vec((0.0..1.0f64, any::<bool>(), any::<bool>()), 2..120),
        pause in 0u64..20_000_000,
    ) {
        let mut device = bare(name, &[]).build(Seed(1), "disk0").unwrap();
        let capacity = device.capabilities().capacity_blocks - 16;
        let mut sptf = scheduler("sptf");
        let mut pending = Vec::new();
        for (id, (place, crowded, write)) in places.iter().enumerate() {
            let share = if *crowded { 0.5 + place / 1_000.0 } else { *place };
            let op = if *write { Operation::Write } else { Operation::Read };
            let request = Request::new(id as u64, op, (share * capacity as f64) as u64, 16);
            pending.push(request);
            if id % 7 == 0 {
                pending.push(Request { id: seeklab_core::RequestId(1_000 + id as u64), ..request });
            }
        }
        for request in &pending {
            let location = device.positioning().unwrap().locate(request);
            sptf.push(Pending { request: *request, submitted: Instant::ZERO, queue_length: 0, location });
        }
        let mut now = Instant::from_ns(pause);
        while !pending.is_empty() {
            let expected = pending.remove(exhaustive(&*device, now, &pending));
            let chosen = sptf.choose(now, device.positioning()).unwrap().request;
            prop_assert_eq!(chosen, expected);
            now = serve_alone(&mut *device, now, chosen);
        }
        prop_assert!(sptf.is_empty());
    }

    #[test]
    fn vscan_0_is_sstf_and_vscan_1_is_look(
        // Bursts of arrivals, each followed by some services.
        bursts in prop::collection::vec((prop::collection::vec(0..BLOCKS, 0..12), 0usize..10), 1..30),
    ) {
        for (vscan, same) in [("vscan(0)", "sstf"), ("vscan(1)", "look")] {
            let (mut one, mut other) = (scheduler(vscan), scheduler(same));
            for (arrivals, services) in &bursts {
                push(&mut *one, arrivals);
                push(&mut *other, arrivals);
                for _ in 0..*services {
                    let (one, other) = (one.choose(Instant::ZERO, None), other.choose(Instant::ZERO, None));
                    prop_assert_eq!(one, other, "{} against {}", vscan, same);
                }
            }
        }
    }
}

// ---- Along the reference simulator's schedule.

/// A run of the reference simulator.
struct ReferenceRun {
    requests: Vec<(Instant, Request)>,
    /// Request number and start, in dispatch order.
    dispatches: Vec<(usize, Instant)>,
}

fn reference_run(disk: &str, load: &str, scheduler: &str) -> ReferenceRun {
    let trace = reference(&format!("disksim/{disk}/traces/mixed8k_open_{load}.csv.gz"));
    let results = reference(&format!("disksim/{disk}/results/mixed8k_open_{load}__bare_{scheduler}.csv.gz"));
    ReferenceRun {
        requests: rows(&trace).iter().enumerate().map(|(id, row)| request(id, row)).collect(),
        dispatches: rows(&results)
            .iter()
            .map(|row| (row[0].parse().unwrap(), Instant::from_ns(ns(&row[1]))))
            .collect(),
    }
}

impl ReferenceRun {
    /// Shows every dispatch: its time, what was pending then in order of arrival, and what was picked.
    fn follow(&self, mut see: impl FnMut(Instant, &[Request], Request)) {
        let mut pending: Vec<Request> = Vec::new();
        let mut arrivals = self.requests.iter().peekable();
        for (number, start) in &self.dispatches {
            while let Some((_, request)) = arrivals.next_if(|(arrival, _)| arrival <= start) {
                pending.push(*request);
            }
            let picked = self.requests[*number].1;
            see(*start, &pending, picked);
            pending.retain(|request| request.id != picked.id);
        }
    }
}

/// The mean response time that the reference data states for a set, in milliseconds.
fn mean_response_ms(disk: &str, set: &str) -> f64 {
    let manifest = std::fs::read_to_string(reference(&format!("disksim/{disk}/manifest.json")));
    let manifest = manifest.unwrap();
    let of_set = &manifest[manifest.find(&format!("\"{set}\": {{")).unwrap()..];
    let key = "\"mean_response_ms\": ";
    let value = &of_set[of_set.find(key).unwrap() + key.len()..];
    value[..value.find([',', '\n']).unwrap()].trim().parse().unwrap()
}

#[test]
#[cfg_attr(not(shared_reference), ignore = "needs ../shared/reference")]
fn reference_simulator_chooses_the_shortest_positioning() {
    for disk in ["hp_c2247a", "atlas10k", "barracuda"] {
        for load in ["70", "125"] {
            let run = reference_run(disk, load, "sptf");
            let name = disk.replace('_', "-");
            let mut device = bare(&name, &[]).build(Seed(1), "disk0").unwrap();
            let (mut near, mut choices, mut worst) = (0, 0, Duration::ZERO);
            run.follow(|start, pending, picked| {
                let time = |request: &Request| device.estimate(start, request).unwrap().positioning;
                let shortest = pending.iter().map(time).min().unwrap();
                let over = time(&picked) - shortest;
                choices += usize::from(pending.len() > 1);
                near += usize::from(over <= Duration::from_us(1));
                worst = worst.max(over);
                serve_alone(&mut *device, start, picked);
            });
            let share = f64::from(near as u32) / run.dispatches.len() as f64;
            println!(
                "{disk} at {load} %: {:.4} of {} dispatches ({choices} with a choice) within 1 us of the minimum, worst {worst}",
                share,
                run.dispatches.len()
            );
            assert!(share >= 0.999, "{disk} at {load} %: {share}");
        }
    }
}

#[test]
#[cfg_attr(not(shared_reference), ignore = "needs ../shared/reference")]
fn mean_response_time_under_sptf_matches_the_reference_simulator() {
    for disk in ["hp_c2247a", "atlas10k", "barracuda"] {
        for load in ["70", "125"] {
            let run = reference_run(disk, load, "sptf");
            let device = bare(&disk.replace('_', "-"), &[]).build(Seed(1), "disk0").unwrap();
            let mut queue = queue_before(device, &"sptf".parse().unwrap(), 1).unwrap();
            let completions = serve(&mut queue, &run.requests);
            let seen = crate::drives::mean(&completions, |completion| completion.response_time().as_ms());
            let expected = mean_response_ms(disk, &format!("mixed8k_open_{load}__bare_sptf"));
            let error_pct = 100.0 * (seen / expected - 1.0);
            println!("{disk} at {load} %: {seen:.4} ms against {expected:.4} ms, {error_pct:+.3} %");
            assert!(error_pct.abs() <= 0.5, "{disk} at {load} %: {error_pct:+.3} %");
        }
    }
}

/// Our order under VSCAN(0.2) is not quite the reference's (`mechanics.rs`), because the ranges differ: ours
/// is what the drive reports, the reference's what its layout holds. With that range every one of its
/// dispatches is the least penalised distance.
#[test]
#[cfg_attr(not(shared_reference), ignore = "needs ../shared/reference")]
fn vscan_over_the_layouts_range_matches_the_reference_simulator() {
    for load in ["70", "125"] {
        let run = reference_run("atlas10k", load, "vscan02_lbn");
        let model = crate::drives::disk(&bare("atlas10k", &[]));
        let layout_blocks = model.mechanism().layout().blocks();
        let capacity_blocks = model.capabilities().capacity_blocks;
        let (mut last, mut upwards) = (0, true);
        let (mut dispatch, mut between, mut ties) = (0, 0, 0);
        run.follow(|_, pending, picked| {
            let cost = |request: &Request, range: u64| {
                let turns = request.lbn != last && (request.lbn > last) != upwards;
                request.lbn.abs_diff(last) + if turns { (0.2 * range as f64) as u64 } else { 0 }
            };
            let least = |range| pending.iter().map(|request| cost(request, range)).min().unwrap();
            let place = format!("atlas10k at {load} %, dispatch {dispatch}: {picked:?}");
            assert_eq!(cost(&picked, layout_blocks), least(layout_blocks), "{place}");
            let equal = pending.iter().filter(|r| cost(r, layout_blocks) == least(layout_blocks)).count();
            ties += usize::from(equal > 1);
            if cost(&picked, capacity_blocks) != least(capacity_blocks) {
                between += 1;
            }
            dispatch += 1;
            if picked.lbn != last {
                upwards = picked.lbn > last;
            }
            last = picked.lbn;
        });
        println!(
            "atlas10k at {load} %: {ties} exact ties in {dispatch} dispatches; {between} choices hang on the range of {layout_blocks} against {capacity_blocks} blocks"
        );
        assert!(between <= 2, "atlas10k at {load} %: {between}");
    }
}
