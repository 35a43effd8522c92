//! `seeklab trace remap` moves exactly the pieces that were named.

use std::path::Path;
use std::process::{Command, Output};

fn seeklab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_seeklab")).args(arguments).output().unwrap()
}

fn document(arguments: &[&str]) -> serde_json::Value {
    let output = seeklab(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Addresses of a trace.
fn addresses(path: &Path) -> Vec<(u64, u64)> {
    let answer = document(&["trace", "head", path.to_str().unwrap(), "--json", "-n", "1000"]);
    let requests = answer["traces"][0]["requests"].as_array().unwrap().clone();
    requests.iter().map(|one| (one["lbn"].as_u64().unwrap(), one["blocks"].as_u64().unwrap())).collect()
}

const TRACE: &str = "\
# block_size: 512B
arrival_ns,op,lbn,blocks,completion_ns
0,read,80,8,1000
10,read,80,8,1000
20,read,40,16,1000
30,write,84,4,1000
40,flush,0,0,1000
50,read,0,8,1000
";

#[test]
fn hottest_pieces_move_to_the_edge_and_requests_split_between_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("in.csv"), TRACE).unwrap();
    let (input, output) = (at("in.csv"), at("out.csv"));
    let (input, target) = (input.to_str().unwrap(), output.to_str().unwrap());
    // Piece 10 is hottest, then 0, 5 and 6 alike: 10 to 0, 0 to 1, 5 to 2; what lay at 1 and 2 makes place.
    let answer = document(&[
        "trace",
        "remap",
        input,
        "-o",
        target,
        "--hottest",
        "3",
        "--block-size",
        "4KiB",
        "--json",
    ]);
    assert_eq!(addresses(&output), [(0, 8), (0, 8), (16, 8), (48, 8), (4, 4), (0, 0), (8, 8)]);
    let device = &answer["devices"][0];
    assert_eq!(
        (&device["requests"], &device["rows"], &device["requests_crossing"]),
        (&6.into(), &7.into(), &1.into())
    );
    let text = std::fs::read_to_string(&output).unwrap();
    assert!(!text.contains(",1000"), "measured times are left out: {text}");
    // Back again by the mapping turned round.
    let pairs = [(0, 10), (1, 0), (2, 5), (10, 1), (5, 2)].map(|(from, to)| format!("{from},{to}"));
    std::fs::write(at("back.csv"), pairs.join("\n")).unwrap();
    let (map, back) = (at("back.csv"), at("again.csv"));
    let arguments =
        ["--mapping", map.to_str().unwrap(), "--block-size", "4KiB", "--capacity", "45056B", "--json"];
    document(&[&["trace", "remap", target, "-o", back.to_str().unwrap()], &arguments[..]].concat());
    assert_eq!(addresses(&back), [(80, 8), (80, 8), (40, 8), (48, 8), (84, 4), (0, 0), (0, 8)]);
}

#[test]
fn mapping_that_is_no_bijection_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("in.csv"), TRACE).unwrap();
    let refused = |mapping: &str| {
        std::fs::write(at("map"), mapping).unwrap();
        let output = seeklab(&[
            "trace",
            "remap",
            &at("in.csv"),
            "-o",
            &at("out.csv"),
            "--block-size",
            "4KiB",
            "--mapping",
            &at("map"),
        ]);
        assert_eq!(output.status.code(), Some(2), "{mapping}");
        assert!(!Path::new(&at("out.csv")).exists());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused("1,2\n").contains("the piece that lies there is not moved away"));
    assert!(refused("1,2\n2,1\n1,3\n3,1").contains("piece 1 is moved twice"));
    assert!(refused("1,2\n3,2\n").contains("two pieces are moved to place 2"));
    assert!(refused("1,99\n99,1\n").contains("99 is beyond the end: there are 11 whole pieces"));
    assert!(refused("1;2\n").contains("line 1: `1;2` is not `FROM,TO`"));
}

#[test]
fn remap_requires_exactly_one_kind_of_relocation() {
    for arguments in [
        &["trace", "remap", "a", "-o", "b"][..],
        &["trace", "remap", "a", "-o", "b", "--shuffle", "--organ-pipe"],
    ] {
        assert_eq!(seeklab(arguments).status.code(), Some(2));
    }
}

#[test]
fn slice_has_the_arrivals_in_its_window_with_times_from_its_start() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("in.csv"), TRACE).unwrap();
    let (input, output) = (at("in.csv"), at("out.csv"));
    let window = ["--start", "10ns", "--length", "30ns", "--op", "read", "--json"];
    let arguments = ["trace", "slice", input.to_str().unwrap(), "-o", output.to_str().unwrap()];
    let answer = document(&[&arguments[..], &window[..]].concat());
    assert_eq!((&answer["requests"], &answer["rows"]), (&6.into(), &2.into()));
    let answer = document(&["trace", "head", output.to_str().unwrap(), "--json"]);
    let requests = answer["traces"][0]["requests"].as_array().unwrap();
    let arrivals: Vec<u64> = requests.iter().map(|one| one["arrival_ns"].as_u64().unwrap()).collect();
    assert_eq!(arrivals, [0, 10]);
    assert_eq!(requests[0]["response_ns"].as_u64(), Some(990), "times move together");
}
