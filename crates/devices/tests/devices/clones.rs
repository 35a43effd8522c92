//! Saved clones, as `seeklab fit` writes them, shortened.

use seeklab_devices::{Description, Kind, catalog, registry};

/// One server at a time, which takes the nearest in line or the last.
const STATION: &str = r#"
kind = "station"
title = "clone of a disk"
capacity_blocks = 200000
block_size = "512B"
rotational = true
servers = 1
order = "nearest"
band_blocks = 1024
picks = ["2: 0*60 1*40", "4: 0*50 1*20 -1*30", "16: 0*40 2*10 -1*20"]
tree = ["op < write", ". length < 16 blocks", ". . = 1010 20*7 30*3", ". . = 1090 10*5 40", ". = 1130 25*3 25*2"]
[[operations]]
op = "read"
requests = 4021
typical = "900us"
blocks_min = 1
blocks_max = 256
queue_max = 31
[[operations]]
op = "write"
requests = 2100
typical = "2ms"
blocks_min = 1
blocks_max = 256
queue_max = 31
"#;

/// A server for each request.
const SERVERS: &str = r#"
kind = "station"
title = "clone of a volume"
capacity_blocks = 200000
block_size = "4KiB"
servers = 4
tree = ["op < write", ". = 1010 20*7 30*3", ". = 1130 25*3 25*2"]
[[operations]]
op = "read"
requests = 4021
typical = "900us"
blocks_min = 1
blocks_max = 256
queue_max = 31
"#;

const TABLE: &str = r#"
kind = "table"
title = "clone by tables"
capacity_blocks = 200000
block_size = "512B"
cells = [
    "read 8 0 seq: 700 20*7 30*3",
    "read 8 0 +1024: 1010 20*7 30*3",
    "read 8 0 -1024: 1050 20*7",
    "read 64 4 +16: 1090 10*5 40",
    "write 8 0 any: 1130 25*3 25*2",
    "flush 1 0 any: 1200 1*2",
]
"#;

/// Descriptions of every kind that the catalog has no device of, and of stacks of layers, by name.
pub(crate) fn clones() -> Vec<Description> {
    let ranks = STATION.lines().find(|line| line.starts_with("picks")).expect("it has picks");
    let by_time =
        STATION.replace(ranks, "first = \"reads\"\npicks = [\"first: 9*1\"]").replace("nearest", "sptf");
    let within = |text: &str| text.replace("[[operations]]", "[[device.operations]]");
    let limit = |burst: u32| {
        format!(
            "kind = \"limit\"\n[[requests]]\nrate = \"300/s\"\nburst = {burst}\n[[requests]]\nrate = \"100/s\"\n\
             burst = 20\nused = 5\n[[bytes]]\nrate = \"4MB/s\"\nburst = \"50kB\"\n[device]\n"
        )
    };
    let faults = |lines: &[&str], device: &str| {
        let table = |line: &&str| {
            let mut keys = line.split(", ");
            let kind = keys.next().expect("a line has a kind");
            let keys = keys.map(|key| key.replace('=', " = ")).collect::<Vec<_>>().join("\n");
            format!("[[fault]]\nkind = \"{kind}\"\n{keys}\n")
        };
        format!("kind = \"fault\"\n{}[device]\n{device}", lines.iter().map(table).collect::<String>())
    };
    // One of every kind, often enough for random loads of some tens of requests.
    let all_faults = [
        r#"delay, add="exponential 3ms", probability="20%""#,
        r#"delay, add="0ns..8ms", holds="device", probability="20%", ramp="100ms""#,
        r#"stall, at="20ms", for="5ms", repeat="about 30ms""#,
        r#"slow, factor=2.7, at="10ms", for="30ms", repeat="70ms""#,
        r#"slow, factor=1.5, at="30ms", for="20ms", repeat="70ms""#,
        r#"recovered, op="read", add="11ms", every=5"#,
        r#"medium_error, blocks="0B..2KiB", probability="40%", add="7ms", lasting="sticky""#,
        r#"medium_error, name="rewritten", blocks="2KiB..+2KiB", lasting="until_rewritten""#,
        r#"aborted, probability="3%", queue_length="..3""#,
        r#"timeout, timeout="9ms", probability="10%", at="1ms", for="15ms", repeat="16ms""#,
        r#"write_protected, at="150ms", for="5ms""#,
        r#"no_space, after=30, probability="30%""#,
        r#"gone, at="60ms", for="4ms", repeat="50ms""#,
    ];
    let queue = "kind = \"queue\"\nscheduler = \"vscan(0.2)\"\n[device]\n";
    [
        ("station", STATION.to_owned()),
        ("station by time", by_time),
        ("servers", SERVERS.to_owned()),
        ("table", TABLE.to_owned()),
        ("limited station", limit(3) + &within(STATION)),
        ("limited table", limit(1) + TABLE),
        ("queued station", queue.to_owned() + &within(STATION)),
        (
            "limited queue",
            limit(3) + "kind = \"queue\"\nscheduler = \"sptf\"\n[device.device]\nbase = \"hp-c2247a\"\n",
        ),
        ("faulty drive", faults(&all_faults, "base = \"cheetah-36es\"\n")),
        ("faulty server", faults(&all_faults, "base = \"immediate\"\n")),
        (
            "bank",
            "kind = \"bank\"\n[[devices]]\nbase = \"hp-c2247a\"\n[[devices]]\nbase = \"immediate\"\n"
                .to_owned(),
        ),
        (
            "queued faulty drive",
            queue.to_owned()
                + &faults(&all_faults, "base = \"hp-c2247a\"\n")
                    .replace("[[fault]]", "[[device.fault]]")
                    .replace("[device]", "[device.device]"),
        ),
        (
            "drive whose faults do not strike",
            faults(&[r#"gone, at="100h""#, r#"aborted, after=1000000"#], "base = \"atlas10k\"\n"),
        ),
    ]
    .into_iter()
    .map(|(name, text)| Description::parse(name, name, &text).unwrap_or_else(|error| panic!("{error}")))
    .collect()
}

/// Descriptions of the catalog and clones, at least one of every registered kind.
pub(crate) fn of_every_kind() -> Vec<Description> {
    let of_catalog =
        catalog::names().map(|name| catalog::find(name).unwrap_or_else(|error| panic!("{error}")));
    let all: Vec<Description> = of_catalog.chain(clones()).collect();
    for Kind { name, .. } in registry::KINDS {
        assert!(
            all.iter().any(|description| description.kind().name == *name),
            "no description of kind {name}"
        );
    }
    all
}
