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
    let within = |text: &str| text.replace("[[operations]]", "[[device.operations]]");
    let limit = |burst: u32| {
        format!(
            "kind = \"limit\"\n[[requests]]\nrate = \"300/s\"\nburst = {burst}\n[[requests]]\nrate = \"100/s\"\n\
             burst = 20\nused = 5\n[[bytes]]\nrate = \"4MB/s\"\nburst = \"50kB\"\n[device]\n"
        )
    };
    let queue = "kind = \"queue\"\nscheduler = \"vscan(0.2)\"\n[device]\n";
    [
        ("station", STATION.to_owned()),
        ("servers", SERVERS.to_owned()),
        ("table", TABLE.to_owned()),
        ("limited station", limit(3) + &within(STATION)),
        ("limited table", limit(1) + TABLE),
        ("queued station", queue.to_owned() + &within(STATION)),
        (
            "limited queue",
            limit(3) + "kind = \"queue\"\nscheduler = \"sptf\"\n[device.device]\nbase = \"hp-c2247a\"\n",
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
