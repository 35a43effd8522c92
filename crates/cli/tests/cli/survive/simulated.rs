//! A simulation of the recorded requests completes at the same nanoseconds as the emulation.

use crate::survive::client::{READ, Request, WRITE};
use crate::survive::harness::{Draw, SEEKLAB, Served, succeed};

#[test]
fn replay_completes_at_the_same_nanoseconds() {
    let devices: [&[&str]; 3] = [
        &["atlas10k"],
        &["exponential", "--set", "service_time=200us"],
        &["hp-c2247a", "--scheduler", "sptf", "--depth", "1"],
    ];
    std::thread::scope(|scope| {
        for device in devices {
            for mode in ["rollback", "synchronous"] {
                scope.spawn(move || agrees(device, mode));
            }
        }
    });
}

fn agrees(device: &[&str], mode: &str) {
    const DEPTH: u64 = 8;
    const REQUESTS: u64 = 240;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (seen, again) = (path("t.parquet"), path("again.parquet"));
    let rest = ["--mode", mode, "--seed", "7", "--size", "64MiB", "--record", &seen];
    let served = Served::nbd(folder.path(), &[device, &rest].concat());
    let mut client = served.connect();
    let mut draw = Draw(11);
    for cookie in 0..REQUESTS {
        if cookie >= DEPTH {
            assert_eq!(client.reply().unwrap().error, 0);
        }
        let op = if draw.below(3) == 0 { WRITE } else { READ };
        let blocks = 1 + draw.below(16);
        let offset = draw.below((64 << 20) / 512 - blocks) * 512;
        client.send(&Request::new(op, cookie, offset, blocks as u32 * 512)).unwrap();
    }
    for _ in 0..DEPTH {
        assert_eq!(client.reply().unwrap().error, 0);
    }
    let document = served.interrupt();
    assert_eq!(document["requests"].as_u64(), Some(REQUESTS), "{document}");
    assert_eq!(document["unrecorded_requests"].as_u64(), Some(0), "{document}");
    // What is prepared ahead of its due leaves at its due.
    let exact = succeed(SEEKLAB, &["compare", &seen, "--between", "mp2,due", "--json"]);
    let exact: serde_json::Value = serde_json::from_str(&exact).unwrap();
    assert_eq!(exact["early"].as_u64(), Some(0), "{exact}");
    let replay = ["--seed", "7", "--workload", &seen, "--open", "--out", &again];
    succeed(SEEKLAB, &[&["simulate"], device, &replay].concat());
    let compared = succeed(SEEKLAB, &["compare", &seen, &again, "--json"]);
    let compared: serde_json::Value = serde_json::from_str(&compared).unwrap();
    let zero = ["ei_avg_ms", "ei_rms_ms", "ea_rms_ms"].map(|key| compared[key].as_f64());
    assert_eq!(zero, [Some(0.0); 3], "{device:?} {mode}: {compared}");
    assert_eq!(compared["requests"].as_u64(), Some(REQUESTS), "{compared}");
}
