//! Rules one by one, then random splits, merges and reorders that must be found again.

use proptest::prelude::*;
use seeklab_core::{MeasurementPoints, ProcessName};

use super::*;

const BLOCK: u64 = 512;

fn host(op: Operation, blocks: Range<u64>, issue: u64, completion: u64) -> HostRequest {
    let flush = op == Flush;
    HostRequest {
        queued: None,
        issue: Instant::from_ns(issue),
        completion: Instant::from_ns(completion),
        op,
        fua: false,
        offset_bytes: if flush { 0 } else { blocks.start * BLOCK },
        length_bytes: if flush { 0 } else { (blocks.end - blocks.start) * BLOCK },
        process: 1,
        command: ProcessName::default(),
        error: None,
    }
}

fn record(op: Operation, blocks: Range<u64>, arrival: u64, completion: u64) -> TraceRecord {
    let length = u32::try_from(blocks.end - blocks.start).unwrap();
    TraceRecord {
        points: MeasurementPoints {
            mp2_arrival: Some(Instant::from_ns(arrival)),
            mp2_completion: Some(Instant::from_ns(completion)),
            ..MeasurementPoints::NONE
        },
        ..TraceRecord::new(Instant::from_ns(arrival), op, blocks.start, length)
    }
}

/// The host's side is known until then.
fn known(until: Instant) -> HostKnown {
    HostKnown { issued: until, happened: until }
}

/// Times of the host for each record, in order of arrival at MP2.
type Seen = Vec<Option<(u64, u64)>>;

fn seen(record: &TraceRecord) -> Option<(u64, u64)> {
    record.points.mp1().map(|(arrival, completion)| (arrival.as_ns(), completion.as_ns()))
}

fn matched(hosts: &[HostRequest], records: &[TraceRecord]) -> (Seen, MatchCounts) {
    let mut matcher = Matcher::new(512).with_tolerance(Duration::from_ns(3));
    records.iter().for_each(|record| matcher.record(*record));
    hosts.iter().for_each(|request| matcher.host(request));
    let mut found = Vec::new();
    let counts = matcher.finish(|record| found.push(seen(record)));
    (found, counts)
}

use Operation::{Discard, Flush, Read, Write, WriteZeroes};

#[test]
fn lost_host_completion_delays_others_by_one_second_only() {
    let us = |us: u64| Instant::from_ns(1_000 * us);
    let mut matcher = Matcher::new(512);
    // Two seconds of a request each ms; the host lost what became of the first.
    let mut found = Vec::new();
    for ms in 0..2_000 {
        let at = 1_000_000 * ms;
        matcher.record(record(Write, 8 * ms..8 * ms + 8, at + 30_000, at + 80_000));
        if ms > 0 {
            matcher.host(&host(Write, 8 * ms..8 * ms + 8, at, at + 100_000));
        }
        let happened = Instant::from_ns(at + 500_000);
        matcher.advance(HostKnown { issued: us(0), happened }, happened, |record| found.push(seen(record)));
        let overdue = usize::try_from(ms.saturating_sub(999)).unwrap();
        assert_eq!(found.len(), overdue, "after {ms} ms");
    }
    assert_eq!(found[0], None);
    assert!(found[1..].iter().all(Option::is_some));
    let counts = matcher.finish(|record| found.push(seen(record)));
    assert_eq!((counts.matched, counts.unmatched_emulated, counts.unmatched_host), (1_999, 1, 0));
}

#[test]
fn one_request_matches_one_record() {
    let (found, counts) = matched(&[host(Read, 8..16, 10, 50)], &[record(Read, 8..16, 20, 40)]);
    assert_eq!(found, [Some((10, 50))]);
    let expected = MatchCounts { host: 1, emulated: 1, matched: 1, ..MatchCounts::default() };
    assert_eq!(counts, expected);
}

#[test]
fn two_flushes_of_the_driver_count_apart_and_a_third_does_not() {
    let flushes = [20, 60, 100].map(|arrival| record(Flush, 0..0, arrival, arrival + 10));
    let (_, counts) = matched(&[], &flushes);
    assert_eq!((counts.driver_flushes, counts.unmatched_emulated), (2, 1));
}

#[test]
fn match_requires_operation_bytes_and_time() {
    let request = host(Read, 8..16, 10, 50);
    for other in [
        record(Write, 8..16, 20, 40),
        record(Discard, 8..16, 20, 40),
        record(Flush, 0..0, 20, 40),
        record(Read, 16..24, 20, 40),
        record(Read, 0..8, 20, 40),
        record(Read, 8..8, 20, 40),
        record(Read, 8..16, 6, 40),
        record(Read, 8..16, 20, 54),
    ] {
        let (found, counts) = matched(&[request], &[other]);
        assert_eq!(found, [None], "{other:?}");
        assert_eq!((counts.unmatched_host, counts.unmatched_emulated + counts.driver_flushes), (1, 1));
        assert_eq!(counts.driver_flushes, u64::from(other.op == Flush));
    }
    for within_tolerance in [record(Read, 8..16, 7, 40), record(Read, 8..16, 20, 53)] {
        assert_eq!(matched(&[request], &[within_tolerance]).0, [Some((10, 50))]);
    }
}

#[test]
fn all_parts_of_a_split_request_have_its_times() {
    let (found, counts) = matched(
        &[host(Write, 0..96, 10, 90)],
        &[record(Write, 32..64, 20, 40), record(Write, 64..96, 30, 80), record(Write, 0..32, 50, 60)],
    );
    assert_eq!(found, [Some((10, 90)); 3]);
    assert_eq!((counts.matched, counts.split_groups, counts.merged_groups), (3, 1, 0));
    assert_eq!((counts.unmatched_host, counts.partly_unmatched_host), (0, 0));
}

#[test]
fn merged_record_has_the_earliest_issue_and_the_latest_completion() {
    let (found, counts) = matched(
        &[host(Read, 8..16, 12, 51), host(Read, 0..8, 11, 53), host(Read, 16..24, 10, 52)],
        &[record(Read, 0..24, 20, 40)],
    );
    assert_eq!(found, [Some((10, 53))]);
    assert_eq!((counts.matched, counts.merged_groups, counts.unmatched_host), (1, 1, 0));
}

#[test]
fn nearest_fit_is_preferred_among_overlapping_requests() {
    let hosts = [
        host(Read, 0..16, 10, 60),
        host(Read, 0..8, 10, 70),
        host(Read, 4..12, 10, 80),
        host(Read, 8..16, 10, 90),
    ];
    let records = [record(Read, 0..8, 20, 30), record(Read, 0..16, 21, 31)];
    assert_eq!(matched(&hosts, &records).0, [Some((10, 70)), Some((10, 60))]);
    // Without the wide one, the record is made of those that lie end to end.
    assert_eq!(matched(&hosts[1..], &[record(Read, 0..16, 20, 30)]).0, [Some((10, 90))]);
}

#[test]
fn flushes_match_in_order() {
    let (found, counts) = matched(
        &[host(Flush, 0..0, 10, 50), host(Flush, 0..0, 12, 80), host(Flush, 0..0, 60, 90)],
        &[record(Flush, 0..0, 20, 45), record(Flush, 0..0, 52, 70), record(Flush, 0..0, 85, 89)],
    );
    assert_eq!(found, [Some((10, 50)), Some((12, 80)), Some((60, 90))]);
    assert_eq!((counts.matched, counts.split_groups, counts.merged_groups), (3, 0, 0));
}

#[test]
fn fua_write_is_served_by_a_write_and_a_flush() {
    let fua = HostRequest { fua: true, ..host(Write, 0..8, 10, 60) };
    let (write, flush) = (record(Write, 0..8, 20, 30), record(Flush, 0..0, 35, 55));
    let (found, counts) = matched(&[fua], &[write, flush]);
    assert_eq!(found, [Some((10, 60)); 2]);
    assert_eq!((counts.split_groups, counts.unmatched_emulated), (1, 0));
    // Only a FUA write, only once, and only where no flush of the host's own is there.
    assert_eq!(matched(&[host(Write, 0..8, 10, 60)], &[write, flush]).0, [Some((10, 60)), None]);
    assert_eq!(matched(&[fua], &[write, flush, flush]).0, [Some((10, 60)), Some((10, 60)), None]);
    let own = host(Flush, 0..0, 32, 56);
    assert_eq!(matched(&[fua, own], &[write, flush]).0, [Some((10, 60)), Some((32, 56))]);
    // A device with FUA makes one record of it, which leaves nothing.
    assert_eq!(matched(&[fua], &[write]).1.partly_unmatched_host, 0);
}

#[test]
fn discard_and_write_zeroes_match_each_other() {
    let hosts = [host(WriteZeroes, 0..8, 10, 60), host(Discard, 0..8, 11, 61)];
    let records = [record(Discard, 0..8, 20, 30), record(WriteZeroes, 0..8, 21, 31)];
    assert_eq!(matched(&hosts, &records).0, [Some((11, 61)), Some((10, 60))]);
    assert_eq!(matched(&hosts[..1], &records[..1]).0, [Some((10, 60))]);
    let split = [record(Discard, 0..4, 20, 30), record(Discard, 4..8, 25, 35)];
    assert_eq!(matched(&hosts[..1], &split).0, [Some((10, 60)); 2]);
}

#[test]
fn partly_unmatched_requests_are_counted() {
    let (_, counts) = matched(&[host(Read, 0..16, 10, 60)], &[record(Read, 0..8, 20, 30)]);
    assert_eq!((counts.matched, counts.partly_unmatched_host, counts.unmatched_host), (1, 1, 0));
    let (_, counts) = matched(&[host(Read, 0..8, 10, 60)], &[record(Read, 0..16, 20, 30)]);
    assert_eq!((counts.matched, counts.partly_unmatched_emulated, counts.unmatched_emulated), (1, 1, 0));
}

#[test]
fn only_unsettled_records_are_held() {
    let mut matcher = Matcher::new(512).with_tolerance(Duration::from_ns(3));
    let mut given = 0;
    let mut held_max = 0;
    for turn in 0..10_000 {
        let at = turn * 100;
        let before = matcher.held();
        matcher.record(record(Read, 0..8, at + 10, at + 20));
        assert_eq!(matcher.held(), before + 1);
        matcher.host(&host(Read, 0..8, at, at + 30));
        // A third of the requests of either side have no partner.
        matcher.host(&host(Write, 0..8, at, at + 30));
        matcher.record(record(Discard, 0..8, at + 10, at + 20));
        let until = Instant::from_ns(at + 40);
        matcher.advance(known(until), until, |_| given += 1);
        held_max = held_max.max(matcher.held());
    }
    assert_eq!(given, 20_000);
    assert!(held_max <= 8, "{held_max} are held");
    let counts = *matcher.counts();
    assert_eq!((counts.matched, counts.unmatched_emulated), (10_000, 10_000));
    assert_eq!(matcher.finish(|_| unreachable!("all are given")).unmatched_host, 10_000);
}

#[test]
fn record_is_held_until_the_hosts_requests_are_known() {
    let mut matcher = Matcher::new(512);
    matcher.record(record(Read, 0..8, 100_000, 200_000));
    let early = Instant::from_ns(100_000);
    matcher.advance(known(early), Instant::MAX, |record| panic!("{record:?} is given too early"));
    matcher.host(&host(Read, 0..8, 90_000, 9_000_000));
    let mut found = None;
    matcher.advance(known(Instant::from_ns(1_000_000)), Instant::MAX, |record| found = seen(record));
    assert_eq!(found, Some((90_000, 9_000_000)));
}

/// One group of requests that belong together.
#[derive(Debug, Clone)]
struct Group {
    slot: u64,
    shape: Shape,
    gap: u64,
    /// Random numbers that times and orders come from.
    dice: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    Single,
    Split(u64),
    Merged(u64),
    Flush,
    Fua,
    OnlyHost,
    OnlyEmulated,
}

fn groups() -> impl Strategy<Value = Vec<Group>> {
    let shape = prop_oneof![
        4 => Just(Shape::Single),
        2 => (2_u64..5).prop_map(Shape::Split),
        2 => (2_u64..5).prop_map(Shape::Merged),
        1 => Just(Shape::Flush),
        1 => Just(Shape::Fua),
        1 => Just(Shape::OnlyHost),
        1 => Just(Shape::OnlyEmulated),
    ];
    let group = (0_u64..6, shape, 0_u64..40, prop::collection::vec(any::<u64>(), 24))
        .prop_map(|(slot, shape, gap, dice)| Group { slot, shape, gap, dice });
    prop::collection::vec(group, 1..60)
}

/// Returns requests and records of the groups, and the expected times of the host for each record. Groups in
/// one slot follow one another, groups of different slots overlap in time. Flushes and FUA writes share a
/// slot, since they could be mistaken for each other.
fn play(groups: &[Group]) -> (Vec<HostRequest>, Vec<(TraceRecord, Option<(u64, u64)>)>) {
    let mut free_at = [0_u64; 7];
    let (mut hosts, mut records) = (Vec::new(), Vec::new());
    for group in groups {
        let mut dice = group.dice.iter().copied();
        let mut below = |limit: u64| dice.next().unwrap() % limit;
        let slot = match group.shape {
            Shape::Flush | Shape::Fua => 6,
            _ => group.slot as usize,
        };
        let (start, base) = (free_at[slot] + 10 + group.gap, slot as u64 * 100);
        let op = [Read, Write, Discard][below(3) as usize];
        let first_arrival = start + 10;
        let end = match group.shape {
            Shape::Single | Shape::Split(_) | Shape::Fua => {
                let parts = if let Shape::Split(parts) = group.shape { parts } else { 1 };
                let op = if group.shape == Shape::Fua { Write } else { op };
                let mut intervals: Vec<(u64, u64)> = (0..parts)
                    .map(|_| (first_arrival + below(50), 1 + below(200)))
                    .map(|(arrival, length)| (arrival, arrival + length))
                    .collect();
                let last = intervals.iter().map(|interval| interval.1).max().unwrap();
                let completion = last + 40 + below(30);
                for (part, (arrival, end)) in (0..parts).zip(intervals.drain(..)) {
                    let blocks = base + part * 8..base + part * 8 + 8;
                    records.push((record(op, blocks, arrival, end), Some((start, completion))));
                }
                if group.shape == Shape::Fua {
                    records.push((record(Flush, 0..0, last + 5, last + 20), Some((start, completion))));
                }
                let request = host(op, base..base + parts * 8, start, completion);
                hosts.push(HostRequest { fua: group.shape == Shape::Fua, ..request });
                completion
            }
            Shape::Merged(parts) => {
                let last = first_arrival + 1 + below(200);
                let mut completion = 0;
                let mut issue = u64::MAX;
                for part in 0..parts {
                    let times = (start + below(10), last + below(40));
                    (issue, completion) = (issue.min(times.0), completion.max(times.1));
                    hosts.push(host(op, base + part * 8..base + part * 8 + 8, times.0, times.1));
                }
                let blocks = base..base + parts * 8;
                records.push((record(op, blocks, first_arrival, last), Some((issue, completion))));
                completion
            }
            Shape::Flush => {
                let completion = first_arrival + 20 + below(100);
                records.push((record(Flush, 0..0, first_arrival, completion - 5), Some((start, completion))));
                hosts.push(host(Flush, 0..0, start, completion));
                completion
            }
            Shape::OnlyHost => {
                hosts.push(host(op, base..base + 8, start, start + 50));
                start + 50
            }
            Shape::OnlyEmulated => {
                records.push((record(op, base..base + 8, start, start + 50), None));
                start + 50
            }
        };
        free_at[slot] = end;
    }
    // Requests become known as they complete, records as they arrive.
    hosts.sort_by_key(|request| request.completion);
    records.sort_by_key(|(record, _)| record.arrival);
    (hosts, records)
}

proptest! {
    #[test]
    fn random_groups_are_matched(groups in groups(), chunk in 1_u64..2_000) {
        let (hosts, records) = play(&groups);
        let count = |wanted: fn(&Shape) -> bool| {
            groups.iter().filter(|group| wanted(&group.shape)).count() as u64
        };
        let truth: Seen = records.iter().map(|(_, seen)| *seen).collect();
        let given: Vec<TraceRecord> = records.iter().map(|(record, _)| *record).collect();
        let (found, counts) = matched(&hosts, &given);
        // Records that arrive together come out in the order in which they were given.
        prop_assert_eq!(&found, &truth);
        let alone: Vec<_> = records.iter().filter(|(_, seen)| seen.is_none()).map(|(record, _)| record).collect();
        let flushes = alone.iter().filter(|record| record.op == Flush).count() as u64;
        let driver_flushes = flushes.min(DRIVER_FLUSHES_MAX);
        let expected = MatchCounts {
            host: hosts.len() as u64,
            emulated: records.len() as u64,
            matched: truth.iter().flatten().count() as u64,
            split_groups: count(|shape| matches!(shape, Shape::Split(_) | Shape::Fua)),
            merged_groups: count(|shape| matches!(shape, Shape::Merged(_))),
            unmatched_host: count(|shape| matches!(shape, Shape::OnlyHost)),
            unmatched_emulated: alone.len() as u64 - driver_flushes,
            driver_flushes,
            partly_unmatched_host: 0,
            partly_unmatched_emulated: 0,
        };
        prop_assert_eq!(counts, expected);

        // As they become known, a chunk of time at once: the same.
        let mut matcher = Matcher::new(512).with_tolerance(Duration::from_ns(3));
        let mut streamed = Vec::new();
        let (mut hosts_given, mut records_given) = (0, 0);
        for end in (1..).map(|turn| turn * chunk) {
            let now = Instant::from_ns(end);
            while hosts_given < hosts.len() && hosts[hosts_given].completion < now {
                matcher.host(&hosts[hosts_given]);
                hosts_given += 1;
            }
            while records_given < given.len() && given[records_given].arrival < now {
                matcher.record(given[records_given]);
                records_given += 1;
            }
            let outstanding = hosts[hosts_given..].iter().map(|request| request.issue).min();
            let settled = outstanding.map_or(now, |oldest| oldest.min(now));
            matcher.advance(known(settled), now, |record| streamed.push(seen(record)));
            if hosts_given == hosts.len() && records_given == given.len() {
                break;
            }
        }
        let streamed_counts = matcher.finish(|record| streamed.push(seen(record)));
        prop_assert_eq!(&streamed, &truth);
        prop_assert_eq!(streamed_counts, expected);
    }

    #[test]
    fn equal_concurrent_requests_are_all_matched(
        requests in prop::collection::vec((0_u64..300, 0_u64..100, 1_u64..200, 0_u64..100), 1..40),
    ) {
        // All read the same blocks: who is who cannot be known, but everybody has a possible partner.
        let hosts: Vec<HostRequest> = requests
            .iter()
            .map(|(issue, before, during, after)| host(Read, 0..8, *issue, issue + before + during + after))
            .collect();
        let mut records: Vec<TraceRecord> = requests
            .iter()
            .map(|(issue, before, during, _)| record(Read, 0..8, issue + before, issue + before + during))
            .collect();
        records.sort_by_key(|record| record.arrival);
        let mut matcher = Matcher::new(512).with_tolerance(Duration::ZERO);
        records.iter().for_each(|record| matcher.record(*record));
        hosts.iter().for_each(|request| matcher.host(request));
        let mut pairs = Vec::new();
        let mut contained = true;
        let counts = matcher.finish(|record| {
            let ((issue, completion), (arrival, end)) = record.points.mp1().zip(record.points.mp2()).unwrap();
            contained &= issue <= arrival && end <= completion;
            pairs.push((issue, completion));
        });
        prop_assert!(contained);
        prop_assert_eq!(counts.matched, hosts.len() as u64);
        // Every request of the host is used exactly once.
        let mut issued: Vec<_> = hosts.iter().map(|request| (request.issue, request.completion)).collect();
        issued.sort_unstable();
        pairs.sort_unstable();
        prop_assert_eq!(pairs, issued);
    }

    #[test]
    fn arbitrary_input_yields_counts_that_add_up(
        hosts in prop::collection::vec((0_usize..5, any::<[u64; 4]>(), any::<bool>()), 0..30),
        records in prop::collection::vec((0_usize..5, any::<[u64; 3]>(), any::<u32>()), 0..30),
        narrow in any::<bool>(),
    ) {
        let squeeze = |number: u64| if narrow { number % 32 } else { number };
        let mut matcher = Matcher::new(512);
        for (op, numbers, fua) in &hosts {
            let [issue, completion, offset_bytes, length_bytes] = numbers.map(squeeze);
            let request = host(Operation::ALL[*op], 0..0, issue, completion);
            matcher.host(&HostRequest { fua: *fua, offset_bytes, length_bytes, ..request });
        }
        for (op, numbers, blocks) in &records {
            let [arrival, completion, lbn] = numbers.map(squeeze);
            let made = record(Operation::ALL[*op], 0..0, arrival, completion);
            let blocks = if narrow { blocks % 4 } else { *blocks };
            matcher.record(TraceRecord { lbn: if narrow { 0 } else { lbn }, blocks, ..made });
        }
        let mut given = 0;
        matcher.advance(known(Instant::from_ns(16)), Instant::from_ns(u64::MAX / 2), |_| given += 1);
        let counts = matcher.finish(|_| given += 1);
        prop_assert_eq!(given, records.len());
        prop_assert_eq!(
            counts.emulated,
            counts.matched + counts.unmatched_emulated + counts.driver_flushes
        );
        prop_assert!(counts.unmatched_host + counts.partly_unmatched_host <= counts.host);
        prop_assert!(counts.merged_groups <= counts.matched && counts.split_groups <= counts.host);
    }
}
