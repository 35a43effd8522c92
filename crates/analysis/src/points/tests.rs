//! Measurement points against figures worked out by hand.

use seeklab_core::{Coverage, Duration, Instant, MeasurementPoints, RegionBound};

use super::*;

fn us(us: u64) -> Instant {
    Instant::from_ns(us * 1_000)
}

/// Returns a request that lasts from `mp3.0` to `mp3.1` in the model, all in microseconds.
fn row(op: Operation, mp1: Option<(u64, u64)>, mp2: (u64, u64, u64), mp3: (u64, u64)) -> TraceRecord {
    let points = MeasurementPoints {
        mp1_arrival: mp1.map(|(arrival, _)| us(arrival)),
        mp1_completion: mp1.map(|(_, completion)| us(completion)),
        mp2_arrival: Some(us(mp2.0)),
        mp2_due: Some(us(mp2.1)),
        mp2_completion: Some(us(mp2.2)),
        miss_cause: None,
    };
    TraceRecord { completion: Some(us(mp3.1)), points, ..TraceRecord::new(us(mp3.0), op, 8, 8) }
}

fn stamps(rows: &[TraceRecord]) -> Stamps {
    rows.iter().collect()
}

#[test]
fn arrival_and_completion_errors_are_distinguished() {
    let rows = [
        row(Operation::Read, Some((90, 1_150)), (100, 1_080, 1_085), (95, 1_100)),
        row(Operation::Write, Some((2_000, 4_060)), (2_030, 4_010, 4_012), (2_010, 4_050)),
    ];
    let between = stamps(&rows).between(Point::Mp1, Point::Mp3).unwrap();
    let seen = between.summary();
    assert_eq!((seen.point, seen.reference), ("mp1", "mp3"));
    // Model: 1,005 and 2,040 us; host: 1,060 and 2,060 us.
    assert_eq!((seen.comparison.requests, seen.comparison.reference_mean_ms), (2, 1.5225));
    assert_eq!(seen.comparison.ei_avg_ms, 0.0375);
    let [all, read, write] = seen.errors[..] else { panic!("{:?}", seen.errors) };
    assert_eq!((all.op, all.requests, read.op, write.op), ("all", 2, "read", "write"));
    assert_eq!((all.arrival.p50_us, all.arrival.p99_us), (5.0, 10.0));
    assert_eq!((read.arrival.p50_us, read.completion.p50_us), (5.0, 50.0));
    assert_eq!((write.arrival.p50_us, write.completion.p50_us), (10.0, 10.0));
    assert_eq!(between.errors_over_time(), [(0.0, 0.055), (0.00191, 0.02)]);
}

#[test]
fn point_nearer_to_the_model_is_the_reference_in_either_order() {
    let rows = [row(Operation::Read, Some((0, 100)), (10, 80, 85), (5, 90))];
    let stamps = stamps(&rows);
    for (one, other, reference_ms, error_ms) in [
        (Point::Mp3, Point::Mp1, 0.085, 0.015),
        (Point::Mp2, Point::Mp1, 0.075, 0.025),
        (Point::Due, Point::Mp2, 0.07, 0.005),
        (Point::Mp3, Point::Due, 0.085, -0.015),
        (Point::Mp3, Point::Mp2, 0.085, -0.01),
    ] {
        let between = stamps.between(one, other).unwrap();
        assert_eq!((between.outer(), between.reference()), (one.min(other), one.max(other)));
        let seen = between.summary().comparison;
        assert_eq!((seen.reference_mean_ms, seen.ei_avg_ms), (reference_ms, error_ms), "{one:?} {other:?}");
    }
}

#[test]
fn errors_of_the_parts_add_up_to_the_total_error() {
    let rows: Vec<TraceRecord> = (0..200)
        .map(|n| {
            let at = n * 1_000;
            let mp2 = (at + 11 + n % 7, at + 600 + n % 13, at + 601 + n % 13 + n % 3);
            row(Operation::Read, Some((at, at + 640 + n % 17)), mp2, (at + 5, at + 620 + n % 13))
        })
        .collect();
    let stamps = stamps(&rows);
    let error = |one, other| stamps.between(one, other).unwrap().summary().comparison.ei_avg_ms;
    let sum = error(Point::Mp1, Point::Mp2) + error(Point::Mp2, Point::Due) + error(Point::Due, Point::Mp3);
    assert!((error(Point::Mp1, Point::Mp3) - sum).abs() < 1e-5, "equation 5.1: {sum}");
}

#[test]
fn request_split_by_the_host_is_one_pair() {
    let whole = Some((100, 900));
    let mut incomplete = row(Operation::Read, Some((3_000, 3_500)), (3_010, 3_400, 3_400), (3_010, 3_400));
    incomplete.completion = None;
    let rows = [
        row(Operation::Read, whole, (110, 400, 401), (110, 400)),
        row(Operation::Read, Some((105, 700)), (120, 600, 601), (120, 600)),
        row(Operation::Read, whole, (130, 850, 852), (125, 850)),
        // The other member of this one is known, and yet the group is not.
        incomplete,
        row(Operation::Read, Some((3_000, 3_500)), (3_020, 3_450, 3_450), (3_020, 3_450)),
    ];
    let seen = stamps(&rows).between(Point::Mp1, Point::Mp3).unwrap().summary();
    assert_eq!((seen.groups, seen.grouped_requests, seen.left_out), (1, 2, 2));
    assert_eq!(seen.comparison.requests, 2);
    // Of the group 110 to 850 us against 100 to 900 us; of the other 480 against 595 us.
    assert_eq!(seen.comparison.reference_mean_ms, 0.61);
    assert_eq!(seen.comparison.ei_avg_ms, 0.0875);
    let deeper = stamps(&rows).between(Point::Mp2, Point::Mp3).unwrap().summary();
    assert_eq!(
        (deeper.comparison.requests, deeper.groups, deeper.left_out),
        (4, 0, 1),
        "below the host all count"
    );
}

#[test]
fn requests_without_host_stamps_are_counted() {
    let rows = [
        row(Operation::Read, Some((0, 100)), (10, 80, 85), (5, 90)),
        row(Operation::Write, None, (210, 280, 285), (205, 290)),
    ];
    assert_eq!(stamps(&rows).unmatched(), Some(1));
    assert_eq!(stamps(&rows[1..]).unmatched(), None, "MP1 was not measured");
    assert_eq!(stamps(&rows).between(Point::Mp1, Point::Mp3).unwrap().summary().left_out, 1);
}

#[test]
fn flushes_of_the_loop_driver_count_apart() {
    let seen = row(Operation::Read, Some((0, 100)), (10, 80, 85), (5, 90));
    let flush = row(Operation::Flush, None, (210, 280, 285), (205, 290));
    let counts = |rows: &[TraceRecord]| (stamps(rows).driver_flushes(), stamps(rows).unmatched());
    assert_eq!(counts(&[flush, seen, flush]), (2, Some(0)));
    assert_eq!(counts(&[flush, seen, flush, flush]), (2, Some(1)), "it makes two");
    assert_eq!(counts(&[flush]), (0, None), "MP1 was not measured");
    // A run of a hundred requests can be trusted.
    let mut rows = vec![seen; 100];
    rows.extend([flush, flush]);
    assert_eq!(stamps(&rows).evidence(Duration::from_us(20), None).unmatched, Some(0));
}

#[test]
fn unmeasured_points_are_named() {
    let plain = TraceRecord { completion: Some(us(5)), ..TraceRecord::new(us(0), Operation::Read, 0, 1) };
    let stamps: Stamps = [&plain].into_iter().collect();
    let error = |one, other| stamps.between(one, other).unwrap_err();
    assert_eq!(error(Point::Mp3, Point::Mp1), PointsError::NotMeasured(Point::Mp1));
    assert_eq!(error(Point::Mp3, Point::Mp3), PointsError::SamePoint(Point::Mp3));
    let message = error(Point::Mp3, Point::Due).to_string();
    assert!(message.contains("`mp2_arrival_ns` and `mp2_due_ns`"), "{message}");
    let seen = |mp1, mp3: Option<u64>| TraceRecord {
        completion: mp3.map(us),
        ..row(Operation::Read, mp1, (1, 2, 3), (0, 5))
    };
    let apart = [seen(Some((0, 5)), None), seen(None, Some(5))];
    let apart: Stamps = apart.iter().collect();
    let error = apart.between(Point::Mp1, Point::Mp3).unwrap_err();
    assert_eq!(error, PointsError::NoCommonRequests(Point::Mp1, Point::Mp3));
}

#[test]
fn lateness_is_reported_with_its_tail() {
    let mut rows: Vec<TraceRecord> =
        (0..100).map(|n| row(Operation::Read, None, (0, 100, 100 + n / 10), (0, 100))).collect();
    rows[99].points.mp2_completion = Some(us(5_100));
    rows[99].points.miss_cause = Some(MissCause::KernelScheduling);
    rows[98].points.mp2_completion = Some(us(120));
    rows[0].points.mp2_completion = Some(us(97));
    let stamps = stamps(&rows);
    let seen = stamps.lateness(DEADLINE_LIMIT).unwrap();
    assert_eq!((seen.p50_us, seen.p90_us, seen.p99_us, seen.max_us), (4.0, 8.0, 20.0, 5_000.0));
    // 0 to 8 us ten times each, 9 us eight times and 20 us once.
    assert_eq!(seen.mean_lowest_99pct_us, 4.565657);
    assert_eq!((seen.beyond_limit_pct, seen.early), (1.0, 1), "20 us is not beyond 20 us");
    assert_eq!(stamps.misses().ordered(), [(MissCause::KernelScheduling, 1)]);
    assert_eq!(stamps.lateness(Duration::from_us(19)).unwrap().beyond_limit_pct, 2.0);
    assert!(Stamps::default().lateness(DEADLINE_LIMIT).is_none());
    let json = serde_json::to_value((seen, stamps.misses())).unwrap();
    assert_eq!(json[0]["lateness_p99_us"], 20.0);
    assert_eq!(json[1]["kernel_scheduling"], 1);
}

/// A run of 1,000 requests in which everything is as it should be.
fn good() -> Evidence {
    Evidence {
        requests: 1_000,
        model_mean_ms: 5.0,
        host_error_ms: Some(0.02),
        reply_error_ms: Some(0.001),
        unmatched: Some(0),
        beyond_limit_pct: Some(0.4),
        misses: MissCounts::new([0, 1, 0, 3, 0]),
        below_floor: Some(0),
        ..Evidence::default()
    }
}

#[test]
fn error_of_the_host_is_judged_by_the_same_requests_in_the_model() {
    let rows = [
        row(Operation::Read, Some((0, 1_010)), (1, 1_000, 1_000), (0, 1_000)),
        row(Operation::Read, None, (0, 90_000, 90_000), (0, 90_000)),
    ];
    let evidence = stamps(&rows).evidence(DEADLINE_LIMIT, None);
    assert_eq!((evidence.requests, evidence.model_mean_ms), (2, 1.0));
    assert_eq!(evidence.host_error_ms, Some(0.01));
    let unseen = stamps(&rows[1..]).evidence(DEADLINE_LIMIT, None);
    assert_eq!((unseen.host_error_ms, unseen.model_mean_ms), (None, 90.0));
}

#[test]
fn sentence_describes_the_trust_in_a_run() {
    let trust = good().trust();
    assert_eq!(trust.level, TrustLevel::Trusted);
    assert_eq!(
        trust.sentence,
        "This run can be trusted: on average response times in the host were 0.0200 ms (0.40 %) longer than \
         the model's, and 99.60 % of the replies left within 20 us of when they were due."
    );
    let late = Evidence { beyond_limit_pct: Some(12.0), unmatched: Some(20), ..good() }.trust();
    assert_eq!(late.level, TrustLevel::NotTrusted);
    assert_eq!(
        late.sentence,
        "This run cannot be trusted: on average response times in the host were 0.0200 ms (0.40 %) longer \
         than the model's, but 12.0 % of the replies left more than 20 us late (mostly kernel scheduling) and \
         2.0 % of the requests have no stamps of the host."
    );
}

#[test]
fn worst_criterion_decides() {
    let level = |evidence: Evidence| evidence.trust().level;
    for (error, expected) in [
        (-0.025, TrustLevel::Trusted),
        (0.026, TrustLevel::WithCare),
        (-0.25, TrustLevel::WithCare),
        (0.26, TrustLevel::NotTrusted),
    ] {
        assert_eq!(level(Evidence { host_error_ms: Some(error), ..good() }), expected, "{error}");
    }
    for (count, expected) in
        [(10, TrustLevel::Trusted), (100, TrustLevel::WithCare), (101, TrustLevel::NotTrusted)]
    {
        assert_eq!(level(Evidence { unmatched: Some(count), ..good() }), expected, "{count} unmatched");
        assert_eq!(
            level(Evidence { below_floor: Some(count), ..good() }),
            expected.min(TrustLevel::WithCare),
            "{count} below the floor"
        );
        let beyond_limit_pct = Some(count as f64 / 10.0);
        assert_eq!(level(Evidence { beyond_limit_pct, ..good() }), expected, "{count} late");
    }
}

#[test]
fn requests_of_a_clone_outside_its_fitted_range_limit_the_trust() {
    let trust = |outside| {
        let mut coverage = Coverage { requests: 1_000, outside, ..Coverage::default() };
        coverage.beyond[RegionBound::QueueBelow as usize] = outside;
        Evidence { coverage: Some(coverage), ..good() }.trust()
    };
    for (outside, level) in
        [(50, TrustLevel::Trusted), (500, TrustLevel::WithCare), (501, TrustLevel::NotTrusted)]
    {
        assert_eq!(trust(outside).level, level, "{outside}");
    }
    let sentence = trust(600).sentence;
    let reason = ", but 60.0 % of the requests are outside the range that the clone was fitted to (mostly queue length below).";
    assert!(sentence.ends_with(reason), "{sentence}");
}

#[test]
fn unmeasured_quantities_do_not_increase_trust() {
    let blind = Evidence { host_error_ms: None, unmatched: None, ..good() }.trust();
    assert_eq!(blind.level, TrustLevel::WithCare);
    assert!(blind.sentence.ends_with("; what the host added was not measured."), "{}", blind.sentence);
    assert!(blind.sentence.contains("at the emulator were 0.0010 ms"), "{}", blind.sentence);
    assert_eq!(Evidence::default().trust().level, TrustLevel::NotTrusted);
    let rows = [row(Operation::Read, Some((0, 1_010)), (5, 1_000, 1_001), (5, 1_000))];
    let evidence = stamps(&rows).evidence(DEADLINE_LIMIT, Some(Duration::from_ms(1)));
    assert_eq!((evidence.host_error_ms, evidence.reply_error_ms), (Some(0.015), Some(0.001)));
    assert_eq!((evidence.below_floor, evidence.unmatched), (Some(1), Some(0)));
    // What cannot be emulated is not also late.
    let late = [rows[0], row(Operation::Flush, Some((2_000, 2_050)), (2_005, 2_000, 2_030), (2_005, 2_005))];
    let share = |floor| stamps(&late).evidence(DEADLINE_LIMIT, floor).beyond_limit_pct;
    assert_eq!(share(None), Some(50.0));
    assert_eq!(share(Some(Duration::from_us(50))), Some(0.0));
    let immediate = Evidence { model_mean_ms: 0.0, ..good() }.trust();
    assert_eq!(immediate.level, TrustLevel::NotTrusted);
    assert!(
        immediate.sentence.contains("takes no time") && immediate.sentence.contains("0.0200 ms"),
        "{}",
        immediate.sentence
    );
}
