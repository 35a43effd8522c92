//! Tests of layouts: angles as sums of steps, and orders of tracks.

use crate::drives::{bare, closed, device, disks};
use seeklab_core::{Completion, Operation, Request, Seed};
use seeklab_devices::Description;
use toml::{Table, Value};

// ---- One drive, described in two ways.

/// The same disk with its skews written as steps of the angle.
fn skews_as_steps(description: &Description, text: impl Fn(i64, i64) -> String) -> Description {
    let mut table: Table = description.to_toml().parse().unwrap();
    let geometry = table["geometry"].as_table_mut().unwrap();
    let surfaces = geometry["surfaces"].as_integer().unwrap();
    for zone in geometry["zones"].as_array_mut().unwrap() {
        let zone = zone.as_table_mut().unwrap();
        let sectors = zone["sectors_per_track"].as_integer().unwrap();
        let mut take = |key: &str| zone.remove(key).and_then(|value| value.as_integer()).unwrap_or(0);
        let (offset, track_skew, cylinder_skew) =
            (take("first_block_offset"), take("track_skew"), take("cylinder_skew"));
        let mut angles = Table::new();
        let step = |skew: i64| Value::String(text(skew, sectors));
        angles.insert("origin".into(), step(offset));
        angles.insert("cylinder_step".into(), step((surfaces - 1) * track_skew + cylinder_skew));
        if surfaces > 1 {
            angles.insert("head_steps".into(), Value::Array(vec![step(track_skew)]));
        }
        zone.insert("angles".into(), Value::Table(angles));
    }
    Description::parse(&description.name, "test", &table.to_string())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Completions of random and of sequential requests, reads and writes, one and two tracks long at most.
fn completions(description: &Description) -> Vec<Completion> {
    let mut device = description.build(Seed(1), "disk0").unwrap();
    let capacity_blocks = device.capabilities().capacity_blocks;
    let mut stream = Seed(7).stream("layouts.requests");
    let mut end = 0;
    let requests: Vec<Request> = (0..1_500)
        .map(|id| {
            let blocks = 1 + stream.below(if id % 10 == 0 { 700 } else { 16 }) as u32;
            let lbn = if id % 3 == 0 { end } else { stream.below(capacity_blocks) };
            let lbn = lbn.min(capacity_blocks - u64::from(blocks));
            end = lbn + u64::from(blocks);
            let op = if stream.chance(0.7) { Operation::Read } else { Operation::Write };
            Request::new(id, op, lbn, blocks)
        })
        .collect();
    closed(&mut *device, 1, requests)
}

#[test]
fn skews_and_equal_fractions_give_the_same_completions() {
    for name in disks() {
        for description in [device(name, &[]), bare(name, &[])] {
            let as_fractions = skews_as_steps(&description, |skew, sectors| {
                let common = greatest_common_divisor(skew, sectors);
                format!("{}/{}turn", skew / common, sectors / common)
            });
            let as_sectors = skews_as_steps(&description, |skew, _| format!("{skew}sectors"));
            let expected = completions(&description);
            assert_eq!(completions(&as_fractions), expected, "{name}");
            assert_eq!(completions(&as_sectors), expected, "{name}");
        }
    }
}
