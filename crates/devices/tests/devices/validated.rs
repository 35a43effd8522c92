//! The segmented controller with the constants of the parameter files, against DiskSim's validated configuration.

use crate::drives::{device, mean, with_electronics};
use crate::shared::{ns, reference, request, rows, serve};
use seeklab_core::{Instant, Request, Seed};
use seeklab_devices::Description;
use seeklab_devices::layer::queue_before;

/// Constants of `reference/disks/barracuda.json`.
const BARRACUDA: &str = r#"
controller = "segmented"
[overheads]
read_hit_after_read = "0.082ms"
read_hit_after_write = "0.596ms"
read_miss_after_read = "0.61307ms"
read_miss_after_write = "0.56813ms"
write_hit_after_read = "1.01ms"
write_hit_after_write = "0.9291ms"
write_miss_after_read = "1.05363ms"
write_miss_after_write = "0.8156ms"
[bus]
read_block = "0.134ms"
write_block = "0.134ms"
[buffer]
segments = 3
segment_blocks = 281
write_segments = 1
read_ahead = "fill_segment"
read_ahead_blocks = 281
read_ahead_beyond_request = true
write_back = "sequential"
"#;

/// Constants of `reference/disks/atlas10k.json`.
const ATLAS10K: &str = r#"
controller = "segmented"
[overheads]
read_hit_after_read = "0.184ms"
read_hit_after_write = "0.184ms"
write_hit_after_read = "0.186ms"
write_hit_after_write = "0.189ms"
write_miss_after_read = "0.34492ms"
write_miss_after_write = "0.49673ms"
[bus]
read_block = "0.099ms"
write_block = "0.099ms"
[buffer]
segments = 10
segment_blocks = 374
write_segments = 1
read_ahead = "next_track_if_sequential"
read_ahead_blocks = 354
write_back = "all"
"#;

/// Sets of requests in `reference/disksim`.
const SETS: [&str; 5] =
    ["rand8k_read_low", "rand8k_write_low", "mixed8k_open_70", "seq64k_read_backlog", "seq64k_read_paced"];

/// Deviation of the mean response time from DiskSim's to the same requests, in percent.
fn error_pct(disk: &str, set: &str, description: &Description) -> f64 {
    let trace = reference(&format!("disksim/{disk}/traces/{set}.csv.gz"));
    let requests: Vec<(Instant, Request)> =
        rows(&trace).iter().enumerate().map(|(id, row)| request(id, row)).collect();
    let drive = description.build(Seed(1), "disk0").unwrap();
    let mut queue = queue_before(drive, &"fcfs".parse().unwrap(), 1).unwrap();
    let response = mean(&serve(&mut queue, &requests), |completion| completion.response_time().as_ms());
    let results = rows(&reference(&format!("disksim/{disk}/results/{set}__validated.csv.gz")));
    let expected = results.iter().map(|row| {
        let number: usize = row[0].parse().unwrap();
        (ns(&row[2]) - requests[number].0.as_ns()) as f64 / 1e6
    });
    let expected = expected.sum::<f64>() / results.len() as f64;
    let error_pct = 100.0 * (response / expected - 1.0);
    println!("{disk} {set}: {response:.4} ms, DiskSim {expected:.4} ms, {error_pct:+.3} %");
    error_pct
}

#[test]
#[cfg_attr(not(shared_reference), ignore = "needs ../shared/reference")]
fn means_of_the_catalogs_c2247a_are_disksims() {
    for set in SETS {
        let error_pct = error_pct("hp_c2247a", set, &device("hp-c2247a", &[]));
        assert!(error_pct.abs() <= 1.0, "{set}: {error_pct:+.3} %");
    }
}

#[test]
#[cfg_attr(not(shared_reference), ignore = "needs ../shared/reference")]
fn means_with_the_parameter_files_constants_are_disksims() {
    for (disk, electronics) in [("barracuda", BARRACUDA), ("atlas10k", ATLAS10K)] {
        // DiskSim's zero-latency access is dead code.
        let plain = [("zero_latency_read", "false"), ("zero_latency_write", "false")];
        let description = with_electronics(&device(disk, &plain), electronics);
        for set in SETS {
            let error_pct = error_pct(disk, set, &description);
            // DiskSim's read-ahead for the Atlas stops at the end of a track more often.
            let off_max_pct = if (disk, set) == ("atlas10k", "seq64k_read_paced") { 3.5 } else { 2.0 };
            assert!(error_pct.abs() <= off_max_pct, "{disk} {set}: {error_pct:+.2} %");
        }
    }
}
